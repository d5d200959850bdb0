"""xMCAS: MCAS and the similarity to a third group, as a point on a plane.

*eXtended Multimodal Composite Association Score* (xMCAS), eq. 4 and 5,
figure 2.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from clinometer.errors import InvalidInputError

CENTROID = (1 / 3, 0.0)
"""(similarity, MCAS) of an unbiased target: the centre of the triangle (0, 1), (0, −1), (1, 0)."""

UNBIASED_ANGLE = float(np.arctan2(1 / 3, 1))
"""Angle of the centroid: atan2(1/3, 1) = 0.32175 rad = 18.43°. (The paper prints 0.17, which is wrong.)"""

UNDEFINED = "mcas, similarity or offset is not defined"
AT_ORIGIN = "angle: similarity and 1 − |MCAS| + offset are both 0, which is no direction"

_ROUNDING = 1e-12

Number: TypeAlias = "float | np.ndarray"


@dataclass(frozen=True)
class Xmcas:
    """A target on the xMCAS plane: polar form ``±mcas ∠ angle`` (radians), Euclidean form ``distance``."""

    mcas: Number
    similarity: Number
    angle: Number
    distance: Number
    reason: str = ""


def xmcas(
    *,
    mcas: ArrayLike,
    similarity: ArrayLike,
    offset: ArrayLike = 0.0,
    centroid: tuple[float, float] = CENTROID,
) -> Xmcas:
    """Polar and Euclidean form of xMCAS, for one target or for arrays of targets.

    ::

        θ = atan2(c, 1 − |MCAS| + k)          o-d = ‖(c, MCAS) − centroid‖

    c is the target's similarity to the third group (mean cosine over the four modality pairs), k the offset
    (minus the mean MCAS of the third group's own concepts). A large θ means near to the third group; the
    distance says how far the target is from (1/3, 0), in no direction.

    ``centroid=(0, 1/3)`` reproduces the column the paper prints: it was computed with the axes of the
    centroid swapped.

    The angle is NaN where c and 1 − |MCAS| + k are both 0: the origin lies in no direction.

    Raises
    ------
    InvalidInputError
        Not a number, shapes that do not match, or a centroid that is not a point.

    Examples
    --------
    >>> unbiased = xmcas(mcas=0.0, similarity=1 / 3)
    >>> round(unbiased.angle, 5), unbiased.distance
    (0.32175, 0.0)
    """
    m, c, k = (_real(name, x) for name, x in (("mcas", mcas), ("similarity", similarity), ("offset", offset)))
    try:
        np.broadcast_shapes(m.shape, c.shape, k.shape)
    except ValueError:
        shapes = f"{m.shape}, {c.shape} and {k.shape}"
        raise InvalidInputError(f"mcas, similarity, offset: expected shapes that match, found {shapes}") from None
    if np.shape(centroid) != (2,) or not np.isfinite(_real("centroid", centroid)).all():
        raise InvalidInputError(f"centroid: expected two finite numbers (similarity, MCAS), found {centroid!r}")
    rest = 1 - np.abs(m) + k
    origin = (np.abs(c) <= _ROUNDING) & (np.abs(rest) <= _ROUNDING)
    angle = np.where(origin, np.nan, np.arctan2(c, rest))
    distance = np.hypot(c - centroid[0], m - centroid[1])
    reason = "" if np.isfinite(m + c + k).all() else UNDEFINED
    reason = reason or (AT_ORIGIN if origin.any() else "")
    if angle.ndim == 0:
        return Xmcas(float(m), float(c), float(angle), float(distance), reason)
    return Xmcas(m, c, angle, distance, reason)


def _real(name: str, value: ArrayLike) -> np.ndarray:
    try:
        numbers = np.asarray(value, np.float64)
        return np.where(np.isfinite(numbers), numbers, np.nan)
    except (TypeError, ValueError, RuntimeError) as error:
        raise InvalidInputError(f"{name}: expected a number or an array of numbers, found {value!r}") from error
