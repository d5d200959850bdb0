"""Skin pixels, the individual typology angle and its classes, against closed forms and an independent conversion."""

from math import atan2, degrees, isnan

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from clinometer.errors import Code, InvalidInputError
from clinometer.stats.skin import (
    CB_RANGE,
    CR_RANGE,
    MONK_SWATCHES,
    TONES,
    individual_typology_angle,
    monk_self_test,
    skin_mask,
    skin_tone,
    tone_class,
)
from tests.raising import raises

SKIN = (160, 126, 86)  # Monk tone 6
CHANNEL = st.integers(0, 255)


def lab(red, green, blue):
    """CIELAB of an sRGB colour, D65, from the definitions of IEC 61966-2-1 and CIE 15."""
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in (red / 255, green / 255, blue / 255)]
    matrix = [[0.412453, 0.357580, 0.180423], [0.212671, 0.715160, 0.072169], [0.019334, 0.119193, 0.950227]]
    xyz = np.array(matrix) @ linear / [0.95047, 1.0, 1.08883]
    x, y, z = (t ** (1 / 3) if t > 216 / 24389 else (24389 / 27 * t + 16) / 116 for t in xyz)
    return 116 * y - 16, 500 * (x - y), 200 * (y - z)


@given(CHANNEL, CHANNEL, CHANNEL)
def test_the_angle_of_one_colour_follows_from_the_definition(red, green, blue):
    lightness, _, yellowness = lab(red, green, blue)
    measured = individual_typology_angle(np.array([red, green, blue], np.uint8))
    if np.hypot(lightness - 50, yellowness) > 1:
        assert abs((measured - degrees(atan2(lightness - 50, yellowness)) + 180) % 360 - 180) < 0.1


@given(CHANNEL, CHANNEL, CHANNEL)
def test_the_mask_follows_from_full_range_chroma(red, green, blue):
    cb = 128 - 0.168736 * red - 0.331264 * green + 0.5 * blue
    cr = 128 + 0.5 * red - 0.418688 * green - 0.081312 * blue
    inside = CB_RANGE[0] <= cb <= CB_RANGE[1] and CR_RANGE[0] <= cr <= CR_RANGE[1]
    nearest = min(abs(c - edge) for c, edges in ((cb, CB_RANGE), (cr, CR_RANGE)) for edge in edges)
    if nearest > 1e-6:
        assert skin_mask(np.array([[[red, green, blue]]], np.uint8)).item() == inside


def test_the_mask_agrees_with_pillow_away_from_its_edges():
    rgb = np.random.default_rng(0).integers(0, 256, (64, 64, 3), np.uint8)
    ycbcr = np.asarray(Image.fromarray(rgb).convert("YCbCr"), int)  # JPEG's full range, rounded
    cb, cr = ycbcr[..., 1], ycbcr[..., 2]
    inside = (cb >= 77) & (cb <= 127) & (cr >= 133) & (cr <= 173)
    rounded = (np.abs(cb - 77) < 2) | (np.abs(cb - 127) < 2) | (np.abs(cr - 133) < 2) | (np.abs(cr - 173) < 2)
    assert (skin_mask(rgb) == inside)[~rounded].all()


def test_greys_have_no_skin_and_two_angles():
    greys = np.repeat(np.arange(256, dtype=np.uint8)[None, :, None], 3, axis=2)
    assert not skin_mask(greys).any()
    assert individual_typology_angle(np.full((2, 2, 3), 255, np.uint8)) == pytest.approx(90, abs=0.1)
    assert individual_typology_angle(np.zeros((2, 2, 3), np.uint8)) == pytest.approx(-90, abs=0.1)


def test_floats_and_bytes_are_the_same_picture():
    rgb = np.random.default_rng(1).integers(0, 256, (9, 7, 3), np.uint8)
    mask = skin_mask(rgb)
    assert np.array_equal(skin_mask(rgb / 255), mask)
    assert individual_typology_angle(rgb / 255, mask) == individual_typology_angle(rgb, mask)
    assert individual_typology_angle((rgb / 255).astype(np.float32), mask) == pytest.approx(
        individual_typology_angle(rgb, mask), abs=1e-4
    )


def test_order_size_and_what_is_masked_away_do_not_matter():
    rng = np.random.default_rng(2)
    rgb = rng.integers(0, 256, (8, 8, 3), np.uint8)
    mask = rng.random((8, 8)) < 0.5
    angle = individual_typology_angle(rgb, mask)
    assert individual_typology_angle(rgb[::-1], mask[::-1]) == pytest.approx(angle)
    assert individual_typology_angle(np.tile(rgb, (2, 2, 1)), np.tile(mask, (2, 2))) == pytest.approx(angle)
    assert individual_typology_angle(np.where(mask[..., None], rgb, 0).astype(np.uint8), mask) == angle
    assert individual_typology_angle(rgb[mask]) == pytest.approx(angle)


