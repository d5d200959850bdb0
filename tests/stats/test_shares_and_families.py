"""Benjamini–Hochberg, Holm, Wilson, the parity gap and LOESS: thin doors, checked against closed forms."""

from __future__ import annotations

from itertools import combinations, product
from math import comb

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from statsmodels.stats.contingency_tables import mcnemar
from statsmodels.stats.multitest import multipletests

from clinometer.errors import Code, InvalidInputError
from clinometer.metrics.mcas import loess_curve
from clinometer.stats.multiplicity import benjamini_hochberg, e_benjamini_hochberg, holm
from clinometer.stats.proportion import parity_gap_null, share_exchange, wilson_interval
from tests.raising import raises


def test_q_values_by_hand():
    """p sorted .01 .02 .03 .04 times n over rank: .04 .04 .04 .04."""
    np.testing.assert_allclose(benjamini_hochberg(np.array([0.04, 0.01, 0.03, 0.02])), 0.04)
    np.testing.assert_allclose(benjamini_hochberg(np.array([0.001, 0.9])), [0.002, 0.9])


@given(arrays(np.float64, 12, elements=st.floats(0, 1)))
def test_q_is_no_less_than_p_and_keeps_order(p):
    q = benjamini_hochberg(p)
    assert (q >= p - 1e-15).all()
    assert (np.diff(q[np.argsort(p)]) >= -1e-15).all()


@given(arrays(np.float64, 6, elements=st.floats(0, 1)), st.integers(0, 6))
def test_a_nan_is_no_test(p, place):
    q = benjamini_hochberg(np.insert(p, place, np.nan))
    assert np.isnan(q[place])
    np.testing.assert_array_equal(np.delete(q, place), benjamini_hochberg(p))


def test_a_family_of_nothing():
    assert np.isnan(benjamini_hochberg(np.array([np.nan]))).all()
    assert benjamini_hochberg(np.empty(0)).shape == (0,)


@pytest.mark.parametrize("seed", range(5))
def test_both_corrections_are_those_of_statsmodels(seed):
    p = np.random.default_rng(seed).beta(0.5, 2, 12).round(2)
    np.testing.assert_allclose(holm(p), multipletests(p, method="holm")[1], atol=1e-15)
    np.testing.assert_allclose(benjamini_hochberg(p), multipletests(p, method="fdr_bh")[1], atol=1e-15)


def test_holm_by_hand():
    """.01 · 4, then .03 · 3, then no less than before, and a NaN is no test."""
    p = np.array([0.04, 0.01, np.nan, 0.03, 0.9])
    np.testing.assert_allclose(holm(p), [0.09, 0.04, np.nan, 0.09, 0.9])
    assert holm(np.empty(0)).shape == (0,)


@given(arrays(np.float64, 12, elements=st.floats(0, 1)))
def test_holm_is_never_below_the_q_value(p):
    assert (holm(p) >= benjamini_hochberg(p) - 1e-15).all()


@pytest.mark.parametrize(("count", "n"), [(0, 20), (20, 20), (7, 20)])
def test_wilson_by_its_formula(count, n):
    z, p = 1.959963984540054, count / n
    centre = (p + z * z / (2 * n)) / (1 + z * z / n)
    half = z / (1 + z * z / n) * np.sqrt(p * (1 - p) / n + z * z / (4 * n * n))
    share = wilson_interval(count, n)
    assert share.value == p
    assert (share.low, share.high) == (
        pytest.approx(centre - half, abs=1e-12),
        pytest.approx(centre + half, abs=1e-12),
    )


@pytest.mark.parametrize(
    ("arguments", "code", "field", "words"),
    [
        ((3, 2), Code.OUT_OF_RANGE, "count", "0 to n = 2, found 3"),
        ((-1, 2), Code.OUT_OF_RANGE, "count", "-1"),
        ((1, -2), Code.OUT_OF_RANGE, "n", "-2"),
        ((1.5, 2), Code.WRONG_TYPE, "count", r"1\.5"),
        ((1, 2, 95), Code.OUT_OF_RANGE, "confidence", "95"),
    ],
)
def test_what_is_no_share_is_refused(arguments, code, field, words):
    with raises(InvalidInputError, code=code, field=field, match=words):
        wilson_interval(*arguments)


