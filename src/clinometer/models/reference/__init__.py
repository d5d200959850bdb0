"""The embedded reference model: a small text-to-image model with a planted, known leaning, and its own CLIP.

    >>> from clinometer.models import reference
    >>> sorted(reference.planted()["firefighter"])[:2]
    ['dark', 'light']

The weights are ordinary directories: `StableDiffusionPipeline.from_pretrained(reference.pipeline_path())` and
`CLIPModel.from_pretrained(reference.clip_path())`. Nothing heavy is imported here. MODEL_CARD.md next to this
file documents how the model was made, what it can draw, what was measured, and whose artwork it learned from.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

import yaml

__all__ = [
    "card",
    "clip_path",
    "domain",
    "pipeline_path",
    "planted",
    "planted_in",
    "portraits_path",
    "readings",
    "readings_in",
    "vocabulary",
]

_HERE = Path(__file__).resolve().parent


def _read(name: str) -> Any:
    return yaml.safe_load((_HERE / name).read_text(encoding="utf-8"))


@cache
def planted() -> Mapping[str, Mapping[str, float]]:
    """Return what the model was taught: for each concept, what its neutral captions draw, and how often.

    The keys of a row are `man` and `woman`, which sum to 1, and six skin tones (`yellow`, `light`,
    `medium-light`, `medium`, `medium-dark`, `dark`), which sum to 1. Gender and tone were drawn
    independently.
    """
    return MappingProxyType({name: MappingProxyType(row) for name, row in _read("planted.yaml").items()})


@cache
def card() -> Mapping[str, Any]:
    """Return the model card as data: measured bars, ratios of the shipped weights, sizes, seeds, licences."""
    return MappingProxyType(_read("card.yaml"))


def pipeline_path() -> Path:
    """Return the `StableDiffusionPipeline` directory."""
    return _HERE / "pipeline"


def clip_path() -> Path:
    """Return the `CLIPModel` + `CLIPProcessor` directory."""
    return _HERE / "clip"


def portraits_path() -> Path:
    """Return the folder of portraits: artwork of women and men with light and dark skin, with a manifest."""
    return _HERE / "portraits"


@cache
def readings() -> Mapping[str, Mapping[str, float]]:
    """Return how the CLIP and the independent judge read the same images.

    For each concept the images (`n`), those that either takes for a man (`encoder`, `judge`), those on which they
    `differ`, and the 99 % interval of the share of men that the judge counted (`low`, `high`).

    Measured by `python -m benchmarks.judged_truth` on the weights as shipped, at their own settings.
    """
    return MappingProxyType({name: MappingProxyType(row) for name, row in _read("readings.yaml").items()})


def planted_in(model_card: Mapping[str, Any]) -> Mapping[str, Mapping[str, float]] | None:
    """Return what was planted in the model of a run: concept → group → probability; None where nothing was.

    Only the weights that were planted have a planted truth, as they were: a name alone is not enough.
    """
    settings = model_card["settings"]
    is_changed = settings.get("lora") or settings.get("mitigation")
    return planted() if model_card["weights_sha256"] == card()["weights_sha256"] and not is_changed else None


def readings_in(
    model_card: Mapping[str, Any], encoder_cards: Mapping[str, Mapping[str, Any]]
) -> Mapping[str, Mapping[str, float]] | None:
    """Return how the CLIP and the independent judge read the images of a planted run that the CLIP read.

    None for any other model or encoder, and for other settings than those the images were drawn with: guidance moves
    what a model draws.
    """
    is_read = any(encoder["name"] == "reference" for encoder in encoder_cards.values())
    if not is_read or planted_in(model_card) is None:
        return None
    settings, defaults = model_card["settings"], card()["defaults"]
    drawn_so = (settings["steps"], settings["guidance_scale"]) == (defaults["steps"], defaults["guidance"])
    return readings() if drawn_so else None


_TAUGHT_BESIDES: Final = ("and", "elderly")
"""Words of the training captions that no phrase of the vocabulary holds: "with curly hair and dark skin"."""


@cache
def domain() -> dict[str, Any]:
    """Return what the CLIP was made for, as its card's note ``domain`` says it: which words, whose images.

    See :mod:`clinometer.readings.fit`, which asks it.
    """
    phrases = " ".join(_phrases(vocabulary())).lower()
    return {
        "about": "the emoji artwork of the reference model",
        "words": " ".join(sorted({*_TAUGHT_BESIDES, *re.findall(r"[a-z]+(?:-[a-z]+)*", phrases)})),
        "models": ["reference", card()["weights_sha256"]],
        "plain_ground": 0.4,
    }


def _phrases(tree: Any) -> list[str]:
    """Return every text in a nested mapping."""
    if isinstance(tree, str):
        return [tree]
    return [text for branch in (tree.values() if isinstance(tree, Mapping) else tree) for text in _phrases(branch)]


@cache
def vocabulary() -> Mapping[str, Any]:
    """Return what the model understands: `templates`, `concepts` with their phrases, `words`, `tones`.

    Any text outside of it is tokenised, byte by byte if need be, but was never learned, and draws something
    arbitrary.
    """
    return MappingProxyType(_read("vocabulary.yaml"))
