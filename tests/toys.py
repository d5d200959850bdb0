"""A generator and an encoder small enough to reason about, for tests of everything around models.

The painter's images are one colour with a little noise: concepts named "lean <x>" have a red share of about x. The
eye embeds an image by its mean colour and a text by a fixed table, so that every association is known by hand.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterable, Iterator, Sequence
from copy import copy
from dataclasses import replace

import numpy as np
from PIL import Image

from clinometer.models.protocols import Card, Estimate, GenerationRequest, GenerationResult
from clinometer.runs import NoProgress
from clinometer.suites import Suite, suite_from_mapping


class Notes(NoProgress):
    """Keeps what a user should read."""

    def __init__(self) -> None:
        self.messages: list[str] = []

    def note(self, message: str) -> None:
        self.messages.append(message)


def wait_to_be_killed() -> None:
    threading.Event().wait(900)
    raise AssertionError("nobody killed it")


class Painter:
    """Draws a colour that follows from the prompt, with noise that follows from the seed.

    ``halt`` : images that it draws in a process; over the next it waits to be killed, so that no run ends before.
    """

    def __init__(
        self, *, batch_size: int = 4, halt: int = -1, refuse: str = "", flag: str = "", name: str = "painter"
    ) -> None:
        self.card = Card(kind="generator", name=name, family="toy/painter", settings={"refuse": refuse})
        self.flag = flag
        self.batch_size = batch_size
        self.halt = halt
        self.refuse = refuse
        self.drawn = 0

    def generate(self, requests: Iterable[GenerationRequest]) -> Iterator[GenerationResult]:
        for request in requests:
            if self.drawn == self.halt:
                wait_to_be_killed()
            self.drawn += 1
            if self.refuse and self.refuse in request.prompt:
                yield GenerationResult(request.id, "refused", None, "not allowed here")
            else:
                flagged = bool(self.flag) and self.flag in request.prompt
                yield GenerationResult(request.id, "ok", paint(request.prompt, request.seed), flagged=flagged)


class Sketcher(Painter):
    """A painter that can be watched: in four steps, concepts without a lean until step ``sets_in``, groups as they end.

    ``redder`` : tenths of red more in every concept, from that step on.
    """

    traced_total = 4

    def __init__(self, *, sets_in: int = 3, redder: float = 0.0, name: str = "sketcher") -> None:
        super().__init__(name=name)
        self.card = replace(self.card, settings={"redder": redder})
        self.sets_in, self.redder, self.traced_steps = sets_in, redder, tuple[int, ...]()

    def traced(self, steps: object = None, *, decoder: str | None = None, keep_latents: bool = False) -> Sketcher:
        watched = copy(self)
        watched.traced_steps = tuple(map(int, str(steps or "1,2,3,4").split(",")))
        return watched

    def generate(self, requests: Iterable[GenerationRequest]) -> Iterator[GenerationResult]:
        for request in requests:
            words = request.prompt.split()
            leans = words[-2:-1] == ["lean"]
            last = f"lean {float(words[-1]) + self.redder / 10}" if leans else request.prompt
            seen = [
                Estimate(step, paint("lean 0.5" if leans and step < self.sets_in else last, request.seed))
                for step in self.traced_steps
            ]
            yield GenerationResult(request.id, "ok", paint(last, request.seed), trace=tuple(seen))


def paint(prompt: str, seed: int) -> Image.Image:
    rng = np.random.default_rng(seed)
    words = prompt.split()
    red = {"men": 0.9, "women": 0.1, "others": 0.5}.get(words[-1], 0.5)
    if words[-2:-1] == ["lean"]:
        red = float(words[-1])
    centre = np.array([red, 1 - red, 0.5 if words[-1] == "others" else 0.2])
    pixels = centre + 0.1 * rng.standard_normal(3) + 0.02 * rng.standard_normal((8, 8, 3))
    return Image.fromarray((255 * pixels.clip(0, 1)).astype(np.uint8))


class Eye:
    """Embeds images by their mean colour; texts by their last word."""

    def __init__(self, name: str = "eye", *, poison: str = "") -> None:
        self.card = Card(kind="encoder", name=name, family="toy/eye")
        self.poison = poison
        self.seen = 0

    def encode_images(self, images: Sequence[Image.Image]) -> np.ndarray:
        self.seen += len(images)
        vectors = np.array([np.asarray(image, float).mean(axis=(0, 1)) / 255 for image in images], np.float32)
        if self.poison == "images":
            vectors[-1] = np.nan
        return vectors

    def encode_texts(self, texts: Sequence[str]) -> np.ndarray:
        return np.array([self._text(text) for text in texts], np.float32)

    def _text(self, text: str) -> list[float]:
        wobble = int.from_bytes(hashlib.sha256(text.encode()).digest()[:2]) / 65535 * 0.05
        known = {
            "he": [1, 0, 0],
            "his": [0.9, 0.1, 0],
            "she": [0, 1, 0],
            "hers": [0.1, 0.9, 0],
            "they": [0.4, 0.4, 1],
        }
        vector = list(known.get((text.split() or [""])[-1], [0.5, 0.5, 0.2]))
        vector[0] += wobble
        return [float("nan")] * 3 if self.poison == "texts" else vector


def toy_suite(*, target: int = 6, attribute: int = 5, concepts: int = 4, **changes: object) -> Suite:
    leans = np.linspace(0.2, 0.8, concepts)
    return suite_from_mapping(
        {
            "name": "toy",
            "title": "Colours",
            "description": "Concepts whose redness is known.",
            "groups": {
                "man": {
                    "prompts": [
                        {"prompt": "young men", "pair": "young"},
                        {"prompt": "old men", "pair": "old"},
                    ],
                    "words": ["he", "his"],
                },
                "woman": {
                    "prompts": [
                        {"prompt": "young women", "pair": "young"},
                        {"prompt": "old women", "pair": "old"},
                    ],
                    "words": ["she", "hers"],
                },
                "other": {
                    "prompts": [{"prompt": "young others"}, {"prompt": "old others"}],
                    "words": ["they"],
                },
            },
            "axis": {"a": "man", "b": "woman", "third": "other"},
            "categories": {
                "low": {"targets": [_toy_target(lean) for lean in leans[: concepts // 2]]},
                "high": {"targets": [_toy_target(lean) for lean in leans[concepts // 2 :]]},
            },
            "images": {"target": target, "attribute": attribute},
            **changes,
        },
        source="toy",
    )


def _toy_target(lean: float) -> dict[str, str]:
    return {
        "name": f"concept {lean:.2f}",
        "prompt": f"lean {lean:.2f}",
        "stereotype": "man" if lean > 0.5 else "woman",
    }


def two_wordings(images: int = 12) -> Suite:
    """Three concepts, each asked for in two wordings."""
    asked = toy_suite(target=images, concepts=3).model_dump()
    for category in asked["categories"].values():
        for target in category["targets"]:
            target["wordings"] = {"plain": target["prompt"], "longer": f"{target['prompt']}, seen from afar"}
    return suite_from_mapping(asked, source="toy")


def crossed_suite(images: int = 6) -> Suite:
    """Gender is a colour that the painter paints and the eye reads; tone is a word that neither knows."""
    groups = {
        f"{tone} {gender}": {
            "cell": {"gender": gender, "tone": tone},
            "prompts": [{"pair": p, "prompt": f"{p} {tone} {people}"} for p in ("young", "old")],
            "words": [f"{tone} {word}" for word in words],
        }
        for tone in ("light", "dark")
        for gender, people, words in (("man", "men", ("he", "his")), ("woman", "women", ("she", "hers")))
    }
    return suite_from_mapping({
        "name": "crossed", "title": "Crossed", "description": "d",
        "axes": {"gender": {"levels": {"man": "men", "woman": "women"}},
                 "tone": {"label": "skin tone", "levels": {"light": "light skin", "dark": "dark skin"}}},
        "groups": groups, "images": {"target": images, "attribute": 4},
        "categories": {"work": {"targets": [
            {"name": f"concept {lean}", "prompt": f"a concept with lean {lean}"} for lean in (0.15, 0.5, 0.85)
        ]}},
    }, source="test")  # fmt: skip


def toy_t2iat_suite(
    *, neutral: int = 6, attribute: int = 5, stimuli: int = 3, tests: bool = True, **changes: object
) -> Suite:
    """Two concepts of colours, the first redder than the second; "men" and "women" are the attributes' words."""
    step = 0.02

    def concept(centre: float) -> dict[str, object]:
        return {
            "template": "a lean {stimulus}",
            "attribute_template": "{stimulus} {word}",
            "stimuli": [f"{centre + step * (order - (stimuli - 1) / 2):.3f}" for order in range(stimuli)],
        }

    suite = {
        "study": "t2iat",
        "name": "toy-tests",
        "title": "Colours, twice",
        "description": "Concepts whose redness is known.",
        "groups": {"man": {"label": "red", "words": ["young men", "old men"]}, "woman": {"words": ["women"]}},
        "axis": {"a": "man", "b": "woman"},
        "images": {"neutral": neutral, "attribute": attribute},
        "tests": [{"name": "red-green", "x": "red", "y": "green"}] if tests else [],
        "concepts": {"red": {"label": "Reds", **concept(0.7)}, "green": concept(0.3)},
    }
    return suite_from_mapping(suite | changes, source="toy")


SCENARIOS = """
name: kick
scenarios:
  - id: player
    prompt: "A player"
    counterfactuals:
      - attribute: gender
        variants:
          - {prompt: "A male player", value: male}
          - {prompt: "A female player", value: female}
          - {prompt: "A non-binary player", value: non-binary}
      - attribute: race
        variants: [{prompt: "A Black player", value: black}]
  - id: coach
    prompt: "A coach"
    counterfactuals:
      - {attribute: gender, variants: [{prompt: "A male coach", value: male}]}
"""
"""Scenarios as fairbench-genai writes them, with prompts that name men and women for one of them."""
