"""Tables of differences between runs, and their verdicts in the runs' own names."""

from __future__ import annotations

from dataclasses import dataclass

from clinometer.runs.comparison import Comparison


@dataclass(frozen=True)
class DifferenceTable:
    """Differences of one kind: headings (the first a name, the last a verdict), rows of cells, counted verdicts."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    counts: tuple[str, ...]
    note: str


def worded(verdict: str, comparison: Comparison, called: tuple[str, str]) -> str:
    """The runs' names in place of their numbers, the groups' labels in place of their names."""
    for side, name in zip(("the first", "the second"), called, strict=True):
        if verdict.startswith(side):
            said = verdict.removeprefix(side)
            head, found, group = said.partition(" to ")
            label = comparison.first.suite.label_of(group) if found else ""
            return f"{name}{head}{found}{label}"
    return verdict
