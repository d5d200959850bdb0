"""Skin and faces in pictures: which pixels are skin, how light it is, what the ruler sees, and faces laid on others.

The individual typology angle (Chardon, Cretois & Hourseau 1991, *Skin colour typology and suntanning pathways*) is a
dermatologist's number for the lightness of skin. In a picture it measures the drawing and its light as much as the
person: compare angles within one set of pictures, before against after, group against group. See decision 23.

Faces laid over each other by their landmarks: one shape for all, so that an average does not blur.

The 68 landmarks are those of Sagonas et al. (2013), *300 Faces in-the-Wild Challenge*: jaw 0–16, brows 17–26, nose
27–35, eyes 36–41 and 42–47, mouth 48–67. A face is turned, moved and scaled until its eyes lie where every face's do,
then each triangle between landmarks is stretched to that of the common shape, as average faces have been made since
Rowland & Perrett (1995). See decision 25.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import isnan, nan
from typing import Final

import numpy as np
import skimage
from skimage.transform import PiecewiseAffineTransform, warp

from clinometer.errors import InvalidInputError

CB_RANGE = (77.0, 127.0)
CR_RANGE = (133.0, 173.0)

MINIMUM_SHARE = 0.01
"""Share of an image that must be skin before its tone has a name."""

UNKNOWN = "unknown"
SPAN = 180
"""Degrees from the darkest skin to the lightest: see :func:`individual_typology_angle`."""

TONES = (
    (55.0, "very light"),
    (41.0, "light"),
    (28.0, "intermediate"),
    (10.0, "tan"),
    (-30.0, "brown"),
    (-np.inf, "dark"),
)
"""Classes of the individual typology angle: each holds the angles above its bound, up to the bound before it."""

MONK_SWATCHES = (
    "#f6ede4", "#f3e7db", "#f7ead0", "#eadaba", "#d7bd96", "#a07e56", "#825c43", "#604134", "#3a312a", "#292420",
)  # fmt: skip
"""The ten published colours of the Monk Skin Tone Scale (Monk 2019), lightest first."""


def skin_mask(rgb: np.ndarray) -> np.ndarray:
    """Mark the pixels whose chroma is skin's: (…, 3) RGB → (…) bool, for an image (H, W).

    ::

        77 ≤ Cb ≤ 127   and   133 ≤ Cr ≤ 173

    (Chai & Ngan 1999) in **full-range** YCbCr, the one of JPEG: Cb = 128 + 255 P_B and Cr = 128 + 255 P_R of BT.601,
    not rounded. The same bounds are also used in studio range, where chroma is shrunk towards grey: there they miss
    Monk tones 1, 9 and 10, here the darkest alone. A mask of chroma takes wood, sand and brick for skin too.
    :func:`monk_self_test` shows what is seen.

    Parameters
    ----------
    rgb : uint8, or float in [0, 1]; channels in the order red, green, blue.

    Raises
    ------
    InvalidInputError
        Another shape, type or range.

    Examples
    --------
    >>> skin_mask(np.array([[[160, 126, 86], [0, 0, 255]]], np.uint8))
    array([[ True, False]])
    """
    chroma = 128 + 255 * skimage.color.rgb2ypbpr(_validate_rgb(rgb))[..., 1:]
    low, high = np.array([CB_RANGE, CR_RANGE]).T
    return np.asarray(((chroma >= low) & (chroma <= high)).all(axis=-1))


def individual_typology_angle(rgb: np.ndarray, mask: np.ndarray | None = None) -> float:
    """Return the individual typology angle of the masked pixels, in degrees; larger is lighter.

    ::

        ITA = atan2(mean L* − 50, mean b*) · 180/π        in (−180, 180]; skin lies between about −90 and 90

    in CIELAB under D65, 2° observer (Chardon et al. 1991). It is the angle of the mean colour: a mean of angles would
    let single pixels near L* = 50, b* = 0 decide.

    Parameters
    ----------
    rgb : (…, 3) uint8, or float in [0, 1]; red, green, blue. Read as BGR, a warm skin becomes a blue one.
    mask : (…) bool, for example of :func:`skin_mask`; every pixel counts by default. NaN if it marks none.

    Raises
    ------
    InvalidInputError
        Another shape, type or range, or a mask of another shape.

    Examples
    --------
    >>> round(individual_typology_angle(np.array([215, 189, 150], np.uint8)), 1)
    50.3
    """
    values = _validate_rgb(rgb)
    chosen = np.ones(values.shape[:-1], bool) if mask is None else np.asarray(mask)
    if chosen.shape != values.shape[:-1] or chosen.dtype != bool:
        raise InvalidInputError.wrong_shape(
            f"expected booleans of shape {values.shape[:-1]}, found {chosen.dtype} of shape {chosen.shape}",
            field="mask",
        )
    pixels = values[chosen].reshape(-1, 3)
    if not len(pixels):
        return nan
    lightness, _, yellowness = skimage.color.rgb2lab(pixels).mean(axis=0)
    return float(np.degrees(np.arctan2(lightness - 50, yellowness)))


def tone_class(angle: float) -> str:
    """Name the class of an individual typology angle (Chardon et al. 1991); NaN is "unknown".

    >>> tone_class(60.0), tone_class(55.0), tone_class(-30.0), tone_class(float("nan"))
    ('very light', 'light', 'dark', 'unknown')
    """
    return UNKNOWN if isnan(angle) else next(name for bound, name in TONES if angle > bound)


@dataclass(frozen=True)
class SkinTone:
    """The skin of one image.

    ``angle`` in degrees, NaN when unknown; ``tone`` the class or "unknown"; ``share`` of the pixels that are skin;
    ``reason`` why it is unknown.
    """

    angle: float
    tone: str
    share: float
    reason: str = ""


def skin_tone(rgb: np.ndarray, *, minimum_share: float = MINIMUM_SHARE) -> SkinTone:
    """Measure the skin of an image (H, W, 3); with less skin than ``minimum_share`` of it, the tone is unknown.

    Raises
    ------
    InvalidInputError
        As :func:`skin_mask`.
    """
    mask = skin_mask(rgb)
    share = float(mask.mean()) if mask.size else 0.0
    if not mask.any() or share < minimum_share:
        return SkinTone(nan, UNKNOWN, share, f"too little skin: {share:.1%} of the pixels, {minimum_share:.1%} needed")
    angle = individual_typology_angle(rgb, mask)
    return SkinTone(angle, tone_class(angle), share)


def monk_tone(rgb: np.ndarray, *, minimum_share: float = MINIMUM_SHARE) -> int | None:
    """Find which of the ten tones of the Monk Skin Tone Scale an image's skin is nearest to; None of too little skin.

    ::

        argmin_t ΔE₀₀(mean Lab of the skin's pixels, Lab of swatch t)        t from 1, the lightest

    with CIEDE2000 (Sharma, Wu & Dalal 2005) under D65. Like the typology angle it tells the light in the picture as
    much as the person. The tenth tone is none to the mask (:func:`monk_self_test`), so it is never named.

    Sources: Monk, *The Monk Skin Tone Scale* (2019), whose ten published sRGB colours are `MONK_SWATCHES`.

    >>> monk_tone(np.full((4, 4, 3), [160, 126, 86], np.uint8)), monk_tone(np.full((4, 4, 3), [0, 0, 255], np.uint8))
    (6, None)
    """
    mask = skin_mask(rgb)
    if not mask.any() or mask.mean() < minimum_share:
        return None
    skin = skimage.color.rgb2lab(_validate_rgb(rgb)[mask].reshape(-1, 3)).mean(axis=0)
    swatches = skimage.color.rgb2lab(np.array([list(bytes.fromhex(colour[1:])) for colour in MONK_SWATCHES]) / 255)
    return int(np.argmin(skimage.color.deltaE_ciede2000(np.tile(skin, (len(swatches), 1)), swatches))) + 1


@dataclass(frozen=True)
class Swatch:
    """A swatch of the Monk scale as this module sees it: whether the mask takes it for skin, its angle and class."""

    number: int
    colour: str
    is_skin: bool
    angle: float
    tone: str


def monk_self_test() -> tuple[Swatch, ...]:
    """Check the mask and the angle against the ten swatches of the Monk Skin Tone Scale, lightest first.

    A mask that misses a swatch makes people of that tone "unknown" rather than wrong, and unknown at a rate that
    differs between groups: read it beside every result. HEIM's mask (Kolkur et al. 2017) takes tones 4 to 7 only.
    """
    pixels = np.array([list(bytes.fromhex(colour[1:])) for colour in MONK_SWATCHES], np.uint8)
    angles = [individual_typology_angle(pixel) for pixel in pixels]
    return tuple(
        Swatch(number, colour, bool(is_skin), angle, tone_class(angle))
        for number, (colour, is_skin, angle) in enumerate(
            zip(MONK_SWATCHES, skin_mask(pixels), angles, strict=True), start=1
        )
    )


def _validate_rgb(rgb: np.ndarray) -> np.ndarray:
    """Check an image once: (…, 3) float64 in [0, 1]."""
    values = np.asarray(rgb)
    if values.ndim < 1 or values.shape[-1] != 3:
        raise InvalidInputError.expected_shape("(…, 3), red, green and blue last", values, field="rgb")
    if values.dtype == np.uint8:
        return values / 255.0
    if not np.issubdtype(values.dtype, np.floating):
        raise InvalidInputError.wrong_type(f"expected uint8, or float in [0, 1], found {values.dtype}", field="rgb")
    if not ((values >= 0) & (values <= 1)).all():
        raise InvalidInputError.out_of_range(
            "expected floats in [0, 1]; divide 8-bit values by 255, or give uint8", field="rgb"
        )
    return values.astype(np.float64)


LANDMARKS: Final = 68
FIRST_EYE: Final = slice(36, 42)
SECOND_EYE: Final = slice(42, 48)

EYES_AT: Final = (0.33 + 0.40j, 0.67 + 0.40j)
"""Where the eyes' centres lie in the frame, a unit square with (0, 0) top left: brows to chin fill it."""

BORDER: Final = np.array([0, 0.5, 1, 1 + 0.5j, 1 + 1j, 0.5 + 1j, 1j, 0.5j])
"""Points of the frame that stay where they are, so that what lies around a face comes along."""

OVERSAMPLING: Final = 4
"""Points a side that are averaged into each pixel of a warped face."""


def mean_shape(faces: Sequence[np.ndarray]) -> np.ndarray:
    """Average the landmarks of faces whose eyes have been laid over each other: (68, 2) in the unit frame.

    Parameters
    ----------
    faces : (68, 2) each, x and y in pixels of the face's own image. Moving, turning or scaling one changes nothing.

    Raises
    ------
    InvalidInputError
        No face; landmarks that are not (68, 2) and finite; eyes in one place.
    """
    if not len(faces):
        raise InvalidInputError.too_few("found none, expected the landmarks of one or more", field="faces")
    framed = []
    for face in faces:
        points = _points(face)
        scale, shift = _to_frame(points)
        framed.append(scale * points + shift)
    mean = np.mean(framed, axis=0)
    return np.stack([mean.real, mean.imag], axis=-1)


def warp_face(rgb: np.ndarray, landmarks: np.ndarray, shape: np.ndarray, size: int) -> np.ndarray:
    """Warp a face into a shape: (size, size, 3) float32 in [0, 1].

    Piecewise affine over the Delaunay triangles of the shape's landmarks and the frame's border; where the frame
    reaches beyond the image, the image's edge goes on.

    Parameters
    ----------
    rgb : (H, W, 3) uint8, or float in [0, 1].
    landmarks : (68, 2) x and y of this face in pixels; the first pixel's centre is (0, 0).
    shape : (68, 2) in the unit frame, from :func:`mean_shape`.
    size : pixels a side.

    Raises
    ------
    InvalidInputError
        As :func:`mean_shape`.
    """
    points, goal = _points(landmarks), _points(shape)
    scale, shift = _to_frame(points)
    fine = size * OVERSAMPLING
    there = _columns(np.concatenate([goal, BORDER]) * fine - 0.5 * (1 + 1j))
    here = _columns(np.concatenate([points, (BORDER - shift) / scale]))
    bend = PiecewiseAffineTransform.from_estimate(there, here)
    image = rgb.astype(np.float32) / (255 if rgb.dtype == np.uint8 else 1)
    warped = warp(image, bend, output_shape=(fine, fine), order=1, mode="edge", preserve_range=True)
    blocks = warped.reshape(size, OVERSAMPLING, size, OVERSAMPLING, 3)
    return np.asarray(np.clip(blocks.mean(axis=(1, 3)), 0, 1), np.float32)


def _points(landmarks: np.ndarray) -> np.ndarray:
    """Return landmarks as complex numbers x + iy."""
    points = np.asarray(landmarks, np.float64)
    if points.shape != (LANDMARKS, 2) or not np.isfinite(points).all():
        raise InvalidInputError.expected_shape(f"({LANDMARKS}, 2) finite numbers", points, field="landmarks")
    return np.asarray(points[:, 0] + 1j * points[:, 1])


def _to_frame(points: np.ndarray) -> tuple[complex, complex]:
    """Return the similarity ``scale · z + shift`` that takes the eyes' centres to their places."""
    first, second = points[FIRST_EYE].mean(), points[SECOND_EYE].mean()
    if first == second:
        raise InvalidInputError.undefined("the eyes lie in one place; expected two", field="landmarks")
    scale = (EYES_AT[1] - EYES_AT[0]) / (second - first)
    return scale, EYES_AT[0] - scale * first


def _columns(points: np.ndarray) -> np.ndarray:
    return np.stack([points.real, points.imag], axis=-1)
