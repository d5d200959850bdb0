"""Equivalence by two one-sided tests, against statsmodels and its interval."""

from __future__ import annotations

import tracemalloc
from math import ceil, inf, nan

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import norm
from statsmodels.stats.weightstats import DescrStatsW

from clinometer.errors import InvalidInputError
from clinometer.stats import equivalence
from clinometer.stats.equivalence import (
    equivalence_p_value,
    factors_in_family,
    factors_to_decide,
    images_to_decide,
    standard_error_of,
)
from clinometer.stats.multiplicity import benjamini_hochberg

NUMBERS = st.floats(-1, 1)
SPREADS = st.floats(0.01, 1)


def test_p_is_statsmodels() -> None:
    x = np.random.default_rng(1).normal(0.1, 1, 40)
    expected, _, _ = DescrStatsW(x).ttost_mean(-0.5, 0.5)
    found = equivalence_p_value(x.mean(), x.std(ddof=1) / np.sqrt(40), 0.5, freedom=39)
    assert found == pytest.approx(expected)


@given(NUMBERS, SPREADS, st.floats(0.05, 1))
def test_p_counts_where_the_ninety_per_cent_interval_lies_within(value: float, se: float, margin: float) -> None:
    half = float(norm.ppf(0.95)) * se
    gap = margin - abs(value) - half
    if abs(gap) > 1e-9:
        assert (equivalence_p_value(value, se, margin) < 0.05) == (gap > 0)


@given(NUMBERS, SPREADS, st.floats(0.05, 1))
def test_p_has_no_side(value: float, se: float, margin: float) -> None:
    assert equivalence_p_value(value, se, margin) == equivalence_p_value(-value, se, margin)


def test_level_at_the_margin() -> None:
    rng = np.random.default_rng(2)
    p = [equivalence_p_value(v, 0.1, 0.5) for v in rng.normal(0.5, 0.1, 4000)]
    assert np.mean(np.array(p) <= 0.05) == pytest.approx(0.05, abs=4 * np.sqrt(0.05 * 0.95 / 4000))


def test_without_spread_it_is_certain() -> None:
    assert equivalence_p_value(0.1, 0.0, 0.2) == 0
    assert equivalence_p_value(0.3, 0.0, 0.2) == 1


def test_standard_error_gives_the_interval_back() -> None:
    assert standard_error_of(-1.959964, 1.959964) == pytest.approx(1, abs=1e-6)


FAMILIES = st.lists(st.tuples(NUMBERS.filter(lambda x: abs(x) > 1e-3), SPREADS), min_size=1, max_size=8)


def factors(values, errors, margin=None, p=None):
    """Of normal estimates, with the p-values of their intervals unless told otherwise."""
    values, halves = np.asarray(values), norm.isf(0.025) * np.asarray(errors)
    p = 2 * norm.sf(np.abs(values) / errors) if p is None else np.asarray(p)
    return factors_to_decide(values, values - halves, values + halves, p, margin)


def decided(values, errors, margin=None):
    """Which of a family are shown to lean, or to be balanced, with q over all of them."""
    leans = benjamini_hochberg(2 * norm.sf(np.abs(values) / errors)) <= 0.05
    if margin is None:
        return leans
    return leans | (benjamini_hochberg(norm.sf((margin - np.abs(values)) / errors)) <= 0.05)


@given(FAMILIES, st.one_of(st.none(), st.floats(0.02, 1)))
def test_grown_by_the_factor_the_family_s_tests_decide(family, margin) -> None:
    values, errors = np.array(family).T
    found = factors(values, errors, margin)
    for i in np.flatnonzero(np.isfinite(found) & ~decided(values, errors, margin)):
        assert decided(values, errors / np.sqrt(1.001 * found[i]), margin)[i]


@given(FAMILIES)
def test_grown_by_a_little_less_a_leaning_is_not_decided(family) -> None:
    values, errors = np.array(family).T
    found = factors(values, errors)
    for i in np.flatnonzero(np.isfinite(found)):
        assert not decided(values, errors / np.sqrt(0.999 * found[i]))[i]


def by_table(alone: np.ndarray) -> np.ndarray:
    """The slow oracle: every test at every step, and how many are there."""
    enough = np.diagonal(np.sort(alone, axis=0))
    return np.asarray(np.maximum(alone, enough).min(axis=1))


def in_family(alone: np.ndarray) -> list[float]:
    enough = np.diagonal(np.sort(alone, axis=0))
    return factors_in_family(lambda test, step: alone[test, step], enough).tolist()


def test_a_step_is_reached_when_enough_tests_are_at_it() -> None:
    """The second test is alone at step 1 with 9 times the data, and at step 2 with 4 times, where the first is too."""
    assert in_family(np.array([[2.0, 1.0], [9.0, 4.0]])) == [2, 4]
    assert in_family(np.array([[2.0, 1.0], [9.0, inf]])) == [2, 9]
    assert in_family(np.array([[inf, 5.0], [9.0, 4.0]])) == [5, 5]
    assert in_family(np.empty((0, 0))) == []


