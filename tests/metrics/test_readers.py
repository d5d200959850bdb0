"""What readers and people say of the same images: agreement, shares by both, ratings that decide, peers' numbers."""

from itertools import combinations

import krippendorff
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import entropy

from clinometer.errors import Code, InvalidInputError
from clinometer.metrics import parity_gap, peer_scores, standard_deviation, total_variation
from clinometer.metrics.readers import (
    PEOPLE,
    ReadImages,
    agreement_rows,
    confusion_rows,
    peer_rows,
    rated_group_shares,
    rated_rows,
    ratings_to_decide,
    reader_agreement,
    shares_as_read,
)
from clinometer.metrics.reading import AnsweredQuestion, ConceptAnswers
from clinometer.stats.agreement import krippendorff_alpha
from clinometer.stats.prediction_powered import rated_share
from tests.raising import raises


def answered(rng, n, groups=3, unanswered=0.1):
    truth = rng.integers(0, groups, n).astype(float)
    read = np.where(rng.random(n) < 0.25, rng.integers(0, groups + 1, n), truth)
    return np.where(rng.random(n) < unanswered, np.nan, read)


def test_agreement_is_that_of_the_krippendorff_package_for_all_and_every_pair():
    rng = np.random.default_rng(5)
    truth = rng.integers(0, 3, 60)
    answers = {
        name: np.where(rng.random(60) < 0.1, np.nan, np.where(rng.random(60) < noise, rng.integers(0, 4, 60), truth))
        for name, noise in (("a", 0.1), ("b", 0.3), ("c", 0.9))
    }
    found = reader_agreement(answers, n_resamples=50)
    assert set(found) == {("a", "b", "c"), *combinations("abc", 2)}
    for names, alpha in found.items():
        theirs = krippendorff.alpha([answers[name] for name in names], level_of_measurement="nominal")
        assert alpha.value == pytest.approx(theirs)
        assert alpha.low < alpha.value < alpha.high


def test_agreement_without_common_images_has_a_reason():
    alone = reader_agreement({"a": [0, 1, np.nan, np.nan], "b": [np.nan, np.nan, 0, 1]})[("a", "b")]
    same = reader_agreement({"a": [1, 1, 1], "b": [1, 1, 1]})[("a", "b")]
    assert np.isnan([alone.value, alone.low, same.value, same.high]).all()
    assert alone.reason == "no unit has two ratings"
    assert same.reason.startswith("all ratings are the same")
    with raises(InvalidInputError, code=Code.WRONG_SHAPE, field="answers"):
        reader_agreement({"a": [0, 1], "b": [0]})


def test_many_images_have_the_interval_of_few_scaled():
    rng = np.random.default_rng(6)
    answers = np.stack([answered(rng, 2_500), answered(rng, 2_500)])
    answers[1] = np.where(rng.random(2_500) < 0.7, answers[0], answers[1])
    few = krippendorff_alpha(answers, n_resamples=999)
    many = krippendorff_alpha(np.tile(answers, 4), n_resamples=999)  # counted by kinds
    assert many.value == pytest.approx(few.value, abs=1e-3)
    assert (many.high - many.low) == pytest.approx((few.high - few.low) / 2, rel=0.1)


def test_the_share_of_two_groups_is_the_rated_share_of_one():
    rng = np.random.default_rng(7)
    ratings, readings, unrated = rng.integers(0, 3, 40), rng.integers(0, 3, 40), rng.integers(0, 3, 100)
    found = rated_group_shares(ratings, readings, unrated, groups=2)
    alone = rated_share(ratings == 0, readings == 0, unrated == 0, outside=ratings == 2, confidence=0.975)
    assert found.shares[0] == alone
    assert found.shares[1].value == pytest.approx(1 - alone.value, abs=0.05)  # each with a λ of its own
    assert found.unread.value == pytest.approx(np.mean(ratings == 2), abs=0.15)


def test_groups_that_change_places_change_their_shares():
    rng = np.random.default_rng(8)
    ratings = np.array([0, 1, 2, 3])[rng.choice(4, (3, 60), p=[0.5, 0.3, 0.1, 0.1])]
    readings, unrated = rng.integers(0, 4, 60), rng.integers(0, 4, 200)
    new = np.array([2, 0, 1, 3])
    found = rated_group_shares(ratings, readings, unrated, groups=3)
    other = rated_group_shares(new[ratings], new[readings], new[unrated], groups=3)
    assert [found.shares[k].value for k in range(3)] == pytest.approx([other.shares[new[k]].value for k in range(3)])
    assert found.decided.tolist() == other.decided[new[:3]].tolist()
    assert found.unread.value == pytest.approx(other.unread.value)


def test_a_reader_that_is_always_right_makes_ratings_worth_more():
    rng = np.random.default_rng(9)
    truth = rng.choice(3, 400, p=[0.45, 0.3, 0.25])
    with_reader = rated_group_shares(truth[:40], truth[:40], truth[40:], groups=3)
    alone = rated_group_shares(truth[:40], groups=3, n_all=400)
    for by_both, by_people in zip(with_reader.shares, alone.shares, strict=True):
        assert by_both.effective > 2 * by_people.effective
        assert by_both.low <= by_both.value <= by_both.high


