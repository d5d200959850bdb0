"""A paper's printed tables beside a run's numbers: what a study needs to say which number a printed cell is."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from math import isfinite, nan
from typing import Any, TypeAlias

import pandas as pd

from clinometer.published import Published
from clinometer.report import wording
from clinometer.stats.clusters import contrast
from clinometer.stats.proportion import Estimate
from clinometer.suites import Suite


@dataclass(frozen=True)
class PrintedCell:
    """One printed number beside the run's.

    Attributes
    ----------
    table : the paper's name of the table.
    model : the paper's model that the number is of, by its key.
    column : the printed column.
    concept, category, group, setting : the printed row, by the suite's names; empty where they do not apply.
    printed : the cell as it is printed.
    paper : its number; NaN where it is not a number, such as "<0.001".
    encoder : the encoder that the run's number rests on, or "mean".
    run, low, high : the run's estimate and its 95 % interval.
    difference : run − paper.
    paper_inside : whether the paper's number lies in the run's interval; None where there is none.
    same_model : whether the run's model is the paper's, as far as names tell.
    note : why a number is missing, and what is known of the printed one.
    """

    table: str
    model: str
    column: str
    concept: str = ""
    category: str = ""
    group: str = ""
    setting: str = ""
    printed: str = ""
    paper: float = nan
    encoder: str = ""
    run: float = nan
    low: float = nan
    high: float = nan
    difference: float = nan
    paper_inside: bool | None = None
    same_model: bool = False
    note: str = ""


@dataclass(frozen=True)
class RunNumber:
    """The run's number for a cell, with its 95 % interval, the encoder it rests on, and what is to be noted of it."""

    value: float = nan
    low: float = nan
    high: float = nan
    encoder: str = ""
    notes: tuple[str, ...] = ()
    p: float = nan


@dataclass(frozen=True)
class PrintedTable:
    """A printed table, and the run whose numbers stand beside it.

    Attributes
    ----------
    name : of its file.
    publication : the paper that prints it.
    answered : the paper's suites all of whose questions the run's suite asks.
    suite, scores : of the run.
    renamed : of a run that rehearses the paper in other words, its own name for each name of the paper's suite.
    """

    name: str
    publication: Published
    answered: Sequence[str]
    suite: Suite
    scores: pd.DataFrame
    renamed: Mapping[str, str] = field(default_factory=dict)

    @cached_property
    def rows(self) -> list[dict[str, str]]:
        """The rows as printed."""
        return self.publication.rows(self.name)

    @cached_property
    def _numbers(self) -> dict[tuple[str, str], list[dict[Any, Any]]]:
        """The run's rows of each metric's components."""
        rows = defaultdict[tuple[str, str], list[dict[Any, Any]]](list)
        for row in self.scores.to_dict("records"):
            rows[row["metric"], row["component"]].append(row)
        return rows

    def own_name(self, name: str) -> str:
        """Return the run's name for a name of the paper's suite."""
        return self.renamed.get(name, name)

    def find(self, metric: str, component: str, *, encoder: str = "mean", **equal: str) -> RunNumber:
        """Return the one number of the run that has these names and no others."""
        asked = {name: self.own_name(value) for name, value in equal.items()}
        names = {"concept": "", "group": "", "setting": "", **asked, "encoder": encoder}
        rows = self._numbers.get((metric, component), [])
        row = next((row for row in rows if all(row[name] == value for name, value in names.items())), None)
        if row is None:
            return RunNumber(encoder=encoder, notes=("the run has no such number",))
        notes = [str(row["reason"])] if not isfinite(row["value"]) or not isfinite(row["low"]) else []
        notes += ["unstable: TT may be 0"] if row["flag"] == "unstable" else []
        return RunNumber(row["value"], row["low"], row["high"], encoder, tuple(filter(None, notes)), row["p"])

    def cell(
        self, row: Mapping[str, str], printed_column: str, column: str, number: RunNumber, **names: Any
    ) -> PrintedCell:
        """Return a printed cell beside a number of the run.

        ``row``, ``printed_column`` : where the cell stands in the file; empty where nothing is printed. ``column`` :
        what it is called.
        """
        printed, paper = row[printed_column] if printed_column else "", nan
        with suppress(ValueError):
            paper = float(printed)
        notes = [*number.notes] + ([] if isfinite(paper) or not printed else [f"the paper prints {printed}"])
        return PrintedCell(
            table=self.publication.tables[self.name],
            model=row.get("model") or row.get("dataset") or next(iter(self.publication.models)),
            column=column, printed=printed, paper=paper, encoder=number.encoder, run=float(number.value),
            low=float(number.low), high=float(number.high), note="; ".join(notes), **names,
        )  # fmt: skip


def mean_number(found: Sequence[RunNumber], names: Sequence[str]) -> RunNumber:
    """Average groups that weigh alike and share no portrait; the interval follows from theirs (Zou and Donner 2008)."""
    parts = [Estimate(each.value, each.low, each.high, 0) for each in found]
    mean = contrast(parts, [1 / len(parts)] * len(parts))
    notes = dict.fromkeys(note for each in found for note in each.notes)
    return RunNumber(mean.value, mean.low, mean.high, found[0].encoder, (*notes, f"mean of {wording.listed(names)}"))


PrintedCells: TypeAlias = Callable[[PrintedTable], Iterator[PrintedCell]]
"""Yields the cells of a printed table, in order of columns."""
