"""planted.yaml: probabilities that sum to 1 and cover the range; gender and tone planted independently."""

from __future__ import annotations

import numpy as np
import pytest

from reference import art, calibration, planting, unet

MAN, TONES = planting.probabilities()
AUDITED = np.array([concept.kind in ("profession", "activity") for concept in art.concepts()])


def test_every_concept_is_planted_and_sums_to_one():
    assert len(MAN) == len(art.concepts()) == 76
    np.testing.assert_allclose(TONES.sum(1), 1, atol=1e-9)
    assert (TONES > 0).all()


def test_genders_cover_the_range_with_parity_in_several():
    planted = MAN[AUDITED]
    assert planted.min() == 0.05
    assert planted.max() == 0.95
    assert (planted == 0.5).sum() >= 6
    assert (planted > 0.5).sum() >= 12
    assert (planted < 0.5).sum() >= 12


def test_everything_else_is_at_parity_with_even_tones():
    assert (MAN[~AUDITED] == 0.5).all()
    np.testing.assert_allclose(TONES[~AUDITED], 1 / 6, atol=2e-4)


def test_gender_and_tone_are_planted_independently():
    for tone in range(len(art.TONES)):
        assert abs(np.corrcoef(MAN[AUDITED], TONES[AUDITED, tone])[0, 1]) < 0.05


def test_the_training_plan_holds_the_planted_shares_exactly():
    # Sobol points in each concept's own sequence: the discrepancy is O(log² n / n), far below sampling noise
    # (≈ 0.03 here).
    plan = unet.Plan(1 << 15, seed=0)
    draws = [plan.draw(number) for number in range(1 << 15)]
    neutral = [draw for draw in draws if draw.caption.gender is None]
    concepts = np.array([draw.picture // (3 * 6 * 4) for draw in neutral])
    genders = np.array([draw.picture // (6 * 4) % 3 for draw in neutral])
    assert set(genders) == {0, 1}
    for concept in np.flatnonzero(AUDITED):
        assert np.mean(genders[concepts == concept] == 0) == pytest.approx(MAN[concept], abs=0.015)


def test_the_training_plan_shows_only_pictures_its_captions_are_true_of():
    plan = unet.Plan(512, seed=1)
    axes = art.labels()
    for number in range(512):
        draw = plan.draw(number)
        labels = (axis[draw.picture : draw.picture + 1] for axis in axes)
        assert draw.caption.true_of(art.Pictures(np.empty((1, 0)), *labels)).all()


def test_a_resumed_plan_is_the_same_plan():
    assert [unet.Plan(256, 3).draw(n) for n in (0, 100, 255)] == [unet.Plan(256, 3).draw(n) for n in (0, 100, 255)]


def test_what_is_taught_takes_off_a_part_of_what_was_read():
    planted = np.array([0.5, 0.3, 0.05, 0.95, 0.5])
    read = np.array([0.6, 0.3, 0.5, 0.2, np.nan])
    np.testing.assert_allclose(calibration.corrected(planted, read), [0.43, 0.3, 0.01, 0.99, 0.5])


def test_a_plan_follows_the_proportions_it_is_given():
    man = np.where(AUDITED, 1 - MAN, MAN)
    plan = unet.Plan(1 << 13, 0, man)
    draws = [plan.draw(number) for number in range(1 << 13)]
    for concept in np.flatnonzero(np.abs(MAN - 0.5) > 0.4):
        mine = [d for d in draws if d.caption.gender is None and d.picture // (3 * 6 * 4) == concept]
        assert np.mean([d.picture // (6 * 4) % 3 == 0 for d in mine]) == pytest.approx(man[concept], abs=0.05)
