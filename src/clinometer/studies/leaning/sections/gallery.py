"""The pictures: a concept's neutral images beside the images drawn for each group by name."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from itertools import zip_longest
from typing import Any, Final

from clinometer.report.gallery import (
    FEWEST_PER_PROMPT,
    MOST_IMAGES,
    MOST_PER_PROMPT,
    Samples,
    Strip,
    Tile,
    all_there,
    by_owner,
    counts_in_words,
    losses,
    sample_tile,
)
from clinometer.report.sections import refusal_words
from clinometer.studies.leaning.view import LeaningView

Prompts = Mapping[tuple[str, ...], Samples]
"""The samples of each (role, concept or group, prompt), in plan order."""

BESIDE: Final = 8
"""Images of each group shown beside a concept."""


def gallery(view: LeaningView) -> dict[str, Any]:
    """Tiles of every concept, tiles of every group, and what was refused."""
    samples = Samples(view.report.samples)
    if not samples:
        return {"reason": "The run holds no images."}
    prompts = by_owner(samples, "prompt")
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


def _tiles(view: LeaningView, prompt: str, samples: Samples, limit: int) -> list[Tile]:
    return [
        sample_tile(view, sample, f"{prompt}, image {order} of {len(samples)}")
        for order, sample in enumerate(samples[:limit], 1)
    ]


def _categories(view: LeaningView, prompts: Prompts, limit: int) -> list[dict[str, Any]]:
    by_category: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for concept in view.concepts.values():
        own = [(key[2], samples) for key, samples in prompts.items() if key[:2] == ("target", concept.name)]
        if not own:
            continue
        lean, words, value = view.said_of(concept)
        by_category[concept.category].append(
            {
                "name": concept.name,
                "prompt": concept.prompt,
                "lean": lean,
                "verdict": words,
                "value": value,
                "tiles": [tile for prompt, samples in own for tile in _tiles(view, prompt, samples, limit)],
                "left_out": sum(max(0, len(samples) - limit) for _, samples in own),
                "counts": counts_in_words(*(samples for _, samples in own)),
            }
        )
    return [{"label": view.category_label(name), "concepts": concepts} for name, concepts in by_category.items()]


def _groups(view: LeaningView, prompts: Prompts, limit: int) -> dict[str, list[Strip]]:
    by_group: dict[str, list[Strip]] = {name: [] for name in view.suite.groups}
    serial = 0
    for (role, group, prompt), samples in prompts.items():
        if role == "target":
            continue
        strip = Strip(prompt, _tiles(view, prompt, samples, limit), max(0, len(samples) - limit))
        for tile in strip.tiles:
            if tile.picture:
                tile.symbol, serial = f"image{serial}", serial + 1
        by_group.setdefault(group, []).append(strip)
    return {group: strips for group, strips in by_group.items() if strips}


def _counts_of_group(prompts: Prompts, group: str) -> str:
    own = [samples for (role, owner, _), samples in prompts.items() if role != "target" and owner == group]
    return counts_in_words(*own)


def _spread(strips: Sequence[Strip]) -> list[Tile]:
    """Drawn tiles, one of each prompt in turn."""
    turns = zip_longest(*([tile for tile in strip.tiles if tile.symbol] for strip in strips))
    return [tile for turn in turns for tile in turn if tile is not None]
