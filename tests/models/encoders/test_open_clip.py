"""The open_clip encoder, with random weights: nothing is downloaded here."""

import json

import numpy as np
import pytest
from PIL import Image

from clinometer._torch import torch
from clinometer.errors import Code, ModelError, ModelNotFoundError
from clinometer.models import load_encoder
from clinometer.models.encoders._encoding import TruncationWarning
from clinometer.models.encoders.open_clip import _find, _safetensors_of, _WeightsFile, load
from tests.raising import raises

import open_clip  # isort: skip - after torch's door
from safetensors.torch import save_file

SIX_TOWERS = ["RN50", "RN101", "RN50x4", "RN50x16", "ViT-B-32", "ViT-B-16"]
TINY = {
    "embed_dim": 24,
    "vision_cfg": {"image_size": 32, "layers": 2, "width": 64, "patch_size": 8, "head_width": 32},
    "text_cfg": {"context_length": 16, "vocab_size": 49408, "width": 32, "heads": 2, "layers": 1},
}


@pytest.fixture(scope="module")
def weights(tmp_path_factory):
    """A tiny architecture known to open_clip, and a file of random weights for it."""
    folder = tmp_path_factory.mktemp("open_clip")
    (folder / "Tiny-8.json").write_text(json.dumps(TINY))
    open_clip.add_model_config(folder / "Tiny-8.json")
    torch.manual_seed(0)
    save_file(open_clip.create_model("Tiny-8").state_dict(), folder / "tiny.safetensors")
    return folder / "tiny.safetensors"


@pytest.fixture(scope="module")
def encoder(weights):
    return load(f"Tiny-8/{weights}", batch_size=4)


def pictures(count):
    rng = np.random.default_rng(0)
    return [Image.fromarray(rng.integers(0, 256, (40, 50, 3), dtype=np.uint8)) for _ in range(count)]


def test_vectors_are_the_models_own(encoder, weights):
    model, _, preprocess = open_clip.create_model_and_transforms("Tiny-8", pretrained=str(weights))
    model.eval()
    images, texts = pictures(6), ["a man", "an image of a nurse"]
    with torch.inference_mode():
        expected = model.encode_image(torch.stack([preprocess(image) for image in images])).numpy()
        expected_texts = model.encode_text(open_clip.get_tokenizer("Tiny-8")(texts)).numpy()
    assert np.allclose(encoder.encode_images(images), expected, atol=1e-5)
    assert np.allclose(encoder.encode_texts(texts), expected_texts, atol=1e-5)
    assert encoder.encode_images(images).dtype == np.float32
    assert encoder.encode_texts([]).shape == (0, 24)


def test_batch_and_single_agree(encoder):
    images = pictures(6)
    whole = encoder.encode_images(images)
    single = np.concatenate([encoder.encode_images([image]) for image in images])
    assert np.abs(whole - single).max() < 1e-5 * np.abs(whole).max()


def test_a_text_that_is_too_long_is_cut_and_said(encoder):
    assert encoder.exceeds_context(["man " * 14, "man " * 15]) == [False, True]
    with pytest.warns(TruncationWarning, match="first 16 tokens"):
        encoder.encode_texts(["man " * 15])


def test_the_card(encoder, weights):
    card = encoder.card
    assert card.name == "Tiny-8/tiny.safetensors"
    assert str(weights.parent) not in repr(card)
    assert card.settings["preprocessing"]["size"] in (32, (32, 32))
    assert card.settings["preprocessing"]["interpolation"] == "bicubic"
    assert card.settings["context_length"] == 16
    json.dumps(card.settings)


def test_a_state_dict_is_read_and_any_other_pickle_is_not(weights, tmp_path):
    model = open_clip.create_model("Tiny-8", pretrained=str(weights))
    torch.save({"state_dict": model.state_dict()}, tmp_path / "mine.pt")
    assert load(f"Tiny-8/{tmp_path / 'mine.pt'}").card.name == "Tiny-8/mine.pt"
    torch.save(model, tmp_path / "whole.pt")
    with raises(ModelError, code=Code.MISMATCH):
        load(f"Tiny-8/{tmp_path / 'whole.pt'}")


