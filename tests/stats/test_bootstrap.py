"""Bootstrap weights: their variance in closed form, scipy as an oracle, coverage by simulation."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from benchmarks.simulations import studentised_interval
from clinometer.errors import Code, InvalidInputError
from clinometer.stats.bootstrap import (
    ball_interval,
    bca_interval,
    fold_interval,
    magnitude_excess,
    percentile_interval,
    rao_wu_chunks,
    rao_wu_weights,
)
from tests.raising import raises


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


@pytest.mark.parametrize("chunk", [1, 7, 40, 100])
def test_chunks_are_the_rows_of_the_whole(chunk):
    sizes = [3, 1, 0, 12]
    whole = rao_wu_weights(sizes, 40, np.random.default_rng(3))
    chunks = list(rao_wu_chunks(sizes, 40, np.random.default_rng(3), chunk))
    assert max(map(len, chunks)) <= chunk
    assert np.array_equal(np.concatenate(chunks), whole, equal_nan=True)


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


@pytest.mark.parametrize("truth", [0.0, 0.3, 1.0, 2.5])
def test_the_excess_of_a_magnitude_bounds_its_bias(truth):
    drawn = truth + np.random.default_rng(0).standard_normal(200_000)
    bias = np.abs(drawn).mean() - truth
    # at 0 itself one estimate in twenty looks as if it were elsewhere
    assert magnitude_excess(drawn, 1.0).mean() >= bias - 0.02
    assert magnitude_excess(6.0, 1.0) < 1e-4
    assert magnitude_excess(0.0, 1.0) == pytest.approx(np.sqrt(2 / np.pi))
    assert magnitude_excess(3.0, 0.0) == 0


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
    with raises(InvalidInputError, code=Code.OUT_OF_RANGE, field="confidence"):
        percentile_interval(np.ones(3), confidence)


def test_refuses_no_resamples():
    with raises(InvalidInputError, code=Code.OUT_OF_RANGE, field="n_resamples"):
        rao_wu_weights([3], 0, np.random.default_rng(0))


def replicates_of_means(samples: np.ndarray, n_resamples: int = 999) -> tuple[np.ndarray, np.ndarray]:
    """Replicates of the mean of every row, and the standard error that each replicate would state."""
    n = samples.shape[1]
    w = rao_wu_weights([n], n_resamples, np.random.default_rng(0)).astype(np.float64)
    means = w @ samples.T
    return means, np.sqrt(np.maximum(w @ (samples**2).T - means**2, 0) * (n / (n - 2)) / n)


def test_stretched_percentiles_of_normal_draws_are_students_interval():
    draws = stats.norm.ppf((np.arange(40_000) + 0.5) / 40_000)
    interval = percentile_interval(draws, freedom=9)
    assert float(interval.high) == pytest.approx(stats.t.ppf(0.975, 9), abs=1e-3)
    assert float(interval.low) == pytest.approx(-stats.t.ppf(0.975, 9), abs=1e-3)


def test_each_number_has_its_own_freedom():
    draws = np.random.default_rng(0).normal(size=(500, 3))
    together = percentile_interval(draws, freedom=[4, 9, np.inf])
    for k, freedom in enumerate((4, 9, np.inf)):
        alone = percentile_interval(draws[:, k], freedom=freedom)
        assert (together.low[k], together.high[k]) == (pytest.approx(alone.low), pytest.approx(alone.high))


def test_a_few_normal_items_need_the_quantiles_of_t():
    """Means of 8: 4,000 samples scatter by 0.35 %. Percentiles alone stay near P(|t_7| < 1.96) = 90.9 %."""
    samples = np.random.default_rng(1).normal(size=(4000, 8))
    means, _ = replicates_of_means(samples)

    def coverage(interval):
        return np.mean((interval.low <= 0) & (interval.high >= 0))

    assert coverage(percentile_interval(means)) < 0.92
    assert coverage(percentile_interval(means, freedom=7)) == pytest.approx(0.95, abs=0.012)


def test_skewed_items_are_covered_best_by_the_studentised_interval():
    """Means of 20 exponential items: plain percentiles are short, and short on one side."""
    samples = np.random.default_rng(2).exponential(size=(3000, 20))
    means, errors = replicates_of_means(samples)
    value, error = samples.mean(axis=1), samples.std(axis=1, ddof=1) / np.sqrt(20)
    influence = (samples - value[:, None]).T / 20
    found = {
        "percentile": percentile_interval(means),
        "bca": bca_interval(value, means, influence, freedom=19),
        "studentised": studentised_interval(value, error, means, errors),
    }
    covered = {name: np.mean((each.low <= 1) & (each.high >= 1)) for name, each in found.items()}
    assert covered["percentile"] < covered["bca"] < 0.96
    assert covered["studentised"] == pytest.approx(0.95, abs=0.015)


def test_bca_is_scipys():
    x = np.random.default_rng(3).exponential(size=200)
    draws = rao_wu_weights([200], 20_000, np.random.default_rng(1)) @ x
    ours = bca_interval(x.mean(), draws, (x - x.mean()) / 200)
    theirs = stats.bootstrap((x,), np.mean, n_resamples=20_000, method="BCa", rng=np.random.default_rng(2))
    scale = float(ours.high - ours.low)
    assert float(ours.low) == pytest.approx(theirs.confidence_interval.low, abs=0.03 * scale)
    assert float(ours.high) == pytest.approx(theirs.confidence_interval.high, abs=0.03 * scale)


def test_bca_of_a_monotone_function_is_the_function_of_bca():
    x = np.random.default_rng(4).normal(size=30)
    draws = rao_wu_weights([30], 2000, np.random.default_rng(1)).astype(np.float64) @ x
    influence = (x - x.mean()) / 30
    inner, outer = (
        bca_interval(x.mean(), draws, influence),
        bca_interval(np.exp(x.mean()), np.exp(draws), np.exp(x.mean()) * influence),
    )
    assert float(outer.low) == pytest.approx(np.exp(inner.low), rel=1e-3)
    assert float(outer.high) == pytest.approx(np.exp(inner.high), rel=1e-3)


def test_an_undefined_draw_leaves_no_interval_and_spoils_no_other():
    draws = np.random.default_rng(0).normal(size=(200, 2))
    draws[3, 0] = np.nan
    value, influence = np.zeros(2), np.ones((5, 2))
    for interval in (
        percentile_interval(draws, freedom=[5, 6]),
        bca_interval(value, draws, influence),
    ):
        assert np.isnan([interval.low[0], interval.high[0]]).all()
        assert np.isfinite([interval.low[1], interval.high[1]]).all()
