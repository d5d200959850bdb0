"""A printed table next to what the runs measured, in the layout of the paper."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby, zip_longest
from math import isfinite
from operator import itemgetter
from string import ascii_lowercase
from typing import Any, Final

import pandas as pd

from clinometer.exports.latex import Column
from clinometer.papers.paper import ComponentTable, CountedTable, PrintedTable
from clinometer.report import wording
from clinometer.report.view import Row, Scores


@dataclass(frozen=True)
class Measured:
    """What one of our models says of a printed cell; ``inside`` whether the printed number lies in its interval."""

    model: str
    value: str
    interval: str
    difference: str
    inside: bool | None


@dataclass(frozen=True)
class Cell:
    """A printed cell: the number as it is printed, what was measured, and the letters of its notes."""

    printed: str
    measured: tuple[Measured, ...] = ()
    notes: str = ""


@dataclass(frozen=True)
class TableRow:
    """A row: its name, the name that a rehearsal has for it, and a cell a column."""

    name: str
    renamed: str
    cells: tuple[Cell, ...]


@dataclass(frozen=True)
class LaidTable:
    """A table as a page shows it.

    Attributes
    ----------
    columns : the names of a column, outer first.
    blocks : rows under a heading, which is empty where the table has none.
    notes : what is said of cells, by its letter.
    said : how many printed numbers lie inside our intervals, a sentence a model.
    cells : a row a printed cell and model of ours, for scripts.
    """

    part: PrintedTable | CountedTable
    columns: tuple[tuple[str, ...], ...]
    blocks: tuple[tuple[str, tuple[TableRow, ...]], ...]
    notes: tuple[tuple[str, str], ...]
    said: tuple[str, ...]
    cells: pd.DataFrame

    @property
    def heads(self) -> list[list[tuple[str, int]]]:
        """Each line of column names: a name, and over how many columns it stands."""
        groups = [groupby(self.columns, key=itemgetter(slice(depth + 1))) for depth in range(len(self.columns[0]))]
        return [[(names[-1], len(list(same))) for names, same in group] for group in groups]

    def for_latex(self) -> tuple[list[Column], list[str]]:
        """Return the table's columns as an article has them, print and measurement side by side, and its headings."""
        rows = [(block, row) for block, same in self.blocks for row in same]
        named = [f"{row.name} (here: {row.renamed})" if row.renamed else row.name for _, row in rows]
        columns = [Column((wording.capitalised(self.part.rows[-1]),), tuple(named))]
        for at, heads in enumerate(self.columns):
            cells, group = [row.cells[at] for _, row in rows], str(at)
            in_print = any(cell.printed for cell in cells)
            if in_print:
                columns.append(Column((*heads, "print"), tuple(cell.printed for cell in cells), group=group))
            by_model = list(zip_longest(*(cell.measured for cell in cells)))
            for measured in by_model:
                values = tuple(each.value if each else "" for each in measured)
                below = tuple(
                    " ".join(filter(None, (each.interval, cell.notes and f"({cell.notes})"))) if each else ""
                    for each, cell in zip(measured, cells, strict=True)
                )
                name = next((each.model for each in measured if each and each.model), "here")
                names = (*heads, name) if in_print or len(by_model) > 1 else heads
                columns.append(Column(names, values, below if any(below) else (), group))
        return columns, [block for block, _ in rows]


PROBABILITIES: Final = frozenset({"p", "q", "χ² p", "exact p"})
"""Columns of probabilities: one that rounds to 0 is written as below .001."""

Label = Callable[[str, str], str]
"""The words for a key's value: ``("category", "sport")`` → ``"Sports"``."""


