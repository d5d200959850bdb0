"""Shares of images: intervals and tests, and what a gap from parity is expected to be by chance; ratios of means.

Of several shares, in one sample or two, there is a confidence region, and the range of a score over it: see decision
12. Of shares at several settings of a number that was varied there is a slope over it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from math import comb, inf, isfinite, nan, sqrt
from typing import Final, Literal

import numpy as np
import scipy
from numpy.typing import ArrayLike

from clinometer.errors import InvalidInputError
from clinometer.stats.arguments import require_confidence, require_count


@dataclass(frozen=True)
class Estimate:
    """An estimate from ``n`` items, or clusters of them, with its interval; NaN with a ``reason`` where undefined."""

    value: float
    low: float
    high: float
    n: int
    reason: str = ""


def wilson_interval(count: int, n: int, confidence: float = 0.95) -> Estimate:
    """Return a share with its score interval (Wilson 1927), which keeps its coverage at 0 and 1.

    Raises
    ------
    InvalidInputError
        Counts that are not whole numbers, more than n of n, or a confidence outside 0 to 1.
    """
    require_count("n", n, least=0)
    require_count("count", count, least=0)
    require_confidence(confidence)
    if count > n:
        raise InvalidInputError.out_of_range(f"expected 0 to n = {n}, found {count}", field="count")
    if n == 0:
        return Estimate(nan, nan, nan, 0, "no image")
    share = int(count) / int(n)
    return Estimate(share, *wilson_at(share, n, confidence), n)


def wilson_at(share: float, effective: float, confidence: float = 0.95) -> tuple[float, float]:
    """Return Wilson's interval (1927) of a share of ``effective`` answers, which need be no whole number."""
    low, high = wilson_ends(share, effective, confidence)
    return float(low), float(high)


def wilson_ends(share: ArrayLike, effective: ArrayLike, confidence: float = 0.95) -> tuple[np.ndarray, np.ndarray]:
    """Return the ends of Wilson's interval of many shares at once, each in [0, 1]."""
    return score_ends(share, effective, float(scipy.special.ndtri((1 + confidence) / 2)))


