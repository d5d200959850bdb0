"""Verdicts: every word, its boundary, its precedence."""

from __future__ import annotations

from dataclasses import replace
from math import ceil, isnan, nan

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import norm

from clinometer.metrics import Score, verdict
from clinometer.metrics.verdict import Judgement, ReasonCode, Source, Verdict, judge_family, source_of
from clinometer.stats.multiplicity import benjamini_hochberg
from clinometer.stats.permutation import sign_flip_test


def judge(value: float, low: float, high: float, q: float = 0.01, margin: float | None = 0.05, **more) -> Judgement:
    return verdict(value=value, low=low, high=high, q=q, a="men", b="women", margin=margin, **more)


@pytest.mark.parametrize(
    ("case", "expected"),
    [
        ((0.2, 0.1, 0.3), (Verdict.LEANS, "men", "")),
        ((-0.2, -0.3, -0.1), (Verdict.LEANS, "women", "")),
        ((0.2, 0.1, 0.3, 0.05), (Verdict.LEANS, "men", "")),
        ((0.2, 0.1, 0.3, 0.051), (Verdict.UNDECIDED, "", ReasonCode.CORRECTION)),
        ((0.2, -0.01, 0.41), (Verdict.UNDECIDED, "", ReasonCode.INTERVAL)),
        ((0.2, 0.0, 0.4), (Verdict.UNDECIDED, "", ReasonCode.INTERVAL)),
        ((0.04, 0.01, 0.07), (Verdict.LEANS_SLIGHTLY, "men", "")),
        ((-0.04, -0.07, -0.01), (Verdict.LEANS_SLIGHTLY, "women", "")),
        ((0.04, 0.01, 0.07, 0.01, None), (Verdict.LEANS, "men", "")),
        ((0.01, -0.02, 0.04), (Verdict.BALANCED, "", "")),
        ((0.02, 0.01, 0.03), (Verdict.BALANCED, "", "")),  # certain, and yet smaller than what the suite calls leaning
        ((0.01, -0.02, 0.04, 0.9, None), (Verdict.UNDECIDED, "", ReasonCode.INTERVAL)),
        ((0.01, -0.03, 0.05), (Verdict.UNDECIDED, "", ReasonCode.INTERVAL)),
        ((nan, nan, nan), (Verdict.NOT_MEASURED, "", ReasonCode.NO_ESTIMATE)),
        ((0.2, nan, nan), (Verdict.NOT_MEASURED, "", ReasonCode.NO_TEST)),
        ((0.2, 0.1, 0.3, nan), (Verdict.NOT_MEASURED, "", ReasonCode.NO_TEST)),
    ],
)
def test_every_verdict_and_its_boundaries(case, expected):
    judgement = judge(*case)
    assert (judgement.verdict, judgement.side, judgement.reason_code) == expected


@given(st.floats(-1, 1), st.floats(0, 0.5), st.floats(0, 1), st.one_of(st.none(), st.floats(0.01, 0.5)))
def test_too_few_images_have_no_verdict_whatever_they_show(value, half, q, margin):
    judgement = judge(value, value - half, value + half, q, margin, enough=False)
    assert (judgement.verdict, judgement.reason_code) == (Verdict.TOO_FEW, ReasonCode.TOO_FEW_IMAGES)


@given(st.floats(-1, 1), st.floats(0, 0.5), st.floats(0, 1), st.one_of(st.none(), st.floats(0.01, 0.5)))
def test_mirroring_the_score_mirrors_the_side(value, half, q, margin):
    forth, back = (
        judge(value, value - half, value + half, q, margin),
        judge(-value, -value - half, half - value, q, margin),
    )
    assert back == replace(forth, side={"men": "women", "women": "men", "": ""}[forth.side])


@given(st.floats(-1, 1), st.floats(0, 0.5), st.floats(0, 1), st.floats(0.01, 0.5))
def test_a_wider_interval_never_decides_more(value, half, q, margin):
    if judge(value, value - half, value + half, q, margin).verdict == Verdict.UNDECIDED:
        wider = judge(value, value - 2 * half - 0.01, value + 2 * half + 0.01, q, margin)
        assert wider.verdict == Verdict.UNDECIDED


def row(value: float, half: float, q: float = 0.5) -> Score:
    return Score(metric="m", component="c", value=value, low=value - half, high=value + half, q=q, n_target=20)


