"""The album of a run: its samples counted and sorted by columns, and each picture made small and held once."""

from __future__ import annotations

import base64
import io
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from typing import Any, Final, overload

import numpy as np
import pandas as pd
from PIL import Image, UnidentifiedImageError

from clinometer.models.images import KEPT
from clinometer.report.inputs import ReportInput
from clinometer.report.rows import is_empty

MOST_IMAGES: Final = 1200
"""Images in one page, so that it stays a few megabytes; a larger run shows the first of every prompt."""

MOST_PER_PROMPT: Final = 24
FEWEST_PER_PROMPT: Final = 2
AT_A_VERDICT: Final = 6
"""Pictures of a concept at its verdict."""


@dataclass
class Tile:
    """One image of the gallery, or what became of it."""

    alt: str
    status: str
    reason: str = ""
    picture: Thumbnail | None = None
    symbol: str = ""
    said: Sequence[tuple[str, str]] = ()
    """Who was asked about it, and the answer."""


def is_flagged(sample: Sample) -> bool:
    """Return whether a safety checker flagged a picture: a report, which goes from hand to hand, leaves it out."""
    flag = sample.get("flagged")
    return not is_empty(flag) and bool(flag)


class Album:
    """The pictures of a page. One that is seen in several places is held once, and shown there by its symbol.

    These are the first pictures of each concept, which stand at its verdict too, and those of the groups.
    """

    def __init__(self, report: ReportInput) -> None:
        self._report = report
        self._shared: dict[str, tuple[str, Thumbnail]] = {}

    @cached_property
    def owned(self) -> dict[tuple[str, ...], Samples]:
        """The samples of each (role, concept or group)."""
        return by_owner(Samples(self._report.samples))

    @cached_property
    def by_prompt(self) -> dict[tuple[str, ...], Samples]:
        """The samples of each (role, concept or group, prompt)."""
        return by_owner(Samples(self._report.samples), "prompt")

    @property
    def limit(self) -> int:
        """How many pictures of a prompt a page holds."""
        return max(FEWEST_PER_PROMPT, min(MOST_PER_PROMPT, MOST_IMAGES // max(1, len(self.by_prompt))))

    @property
    def symbols(self) -> Sequence[tuple[str, Thumbnail]]:
        """The symbols, and the picture that each stands for."""
        return list(self._shared.values())

    def first(self, role: str, owner: str, most: int) -> list[Tile]:
        """Show the first pictures of a concept or group; what is flagged, or is not there, is left out."""
        there = (
            sample
            for sample in self.owned.get((role, owner), ())
            if text_of(sample.get("status")) == "ok" and not is_flagged(sample)
        )
        tiles = []
        for order, sample in enumerate(islice(there, most), 1):
            prompt = text_of(sample.get("prompt")) or owner
            tiles.append(self.tile(sample, f"{prompt}, picture {order}", is_shared=True))
        return [tile for tile in tiles if tile.picture]

    def at_verdict(self, concept: str) -> list[Tile]:
        """Show the pictures that stand at the verdict of a concept; none where what is judged is no concept."""
        return self.first("target", concept, min(AT_A_VERDICT, self.limit))

    def tile(self, sample: Sample, alt: str, *, is_shared: bool = False) -> Tile:
        """Show one sample's picture, or what became of it; ``is_shared`` where other places show it too."""
        status, reason = text_of(sample.get("status")), text_of(sample.get("reason"))
        if status != "ok":
            return Tile(alt, status or "unknown", reason)
        if is_flagged(sample):
            return Tile(alt, "flagged", "a safety checker flagged it; clinometer serve shows it to who asks")
        identifier, report = text_of(sample.get("id")), self._report
        symbol, picture = self._shared.get(identifier) or ("", thumbnail(report.image(identifier)))
        if picture is None:
            return Tile(alt, "unreadable", "the image file cannot be read")
        if is_shared and not symbol:
            symbol = f"image{len(self._shared)}"
            self._shared[identifier] = (symbol, picture)
        said = list(zip(report.voices, report.said(identifier), strict=False))
        return Tile(alt, "ok", picture=picture, symbol=symbol, said=said)


Sample = Mapping[str, Any]


class _Row(Mapping[str, Any]):
    """A row of a table."""

    def __init__(self, table: pd.DataFrame, at: int) -> None:
        self._table, self._at = table, at

    def __getitem__(self, name: str) -> Any:
        cell = self._table[name].array[self._at]
        return cell.item() if isinstance(cell, np.generic) else cell

    def __iter__(self) -> Iterator[str]:
        return iter(map(str, self._table.columns))

    def __len__(self) -> int:
        return len(self._table.columns)


class Samples(Sequence[Sample]):
    """Rows of a table of samples, in its order; of a million rows, each as an object would take a gigabyte."""

    def __init__(self, table: pd.DataFrame, rows: np.ndarray | None = None) -> None:
        self._table = table
        self._rows = np.arange(len(table)) if rows is None else rows

    def __len__(self) -> int:
        return len(self._rows)

    @overload
    def __getitem__(self, at: int) -> Sample: ...
    @overload
    def __getitem__(self, at: slice) -> Samples: ...
    def __getitem__(self, at: int | slice) -> Sample | Samples:
        if isinstance(at, slice):
            return Samples(self._table, self._rows[at])
        return _Row(self._table, int(self._rows[at]))

    def counts(self, name: str) -> Counter[str]:
        """Count each text of a column, in the order in which they first appear."""
        codes, texts = self._texts(name)
        return Counter(dict(zip(texts, np.bincount(codes, minlength=len(texts)).tolist(), strict=True)))

    def by(self, *names: str) -> dict[tuple[str, ...], Samples]:
        """Split rows by the combination of texts in some columns, in the order in which they first appear."""
        codes, texts = zip(*(self._texts(name) for name in names), strict=True)
        shape = [max(1, len(each)) for each in texts]
        ranks, found = pd.factorize(np.atleast_1d(np.ravel_multi_index(codes, shape)))
        order, ends = np.argsort(ranks, kind="stable"), np.cumsum(np.bincount(ranks, minlength=len(found)))
        keys = zip(*np.unravel_index(found, shape), strict=True)
        return {
            tuple(each[code] for each, code in zip(texts, key, strict=True)): Samples(self._table, self._rows[rows])
            for key, rows in zip(keys, np.split(order, ends[:-1]), strict=False)
        }

    def _texts(self, name: str) -> tuple[np.ndarray, list[str]]:
        """Code a column by its texts, in the order in which they first appear; a missing one is empty."""
        if name not in self._table:
            return np.zeros(len(self), int), [""] if len(self) else []
        codes, cells = pd.factorize(self._table[name].array.take(self._rows), use_na_sentinel=False)
        place: dict[str, int] = {}
        of_cell = [place.setdefault(text_of(cell), len(place)) for cell in cells]
        return np.array(of_cell, int)[codes], [*place]

    @classmethod
    def together(cls, found: Sequence[Samples]) -> Samples:
        """Join rows of one table, in its order."""
        if len(found) == 1:
            return found[0]
        return cls(found[0]._table, np.sort(np.concatenate([each._rows for each in found])))


def by_owner(samples: Samples, *further: str) -> dict[tuple[str, ...], Samples]:
    """Split rows by role and owner, a group or, of a target and where there is none, a concept; and by more texts."""
    parts: dict[tuple[str, ...], list[Samples]] = {}
    for (role, concept, group, *rest), found in samples.by("role", "concept", "group", *further).items():
        parts.setdefault((role, concept if role == "target" or not group else group, *rest), []).append(found)
    return {key: Samples.together(found) for key, found in parts.items()}


def text_of(value: Any) -> str:
    """Read a cell as text; empty where there is nothing."""
    return "" if is_empty(value) else str(value)


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
