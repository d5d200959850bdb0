"""Prediction-powered shares: a reader judges every item, people judge some, and the reader's error is subtracted.

With readings f of all N items and people's answers y of n of them, drawn at random (Angelopoulos et al. 2023,
*Prediction-powered inference*; Angelopoulos, Duchi & Zrnic 2023, *PPI++*, whose λ makes the variance least)::

    θ = λ · mean_N f + mean_n (y − λ f)

The rated items are among the N, so the variance is that of double sampling: what the draw of N items adds, and what the
draw of n of them adds::

    V = var(y) / N + Σ_h W_h² (1/n_h − 1/N_h) var_h(y − λ f) + V_raters        W_h = N_h / N

over the strata h in which the rated items were drawn (one, for a simple random sample). With one stratum this is PPI++
of the n rated and the N − n others. The interval is Wilson's at the number of answers that would be as good,

::

    n_eff = θ (1 − θ) / V

so a useless reader leaves Wilson's interval of people alone. Part of an answer is added to each corner of (y, f) before
the variances are formed: readings that never erred in 30 items may still err in one of 20. It is

::

    15 / (4 n θ (1 − θ)),  not below 0.1 nor above 1

half an answer of 30 even ones, and less of many, which say more of the reader themselves.

An answer may be neither yes nor no. θ is then the share of yes among those that are either, a ratio of two such
estimates, and V is that of its linear part, (y − θ) d / mean d, where d says whether an answer is one of the two. See
decision 11.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from math import inf, isfinite, nan

import numpy as np
import scipy
from numpy.typing import ArrayLike

from clinometer.errors import InvalidInputError
from clinometer.stats.arguments import require_confidence
from clinometer.stats.proportion import wilson_at

GUARD = 15.0
LEAST_ADDED, MOST_ADDED = 0.1, 1.0
"""What is added to each corner of (y, f), and its bounds, in answers; chosen by simulation."""


@dataclass(frozen=True)
class RatedShare:
    """A share by people, with or without a reader's help; NaN with a ``reason`` where it has none.

    Attributes
    ----------
    value, low, high : in [0, 1].
    n, n_all : items rated, and items read.
    weight : λ, the weight of the readings; 0 without a reader.
    effective : n_eff, the answers of people alone that would be as good.
    growing, fixed : n_eff⁻¹ is ``growing / g + fixed`` with g times as many rated items.
    freedom : degrees of freedom of what raters add to the variance; infinite with one rater.
    """

    value: float
    low: float
    high: float
    n: int
    n_all: int
    weight: float = 0.0
    effective: float = nan
    growing: float = nan
    fixed: float = nan
    freedom: float = inf
    reason: str = ""


@dataclass(frozen=True)
class _Sample:
    """Rated items, checked.

    ``ratings`` (raters × n) are 1, 0 or between, NaN without a rating; ``outside`` says which are neither yes nor no.
    ``readings`` and ``strata`` are (n,), ``sizes`` (H,).
    """

    ratings: np.ndarray
    outside: np.ndarray
    readings: np.ndarray
    strata: np.ndarray
    sizes: np.ndarray

    @cached_property
    def yes(self) -> np.ndarray:
        """(n,) how many of an item's ratings are yes."""
        return np.asarray(np.nanmean(np.where(self.outside, 0.0, self.ratings), axis=0))

    @cached_property
    def inside(self) -> np.ndarray:
        """(n,) how many of an item's ratings are yes or no."""
        return np.asarray(np.nanmean(np.where(np.isfinite(self.ratings), ~self.outside, np.nan), axis=0))

    @cached_property
    def counts(self) -> np.ndarray:
        """(H,) rated items of each stratum."""
        return np.bincount(self.strata, minlength=len(self.sizes))

    @cached_property
    def corner(self) -> float:
        """The weight added to each corner of (y, f); θ is that of people, with one answer more of either kind."""
        n = len(self.readings)
        share = (n * float(self.item_weights @ self.yes) + 1) / (n * float(self.item_weights @ self.inside) + 2)
        return min(max(GUARD / (4 * n * share * (1 - share)), LEAST_ADDED), MOST_ADDED)

    @property
    def shares(self) -> np.ndarray:
        """(H,) of all items."""
        return np.asarray(self.sizes / self.sizes.sum())

    @property
    def item_weights(self) -> np.ndarray:
        """(n,) what an item weighs in a mean over the strata; sums to 1."""
        return np.asarray((self.shares / self.counts)[self.strata])

    def within(self, values: np.ndarray) -> np.ndarray:
        """(n,) distance of each item's value from the mean of its stratum."""
        means = np.bincount(self.strata, values, len(self.sizes)) / np.maximum(self.counts, 1)
        return np.asarray(values - means[self.strata])


