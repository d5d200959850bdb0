"""Clustered means, shares and their contrasts."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats
from statsmodels.stats.proportion import confint_proportions_2indep, proportion_confint

from clinometer.errors import Code, InvalidInputError
from clinometer.stats.clusters import (
    cluster_mean,
    cluster_share,
    contrast,
    mean_difference,
    share_difference,
)
from clinometer.stats.proportion import Estimate
from tests.raising import raises


def test_mean_is_the_t_interval_of_scipy() -> None:
    values = np.random.default_rng(1).normal(3, 2, 17)
    expected = stats.ttest_1samp(values, 0).confidence_interval()
    found = cluster_mean(values)
    assert (found.low, found.high) == pytest.approx((expected.low, expected.high))


def test_mean_leaves_out_what_is_missing() -> None:
    assert cluster_mean([1.0, np.nan, 2.0]) == cluster_mean([1.0, 2.0])


@pytest.mark.parametrize(("values", "n", "reason"), [([], 0, "nothing"), ([2.0], 1, "one cluster")])
def test_too_few_clusters_have_no_interval_and_a_reason(values: list[float], n: int, reason: str) -> None:
    found = cluster_mean(values)
    assert found.n == n
    assert np.isnan(found.low)
    assert reason in found.reason


@pytest.mark.parametrize("hits", [0, 1, 9, 24, 25])
def test_share_of_single_answers_is_clopper_pearson(hits: int) -> None:
    # with one answer a cluster, s²/n = p(1 − p)/(n − 1): n_eff is n − 1, held up to n
    found = cluster_share([1.0] * hits + [0.0] * (25 - hits))
    low, high = proportion_confint(hits, 25, method="beta")
    assert (found.low, found.high) == pytest.approx((low, high))


def test_answers_that_agree_within_clusters_count_once() -> None:
    single = cluster_share([0, 0, 1, 1, 1, 0, 1, 0], 1)
    repeated = cluster_share([0, 0, 1, 1, 1, 0, 1, 0], 4)
    assert (single.low, single.high) == (repeated.low, repeated.high)


def test_answers_that_vary_within_clusters_count_each() -> None:
    """As many as they are, less for what ten clusters say of their spread: Korn and Graubard's quantiles of t."""
    found = cluster_share([0.5] * 10, 2)
    independent = 20 * (stats.t.ppf(0.975, 19) / stats.t.ppf(0.975, 9)) ** 2
    assert 10 < independent < 20
    low, high = (stats.beta.ppf(q, independent / 2 + (q > 0.5), independent / 2 + (q < 0.5)) for q in (0.025, 0.975))
    assert (found.low, found.high) == pytest.approx((low, high))


def test_one_cluster_counts_as_one_answer() -> None:
    found = cluster_share([0.32], 25)
    assert found.low < 0.001
    assert found.high > 0.98


@pytest.mark.parametrize("clusters", [4, 6])
def test_share_covers_with_few_clusters(clusters: int) -> None:
    rng, held = np.random.default_rng(11), 0
    for _ in range(600):
        chances = rng.beta(2, 2, clusters)
        found = cluster_share(rng.binomial(10, chances) / 10, 10)
        held += found.low <= 0.5 <= found.high
    assert held / 600 > 0.93


def test_shares_of_many_answers_that_vary_alike_make_a_difference_narrow() -> None:
    """Newcombe's correction is of single answers: taken whole, it left nothing of what shares of 25 have in common."""
    rng = np.random.default_rng(12)
    common = rng.normal(0.5, 0.13, 25)
    first, second = (np.clip(common + rng.normal(0, 0.06, 25), 0, 1) for _ in range(2))
    paired, apart = (share_difference(first, second, 25, paired=way) for way in (True, False))
    assert paired.high - paired.low < 0.7 * (apart.high - apart.low)


def test_share_covers_under_clustering() -> None:
    rng = np.random.default_rng(3)
    covered = 0
    for _ in range(1000):
        p = rng.beta(0.3, 0.7, 25)  # clusters differ strongly; their mean is 0.3
        found = cluster_share(rng.binomial(4, p) / 4, 4)
        covered += found.low <= 0.3 <= found.high
    assert covered >= 940


