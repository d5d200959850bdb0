"""Images small enough to live inside the page."""

from __future__ import annotations

import base64
import io
from dataclasses import dataclass
from typing import Final

from PIL import Image, UnidentifiedImageError

from clinometer.models.images import KEPT

LARGEST_SIDE: Final = 96
LARGEST: Final = 128_000_000
"""Pixels of an image that is shrunk, three times those of one that is imported; with transparency, as many."""
QUALITY: Final = 72


@dataclass(frozen=True)
class Thumbnail:
    """A WebP image as a data URL."""

    url: str
    width: int
    height: int


def thumbnail(data: bytes | None) -> Thumbnail | None:
    """Shrink a stored image to at most 96 pixels a side; None where there is none, or it is unreadable or too large."""
    if not data:
        return None
    try:
        with Image.open(io.BytesIO(data), formats=tuple(KEPT)) as image:
            if image.width * image.height > (LARGEST if image.mode == "RGB" else LARGEST // 3):
                return None
            small = image if image.mode == "RGB" else _on_white(image)  # a copy of a large image is a large one
            small.thumbnail((LARGEST_SIDE, LARGEST_SIDE), Image.Resampling.LANCZOS)
            buffer = io.BytesIO()
            small.save(buffer, "WEBP", quality=QUALITY, method=4)
    except (OSError, ValueError, SyntaxError, UnidentifiedImageError, Image.DecompressionBombError):
        return None
    encoded = base64.b64encode(buffer.getvalue()).decode("ascii")
    return Thumbnail(f"data:image/webp;base64,{encoded}", *small.size)


def _on_white(image: Image.Image) -> Image.Image:
    """Flatten transparency over white, as a page would show it."""
    if not image.has_transparency_data:
        return image.convert("RGB")
    layer = image.convert("RGBA")
    flat = Image.new("RGB", layer.size, "white")
    flat.paste(layer, mask=layer.getchannel("A"))
    return flat
