"""What an editing study is given: its design, what encoders read, the faces."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from typing import Any, Protocol

import numpy as np


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
    tones : the two tones whose skin changes are compared, lighter first; empty: none are.
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
        """Every (professions, strength), by positions, with its names in rows: the classes first, then each one."""
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
    """

    encoder: str
    before: np.ndarray
    after: np.ndarray
    identity: np.ndarray


class Images(Protocol):
    """Images by position, indexed as numpy's arrays are; they may wait outside memory."""

    def __getitem__(self, index: Any, /) -> np.ndarray:
        """Those at some positions: (…, h, w, 3)."""
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
