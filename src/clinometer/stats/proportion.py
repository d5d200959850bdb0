"""Shares of images: interval, and what a gap from parity is expected to be by chance; and ratios of means."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from math import comb, isfinite, nan, sqrt
from typing import Literal

import numpy as np
import scipy
from numpy.typing import ArrayLike

from clinometer.errors import InvalidInputError
from clinometer.stats.arguments import require_confidence, require_count


@dataclass(frozen=True)
class Proportion:
    """A share ``count / n`` with its Wilson interval; NaN with a reason when n is 0."""

    value: float
    low: float
    high: float
    n: int
    reason: str = ""


def wilson_interval(count: int, n: int, confidence: float = 0.95) -> Proportion:
    """Share with its score interval (Wilson 1927), which keeps its coverage at 0 and 1.

    Raises
    ------
    InvalidInputError
        Counts that are not whole numbers, more than n of n, or a confidence outside 0 to 1.
    """
    require_count("n", n, least=0)
    require_count("count", count, least=0)
    require_confidence(confidence)
    if count > n:
        raise InvalidInputError(f"count: expected 0 to n = {n}, found {count}")
    if n == 0:
        return Proportion(nan, nan, nan, 0, "no image")
    return Proportion(count / n, *_wilson_ends(int(count), int(n), float(confidence)), n)


@lru_cache(maxsize=4096)
def _wilson_ends(count: int, n: int, confidence: float) -> tuple[float, float]:
    """Kept, because a study asks for few different ones very often, and scipy computes a p-value each time."""
    interval = scipy.stats.binomtest(count, n).proportion_ci(confidence, method="wilson")
    return float(interval.low), float(interval.high)


@dataclass(frozen=True)
class Exchange:
    """The exact p of two shares, and the number of exchanges that it counts."""

    p_value: float
    n_exchanges: int


def share_exchange(first: ArrayLike, second: ArrayLike, *, paired: bool) -> Exchange:
    """Two-sided exact p of "no difference" between two samples of yes-or-no answers: they may have changed places.

    ``paired``: the i-th of both belong together and change places with each other, which is McNemar's exact test: of
    the pairs that differ, a binomial number has the yes on either side. Otherwise all answers are dealt out anew:
    Fisher's exact test. p is 1 where nothing differs.

    >>> share_exchange([1, 1, 1, 1, 1], [0, 0, 0, 0, 0], paired=True).p_value
    0.0625
    >>> round(share_exchange([1, 1, 1, 1, 1], [0, 0, 0, 0, 0], paired=False).p_value, 6)
    0.007937

    Raises
    ------
    InvalidInputError
        No answers, or pairs of other numbers.
    """
    one, two = np.asarray(first, bool).ravel(), np.asarray(second, bool).ravel()
    if not len(one) or not len(two) or (paired and len(one) != len(two)):
        raise InvalidInputError(f"answers: found {len(one)} and {len(two)}, expected some in both, as many in pairs")
    if paired:
        more, less = int((one & ~two).sum()), int((two & ~one).sum())
        p = float(scipy.stats.binomtest(more, more + less).pvalue) if more + less else 1.0
        return Exchange(p, 2 ** len(one))
    table = [[int(answers.sum()), int((~answers).sum())] for answers in (one, two)]
    return Exchange(min(1.0, float(scipy.stats.fisher_exact(table).pvalue)), comb(len(one) + len(two), len(one)))


def parity_gap_null(n: int) -> float:
    """``E |K/n − ½|`` for K ~ Binomial(n, ½): the gap that exact parity shows on average in n images.

    >>> round(parity_gap_null(8), 3)
    0.137
    """
    if n == 0:
        return nan
    k = np.arange(n + 1)
    return float(np.sum(scipy.stats.binom.pmf(k, n, 0.5) * np.abs(k / n - 0.5)))


Shape = Literal["bounded", "excludes", "unbounded", "undefined"]


@dataclass(frozen=True)
class RatioInterval:
    """A ratio and its confidence set.

    ``shape`` says how to read ``low`` and ``high``: ``"bounded"`` the interval between them; ``"excludes"``
    everything *but* the open interval between them; ``"unbounded"`` the whole line (both NaN). ``reason``
    says why the set is no bounded interval.
    """

    value: float
    low: float
    high: float
    shape: Shape
    reason: str = ""


def fieller_interval(
    numerator: float,
    denominator: float,
    *,
    variance_numerator: float,
    variance_denominator: float,
    covariance: float = 0.0,
    confidence: float = 0.95,
) -> RatioInterval:
    """Confidence set of ``ρ = E[X] / E[Y]`` from estimates x, y that are near normal.

    ::

        { ρ : (x − ρ y)² ≤ z² (v_x − 2ρ v_xy + ρ² v_y) }

    Fieller (1954), *Some problems in interval estimation*. The set solves a quadratic in ρ with leading
    coefficient ``y² − z² v_y``: bounded exactly when y differs from 0 at this confidence; otherwise it is the
    outside of an interval, or the whole line.

    Raises
    ------
    InvalidInputError
        A negative variance, or a confidence outside 0 to 1.
    """
    require_confidence(confidence)
    for name, variance in (("numerator", variance_numerator), ("denominator", variance_denominator)):
        if variance < 0:
            raise InvalidInputError(f"variance_{name}: expected 0 or more, found {variance}")
    x, y, z = numerator, denominator, float(scipy.stats.norm.ppf((1 + confidence) / 2))
    if not all(map(isfinite, (x, y, variance_numerator, variance_denominator, covariance))):
        return RatioInterval(nan, nan, nan, "undefined", "an estimate or a variance is not defined")
    if y == 0 and variance_denominator == 0:
        return RatioInterval(nan, nan, nan, "undefined", "the denominator is 0")
    value = x / y if y else nan
    a = y * y - z * z * variance_denominator
    b = x * y - z * z * covariance
    c = x * x - z * z * variance_numerator
    discriminant = b * b - a * c
    if a > 0:
        root = sqrt(max(discriminant, 0.0))
        return RatioInterval(value, (b - root) / a, (b + root) / a, "bounded")
    reason = "unbounded: the interval of the denominator covers 0"
    if a == 0 or discriminant <= 0:
        return RatioInterval(value, nan, nan, "unbounded", reason)
    root = sqrt(discriminant)
    return RatioInterval(value, (b + root) / a, (b - root) / a, "excludes", reason)
