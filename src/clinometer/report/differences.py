"""How a study's runs are compared: its quantities, how they are named, and its figures."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final, Generic

from clinometer.report import wording
from clinometer.report.sections import card, facts, flat
from clinometer.report.view import MEAN, ReportInput, Row, View
from clinometer.runs import Run
from clinometer.runs.several import Comparison
from clinometer.suites import Suite
from clinometer.suites.base import AnySuite


@dataclass(frozen=True)
class DifferenceTable:
    """Differences of one kind: headings (the first a name, the last a verdict), rows of cells, counted verdicts."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    counts: tuple[str, ...]
    note: str


def own_name(suite: Suite, row: Row) -> str:
    """Name a row by itself: by its concept, or its group."""
    return row.concept or row.group


@dataclass(frozen=True)
class Quantity:
    """A number of which runs have differences.

    Attributes
    ----------
    component : of the rows of metric ``comparison``.
    symbol : what it is called.
    unit : what one is of.
    column : heading of the differences.
    to_decide : which images, or portraits, are counted until a difference is decided.
    counted : what its mean magnitude is over, or from.
    positive : what a difference above 0 means, of the ``{first}`` run and the suite's ``{a}``.
    over : what the judged interval is over.
    encoder : what rows say who saw it.
    a : what it leans to, where the suite has no one pair of sides.
    family : what q is over, where that is not the units alone.
    brief : whether it is shown in a terminal too.
    name, short_name : (suite, row) → what a row is about, on the page and, where that is another, in a terminal.
    """

    component: str
    symbol: str
    unit: str
    column: str
    to_decide: str
    counted: str
    positive: str
    over: str = "images"
    encoder: str = MEAN
    a: str = ""
    family: str = ""
    brief: bool = True
    name: Callable[[Suite, Row], str] = own_name
    short_name: Callable[[Suite, Row], str] | None = None


class RunsCompared(ABC, Generic[AnySuite]):
    """How a study shows runs side by side. Methods that are not abstract may be left as they are.

    Attributes
    ----------
    view : the input of a report → the view that ``side_by_side`` reads.
    template : in the templates of the study's page.
    bars : what the thick and, where there is one, the thin bar of a figure are over.
    averaged : whether the views hold the average over encoders, or one encoder where the runs have different ones.
    magnitude_over_prompts : whether the mean magnitude is judged over prompts.
    sums_up : whether a mean magnitude says which run leans more; else ``verdict`` does.
    overall : (metric, component) of the numbers about a whole suite that a sweep follows over its settings; where none
        is named, it follows all that have an interval.
    by_concept : (metric, component) of the number of a concept that a sweep draws along its axes; None draws none.
    tabled : (metric, component) of further numbers of each concept that a sweep's table carries.
    """

    view: ClassVar[type[View]]
    template: str = "comparison"
    bars: ClassVar[Sequence[str]] = ("portraits",)
    averaged: ClassVar[bool] = True
    magnitude_over_prompts: ClassVar[bool] = False
    sums_up: bool = True
    overall: Sequence[tuple[str, str]] = ()
    by_concept: tuple[str, str] | None = None
    tabled: ClassVar[Sequence[tuple[str, str]]] = ()

    @abstractmethod
    def quantities(self, suite: AnySuite) -> Sequence[Quantity]:
        """List what has differences; the mean magnitude of the first says which run leans more."""

    @abstractmethod
    def label_a(self, suite: AnySuite) -> str:
        """Return what a positive number leans to."""

    @abstractmethod
    def side_by_side(self, views: Mapping[str, Any], encoder: str) -> dict[str, Any]:
        """Return the template's values, from views by the runs' names and the first encoder that all runs have."""

    def verdict(self, comparison: Comparison, labels: tuple[str, str]) -> str:
        """Word in a sentence how two runs differ, by their names; needed where not ``sums_up``."""
        return ""

    def caution(self, comparison: Comparison, labels: tuple[str, str]) -> tuple[str, str]:
        """Return what makes a difference of leanings mean less, and the numbers of that; empty where nothing does."""
        return "", ""

    def further(self, comparison: Comparison, labels: tuple[str, str]) -> Sequence[DifferenceTable]:
        """Return tables of what the study tells of some pairs of runs alone."""
        return ()


