"""The average face of portraits and of their edits, and by how much its tone of skin changes.

Faces are taken a few portraits at a time, as they may wait outside memory; what is held at once is one group's, of one
class of professions at one strength. See decision 25.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from math import nan
from typing import Final

import numpy as np

from clinometer.metrics.skin import skin_tone
from clinometer.stats.bootstrap import percentile_interval, rao_wu_weights
from clinometer.stats.clusters import ClusterEstimate
from clinometer.studies.editing.design import Faces, Images

PORTRAITS_AT_ONCE: Final = 16
"""Whose images are looked at together."""


def average_face(faces: Iterable[np.ndarray]) -> tuple[np.ndarray | None, int]:
    """Mean of faces, each (h, w, 3) in [0, 1], pixel by pixel, without those that are missing (NaN); and of how many.

    None without any. The faces must lie over each other: warped (:mod:`clinometer.metrics.face_warp`), or roughly alike
    as headshots from one prompt are. They are added up one after the other, so none need be held.
    """
    total, n = None, 0
    for face in faces:
        if np.isfinite(face).all():
            total = face.copy() if total is None else np.add(total, face, out=total)
            n += 1
    return (None if total is None else np.clip(total / total.dtype.type(n), 0, 1)), n


def average_face_angle(faces: Iterable[np.ndarray]) -> float:
    """Individual typology angle of the average of faces; NaN where too little of it is skin."""
    face, _ = average_face(faces)
    return nan if face is None else skin_tone(face).angle


def portrait_faces(images: Images, portraits: np.ndarray) -> Iterator[np.ndarray]:
    """The images of some portraits, a few portraits at a time: (m, h, w, 3)."""
    for first in range(0, len(portraits), PORTRAITS_AT_ONCE):
        yield images[portraits[first : first + PORTRAITS_AT_ONCE]]


def edit_faces(images: Images, portraits: np.ndarray, positions: Sequence[int], s: int) -> Iterator[np.ndarray]:
    """Those of their edits into some professions at one strength: (m, professions, h, w, 3)."""
    for first in range(0, len(portraits), PORTRAITS_AT_ONCE):
        yield images[portraits[first : first + PORTRAITS_AT_ONCE, None], np.array(positions), s]


def average_face_changes(
    faces: Faces,
    groups: np.ndarray,
    n_groups: int,
    cells: Sequence[tuple[Sequence[int], int]],
    *,
    n_resamples: int,
    seed: int,
) -> dict[tuple[int, int], ClusterEstimate]:
    """The change of the average face's angle, for every cell and group by their positions, portraits resampled.

    ``groups`` (n,): each portrait's group by position; ``cells`` : positions of professions, and a strength's.
    """
    changes = {}
    for g in range(n_groups):
        portraits = np.flatnonzero(groups == g)
        before = _stacked(portrait_faces(faces.image_before, portraits), len(portraits))
        average = _AverageFaces(before, n_resamples, seed)
        for order, (positions, s) in enumerate(cells):
            edits = edit_faces(faces.image_after, portraits, positions, s)
            changes[order, g] = average.change(_stacked((mean_of_known(x, axis=1) for x in edits), len(portraits)))
    return changes


def _stacked(pieces: Iterable[np.ndarray], n: int) -> np.ndarray:
    """Pieces of n faces one behind the other."""
    whole, first = np.zeros((0, 1, 1, 3)), 0
    for piece in pieces:
        whole = whole if first else np.empty((n, *piece.shape[1:]), piece.dtype)
        whole[first : first + len(piece)] = piece
        first += len(piece)
    return whole


class _AverageFaces:
    """The average face of a group's portraits (n, h, w, 3), held against those of their edits."""

    def __init__(self, before: np.ndarray, n_resamples: int, seed: int) -> None:
        self._before, self._has_face = before, _are_whole(before)
        self._n_resamples, self._seed = n_resamples, seed
        self._of_before: dict[bytes, tuple[float, np.ndarray]] = {}

    def change(self, after: np.ndarray) -> ClusterEstimate:
        """The change of its angle to the edits (n, h, w, 3), of the portraits that have a face before and after."""
        whole = self._has_face & _are_whole(after)
        n = int(whole.sum())
        if n == 0:
            return ClusterEstimate(nan, nan, nan, 0, "no portrait with a face before and after")
        angle, draws = self._before_angles(whole)
        angle_after, draws_after = self._angles(after if whole.all() else after[whole])
        value = angle_after - angle
        if np.isnan(value):
            return ClusterEstimate(nan, nan, nan, n, "too little skin in the average face")
        if n == 1:
            return ClusterEstimate(value, nan, nan, n, "one cluster has no spread")
        ends = percentile_interval(draws_after - draws, freedom=n - 1)
        missing = "" if np.isfinite(ends.low) else "too little skin in the average face of a resample"
        return ClusterEstimate(value, float(ends.low), float(ends.high), n, missing)

    def _before_angles(self, whole: np.ndarray) -> tuple[float, np.ndarray]:
        """Of the portraits themselves, once for all edits that have the same ones."""
        key = whole.tobytes()
        if key not in self._of_before:
            self._of_before[key] = self._angles(self._before if whole.all() else self._before[whole])
        return self._of_before[key]

    def _angles(self, faces: np.ndarray) -> tuple[float, np.ndarray]:
        """The angle of the average of whole faces, and its replicates where there are two or more."""
        angle, n = average_face_angle(faces), len(faces)
        if n == 1 or np.isnan(angle):
            return angle, np.zeros(0)
        weights = rao_wu_weights([n], self._n_resamples, np.random.default_rng([self._seed, 3]))
        return angle, np.array([_weighted_angle(faces, row) for row in weights])


def _are_whole(faces: np.ndarray) -> np.ndarray:
    return np.array([not np.isnan(face).any() for face in faces], bool)


def _weighted_angle(faces: np.ndarray, weights: np.ndarray) -> float:
    """Angle of the average of whole faces under weights that add up to 1: no face is copied."""
    return skin_tone(np.clip(np.tensordot(weights, faces, axes=1), 0, 1)).angle


def mean_of_known(values: np.ndarray, axis: int) -> np.ndarray:
    """Mean along an axis of what is there; NaN where nothing is."""
    is_known = np.isfinite(values)
    counts = is_known.sum(axis=axis)
    total = np.where(is_known, values, 0.0).sum(axis=axis)
    return np.asarray(np.divide(total, counts, out=np.full(total.shape, nan), where=counts > 0))
