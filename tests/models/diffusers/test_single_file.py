"""Whole models in one safetensors file."""

import shutil

import diffusers
import numpy as np
import pytest
from safetensors.torch import load_file, save_file

from clinometer._torch import torch
from clinometer.errors import Code, ModelError, ModelNotFoundError
from clinometer.models import GenerationRequest, load_generator
from tests.models.diffusers.checkpoints import single_file
from tests.raising import raises

REQUESTS = [GenerationRequest("a", "a cook", 1), GenerationRequest("b", "an old nurse", 2)]


def draw(model, **options):
    generator = load_generator(str(model), steps=2, batch_size=2, **options)
    return generator.card, [np.asarray(each.image) for each in generator.generate(REQUESTS)]


@pytest.fixture(scope="module")
def pipeline(stable_diffusion):
    return diffusers.StableDiffusionPipeline.from_pretrained(stable_diffusion)


@pytest.fixture(scope="module")
def checkpoint(pipeline, tmp_path_factory):
    return single_file(pipeline, tmp_path_factory.mktemp("single") / "merged-v3.safetensors")


@pytest.fixture(scope="module")
def configuration(stable_diffusion, tmp_path_factory):
    """The pipeline's directory without its weights."""
    path = tmp_path_factory.mktemp("configuration") / "tiny"
    shutil.copytree(stable_diffusion, path, ignore=shutil.ignore_patterns("*.safetensors"))
    return path


def test_a_file_draws_what_its_pipeline_draws(stable_diffusion, checkpoint, configuration):
    card, images = draw(checkpoint, model_config=str(configuration))
    whole, expected = draw(stable_diffusion)
    assert [(a == b).all() for a, b in zip(images, expected, strict=True)] == [True, True]
    assert (card.name, card.family) == ("merged-v3", "diffusers/StableDiffusionPipeline")
    assert card.notes["configuration"] == "tiny"
    assert card.notes["prediction type"] == "unknown; epsilon by the configuration, and the file does not say"
    assert card.settings["configuration_sha256"] == whole.settings["configuration_sha256"]
    assert card.weights_sha256 != whole.weights_sha256


@pytest.mark.parametrize("told", ["a weight", "metadata"])
def test_what_a_file_predicts_is_held_against_its_configuration(checkpoint, configuration, tmp_path, told):
    weights = load_file(checkpoint) | ({"v_pred": torch.tensor([])} if told == "a weight" else {})
    save_file(weights, tmp_path / "v.safetensors", {"modelspec.prediction_type": "v"} if told == "metadata" else None)
    with raises(ModelError, code=Code.MISMATCH, match="v_prediction, and the configuration tiny"):
        draw(tmp_path / "v.safetensors", model_config=str(configuration))


def test_what_the_file_leaves_out_comes_from_the_configurations_weights(stable_diffusion, pipeline, tmp_path):
    path = single_file(pipeline, tmp_path / "unet-alone.safetensors", parts=("unet",))
    card, images = draw(path, model_config=str(stable_diffusion))
    _, expected = draw(stable_diffusion)
    assert all((a == b).all() for a, b in zip(images, expected, strict=True))
    other = tmp_path / "other"
    shutil.copytree(stable_diffusion, other)
    vae = diffusers.AutoencoderKL.from_pretrained(other / "vae")
    with torch.no_grad():
        vae.decoder.conv_out.bias += 0.1
    vae.save_pretrained(other / "vae")
    changed, different = draw(path, model_config=str(other))
    assert any((a != b).any() for a, b in zip(different, expected, strict=True))
    assert changed.fingerprint != card.fingerprint


def test_weights_of_a_configuration_that_the_file_has_do_not_count(stable_diffusion, checkpoint, configuration):
    assert (
        draw(checkpoint, model_config=str(stable_diffusion))[0].fingerprint
        == draw(checkpoint, model_config=str(configuration))[0].fingerprint
    )


def test_weights_that_are_nowhere(pipeline, configuration, tmp_path):
    path = single_file(pipeline, tmp_path / "no-vae.safetensors", parts=("unet", "text_encoder"))
    with raises(ModelError, code=Code.MISMATCH, match=r"no-vae.safetensors: .*tiny.*model-config"):
        load_generator(str(path), model_config=str(configuration))


def test_a_configuration_of_another_size(checkpoint, configuration, tmp_path):
    other = tmp_path / "other"
    shutil.copytree(configuration, other)
    config = other / "unet" / "config.json"
    config.write_text(config.read_text().replace('"cross_attention_dim": 32', '"cross_attention_dim": 48'))
    with raises(ModelError, code=Code.MISMATCH, match=r"merged-v3\.safetensors: .*configuration other") as at:
        load_generator(str(checkpoint), model_config=str(other))
    assert "StableDiffusion" not in str(at.value)
    assert len(str(at.value).splitlines()) == 1


def test_a_configuration_that_is_not_there_is_named_by_its_option(checkpoint, tmp_path):
    with raises(ModelNotFoundError, code=Code.NOT_FOUND, field="model_config", match="'nothing'"):
        load_generator(str(checkpoint), model_config="nothing")
    with raises(ModelError, code=Code.MALFORMED):
        load_generator(str(checkpoint), model_config=str(tmp_path))


def test_offline_without_a_configuration_names_the_way_out(checkpoint, monkeypatch, tmp_path):
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    with raises(ModelError, code=Code.INCOMPLETE, match=r"weights alone.*stable-diffusion-v1-5.*--model-config"):
        load_generator(str(checkpoint), offline=True)


def test_a_lora_is_no_model(tmp_path):
    path = tmp_path / "style.safetensors"
    save_file({"unet.up_blocks.0.to_q.lora_A.weight": torch.zeros(2, 2)}, path)
    with raises(ModelError, code=Code.UNSUPPORTED, match=r"style\.safetensors: .*--lora style\.safetensors"):
        load_generator(str(path))


def test_a_part_of_a_pipeline_is_no_model(stable_diffusion):
    with raises(ModelError, code=Code.INCOMPLETE, match="by the pipeline's directory"):
        load_generator(str(stable_diffusion / "vae" / "diffusion_pytorch_model.safetensors"))


@pytest.mark.parametrize(
    ("name", "content", "code", "message"),
    [
        ("model.ckpt", b"\x80", Code.UNTRUSTED, r"model\.ckpt: a pickle .*\.safetensors"),
        ("model.txt", b"x", Code.UNTRUSTED, r"model\.txt: "),
        ("model.safetensors", b"damaged", Code.CORRUPT, r"model\.safetensors: .*download it again"),
    ],
)
def test_files_that_are_not_read(tmp_path, name, content, code, message):
    (tmp_path / name).write_bytes(content)
    with raises(ModelError, code=code, match=message):
        load_generator(str(tmp_path / name))


def test_a_file_that_is_not_there(tmp_path):
    with raises(ModelNotFoundError, code=Code.NOT_FOUND):
        load_generator(str(tmp_path / "gone.safetensors"))


def test_options_that_belong_to_one_kind_of_source(stable_diffusion, checkpoint):
    with raises(ModelError, code=Code.UNSUPPORTED, field="model_config"):
        load_generator(str(stable_diffusion), model_config="x")
    with raises(ModelError, code=Code.UNSUPPORTED, field="variant", match="found 'fp16', but a single file"):
        load_generator(str(checkpoint), variant="fp16")
