"""The test of fixed values: which method answers, and that p holds its level whichever does."""

import math
from itertools import combinations

import numpy as np
import pytest
from scipy import stats

from clinometer.errors import Code, InvalidInputError
from clinometer.stats.label_forms import certified_split_test, fixed_values_test
from clinometer.stats.permutation import split_test
from tests.raising import raises

ALTERNATIVES = ("two-sided", "greater", "less")


@pytest.mark.parametrize(
    ("n", "size", "method"), [(40, 20, "exact"), (62, 2, "exact"), (60, 30, "certified"), (1200, 600, "sampled")]
)
def test_the_method_follows_the_number_of_splits(n, size, method):
    values = np.random.default_rng(0).normal(size=n)
    test = fixed_values_test(values, np.arange(n) < size, permutations=99)
    assert test.method == method
    assert test.p_low[0] <= test.p_value[0] <= test.p_high[0]


@pytest.mark.parametrize("alternative", ALTERNATIVES)
@pytest.mark.parametrize("n", [12, 60, 1200])
@pytest.mark.parametrize("method", ["auto", "sampled"])
def test_values_that_differ_by_rounding_are_one_value(n, alternative, method):
    values = 1e-16 * np.random.default_rng(1).normal(size=n)
    test = fixed_values_test(
        values, np.arange(n) < n // 2, alternative=alternative, method=method, permutations=99, rounding=1e-12
    )
    assert test.p_value[0] == 1


def test_refused():
    with raises(InvalidInputError, code=Code.TOO_MANY, field="method"):
        fixed_values_test(np.zeros(60), np.arange(60) < 30, method="exact")
    with raises(InvalidInputError, code=Code.UNKNOWN_NAME, field="method"):
        fixed_values_test(np.zeros(60), np.arange(60) < 30, method="certified")


@pytest.mark.parametrize("alternative", ALTERNATIVES)
@pytest.mark.parametrize("size", [2, 4, 5])
def test_brute_force_over_all_splits(alternative, size):
    """Every split of n ≤ 10 values listed; whole numbers, so that ties are ties in floating point too."""
    values = np.random.default_rng(size).integers(0, 9, 10).astype(float)
    labels = np.arange(10) < size
    splits = [np.isin(np.arange(10), chosen) for chosen in combinations(range(10), size)]
    # 10 k (10 − k) times the difference of means is a whole number
    drawn = np.array([round(10 * (10 * values[m].sum() - size * values.sum())) for m in splits])
    seen = round(10 * (10 * values[labels].sum() - size * values.sum()))
    extreme = {"two-sided": abs(drawn) >= abs(seen), "greater": drawn >= seen, "less": drawn <= seen}[alternative]
    test = fixed_values_test(values, labels, alternative=alternative)
    assert test.p_value[0] == extreme.mean()


@pytest.mark.parametrize("alternative", ["greater", "less"])
def test_scipy_counts_the_same_splits(alternative):
    """One-sided; scipy's two-sided p doubles a tail, ours counts |S|."""
    values = np.random.default_rng(1).normal(size=11)
    theirs = stats.permutation_test(
        (values[:5], values[5:]), lambda a, b, axis: a.mean(axis) - b.mean(axis), vectorized=True,
        n_resamples=np.inf, alternative=alternative,
    )  # fmt: skip
    assert fixed_values_test(values, np.arange(11) < 5, alternative=alternative).p_value[0] == theirs.pvalue


@pytest.mark.parametrize("alternative", ALTERNATIVES)
@pytest.mark.parametrize("count", ["exact", "coarse", "fine"])
def test_under_the_null_p_is_not_too_small_too_often(count, alternative):
    """Over all relabellings of fixed values, P(p ≤ α) ≤ α at every attainable α: shown by listing them all.

    Given the values, the null makes every split as likely as another. The exact p of a split is the share of splits as
    extreme, so at most a share α of them has p ≤ α; the certified p is no smaller.
    """
    values = np.random.default_rng(2).integers(0, 40, 9).astype(float)
    found = []
    for chosen in combinations(range(9), 4):
        labels = np.isin(np.arange(9), chosen)
        if count == "exact":
            test = split_test(values, labels, alternative=alternative)
        else:
            test = certified_split_test(
                values, labels, alternative=alternative, table=300 if count == "coarse" else 50_000
            )
        found.append(test.p_value[0])
    p = np.sort(found)
    assert len(p) == math.comb(9, 4)
    assert np.all(np.arange(1, len(p) + 1) / len(p) <= p[np.searchsorted(p, p, "right") - 1] * (1 + 1e-9))


def test_a_sampled_p_holds_its_level_on_average_over_draws():
    """P((1 + K) / (1 + N) ≤ α) ≤ α, with K binomial given the exact p of each relabelling: no draw is needed.

    The average over all relabellings of P(K ≤ α (1 + N) − 1 | p) is the chance that the sampled test rejects.
    """
    values = np.random.default_rng(3).normal(size=9)
    exact = np.array(
        [
            split_test(values, np.isin(np.arange(9), chosen), alternative="greater").p_value[0]
            for chosen in combinations(range(9), 4)
        ]
    )
    for n_drawn in (19, 99, 999):
        counts = np.arange(n_drawn + 1)
        level = (1 + counts) / (1 + n_drawn)
        rejected = stats.binom.cdf(counts[:, None], n_drawn, exact[None, :]).mean(axis=1)
        assert np.all(rejected <= level * (1 + 1e-9))
