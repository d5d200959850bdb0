"""LOESS with a confidence band, by Cleveland's own code (scikit-misc)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from skmisc.loess import loess

_FEWEST_POINTS = 8  # below it a local line rests on fewer than six points at the usual span


@dataclass(frozen=True)
class SmoothCurve:
    """A fitted curve at the points ``x`` with its pointwise band; empty, with a reason, without a fit."""

    x: np.ndarray
    y: np.ndarray
    low: np.ndarray
    high: np.ndarray
    reason: str = ""


def loess_curve(
    x: np.ndarray, y: np.ndarray, *, span: float = 0.75, n_points: int = 60, confidence: float = 0.95
) -> SmoothCurve:
    """Local linear fit of y on x (Cleveland & Devlin 1988), on an even grid over the range of x.

    Pairs with a NaN are left out.
    """
    x, y = np.asarray(x, np.float64), np.asarray(y, np.float64)
    is_finite = np.isfinite(x) & np.isfinite(y)
    x, y = x[is_finite], y[is_finite]
    if len(np.unique(x)) < _FEWEST_POINTS:
        return _no_curve(f"{len(np.unique(x))} distinct points; a local fit needs {_FEWEST_POINTS}")
    grid = np.linspace(x.min(), x.max(), n_points)
    try:
        model = loess(x, y, span=span, degree=1)
        model.fit()
        prediction = model.predict(grid, stderror=True)
        band = prediction.confidence(alpha=1 - confidence)
    except ValueError as error:
        return _no_curve(f"the local fit is singular: {error}")
    return SmoothCurve(grid, np.array(prediction.values), np.array(band.lower), np.array(band.upper))


def _no_curve(reason: str) -> SmoothCurve:
    nothing = np.empty(0)
    return SmoothCurve(nothing, nothing, nothing, nothing, reason)
