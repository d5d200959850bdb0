"""Tests and intervals for the means of a family of small samples, whose variances are shrunk towards a common fit.

Eight images of a concept that is drawn half as men, half as women are all of one kind once in 128 times. Their own
variance is then next to nothing, and a t-test takes chance for certainty. The other concepts of the run know better.
Three things are taken from them or from the hypothesis:

*The variance follows the mean.* Images that are of one of two kinds, at the poles ``c ± h``, vary by ``h² − (μ − c)²``
around a mean μ: less, the more they lean. Over the samples of the family the variance is fitted as ::

    V(μ) = b0 + b1 μ + b2 μ²,    −1 ≤ b2 ≤ 0              b2 = −1 for two kinds, 0 where it does not follow the mean

by least squares of ``s²`` on ``m`` and on ``m² − s²/n``, the unbiased estimate of μ².

*Each sample keeps as much of its own variance as the family scatters* (Smyth 2004, in the form of a mean of two
normal estimates), and all of it where nothing would be left at its mean::

    V_t(μ) = V(μ) + w (s_t² − V(m_t)),     w = τ² / (τ² + σ²)

with σ² the sampling variance of ``s_t² − V(m_t)``, from the samples' own third and fourth moments, and τ² what those
differences scatter beyond it.

*A hypothesis is judged by the variance that it implies* (Wilson 1927), drawn towards the estimate's by z² images, as
Agresti and Coull (1998) do for shares::

    t(θ)² = (θ̂ − θ)² / ( [(1 − λ) V_t(θ) + λ V_t(θ̂)] / n + v ),     λ = (n / (n + z²))²,   z = 1.96

v is what else the estimate is uncertain by. The interval holds all θ with ``t(θ)²`` below the square of Student's
quantile, so it leaves out 0 exactly where p of ``θ = 0`` is below 1 − confidence. Where the fit has a smaller variance
at 0 than at the estimate, that of the estimate serves throughout (λ = 1): a fit may not lend certainty to a leaning.
The degrees of freedom are those of the sample and ``PRIOR_FREEDOM`` more, joined with those of v (Welch,
Satterthwaite).

Families of fewer than ``FEWEST_SAMPLES`` have too little to fit: V_t(μ) is then s_t², with the degrees of freedom of
the sample alone. Simulations of all this stand in docs/simulations.md. See decision 1.

:func:`moderate` is Smyth's (2004) own: of the sample variances s², each with d degrees of freedom, the true ones are
taken to scatter as a scaled inverse χ² with d0 degrees of freedom around s0². Then the best guess of each is between
its own and the common one, and Student's t with it has the degrees of freedom of both::

    s̃² = (d0 s0² + d s²) / (d0 + d)        with d0 + d degrees of freedom
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import inf

import numpy as np
import scipy
from numpy.typing import ArrayLike

from clinometer.stats.arguments import require_confidence
from clinometer.stats.bootstrap import Interval, welch_satterthwaite

FEWEST_SAMPLES = 8
"""Samples of two items or more that a family needs for its variances to be fitted."""

PRIOR_FREEDOM = 4.0
"""Degrees of freedom that the family adds to those of a sample. 0 wastes power, 8 and 12 exceed the level in the
tails (docs/simulations.md)."""

NO_SPREAD = 1e-16
"""Variance of an estimate below which nothing varies: cosines of the same vectors differ in the ninth digit."""

_SHRINKAGE = float(scipy.stats.norm.ppf(0.975)) ** 2


@dataclass(frozen=True)
class SampleMoments:
    """Sizes, means and central moments (divided by n) of the samples of a family, each (T,); NaN without items."""

    size: np.ndarray
    mean: np.ndarray
    second: np.ndarray
    third: np.ndarray
    fourth: np.ndarray

    @property
    def count(self) -> np.ndarray:
        """Sizes to divide by: 1 for an empty sample, whose mean is NaN."""
        return np.asarray(np.maximum(self.size, 1))

    @property
    def variance(self) -> np.ndarray:
        """Unbiased variance of one item; NaN below two items."""
        unknown = np.full(self.size.shape, np.nan)
        return np.asarray(np.divide(self.size * self.second, self.size - 1, out=unknown, where=self.size > 1))


def moments_of(samples: Sequence[np.ndarray]) -> SampleMoments:
    """Return the moments of T samples (n_t,), which may be empty."""
    moments = np.full((4, len(samples)), np.nan)
    for i, sample in enumerate(samples):
        values = np.asarray(sample, np.float64)
        if len(values):
            deviations = values - values.mean()
            moments[:, i] = values.mean(), *(np.mean(deviations**power) for power in (2, 3, 4))
    return SampleMoments(np.array([len(sample) for sample in samples], np.float64), *moments)


@dataclass(frozen=True)
class VarianceTrend:
    """The variance of an item by the mean of its sample, ``b0 + b1 μ + b2 μ²``, and how far samples stray.

    ``own_share`` : w, the share of its own deviation from the trend that a sample keeps.
    """

    intercept: float
    slope: float
    curvature: float
    own_share: float


@dataclass(frozen=True)
class MeanTests:
    """Estimates of a family, each the mean of a sample plus an offset, ready to be tested; see the module.

    ::

        θ̂_t = m_t + offset_t,     Var θ̂_t = V_t / n_t + v_t

    Attributes
    ----------
    moments : of the samples (T,).
    offset : (T,) what is added to the sample means.
    other : v_t (T,), variance of θ̂_t from anything but its sample; ``other_freedom`` its degrees of freedom.
    trend : of the variance over the family; None where the family is too small.
    """

    moments: SampleMoments
    offset: np.ndarray
    other: np.ndarray
    other_freedom: np.ndarray
    trend: VarianceTrend | None

    @property
    def value(self) -> np.ndarray:
        """θ̂ (T,)."""
        return np.asarray(self.moments.mean + self.offset)

    @cached_property
    def standard_error(self) -> np.ndarray:
        """Standard error of θ̂, with the variance at the estimate: (T,)."""
        return np.asarray(np.sqrt(self._own / self.moments.count + self.other))

    @cached_property
    def freedom(self) -> np.ndarray:
        """Degrees of freedom ν of the test of θ = 0, which serve the intervals too: (T,)."""
        return welch_satterthwaite(self.variance_parts(np.zeros_like(self.value)))

    def variance_parts(self, hypothesis: np.ndarray) -> list[tuple[np.ndarray, np.ndarray]]:
        """Return the parts of the variance of θ̂ if θ were so, the sample's and the other, with degrees of freedom."""
        own = self.moments.size - 1 + (0.0 if self.trend is None else PRIOR_FREEDOM)
        return [(self._under(hypothesis) / self.moments.count, own), (self.other, self.other_freedom)]

    @cached_property
    def p_value(self) -> np.ndarray:
        """Two-sided p of θ = 0 (T,); NaN where nothing varies or the spread of a part is unknown."""
        statistic = self._statistic(np.zeros_like(self.value))
        return np.asarray(2 * scipy.special.stdtr(self.freedom, -np.abs(statistic)))

    def p_outside(self, margin: float) -> np.ndarray:
        """Find p of |θ| ≥ margin, by two one-sided tests (Schuirmann 1987): the larger of both, (T,)."""
        edges = np.full_like(self.value, margin)
        above, below = self._statistic(-edges), self._statistic(edges)
        return np.asarray(scipy.special.stdtr(self.freedom, np.maximum(-above, below)))

    def interval(self, confidence: float = 0.95) -> Interval:
        """Return the interval of θ that the test does not reject: the roots of a quadratic in the hypothesised mean."""
        require_confidence(confidence)
        reach = scipy.special.stdtrit(self.freedom, (1 + confidence) / 2) ** 2
        intercept, slope, curvature = self._coefficients
        m, n, drawn = self.moments.mean, self.moments.count, self._shrinkage
        share = reach * (1 - drawn) / n
        a, half_b = 1 - share * curvature, m + share * slope / 2
        c = m**2 - share * intercept - reach * (drawn * self._own / n + self.other)
        root = np.sqrt(np.maximum(half_b**2 - a * c, 0.0))
        low, high = (np.where(self._varies, (half_b + sign * root) / a + self.offset, np.nan) for sign in (-1, 1))
        return Interval(low, high)

    def with_other(self, variance: np.ndarray, freedom: ArrayLike) -> MeanTests:
        """Return the same with one more source of variance, (T,), of so many degrees of freedom."""
        joint = welch_satterthwaite([(self.other, self.other_freedom), (variance, freedom)])
        return replace(self, other=self.other + variance, other_freedom=joint)

    def with_only(self, variance: np.ndarray, freedom: ArrayLike) -> MeanTests:
        """Return the same with this one other source of variance, (T,), in place of those it had."""
        return replace(
            self, other=variance, other_freedom=np.broadcast_to(np.asarray(freedom, np.float64), variance.shape)
        )

    def moved(self, shift: ArrayLike) -> MeanTests:
        """Return the same with estimates that lie elsewhere by ``shift``, (T,), as sure as they were."""
        return replace(self, offset=self.offset + shift)

    def _statistic(self, hypothesis: np.ndarray) -> np.ndarray:
        error = np.sqrt(self._under(hypothesis) / self.moments.count + self.other)
        beyond = np.where(self._varies, np.copysign(np.inf, self.value - hypothesis), np.nan)
        return np.asarray(np.divide(self.value - hypothesis, error, out=beyond, where=self._varies & (error > 0)))

    @cached_property
    def _varies(self) -> np.ndarray:
        """Where there is a spread at all: what is alike to eight digits has none."""
        return np.asarray(self._under(np.zeros_like(self.value)) / self.moments.count + self.other > NO_SPREAD)

    def _under(self, hypothesis: np.ndarray) -> np.ndarray:
        """Return the variance of an item that judges θ = ``hypothesis``."""
        implied = _quadratic(self._coefficients, hypothesis - self.offset)
        return np.asarray((1 - self._shrinkage) * np.maximum(implied, 0.0) + self._shrinkage * self._own)

    @cached_property
    def _shrinkage(self) -> np.ndarray:
        """λ (T,)."""
        at_parity = _quadratic(self._coefficients, -self.offset)
        return np.where(at_parity < self._own, 1.0, (self.moments.size / (self.moments.size + _SHRINKAGE)) ** 2)

    @cached_property
    def _own(self) -> np.ndarray:
        """V_t at the estimate (T,); rounding may leave less than nothing of a variance of 0."""
        return np.asarray(np.maximum(_quadratic(self._coefficients, self.moments.mean), 0.0))

    @cached_property
    def _coefficients(self) -> tuple[np.ndarray, float, float]:
        """Intercepts (T,), slope and curvature of V_t, which is the sample's own variance where the fit leaves none."""
        m, variance = self.moments.mean, self.moments.variance
        if self.trend is None:
            return variance, 0.0, 0.0
        slope, curvature = self.trend.slope, self.trend.curvature
        intercept = self.trend.intercept + self.trend.own_share * _residual(self.moments, self.trend)
        beneath = slope * m + curvature * m**2
        return np.where(intercept + beneath > 0, intercept, variance - beneath), slope, curvature