@pytest.mark.parametrize("most", [4, 10**6])
@given(st.integers(0, 10**6), st.integers(1, 30))
def test_without_a_table_the_factors_are_those_of_the_table(most: int, seed: int, m: int) -> None:
    rng = np.random.default_rng(seed)
    # some alike, some at no step
    rows = -np.sort(-rng.integers(1, 9, (m, m)).astype(float), axis=1)
    rows[rng.random(m) < 0.2] = inf
    weights = rng.integers(1, 4, m)
    whole = np.repeat(rows, weights, axis=0)
    steps = np.minimum(np.arange(len(whole)) // 3, m - 1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(equivalence, "_MOST_AT_ONCE", most)
        found = equivalence.ordered_at_steps(lambda test, step: rows[test, steps[step]], weights)
    table = whole[:, steps]
    assert found.tolist() == np.diagonal(np.sort(table, axis=0)).tolist()
    assert in_family(table) == by_table(table).tolist()
    factors = np.arange(1.0, 9.0)
    first = np.array([[next((k for k, f in enumerate(row) if f <= at), len(row)) for at in factors] for row in table])
    assert equivalence.factors_by_steps(first, factors).tolist() == by_table(table).tolist()


def test_many_tests_take_no_table_of_tests_by_steps() -> None:
    rng = np.random.default_rng(3)
    values, errors = rng.normal(0, 0.3, 20_000), rng.uniform(0.01, 0.3, 20_000)
    tracemalloc.start()
    found = factors(values, errors, margin=0.1)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert np.isfinite(found).any()
    assert most < 50e6  # a table of them takes 3.2e9


@pytest.mark.parametrize("margin", [0.1, None])
def test_with_the_estimates_as_truth_half_of_the_draws_decide_or_more(margin) -> None:
    rng = np.random.default_rng(5)
    values = np.array([0.0, 0.004, -0.02, 0.05, 0.07, 0.16, -0.3, 0.2, 0.5, -0.5])
    errors = np.linspace(0.08, 0.14, len(values))
    found = factors(values, errors, margin)
    shares = []
    for factor in found[np.isfinite(found)]:
        spread = errors / np.sqrt(factor)
        draws = [decided(rng.normal(values, spread), spread, margin) for _ in range(300)]
        shares.append(np.mean(draws, axis=0)[list(found).index(factor)])
    assert len(shares) >= 6
    assert min(shares) > 0.35
    assert np.mean(shares) < 0.85


def test_balance_is_counted_with_every_test_of_the_family() -> None:
    """Alone it needs (1.645 + 0.674)² se² / δ²; beside nine that lean, a tenth of the level."""
    (alone,) = factors([0.0], [0.1], 0.1)
    among = factors([0.0] + [0.5] * 9, [0.1] + [0.01] * 9, 0.1)[0]
    assert alone == pytest.approx((norm.isf(0.05) + norm.isf(0.25)) ** 2)
    assert among == pytest.approx((norm.isf(0.005) + norm.isf(0.25)) ** 2)


def test_a_leaning_held_back_by_its_p_alone_is_decided_by_no_number_and_its_balance_may_be() -> None:
    assert factors([0.3], [0.1], p=[0.4]) == inf
    assert factors([0.06], [0.02], 0.1, p=[0.4]) == pytest.approx((norm.isf(0.05) / 2) ** 2)


def test_a_leaning_whose_p_is_small_needs_its_interval_alone() -> None:
    values, p = [0.1, 0.3, 0.3], [0.001, 0.5, 0.9]
    assert factors(values, [0.1] * 3, p=p)[0] == pytest.approx(norm.isf(0.025) ** 2)


def test_the_half_that_faces_0_decides_a_leaning() -> None:
    ends = (np.array([0.2]), np.array([-0.2]), np.array([0.3]))
    assert factors_to_decide(*ends, np.array([0.001])) == pytest.approx(4)
    assert factors_to_decide(*(-each for each in (ends[0], ends[2], ends[1])), np.array([0.001])) == pytest.approx(4)


def test_nothing_decides_an_exact_zero_without_a_margin() -> None:
    assert factors([0.0], [0.1]) == inf
    assert images_to_decide(20, inf) == 0


def test_images_are_rounded_up_and_more_than_there_are() -> None:
    assert images_to_decide(20, norm.isf(0.025) ** 2) == 77  # 20 × 1.96² = 76.8
    assert images_to_decide(20, 1.0) == 21


def test_missing_is_missing_and_counts_nowhere() -> None:
    assert np.isnan(equivalence_p_value(np.nan, 0.1, 0.2))
    known, missing = factors([0.0, nan], [0.1, nan], 0.1)
    assert (known, missing) == (factors([0.0], [0.1], 0.1), inf)
    assert images_to_decide(20, nan) == 0
    assert ceil(known) > 1


def test_a_margin_of_nothing_is_refused() -> None:
    with pytest.raises(InvalidInputError, match="margin"):
        equivalence_p_value(0.1, 0.1, 0.0)
