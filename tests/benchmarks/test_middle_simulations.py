"""Where zero is, on few studies drawn here and on the many of docs/simulations.md: worlds that are not symmetric."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks import middle_simulations as sim
from clinometer.metrics.verdict import Verdict
from tests.benchmarks.page_tables import told
from tests.studies.leaning.studies import unit

pytestmark = pytest.mark.usefixtures("shortcuts_of_a_module")


@pytest.mark.parametrize("groups", [2, 3, 4])
def test_the_rows_of_an_experiment_are_those_of_a_study(groups):
    world = sim.World((0.75, 0.81), groups)
    made = world.draw(np.random.default_rng(0), [world.composition(share) for share in (0.5, 0.9, 0.1)], 40)
    whole = sim.rows_of_a_study(world, made, 3)
    own = list(world.verdicts(made, 3).values())[-1]
    assert [(row.concept, row.verdict, row.side) for row in own] == [(r.concept, r.verdict, r.side) for r in whole]
    assert [row.p_zero for row in own] == pytest.approx([row.p_zero for row in whole])


@pytest.mark.parametrize("within", [(0.66, 0.84), (0.81, 0.75)])
def test_groups_scatter_as_much_as_is_asked(within):
    world = sim.World(within)
    centres = np.tile(world.fixed["base"], (4_000, 1))
    for group, expected in enumerate(within):
        mean = unit(world.pictures(np.random.default_rng(0), group, centres)).mean(axis=0)
        assert mean @ mean == pytest.approx(expected, abs=0.02)


def test_parity_leans_against_0_alone_and_not_against_both():
    said = sim.said_of(sim.World((0.66, 0.84)), 0.5, 60, 4)
    assert said["against 0"].wrong.any(axis=1).all()
    assert not said["and the share"].wrong.any()


def test_all_of_one_group_is_not_balanced():
    said = sim.said_of(sim.World((0.66, 0.84)), 1.0, 60, 4)
    assert said["against 0"].balanced.mean() > 0.9
    assert not said["both zeros"].balanced.any()


def test_the_reason_is_that_the_zeros_disagree():
    world = sim.World((0.66, 0.84))
    made = world.draw(np.random.default_rng(0), [world.composition(0.5)] * 3, 60)
    rows = world.verdicts(made, 3)["and the share"]
    assert {(row.verdict, row.reason_code) for row in rows} == {(Verdict.UNDECIDED, "zeros_disagree")}


def test_the_page_says_that_nothing_false_is_said_more_often_than_promised():
    rows = told("middle")
    judged = [row for row in rows if "as judged" in row[0]]
    assert len(judged) > 60
    for what, data, nominal, rate, error in judged:
        assert rate <= nominal + 2 * error, (what, data, rate)
    before = {(what, data.rsplit(",", 1)[0]): rate for what, data, _, rate, _ in rows if "against 0" in what}
    assert before["any falsely leans, against 0", ".66 and .84, two groups, 50% of a"] > 0.9
    assert before["falsely balanced, against 0", ".66 and .84, two groups, 100% of a"] > 0.9


def test_the_page_says_that_power_falls_by_less_than_five_points_where_groups_scatter_alike():
    rates = {
        (what, data): rate for what, data, _, rate, _ in told("middle-power") if data.startswith("equal, no margin")
    }
    lost = [
        rates["leaning found, against 0", data] - rate
        for (what, data), rate in rates.items()
        if what == "leaning found, as judged"
    ]
    assert len(lost) > 10
    assert max(lost) <= 0.05
    assert rates["leaning found, as judged", "equal, no margin, 85% of a, 40 images"] >= 0.9