def test_a_family_is_judged_by_its_corrected_equivalence_tests():
    rows = [row(0.0, 0.02), row(0.0, 0.02), row(0.03, 0.04), row(0.4, 0.05, q=0.001)]
    judged = judge_family(rows, a="men", b="women", margin=0.05)
    assert [each.verdict for each in judged] == [Verdict.BALANCED, Verdict.BALANCED, Verdict.UNDECIDED, Verdict.LEANS]
    assert [each.side for each in judged] == ["", "", "", "men"]
    assert all(each.q_equivalence >= each.p_equivalence for each in judged)
    assert [each.n_decide > 20 for each in judged] == [False, False, True, False]


def test_rows_of_one_family_may_have_sides_of_their_own():
    rows = [row(0.4, 0.05, q=0.001), row(-0.4, 0.05, q=0.001), row(0.0, 0.02)]
    judged = judge_family(rows, a=["men", "old", "x"], b=["women", "young", "y"], margin=0.05)
    assert [each.side for each in judged] == ["men", "young", ""]
    assert judged[2].q_equivalence == pytest.approx(3 * judged[2].p_equivalence)  # three tests, though two lean


def test_without_a_margin_nothing_is_shown_balanced():
    (judged,) = judge_family([row(0.0, 0.001)], a="men", b="women")
    assert judged.verdict == Verdict.UNDECIDED
    assert isnan(judged.p_equivalence)
    assert judged.n_decide > 1_000  # an estimate of exactly 0 may be off by a little


def test_the_images_that_would_decide_follow_from_the_interval():
    """Drawn again, by a truth that is normal around the estimate, four of five would be decided."""
    (judged,) = judge_family([row(0.1, 0.2)], a="men", b="women")
    factor, z = judged.n_decide / 20, 0.1 / (0.2 / norm.isf(0.025))
    ends = (np.array([1, -1]) * z * factor**0.5 - norm.isf(0.025)) / (1 + factor) ** 0.5
    assert norm.cdf(ends).sum() == pytest.approx(0.8, abs=0.02)


def family(*cases: tuple[float, float, float]) -> list[Score]:
    """Rows of value, half-width and p, with their own q."""
    q_values = benjamini_hochberg(np.array([p for _, _, p in cases]))
    return [replace(row(value, half, q), p=p) for (value, half, p), q in zip(cases, q_values, strict=True)]


def test_no_images_are_promised_where_permuted_prompts_hold_a_verdict_back():
    """The interval is far from 0 and p is not small: what permuting gives by chance, images do not change."""
    rows = family((0.26, 0.11, 0.2), (0.26, 0.25, 0.2), (0.01, 0.3, 0.9))
    held_back, wide, _ = judge_family(rows, a="men", b="women")
    assert (held_back.verdict, wide.verdict) == (Verdict.UNDECIDED, Verdict.UNDECIDED)
    assert held_back.n_decide == 0
    assert wide.n_decide > 20


def test_prompts_that_hold_a_leaning_back_do_not_hold_back_its_balance():
    (held_back,) = judge_family(family((0.06, 0.055, 0.4)), a="men", b="women", margin=0.1)
    assert held_back.verdict == Verdict.UNDECIDED
    error = 0.055 / norm.isf(0.025)
    reach = error * norm.isf(0.05) / (held_back.n_decide / 20) ** 0.5
    ends = np.array([0.1 - reach - 0.06, reach - 0.1 - 0.06]) / (error * (1 + 20 / held_back.n_decide) ** 0.5)
    assert np.diff(norm.cdf(ends[::-1])) == pytest.approx(0.8, abs=0.02)


def test_a_family_asks_for_more_images_than_a_row_alone():
    """Beside two that lean less and less, p has to reach a third of 0.05."""
    (alone,) = judge_family(family((0.1, 0.12, 0.1)), a="men", b="women")
    among, *_ = judge_family(family((0.1, 0.12, 0.1), (0.01, 0.12, 0.9), (0.01, 0.12, 0.9)), a="men", b="women")
    assert among.n_decide > 1.1 * alone.n_decide > 1.1 * 20


