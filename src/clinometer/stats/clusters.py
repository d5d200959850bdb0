"""Clustered measurements: means, shares and contrasts of them; and where the variance of crossed ones comes from.

A cluster is what was sampled independently (a portrait); what was measured on it several times (its edits) is one
draw, however many numbers it gives. Everything here is a function of the clusters' own means. Where clusters came in
batches, the spread of means and shares is that of the batches (:func:`clinometer.stats.dependence.by_batch`). Quantiles
of Student's t are asked of scipy.special: the same numbers as scipy.stats gives, fifty times as fast.

A crossed design is of units × treatments, each with blocks that all treatments share. A concept is a unit, a wording of
its prompt a treatment, and a noise a block: one image is drawn from each wording with each noise. The model of a
reading is

::

    y_uts = μ + α_u + β_t + γ_ut + δ_us + ε_uts

γ, by which treatments change units differently, is what makes a verdict on a unit hang on the treatment.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import inf, isfinite, nan, sqrt
from typing import Final

import numpy as np
import scipy
from numpy.typing import ArrayLike

from clinometer.errors import InvalidInputError
from clinometer.stats.dependence import by_batch
from clinometer.stats.proportion import Estimate, clopper_pearson


def cluster_mean(means: ArrayLike, confidence: float = 0.95, *, batches: np.ndarray | None = None) -> Estimate:
    """Return the mean of the clusters' means with Student's interval, ``x̄ ± t_{n−1} s / √n``, without NaN clusters.

    ``batches`` : the batch of each cluster, of which s and n then are; ``Estimate.n`` counts clusters.

    >>> mean = cluster_mean([1.0, 2.0, 3.0])
    >>> mean.value, round(mean.low, 3), round(mean.high, 3)
    (2.0, -0.484, 4.484)
    """
    values, units = _finite(means, batches)
    n = len(units)
    if n < 2:
        value = float(values.mean()) if n else nan
        return Estimate(value, nan, nan, len(values), "nothing was measured" if n == 0 else _one(values))
    half = float(scipy.special.stdtrit(n - 1, (1 + confidence) / 2)) * float(units.std(ddof=1)) / sqrt(n)
    value = float(values.mean())
    return Estimate(value, value - half, value + half, len(values))


def cluster_share(
    shares: ArrayLike, per_cluster: int = 1, confidence: float = 0.95, *, batches: np.ndarray | None = None
) -> Estimate:
    """Return the share over clusters that hold ``per_cluster`` yes-or-no answers each, given each cluster's share.

    ::

        n_eff = p (1 − p) / (s² / n) · (t_{m−1} / t_{n−1})²      m = n · per_cluster; within [n, m]
        low, high = Clopper–Pearson of p · n_eff successes in n_eff                    (Korn & Graubard 1998)

    The answers of one cluster depend on each other; the clusters' spread s² shows how much, and n_eff is the number of
    independent answers that would have that spread, fewer as s² itself is known from few clusters. At p = 0 or 1, and
    of one cluster, no spread is seen and the clusters alone count. ``batches`` : the batch of each cluster, of which s²
    and n then are; ``Estimate.n`` counts clusters.

    Raises
    ------
    InvalidInputError
        A share outside of [0, 1].
    """
    values, units = _finite(shares, batches)
    if ((values < 0) | (values > 1)).any():
        raise InvalidInputError.out_of_range("expected numbers in [0, 1]", field="shares")
    n = len(units)
    if n == 0:
        return Estimate(nan, nan, nan, 0, "nothing was measured")
    p = float(values.mean())
    tail, effective, answers = (1 - confidence) / 2, float(n), len(values) * per_cluster
    if 0 < p < 1 and n > 1:
        spread = float(units.var(ddof=1)) / n
        independent = min(p * (1 - p) / spread, answers) if spread > 0 else answers
        wider = float(scipy.special.stdtrit(answers - 1, tail) / scipy.special.stdtrit(n - 1, tail))
        effective = max(n, independent * wider**2)
    low, high = map(float, clopper_pearson(p * effective, effective, tail))
    return Estimate(p, low, high, len(values))


def contrast(parts: Sequence[Estimate], coefficients: Sequence[float], correlation: float = 0.0) -> Estimate:
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
        return Estimate(nan, nan, nan, 0, reason)
    c = np.asarray(coefficients, np.float64)
    values, lows, highs = (np.array([getattr(part, name) for part in parts]) for name in ("value", "low", "high"))
    value = float(c @ values)
    below, above = (
        # rounding may fall below 0; np.maximum hands an undefined end on, max() would not
        float(np.sqrt(np.maximum(0.0, (1 - correlation) * (ends @ ends) + correlation * (np.sign(c) @ ends) ** 2)))
        for ends in (c * values - np.minimum(c * lows, c * highs), np.maximum(c * lows, c * highs) - c * values)
    )
    return Estimate(value, value - below, value + above, sum(part.n for part in parts), reason)


def mean_difference(first: ArrayLike, second: ArrayLike, *, paired: bool, confidence: float = 0.95) -> Estimate:
    """Return the mean of the second clusters − mean of the first ones.

    ``paired``: the i-th of both belong together; Student's interval of their differences, without those that miss one.
    Otherwise MOVER of the two means.
    """
    if paired:
        return cluster_mean(np.asarray(second, np.float64) - np.asarray(first, np.float64), confidence)
    return contrast([cluster_mean(second, confidence), cluster_mean(first, confidence)], (1, -1))


def share_difference(
    first: ArrayLike, second: ArrayLike, per_cluster: int = 1, *, paired: bool, confidence: float = 0.95
) -> Estimate:
    """Return the share over the second clusters − that over the first ones, each as in :func:`cluster_share`.

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


