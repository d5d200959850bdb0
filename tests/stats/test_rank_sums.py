"""Mann and Whitney's p from one sort is scipy's."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import mannwhitneyu

from clinometer.stats.permutation import rank_sum_p

NUMBERS = st.lists(st.one_of(st.integers(-3, 3).map(float), st.floats(-1e6, 1e6)), min_size=1, max_size=40)


@given(NUMBERS, NUMBERS)
def test_p_is_scipys_bit_for_bit(sample, others):
    expected = mannwhitneyu(sample, others, alternative="greater").pvalue
    assert rank_sum_p(np.array(sample), np.array(others)) == expected


@pytest.mark.parametrize("digits", [1, 3, 16])
def test_p_is_scipys_for_many_numbers_with_and_without_ties(digits):
    rng = np.random.default_rng(digits)
    sample, others = rng.normal(0.02, size=1000).round(digits), rng.normal(size=60_000).round(digits)
    assert rank_sum_p(sample, others) == mannwhitneyu(sample, others, alternative="greater").pvalue


def test_both_sides_of_a_shift_are_told():
    rng = np.random.default_rng(1)
    sample, others = rng.normal(1, size=50), rng.normal(size=500)
    assert rank_sum_p(sample, others) < 1e-6
    assert rank_sum_p(-sample, -others) > 1 - 1e-6
    assert rank_sum_p(np.zeros(20), np.zeros(30)) == 1
    assert 0 < rank_sum_p(sample + 1e9, others) < 1e-20