def test_images_that_would_show_balance_count_the_whole_family():
    """Found on a page: "about 42 images" of a concept at 0, where nine in ten lean and 132 decide."""
    cases = [(-0.004, 0.21, 0.92), *((0.4, 0.1, 0.0001),) * 9]
    near, *_ = judge_family(family(*cases), a="men", b="women", margin=0.1)
    assert near.verdict == Verdict.UNDECIDED

    def at(n: int) -> str:
        shrunk = [(value, half * (20 / n) ** 0.5, p) for value, half, p in cases]
        return judge_family(family(*shrunk), a="men", b="women", margin=0.1)[0].verdict

    uncorrected = ceil(20 * (norm.isf(0.05) * 0.21 / norm.isf(0.025) / 0.096) ** 2)
    assert at(uncorrected) == Verdict.UNDECIDED
    assert at(near.n_decide) == Verdict.BALANCED


def test_below_the_fewest_images_a_row_says_how_many_it_needs():
    few = replace(row(0.4, 0.05, q=0.001), n_target=4)
    (judged,) = judge_family([few], a="men", b="women", fewest=8)
    assert (judged.verdict, judged.side) == (Verdict.TOO_FEW, "")
    assert judge_family([few], a="men", b="women", fewest=4)[0].side == "men"


@given(st.lists(st.tuples(st.floats(-0.2, 0.2), st.floats(0.001, 0.2)), min_size=1, max_size=8))
def test_judging_does_not_depend_on_order(cases):
    forth = judge_family([row(*case) for case in cases], a="men", b="women", margin=0.05)
    back = judge_family([row(*case) for case in cases[::-1]], a="men", b="women", margin=0.05)
    assert forth == back[::-1]


@pytest.mark.parametrize("n", [2, 5, 9])
def test_no_exchange_has_a_smaller_p_than_the_least(n: int) -> None:
    found = sign_flip_test(np.arange(1.0, n + 1))  # all up: as extreme as can be
    row = Score(
        metric="editing", component="ita_change", p=found.p_value.item(), p_exact=found.exact, n_splits=found.n_splits
    )
    assert row.p == row.least_exchange_p == 2 / 2**n
    assert replace(row, p_exact=False, n_splits=99).least_exchange_p == 0.01
    assert replace(row, n_splits=0).least_exchange_p == 0


def parts(pictures: float, text: float, error: float, leans: str = "") -> tuple[Score, Score]:
    """MCAS and the image part, of which those named lean by their verdicts."""
    value = pictures + text
    return tuple(
        Score(metric="mcas", component=name, value=own, low=own - error, high=own + error,
              verdict=Verdict.LEANS if name in leans.split() else Verdict.UNDECIDED)
        for name, own in (("mcas", value), ("image_part", pictures))
    )  # type: ignore[return-value]  # fmt: skip


@pytest.mark.parametrize(
    ("case", "source"),
    [
        ((0.3, 0.01, 0.1, "mcas image_part"), Source.PICTURES),
        ((0.3, -0.15, 0.1, "mcas image_part"), Source.PICTURES),
        ((0.02, 0.2, 0.1, "mcas"), Source.TEXT),
        ((-0.02, 0.2, 0.1, "mcas"), Source.TEXT),
        ((0.3, 0.2, 0.1, "mcas image_part"), Source.BOTH),
        ((0.07, 0.07, 0.1, "mcas"), Source.BOTH),  # neither would lean by itself
        ((0.3, -0.3, 0.1, "image_part"), Source.CANCEL),
        ((0.05, -0.12, 0.1, ""), Source.CANCEL),
        ((0.05, 0.01, 0.1, ""), Source.NONE),
        ((0.3, nan, 0.1, "mcas image_part"), Source.NONE),
    ],
)
@pytest.mark.parametrize("sign", [1, -1])
def test_mcas_is_worded_by_its_source(case, source, sign):
    pictures, text, error, leans = case
    assert source_of(*parts(sign * pictures, sign * text, error, leans)) == source


@pytest.mark.parametrize(
    ("pictures", "text", "source"),
    [
        (0.7, 0.01, Source.PICTURES),
        (0.01, 0.7, Source.TEXT),
        (0.7, 0.7, Source.BOTH),
        (0.3, 0.3, Source.BOTH),
        (0.7, -0.7, Source.CANCEL),
        (0.3, 0.1, Source.NONE),
    ],
)
def test_a_limit_is_passed_by_a_part_that_would_pass_it_alone(pictures, text, source):
    assert source_of(*parts(pictures, text, 0.1), (-0.4, 0.4)) == source
    assert source_of(*parts(-pictures, -text, 0.1), (-0.4, 0.4)) == source
    assert source_of(*parts(pictures, text, 0.1), (-np.inf, 0.4)) in (source, Source.NONE)
