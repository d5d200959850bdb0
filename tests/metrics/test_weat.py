"""WEAT: algebra, exactness, conventions."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from clinometer.errors import InvalidInputError
from clinometer.metrics import association_scores, weat


def sets(seed: int, n_x: int = 5, n_y: int = 6, shift: float = 0.0) -> tuple[np.ndarray, ...]:
    rng = np.random.default_rng(seed)
    x, y, a, b = (rng.normal(size=(n, 8)) for n in (n_x, n_y, 4, 3))
    return x + shift * (a.mean(axis=0) - b.mean(axis=0)), y, a, b


@given(st.integers(0, 10_000), st.sampled_from([0, 1]))
def test_statistic_and_effect_size_by_definition(seed, ddof):
    x, y, a, b = sets(seed)
    result = weat(x, y, a, b, ddof=ddof)
    s_x, s_y = association_scores(x, a, b), association_scores(y, a, b)
    assert result.statistic == pytest.approx(s_x.mean() - s_y.mean())
    assert result.effect_size == pytest.approx((s_x.mean() - s_y.mean()) / np.concatenate([s_x, s_y]).std(ddof=ddof))
    assert (result.n_x, result.n_y, result.ddof, result.reason) == (5, 6, ddof, "")


@given(st.integers(0, 10_000))
def test_swaps_negate_and_mirror(seed):
    x, y, a, b = sets(seed)
    result = weat(x, y, a, b)
    for swapped in (weat(y, x, a, b, alternative="less"), weat(x, y, b, a, alternative="less")):
        assert swapped.statistic == pytest.approx(-result.statistic)
        assert swapped.effect_size == pytest.approx(-result.effect_size)
        assert swapped.p_value == pytest.approx(result.p_value)


@given(st.integers(0, 10_000))
def test_order_scale_and_rotation_change_nothing(seed):
    x, y, a, b = sets(seed)
    rotation = np.linalg.qr(np.random.default_rng(seed).normal(size=(8, 8)))[0]
    moved = weat(*(3.0 * s[::-1] @ rotation for s in (x, y, a, b)))
    result = weat(x, y, a, b)
    assert moved.statistic == pytest.approx(result.statistic, abs=1e-12)
    assert moved.p_value == pytest.approx(result.p_value)


@pytest.mark.parametrize("alternative", ["greater", "less"])
def test_p_agrees_with_scipy(alternative):
    x, y, a, b = sets(3)
    result = weat(x, y, a, b, alternative=alternative)
    theirs = stats.permutation_test(
        (association_scores(x, a, b), association_scores(y, a, b)),
        lambda u, v: u.mean() - v.mean(),
        n_resamples=np.inf,
        alternative=alternative,
    )
    assert result.exact
    assert result.n_splits == math.comb(11, 5)
    assert result.standard_error == 0
    assert result.p_value == pytest.approx(theirs.pvalue)


def test_exact_and_sampled_agree_and_name_themselves():
    x, y, a, b = sets(1, 10, 10, shift=0.2)
    exact = weat(x, y, a, b, method="exact")
    sampled = weat(x, y, a, b, method="sampled", permutations=20_000, rng=0)
    assert exact.exact
    assert not sampled.exact
    assert sampled.n_splits == 20_000
    assert abs(exact.p_value - sampled.p_value) < 4 * sampled.standard_error + 1e-4
    assert sampled == weat(x, y, a, b, method="sampled", permutations=20_000, rng=np.random.default_rng(0))


def test_twenty_and_twenty_are_still_exact():
    result = weat(*sets(0, 20, 20, shift=0.2))
    assert result.exact
    assert result.n_splits == math.comb(40, 20)


def test_beyond_forty_auto_samples_unless_the_splits_are_few():
    assert not weat(*sets(0, 21, 21), permutations=99).exact
    few = weat(*sets(0, 2, 60))
    assert few.exact
    assert few.n_splits == math.comb(62, 2)


def test_sampled_p_is_never_zero():
    result = weat(*sets(0, 25, 25, shift=9.0), permutations=49)
    assert result.p_value == 1 / 50


def test_float32_ties_are_ties():
    """The same targets on both sides: swapping a copy ties with the observed split, whatever the rounding."""
    rng = np.random.default_rng(0)
    x, a, b = (rng.normal(size=(n, 8)).astype(np.float32) for n in (4, 3, 3))
    assert weat(x, x.copy(), a, b).p_value >= 0.5


def test_no_spread_no_effect_size():
    x, _, a, b = sets(0)
    same = np.repeat(x[:1], 4, axis=0)
    result = weat(same, same, a, b)
    assert result.statistic == 0
    assert math.isnan(result.effect_size)
    assert result.p_value == 1
    assert "no spread" in result.reason


def test_two_targets_have_an_effect_size_and_a_p():
    result = weat(*sets(0, 1, 1))
    assert result.n_splits == 2
    assert abs(result.effect_size) == pytest.approx(math.sqrt(2))


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"method": "guess"}, "method: expected auto, exact or sampled"),
        ({"alternative": "bigger"}, "alternative: expected one of"),
    ],
)
def test_refuses_options(options, complaint):
    with pytest.raises(InvalidInputError, match=complaint):
        weat(*sets(0), **options)


def test_refuses_exact_when_it_cannot_be():
    with pytest.raises(InvalidInputError, match="too many splits"):
        weat(*sets(0, 25, 25), method="exact")


@pytest.mark.parametrize("place", range(4))
def test_refuses_nan_and_empty_sets(place):
    for bad in (np.full((2, 8), np.nan), np.empty((0, 8))):
        arguments = list(sets(0))
        arguments[place] = bad
        with pytest.raises(InvalidInputError):
            weat(*arguments)
