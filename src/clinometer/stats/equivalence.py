"""Equivalence: showing that an effect is smaller than a margin, which failing to find it does not."""

from __future__ import annotations

from math import ceil, inf, isfinite, nan

from scipy.stats import norm, t

from clinometer.errors import InvalidInputError


def standard_error_of(low: float, high: float, confidence: float = 0.95) -> float:
    """Standard error that a normal interval of this width has: ``(high − low) / (2 z)``; NaN from NaN."""
    return (high - low) / (2 * float(norm.ppf((1 + confidence) / 2)))


def equivalence_p_value(value: float, standard_error: float, margin: float, freedom: float = inf) -> float:
    """Two one-sided tests of ``|θ| ≥ margin`` (Schuirmann 1987): the larger of their p-values.

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
        raise InvalidInputError(f"margin: expected a positive number, found {margin}")
    if standard_error < 0:
        raise InvalidInputError(f"standard_error: expected 0 or more, found {standard_error}")
    if not (isfinite(value) and isfinite(standard_error)):
        return nan
    inside = margin - abs(value)
    if standard_error == 0:
        return 0.0 if inside > 0 else 1.0
    return float(t.sf(inside / standard_error, freedom))


def factor_to_decide(value: float, standard_error: float, margin: float | None = None, alpha: float = 0.05) -> float:
    """How many times the data would decide, if the estimate stood: as leaning, or (with a margin) as balanced.

    ::

        leaning:   (z_{1−α/2} · se / |θ̂|)²          balanced: (z_{1−α} · se / (δ − |θ̂|))²  where |θ̂| < δ

    The smaller of the two, from ``se ∝ 1/√n``; infinite at an estimate of exactly 0 without a margin. It is no power
    analysis: the estimate is taken as the truth, and a new draw decides about every other time.
    """
    if not (isfinite(value) and isfinite(standard_error)):
        return nan
    gaps = [(abs(value), 1 - alpha / 2)]
    if margin is not None:
        gaps.append((margin - abs(value), 1 - alpha))
    return min((_squared_ratio(float(norm.ppf(level)) * standard_error, gap) for gap, level in gaps), default=inf)


def _squared_ratio(part: float, whole: float) -> float:
    """``(part / whole)²``, infinite where the whole is 0, negative or too small to divide by."""
    return (part / whole) ** 2 if whole > 1e-100 * max(part, 1.0) else inf


def images_to_decide(
    n: int, value: float, standard_error: float, margin: float | None = None, alpha: float = 0.05
) -> int:
    """Images instead of ``n`` that would decide, all sets growing alike; 0 where no number would."""
    factor = factor_to_decide(value, standard_error, margin, alpha)
    return max(n + 1, ceil(n * factor)) if isfinite(factor) and factor < 1e6 else 0
