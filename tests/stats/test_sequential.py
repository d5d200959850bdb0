"""Betting e-values: exact expectations and error probabilities by enumeration, duality, invariances."""

from itertools import product

import numpy as np
import pytest

from clinometer.errors import Code, InvalidInputError
from clinometer.stats.sequential import BETS, chance_to_reach, confidence_sequence, e_value, p_value_of
from tests.raising import raises

UNIT = {"low": 0.0, "high": 1.0}
TOSSES = 9


def every_sequence():
    return np.array(list(product([0.0, 1.0], repeat=TOSSES)))


def probability(sequences, p):
    heads = sequences.sum(axis=1)
    return p**heads * (1 - p) ** (sequences.shape[1] - heads)


def slow_capital(values, mean):
    """The definition, bet by bet and toss by toss."""
    fortunes = []
    for bet in BETS:
        fortune = 1.0
        for value in values:
            fortune *= 1 + bet * (value - mean) / mean
        fortunes.append(fortune)
    return sum(fortunes) / len(fortunes)


def test_the_e_value_is_its_definition():
    values = np.random.default_rng(1).random(7)
    greater = e_value(values, 0.4, **UNIT, alternative="greater")
    less = e_value(values, 0.4, **UNIT, alternative="less")
    assert greater == pytest.approx(slow_capital(values, 0.4))
    assert less == pytest.approx(slow_capital(1 - values, 0.6))
    assert e_value(values, 0.4, **UNIT) == pytest.approx((greater + less) / 2)


@pytest.mark.parametrize("mean", [0.1, 0.5, 0.8])
@pytest.mark.parametrize("alternative", ["greater", "less", "two-sided"])
def test_it_expects_one_where_the_hypothesis_is_true(mean, alternative):
    sequences = every_sequence()
    found = [e_value(each, mean, **UNIT, alternative=alternative) for each in sequences]
    assert np.dot(found, probability(sequences, mean)) == pytest.approx(1)


def test_it_expects_less_well_inside_a_one_sided_hypothesis_and_more_outside():
    sequences = every_sequence()
    found = [e_value(each, 0.5, **UNIT, alternative="greater") for each in sequences]
    assert np.dot(found, probability(sequences, 0.3)) < 1 < np.dot(found, probability(sequences, 0.7))


@pytest.mark.parametrize("alpha", [0.05, 0.2])
@pytest.mark.parametrize("mean", [0.3, 0.5])
def test_looking_after_every_toss_errs_no_more_than_it_may(alpha, mean):
    sequences = every_sequence()
    ever = [
        any(e_value(each[:n], mean, **UNIT) >= 1 / alpha for n in range(1, TOSSES + 1)) for each in sequences
    ]  # fmt: skip
    error = np.dot(ever, probability(sequences, mean))
    assert error <= alpha
    if alpha == 0.2:
        assert error > 0  # the check can fail


@pytest.mark.thorough
def test_the_whole_sequence_covers_the_mean_as_often_as_it_says():
    sequences, mean = every_sequence(), 0.35
    sizes = range(2, TOSSES + 1)
    held = []
    for each in sequences:
        bounds = confidence_sequence(each, **UNIT, confidence=0.8, sizes=sizes)
        held.append(bounds.low[-1] <= mean <= bounds.high[-1])  # nested: the last holds if all do
    covered = np.dot(held, probability(sequences, mean))
    assert 0.8 <= covered < 1


def test_a_bound_is_the_mean_whose_one_sided_evidence_is_just_enough():
    values = np.random.default_rng(2).beta(2, 5, 60)
    bounds = confidence_sequence(values, **UNIT, confidence=0.9)
    low, high = float(bounds.low[-1]), float(bounds.high[-1])
    assert e_value(values, low, **UNIT, alternative="greater") == pytest.approx(20, rel=1e-6)
    assert e_value(values, high, **UNIT, alternative="less") == pytest.approx(20, rel=1e-6)
    assert low < values.mean() < high


