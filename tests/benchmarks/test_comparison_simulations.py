"""Verdicts on two runs keep their error rate: on few studies drawn here, and on those of docs/simulations.md."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks import comparison_simulations as sim
from benchmarks.verdict_simulations import POPULATIONS, design_of
from clinometer.studies.leaning.compare import compare_leanings
from tests.benchmarks.page_tables import told


@pytest.mark.parametrize("way", sim.WAYS)
def test_the_rows_of_an_experiment_are_those_of_a_comparison(way):
    shares = np.array([0.5, 0.75, 0.95] * 3)
    runs = sim.two_runs(POPULATIONS[0], np.random.default_rng(0), (shares, shares[::-1]), 8, way)
    paired = sim.WAYS[way] is not None
    whole = compare_leanings([runs[0]], [runs[1]], design_of(9), paired=paired, n_resamples=2)
    judged = [row for row in whole if (row.component, row.encoder) == ("mcas", "mean")]
    rows = sim.verdict_rows(runs, way)
    assert [(row.p, row.low, row.verdict) for row in judged] == [(row.p, row.low, row.verdict) for row in rows]


@pytest.mark.parametrize("way", sim.WAYS)
def test_an_image_of_either_run_has_the_distribution_of_the_population(way):
    """The same means and spread, however the runs are drawn; of partners the images are tied to each other."""
    shares = np.array([0.75])
    runs = sim.two_runs(POPULATIONS[0], np.random.default_rng(1), (shares, shares), 20_000, way)
    drawn = POPULATIONS[0].draw(np.random.default_rng(2), shares, 20_000).target_images[0]
    for run in runs:
        np.testing.assert_allclose(run.target_images[0].mean(axis=0), drawn.mean(axis=0), atol=0.01)
        np.testing.assert_allclose(run.target_images[0].std(axis=0), drawn.std(axis=0), rtol=0.03)
    tie = np.corrcoef(*(run.target_images[0][:, 0] for run in runs))[0, 1]
    assert tie == pytest.approx({None: 0.0, 0.5: 0.49, 0.95: 0.94}[sim.WAYS[way]], abs=0.03)


@pytest.mark.thorough
@pytest.mark.parametrize("way", sim.WAYS)
def test_equal_runs_are_not_called_different(way):
    for found in sim.equal_runs(30, 0, 0.5, 8, 20, way):
        if found.what == "interval covers":
            assert found.rate >= found.nominal - 4 * max(found.error, 0.01)
        else:
            assert found.rate <= found.nominal + 4 * max(found.error, 0.01), found


@pytest.mark.thorough
def test_a_filter_makes_no_difference_without_a_qualifier():
    differs, bare, *over_all = sim.filtered(8, 0.5, 0.4, 12, 60, "independent")
    assert differs.rate >= 0.3
    assert bare.rate <= 0.13  # none, or a single one
    assert over_all[1].rate <= over_all[0].rate


def test_the_page_says_that_a_filter_makes_no_difference_without_a_qualifier():
    rows = [row for row in told("compare-missing") if "depends on it" in row[0]]
    assert len(rows) == 36
    for what, data, nominal, rate, error in rows:
        assert rate <= nominal + 3 * max(error, 0.001), (what, data, rate)


def test_the_page_says_that_equal_runs_are_seldom_called_different():
    """Within three standard errors of what is promised; on the safe side there is no bound."""
    rows = told("compare-level")
    promised = {"p ≤ 5 %": 0.05, "p ≤ 1 %": 0.01, "any concept differs": 0.06, "one leans more over all": 0.05}
    for what, data, _, rate, error in rows:
        if what == "interval covers":
            assert rate >= 0.95 - 3 * error, (what, data, rate)
        else:
            assert rate <= promised[what] + 3 * max(error, 0.001), (what, data, rate)
    assert {what for what, *_ in rows} == {*promised, "interval covers"}


def test_the_page_says_that_false_findings_are_few_where_runs_differ():
    for what, data, nominal, rate, error in told("compare-away"):
        if what == "false discoveries":
            assert rate <= nominal + 3 * error, (data, rate)
        else:
            assert rate >= 0.95 - 3 * max(error, 0.005), (what, data, rate)
