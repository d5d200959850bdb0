"""Variances of many samples, each moderated by all of them (Smyth 2004): for samples too small to know their own.

Of the sample variances s², each with d degrees of freedom, the true ones are taken to scatter as a scaled inverse χ²
with d0 degrees of freedom around s0². Then the best guess of each is between its own and the common one, and Student's
t with it has the degrees of freedom of both::

    s̃² = (d0 s0² + d s²) / (d0 + d)        with d0 + d degrees of freedom
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

import numpy as np
import scipy


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
    half = _inverse_trigamma(excess)
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


def _inverse_trigamma(value: float) -> float:
    """The x at which trigamma is ``value``; trigamma falls from infinity to 0."""
    if value > 1e6:
        return float(value**-0.5)
    return float(scipy.optimize.brentq(lambda x: float(scipy.special.polygamma(1, x)) - value, 1e-4, 2 / value + 2))
