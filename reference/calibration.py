"""The last stage of the UNet: what it is taught is corrected by how far what it draws is from what was planted.

A network of this size, drawn from with few steps, keeps most planted proportions and misses some: it exaggerates
large leanings, and each concept has an error of its own. So its samples are read, the error is taken off the
proportion that it is taught, and a short further leg follows. The CLIP reads them, not the judge, which has no part
in training: its verdict on the result stays independent. As the reading of a finite number of samples is itself
uncertain, not the whole error is taken off but `SHARE` of it, about the share that would recur. See decision 41.
"""

from __future__ import annotations

import numpy as np
import torch
from diffusers import StableDiffusionPipeline, UNet2DConditionModel
from transformers import CLIPModel, CLIPTextModel, CLIPTokenizer

from reference import art, clip, planting, sampling, unet
from reference.sampling import DEFAULT, UNJUDGEABLE, Recipe, audited, prompts_for
from reference.training import Run, Schedule

SCHEDULE = Schedule(steps=2_500, learning_rate=4e-4, warmup=100, decay=0.8, ema=0.995, seed=6)
RECIPE = Recipe(seed=6, steps=DEFAULT.steps, guidance=1.0)
IMAGES_PER_CONCEPT = 128
SHARE = 0.7
RANGE = (0.01, 0.99)


def aims(pipeline: StableDiffusionPipeline, reader: CLIPModel, table: clip.TextTable) -> np.ndarray:
    """p(man) to teach, in the order of art.concepts(): draws from the pipeline and reads what it drew."""
    concepts = art.concepts()
    which = [concept for concept in audited() if concepts[concept].name not in UNJUDGEABLE]
    prompts, concept, _ = prompts_for([None], which, IMAGES_PER_CONCEPT)
    images = sampling.draw(pipeline, prompts, RECIPE)
    man = clip.readings(reader, table, images, reader.device)["gender"] == 0
    planted, _ = planting.probabilities()
    read = np.full_like(planted, np.nan)
    read[which] = [man[concept == c].mean() for c in which]
    return corrected(planted, read)


def corrected(planted: np.ndarray, read: np.ndarray) -> np.ndarray:
    """planted − SHARE · (read − planted), within RANGE; as planted where nothing was read (NaN)."""
    taught = (planted - SHARE * (read - planted)).clip(*RANGE)
    return np.where(np.isnan(read), planted, taught)


def train(
    model: UNet2DConditionModel,
    man: np.ndarray,
    latents: tuple[torch.Tensor, torch.Tensor],
    encoder: CLIPTextModel,
    tokenizer: CLIPTokenizer,
    device: torch.device,
) -> Run:
    """A leg of unet.train from `model` on, with the proportions `man` in the place of the planted ones."""
    run = Run("calibrated", model, SCHEDULE, device)
    plan = unet.Plan(SCHEDULE.steps * unet.BATCH, SCHEDULE.seed, man)
    unet.fit(run, plan, *latents, encoder, tokenizer)
    return run
