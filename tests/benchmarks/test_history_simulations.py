"""Gates over time keep their promise for a year: on nights drawn here, and on those of docs/simulations.md."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks import history_simulations as sim
from tests.benchmarks.page_tables import told


@pytest.mark.parametrize("world", sim.WORLDS, ids=lambda world: world.name)
def test_a_night_spreads_as_it_says(world):
    numbers, spread = world.nights(np.random.default_rng(0), 4000, 10)
    found = (numbers - numbers.mean(axis=0)).std()
    assert found == pytest.approx(spread, rel=0.25 if world.heavy else 0.05)


def test_the_page_says_that_a_quiet_year_seldom_sees_an_alarm():
    rows = told("history-level")
    assert len(rows) == len(sim.WORLDS)
    for _, data, nominal, rate, _ in rows:
        assert nominal == 0.05
        assert rate <= 0.05, (data, rate)


def test_the_page_says_that_large_changes_are_found():
    rates = {(what, data): rate for what, data, _, rate, _ in told("history-power")}
    far = {data: rate for (what, data), rate in rates.items() if what == "found by night 10" and "5 SD" in data}
    assert len(far) == 3
    assert min(far.values()) >= 0.9
