"""Bootstrap weights: their variance in closed form, scipy as an oracle, coverage by simulation."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from clinometer.errors import InvalidInputError
from clinometer.stats.bootstrap import ball_interval, fold_interval, percentile_interval, rao_wu_weights


@given(st.lists(st.integers(2, 9), min_size=1, max_size=5), st.integers(0, 1000))
def test_every_row_sums_to_one_and_strata_keep_their_share(sizes, seed):
    weights = rao_wu_weights(sizes, 20, np.random.default_rng(seed))
    assert weights.dtype == np.float32
    start = 0
    for size in sizes:
        np.testing.assert_allclose(weights[:, start : start + size].sum(axis=1), size / sum(sizes), rtol=1e-5)
        start += size


@pytest.mark.parametrize("n", [2, 3, 5, 20])
def test_variance_of_a_mean_is_the_unbiased_one(n):
    """s²/n, not (n − 1)/n of it. With 40,000 replicates a variance scatters by less than 1 %."""
    x = np.random.default_rng(n).normal(size=n)
    replicates = rao_wu_weights([n], 40_000, np.random.default_rng(0)) @ x
    assert replicates.mean() == pytest.approx(x.mean(), abs=4 * replicates.std() / 200)
    assert replicates.var() == pytest.approx(x.var(ddof=1) / n, rel=0.03)


def test_variance_of_a_stratified_mean_adds_up():
    rng = np.random.default_rng(1)
    sizes = [4, 16, 9]
    strata = [rng.normal(h, 1 + h, size) for h, size in enumerate(sizes)]
    replicates = rao_wu_weights(sizes, 40_000, rng) @ np.concatenate(strata)
    expected = sum((n / 29) ** 2 * x.var(ddof=1) / n for n, x in zip(sizes, strata, strict=True))
    assert replicates.var() == pytest.approx(expected, rel=0.03)


def test_agrees_with_scipy_where_the_two_differ_least():
    """scipy draws n of n; at n = 200 that is a quarter of a percent narrower."""
    x = np.random.default_rng(0).exponential(size=200)
    draws = rao_wu_weights([200], 20_000, np.random.default_rng(1)) @ x
    ours = percentile_interval(draws)
    theirs = stats.bootstrap(
        (x,), np.mean, n_resamples=20_000, method="percentile", rng=np.random.default_rng(2)
    ).confidence_interval
    scale = theirs.high - theirs.low
    assert float(ours.low) == pytest.approx(theirs.low, abs=0.03 * scale)
    assert float(ours.high) == pytest.approx(theirs.high, abs=0.03 * scale)


def test_one_item_has_no_variance():
    weights = rao_wu_weights([3, 1], 10, np.random.default_rng(0))
    assert np.isnan(weights[:, 3]).all()
    assert np.isfinite(weights[:, :3]).all()
    assert np.isnan(percentile_interval(weights @ np.ones(4)).low)


def test_empty_strata_take_no_column():
    assert rao_wu_weights([0, 2, 0], 10, np.random.default_rng(0)).shape == (10, 2)
    assert rao_wu_weights([], 10, np.random.default_rng(0)).shape == (10, 0)


def test_a_stratum_does_not_depend_on_those_after_it_and_seeds_decide():
    short, long = (rao_wu_weights(sizes, 50, np.random.default_rng(7)) for sizes in ([5], [5, 8]))
    np.testing.assert_allclose(short * 5 / 13, long[:, :5], rtol=1e-6)
    np.testing.assert_array_equal(short, rao_wu_weights([5], 50, np.random.default_rng(7)))
    assert (short != rao_wu_weights([5], 50, np.random.default_rng(8))).any()


def test_two_level_interval_covers():
    """A difference of products of means, as II is: targets × attributes, both resampled; nominal 95 %."""
    rng, covered, n_studies = np.random.default_rng(0), 0, 400
    for study in range(n_studies):
        targets, attributes = rng.normal(1, 1, 20), [rng.normal(mean, 1, 16) for mean in (1.0, 1.5)]
        w = rao_wu_weights([20], 600, np.random.default_rng([study, 0]))
        v = rao_wu_weights([16, 16], 600, np.random.default_rng([study, 1])) * 2
        draws = (w @ targets) * (v[:, :16] @ attributes[0] - v[:, 16:] @ attributes[1])
        interval = percentile_interval(draws)
        covered += bool(interval.low <= -0.5 <= interval.high)
    # Percentiles of 20 and 16 items are a little short of 95 %; the simulation scatters by 1.1 %.
    assert 0.90 <= covered / n_studies <= 0.98


@given(st.floats(-5, 5), st.floats(0, 5))
def test_folding_is_the_image_under_the_absolute_value(low, width):
    folded = fold_interval(low, low + width)
    inside = np.abs(np.linspace(low, low + width, 1001))
    assert folded.low <= inside.min() + 1e-12
    assert folded.high == pytest.approx(inside.max())
    assert folded.low == (0 if low <= 0 <= low + width else pytest.approx(inside.min()))


def test_folding_keeps_nan():
    folded = fold_interval(np.array([np.nan, -1.0]), np.array([1.0, np.nan]))
    assert np.isnan(folded.low).all()
    assert np.isnan(folded.high).all()


@pytest.mark.parametrize("length", [0.0, 0.5, 3.0])
def test_ball_interval_covers_a_norm_even_at_zero(length):
    rng = np.random.default_rng(0)
    truth = np.array([length, 0, 0])
    noise = rng.normal(size=(2000, 3))
    estimates = truth + noise
    interval = ball_interval(np.linalg.norm(estimates, axis=1), np.linalg.norm(noise, axis=1))
    assert np.mean((interval.low <= length) & (length <= interval.high)) >= 0.94
    assert (interval.low >= 0).all()


@pytest.mark.parametrize("confidence", [0, 1, 95])
def test_refuses_a_confidence_that_is_none(confidence):
    with pytest.raises(InvalidInputError, match="confidence"):
        percentile_interval(np.ones(3), confidence)


def test_refuses_no_resamples():
    with pytest.raises(InvalidInputError, match="n_resamples"):
        rao_wu_weights([3], 0, np.random.default_rng(0))
