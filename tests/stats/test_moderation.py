"""Moderated means: symmetries, duality, limits that other tests know, and the slow way to the same numbers."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from scipy import stats

from clinometer.stats.moderation import FEWEST_SAMPLES, PRIOR_FREEDOM, difference_tests, mean_tests, moments_of

seeds = st.integers(0, 10_000)


def family(seed: int, samples: int = 12, images: int = 9, share: float = 0.6) -> list[np.ndarray]:
    """Mixtures of two kinds at ±1, blurred; every third leans."""
    rng = np.random.default_rng(seed)
    shares = np.where(np.arange(samples) % 3 == 0, share, 0.5)
    return [np.where(rng.random(images) < s, 1.0, -1.0) + 0.2 * rng.normal(size=images) for s in shares]


def ends(tests, confidence=0.95):
    interval = tests.interval(confidence)
    return interval.low, interval.high


@given(seeds, st.integers(1, 14), st.integers(2, 30), st.floats(-0.5, 0.5), st.floats(0, 0.1))
def test_p_is_below_the_level_exactly_where_the_interval_leaves_out_0(seed, samples, images, offset, other):
    tests = mean_tests(family(seed, samples, images), offset, other, 20)
    for confidence in (0.5, 0.9, 0.95, 0.99):
        low, high = ends(tests, confidence)
        known = np.abs(tests.p_value - (1 - confidence)) > 1e-9
        assert ((tests.p_value < 1 - confidence) == ((low > 0) | (high < 0)))[known].all()
        assert (low <= tests.value).all()
        assert (tests.value <= high).all()


@given(seeds, st.integers(1, 14), st.floats(0.01, 1))
def test_equivalence_is_shown_exactly_where_the_narrower_interval_lies_inside(seed, samples, margin):
    tests = mean_tests(family(seed, samples), 0.0, 0.01, 20)
    low, high = ends(tests, 0.9)
    p = tests.p_outside(margin)
    known = np.abs(p - 0.05) > 1e-9
    assert ((p <= 0.05) == ((-margin < low) & (high < margin)))[known].all()


@given(seeds, st.integers(1, 14))
def test_mirroring_the_samples_mirrors_the_tests(seed, samples):
    forth = mean_tests(family(seed, samples), 0.1, 0.01, 20)
    back = mean_tests([-x for x in family(seed, samples)], -0.1, 0.01, 20)
    np.testing.assert_allclose(back.value, -forth.value)
    np.testing.assert_allclose(back.p_value, forth.p_value, rtol=1e-6)
    np.testing.assert_allclose(back.interval().low, -forth.interval().high, rtol=1e-6, atol=1e-9)


@given(seeds, st.integers(1, 14), st.floats(0.1, 10))
def test_a_change_of_unit_changes_no_p(seed, samples, unit):
    forth = mean_tests(family(seed, samples), 0.1, 0.01, 20)
    back = mean_tests([unit * x for x in family(seed, samples)], unit * 0.1, unit**2 * 0.01, 20)
    np.testing.assert_allclose(back.p_value, forth.p_value, rtol=1e-6)
    np.testing.assert_allclose(back.interval().high, unit * forth.interval().high, rtol=1e-6, atol=1e-9)


@given(seeds, st.integers(1, 14))
def test_the_order_of_samples_and_of_items_is_irrelevant(seed, samples):
    held, rng = family(seed, samples), np.random.default_rng(seed)
    order = rng.permutation(samples)
    forth = mean_tests(held, 0.0, 0.01, 20)
    back = mean_tests([rng.permutation(held[i]) for i in order], 0.0, 0.01, 20)
    np.testing.assert_allclose(back.p_value, forth.p_value[order], rtol=1e-6)


@given(seeds, st.floats(-0.3, 0.3))
def test_an_offset_moves_the_estimate_and_not_the_trend(seed, offset):
    held = family(seed)
    plain, moved = mean_tests(held, 0.0, 0.0, 20), mean_tests(held, offset, 0.0, 20)
    assert moved.trend == plain.trend
    np.testing.assert_allclose(moved.value, plain.value + offset)


def test_small_families_of_many_images_are_judged_by_a_t_test():
    """λ goes to 1 with the images, and with it the variance to the sample's own."""
    rng = np.random.default_rng(0)
    samples = [rng.normal(0.02, 1, 20_000) for _ in range(3)]
    tests, known = mean_tests(samples, 0.0, 0.0, np.inf), stats.ttest_1samp(np.array(samples), 0, axis=1)
    np.testing.assert_allclose(tests.p_value, known.pvalue, rtol=2e-3)
    np.testing.assert_allclose(ends(tests), known.confidence_interval(), rtol=2e-3)