def test_share_refuses_what_is_no_share() -> None:
    with raises(InvalidInputError, code=Code.OUT_OF_RANGE, field="shares"):
        cluster_share([0.5, 1.5])


def test_contrast_of_wilson_intervals_is_newcombes() -> None:
    parts = []
    for count, n in ((15, 40), (8, 50)):
        low, high = proportion_confint(count, n, method="wilson")
        parts.append(Estimate(count / n, low, high, n))
    found = contrast(parts, [1, -1])
    expected = confint_proportions_2indep(15, 40, 8, 50, method="newcomb", compare="diff")
    assert (found.low, found.high) == pytest.approx(expected)


def test_contrast_turns_with_its_sign() -> None:
    parts = [cluster_share([0, 0, 1, 1, 1]), cluster_share([0, 0, 0, 0, 1])]
    one, other = contrast(parts, [1, -1]), contrast(parts, [-1, 1])
    assert (one.value, one.low, one.high) == pytest.approx((-other.value, -other.high, -other.low))


def test_contrast_of_two_zero_rates_is_uncertain_all_the_same() -> None:
    found = contrast([cluster_share([0.0] * 25), cluster_share([0.0] * 25)], [1, -1])
    assert found.value == 0
    assert found.low < -0.1
    assert found.high > 0.1


def test_contrast_of_nothing_says_why() -> None:
    found = contrast([cluster_share([]), cluster_share([1.0])], [1, -1])
    assert np.isnan(found.value)
    assert found.reason == "nothing was measured"


def by_hand(first: np.ndarray, second: np.ndarray) -> tuple[float, float]:
    """Newcombe's tenth method for pairs, from the four counts, with Clopper and Pearson's intervals inside."""
    a, b, c, d = (int(np.sum((second == x) & (first == y))) for x, y in ((1, 1), (1, 0), (0, 1), (0, 0)))
    n = a + b + c + d
    inside = a * d - b * c
    inside = max(inside - n / 2, 0) if inside > 0 else inside
    phi = inside / np.sqrt(float((a + b) * (c + d) * (a + c) * (b + d)))
    (l2, u2), (l1, u1) = (proportion_confint(hits, n, method="beta") for hits in (a + b, a + c))
    p2, p1 = (a + b) / n, (a + c) / n
    low = np.sqrt((p2 - l2) ** 2 - 2 * phi * (p2 - l2) * (u1 - p1) + (u1 - p1) ** 2)
    high = np.sqrt((u2 - p2) ** 2 - 2 * phi * (u2 - p2) * (p1 - l1) + (p1 - l1) ** 2)
    return p2 - p1 - low, p2 - p1 + high


@pytest.mark.parametrize("counts", [(36, 12, 2, 3), (20, 10, 10, 10), (5, 20, 20, 5), (20, 12, 2, 16)])
def test_difference_of_paired_answers_is_newcombes(counts: tuple[int, int, int, int]) -> None:
    second, first = (np.repeat(each, counts).astype(float) for each in ((1, 1, 0, 0), (1, 0, 1, 0)))
    found = share_difference(first, second, paired=True)
    assert (found.low, found.high) == pytest.approx(by_hand(first, second))
    assert found.n == sum(counts)


def test_paired_means_are_the_t_interval_of_their_differences() -> None:
    first, second = np.random.default_rng(0).normal(size=(2, 12))
    second[3] = np.nan
    found = mean_difference(first, second, paired=True)
    expected = stats.ttest_rel(second, first, nan_policy="omit").confidence_interval()
    assert (found.low, found.high) == pytest.approx((expected.low, expected.high))


def test_two_samples_need_not_be_of_one_size() -> None:
    found = share_difference([0, 0, 1], [1, 1, 1, 0, 1], paired=False)
    assert found.value == pytest.approx(0.8 - 1 / 3)
    assert mean_difference([0, 1, 2], [5.0, 7.0], paired=False).value == pytest.approx(5)


def test_a_contrast_with_an_undefined_end_has_none() -> None:
    whole, one = cluster_mean([0.2, 0.4, 0.9]), cluster_mean([0.3])
    found = contrast([whole, one], [1, -1])
    assert found.value == pytest.approx(0.2)
    assert np.isnan([found.low, found.high]).all()
