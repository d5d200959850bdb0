"""Permutation tests: against brute force, against scipy, against each other, and under the null."""

from __future__ import annotations

import math
from itertools import combinations, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import stats

from clinometer.errors import Code, InvalidInputError
from clinometer.stats import permutation
from clinometer.stats.permutation import count_splits, permute_labels, sample_memberships, split_test
from tests.raising import raises

ALTERNATIVES = ("two-sided", "greater", "less")
values_of = arrays(np.float64, (2, 7), elements=st.integers(-5, 5).map(float))  # integers: many ties


def difference(x: np.ndarray, members: np.ndarray) -> float:
    return x[members].mean() - x[~members].mean()


def brute_force(x: np.ndarray, labels: np.ndarray, strata: np.ndarray, alternative: str) -> float:
    """p by listing every relabelling, one at a time."""
    observed, hits, total = difference(x, labels), 0, 0
    positions = [np.flatnonzero(strata == h) for h in np.unique(strata)]
    for chosen in product(*(combinations(where, int(labels[where].sum())) for where in positions)):
        members = np.zeros(len(x), bool)
        members[[i for part in chosen for i in part]] = True
        s = difference(x, members)
        signed = {"two-sided": abs(s) - abs(observed), "greater": s - observed, "less": observed - s}
        hits += signed[alternative] >= -1e-9
        total += 1
    return hits / total


@pytest.mark.parametrize("alternative", ALTERNATIVES)
@given(values=values_of, n_a=st.integers(1, 6))
@settings(max_examples=25)
def test_exact_is_brute_force_with_ties(alternative, values, n_a):
    labels = np.arange(7) < n_a
    enumerated = permute_labels(values, labels, alternative=alternative)
    met = split_test(values, labels, alternative=alternative)
    expected = [brute_force(x, labels, np.zeros(7), alternative) for x in values]
    np.testing.assert_allclose(enumerated.p_value, expected)
    np.testing.assert_allclose(met.p_value, expected)
    assert enumerated.exact
    assert met.exact
    assert enumerated.n_splits == met.n_splits == math.comb(7, n_a)
    assert not enumerated.standard_error.any()


@pytest.mark.parametrize("alternative", ALTERNATIVES)
@given(values=values_of)
@settings(max_examples=25)
def test_stratified_is_brute_force_within_strata(alternative, values):
    labels = np.array([1, 0, 0, 1, 1, 0, 0], bool)
    strata = np.array([0, 0, 0, 1, 1, 1, 1])
    test = permute_labels(values, labels, strata=strata, alternative=alternative)
    expected = [brute_force(x, labels, strata, alternative) for x in values]
    np.testing.assert_allclose(test.p_value, expected)
    assert test.n_splits == 3 * 6 == count_splits(labels, strata)


@pytest.mark.parametrize("alternative", ALTERNATIVES)
@pytest.mark.parametrize(("n_a", "n_b"), [(5, 5), (3, 8), (2, 4)])
def test_agrees_with_scipy(alternative, n_a, n_b):
    rng = np.random.default_rng(n_a)
    x, y = rng.normal(0.5, 1, n_a), rng.normal(size=n_b)
    ours = split_test(np.concatenate([x, y])[None], np.arange(n_a + n_b) < n_a, alternative=alternative)
    if alternative == "two-sided":  # scipy doubles a tail; |S| has its own statistic there
        theirs = stats.permutation_test(
            (x, y), lambda a, b: abs(a.mean() - b.mean()), n_resamples=np.inf, alternative="greater"
        )
    else:
        theirs = stats.permutation_test(
            (x, y), lambda a, b: a.mean() - b.mean(), n_resamples=np.inf, alternative=alternative
        )
    assert ours.p_value[0] == pytest.approx(theirs.pvalue)


@given(arrays(np.float64, (1, 9), elements=st.floats(-5, 5)))
def test_swapping_labels_negates_and_mirrors(values):
    labels = np.arange(9) < 4
    forth, back = (permute_labels(values, m, alternative="greater") for m in (labels, ~labels))
    mirrored = permute_labels(-values, ~labels, alternative="greater")
    np.testing.assert_allclose(forth.statistic, -back.statistic, atol=1e-12)
    np.testing.assert_allclose(forth.p_value, mirrored.p_value)
    np.testing.assert_allclose(permute_labels(values, ~labels, alternative="less").p_value, forth.p_value)


@given(arrays(np.float64, (1, 8), elements=st.floats(-5, 5)), st.floats(-100, 100), st.floats(0.01, 100))
def test_shift_and_positive_scale_change_no_p(values, shift, scale):
    # Rounded, so that no two splits differ by less than what rounding does to a shifted number.
    values, labels = np.round(values, 3), np.arange(8) < 4
    moved = permute_labels(values * scale + shift, labels)
    np.testing.assert_allclose(moved.p_value, permute_labels(values, labels).p_value)


