"""The latest records against those before: algebra, then every order counted, then how often it errs."""

from itertools import permutations
from math import comb

import numpy as np
import pytest

from clinometer.errors import Code, InvalidInputError
from clinometer.stats.change import fewest_latest, fewest_records, latest_change
from tests.raising import raises

LEVEL = 0.05


@pytest.fixture
def records():
    return np.random.default_rng(3).exponential(size=(12, 3))


def test_only_differences_in_units_of_their_spread_count(records):
    found = latest_change(records, level=LEVEL, permutations=199)
    shifted = latest_change(records * [1, 1e200, 1e-200] + [5.0, -3.0, 0.0], level=LEVEL, permutations=199)
    np.testing.assert_array_equal(found.p_family, shifted.p_family)
    np.testing.assert_allclose(shifted.change, found.change * [1, 1e200, 1e-200], rtol=1e-7)
    mirrored = latest_change(-records, level=LEVEL, permutations=199)
    np.testing.assert_array_equal(found.p, mirrored.p)
    np.testing.assert_allclose(mirrored.change, -found.change)


def test_a_family_is_never_surer_than_its_numbers(records):
    found = latest_change(records, level=LEVEL, permutations=199)
    assert (found.p_family >= found.p).all()
    alone = latest_change(records[:, :1], level=LEVEL, permutations=199)
    assert alone.p_family[0] == alone.p[0] == found.p[0]


def test_p_is_that_of_all_orders():
    """Six records have 720 orders: the share of those at least as extreme, by the t of each split."""
    records, level = np.random.default_rng(5).normal(size=6), 0.1
    records[-2:] += 0.2

    def largest(order):
        found = 0.0
        for j in range(fewest_latest(6, level), 4):
            late, early = order[-j:], order[:-j]
            within = np.square(late - late.mean()).sum() + np.square(early - early.mean()).sum()
            difference = late.mean() - early.mean()
            if difference * (order[-1] - order.mean()) > 0:
                found = max(found, abs(difference) / np.sqrt(within / 4 * (1 / j + 1 / (6 - j))))
        return found

    observed = largest(records)
    exact = np.mean([largest(np.array(order)) >= observed - 1e-9 for order in permutations(records)])
    found = [latest_change(records[:, None], level=level, permutations=1999, seed=seed).p[0] for seed in range(20)]
    assert np.mean(found) == pytest.approx(exact, abs=0.03)


def test_equal_records_have_not_changed_and_missing_ones_say_nothing():
    records = np.random.default_rng(0).normal(size=(20, 3))
    records[:, 0] = 0.1
    records[3, 1] = records[-1, 2] = np.nan
    found = latest_change(records, level=LEVEL, permutations=199)
    assert found.p[0] == found.p_family[0] == 1
    assert np.isfinite(found.p[1])
    assert np.isnan(found.p[2])
    assert found.since[2] == 0


def test_one_that_has_returned_is_not_blamed_for_those_before():
    records = np.random.default_rng(0).normal(size=(30, 1))
    records[-5:] += 20
    assert latest_change(records, level=0.001, permutations=1999).p[0] <= 0.001
    records[-1] -= 20.1
    assert latest_change(records, level=0.001, permutations=1999).p[0] > 0.1


def test_so_many_records_can_reach_a_level():
    level = 0.05 / 365
    for n in range(2, 60):
        least = fewest_latest(n, level)
        assert (least > 0) == (n >= fewest_records(level))
        if least:
            assert comb(n, least) * level >= 1 > comb(n, least - 1) * level
    with raises(InvalidInputError, code=Code.UNDEFINED, field="level"):
        latest_change(np.zeros((10, 1)), level=level)
    with raises(InvalidInputError, code=Code.WRONG_SHAPE, field="records"):
        latest_change(np.full((20, 1), np.inf), level=level)


def test_unchanged_numbers_are_seldom_called_whatever_their_distribution():
    """At 10 %, of skewed numbers that depend on each other, the last of which alone is moved."""
    rng, called = np.random.default_rng(8), []
    for _ in range(150):
        records = np.exp(rng.normal(size=(16, 1)) + rng.normal(size=(16, 3)))
        records[-5:, 2] += 30
        called.append(latest_change(records, level=0.1, permutations=99).p_family[:2].min() <= 0.1)
    assert np.mean(called) <= 0.1 + 3 * np.sqrt(0.09 / 150)
