"""Two runs' refusals: algebra first, then independent oracles, then whether the tests keep their level."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from scipy.stats import binomtest, fisher_exact, ttest_1samp

from clinometer.studies.refusals.scores import (
    ONE_PROMPT,
    ComparedPrompt,
    PromptRefusals,
    compare_refusals,
    refusal_scores,
    unknown_refusals,
)


def answers(refused, n=8):
    return np.arange(n) < refused


def prompt(first, second, n=8, **named):
    named = {"concept": "", "group": "", "pair": "", "prompt": str(named)} | named
    return ComparedPrompt(first=answers(first, n), second=answers(second, n), **named)


def study(rng, concepts=6, ages=4, n=8):
    """Concepts of one prompt each, and two groups of matched prompts; either run refuses by chance."""
    named = [{"concept": f"concept {i}", "prompt": f"a concept {i}"} for i in range(concepts)]
    named += [{"group": group, "pair": f"age {age}", "prompt": f"a {age} {group}"} for group in ("a", "b")
              for age in range(ages)]  # fmt: skip
    return [
        ComparedPrompt(first=rng.random(n) < rng.random(), second=rng.random(n) < rng.random(),
                       **{"concept": "", "group": "", "pair": ""} | each)
        for each in named
    ]  # fmt: skip


def compare(prompts, *, paired=True):
    return compare_refusals(prompts, a="a", b="b", paired=paired)


def one(rows, component="refusal_rate", **equal):
    equal = {"concept": "", "group": ""} | ({} if component == "refusal_difference" else {"setting": ""}) | equal
    (row,) = [row for row in rows if row.component == component and all(getattr(row, k) == v for k, v in equal.items())]
    return row


def said(row):
    return row.verdict, row.side


def swapped(prompts):
    return [replace(each, first=each.second, second=each.first) for each in prompts]


@pytest.mark.parametrize("paired", [True, False])
def test_swapping_the_runs_negates(paired):
    prompts = study(np.random.default_rng(1))
    forth, back = compare(prompts, paired=paired), compare(swapped(prompts), paired=paired)
    differences = [(a, b) for a, b in zip(forth, back, strict=True) if a.component != "own_refusal_rate"]
    assert len(differences) == 1 + 1 + 6 + 2
    for a, b in differences:
        assert (b.value, b.low, b.high) == pytest.approx((-a.value, -a.high, -a.low), abs=1e-12)
        ends = (-a.stimulus_high, -a.stimulus_low)
        assert (b.stimulus_low, b.stimulus_high) == pytest.approx(ends, abs=1e-12, nan_ok=True)
        assert (b.p, b.q) == pytest.approx((a.p, a.q))
    other = {"first": "second", "second": "first", "": ""}
    assert [(a.verdict, other[a.side]) for a, _ in differences if a.component == "refusal_rate"] == [
        (b.verdict, b.side) for _, b in differences if b.component == "refusal_rate"
    ]


def test_swapping_the_groups_negates_their_difference():
    prompts = study(np.random.default_rng(2))
    row = one(compare(prompts), "refusal_difference", group="a")
    other = one(compare_refusals(prompts, a="b", b="a", paired=True), "refusal_difference", group="b")
    assert (other.value, other.low, other.high) == pytest.approx((-row.value, -row.high, -row.low), abs=1e-12)
    assert other.p == pytest.approx(row.p)


def test_a_run_beside_itself_differs_by_nothing():
    prompts = [replace(each, second=each.first) for each in study(np.random.default_rng(3))]
    for paired in (True, False):
        for row in compare(prompts, paired=paired):
            if row.component != "own_refusal_rate":
                assert (row.value, row.p, row.verdict) == (0, 1, "undecided")
                assert row.low <= 0 <= row.high


def test_the_order_of_prompts_and_of_pictures_does_not_matter():
    rng = np.random.default_rng(4)
    prompts = study(rng)
    order = rng.permutation(8)
    turned = [replace(each, first=each.first[order], second=each.second[order]) for each in prompts[::-1]]
    assert compare(turned) == compare(prompts)


def test_nothing_refused_is_nothing_to_tell():
    assert compare([prompt(0, 0, concept="cook"), prompt(0, 0, concept="pilot")]) == []


def test_what_neither_run_refused_is_no_test_and_costs_none():
    some = [prompt(0, 8, concept="cook"), prompt(0, 5, concept="pilot")]
    rows = compare([*some, *(prompt(0, 0, concept=str(i)) for i in range(20))])
    assert {row.concept for row in rows} == {"", "cook", "pilot"}
    assert one(rows, concept="cook").q == one(compare(some), concept="cook").q
    assert one(rows).value == pytest.approx((1 + 5 / 8) / 22)


def test_differences_are_those_of_the_runs_own_rates():
    prompts = study(np.random.default_rng(5))
    rows = compare(prompts)
    own = [
        refusal_scores(
            [PromptRefusals(p.concept, p.group, p.pair, int(getattr(p, run).sum()), 8) for p in prompts], a="a", b="b"
        )
        for run in ("first", "second")
    ]
    for name, component in (("rate", "refusal_rate"), ("difference", "refusal_difference")):
        for first in (row for row in own[0] if row.component == name):
            (second,) = [row for row in own[1] if (row.component, row.concept, row.group) ==
                         (name, first.concept, first.group)]  # fmt: skip
            found = one(rows, component, concept=first.concept, group=first.group)
            assert found.value == pytest.approx(second.value - first.value)
            if name == "rate" and first.concept:
                of_first = one(rows, "own_refusal_rate", concept=first.concept, setting="first run")
                assert (of_first.value, of_first.low, of_first.high) == (first.value, first.low, first.high)


def test_p_over_all_counts_every_swap_of_concepts_and_pairs():
    prompts = study(np.random.default_rng(6), concepts=4, ages=3)
    row = one(compare(prompts))
    concepts = [second - first for first, second in (each.rates for each in prompts[:4])]
    ages = [np.mean([np.subtract(*prompts[i].rates[::-1]) for i in (at, at + 3)]) for at in range(4, 7)]
    units = np.array([*concepts, *ages])
    swaps = np.abs(np.array(list(product((1, -1), repeat=7))) @ units)
    assert row.value == pytest.approx(units.mean())
    assert row.p == pytest.approx((swaps >= abs(units.sum()) - 1e-12).mean())
    assert (row.n_splits, row.p_exact) == (2**7, True)


def test_the_difference_between_groups_swaps_matched_prompts_together():
    prompts = study(np.random.default_rng(7), concepts=1, ages=5)
    row = one(compare(prompts), "refusal_difference", group="a")
    d = np.array([second - first for first, second in (each.rates for each in prompts[1:])])
    ages = d[:5] - d[5:]
    swaps = np.abs(np.array(list(product((1, -1), repeat=5))) @ ages)
    assert row.value == pytest.approx(ages.mean())
    assert row.p == pytest.approx((swaps >= abs(ages.sum()) - 1e-12).mean())


def test_one_prompt_is_judged_by_its_pictures_in_pairs_or_in_two_samples():
    cook = prompt(2, 7, concept="cook")
    row = one(compare([cook]), concept="cook")
    assert row.p == pytest.approx(binomtest(0, 5).pvalue)
    row = one(compare([cook], paired=False), concept="cook")
    assert row.p == pytest.approx(fisher_exact([[2, 6], [7, 1]]).pvalue)
    assert row.n_splits == 12870  # C(16, 8)


def test_a_filter_that_refuses_a_whole_prompt_of_a_group_is_one_prompt():
    """20 of 20 pictures of one prompt in four: by pictures p is 1e-6, by prompts 1."""
    prompts = [prompt(0, 20 * (age == 0), n=20, group="a", prompt=str(age)) for age in range(4)]
    row = one(compare(prompts), group="a")
    assert row.value == 0.25
    assert row.p == 1
    assert row.stimulus_low < 0 < row.low
    assert row.verdict == "undecided"
    assert said(one(compare(prompts))) == ("more of these prompts", "second")


def test_what_is_refused_of_these_prompts_may_not_be_of_others():
    """None of 12 prompts refused leaves room for a filter that refuses others whole; pictures of these decide."""
    prompts = [prompt(0, 3, n=16, concept=str(i)) for i in range(12)]
    row = one(compare(prompts))
    assert row.p <= 0.001
    assert row.stimulus_low < 0 < row.low
    assert said(row) == ("more of these prompts", "second")
    assert said(one(compare(swapped(prompts)))) == ("more of these prompts", "first")


def test_the_interval_over_pictures_covers_what_these_prompts_are_refused():
    """Prompts with rates of their own, held, 100 times: 95 % means at least 89 % (3 standard errors)."""
    rng = np.random.default_rng(10)
    covered, n = 0, 100
    for paired in (True, False):
        for _ in range(n // 2):
            rates = rng.beta(0.5, 2, size=(8, 2))
            flags = [[rng.random(12) < p for p in of] for of in rates]
            row = one(compare([ComparedPrompt(str(i), "", "", "", *of) for i, of in enumerate(flags)], paired=paired))
            covered += row.low <= np.mean(rates[:, 1] - rates[:, 0]) <= row.high
    assert covered >= 0.89 * n


def test_verdicts_say_who_refuses_more_and_whom():
    named = [{"group": g, "pair": str(i), "prompt": f"{g} {i}"} for g in ("a", "b") for i in range(8)]
    rows = compare([prompt(0, 8 if each["group"] == "a" else 1, **each) for each in named])
    assert said(one(rows)) == said(one(rows, group="a")) == ("more", "second")
    tilt = one(rows, "refusal_difference", group="a")
    assert (*said(tilt), tilt.setting) == ("more", "a", "second run")
    turned = compare(swapped([prompt(0, 8 if each["group"] == "a" else 1, **each) for each in named]))
    assert said(one(turned)) == ("more", "first")
    tilt = one(turned, "refusal_difference", group="a")
    assert (*said(tilt), tilt.setting) == ("more", "a", "first run")


def test_a_prompt_that_is_all_there_is_says_as_much_over_all_as_alone():
    rows = compare([prompt(0, 5, concept="c")])
    assert one(rows).verdict == one(rows, concept="c").verdict == "undecided"


def test_groups_of_one_prompt_have_no_test_of_their_difference():
    row = one(compare([prompt(0, 8, group="a"), prompt(1, 1, group="b")]), "refusal_difference", group="a")
    assert (row.verdict, row.reason) == ("not measured", ONE_PROMPT)
    assert np.isnan(row.p)
    assert row.value == 1


def test_a_prompt_that_one_run_did_not_answer_counts_in_neither():
    cook = prompt(2, 7, concept="cook")
    lost = replace(prompt(8, 0, concept="pilot"), second=np.zeros(0, bool))
    rows = compare([cook, lost], paired=False)
    assert one(rows).value == one(rows, concept="cook").value
    assert one(rows).reason == "left out for want of an answer in one of the runs: 1 of the prompts"
    assert {row.concept for row in rows} == {"", "cook"}


def test_refusals_that_are_not_known_are_not_measured():
    (row,) = unknown_refusals("the first run was imported")
    assert np.isnan(row.value)
    assert (row.verdict, row.reason) == ("not measured", "the first run was imported")


def test_p_of_many_prompts_is_near_that_of_the_t_test():
    prompts = study(np.random.default_rng(8), concepts=300, ages=0)
    d = [second - first for first, second in (each.rates for each in prompts)]
    assert one(compare(prompts)).p == pytest.approx(ttest_1samp(d, 0).pvalue, abs=0.01)


@pytest.mark.thorough
@pytest.mark.parametrize("kind", ["rate", "difference"])
def test_the_tests_keep_their_level_and_the_intervals_their_cover(kind):
    """Two models with the same rates on average but their own dislikes, 60 times: at most 13 % (3 standard errors)."""
    rng = np.random.default_rng(9)
    false, covered, n = 0, 0, 60
    for _ in range(n):
        named = [{"concept": f"{i}", "prompt": f"{i}"} for i in range(12)] if kind == "rate" else []
        named += [{"group": g, "pair": f"{i}", "prompt": f"{g}{i}"} for g in ("a", "b") for i in range(6)]
        fair = [prompt(*(rng.binomial(8, rng.beta(0.3, 1.2)) for _ in range(2)), **each) for each in named]
        rows = compare(fair)
        row = one(rows) if kind == "rate" else one(rows, "refusal_difference", group="a")
        false += row.p <= 0.05
        covered += row.stimulus_low <= 0 <= row.stimulus_high
    assert false <= 0.13 * n
    assert covered >= 0.87 * n
