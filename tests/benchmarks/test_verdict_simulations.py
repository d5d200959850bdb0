"""Verdicts keep their error rate: on few studies drawn here, and on the many of docs/simulations.md."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks import verdict_simulations as sim
from clinometer.studies.leaning import mcas_study
from tests.benchmarks.page_tables import told


def test_the_rows_of_an_experiment_are_those_of_a_study():
    population = sim.POPULATIONS[0]
    embeddings = population.draw(np.random.default_rng(0), np.array([0.5, 0.75, 0.95] * 3), 12)
    design = sim.design_of(9, margin=0.1)
    whole = mcas_study([embeddings], design, n_resamples=2, n_permutations=0)
    judged = [row for row in whole if (row.metric, row.component, row.encoder) == ("mcas", "image_part", "mean")]
    assert [row.p for row in judged] == [row.p for row in sim.verdict_rows(embeddings, design)]
    assert [row.verdict for row in judged] == [row.verdict for row in sim.verdict_rows(embeddings, design)]
    assert [row.side for row in judged] == [{1: "a", 0: "", -1: "b"}[sim.side_of(row)] for row in judged]
    assert {sim.side_of(row) for row in judged} == {0, 1}


@pytest.mark.parametrize(
    "population",
    [
        pytest.param(p, id=each.name, marks=[] if each.name in ("mixture", "continuous") else pytest.mark.thorough)
        for p, each in enumerate(sim.POPULATIONS)
    ],
)
def test_a_population_at_parity_is_mirrored(population):
    """Of many images, the image part of a concept at parity is 0 but for the attribute images that were drawn."""
    chosen = sim.POPULATIONS[population]
    drawn = chosen.draw(np.random.default_rng(1), np.array([0.5]), 20_000)
    (row,) = sim.verdict_rows(drawn, sim.design_of(1))
    assert row.low <= 0 <= row.high
    assert chosen.truth(np.array([0.5]))[0] == 0
    leaning = chosen.draw(np.random.default_rng(2), np.array([0.85]), 20_000)
    (row,) = sim.verdict_rows(leaning, sim.design_of(1))
    assert row.low <= chosen.truth(np.array([0.85]))[0] <= row.high


def test_texts_that_lean_are_not_taken_for_pictures():
    """Pictures exactly half and half: the more of them, the surer is MCAS of what none of them shows."""
    by_size = [{found.what: found.rate for found in sim.tilted_texts(2, images)} for images in (20, 100)]
    assert [rates["image_part leans"] for rates in by_size] == [0, 0]
    assert by_size[0]["mcas leans"] < by_size[1]["mcas leans"]
    assert by_size[1]["mcas leans"] > 0.8


def test_the_page_says_how_often_texts_are_taken_for_pictures():
    rows = told("verdict-texts")
    rates = {(what, data): rate for what, data, *_, rate, _ in rows}
    of_pictures = [rate for (what, _), rate in rates.items() if what == "image_part leans"]
    assert len(of_pictures) == 3
    assert max(of_pictures) <= 0.02
    assert max(rate for (what, _), rate in rates.items() if what == "mcas leans") > 0.8


@pytest.mark.thorough
@pytest.mark.parametrize("images", [8, 20])
def test_verdicts_at_parity_hold_their_level(images):
    for found in sim.at_parity(60, 0, 28, images):
        if found.what == "interval covers":
            assert found.rate >= found.nominal - 4 * max(found.error, 0.004), found
        else:
            assert found.rate <= found.nominal + 3 * np.sqrt(found.nominal / found.n), found


def test_the_page_says_that_verdicts_keep_their_error_rate():
    """What is promised from ten images on: within two standard errors of the limits that the page names."""
    rows = told("verdict-level")
    bands = {
        "p ≤ 5 %": (0.0, 0.05),
        "p ≤ 1 %": (0.0, 0.01),
        "interval covers": (0.95, 1.0),
        "any concept leans": (0.0, 0.07),
        "--until decided: any concept leans": (0.0, 0.06),
    }
    checked = set()
    for what, data, _, rate, error in rows:
        low, high = bands[what]
        assert low - 2 * error - 1e-3 <= rate <= high + 2 * error + 1e-3, (what, data, rate)
        checked.add(what)
    assert checked == set(bands)


def test_the_page_says_that_false_discoveries_are_few_and_intervals_cover_away_from_parity():
    for what, data, nominal, rate, error in told("verdict-away"):
        if "false discoveries" in what:
            assert rate <= nominal, (data, rate)
        else:
            assert rate >= 0.94 - 2 * error - 2e-3, (what, data, rate)
