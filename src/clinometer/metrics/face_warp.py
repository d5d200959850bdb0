"""Faces laid over each other by their landmarks: one shape for all, so that an average does not blur.

The 68 landmarks are those of Sagonas et al. (2013), *300 Faces in-the-Wild Challenge*: jaw 0–16, brows 17–26, nose
27–35, eyes 36–41 and 42–47, mouth 48–67. A face is turned, moved and scaled until its eyes lie where every face's do,
then each triangle between landmarks is stretched to that of the common shape, as average faces have been made since
Rowland & Perrett (1995). See decision 25.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
from skimage.transform import PiecewiseAffineTransform, warp

from clinometer.errors import InvalidInputError

LANDMARKS: Final = 68
FIRST_EYE: Final = slice(36, 42)
SECOND_EYE: Final = slice(42, 48)

EYES_AT: Final = (0.33 + 0.40j, 0.67 + 0.40j)
"""Where the eyes' centres lie in the frame, a unit square with (0, 0) top left: brows to chin fill it."""

BORDER: Final = np.array([0, 0.5, 1, 1 + 0.5j, 1 + 1j, 0.5 + 1j, 1j, 0.5j])
"""Points of the frame that stay where they are, so that what lies around a face comes along."""

OVERSAMPLING: Final = 4
"""Points a side that are averaged into each pixel of a warped face."""


def mean_shape(faces: Sequence[np.ndarray]) -> np.ndarray:
    """Average the landmarks of faces whose eyes have been laid over each other: (68, 2) in the unit frame.

    Parameters
    ----------
    faces : (68, 2) each, x and y in pixels of the face's own image. Moving, turning or scaling one changes nothing.

    Raises
    ------
    InvalidInputError
        No face; landmarks that are not (68, 2) and finite; eyes in one place.
    """
    if not len(faces):
        raise InvalidInputError("faces: found none, expected the landmarks of one or more")
    framed = []
    for face in faces:
        points = _points(face)
        scale, shift = _to_frame(points)
        framed.append(scale * points + shift)
    mean = np.mean(framed, axis=0)
    return np.stack([mean.real, mean.imag], axis=-1)


def warp_face(rgb: np.ndarray, landmarks: np.ndarray, shape: np.ndarray, size: int) -> np.ndarray:
    """Bring a face into a shape: (size, size, 3) float32 in [0, 1].

    Piecewise affine over the Delaunay triangles of the shape's landmarks and the frame's border; where the frame
    reaches beyond the image, the image's edge goes on.

    Parameters
    ----------
    rgb : (H, W, 3) uint8, or float in [0, 1].
    landmarks : (68, 2) x and y of this face in pixels; the first pixel's centre is (0, 0).
    shape : (68, 2) in the unit frame, from :func:`mean_shape`.
    size : pixels a side.

    Raises
    ------
    InvalidInputError
        As :func:`mean_shape`.
    """
    points, goal = _points(landmarks), _points(shape)
    scale, shift = _to_frame(points)
    fine = size * OVERSAMPLING
    there = _columns(np.concatenate([goal, BORDER]) * fine - 0.5 * (1 + 1j))
    here = _columns(np.concatenate([points, (BORDER - shift) / scale]))
    bend = PiecewiseAffineTransform.from_estimate(there, here)
    image = rgb.astype(np.float32) / (255 if rgb.dtype == np.uint8 else 1)
    warped = warp(image, bend, output_shape=(fine, fine), order=1, mode="edge", preserve_range=True)
    blocks = warped.reshape(size, OVERSAMPLING, size, OVERSAMPLING, 3)
    return np.asarray(np.clip(blocks.mean(axis=(1, 3)), 0, 1), np.float32)


def _points(landmarks: np.ndarray) -> np.ndarray:
    """Landmarks as complex numbers x + iy."""
    points = np.asarray(landmarks, np.float64)
    if points.shape != (LANDMARKS, 2) or not np.isfinite(points).all():
        raise InvalidInputError(f"landmarks: expected ({LANDMARKS}, 2) finite numbers, found shape {points.shape}")
    return np.asarray(points[:, 0] + 1j * points[:, 1])


def _to_frame(points: np.ndarray) -> tuple[complex, complex]:
    """The similarity ``scale · z + shift`` that takes the eyes' centres to their places."""
    first, second = points[FIRST_EYE].mean(), points[SECOND_EYE].mean()
    if first == second:
        raise InvalidInputError("landmarks: the eyes lie in one place; expected two")
    scale = (EYES_AT[1] - EYES_AT[0]) / (second - first)
    return scale, EYES_AT[0] - scale * first


def _columns(points: np.ndarray) -> np.ndarray:
    return np.stack([points.real, points.imag], axis=-1)
