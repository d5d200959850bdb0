"""Cohen's d of two groups of independent values, with its interval."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite, isnan, nan, sqrt
from typing import Literal, get_args

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import brentq
from scipy.stats import nct

from clinometer.errors import InvalidInputError
from clinometer.stats.arguments import generator, require_confidence
from clinometer.stats.bootstrap import bca_interval, rao_wu_weights

Method = Literal["noncentral-t", "bootstrap"]


@dataclass(frozen=True)
class EffectSize:
    """A standardised difference with its interval; positive: x is larger. NaN with a ``reason`` where undefined."""

    value: float
    low: float
    high: float
    n_x: int
    n_y: int
    reason: str = ""


def cohens_d(
    x: ArrayLike,
    y: ArrayLike,
    *,
    confidence: float = 0.95,
    method: Method = "noncentral-t",
    n_resamples: int = 9_999,
    rng: np.random.Generator | int | None = 0,
) -> EffectSize:
    """Pooled Cohen's d.

    ::

        d = (x̄ − ȳ) / s,    s² = ((n_x − 1) s_x² + (n_y − 1) s_y²) / (n_x + n_y − 2)

    ``"noncentral-t"``: exact for normal values of equal variance, see :func:`noncentral_t_interval`.
    ``"bootstrap"``: BCa over both groups, for values that are skewed or spread differently; each replicate is a
    function of its weighted sums of x and x².

    Raises
    ------
    InvalidInputError
        An unknown method, or values that are not one-dimensional.
    """
    if method not in get_args(Method):
        raise InvalidInputError(f"method: expected one of {', '.join(get_args(Method))}, found {method!r}")
    first, second = np.asarray(x, np.float64), np.asarray(y, np.float64)
    if first.ndim != 1 or second.ndim != 1:
        raise InvalidInputError(f"x and y: expected one dimension, found shapes {first.shape} and {second.shape}")
    sizes, reason = (len(first), len(second)), _undefined(first, second)
    if reason:
        return EffectSize(nan, nan, nan, *sizes, reason)
    d = float(_d([first.mean(), second.mean()], [first.var(ddof=1), second.var(ddof=1)], sizes))
    if method == "noncentral-t":
        return noncentral_t_interval(d, *sizes, confidence)
    if min(sizes) < 3:
        return EffectSize(d, nan, nan, *sizes, "no bootstrap interval from fewer than three values in a group")
    draws = _replicates(first, second, n_resamples, generator(rng))
    interval = bca_interval(d, draws, _influence(first, second, d), confidence, freedom=sum(sizes) - 2)
    return EffectSize(d, float(interval.low), float(interval.high), *sizes)


def noncentral_t_interval(d: float, n_x: int, n_y: int, confidence: float = 0.95) -> EffectSize:
    """Interval of d from d and the two counts alone, by inverting the noncentral t (Steiger & Fouladi 1997).

    ::

        T = d √(n_x n_y / (n_x + n_y))  ~  noncentral t with n_x + n_y − 2 degrees of freedom and noncentrality
                                           δ √(n_x n_y / (n_x + n_y))

    Each end is the δ under which the observed T, or one further out, has probability (1 − confidence)/2. Exact for
    normal values of equal variance.
    """
    require_confidence(confidence)
    freedom = n_x + n_y - 2
    if freedom < 1 or not isfinite(d):
        return EffectSize(d, nan, nan, n_x, n_y, "no degree of freedom" if freedom < 1 else "d is not defined")
    scale = sqrt(n_x * n_y / (n_x + n_y))
    tails = ((1 + confidence) / 2, (1 - confidence) / 2)
    low, high = (_noncentrality(d * scale, freedom, tail) / scale for tail in tails)
    return EffectSize(d, low, high, n_x, n_y)


def _noncentrality(statistic: float, freedom: int, tail: float) -> float:
    """The noncentrality under which P(T ≤ statistic) is ``tail``."""

    def excess(noncentrality: float) -> float:
        below = float(nct.cdf(statistic, freedom, noncentrality))
        if isnan(below):  # far out, where scipy's series gives up
            below = float(noncentrality < statistic)
        return below - tail

    reach = 10 * sqrt(1 + statistic**2 / (2 * freedom))
    return float(brentq(excess, statistic - reach, statistic + reach, xtol=1e-10))


def _undefined(x: np.ndarray, y: np.ndarray) -> str:
    if not (np.isfinite(x).all() and np.isfinite(y).all()):
        return "a value is not finite"
    if min(len(x), len(y)) < 1 or len(x) + len(y) < 3:
        return "fewer than three values, or none in a group"
    if max(np.ptp(x), np.ptp(y)) <= 1e-12 * max(np.abs(x).max(), np.abs(y).max()):
        return "no spread to divide by: all values of a group are alike"
    if min(len(x), len(y)) == 1:
        return "a group of one value has no variance to pool"
    return ""


def _d(means: Sequence[ArrayLike], variances: Sequence[ArrayLike], sizes: tuple[int, int]) -> np.ndarray:
    pooled = sum((n - 1) * np.asarray(v) for n, v in zip(sizes, variances, strict=True)) / (sum(sizes) - 2)
    with np.errstate(divide="ignore", invalid="ignore"):  # a replicate may draw one value over and over
        return np.asarray((np.asarray(means[0]) - np.asarray(means[1])) / np.sqrt(pooled))


def _replicates(x: np.ndarray, y: np.ndarray, n_resamples: int, rng: np.random.Generator) -> np.ndarray:
    """Replicates of d.

    A replicate holds n − 1 draws, so their squared deviations about their own mean fall short of ``s²`` by the factor
    ``(n − 2)/n``, which is divided out.
    """
    means: list[np.ndarray] = []
    variances: list[np.ndarray] = []
    for values, child in zip((x, y), rng.spawn(2), strict=True):
        n = len(values)
        weights = rao_wu_weights([n], n_resamples, child).astype(np.float64)
        centred = values - values.mean()
        mean = weights @ centred
        means.append(mean + values.mean())
        variances.append((weights @ centred**2 - mean**2) * (n / (n - 2)))
    draws = _d(means, variances, (len(x), len(y)))
    return np.asarray(draws[np.isfinite(draws)])


def _influence(x: np.ndarray, y: np.ndarray, d: float) -> np.ndarray:
    """Share of each value in the error of d: its delta-method derivative, over the size of its group."""
    pooled = ((len(x) - 1) * x.var(ddof=1) + (len(y) - 1) * y.var(ddof=1)) / (len(x) + len(y) - 2)
    parts = []
    for sign, values in ((1, x), (-1, y)):
        centred = values - values.mean()
        of_mean = sign * centred / len(values) / sqrt(pooled)
        of_spread = (centred**2 - (centred**2).mean()) / (len(x) + len(y) - 2)
        parts.append(of_mean - d / (2 * pooled) * of_spread)
    return np.concatenate(parts)