def _finite(values: ArrayLike, batches: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
    """Return the finite values, and what is sampled: these, or what their batches make of them."""
    array = np.asarray(values, np.float64).ravel()
    known = np.isfinite(array)
    return array[known], by_batch(array[known], None if batches is None else batches[known])


def _one(values: np.ndarray) -> str:
    return "one cluster has no spread" if len(values) == 1 else "one batch has no spread"


SOURCES = ("unit", "treatment", "unit_treatment", "block", "residual")
_PERMUTED_AT_ONCE = 2**21
"""Permuted readings."""


@dataclass(frozen=True)
class Component:
    """A variance component, its interval, and the p of the permutation test that it is 0; NaN where it has none.

    An estimate below 0 is as much as to say 0; what is stored is the estimate, as it has no bias.
    """

    value: float
    low: float = nan
    high: float = nan
    p_value: float = nan


@dataclass(frozen=True)
class CrossedVariance:
    """The variance of a crossed design by its source, and of each unit whether treatments change it.

    Attributes
    ----------
    components : by the names of ``SOURCES``.
    unit_p : (U,) p of each unit, NaN of one with fewer than two blocks.
    unit_variance : (U,) variance of the treatments of a unit, without what chance adds.
    blocks : (U,) complete blocks of each unit.
    n_permutations : how many were drawn.
    reason : why there are no components; the units may still have their tests.
    """

    components: dict[str, Component]
    unit_p: np.ndarray
    unit_variance: np.ndarray
    blocks: np.ndarray
    n_permutations: int
    reason: str = ""


FEWEST_FREE: Final = 2
"""Degrees of freedom from which on a component of variance has an interval."""


def crossed_variance(
    readings: Sequence[np.ndarray], *, n_permutations: int = 9_999, seed: int = 0, confidence: float = 0.95
) -> CrossedVariance:
    """Split the variance of readings, and test what treatments do by permuting them within each unit and block.

    ``readings`` : of each unit (T × blocks); a block that lacks a reading (NaN) is left out of its unit.

    Components are those of the analysis of variance, with unweighted means and the harmonic mean S of the units'
    numbers of blocks where these differ:

    ::

        σ²_γ = (MS_γ − MS_ε) / S         σ²_β = (MS_β − MS_γ) / (U S)         σ²_δ = (MS_δ − MS_ε) / T
        σ²_α = (MS_α − MS_δ − MS_γ + MS_ε) / (T S)

    Intervals: of γ, β and δ from Fisher's F of their ratio, of α Satterthwaite's, of ε from χ². Like the estimates,
    their ends may lie below 0. A component with a single degree of freedom, as β of two treatments, has none: its upper
    end would be some thousand times what was seen.

    Tests: labels of treatments are exchanged within each unit and block (a shared noise, or a number where there is
    none). Where treatments do nothing these are exchangeable, however the readings are spread, so p errs no more often
    than it says. Statistics are the sums of squares of γ and β; for γ what all units have in common is taken out of
    the readings first, so that a treatment which moves all units alike does not count. A unit's own statistic is
    the spread of its treatments' means. p = (1 + #{≥}) / (1 + N).

    Raises
    ------
    InvalidInputError
        No units, or readings of different numbers of treatments, or of one.
    """
    units = [np.asarray(each, np.float64) for each in readings]
    counts = {len(each) for each in units if each.ndim == 2}
    if not units or any(each.ndim != 2 for each in units) or len(counts) != 1 or min(counts) < 2:
        raise InvalidInputError.wrong_shape(
            "expected (treatments × blocks) of each unit, two treatments or more", field="readings"
        )
    units = [each[:, np.isfinite(each).all(axis=0)] for each in units]
    blocks = np.array([each.shape[1] for each in units])
    usable = [u for u in range(len(units)) if blocks[u] >= 2]
    variance = np.full(len(units), nan)
    for u in usable:
        effects = units[u].mean(axis=1)
        within = _residual(units[u])
        freedom = (len(effects) - 1) * (blocks[u] - 1)
        variance[u] = effects.var(ddof=1) - (within**2).sum() / freedom / blocks[u]
    unit_p, p_both, p_treatment = _permute(units, usable, n_permutations, seed)
    reason = "" if len(usable) > 1 else "it takes two units or more with two complete blocks each"
    components = dict.fromkeys(SOURCES, Component(nan))
    if not reason:
        components = _components([units[u] for u in usable], confidence, p_both, p_treatment)
    return CrossedVariance(components, unit_p, variance, blocks, n_permutations, reason)


def _residual(y: np.ndarray) -> np.ndarray:
    """Return what neither treatment nor block explains of a unit."""
    return np.asarray(y - y.mean(axis=1, keepdims=True) - y.mean(axis=0) + y.mean())


def _components(
    units: Sequence[np.ndarray], confidence: float, p_both: float, p_treatment: float
) -> dict[str, Component]:
    n_units, n = len(units), len(units[0])
    sizes = np.array([each.shape[1] for each in units])
    s = len(sizes) / (1 / sizes).sum()
    means = np.stack([each.mean(axis=1) for each in units])
    by_treatment, by_unit, over_all = means.mean(axis=0), means.mean(axis=1), means.mean()
    free = {
        "residual": int((n - 1) * (sizes - 1).sum()), "block": int((sizes - 1).sum()),
        "unit_treatment": (n_units - 1) * (n - 1), "treatment": n - 1, "unit": n_units - 1,
    }  # fmt: skip
    both = means - by_unit[:, None] - by_treatment + over_all
    square = {
        "residual": sum(float((_residual(each) ** 2).sum()) for each in units),
        "block": sum(n * float(((each.mean(axis=0) - each.mean()) ** 2).sum()) for each in units),
        "unit_treatment": s * float((both**2).sum()),
        "treatment": s * n_units * float(((by_treatment - over_all) ** 2).sum()),
        "unit": s * n * float(((by_unit - over_all) ** 2).sum()),
    }
    mean = {name: square[name] / free[name] for name in square}
    tails = (1 - confidence) / 2, (1 + confidence) / 2

    def ratio(name: str, below: str, times: float, p: float = nan) -> Component:
        f = mean[name] / mean[below] if mean[below] > 0 else inf
        quantiles = scipy.stats.f.ppf(tails[::-1], free[name], free[below])
        told = f < inf and free[name] >= FEWEST_FREE
        low, high = (mean[below] * (f / q - 1) / times if told else nan for q in quantiles)
        return Component((mean[name] - mean[below]) / times, low, high, p)

    parts = {"unit": 1, "block": -1, "unit_treatment": -1, "residual": 1}
    value = sum(sign * mean[name] for name, sign in parts.items()) / (n * s)
    spread = sum(mean[name] ** 2 / free[name] for name in parts) / (n * s) ** 2
    freedom = value**2 / spread if spread > 0 and value > 0 else 0.0
    unit_ends = [nan, nan]
    if freedom >= 1:  # below, the estimate is all but lost in what it is a difference of
        unit_ends = [freedom * value / q for q in scipy.stats.chi2.ppf(tails[::-1], freedom)]
    residual = [square["residual"] / q for q in scipy.stats.chi2.ppf(tails[::-1], free["residual"])]
    return {
        "unit": Component(value, *unit_ends),
        "treatment": ratio("treatment", "unit_treatment", n_units * s, p_treatment),
        "unit_treatment": ratio("unit_treatment", "residual", s, p_both),
        "block": ratio("block", "residual", n),
        "residual": Component(mean["residual"], *residual),
    }


def _permute(
    units: Sequence[np.ndarray], usable: Sequence[int], n_permutations: int, seed: int
) -> tuple[np.ndarray, float, float]:
    """Find p of each unit, of γ and of β; a unit draws from its own generator, so its p does not hang on the others."""
    unit_p = np.full(len(units), nan)
    if not usable:
        return unit_p, nan, nan
    n = len(units[0])
    seen = np.stack([units[u].mean(axis=1) for u in usable])
    common = seen.mean(axis=0) - seen.mean()
    plain, taken_out = (np.zeros((n_permutations, n)) for _ in range(2))
    squares = np.zeros(n_permutations)
    for u in usable:
        y = units[u] - units[u].mean(axis=0)
        rest = y - common[:, None]
        step = max(1, _PERMUTED_AT_ONCE // y.size)
        rng, own = np.random.default_rng([seed, u]), np.zeros(n_permutations)
        for first in range(0, n_permutations, step):
            stop = min(first + step, n_permutations)
            orders = rng.permuted(np.broadcast_to(np.arange(n), (stop - first, y.shape[1], n)), axis=2)
            means, residuals = (np.take_along_axis(each.T[None], orders, axis=2).mean(axis=1) for each in (y, rest))
            own[first:stop] = (means**2).sum(axis=1)
            plain[first:stop] += means
            taken_out[first:stop] += residuals
            squares[first:stop] += (residuals**2).sum(axis=1)
        observed = float((y.mean(axis=1) ** 2).sum())
        unit_p[u] = _p(own, observed)
    if len(usable) < 2:
        return unit_p, nan, nan
    centred = seen - seen.mean(axis=1, keepdims=True)
    both = centred - centred.mean(axis=0)
    total = sum(units[u].shape[1] for u in usable)  # what is taken out takes a degree of freedom of each treatment
    statistic = (squares - (taken_out**2).sum(axis=1) / len(usable)) * total / (total - 1)
    p_both = _p(statistic, float((both**2).sum()))
    return unit_p, p_both, _p((plain**2).sum(axis=1), float((centred.sum(axis=0) ** 2).sum()))


def _p(drawn: np.ndarray, observed: float) -> float:
    return float((1 + (drawn >= observed * (1 - 1e-12) - 1e-15).sum()) / (1 + len(drawn)))