def test_weights_that_do_not_fit(weights, tmp_path):
    save_file({"visual.proj": torch.zeros(2, 2)}, tmp_path / "other.safetensors")
    with raises(ModelError, code=Code.MISMATCH, match=r"other\.safetensors: the weights do not load into Tiny-8"):
        load(f"Tiny-8/{tmp_path / 'other.safetensors'}")


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("RN51/openai", "'RN51'.*RN50"),
        ("RN50", "RN50/TAG.*openai"),
        ("RN50/nonsense", "'nonsense'.*RN50.*openai"),
    ],
)
def test_names_that_are_not_known(spec, message):
    with raises(ModelNotFoundError, code=Code.NOT_FOUND, match=message):
        load(spec)


@pytest.mark.parametrize("tower", SIX_TOWERS)
def test_the_six_towers_are_known_and_come_as_safetensors(tower, monkeypatch, tmp_path):
    """OpenAI's weights need QuickGELU, which these architectures do not have by default."""
    asked = []

    def hf_hub_download(repository, file, **options):
        asked.append((repository, file))
        return tmp_path / "abc123" / file

    monkeypatch.setattr("huggingface_hub.hf_hub_download", hf_hub_download)
    found = _find(tower, "openai", offline=False)
    assert asked[0][0].startswith("timm/")
    assert asked[0][1] == "open_clip_model.safetensors"
    assert (found.name, found.revision) == (f"{tower}/openai", "abc123")
    assert found.settings["quick_gelu"] is True


def test_openai_weights_get_the_activation_they_were_trained_with(weights, monkeypatch):
    monkeypatch.setattr(
        "clinometer.models.encoders.open_clip._find",
        lambda *_: _WeightsFile("Tiny-8/openai", weights, None, {"quick_gelu": True}),
    )
    quick = load("Tiny-8/openai")
    assert type(quick.model.transformer.resblocks[0].mlp.gelu).__name__ == "QuickGELU"
    assert quick.card.settings["quick_gelu"] is True


def test_pickled_files_on_the_hub_are_asked_for_as_safetensors():
    assert _safetensors_of("a/b/") == ("a/b", "open_clip_model.safetensors")
    assert _safetensors_of("a/b/weights-e3.bin") == ("a/b", "weights-e3.safetensors")


def test_weights_that_cannot_be_downloaded(monkeypatch, tmp_path):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    with raises(ModelError, code=Code.UNREACHABLE, match="RN50/openai"):
        load_encoder("RN50/openai", offline=True)


@pytest.mark.thorough
@pytest.mark.slow
@pytest.mark.parametrize("tower", ["RN50", "ViT-B-32"])
def test_a_full_size_tower(tower, tmp_path):
    path = tmp_path / "random.safetensors"
    save_file(open_clip.create_model(tower).state_dict(), path)
    encoder = load_encoder(f"{tower}/{path}")
    assert encoder.encode_images(pictures(2)).shape == (2, encoder.card.settings["dimension"])
    assert np.isfinite(encoder.encode_texts(["a man", "a woman"])).all()


def test_what_nothing_says_of_a_file_is_unknown_and_what_lies_beside_it_is_taken(encoder, weights, tmp_path):
    assert "activation" in encoder.card.notes["unknown"]
    assert "normalisation of colours" in encoder.card.notes["unknown"]
    own = tmp_path / "tiny.safetensors"
    own.write_bytes(weights.read_bytes())
    said = {"model_cfg": TINY | {"quick_gelu": True}, "preprocess_cfg": {"mean": [0.5] * 3, "std": [0.5] * 3}}
    (tmp_path / "open_clip_config.json").write_text(json.dumps(said))
    card = load(f"Tiny-8/{own}").card
    assert "unknown" not in card.notes
    assert card.settings["quick_gelu"] is True
    assert list(card.settings["preprocessing"]["mean"]) == [0.5] * 3
    (tmp_path / "open_clip_config.json").write_text("[1]")
    with raises(ModelError, code=Code.MALFORMED):
        load(f"Tiny-8/{own}")
