"""Cohen's d: the noncentral t by its definition, Student's test and scipy as oracles, invariances, coverage."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from clinometer.errors import InvalidInputError
from clinometer.stats.effect_size import cohens_d, noncentral_t_interval


@given(st.floats(-3, 3), st.integers(2, 60), st.integers(2, 60))
def test_each_end_leaves_its_tail(d, n_x, n_y):
    """By definition: at the low end T, or more, has probability 2.5 %; at the high end T, or less, has."""
    found = noncentral_t_interval(d, n_x, n_y)
    scale = np.sqrt(n_x * n_y / (n_x + n_y))
    assert stats.nct.sf(d * scale, n_x + n_y - 2, found.low * scale) == pytest.approx(0.025, abs=1e-6)
    assert stats.nct.cdf(d * scale, n_x + n_y - 2, found.high * scale) == pytest.approx(0.025, abs=1e-6)


@given(st.floats(-3, 3), st.integers(3, 60), st.integers(3, 60))
def test_swapping_the_groups_mirrors_the_interval(d, n_x, n_y):
    one, other = noncentral_t_interval(d, n_x, n_y), noncentral_t_interval(-d, n_y, n_x)
    np.testing.assert_allclose([one.low, one.high], [-other.high, -other.low], atol=1e-7)


def test_the_interval_covers_0_exactly_where_students_test_does_not_refuse_it():
    rng = np.random.default_rng(0)
    for _ in range(40):
        x, y = rng.normal(0.6, 1, 12), rng.normal(0, 1, 15)
        found = cohens_d(x, y)
        assert (found.low <= 0 <= found.high) == (stats.ttest_ind(x, y).pvalue >= 0.05)


@pytest.mark.parametrize("method", ["noncentral-t", "bootstrap"])
def test_shift_and_scale_change_nothing(method):
    rng = np.random.default_rng(1)
    x, y = rng.normal(0.5, 1, 12), rng.normal(0, 1, 9)
    one, other = cohens_d(x, y, method=method), cohens_d(3 * x - 7, 3 * y - 7, method=method)
    np.testing.assert_allclose([one.value, one.low, one.high], [other.value, other.low, other.high], rtol=1e-6)


def test_the_two_methods_agree_on_many_normal_values():
    rng = np.random.default_rng(2)
    x, y = rng.normal(0.5, 1, 400), rng.normal(0, 1, 400)
    exact, drawn = cohens_d(x, y), cohens_d(x, y, method="bootstrap")
    width = exact.high - exact.low
    assert drawn.low == pytest.approx(exact.low, abs=0.05 * width)
    assert drawn.high == pytest.approx(exact.high, abs=0.05 * width)


def test_the_bootstrap_is_scipys_bca():
    """scipy draws n of n where ours draws n − 1 with their variance set right: 1/400 apart at these sizes."""
    rng = np.random.default_rng(3)
    x, y = rng.exponential(size=200), rng.exponential(size=200) + 0.4

    def d(a, b, axis=-1):
        pooled = (a.var(axis=axis, ddof=1) + b.var(axis=axis, ddof=1)) / 2
        return (a.mean(axis=axis) - b.mean(axis=axis)) / np.sqrt(pooled)

    theirs = stats.bootstrap((x, y), d, n_resamples=9_999, method="BCa", rng=np.random.default_rng(0))
    ours = cohens_d(x, y, method="bootstrap")
    width = ours.high - ours.low
    assert ours.low == pytest.approx(theirs.confidence_interval.low, abs=0.05 * width)
    assert ours.high == pytest.approx(theirs.confidence_interval.high, abs=0.05 * width)


@pytest.mark.parametrize("d", [0.0, 0.8])
def test_covers(d):
    """1,000 pairs of eight normal values: 95 % ± 0.7."""
    rng, covered = np.random.default_rng(4), 0
    for x, y in zip(rng.normal(d, 1, (1000, 8)), rng.normal(0, 1, (1000, 8)), strict=True):
        found = cohens_d(x, y)
        covered += found.low <= d <= found.high
    assert covered / 1000 == pytest.approx(0.95, abs=0.02)


@pytest.mark.parametrize(
    ("x", "y", "reason"),
    [
        ([1.0, np.nan, 2.0], [1.0, 2.0], "not finite"),
        ([1.0], [2.0], "fewer than three"),
        ([], [1.0, 2.0, 3.0], "none in a group"),
        ([1.0, 1.0, 1.0], [2.0, 2.0], "alike"),
        ([1.0], [2.0, 3.0, 4.0], "one value"),
    ],
)
def test_undefined_has_a_reason(x, y, reason):
    found = cohens_d(x, y)
    assert np.isnan([found.value, found.low, found.high]).all()
    assert reason in found.reason


def test_refusals():
    with pytest.raises(InvalidInputError, match="method"):
        cohens_d([1, 2], [1, 2], method="t")  # type: ignore[arg-type]
    with pytest.raises(InvalidInputError, match="one dimension"):
        cohens_d(np.ones((2, 2)), [1, 2])
