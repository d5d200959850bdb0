"""Verdicts: the words for a score with an interval and its tests, defined once.

================================  ========================================================================
``shown balanced within margin``  two one-sided tests show |θ| < margin: q of equivalence ≤ 0.05 (the suite
                                  must name a margin); without such a test, the 95 % interval lies inside
``leans to G``                    the interval excludes 0 and q ≤ 0.05
``leans slightly to G``           the same, but the estimate is smaller than the margin
``undecided``                     none of these; ``n_decide`` of the row says how many images would tell
``not measured``                  there is no estimate, or no interval or q-value to judge it by
================================  ========================================================================

The order is the precedence. A leaning that is certain and yet inside the margin counts as balanced: the
margin is the size below which a suite calls a leaning none.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from math import isnan, nan

import numpy as np

from clinometer.metrics.records import Score
from clinometer.stats.equivalence import equivalence_p_value, factor_to_decide, images_to_decide, standard_error_of
from clinometer.stats.multiplicity import benjamini_hochberg

BALANCED = "shown balanced within margin"
UNDECIDED = "undecided"
NOT_MEASURED = "not measured"

LEVEL = 0.05
"""Largest q-value that counts."""

Ends = Callable[[Score], tuple[float, float]]
"""Chooses an interval of a row."""

Words = Callable[[Score, tuple[float, float], float, str, str], str]
"""What to say of a row, from its interval, the q of its equivalence test and the names of its two sides."""


def image_ends(row: Score) -> tuple[float, float]:
    """The interval over images."""
    return row.low, row.high


def stimulus_ends(row: Score) -> tuple[float, float]:
    """The interval that resamples stimuli too."""
    return row.stimulus_low, row.stimulus_high


def verdict(
    *,
    value: float,
    low: float,
    high: float,
    q: float,
    a: str,
    b: str,
    margin: float | None = None,
    q_equivalence: float = nan,
) -> str:
    """Judge a signed score, positive towards group ``a``, in the words of the table above.

    >>> verdict(value=0.2, low=0.1, high=0.3, q=0.001, a="men", b="women", margin=0.05)
    'leans to men'
    >>> verdict(value=-0.01, low=-0.03, high=0.02, q=0.4, a="men", b="women", margin=0.05)
    'shown balanced within margin'
    """
    if any(map(isnan, (value, low, high, q))):
        return NOT_MEASURED
    if margin is not None:
        inside = -margin < low and high < margin
        if inside if isnan(q_equivalence) else q_equivalence <= LEVEL:
            return BALANCED
    if low <= 0 <= high or q > LEVEL:
        return UNDECIDED
    slightly = margin is not None and abs(value) < margin
    return f"leans {'slightly ' if slightly else ''}to {a if value > 0 else b}"


def judge_rows(
    rows: Sequence[Score],
    words: Words,
    *,
    a: str | Sequence[str],
    b: str | Sequence[str],
    margin: float | None,
    ends: Ends,
) -> list[Score]:
    """Give every row of one family its equivalence test, its words and the images that would decide it.

    The equivalence tests are a family of their own, with Benjamini–Hochberg q-values. ``ends`` chooses the 95 %
    interval that is judged; its width stands for the standard error. ``a`` and ``b`` name the sides of all rows, or of
    each. The images that would decide an undecided row are those for ``level_in_family``.
    """
    errors = [standard_error_of(*ends(row)) for row in rows]
    p = np.full(len(rows), nan)
    if margin is not None:
        p = np.array([equivalence_p_value(row.value, e, margin) for row, e in zip(rows, errors, strict=True)])
    sides = [[names] * len(rows) if isinstance(names, str) else names for names in (a, b)]
    judged = []
    for row, error, p_inside, q_inside, *of_row in zip(rows, errors, p, benjamini_hochberg(p), *sides, strict=True):
        said, needed = words(row, ends(row), float(q_inside), *of_row), 0
        if said == UNDECIDED:
            needed = images_to_decide(row.n_target, row.value, error, margin, level_in_family(row))
        judged.append(
            replace(row, verdict=said, p_equivalence=float(p_inside), q_equivalence=float(q_inside), n_decide=needed)
        )
    return judged


def judge_family(
    rows: Sequence[Score],
    *,
    a: str | Sequence[str],
    b: str | Sequence[str],
    margin: float | None = None,
    ends: Ends = image_ends,
) -> list[Score]:
    """Give every row of one family its verdict, as :func:`judge_rows` says.

    No images are named where the interval is narrow enough already, and labels permuted by chance do as well all the
    same.
    """

    def words(row: Score, interval: tuple[float, float], q_inside: float, of_a: str, of_b: str) -> str:
        low, high = interval
        return verdict(
            value=row.value, low=low, high=high, q=row.q, a=of_a, b=of_b, margin=margin, q_equivalence=q_inside
        )

    judged = judge_rows(rows, words, a=a, b=b, margin=margin, ends=ends)
    return [replace(row, n_decide=0) if _labels_hold_back(row, *ends(row)) else row for row in judged]


def _labels_hold_back(row: Score, low: float, high: float) -> bool:
    """Whether the interval would do for the level that p must reach: then p lacks other labels, and not images.

    Where few words carry a leaning, relabelling them gives as much by chance, however many images there are.
    """
    error = standard_error_of(low, high)
    return not low <= 0 <= high and factor_to_decide(row.value, error, None, level_in_family(row)) <= 1


def level_in_family(row: Score) -> float:
    """What p must reach for q to reach 0.05, as the family stands: ``0.05 · p / q``; 0.05 for a row without a p."""
    return LEVEL * row.p / row.q if row.p > 0 else LEVEL
