"""Landmarks by dlib, on a photograph that ships with scikit-image."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from skimage.data import astronaut

from clinometer.errors import Code, ModelError
from clinometer.models.protocols import FaceLandmarker
from clinometer.stats.skin import mean_shape, warp_face
from clinometer.studies.editing import faces
from tests.raising import raises


@pytest.fixture(scope="module")
def landmarker() -> FaceLandmarker:
    found = faces.load_landmarker()
    assert found is not None, "the tests need the extra: pip install -e '.[dev]'"
    return found


@pytest.fixture(scope="module")
def portrait() -> Image.Image:
    return Image.fromarray(astronaut())


def test_the_landmarks_lie_on_the_face(landmarker: FaceLandmarker, portrait: Image.Image) -> None:
    points = landmarker.landmarks(portrait)
    assert points is not None
    assert points.shape == (68, 2)
    first, second = points[36:42].mean(0), points[42:48].mean(0)
    np.testing.assert_allclose(first, [203, 101], atol=4)  # read off the photograph, by eye
    np.testing.assert_allclose(second, [247, 103], atol=4)
    assert points[8, 1] > points[57, 1] > points[33, 1] > first[1]  # chin below mouth below nose below eyes
    assert "dlib 2" in landmarker.name


def test_landmarks_go_with_the_face(landmarker: FaceLandmarker, portrait: Image.Image) -> None:
    moved = portrait.transform(portrait.size, Image.Transform.AFFINE, (1, 0, -60, 0, 1, -40))
    here, there = landmarker.landmarks(portrait), landmarker.landmarks(moved)
    assert here is not None
    assert there is not None
    np.testing.assert_allclose(there - here, np.tile([60.0, 40.0], (68, 1)), atol=4)


def test_warped_photographs_agree_where_plain_ones_do_not(landmarker: FaceLandmarker, portrait: Image.Image) -> None:
    turned = portrait.rotate(8, center=(225, 115), resample=Image.Resampling.BICUBIC)
    smaller = portrait.resize((410, 410))
    images = [portrait, turned, smaller]
    points = [landmarker.landmarks(image) for image in images]
    assert all(found is not None for found in points)
    shape = mean_shape([found for found in points if found is not None])
    warped = [warp_face(np.asarray(i), p, shape, 64) for i, p in zip(images, points, strict=True) if p is not None]
    plain = [np.asarray(image.resize((64, 64)), np.float32) / 255 for image in images]
    assert np.std(warped, axis=0)[16:48, 16:48].mean() < 0.035
    assert np.std(plain, axis=0).mean() > 0.02
    assert np.std(warped, axis=0)[16:48, 16:48].mean() < np.std(plain, axis=0)[4:24, 20:40].mean() / 2


def test_no_face_is_no_landmark(landmarker: FaceLandmarker) -> None:
    noise = np.random.default_rng(0).integers(0, 255, (200, 200, 3)).astype(np.uint8)
    assert landmarker.landmarks(Image.fromarray(noise)) is None
    assert landmarker.landmarks(Image.new("RGB", (8, 8), "white")) is None


def test_without_the_extra_there_is_no_landmarker(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = importlib.util.find_spec
    for missing in ("dlib", faces.PACKAGE):
        monkeypatch.setattr(
            importlib.util, "find_spec", lambda name, lost=missing: None if name == lost else whole(name)
        )
        assert faces.load_landmarker() is None


def test_another_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "other.dat").write_bytes(b"not the weights")
    with raises(ModelError, code=Code.MISMATCH, match=r"other\.dat"):
        faces.DlibLandmarker(tmp_path / "other.dat")