def rated_share(
    ratings: ArrayLike,
    readings: ArrayLike | None = None,
    unrated: ArrayLike | None = None,
    *,
    outside: ArrayLike | None = None,
    strata: ArrayLike | None = None,
    sizes: ArrayLike | None = None,
    n_all: int | None = None,
    confidence: float = 0.95,
) -> RatedShare:
    """Return the share of yes among all items, from the ratings of some and the readings of all; the module's formulas.

    Parameters
    ----------
    ratings : (raters, n) in [0, 1], NaN where a rater did not rate; an item's answer is the mean of its ratings. One
        list is one rater, or raters that are not distinguished.
    readings, unrated : (n,) and (N − n,) in [0, 1]: what the reader says of the rated items and of the others. Without
        them the share is people's alone.
    outside : (raters, n) True where a rating is neither yes nor no.
    strata, sizes : (n,) whole numbers from 0 and (H,) N_h, where items were drawn at random within strata.
    n_all : N, where nothing was read; without it N is without bound.

    Returns
    -------
    RatedShare
        NaN where nothing was rated, nothing of a stratum, or nothing yes or no.

    Several raters are a sample of R raters (Owen 2007, *The pigeonhole bootstrap*). What they add to the variance is
    estimated from the sums s_j of rater j's terms, each a rating's distance from its item's mean, weighed as in θ::

        V_raters = c ( max(0, Σ_j s_j² − Σ_ij terms²) + Σ_ij terms² / (R − 1) ) · (t_{R−1} / z)²

    c makes it right for raters who differ by a bias each. The second term is the error of the first: two raters may
    agree by chance, so where no difference is seen Student's t still allows for one. Where most items have a single
    rater, terms are the residuals of the reader's line instead, and c is R / (R − 1).

    >>> share = rated_share([1, 1, 0, 0] * 25, [1, 1, 0, 0] * 25, [1, 0, 0, 0] * 100)
    >>> round(share.value, 3), round(share.weight, 3)
    (0.3, 1.0)

    Raises
    ------
    InvalidInputError
        Numbers outside of [0, 1], or lists of other lengths.
    """
    require_confidence(confidence)
    table = np.atleast_2d(np.asarray(ratings, np.float64))
    _require_unit("ratings", table[np.isfinite(table)])
    rated = np.asarray(np.isfinite(table).any(axis=0))
    others = np.zeros(0) if unrated is None else np.asarray(unrated, np.float64).ravel()
    n = int(rated.sum())
    total = n + len(others) if readings is not None else n_all
    if readings is None and n_all is None and sizes is not None:
        total = int(np.sum(sizes))
    # the rated items, checked
    neither = np.zeros(table.shape, bool) if outside is None else np.atleast_2d(np.asarray(outside, bool))
    labels = np.zeros(len(rated), int) if strata is None else np.asarray(strata, int).ravel()
    if labels.shape != rated.shape or neither.shape != table.shape:
        raise InvalidInputError.wrong_shape(f"expected one for each of {len(rated)} items", field=("strata", "outside"))
    if (sizes is None) != (strata is None):
        raise InvalidInputError.conflict("expected both or neither", field=("strata", "sizes"))
    drawn = np.bincount(labels[rated], minlength=1)
    stratum_sizes = np.array([total or 0]) if sizes is None else np.asarray(sizes, int).ravel()
    if len(stratum_sizes) < len(drawn):
        raise InvalidInputError.wrong_shape(
            f"expected one of each of {len(drawn)} strata, found {len(stratum_sizes)}", field="sizes"
        )
    stratum_sizes = np.maximum(stratum_sizes, np.bincount(labels[rated], minlength=len(stratum_sizes)))
    f = np.zeros(len(rated)) if readings is None else np.asarray(readings, np.float64).ravel()
    if len(f) != len(rated):
        raise InvalidInputError.wrong_shape(
            f"expected one for each of {len(rated)} items, found {len(f)}", field="readings"
        )
    sample = _Sample(table[:, rated], neither[:, rated], f[rated], labels[rated], stratum_sizes)
    reason = _reason(sample)
    if reason:
        return RatedShare(nan, nan, nan, n, total or 0, reason=reason)
    everything = np.concatenate([sample.readings, others])
    _require_unit("readings", everything)
    return _estimate(sample, float(everything.mean()), total, confidence)


