"""Tests and intervals for means of small, skewed samples between known bounds.

Twenty images of which one in ten shows a rare kind hold none of it in 12 of 100 cases. Their spread is then next to
nothing, no matter how many concepts lend each other their variances, and Student's t takes chance for certainty. What
the sample cannot show is how far an image *might* have scored; the groups' own attribute images can. Gaffke (2005)
adds one item at that bound and weighs all items by a flat Dirichlet distribution::

    U = Σ_i D_i z_i + D_{n+1} high + e,      L = Σ_i D_i z_i + D_{n+1} low + e        D ~ Dirichlet(1, …, 1)
    p = 2 min( P(U ≥ θ), P(L ≤ θ) ),         interval: [α/2 quantile of L, 1 − α/2 quantile of U]

z are the items of a sample, low and high what an item may score (widened to the sample's own range), and e is normal
with the variance of whatever else the estimate is uncertain by. Of items of two kinds the interval is that of Clopper
and Pearson; no distribution between the bounds is known for which it covers too little (Learned-Miller and Thomas
2020). Test and interval are one, so p is below 1 − confidence exactly where the interval leaves out θ. No family is
needed, so a sample's result does not depend on which others were measured.

With D_i = E_i / Σ E and E_i exponential, ``U ≥ θ`` is ``Σ E_i (z_i − θ) ≥ 0``: a sum of independent terms, whose tail
the saddlepoint gives to three digits (Barndorff-Nielsen's r*)::

    K(s) = −Σ log(1 − s c_i) + s² (n + 1)² v / 2,    c_i = z_i − θ,    K'(ŝ) = 0
    w = sign(ŝ) √(−2 K(ŝ)),   u = ŝ √K''(ŝ),   r* = w + log(u / w) / w,    P(Σ ≥ 0) = 1 − Φ(r*)

Simulations of all this stand in docs/simulations.md.

References
----------
Gaffke, N. (2005). Three test statistics for a nonparametric one-sided hypothesis on the mean of a nonnegative variable.
Learned-Miller, E., & Thomas, P. (2020). A new confidence interval for the mean of a bounded random variable. See
decision 2.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import scipy
from numpy.typing import ArrayLike

from clinometer.stats.arguments import require_confidence
from clinometer.stats.bootstrap import Interval, welch_satterthwaite

TEST = "Gaffke's test over images, two-sided"
"""What the p-value takes for chance, in tables."""

NO_SPREAD = 1e-16
"""Variance of an estimate below which nothing varies: cosines of the same vectors differ in the ninth digit."""

_AT_ONCE = 1 << 20
"""Items that are worked on together."""

_CLOSE = 1e-10
"""How near to its quantile, in standard normal units, an end of an interval must be."""

_EXACT = 1e-14
"""How near to ŝ, of how far it is from 0 and from the pole, is as near as rounding allows."""

_NEAR_MEAN = 1e-5
"""|w| below which r* is expanded around the mean, where its quotient is 0 / 0."""


@dataclass(frozen=True)
class BoundedMeans:
    """Estimates of T samples, each a mean plus an offset, ready to be tested; see the module.

    Attributes
    ----------
    samples : T samples (n_t,), which may be empty. With fewer than two items, or where nothing varies, p and interval
        are NaN.
    bounds : (T × 2), what an item may score.
    offset : (T,) what is added to the means.
    other : (T,) variance of the estimate from anything but its sample; ``other_freedom`` its degrees of freedom.
    """

    samples: Sequence[np.ndarray]
    bounds: np.ndarray
    offset: np.ndarray
    other: np.ndarray
    other_freedom: np.ndarray

    @cached_property
    def value(self) -> np.ndarray:
        """θ̂ (T,); NaN without items."""
        return np.asarray(np.array([x.mean() if len(x) else np.nan for x in self.samples]) + self.offset)

    @cached_property
    def standard_error(self) -> np.ndarray:
        """Standard error of θ̂ by the samples' own variances: (T,)."""
        own = np.array([x.var(ddof=1) / len(x) if len(x) > 1 else np.nan for x in self.samples])
        return np.asarray(np.sqrt(own + self.other))

    @property
    def p_value(self) -> np.ndarray:
        """Two-sided p of θ = 0: (T,)."""
        zero = np.zeros(len(self.samples))
        return np.asarray(np.minimum(1.0, 2 * np.min(self._one_sided(zero, zero), axis=0)))

    def p_outside(self, margin: float) -> np.ndarray:
        """Find p of |θ| ≥ margin, by two one-sided tests (Schuirmann 1987): the larger of both, (T,)."""
        edge = np.full(len(self.samples), float(margin))
        return np.asarray(np.max(self._one_sided(-edge, edge), axis=0))

    def interval(self, confidence: float = 0.95) -> Interval:
        """Return all θ that the test does not reject."""
        require_confidence(confidence)
        reach = float(scipy.special.ndtri((1 + confidence) / 2))
        ends = np.full((2, len(self.samples)), np.nan)
        for part, items, there, noise in self._parts():
            ends[:, part] = _quantile(items, there, noise, np.repeat([-reach, reach], len(part))).reshape(2, -1)
        return Interval(*ends)

    def with_other(self, variance: np.ndarray, freedom: ArrayLike) -> BoundedMeans:
        """Return the same with one more source of variance, (T,), of so many degrees of freedom."""
        joint = welch_satterthwaite([(self.other, self.other_freedom), (variance, freedom)])
        return replace(self, other=self.other + variance, other_freedom=joint)

    def filled(self, counts: Sequence[int], side: int) -> BoundedMeans:
        """Return the same with so many items more in each sample, all at the lower (``side`` 0) or at the upper bound.

        A sample without items stays so.
        """
        ends = np.asarray(self.bounds)[:, side]
        samples = [
            np.append(x, np.full(n, end)) if n and len(x) else x
            for x, n, end in zip(self.samples, counts, ends, strict=True)
        ]
        return replace(self, samples=samples)

    def moved(self, shift: np.ndarray) -> BoundedMeans:
        """Return the same with estimates that lie elsewhere by ``shift``, (T,), as sure as they were."""
        return replace(self, offset=self.offset + shift)

    def _one_sided(self, low: np.ndarray, high: np.ndarray) -> np.ndarray:
        """Find p that the mean is ``low`` or less, P(L ≤ θ), and that it is ``high`` or more, P(U ≥ θ): (2 × T)."""
        scores = np.full((2, len(self.samples)), np.nan)
        for part, items, there, noise in self._parts():
            theta = np.concatenate([low[part], high[part]])
            scores[:, part] = normal_score(items, there, noise, theta).reshape(2, -1)
        scores[1] *= -1
        return np.asarray(scipy.special.ndtr(scores))

    def _parts(self) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]]:
        """List samples that have a spread, those of like size together, with one item more at either bound.

        Which ones; their items and one at the lower bound, and under these their items and one at the upper; which of
        the items are there; and the variance of the noise.
        """
        error = self.standard_error
        usable = np.flatnonzero(np.isfinite(error) & (error**2 > NO_SPREAD))
        # As an interval of Student's t would, few degrees of freedom widen the normal error.
        wider = scipy.special.stdtrit(self.other_freedom, 0.975) / scipy.special.ndtri(0.975)
        noise = np.where(self.other > 0, self.other * wider**2, 0.0)
        sizes = np.array([len(x) + 1 for x in self.samples])
        usable = usable[np.argsort(sizes[usable], kind="stable")]
        while len(usable):
            together = sizes[usable] * np.arange(1, len(usable) + 1)
            part, usable = np.split(usable, [max(1, int(np.searchsorted(together, _AT_ONCE, side="right")))])
            there = np.arange(sizes[part].max()) < sizes[part][:, None]
            items = np.zeros((2, *there.shape))
            for row, t in enumerate(part.tolist()):
                x, n, offset = np.asarray(self.samples[t], np.float64), sizes[t] - 1, self.offset[t]
                items[:, row, :n] = x + offset
                items[0, row, n] = min(self.bounds[t, 0], x.min()) + offset
                items[1, row, n] = max(self.bounds[t, 1], x.max()) + offset
            yield part, items.reshape(-1, there.shape[1]), np.tile(there, (2, 1)), np.tile(noise[part], 2)