def laid_out(
    part: PrintedTable | CountedTable, by_model: Mapping[str, pd.DataFrame], label: Label, renamed: Mapping[str, str]
) -> LaidTable | None:
    """Format a printed table; None where no run has any of its cells.

    Parameters
    ----------
    by_model : the cells of the table by our models, as :func:`~clinometer.papers.printed.paper_table` has them.
    renamed : of a rehearsal, its names for the paper's names.
    """
    frames = {model: frame for model, frame in by_model.items() if len(frame)}
    if not frames:
        return None
    cells = pd.concat([frame.assign(ours=model) for model, frame in frames.items()])
    digits = {
        str(column): max(2, *(len(text.partition(".")[2]) for text in rows.printed))
        for column, rows in cells.groupby("column")
    }
    notes = dict.fromkeys(note for text in cells.note for note in text.split("; ") if note)
    names = [*ascii_lowercase, *(f"{one}{two}" for one in ascii_lowercase for two in ascii_lowercase)]
    letters = dict(zip(notes, names, strict=False))  # a, b, …, z, aa, …
    by_place: dict[tuple[tuple[str, ...], tuple[str, ...]], list[Mapping[Any, Any]]] = {}
    for record in cells.to_dict("records"):
        row, column = (tuple(str(record[key]) for key in keys) for keys in (part.rows, part.columns))
        by_place.setdefault((row, column), []).append(record)
    rows, columns = (list(dict.fromkeys(place[at] for place in by_place)) for at in (0, 1))
    columns = _in_order(columns, list(part.labels))
    table = list[tuple[str, TableRow]]()
    for row in rows:
        *outer, name = map(label, part.rows, row)
        in_row = tuple(_cell(by_place.get((row, column), []), digits, letters, len(frames)) for column in columns)
        table.append((", ".join(outer), TableRow(name, renamed.get(row[-1], ""), in_row)))
    return LaidTable(
        part,
        tuple(tuple(" | ".join(map(label, part.columns, column)).split(" | ")) for column in columns),
        tuple((block, tuple(row for _, row in same)) for block, same in groupby(table, key=itemgetter(0))),
        tuple((letter, note) for note, letter in letters.items()),
        tuple(_said(model, frame, several=len(frames) > 1) for model, frame in frames.items()),
        cells.rename(columns={"ours": "our_model"}),
    )


def _in_order(columns: Sequence[tuple[str, ...]], named: Sequence[str]) -> list[tuple[str, ...]]:
    """Order columns as their heads nest, and within a head as the paper has them, where it is said."""
    levels = [list(dict.fromkeys((*named, *(names[level] for names in columns)))) for level in range(len(columns[0]))]
    return sorted(columns, key=lambda names: [each.index(name) for each, name in zip(levels, names, strict=True)])


def _cell(
    records: Sequence[Mapping[Any, Any]], digits: Mapping[str, int], letters: Mapping[str, str], models: int
) -> Cell:
    if not records:
        return Cell("")
    places = digits[records[0]["column"]]
    tested = records[0]["column"] in PROBABILITIES
    measured = tuple(
        Measured(
            record["ours"] if models > 1 else "",
            (wording.bare_probability(record["run"]) if tested else "") or wording.number(record["run"], places),
            wording.interval(record["low"], record["high"], places),
            wording.signed(record["difference"], places) if isfinite(record["difference"]) else "",
            record["paper_inside"],
        )
        for record in records
    )
    notes = dict.fromkeys(note for record in records for note in record["note"].split("; ") if note)
    printed = records[0]["printed"].replace("-", wording.MINUS)
    return Cell(printed, measured, ", ".join(letters[note] for note in notes if note in letters))


def _said(model: str, frame: pd.DataFrame, *, several: bool) -> str:
    """Count the printed numbers that lie in our intervals."""
    printed = frame[frame.printed != ""]
    inside = printed.paper_inside.dropna().astype(bool)
    rest = len(printed) - len(inside)
    whose = f"the intervals of {model}" if several else "our 95\N{NARROW NO-BREAK SPACE}% intervals"
    without = f"; {wording.count(rest, 'number has', 'numbers have')} no interval to compare with" if rest else ""
    return f"{inside.sum()} of {wording.count(len(inside), 'printed number')} lie in {whose}{without}."


def component_rows(part: ComponentTable, by_model: Mapping[str, Scores]) -> Iterator[tuple[Sequence[str], list[str]]]:
    """Yield a row a component: the paper's words, and of each of our models what was measured."""
    for component, words in part.components.items():
        yield words, [_range(scores.select(part.metric, component)) for scores in by_model.values()]


def _range(rows: Sequence[Row]) -> str:
    """Return the range of a component over the concepts."""
    values = [row.value for row in rows if row.concept and row.defined]
    if not values:
        return wording.MISSING
    digits = wording.digits_for(values)
    above = sum(value > 0 for value in values)
    ends = f"{wording.signed(min(values), digits)} to {wording.signed(max(values), digits)}"
    return f"{ends}; {above} of {wording.count(len(values), 'concept')} above 0"
