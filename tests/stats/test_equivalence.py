"""Equivalence by two one-sided tests, against statsmodels and its interval."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import norm
from statsmodels.stats.weightstats import DescrStatsW

from clinometer.errors import InvalidInputError
from clinometer.stats.equivalence import (
    equivalence_p_value,
    factor_to_decide,
    images_to_decide,
    standard_error_of,
)

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


@given(st.floats(0.01, 1), SPREADS, st.one_of(st.none(), st.floats(0.02, 1)))
def test_the_factor_decides_and_a_little_less_does_not(value: float, se: float, margin: float | None) -> None:
    factor = factor_to_decide(value, se, margin)

    def decided(spread: float) -> bool:
        leans = abs(value) > norm.ppf(0.975) * spread
        return bool(leans or (margin is not None and equivalence_p_value(value, spread, margin) < 0.05))

    assert decided(se / np.sqrt(1.001 * factor))
    assert not decided(se / np.sqrt(0.999 * factor))


def test_nothing_decides_an_exact_zero_without_a_margin() -> None:
    assert factor_to_decide(0.0, 0.1) == np.inf
    assert images_to_decide(20, 0.0, 0.1) == 0
    assert images_to_decide(20, 0.1, 0.1) == 77  # 20 × 1.96² = 76.8


def test_missing_is_missing() -> None:
    assert np.isnan(equivalence_p_value(np.nan, 0.1, 0.2))
    assert images_to_decide(20, np.nan, np.nan, 0.1) == 0


def test_a_margin_of_nothing_is_refused() -> None:
    with pytest.raises(InvalidInputError, match="margin"):
        equivalence_p_value(0.1, 0.1, 0.0)
