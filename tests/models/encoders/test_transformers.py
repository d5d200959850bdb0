"""The transformers encoder over a real, tiny CLIP."""

import dataclasses
import json
import shutil
import warnings
from itertools import pairwise

import numpy as np
import pytest
import transformers
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from clinometer._torch import torch
from clinometer.errors import Code, ModelError
from clinometer.models import load_encoder
from clinometer.models.encoders._encoding import TruncationWarning
from clinometer.models.encoders.transformers_clip import load
from tests.builders import tiny_clip
from tests.raising import raises

RNG = np.random.default_rng(0)
TEXTS = ["a man", "a woman", "an image of a firefighter", "", "a nurse with light skin"]


@pytest.fixture(scope="module")
def encoder(clip):
    return load(str(clip), batch_size=4)


def pictures(count, side=48):
    return [Image.fromarray(RNG.integers(0, 256, (side, side + 7, 3), dtype=np.uint8)) for _ in range(count)]


def test_vectors_are_the_models_own(encoder, clip):
    model = transformers.CLIPModel.from_pretrained(clip)
    processor = transformers.AutoImageProcessor.from_pretrained(clip, backend="pil")
    tokenizer = transformers.AutoTokenizer.from_pretrained(clip)
    images = pictures(3)
    with torch.inference_mode():
        pooled = model.vision_model(**processor(images, return_tensors="pt")).pooler_output
        expected = model.visual_projection(pooled).numpy()
        pooled = model.text_model(**tokenizer(TEXTS, padding=True, return_tensors="pt")).pooler_output
        expected_texts = model.text_projection(pooled).numpy()
    assert np.allclose(encoder.encode_images(images), expected, atol=1e-5)
    assert np.allclose(encoder.encode_texts(TEXTS), expected_texts, atol=1e-5)
    assert encoder.encode_images(images).dtype == encoder.encode_texts(TEXTS).dtype == np.float32
    assert encoder.encode_images(images).shape == (3, encoder.card.settings["dimension"])


@settings(max_examples=10)
@given(st.lists(st.integers(1, 6), min_size=1, max_size=4))
def test_the_callers_chunks_change_a_vector_by_rounding_only(encoder, chunks):
    images = pictures(sum(chunks))
    whole = encoder.encode_images(images)
    bounds = np.cumsum([0, *chunks])
    parts = [encoder.encode_images(images[a:b]) for a, b in pairwise(bounds)]
    assert np.abs(np.concatenate(parts) - whole).max() < 1e-5 * np.abs(whole).max()


def test_whole_batches_are_the_same_bit_for_bit(encoder):
    images = pictures(12)
    parts = [encoder.encode_images(images[start : start + 4]) for start in (0, 4, 8)]
    assert np.array_equal(np.concatenate(parts), encoder.encode_images(images))


def test_texts_do_not_depend_on_their_neighbours(encoder):
    whole = encoder.encode_texts(TEXTS)
    alone = np.concatenate([encoder.encode_texts([text]) for text in TEXTS])
    assert np.abs(whole - alone).max() < 1e-5 * np.abs(whole).max()


def test_any_mode_and_none_at_all(encoder):
    image = pictures(1)[0]
    for mode in ("L", "P", "CMYK", "RGBA"):
        assert encoder.encode_images([image.convert(mode)]).shape == (1, 16)
    assert encoder.encode_images([]).shape == encoder.encode_texts([]).shape == (0, 16)


def test_a_text_that_is_too_long_is_cut_and_said(encoder):
    long = "x" * 200
    assert encoder.exceeds_context(["a man", long]) == [False, True]
    with pytest.warns(TruncationWarning, match="first 77 tokens of 'xxx.*and 1 more"):
        vectors = encoder.encode_texts([long, "a man", long + "y"])
    assert np.allclose(vectors[0], vectors[2])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        encoder.encode_texts(["x" * 75])  # with start and end, exactly 77


def test_the_card(encoder, clip, tmp_path):
    card = encoder.card
    json.dumps(dataclasses.asdict(card))
    assert (card.kind, card.name, card.family) == ("encoder", "tiny-clip", "transformers/CLIPModel")
    assert str(clip.parent) not in repr(card)
    assert card.settings["context_length"] == 77
    assert card.settings["preprocessing"]["crop_size"] == {"height": 32, "width": 32}
    assert load(str(clip), batch_size=1).card.fingerprint == card.fingerprint
    assert load(str(clip), dtype="bfloat16").card.fingerprint != card.fingerprint
    assert load(str(tiny_clip(tmp_path / "tiny-clip", seed=1))).card.fingerprint != card.fingerprint


def test_half_precision_still_returns_float32(clip):
    assert load(str(clip), dtype="bfloat16").encode_images(pictures(2)).dtype == np.float32


def test_what_is_not_a_dual_encoder(tmp_path, stable_diffusion):
    with raises(ModelError, code=Code.NOT_FOUND, match="tiny-sd"):
        load(str(stable_diffusion))
    with raises(ModelError, code=Code.UNSUPPORTED, match="CLIPTextModel"):
        load(str(stable_diffusion / "text_encoder"))
    torch.save({}, tmp_path / "pytorch_model.bin")
    with raises(ModelError, code=Code.UNTRUSTED):
        load(str(tmp_path))


def test_damaged_weights_are_to_be_downloaded_anew(clip, tmp_path):
    path = shutil.copytree(clip, tmp_path / "damaged")
    (path / "model.safetensors").write_bytes(b"")
    with raises(ModelError, code=Code.UNREADABLE, match="damaged: "):
        load(str(path))


def test_it_is_loaded_by_its_directory(clip):
    assert load_encoder(str(clip)).card.name == "tiny-clip"


def test_a_text_tower_that_looks_for_another_end_than_its_tokenizer_writes_is_refused(clip, tmp_path):
    """CLIP's would then take the state of the first token, which is that of every text."""
    place = shutil.copytree(clip, tmp_path / "clip")
    config = json.loads((place / "config.json").read_text())
    end = transformers.AutoTokenizer.from_pretrained(clip).eos_token_id
    for looked_for, message in ((end - 1, f"token {end - 1} for the end.*ends one with {end}"), (end, "")):
        config["text_config"]["eos_token_id"] = looked_for
        (place / "config.json").write_text(json.dumps(config))
        if message:
            with raises(ModelError, code=Code.MISMATCH, match="188 .*189"):
                load(str(place))
        else:
            assert "unknown" not in load(str(place)).card.notes


def test_what_no_file_says_of_how_pictures_are_prepared_is_unknown(clip, tmp_path):
    place = shutil.copytree(clip, tmp_path / "clip")
    (place / "preprocessor_config.json").unlink()
    try:
        notes = load(str(place)).card.notes
    except ModelError:  # a library that guesses nothing
        return
    assert "preprocessing" in notes["unknown"]
