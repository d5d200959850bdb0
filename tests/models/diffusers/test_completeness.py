"""Models of which something is missing are refused by name, before anything is drawn or measured."""

import shutil

import diffusers
import pytest
import transformers
from safetensors.torch import load_file, save_file

from clinometer.errors import Code, ModelError
from clinometer.models import load_encoder, load_generator
from clinometer.models.weights import require_vocabulary
from tests.builders import tiny_tokenizer
from tests.models.diffusers.checkpoints import single_file
from tests.models.diffusers.pipelines import tiny_sd3
from tests.raising import raises


def without_weights(file, *parts):
    """Rewrite a file of weights without those that have one of these parts in their names; return what is left out."""
    tensors = load_file(file)
    left_out = sorted(name for name in tensors if any(part in name for part in parts))
    assert left_out
    save_file({name: x for name, x in tensors.items() if name not in left_out}, file, metadata={"format": "pt"})
    return left_out


def copied(source, folder):
    return shutil.copytree(source, folder / source.name)


def test_a_text_encoder_that_lacks_weights_is_refused(stable_diffusion, tmp_path):
    """transformers drew them again at every start: a run that was resumed went on with another model."""
    path = copied(stable_diffusion, tmp_path)
    missing = without_weights(path / "text_encoder" / "model.safetensors", "layers.1.mlp")
    with raises(ModelError, code=Code.INCOMPLETE, match=rf"tiny-sd/text_encoder: .*\({missing[0]} and 3 more\)"):
        load_generator(str(path))
    assert load_generator(str(stable_diffusion)).card.name == "tiny-sd"  # loading is as it was


def test_a_third_text_encoder_that_lacks_weights_is_refused(tmp_path):
    tiny_sd3(t5_width=32).save_pretrained(tmp_path)
    assert load_generator(str(tmp_path)).card.family == "diffusers/StableDiffusion3Pipeline"  # tied weights are none
    without_weights(tmp_path / "text_encoder_3" / "model.safetensors", "block.1.layer.0.SelfAttention.q")
    with raises(ModelError, code=Code.INCOMPLETE, match=r"/text_encoder_3: .*\(\S+SelfAttention\.q\.weight\)"):
        load_generator(str(tmp_path))


@pytest.mark.parametrize("gone", ["tokenizer.json", ""])
def test_a_tokenizer_without_its_vocabulary_is_refused(stable_diffusion, tmp_path, gone):
    """It was made empty, and every prompt drew the same picture."""
    path = copied(stable_diffusion, tmp_path)
    if gone:
        (path / "tokenizer" / gone).unlink()
        message = r"tiny-sd/tokenizer: the tokenizer has no vocabulary.*download it again"
    else:
        shutil.rmtree(path / "tokenizer")
        message = r"tiny-sd: model_index.json names tokenizer, and there is no such folder; download it again"
    with raises(ModelError, code=Code.INCOMPLETE, match=message):
        load_generator(str(path))


def test_t5_without_its_vocabulary_is_refused(families, tmp_path):
    path = copied(families("pixart"), tmp_path)
    (path / "tokenizer" / "tokenizer.json").unlink()
    with raises(ModelError, code=Code.INCOMPLETE):
        load_generator(str(path))


def test_the_configuration_of_a_single_file_has_its_vocabulary(stable_diffusion, tmp_path):
    pipeline = diffusers.StableDiffusionPipeline.from_pretrained(stable_diffusion)
    file = single_file(pipeline, tmp_path / "merged.safetensors")
    path = copied(stable_diffusion, tmp_path)
    (path / "tokenizer" / "tokenizer.json").unlink()
    with raises(ModelError, code=Code.INCOMPLETE):
        load_generator(str(file), model_config=str(path))


def test_an_encoder_without_its_vocabulary_is_refused(clip, tmp_path):
    path = copied(clip, tmp_path)
    (path / "tokenizer.json").unlink()
    with raises(ModelError, code=Code.INCOMPLETE):
        load_encoder(str(path))


def test_vocabularies_without_words_are_vocabularies():
    """Bytes are enough. Tokens that were added to a tokenizer, such as a chat's, are not."""
    require_vocabulary("bytes", transformers.ByT5Tokenizer())
    require_vocabulary("letters", tiny_tokenizer())
    empty = transformers.Qwen2Tokenizer()
    empty.add_tokens(["<tool_call>"])
    with raises(ModelError, code=Code.INCOMPLETE):
        require_vocabulary("empty", empty)


@pytest.mark.parametrize(("component", "part"), [("unet", "conv_in"), ("vae", "decoder.conv_out")])
def test_a_network_that_lacks_weights_is_refused(stable_diffusion, tmp_path, component, part):
    path = copied(stable_diffusion, tmp_path)
    without_weights(path / component / "diffusion_pytorch_model.safetensors", part)
    message = rf"tiny-sd: it lacks weights of {component} \({part}.weight and 1 more\); download it again"
    with raises(ModelError, code=Code.INCOMPLETE, match=message):
        load_generator(str(path))