def test_each_interval_lies_within_the_one_before_it_and_does_not_depend_on_later_data():
    values = np.random.default_rng(3).random(40)
    sizes = [0, 1, 5, 20, 40]
    bounds = confidence_sequence(values, **UNIT, sizes=sizes)
    assert (bounds.low[0], bounds.high[0]) == (0, 1)
    assert (np.diff(bounds.low) >= 0).all()
    assert (np.diff(bounds.high) <= 0).all()
    early = confidence_sequence(values[:20], **UNIT, sizes=sizes[:4])
    np.testing.assert_array_equal(early.low, bounds.low[:4])


def test_order_and_units_do_not_matter_and_mirroring_swaps_the_sides():
    rng = np.random.default_rng(4)
    values = rng.random(30)
    e = e_value(values, 0.6, **UNIT, alternative="greater")
    assert e_value(rng.permutation(values), 0.6, **UNIT, alternative="greater") == pytest.approx(e)
    assert e_value(10 * values - 3, 3.0, low=-3, high=7, alternative="greater") == pytest.approx(e)
    assert e_value(1 - values, 0.4, **UNIT, alternative="less") == pytest.approx(e)


def test_no_data_is_no_evidence_and_an_impossible_mean_is_refuted():
    assert e_value(np.empty(0), 0.5, **UNIT) == 1
    assert e_value(np.array([0.5]), -0.1, **UNIT, alternative="greater") == np.inf
    assert e_value(np.array([0.5]), -0.1, **UNIT, alternative="less") <= 1
    assert e_value(np.array([0.5]), 1.1, **UNIT) == np.inf


def test_a_p_value_is_the_inverse_and_at_most_one():
    assert (p_value_of(0.3), p_value_of(40.0), p_value_of(np.inf)) == (1.0, 0.025, 0.0)
    assert np.isnan(p_value_of(np.nan))


@pytest.mark.parametrize(
    ("values", "options", "field", "message"),
    [
        ([0.5, 1.2], {}, "values", r"0\.0 to 1\.0, found 1\.2"),
        ([0.5, np.nan], {}, "values", "nan"),
        ([0.5], {"low": 1.0, "high": 1.0}, "bounds", r"1\.0 and 1\.0"),
        ([0.5], {"confidence": 1.0}, "confidence", r"1\.0"),
        ([0.5], {"sizes": [2]}, "sizes", r"\[2\]"),
        ([0.5], {"sizes": [1, 1]}, "sizes", r"\[1, 1\]"),
    ],
)
def test_bad_input_is_named(values, options, field, message):
    with raises(InvalidInputError, code=Code.OUT_OF_RANGE, field=field, match=message):
        confidence_sequence(np.array(values), **(UNIT | options))


def test_the_chance_to_reach_is_the_e_value_now_and_about_half_where_it_says_so() -> None:
    rng, bounds = np.random.default_rng(8), {"low": -1.0, "high": 1.0}
    values = np.tile([-0.5, 0.7, 0.7], 10)
    factors, evidence = np.geomspace(1, 50, 200), np.array([5.0, 20.0, 400.0])
    for alternative in ("greater", "less"):
        now = e_value(values, 0.0, **bounds, alternative=alternative) >= evidence
        chances = chance_to_reach(values, 0.0, evidence, factors, **bounds, alternative=alternative)
        assert (chances[0] == now).all()
    chances = chance_to_reach(values, 0.0, evidence, factors, **bounds, alternative="greater")
    n = int(30 * factors[(chances[:, 2] >= 0.5).argmax()])
    drawn = [np.concatenate([values, rng.choice(values, n - 30)]) for _ in range(400)]
    reached = np.mean([e_value(x, 0.0, **bounds, alternative="greater") >= 400 for x in drawn])
    assert reached == pytest.approx(0.5, abs=0.12)


def test_a_mean_beyond_the_bounds_is_refuted_for_certain() -> None:
    values, factors = np.array([0.1, 0.2]), np.array([1.0, 2.0])
    for mean, alternative in ((-1.5, "greater"), (1.5, "less")):
        found = chance_to_reach(values, mean, np.array([20.0]), factors, low=-1, high=1, alternative=alternative)
        assert (found == 1).all()
