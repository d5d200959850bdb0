"""What families of text-to-image models do differently, known by what their pipelines take and give."""

import json
import shutil
from types import SimpleNamespace

import diffusers
import numpy as np
import pytest

from clinometer._torch import torch
from clinometer.errors import Code, ModelError
from clinometer.models.diffusers.loading import images_of
from clinometer.models.diffusers.pipeline import load
from clinometer.models.encoders.own_text import OwnTextEncoder, _vector
from clinometer.models.protocols import Card
from tests.models.diffusers.drawing import REQUESTS, changed, draw, furthest, opened
from tests.models.diffusers.families import tiny_kandinsky_prior
from tests.models.diffusers.further_families import tiny_deepfloyd
from tests.models.diffusers.pipelines import _t5, tiny_flux
from tests.raising import raises

# --- what gives no images ------------------------------------------------------------------------------------------


def test_a_pipeline_that_gives_no_images_is_refused_before_it_draws(tmp_path):
    tiny_kandinsky_prior().save_pretrained(tmp_path / "prior")
    with raises(ModelError, code=Code.UNSUPPORTED, match="KandinskyV22PriorPipeline gives image_embeds"):
        load(str(tmp_path / "prior"))


def test_a_pipeline_with_a_control_image_is_refused_before_it_draws(tmp_path):
    parts = {name: each for name, each in tiny_flux().components.items() if each is not None}
    diffusers.FluxControlPipeline(**parts).save_pretrained(tmp_path / "control")
    with raises(ModelError, code=Code.UNSUPPORTED, match="FluxControlPipeline needs more"):
        load(str(tmp_path / "control"))


def test_the_images_of_an_output_under_either_name():
    assert images_of(SimpleNamespace(images=[1])) == [1]
    assert images_of(SimpleNamespace(image=[1])) == [1]  # Kandinsky 5


# --- noise ---------------------------------------------------------------------------------------------------------


def test_noise_from_the_global_generator_follows_from_the_seed_of_each_image(families):
    """As a language model within a pipeline takes it, that samples the prompt it writes or the tokens of an image."""

    def noisy(own, arguments):
        output = own(**arguments)
        return SimpleNamespace(images=(output.images + 0.3 * torch.rand(output.images.shape).numpy()).clip(0, 1))

    generator = changed(opened(families, "sd-1"), noisy)
    state = torch.get_rng_state()
    together = draw(generator)
    assert torch.equal(torch.get_rng_state(), state)
    assert furthest(together, draw(opened(families, "sd-1"))) > 10
    torch.manual_seed(5)
    generator.batch_size = 1
    assert furthest(draw(generator), together) <= 1
    assert furthest(draw(generator, REQUESTS[1:2]), together[1:2]) <= 1


# --- settings ------------------------------------------------------------------------------------------------------


def test_a_size_that_the_pipeline_replaces_ends_the_run(families):
    def rounded(own, arguments):
        small = {"latents": arguments["latents"][:, :, :8, :8]}
        return own(**(arguments | {"height": 16, "width": 16} | small))

    generator = changed(opened(families, "sd-1"), rounded)
    with raises(
        ModelError,
        code=Code.OUT_OF_RANGE,
        field=("width", "height"),
        match=r"width and height: asked for 32 x 32, but this .* draws 16 x 16",
    ):
        draw(generator)


def test_the_size_is_the_default_of_the_call_where_it_has_one(families):
    def side(name):
        return load(str(families(name))).card.settings["height"]

    assert side("auraflow") == 1024  # its network's own, 32, is not what its users get
    assert side("sana") == 32  # its call's is a place in a list of sizes
    assert side("sd-1") == 32  # its call leaves it open


def test_a_negative_prompt_that_is_left_out_is_refused(families):
    with raises(
        ModelError,
        code=Code.CONFLICT,
        field="negative_prompt",
        match="FluxPipeline ignores it where its true_cfg_scale is 1",
    ):
        opened(families, "flux", negative_prompt="ugly")
    with raises(
        ModelError,
        code=Code.CONFLICT,
        field="negative_prompt",
        match="QwenImagePipeline ignores it where its true_cfg_scale is 1",
    ):
        opened(families, "qwen-image", negative_prompt="ugly", guidance_scale=1.0)