def bounded_means(
    samples: Sequence[np.ndarray], bounds: ArrayLike, offset: ArrayLike, other: ArrayLike, other_freedom: ArrayLike
) -> BoundedMeans:
    """Return tests of the means of samples (n_t,) between bounds, each plus an offset with a variance of its own.

    ``bounds`` : (T × 2) or (2,). ``offset``, ``other``, ``other_freedom`` : (T,) or one for all.

    Examples
    --------
    Eight of ten images show one kind, as in Clopper and Pearson's test of a share:

    >>> tests = bounded_means([np.repeat([1.0, -1.0], [8, 2])], (-1, 1), 0.0, 0.0, np.inf)
    >>> tests.p_value.round(2)
    array([0.11])
    """
    n = len(samples)
    offset, other, other_freedom = (
        np.broadcast_to(np.asarray(x, np.float64), (n,)) for x in (offset, other, other_freedom)
    )
    return BoundedMeans(samples, np.broadcast_to(np.asarray(bounds, np.float64), (n, 2)), offset, other, other_freedom)


def normal_score(
    items: np.ndarray, times: np.ndarray, noise: np.ndarray, theta: np.ndarray, close: float = _EXACT
) -> np.ndarray:
    """Return r*, whose Φ is the probability that the weighted mean of each row is at most ``theta``; see the module.

    ``times`` : how often each item is there. ``close`` : how near to ŝ is near enough, of how far it is from 0 and from
    the pole.
    """
    return _saddlepoint(items, times, noise, theta, close=close).score


