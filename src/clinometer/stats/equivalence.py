"""Equivalence: showing that an effect is smaller than a margin, which failing to find it does not.

Estimates held to limits are a case of it: both answers are shown by the same 95 % interval. An estimate keeps its
limits where the whole interval lies within them. It breaks them where the interval lies beyond, after a correction for
how many estimates were held to limits. See decision 50.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, inf, isfinite, nan

import numpy as np
import scipy

from clinometer.errors import InvalidInputError
from clinometer.stats.multiplicity import holm
from clinometer.stats.power import BEYOND, POWER, PowerCurve


def standard_error_of(low: float, high: float, confidence: float = 0.95) -> float:
    """Return the standard error that a normal interval of this width has: ``(high − low) / (2 z)``; NaN from NaN."""
    return (high - low) / (2 * float(scipy.special.ndtri((1 + confidence) / 2)))


def equivalence_p_value(value: float, standard_error: float, margin: float, freedom: float = inf) -> float:
    """Return the p of two one-sided tests of ``|θ| ≥ margin`` (Schuirmann 1987): the larger of theirs.

    ::

        p = max( P(T ≥ (θ̂ + δ)/se), P(T ≤ (θ̂ − δ)/se) ),   T Student's t with ``freedom`` degrees, normal by default

    p ≤ α exactly where the interval of confidence 1 − 2α lies within ±δ. NaN where an argument is.

    Raises
    ------
    InvalidInputError
        A margin that is not positive, or a negative standard error.

    Examples
    --------
    >>> round(equivalence_p_value(0.0, 0.1, 0.2), 4)
    0.0228
    """
    if not margin > 0:
        raise InvalidInputError.out_of_range(f"expected a positive number, found {margin}", field="margin")
    if standard_error < 0:
        raise InvalidInputError.out_of_range(f"expected 0 or more, found {standard_error}", field="standard_error")
    if not (isfinite(value) and isfinite(standard_error)):
        return nan
    inside = margin - abs(value)
    if standard_error == 0:
        return 0.0 if inside > 0 else 1.0
    return float(scipy.special.stdtr(freedom, -inside / standard_error))


def factors_by_steps(first: np.ndarray, factors: np.ndarray) -> np.ndarray:
    """Count how many times the data bring each test of a family to q ≤ α, all data growing alike.

    Benjamini–Hochberg calls a test where for any k it is at the level αk/m and k tests are.

    ``first`` : (m tests, factors), the first step, from 0 on, at whose level a test is with so many times the data; m
    where it is at none. ``factors`` : (factors,), rising.
    """
    m = len(first)
    called = np.full(len(factors), -1)
    for at, steps in enumerate(first.T):
        enough = np.flatnonzero(np.bincount(steps, minlength=m + 1)[:m].cumsum() >= np.arange(1, m + 1))
        called[at] = enough[-1] if len(enough) else -1
    reached = first <= called
    return np.asarray(np.where(reached.any(axis=1), factors[reached.argmax(axis=1)], inf))


def images_to_decide(n: int, factor: float) -> int:
    """Return how many images, instead of ``n``, are so many times as many; 0 where no number would decide.

    More than ``MANY`` are not counted: ``BEYOND`` stands for them.
    """
    if not isfinite(factor) or factor >= 1e6:
        return 0
    return max(n + 1, min(ceil(n * factor - 1e-6), BEYOND))


CONFIDENCE = 0.95
"""Of the intervals that are given."""


@dataclass(frozen=True)
class HeldToLimits:
    """A family of estimates held to limits; each array has one entry an estimate.

    Attributes
    ----------
    within : the interval lies within the limits, and so does the estimate.
    beyond : the estimate is beyond a limit, by ``p_holm``.
    p : that an estimate that keeps its limits comes out so far beyond them; twice the one-sided p, so that it is 0.05
        where the interval ends at the limit. 1 for an estimate within its limits, NaN without an interval.
    p_holm : the same after Holm's correction for the family.
    n_decide : units with which an estimate is decided with a chance of ``POWER``, whatever else it rests on growing in
        proportion; 0 where it is decided, or where no number would do.
    """

    within: np.ndarray
    beyond: np.ndarray
    p: np.ndarray
    p_holm: np.ndarray
    n_decide: np.ndarray


def hold_to_limits(
    values: np.ndarray,
    lows: np.ndarray,
    highs: np.ndarray,
    units: np.ndarray,
    freedom: np.ndarray,
    *,
    at_least: np.ndarray,
    at_most: np.ndarray,
    alpha: float = 0.05,
) -> HeldToLimits:
    """Test each estimate of a family against its own limits.

    ::

        within:   at_least ≤ low  and  high ≤ at_most, and the estimate as well, where the interval leaves it out
        beyond:   p̃ ≤ α,   p = 2 P( T_f ≥ t_f · d / h ),   p̃ by Holm over the family
                  d: how far the estimate is beyond its limit;  h: the half of its interval that faces the limit
                  T_f: Student's t with f degrees of freedom;  t_f: its 97.5 % quantile

    All estimates together keep their limits wrongly with a chance of at most α/2: for that, the interval of one that is
    beyond a limit must lie within. Any of them is called beyond a limit that it keeps with a chance of at most α. A
    number of degrees of freedom that is too small makes the correction stricter; where there is but one estimate, what
    is beyond does not depend on it.

    Parameters
    ----------
    values, lows, highs : (m,), the estimates and their 95 % intervals; NaN is neither within nor beyond.
    units : (m,), what each rests on, such as images, of which ``n_decide`` counts more; 0 for a number without any.
    freedom : (m,), degrees of freedom of the interval, 1 or more.
    at_least, at_most : (m,), the limits; ∓∞ for none.

    Raises
    ------
    InvalidInputError
        Arrays of different lengths, a NaN among the limits, or a lower limit above the upper one.

    Examples
    --------
    >>> held = hold_to_limits([0.1, 0.3], [0.0, 0.25], [0.2, 0.35], [50, 50], [49, 49],
    ...                       at_least=[-0.2] * 2, at_most=[0.2] * 2)
    >>> held.within.tolist(), held.beyond.tolist()
    ([True, False], [False, True])
    """
    arrays = [np.asarray(array, np.float64) for array in (values, lows, highs, units, freedom, at_least, at_most)]
    if len({array.shape for array in arrays}) > 1 or arrays[0].ndim != 1:
        raise InvalidInputError.expected_shape("arrays of one shape (m,)", *arrays, field="limits")
    value, low, high, n, freedom, lower, upper = arrays
    if np.isnan(lower).any() or np.isnan(upper).any() or (lower > upper).any():
        raise InvalidInputError.out_of_range(
            "expected at_least ≤ at_most, found a NaN or a lower limit above the upper one", field="limits"
        )
    with np.errstate(invalid="ignore"):
        within = (lower <= np.minimum(low, value)) & (np.maximum(high, value) <= upper)
    distance, half = _beyond(value, low, high, lower, upper)
    with np.errstate(divide="ignore", invalid="ignore"):
        p = 2 * scipy.stats.t.sf(_reach(freedom, 1 - CONFIDENCE) * distance / half, freedom)
    p = np.where(distance > 0, np.where(half > 0, p, 0.0), 1.0)
    p = np.where(np.isnan(distance) | np.isnan(half), np.nan, np.minimum(p, 1.0))
    adjusted = holm(p)
    with np.errstate(invalid="ignore"):
        beyond = adjusted <= alpha
    stretch = _reach(freedom, alpha / max(1, np.isfinite(p).sum())) / _reach(freedom, alpha)
    factors = _factors_to_decide(value, low, high, lower, upper, stretch)
    needed = [
        0 if decided or units < 1 else images_to_decide(int(units), float(factor))
        for decided, units, factor in zip(within | beyond, n, factors, strict=True)
    ]
    return HeldToLimits(within, beyond, p, adjusted, np.array(needed, np.int64))


def _beyond(
    value: np.ndarray, low: np.ndarray, high: np.ndarray, lower: np.ndarray, upper: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return how far each estimate is beyond the nearer limit, negative where it keeps it, and the half that faces it.

    An estimate that lies outside of its own interval, on the side of the limit, is stood for by the interval's middle.
    """
    above = value - upper >= lower - value
    distance = np.where(above, value - upper, lower - value)
    half = np.where(above, value - low, high - value)
    with np.errstate(invalid="ignore"):
        middle, apart = (low + high) / 2, (half < 0) & (distance > 0)
    from_middle = np.where(above, middle - upper, lower - middle)
    return np.where(apart, from_middle, distance), np.where(apart, (high - low) / 2, half)


