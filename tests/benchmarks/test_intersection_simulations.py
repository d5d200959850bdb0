"""The statements of docs/simulations.md on intersections: on few studies drawn here, and on the many of the page."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks import intersection_simulations as sim
from tests.benchmarks.page_tables import told

pytestmark = pytest.mark.usefixtures("shortcuts")


def test_mirroring_an_axis_leaves_the_population_as_it_is():
    """So that whatever is found at parity is false: the centres of cells and words are each other's mirror images."""
    population = sim.CellPopulation()
    ways = population.ways / np.linalg.norm(population.ways, axis=1, keepdims=True)
    for fixed in (population.base, population.content, population.ages, population.words):
        np.testing.assert_allclose(fixed @ ways.T, 0, atol=1e-9)


def test_shares_are_independent_but_for_the_excess():
    shares = sim.shares_of(0.8, 0.3, 0.05).reshape(2, 2)  # tone × gender
    assert shares.sum() == pytest.approx(1)
    np.testing.assert_allclose(shares.sum(axis=0), [0.8, 0.2])
    np.testing.assert_allclose(shares.sum(axis=1), [0.3, 0.7])
    assert shares[0, 0] - 0.8 * 0.3 == pytest.approx(0.05)


@pytest.mark.thorough
def test_tests_hold_their_level_at_parity():
    for found in sim.level(8, 8):
        p_values = 8 * (1 if "any" in found.what else sim.CONCEPTS)
        assert found.rate <= found.nominal + 4 * np.sqrt(found.nominal * (1 - found.nominal) / p_values) + 0.01, found


@pytest.mark.thorough
def test_interactions_hold_their_level_beside_leanings():
    for found in sim.level_beside_leanings(6, 20):
        if "cosines" not in found.what and "any" not in found.what:
            error = np.sqrt(found.nominal * (1 - found.nominal) / (6 * sim.CONCEPTS))
            assert found.rate <= found.nominal + 4 * error, found


@pytest.mark.thorough
def test_planted_interactions_are_found_the_more_the_larger():
    rates = [sim.power(2, 20, excess)[0].rate for excess in (0.05, 0.2)]
    assert rates[0] < 0.3 < 0.6 < rates[1]


def test_the_page_tells_that_power_grows_with_the_excess_and_with_the_images():
    rates = [rate for _, _, _, rate, _ in told("intersections-power")]
    by_size = [rates[start : start + 4] for start in (0, 4, 8)]
    assert all(rows == sorted(rows) for rows in by_size)
    assert all(few <= some <= many for few, some, many in zip(*by_size, strict=True))
    assert by_size[1][3] > 0.8
    assert by_size[2][1] > 0.8


def test_the_levels_of_the_page_are_what_it_says_of_them():
    for what, data, nominal, rate, error in told("intersections-level"):
        if "cosines" in what:
            assert rate > nominal
        elif "any of 28" in what:
            assert rate <= 0.06 + 2 * error, (what, data)
        else:
            assert rate <= {0.05: 0.06, 0.01: 0.015}[nominal], (what, data)


def test_the_intervals_of_the_page_cover():
    for what, data, _, rate, _ in told("intersections-coverage"):
        assert (0.89 if data == "100 images, excess 0.20" else 0.93) <= rate <= 0.98, (what, data)
