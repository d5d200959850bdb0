"""The inputs of an editing study: its design, encoders' readings, faces, and how their average changes in tone.

Faces are read a few portraits at a time, as they may be kept outside memory; in memory at once are those of one group,
in one class of professions at one strength. See decision 25.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from math import nan
from typing import Any, Final, Protocol

import numpy as np

from clinometer.stats.bootstrap import BESIDE, percentile_interval, rao_wu_weights
from clinometer.stats.dependence import by_picture
from clinometer.stats.proportion import Estimate
from clinometer.stats.skin import skin_tone


@dataclass(frozen=True)
class PortraitGroup:
    """A group of portraits: the gender they were asked for, and their skin tone (empty: not distinguished)."""

    name: str
    gender: str
    tone: str = ""


@dataclass(frozen=True)
class EditingDesign:
    """Who was edited into what.

    Attributes
    ----------
    groups : the groups of portraits.
    a, b : the two genders that are read; a positive reading is a.
    professions : profession → class, such as "high-paid".
    strengths : of the edits, each in (0, 1].
    tones : those that are compared with the first, the lightest; empty: none are.
    """

    groups: tuple[PortraitGroup, ...]
    a: str
    b: str
    professions: Mapping[str, str]
    strengths: tuple[float, ...]
    tones: tuple[str, ...] = ()

    @property
    def classes(self) -> dict[str, list[int]]:
        """Class → positions of its professions."""
        classes: dict[str, list[int]] = {}
        for position, name in enumerate(self.professions.values()):
            classes.setdefault(name, []).append(position)
        return classes

    def cells(self) -> Iterator[tuple[list[int], int, dict[str, str]]]:
        """List (professions, strength) by positions, with names in rows: the classes first, then each profession."""
        kinds = [(positions, {"category": name}) for name, positions in self.classes.items()]
        kinds += [
            ([position], {"concept": name, "category": kind})
            for position, (name, kind) in enumerate(self.professions.items())
        ]
        for (positions, names), (s, strength) in product(kinds, enumerate(self.strengths)):
            yield positions, s, {**names, "setting": setting_name(strength)}


@dataclass(frozen=True)
class GenderReadings:
    """What one encoder reads in n portraits and their edits into P professions at S strengths.

    Attributes
    ----------
    before : (n, W) margins ``cos(image, text of a) − cos(image, text of b)``, one for each of W wordings.
    after : (n, P, S, W) the same of the edits; NaN where there is no image.
    identity : (n, P, S) cosine of the portrait and its edit.
    followed : (n, P, S) by how much more an edit came nearer to what it should show than to what others should; None
        where the suite does not say what edits show.
    """

    encoder: str
    before: np.ndarray
    after: np.ndarray
    identity: np.ndarray
    followed: np.ndarray | None = None


class Images(Protocol):
    """Images by position, indexed as numpy's arrays are; they may be kept outside memory."""

    def __getitem__(self, index: Any, /) -> np.ndarray:
        """Return those at some positions: (…, h, w, 3)."""
        ...


@dataclass(frozen=True)
class Faces:
    """The same portraits in pixels.

    Attributes
    ----------
    before, after : (n,) and (n, P, S) individual typology angles, NaN where the tone is unknown.
    drawn_before, drawn_after : (n,) and (n, P, S) bool, whether there is an image.
    image_before, image_after : (n, h, w, 3) and (n, P, S, h, w, 3) floats in [0, 1] at a common small size, NaN where
        there is no image or no face in it: for average faces.
    """

    before: np.ndarray
    after: np.ndarray
    drawn_before: np.ndarray
    drawn_after: np.ndarray
    image_before: Images
    image_after: Images


def setting_name(strength: float) -> str:
    """Name a strength as the rows do.

    >>> setting_name(1.0)
    'strength 1'
    """
    return f"strength {strength:g}"


FEWEST_FACES: Final = 4
"""Portraits from which on the interval of an average face was shown to cover (docs/simulations.md)."""

PORTRAITS_AT_ONCE: Final = 16
"""Portraits whose images are read together."""


def average_face(faces: Iterable[np.ndarray]) -> tuple[np.ndarray | None, int]:
    """Return the mean of faces (h, w, 3) in [0, 1], pixel by pixel, without missing ones (NaN), and their number.

    None without any. The faces must be aligned: warped (:mod:`clinometer.stats.skin`), or roughly alike as headshots
    from one prompt are. They are added up one after the other, so they need not be in memory together.
    """
    total, n = None, 0
    for face in faces:
        if np.isfinite(face).all():
            total = face.copy() if total is None else np.add(total, face, out=total)
            n += 1
    return (None if total is None else np.clip(total / total.dtype.type(n), 0, 1)), n


def average_face_angle(faces: Iterable[np.ndarray]) -> float:
    """Return the individual typology angle of the average of faces; NaN where too little of it is skin."""
    face, _ = average_face(faces)
    return nan if face is None else skin_tone(face).angle