def _reach(freedom: np.ndarray, alpha: float) -> np.ndarray:
    """Return half the width of an interval of confidence 1 − α, in standard errors."""
    return np.asarray(scipy.stats.t.isf(alpha / 2, freedom))


def _factors_to_decide(
    value: np.ndarray, low: np.ndarray, high: np.ndarray, lower: np.ndarray, upper: np.ndarray, stretch: np.ndarray
) -> np.ndarray:
    """Return how many times the data decide each estimate with a chance of ``POWER``: (m,); infinite where none do.

    ::

        θ ~ Normal(θ̂, se²),     θ̂' ~ Normal(θ, se²/f)      so     θ̂' ~ Normal(θ̂, se² (1 + 1/f))
        decided:   lower + h₋/√f ≤ θ̂' ≤ upper − h₊/√f,     or  θ̂' beyond a limit by s h/√f
                   h: the half of the interval that faces the limit,  s: ``stretch``

    ``stretch`` : how much wider the interval is that takes the correction of the whole family.
    """
    root = np.sqrt(_FACTORS)[:, None]
    error = (high - low) / (2 * scipy.special.ndtri((1 + CONFIDENCE) / 2)) * np.sqrt(1 + 1 / root**2)
    below, above = (value - low) / root, (high - value) / root

    def chance_below(end: np.ndarray) -> np.ndarray:
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.asarray(scipy.special.ndtr((end - value) / error))

    kept = np.maximum(chance_below(upper - above) - chance_below(lower + below), 0.0)
    broken = 1 - chance_below(upper + stretch * below) + chance_below(lower - stretch * above)
    shares = np.nan_to_num(kept + broken)
    return PowerCurve(_FACTORS, shares, shares, shares).sizes_for(POWER, shares)


_FACTORS = np.geomspace(1, 1e6, 121)
"""Times the data that are tried."""
