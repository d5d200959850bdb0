"""Moderated variances: limits, algebra, and what they are for."""

from __future__ import annotations

from math import inf

import numpy as np
import pytest
from scipy.stats import t as student

from clinometer.stats.moderation import Prior, moderate, prior_of


def test_one_scale_moves_the_prior_and_nothing_else():
    rng = np.random.default_rng(0)
    s2, d = rng.chisquare(7, 40) / 7 * rng.choice([0.3, 2], 40), np.full(40, 7.0)
    one, other = prior_of(s2, d), prior_of(9 * s2, d)
    assert other.freedom == pytest.approx(one.freedom)
    assert other.variance == pytest.approx(9 * one.variance)


def test_moderated_variances_lie_between_their_own_and_the_common_one():
    s2, d = np.array([0.5, 1.0, 4.0, np.nan]), np.array([7.0, 7.0, 7.0, 0.0])
    found, freedom = moderate(s2, d, Prior(2.0, 3.0))
    np.testing.assert_allclose(found, [(6 + 7 * v) / 10 for v in s2])
    np.testing.assert_allclose(freedom, [10, 10, 10, np.nan])
    own, _ = moderate(s2, d, Prior(2.0, 0.0))
    np.testing.assert_allclose(own, s2)
    alike, freedom = moderate(s2, d, Prior(2.0, inf))
    np.testing.assert_allclose(alike, [2, 2, 2, np.nan])
    assert freedom[0] == 21  # no more than all samples together have


def test_alike_variances_are_pooled_and_scattered_ones_are_not():
    rng, d = np.random.default_rng(1), np.full(400, 7.0)
    assert prior_of(rng.chisquare(7, 400) / 7, d).freedom > 50
    scattered = prior_of(rng.chisquare(7, 400) / 7 * 4 / rng.chisquare(4, 400), d)
    assert scattered.freedom == pytest.approx(4, rel=0.4)


def test_a_sample_without_spread_has_a_variance_and_one_alone_has_its_own():
    s2, d = np.array([0.0, 1.0, 1.1, 0.9]), np.full(4, 7.0)
    found, _ = moderate(s2, d, prior_of(s2, d))
    assert found[0] > 0
    assert prior_of(s2[1:2], d[1:2]) == Prior(0.0, 0.0)
    assert prior_of(np.zeros(3), d[:3]) == Prior(0.0, 0.0)


def test_of_four_images_the_moderated_t_holds_its_level():
    rng, p = np.random.default_rng(2), []
    for _ in range(300):
        x = rng.normal(size=(28, 4)) * np.sqrt(rng.uniform(0.5, 2, (28, 1)))
        s2, d = x.var(axis=1, ddof=1), np.full(28, 3.0)
        variance, freedom = moderate(s2, d, prior_of(s2, d))
        p.append(2 * student.sf(np.abs(x.mean(axis=1)) / np.sqrt(variance / 4), freedom))
    assert np.mean(np.array(p) <= 0.05) == pytest.approx(0.05, abs=0.01)
