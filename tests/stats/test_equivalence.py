"""Equivalence by two one-sided tests, against statsmodels and its interval."""

from __future__ import annotations

from math import inf, nan

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import norm
from statsmodels.stats.weightstats import DescrStatsW

from clinometer.errors import Code, InvalidInputError
from clinometer.stats.power import (
    BEYOND,
    equivalence_p_value,
    factors_by_steps,
    images_to_decide,
    standard_error_of,
)
from tests.raising import raises

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


def by_table(alone: np.ndarray) -> list[float]:
    """The slow oracle: a test is called where, for any step, it is at its level and as many are."""
    m = len(alone)
    enough = np.array([sorted(alone[:, k])[k] for k in range(m)])
    return np.maximum(alone, enough).min(axis=1).tolist()


def by_steps(alone: np.ndarray, factors: np.ndarray) -> list[float]:
    first = np.array([[next((k for k, f in enumerate(row) if f <= at), len(row)) for at in factors] for row in alone])
    return factors_by_steps(first, factors).tolist()


def test_a_step_is_reached_when_enough_tests_are_at_it() -> None:
    """The second test is alone at step 1 with 9 times the data, and at step 2 with 4 times, where the first is too."""
    factors = np.arange(1.0, 10.0)
    assert by_steps(np.array([[2.0, 1.0], [9.0, 4.0]]), factors) == [2, 4]
    assert by_steps(np.array([[2.0, 1.0], [9.0, inf]]), factors) == [2, 9]
    assert by_steps(np.array([[inf, 5.0], [9.0, 4.0]]), factors) == [5, 5]
    assert factors_by_steps(np.empty((0, 9), int), factors).tolist() == []


@given(st.integers(0, 10**6), st.integers(1, 30))
def test_without_a_table_the_factors_are_those_of_the_table(seed: int, m: int) -> None:
    rng = np.random.default_rng(seed)
    rows = -np.sort(-rng.integers(1, 9, (m, m)).astype(float), axis=1)  # they fall in k
    rows[rng.random(m) < 0.2] = inf  # some are at no step
    assert by_steps(rows, np.arange(1.0, 9.0)) == by_table(rows)


def test_images_are_rounded_up_and_more_than_there_are() -> None:
    assert images_to_decide(20, norm.isf(0.025) ** 2) == 77  # 20 × 1.96² = 76.8
    assert images_to_decide(20, 1e5) == BEYOND == 10_001  # more than ten thousand are not counted
    assert images_to_decide(20, inf) == images_to_decide(20, nan) == 0
    assert images_to_decide(20, 1.0) == 21


def test_missing_is_missing() -> None:
    assert np.isnan(equivalence_p_value(np.nan, 0.1, 0.2))


def test_a_margin_of_nothing_is_refused() -> None:
    with raises(InvalidInputError, code=Code.OUT_OF_RANGE, field="margin"):
        equivalence_p_value(0.1, 0.1, 0.0)
