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
from clinometer.stats.equivalence import equivalence_p_value, factors_to_decide, images_to_decide, standard_error_of
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
    each. The images that would decide an undecided row are those of :func:`images_that_decide`.
    """
    errors = [standard_error_of(*ends(row)) for row in rows]
    p = np.full(len(rows), nan)
    if margin is not None:
        p = np.array([equivalence_p_value(row.value, e, margin) for row, e in zip(rows, errors, strict=True)])
    decides = images_that_decide(rows, margin, ends)
    sides = [[names] * len(rows) if isinstance(names, str) else names for names in (a, b)]
    judged = []
    for row, needed, p_inside, q_inside, *of_row in zip(rows, decides, p, benjamini_hochberg(p), *sides, strict=True):
        said = words(row, ends(row), float(q_inside), *of_row)
        judged.append(
            replace(
                row,
                verdict=said,
                p_equivalence=float(p_inside),
                q_equivalence=float(q_inside),
                n_decide=needed if said == UNDECIDED else 0,
            )
        )
    return judged


def images_that_decide(rows: Sequence[Score], margin: float | None, ends: Ends) -> list[int]:
    """Images (as ``n_target``) that would decide each row of a family, if all estimates stood; 0 where no number would.

    As leaning or as balanced, whichever takes fewer, with q-values over all rows and all sets of images growing alike.
    No leaning is promised where the interval is narrow enough already and labels permuted by chance do as well: where
    few words carry a leaning, relabelling them gives as much, however many images there are.
    """
    value, low, high, p = np.array([(row.value, *ends(row), row.p) for row in rows], np.float64).reshape(-1, 4).T
    factors = factors_to_decide(value, low, high, p, margin, LEVEL)
    return [images_to_decide(row.n_target, float(factor)) for row, factor in zip(rows, factors, strict=True)]


def judge_family(
    rows: Sequence[Score],
    *,
    a: str | Sequence[str],
    b: str | Sequence[str],
    margin: float | None = None,
    ends: Ends = image_ends,
) -> list[Score]:
    """Give every row of one family its verdict, as :func:`judge_rows` says."""

    def words(row: Score, interval: tuple[float, float], q_inside: float, of_a: str, of_b: str) -> str:
        low, high = interval
        return verdict(
            value=row.value, low=low, high=high, q=row.q, a=of_a, b=of_b, margin=margin, q_equivalence=q_inside
        )

    return judge_rows(rows, words, a=a, b=b, margin=margin, ends=ends)
