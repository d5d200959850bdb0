"""Rows of people's ratings: what each counts, and that an encoder's name stands where one took part."""

from __future__ import annotations

import csv
from itertools import combinations
from math import isnan, sqrt
from pathlib import Path

import numpy as np
import pytest

from clinometer.errors import Code, InvalidInputError
from clinometer.metrics.human import HumanStudy, MachineScores, RatedConcept, human_rows, majority
from clinometer.stats.agreement import kendall_tau_b
from tests.raising import raises

ANSWERS = ("man", "woman", "cannot tell")


def concept(name: str, men: int, women: int, *, raters: int = 2, misread: int = 0) -> RatedConcept:
    """Raters agree; the encoder reads the first ``misread`` men as women, and half of 20 further images as men."""
    answers = np.tile(np.repeat([0.0, 1.0], [men, women]), (raters, 1))
    read = np.repeat([0.0, 1.0, 0.0], [misread, men - misread, women])
    return RatedConcept(name, "work", answers, {"clip": read}, {"clip": np.repeat([1.0, 0.0], 10)})


def rows(study: HumanStudy, component: str) -> list:
    return [row for row in human_rows(study) if row.component == component]


@pytest.fixture
def study() -> HumanStudy:
    concepts = tuple(concept(f"c{k}", k, 10 - k, misread=min(k, 1)) for k in range(0, 11, 2))
    machine = MachineScores("mcas", "mcas", "clip", {f"c{k}": k / 10 for k in range(0, 11, 2)})
    return HumanStudy(ANSWERS, 0, 1, concepts, same=9, repeats=10, right=4, checks=4, machine=(machine,))


def test_fractions_and_shares_count_answers(study):
    fractions = {(row.concept, row.group): row.value for row in rows(study, "fraction")}
    assert fractions["c4", "man"] == pytest.approx(0.4)
    assert fractions["c4", "cannot tell"] == 0
    share = next(row for row in rows(study, "share") if row.concept == "c4")
    assert (share.value, share.encoder, share.n_target, share.n_a) == (pytest.approx(0.4), "", 10, 20)


def test_an_answer_that_is_neither_leaves_the_share_and_not_the_fraction():
    answers = np.array([[0.0, 1.0, 2.0, 2.0]])
    held = HumanStudy(ANSWERS, 0, 1, (RatedConcept("c", "work", answers),))
    (share,) = rows(held, "share")
    assert share.value == pytest.approx(0.5)
    assert [row.value for row in rows(held, "fraction")] == pytest.approx([0.25, 0.25, 0.5])


def test_encoders_are_held_against_people(study):
    (sensitivity,), (specificity,) = rows(study, "sensitivity"), rows(study, "specificity")
    assert sensitivity.value == pytest.approx(25 / 30)
    assert sensitivity.n_target == 30
    assert (specificity.value, specificity.high) == (1, 1)
    confusion = {(row.group, row.setting): row.value for row in rows(study, "confusion")}
    assert confusion["man", "read as woman"] == pytest.approx(5 / 30)
    assert isnan(confusion["cannot tell", "read as man"])


def test_the_corrected_share_is_of_all_images(study):
    row = next(row for row in rows(study, "corrected_share") if row.concept == "c4")
    assert (row.encoder, row.n_target, row.n_a) == ("clip", 30, 10)
    people = next(row for row in rows(study, "share") if row.concept == "c4")
    assert row.high - row.low < people.high - people.low
    assert row.value > 0.4  # more of the other images were read as men than of the rated ones


def test_people_and_machine_in_one_order_have_a_tau_of_one(study):
    (tau,) = rows(study, "tau")
    assert (tau.setting, tau.encoder, tau.n_target) == ("mcas", "clip", 6)
    assert tau.value == pytest.approx(1)


def test_raters_who_agree_have_an_alpha_of_one(study):
    (alpha,) = rows(study, "alpha")
    assert (alpha.value, alpha.n_target, alpha.n_a) == (1, 60, 2)
    assert rows(study, "self_consistency")[0].value == 0.9
    assert rows(study, "attention")[0].value == 1


def test_one_rater_is_said_to_be_one():
    held = HumanStudy(ANSWERS, 0, 1, (concept("c", 5, 5, raters=1),))
    assert all("one rater" in row.reason for row in rows(held, "share"))
    assert rows(held, "alpha")[0].reason == "no unit has two ratings"
    assert rows(held, "attention")[0].reason == "no item had a known answer"


def test_a_concept_seen_at_once_has_raters_as_units():
    whole = RatedConcept("flowers", "flowers", np.array([[0.0], [0.0], [0.0], [1.0], [np.nan]]), whole=True)
    (share,) = rows(HumanStudy(ANSWERS, 0, 1, (whole,)), "share")
    assert (share.value, share.n_target) == (0.75, 4)
    assert 0.3 < share.low < 0.75 < share.high < 1


def test_the_majority_is_none_where_answers_tie():
    answers = np.array([[0, 0, 1, np.nan], [0, 1, 1, np.nan], [1, np.nan, 1, np.nan]])
    assert majority(answers, 2).tolist() == [0, -1, 1, -1]


def test_concepts_of_other_raters_are_refused():
    with raises(InvalidInputError, code=Code.WRONG_SHAPE, field="answers"):
        HumanStudy(ANSWERS, 0, 1, (concept("a", 1, 1, raters=1), concept("b", 1, 1, raters=2)))
    with raises(InvalidInputError, code=Code.WRONG_SHAPE):
        RatedConcept("c", "", np.zeros((1, 3)), {"clip": np.zeros(2)}, {"clip": np.zeros(2)})


def test_nothing_rated_gives_no_row():
    assert human_rows(HumanStudy(ANSWERS, 0, 1, ())) == []


# --- the T2IAT paper's human evaluation ------------------------------------------------------------------------------


def printed_fractions() -> dict[str, float]:
    with (Path(__file__).parents[1] / "golden/t2iat_human.csv").open() as file:
        return {row["concept"]: float(row["fraction_choosing_first"]) for row in csv.DictReader(file)}


def test_the_printed_fractions_count_twenty_images():
    assert all(round(20 * fraction, 9) == round(20 * fraction) for fraction in printed_fractions().values())


def test_the_printed_tau_is_21_pairs_against_6():
    fractions = list(printed_fractions().values())
    untied = sum(a != b for a, b in combinations(fractions, 2))
    assert untied == 27
    assert [k for k in range(28) if round(k / sqrt(untied * 28), 2) == 0.55] == [15]
    assert [k for k in range(6) if round(k / sqrt(5 * 6), 2) == 0.55] == [3]


@pytest.mark.parametrize(
    ("machine", "tau"), [((0.033, 0.015, 0.019, 0.026), -0.18), ((1.492, 0.528, 0.193, 0.639), 0.18)]
)
def test_the_printed_differences_do_not_give_the_printed_tau(machine, tau):
    first, second = list(printed_fractions().values())[::2], list(printed_fractions().values())[1::2]
    differences = np.round(np.subtract(first, second), 9)
    assert kendall_tau_b(differences, machine).value == pytest.approx(tau, abs=0.005)
