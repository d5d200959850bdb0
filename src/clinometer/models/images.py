"""Image files of every kind into RGB, with an outcome for each instead of an exception.

What is converted is said, in words, in `DecodedImage.conversions`; what cannot be read has a reason. Colour
profiles are not applied: pixels count as sRGB. See decision 33.
"""

from __future__ import annotations

import hashlib
import io
import os
import stat
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Final, Literal

import numpy as np
import PIL
from PIL import ExifTags, Image, ImageOps, UnidentifiedImageError

MAX_PIXELS = 40_000_000
"""The largest image that is decoded by default, about 6300 x 6300. A small file can unfold to fill the memory; with
this an import stays below 1.5 GB, PyTorch included."""

BYTES_A_PIXEL = 4
"""What a decoded pixel takes in memory, and what a file may have for each pixel of the limit."""

BYTES_BESIDE = 1_000_000
"""Bytes that a file may have besides, such as a profile of its colours."""

BATCH_BYTES = 2**28
"""Decoded images that are held together."""

WAY_OUT = "an import's --max-pixels raises it"

FACE_SIDE: Final = 1024
"""Pixels of the longer side that a smaller image is enlarged to where no face is found in it as it is.

dlib's detector sees no face below 80 pixels; with all images enlarged, it took more of other things for faces.
"""

DECODING_BYTES = 2**28
"""What threads that decode may hold together, `PLAIN_BYTES` a pixel; a larger image is decoded alone."""

MOST_SIDES = 100
"""The longer side of an image, in its shorter ones: one pixel by 200,000 would take an encoder gigabytes."""

READ_WHOLE = 2**24
"""Bytes of a file that is read before it is decoded; of a larger one the decoder reads what it needs."""

STRIP_PIXELS = 2**20
"""Pixels that are converted at once: an image is never held a second time in wider numbers."""

DECODER_BYTES = {"JPEG2000": 20, "WEBP": 18, "AVIF": 14}
"""Bytes that are held for a pixel while some formats are decoded, as measured; others hold `PLAIN_BYTES` at most.
Images of these formats are limited to as many pixels fewer."""

PLAIN_BYTES = 10

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

KEPT = {"PNG": "png", "JPEG": "jpg", "WEBP": "webp"}
"""Formats whose files are stored as they are, and their endings: every browser shows them."""


class _NoWarnings:
    """Keep Pillow from warning while any thread decodes: our own limit is checked, and oddities change no pixel.

    What is warned of is the whole process's. So the first thread that comes in says so and the last one that leaves
    takes it back; two that did so side by side would leave it changed for good.
    """

    def __init__(self) -> None:
        self._lock, self._inside = threading.Lock(), 0
        self._filters = warnings.catch_warnings()

    def __enter__(self) -> None:
        with self._lock:
            if not self._inside:
                self._filters = warnings.catch_warnings()
                self._filters.__enter__()
                warnings.filterwarnings("ignore", module=r"PIL\.")
            self._inside += 1

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._inside -= 1
            if not self._inside:
                self._filters.__exit__(None, None, None)


_no_warnings: Final = _NoWarnings()


@dataclass(frozen=True)
class DecodedImage:
    """The result of decoding one image file.

    Attributes
    ----------
    status : "ok"; "blank" for an image of one colour, which is kept; "failed" for one that cannot be read.
    image : RGB, 8 bits a channel; None if failed.
    reason : why it is not "ok".
    conversions : what was changed to make it RGB, in words; empty for a plain RGB file.
    format : of the file, as Pillow names it; empty if failed.
    """

    status: Literal["ok", "blank", "failed"]
    image: Image.Image | None
    reason: str | None = None
    conversions: tuple[str, ...] = ()
    format: str = ""