@dataclass(frozen=True)
class DifferenceTests:
    """Differences of two families of independent estimates, second minus first, by Student's t.

    ::

        Δ_t = θ̂_2t − θ̂_1t,     se² = Σ_k [ V_kt under (θ̂_1t + θ̂_2t)/2 ] / n_kt + v_kt + v_t

    Both variances are those that equal means would imply, so that few images of one kind do not make a difference
    certain. v_t is what both have in common and that differs between them, such as words.
    """

    value: np.ndarray
    standard_error: np.ndarray
    freedom: np.ndarray

    @property
    def p_value(self) -> np.ndarray:
        """Two-sided p of no difference; NaN where nothing varies, 1 where nothing differs either."""
        size = np.divide(np.abs(self.value), self.standard_error, out=self._without_spread, where=self._varies)
        return np.asarray(2 * scipy.special.stdtr(self.freedom, -size))

    def p_outside(self, margin: float) -> np.ndarray:
        """Return P of |Δ| ≥ margin, by two one-sided tests."""
        inside = np.divide(
            margin - np.abs(self.value), self.standard_error, out=self._without_spread, where=self._varies
        )
        return np.asarray(scipy.special.stdtr(self.freedom, -np.where(self._varies, inside, np.inf * np.sign(margin))))

    def interval(self, confidence: float = 0.95) -> Interval:
        """Return all differences that the test does not reject."""
        require_confidence(confidence)
        half = scipy.special.stdtrit(self.freedom, (1 + confidence) / 2) * self.standard_error
        return Interval(self.value - half, self.value + half)

    @property
    def _varies(self) -> np.ndarray:
        return np.asarray(self.standard_error**2 > NO_SPREAD)

    @property
    def _without_spread(self) -> np.ndarray:
        """Student's t where nothing varies: 0 of no difference, else unknown."""
        return np.where(self.value**2 <= NO_SPREAD, 0.0, np.nan)