def portrait_faces(images: Images, portraits: np.ndarray) -> Iterator[np.ndarray]:
    """Yield the images of some portraits, a few portraits at a time: (m, h, w, 3)."""
    for first in range(0, len(portraits), PORTRAITS_AT_ONCE):
        yield images[portraits[first : first + PORTRAITS_AT_ONCE]]


def edit_faces(images: Images, portraits: np.ndarray, positions: Sequence[int], s: int) -> Iterator[np.ndarray]:
    """Yield the images of portraits' edits into some professions at one strength: (m, professions, h, w, 3)."""
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
    batches: np.ndarray | None = None,
) -> dict[tuple[int, int], Estimate]:
    """Return the change of the average face's angle, for every cell and group by their positions, portraits resampled.

    ``groups`` (n,): each portrait's group by position; ``cells`` : positions of professions, and a strength's;
    ``batches`` (n,): of portraits, which are resampled whole.
    """
    changes = {}
    for g in range(n_groups):
        portraits = np.flatnonzero(groups == g)
        before = _stack(portrait_faces(faces.image_before, portraits), len(portraits))
        average = _AverageFaces(before, n_resamples, seed, None if batches is None else batches[portraits])
        for order, (positions, s) in enumerate(cells):
            edits = edit_faces(faces.image_after, portraits, positions, s)
            changes[order, g] = average.change(_stack((mean_of_known(x, axis=1) for x in edits), len(portraits)))
    return changes


def _stack(pieces: Iterable[np.ndarray], n: int) -> np.ndarray:
    """Return pieces of n faces one behind the other."""
    whole, first = np.zeros((0, 1, 1, 3)), 0
    for piece in pieces:
        whole = whole if first else np.empty((n, *piece.shape[1:]), piece.dtype)
        whole[first : first + len(piece)] = piece
        first += len(piece)
    return whole


class _AverageFaces:
    """The average face of a group's portraits (n, h, w, 3), compared with those of their edits."""

    def __init__(self, before: np.ndarray, n_resamples: int, seed: int, batches: np.ndarray | None = None) -> None:
        self._before, self._has_face, self._batches = before, _are_whole(before), batches
        self._n_resamples, self._seed = n_resamples, seed
        self._of_before: dict[bytes, tuple[float, np.ndarray]] = {}

    def change(self, after: np.ndarray) -> Estimate:
        """Measure the change of angle to the edits (n, h, w, 3), for portraits with a face before and after."""
        whole = self._has_face & _are_whole(after)
        n = int(whole.sum())
        if n == 0:
            return Estimate(nan, nan, nan, 0, "no portrait with a face before and after")
        labels = None if self._batches is None else self._batches[whole]
        # of the portraits themselves, once for all edits that have the same ones
        key = whole.tobytes()
        if key not in self._of_before:
            self._of_before[key] = self._angles(self._before if whole.all() else self._before[whole], labels)
        angle, draws = self._of_before[key]
        angle_after, draws_after = self._angles(after if whole.all() else after[whole], labels)
        value = angle_after - angle
        if np.isnan(value):
            return Estimate(nan, nan, nan, n, "too little skin in the average face")
        units = n if labels is None else len(np.unique(labels))
        if units < FEWEST_FACES:
            unit = "portraits" if labels is None else "batches"
            few = f"no interval: an average face of fewer than {FEWEST_FACES} {unit}"
            return Estimate(value, nan, nan, n, "one cluster has no spread" if n == 1 else few)
        changes = draws_after - draws
        ends = percentile_interval(changes, freedom=units - 1, value=value)
        lost = "too little skin in the average face of a resample" if np.isnan(changes).any() else BESIDE
        return Estimate(value, float(ends.low), float(ends.high), n, "" if np.isfinite(ends.low) else lost)

    def _angles(self, faces: np.ndarray, labels: np.ndarray | None) -> tuple[float, np.ndarray]:
        """Return the angle of the average of whole faces, and its replicates where there are two or more."""
        angle, units = average_face_angle(faces), len(faces) if labels is None else len(np.unique(labels))
        if np.isnan(angle) or units == 1:
            return angle, np.zeros(0)
        drawn = rao_wu_weights([units], self._n_resamples, np.random.default_rng([self._seed, 3]))
        weights = by_picture(drawn, labels)
        # angle of the average of whole faces under weights that add up to 1: no face is copied
        return angle, np.array([skin_tone(np.clip(np.tensordot(row, faces, axes=1), 0, 1)).angle for row in weights])


def _are_whole(faces: np.ndarray) -> np.ndarray:
    return np.array([not np.isnan(face).any() for face in faces], bool)


def mean_of_known(values: np.ndarray, axis: int) -> np.ndarray:
    """Return the mean along an axis of what is known; NaN where nothing is."""
    is_known = np.isfinite(values)
    counts = is_known.sum(axis=axis)
    total = np.where(is_known, values, 0.0).sum(axis=axis)
    return np.asarray(np.divide(total, counts, out=np.full(total.shape, nan), where=counts > 0))