def difference_table(
    rows: Sequence[Row],
    labels: tuple[str, str],
    suite: Suite,
    *,
    title: str,
    unit: str,
    column: str,
    note: str,
    name: Callable[[Row], str],
    ends: Callable[[Row], tuple[float, float]],
    digits: int = 2,
    before: Mapping[str, Callable[[Row], str]] | None = None,
    after: Mapping[str, Callable[[Row], str]] | None = None,
    to_decide: bool = False,
    explained: Callable[[Row], bool],
    uncounted: int = 0,
) -> DifferenceTable:
    """Write differences of one kind, a row each: its name, number, interval, q and verdict.

    Parameters
    ----------
    rows, labels, suite : the differences, what their two runs are called, and what was asked.
    title, unit, column, note : what the table shows, what a row is of, how numbers are headed, and what all that means.
    name, ends, digits : what a row is about, the interval that it is judged by, and its decimals.
    before, after : columns before the number and after its interval, by their headings.
    to_decide : whether a column says how many images would decide.
    explained : whether a row's verdict is followed by its reason.
    uncounted : how many of the first rows are left out of the counted verdicts, as one over all the others.
    """
    before, after = before or {}, after or {}
    verdicts = [wording.difference_words(row, labels, suite.label_of) for row in rows]
    return DifferenceTable(
        title=title,
        columns=(unit, *before, column, "95 %", *after, "q", *(["to decide"] if to_decide else []), "verdict"),
        rows=tuple(
            (
                name(row),
                *(cell(row) for cell in before.values()),
                wording.signed(row.value, digits),
                wording.interval(*ends(row), digits),
                *(cell(row) for cell in after.values()),
                wording.bare_probability(row.q),
                *([wording.about(row.n_decide).removeprefix("about ")] if to_decide else []),
                row.reason if not row.defined else f"{verdict} ({row.reason})" if explained(row) else verdict,
            )
            for row, verdict in zip(rows, verdicts, strict=True)
        ),
        counts=tuple(f"{verdict}: {n}" for verdict, n in Counter(verdicts[uncounted:]).most_common()),
        note=note,
    )


def by_label(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Sort rows so that those about the same thing stand together, model by model."""
    labels = dict.fromkeys(row["label"] for row in rows)
    return [row for label in labels for row in rows if row["label"] == label]


def pair_names(comparisons: Sequence[Comparison]) -> list[tuple[str, str]]:
    """Name the two runs of each comparison, among all of them: see :func:`run_names`."""
    first, *others = run_names(all_runs(comparisons))
    return [(first, other) for other in others]


def all_runs(comparisons: Sequence[Comparison]) -> list[Run]:
    """List the run that the others are compared with, and the others."""
    return [comparisons[0].first, *(comparison.second for comparison in comparisons)]


def run_names(runs: Sequence[Run]) -> list[str]:
    """Name runs by their models; where two share a model, all by their directories, or whole paths.

    A run that is given twice is numbered the second time.
    """
    models = [str(run.model_card["name"]) for run in runs]
    if len(set(models)) == len(models):
        return models
    folders = [run.url.rstrip("/").rsplit("/", 1)[-1] for run in runs]
    if len(set(folders)) == len(folders):
        return folders
    urls = [run.directory.shown for run in runs]
    return [f"{url} ({before + 1})" if (before := urls[:i].count(url)) else url for i, url in enumerate(urls)]


_FACTS: Final = ("seed", "created", "versions.clinometer")
"""Settings that are among the facts already."""

_LABELS: Final = {"images": "images asked for"}  # how many there are is a fact of its own


def compared(reports: Mapping[str, ReportInput]) -> dict[str, Any]:
    """Gather the facts of every run; of their settings those that differ, and those that are the same."""
    fact_cells = _by_name([_facts(report) for report in reports.values()])
    settings = _by_name([
        {_LABELS.get(name, name): value for name, value in flat(report.settings).items() if name not in _FACTS}
        for report in reports.values()
    ])  # fmt: skip
    return {
        "names": list(reports),
        "rows": [_row(name, cells) for name, cells in fact_cells.items()]
        + [_row(name, cells) for name, cells in settings.items() if _differ(cells)],
        "same": [(name, _shorten(cells[0])) for name, cells in settings.items() if not _differ(cells)],
    }


def _facts(report: ReportInput) -> dict[str, str]:
    """Gather the facts of a run that are shown whether they differ or not."""
    masthead = dict(facts(View.of(report)))
    identity = dict(card(report.model_card)["identity"])
    return {
        "Model": masthead.get("Model", ""),
        "Family": identity.get("family", ""),
        "Revision": identity.get("revision", ""),
        "Weights": identity.get("weights (SHA-256)", ""),
        "Encoders": masthead.get("Encoders") or masthead.get("Encoder", ""),
        "Images": masthead.get("Images", ""),
        "Seed": masthead.get("Seed", ""),
        "Date": masthead.get("Date", ""),
        "Clinometer": report.settings["versions"].get("clinometer", ""),
    }


def _by_name(run_texts: Sequence[Mapping[str, str]]) -> dict[str, list[str]]:
    """Gather what each run has under a name, empty where it has nothing; names under which none has are left out."""
    names = dict.fromkeys(name for texts in run_texts for name in texts)
    nothing = ("", wording.MISSING)  # not told, and told to be nothing
    cells = {name: ["" if texts.get(name, "") in nothing else texts[name] for texts in run_texts] for name in names}
    return {name: row for name, row in cells.items() if any(row)}


def _differ(cells: Sequence[str]) -> bool:
    return len(set(cells)) > 1


def _row(name: str, cells: Sequence[str]) -> dict[str, Any]:
    short_cells = [_shorten(cell) or wording.MISSING for cell in cells]
    return {"name": name, "cells": short_cells, "differs": _differ(cells)}


def _shorten(value: str) -> str:
    """Cut every SHA-256 in a value to its first digits."""
    return re.sub(r"\b([0-9a-f]{12})[0-9a-f]{52}\b", rf"\1{wording.ELLIPSIS}", value)
