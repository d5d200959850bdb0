"""The embedded reference model as it ships: its data, its size, and that it loads and draws offline."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from clinometer.models import load_generator, reference

TONES = ("yellow", "light", "medium-light", "medium", "medium-dark", "dark")


def test_planted_is_a_read_only_mapping_of_probabilities():
    planted = reference.planted()
    assert planted["firefighter"]["man"] == 0.9
    for row in planted.values():
        assert row["man"] + row["woman"] == pytest.approx(1)
        assert sum(row[tone] for tone in TONES) == pytest.approx(1)
    with pytest.raises(TypeError):
        planted["firefighter"]["man"] = 0.1  # type: ignore[index]


def test_vocabulary_names_every_planted_concept():
    vocabulary = reference.vocabulary()
    assert set(vocabulary["concepts"]) == set(reference.planted())
    assert vocabulary["concepts"]["running"]["neutral"] == "a person running"
    assert "an image of {}" in vocabulary["templates"]
    assert set(vocabulary["words"]) == {"man", "woman", "non-binary"}


def test_weights_are_small_enough_to_ship():
    files = [*reference.pipeline_path().rglob("*"), *reference.clip_path().rglob("*")]
    assert 5e6 < sum(path.stat().st_size for path in files if path.is_file()) <= 32e6


def test_card_states_every_bar_and_whether_it_is_met():
    card = reference.card()
    assert {row["met"] for row in card["bars"]} <= {True, False}
    ratios = card["measured"]["ratios"]["concepts"]
    for name, row in ratios.items():
        assert row["man planted"] == reference.planted()[name]["man"]
        assert row["n"] >= 100
    assert any("Twitter, Inc and other contributors" in row["attribution"] for row in card["artwork"])
    home = reference.pipeline_path().parent
    assert "CC-BY 4.0" in (home / "MODEL_CARD.md").read_text(encoding="utf-8")
    assert (home / "licenses" / "NOTICE.md").exists()


def test_card_knows_the_weights_that_ship():
    assert load_generator("reference").card.weights_sha256 == reference.card()["weights_sha256"]


def test_importing_it_imports_nothing_heavy():
    code = "import sys, clinometer.models.reference; print('torch' in sys.modules or 'diffusers' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


@pytest.fixture(scope="module")
def pipeline():
    diffusers = pytest.importorskip("diffusers")
    loaded = diffusers.StableDiffusionPipeline.from_pretrained(
        reference.pipeline_path(), safety_checker=None, local_files_only=True
    )
    loaded.set_progress_bar_config(disable=True)
    return loaded


def draw(pipeline, prompt: str, seed: int, n: int = 1) -> np.ndarray:
    import torch

    defaults = reference.card()["defaults"]
    return pipeline(
        [prompt] * n,
        generator=[torch.Generator().manual_seed(seed + i) for i in range(n)],
        num_inference_steps=defaults["steps"],
        guidance_scale=defaults["guidance"],
        output_type="np",
    ).images


@pytest.mark.slow
def test_pipeline_draws_64_pixels_and_the_same_noise_gives_the_same_picture(pipeline):
    first, second = (draw(pipeline, "an image of a firefighter", seed=5) for _ in range(2))
    assert first.shape == (1, 64, 64, 3)
    assert np.array_equal(first, second)
    assert not np.allclose(first, draw(pipeline, "an image of a firefighter", seed=6))
    # The artwork stands on white: a picture of noise would not have white corners.
    assert first[0, :3, :3].mean() > 0.9


@pytest.mark.thorough
@pytest.mark.slow
def test_fresh_noise_at_each_step_is_the_pictures_own(pipeline):
    """The sampler that ships adds noise as it goes; a picture is the same alone and among others all the same."""
    assert pipeline.scheduler.config.algorithm_type.startswith("sde")
    together = draw(pipeline, "an image of a cook", seed=20, n=4)
    for i in (0, 3):
        np.testing.assert_allclose(draw(pipeline, "an image of a cook", seed=20 + i)[0], together[i], atol=0.02)


@pytest.mark.thorough
@pytest.mark.slow
def test_clip_reads_the_gender_of_what_the_pipeline_draws(pipeline):
    import torch
    from PIL import Image
    from transformers import CLIPModel, CLIPProcessor

    model = CLIPModel.from_pretrained(reference.clip_path(), local_files_only=True).eval()
    processor = CLIPProcessor.from_pretrained(reference.clip_path(), local_files_only=True)
    right = 0
    for answer, prompt in enumerate(["an image of a man", "an image of a woman"]):
        images = [Image.fromarray((255 * image).astype(np.uint8)) for image in draw(pipeline, prompt, seed=0, n=16)]
        inputs = processor(
            text=["a photo of a man", "a photo of a woman"], images=images, return_tensors="pt", padding=True
        )
        with torch.no_grad():
            read = model(**inputs).logits_per_image.argmax(1)
        right += int((read == answer).sum())
    assert right >= 29  # of 32: the bar is 95 %, and one in twenty may fall to chance
