"""Equivalence: showing that an effect is smaller than a margin, which failing to find it does not.

And what decides where neither is shown: how many times the data would find the effect, or show it to be smaller. See
decision 5.
"""

from __future__ import annotations

from math import ceil, inf, isfinite, nan

import numpy as np
import scipy

from clinometer.errors import InvalidInputError


def standard_error_of(low: float, high: float, confidence: float = 0.95) -> float:
    """Standard error that a normal interval of this width has: ``(high − low) / (2 z)``; NaN from NaN."""
    return (high - low) / (2 * float(scipy.stats.norm.ppf((1 + confidence) / 2)))


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
        raise InvalidInputError(f"expected a positive number, found {margin}", field="margin")
    if standard_error < 0:
        raise InvalidInputError(f"standard_error: expected 0 or more, found {standard_error}")
    if not (isfinite(value) and isfinite(standard_error)):
        return nan
    inside = margin - abs(value)
    if standard_error == 0:
        return 0.0 if inside > 0 else 1.0
    return float(scipy.stats.t.sf(inside / standard_error, freedom))


def factors_to_decide(
    values: np.ndarray,
    lows: np.ndarray,
    highs: np.ndarray,
    p_values: np.ndarray,
    margin: float | None = None,
    alpha: float = 0.05,
) -> np.ndarray:
    """How many times the data would decide each estimate of a family, as leaning or as balanced, if all of them stood.

    ::

        leaning:   (z_{1−α/2} · se / |θ̂|)²,  with α_k for α where p has its correction still to pass
        balanced:  (z_{1−α_k} · se / (δ − |θ̂|))²  where |θ̂| < δ, and at least  ((z_{1−α_k} + z_{3/4}) · se / δ)²

    The smaller of the two, from ``se ∝ 1/√n`` with all data growing alike, and ``α_k = αk/m`` of the step of
    Benjamini–Hochberg that calls the test first (:func:`factors_in_family`). With the estimates as the truth, a new
    draw of so many data decides about every other time: these are the sizes for a power of one half
    (:mod:`clinometer.stats.power`). That is why an estimate of 0 needs some more than to stay where it is.

    Parameters
    ----------
    values, lows, highs : (tests,), the estimates and their 95 % intervals. For leaning, se is that of the side of 0.
    p_values : (tests,), of leaning; where one is NaN, there is no correction. They may be of another kind than the
        intervals, as of permuted prompts.

    Returns
    -------
    (tests,): infinite where no number decides. Where the interval is narrow enough already and p is not small, more of
    the same does not decide a leaning: what p lacks is something else.
    """
    values = np.asarray(values, np.float64)
    leaning = _factors_to_lean(np.abs(values), _errors_towards_0(values, lows, highs), np.asarray(p_values), alpha)
    if margin is None:
        return leaning
    balanced = _factors_to_balance(np.abs(values), (highs - lows) / (2 * scipy.stats.norm.ppf(0.975)), margin, alpha)
    return np.asarray(np.minimum(leaning, balanced))


def factors_in_family(alone: np.ndarray) -> np.ndarray:
    """How many times the data bring each test of a family to q ≤ α, all data growing alike.

    ``alone`` : (m tests, m steps), the factors f_ik that bring test i to the level αk/m. Benjamini–Hochberg calls it
    where for any k it is at that level and k tests are, ::

        f_i = min_k max( f_ik, f_(k)k ),        f_(1)k ≤ … ≤ f_(m)k
    """
    if not len(alone):
        return np.empty(0)
    enough = np.diagonal(np.sort(alone, axis=0))
    return np.asarray(np.maximum(alone, enough).min(axis=1))


def images_to_decide(n: int, factor: float) -> int:
    """Images instead of ``n`` that are so many times as many; 0 where no number would decide."""
    return max(n + 1, ceil(n * factor - 1e-6)) if isfinite(factor) and factor < 1e6 else 0


def _factors_to_lean(values: np.ndarray, errors: np.ndarray, p_values: np.ndarray, alpha: float) -> np.ndarray:
    to_reach = np.full(values.shape, scipy.stats.norm.isf(alpha / 2))
    tested = np.isfinite(p_values)
    scores = scipy.stats.norm.isf(np.clip(p_values[tested], 1e-300, 1 - 1e-9) / 2)  # neither infinite nor 0
    grown = factors_in_family(squared_ratio(scipy.stats.norm.isf(_steps(tested.sum(), alpha) / 2), scores[:, None]))
    to_reach[tested] = np.where(grown > 1, scores * np.sqrt(grown), to_reach[tested])
    factors = squared_ratio(to_reach * errors, values)
    return np.where(factors > 1, factors, inf)


def _factors_to_balance(values: np.ndarray, errors: np.ndarray, margin: float, alpha: float) -> np.ndarray:
    factors = np.full(values.shape, inf)
    tested = np.isfinite(values) & np.isfinite(errors)
    needed, errors = scipy.stats.norm.isf(_steps(tested.sum(), alpha)), errors[tested, None]
    at_estimate = squared_ratio(needed * errors, margin - values[tested, None])
    at_0 = squared_ratio((needed + scipy.stats.norm.ppf(0.75)) * errors, np.array(margin))
    factors[tested] = factors_in_family(np.maximum(at_estimate, at_0))
    return factors


def _errors_towards_0(values: np.ndarray, lows: np.ndarray, highs: np.ndarray) -> np.ndarray:
    """Standard errors by the half of each interval that faces 0, so that z > 1.96 where it leaves out 0."""
    halves = np.where(values > 0, values - lows, highs - values)
    return np.asarray(np.maximum(halves, 0.0) / scipy.stats.norm.ppf(0.975))


def _steps(m: int, alpha: float) -> np.ndarray:
    """Levels of Benjamini–Hochberg's steps: ``αk/m``."""
    return alpha * np.arange(1, m + 1) / m


def squared_ratio(part: np.ndarray, whole: np.ndarray) -> np.ndarray:
    """``(part / whole)²``, infinite where the whole is 0, negative or too small to divide by."""
    large = whole > 1e-100 * np.maximum(part, 1.0)
    return np.where(large, part / np.where(large, whole, 1.0), inf) ** 2
