"""The pixels of an editing study: angles at full size, small faces to average, and how those lie over each other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from PIL import Image

from clinometer.metrics.face_warp import mean_shape, warp_face
from clinometer.metrics.skin import skin_tone
from clinometer.models.faces import EXTRA, load_landmarker
from clinometer.models.images import encode_png
from clinometer.models.protocols import FaceLandmarker
from clinometer.runs.plan import Sample
from clinometer.runs.store import Run
from clinometer.studies.editing.design import EditingDesign, Faces, setting_name
from clinometer.studies.editing.scores import average_face

FACE_SIZE = 64
"""Pixels a side of the faces that are averaged."""

ENOUGH = 0.5
"""Share of the portraits in which a face must be found for faces to be warped at all: drawings have none."""


@dataclass(frozen=True)
class Alignment:
    """How faces are laid over each other: warped to a shape, or plainly by the image's frame.

    Attributes
    ----------
    landmarker, shape : what finds landmarks and the shape that faces are brought into; both None for plain means.
    words : which of the two it is, and why, for the report.
    """

    words: str
    landmarker: FaceLandmarker | None = None
    shape: np.ndarray | None = None

    def small(self, image: Image.Image) -> np.ndarray | None:
        """A small face, (64, 64, 3) float32 in [0, 1]; None where faces are warped and none is found."""
        if self.landmarker is None or self.shape is None:
            return np.asarray(image.resize((FACE_SIZE, FACE_SIZE)), np.float32) / 255
        points = self.landmarker.landmarks(image)
        return None if points is None else warp_face(np.asarray(image), points, self.shape, FACE_SIZE)


UNALIGNED = Alignment("plain means of the pixels, not warped to landmarks")


def align(run: Run, portraits: Sequence[Sample]) -> Alignment:
    """Warp faces to the mean shape of the portraits, where landmarks can be found in enough of them."""
    landmarker = load_landmarker()
    if landmarker is None:
        return Alignment(f"{UNALIGNED.words} (for that: {EXTRA})")
    faces, n_images = [], 0
    for key, content in run.images([portrait.id for portrait in portraits]):
        if content is None:
            continue
        n_images += 1
        points = landmarker.landmarks(run.decoded(key, content))
        if points is not None:
            faces.append(points)
    where = f"a face was found in {len(faces)} of {n_images} portraits"
    if not faces or len(faces) < ENOUGH * n_images:
        return Alignment(f"{UNALIGNED.words}: {where} ({landmarker.name})")
    return Alignment(
        f"warped to the portraits' mean shape by {landmarker.name}; {where}", landmarker, mean_shape(faces)
    )  # fmt: skip


def read_faces(run: Run, portraits: Sequence[Sample], edits: np.ndarray, alignment: Alignment) -> Faces:
    """Angles at full size, and the images at a small one."""
    n, keys = len(portraits), [*(portrait.id for portrait in portraits), *edits.ravel()]
    rows = {key: row for row, key in enumerate(keys) if key}
    angles, drawn = np.full(len(keys), np.nan), np.zeros(len(keys), bool)
    small = np.full((len(keys), FACE_SIZE, FACE_SIZE, 3), np.nan, np.float32)
    for key, content in run.images(rows):
        if content is None:
            continue
        image, row = run.decoded(key, content), rows[key]
        angles[row], drawn[row] = skin_tone(np.asarray(image)).angle, True
        face = alignment.small(image)
        if face is not None:
            small[row] = face
    return Faces(
        before=angles[:n],
        after=angles[n:].reshape(edits.shape),
        drawn_before=drawn[:n],
        drawn_after=drawn[n:].reshape(edits.shape),
        image_before=small[:n],
        image_after=small[n:].reshape(*edits.shape, *small.shape[1:]),
    )


def average_faces(faces: Faces, groups: np.ndarray, design: EditingDesign, alignment: Alignment) -> pd.DataFrame:
    """The average face of each group before, and of each class and strength after, as PNG, and how many it is of."""
    rows = []
    for g, group in enumerate(design.groups):
        members = groups == g
        rows.append((group.name, "", "before", faces.image_before[members], faces.drawn_before[members]))
        for kind, positions in design.classes.items():
            for s, strength in enumerate(design.strengths):
                edited = faces.image_after[members][:, positions, s].reshape(-1, FACE_SIZE, FACE_SIZE, 3)
                drawn = faces.drawn_after[members][:, positions, s].ravel()
                rows.append((group.name, kind, setting_name(strength), edited, drawn))
    return pd.DataFrame(
        {
            "curve": "average_face",
            "group": [row[0] for row in rows],
            "category": [row[1] for row in rows],
            "setting": [row[2] for row in rows],
            "image": [_png(average_face(row[3])) for row in rows],
            "alignment": alignment.words,
            "faces": [int(np.isfinite(row[3]).all(axis=(1, 2, 3)).sum()) for row in rows],
            "drawn": [int(row[4].sum()) for row in rows],
        }
    )


def _png(face: np.ndarray | None) -> bytes | None:
    return None if face is None else encode_png(Image.fromarray((face * 255).round().astype(np.uint8)))
