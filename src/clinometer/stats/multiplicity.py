"""Correction for many tests, and how many images decide them.

The family of a correction is named by the caller. A NaN is not a test and is not counted.
"""

from __future__ import annotations

from math import ceil, isfinite, nan

import numpy as np
import scipy

from clinometer.errors import InvalidInputError


def benjamini_hochberg(p_values: np.ndarray) -> np.ndarray:
    """q-values of a family of tests (Benjamini & Hochberg 1995).

    Calling what has q ≤ α keeps the expected share of false calls among all calls at α or below.
    """
    p_values = _family("p_values", p_values, most=1.0)
    q_values = np.full(p_values.shape, np.nan)
    tested = np.isfinite(p_values)
    if tested.any():
        q_values[tested] = scipy.stats.false_discovery_control(p_values[tested])
    return q_values


def holm(p_values: np.ndarray) -> np.ndarray:
    """Adjusted p-values of a family of tests, step-down (Holm 1979).

    ::

        p̃_(i) = max_{j ≤ i} min(1, (m − j + 1) p_(j))        p_(1) ≤ … ≤ p_(m)

    Calling what has p̃ ≤ α keeps the chance of any false call at α or below, however the tests depend on each other;
    never smaller than the q-value.
    """
    p_values = _family("p_values", p_values, most=1.0)
    adjusted = np.full(p_values.shape, np.nan)
    tested = np.flatnonzero(np.isfinite(p_values))
    order = tested[np.argsort(p_values[tested], kind="stable")]
    steps = p_values[order] * np.arange(len(order), 0, -1)
    adjusted[order] = np.minimum(np.maximum.accumulate(steps), 1.0)
    return adjusted


def e_benjamini_hochberg(e_values: np.ndarray) -> np.ndarray:
    """q-values of a family of e-values, however they depend on each other (Wang & Ramdas 2022).

    ::

        q_(i) = min_{j ≥ i} min(1, m / (j e_(j)))        e_(1) ≥ … ≥ e_(m)

    Calling what has q ≤ α keeps the expected share of false calls among all calls at α or below. A test that gathers
    evidence only until it is called stays called, whatever the others come to.

    Examples
    --------
    >>> [float(q) for q in e_benjamini_hochberg(np.array([80.0, 0.5, 40.0, np.nan]))]
    [0.0375, 1.0, 0.0375, nan]
    """
    e_values = _family("e_values", e_values, most=np.inf)
    q_values = np.full(e_values.shape, np.nan)
    tested = np.flatnonzero(~np.isnan(e_values))
    order = tested[np.argsort(-e_values[tested], kind="stable")]
    with np.errstate(divide="ignore"):
        steps = len(order) / (np.arange(1, len(order) + 1) * e_values[order])
    q_values[order] = np.minimum(np.minimum.accumulate(steps[::-1])[::-1], 1.0)
    return q_values


def _family(name: str, values: np.ndarray, most: float) -> np.ndarray:
    """Return the numbers of a family of tests (m,), each from 0 to ``most`` or NaN."""
    values = np.asarray(values, np.float64)
    if values.ndim != 1:
        raise InvalidInputError(f"{name}: expected one dimension (m,), found shape {values.shape}")
    outside = values[(values < 0) | (values > most * (1 + 1e-9))]  # sums of probabilities round
    if outside.size:
        raise InvalidInputError(f"{name}: expected numbers from 0 to {most:g}, found {outside[0]:g}")
    return values


FEWEST = 2.0
"""One image has no spread, so no interval and no verdict."""

LARGEST_SHARE_DESIGN = 4_000
"""Images up to which the power of a share is computed exactly; past it, by the normal formula."""


def images_to_detect(effect: float, deviation: float, *, power: float = 0.8, alpha: float = 0.05) -> float:
    """Return how many images a two-sided test of level alpha needs to find an effect with this power.

    ::

        n = ( (z_{1−α/2} + z_{power}) · σ / |effect| )²,  rounded up

    Parameters
    ----------
    effect : the score that is to be found.
    deviation : σ, the standard error times √n of a pilot: what one image contributes when all sets grow alike.

    Returns
    -------
    A whole number from 2 upwards, or NaN where the effect is 0 or an argument is NaN: no number of images finds an
    effect of 0.
    """
    _check(power, alpha)
    if not (isfinite(effect) and isfinite(deviation)) or effect == 0:
        return nan
    return max(FEWEST, ceil(((_z(1 - alpha / 2) + _z(power)) * deviation / abs(effect)) ** 2))


def images_to_show_balance(
    margin: float, deviation: float, *, value: float = 0.0, power: float = 0.8, alpha: float = 0.05
) -> float:
    """Return how many images two one-sided tests need to show ``|θ| < margin`` with this power, if θ is ``value``.

    ::

        n = ( (z_{1−α} + z_{(1+power)/2}) · σ / δ )²            at θ = 0
        n = ( (z_{1−α} + z_{power}) · σ / (δ − |θ|) )²          elsewhere, the larger of the two

    (Julious 2004, *Sample sizes for clinical trials with normal data*, eq. 20 and 23). NaN where |θ| ≥ δ: what is not
    balanced is shown balanced by no number of images.
    """
    _check(power, alpha)
    if not (isfinite(margin) and isfinite(deviation) and isfinite(value)) or abs(value) >= margin:
        return nan
    centred = (_z(1 - alpha) + _z((1 + power) / 2)) * deviation / margin
    shifted = (_z(1 - alpha) + _z(power)) * deviation / (margin - abs(value))
    return max(FEWEST, ceil(max(centred, shifted if value else 0.0) ** 2))


def images_for_share(share: float, *, power: float = 0.8, alpha: float = 0.05) -> float:
    """Return how many images an exact binomial test against ½ needs to find this share, in every larger design too.

    Exact power saws up and down with n; the number given is past the last dip, up to the largest design that is
    computed exactly. It needs no pilot: the spread of a share follows from the share. NaN at ½.

    >>> images_for_share(0.75)
    35.0
    """
    _check(power, alpha)
    if not 0 <= share <= 1:
        raise InvalidInputError(f"share: expected a number in [0, 1], found {share}")
    if share == 0.5:
        return nan
    normal = images_to_detect(share - 0.5, 0.5, power=power, alpha=alpha)
    if normal > LARGEST_SHARE_DESIGN:
        return normal
    n, binom = np.arange(1, int(1.5 * normal) + 31), scipy.stats.binom
    # how often so many images of this share are significant, two-sided, against ½
    most = binom.ppf(alpha / 2, n, 0.5)
    bound = np.where(2 * binom.cdf(most, n, 0.5) <= alpha, most, most - 1)
    reached = binom.cdf(bound, n, share) + binom.sf(n - bound - 1, n, share)
    return float(n[reached < power].max(initial=0) + 1)


def _check(power: float, alpha: float) -> None:
    for name, value in (("power", power), ("alpha", alpha)):
        if not 0 < value < 1:
            raise InvalidInputError(f"expected a number between 0 and 1, found {value}", field=name)


def _z(level: float) -> float:
    return float(scipy.stats.norm.ppf(level))
