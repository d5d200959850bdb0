"""The judge finds the drawing that a picture was made from, and says so when it cannot tell."""

from __future__ import annotations

import numpy as np
import pytest

from reference import art, judge


def labelled(images: np.ndarray) -> art.Pictures:
    """`images` shaped (concepts, genders, tones, sets, 64, 64, 3), labelled as the factorial is."""
    axes = np.indices(images.shape[:4]).reshape(4, -1)
    return art.Pictures(images.reshape(-1, 64, 64, 3), *axes)


@pytest.fixture(scope="module")
def drawings() -> art.Pictures:
    """Six concepts of blocky colour: far apart between concepts, nearer between genders."""
    rng = np.random.default_rng(0)
    coarse = rng.integers(0, 256, (6, 1, 1, 1, 8, 8, 3)) + rng.integers(-40, 41, (6, 3, 6, 4, 8, 8, 3))
    return labelled(np.clip(coarse, 0, 255).astype(np.uint8).repeat(8, -3).repeat(8, -2))


@pytest.mark.thorough
def test_a_drawing_is_judged_as_itself(drawings: art.Pictures):
    verdict = judge.Judge(drawings).judge(drawings.images[::7])
    assert np.array_equal(verdict.concept, drawings.concept[::7])
    assert np.array_equal(verdict.gender, drawings.gender[::7])
    assert np.array_equal(verdict.tone, drawings.tone[::7])
    assert verdict.distance.max() < 1e-2


@pytest.mark.thorough
def test_a_pixel_of_shift_and_some_noise_do_not_matter(drawings: art.Pictures):
    moved = judge.spoiled(drawings.images[::11], seed=1)
    verdict = judge.Judge(drawings).judge(moved)
    assert np.mean(verdict.concept == drawings.concept[::11]) == 1
    assert np.mean(verdict.gender == drawings.gender[::11]) > 0.95


def test_the_same_drawing_for_man_and_woman_is_undecided(drawings: art.Pictures):
    images = drawings.images.reshape(6, 3, 6, 4, 64, 64, 3).copy()
    images[0, 1] = images[0, 0]
    alike = labelled(images)
    verdict = judge.Judge(alike).judge(alike.images[:1])
    assert verdict.binary.tolist() == [-1]
    assert np.isnan(verdict.man()).all()


def test_excluded_drawings_are_not_chosen(drawings: art.Pictures):
    picked = drawings.images[:5]
    exclude = drawings.tone[:5, None] == drawings.tone[None]
    verdict = judge.Judge(drawings).judge(picked, exclude=exclude)
    assert (verdict.tone != drawings.tone[:5]).all()
    assert (verdict.concept == drawings.concept[:5]).all()


@pytest.mark.thorough
def test_the_margin_changes_sign_with_the_gender(drawings: art.Pictures):
    verdict = judge.Judge(drawings).judge(drawings.images[::5])
    man, woman = (drawings.gender[::5] == gender for gender in (0, 1))
    assert man.sum() > 20
    assert woman.sum() > 20
    assert (verdict.margin[man] > 0).all()
    assert (verdict.margin[woman] < 0).all()
