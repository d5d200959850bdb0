"""Estimates held to limits: what the intervals say, the correction over a family, and how often it errs."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from clinometer.errors import Code, InvalidInputError
from clinometer.stats.power import MANY, hold_to_limits
from tests.raising import raises

INF = np.inf
numbers = st.floats(-5, 5)
halves = st.floats(0.01, 3)


def held(value, low, high, *, at_least=-INF, at_most=INF, units=20, freedom=19, alpha=0.05):
    arrays = np.broadcast_arrays(*np.atleast_1d(value, low, high, units, freedom, at_least, at_most))
    value, low, high, units, freedom, at_least, at_most = arrays
    return hold_to_limits(value, low, high, units, freedom, at_least=at_least, at_most=at_most, alpha=alpha)


@given(numbers, halves, halves, numbers, st.integers(1, 500))
def test_a_single_estimate_is_judged_by_its_interval_alone(value, below, above, limit, freedom):
    low, high = value - below, value + above
    judged = held(value, low, high, at_most=limit, freedom=freedom)
    assert judged.within[0] == (high <= limit)
    if abs(low - limit) > 1e-9:
        assert judged.beyond[0] == (low > limit)


@given(st.lists(st.tuples(numbers, halves, numbers), min_size=1, max_size=8))
def test_limits_turned_round_are_kept_and_broken_alike(estimates):
    value, half, limit = np.array(estimates).T
    above = held(value, value - half, value + 2 * half, at_most=limit)
    below = held(-value, -value - 2 * half, -value + half, at_least=-limit)
    for name in ("within", "beyond", "p", "p_holm", "n_decide"):
        np.testing.assert_array_equal(getattr(above, name), getattr(below, name))


@given(st.lists(st.tuples(numbers, halves), min_size=2, max_size=8), st.permutations(range(8)))
def test_the_order_of_estimates_does_not_count(estimates, order):
    order = [place for place in order if place < len(estimates)]
    value, half = np.array(estimates).T
    straight, shuffled = (held(v, v - h, v + h, at_least=-1, at_most=1)
                          for v, h in ((value, half), (value[order], half[order])))  # fmt: skip
    np.testing.assert_array_equal(straight.beyond[order], shuffled.beyond)
    np.testing.assert_allclose(straight.p_holm[order], shuffled.p_holm)


@given(st.lists(st.tuples(numbers, halves), min_size=1, max_size=8))
def test_nothing_is_both_within_and_beyond_and_more_estimates_call_no_more_beyond(estimates):
    value, half = np.array(estimates).T
    judged = held(value, value - half, value + half, at_least=-1, at_most=1)
    assert not (judged.within & judged.beyond).any()
    alone = [held(v, v - h, v + h, at_least=-1, at_most=1).beyond[0] for v, h in estimates]
    assert (judged.beyond <= alone).all()


def test_p_is_that_of_student_where_the_interval_is():
    rng = np.random.default_rng(0)
    x = rng.normal(0.6, 1, 12)
    mean, error = x.mean(), x.std(ddof=1) / np.sqrt(12)
    reach = stats.t.ppf(0.975, 11) * error
    judged = held(mean, mean - reach, mean + reach, at_most=0.1, freedom=11)
    assert judged.p[0] == pytest.approx(stats.ttest_1samp(x, 0.1).pvalue)


def test_what_has_no_interval_is_neither():
    judged = held([1.0, np.nan, 1.0], [np.nan, 0, 0.9], [np.nan, 1, 1.1], at_most=0.5)
    assert judged.within.tolist() == [False] * 3
    assert judged.beyond.tolist() == [False, False, True]
    assert np.isnan(judged.p[:2]).all()
    assert judged.n_decide.tolist() == [0, 0, 0]


def test_an_estimate_without_doubt_is_decided():
    judged = held([0.5, 0.6], [0.5, 0.6], [0.5, 0.6], at_most=0.5)
    assert judged.within.tolist() == [True, False]
    assert judged.beyond.tolist() == [False, True]


def test_an_estimate_beyond_its_limit_does_not_keep_it_whatever_its_interval_says():
    judged = held([0.3, -0.3], [0.05, -0.15], [0.15, -0.05], at_least=-0.2, at_most=0.2)
    assert not judged.within.any()
    assert not judged.beyond.any()


def test_an_interval_that_leaves_its_estimate_out_is_corrected_as_any_other():
    value, low, high = (np.full(1_000, x) for x in (0.25, 0.3, 0.5))
    assert held(value[:1], low[:1], high[:1], at_most=0.2).beyond.all()
    assert not held(value, low, high, at_most=0.2).beyond.any()


@pytest.mark.parametrize(
    ("value", "half", "upper"), [(0.5, 0.8, 1.0), (0.9, 0.4, 1.0), (1.2, 0.5, 1.0), (0.1, 0.5, 0.3)]
)
def test_the_units_that_decide_do_in_four_of_five_runs(value, half, upper):
    """Drawn from what the truth may be; each with an interval that shrinks by 1/√n, decided as any estimate is."""
    n = int(held(value, value - half, value + half, at_most=upper).n_decide[0])
    assert 20 < n < MANY
    rng, error = np.random.default_rng(0), half / stats.norm.isf(0.025)
    truth = value + error * rng.standard_normal(4_000)
    drawn = truth + error * np.sqrt(20 / n) * rng.standard_normal(4_000)
    reach = half * np.sqrt(20 / n)
    rate = np.mean((drawn + reach <= upper) | (drawn - reach > upper))
    assert rate == pytest.approx(0.8, abs=0.02)


def test_the_units_that_decide_pass_the_correction():
    value, half = np.full(30, 1.3), np.full(30, 0.25)
    judged = held(value, value - half, value + half, at_most=1)
    assert not judged.beyond.any()
    assert judged.n_decide[0] > held(1.3, 1.05, 1.55, at_most=1).n_decide[0]
    n = judged.n_decide[0]
    shrunk = half * np.sqrt(20 / n)
    assert held(value, value - shrunk, value + shrunk, at_most=1, units=n).beyond.all()


@pytest.mark.parametrize("bad", [{"at_least": 1, "at_most": 0}, {"at_most": np.nan}])
def test_limits_that_cannot_be_are_refused(bad):
    with raises(InvalidInputError, code=Code.OUT_OF_RANGE, field="limits"):
        held(0.0, -1.0, 1.0, **bad)


def test_arrays_of_other_lengths_are_refused():
    with raises(InvalidInputError, code=Code.WRONG_SHAPE, field="limits", match=r"\(1,\)"):
        hold_to_limits([0], [0], [0, 1], [1], [1], at_least=[0], at_most=[1])


@pytest.mark.thorough
def test_levels_hold_at_the_limit():
    """Thirty means exactly at their limit: any is called beyond in at most 5 %, a single one passes in 2.5 %."""
    rng = np.random.default_rng(5)
    any_beyond, passes = [], []
    for _ in range(2_000):
        x = rng.normal(1.0, 1.0, (30, 12))
        mean, error = x.mean(1), x.std(1, ddof=1) / np.sqrt(12)
        reach = stats.t.ppf(0.975, 11) * error
        judged = held(mean, mean - reach, mean + reach, at_most=1.0, freedom=11)
        any_beyond.append(judged.beyond.any())
        passes.append(judged.within[0])
    assert np.mean(any_beyond) <= 0.05 + 3 * np.sqrt(0.05 * 0.95 / 2_000)
    assert abs(np.mean(passes) - 0.025) <= 3 * np.sqrt(0.025 * 0.975 / 2_000)
