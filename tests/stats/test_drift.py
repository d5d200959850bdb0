"""Answers asked for again: the bets are fair, the evidence never reaches 20 too often, and a change is found."""

from itertools import product

import numpy as np
import pytest
from scipy.integrate import quad

from clinometer.errors import Code, InvalidInputError
from clinometer.stats.change import _bet, answer_drift
from tests.raising import raises


@pytest.mark.parametrize("p", [1.0, 0.9995, 0.5, 0.01, 1e-9])
def test_a_bet_is_the_mixture_of_all_powers(p):
    assert _bet(p) == pytest.approx(quad(lambda e: e * p ** (e - 1), 0, 1)[0], rel=1e-6)


@pytest.mark.parametrize("rates", [(0.5,), (0.1, 0.5), (0.3, 0.0)])
def test_the_evidence_is_1_or_less_on_average(rates):
    """Over all tables of four rounds, each as likely as its independent answers make it."""
    expected = np.zeros(4)
    for flat in product((0.0, 1.0), repeat=4 * len(rates)):
        table = np.reshape(flat, (4, len(rates)))
        chance = np.where(table == 1, rates, 1 - np.array(rates)).prod()
        if chance:
            expected += chance * answer_drift(table).evidence
    assert (expected <= 1 + 1e-9).all()


def test_p_is_that_of_the_last_round_among_those_of_each_unit():
    """One of two units differs in round 3 of 3 for the first time, the other in every round: p = 1/3."""
    assert answer_drift(np.array([[0, 1], [0, 1], [1, 1.0]])).p == pytest.approx([1, 1, 1 / 3])


def test_the_order_of_the_units_and_units_without_answers_change_nothing():
    rng = np.random.default_rng(0)
    table = (rng.random((12, 5)) < 0.3).astype(float)
    found = answer_drift(table)
    silent = np.full((12, 1), np.nan)
    assert answer_drift(np.hstack([table[:, ::-1], silent])).evidence == pytest.approx(found.evidence)


def test_a_change_is_found_where_it_is():
    table = (np.random.default_rng(1).random((40, 8)) < 0.05).astype(float)
    assert answer_drift(table).p_value > 0.05
    table[25:, :4] = 1 - table[25:, :4]
    found = answer_drift(table)
    assert (found.since, found.p_value < 0.01) == (25, True)
    assert (found.before, found.after) == (pytest.approx(table[:25].mean()), pytest.approx(table[25:].mean()))


def test_a_thousand_units_that_all_change_are_more_than_enough():
    assert answer_drift(np.repeat([[0.0], [1.0]], [20, 3], axis=0) * np.ones(1000)).p_value < 1e-12


@pytest.mark.parametrize("wrong", [np.zeros(3), np.full((2, 2), 0.5)])
def test_what_is_no_table_is_refused(wrong):
    with raises(InvalidInputError, code=Code.WRONG_SHAPE, field="differs"):
        answer_drift(wrong)


def test_nothing_asked_is_no_evidence():
    found = answer_drift(np.zeros((0, 0)))
    assert (found.p_value, len(found.evidence), np.isnan(found.after)) == (1.0, 0, True)