def test_meet_in_the_middle_counts_what_enumeration_lists():
    rng = np.random.default_rng(1)
    values = rng.normal(size=(3, 20)) + 0.7 * (np.arange(20) < 10)
    labels = np.arange(20) < 10
    np.testing.assert_array_equal(split_test(values, labels).p_value, permute_labels(values, labels).p_value)


@pytest.mark.parametrize("n", [1, 2, 7, 12])
def test_subset_sums_are_sorted_by_size(n):
    y = np.random.default_rng(n).integers(-4, 5, n).astype(float)  # ties, and sums without rounding
    found = permutation._sums_by_size(y)
    assert len(found) == n + 1
    for size, sums in enumerate(found):
        assert sums.tolist() == sorted(sum(chosen) for chosen in combinations(y, size))


@pytest.mark.parametrize("alternative", ALTERNATIVES)
def test_sets_of_equal_size_are_counted_as_by_enumeration(alternative):
    """Two-sided, one tail is counted and doubled, also where S is 0 and the tails overlap."""
    rng = np.random.default_rng(5)
    values = np.concatenate([rng.normal(size=(4, 12)), rng.integers(0, 3, size=(4, 12)), np.zeros((1, 12))])
    values[4, 6:] = values[4, :6]
    listed = permute_labels(values, np.arange(12) < 6, alternative=alternative)
    met = split_test(values, np.arange(12) < 6, alternative=alternative)
    np.testing.assert_array_equal(met.p_value, listed.p_value)


def test_forty_items_are_counted_exactly():
    """Sum of ranks of 20 + 20 items: scipy knows its exact distribution by recursion."""
    rng = np.random.default_rng(3)
    x = rng.permutation(40).astype(float)
    labels = np.arange(40) < 20
    test = split_test(x[None], labels, alternative="greater")
    exact = stats.mannwhitneyu(x[labels], x[~labels], alternative="greater", method="exact")
    assert test.n_splits == math.comb(40, 20)
    assert test.p_value[0] == pytest.approx(exact.pvalue, rel=1e-12)


def test_sampled_agrees_with_exact_within_its_own_error():
    rng = np.random.default_rng(2)
    values = rng.normal(size=(20, 16)) + 0.8 * (np.arange(16) < 8)
    labels, strata = np.arange(16) < 8, np.arange(16) % 2
    exact = permute_labels(values, labels, strata=strata)
    sampled = permute_labels(values, labels, strata=strata, exact_limit=0, n_permutations=20_000, rng=rng)
    assert exact.exact
    assert not sampled.exact
    assert (np.abs(sampled.p_value - exact.p_value) < 4 * sampled.standard_error + 1e-4).all()


def test_sampled_p_is_never_zero():
    values = np.concatenate([np.full(40, 9.0), np.zeros(40)])[None]
    test = permute_labels(values, np.arange(80) < 40, n_permutations=99)
    assert test.p_value[0] == 1 / 100


def test_equal_values_tie_with_everything():
    values = np.full((1, 12), 0.1) + 1e-17
    assert permute_labels(values, np.arange(12) < 6).p_value[0] == 1
    assert split_test(values, np.arange(12) < 5).p_value[0] == 1


def test_p_is_uniform_under_the_null():
    rng = np.random.default_rng(0)
    values = rng.normal(size=(2000, 24))
    sampled = permute_labels(values, np.arange(24) < 12, exact_limit=0, n_permutations=999, rng=rng)
    assert stats.kstest(sampled.p_value, "uniform").pvalue > 0.001
    for level in (0.01, 0.05, 0.2):
        assert np.mean(sampled.p_value <= level) == pytest.approx(level, abs=3 * math.sqrt(level / 2000))


def test_strata_keep_a_confounder_fixed():
    """Labels that follow a stratum's mean are nothing within it; over the pool they look like an effect."""
    rng = np.random.default_rng(0)
    strata = np.repeat([0, 1], 20)
    labels = np.concatenate([np.arange(20) < 16, np.arange(20) < 4])
    values = (3.0 * (strata == 0) + rng.normal(size=40))[None]
    assert permute_labels(values, labels, rng=rng).p_value[0] < 0.01
    assert permute_labels(values, labels, strata=strata, rng=rng).p_value[0] > 0.05


def test_a_stratum_that_lost_a_side_has_one_labelling():
    """All images of one prompt were refused: its match stays where it is."""
    values, labels = np.array([[1.0, 2.0, 4.0, 8.0, 16.0]]), np.array([True, True, False, False, False])
    strata = np.array([0, 0, 0, 0, 1])
    test = permute_labels(values, labels, strata=strata)
    assert test.n_splits == 6
    assert test.p_value[0] == brute_force(values[0], labels, strata, "two-sided")


def test_blocks_add_their_differences():
    rng = np.random.default_rng(0)
    images, words = rng.normal(size=(1, 6)), rng.normal(size=(1, 4))
    labels, blocks = np.array([1, 1, 1, 0, 0, 0, 1, 0, 0, 0], bool), np.repeat([0, 1], [6, 4])
    test = permute_labels(np.concatenate([images, words], axis=1), labels, blocks=blocks, strata=blocks)
    expected = difference(images[0], labels[:6]) + difference(words[0], labels[6:])
    assert test.statistic[0] == pytest.approx(expected)
    assert test.n_splits == math.comb(6, 3) * 4


