"""The pictures themselves: a concept's neutral images beside the images drawn for each group by name."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import Any, Final

from clinometer.report import wording
from clinometer.report.rows import is_empty
from clinometer.report.sections.refusals import refusal_words
from clinometer.report.thumbnails import Thumbnail, thumbnail
from clinometer.report.view import LeaningView, View

MOST_IMAGES: Final = 1200
"""Images in one page, so that it stays a few megabytes; a larger run shows the first of every prompt."""

MOST_PER_PROMPT: Final = 24
FEWEST_PER_PROMPT: Final = 2
BESIDE: Final = 8
"""Images of each group shown beside a concept."""

Sample = dict[str, Any]


@dataclass
class Tile:
    """One image of the gallery, or what became of it."""

    alt: str
    status: str
    reason: str = ""
    picture: Thumbnail | None = None
    symbol: str = ""


@dataclass
class Strip:
    """The images of one prompt or group."""

    label: str
    tiles: list[Tile] = field(default_factory=list)
    left_out: int = 0


def gallery(view: LeaningView) -> dict[str, Any]:
    """Tiles of every concept, tiles of every group, and what was refused."""
    samples = [{str(key): value for key, value in sample.items()} for sample in view.report.samples.to_dict("records")]
    if not samples:
        return {"reason": "The run holds no images."}
    prompts = _by_prompt(samples)
    limit = max(FEWEST_PER_PROMPT, min(MOST_PER_PROMPT, MOST_IMAGES // len(prompts)))
    groups = _groups(view, prompts, limit)
    return {
        "reason": "",
        "categories": _categories(view, prompts, limit),
        "groups": groups,
        "beside": [Strip(view.label(name), _spread(strips)[:BESIDE]) for name, strips in groups.items()],
        "labels": {name: view.label(name) for name in groups},
        "counts": {name: _counts_of_group(prompts, name) for name in groups},
        "losses": losses(view, samples),
        "refusal": refusal_words(view),
        "there": all_there(len(samples)),
    }


def _by_prompt(samples: Sequence[Sample]) -> dict[tuple[str, str, str], list[Sample]]:
    """Sort samples by (role, concept or group, prompt), in plan order."""
    held: dict[tuple[str, str, str], list[Sample]] = defaultdict(list)
    for sample in samples:
        role = _text(sample.get("role"))
        owner = _text(sample.get("concept" if role == "target" else "group"))
        held[role, owner, _text(sample.get("prompt"))].append(sample)
    return dict(held)


def _text(value: Any) -> str:
    return "" if is_empty(value) else str(value)


def _tiles(view: LeaningView, prompt: str, samples: Sequence[Sample], limit: int) -> list[Tile]:
    return [
        sample_tile(view, sample, f"{prompt}, image {order} of {len(samples)}")
        for order, sample in enumerate(samples[:limit], 1)
    ]


def sample_tile(view: View, sample: Sample, alt: str) -> Tile:
    """One sample's picture, or what became of it."""
    status, reason = _text(sample.get("status")), _text(sample.get("reason"))
    if status != "ok":
        return Tile(alt, status or "unknown", reason)
    picture = thumbnail(view.report.image(_text(sample.get("id"))))
    return Tile(alt, "ok", picture=picture) if picture else Tile(alt, "unreadable", "the image file cannot be read")


def _categories(
    view: LeaningView, prompts: dict[tuple[str, str, str], list[Sample]], limit: int
) -> list[dict[str, Any]]:
    held: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for concept in view.concepts.values():
        own = [(key[2], found) for key, found in prompts.items() if key[:2] == ("target", concept.name)]
        if not own:
            continue
        lean, words, value = view.said_of(concept)
        held[concept.category].append(
            {
                "name": concept.name,
                "prompt": concept.prompt,
                "lean": lean,
                "verdict": words,
                "value": value,
                "tiles": [tile for prompt, found in own for tile in _tiles(view, prompt, found, limit)],
                "left_out": sum(max(0, len(found) - limit) for _, found in own),
                "counts": counts_in_words([sample for _, found in own for sample in found]),
            }
        )
    return [{"label": view.category_label(name), "concepts": concepts} for name, concepts in held.items()]


def counts_in_words(samples: Sequence[Sample]) -> str:
    """``"20 images, 2 refused"``."""
    statuses = Counter(_text(sample.get("status")) for sample in samples)
    drawn = statuses.pop("ok", 0)
    return ", ".join([wording.count(drawn, "image"), *(f"{n} {status}" for status, n in statuses.items())])


def _groups(view: LeaningView, prompts: dict[tuple[str, str, str], list[Sample]], limit: int) -> dict[str, list[Strip]]:
    held: dict[str, list[Strip]] = {name: [] for name in view.suite.groups}
    serial = 0
    for (role, group, prompt), samples in prompts.items():
        if role == "target":
            continue
        strip = Strip(prompt, _tiles(view, prompt, samples, limit), max(0, len(samples) - limit))
        for tile in strip.tiles:
            if tile.picture:
                tile.symbol, serial = f"image{serial}", serial + 1
        held.setdefault(group, []).append(strip)
    return {group: strips for group, strips in held.items() if strips}


def _counts_of_group(prompts: dict[tuple[str, str, str], list[Sample]], group: str) -> str:
    own = [found for (role, owner, _), found in prompts.items() if role != "target" and owner == group]
    return counts_in_words([sample for found in own for sample in found])


def _spread(strips: Sequence[Strip]) -> list[Tile]:
    """Drawn tiles, one of each prompt in turn."""
    turns = zip_longest(*([tile for tile in strip.tiles if tile.symbol] for strip in strips))
    return [tile for turn in turns for tile in turn if tile is not None]


def all_there(n: int) -> str:
    """That no image was lost."""
    return "the one image is there" if n == 1 else f"all {n:,} images are there"


def losses(view: View, samples: Sequence[Sample]) -> list[dict[str, Any]]:
    """Concepts and groups that lost images: asked, drawn, refused, failed, blank, and the reasons."""
    held: dict[tuple[str, str], list[Sample]] = defaultdict(list)
    for sample in samples:
        role = _text(sample.get("role"))
        held[role, _text(sample.get("concept" if role == "target" else "group"))].append(sample)
    table = []
    for (role, owner), found in held.items():
        statuses = Counter(_text(sample.get("status")) for sample in found)
        if statuses["ok"] == len(found):
            continue
        reasons = Counter(_text(sample.get("reason")) for sample in found if _text(sample.get("reason")))
        table.append(
            {
                "name": owner if role == "target" else f"images of {view.label(owner)}",
                "asked": len(found),
                **{status: statuses[status] for status in ("ok", "refused", "failed", "blank")},
                "reasons": [f"{reason} ({n}\N{MULTIPLICATION SIGN})" for reason, n in reasons.most_common(3)],
            }
        )
    return table