def decode_image(source: bytes | Path, *, max_pixels: int = MAX_PIXELS) -> DecodedImage:
    """Decode an image file, or its bytes, into RGB.

    Palettes are resolved, transparency is composited on white, CMYK, YCbCr and Lab are converted, grey is
    repeated, 16 bits are divided by 257, wider ranges are stretched to 0…255, the EXIF orientation is
    applied, and of an animation the first frame is taken.

    Parameters
    ----------
    source : the file, or its contents.
    max_pixels : larger images are not decoded and count as failed, as do files of more than `BYTES_A_PIXEL` times as
        many bytes. Pillow itself stops at 178,956,970.
    """
    try:
        with _open_source(source, max_pixels) as stream, _no_warnings:
            image: Image.Image = Image.open(stream, formats=FORMATS)
            _require_pixels(image, max_pixels)
            _require_sides(image)
            _require_known_ycbcr(image)
            kind, conversions = str(image.format), list[str]()
            if getattr(image, "is_animated", False):  # to count the frames would read them all
                conversions.append("first frame of several")
                image.seek(0)
            image.load()
            if image.getexif().get(ExifTags.Base.Orientation) in TURNED:
                conversions.append("EXIF orientation applied")
            ImageOps.exif_transpose(image, in_place=True)
            if "icc_profile" in image.info and image.mode not in {"RGB", "L"}:
                conversions.append("colour profile not applied")
            image = _to_rgb(image, conversions)
    except Exception as error:  # decoders raise many unrelated kinds on damaged files
        return DecodedImage("failed", None, _why(error, max_pixels))
    reason = blank_reason(image)
    return DecodedImage("blank" if reason else "ok", image, reason, tuple(conversions), kind)


def decode_file(source: bytes | Path, *, max_pixels: int = MAX_PIXELS) -> tuple[DecodedImage, bytes | None]:
    """Decode an image file, or its bytes; and its bytes themselves, where they can be stored as they are.

    That is a file of a format that browsers show (`KEPT`) which was converted in no way and is no larger than its
    pixels: what it holds besides is then little. None of any other.
    """
    if not isinstance(source, bytes):
        source = at_hand(source)
    decoding = decode_image(source, max_pixels=max_pixels)
    if decoding.image is None or decoding.format not in KEPT or decoding.conversions:
        return decoding, None
    most = decoding.image.width * decoding.image.height * BYTES_A_PIXEL + BYTES_BESIDE
    if isinstance(source, bytes):
        return decoding, source if len(source) <= most else None
    with source.open("rb") as stream:
        content = stream.read(most + 1)
    return decoding, content if len(content) <= most else None


def at_hand(file: Path) -> bytes | Path:
    """Return a file's bytes if they are few, so that they need be read once; any other is left where it is."""
    try:
        status = os.stat(file)
        if not stat.S_ISREG(status.st_mode) or status.st_size > READ_WHOLE:
            return file
        with open(file, "rb", buffering=0) as stream:
            content = stream.read(status.st_size + 1)
    except OSError:  # the reason is reported when it is decoded
        return file
    return content if len(content) == status.st_size else file


def decoded_bytes(source: bytes | Path, *, max_pixels: int = MAX_PIXELS) -> int:
    """Return how many bytes an image takes in memory, by its file's head; 0 if `decode_image` does not decode it."""
    try:
        with _open_source(source, max_pixels) as stream, _no_warnings:
            image = Image.open(stream, formats=FORMATS)
            _require_pixels(image, max_pixels)
            return image.width * image.height * BYTES_A_PIXEL
    except Exception:  # the reason is reported when it is decoded
        return 0


def decode_in_batches(
    files: Sequence[Path], most: int, most_bytes: int = BATCH_BYTES
) -> Iterator[list[tuple[Path, DecodedImage]]]:
    """Decode files, so many at once, and fewer where they take more than so many bytes."""
    batch: list[Path] = []
    size = 0
    for file in files:
        n_bytes = decoded_bytes(file)
        if batch and (len(batch) == most or size + n_bytes > most_bytes):
            yield [(path, decode_image(path)) for path in batch]
            batch, size = [], 0
        batch.append(file)
        size += n_bytes
    if batch:
        yield [(path, decode_image(path)) for path in batch]


def may_be_read(file: bytes | Path, max_pixels: int) -> bool:
    """Return whether a file is small enough for `decode_image`."""
    size = len(file) if isinstance(file, bytes) else file.stat().st_size
    return size <= BYTES_A_PIXEL * max_pixels + BYTES_BESIDE


def decode_stored(data: bytes) -> Image.Image:
    """Decode what a run stores into RGB: what `encode_png` wrote, or a file that `decode_file` read and checked."""
    with _no_warnings:
        image: Image.Image = Image.open(io.BytesIO(data), formats=tuple(KEPT))
        _require_sides(image)
        image.load()
    return image if image.mode == "RGB" else _to_rgb(image, [])


