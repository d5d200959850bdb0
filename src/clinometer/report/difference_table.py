"""Tables of differences between runs."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class DifferenceTable:
    """Differences of one kind: headings (the first a name, the last a verdict), rows of cells, counted verdicts."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    counts: tuple[str, ...]
    note: str
