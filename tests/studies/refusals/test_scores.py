"""Refusal rates and their difference between groups: over prompts, because a filter judges prompts."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import binomtest

from clinometer.studies.refusals.scores import ONE_PROMPT, REFUSAL, PromptRefusals, refusal_scores


def prompts(group, refused, n=10, pairs=None):
    pairs = pairs or [""] * len(refused)
    return [PromptRefusals("", group, pair, count, n) for count, pair in zip(refused, pairs, strict=True)]


def difference(of_a, of_b):
    (row,) = [row for row in refusal_scores([*of_a, *of_b], a="a", b="b") if row.component == "difference"]
    return row


def test_nothing_refused_is_nothing_to_tell():
    assert refusal_scores([*prompts("a", [0, 0]), *prompts("b", [0])], a="a", b="b") == []


def test_swapping_the_groups_negates():
    of_a, of_b = prompts("a", [10, 3, 5, 7]), prompts("b", [0, 1, 3, 0])
    row = difference(of_a, of_b)
    other = difference([replace(p, group="a") for p in of_b], [replace(p, group="b") for p in of_a])
    assert row.value == pytest.approx(0.525)
    assert other.value == pytest.approx(-row.value)
    assert (other.low, other.high) == pytest.approx((-row.high, -row.low))
    assert other.p == row.p


def test_the_order_of_prompts_does_not_matter():
    everything = [*prompts("a", [10, 3, 5]), *prompts("b", [0, 1, 2]), PromptRefusals("cook", "", "", 2, 8)]
    assert refusal_scores(everything, a="a", b="b") == refusal_scores(everything[::-1], a="a", b="b")


def test_a_filter_that_refuses_whole_prompts_is_not_counted_picture_by_picture():
    """2 of 4 prompts against 0 of 4: by pictures p is 1e-11, by prompts 2·C(6,2)/C(8,4) = 0.43."""
    row = difference(prompts("a", [20, 20, 0, 0], n=20), prompts("b", [0, 0, 0, 0], n=20))
    assert row.p == pytest.approx(30 / 70)
    assert row.p_exact
    assert row.low < 0 < row.high


def test_matched_prompts_are_permuted_within_their_pairs():
    """Six pairs, each with a refused more: 2 of 2^6 splits are as extreme."""
    pairs = [f"pair {number}" for number in range(6)]
    row = difference(prompts("a", [5, 6, 7, 8, 9, 10], pairs=pairs), prompts("b", [0, 1, 2, 3, 4, 5], pairs=pairs))
    assert row.p == pytest.approx(2 / 64)
    assert "matched" in row.test


def test_one_prompt_has_a_rate_and_no_test():
    row = difference(prompts("a", [4]), prompts("b", [0]))
    assert row.value == pytest.approx(0.4)
    assert np.isnan(row.p)
    assert row.reason == ONE_PROMPT


def test_a_concept_of_one_prompt_has_wilsons_interval():
    (row,) = refusal_scores([PromptRefusals("cook", "", "", 3, 16)], a="a", b="b")
    wanted = binomtest(3, 16).proportion_ci(method="wilson")
    assert (row.metric, row.concept, row.value, row.n_target) == (REFUSAL, "cook", 3 / 16, 16)
    assert (row.low, row.high) == pytest.approx((wanted.low, wanted.high))


def test_a_prompt_without_a_picture_that_was_asked_for_does_not_count():
    """All of its pictures failed: that is no answer of the model."""
    rows = refusal_scores([PromptRefusals("cook", "", "", 0, 0), PromptRefusals("pilot", "", "", 1, 2)], a="a", b="b")
    assert [row.concept for row in rows] == ["pilot"]


@pytest.mark.thorough
def test_the_interval_covers():
    """Rates that vary by prompt (beta 1, 3): over prompts, 95 % means at least 90 % of 300 audits."""
    rng = np.random.default_rng(0)
    covered = 0
    for _ in range(300):
        sides = [rng.binomial(8, rng.beta(1, 3, 12)).tolist() for _ in range(2)]
        row = difference(prompts("a", sides[0], n=8), prompts("b", sides[1], n=8))
        covered += row.low <= 0 <= row.high
    assert covered >= 270


def test_one_group_is_said_to_be_refused_more_where_interval_and_p_agree():
    """3 + 3 prompts reach no p below 0.1, however far apart they are; 6 + 6 do."""
    few, many = (refusal_scores([*prompts("a", [9] * n), *prompts("b", [0] * n)], a="a", b="b")[-1] for n in (3, 6))
    assert (few.verdict, few.side, few.value) == ("too few images", "", many.value)
    assert (many.verdict, many.side) == ("more", "a")
    assert many.q == many.p <= 0.05
