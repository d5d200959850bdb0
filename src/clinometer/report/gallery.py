"""The pictures of a run: its samples counted and sorted by columns, each image made small, and tiles of them."""

from __future__ import annotations

import base64
import io
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, overload

import numpy as np
import pandas as pd
from PIL import Image, UnidentifiedImageError

from clinometer.models.images import KEPT
from clinometer.report import wording
from clinometer.report.page import Verdicts, View
from clinometer.report.rows import is_empty

MOST_IMAGES: Final = 1200
"""Images in one page, so that it stays a few megabytes; a larger run shows the first of every prompt."""

MOST_PER_PROMPT: Final = 24
FEWEST_PER_PROMPT: Final = 2


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


@dataclass
class Strip:
    """The images of one prompt or group."""

    label: str
    tiles: list[Tile] = field(default_factory=list)
    left_out: int = 0


def is_flagged(sample: Sample) -> bool:
    """Return whether a safety checker flagged a picture: a report, which goes from hand to hand, leaves it out."""
    flag = sample.get("flagged")
    return not is_empty(flag) and bool(flag)


def sample_tile(view: View, sample: Sample, alt: str) -> Tile:
    """Show one sample's picture, or what became of it."""
    status, reason = text_of(sample.get("status")), text_of(sample.get("reason"))
    if status != "ok":
        return Tile(alt, status or "unknown", reason)
    if is_flagged(sample):
        return Tile(alt, "flagged", "a safety checker flagged it; clinometer serve shows it to who asks")
    identifier = text_of(sample.get("id"))
    picture = thumbnail(view.report.image(identifier))
    if not picture:
        return Tile(alt, "unreadable", "the image file cannot be read")
    return Tile(
        alt, "ok", picture=picture, said=list(zip(view.report.voices, view.report.said(identifier), strict=False))
    )


def counts_in_words(*samples: Samples) -> str:
    """``"20 images, 2 refused"``."""
    statuses = Counter[str]()
    for each in samples:
        statuses.update(each.counts("status"))
    drawn = statuses.pop("ok", 0)
    return ", ".join([wording.count(drawn, "image"), *(f"{n} {status}" for status, n in statuses.items())])


def all_there(n: int) -> str:
    """Say that no image was lost."""
    return "the one image is there" if n == 1 else f"all {n:,} images are there"


def losses(view: View, samples: Samples) -> list[dict[str, Any]]:
    """List concepts and groups that lost images: asked, drawn, refused, failed, blank, and the reasons."""
    table = []
    for (role, owner), owner_samples in by_owner(samples).items():
        statuses = owner_samples.counts("status")
        if statuses["ok"] == len(owner_samples):
            continue
        reasons = owner_samples.counts("reason")
        del reasons[""]
        table.append(
            {
                "name": owner if role == "target" else f"images of {view.label(owner)}",
                "asked": len(owner_samples),
                **{status: statuses[status] for status in ("ok", "refused", "failed", "blank")},
                "reasons": [f"{reason} ({n}\N{MULTIPLICATION SIGN})" for reason, n in reasons.most_common(3)],
            }
        )
    return table


FOREMOST: Final = 12
"""Pictures of each of the concepts that a page opens with."""


def foremost_pictures(view: View, judged: Sequence[Verdicts], most: int) -> list[dict[str, Any]]:
    """Lay out the first pictures of what leans most, to either side first; of groups where no concept is drawn.

    Flagged pictures and those that are not there are left out. ``most`` : concepts.
    """
    owned = by_owner(Samples(view.report.samples))
    rows = judged[0].rows if judged else ()
    ranked = sorted(rows, key=lambda row: (not wording.leans(row), -abs(row.value) if row.defined else 0.0))
    sides = [next((row for row in ranked if wording.verdict_group_of(row) == side), None) for side in ("a", "b")]
    said = {row.concept: "; ".join([judged[0].verdict(row), *judged[0].notes_of(row)[:1]]) for row in ranked}
    foremost = dict.fromkeys(row.concept for row in (*filter(None, sides), *ranked) if ("target", row.concept) in owned)
    owners = [("target", name) for name in foremost] or [(role, owner) for role, owner in owned]
    strips = []
    for role, owner in owners[: most if foremost else most + 1]:
        drawn = [sample for sample in owned[role, owner] if sample["status"] == "ok" and not is_flagged(sample)]
        label = owner if role == "target" else f"{view.label(owner)}, {role}"
        tiles = [
            sample_tile(view, sample, f"{text_of(sample.get('prompt')) or owner}, picture {n}")
            for n, sample in enumerate(drawn[:FOREMOST], 1)
        ]
        strips.append(
            {
                "label": wording.shortened(wording.capitalised(label), 60),
                "said": wording.shortened(said.get(owner, "") if role == "target" else "", 90),
                "tiles": [tile for tile in tiles if tile.picture],
                "of": len(owned[role, owner]),
            }
        )
    return [strip for strip in strips if strip["tiles"]]


MOST_OWNERS: Final = 12
MOST_NOISES: Final = 8
"""Concepts, or groups, of which runs are shown beside each other, and pictures of each."""


def beside_each_other(views: Mapping[str, View], first: Sequence[str] = ()) -> list[dict[str, Any]]:
    """Lay out pictures of several runs, a row a run and a column a noise that all of them started from.

    ``first`` are the concepts that come first; those without follow in the order of the plan. Where runs share no
    noise, each shows its own first pictures.
    """
    owned = {model: _by_owner(view) for model, view in views.items()}
    owners = [name for name in next(iter(owned.values())) if all(name in of for of in owned.values())]
    ranked = sorted(owners, key=lambda name: first.index(name) if name in first else len(first))
    beside = []
    for name in ranked[:MOST_OWNERS]:
        by_start = {
            model: {tuple(text_of(sample.get(key)) for key in ("prompt", "strength", "seed")): sample
                    for sample in of[name]}
            for model, of in owned.items()
        }  # fmt: skip
        shared = [start for start in next(iter(by_start.values())) if all(start in of for of in by_start.values())]
        rows = [
            {
                "model": model,
                "tiles": [
                    sample_tile(views[model], of[start], f"{start[0]}, {model}, picture {order}")
                    for order, start in enumerate((shared or list(of))[:MOST_NOISES], 1)
                ],
            }
            for model, of in by_start.items()
        ]
        left_out = max(0, len(shared) - MOST_NOISES)
        beside.append({"name": name, "rows": rows, "same_noise": bool(shared), "left_out": left_out})
    return beside


def _by_owner(view: View) -> dict[str, Samples]:
    """Find the samples of each concept, or of each group where the suite has no concept of its own."""
    found = by_owner(Samples(view.report.samples))
    targets = {owner: samples for (role, owner), samples in found.items() if role == "target"}
    return targets or {view.label(owner): samples for (_, owner), samples in found.items()}


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
    """Split rows by role and owner, a target's concept or else a group, and by the texts in further columns."""
    held: dict[tuple[str, ...], list[Samples]] = {}
    for (role, concept, group, *rest), found in samples.by("role", "concept", "group", *further).items():
        held.setdefault((role, concept if role == "target" else group, *rest), []).append(found)
    return {key: Samples.together(found) for key, found in held.items()}


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
