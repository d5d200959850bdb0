"""A painter that can also be asked how well it denoises.

Its errors follow from an image's redness, so that its choices are known.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from PIL import Image

from clinometer._torch import torch
from clinometer.models.protocols import Card
from clinometer.suites import ClassificationSuite, suite_from_mapping
from tests.toys import Painter

REDNESS = {"a pilot": 0.85, "a mechanic": 0.7, "a cook": 0.3, "a singer": 0.15}
"""The redness of an image that each class fits best."""


class RednessDenoiser:
    """Errs by the distance of an image's redness from that of the class, and by noise that classes share in part."""

    tolerance = 1e-5

    def __init__(self, card: Card, *, batch_size: int = 16, spread: float = 0.2, fail_after: int | None = None) -> None:
        self.card, self.batch_size, self.spread = card, batch_size, spread
        self.fail_after, self.rows = fail_after, 0

    def encode_images(self, images: Sequence[Image.Image]) -> torch.Tensor:
        means = [np.asarray(image, np.float32)[..., 0].mean() / 255 for image in images]
        return torch.tensor(means, dtype=torch.float32).reshape(-1, 1, 1, 1).expand(-1, 1, 2, 2)

    def timesteps(self, fractions: torch.Tensor) -> torch.Tensor:
        return (fractions * 1000).long()

    def errors(
        self, latents: torch.Tensor, timesteps: torch.Tensor, noise: torch.Tensor, prompts: Sequence[str]
    ) -> np.ndarray:
        self.rows += len(prompts)
        if self.fail_after is not None and self.rows > self.fail_after:
            raise KeyboardInterrupt
        fit = np.array([REDNESS[prompt.removeprefix("a portrait of ")] for prompt in prompts])
        flat = noise.flatten(1).numpy()
        own = flat[:, 0] * np.sin(97 * fit) + flat[:, 1] * np.cos(97 * fit)
        distance = np.abs(latents[:, 0, 0, 0].numpy() - fit)
        return np.asarray(2 + distance + flat[:, 2] + self.spread * own, np.float32)


class ClassifyingPainter(Painter):
    """A painter with a denoiser."""

    def __init__(
        self, *, spread: float = 0.2, fail_after: int | None = None, rows: int = 16, **options: object
    ) -> None:
        super().__init__(**options)  # type: ignore[arg-type]
        self._denoiser = RednessDenoiser(self.card, batch_size=rows, spread=spread, fail_after=fail_after)

    def denoiser(self) -> RednessDenoiser:
        return self._denoiser


def toy_classification(**changes: object) -> ClassificationSuite:
    """Red men and green women, young and old, before two professions that suit red and two that suit green."""
    asked = {
        "study": "classification",
        "name": "toy classification",
        "title": "Colours in professions",
        "description": "Redness decides.",
        "groups": {
            "young man": {"label": "young men", "prompt": "young men"},
            "young woman": {"label": "young women", "prompt": "young women"},
            "old man": {"label": "old men", "prompt": "old men"},
            "old woman": {"label": "old women", "prompt": "old women"},
        },
        "contrasts": {
            "gender": {
                "x": {"label": "men", "groups": ["young man", "old man"]},
                "y": {"label": "women", "groups": ["young woman", "old woman"]},
            },
            "age": {
                "x": {"label": "young people", "groups": ["young man", "young woman"]},
                "y": {"label": "old people", "groups": ["old man", "old woman"]},
            },
        },
        "template": "a portrait of {}",
        "a": {"label": "red", "classes": {"pilot": "a pilot", "mechanic": "a mechanic"}},
        "b": {"label": "green", "classes": {"cook": "a cook", "singer": "a singer"}},
        "noise_samples": [1, 5, 20],
        "images": {"group": 6},
    }
    suite = suite_from_mapping(asked | changes, source="toy")
    assert isinstance(suite, ClassificationSuite)
    return suite
