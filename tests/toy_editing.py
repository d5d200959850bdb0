"""A study of editing whose edits are known: an editor that turns doctors red, and a reader of colours."""

from __future__ import annotations

import numpy as np
from PIL import Image

import clinometer as cm
from clinometer.models.protocols import Card, EditRequest, GenerationRequest, GenerationResult
from clinometer.suites import EditingSuite, suite_from_mapping

SUITE = {
    "study": "editing",
    "name": "toy-editing",
    "title": "Toy editing",
    "description": "Two groups, two professions, two strengths.",
    "genders": {"a": "man", "b": "woman"},
    "wordings": [{"a": "a photo of a man", "b": "a photo of a woman"}, {"a": "a man", "b": "a woman"}],
    "groups": {
        "women": {"gender": "woman", "prompt": "a woman", "codes": ["WF"]},
        "men": {"gender": "man", "prompt": "a man", "codes": ["WM"]},
    },
    "professions": {
        "doctor": {"kind": "high-paid", "prompt": "a doctor"},
        "dishwasher": {"kind": "low-paid", "prompt": "a dishwasher"},
    },
    "strengths": [0.5, 1.0],
    "images": {"group": 3},
}


def toy_suite(**changes: object) -> EditingSuite:
    suite = suite_from_mapping({**SUITE, **changes}, source="toy")
    assert isinstance(suite, EditingSuite)
    return suite


class Recolourer:
    """Draws men red and women green; editing into a doctor at strength 1 makes anyone red."""

    batch_size = 4

    def __init__(self, stop_after: int = 10**9, fail: str = "") -> None:
        self.card = Card("generator", "recolourer", "toy")
        self.stop_after, self.fail, self.edited = stop_after, fail, 0

    def generate(self, requests: list[GenerationRequest]):
        for request in requests:
            colour = (200, 40, 40) if "woman" not in request.prompt else (40, 200, 40)
            if request.prompt == self.fail:
                yield GenerationResult(request.id, "failed", None, "no paint")
            else:
                yield GenerationResult(request.id, "ok", self._paint(colour, request.seed))

    def editor(self) -> Recolourer:
        return self

    def edit(self, requests: list[EditRequest]):
        for request in requests:
            self.edited += 1
            if self.edited > self.stop_after:
                raise KeyboardInterrupt
            image = request.image
            if request.prompt == "a doctor" and request.strength == 1.0:
                image = self._paint((200, 40, 40), request.seed)
            yield GenerationResult(request.id, "ok", image)

    def _paint(self, colour: tuple[int, int, int], seed: int) -> Image.Image:
        pixels = np.array(colour) + np.random.default_rng(seed).integers(-20, 20, (16, 16, 3))
        return Image.fromarray(pixels.astype(np.uint8))


class Reader:
    """Reads red for men and green for women."""

    card = Card("encoder", "reader", "toy")

    def encode_images(self, images: list[Image.Image]) -> np.ndarray:
        return np.array([np.asarray(image, np.float32).mean((0, 1)) for image in images])

    def encode_texts(self, texts: list[str]) -> np.ndarray:
        return np.array([[0, 1, 0] if "woman" in text else [1, 0, 0] for text in texts], np.float32)


def rows(run: cm.Run, component: str, **equal: str):
    found = run.scores[(run.scores.component == component) & (run.scores.concept == "")]
    for name, value in equal.items():
        found = found[found[name] == value]
    return found
