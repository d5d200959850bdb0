"""No interval leaves out its own estimate, and none supposes away the draws in which a number has no value."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clinometer.metrics import differential_association, stimulus_weat
from clinometer.metrics.distribution import PEERS, distribution_bias, histogram_overlap, jaccard_hallucination
from clinometer.stats.agreement import kendall_tau_b, krippendorff_alpha
from clinometer.stats.bootstrap import ANY, BESIDE, bca_interval, percentile_interval, why_no_interval
from clinometer.stats.bounded_means import bounded_means
from clinometer.stats.clusters import cluster_mean, cluster_share, mean_difference, share_difference
from clinometer.stats.confusion import ReadingCounts, corrected_share, corrected_shares, informedness
from clinometer.stats.moderation import mean_tests
from clinometer.stats.prediction_powered import rated_share
from clinometer.stats.proportion import logistic_slope, wilson_interval

nan = np.nan
Ends = tuple[Any, Any, Any]
"""A value with the ends of its interval."""


def ends_of(found: Any, value: str = "value", stem: str = "") -> Ends:
    return getattr(found, value), getattr(found, f"{stem}low"), getattr(found, f"{stem}high")


def binary(rng: np.random.Generator, *shape: int) -> np.ndarray:
    return (rng.random(shape) < rng.choice([0.1, 0.5])).astype(float)


def agreements(rng: np.random.Generator) -> Iterator[Ends]:
    x, y = rng.integers(0, 4, (2, int(rng.integers(5, 9))))
    for method in ("jackknife", "fisher", "bootstrap"):
        yield ends_of(kendall_tau_b(x, y, method=method, n_resamples=199))
    units = binary(rng, int(rng.integers(3, 9)))
    ratings = np.where(rng.random((3, len(units))) < 0.8, units, 1 - units)
    missing = rng.random(ratings.shape) < 0.15
    yield ends_of(krippendorff_alpha(np.where(missing, nan, ratings), n_resamples=199))


def word_tests(rng: np.random.Generator) -> Iterator[Ends]:
    sets = [[rng.normal(size=(2, 6)) + 0.5 for _ in range(rng.integers(2, 5))] for _ in range(4)]
    for spread in ("union", "pooled"):
        found = stimulus_weat(*sets, permutations=9, resamples=199, spread=spread)
        yield ends_of(found, "statistic", "statistic_")
        yield ends_of(found, "effect_size", "effect_size_")


def picture_tests(rng: np.random.Generator) -> Iterator[Ends]:
    kinds = ("x", "x_a", "x_b", "y", "y_a", "y_b")
    prompts = {"x": rng.integers(1, 4), "y": rng.integers(1, 4)}
    sets = {
        kind: [rng.normal(size=(rng.integers(1, 4), 5)) + 1 for _ in range(prompts[kind[0]])] for kind in kinds
    }  # fmt: skip
    found = differential_association(**sets, resamples=199, permutations=9)
    for stem in ("", "stimulus_"):
        yield ends_of(found, "statistic", stem)
        yield ends_of(found, "effect_size", f"effect_size_{stem}")


def means_and_shares(rng: np.random.Generator) -> Iterator[Ends]:
    one, two = rng.choice([0, 0.5, 1], (2, int(rng.integers(1, 7))))
    yield ends_of(cluster_mean(one))
    yield ends_of(cluster_share(one, 2))
    for paired in (False, True):
        yield ends_of(mean_difference(one, two, paired=paired))
        yield ends_of(share_difference(one, two, 2, paired=paired))
    sizes = rng.integers(1, 6, 3)
    yield ends_of(logistic_slope([1, 2, 3], [rng.integers(0, n + 1) for n in sizes], sizes))
    yield ends_of(wilson_interval(int(rng.integers(0, 5)), 4))
    samples = [rng.choice([0, 0.3, -0.2], int(rng.integers(1, 5))) for _ in range(3)]
    noise = 0.01 * rng.random(3)
    for tests in (
        mean_tests(samples, np.zeros(3), noise, 3.0, moderated=bool(rng.integers(2))),
        bounded_means(samples, np.array([[-0.4, 0.4]] * 3), np.zeros(3), noise, 3.0),
    ):
        yield tests.value, tests.interval().low, tests.interval().high


def read_shares(rng: np.random.Generator) -> Iterator[Ends]:
    groups = int(rng.integers(2, 4))
    yield ends_of(corrected_shares(rng.integers(0, 8, groups + 1), rng.integers(0, 8, (groups, groups + 1))), "share")
    n_a, n_b, n = rng.integers(1, 8, 3).tolist()
    reading = ReadingCounts(int(rng.integers(0, n_a + 1)), n_a, int(rng.integers(0, n_b + 1)), n_b)
    yield ends_of(informedness(reading))
    yield ends_of(corrected_share(int(rng.integers(0, n + 1)), n, reading))
    yield ends_of(rated_share(binary(rng, 2, n + 1), binary(rng, n + 1), binary(rng, 12)))


def distributions(rng: np.random.Generator) -> Iterator[Ends]:
    counts = rng.integers(0, 5, int(rng.integers(2, 5)))
    for score in (*PEERS.values(), distribution_bias):
        yield ends_of(score(counts))
    yield ends_of(histogram_overlap(counts, rng.integers(0, 5, len(counts)), resamples=99))
    asked, seen = ([set("abcd"[: rng.integers(0, 5)]) for _ in range(3)] for _ in range(2))
    yield ends_of(jaccard_hallucination(asked, seen, resamples=199))


@pytest.mark.thorough
@pytest.mark.parametrize(
    "intervals", [agreements, word_tests, picture_tests, means_and_shares, read_shares, distributions]
)
@settings(max_examples=15)
@given(seed=st.integers(0, 2**32 - 1))
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_an_interval_holds_its_own_estimate(
    intervals: Callable[[np.random.Generator], Iterator[Ends]], seed: int
) -> None:
    for value, low, high in intervals(np.random.default_rng(seed)):
        given_ = np.isfinite(low) & np.isfinite(high)
        rounding = 1e-9 * (1 + np.abs(value))
        assert np.all(~given_ | ((low <= value + rounding) & (high >= value - rounding)))


DRAWS = st.lists(st.floats(-1, 1), min_size=20, max_size=60).map(np.array)


@given(DRAWS, st.integers(0, 20), st.sampled_from([np.inf, 2.0, 9.0]))
def test_draws_without_a_value_only_widen_an_interval(draws: np.ndarray, undefined: int, freedom: float) -> None:
    some = np.concatenate([draws, np.full(undefined, nan)])
    defined, limited = (percentile_interval(x, freedom=freedom, limits=(-1.0, 1.0)) for x in (draws, some))
    assert limited.low <= defined.low
    assert limited.high >= defined.high
    influence, value = draws - draws.mean(), float(np.median(draws))
    defined, limited = (bca_interval(value, x, influence, limits=(-1.0, 1.0)) for x in (draws, some))
    if np.isfinite(defined.low):
        assert limited.low <= defined.low
        assert limited.high >= defined.high


@given(DRAWS)
def test_limits_change_nothing_where_every_draw_has_a_value(draws: np.ndarray) -> None:
    plain, limited = percentile_interval(draws), percentile_interval(draws, limits=ANY)
    assert (plain.low, plain.high) == (limited.low, limited.high)


def test_where_many_draws_have_no_value_the_interval_is_all_that_may_be_or_none() -> None:
    draws = np.concatenate([np.linspace(-0.1, 0.1, 90), np.full(10, nan)])
    whole = percentile_interval(draws, limits=(-1.0, 1.0))
    assert (whole.low, whole.high) == (-1, 1)
    assert np.isnan(percentile_interval(draws, limits=ANY).low)
    assert np.isnan(percentile_interval(draws).low)
    assert why_no_interval(draws) == "no interval: in 10\N{NARROW NO-BREAK SPACE}% of resamples it has no value"


def test_there_is_no_interval_beside_the_estimate() -> None:
    draws = np.linspace(0.5, 1, 99)
    assert np.isnan(percentile_interval(draws, value=0.2).low)
    assert np.isnan(bca_interval(0.2, draws, draws - draws.mean()).high)
    assert why_no_interval(draws) == BESIDE


def test_agreement_on_units_of_nearly_one_kind_tells_nothing() -> None:
    """Nine units on which all agree and one on which they do not: a resample without it has no α."""
    found = krippendorff_alpha([[0] * 9 + [1], [0] * 9 + [0], [0] * 9 + [1]])
    assert (found.low, found.high) == (-1, 1)
