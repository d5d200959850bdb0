"""Shares corrected for misreading: algebra, what they come to without error, and coverage by enumeration."""

from __future__ import annotations

from math import isnan

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy.stats import norm

from clinometer.errors import Code, InvalidInputError
from clinometer.stats.confusion import COVERS_ZERO, ReadingCounts, corrected_share, informedness
from clinometer.stats.proportion import wilson_interval
from tests.raising import raises

counts = st.integers(1, 40).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n)))
readings = st.builds(lambda a, b: ReadingCounts(*a, *b), counts, counts)


@given(readings)
def test_informedness_holds_its_estimate_and_does_not_know_which_group_is_which(reading):
    found = informedness(reading)
    assert -1 <= found.low <= found.value <= found.high <= 1
    assert found.value == pytest.approx(reading.right_a / reading.n_a + reading.right_b / reading.n_b - 1)
    back = informedness(reading.swapped())
    assert (back.value, back.low, back.high) == pytest.approx((found.value, found.low, found.high))


@given(counts, readings)
def test_exchanging_the_groups_mirrors_share_and_interval(count, reading):
    read, n = count
    forth, back = corrected_share(read, n, reading), corrected_share(n - read, n, reading.swapped())
    assert (back.reason == "") == (forth.reason == "")
    assume(not forth.reason)
    assert (1 - back.value, 1 - back.high, 1 - back.low) == pytest.approx((forth.value, forth.low, forth.high))


@given(counts, readings)
def test_the_interval_holds_the_estimate_and_stays_within_0_and_1(count, reading):
    found = corrected_share(*count, reading)
    assume(not found.reason)
    assert 0 <= found.low <= found.value <= found.high <= 1
    assert found.value == pytest.approx(min(max(found.estimate, 0), 1))


@given(st.integers(1, 40), readings)
def test_more_images_read_as_a_are_a_larger_share(n, reading):
    found = [corrected_share(count, n, reading) for count in range(n + 1)]
    assume(not found[0].reason)
    for numbers in ([f.estimate for f in found], [f.low for f in found], [f.high for f in found]):
        assert (np.diff(numbers) >= -1e-12).all()


@pytest.mark.parametrize(("count", "n"), [(0, 8), (5, 8), (13, 20), (99, 100)])
def test_a_reader_that_never_errs_leaves_the_share_as_it_is(count, n):
    """Known without error, the interval is that of Agresti and Coull, whose centre is Wilson's; a little wider."""
    many = 10**9
    found, raw = corrected_share(count, n, ReadingCounts(many, many, many, many)), wilson_interval(count, n)
    assert found.value == pytest.approx(raw.value)
    z = norm.ppf(0.975)
    centre = (count + z**2 / 2) / (n + z**2)
    reach = z * np.sqrt(centre * (1 - centre) / (n + z**2))
    expected = max(centre - reach, 0), min(centre + reach, 1)
    assert (found.low, found.high) == pytest.approx(expected, abs=1e-6)
    assert (found.low, found.high) == pytest.approx((raw.low, raw.high), abs=0.05)
    assert corrected_share(count, n, ReadingCounts(64, 64, 64, 64)).value == pytest.approx(raw.value)


def test_a_share_that_is_misread_as_expected_comes_back():
    """π = .25, s = .9, c = .8 give r = .25·.9 + .75·.2 = .375."""
    assert corrected_share(375, 1000, ReadingCounts(90, 100, 80, 100)).value == pytest.approx(0.25)


def test_the_interval_is_the_printed_formula():
    """By hand for 13 of 20, 60 of 64, 56 of 64, z = 1.96, step by step as in Lang & Reiczigel."""
    z = norm.ppf(0.975)
    n, s, c = 20 + z**2, 61 / 66, 57 / 66
    r = (13 + z**2 / 2) / n
    p = (r + c - 1) / (s + c - 1)
    shift = 2 * z**2 * (p * s * (1 - s) / 66 - (1 - p) * c * (1 - c) / 66)
    error = np.sqrt(r * (1 - r) / n + p**2 * s * (1 - s) / 66 + (1 - p) ** 2 * c * (1 - c) / 66) / (s + c - 1)
    found = corrected_share(13, 20, ReadingCounts(60, 64, 56, 64))
    assert (found.low, found.high) == pytest.approx((p + shift - z * error, p + shift + z * error))


@pytest.mark.parametrize(
    ("reading", "reason"),
    [
        (ReadingCounts(32, 64, 32, 64), COVERS_ZERO),
        (ReadingCounts(64, 64, 0, 64), COVERS_ZERO),
        (ReadingCounts(4, 64, 4, 64), "the reader takes either group for the other"),
        (ReadingCounts(0, 0, 64, 64), "no item of a group is known"),
    ],
)
def test_a_reader_that_cannot_read_gives_no_share(reading, reason):
    found = corrected_share(10, 20, reading)
    assert found.reason == reason
    assert all(map(isnan, (found.value, found.low, found.high, found.estimate)))


def test_no_image_and_wrong_counts():
    assert corrected_share(0, 0, ReadingCounts(9, 10, 9, 10)).reason == "no image"
    for wrong, code, field in (
        (lambda: ReadingCounts(11, 10, 1, 1), Code.OUT_OF_RANGE, "right_a"),
        (lambda: corrected_share(5, 4, ReadingCounts(9, 10, 9, 10)), Code.OUT_OF_RANGE, "count"),
        (lambda: ReadingCounts(1.5, 10, 1, 1), Code.WRONG_TYPE, "right_a"),
        (lambda: informedness(ReadingCounts(1, 1, 1, 1), 95), Code.OUT_OF_RANGE, "confidence"),
    ):
        with raises(InvalidInputError, code=code, field=field):
            wrong()
