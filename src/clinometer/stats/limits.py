"""Limits on estimates: which are shown to keep them, which are shown to break them, and which are neither.

Both are shown by the same 95 % interval. An estimate keeps its limits where the whole interval lies within them. It
breaks them where the interval lies beyond, after a correction for how many estimates were held to limits. See decision
50.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import isfinite

import numpy as np
import scipy

from clinometer.errors import InvalidInputError
from clinometer.stats.equivalence import images_to_decide, squared_ratio
from clinometer.stats.multiplicity import holm

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
    n_decide : units that would decide an estimate, if it stood; 0 where it is decided, or where no number would.
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
    """Hold each estimate of a family to its own limits.

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
        shapes = ", ".join(str(array.shape) for array in arrays)
        raise InvalidInputError(f"limits: expected arrays of one shape (m,), found {shapes}")
    value, low, high, n, freedom, lower, upper = arrays
    if np.isnan(lower).any() or np.isnan(upper).any() or (lower > upper).any():
        raise InvalidInputError("limits: expected at_least ≤ at_most, found a NaN or a lower limit above the upper one")
    with np.errstate(invalid="ignore"):
        within = (lower <= np.minimum(low, value)) & (np.maximum(high, value) <= upper)
    distance, half = _beyond(value, low, high, lower, upper)
    p = _p_values(distance, half, freedom)
    adjusted = holm(p)
    with np.errstate(invalid="ignore"):
        beyond = adjusted <= alpha
    stretch = _reach(freedom, alpha / max(1, np.isfinite(p).sum())) / _reach(freedom, alpha)
    needed = [
        0 if decided else _units_to_decide(*estimate)
        for decided, *estimate in zip(within | beyond, value, low, high, n, lower, upper, stretch, strict=True)
    ]
    return HeldToLimits(within, beyond, p, adjusted, np.array(needed, np.int64))


def _beyond(
    value: np.ndarray, low: np.ndarray, high: np.ndarray, lower: np.ndarray, upper: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """How far each estimate is beyond the limit next to it, negative where it keeps it; and the half that faces it.

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
    """Half the width of an interval of confidence 1 − α, in standard errors."""
    return np.asarray(scipy.stats.t.isf(alpha / 2, freedom))


def _p_values(distance: np.ndarray, half: np.ndarray, freedom: np.ndarray) -> np.ndarray:
    with np.errstate(divide="ignore", invalid="ignore"):
        p = 2 * scipy.stats.t.sf(_reach(freedom, 1 - CONFIDENCE) * distance / half, freedom)
    p = np.where(distance > 0, np.where(half > 0, p, 0.0), 1.0)
    return np.where(np.isnan(distance) | np.isnan(half), np.nan, np.minimum(p, 1.0))


def _units_to_decide(
    value: float, low: float, high: float, units: float, lower: float, upper: float, stretch: float
) -> int:
    """Units with which the interval would end at the limit that it reaches over, as intervals shrink by 1/√n.

    ``stretch`` : how much wider the interval is that takes the correction of the whole family.
    """
    if not all(map(isfinite, (value, low, high))) or units < 1:
        return 0
    if lower <= value <= upper:
        factors = [
            _squared(half, distance)
            for half, distance in ((high - value, upper - value), (value - low, value - lower))
            if isfinite(distance)
        ]
        return images_to_decide(int(units), max(factors, default=0.0))
    half, distance = (value - low, value - upper) if value > upper else (high - value, lower - value)
    return images_to_decide(int(units), _squared(stretch * half, distance))


def _squared(half: float, distance: float) -> float:
    return float(squared_ratio(np.array(half), np.array(distance)))
