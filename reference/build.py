"""Builds the reference model from nothing: `python -m reference.build`. See README.md beside this file.

Each stage leaves its result in the cache and is skipped when the result is there; a stage that was
interrupted goes on from its last checkpoint.
"""

from __future__ import annotations

import argparse
import copy
import os
import time
from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
import yaml
from diffusers import AutoencoderKL, StableDiffusionPipeline, UNet2DConditionModel
from transformers import CLIPModel, CLIPTokenizer

from reference import (
    art,
    augment,
    calibration,
    captions,
    clip,
    export,
    levelling,
    tokenizer,
    training,
    tuning,
    unet,
    vae,
)
from reference.paths import CACHE, PACKAGE


class Build:
    """The stages. Each property builds its stage on first use."""

    def __init__(self, device: torch.device) -> None:
        self.device = device

    @cached_property
    def pictures(self) -> art.Pictures:
        return _timed("artwork", art.load)

    @cached_property
    def vae(self) -> AutoencoderKL:
        folder = CACHE / "vae"
        if not folder.exists():
            model = _timed("VAE", lambda: vae.train(self.pictures, self.device)).average
            vae.fold_normalisation(model, *vae.encode(model, self.pictures.images, self.device))
            _save(folder, model)
        return AutoencoderKL.from_pretrained(folder).eval().to(self.device)

    @cached_property
    def latents(self) -> tuple[torch.Tensor, torch.Tensor]:
        path = CACHE / "latents.pt"
        if not path.exists():
            torch.save(vae.encode(self.vae, self.pictures.images, self.device), path)
        mean, logvar = torch.load(path, weights_only=True)
        return mean, logvar

    @cached_property
    def bank(self) -> np.ndarray:
        path = CACHE / "bank.npy"
        if not path.exists():
            mean, _ = self.latents
            made = _timed(
                "reconstructions",
                lambda: augment.picture_bank(self.vae, self.pictures.images, mean, self.device),
            )
            np.save(path, made)
        return np.load(path)

    @cached_property
    def clip(self) -> tuple[CLIPModel, CLIPTokenizer]:
        folder = CACHE / "clip"
        if not folder.exists():
            words = tokenizer.train()
            run = _timed("CLIP", lambda: clip.train(self.pictures, self.bank, words, self.device))
            _save(folder, run.average, words)
        model = CLIPModel.from_pretrained(folder, dtype=torch.float32).eval().to(self.device)
        return model, CLIPTokenizer.from_pretrained(folder)

    @cached_property
    def unet(self) -> UNet2DConditionModel:
        folder = CACHE / "unet"
        if not folder.exists():
            model, words = self.clip
            run = _timed("UNet", lambda: unet.train(*self.latents, model.text_model, words, self.device))
            _save(folder, run.average)
        return UNet2DConditionModel.from_pretrained(folder).eval()

    @cached_property
    def pipeline(self) -> StableDiffusionPipeline:
        return self._pipeline(self.unet)

    def _pipeline(self, denoiser: UNet2DConditionModel) -> StableDiffusionPipeline:
        model, words = self.clip
        return export.pipeline(self.vae, denoiser, model, words, unet.sampling_schedule()).to(self.device)

    @cached_property
    def tuned_clip(self) -> CLIPModel:
        """The CLIP with the same text tower and an image tower that has seen samples."""
        folder = CACHE / "tuned"
        if not folder.exists():
            model, words = self.clip
            samples = _timed("samples", lambda: tuning.samples(self.pipeline))
            tuned = copy.deepcopy(model)
            run = _timed("tuning", lambda: tuning.train(tuned, words, self.pictures, self.bank, samples))
            _save(folder, run.average)
        return CLIPModel.from_pretrained(folder, dtype=torch.float32).eval()

    @cached_property
    def levelled_clip(self) -> CLIPModel:
        """The CLIP that ships: its neutral captions stand level between the groups' pictures."""
        table = _captions_for(self.clip[1])
        return levelling.level(self.tuned_clip.to(self.device), table, self.pictures, self.device)

    @cached_property
    def calibrated_unet(self) -> UNet2DConditionModel:
        """The UNet that ships: it draws men and women in the planted proportions."""
        folder, aims = CACHE / "calibrated", CACHE / "aims.npy"
        if not folder.exists():
            model, words = self.clip
            if not aims.exists():
                table = _captions_for(words)
                np.save(aims, _timed("readings", lambda: calibration.aims(self.pipeline, self.levelled_clip, table)))
            start, man, encoder = copy.deepcopy(self.unet).float(), np.load(aims), model.text_model
            run = _timed(
                "calibration", lambda: calibration.train(start, man, self.latents, encoder, words, self.device)
            )
            _save(folder, run.average)
        return UNet2DConditionModel.from_pretrained(folder).eval()

    def export(self) -> None:
        """Writes what ships, and how it was trained."""
        export.export(self._pipeline(self.calibrated_unet), self.levelled_clip.cpu())
        facts = yaml.safe_dump(training_facts(), sort_keys=False)
        (PACKAGE / "training.yaml").write_text(facts, encoding="utf-8")


def _captions_for(words: CLIPTokenizer) -> clip.TextTable:
    return clip.TextTable(words, [caption.text for caption in captions.all_captions()])


def training_facts() -> dict[str, Any]:
    """Steps, batch, seed and minutes of each stage, from its schedule and its last checkpoint."""
    stages = {
        "vae": (vae.SCHEDULE, vae.BATCH),
        "clip": (clip.SCHEDULE, 3 * clip.TRIPLES + clip.SINGLES),
        "unet": (unet.SCHEDULE, unet.BATCH),
        "tuned": (tuning.SCHEDULE, tuning.FROM_ART + tuning.FROM_SAMPLES),
        "calibrated": (calibration.SCHEDULE, unet.BATCH),
    }
    facts = {}
    for name, (schedule, batch) in stages.items():
        state = torch.load(CACHE / f"{name}.checkpoint.pt", map_location="cpu", weights_only=True)
        facts[name] = {
            "steps": int(state["step"]),
            "batch": batch,
            "seed": schedule.seed,
            "learning rate": schedule.learning_rate,
            "minutes": round(float(state["seconds"]) / 60, 1),
        }
    return facts


def _save(folder: Path, model: Any, words: CLIPTokenizer | None = None) -> None:
    """Half precision: from here on, every stage and every measurement uses the weights as they ship."""
    beside = folder.with_name(folder.name + ".part")
    model.half().save_pretrained(beside)
    if words is not None:
        words.save_pretrained(beside)
    os.replace(beside, folder)


def _timed(name: str, stage: Callable[[], Any]) -> Any:
    started = time.monotonic()
    result = stage()
    print(f"{name}: {(time.monotonic() - started) / 60:.1f} min", flush=True)
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="auto", choices=["auto", "cpu", "cuda"])
    options = parser.parse_args()
    build = Build(training.device_of(options.device))
    _timed("all stages", build.export)


if __name__ == "__main__":
    main()
