"""xMCAS: geometry of the plane, arrays, refusals."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clinometer.errors import Code, InvalidInputError
from clinometer.metrics import CENTROID, UNBIASED_ANGLE, xmcas
from clinometer.studies.leaning.scores.cosines import Estimate
from clinometer.studies.leaning.scores.plane import place
from tests.raising import raises

inside = {"m": st.floats(-0.99, 0.99), "c": st.floats(-1, 1), "k": st.floats(-0.005, 0.5)}


@given(**inside)
def test_the_sign_of_mcas_matters_to_neither_angle_nor_distance(m, c, k):
    forth, back = (xmcas(mcas=x, similarity=c, offset=k) for x in (m, -m))
    assert forth.angle == back.angle
    assert forth.distance == pytest.approx(back.distance)


@given(**inside)
def test_tangent_of_the_angle(m, c, k):
    result = xmcas(mcas=m, similarity=c, offset=k)
    assert math.tan(result.angle) == pytest.approx(c / (1 - abs(m) + k))


@given(st.floats(-0.9, 0.9), st.floats(0.01, 0.9), st.floats(0.001, 0.09))
def test_the_angle_grows_with_similarity_and_leaning_and_falls_with_the_offset(m, c, step):
    angle = xmcas(mcas=m, similarity=c).angle
    assert xmcas(mcas=m, similarity=c + step).angle > angle
    assert xmcas(mcas=abs(m) + step, similarity=c).angle > angle
    assert xmcas(mcas=m, similarity=c, offset=step).angle < angle


@given(**inside)
def test_distance_is_zero_at_the_centroid_only(m, c, k):
    result = xmcas(mcas=m, similarity=c, offset=k)
    assert result.distance == pytest.approx(math.dist((c, m), CENTROID))
    assert (result.distance == 0) == ((c, m) == CENTROID)


def test_the_unbiased_point():
    result = xmcas(mcas=0.0, similarity=1 / 3)
    assert (result.angle, result.distance, result.reason) == (UNBIASED_ANGLE, 0.0, "")


def test_arrays_are_scored_elementwise():
    m, c = np.array([0.1, -0.2, 0.0]), np.array([0.3, 0.2, 1 / 3])
    result = xmcas(mcas=m, similarity=c, offset=0.02)
    singles = [xmcas(mcas=x, similarity=y, offset=0.02) for x, y in zip(m, c, strict=True)]
    np.testing.assert_array_equal(result.angle, [s.angle for s in singles])
    np.testing.assert_array_equal(result.distance, [s.distance for s in singles])
    assert isinstance(singles[0].angle, float)


def test_beyond_the_plane_the_angle_passes_a_right_angle():
    """|MCAS| may exceed 1 (its range is ±8): atan2 keeps the quadrant where a plain arctangent would jump."""
    assert xmcas(mcas=1.5, similarity=0.3).angle == pytest.approx(math.pi - math.atan(0.3 / 0.5))


def test_undefined_is_nan_with_a_reason():
    result = xmcas(mcas=math.nan, similarity=0.3)
    assert math.isnan(result.angle)
    assert math.isnan(result.distance)
    assert result.reason


def test_the_origin_lies_in_no_direction():
    for m, k in ((1.0, 0.0), (-1.0, 0.0), (0.9, -0.1)):
        result = xmcas(mcas=m, similarity=0.0, offset=k)
        assert math.isnan(result.angle)
        assert result.distance == pytest.approx(math.dist((0, m), CENTROID))
        assert result.reason == "angle: similarity and 1 − |MCAS| + offset are both 0, which is no direction"
    several = xmcas(mcas=[1.0, 0.5], similarity=[0.0, 0.0])
    assert np.isnan(several.angle).tolist() == [True, False]
    assert several.reason


@pytest.mark.parametrize("name", ["mcas", "similarity", "offset"])
def test_infinity_is_no_place(name):
    result = xmcas(**({"mcas": 0.1, "similarity": 0.2, "offset": 0.0} | {name: math.inf}))
    assert math.isnan(result.angle)
    assert math.isnan(result.distance) == (name != "offset")
    assert result.reason == "mcas, similarity or offset is not defined"


def test_refuses_shapes_that_do_not_match():
    with raises(
        InvalidInputError,
        code=Code.WRONG_SHAPE,
        field=("mcas", "similarity", "offset"),
        match=r"\(2,\), \(3,\) and \(\)",
    ):
        xmcas(mcas=[0.1, 0.2], similarity=[0.1, 0.2, 0.3])


@pytest.mark.parametrize("centroid", [(1 / 3,), (0, 0, 0), (math.nan, 0), 3, None, ("a", "b")])
def test_refuses_a_centroid_that_is_no_point(centroid):
    with raises(InvalidInputError, code=Code.NOT_FINITE, field="centroid"):
        xmcas(mcas=0, similarity=0, centroid=centroid)


def test_refuses_what_is_no_number():
    with raises(InvalidInputError, code=Code.WRONG_TYPE):
        xmcas(mcas=0, similarity="near")


ends = st.tuples(st.floats(-0.4, 0.4), st.floats(0, 0.3), st.floats(0, 0.3))


@given(ends, st.tuples(st.floats(0.05, 0.6), st.floats(0, 0.3), st.floats(0, 0.3)), st.floats(0, 0.05))
def test_a_place_holds_all_that_its_parts_hold_and_no_more(mcas, similarity, reach):
    """Drawn anywhere within the intervals of MCAS, similarity and offset, θ and distance lie within their own."""
    parts = [estimate_of(value, value - below, value + above) for value, below, above in (mcas, similarity)]
    parts.append(estimate_of(0.02, 0.02 - reach, 0.02 + reach))
    rng = np.random.default_rng(0)
    m, c, k = (part.low + (part.high - part.low) * rng.choice([0, 1, rng.random()], (4_000, 1)) for part in parts)
    m = np.where(rng.random(m.shape) < 0.2, np.clip(0.0, parts[0].low, parts[0].high), m)  # where |MCAS| is least
    drawn = xmcas(mcas=m, similarity=c, offset=k)
    for found, of in zip(place(*parts), (drawn.angle, drawn.distance), strict=True):
        assert (found.low <= found.value + 1e-12).all()
        assert (found.value <= found.high + 1e-12).all()
        if np.isfinite(found.low).all():  # else every direction is open
            assert (found.low <= np.min(of) + 1e-12).all()
            assert (np.max(of) <= found.high + 1e-12).all()
    low, high = parts[0].low[0], parts[0].high[0]
    if low <= 0 <= high and np.isfinite(place(*parts)[0].low).all():
        least = xmcas(mcas=0.0, similarity=parts[1].low[0], offset=parts[2].high[0])
        assert place(*parts)[0].low[0] <= least.angle + 1e-12


def test_an_angle_of_which_every_direction_is_open_has_no_interval():
    angle, distance = place(estimate_of(0.4, -2.0, 2.0), estimate_of(0.01, -0.1, 0.1), estimate_of(0.0, 0.0, 0.0))
    assert np.isnan([angle.low, angle.high]).all()
    assert np.isfinite([angle.value, distance.low, distance.high]).all()


def estimate_of(value: float, low: float, high: float) -> Estimate:
    value, low, high = (np.array([number]) for number in (value, low, high))
    return Estimate(value, low, high, low, high, np.full(1, np.nan))
