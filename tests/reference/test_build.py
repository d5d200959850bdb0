"""The one command that rebuilds the reference model, from nothing: a few steps of every stage, on few concepts."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import yaml

from reference import art

ROOT = Path(__file__).resolve().parents[2]

REHEARSAL = """
import dataclasses, sys
from reference import augment, build, calibration, clip, levelling, tuning, unet, vae
from reference.sampling import Recipe

for stage in (vae, clip, unet, tuning, calibration):
    stage.SCHEDULE = dataclasses.replace(stage.SCHEDULE, steps=2, restarts=(), warmup=1)
unet.BATCH = clip.TRIPLES = clip.SINGLES = tuning.FROM_ART = tuning.FROM_SAMPLES = 8
augment.LATENT_NOISE = (0.0, 0.3)
levelling.STAND_FOR_GROUPS = ("adult", "child")
tuning.RECIPE = tuning.OPEN_RECIPE = Recipe(seed=4, steps=1, guidance=1.0)
calibration.RECIPE, calibration.IMAGES_PER_CONCEPT = Recipe(seed=6, steps=1, guidance=1.0), 1
tuning.TOLD_PER_COMBINATION = tuning.OPEN_PER_CONCEPT_AND_TONE = tuning.TRIALS = 1
build.main()
"""

FEW = {"cook", "running", "crown", "adult", "child"}
"""Of every kind of concept and every kind of emoji sequence."""


def rehearse(folder: Path) -> str:
    finished = subprocess.run(
        [sys.executable, "-c", REHEARSAL, "--device", "cpu"],
        cwd=folder,
        env=os.environ | {"OMP_WAIT_POLICY": "PASSIVE"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert finished.returncode == 0, finished.stderr[-3000:]
    return finished.stdout


def hashes(package: Path) -> dict[str, str]:
    return {
        str(path.relative_to(package)): hashlib.sha256(path.read_bytes()).hexdigest()
        for pattern in ("*.safetensors", "*.json", "*.txt")
        for path in package.rglob(pattern)
    }


@pytest.mark.thorough
@pytest.mark.slow
@pytest.mark.skipif(shutil.which("npm") is None, reason="npm fetches the artwork")
def test_one_command_builds_what_ships_from_nothing_and_again_the_same(tmp_path, monkeypatch):
    package = tmp_path / "src/clinometer/models/reference"
    package.mkdir(parents=True)
    shutil.copy(ROOT / "src/clinometer/models/reference/planted.yaml", package)
    shutil.copytree(ROOT / "reference", tmp_path / "reference", ignore=shutil.ignore_patterns(".cache", "__pycache__"))
    concepts = yaml.safe_load((ROOT / "reference/concepts.yaml").read_text(encoding="utf-8"))
    few = [concept for concept in concepts if concept["name"] in FEW]
    assert {concept["kind"] for concept in few} == {concept["kind"] for concept in concepts}
    (tmp_path / "reference/concepts.yaml").write_text(yaml.safe_dump(few), encoding="utf-8")

    said = rehearse(tmp_path)
    for stage in ("artwork", "VAE", "CLIP", "UNet", "samples", "tuning", "readings", "calibration", "all stages"):
        assert f"\n{stage}: " in f"\n{said}", stage
    first = hashes(package)
    assert sum(name.endswith(".safetensors") for name in first) == 4  # UNet, VAE, text encoder, CLIP
    assert '"padding": null' in (package / "clip/tokenizer.json").read_text()

    cache = tmp_path / "reference/.cache"
    monkeypatch.setattr(art, "CACHE", cache)
    for drawn in map(art.EmojiSet, art.SETS):  # all concepts' artwork is there; a missing drawing raises
        for concept in art.concepts():
            for gender in art.GENDERS:
                assert all(drawn.svg(concept.sequence(gender, tone)) for tone in range(len(art.TONES)))

    for name in ("tuned", "calibrated"):  # a stage of each kind of training: CLIP's, and the UNet's
        shutil.rmtree(cache / name)
        (cache / f"{name}.checkpoint.pt").unlink()
    again = rehearse(tmp_path)
    assert not {"VAE", "CLIP", "UNet", "readings"} & {line.partition(":")[0] for line in again.splitlines()}
    assert hashes(package) == first

    from diffusers import StableDiffusionPipeline
    from transformers import CLIPModel

    pipeline = StableDiffusionPipeline.from_pretrained(package / "pipeline", safety_checker=None)
    image = pipeline("an image of a cook", num_inference_steps=1, guidance_scale=1.0).images[0]
    assert np.asarray(image).shape == (64, 64, 3)
    assert CLIPModel.from_pretrained(package / "clip").config.projection_dim == 96
    assert (package / "training.yaml").exists()
