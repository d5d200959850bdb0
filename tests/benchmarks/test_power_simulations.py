"""What a plan promises, on a few pilots planned here and on the many of docs/simulations.md."""

from __future__ import annotations

import numpy as np

from benchmarks import power_simulations as sim
from benchmarks.verdict_simulations import design_of
from clinometer.metrics.mcas import IMAGE_PART
from clinometer.metrics.verdict import LEANING
from clinometer.studies.leaning import mcas_study
from clinometer.studies.leaning.scores import rows as leaning_rows
from tests.benchmarks.page_tables import told


def drawn(images: int):
    return sim.population(16).draw(np.random.default_rng(0), np.array(sim.SHARES), images)


def test_the_verdicts_of_an_experiment_are_those_of_a_study():
    made = drawn(30)
    rows = mcas_study([made], design_of(len(sim.SHARES)), n_resamples=2, n_permutations=0)
    own = [row for row in rows if (row.metric, row.component, row.encoder) == ("mcas", IMAGE_PART, "mean")]
    assert sim.judged_in(made, len(sim.SHARES)).leans.tolist() == [r.verdict in LEANING and r.side == "a" for r in own]


def test_the_numbers_of_an_experiment_are_those_of_a_plan(monkeypatch, shortcuts):
    monkeypatch.setattr(sim, "ScoredPilot", leaning_rows.ScoredPilot)  # of as few runs and sizes
    monkeypatch.setattr(sim, "PLANNED", leaning_rows.SIZES)
    made = drawn(20)
    planned = leaning_rows.images_needed([made], design_of(len(sim.SHARES), sim.image_part_at(sim.MARGIN_AT)))
    named = sim.images_named(made)
    np.testing.assert_array_equal(named["leans"], planned.to_detect)
    np.testing.assert_array_equal(named["balanced"], planned.to_show_balance)


def test_the_page_says_where_the_promise_holds():
    rows = told("power")
    assert len(rows) == 40
    for what, data, nominal, rate, error in rows:
        few = data.startswith("pilot of 10 images")
        assert abs(rate - nominal) <= (0.08 if few else 0.05) + error, (what, data)
    assert abs(np.mean([rate for *_, rate, _ in rows]) - 0.8) < 0.02
