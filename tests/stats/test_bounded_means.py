"""Means between bounds: symmetries, duality, the test of a share that it contains, and the slow way to the same."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from clinometer.stats.bounded_means import bounded_means
from clinometer.stats.multiplicity import benjamini_hochberg

seeds = st.integers(0, 10_000)
sizes = st.integers(2, 30)


def family(seed, samples=5, images=9):
    """Two kinds, three kinds, skewed and continuous scores in turn."""
    rng = np.random.default_rng(seed)
    kinds = (
        lambda n: rng.choice([-1.0, 1.0], n),
        lambda n: rng.choice([0.9, -0.3, 0.0], n),
        lambda n: 0.5 * rng.exponential(1, n) - 0.5,
        lambda n: 0.4 * rng.normal(size=n),
    )
    return [kinds[t % 4](images) for t in range(samples)]


def ends(tests, confidence=0.95):
    interval = tests.interval(confidence)
    return interval.low, interval.high


@given(seeds, sizes, st.floats(-0.5, 0.5), st.floats(1e-6, 0.1))
def test_p_is_below_the_level_exactly_where_the_interval_leaves_out_0(seed, images, offset, other):
    tests = bounded_means(family(seed, images=images), (-1, 1), offset, other, 20)
    for confidence in (0.5, 0.9, 0.95, 0.99):
        low, high = ends(tests, confidence)
        known = np.abs(tests.p_value - (1 - confidence)) > 1e-8
        assert ((tests.p_value < 1 - confidence) == ((low > 0) | (high < 0)))[known].all()
        assert ((low <= tests.value) & (tests.value <= high)).all()


@given(seeds, sizes, st.floats(0.01, 1))
def test_equivalence_is_shown_exactly_where_the_narrower_interval_lies_inside(seed, images, margin):
    tests = bounded_means(family(seed, images=images), (-1, 1), 0.0, 0.001, 20)
    low, high = ends(tests, 0.9)
    p = tests.p_outside(margin)
    known = np.abs(p - 0.05) > 1e-8
    assert ((p <= 0.05) == ((-margin < low) & (high < margin)))[known].all()


@given(seeds, sizes, st.floats(0.1, 10))
def test_mirroring_and_a_change_of_unit_move_nothing_else(seed, images, unit):
    samples = family(seed, images=images)
    forth = bounded_means(samples, (-1, 1.2), 0.1, 0.01, 20)
    back = bounded_means([-unit * x for x in samples], (-1.2 * unit, unit), -0.1 * unit, 0.01 * unit**2, 20)
    np.testing.assert_allclose(back.p_value, forth.p_value, rtol=1e-6)
    np.testing.assert_allclose(back.interval().low, -unit * forth.interval().high, rtol=1e-6, atol=1e-8 * unit)


@given(seeds, st.permutations(range(5)))
def test_a_sample_does_not_depend_on_the_others_nor_on_its_order(seed, order):
    samples = [x[: 4 + t] for t, x in enumerate(family(seed))]
    together = bounded_means(samples, (-1, 1), 0.0, 0.01, 20)
    shuffled = bounded_means([samples[t][::-1] for t in order], (-1, 1), 0.0, 0.01, 20)
    np.testing.assert_allclose(shuffled.p_value, together.p_value[list(order)], rtol=1e-9)
    for t, x in enumerate(samples):
        alone = bounded_means([x], (-1, 1), 0.0, 0.01, 20)
        np.testing.assert_allclose(alone.interval().high, together.interval().high[t], rtol=1e-8, atol=1e-9)


@given(seeds, sizes, st.floats(0.05, 3))
def test_wider_bounds_and_more_noise_widen_the_interval(seed, images, more):
    samples = family(seed, images=images)
    low, high = ends(bounded_means(samples, (-1, 1), 0.0, 0.001, 20))
    for wider in (
        bounded_means(samples, (-1 - more, 1 + more), 0.0, 0.001, 20),
        bounded_means(samples, (-1, 1), 0.0, 0.001, 20).with_other(np.full(5, 0.01 * more), np.inf),
    ):
        assert (ends(wider)[0] <= low + 1e-9).all()
        assert (ends(wider)[1] >= high - 1e-9).all()


@pytest.mark.parametrize("n", [5, 10, 20, 60, 200])
def test_of_two_kinds_it_is_the_test_of_clopper_and_pearson(n):
    counts = np.unique(np.linspace(1, n - 1, 9).astype(int))
    tests = bounded_means([np.repeat([1.0, -1.0], [k, n - k]) for k in counts], (-1, 1), 0.0, 0.0, np.inf)
    np.testing.assert_allclose(tests.p_value, [stats.binomtest(int(k), n).pvalue for k in counts], rtol=0.05)
    exact = [stats.binomtest(int(k), n).proportion_ci() for k in counts]
    low, high = ends(tests)
    np.testing.assert_allclose(low, [2 * e.low - 1 for e in exact], atol=0.01)
    np.testing.assert_allclose(high, [2 * e.high - 1 for e in exact], atol=0.01)


@pytest.mark.parametrize("t", range(4))
def test_the_interval_is_that_of_weights_drawn_at_random(t):
    """The slow way: a hundred thousand Dirichlet weights."""
    sample, rng = family(3, 4, 12)[t], np.random.default_rng(0)
    noise = 0.05 * rng.normal(size=200_000)
    found = ends(bounded_means([sample], (-1.1, 1.1), 0.2, 0.05**2, np.inf))
    for end, bound, level in ((0, -1.1, 0.025), (1, 1.1, 0.975)):
        items = np.append(sample, min(bound, sample.min()) if bound < 0 else max(bound, sample.max())) + 0.2
        weighed = rng.dirichlet(np.ones(len(items)), 200_000) @ items + noise
        assert found[end][0] == pytest.approx(np.quantile(weighed, level), abs=0.01)


def test_large_samples_are_tested_as_by_student():
    samples = [np.random.default_rng(t).normal(0.02, 0.3, 5_000) for t in range(6)]
    tests = bounded_means(samples, (-1, 1), 0.0, 0.0, np.inf)
    expected = [stats.ttest_1samp(x, 0).pvalue for x in samples]
    np.testing.assert_allclose(tests.p_value, expected, rtol=0.1, atol=1e-4)


def test_what_does_not_vary_or_is_not_there_has_no_p():
    samples = [np.full(8, 0.3), np.array([0.2]), np.array([])]
    tests = bounded_means(samples, (-1, 1), 0.0, 0.0, np.inf)
    assert np.isnan(tests.p_value).all()
    assert np.isnan([tests.interval().low, tests.interval().high]).all()
    assert np.isfinite(bounded_means(samples[:1], (-1, 1), 0.0, 0.01, 20).p_value).all()


@pytest.mark.parametrize("concepts", [1, 7, 28])
def test_concepts_at_parity_are_seldom_called_leaning_however_skewed(concepts):
    """A rare kind, three kinds and exponential scores: Student's t calls a run leaning in 12 to 100 of 100 here."""
    rng = np.random.default_rng(4)
    populations = (
        lambda shape: np.where(rng.random(shape) < 0.1, 0.9, -0.1),
        lambda shape: rng.choice([0.3, -0.1, 0.0], shape, p=[0.2, 0.6, 0.2]),
        lambda shape: rng.exponential(1, shape) - 1,
    )
    for draw, bounds in zip(populations, ((-0.9, 0.9), (-0.2, 0.2), (-2, 2)), strict=True):
        samples = list(draw((150 * concepts, 20)))
        p = bounded_means(samples, bounds, 0.0, 0.0, np.inf).p_value.reshape(150, concepts)
        assert np.mean([(benjamini_hochberg(own) <= 0.05).any() for own in p]) <= 0.09


def test_hard_samples_have_finite_answers():
    """Two items, ties with the bounds, items far beyond them, items of next to no spread, and a wide noise."""
    rng = np.random.default_rng(0)
    samples = [
        np.array([0.1, 0.4]), np.array([1.0, -1.0]), np.repeat([1.0, -1.0], [9, 1]), np.full(10, 1.0),
        np.append(np.zeros(19), 1e6), 1e-7 * rng.normal(size=30), rng.normal(0.9, 0.01, 2_000),
    ]  # fmt: skip
    for other, freedom in ((1e-12, 3), (0.01, 1), (1e6, 2)):
        tests = bounded_means(samples, (-1, 1), 0.0, other, freedom)
        low, high = ends(tests)
        usable = np.isfinite(tests.p_value)
        assert usable[other > 1e-10 or slice(0, 5)].all()
        assert ((low <= tests.value) & (tests.value <= high))[usable].all()
        assert ((tests.p_value >= 0) & (tests.p_value <= 1))[usable].all()
        assert ((tests.p_value < 0.05) == ((low > 0) | (high < 0)))[usable].all()