def difference_tests(
    first: MeanTests, second: MeanTests, shared: ArrayLike = 0.0, freedom: ArrayLike = np.inf
) -> DifferenceTests:
    """Return the differences of two families of equal size; ``shared`` is v above, with its degrees of freedom."""
    middle = (first.value + second.value) / 2
    parts = [part for family in (first, second) for part in family.variance_parts(middle)]
    shared = np.broadcast_to(np.asarray(shared, np.float64), middle.shape)
    parts.append((shared, np.broadcast_to(np.asarray(freedom, np.float64), middle.shape)))
    total = np.sum([variance for variance, _ in parts], axis=0)
    return DifferenceTests(second.value - first.value, np.sqrt(total), welch_satterthwaite(parts))


def mean_tests(
    samples: Sequence[np.ndarray],
    offset: ArrayLike,
    other: ArrayLike,
    other_freedom: ArrayLike,
    *,
    moderated: bool = True,
) -> MeanTests:
    """Return tests of the means of a family of samples (n_t,), each plus an offset with a variance of its own.

    ``offset``, ``other``, ``other_freedom`` : (T,) or one for all. A sample of one item has no spread, and NaN comes of
    it. Not ``moderated``, each sample has its own variance alone, however many there are.
    """
    moments = moments_of(samples)
    offset, other, other_freedom = (
        np.broadcast_to(np.asarray(x, np.float64), moments.mean.shape) for x in (offset, other, other_freedom)
    )
    trend = _trend_of(moments) if moderated else None
    return MeanTests(moments, offset, other, other_freedom, trend)


