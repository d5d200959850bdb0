"""Shares of images: interval, and what a gap from parity is expected to be by chance."""

from __future__ import annotations

from dataclasses import dataclass
from math import nan

import numpy as np
from scipy.stats import binom, binomtest

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
        Counts that are no whole numbers, more than n of n, or a confidence outside 0 to 1.
    """
    require_count("n", n, least=0)
    require_count("count", count, least=0)
    require_confidence(confidence)
    if count > n:
        raise InvalidInputError(f"count: expected 0 to n = {n}, found {count}")
    if n == 0:
        return Proportion(nan, nan, nan, 0, "no image")
    interval = binomtest(count, n).proportion_ci(confidence, method="wilson")
    return Proportion(count / n, float(interval.low), float(interval.high), n)


def parity_gap_null(n: int) -> float:
    """``E |K/n − ½|`` for K ~ Binomial(n, ½): the gap that exact parity shows on average in n images.

    >>> round(parity_gap_null(8), 3)
    0.137
    """
    if n == 0:
        return nan
    k = np.arange(n + 1)
    return float(np.sum(binom.pmf(k, n, 0.5) * np.abs(k / n - 0.5)))
