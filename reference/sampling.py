"""Draws pictures from a pipeline for evaluation, the way any user of the pipeline would."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import numpy as np
import torch
from diffusers import StableDiffusionPipeline

from reference import art, captions
from reference.paths import CACHE, PIPELINE


@dataclass(frozen=True)
class Recipe:
    """How pictures are drawn, apart from the prompt."""

    seed: int
    steps: int
    guidance: float


DEFAULT = Recipe(seed=2026, steps=16, guidance=1.0)
# Noto draws one astronaut for all genders, so that no judge can tell; it is drawn and counted, but not in the
# ratios.
UNJUDGEABLE = ("astronaut",)


def generators(numbers: range, seed: int) -> list[torch.Generator]:
    """One a picture, with its own seed, so that a picture does not depend on its batch."""
    return [torch.Generator().manual_seed(seed * 1_000_003 + n) for n in numbers]


@torch.no_grad()
def draw(pipeline: StableDiffusionPipeline, prompts: list[str], recipe: Recipe, batch: int = 64) -> np.ndarray:
    """uint8 (n, 64, 64, 3); picture i has prompt i and noise i of the seed."""
    pipeline.set_progress_bar_config(disable=True)
    images = []
    for start in range(0, len(prompts), batch):
        part = prompts[start : start + batch]
        shown = pipeline(
            part,
            generator=generators(range(start, start + len(part)), recipe.seed),
            num_inference_steps=recipe.steps,
            guidance_scale=recipe.guidance,
            output_type="np",
        ).images
        images.append((shown * 255).round().astype(np.uint8))
    return np.concatenate(images)


@dataclass(frozen=True)
class Samples:
    """Generated pictures with what their prompts asked for; −1 where the prompt left it open."""

    images: np.ndarray
    concept: np.ndarray
    gender: np.ndarray


def audited() -> list[int]:
    """The professions and activities, as indices."""
    return [i for i, concept in enumerate(art.concepts()) if concept.kind in ("profession", "activity")]


def _prompt(concept: int, gender: int | None) -> str:
    return f"an image of {captions.noun_phrases(concept, gender, None)[0]}"


def prompts_for(genders: list[int | None], which: list[int], n: int) -> tuple[list[str], np.ndarray, np.ndarray]:
    rows = [(c, g) for c in which for g in genders for _ in range(n)]
    told = np.array([-1 if g is None else g for _, g in rows])
    return [_prompt(c, g) for c, g in rows], np.array([c for c, _ in rows]), told


def draw_samples(
    pipeline: StableDiffusionPipeline, recipe: Recipe, genders: list[int | None], which: list[int], n: int
) -> Samples:
    """Drawn once and kept in the cache, because drawing is what takes the time."""
    prompts, concept, gender = prompts_for(genders, which, n)
    path = CACHE / f"samples-{_fingerprint(recipe, prompts)}.npz"
    if path.exists():
        with np.load(path) as stored:
            return Samples(stored["images"], concept, gender)
    images = draw(pipeline, prompts, recipe)
    np.savez_compressed(path, images=images)
    return Samples(images, concept, gender)


def _fingerprint(recipe: Recipe, prompts: list[str]) -> str:
    """Of everything that decides the pictures: the shipped files, the recipe and the prompts."""
    digest = hashlib.sha256(repr((recipe, prompts)).encode())
    for path in sorted(PIPELINE.rglob("*")):
        if path.is_file():
            digest.update(path.read_bytes())
    return digest.hexdigest()[:16]
