"""Means and shares of clustered measurements, and contrasts between them.

A cluster is what was sampled independently (a portrait); what was measured on it several times (its edits) is one
draw, however many numbers it gives. Everything here is a function of the clusters' own means.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf, isfinite, nan, sqrt

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import beta, t

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

    >>> found = cluster_mean([1.0, 2.0, 3.0])
    >>> found.value, round(found.low, 3), round(found.high, 3)
    (2.0, -0.484, 4.484)
    """
    values = _known(means)
    n = len(values)
    if n < 2:
        value = float(values[0]) if n else nan
        return ClusterEstimate(value, nan, nan, n, "nothing was measured" if n == 0 else "one cluster has no spread")
    half = float(t.ppf((1 + confidence) / 2, n - 1)) * float(values.std(ddof=1)) / sqrt(n)
    value = float(values.mean())
    return ClusterEstimate(value, value - half, value + half, n)


def cluster_share(shares: ArrayLike, per_cluster: int = 1, confidence: float = 0.95) -> ClusterEstimate:
    """Share over clusters that hold ``per_cluster`` yes-or-no answers each, given each cluster's share.

    ::

        n_eff = p (1 − p) / (s² / n)        within [n, n · per_cluster]
        low, high = Clopper–Pearson of p · n_eff successes in n_eff      (Korn & Graubard 1998)

    The answers of one cluster depend on each other; the clusters' spread s² shows how much, and n_eff is the number of
    independent answers that would have that spread. At p = 0 or 1 no spread is seen and the clusters alone count.

    Raises
    ------
    InvalidInputError
        A share outside of [0, 1].
    """
    values = _known(shares)
    if ((values < 0) | (values > 1)).any():
        raise InvalidInputError("shares: expected numbers in [0, 1]")
    n = len(values)
    if n == 0:
        return ClusterEstimate(nan, nan, nan, 0, "nothing was measured")
    p = float(values.mean())
    spread = float(values.var(ddof=1)) / n if n > 1 else 0.0
    effective = float(n)
    if 0 < p < 1:
        effective = float(np.clip(p * (1 - p) / spread if spread > 0 else inf, n, n * per_cluster))
    tail, hits = (1 - confidence) / 2, p * effective
    low = 0.0 if p == 0 else float(beta.ppf(tail, hits, effective - hits + 1))
    high = 1.0 if p == 1 else float(beta.ppf(1 - tail, hits + 1, effective - hits))
    return ClusterEstimate(p, low, high, n)


def contrast(parts: Sequence[ClusterEstimate], coefficients: Sequence[float]) -> ClusterEstimate:
    """``Σ c_i θ_i`` of independent estimates, its interval recovered from theirs (MOVER, Zou & Donner 2008).

    ::

        low  = Σ c_i θ̂_i − √ Σ (c_i θ̂_i − min(c_i l_i, c_i u_i))²
        high = Σ c_i θ̂_i + √ Σ (max(c_i l_i, c_i u_i) − c_i θ̂_i)²

    Keeps the asymmetry of each interval, so a rate of 0 of 25 still has an uncertainty. For two shares it is
    Newcombe's hybrid score interval (1998, method 10) with other inner intervals.
    """
    reason = next((part.reason for part in parts if part.reason), "")
    if any(not isfinite(part.value) for part in parts):
        return ClusterEstimate(nan, nan, nan, 0, reason)
    value = sum(c * part.value for part, c in zip(parts, coefficients, strict=True))
    below = above = 0.0
    for part, c in zip(parts, coefficients, strict=True):
        ends = sorted((c * part.low, c * part.high))
        below += (c * part.value - ends[0]) ** 2
        above += (ends[1] - c * part.value) ** 2
    n = sum(part.n for part in parts)
    return ClusterEstimate(value, value - sqrt(below), value + sqrt(above), n, reason)


def _known(values: ArrayLike) -> np.ndarray:
    array = np.asarray(values, np.float64).ravel()
    return array[np.isfinite(array)]
