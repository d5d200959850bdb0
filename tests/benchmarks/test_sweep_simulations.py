"""Sweeps that draw until decided keep their error rate: on few drawn here, and on those of docs/simulations.md."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks import sweep_simulations as sim
from benchmarks.verdict_simulations import POPULATIONS
from tests.benchmarks.page_tables import told


def test_partners_of_a_population_start_alike():
    shares = [np.array([0.75])] * 3
    runs = sim.partners(POPULATIONS[0], np.random.default_rng(0), shares, "partners, closely", 4000)
    first, *others = (run.target_images[0][:, 0] for run in runs)
    for other in others:
        assert np.corrcoef(first, other)[0, 1] == pytest.approx(0.94, abs=0.02)
        assert other.mean() == pytest.approx(first.mean(), abs=0.02)


@pytest.mark.thorough
def test_equal_settings_are_not_called_different():
    level, interval = sim.sweeps(6, 0, 0.5, 0.5, 4, "partners, loosely", 25)
    assert level.rate <= 1 / 6
    assert interval.rate >= 0.9


def test_the_page_says_that_equal_settings_are_seldom_called_different():
    rows = told("sweep-level")
    assert rows
    for what, data, nominal, rate, error in rows:
        if what == "interval holds at every look":
            assert rate >= 0.95 - 3 * max(error, 0.005), (data, rate)
        else:
            assert nominal == 0.05
            assert rate <= 0.05, (data, rate)


def test_the_page_says_that_false_findings_are_few_where_settings_differ():
    found = {(what, data): rate for what, data, *_, rate, _ in told("sweep-away")}
    assert found
    for (what, data), rate in found.items():
        if what == "false discoveries":
            assert rate <= 0.05, (data, rate)
        if what == "differences found":
            assert rate >= 0.5, (data, rate)