def score_ends(share: ArrayLike, effective: ArrayLike, z: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
    """Return the ends of Wilson's interval at z standard errors; of infinitely many answers the share itself."""
    share = np.asarray(share, np.float64)
    z2 = np.asarray(z, np.float64) ** 2 / np.asarray(effective, np.float64)
    middle = (share + z2 / 2) / (1 + z2)
    reach = np.sqrt(np.maximum(share * (1 - share) * z2 + z2 * z2 / 4, 0.0)) / (1 + z2)
    return np.maximum(np.minimum(middle - reach, share), 0.0), np.minimum(np.maximum(middle + reach, share), 1.0)


def wilson_worth(share: ArrayLike, width: ArrayLike, confidence: float = 0.95) -> np.ndarray:
    """Return how many answers a share is worth: of so many Wilson's interval is as wide.

    ::

        w = 2 √(p (1 − p) a + a²/4) / (1 + a),   a = z²/n      solved for n

    ``share``, ``width`` : (…,), NaN for none. A width of 0 is worth 10^10 answers, one of 1 or more none.

    >>> low, high = wilson_ends(0.3, 40, 0.95)
    >>> float(wilson_worth(0.3, high - low).round(6))
    40.0
    """
    p, w2 = np.asarray(share, np.float64), np.asarray(width, np.float64) ** 2
    z2, half = float(scipy.special.ndtri((1 + confidence) / 2)) ** 2, w2 - 2 * p * (1 - p)
    with np.errstate(divide="ignore", invalid="ignore"):
        a = (half + np.sqrt(half**2 + (1 - w2) * w2)) / (1 - w2)
        return np.where(w2 >= 1, 0.0, np.minimum(z2 / a, 1e10))


def clopper_pearson(hits: ArrayLike, n: ArrayLike, tail: float) -> tuple[np.ndarray, np.ndarray]:
    """Return Clopper and Pearson's exact interval (1934) of ``hits`` in n answers, with ``tail`` beyond either end.

    Neither need be whole. Quantiles of the beta distribution are asked of scipy.special: the same numbers as
    scipy.stats gives, fifty times as fast.
    """
    hits, n = np.asarray(hits, np.float64), np.asarray(n, np.float64)
    low = np.where(hits > 0, scipy.special.betaincinv(hits, n - hits + 1, tail), 0.0)
    return low, np.where(hits < n, scipy.special.betaincinv(hits + 1, n - hits, 1 - tail), 1.0)


@dataclass(frozen=True)
class ExactShare:
    """A share with its exact interval, and the p of tests that it is ``null``, or beyond ``null ± margin``."""

    value: float
    low: float
    high: float
    p_value: float
    p_equivalence: float
    n: int


def exact_share(
    count: int, n: int, null: float = 0.5, *, margin: float | None = None, confidence: float = 0.95
) -> ExactShare:
    """Return the share ``k / n`` with the interval of Clopper and Pearson (1934), and the test that belongs to it.

    ::

        p = 2 min(P(K ≤ k), P(K ≥ k)), at most 1         K ~ Binomial(n, null)
        p_equivalence = max(P(K ≥ k | null − margin), P(K ≤ k | null + margin))

    The interval leaves out ``null`` exactly where p < 1 − confidence; neither errs more often than it says, at any n.

    >>> share = exact_share(9, 10)
    >>> round(share.low, 3), round(share.high, 3), round(share.p_value, 4)
    (0.555, 0.997, 0.0215)

    Raises
    ------
    InvalidInputError
        Counts that are no whole numbers, or more than n of n; a null outside 0 to 1.
    """
    require_count("n", n, least=0)
    require_count("count", count, least=0)
    require_confidence(confidence)
    if count > n:
        raise InvalidInputError.out_of_range(f"expected 0 to n = {n}, found {count}", field="count")
    if not 0 < null < 1:
        raise InvalidInputError.out_of_range(f"expected a share between 0 and 1, found {null}", field="null")
    return exact_shares(np.array([count]), np.array([n]), null, margin=margin, confidence=confidence)[0]


def exact_shares(
    counts: np.ndarray, n: np.ndarray, null: float, *, margin: float | None = None, confidence: float = 0.95
) -> list[ExactShare]:
    """Return :func:`exact_share` of many counts at once, which are known to be such."""
    found = [ExactShare(nan, nan, nan, nan, nan, 0)] * len(n)
    there = np.flatnonzero(n)
    k, m, binom = counts[there], n[there], scipy.stats.binom
    lows, highs = clopper_pearson(k, m, (1 - confidence) / 2)
    p = np.minimum(1.0, 2 * np.minimum(binom.cdf(k, m, null), binom.sf(k - 1, m, null)))
    alike = np.full(len(k), nan)
    if margin is not None:
        below, above = max(null - margin, 0.0), min(null + margin, 1.0)
        alike = np.maximum(binom.sf(k - 1, m, below), binom.cdf(k, m, above))
    columns = (column.tolist() for column in (k / m, lows, highs, p, alike, m))
    for at, value, low, high, of_null, of_margin, images in zip(there, *columns, strict=True):
        found[at] = ExactShare(value, low, high, of_null, of_margin, images)
    return found


@dataclass(frozen=True)
class ShareDifferences:
    """Differences of two shares each, second minus first: (cells,) values, ends of their intervals, and p."""

    value: np.ndarray
    low: np.ndarray
    high: np.ndarray
    p_value: np.ndarray


def share_differences(
    first: tuple[np.ndarray, np.ndarray], second: tuple[np.ndarray, np.ndarray], confidence: float = 0.95
) -> ShareDifferences:
    """Return differences of many shares at once: Newcombe's interval (1998, method 10), and p of Fisher's exact test.

    ::

        low = d − √((p₂ − l₂)² + (u₁ − p₁)²),   high = d + √((u₂ − p₂)² + (p₁ − l₁)²)      d = p₂ − p₁,  l, u: Wilson's

    ``first``, ``second`` : (cells,) whole numbers of hits, and of the images that they are of, 1 or more.
    """
    (low_1, high_1), (low_2, high_2) = (wilson_ends(k / n, n, confidence) for k, n in (first, second))
    one, two = first[0] / first[1], second[0] / second[1]
    value = two - one
    below, above = np.hypot(two - low_2, high_1 - one), np.hypot(high_2 - two, one - low_1)
    return ShareDifferences(value, value - below, value + above, fisher_p_values(*first, *second))


MOST_OUTCOMES: Final = 2_000_000
"""Outcomes of two-by-two tables that are listed at once."""

LARGEST_TABLE: Final = 1_000_000
"""Images of a table up to which its outcomes are listed: of more, log factorials lose digits."""

TIED: Final = 1 + 1e-7
"""Outcomes count as equally probable up to this ratio, as in R's ``fisher.test``."""


def fisher_p_values(k: np.ndarray, m: np.ndarray, j: np.ndarray, o: np.ndarray) -> np.ndarray:
    """Return the two-sided p of Fisher's exact test for many tables: ``k`` hits of ``m`` against ``j`` of ``o``.

    ::

        p = Σ P(x) over all x with P(x) ≤ P(k)         P(x) = C(m, x) C(o, k + j − x) / C(m + o, k + j)

    As :func:`scipy.stats.fisher_exact` computes it, which takes one table at a time and is asked about large ones.
    """
    hits = k + j
    least, most = np.maximum(hits - o, 0), np.minimum(hits, m)
    p, width = np.ones(len(k)), most - least + 1
    large = (m + o > LARGEST_TABLE) | (width > MOST_OUTCOMES)
    for at in np.flatnonzero(large):
        p[at] = scipy.stats.fisher_exact([[k[at], m[at] - k[at]], [j[at], o[at] - j[at]]]).pvalue
    doublings = np.where(large, 0, np.ceil(np.log2(width)).astype(np.int64) + 1)  # tables of about one width at once
    for doubling in np.unique(doublings[~large]).tolist():
        alike = np.flatnonzero(doublings == doubling)
        p[alike] = np.concatenate([
            _listed_p_values(*(each[some] for each in (k, m, o, hits, least, most)))
            for some in np.array_split(alike, 1 + (len(alike) << doubling) // MOST_OUTCOMES) if len(some)
        ])  # fmt: skip
    return np.minimum(p, 1.0)


def _listed_p_values(
    k: np.ndarray, m: np.ndarray, o: np.ndarray, hits: np.ndarray, least: np.ndarray, most: np.ndarray
) -> np.ndarray:
    """List the outcomes of every table, from the ``least`` hits of the first sample to the ``most``."""
    x = least[:, None] + np.arange((most - least).max() + 1)
    possible = x <= most[:, None]
    x = np.where(possible, x, least[:, None])
    logs = np.zeros(x.shape)
    for n, of in ((m, x), (o, hits[:, None] - x)):
        logs -= scipy.special.gammaln(of + 1) + scipy.special.gammaln(n[:, None] - of + 1)
    chances = np.where(possible, np.exp(logs - logs.max(axis=1, keepdims=True)), 0.0)
    own = np.take_along_axis(chances, (k - least)[:, None], axis=1)
    return np.asarray(np.where(chances <= own * TIED, chances, 0.0).sum(axis=1) / chances.sum(axis=1))


@dataclass(frozen=True)
class Exchange:
    """The exact p of two shares, and the number of exchanges that it counts."""

    p_value: float
    n_exchanges: int


def share_exchange(first: ArrayLike, second: ArrayLike, *, paired: bool) -> Exchange:
    """Return the exact two-sided p of "no difference" between two samples of yes-or-no answers, by exchanging them.

    ``paired``: the i-th of both belong together and change places with each other, which is McNemar's exact test: of
    the pairs that differ, a binomial number has the yes on either side. Otherwise all answers are redistributed at
    random: Fisher's exact test. p is 1 where nothing differs.

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
        raise InvalidInputError.wrong_shape(
            f"found {len(one)} and {len(two)}, expected some in both, as many in pairs", field="answers"
        )
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


SEPARATED = (
    "on one side of a setting all or none are of the group: half an image of either kind is added to each setting"
)

MOST_ODDS = 200.0
"""Log odds over the whole range of the settings beyond which a slope counts as infinite."""


@dataclass(frozen=True)
class LogisticSlope:
    """The slope of a share's log odds on a setting, with interval and p; NaN with a ``reason`` where undefined.

    ``p_line`` : of Pearson's test that the shares follow one slope at all; NaN with two settings.
    """

    value: float
    low: float
    high: float
    p_value: float
    p_line: float = nan
    reason: str = ""


def logistic_slope(x: ArrayLike, count: ArrayLike, n: ArrayLike, confidence: float = 0.95) -> LogisticSlope:
    """Fit a weighted logistic regression of shares on a setting: ``log(π/(1 − π)) = a + b x``, each setting with its n.

    ::

        z(b)² = U² / I      U = Σ x (k − n π̂),  I = Σ w (x − x̄_w)²,  w = n π̂ (1 − π̂),   π̂ at the best a for b

    ``value`` is the b of maximum likelihood, where U = 0; p is of the score test z(0)², the trend test of Cochran
    (1954) and Armitage (1955), and the interval holds every b that it does not refuse. So both stay where shares of 0
    and 1 let b grow without end: ``value`` is then of the counts with half an image of either kind added to each
    setting (Haldane 1956), one end of the interval is infinite, and ``reason`` says so.

    >>> slope = logistic_slope([1, 2, 3], [6, 7, 9], [10, 10, 10])
    >>> round(slope.value, 2), round(slope.low, 2), round(slope.high, 2), round(slope.p_value, 3)
    (0.82, -0.22, 1.87, 0.129)

    Raises
    ------
    InvalidInputError
        Other shapes, fewer than two different settings, or counts that are none.
    """
    x, k, n = (np.asarray(each, np.float64) for each in (x, count, n))
    if x.ndim != 1 or not x.shape == k.shape == n.shape:
        raise InvalidInputError.too_few(_TWO_SETTINGS)
    return logistic_slopes(x, k[None], n[None], confidence)[0]


_TWO_SETTINGS: Final = "x: expected a number of each setting, two different ones at least, with its counts"


def logistic_slopes(x: np.ndarray, counts: np.ndarray, n: np.ndarray, confidence: float = 0.95) -> list[LogisticSlope]:
    """Return :func:`logistic_slope` of many shares at once; ``counts`` and ``n`` are (shares × settings).

    Raises
    ------
    InvalidInputError
        As there.
    """
    require_confidence(confidence)
    if not np.isfinite(x).all() or np.ptp(x) == 0:
        raise InvalidInputError.too_few(_TWO_SETTINGS)
    if ((counts < 0) | (counts > n)).any():
        raise InvalidInputError.out_of_range("expected 0 to n of each setting", field="count")
    there, totals = n > 0, counts.sum(axis=1)
    width = np.where(there, x, -inf).max(axis=1) - np.where(there, x, inf).min(axis=1)
    alone = width <= 0
    same = ~alone & ((totals == 0) | (totals == n.sum(axis=1)))
    slopes = [LogisticSlope(nan, nan, nan, nan, reason="images of one setting alone")] * len(counts)
    for at in np.flatnonzero(same):
        slopes[at] = LogisticSlope(nan, nan, nan, nan, reason="at every setting none or all are of the group")
    rows = np.flatnonzero(~(alone | same))
    if len(rows):
        fitted = _fit_slopes(x, counts[rows].astype(np.float64), n[rows].astype(np.float64), width[rows], confidence)
        for at, slope in zip(rows, fitted, strict=True):
            slopes[at] = slope
    return slopes


def _fit_slopes(
    x: np.ndarray, k: np.ndarray, n: np.ndarray, width: np.ndarray, confidence: float
) -> Iterator[LogisticSlope]:
    """Fit shares that are neither none nor all at every setting; ``width`` is the range of each one's settings."""
    unit = (x - (n @ x / n.sum(axis=1))[:, None]) / width[:, None]
    yes, no = ([np.where(kind > 0, unit, inf).min(axis=1), np.where(kind > 0, unit, -inf).max(axis=1)]
               for kind in (k, n - k))  # fmt: skip
    side = np.where(yes[0] >= no[1], 1, np.where(yes[1] <= no[0], -1, 0))
    half = np.where(n > 0, 0.5 * np.abs(side)[:, None], 0.0)
    everyone, z = np.arange(len(k)), sqrt(float(scipy.stats.chi2.ppf(confidence, 1)))

    def standardised(b: np.ndarray, row: np.ndarray) -> np.ndarray:
        score, information = _score(b, unit[row], k[row], n[row])
        return np.asarray(score / np.sqrt(information))

    value = _roots(lambda b, row: _score(b, unit[row], (k + half)[row], (n + 2 * half)[row])[0], 0.0 * everyone, 1)
    low, high = np.full(len(k), -inf), np.full(len(k), inf)
    below, above = everyone[side >= 0], everyone[side <= 0]
    low[below] = _roots(lambda b, row: standardised(b, below[row]) - z, value[below], -1)
    high[above] = _roots(lambda b, row: standardised(b, above[row]) + z, value[above], 1)
    p = scipy.stats.chi2.sf(standardised(0.0 * everyone, everyone) ** 2, 1)
    share, several = _shares(value, unit, k, n), (n > 0).sum(axis=1) - 2
    variance = n * share * (1 - share)
    pearson = np.divide((k - n * share) ** 2, variance, out=np.zeros_like(variance), where=variance > 0).sum(axis=1)
    has_line = (side == 0) & (several > 0)
    p_line = np.where(has_line, scipy.stats.chi2.sf(pearson, np.maximum(several, 1)), nan)
    numbers = np.column_stack([value / width, low / width, high / width, p, p_line]).tolist()
    for (at, least, most, p_slope, p_of_line), of_side in zip(numbers, side, strict=True):
        yield LogisticSlope(at, least, most, p_slope, p_of_line, SEPARATED if of_side else "")


def _shares(b: np.ndarray, x: np.ndarray, k: np.ndarray, n: np.ndarray) -> np.ndarray:
    """Return the shares of every setting at the best a for b: as many images are expected of the group as are there."""

    def missing(a: np.ndarray, row: np.ndarray) -> np.ndarray:
        return np.asarray((n[row] * scipy.special.expit(a[:, None] + slant[row])).sum(axis=1) - total[row])

    from scipy.optimize.elementwise import find_root  # a quarter of a second that only settings need

    slant, total, reach = b[:, None] * x, k.sum(axis=1), np.abs(b) + 50
    found = find_root(missing, (-reach, reach), args=(np.arange(len(b)),), tolerances={"xatol": 1e-13})
    return np.asarray(scipy.special.expit(found.x[:, None] + slant))


def _score(b: np.ndarray, x: np.ndarray, k: np.ndarray, n: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return U and I of :func:`logistic_slope`, of each share at its own b."""
    share = _shares(b, x, k, n)
    weight = n * share * (1 - share)
    middle = (weight * x).sum(axis=1) / weight.sum(axis=1)
    return (x * (k - n * share)).sum(axis=1), (weight * (x - middle[:, None]) ** 2).sum(axis=1)


def _roots(falling: Callable[[np.ndarray, np.ndarray], np.ndarray], start: np.ndarray, direction: int) -> np.ndarray:
    """Find the roots of functions that fall in b, from ``start`` in a direction, or in the other where one is there.

    ``falling`` takes numbers b and the positions of the functions that these are for.
    """
    from scipy.optimize.elementwise import find_root

    positions = np.arange(len(start))
    here, end, step = falling(start, positions), start.copy(), 0.5
    way = np.where(here * direction < 0, -direction, direction)
    open_ = positions[here != 0]
    while len(open_):
        end[open_] += step * way[open_]
        step *= 1.5
        open_ = open_[np.abs(end[open_]) <= MOST_ODDS]
        open_ = open_[falling(end[open_], open_) * here[open_] > 0]
    roots = np.where(np.abs(end) > MOST_ODDS, way * inf, start)
    between = positions[(here != 0) & (np.abs(end) <= MOST_ODDS)]
    if len(between):
        ends = np.minimum(start, end)[between], np.maximum(start, end)[between]
        roots[between] = find_root(falling, ends, args=(between,), tolerances={"xatol": 1e-12}).x
    return roots


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
    """Return the confidence set of ``ρ = E[X] / E[Y]`` from estimates x, y that are near normal.

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
            raise InvalidInputError.out_of_range(f"expected 0 or more, found {variance}", field=f"variance_{name}")
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


_DIRECTIONS = 512
_ROUNDS = 3
_STEPS = np.linspace(0, 1, 9)[1:, None]  # along a ray: a score need not be extreme at its end


def range_over_shares(
    score: Callable[[np.ndarray], np.ndarray], counts: np.ndarray, confidence: float = 0.95
) -> tuple[float, float]:
    """Return the least and largest value of a score over the shares that Pearson's test of the counts cannot refuse.

    ::

        { p : n Σ_i (f_i − p_i)² / p_i ≤ χ²_{K−1} }  =  { p : Σ_i f_i² / p_i ≤ 1 + χ²_{K−1} / n },     f = counts / n

    For K = 2 that is Wilson's interval; for more groups it is its counterpart (Wilson 1927; Quesenberry & Hurst 1964).
    Whatever score is read off the region holds its truth whenever the region holds p, so its interval covers at least
    as often. The region is convex; its ends are searched along rays from f, in fresh directions around the best each
    round, from a fixed seed.

    Parameters
    ----------
    score : maps (rows × K) shares to (rows,).
    counts : (K,) whole numbers, not all 0.
    """
    require_confidence(confidence)
    f = counts / counts.sum()
    level = 1 + float(scipy.stats.chi2.ppf(confidence, len(f) - 1)) / float(counts.sum())
    rng = np.random.default_rng(0)
    uniform = np.full(len(f), 1 / len(f))
    directions = np.vstack([np.eye(len(f)), uniform[None]]) - f
    directions = np.vstack([directions, rng.standard_normal((_DIRECTIONS, len(f)))])

    def inside(points: np.ndarray) -> np.ndarray:
        return np.asarray(_pearson(f, points) <= level)

    if len(f) == 2:
        ends = np.array(wilson_at(float(f[0]), float(counts.sum()), confidence))
        shares = (f[0] + np.concatenate([[[0.0]], _STEPS]) * (ends - f[0])).ravel()
        shares = np.append(shares, 0.5) if ends[0] <= 0.5 <= ends[1] else shares
        values = score(np.column_stack([shares, 1 - shares]))
        return float(values.min()), float(values.max())
    point_sets = [f[None], uniform[None][inside(uniform[None])]]
    for _ in range(_ROUNDS):
        point_sets.append(_along_rays(f, _inward(directions, f), inside))
        points = np.concatenate(point_sets)
        values = score(points)
        best = points[[int(values.argmin()), int(values.argmax())]]
        point_sets = [best]
        around = best[rng.integers(2, size=_DIRECTIONS)] - f
        directions = around + 0.2 * np.abs(around).max() * rng.standard_normal(around.shape)
    values = score(np.concatenate(point_sets))
    return float(values.min()), float(values.max())


def range_over_two_shares(
    score: Callable[[np.ndarray, np.ndarray], np.ndarray],
    first: np.ndarray,
    second: np.ndarray,
    confidence: float = 0.95,
) -> tuple[float, float]:
    """Return the least and largest value of a score of two samples' shares, as :func:`range_over_shares` of one.

    ::

        { (p, q) : n Σ_i (f_i − p_i)² / p_i + m Σ_i (g_i − q_i)² / q_i ≤ χ²_{2(K−1)} }

    Shares that are the same in both samples come nearest to them at ``p_i ∝ √(n f_i² + m g_i²)``; where the region
    holds these, it holds a pair that does not differ.

    Parameters
    ----------
    score : maps (rows × K) shares of each sample to (rows,).
    first, second : (K,) whole numbers, not all 0.
    """
    require_confidence(confidence)
    n, m = float(first.sum()), float(second.sum())
    f, g = first / n, second / m
    k, most = len(f), float(scipy.stats.chi2.ppf(confidence, 2 * (len(f) - 1)))

    def inside(points: np.ndarray) -> np.ndarray:
        distance = n * (_pearson(f, points[:, :k]) - 1) + m * (_pearson(g, points[:, k:]) - 1)
        return np.asarray(distance <= most)

    def values(points: np.ndarray) -> np.ndarray:
        return score(points[:, :k], points[:, k:])

    centre, rng = np.concatenate([f, g]), np.random.default_rng(0)
    same = np.sqrt(n * f**2 + m * g**2)
    alike = np.tile(same / same.sum(), 2)[None]
    point_sets = [centre[None], alike[inside(alike)]]
    still = np.zeros((k, k))
    corners = np.block([[np.eye(k) - f, still], [still, np.eye(k) - g]])
    directions = np.vstack([corners, alike - centre, rng.standard_normal((_DIRECTIONS, 2 * k))])
    for _ in range(_ROUNDS):
        inward = np.hstack([_inward(directions[:, :k], f), _inward(directions[:, k:], g)])
        point_sets.append(_along_rays(centre, inward, inside))
        points = np.concatenate(point_sets)
        best = points[[int(values(points).argmin()), int(values(points).argmax())]]
        point_sets = [best]
        around = best[rng.integers(2, size=_DIRECTIONS)] - centre
        directions = around + 0.2 * np.abs(around).max() * rng.standard_normal(around.shape)
    reached = values(np.concatenate(point_sets))
    return float(reached.min()), float(reached.max())


def _inward(directions: np.ndarray, f: np.ndarray) -> np.ndarray:
    """Return directions that keep the sum and do not leave the simplex at once, where a share is 0."""
    is_positive = f > 0
    directions = np.where(is_positive, directions, np.abs(directions))
    return np.asarray(
        directions - np.where(is_positive, directions.sum(axis=1, keepdims=True) / is_positive.sum(), 0.0)
    )


def _along_rays(centre: np.ndarray, directions: np.ndarray, inside: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
    """Return the points of the region along rays from its centre, the last at its border, which is found by halving."""
    lengths = np.abs(directions).sum(axis=1, keepdims=True)
    moves = lengths[:, 0] > 1e-12
    directions = directions[moves] / lengths[moves]
    with np.errstate(divide="ignore"):
        far = np.where(directions < 0, -centre / np.where(directions < 0, directions, 1), np.inf).min(axis=1)
    low, high = np.zeros(len(directions)), np.minimum(far, 2.0)
    for _ in range(40):
        middle = (low + high) / 2
        is_inside = inside(centre + middle[:, None] * directions)
        low, high = np.where(is_inside, middle, low), np.where(is_inside, high, middle)
    return np.concatenate([centre + step * low[:, None] * directions for step in _STEPS])


def _pearson(f: np.ndarray, p: np.ndarray) -> np.ndarray:
    """``Σ_i f_i² / p_i``; infinite where a share that was seen would be 0."""
    is_positive = f > 0
    with np.errstate(divide="ignore"):
        return np.asarray((f[is_positive] ** 2 / np.maximum(p[:, is_positive], 0)).sum(axis=1))