def test_more_ratings_are_those_that_decide():
    rng = np.random.default_rng(10)
    truth = (rng.random(2_000) < 0.4).astype(int)
    found = rated_group_shares(truth[:30], groups=2, n_all=2_000)
    assert not found.decided.any()
    assert 0 < found.more < 1_970
    without_bound = rated_group_shares(truth[:30], groups=2)
    assert 0 < without_bound.more <= rated_group_shares(truth[:30], groups=2, n_all=10**6).more
    even = rated_group_shares([0, 1] * 20, [0, 1] * 20, [0, 1] * 100, groups=2)
    assert np.isnan(even.more)
    assert rated_group_shares([0] * 30 + [1], groups=2, n_all=100).more == 0


def test_ratings_that_decide_fall_with_the_leaning_and_with_the_reader():
    def planned(share, **of):
        return ratings_to_decide(share, images=400, **of)

    assert planned(0.9) < planned(0.7) < planned(0.6)
    assert planned(0.6, recall=1.0, others_read_so=0.0) < planned(0.6, recall=0.8, others_read_so=0.1) < planned(0.6)
    assert planned(0.6, recall=0.5, others_read_so=0.5) == planned(0.6)  # a coin
    assert np.isnan([planned(0.5), ratings_to_decide(0.55, images=100)]).all()
    assert ratings_to_decide(0.65, groups=3, images=400) < ratings_to_decide(0.65, groups=2, images=400)
    with raises(InvalidInputError, code=Code.OUT_OF_RANGE):
        ratings_to_decide(1.2)


def test_ratings_out_of_range_are_refused():
    with raises(InvalidInputError, code=Code.OUT_OF_RANGE, field="ratings"):
        rated_group_shares([0, 1, 3], groups=2)


def test_peers_numbers_by_their_definitions():
    counts, unread = np.array([6, 3, 0, 1]), 4
    shares = counts / counts.sum()
    found = peer_scores([*counts, unread])
    k, gap = len(counts), np.abs(shares - 1 / len(counts))
    expected = {
        "parity_gap": shares.max() - shares.min(),
        "total_variation": gap.sum() / 2,
        "mean_absolute_deviation": gap.mean(),
        "standard_deviation": shares.std(),
        "entropy_bias": 1 - entropy(shares) / np.log(k),
        "bias_amplification": gap.sum(),
        "entropy": entropy(shares, base=2),
        "kl_divergence": entropy(shares, np.full(k, 1 / k)),
        "composite_bias": (np.ptp(shares) + 1 - entropy(shares) / np.log(k)) / 2,
    }
    assert {name: score.value for name, score in found.items()} == pytest.approx(expected)
    assert all(score.n == 10 and score.low - 1e-9 <= score.value <= score.high + 1e-9 for score in found.values())


@pytest.mark.parametrize("score", [parity_gap, standard_deviation, total_variation])
def test_parity_itself_scores_above_0_in_few_images(score):
    few, many = score([4, 4, 4]), score([400, 400, 400])
    assert few.value == many.value == 0
    assert few.null > 5 * many.null > 0


def test_nobody_read_is_undefined():
    assert all(np.isnan(score.value) and score.reason for score in peer_scores([0, 0, 7]).values())


def test_rows_of_two_readers_and_people():
    rng = np.random.default_rng(11)
    concepts = (("doctor", "jobs", np.arange(30)), ("nurse", "jobs", np.arange(30, 60)))
    answers = {"one": answered(rng, 60, 2), "two": answered(rng, 60, 2)}
    people = np.full((2, 60), np.nan)
    people[:, :20] = rng.integers(0, 3, 20)
    read = ReadImages("gender", ("woman", "man"), concepts, answers, people)
    assert {(row.encoder, row.group) for row in agreement_rows(read)} == {
        ("", ""), ("one", "two"), ("one", PEOPLE), ("two", PEOPLE)
    }  # fmt: skip
    rows = rated_rows(read)
    assert {row.concept for row in rows} == {"doctor"}
    assert {(row.component, row.n_target, row.n_a) for row in rows} == {
        ("rated_share", 30, 20), ("ratings_to_decide", 30, 20)
    }  # fmt: skip
    assert {row.setting for row in rows} == {"gender"}


def test_rows_of_errors_and_of_peers_numbers():
    known = np.array([[8, 1, 1], [2, 8, 0]])
    each = AnsweredQuestion(
        "one", "gender", ("woman", "man"), (ConceptAnswers("doctor", "jobs", np.array([6, 2, 1])),), known, "labels"
    )
    counts = {(row.group, row.setting): (row.n_a, row.n_target) for row in confusion_rows(each)}
    assert counts[("woman", "gender: read as man")] == (1, 10)
    assert counts[("woman", "gender: read as cannot tell")] == (1, 10)
    assert len(counts) == 6
    gap = next(row for row in peer_rows(each) if row.component == "parity_gap")
    assert (gap.value, gap.null, gap.n_target, gap.n_a) == (0.5, pytest.approx(0.273, abs=0.001), 8, 1)


@given(counts=st.lists(st.integers(0, 60), min_size=3, max_size=5))
@settings(max_examples=60, deadline=None)
def test_shares_as_read_lie_in_their_intervals_and_these_in_their_bounds(counts):
    found = shares_as_read(counts)
    read, unread = sum(counts[:-1]), counts[-1]
    for count, each in zip(counts, found, strict=False):
        assert each.n == read
        assert each.bound_low <= each.bound_high
        if read:
            assert each.low <= each.value <= each.high
            assert each.value == pytest.approx(count / read)
            # all of the unread of the group, or none
            n = read + unread
            assert each.bound_low <= count / n <= (count + unread) / n <= each.bound_high
            if not unread:
                assert (each.bound_low, each.bound_high) == pytest.approx((each.low, each.high))
        else:
            assert (each.bound_low, each.bound_high) == (0, 1)
