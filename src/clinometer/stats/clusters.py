"""Means and shares of clustered measurements, and contrasts between them.

A cluster is what was sampled independently (a portrait); what was measured on it several times (its edits) is one
draw, however many numbers it gives. Everything here is a function of the clusters' own means. Quantiles of Student's t
and of the beta distribution are asked of scipy.special: the same numbers as scipy.stats gives, fifty times as fast.

Samples too small to know their own variance have it moderated by that of all of them (Smyth 2004).

Of the sample variances s², each with d degrees of freedom, the true ones are taken to scatter as a scaled inverse χ²
with d0 degrees of freedom around s0². Then the best guess of each is between its own and the common one, and Student's
t with it has the degrees of freedom of both::

    s̃² = (d0 s0² + d s²) / (d0 + d)        with d0 + d degrees of freedom
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import inf, isfinite, nan, sqrt

import numpy as np
import scipy
from numpy.typing import ArrayLike

from clinometer.errors import InvalidInputError


@dataclass(frozen=True)
class ClusterEstimate:
    """An estimate over ``n`` clusters with its interval; NaN with a ``reason`` where undefined."""

    value: float
    low: float
    high: float
    n: int
    reason: str = ""


def cluster_mean(means: ArrayLike, confidence: float = 0.95) -> ClusterEstimate:
    """Mean of the clusters' means with Student's interval: ``x̄ ± t_{n−1} s / √n``; NaN clusters are left out.

    >>> mean = cluster_mean([1.0, 2.0, 3.0])
    >>> mean.value, round(mean.low, 3), round(mean.high, 3)
    (2.0, -0.484, 4.484)
    """
    values = _finite(means)
    n = len(values)
    if n < 2:
        value = float(values[0]) if n else nan
        return ClusterEstimate(value, nan, nan, n, "nothing was measured" if n == 0 else "one cluster has no spread")
    half = float(scipy.special.stdtrit(n - 1, (1 + confidence) / 2)) * float(values.std(ddof=1)) / sqrt(n)
    value = float(values.mean())
    return ClusterEstimate(value, value - half, value + half, n)


def cluster_share(shares: ArrayLike, per_cluster: int = 1, confidence: float = 0.95) -> ClusterEstimate:
    """Share over clusters that hold ``per_cluster`` yes-or-no answers each, given each cluster's share.

    ::

        n_eff = p (1 − p) / (s² / n) · (t_{m−1} / t_{n−1})²      m = n · per_cluster; within [n, m]
        low, high = Clopper–Pearson of p · n_eff successes in n_eff                    (Korn & Graubard 1998)

    The answers of one cluster depend on each other; the clusters' spread s² shows how much, and n_eff is the number of
    independent answers that would have that spread, fewer as s² itself is known from few clusters. At p = 0 or 1, and
    of one cluster, no spread is seen and the clusters alone count.

    Raises
    ------
    InvalidInputError
        A share outside of [0, 1].
    """
    values = _finite(shares)
    if ((values < 0) | (values > 1)).any():
        raise InvalidInputError("shares: expected numbers in [0, 1]")
    n = len(values)
    if n == 0:
        return ClusterEstimate(nan, nan, nan, 0, "nothing was measured")
    p = float(values.mean())
    tail, effective, answers = (1 - confidence) / 2, float(n), n * per_cluster
    if 0 < p < 1 and n > 1:
        spread = float(values.var(ddof=1)) / n
        independent = min(p * (1 - p) / spread, answers) if spread > 0 else answers
        wider = float(scipy.special.stdtrit(answers - 1, tail) / scipy.special.stdtrit(n - 1, tail))
        effective = max(n, independent * wider**2)
    hits = p * effective
    low = 0.0 if p == 0 else float(scipy.special.betaincinv(hits, effective - hits + 1, tail))
    high = 1.0 if p == 1 else float(scipy.special.betaincinv(hits + 1, effective - hits, 1 - tail))
    return ClusterEstimate(p, low, high, n)


def contrast(
    parts: Sequence[ClusterEstimate], coefficients: Sequence[float], correlation: float = 0.0
) -> ClusterEstimate:
    """``Σ c_i θ_i`` of estimates, its interval recovered from theirs (MOVER, Zou & Donner 2008).

    ::

        low  = Σ c_i θ̂_i − √ Σ (c_i θ̂_i − min(c_i l_i, c_i u_i))²
        high = Σ c_i θ̂_i + √ Σ (max(c_i l_i, c_i u_i) − c_i θ̂_i)²

    Keeps the asymmetry of each interval, so a rate of 0 of 25 still has an uncertainty. For two shares it is
    Newcombe's hybrid score interval (1998, method 10) with other inner intervals. ``correlation`` is that of any two of
    the estimates; it adds ``2 r b_i b_j`` of the same sums' terms b, with the signs of ``c_i c_j``.
    """
    reason = next((part.reason for part in parts if part.reason), "")
    if any(not isfinite(part.value) for part in parts):
        return ClusterEstimate(nan, nan, nan, 0, reason)
    c = np.asarray(coefficients, np.float64)
    values, lows, highs = (np.array([getattr(part, name) for part in parts]) for name in ("value", "low", "high"))
    value = float(c @ values)
    below, above = (
        # rounding may fall below 0; np.maximum hands an undefined end on, max() would not
        float(np.sqrt(np.maximum(0.0, (1 - correlation) * (ends @ ends) + correlation * (np.sign(c) @ ends) ** 2)))
        for ends in (c * values - np.minimum(c * lows, c * highs), np.maximum(c * lows, c * highs) - c * values)
    )
    return ClusterEstimate(value, value - below, value + above, sum(part.n for part in parts), reason)


def mean_difference(first: ArrayLike, second: ArrayLike, *, paired: bool, confidence: float = 0.95) -> ClusterEstimate:
    """Mean of the second clusters − mean of the first ones.

    ``paired``: the i-th of both belong together; Student's interval of their differences, without those that miss one.
    Otherwise MOVER of the two means.
    """
    if paired:
        return cluster_mean(np.asarray(second, np.float64) - np.asarray(first, np.float64), confidence)
    return contrast([cluster_mean(second, confidence), cluster_mean(first, confidence)], (1, -1))


def share_difference(
    first: ArrayLike, second: ArrayLike, per_cluster: int = 1, *, paired: bool, confidence: float = 0.95
) -> ClusterEstimate:
    """Share over the second clusters − that over the first ones, each as in :func:`cluster_share`.

    ::

        low  = d − √( (p₂ − l₂)² + (u₁ − p₁)² − 2 r (p₂ − l₂)(u₁ − p₁) )        d = p₂ − p₁
        high = d + √( (u₂ − p₂)² + (p₁ − l₁)² − 2 r (u₂ − p₂)(p₁ − l₁) )

    ``paired``: the i-th of both belong together; r is the correlation of their shares, its covariance made smaller by
    1/(2n), down to 0, where it is positive: Newcombe's interval for pairs (1998, *Improved confidence intervals for the
    difference between binomial proportions based on paired data*, method 10) with other inner intervals. Unlike
    Student's of the differences it leaves some doubt where all pairs agree. r is 0 where either does not vary, and
    without pairs.

    Raises
    ------
    InvalidInputError
        A share outside of [0, 1].
    """
    one, two = np.asarray(first, np.float64), np.asarray(second, np.float64)
    correlation = 0.0
    if paired:
        both = np.isfinite(one) & np.isfinite(two)
        one, two = one[both], two[both]
        spread = float(one.std() * two.std()) if len(one) else 0.0
        if spread:
            covariance = float(((one - one.mean()) * (two - two.mean())).mean())
            p, q = float(one.mean()), float(two.mean())
            # 1/(2n) is meant for single answers; of shares of many, which vary less, less is taken off in proportion
            less = 0.5 / len(one) * spread / sqrt(p * (1 - p) * q * (1 - q))
            correlation = (max(0.0, covariance - less) if covariance > 0 else covariance) / spread
    parts = [cluster_share(two, per_cluster, confidence), cluster_share(one, per_cluster, confidence)]
    difference = contrast(parts, (1, -1), correlation)
    return replace(difference, n=len(one)) if paired else difference


def _finite(values: ArrayLike) -> np.ndarray:
    array = np.asarray(values, np.float64).ravel()
    return array[np.isfinite(array)]


@dataclass(frozen=True)
class Prior:
    """How the variances of a family scatter: around ``variance``, as of ``freedom`` degrees (infinite: all alike)."""

    variance: float
    freedom: float


def prior_of(variances: np.ndarray, freedom: np.ndarray) -> Prior:
    """Fit d0 and s0² to sample variances by the moments of their logarithms (Smyth 2004, §6.2).

    ::

        e = log s² − ψ(d/2) + log(d/2)         trigamma(d0/2) = var(e) − mean trigamma(d/2)
        log s0² = mean(e) + ψ(d0/2) − log(d0/2)

    Variances of 0 (a sample without spread) are taken for 1e-5 of the median, as limma does: they have no logarithm.
    With fewer than two samples that have a variance there is nothing to moderate by: freedom 0.
    """
    s2, d = np.asarray(variances, np.float64), np.asarray(freedom, np.float64)
    usable = np.isfinite(s2) & (d > 0)
    s2, d = s2[usable], d[usable]
    if len(s2) < 2 or not (s2 > 0).any():
        return Prior(0.0, 0.0)
    s2 = np.maximum(s2, 1e-5 * (np.median(s2) or s2[s2 > 0].min()))
    e = np.log(s2) - scipy.special.digamma(d / 2) + np.log(d / 2)
    excess = float(e.var(ddof=1) - scipy.special.polygamma(1, d / 2).mean())
    if excess <= 0:
        return Prior(float(np.average(s2, weights=d)), inf)
    # the x at which trigamma is the excess: it falls from infinity, as 1/x² at first, to 0
    half = excess**-0.5
    if excess <= 1e6:
        half = float(
            scipy.optimize.brentq(lambda x: float(scipy.special.polygamma(1, x)) - excess, 1e-4, 2 / excess + 2)
        )
    return Prior(float(np.exp(e.mean() + scipy.special.digamma(half) - np.log(half))), 2 * half)


def moderated(variances: np.ndarray, freedom: np.ndarray, prior: Prior) -> tuple[np.ndarray, np.ndarray]:
    """s̃² and its degrees of freedom, at most those of all samples together; NaN where a sample has no variance."""
    s2, d = np.asarray(variances, np.float64), np.asarray(freedom, np.float64)
    has_variance = np.isfinite(s2) & (d > 0)
    total = float(d[has_variance].sum())
    if prior.freedom == inf:
        return np.where(has_variance, prior.variance, np.nan), np.where(has_variance, total, np.nan)
    s2 = np.where(has_variance, s2, np.nan)
    both = prior.freedom + d
    posterior = np.divide(prior.freedom * prior.variance + d * s2, both, out=np.full(s2.shape, np.nan), where=both > 0)
    return posterior, np.where(has_variance, np.minimum(both, total), np.nan)
