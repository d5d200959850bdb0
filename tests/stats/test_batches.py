"""Pictures of one batch are one draw; and where nobody knows of batches, their order may tell."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clinometer.stats.bootstrap import rao_wu_weights
from clinometer.stats.dependence import batch_correlation, by_batch, by_picture, draw_order, independent_answers, linked


@given(st.integers(2, 30), st.integers(1, 4), st.integers(0, 9))
def test_batches_of_equal_pictures_are_a_sample_of_their_pictures(n, times, seed):
    """Each value ``times`` over, as batches: the same sample, whatever the order."""
    rng = np.random.default_rng(seed)
    x, order = rng.normal(size=(n, 2)), rng.permutation(n * times)
    values, labels = np.repeat(x, times, axis=0)[order], np.repeat(np.arange(n), times)[order]
    assert np.allclose(by_batch(values, labels), x)
    assert by_batch(values, None) is values


@given(st.lists(st.integers(0, 4), min_size=2, max_size=30), st.integers(0, 9))
def test_batches_of_any_sizes_have_the_mean_of_all_pictures(labels, seed):
    x = np.random.default_rng(seed).normal(size=(len(labels), 3))
    z = by_batch(x, np.array(labels))
    assert len(z) == len(set(labels))
    assert np.allclose(z.mean(axis=0), x.mean(axis=0))
    assert np.allclose(by_batch(x + 1, np.array(labels)), z + 1)
    assert np.allclose(by_batch(x, np.arange(len(labels))), x)


@given(st.lists(st.integers(0, 4), min_size=4, max_size=20).filter(lambda own: len(set(own)) > 1), st.integers(0, 9))
def test_weights_of_batches_are_weights_of_their_pictures(labels, seed):
    rng, labels = np.random.default_rng(seed), np.array(labels)
    x, weights = rng.normal(size=len(labels)), rao_wu_weights([len(set(labels))], 20, rng)
    of_pictures = by_picture(weights, labels)
    assert np.allclose(of_pictures.sum(axis=1), 1, atol=1e-5)
    assert np.allclose(of_pictures @ x, weights @ by_batch(x, labels), atol=1e-5)


def test_linked_batches_are_those_that_a_picture_joins():
    assert linked([np.array([0, 0, 1, 2, 3]), np.array([5, 6, 6, 7, 8])]).tolist() == [0, 0, 0, 1, 2]


def test_answers_of_batches_are_as_many_as_their_spread_says():
    kinds = np.repeat([True, False], 10)
    assert independent_answers(kinds, None) == 20
    assert independent_answers(kinds, np.arange(20) // 4) == pytest.approx(5, abs=1)
    assert independent_answers(np.tile([True, False], 10), np.arange(20) // 2) == 20
    assert independent_answers(np.ones(20, bool), np.arange(20) // 4) == 5
    assert independent_answers(kinds[:0], None) == 0


def kinds(rng, n, size, *, share=0.5, noise=0.2):
    shown = np.repeat(np.where(rng.random(-(-n // size)) < share, 1.0, -1.0), size)[:n]
    return (shown + noise * rng.normal(size=n))[:, None]


def test_the_correlation_within_batches_is_that_of_their_kinds():
    rng = np.random.default_rng(1)
    values, labels = [kinds(rng, 400, 4, noise=1.0) for _ in range(20)], [np.arange(400) // 4] * 20
    assert batch_correlation(values, labels) == pytest.approx(0.5, abs=0.05)
    assert batch_correlation([x[rng.permutation(400)] for x in values], labels) == pytest.approx(0, abs=0.02)
    assert np.isnan(batch_correlation(values, [np.arange(400)] * 20))


@pytest.mark.thorough
def test_an_order_of_chance_is_told_from_batches():
    rng, found = np.random.default_rng(2), {}
    for size in (1, 2, 4):
        orders = [draw_order([kinds(rng, 20, size) for _ in range(3)], [np.arange(20)] * 3) for _ in range(100)]
        found[size] = np.mean([order.in_batches for order in orders])
    assert found[1] <= 0.05 + 3 * np.sqrt(0.05 * 0.95 / 100)
    assert min(found[2], found[4]) >= 0.97


def test_batches_are_found_by_their_size_and_where_they_begin():
    rng = np.random.default_rng(3)
    values = [np.roll(kinds(rng, 120, 4), -1, axis=0) for _ in range(6)]
    order = draw_order(values, [np.arange(120)] * 6)
    assert (order.size, order.phase, order.in_batches) == (4, 1, True)
    assert order.correlation == pytest.approx(1 / (1 + 0.2**2), abs=0.1)
    assert np.array_equal(order.labels(np.arange(9)), [0, 0, 0, 1, 1, 1, 1, 2, 2])
    some = np.sort(rng.choice(120, 90, replace=False))
    assert draw_order([x[some] for x in values], [some] * 6).size == 4  # by the places that they were drawn at


def test_a_list_sorted_by_what_it_shows_says_nothing_of_batches():
    rng = np.random.default_rng(4)
    values = [np.sort(kinds(rng, 60, 1), axis=0) * 0 + np.sort(np.sign(kinds(rng, 60, 1)), axis=0) for _ in range(3)]
    order = draw_order([x + 0.1 * rng.normal(size=x.shape) for x in values], [np.arange(60)] * 3)
    assert (order.is_listed, order.in_batches) == (True, False)


@pytest.mark.parametrize("values", [[], [np.zeros((20, 1))], [np.ones((3, 1))], [np.full((9, 1), np.nan)]])
def test_where_nothing_can_tell_p_is_unknown(values):
    order = draw_order(values, [np.arange(len(x)) for x in values])
    assert np.isnan(order.p)
    assert not order.in_batches
