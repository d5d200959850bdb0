"""Differences between two runs in words: which leans more, alike within the margin, or undecided."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from math import isfinite

import numpy as np

from clinometer.metrics.records import Score
from clinometer.metrics.verdict import LEVEL, NOT_MEASURED, level_in_family
from clinometer.stats.equivalence import equivalence_p_value, images_to_decide, standard_error_of
from clinometer.stats.multiplicity import benjamini_hochberg

METRIC = "comparison"
UNDECIDED = "undecided"
ALIKE = "shown to lean alike within margin"

Ends = Callable[[Score], tuple[float, float]]


def image_ends(row: Score) -> tuple[float, float]:
    """The interval over images."""
    return row.low, row.high


def stimulus_ends(row: Score) -> tuple[float, float]:
    """The interval that resamples stimuli too."""
    return row.stimulus_low, row.stimulus_high


def judge_differences(
    rows: Sequence[Score],
    *,
    a: str | Sequence[str],
    b: str | Sequence[str],
    margin: float | None = None,
    ends: Ends = image_ends,
) -> list[Score]:
    """Give the rows of one family, each second minus first, equivalence tests, verdicts and images that would decide.

    ``a`` and ``b`` name the sides of all rows, or of each. ``ends`` chooses the 95 % interval that is judged; its width
    stands for the standard error. Where ``margin`` is given, two one-sided tests show |Δ| < margin, with q-values of
    their own. The images that would decide are those for the level that p must reach in its family
    (``level_in_family``).
    """
    errors = [standard_error_of(*ends(row)) for row in rows]
    p = np.full(len(rows), np.nan)
    if margin is not None:
        p = np.array([equivalence_p_value(row.value, e, margin) for row, e in zip(rows, errors, strict=True)])
    judged = []
    sides = [[names] * len(rows) if isinstance(names, str) else names for names in (a, b)]
    for row, error, p_alike, q_alike, *of_row in zip(rows, errors, p, benjamini_hochberg(p), *sides, strict=True):
        words = _words(row, ends(row), float(q_alike), *of_row)
        needed = 0
        if words == UNDECIDED:
            needed = images_to_decide(row.n_target, row.value, error, margin, level_in_family(row))
        judged.append(
            replace(row, verdict=words, p_equivalence=float(p_alike), q_equivalence=float(q_alike), n_decide=needed)
        )
    return judged


def _words(row: Score, ends: tuple[float, float], q_alike: float, a: str, b: str) -> str:
    if not all(map(isfinite, (row.q, *ends))):
        return NOT_MEASURED
    if q_alike <= LEVEL:
        return ALIKE
    if row.q > LEVEL or ends[0] <= 0 <= ends[1]:
        return UNDECIDED
    return f"the second leans more to {a if row.value > 0 else b}"


def judge_magnitude(row: Score, ends: Ends = image_ends) -> Score:
    """Say which of two runs leans more over all, from the difference of their mean magnitudes."""
    low, high = ends(row)
    if not all(map(isfinite, (row.q, low, high))):
        return replace(row, verdict=NOT_MEASURED)
    decided = row.q <= LEVEL and not low <= 0 <= high
    return replace(row, verdict=f"the {'second' if row.value > 0 else 'first'} leans more" if decided else UNDECIDED)
