"""Internal bias: what the diffusion stage adds to the text encoder's own leaning.

Mandal, Leavy & Little, *Generated Bias: Auditing Internal Bias Dynamics of
Text-To-Image Generative Models*, eq. 4 and 5. All
functions work elementwise on arrays of components, of numpy or of any library of the Array API standard: a torch tensor
keeps its gradient and its device.

The curve of one on the other is LOESS with a confidence band, by Cleveland's own code (scikit-misc).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from skmisc.loess import loess

from clinometer.stats.association import Array, numbers_together

ROUNDING = 1e-12
"""By how much a difference of two mean cosines may miss 0 in float64 and be 0."""


def signed_diffusion_bias(ii: Array, tt: Array) -> Array:
    """``|II| − |TT|``, in [−2, 2]; positive: images lean more than the text encoder. δ is its magnitude."""
    xp, (ii, tt) = numbers_together(ii=ii, tt=tt)
    return xp.abs(ii) - xp.abs(tt)


def diffusion_bias(ii: Array, tt: Array) -> Array:
    """Diffusion bias ``δ = ||II| − |TT||`` (eq. 4), in [0, 2]; it says how much, not which way."""
    return abs(signed_diffusion_bias(ii, tt))


def signed_bias_amplification(itp: Array, ita: Array, tt: Array, *, rounding: float = ROUNDING) -> Array:
    """``(ITP + ITA) / (2 TT)``; negative: text–image and text–text lean opposite ways; NaN at TT = 0.

    ``rounding`` is how far from 0 a TT still is 0. See decision 4.
    """
    xp, (itp, ita, tt) = numbers_together(itp=itp, ita=ita, tt=tt)
    defined = xp.abs(tt) > rounding
    # Divided by 1 where it is undefined, so that no gradient is NaN for what the result leaves out.
    return xp.where(defined, (itp + ita) / (2 * xp.where(defined, tt, xp.ones_like(tt))), xp.nan)


def bias_amplification(itp: Array, ita: Array, tt: Array, *, rounding: float = ROUNDING) -> Array:
    """Bias amplification ``α = |(ITP + ITA) / (2 TT)|`` (eq. 5), from 0 up; NaN at TT = 0.

    Above 1, text-to-image leans more than text alone. It explodes near TT = 0. ``rounding`` as in the signed form.
    """
    return abs(signed_bias_amplification(itp, ita, tt, rounding=rounding))


def aligned_diffusion_bias(ii: np.ndarray, tt: np.ndarray, sign_ii: np.ndarray, sign_tt: np.ndarray) -> np.ndarray:
    """``|II| − |TT|`` of bootstrap draws, with the signs of the estimates: ``sign(ÎI)·II* − sign(T̂T)·TT*``.

    Draws of ``|II*|`` cannot reach below 0, so at II = 0 their percentiles never cover the truth. With the
    sign held, draws scatter evenly; and since ``||x̂| − |x|| ≤ |x̂ − x|`` (reverse triangle inequality), a
    symmetric interval that covers x around x̂ covers |x| around |x̂| at least as often.
    """
    return np.asarray(sign_ii * ii - sign_tt * tt)


def delta_alpha_curve(delta: ArrayLike, alpha: ArrayLike) -> SmoothCurve:
    """LOESS of bias amplification on diffusion bias (the paper's figures 3, 4); a NaN leaves a target out."""
    return loess_curve(np.asarray(delta), np.asarray(alpha))


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
