"""Fieller's interval for a ratio of means."""

from __future__ import annotations

from dataclasses import dataclass
from math import isfinite, nan, sqrt
from typing import Literal

import scipy

from clinometer.errors import InvalidInputError
from clinometer.stats.arguments import require_confidence

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
    """Confidence set of ``ρ = E[X] / E[Y]`` from estimates x, y that are near normal.

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
            raise InvalidInputError(f"variance_{name}: expected 0 or more, found {variance}")
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
