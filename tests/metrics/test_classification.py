"""Choices between classes, and what follows from them, against slow oracles and hand-made cases."""

from math import isnan

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clinometer.errors import Code, InvalidInputError
from clinometer.metrics.classification import choice_association, image_associations, pairwise_wins
from tests.raising import raises

SEEDS = st.integers(0, 2**32 - 1)


def errors(rng, images=5, classes=3):
    return rng.random((images, classes))


def slow_association(wins):
    """The mean of means, one loop a sum."""
    per_image = []
    for image in wins:
        decided = [choice for row in image for choice in row if not isnan(choice)]
        if decided:
            per_image.append(sum(decided) / len(decided))
    return sum(per_image) / len(per_image) if per_image else float("nan")


@given(SEEDS)
def test_it_is_the_mean_of_means(seed):
    rng = np.random.default_rng(seed)
    wins = rng.choice([0, 0.5, 1, np.nan], (4, 3, 2), p=[0.4, 0.1, 0.4, 0.1])
    assert choice_association(wins) == pytest.approx(slow_association(wins), nan_ok=True)
    whole = rng.integers(0, 2, (6, 5, 4))
    assert choice_association(whole) == pytest.approx(whole.mean())
    assert choice_association(whole.astype(bool)) == choice_association(whole)


@given(SEEDS)
def test_swapping_the_sets_gives_the_complement(seed):
    rng = np.random.default_rng(seed)
    a, b = errors(rng, classes=3), errors(rng, classes=4)
    forth, back = pairwise_wins(a, b), pairwise_wins(b, a)
    assert np.array_equal(forth, 1 - back.transpose(0, 2, 1))
    assert choice_association(forth) == pytest.approx(1 - choice_association(back))


@given(SEEDS)
def test_only_the_order_of_the_errors_matters(seed):
    rng = np.random.default_rng(seed)
    a, b = errors(rng), errors(rng)
    shift = rng.random((5, 1))
    assert np.array_equal(pairwise_wins(a + shift, b + shift), pairwise_wins(a, b))
    assert np.array_equal(pairwise_wins(a**3 * 7, b**3 * 7), pairwise_wins(a, b))


@given(SEEDS)
def test_order_and_repetition_of_images_and_classes_do_not_matter(seed):
    rng = np.random.default_rng(seed)
    wins = pairwise_wins(errors(rng), errors(rng))
    expected = choice_association(wins)
    assert choice_association(wins[rng.permutation(5)]) == pytest.approx(expected)
    assert choice_association(wins[:, ::-1, ::-1]) == pytest.approx(expected)
    assert choice_association(np.concatenate([wins, wins])) == pytest.approx(expected)


def test_a_pair_is_decided_as_if_it_were_alone():
    rng = np.random.default_rng(3)
    a, b = errors(rng), errors(rng)
    together = pairwise_wins(a, b)
    for i in range(3):
        for j in range(3):
            assert np.array_equal(pairwise_wins(a[:, [i]], b[:, [j]])[:, 0, 0], together[:, i, j])


def test_ties_are_halves_within_the_tolerance():
    assert pairwise_wins([[1.0]], [[1.0]]).item() == 0.5
    assert pairwise_wins([[1.0]], [[1.0 + 1e-7]]).item() == 1.0
    assert pairwise_wins([[1.0]], [[1.0 + 1e-7]], tolerance=1e-6).item() == 0.5
    assert pairwise_wins([[1.0]], [[1.1]], tolerance=1e-6).item() == 1.0


def test_the_undecided_is_left_out_and_nothing_is_nan():
    wins = pairwise_wins([[0.1, np.nan], [np.nan, np.nan]], [[0.2], [0.3]])
    assert np.isnan(wins[1]).all()
    assert np.isnan(wins[0, 1, 0])
    assert choice_association(wins) == 1.0
    assert np.array_equal(image_associations(wins), [1.0, np.nan], equal_nan=True)
    assert isnan(choice_association(wins[1:]))
    assert isnan(choice_association(np.zeros((0, 2, 2))))


@pytest.mark.parametrize(
    ("wins", "code", "message"),
    [
        (np.zeros((2, 2)), Code.WRONG_SHAPE, r"wins: expected \(images × \|A\| × \|B\|\)"),
        (np.zeros((2, 0, 2)), Code.WRONG_SHAPE, r"wins: expected \(images × \|A\| × \|B\|\)"),
        (np.full((1, 1, 1), 2.0), Code.OUT_OF_RANGE, "0 for b"),
        (np.full((1, 1, 1), -1.0), Code.OUT_OF_RANGE, "0 for b"),
    ],
)
def test_choices_that_are_none(wins, code, message):
    with raises(InvalidInputError, code=code, field="wins", match=message):
        choice_association(wins)


def test_errors_of_different_images():
    with raises(InvalidInputError, code=Code.WRONG_SHAPE, field=("errors_a", "errors_b")):
        pairwise_wins(np.zeros((2, 3)), np.zeros((3, 3)))
