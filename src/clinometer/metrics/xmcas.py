"""xMCAS: MCAS and the similarity to a third group, as a point on a plane.

*eXtended Multimodal Composite Association Score* (xMCAS), eq. 4 and 5,
figure 2.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import isfinite
from numbers import Real

import numpy as np

from clinometer.errors import InvalidInputError
from clinometer.stats.association import Array, numbers_together

CENTROID = (1 / 3, 0.0)
"""(similarity, MCAS) of an unbiased target: the centre of the triangle (0, 1), (0, −1), (1, 0)."""

UNBIASED_ANGLE = float(np.arctan2(1 / 3, 1))
"""Angle of the centroid: atan2(1/3, 1) = 0.32175 rad = 18.43°. (The paper prints 0.17, which is wrong.)"""

UNDEFINED = "mcas, similarity or offset is not defined"
AT_ORIGIN = "angle: similarity and 1 − |MCAS| + offset are both 0, which is no direction"

_ROUNDING = 1e-12


@dataclass(frozen=True)
class Xmcas:
    """A target on the xMCAS plane: polar form ``±mcas ∠ angle`` (radians), Euclidean form ``distance``."""

    mcas: Array
    similarity: Array
    angle: Array
    distance: Array
    reason: str = ""


def xmcas(
    *,
    mcas: Array,
    similarity: Array,
    offset: Array = 0.0,
    centroid: tuple[float, float] = CENTROID,
) -> Xmcas:
    """Polar and Euclidean form of xMCAS, for one target or for arrays of targets.

    Arrays of any library of the Array API standard: a torch tensor keeps its gradient and its device.

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
        Not a number, shapes that do not match, arrays of several libraries, or a centroid that is not a point.

    Examples
    --------
    >>> unbiased = xmcas(mcas=0.0, similarity=1 / 3)
    >>> round(unbiased.angle, 5), unbiased.distance
    (0.32175, 0.0)
    """
    xp, (m, c, k) = numbers_together(mcas=mcas, similarity=similarity, offset=offset)
    try:
        np.broadcast_shapes(m.shape, c.shape, k.shape)
    except ValueError:
        shapes = ", ".join(str(tuple(x.shape)) for x in (m, c)) + f" and {tuple(k.shape)}"
        raise InvalidInputError(f"mcas, similarity, offset: expected shapes that match, found {shapes}") from None
    if np.shape(centroid) != (2,) or not all(isinstance(x, Real) and isfinite(x) for x in centroid):
        raise InvalidInputError(f"centroid: expected two finite numbers (similarity, MCAS), found {centroid!r}")
    m, c, k = (xp.where(xp.isfinite(x), x, xp.nan) for x in (m, c, k))
    rest = 1 - xp.abs(m) + k
    origin = (xp.abs(c) <= _ROUNDING) & (xp.abs(rest) <= _ROUNDING)
    angle = xp.where(origin, xp.nan, xp.atan2(c, xp.where(origin, xp.ones_like(rest), rest)))
    along, across = c - centroid[0], m - centroid[1]
    squares = along * along + across * across
    # The root has no slope at the centroid itself; left as it is there, the distance is 0 and its gradient too.
    distance = xp.where(squares > 0, xp.sqrt(xp.where(squares > 0, squares, xp.ones_like(squares))), squares)
    reason = "" if bool(xp.all(xp.isfinite(m + c + k))) else UNDEFINED
    reason = reason or (AT_ORIGIN if bool(xp.any(origin)) else "")
    if xp is np and angle.ndim == 0:
        return Xmcas(float(m), float(c), float(angle), float(distance), reason)
    return Xmcas(m, c, angle, distance, reason)
