"""Image files of every kind into RGB, with an outcome for each instead of an exception.

What is converted is said, in words, in `DecodedImage.conversions`; what cannot be read has a reason. Colour
profiles are not applied: pixels count as sRGB.
"""

from __future__ import annotations

import hashlib
import io
import threading
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
from PIL import ExifTags, Image, ImageOps, UnidentifiedImageError

MAX_PIXELS = 64_000_000
"""The largest image that is decoded by default: 8000 x 8000. A small file can unfold to fill the memory."""

BLANK_TOLERANCE = 2
"""Values of a channel that lie this close together, of 255, count as one: JPEG blurs one colour so far."""

PNG_MODES = ("1", "L", "LA", "I;16", "RGB", "RGBA")
"""Modes that PNG holds as they are."""

TRANSPARENT = ("LA", "La", "PA", "RGBA", "RGBa")
"""Modes with transparency."""

TURNED = range(2, 9)
"""EXIF orientations other than upright: mirrored, turned, or both."""

FORMATS = ("PNG", "JPEG", "WEBP", "GIF", "BMP", "TIFF", "AVIF", "JPEG2000", "PPM", "TGA", "ICO", "DIB", "QOI")
"""The formats that are read; those whose decoders start other programs (EPS, WMF) are not among them."""

_ONE_AT_A_TIME = threading.Lock()
"""What is warned of is the whole process's: two threads that change it side by side leave it changed for good."""


@dataclass(frozen=True)
class DecodedImage:
    """What became of one image file.

    Attributes
    ----------
    status : "ok"; "blank" for an image of one colour, which is kept; "failed" for one that cannot be read.
    image : RGB, 8 bits a channel; None if failed.
    reason : why it is not "ok".
    conversions : what was changed to make it RGB, in words; empty for a plain RGB file.
    """

    status: Literal["ok", "blank", "failed"]
    image: Image.Image | None
    reason: str | None = None
    conversions: tuple[str, ...] = ()


def decode_image(source: bytes | Path, *, max_pixels: int = MAX_PIXELS) -> DecodedImage:
    """Decode an image file, or its bytes, into RGB.

    Palettes are resolved, transparency is composited on white, CMYK, YCbCr and Lab are converted, grey is
    repeated, 16 bits are divided by 257, wider ranges are stretched to 0…255, the EXIF orientation is
    applied, and of an animation the first frame is taken.

    Parameters
    ----------
    source : the file, or its contents.
    max_pixels : larger images are not decoded and count as failed. Pillow itself stops at 178,956,970.
    """
    try:
        data = source if isinstance(source, bytes) else source.read_bytes()
        image, conversions = _decode(data, max_pixels)
    except Exception as error:  # decoders raise many unrelated kinds on damaged files
        return DecodedImage("failed", None, _why(error, max_pixels))
    reason = blank_reason(image)
    return DecodedImage("blank" if reason else "ok", image, reason, tuple(conversions))


def decode_own_png(data: bytes) -> Image.Image:
    """Decode a PNG that `encode_png` wrote into RGB, without the checks that a file from elsewhere needs."""
    image: Image.Image = Image.open(io.BytesIO(data), formats=["PNG"])
    image.load()
    return image if image.mode == "RGB" else _to_rgb(image, [])


def blank_reason(image: Image.Image) -> str | None:
    """Say that an image shows one colour only, within `BLANK_TOLERANCE`; None for any other image."""
    low, high = np.asarray(image.convert("RGB").getextrema()).T
    if (high - low > BLANK_TOLERANCE).any():
        return None
    return f"every pixel has one colour, rgb({', '.join(map(str, low))})"


def encode_png(image: Image.Image) -> bytes:
    """Encode an image as PNG: lossless, without metadata, compressed for speed rather than size.

    What lies outside its pixels (a palette, a transparent colour) is resolved first, as is what PNG has no mode for.
    """
    if image.mode not in PNG_MODES or "transparency" in image.info:
        image = _to_rgb(image, [])
    clean = Image.frombytes(image.mode, image.size, image.tobytes())
    buffer = io.BytesIO()
    clean.save(buffer, format="PNG", compress_level=1)
    return buffer.getvalue()


