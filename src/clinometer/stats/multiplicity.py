"""Correction for many tests.

The family of a correction is named by the caller. A NaN is not a test and is not counted.
"""

from __future__ import annotations

import numpy as np
import scipy

from clinometer.errors import InvalidInputError


def benjamini_hochberg(p_values: np.ndarray) -> np.ndarray:
    """Return q-values of a family of tests (Benjamini & Hochberg 1995).

    Calling what has q ≤ α keeps the expected share of false calls among all calls at α or below.
    """
    p_values = _family("p_values", p_values, most=1.0)
    q_values = np.full(p_values.shape, np.nan)
    tested = np.isfinite(p_values)
    if tested.any():
        q_values[tested] = scipy.stats.false_discovery_control(p_values[tested])
    return q_values


def holm(p_values: np.ndarray) -> np.ndarray:
    """Return the adjusted p-values of a family of tests, step-down (Holm 1979).

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
    """Return q-values of a family of e-values, however they depend on each other (Wang & Ramdas 2022).

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
        raise InvalidInputError.expected_shape("one dimension (m,)", values, field=name)
    outside = values[(values < 0) | (values > most * (1 + 1e-9))]  # sums of probabilities round
    if outside.size:
        raise InvalidInputError.out_of_range(f"expected numbers from 0 to {most:g}, found {outside[0]:g}", field=name)
    return values