@pytest.mark.parametrize(("limit", "value", "rows"), [("CHUNK", 7, 7), ("CHUNK_LABELS", 40, 3), ("CHUNK_LABELS", 5, 1)])
def test_chunks_do_not_change_the_sample(monkeypatch, limit, value, rows):
    """There are as many relabellings in one as are asked for, and no more labels than are held at once."""
    labels, strata = np.arange(12) < 6, np.arange(12) % 3
    whole = np.concatenate(list(sample_memberships(labels, strata, 50, np.random.default_rng(5))))
    monkeypatch.setattr(permutation, limit, value)
    chunks = list(sample_memberships(labels, strata, 50, np.random.default_rng(5)))
    assert max(map(len, chunks)) == rows
    parts = np.concatenate(chunks)
    np.testing.assert_array_equal(whole, parts)
    for h in range(3):
        assert (parts[:, strata == h].sum(axis=1) == 2).all()


def test_nan_rows_have_no_p_and_leave_the_others_alone():
    values = np.array([[1.0, 2, 3, 4], [1, np.nan, 3, 4]])
    for test in (permute_labels(values, np.arange(4) < 2), split_test(values, np.arange(4) < 2)):
        assert test.p_value[0] == 2 / 6
        assert np.isnan(test.p_value[1])
        assert test.reason


@pytest.mark.parametrize(
    ("labels", "options", "code", "field"),
    [
        (np.ones(4, bool), {}, Code.TOO_FEW, "labels"),
        (np.zeros(4, bool), {}, Code.TOO_FEW, "labels"),
        (np.ones(3, bool), {}, Code.WRONG_SHAPE, ("values", "labels")),
        (np.array([1, 1, 0, 0], bool), {"alternative": "both"}, Code.UNKNOWN_NAME, "alternative"),
        (np.array([1, 1, 0, 0], bool), {"blocks": np.array([0, 0, 1, 1])}, Code.TOO_FEW, "labels"),
        (np.array([1, 1, 0, 0], bool), {"exact_limit": 0, "n_permutations": 0}, Code.OUT_OF_RANGE, "permutations"),
    ],
)
def test_refuses(labels, options, code, field):
    with raises(InvalidInputError, code=code, field=field):
        permute_labels(np.ones((1, 4)), labels, **options)


def test_refuses_to_count_too_many():
    with raises(InvalidInputError, code=Code.TOO_MANY, field="labels"):
        split_test(np.ones((1, 42)), np.arange(42) < 21)


@pytest.mark.parametrize("alternative", ["two-sided", "greater", "less"])
def test_strata_met_in_the_middle_are_counted_as_by_enumeration(alternative):
    rng = np.random.default_rng(3)
    values = rng.normal(size=(2, 17))
    values[1, 3] = np.nan
    strata = np.array([0] * 6 + [1] * 5 + [2] * 4 + [3] * 2)
    labels = np.array([1, 1, 0, 0, 0, 1, 1, 0, 0, 1, 0, 1, 1, 0, 1, 1, 0], bool)
    counted = permute_labels(values, labels, strata=strata, alternative=alternative)
    n_splits = 20 * 10 * 4 * 2
    assert (counted.n_splits, counted.exact) == (n_splits, True)
    met = permute_labels(values, labels, strata=strata, alternative=alternative, exact_limit=1)
    assert (met.n_splits, met.exact) == (n_splits, True)
    np.testing.assert_array_equal(met.p_value, counted.p_value)


def test_strata_with_ties_and_two_blocks_are_counted_alike():
    values = np.array([[1, 1, 2, 2, 3, 3, 1, 2, 3, 4.0]])
    strata = np.array([0, 0, 0, 1, 1, 1, 2, 2, 2, 2])
    blocks = np.array([0] * 6 + [1] * 4)
    labels = np.array([1, 0, 0, 1, 1, 0, 0, 1, 0, 1], bool)
    counted = permute_labels(values, labels, strata=strata, blocks=blocks)
    met = permute_labels(values, labels, strata=strata, blocks=blocks, exact_limit=1)
    np.testing.assert_array_equal(met.p_value, counted.p_value)


def test_splits_beyond_enumeration_are_exact_within_strata():
    """Four strata of 5 + 5: 4e9 splits, two halves of 63,504; each stratum wholly apart, so that p is known."""
    values = np.tile(np.r_[np.zeros(5), np.ones(5)], 4)[None]
    labels, strata = np.tile(np.repeat([False, True], 5), 4), np.repeat(range(4), 10)
    test = permute_labels(values, labels, strata=strata)
    assert test.exact
    assert test.n_splits == 252**4
    assert test.p_value[0] == pytest.approx(2 / 252**4)
    assert test.standard_error[0] == 0
