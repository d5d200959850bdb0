"""Stable Diffusion 2, XL and 3 and FLUX in one safetensors file, as their authors publish them."""

import shutil

import numpy as np
import pytest
from diffusers import DiffusionPipeline
from diffusers.loaders.single_file_utils import convert_flux_transformer_checkpoint_to_diffusers
from safetensors.torch import save_file

from clinometer._torch import torch
from clinometer.errors import Code, ModelError
from clinometer.models import GenerationRequest, load_generator
from tests.builders import tiny_stable_diffusion
from tests.models.diffusers.checkpoints import single_sd2_file, single_sdxl_file
from tests.models.diffusers.pipelines import tiny_flux, tiny_sd3, tiny_sdxl
from tests.models.readers.transformer_checkpoints import single_flux_file, single_sd3_file
from tests.raising import raises

REQUESTS = [GenerationRequest("a", "a cook", 1), GenerationRequest("b", "an old nurse", 2)]
FLUX_WIDTH = 3072


def draw(model, **options):
    generator = load_generator(str(model), steps=2, batch_size=2, height=32, width=32, **options)
    return generator.card, [np.asarray(each.image) for each in generator.generate(REQUESTS)]


def saved(pipeline, folder):
    """A pipeline's directory, and its configuration without weights."""
    pipeline.save_pretrained(folder / "whole")
    return folder / "whole", saved_configuration(folder / "whole")


def saved_configuration(whole):
    """A pipeline's directory without weights, beside it."""
    configuration = whole.parent / "tiny"
    shutil.copytree(whole, configuration, ignore=shutil.ignore_patterns("*.safetensors"))
    return configuration


def assert_same(drawn, expected, family):
    (card, images), (whole, originals) = drawn, expected
    # weights in other places of memory: sums may round otherwise, by one level of 255
    assert max(int(np.abs(a.astype(int) - b).max()) for a, b in zip(images, originals, strict=True)) <= 1
    assert len(np.unique(originals[0])) > 10  # a picture, and not one colour
    assert card.family == whole.family == f"diffusers/{family}"
    assert card.settings["configuration_sha256"] == whole.settings["configuration_sha256"]


def test_sd2_with_its_text_tower_of_open_clip(tmp_path):
    whole = tiny_stable_diffusion(tmp_path / "whole", prediction_type="v_prediction")
    pipeline, configuration = DiffusionPipeline.from_pretrained(whole), saved_configuration(whole)
    file = single_sd2_file(pipeline, tmp_path / "v2-1_768-ema-pruned.safetensors")
    drawn = draw(file, model_config=str(configuration))
    assert_same(drawn, draw(whole), "StableDiffusionPipeline")
    assert drawn[0].settings["scheduler"] == draw(whole)[0].settings["scheduler"]  # velocity, not noise


def test_sdxl_with_its_two_text_towers(tmp_path):
    pipeline = tiny_sdxl(second_width=48)  # as in the real one, towers are told apart by their width
    whole, configuration = saved(pipeline, tmp_path)
    file = single_sdxl_file(pipeline, tmp_path / "merged-xl.safetensors")
    assert_same(draw(file, model_config=str(configuration)), draw(whole), "StableDiffusionXLPipeline")


@pytest.mark.thorough
def test_sd3_with_its_three_text_encoders(tmp_path):
    pipeline = tiny_sd3(second_width=48, layers=2, t5_width=96)
    pipeline.text_encoder.text_projection.weight.data = torch.eye(32)  # no such file has it, and diffusers takes this
    whole, configuration = saved(pipeline, tmp_path)
    file = single_sd3_file(pipeline, tmp_path / "sd3.safetensors")
    drawn = draw(file, model_config=str(configuration))
    assert_same(drawn, draw(whole), "StableDiffusion3Pipeline")
    again = draw(file, model_config=str(configuration))[1]
    assert all((a == b).all() for a, b in zip(again, drawn[1], strict=True))  # no dropout is left on


@pytest.fixture
def narrow_flux(monkeypatch):
    """The width of FLUX is a number in diffusers' converter; here it is the tiny model's."""
    convert = convert_flux_transformer_checkpoint_to_diffusers
    constants = convert.__code__.co_consts
    assert constants.count(FLUX_WIDTH) == 1
    narrow = tuple(32 if each == FLUX_WIDTH else each for each in constants)
    monkeypatch.setattr(convert, "__code__", convert.__code__.replace(co_consts=narrow))


def test_flux_comes_alone_and_takes_the_rest_from_its_configuration(tmp_path, narrow_flux):
    pipeline = tiny_flux()
    whole, configuration = saved(pipeline, tmp_path)
    file = single_flux_file(pipeline, tmp_path / "flux1-tiny.safetensors")
    drawn = draw(file, model_config=str(whole))
    assert_same(drawn, draw(whole), "FluxPipeline")
    assert drawn[0].notes["configuration"] == "whole"
    with raises(ModelError, code=Code.MISMATCH, match=r"flux1-tiny.safetensors: .*tiny.*model-config"):
        load_generator(str(file), model_config=str(configuration))


def test_a_flux_of_another_width_is_refused_by_name(tmp_path):
    pipeline = tiny_flux()
    whole, _ = saved(pipeline, tmp_path)
    file = single_flux_file(pipeline, tmp_path / "narrow.safetensors")
    with raises(ModelError, code=Code.MISMATCH, match=r"narrow\.safetensors: .*configuration whole: "):
        load_generator(str(file), model_config=str(whole))


@pytest.mark.parametrize(
    ("marks", "repository"),
    [
        (
            {"conditioner.embedders.1.model.transformer.resblocks.9.mlp.c_proj.bias": (1,)},
            "stable-diffusion-xl-base-1.0",
        ),
        (
            {
                "model.diffusion_model.joint_blocks.0.context_block.adaLN_modulation.1.bias": (9216,),
                "model.diffusion_model.pos_embed": (1, 36864, 1),
            },
            "stable-diffusion-3-medium",
        ),
        (
            {
                "double_blocks.0.img_attn.norm.key_norm.scale": (1,),
                "guidance_in.in_layer.bias": (1,),
                "img_in.weight": (1, 64),
            },
            "FLUX.1-dev",
        ),
    ],
    ids=["sdxl", "sd3", "flux"],
)
def test_offline_without_a_configuration_the_right_one_is_named(marks, repository, tmp_path, monkeypatch):
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    weights = {"model.diffusion_model.out.0.bias": (1,)} if repository.endswith("base-1.0") else {}
    save_file({name: torch.zeros(shape) for name, shape in (marks | weights).items()}, tmp_path / "model.safetensors")
    with raises(ModelError, code=Code.INCOMPLETE, match=rf"weights alone.*{repository}.*--model-config"):
        load_generator(str(tmp_path / "model.safetensors"), offline=True)