def _trend_of(moments: SampleMoments) -> VarianceTrend | None:
    is_usable = (moments.size > 1) & np.isfinite(moments.mean)  # what an encoder cannot give, such as cosines of words
    if is_usable.sum() < FEWEST_SAMPLES:
        return None
    family = SampleMoments(
        *(getattr(moments, name)[is_usable] for name in ("size", "mean", "second", "third", "fourth"))
    )
    m, variance = family.mean, family.variance
    square = m**2 - variance / family.size
    weights = np.sqrt(family.size - 1)
    coefficients = _least_squares([np.ones_like(m), m, square], variance, weights)
    if coefficients[2] >= 0:
        coefficients = np.array([np.average(variance, weights=weights**2), 0.0, 0.0])
    elif coefficients[2] < -1:
        coefficients = np.append(_least_squares([np.ones_like(m), m], variance + square, weights), -1.0)
    intercept, slope, curvature = map(float, coefficients)
    trend = VarianceTrend(intercept, slope, curvature, own_share=1.0)
    # w: what the residuals scatter beyond their sampling error, as a share of all they scatter. A residual is the mean
    # of (1 + b2/n) (y − m)² − (b1 + 2 b2 m) (y − m) over the items, to first order, whose variance is a polynomial of
    # the central moments
    n, scale = family.size, 1 + trend.curvature / family.count
    gradient = trend.slope + 2 * trend.curvature * family.mean
    item = (
        scale**2 * (family.fourth - family.second**2)
        - 2 * scale * gradient * family.third
        + gradient**2 * family.second
    )
    sampling = float(np.mean(item / (n - 1)))
    fitted = 3 if trend.curvature < 0 else 1
    beyond = float(np.square(_residual(family, trend)).sum() / (len(n) - fitted)) - sampling
    return replace(trend, own_share=beyond / (beyond + sampling) if beyond > 0 else 0.0)


def _least_squares(columns: Sequence[np.ndarray], values: np.ndarray, weights: np.ndarray) -> np.ndarray:
    return np.asarray(np.linalg.lstsq(np.stack(columns, axis=1) * weights[:, None], values * weights, rcond=None)[0])


def _residual(moments: SampleMoments, trend: VarianceTrend) -> np.ndarray:
    """``s² − V(m)`` with the unbiased estimate of μ² in the place of m²: (T,)."""
    m, variance = moments.mean, moments.variance
    at_own = trend.intercept + trend.slope * m + trend.curvature * (m**2 - variance / moments.count)
    return np.asarray(variance - at_own)


def _quadratic(coefficients: tuple[np.ndarray, float, float], mean: np.ndarray) -> np.ndarray:
    intercept, slope, curvature = coefficients
    return np.asarray(intercept + slope * mean + curvature * mean**2)


@dataclass(frozen=True)
class Prior:
    """The scatter of variances of a family: around ``variance``, with ``freedom`` degrees (infinite: all alike)."""

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


def moderate(variances: np.ndarray, freedom: np.ndarray, prior: Prior) -> tuple[np.ndarray, np.ndarray]:
    """Return s̃² and its degrees of freedom, at most those of all samples; NaN where a sample has no variance."""
    s2, d = np.asarray(variances, np.float64), np.asarray(freedom, np.float64)
    has_variance = np.isfinite(s2) & (d > 0)
    total = float(d[has_variance].sum())
    if prior.freedom == inf:
        return np.where(has_variance, prior.variance, np.nan), np.where(has_variance, total, np.nan)
    s2 = np.where(has_variance, s2, np.nan)
    both = prior.freedom + d
    posterior = np.divide(prior.freedom * prior.variance + d * s2, both, out=np.full(s2.shape, np.nan), where=both > 0)
    return posterior, np.where(has_variance, np.minimum(both, total), np.nan)