def test_a_family_of_differences_that_is_small_is_judged_by_a_t_test():
    samples = [np.random.default_rng(i).normal(0.5, 1, 6) for i in range(FEWEST_SAMPLES - 1)]
    tests, known = (
        mean_tests(samples, 0.0, 0.0, np.inf),
        stats.ttest_1samp(np.array(samples), 0, axis=1),
    )
    np.testing.assert_allclose(tests.p_value, known.pvalue)
    np.testing.assert_allclose(ends(tests), known.confidence_interval())


def test_unpaired_differences_of_small_families_are_welchs():
    rng = np.random.default_rng(1)
    x, y = ([rng.normal(0, s, n) for _ in range(3)] for s, n in ((1, 7), (2, 11)))
    both = [mean_tests(each, 0.0, 0.0, np.inf) for each in (x, y)]
    found, known = difference_tests(*both), [stats.ttest_ind(b, a, equal_var=False) for a, b in zip(x, y, strict=True)]
    np.testing.assert_allclose(found.p_value, [each.pvalue for each in known])
    np.testing.assert_allclose(found.interval().low, [each.confidence_interval().low for each in known])
    swapped = difference_tests(*both[::-1])
    np.testing.assert_allclose(swapped.value, -found.value)
    np.testing.assert_allclose(swapped.p_value, found.p_value)


def test_two_kinds_are_recognised_and_one_kind_is_not():
    """Sharp mixtures have V(μ) = 1 − μ² in every sample: b2 = −1, the pole's square for b0, nothing beyond."""
    rng = np.random.default_rng(2)
    shares = np.linspace(0.1, 0.9, 30)
    sharp = mean_tests([np.where(rng.random(40) < s, 1.0, -1.0) for s in shares], 0.0, 0.0, np.inf).trend
    assert sharp is not None
    assert (sharp.intercept, sharp.slope, sharp.curvature) == pytest.approx((1, 0, -1), abs=1e-9)
    assert sharp.own_share == 0
    degrees = mean_tests([rng.normal(2 * s - 1, 1, 400) for s in shares], 0.0, 0.0, np.inf).trend
    assert degrees is not None
    assert degrees.intercept == pytest.approx(1, abs=0.2)
    assert degrees.curvature == pytest.approx(0, abs=0.2)


def test_samples_of_different_spread_keep_their_own():
    """Spreads of 1 to 3: what 200 images say of their variance is hardly moderated; what 4 say is."""
    scales = np.linspace(1, 3, 20)
    for images, least, most in ((200, 0.95, 1.0), (4, 0.0, 0.7)):
        rng = np.random.default_rng(3)
        trend = mean_tests([s * rng.normal(size=images) for s in scales], 0.0, 0.0, np.inf).trend
        assert trend is not None
        assert least <= trend.own_share <= most


def test_eight_images_of_one_kind_are_not_certain():
    """Sharp mixtures at parity, one of which shows one kind only: 1 in 128, and p says about that."""
    rng = np.random.default_rng(4)
    samples = [np.ones(8), *(np.where(rng.permutation(8) < 4, 1.0, -1.0) for _ in range(27))]
    tests = mean_tests([x + 1e-3 * rng.normal(size=8) for x in samples], 0.0, 0.0, np.inf)
    assert 1 / 1000 < tests.p_value[0] < 1 / 50
    assert stats.ttest_1samp(samples[0] + 1e-3 * rng.normal(size=8), 0).pvalue < 1e-15


def test_degrees_of_freedom_are_the_samples_and_the_priors():
    tests = mean_tests(family(0), 0.0, 0.0, 20)
    np.testing.assert_allclose(tests.freedom, 8 + PRIOR_FREEDOM)
    assert mean_tests(family(0, samples=3), 0.0, 0.0, 20).freedom == pytest.approx(8)
    with_others = mean_tests(family(0), 0.0, 1e6, 20)
    np.testing.assert_allclose(with_others.freedom, 20, rtol=1e-3)


