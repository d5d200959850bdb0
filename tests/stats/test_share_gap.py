"""The gap between two shares that an imperfect reader read."""

from itertools import product

import numpy as np
import pytest
import scipy
from statsmodels.stats.proportion import confint_proportions_2indep, proportion_confint

from clinometer.errors import Code, InvalidInputError
from clinometer.stats.share_gap import AnsweredSets, images_for_gap, share_gap
from tests.raising import raises

READER = np.array([[58, 2], [12, 48]])
THREE = np.array([[50, 5, 5], [4, 54, 2], [1, 9, 50]])


def sets(k, n, j, m):
    """k of n are a success of the first prompt, j of m of the second; no pairs."""
    return AnsweredSets(np.array([k, n - k]), np.array([m - j, j]))


def pairs(both, first, second, neither):
    table = np.array([[first, both], [neither, second]])
    return AnsweredSets(table.sum(axis=1), table.sum(axis=0), table)


def same(found, expected, sign=1):
    low, high = sorted((sign * expected.low, sign * expected.high))
    assert (found.value, found.low, found.high) == pytest.approx((sign * expected.value, low, high), abs=1e-7)
    assert found.p == pytest.approx(expected.p, abs=1e-7)


@pytest.mark.parametrize("table", [None, READER])
@pytest.mark.parametrize("each", [sets(19, 20, 15, 22), pairs(5, 8, 1, 6), pairs(0, 9, 4, 0), pairs(12, 0, 0, 0)])
def test_exchanging_the_groups_turns_the_sign(each, table):
    same(share_gap([each.swapped()], 1, 0, table), share_gap([each], 0, 1, table), -1)


def test_exchanging_groups_turns_the_sign_of_three_too():
    each = AnsweredSets(np.array([18, 1, 1]), np.array([3, 12, 5]))
    same(share_gap([each.swapped()], 1, 0, THREE), share_gap([each], 0, 1, THREE), -1)
    order = [2, 0, 1]
    renamed = AnsweredSets(each.first[order], each.second[order])
    same(share_gap([renamed], 1, 2, THREE[np.ix_(order, order)]), share_gap([each], 0, 1, THREE))


@pytest.mark.parametrize(("k", "j"), [(19, 15), (17, 19), (12, 16)])
def test_of_two_groups_it_is_the_closed_form(k, j):
    s, c = READER[0, 0] / 60, READER[1, 1] / 60
    found = share_gap([sets(k, 20, j, 20)], 0, 1, READER)
    shares = np.clip([(k / 20 + c - 1) / (s + c - 1), (j / 20 + s - 1) / (s + c - 1)], 0, 1)
    assert found.value == pytest.approx(shares[0] - shares[1])
    if shares.min() > 0 and shares.max() < 1:
        assert found.value == pytest.approx((k / 20 - j / 20 + c - s) / (s + c - 1))


def test_a_group_that_is_never_drawn_nor_read_changes_nothing():
    table = np.zeros((3, 3))
    table[:2, :2], table[2, 2] = READER, 60
    each = AnsweredSets(np.array([19, 1, 0]), np.array([5, 15, 0]))
    found, of_two = share_gap([each], 0, 1, table), share_gap([sets(19, 20, 15, 20)], 0, 1, READER)
    assert found.value == pytest.approx(of_two.value)
    assert (found.low, found.high, found.p) == pytest.approx((of_two.low, of_two.high, of_two.p), abs=0.005)


def test_labels_without_end_and_without_errors_leave_the_raw_gap():
    each = pairs(8, 7, 2, 3)
    found, raw = share_gap([each], 0, 1, 1e12 * np.eye(2)), share_gap([each], 0, 1)
    assert (found.value, found.low, found.high) == pytest.approx((raw.value, raw.low, raw.high), abs=1e-4)
    assert found.p == pytest.approx(raw.p, abs=1e-4)


@pytest.mark.parametrize("counts", [(5, 8, 1, 6), (3, 6, 0, 1), (0, 9, 2, 0), (14, 4, 1, 1)])
def test_p_is_at_most_the_level_where_the_interval_leaves_out_0(counts):
    for table in (None, READER, np.array([[40, 3], [3, 40]])):
        found = share_gap([pairs(*counts)], 0, 1, table)
        assert (found.p < 0.05) == (found.low > 0 or found.high < 0)


@pytest.mark.parametrize("table", [None, 20 * READER])
def test_the_gap_is_within_a_margin_where_the_interval_of_90_percent_is(table):
    each = pairs(70, 12, 8, 10)
    found = share_gap([each], 0, 1, table, confidence=0.9)
    for margin, inside in ((max(-found.low, found.high) + 1e-4, True), (max(-found.low, found.high) - 1e-4, False)):
        assert (share_gap([each], 0, 1, table, margin=margin).p_equivalence < 0.05) == inside
    turned = share_gap([each.swapped()], 1, 0, table, margin=0.3)
    assert turned.p_equivalence == pytest.approx(share_gap([each], 0, 1, table, margin=0.3).p_equivalence)


def test_of_pairs_that_are_read_without_error_it_is_mcnemars_test():
    found = share_gap([pairs(6, 3, 0, 1)], 0, 1)
    assert found.p == pytest.approx(2 * scipy.stats.norm.sf(2.5 / np.sqrt(3)))


def test_of_strangers_it_is_pearsons_test():
    found = share_gap([sets(19, 20, 9, 20)], 0, 1)
    z = (0.5 - 0.5 / 20) / np.sqrt(0.7 * 0.3 * 2 / 20)
    assert found.p == pytest.approx(2 * scipy.stats.norm.sf(z))