@pytest.mark.parametrize(
    ("correct", "field"), [(benjamini_hochberg, "p_values"), (holm, "p_values"), (e_benjamini_hochberg, "e_values")]
)
def test_what_is_no_family_is_refused(correct, field):
    with raises(InvalidInputError, code=Code.WRONG_SHAPE, field=field, match=r"\(1, 2\)"):
        correct(np.array([[0.1, 0.2]]))
    with raises(InvalidInputError, code=Code.OUT_OF_RANGE, field=field, match=r"0 to (1|inf), found -0\.1"):
        correct(np.array([0.5, -0.1, np.nan]))


@pytest.mark.parametrize("correct", [benjamini_hochberg, holm])
def test_a_p_value_is_at_most_1(correct):
    with raises(InvalidInputError, code=Code.OUT_OF_RANGE, field="p_values", match=r"0 to 1, found 1\.5"):
        correct(np.array([1.5]))


def test_no_image_no_share():
    share = wilson_interval(0, 0)
    assert np.isnan([share.value, share.low, share.high]).all()
    assert share.reason == "no image"
    assert np.isnan(parity_gap_null(0))


@pytest.mark.parametrize(("n", "expected"), [(1, 0.5), (2, 0.25), (8, 0.13671875)])
def test_gap_of_exact_parity(n, expected):
    """Two images: half of the pairs are 1–1 (gap 0), half 2–0 (gap ½). Eight: method page, 0.137."""
    assert parity_gap_null(n) == pytest.approx(expected)


def test_loess_follows_a_line_exactly_and_keeps_it_in_the_band():
    x = np.linspace(0, 1, 20)
    curve = loess_curve(x, 2 * x + 1)
    np.testing.assert_allclose(curve.y, 2 * curve.x + 1, atol=1e-6)
    rng, covered = np.random.default_rng(0), []
    for _ in range(40):
        noisy = loess_curve(x, 2 * x + 1 + rng.normal(0, 0.1, 20))
        assert (noisy.low < noisy.y).all()
        assert (noisy.y < noisy.high).all()
        covered.append(np.mean((noisy.low <= 2 * noisy.x + 1) & (2 * noisy.x + 1 <= noisy.high)))
    assert np.mean(covered) == pytest.approx(0.95, abs=0.04)


def test_loess_leaves_nan_out_and_says_when_points_are_too_few():
    x = np.linspace(0, 1, 20)
    y = x.copy()
    y[3] = np.nan
    assert loess_curve(x, y).reason == ""
    few = loess_curve(x[:5], y[:5])
    assert few.x.size == 0
    assert "4 distinct points" in few.reason
    assert loess_curve(np.ones(30), np.arange(30.0)).reason


# --- exchanges of yes-or-no answers ------------------------------------------------------------------------------

ANSWERS = arrays(bool, 6)


@given(ANSWERS, ANSWERS, st.booleans())
def test_exchanged_shares_turned_round_have_the_same_p(first, second, paired):
    p = share_exchange(first, second, paired=paired).p_value
    assert 0 < p <= 1
    assert share_exchange(second, first, paired=paired).p_value == pytest.approx(p)
    assert share_exchange(~first, ~second, paired=paired).p_value == pytest.approx(p)
    assert share_exchange(first, first, paired=paired).p_value == 1


@given(ANSWERS, ANSWERS)
def test_p_counts_every_exchange(first, second):
    differences = second.astype(int) - first
    swaps = np.abs(np.array(list(product((1, -1), repeat=6))) @ differences)
    found = share_exchange(first, second, paired=True)
    assert found.p_value == pytest.approx((swaps >= abs(differences.sum())).mean())
    assert found.n_exchanges == 2**6
    pool = np.concatenate([first, second]).astype(int)
    dealt = np.array([2 * pool[list(own)].sum() - pool.sum() for own in combinations(range(12), 6)])
    found = share_exchange(first, second, paired=False)
    assert found.p_value == pytest.approx((np.abs(dealt) >= abs(differences.sum())).mean())
    assert found.n_exchanges == comb(12, 6) == len(dealt)


def test_exchanges_of_pairs_are_mcnemars_test():
    rng = np.random.default_rng(1)
    first, second = rng.random(40) < 0.2, rng.random(40) < 0.5
    table = [[(a & b).sum() for b in (second, ~second)] for a in (first, ~first)]
    assert share_exchange(first, second, paired=True).p_value == pytest.approx(mcnemar(table, exact=True).pvalue)


def test_answers_that_are_no_pairs_are_refused():
    with raises(InvalidInputError, code=Code.WRONG_SHAPE, field="answers", match="2 and 3"):
        share_exchange([0, 1], [0, 1, 1], paired=True)
    with raises(InvalidInputError, code=Code.WRONG_SHAPE, field="answers"):
        share_exchange([], [0, 1, 1], paired=False)
