"""Fieller's set: the quadratic by brute force, its three shapes, its coverage."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clinometer.errors import Code, InvalidInputError
from clinometer.stats.proportion import fieller_interval
from tests.raising import raises

Z2 = 1.959963984540054**2


@given(st.floats(-3, 3), st.floats(-3, 3), st.floats(0.01, 1), st.floats(0.01, 1), st.floats(-0.9, 0.9))
def test_the_set_is_what_the_inequality_says(x, y, vx, vy, correlation):
    cov = correlation * math.sqrt(vx * vy)
    result = fieller_interval(x, y, variance_numerator=vx, variance_denominator=vy, covariance=cov)
    rho = np.linspace(-20, 20, 801)
    slack = (x - rho * y) ** 2 - Z2 * (vx - 2 * rho * cov + rho**2 * vy)
    sure = np.abs(slack) > 1e-6  # away from the boundary
    if result.shape == "bounded":
        inside = (rho >= result.low) & (rho <= result.high)
    elif result.shape == "excludes":
        inside = (rho <= result.low) | (rho >= result.high)
    else:
        inside = np.ones_like(rho, bool)
    np.testing.assert_array_equal(inside[sure], (slack <= 0)[sure])


@given(st.floats(-3, 3), st.floats(-3, 3), st.floats(0.01, 1), st.floats(0.01, 1))
def test_bounded_exactly_when_the_denominator_is_not_zero(x, y, vx, vy):
    result = fieller_interval(x, y, variance_numerator=vx, variance_denominator=vy)
    assert (result.shape == "bounded") == (y * y > Z2 * vy)
    assert bool(result.reason) == (result.shape != "bounded")


@given(st.floats(0.5, 3), st.floats(1, 3), st.floats(0.01, 0.05), st.floats(0.01, 0.05))
def test_inverting_the_ratio_inverts_the_set_and_signs_mirror_it(x, y, vx, vy):
    forth = fieller_interval(x, y, variance_numerator=vx, variance_denominator=vy)
    back = fieller_interval(y, x, variance_numerator=vy, variance_denominator=vx)
    if forth.shape == back.shape == "bounded" and forth.low > 0:
        assert back.low == pytest.approx(1 / forth.high)
    mirrored = fieller_interval(-x, y, variance_numerator=vx, variance_denominator=vy)
    assert (mirrored.low, mirrored.high) == (pytest.approx(-forth.high), pytest.approx(-forth.low))


def test_fixed_denominator_is_a_plain_interval():
    result = fieller_interval(3, 2, variance_numerator=0.04, variance_denominator=0)
    half = math.sqrt(Z2) * 0.2 / 2
    assert (result.low, result.high) == (pytest.approx(1.5 - half), pytest.approx(1.5 + half))


@pytest.mark.parametrize("name", ["variance_numerator", "variance_denominator"])
def test_a_negative_variance_is_refused(name):
    with raises(InvalidInputError, code=Code.OUT_OF_RANGE, field=name, match="-1"):
        fieller_interval(1, 2, **({"variance_numerator": 1.0, "variance_denominator": 1.0} | {name: -1.0}))


def test_undefined():
    for bad in (
        fieller_interval(1, 0, variance_numerator=1, variance_denominator=0),
        fieller_interval(math.nan, 1, variance_numerator=1, variance_denominator=1),
        fieller_interval(1, 1, variance_numerator=math.nan, variance_denominator=1),
    ):
        assert bad.shape == "undefined"
        assert math.isnan(bad.value)
        assert bad.reason


def test_no_numerator_and_no_spread_is_the_point_zero():
    result = fieller_interval(0, 1, variance_numerator=0, variance_denominator=0.01)
    assert (result.value, result.low, result.high) == (0, 0, 0)


def test_coverage_near_a_zero_denominator():
    rng, n = np.random.default_rng(0), 2000
    x, y = rng.normal(1, 1, n), rng.normal(0.5, 1, n)
    covered = 0
    for a, b in zip(x, y, strict=True):
        s = fieller_interval(a, b, variance_numerator=1, variance_denominator=1)
        covered += {
            "bounded": s.low <= 2 <= s.high, "excludes": s.low >= 2 or s.high <= 2, "unbounded": True
        }[s.shape]  # fmt: skip
    assert covered / n == pytest.approx(0.95, abs=0.02)
