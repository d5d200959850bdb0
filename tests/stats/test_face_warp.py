"""Warping faces to a common shape: what must not matter, and where landmarks must come to lie."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from skimage.transform import SimilarityTransform, resize, warp

from clinometer.errors import Code, InvalidInputError
from clinometer.stats.skin import EYES_AT, FIRST_EYE, SECOND_EYE, mean_shape, warp_face
from tests.raising import raises


def a_face(seed: int = 0, width: float = 100.0) -> np.ndarray:
    """Landmarks spread over a face of a width in pixels, the eyes where eyes are."""
    rng = np.random.default_rng(seed)
    angle = np.linspace(0, 2 * np.pi, 68, endpoint=False)
    points = np.stack([np.cos(angle), np.sin(angle)], -1) * np.linspace(0.25, 0.4, 68)[:, None] + 0.5
    points[FIRST_EYE] = [0.35, 0.4] + 0.02 * rng.standard_normal((6, 2))
    points[SECOND_EYE] = [0.65, 0.4] + 0.02 * rng.standard_normal((6, 2))
    return (points + 0.005 * rng.standard_normal((68, 2))) * width + 30


def moved(points: np.ndarray, scale: float, angle: float, x: float, y: float) -> np.ndarray:
    return SimilarityTransform(scale=scale, rotation=angle, translation=(x, y))(points)


def a_picture(size: int = 160) -> np.ndarray:
    y, x = np.mgrid[:size, :size] / size
    return np.stack([0.5 + 0.4 * np.sin(5 * x), 0.5 + 0.4 * np.cos(4 * y), x * y], -1).astype(np.float32)


@settings(max_examples=30)
@given(st.floats(0.2, 5), st.floats(-3, 3), st.floats(-200, 200), st.floats(-200, 200))
def test_a_shape_does_not_know_where_the_face_was(scale: float, angle: float, x: float, y: float) -> None:
    faces = [a_face(0), a_face(1)]
    elsewhere = [faces[0], moved(faces[1], scale, angle, x, y)]
    np.testing.assert_allclose(mean_shape(elsewhere), mean_shape(faces), atol=1e-9)


def test_the_eyes_lie_in_their_places() -> None:
    shape = mean_shape([a_face(seed) for seed in range(5)])
    for part, place in ((FIRST_EYE, EYES_AT[0]), (SECOND_EYE, EYES_AT[1])):
        np.testing.assert_allclose(shape[part].mean(axis=0), [place.real, place.imag], atol=1e-12)


def test_the_mean_of_one_face_is_the_face_and_warps_it_by_a_similarity() -> None:
    face, picture = a_face(), a_picture()
    warped = warp_face(picture, face, mean_shape([face]), 32)
    first, second = face[FIRST_EYE].mean(0), face[SECOND_EYE].mean(0)
    turn = SimilarityTransform.from_estimate(
        np.array([[z.real, z.imag] for z in EYES_AT]) * 128 - 0.5, np.array([first, second])
    )
    plain = warp(picture, turn, output_shape=(128, 128), order=1, mode="edge")
    np.testing.assert_allclose(warped, resize(plain, (32, 32), order=1, anti_aliasing=False), atol=0.01)


@pytest.mark.parametrize("angle", [0.0, 0.4, -0.7])
def test_turning_and_scaling_picture_and_face_changes_nothing(angle: float) -> None:
    face, picture, shape = a_face(), a_picture(), mean_shape([a_face(0), a_face(1)])
    turn = SimilarityTransform(scale=1.5, rotation=angle, translation=(60, 80))
    turned = warp(picture, turn.inverse, output_shape=(400, 400), order=3, mode="edge")
    inner = (slice(8, 28), slice(8, 28))  # the frame's rim may lie outside one picture and not the other
    once, again = warp_face(picture, face, shape, 32), warp_face(turned.astype(np.float32), turn(face), shape, 32)
    np.testing.assert_allclose(again[inner], once[inner], atol=0.01)


def test_landmarks_come_to_lie_on_the_shape() -> None:
    face, shape, size = a_face(3), mean_shape([a_face(seed) for seed in range(4)]), 64
    for landmark in (0, 8, 30, 48, 60):
        y, x = np.mgrid[:160, :160]
        spot = np.exp(-((x - face[landmark, 0]) ** 2 + (y - face[landmark, 1]) ** 2) / 8)
        warped = warp_face(np.repeat(spot[..., None], 3, -1).astype(np.float32), face, shape, size)[..., 0]
        row, column = np.unravel_index(warped.argmax(), warped.shape)
        np.testing.assert_allclose([column, row], shape[landmark] * size - 0.5, atol=1.0)


def test_bytes_and_fractions_are_one_picture() -> None:
    face, picture = a_face(), (a_picture() * 255).round().astype(np.uint8)
    shape = mean_shape([face, a_face(1)])
    np.testing.assert_allclose(
        warp_face(picture, face, shape, 16), warp_face(picture / np.float32(255), face, shape, 16), atol=1e-6
    )


def test_one_colour_stays_that_colour_beyond_the_edge_too() -> None:
    grey = np.full((40, 40, 3), 0.25, np.float32)
    np.testing.assert_allclose(warp_face(grey, a_face(width=300), mean_shape([a_face(1)]), 16), 0.25, atol=1e-6)


def test_bad_landmarks_are_refused() -> None:
    face = a_face()
    with raises(InvalidInputError, code=Code.TOO_FEW, field="faces"):
        mean_shape([])
    with raises(InvalidInputError, code=Code.WRONG_SHAPE, field="landmarks", match=r"\(5, 2\)"):
        mean_shape([face[:5]])
    with raises(InvalidInputError, code=Code.WRONG_SHAPE, field="landmarks"):
        mean_shape([np.where(face > 100, np.nan, face)])
    with raises(InvalidInputError, code=Code.UNDEFINED, field="landmarks"):
        warp_face(a_picture(), np.ones((68, 2)), mean_shape([face]), 16)