def more_items_to_reach(margin: float, share: RatedShare, *, confidence: float = 0.95) -> float:
    """Return how many more rated items than ``share`` has bring its interval within ``margin`` to either side.

    If the share and the reader's error stay what they are and every stratum grows alike. 0 where it is reached; NaN
    where a rating of every item does not do: then more items are needed, or more raters.

    Raises
    ------
    InvalidInputError
        A margin that is not between 0 and ½.
    """
    if not 0 < margin < 0.5:
        raise InvalidInputError.out_of_range(f"expected a number between 0 and 0.5, found {margin}", field="margin")
    return more_items_until(
        share, lambda low, high: max(share.value - low, high - share.value) <= margin, confidence=confidence
    )


def more_items_until(share: RatedShare, enough: Callable[[float, float], bool], *, confidence: float = 0.95) -> float:
    """Return how many more rated items than ``share`` has make its interval, low and high, ``enough``.

    If the share and the reader's error stay what they are; NaN where a rating of every item does not do.
    """
    if not isfinite(share.effective):
        return nan

    def does(n: int) -> bool:
        return enough(*wilson_at(share.value, 1 / (share.growing * share.n / n + share.fixed), confidence))

    most = max(share.n_all, share.n) if share.n_all else 10**9
    if not (does(share.n) or does(most)):
        return nan
    return float(bisect_left(range(share.n, most), True, key=does))


def _reason(sample: _Sample) -> str:
    """Explain why there is no share."""
    if not len(sample.readings):
        return "nothing was rated"
    if not sample.counts.all():
        return "nothing of a stratum was rated"
    return "" if sample.inside.any() else "no answer is one of the two"


def _estimate(sample: _Sample, mean_reading: float, total: int | None, confidence: float) -> RatedShare:
    weights, n = sample.item_weights, len(sample.readings)
    further = mean_reading - float(weights @ sample.readings)
    yes, inside = (float(weights @ values) + _slope(sample, values) * further for values in (sample.yes, sample.inside))
    among = min(max(inside, 1 / n), 1.0)
    share = min(max(yes / among, 0.0), 1.0)
    linear = (sample.yes - share * sample.inside) / among
    slope = _slope(sample, linear)
    # of 1/n_eff, what the rated items add and what all items do, with the corners added to each stratum
    shares, scale = sample.shares, _smoothed_scale(sample)
    mean, square, residual = np.array([_moments(sample, h, share, linear) for h in range(len(sample.sizes))]).T
    growing, fixed = float(np.sum(shares**2 / sample.counts * residual)) / scale, 0.0
    if total is not None:
        spread = float(shares @ square - (shares @ mean) ** 2)
        fixed = (spread / total - float(np.sum(shares**2 / sample.sizes * residual))) / scale
    net, noise, freedom = _rater_variance(sample, share, linear, slope, among)
    level = (1 + confidence) / 2
    wider = (float(scipy.stats.t.ppf(level, freedom)) / float(scipy.special.ndtri(level))) ** 2 / scale
    growing, fixed = growing + wider * noise, fixed + wider * net
    effective = 1 / (growing + fixed)
    low, high = wilson_at(share, effective, confidence)
    return RatedShare(share, low, high, n, total or 0, slope, effective, growing, fixed, freedom)


