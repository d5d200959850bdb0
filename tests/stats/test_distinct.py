"""One picture drawn twice is known as one: by its vectors, whatever the batch did to their last digits."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clinometer.stats.blocks import Blocks, chosen
from clinometer.stats.splits import drawn_once, first_of_each, order_p_value, signatures


def vectors(n, dim=64, seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=dim) + 0.3 * rng.normal(size=(n, dim))


@given(st.lists(st.integers(0, 9), min_size=1, max_size=60), st.integers(0, 3))
def test_the_first_of_each_is_what_a_dictionary_says(drawn, seed):
    firsts = {}
    expected = [firsts.setdefault(picture, place) for place, picture in enumerate(drawn)]
    assert first_of_each([signatures(vectors(10, seed=seed)[drawn])]).tolist() == expected


@pytest.mark.parametrize("copies", [2, 40, 3000])
def test_neither_length_nor_the_last_digits_make_another_picture(copies):
    rng, pictures = np.random.default_rng(1), vectors(20).astype(np.float32)
    drawn = rng.integers(20, size=copies)
    again = pictures[drawn] * rng.uniform(0.5, 2, size=(copies, 1)) + 1e-7 * rng.normal(size=(copies, 64))
    assert first_of_each([signatures(np.concatenate([pictures, again]))])[20:].tolist() == drawn.tolist()


def test_pictures_that_differ_a_little_differ():
    pictures = vectors(2000)
    near = pictures + 1e-3 * np.random.default_rng(2).normal(size=pictures.shape)
    assert len(drawn_once([signatures(np.concatenate([pictures, near]))])[0]) == 4000


def test_what_one_encoder_alone_takes_for_one_is_two():
    one, other = vectors(1)[[0, 0]], vectors(2)
    positions, counts = drawn_once([signatures(one), signatures(other)])
    assert (positions.tolist(), counts.tolist()) == ([0, 1], [1, 1])


def test_counts_add_up_over_what_was_counted_before():
    positions, counts = drawn_once([signatures(vectors(3)[[0, 1, 0, 2]])], np.array([2, 1, 5, 1]))
    assert (positions.tolist(), counts.tolist()) == ([0, 1, 3], [7, 1, 1])


def test_chosen_rows_of_lazy_arrays_are_those_of_the_arrays():
    arrays = [vectors(n, 4) for n in (9, 0, 5)]
    rows = [np.array([0, 3, 4, 8]), None, np.array([2])]
    lazy = Blocks([9, 0, 5], arrays.__getitem__, lambda position, first, stop: arrays[position][first:stop])
    selection, expected = chosen(lazy, rows), chosen(arrays, rows)
    assert all(np.array_equal(x, y) for x, y in zip(selection, expected, strict=True))
    assert np.array_equal(np.concatenate(list(selection.pieces(0, 3))), expected[0])
    assert chosen(arrays, [None] * 3) is arrays


def test_an_order_of_chance_is_told_from_a_cache_that_answers_again():
    rng = np.random.default_rng(3)
    of_chance = [order_p_value([rng.integers(8, size=20) for _ in range(6)], draws=499) for _ in range(200)]
    assert np.mean(np.array(of_chance) <= 0.05) <= 0.05 + 3 * np.sqrt(0.05 * 0.95 / 200)
    assert order_p_value([np.repeat(np.arange(4), 5)] * 2) < 0.01  # five requests in a row get one answer
    assert order_p_value([np.tile(np.arange(4), 5)] * 4) < 0.01  # four answers in turn
    assert np.isnan(order_p_value([np.zeros(20)]))  # one picture has one order