def test_what_has_no_spread_has_no_p():
    alike = mean_tests([np.full(8, 0.3)] * 9, 0.0, 0.0, np.inf)
    assert np.isnan(alike.p_value).all()
    assert np.isnan(alike.interval().low).all()
    np.testing.assert_allclose(alike.value, 0.3)


@pytest.mark.filterwarnings("error")
@given(seeds, st.integers(FEWEST_SAMPLES, 15), st.integers(3, 8))
@example(9, 11, 8)
def test_a_curve_that_leaves_no_variance_leaves_the_samples_own(seed, samples, images):
    """Next to mixtures of two kinds, images of one kind vary by next to nothing: the curve falls below 0 there."""
    rng = np.random.default_rng(seed)
    shares = rng.random(samples) * rng.integers(0, 2, samples)
    held = [np.where(rng.random(images) < s, 0.1, -0.1) + 1e-3 * rng.normal(size=images) for s in shares]
    tests = mean_tests(held, 0.0, 0.0, np.inf)
    assert (tests.standard_error > 0).all()
    assert np.isfinite([tests.p_value, *ends(tests)]).all()


def test_single_and_missing_images_have_no_interval_and_spoil_no_others():
    held = family(5)
    plain = mean_tests(held, 0.0, 0.01, 20)
    more = mean_tests([*held, np.array([0.2]), np.array([])], 0.0, 0.01, 20)
    np.testing.assert_allclose(more.p_value[:-2], plain.p_value)
    assert np.isnan(more.p_value[-2:]).all()
    assert more.value[-2] == 0.2
    assert np.isnan(more.value[-1])


def test_samples_of_no_numbers_spoil_no_others():
    """An encoder that reads no text has no cosines with words."""
    held = family(5)
    plain, more = (mean_tests(each, 0.0, 0.01, 20) for each in (held, [*held, np.full(9, np.nan)]))
    np.testing.assert_array_equal(more.p_value[:-1], plain.p_value)
    assert np.isnan(more.p_value[-1])
    assert np.isnan(mean_tests([np.full(9, np.nan)] * 12, 0.0, 0.01, 20).p_value).all()


def test_the_share_of_its_own_variance_is_the_slow_count():
    """w from the residuals and from each image's own contribution to them, written out."""
    held = family(6, samples=15, images=12, share=0.9)
    trend = mean_tests(held, 0.0, 0.0, np.inf).trend
    assert trend is not None
    b0, b1, b2 = trend.intercept, trend.slope, trend.curvature
    residuals, sampling = [], []
    for x in held:
        n, m, s2 = len(x), x.mean(), x.var(ddof=1)
        residuals.append(s2 - (b0 + b1 * m + b2 * (m**2 - s2 / n)))
        item = (1 + b2 / n) * ((x - m) ** 2 - np.mean((x - m) ** 2)) - (b1 + 2 * b2 * m) * (x - m)
        sampling.append(np.sum(item**2) / n / (n - 1))
    beyond = np.sum(np.square(residuals)) / (len(held) - (3 if b2 < 0 else 1)) - np.mean(sampling)
    expected = beyond / (beyond + np.mean(sampling)) if beyond > 0 else 0
    assert trend.own_share == pytest.approx(expected, abs=1e-9)


def test_moments_are_those_of_scipy():
    x = np.random.default_rng(7).exponential(size=20)
    found = moments_of([x])
    for order, own in ((2, found.second), (3, found.third), (4, found.fourth)):
        assert own[0] == pytest.approx(stats.moment(x, order))
    assert found.variance[0] == pytest.approx(x.var(ddof=1))


def test_what_is_not_moderated_is_a_t_test_in_a_family_of_any_size():
    samples = list(np.random.default_rng(3).normal(0.2, 1, (12, 9)) * np.arange(1, 13)[:, None])
    found = mean_tests(samples, 0.0, 0.0, np.inf, moderated=False)
    expected = [stats.ttest_1samp(sample, 0.0) for sample in samples]
    assert found.p_value == pytest.approx([each.pvalue for each in expected])
    assert found.interval().low == pytest.approx([each.confidence_interval().low for each in expected])
    assert not np.allclose(mean_tests(samples, 0.0, 0.0, np.inf).p_value, found.p_value)
