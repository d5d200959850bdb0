"""The statements about onsets on docs/simulations.md: drawn here on few studies, and read off the page."""

from math import isnan, nan, sqrt

import pytest

from benchmarks import trace_simulations
from benchmarks.trace_simulations import SHAPES, half_planted, outcomes, planted
from tests.benchmarks.page_tables import told


def test_what_is_planted():
    assert [planted(shape) for shape in ("step", "slow rise", "from the start", "turns", "dips")] == [5, 3, 1, 5, 6]
    assert planted("groups late") == 4
    assert isnan(planted("never"))
    assert half_planted("step") == 5


@pytest.fixture
def without_half_way(monkeypatch, shortcuts):
    """Leave out where half of the leaning is planted, found on 200,000 images a step: the tests count onsets alone."""
    monkeypatch.setattr(trace_simulations, "half_planted", lambda shape: nan)


@pytest.mark.usefixtures("without_half_way")
@pytest.mark.thorough
def test_where_nothing_leans_in_the_end_hardly_an_onset_is_told():
    counts = outcomes("never", 20, 2, 7)
    assert counts["onset, told"] <= 2  # of 60 concepts


@pytest.mark.usefixtures("without_half_way")
@pytest.mark.thorough
@pytest.mark.slow
@pytest.mark.parametrize("shape", [shape for shape in SHAPES if not isnan(planted(shape))])
def test_an_interval_holds_the_onset_that_was_planted(shape):
    images, studies = (60, 2) if shape == "step, to little" else (20, 2)  # of little, few are told of by 20 images
    counts = outcomes(shape, images, studies, 7)
    told = counts["onset, told"]
    assert told > 10
    assert counts["onset, holds"] / told >= 0.93 - 2.5 * sqrt(0.05 * 0.95 / told)


def test_the_page_says_what_was_measured():
    rows = told("onset")
    assert {setting.rpartition(",")[0] for _, setting, *_ in rows} == set(SHAPES)
    for what, setting, nominal, rate, _ in rows:
        if what.startswith("an onset is told where nothing leans"):
            assert rate <= nominal, setting
        elif what == "the onset is held":
            assert rate >= 0.93, setting
        elif what.startswith("share of what is told"):
            assert rate <= nominal, setting
