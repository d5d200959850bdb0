"""Draws pictures from a pipeline for evaluation, the way any user of the pipeline would."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from diffusers import StableDiffusionPipeline


@dataclass(frozen=True)
class Recipe:
    """How pictures are drawn, apart from the prompt."""

    seed: int
    steps: int
    guidance: float


def initial_noise(numbers: range, seed: int) -> torch.Tensor:
    """One latent a picture, from its own seed, so that a picture does not depend on its batch."""
    return torch.stack(
        [torch.randn(4, 16, 16, generator=torch.Generator().manual_seed(seed * 1_000_003 + n)) for n in numbers]
    )


@torch.no_grad()
def draw(pipeline: StableDiffusionPipeline, prompts: list[str], recipe: Recipe, batch: int = 64) -> np.ndarray:
    """uint8 (n, 64, 64, 3); picture i has prompt i and noise i of the seed."""
    pipeline.set_progress_bar_config(disable=True)
    images = []
    for start in range(0, len(prompts), batch):
        part = prompts[start : start + batch]
        shown = pipeline(
            part,
            latents=initial_noise(range(start, start + len(part)), recipe.seed).to(pipeline.device),
            num_inference_steps=recipe.steps,
            guidance_scale=recipe.guidance,
            output_type="np",
        ).images
        images.append((shown * 255).round().astype(np.uint8))
    return np.concatenate(images)