def image_sha256(image: Image.Image) -> str:
    """Hash an image's size and RGB pixels: 64 hexadecimal digits, the same whatever file it is stored in."""
    rgb = image.convert("RGB")
    return hashlib.sha256(f"{rgb.width}x{rgb.height}:".encode() + rgb.tobytes()).hexdigest()


def sha256(data: bytes) -> str:
    """Hash bytes: 64 hexadecimal digits."""
    return hashlib.sha256(data).hexdigest()


class _UnreadableError(Exception):
    """A file that is refused before it is decoded."""


def _why(error: Exception, max_pixels: int) -> str:
    """Say why a file could not be decoded, without the path that an error of the system carries."""
    if isinstance(error, _UnreadableError):
        return str(error)
    if isinstance(error, Image.DecompressionBombError):
        return f"it has more pixels than Pillow decodes; the limit is {max_pixels:,}"
    if isinstance(error, UnidentifiedImageError):
        return f"not an image, or of a format that is not read (expected {', '.join(FORMATS[:6])}, …)"
    if isinstance(error, OSError) and error.filename is not None:
        return f"the file cannot be read ({error.strerror or type(error).__name__})"
    return f"the image is damaged ({type(error).__name__}: {str(error)[:120]})"


def _decode(data: bytes, max_pixels: int) -> tuple[Image.Image, list[str]]:
    """Open, limit, take the first frame, turn upright and convert."""
    if not data:
        raise _UnreadableError("the file is empty (0 bytes)")
    with _ONE_AT_A_TIME, warnings.catch_warnings():
        # Our own limit is checked below, and a damaged EXIF block or a palette oddity changes no pixel.
        warnings.filterwarnings("ignore", module=r"PIL\.")
        image: Image.Image = Image.open(io.BytesIO(data), formats=FORMATS)
        if image.width * image.height > max_pixels:
            raise _UnreadableError(
                f"it has {image.width} x {image.height} pixels, more than the limit of {max_pixels:,}"
            )
        conversions: list[str] = []
        if getattr(image, "n_frames", 1) > 1:
            conversions.append("first frame of several")
            image.seek(0)
        image.load()
        if image.getexif().get(ExifTags.Base.Orientation) in TURNED:
            conversions.append("EXIF orientation applied")
        upright = ImageOps.exif_transpose(image)
        if "icc_profile" in image.info and image.mode not in {"RGB", "L"}:
            conversions.append("colour profile not applied")
        return _to_rgb(upright, conversions), conversions


def _to_rgb(image: Image.Image, conversions: list[str]) -> Image.Image:
    """Convert any mode to RGB, saying how in ``conversions``."""
    mode = image.mode
    if mode == "RGB" and "transparency" not in image.info:
        return image
    if mode.startswith("I") or mode == "F":
        conversions.append(f"{mode} scaled to 8 bits")
        return _wide_to_rgb(image)
    if mode == "P":
        conversions.append("palette resolved")
    if mode in TRANSPARENT or "transparency" in image.info:
        rgba = image.convert("RGBA")
        if np.asarray(rgba.getchannel("A")).min() < 255:
            conversions.append("alpha composited on white")
        white = Image.new("RGBA", rgba.size, "white")
        return Image.alpha_composite(white, rgba).convert("RGB")
    if mode not in {"P", "RGB"}:
        conversions.append(f"{mode} converted")
    return image.convert("RGB")


def _wide_to_rgb(image: Image.Image) -> Image.Image:
    """Scale 16-bit, 32-bit and float grey to 8 bits.

    Values within 0…65535 count as 16 bits (for floats, within 0…1 as fractions and within 0…255 as 8 bits);
    any other range is stretched to 0…255.
    """
    values = np.asarray(image, dtype=np.float64)
    if not np.isfinite(values).all():
        raise ValueError("it has values that are not finite")
    low, high = float(values.min()), float(values.max())
    scales = [1.0, 255.0] if image.mode == "F" else [65535.0]
    top = next((scale for scale in scales if low >= 0 and high <= scale), None)
    if top is None:
        values, top = values - low, max(high - low, 1.0)
    return Image.fromarray((values * (255.0 / top)).round().astype(np.uint8), mode="L").convert("RGB")
