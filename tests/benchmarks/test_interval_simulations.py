"""Intervals of few items cover: on a few studies drawn here, and on those of docs/simulations.md."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks import interval_simulations as sim
from clinometer.stats.skin import skin_tone
from clinometer.studies.editing.design import FEWEST_FACES
from tests.benchmarks.page_tables import told


def test_many_faces_at_once_have_the_angles_of_each_alone():
    before, _ = sim._portraits(np.random.default_rng(0), "partly hidden", 5)
    np.testing.assert_allclose(sim._angles(before), [skin_tone(face).angle for face in before])


@pytest.mark.thorough
def test_from_the_fewest_portraits_on_an_average_face_is_covered():
    for portraits in (FEWEST_FACES, 6):
        covered, _ = sim.average_faces(60, "alike", portraits)
        assert covered.rate >= 0.85


def test_the_page_says_what_each_section_claims():
    for what, data, _, rate, _ in told("interval-faces"):
        if what == "change of the average face":
            portraits = int(data.split()[0])
            assert rate >= 0.92 or portraits < FEWEST_FACES
            assert rate < 0.85 or portraits > 2
    assert all(rate >= 0.93 for what, _, _, rate, _ in told("interval-agreement") if what == "Krippendorff's α")
    texts = told("interval-texts")
    assert all(rate + 2 * error >= 0.95 for what, _, _, rate, error in texts if what.startswith("interval holds"))
    assert all(rate <= 0.05 for what, data, _, rate, _ in texts if what == "leans" and "text part 0," in data)
