"""One picture drawn twice is known as one: by its vectors, whatever the batch did to their last digits."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clinometer.stats.blocks import Blocks, chosen
from clinometer.stats.dependence import drawn_once, first_of_each, order_p_value, sketches


def vectors(n, dim=64, seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=dim) + 0.3 * rng.normal(size=(n, dim))


@given(st.lists(st.integers(0, 9), min_size=1, max_size=60), st.integers(0, 3))
def test_the_first_of_each_is_what_a_dictionary_says(drawn, seed):
    firsts = {}
    expected = [firsts.setdefault(picture, place) for place, picture in enumerate(drawn)]
    assert first_of_each([sketches(vectors(10, seed=seed)[drawn])]).tolist() == expected


@pytest.mark.parametrize("copies", [2, 40, 3000])
def test_neither_length_nor_the_last_digits_make_another_picture(copies):
    rng, pictures = np.random.default_rng(1), vectors(20).astype(np.float32)
    drawn = rng.integers(20, size=copies)
    again = pictures[drawn] * rng.uniform(0.5, 2, size=(copies, 1)) + 1e-7 * rng.normal(size=(copies, 64))
    assert first_of_each([sketches(np.concatenate([pictures, again]))])[20:].tolist() == drawn.tolist()


@pytest.mark.parametrize("n", [20, 300, 2500])
def test_pictures_that_were_saved_again_are_one_and_others_are_not(n):
    pictures = vectors(n)
    again = pictures + 1e-3 * np.random.default_rng(2).normal(size=pictures.shape)
    positions, counts = drawn_once([sketches(np.concatenate([pictures, again]))])
    assert (positions.tolist(), set(counts.tolist())) == (list(range(n)), {2})


@pytest.mark.parametrize(("cosine", "dim"), [(0.99, 16), (0.999, 16), (0.999, 64), (0.999, 512)])
@pytest.mark.parametrize("kinds", [1, 2])
def test_pictures_of_a_model_that_draws_alike_are_not_joined(cosine, dim, kinds):
    rng = np.random.default_rng(dim)
    base, towards = np.linalg.qr(rng.normal(size=(dim, 2)))[0].T
    x = base + np.sqrt((1 / cosine - 1) / dim) * rng.normal(size=(200, dim))
    x += np.where(rng.random(200) < 0.5, 0.3, -0.3)[:, None] * towards * (kinds - 1)
    assert len(drawn_once([sketches(x)])[0]) >= 199


def test_pictures_that_vary_in_two_ways_are_not_chained_together():
    """Of a thousand pictures on a plane each has a neighbour nearer than a picture that was saved again."""
    x = np.concatenate([np.ones((1000, 1)), 0.1 * np.random.default_rng(0).normal(size=(1000, 2))], axis=1)
    assert len(drawn_once([sketches(x)])[0]) >= 995


def test_how_far_saving_again_moves_a_vector_is_what_was_measured():
    rng, pictures = np.random.default_rng(3), vectors(30)
    seen = sketches(np.concatenate([pictures, pictures + 0.02 * np.linalg.norm(pictures[0]) * unit(rng, 30)]))
    assert [len(drawn_once([seen], within=[limit])[0]) for limit in (1e-4, 0.01, 0.05)] == [60, 60, 30]


def unit(rng, n, dim=64):
    x = rng.normal(size=(n, dim))
    return x / np.linalg.norm(x, axis=1, keepdims=True)


def test_what_one_encoder_alone_takes_for_one_is_two():
    one, other = vectors(1)[[0, 0]], vectors(2)
    positions, counts = drawn_once([sketches(one), sketches(other)])
    assert (positions.tolist(), counts.tolist()) == ([0, 1], [1, 1])


def test_counts_add_up_over_what_was_counted_before():
    positions, counts = drawn_once([sketches(vectors(3)[[0, 1, 0, 2]])], np.array([2, 1, 5, 1]))
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
