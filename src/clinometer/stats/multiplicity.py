"""Correction for many tests."""

from __future__ import annotations

import numpy as np
from scipy.stats import false_discovery_control


def benjamini_hochberg(p_values: np.ndarray) -> np.ndarray:
    """q-values of a family of tests (Benjamini & Hochberg 1995); a NaN is no test and is not counted."""
    p_values = np.asarray(p_values, np.float64)
    q_values = np.full(p_values.shape, np.nan)
    tested = np.isfinite(p_values)
    if tested.any():
        q_values[tested] = false_discovery_control(p_values[tested])
    return q_values
