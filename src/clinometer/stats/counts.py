"""Counts alone: an exact interval and test of a share, and the slope of shares over a number that was varied."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import inf, nan, sqrt

import numpy as np
import scipy
from numpy.typing import ArrayLike
from scipy.special import betaincinv, expit

from clinometer.errors import InvalidInputError
from clinometer.stats.arguments import require_confidence, require_count

SEPARATED = (
    "on one side of a setting all or none are of the group: half an image of either kind is added to each setting"
)


MOST_ODDS = 200.0
"""Log odds over the whole range of the settings beyond which a slope counts as infinite."""


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
    """Share ``k / n`` with the interval of Clopper and Pearson (1934), and the test that belongs to it.

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
        raise InvalidInputError(f"count: expected 0 to n = {n}, found {count}")
    if not 0 < null < 1:
        raise InvalidInputError(f"null: expected a share between 0 and 1, found {null}")
    if n == 0:
        return ExactShare(nan, nan, nan, nan, nan, 0)
    tail = (1 - confidence) / 2
    low = float(betaincinv(count, n - count + 1, tail)) if count else 0.0
    high = float(betaincinv(count + 1, n - count, 1 - tail)) if count < n else 1.0
    p = min(1.0, 2 * min(_at_most(count, n, null), _at_least(count, n, null)))
    alike = nan if margin is None else max(
        _at_least(count, n, max(null - margin, 0.0)), _at_most(count, n, min(null + margin, 1.0))
    )  # fmt: skip
    return ExactShare(count / n, low, high, p, alike, n)


def _at_most(k: int, n: int, share: float) -> float:
    return float(scipy.stats.binom.cdf(k, n, share))


def _at_least(k: int, n: int, share: float) -> float:
    return float(scipy.stats.binom.sf(k - 1, n, share))


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
    """Weighted logistic regression of shares on a setting: ``log(π/(1 − π)) = a + b x``, each setting with its n.

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
    require_confidence(confidence)
    if x.ndim != 1 or not x.shape == k.shape == n.shape or not np.isfinite(x).all() or np.ptp(x) == 0:
        raise InvalidInputError("x: expected a number of each setting, two different ones at least, with its counts")
    if ((k < 0) | (k > n)).any():
        raise InvalidInputError("count: expected 0 to n of each setting")
    there = n > 0
    x, k, n = x[there], k[there], n[there]
    if len(x) < 2 or np.ptp(x) == 0:
        return LogisticSlope(nan, nan, nan, nan, reason="images of one setting alone")
    if k.sum() in (0, n.sum()):
        return LogisticSlope(nan, nan, nan, nan, reason="at every setting none or all are of the group")
    width = float(np.ptp(x))
    unit = (x - float(np.average(x, weights=n))) / width
    yes, no = unit[k > 0], unit[k < n]
    side = 1 if yes.min() >= no.max() else -1 if yes.max() <= no.min() else 0
    added = 0.5 if side else 0.0
    value = _root(lambda b: _score(b, unit, k + added, n + 2 * added)[0], 0.0, 1)
    z = sqrt(float(scipy.stats.chi2.ppf(confidence, 1)))

    def standardised(b: float) -> float:
        first, information = _score(b, unit, k, n)
        return first / sqrt(information)

    low = -inf if side < 0 else _root(lambda b: standardised(b) - z, value, -1)
    high = inf if side > 0 else _root(lambda b: standardised(b) + z, value, 1)
    p, p_line = float(scipy.stats.chi2.sf(standardised(0.0) ** 2, 1)), nan
    if not side and len(np.unique(x)) > 2:
        share = _shares(value, unit, k, n)
        pearson = float(((k - n * share) ** 2 / (n * share * (1 - share))).sum())
        p_line = float(scipy.stats.chi2.sf(pearson, len(x) - 2))
    return LogisticSlope(value / width, low / width, high / width, p, p_line, SEPARATED if side else "")


def _shares(b: float, x: np.ndarray, k: np.ndarray, n: np.ndarray) -> np.ndarray:
    """Shares of every setting at the best a for b: as many images are expected of the group as are there."""
    reach = abs(b) + 50
    a = scipy.optimize.brentq(lambda a: float((n * expit(a + b * x)).sum() - k.sum()), -reach, reach, xtol=1e-12)
    return np.asarray(expit(a + b * x))


def _score(b: float, x: np.ndarray, k: np.ndarray, n: np.ndarray) -> tuple[float, float]:
    """U and I of :func:`logistic_slope`."""
    share = _shares(b, x, k, n)
    weight = n * share * (1 - share)
    return float((x * (k - n * share)).sum()), float((weight * (x - np.average(x, weights=weight)) ** 2).sum())


def _root(falling: Callable[[float], float], start: float, direction: int) -> float:
    """Where a function that falls in b is 0, from ``start`` on in a direction; or the other way, where it is there."""
    here = falling(start)
    if here * direction < 0:
        direction = -direction
    end, step = start, 0.5
    while falling(end) * here > 0:
        end, step = end + direction * step, 1.5 * step
        if abs(end) > MOST_ODDS:
            return direction * inf
    return float(scipy.optimize.brentq(falling, *sorted((start, end)), xtol=1e-10)) if end != start else start
