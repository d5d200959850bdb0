"""Verdicts in words: every verdict, side and reason has some, in the labels of the suite and the names of the runs."""

from dataclasses import replace
from math import nan

import pytest

from clinometer.metrics.verdict import ReasonCode, Verdict
from clinometer.report import wording as words
from clinometer.report.view import Row

LABELS = {"man": "men", "woman": "women"}
CALLED = ("one", "two")


def label(side: str) -> str:
    return LABELS.get(side, side)


@pytest.mark.parametrize(
    ("verdict", "side", "value", "verdict_group", "said"),
    [
        (Verdict.LEANS, "man", 0.2, "a", "leans to men"),
        (Verdict.LEANS_SLIGHTLY, "man", 0.02, "a", "leans slightly to men"),
        (Verdict.LEANS, "woman", -0.2, "b", "leans to women"),
        (Verdict.BALANCED, "", 0.01, "balanced", "is shown balanced"),
        (Verdict.UNDECIDED, "", 0.1, "undecided", "is undecided"),
        (Verdict.TOO_FEW, "", 0.1, "few", "has too few images to tell"),
        (Verdict.NOT_MEASURED, "", 0.1, "unmeasured", "has no verdict"),
        (Verdict.LEANS, "man", nan, "unmeasured", "could not be measured"),
        ("", "", 0.1, "unmeasured", "has no verdict"),
    ],
)
def test_verdicts(verdict, side, value, verdict_group, said):
    row = Row(verdict=verdict, side=side, value=value)
    assert words.verdict_group_of(row) == verdict_group
    assert words.said_of(row, label) == said


def test_every_verdict_reason_and_heap_has_words_of_its_own():
    plain = [words.verdict_words(Row(verdict=each, side="man", value=0.1)) for each in Verdict]
    of_runs = [words.difference_words(Row(verdict=each, side="first", value=0.1), CALLED) for each in Verdict]
    told = [here or there for here, there in zip(plain, of_runs, strict=True)]
    assert all(told)
    assert len(set(told)) == len(Verdict)
    reasons = [words.reason_words(Row(reason_code=code)) for code in ReasonCode if code]
    assert len(set(reasons)) == len(reasons)
    assert all(reasons)
    assert {*words.HEADINGS, "a", "b"} == set(words.VERDICT_GROUPS)


def test_a_group_that_a_target_is_farther_from_is_named():
    assert words.verdict_words(Row(verdict=Verdict.LEANS, side="others", group="man"), label) == "leans away from men"


def test_the_row_tells_its_reason_itself_where_it_has_one():
    assert words.reason_words(Row(reason="no image of the target", reason_code=ReasonCode.NO_ESTIMATE)) == (
        "no image of the target"
    )


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"component": "mcas", "side": "woman"}, "two is further to women than one"),
        ({"component": "magnitude", "side": "first"}, "one leans more"),
        ({"component": "magnitude", "side": "second"}, "two leans more"),
        ({"component": "refusal_rate", "side": "first"}, "one refuses more"),
        ({"component": "refusal_difference", "side": "man", "setting": "first run"}, "one’s refusals tilt more to men"),
        ({"component": "refusal_difference", "side": "woman", "setting": "second run"},
         "two’s refusals tilt more to women"),
    ],
)  # fmt: skip
def test_more_is_said_of_the_run_and_the_side(fields, said):
    assert words.difference_words(Row(verdict=Verdict.MORE, value=0.1, **fields), CALLED, label) == said


def test_more_of_these_prompts_is_not_more_of_all():
    row = Row(component="refusal_rate", verdict=Verdict.MORE_HERE, side="second", value=0.1)
    assert words.difference_words(row, CALLED) == "two refuses more of these prompts"
    assert words.of_these_prompts(row)
    assert words.decided(row)


def test_how_many_images_are_wanting():
    assert words.needed(Row(verdict=Verdict.UNDECIDED, n_decide=213)) == (
        "about 220 images per concept would decide in four of five runs"
    )
    assert words.needed(Row(verdict=Verdict.TOO_FEW, n_decide=8)) == "a verdict needs at least 8 images per concept"
    assert words.needed(Row(verdict=Verdict.TOO_FEW, n_decide=172)) == (
        "about 180 images per concept would decide in four of five runs"
    )
    assert words.needed(Row(verdict=Verdict.UNDECIDED)) == ""


def test_a_leaning_that_hangs_on_the_words_is_qualified_and_not_withheld():
    said = "with other words it might not show"
    lean = {"verdict": Verdict.LEANS, "side": "man", "value": 0.1}
    assert words.qualification(Row(**lean, p_labels=0.06)) == said
    assert words.qualification(Row(**lean, p_labels=0.04, stimulus_low=-0.01, stimulus_high=0.3)) == said
    assert words.qualification(Row(**lean, p_labels=0.04, stimulus_low=0.01, stimulus_high=0.3)) == ""
    assert words.qualification(Row(**lean)) == ""  # nobody asked the words
    assert words.said_of(Row(**lean, p_labels=0.5), label) == "leans to men"
    assert words.qualification(Row(verdict=Verdict.UNDECIDED, value=0.1, p_labels=0.5)) == ""


def test_verdicts_are_counted_those_with_a_side_first():
    leaning = [Row(verdict=each, side="man", value=0.1) for each in (Verdict.LEANS, Verdict.LEANS_SLIGHTLY)]
    rows = [Row(verdict=Verdict.UNDECIDED, value=0.1), *leaning, Row()]
    assert words.counted(rows, label) == "2 to men \N{MIDDLE DOT} 1 undecided \N{MIDDLE DOT} 1 not measured"


def test_not_measured_says_why_beside_its_number():
    row = Row(metric="mcas", component="mcas", value=0.2, verdict="not measured", reason="no encoder reads text")
    assert words.verdict_in_full(row) == "not measured: no encoder reads text"
    assert words.verdict_in_full(replace(row, reason="", reason_code=ReasonCode.READER)).startswith(
        "not measured: the enco"
    )


def test_a_verdict_says_what_it_takes_for_granted():
    row = Row(verdict="leans", side="men", value=0.2, n_missing=3, depends_on="missing", bound_low=-0.1, bound_high=0.4)
    assert words.verdict_words(row) == "leans to men, if the missing pictures are like the rest"
    assert "3 missing pictures filled in either way" in words.bounds_words(row)
    of_groups = replace(row, n_missing=0, n_missing_attributes=7)
    assert words.bounds_words(of_groups).startswith("with the groups' 7 missing pictures filled in either way")
    both = replace(row, n_missing_attributes=7)
    assert words.bounds_words(both).startswith("with its 3 missing and the groups' 7 missing pictures filled in")
    assert words.bounds_words(replace(row, bound_low=float("nan"))) == ""