def blank_reason(image: Image.Image) -> str | None:
    """Return the reason why an image of one colour, within `BLANK_TOLERANCE`, is blank; None for any other."""
    rgb = image if image.mode == "RGB" else image.convert("RGB")
    row = (0, rgb.height // 2, rgb.width, rgb.height // 2 + 1)
    for part in (rgb.crop(row), rgb):  # most images show it in their middle
        ranges = part.getextrema()
        if any(high - low > BLANK_TOLERANCE for low, high in ranges):  # type: ignore[misc]
            return None
    return f"every pixel has one colour, rgb({', '.join(str(low) for low, _ in ranges)})"  # type: ignore[misc]


def enlarge(image: Image.Image, side: int) -> Image.Image:
    """Enlarge an image bicubically until its longer side has ``side`` pixels, in RGB; a larger one keeps its size."""
    factor = max(side / max(image.size), 1.0)
    size = tuple(max(round(each * factor), 1) for each in image.size)
    return image.convert("RGB").resize(size, Image.Resampling.BICUBIC)  # type: ignore[arg-type]


def encode_png(image: Image.Image) -> bytes:
    """Encode an image as PNG: lossless, without metadata, compressed for speed rather than size.

    What lies outside its pixels (a palette, a transparent colour) is resolved first, as is what PNG has no mode for.
    """
    if image.mode not in PNG_MODES or "transparency" in image.info:
        image = _to_rgb(image, [])
    buffer = io.BytesIO()
    image.save(buffer, format="PNG", compress_level=1, icc_profile=None)  # which is all that a copy would leave out
    return buffer.getvalue()


def ending_of(data: bytes) -> str:
    """Return the ending of a stored image's file, by its first bytes: of a PNG, a JPEG or a WebP."""
    if data[:4] == b"RIFF":
        return KEPT["WEBP"]
    return KEPT["JPEG"] if data[:2] == b"\xff\xd8" else KEPT["PNG"]


def image_sha256(image: Image.Image) -> str:
    """Hash an image's size and RGB pixels: 64 hexadecimal digits, the same whatever file it is stored in."""
    rgb = image.convert("RGB")
    return hashlib.sha256(f"{rgb.width}x{rgb.height}:".encode() + rgb.tobytes()).hexdigest()


def saved_again(image: Image.Image) -> dict[str, Image.Image]:
    """Return an image as others may have saved it: what was done, and what became of it, in the size that it had."""
    stream, (width, height) = io.BytesIO(), image.size
    image.save(stream, "JPEG", quality=75)
    half = image.resize((max(width // 2, 1), max(height // 2, 1)), Image.Resampling.LANCZOS)
    x, y = max(width // 100, 1), max(height // 100, 1)
    cut = image.crop((x, y, width - x, height - y)) if min(width, height) > 4 else image
    return {
        "JPEG, quality 75": Image.open(io.BytesIO(stream.getvalue())).convert("RGB"),
        "half its size and back": half.resize(image.size, Image.Resampling.LANCZOS),
        "cropped by 2 %": cut.resize(image.size, Image.Resampling.BICUBIC),
    }


def sha256(data: bytes) -> str:
    """Hash bytes: 64 hexadecimal digits."""
    return hashlib.sha256(data).hexdigest()


class _UnreadableError(Exception):
    """A file that is refused before it is decoded."""


def _why(error: Exception, max_pixels: int) -> str:
    """Explain why a file could not be decoded, without the path that an error of the system carries."""
    if isinstance(error, _UnreadableError):
        return str(error)
    if isinstance(error, Image.DecompressionBombError):
        return f"it has more pixels than Pillow decodes; the limit is {max_pixels:,}"
    if isinstance(error, UnidentifiedImageError):
        return f"not an image, or of a format that is not read (expected {', '.join(FORMATS[:6])}, …)"
    if isinstance(error, OSError) and error.filename is not None:
        return f"the file cannot be read ({error.strerror or type(error).__name__})"
    return f"the image is damaged ({type(error).__name__}: {str(error)[:120]})"


@contextmanager
def _open_source(source: bytes | Path, max_pixels: int) -> Iterator[BinaryIO]:
    """Open a file to read an image from; one that is too large is refused before a byte is read."""
    if isinstance(source, bytes):
        size = len(source)
    else:
        status = source.stat()
        if not stat.S_ISREG(status.st_mode):  # to read from a pipe is to wait for ever
            raise _UnreadableError("it is not a file that holds an image")
        size = status.st_size
    if not size:
        raise _UnreadableError("the file is empty (0 bytes)")
    if size > BYTES_A_PIXEL * max_pixels + BYTES_BESIDE:
        raise _UnreadableError(
            f"the file has {size:,} bytes, more than {BYTES_A_PIXEL} for each pixel of the limit of {max_pixels:,} "
            f"({WAY_OUT})"
        )
    with io.BytesIO(source) if isinstance(source, bytes) else source.open("rb") as stream:
        yield stream


def _require_sides(image: Image.Image) -> None:
    """Refuse what an encoder would blow up: it brings the shorter side to its own size, and the longer one with it."""
    short, long = sorted(image.size)
    if long > MOST_SIDES * short:
        raise _UnreadableError(
            f"it has {image.width} x {image.height} pixels, one side over {MOST_SIDES} times the other"
        )


def _require_known_ycbcr(image: Image.Image) -> None:
    """Refuse what Pillow before 13 takes for a truncated file: a TIFF of YCbCr that is not compressed."""
    colours = getattr(image, "tag_v2", {}).get(ExifTags.Base.PhotometricInterpretation)
    plain = image.format == "TIFF" and colours == 6 and image.info.get("compression") == "raw"
    if plain and int(PIL.__version__.split(".")[0]) < 13:
        raise _UnreadableError(
            f"Pillow {PIL.__version__} cannot read an uncompressed YCbCr TIFF; save it as PNG, or install pillow>=13"
        )


def _require_pixels(image: Image.Image, max_pixels: int) -> None:
    most = max_pixels * PLAIN_BYTES // DECODER_BYTES.get(str(image.format), PLAIN_BYTES)
    if image.width * image.height > most:
        raise _UnreadableError(
            f"it has {image.width} x {image.height} pixels, more than the limit of {most:,}"
            f"{f' of {image.format}' if most < max_pixels else ''} ({WAY_OUT})"
        )


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
        alphas = (strip.convert("RGBA").getchannel("A") for _, strip in _strips(image))
        if any(alpha.getextrema()[0] < 255 for alpha in alphas):  # type: ignore[operator]
            conversions.append("alpha composited on white")

        def on_white(strip: Image.Image) -> Image.Image:
            rgba = strip.convert("RGBA")
            return Image.alpha_composite(Image.new("RGBA", rgba.size, "white"), rgba).convert("RGB")

        return _by_strips(image, on_white)
    if mode not in {"P", "RGB"}:
        conversions.append(f"{mode} converted")
    return image.convert("RGB")


def _wide_to_rgb(image: Image.Image) -> Image.Image:
    """Scale 16-bit, 32-bit and float grey to 8 bits.

    Values within 0…65535 count as 16 bits (for floats, within 0…1 as fractions and within 0…255 as 8 bits);
    any other range is stretched to 0…255.
    """
    ranges = []
    for _, strip in _strips(image):
        values = np.asarray(strip, dtype=np.float64)
        if not np.isfinite(values).all():
            raise ValueError("it has values that are not finite")
        ranges.append((float(values.min()), float(values.max())))
    low, high = min(least for least, _ in ranges), max(most for _, most in ranges)
    scales = [1.0, 255.0] if image.mode == "F" else [65535.0]
    top = next((scale for scale in scales if low >= 0 and high <= scale), None)
    start = 0.0 if top is not None else low
    scale = 255.0 / (top if top is not None else max(high - low, 1.0))

    def scaled(strip: Image.Image) -> Image.Image:
        values = (np.asarray(strip, dtype=np.float64) - start) * scale
        return Image.fromarray(values.round().astype(np.uint8), mode="L").convert("RGB")

    return _by_strips(image, scaled)


def _strips(image: Image.Image) -> Iterator[tuple[tuple[int, int, int, int], Image.Image]]:
    """Yield an image cut across, each strip with its box."""
    rows = max(1, STRIP_PIXELS // max(1, image.width))
    for top in range(0, image.height, rows):
        box = (0, top, image.width, min(top + rows, image.height))
        yield box, image.crop(box)


def _by_strips(image: Image.Image, convert: Callable[[Image.Image], Image.Image]) -> Image.Image:
    """Convert an image to RGB strip by strip."""
    rgb = Image.new("RGB", image.size)
    for box, strip in _strips(image):
        rgb.paste(convert(strip), box)
    return rgb