@dataclass(frozen=True)
class _Saddlepoint:
    """r* and ŝ of each row (rows,), and of which terms they are made (rows × items)."""

    score: np.ndarray
    root: np.ndarray
    w: np.ndarray
    times: np.ndarray
    tilts: np.ndarray
    terms: np.ndarray
    second: np.ndarray

    def rises(self) -> tuple[np.ndarray, np.ndarray]:
        """Return dr*/dθ and dŝ/dθ, (rows,) each.

        With a = 1 / (1 − ŝ c), ::

            dŝ/dθ = Σ a² / K″,    dw/dθ = ŝ Σ a / w,    d log u/dθ = dŝ/dθ / ŝ + (K‴ dŝ/dθ / 2 − Σ c a³) / K″
        """
        third = 2 * (self.times * self.terms**3).sum(axis=1)
        tilts = (self.times * self.tilts).sum(axis=1)
        with np.errstate(divide="ignore", invalid="ignore"):
            root = (self.times * np.square(self.tilts)).sum(axis=1) / self.second
            w = self.root * tilts / self.w
            bent = (self.times * self.terms * np.square(self.tilts)).sum(axis=1)
            u = root / self.root + (third * root / 2 - bent) / self.second
            log_ratio = np.log(self.root * np.sqrt(self.second) / self.w)
            score = w + (u - w / self.w) / self.w - log_ratio * w / self.w**2
        return np.where(np.abs(self.w) < _NEAR_MEAN, tilts / np.sqrt(self.second), score), root


def _saddlepoint(
    items: np.ndarray, times: np.ndarray, noise: np.ndarray, theta: np.ndarray,
    start: np.ndarray | float = 0.0, close: float = _EXACT,
) -> _Saddlepoint:  # fmt: skip
    """Evaluate r* at ``theta``, looking for ŝ from ``start``; where that is 0, from the middle of its bracket."""
    times = np.asarray(times, np.float64)
    c = np.where(times > 0, items - theta[:, None], 0.0)
    scale = np.abs(c).max(axis=1)
    scale = np.where(scale > 0, scale, 1.0)
    c = c / scale[:, None]
    spread = times.sum(axis=1) ** 2 * noise / scale**2
    s = _root(c, times, spread, start * scale, close)
    tilts = 1 / (1 - s[:, None] * c)
    terms = c * tilts
    second = (times * np.square(terms)).sum(axis=1) + spread
    w = np.sign(s) * np.sqrt(np.maximum(2 * (times * np.log1p(-s[:, None] * c)).sum(axis=1) - s**2 * spread, 0.0))
    with np.errstate(divide="ignore", invalid="ignore"):
        score = w + np.log(s * np.sqrt(second) / w) / w
    near_mean = np.abs(w) < _NEAR_MEAN
    score = np.where(near_mean, w + (times * terms**3).sum(axis=1) / np.maximum(second, 1e-300) ** 1.5 / 3, score)
    # Without noise, a θ beyond all items is certain.
    beyond = np.where((c <= 0).all(axis=1), np.inf, np.where((c >= 0).all(axis=1), -np.inf, 0.0))
    score = np.where((spread == 0) & (beyond != 0), beyond, score)
    return _Saddlepoint(score, s / scale, w, times, tilts, terms * scale[:, None], second * scale**2)