@pytest.mark.parametrize(("k", "n", "j", "m"), [(14, 20, 15, 20), (30, 30, 12, 25), (2, 40, 9, 33)])
def test_the_interval_of_strangers_holds_newcombes(k, n, j, m):
    found = share_gap([sets(k, n, j, m)], 0, 1)
    low, high = confint_proportions_2indep(k, n, j, m, method="newcomb", compare="diff")
    assert found.low <= low + 1e-9
    assert high - 1e-9 <= found.high
    assert found.high - found.low < 1.35 * (high - low)


@pytest.mark.parametrize("counts", [(2, 9, 8, 1), (10, 20, 18, 2), (30, 9, 7, 0)])
def test_of_opposed_pairs_it_is_newcombes_method_for_pairs(counts):
    """Newcombe (1998), method 10, with φ of the table, by statsmodels' Wilson intervals; or McNemar's reach."""
    both, first, second, neither = counts
    n = sum(counts)
    p, q = (both + first) / n, (both + second) / n
    phi = (both * neither - first * second) / np.sqrt(
        (both + first) * (second + neither) * (both + second) * (first + neither)
    )
    l_p, u_q = (
        proportion_confint(count, n, method="wilson")[end] for count, end in ((both + first, 0), (both + second, 1))
    )
    below = np.sqrt((p - l_p) ** 2 + (u_q - q) ** 2 - 2 * phi * (p - l_p) * (u_q - q))
    least = (scipy.stats.norm.ppf(0.975) * np.sqrt(first + second) + 0.5) / n
    assert phi < 0
    assert share_gap([pairs(*counts)], 0, 1).low == pytest.approx(p - q - max(below, least))


def test_pairs_that_are_alike_are_no_narrower_than_strangers_are_by_their_own_test():
    alike, strangers = share_gap([pairs(12, 4, 0, 4)], 0, 1), share_gap([sets(16, 20, 12, 20)], 0, 1)
    assert alike.p < strangers.p
    assert alike.low > strangers.low


def test_a_mean_of_one_concept_is_that_concept_and_more_concepts_are_surer():
    each = pairs(5, 8, 1, 6)
    one, many = share_gap([each], 0, 1, READER), share_gap([each] * 9, 0, 1, READER)
    assert many.value == pytest.approx(one.value)
    assert many.high - many.low < one.high - one.low
    only_labels = share_gap([pairs(500, 800, 100, 600)] * 9, 0, 1, READER)
    assert only_labels.high - only_labels.low > 0.1  # what the labels do not know, no number of pictures tells


def test_concepts_as_a_sample_count_their_spread():
    wide = [pairs(20, 20, 0, 0), pairs(20, 0, 20, 0), pairs(20, 18, 2, 0), pairs(20, 1, 19, 0)]
    here, sampled = (share_gap(wide, 0, 1, sampled=sampled) for sampled in (False, True))
    assert sampled.value == here.value
    assert sampled.high - sampled.low > 3 * (here.high - here.low)
    assert "no spread" in share_gap(wide[:1], 0, 1, sampled=True).reason


def test_what_cannot_be_estimated_has_a_reason():
    assert "does not tell" in share_gap([sets(9, 10, 8, 10)], 0, 1, np.array([[5, 5], [5, 5]])).reason
    assert "no image" in share_gap([sets(0, 0, 8, 10)], 0, 1).reason
    with raises(InvalidInputError, code=Code.WRONG_SHAPE, field="table"):
        share_gap([sets(9, 10, 8, 10)], 0, 1, THREE)


def test_planned_images_fall_with_the_gap_and_with_labels():
    def planned(gap, labelled=None, concepts=1):
        return images_for_gap(gap, recall=(0.98, 0.8), labelled=labelled, concepts=concepts)

    assert planned(0.4) < planned(0.2) < planned(0.1)
    assert planned(0.4) < planned(0.4, (200, 200)) < planned(0.4, (60, 60)) < planned(0.4, (60, 60), 12)
    assert np.isnan(planned(0.1, (60, 60)))
    wrong_ones = (
        {"gap": 0.0},
        {"gap": 0.4, "success": 0.3},
        {"gap": 0.4, "recall": (0.9, 0.4)},
        {"gap": 0.4, "power": 1},
    )
    for wrong in wrong_ones:
        with raises(InvalidInputError, code=Code.OUT_OF_RANGE, field=list(wrong)[-1]):
            images_for_gap(**wrong)


def test_no_reader_better_than_chance_makes_shares_of_nothing_else():
    """The bounds of metrics.steerability are those of a grid over all readers."""
    for r_a, r_b in ((0.95, 0.75), (0.6, 0.6), (0.99, 0.3)):
        grid = np.linspace(0.5, 1, 201)
        gaps = [
            (r_a - r_b + c - s) / (s + c - 1)
            for s, c in product(np.r_[grid, r_a], np.r_[grid, r_b])
            if s + c > 1 + 1e-9 and all(-1e-9 <= share <= 1 + 1e-9 for share in
                                        ((r_a + c - 1) / (s + c - 1), (r_b + s - 1) / (s + c - 1)))
        ]  # fmt: skip
        assert min(gaps) == pytest.approx(-(1 - r_a) / r_b, abs=1e-6)
        assert max(gaps) == pytest.approx((1 - r_b) / r_a, abs=1e-6)
