"""The certified p-value: brackets that hold the exact p, and tiny p-values with closed forms."""

import math

import numpy as np
import pytest
from scipy.stats import mannwhitneyu

from clinometer.errors import Code, InvalidInputError
from clinometer.stats.label_forms import certified_split_test, is_certifiable
from clinometer.stats.permutation import split_test
from tests.raising import raises

ALTERNATIVES = ("two-sided", "greater", "less")


@pytest.mark.parametrize("alternative", ALTERNATIVES)
@pytest.mark.parametrize(("n", "size"), [(8, 4), (9, 2), (10, 7), (24, 12), (30, 19)])
def test_the_bracket_holds_the_exact_p(alternative, n, size):
    rng = np.random.default_rng(n)
    labels = np.arange(n) < size
    values = rng.normal(size=(6, n)) + np.linspace(-2, 2, 6)[:, None] * labels
    exact = split_test(values, labels, alternative=alternative).p_value
    for table in (2_000, 200_000):  # a coarse grid and a fine one
        test = certified_split_test(values, labels, alternative=alternative, table=table)
        assert np.all(test.p_low <= exact * (1 + 1e-9))
        assert np.all(exact <= test.p_high * (1 + 1e-9))
        assert np.all(test.p_value == test.p_high)


def test_a_finer_grid_gives_a_tighter_bracket():
    values = np.random.default_rng(1).normal(size=60)
    widths = [
        float(test.p_high[0] / test.p_low[0] - 1)
        for table in (30_000, 300_000, 3_000_000)
        for test in [certified_split_test(values, np.arange(60) < 30, table=table)]
    ]
    assert widths[0] > 3 * widths[1] > 9 * widths[2]


@pytest.mark.parametrize(("n_a", "n_b"), [(30, 30), (20, 45)])
def test_ranks_have_the_distribution_of_wilcoxon(n_a, n_b):
    rng = np.random.default_rng(3)
    values = np.concatenate([rng.normal(0.4, 1, n_a), rng.normal(0, 1, n_b)])
    ranks = values.argsort().argsort().astype(float)
    test = certified_split_test(ranks, np.arange(n_a + n_b) < n_a, alternative="greater", table=2_000_000)
    exact = mannwhitneyu(values[:n_a], values[n_a:], alternative="greater", method="exact").pvalue
    assert test.p_low[0] <= exact * (1 + 1e-9)
    assert exact <= test.p_high[0] * (1 + 1e-9)
    assert test.p_high[0] < 1.1 * test.p_low[0]


@pytest.mark.parametrize("half", [20, 55, 150])
def test_complete_separation_is_one_split_however_small_its_p(half):
    """All of A above all of B: one split of C(2n, n), 7e-12 for 20 and 20, 1e-89 for 150 and 150."""
    values = np.concatenate([np.full(half, 1.0), np.zeros(half)])
    test = certified_split_test(values, np.arange(2 * half) < half, alternative="greater", table=400_000)
    np.testing.assert_allclose([test.p_low[0], test.p_high[0]], 1 / math.comb(2 * half, half), rtol=1e-10)


def test_shift_scale_and_exchange_of_the_labels_change_nothing():
    values = np.random.default_rng(5).normal(size=50)
    labels = np.arange(50) < 18
    test = certified_split_test(values, labels, alternative="greater", table=200_000)
    moved = certified_split_test(3 * values + 7, labels, alternative="greater", table=200_000)
    swapped = certified_split_test(values, ~labels, alternative="less", table=200_000)
    for other in (moved, swapped):
        assert other.p_low[0] <= test.p_high[0]
        assert test.p_low[0] <= other.p_high[0]
        np.testing.assert_allclose(other.p_high, test.p_high, rtol=0.05)


def test_equal_values_and_nan():
    values = np.stack([np.ones(44), np.full(44, np.nan)])
    test = certified_split_test(values, np.arange(44) < 20)
    assert test.p_value[0] == test.p_low[0] == 1
    assert np.isnan(test.p_value[1])
    assert test.reason == "a value is NaN"


def test_too_many_items_are_refused():
    with raises(InvalidInputError, code=Code.TOO_MANY, field="labels"):
        certified_split_test(np.zeros(1001), np.arange(1001) < 3)


def test_whether_a_grid_is_fine_enough_does_not_look_at_the_labels():
    values = np.random.default_rng(6).normal(size=80)
    assert is_certifiable(values, 30)
    assert is_certifiable(values[::-1], 50)
    assert not is_certifiable(values, 30, table=5_000)
    assert not is_certifiable(np.append(values, 1e6), 30)  # an outlier takes all of the cells
    assert not is_certifiable(np.append(values, np.nan), 30)
    assert not is_certifiable(np.zeros(1001), 30)
    assert is_certifiable(np.ones(80), 30)