def _root(c: np.ndarray, times: np.ndarray, spread: np.ndarray, start: np.ndarray, close: float) -> np.ndarray:
    """Return the root ŝ of K'(s) = Σ c/(1 − s c) + s·spread of each row, by Newton's steps held within a bracket.

    K' rises between 1/min c and 1/max c, and by at least ``spread`` a unit of s: the root lies between 0 and −K'(0) /
    spread.
    """
    slope = (times * c).sum(axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        by_spread = np.where(spread > 0, np.abs(slope) / spread, np.inf)
        end = np.where(slope < 0, 1 / np.maximum(c.max(axis=1), 0.0), 1 / np.maximum(-c.min(axis=1), 0.0))
    far = np.minimum(end, by_spread)
    sign = np.where(slope < 0, 1.0, -1.0)
    usable = np.isfinite(far) & (slope != 0)
    near, far = np.zeros(len(c)), np.where(usable, far, 0.0)
    s = np.where((sign * start > 0) & (sign * start < far), sign * start, far / 2)
    done = np.zeros(len(c), bool)
    for _ in range(200):
        terms = c / (1 - (sign * s)[:, None] * c)
        weighted = times * terms
        value = sign * (weighted.sum(axis=1) + sign * s * spread)  # rises with s, from −|slope|
        near, far = np.where(value < 0, s, near), np.where(value < 0, far, s)
        step = s - value / ((weighted * terms).sum(axis=1) + spread)
        following = np.where((step > near) & (step < far), step, (near + far) / 2)
        room = np.minimum(s, end - s)
        # What is left after a step of Newton's is of the order of its square; where the step is within the rounding,
        # halving the bracket would go on some forty times.
        last = (np.abs(step - s) <= np.sqrt(close) * room) | (np.abs(following - s) <= 4e-16 * s)
        s = np.where(done | (last & (step != following)), s, following)
        done |= last
        if done.all():
            break
    return sign * s


def _quantile(items: np.ndarray, there: np.ndarray, noise: np.ndarray, score: np.ndarray) -> np.ndarray:
    """Find the θ of each row at which r* is its ``score``, by Newton's steps held within a bracket."""
    sd = np.sqrt(noise)
    low = np.where(there, items, np.inf).min(axis=1) - (np.abs(score) + 3) * sd
    high = np.where(there, items, -np.inf).max(axis=1) + (np.abs(score) + 3) * sd
    n = there.sum(axis=1)
    mean = np.where(there, items, 0.0).sum(axis=1) / n
    deviation = np.where(there, items - mean[:, None], 0.0)
    theta = mean + score * np.sqrt(np.square(deviation).sum(axis=1) / n**2 + noise)
    theta = np.where((theta > low) & (theta < high), theta, (low + high) / 2)
    start = np.zeros(len(items))
    for _ in range(100):
        at = _saddlepoint(items, there, noise, theta, start)
        off = at.score - score
        low, high = np.where(off < 0, theta, low), np.where(off < 0, high, theta)
        done = (np.abs(off) <= _CLOSE) | (high - low <= 1e-15 * (np.abs(low) + np.abs(high)))
        if done.all():
            break
        with np.errstate(divide="ignore", invalid="ignore"):
            rise, root_rise = at.rises()
            step = theta - off / rise
        inside = np.isfinite(step) & (step > low) & (step < high)
        following = np.where(done, theta, np.where(inside, step, (low + high) / 2))
        start = at.root + root_rise * (following - theta)
        theta = following
    return np.asarray(theta)
