"""Other audits' scores: algebra, slow oracles, nulls by brute force, coverage."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import entropy

from clinometer.errors import Code, InvalidInputError
from clinometer.metrics import (
    concentration,
    distribution_bias,
    entropy_bias,
    gender_gap,
    generative_miss_rate,
    histogram_overlap,
    jaccard_hallucination,
    mean_absolute_deviation,
    tone_gap,
)
from clinometer.metrics.distribution import null_expectation
from tests.raising import raises

OF_COUNTS = [entropy_bias, mean_absolute_deviation, distribution_bias, tone_gap]
counts = st.lists(st.integers(0, 6), min_size=2, max_size=4).filter(any)


@settings(max_examples=25)
@given(counts)
def test_by_definition(given_counts):
    shares = np.array(given_counts) / sum(given_counts)
    k = len(shares)
    assert entropy_bias(given_counts).value == pytest.approx(1 - entropy(shares) / np.log(k), abs=1e-12)
    gap = sum(abs(p - shares.mean()) for p in shares) / k
    assert mean_absolute_deviation(given_counts).value == pytest.approx(gap)
    m = sorted(given_counts, reverse=True)
    area = sum((m[i] + m[i + 1]) / 2 / m[0] for i in range(k - 1))
    assert distribution_bias(given_counts).value == pytest.approx(area)


@settings(max_examples=15)
@given(counts, st.sampled_from(OF_COUNTS), st.randoms())
def test_the_order_of_groups_changes_no_value_and_the_interval_holds_it(given_counts, score, random):
    shuffled = random.sample(given_counts, len(given_counts))
    result, other = score(given_counts), score(shuffled)
    assert result.value == pytest.approx(other.value)
    assert result.null == pytest.approx(other.null)
    assert result.low <= result.value + 1e-12
    assert result.high >= result.value - 1e-12


@pytest.mark.parametrize("score", OF_COUNTS)
@pytest.mark.parametrize(("n", "k"), [(3, 3), (5, 2)])
def test_the_null_is_the_mean_over_all_equally_likely_samples(score, n, k):
    values = [score(np.bincount(sample, minlength=k)).value for sample in product(range(k), repeat=n)]
    result = score([n] + [0] * (k - 1))
    assert result.null == pytest.approx(np.mean(values))
    assert result.null_error == 0


def test_nulls_at_the_audits_own_sample_sizes():
    assert gender_gap(4, 8).null == pytest.approx(0.137, abs=0.0005)
    assert mean_absolute_deviation([4, 4]).null == pytest.approx(gender_gap(4, 8).null)
    assert entropy_bias([10, 0, 0, 0]).null == pytest.approx(0.12, abs=0.005)


def test_a_null_too_large_to_list_is_drawn_and_says_so():
    def first_share(rows):
        return rows[:, 0] / rows.sum(axis=1)

    value, error = null_expectation(first_share, 60, 10)
    assert 0 < error < 1e-3
    assert abs(value - 0.1) < 5 * error


@pytest.mark.parametrize(
    ("p", "n"), [((0.5, 0.5), 10), ((0.8, 0.2), 20), ((0.25,) * 4, 10), ((0.4, 0.3, 0.2, 0.1), 20)]
)
@pytest.mark.parametrize("score", [entropy_bias, mean_absolute_deviation])
def test_intervals_cover_at_parity_and_away_from_it(p, n, score):
    rng = np.random.default_rng(0)
    truth = score(np.round(1000 * np.array(p)).astype(int)).value
    known = {}
    hits = 0
    for _ in range(60):
        drawn = tuple(sorted(rng.multinomial(n, p)))
        result = known.setdefault(drawn, None) or score(drawn)
        known[drawn] = result
        hits += result.low - 1e-9 <= truth <= result.high + 1e-9
    assert hits >= 51  # of 60 at 95 %, fewer than 51 come once in 3,000 times


def test_gender_gap_folds_wilsons_interval_at_parity():
    result = gender_gap(4, 8)
    assert (result.value, result.low) == (0, 0)
    assert gender_gap(1, 8).high == pytest.approx(gender_gap(7, 8).high)
    assert gender_gap(20, 20).low > 0.3
    assert "no image" in gender_gap(0, 0).reason


@given(st.lists(st.sets(st.sampled_from("abcd")), min_size=1, max_size=6))
@settings(max_examples=20)
def test_jaccard_is_0_for_what_was_asked_and_1_for_nothing_of_it(asked):
    if any(asked):
        assert jaccard_hallucination(asked, asked, resamples=20).value == 0
        assert jaccard_hallucination(asked, [{"z"}] * len(asked), resamples=20).value == 1
    else:
        assert np.isnan(jaccard_hallucination(asked, asked).value)


def test_jaccard_by_hand():
    result = jaccard_hallucination([{"dog", "ball"}, {"cat"}], [{"dog", "man"}, {"cat"}], resamples=200, rng=0)
    assert result.value == pytest.approx((2 / 3 + 0) / 2)
    assert result.low <= result.value <= result.high


def test_jaccard_of_one_image_has_no_interval():
    for n, reason in ((1, "no interval from one image"), (3, "no interval from images that all have the same score")):
        result = jaccard_hallucination([{"dog", "ball"}] * n, [{"dog"}] * n)
        assert result.value == 0.5
        assert np.isnan([result.low, result.high]).all()
        assert result.reason == f"{reason}; no null: not a share"


def test_jaccard_intervals_cover_for_few_images():
    """Images that find k of three objects with a chance of ½ each: the mean of 1 − k/3 is ½."""
    rng = np.random.default_rng(0)
    hits = []
    for _ in range(400):
        seen = [set(np.array(list("abc"))[rng.random(3) < 0.5]) for _ in range(6)]
        result = jaccard_hallucination([set("abc")] * 6, seen, resamples=400, rng=rng)
        if np.isfinite(result.low):
            assert 0 <= result.low <= result.high <= 1
            hits.append(result.low - 1e-9 <= 0.5 <= result.high + 1e-9)
    assert np.mean(hits) > 0.94  # 0.91 with n of n draws and without the quantiles of t


def test_an_overlap_of_few_images_is_not_certain():
    alike, apart = histogram_overlap([3, 0], [3, 0]), histogram_overlap([3, 0], [0, 3])
    assert (alike.value, alike.high, apart.value, apart.low) == (1, 1, 0, 0)
    assert alike.low < 0.5
    assert apart.high > 0.3
    assert histogram_overlap([300, 0], [300, 0]).low > 0.9


def test_misses_are_counted_over_the_images_that_are_there():
    result = generative_miss_rate([0.3, 0.2, np.nan, 0.1], [0.2, 0.3, 0.5, 0.0])
    assert (result.value, result.n) == (pytest.approx(1 / 3), 3)
    assert result.low < 1 / 3 < result.high


@settings(max_examples=20)
@given(st.integers(0, 10_000))
def test_overlap_by_definition_for_equal_numbers_and_its_symmetry(seed):
    rng = np.random.default_rng(seed)
    h, g = rng.multinomial(12, [0.5, 0.3, 0.2]), rng.multinomial(12, [0.2, 0.3, 0.5])
    result = histogram_overlap(h, g, resamples=200, rng=0)
    assert result.value == pytest.approx(np.minimum(h, g).sum() / np.maximum(h, g).sum())
    assert result.value == pytest.approx(histogram_overlap(g, h, resamples=2, rng=0).value)
    assert result.low <= result.value <= result.high
    assert histogram_overlap(h, 3 * h, resamples=2, rng=0).value == 1


def test_overlap_of_two_samples_of_one_distribution_is_expected_below_1():
    rng = np.random.default_rng(1)
    p = [0.4, 0.3, 0.2, 0.1]
    drawn = [histogram_overlap(rng.multinomial(20, p), rng.multinomial(20, p), resamples=300, rng=0) for _ in range(60)]
    assert np.mean([each.value for each in drawn]) == pytest.approx(np.mean([each.null for each in drawn]), abs=0.05)
    assert drawn[0].null < 0.8
    assert sum(each.low <= 1 <= each.high + 1e-12 for each in drawn) >= 51


@pytest.mark.parametrize(
    ("bad", "code"),
    [
        *[(bad, Code.WRONG_SHAPE) for bad in ([1], [[1, 2]])],
        *[(bad, Code.OUT_OF_RANGE) for bad in ([1, -1], [0.5, 1], [np.nan, 1], ["a", "b"])],
    ],
)
@pytest.mark.parametrize("score", OF_COUNTS)
def test_what_is_no_count_is_refused(bad, code, score):
    with raises(InvalidInputError, code=code, field="counts"):
        score(bad)


@pytest.mark.parametrize("confidence", [0, 1, 95, "high"])
def test_a_confidence_is_between_0_and_1(confidence):
    calls = [lambda c, score=score: score([3, 2], confidence=c) for score in OF_COUNTS]
    calls += [
        lambda c: gender_gap(3, 5, confidence=c),
        lambda c: generative_miss_rate([0.1, 0.2], [0.2, 0.1], confidence=c),
        lambda c: histogram_overlap([3, 2], [2, 3], confidence=c),
        lambda c: jaccard_hallucination([{"a"}] * 2, [{"a"}, {"b"}], confidence=c),
    ]
    for call in calls:
        with raises(InvalidInputError, code=Code.OUT_OF_RANGE, field="confidence"):
            call(confidence)


def test_options_that_are_no_numbers_of_their_kind_are_refused():
    for options, code in (
        ({"resamples": 0}, Code.OUT_OF_RANGE),
        ({"rng": -1}, Code.WRONG_TYPE),
        ({"rng": "abc"}, Code.WRONG_TYPE),
    ):
        (name,) = options
        with raises(InvalidInputError, code=code, field=name):
            histogram_overlap([3, 2], [2, 3], **options)
        with raises(InvalidInputError, code=code, field={"resamples": "n_resamples"}.get(name, name)):
            jaccard_hallucination([{"a"}] * 2, [{"a"}, {"b"}], **options)
    with raises(InvalidInputError, code=Code.OUT_OF_RANGE, field="count", match="0 to n = 2, found 3"):
        gender_gap(3, 2)


@pytest.mark.parametrize("score", OF_COUNTS)
def test_no_image_is_nan_with_a_reason(score):
    result = score([0, 0, 0])
    assert np.isnan([result.value, result.low, result.high, result.null]).all()
    assert result.reason == "no image"


@settings(max_examples=15)
@given(st.lists(st.lists(st.integers(0, 4), min_size=2, max_size=2), min_size=1, max_size=4), st.randoms())
def test_concentration_by_definition_whatever_the_order_of_concepts_and_groups(table, random):
    found = concentration(table, fewest=2)
    enough = [row for row in table if sum(row) >= 2]
    assert (found.n, found.n_one) == (len(enough), sum(max(row) == sum(row) for row in enough))
    assert list(found.chance[found.measured]) == [2 * 0.5 ** sum(row) for row in enough]
    if not enough:
        assert np.isnan(found.value)
        assert found.reason
        return
    assert found.low <= found.value <= found.high
    turned = concentration([row[::-1] for row in random.sample(table, len(table))], fewest=2)
    same = ("value", "low", "high", "null", "p", "null_pooled")
    assert [getattr(turned, name) for name in same] == pytest.approx([getattr(found, name) for name in same])


def test_both_nulls_of_concentration_are_those_of_all_samples_listed():
    table = np.array([[2, 0], [0, 3], [1, 1]])
    sizes = table.sum(axis=1)
    ones, margins = [], []
    for sample in product(range(2), repeat=int(sizes.sum())):
        parts = np.split(np.array(sample), np.cumsum(sizes)[:-1])
        ones.append(sum(np.ptp(part) == 0 for part in parts))
        margins.append(sum(sample))
    ones, own = np.array(ones), np.array(margins) == table[:, 1].sum()
    found = concentration(table, fewest=2)
    assert (found.null, found.p) == pytest.approx((ones.mean() / 3, (ones >= 2).mean()))
    assert found.null_pooled == pytest.approx(ones[own].mean() / 3)
    assert abs(found.p_pooled - (ones[own] >= 2).mean()) < 4 * found.p_pooled_error


def test_a_reader_that_favours_a_group_or_knows_none_proves_less_concentration():
    table = [[10, 0]] * 3 + [[5, 5]] * 7
    p = [concentration(table, known).p for known in (None, [[64, 0], [0, 64]], [[64, 0], [25, 39]], [[64, 0], [64, 0]])]
    assert p == sorted(p)
    assert p[0] < 1e-5
    assert p[-1] == 1
    assert concentration(table, [[64, 0], [0, 0]]).p == p[0]
    with raises(InvalidInputError, code=Code.WRONG_SHAPE, field="known"):
        concentration(table, [[1, 2, 3]])
    with raises(InvalidInputError, code=Code.WRONG_SHAPE, field="counts"):
        concentration([[1], [2]])