def _slope(sample: _Sample, values: np.ndarray) -> float:
    """Return λ = Σ_h c_h cov_h(y, f) / Σ_h c_h var_h(f), c_h stratum h's part of the variance; 0 for constant f."""
    within, counts, sizes = sample.within(sample.readings), sample.counts, sample.sizes
    factor = 1 / counts - 1 / sizes if (sizes > counts).any() else 1 / counts
    per_item = (sample.shares**2 * factor / np.maximum(counts - 1, 1))[sample.strata]
    varying = float(per_item @ within**2)
    return float(per_item @ (within * values)) / varying if varying > 1e-12 else 0.0


def _smoothed_scale(sample: _Sample) -> float:
    """Return θ (1 − θ) with the corners added."""
    counts = sample.counts
    added = sample.corner * np.array([len(_ends(sample, h)) for h in range(len(counts))])
    yes, inside = (np.bincount(sample.strata, values, len(counts)) for values in (sample.yes, sample.inside))
    per_item = sample.shares / (counts + 2 * added)
    share = float(per_item @ (yes + added)) / float(per_item @ (inside + 2 * added))
    return share * (1 - share)


def _ends(sample: _Sample, stratum: int) -> np.ndarray:
    """Return the smallest and the largest reading of a stratum; one where it has but one."""
    f = sample.readings[sample.strata == stratum]
    return np.unique([f.min(), f.max()])


def _moments(sample: _Sample, stratum: int, share: float, linear: np.ndarray) -> tuple[float, float, float]:
    """Return the mean, mean square, and the variance that a line in f leaves, of one stratum with its corners."""
    in_stratum, ends = sample.strata == stratum, _ends(sample, stratum)
    n = int(in_stratum.sum())
    y = np.concatenate([linear[in_stratum], np.repeat([-share, 1 - share], len(ends))])
    f = np.concatenate([sample.readings[in_stratum], np.tile(ends, 2)])
    weights = np.concatenate([np.ones(n), np.full(2 * len(ends), sample.corner)])
    weights /= weights.sum()
    y_mean, f_mean = float(weights @ y), float(weights @ f)
    spread, varying = float(weights @ (y - y_mean) ** 2), float(weights @ (f - f_mean) ** 2)
    shared = float(weights @ ((y - y_mean) * (f - f_mean)))
    residual = spread - (shared**2 / varying if varying > 0 else 0.0)
    return y_mean, float(weights @ y**2), min(residual * n / max(n - 1, 1), spread)


def _rater_variance(
    sample: _Sample, share: float, linear: np.ndarray, slope: float, among: float
) -> tuple[float, float, float]:
    """Estimate what differing raters add to the variance, its error and degrees of freedom; see `rated_share`."""
    is_rated = np.isfinite(sample.ratings)
    active = int(is_rated.any(axis=1).sum())
    if active < 2:
        return 0.0, 0.0, inf
    counts = is_rated.sum(axis=0)
    weights = sample.item_weights / counts
    if 2 * counts[counts > 1].sum() >= counts.sum():
        given = is_rated * weights
        shares = given.sum(axis=1)
        mixed = np.diag(shares) - (given / counts) @ is_rated.T  # a rater's bias moves the item's mean, too
        centre, factor = linear, float(np.square(shares).sum() / np.square(mixed).sum())
    else:
        centre = linear - (sample.within(linear) - slope * sample.within(sample.readings))
        factor = active / (active - 1)
    single = np.where(sample.outside, 0.0, (sample.ratings - share) / among)
    terms = np.where(is_rated, single - centre, 0.0) * weights
    scatter, noise = float(np.square(terms.sum(axis=1)).sum()), float(np.square(terms).sum())
    return factor * max(scatter - noise, 0.0), factor * noise / (active - 1), float(active - 1)


def _require_unit(name: str, values: np.ndarray) -> None:
    if not ((values >= 0) & (values <= 1)).all():
        raise InvalidInputError.out_of_range("expected numbers in [0, 1]", field=name)