@pytest.mark.thorough
def test_a_guidance_that_is_no_input_of_the_network_is_refused(families, tmp_path):
    """FLUX takes guidance as an input; schnell's network has none. FLUX.2 klein has none either, and guides itself."""
    schnell = str(tmp_path / "schnell")
    tiny_flux(guidance=False).save_pretrained(schnell)
    with raises(ModelError, code=Code.UNSUPPORTED, field="guidance_scale"):
        load(schnell, guidance_scale=3.5)
    plain, none = load(schnell), load(schnell, guidance_scale=0.0)  # as its authors call it
    assert "guidance_scale" not in plain.card.settings
    assert plain.card.fingerprint == none.card.fingerprint
    assert opened(families, "flux").card.settings["guidance_scale"] == 3.5
    low, high = (draw(opened(families, "flux2-klein", guidance_scale=scale)) for scale in (1.0, 6.0))
    assert furthest(low, high) > 1


@pytest.mark.parametrize("scale", [-1.0, float("inf"), float("nan")])
def test_a_guidance_that_is_no_number_is_refused(families, scale):
    with raises(ModelError, code=Code.OUT_OF_RANGE, field="guidance_scale"):
        opened(families, "sd-1", guidance_scale=scale)


def test_a_sprint_takes_any_number_of_steps(families):
    two, four = (draw(opened(families, "sana-sprint", steps=steps)) for steps in (2, 4))
    assert furthest(two, four) > 1


# --- what a checker flags ------------------------------------------------------------------------------------------


def test_the_checker_of_deepfloyd_refuses(families):
    """It returns black images and names its flags in its own way."""
    generator, checked = opened(families, "deepfloyd-if"), tiny_deepfloyd(checked=True)
    generator.pipeline.safety_checker = checked.safety_checker
    generator.pipeline.feature_extractor = checked.feature_extractor
    assert [each.status for each in generator.generate(REQUESTS)] == ["refused"] * 3


def test_a_checker_that_is_put_off_need_not_load(families, tmp_path):
    """That of DeepFloyd IF is too old for today's transformers."""
    path = shutil.copytree(families("deepfloyd-if"), tmp_path / "if")
    index = json.loads((path / "model_index.json").read_text())
    index["safety_checker"] = ["deepfloyd_if", "IFSafetyChecker"]
    (path / "model_index.json").write_text(json.dumps(index))
    (path / "safety_checker").mkdir()
    with raises(ModelError, code=Code.UNREADABLE, match="diffusers cannot load it"):
        load(str(path))
    assert load(str(path), safety_checker="off").card.settings["safety_checker"] is False


# --- own text encoders ---------------------------------------------------------------------------------------------


def test_the_vector_of_bert_is_no_pooled_state(families):
    """Its pooler is a layer that drawing never uses, and that files may lack."""
    generator = opened(families, "hunyuan-dit")
    encoder = OwnTextEncoder(generator.pipeline, "text_encoder", generator.card)
    assert encoder.card.settings["vector"] == "mean of the last hidden states"
    before = encoder.encode_texts(["a cook"])
    torch.nn.init.normal_(generator.pipeline.text_encoder.pooler.dense.weight)
    assert np.array_equal(encoder.encode_texts(["a cook"]), before)


def test_an_encoder_that_gives_a_vector_gives_it(tmp_path):
    """M-CLIP of Kandinsky 2.1: of diffusers, and asked for no hidden states."""
    from diffusers.pipelines.kandinsky.text_encoder import MCLIPConfig, MultilingualCLIP

    tokenizer, _ = _t5()
    sizes = {"numDims": 16, "transformerDimensions": 32, "hidden_size": 32, "intermediate_size": 32}
    model = MultilingualCLIP(MCLIPConfig(**sizes, num_attention_heads=4, num_hidden_layers=1, vocab_size=128)).eval()
    parts = {"text_encoder": model, "tokenizer": tokenizer}
    pipeline = SimpleNamespace(components=parts, _execution_device=torch.device("cpu"))
    encoder = OwnTextEncoder(pipeline, "text_encoder", Card(kind="generator", name="x", family="diffusers/x"))
    tokens = tokenizer("a cook", return_tensors="pt")
    with torch.no_grad():
        expected = model(tokens.input_ids, torch.ones_like(tokens.input_ids))[0]
    assert np.allclose(encoder.encode_texts(["a cook"]), expected.numpy(), atol=1e-6)


def test_states_with_the_tokens_first_give_the_same_mean():
    """ChatGLM (Kolors) lays them out as (tokens, texts, d)."""
    states = torch.arange(12.0).reshape(1, 4, 3)
    usual, other = (SimpleNamespace(hidden_states=(each,)) for each in (states, states.transpose(0, 1)))
    for output in (usual, other):
        said, vector = _vector(output, None, [1, 2, 3, 4], 4)
        assert said == "mean of the last hidden states"
        assert torch.equal(vector, states[0].mean(dim=0))
