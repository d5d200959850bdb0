"""Differences between two runs in words: which leans more, alike within the margin, or undecided."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import isfinite

from clinometer.metrics.records import Score
from clinometer.metrics.verdict import LEVEL, NOT_MEASURED, UNDECIDED, Ends, image_ends, judge_rows

METRIC = "comparison"
ALIKE = "shown to lean alike within margin"

MOST_NAMED = 3
"""Prompts, targets or stimuli that a reason names; more are counted."""


def named_or_counted(names: Sequence[str], units: str) -> str:
    """Name what a reason is about, or count it where it is much: ``cook, judge``; ``5 targets``."""
    return ", ".join(names) if len(names) <= MOST_NAMED else f"{len(names)} {units}"


def judge_differences(
    rows: Sequence[Score],
    *,
    a: str | Sequence[str],
    b: str | Sequence[str],
    margin: float | None = None,
    ends: Ends = image_ends,
) -> list[Score]:
    """Give the rows of one family, each second minus first, their words, as :func:`judge_rows` says."""
    return judge_rows(rows, _words, a=a, b=b, margin=margin, ends=ends)


def _words(row: Score, ends: tuple[float, float], q_alike: float, a: str, b: str) -> str:
    if not all(map(isfinite, (row.q, *ends))):
        return NOT_MEASURED
    if q_alike <= LEVEL:
        return ALIKE
    if row.q > LEVEL or ends[0] <= 0 <= ends[1]:
        return UNDECIDED
    return f"the second leans more to {a if row.value > 0 else b}"


def outward(low: float, high: float, excess: Sequence[float]) -> tuple[float, float]:
    """Ends of a difference of mean magnitudes, moved by what the first's and the second's may owe to chance.

    ``excess`` is their mean :func:`clinometer.stats.bootstrap.magnitude_excess`. Two runs that differ by nothing at all
    have an interval of no width, and owe nothing.
    """
    return (low, high) if low == high == 0 else (low - excess[1], high + excess[0])


def judge_magnitude(row: Score, ends: Ends = image_ends) -> Score:
    """Say which of two runs leans more over all, from the difference of their mean magnitudes."""
    low, high = ends(row)
    if not all(map(isfinite, (row.q, low, high))):
        return replace(row, verdict=NOT_MEASURED)
    decided = row.q <= LEVEL and not low <= 0 <= high
    return replace(row, verdict=f"the {'second' if row.value > 0 else 'first'} leans more" if decided else UNDECIDED)