def test_the_angle_is_of_the_mean_colour():
    two = np.array([[255, 224, 189], [36, 26, 20]], np.uint8)
    lightness, _, yellowness = np.mean([lab(*colour) for colour in two.tolist()], axis=0)
    assert individual_typology_angle(two) == pytest.approx(degrees(atan2(lightness - 50, yellowness)), abs=0.05)


def test_lighter_skin_has_a_larger_angle():
    angles = [swatch.angle for swatch in monk_self_test()]
    assert angles == sorted(angles, reverse=True)


def test_red_and_blue_are_not_swapped():
    rgb = np.array([SKIN], np.uint8)
    assert skin_mask(rgb).all()
    assert not skin_mask(rgb[:, ::-1]).any()
    assert individual_typology_angle(rgb) < 90 < individual_typology_angle(np.array([215, 235, 255], np.uint8))


def test_the_monk_swatches():
    """All but the darkest pass the mask: its chroma, Cr 130.8, is too near grey."""
    swatches = monk_self_test()
    assert [swatch.colour for swatch in swatches] == list(MONK_SWATCHES)
    assert [swatch.is_skin for swatch in swatches] == [True] * 9 + [False]
    for swatch in swatches:
        lightness, _, yellowness = lab(*bytes.fromhex(swatch.colour[1:]))
        assert swatch.angle == pytest.approx(degrees(atan2(lightness - 50, yellowness)), abs=0.1)
    assert [swatch.tone for swatch in swatches] == [
        *["very light"] * 4, "light", "tan", "brown", *["dark"] * 3
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("angle", "tone"),
    [
        (55.1, "very light"), (55.0, "light"), (41.1, "light"), (41.0, "intermediate"), (28.1, "intermediate"),
        (28.0, "tan"), (10.1, "tan"), (10.0, "brown"), (-29.9, "brown"), (-30.0, "dark"), (-90.0, "dark"),
        (float("nan"), "unknown"),
    ],
)  # fmt: skip
def test_classes_hold_their_upper_bound(angle, tone):
    assert tone_class(angle) == tone


def test_there_are_six_classes():
    assert len({name for _, name in TONES}) == 6


def test_too_little_skin_is_unknown_and_never_a_class():
    blue = np.zeros((100, 100, 3), np.uint8)
    blue[..., 2] = 255
    nothing = skin_tone(blue)
    assert (nothing.tone, nothing.share) == ("unknown", 0.0)
    assert isnan(nothing.angle)
    assert "too little skin: 0.0%" in nothing.reason
    blue[0, :99] = SKIN
    assert skin_tone(blue).tone == "unknown"
    blue[0] = SKIN
    enough = skin_tone(blue)
    assert (enough.tone, enough.share, enough.reason) == ("tan", 0.01, "")
    assert skin_tone(blue, minimum_share=0.5).tone == "unknown"
    assert skin_tone(np.zeros((0, 4, 3), np.uint8)).tone == "unknown"


def test_an_empty_mask_has_no_angle():
    rgb = np.full((2, 2, 3), 100, np.uint8)
    assert isnan(individual_typology_angle(rgb, np.zeros((2, 2), bool)))


@pytest.mark.parametrize(
    ("rgb", "code", "message"),
    [
        (np.zeros((2, 2, 4), np.uint8), Code.WRONG_SHAPE, r"\(…, 3\)"),
        (np.zeros((2, 2), np.uint8), Code.WRONG_SHAPE, r"\(…, 3\)"),
        (np.zeros((2, 2, 3), np.int64), Code.WRONG_TYPE, "int64"),
        (np.full((2, 2, 3), 255.0), Code.OUT_OF_RANGE, r"\[0, 1\]; divide"),
        (np.full((2, 2, 3), np.nan), Code.OUT_OF_RANGE, r"\[0, 1\]"),
    ],
)
def test_pictures_that_are_none(rgb, code, message):
    for measure in (skin_mask, individual_typology_angle, skin_tone):
        with raises(InvalidInputError, code=code, field="rgb", match=message):
            measure(rgb)


@pytest.mark.parametrize("mask", [np.ones((2, 2), np.uint8), np.ones((2, 3), bool), np.ones(4, bool)])
def test_masks_that_do_not_fit(mask):
    with raises(InvalidInputError, code=Code.WRONG_SHAPE, field="mask"):
        individual_typology_angle(np.zeros((2, 2, 3), np.uint8), mask)
