"""What a pipeline takes its images for on the way: an estimate a step beside the same image, which the last one is."""

import diffusers
import numpy as np
import pytest

from clinometer._torch import torch
from clinometer.errors import Code, ModelError
from clinometer.models.diffusers.tracing import _estimate, _tell_steps, chosen_steps
from tests.models.diffusers.drawing import REQUESTS, changed, draw, opened
from tests.models.diffusers.families import EACH
from tests.raising import raises

REFUSED = ("amused", "qwen-image", "flux2-klein", "sana-sprint")
"""Families without clean latents of one kind (tokens), or whose latents are laid out in a way of their own."""


@pytest.mark.parametrize("family", EACH)
def test_the_images_are_the_same_and_the_last_estimate_is_the_image(families, family):
    generator = opened(families, family)
    if family in REFUSED:
        with raises(ModelError, code=Code.UNSUPPORTED):
            list(generator.traced("all").generate(REQUESTS[:2]))
        return
    traced = generator.traced("all")
    results = list(traced.generate(REQUESTS[:2]))
    plain = draw(generator, REQUESTS[:2])
    for result, image in zip(results, plain, strict=True):
        assert [estimate.step for estimate in result.trace] == list(traced.traced_steps)
        assert np.array_equal(np.asarray(result.image, int), image)
        last = np.asarray(result.trace[-1].image, int)
        # DDIM without set_alpha_to_one keeps some noise of the last step; UnCLIP's scheduler rounds otherwise
        assert np.abs(last - image).mean() <= 2


SCHEDULERS = ("Euler", "PNDM", "UniPCMultistep", "DPMSolverMultistep", "Heun", "DDPM", "LCM", "DEISMultistep")


@pytest.mark.parametrize("name", SCHEDULERS)
def test_of_the_noise_that_is_there_every_scheduler_leaves_the_clean_latents(name):
    kind = getattr(diffusers, f"{name}Scheduler", None) or getattr(diffusers, f"{name}DiscreteScheduler")
    scheduler = kind(beta_schedule="scaled_linear")
    scheduler.set_timesteps(5)
    clean, noise = torch.full((1, 4, 8, 8), 0.5), torch.ones(1, 4, 8, 8)
    t = scheduler.timesteps[0]
    a = scheduler.alphas_cumprod[round(float(t))].sqrt()
    b = (1 - a**2).sqrt()
    scaled = name in ("Euler", "Heun")  # their x_t is clean + (b / a) · noise
    seen = []
    with _tell_steps(scheduler, lambda estimate, after: seen.append(estimate)):
        scheduler.step(noise, t, clean + b / a * noise if scaled else a * clean + b * noise)
    expected = clean if name != "LCM" else seen[0]  # it weighs its estimate with what it began with
    assert torch.allclose(seen[0], expected, atol=0.05)


def test_flow_and_v_predictions_are_solved_for_the_clean_latents():
    clean, noise = torch.full((1, 4, 2, 2), 0.25), torch.ones(1, 4, 2, 2)
    flow = diffusers.FlowMatchEulerDiscreteScheduler()
    flow.set_timesteps(4)
    t, sigma = flow.timesteps[1], flow.sigmas[1]
    assert torch.allclose(_estimate(flow, noise - clean, t, (1 - sigma) * clean + sigma * noise), clean, atol=1e-6)
    v = diffusers.DDIMScheduler(prediction_type="v_prediction")
    a = v.alphas_cumprod[500].sqrt()
    b = (1 - a**2).sqrt()
    assert torch.allclose(_estimate(v, a * noise - b * clean, 500, a * clean + b * noise), clean, atol=1e-6)


def test_steps_are_chosen_or_refused():
    assert chosen_steps(None, 16) == (1, 4, 7, 10, 13, 16)
    assert chosen_steps(None, 3) == chosen_steps("all", 3) == (1, 2, 3)
    assert chosen_steps("2,1,2", 4) == chosen_steps([1, 2], 4) == (1, 2)
    for steps, code, words in (
        ("1,9", Code.OUT_OF_RANGE, "found 1, 9, .*1 to 4"),
        (9, Code.OUT_OF_RANGE, "found 9 .*1 to 4"),
        ("0", Code.OUT_OF_RANGE, "found 0 "),
        ("a", Code.MALFORMED, "'all'"),
        ("1,,2", Code.MALFORMED, "'1,,2'"),
    ):
        with raises(ModelError, code=code, field="trace_steps", match=words):
            chosen_steps(steps, 4)


def tiny_decoder(path, channels=4):
    blocks = {"encoder_block_out_channels": (8, 8), "decoder_block_out_channels": (8, 8)}
    counts = {"num_encoder_blocks": (1, 1), "num_decoder_blocks": (1, 1)}
    diffusers.AutoencoderTiny(latent_channels=channels, **blocks, **counts).save_pretrained(path)
    return str(path)


def test_a_tiny_decoder_takes_the_place_of_the_pipelines_own_and_another_is_refused(families, tmp_path):
    generator = opened(families, "sd-1")
    traced = generator.traced("2", decoder=tiny_decoder(tmp_path / "tiny"), keep_latents=True)
    (result,) = traced.generate(REQUESTS[:1])
    assert result.trace[-1].image.size == result.image.size
    assert result.trace[-1].latents.shape[0] == 4
    assert np.array_equal(draw(generator, REQUESTS[:1])[0], np.asarray(result.image, int))
    with raises(
        ModelError,
        code=Code.MISMATCH,
        field="trace_decoder",
        match="decodes 16 channels, and this StableDiffusionPipeline has 4",
    ):
        generator.traced("2", decoder=tiny_decoder(tmp_path / "wide", 16))
    with raises(ModelError, code=Code.NOT_FOUND, field="trace_decoder", match="none"):
        generator.traced("2", decoder=str(tmp_path / "none"))


def test_a_pipeline_that_makes_its_images_in_another_way_is_refused(families):
    def inverted(own, arguments):
        output = own(**arguments)
        output.images = 1 - output.images
        return output

    traced = changed(opened(families, "sd-1").traced("2"), inverted)
    with raises(ModelError, code=Code.UNSUPPORTED, match="StableDiffusionPipeline"):
        list(traced.generate(REQUESTS[:1]))
