"""Encoders of every kind that transformers has: dual towers of other families, and towers that see and do not read."""

import dataclasses
import json

import numpy as np
import pytest
import transformers

from clinometer._torch import torch
from clinometer.errors import Code, ModelError
from clinometer.models import Card
from clinometer.models.encoders._encoding import working_encoder
from clinometer.models.encoders.transformers_clip import load
from tests import quick
from tests.builders import VISION, _text_config, tiny_clip, tiny_tokenizer, without_weights
from tests.models.encoders.tiny_encoders import (
    ALONE,
    DUAL,
    PICTURES,
    TEXTS,
    dino,
)
from tests.raising import raises
from tests.toys import Eye, Painter, toy_suite


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """The directory of each encoder, with random weights."""
    folder = tmp_path_factory.mktemp("encoders")
    for name, make in {**DUAL, **ALONE, "dino": dino}.items():
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            make(folder / name)
    return folder


@pytest.mark.parametrize("name", [*DUAL, *ALONE, "dino"])
def test_a_vector_does_not_depend_on_its_batch(saved, name):
    encoder = load(str(saved / name), batch_size=2)
    whole = encoder.encode_images(PICTURES)
    alone = np.concatenate([encoder.encode_images([each]) for each in PICTURES])
    assert whole.shape == (5, encoder.card.settings["dimension"])
    assert np.abs(whole - alone).max() < 1e-5 * np.abs(whole).max()
    assert np.ptp(whole, axis=0).max() > 0  # the picture matters
    json.dumps(dataclasses.asdict(encoder.card))


@pytest.mark.parametrize("name", DUAL)
def test_the_two_towers_share_a_space(saved, name):
    encoder = load(str(saved / name))
    texts = encoder.encode_texts(TEXTS)
    assert texts.shape == (2, encoder.encode_images(PICTURES[:1]).shape[1])
    assert np.allclose(np.concatenate([encoder.encode_texts([each]) for each in TEXTS]), texts, atol=1e-5)
    assert encoder.exceeds_context(TEXTS) == ([False, True] if encoder.context_length == 16 else [False, False])


def test_siglip_2_is_given_what_belongs_to_its_pixels(saved):
    """Images of variable size: the pixels alone would be embedded as one square."""
    encoder = load(str(saved / "siglip2"))
    model = transformers.Siglip2Model.from_pretrained(saved / "siglip2")
    inputs = transformers.AutoImageProcessor.from_pretrained(saved / "siglip2", backend="pil")(
        PICTURES, return_tensors="pt"
    )
    with torch.inference_mode():
        expected = model.vision_model(
            inputs["pixel_values"], inputs["pixel_attention_mask"], inputs["spatial_shapes"]
        ).pooler_output
    assert np.allclose(encoder.encode_images(PICTURES), expected.numpy(), atol=1e-5)


def test_dino_is_its_first_token_or_their_mean(saved):
    encoder = load(str(saved / "dino"))
    model = transformers.Dinov2Model.from_pretrained(saved / "dino")
    inputs = transformers.AutoImageProcessor.from_pretrained(saved / "dino", backend="pil")(
        PICTURES, return_tensors="pt"
    )
    with torch.inference_mode():
        states = model(**inputs).last_hidden_state
    assert np.allclose(encoder.encode_images(PICTURES), states[:, 0].numpy(), atol=1e-5)
    mean = load(str(saved / "dino"), pooling="mean")
    assert np.allclose(mean.encode_images(PICTURES), states.mean(dim=1).numpy(), atol=1e-5)
    assert mean.card.fingerprint != encoder.card.fingerprint
    assert not hasattr(encoder, "encode_texts")


@pytest.mark.parametrize(
    ("name", "pooling"),
    [
        ("dino", "cls"),
        ("vit", "cls"),
        ("mae", "cls"),
        ("dinov3-convnext", "cls"),
        ("siglip-vision", "pooled"),
        ("swin", "pooled"),
        ("i-jepa", "mean"),
    ],
)
def test_every_part_of_an_image_counts(saved, name, pooling):
    """Without a class token the first state is the top left patch's."""
    encoder = load(str(saved / name))
    inputs = transformers.AutoImageProcessor.from_pretrained(saved / name, backend="pil")(PICTURES, return_tensors="pt")
    with torch.inference_mode():
        output = encoder.model(**inputs)
    expected = {
        "cls": lambda: output.last_hidden_state[:, 0],
        "pooled": lambda: output.pooler_output,
        "mean": lambda: output.last_hidden_state.mean(dim=1),
    }[pooling]()
    assert encoder.card.settings["pooling"] == pooling
    assert np.allclose(encoder.encode_images(PICTURES), expected.numpy(), atol=1e-5)
    assert load(str(saved / name), pooling=pooling).card.fingerprint == encoder.card.fingerprint


def test_a_masked_autoencoder_is_shown_the_whole_picture(saved):
    encoder = load(str(saved / "mae"))
    whole = encoder.encode_images(PICTURES)
    assert np.abs(whole - encoder.encode_images(PICTURES)).max() < 1e-5 * np.abs(whole).max()
    assert encoder.card.settings["mask_ratio"] == 0


@pytest.mark.parametrize(
    ("name", "options", "code", "field", "message"),
    [
        ("dino", {"pooling": "max"}, Code.UNKNOWN_NAME, "pooling", "'max'"),
        ("swin", {"pooling": "cls"}, Code.UNSUPPORTED, (), "swin, pooling cls: .*pooled or mean"),
        ("i-jepa", {"pooling": "cls"}, Code.UNSUPPORTED, (), "cls: .*mean$"),
        ("i-jepa", {"pooling": "pooled"}, Code.UNSUPPORTED, (), "pooled: .*mean$"),
        ("siglip", {"pooling": "cls"}, Code.UNSUPPORTED, (), "siglip"),
        ("siglip", {"batch_size": 0}, Code.OUT_OF_RANGE, "batch_size", "0"),
    ],
)
def test_options_that_do_not_fit(saved, name, options, code, field, message):
    with raises(ModelError, code=code, field=field, match=message):
        load(str(saved / name), **options)


def test_an_encoder_of_images_gives_what_it_can(saved, tmp_path):
    run = quick.audit(
        Painter(), toy_suite(target=3, attribute=2, concepts=2), tmp_path / "run", encoder=[Eye(), str(saved / "dino")]
    )
    rows = run.scores[(run.scores.metric == "mcas") & (run.scores.concept == "concept 0.20")]
    own = rows[rows.encoder == "dino"].set_index("component")
    assert np.isfinite(own.value["ii"])
    for component in ("itp", "ita", "tt", "mcas"):
        assert np.isnan(own.value[component])
        assert own.reason[component] == "the encoder reads no text"
    by_encoder = rows.set_index(["encoder", "component"]).value
    assert by_encoder["mean", "mcas"] == by_encoder["eye", "mcas"]  # the mean is over encoders that give all four


def test_an_encoder_of_images_alone(saved, tmp_path):
    suite = toy_suite(target=3, attribute=2, concepts=2)
    run = quick.audit(Painter(), suite, tmp_path / "run", encoder=str(saved / "dino"))
    rows = run.scores[(run.scores.metric == "mcas") & (run.scores.encoder == "mean")]
    assert rows[rows.component == "ii"].value.notna().all()
    assert rows[rows.component == "mcas"].value.isna().all()
    assert (rows[rows.component == "mcas"].reason == "the encoder reads no text").all()


def _flava(path):
    tokenizer = tiny_tokenizer()
    config = transformers.FlavaConfig(
        text_config=_text_config(tokenizer), image_config=VISION, hidden_size=32, projection_dim=16
    )
    transformers.FlavaModel(config).save_pretrained(path)
    transformers.FlavaImageProcessorPil(
        size={"height": 32, "width": 32}, crop_size={"height": 32, "width": 32}
    ).save_pretrained(path)
    tokenizer.save_pretrained(path)


@pytest.mark.thorough
def test_an_encoder_of_tokens_is_refused_when_it_is_loaded(tmp_path):
    _flava(tmp_path)
    with raises(ModelError, code=Code.WRONG_SHAPE):
        load(str(tmp_path))


class Drawn:
    """Gives what it is told to, one array a call."""

    def __init__(self, *vectors, dtype="float32"):
        self.card = Card(kind="encoder", name="drawn", family="toy", settings={"dimension": 4, "dtype": dtype})
        self._vectors = iter(vectors)

    def encode_texts(self, texts):
        return np.asarray(next(self._vectors), np.float32)


ONES = np.ones((1, 4))


@pytest.mark.parametrize(
    ("vectors", "code", "message"),
    [
        ((ONES, ONES * 1.01), Code.UNSUPPORTED, r"0\.01"),
        ((ONES[None], ONES[None]), Code.WRONG_SHAPE, r"\(1, 4\)"),
        ((ONES[:, :3], ONES[:, :3]), Code.WRONG_SHAPE, r"\(3,\)"),
        ((ONES * np.nan, ONES * np.nan), Code.NOT_FINITE, "drawn"),
    ],
)
def test_an_encoder_is_tried(vectors, code, message):
    with raises(ModelError, code=code, match=message):
        working_encoder(Drawn(*vectors))


@pytest.mark.parametrize(("dtype", "rounding"), [("float32", 1e-5), ("float16", 1e-3), ("bfloat16", 1e-2)])
def test_rounding_is_no_reason(dtype, rounding):
    working_encoder(Drawn(ONES, ONES * (1 + rounding), dtype=dtype))
    with raises(ModelError, code=Code.UNSUPPORTED):
        working_encoder(Drawn(ONES, ONES * 1.2, dtype=dtype))


def test_weights_that_a_file_lacks_are_not_drawn_at_random(tmp_path):
    with raises(ModelError, code=Code.NOT_FINITE):
        load(str(without_weights(tiny_clip(tmp_path / "clip"), "text_model")))
    ALONE["vit"](tmp_path / "vit")
    whole = load(str(tmp_path / "vit")).encode_images(PICTURES)
    without_weights(tmp_path / "vit", "pooler")  # as most files of classifiers are
    assert np.array_equal(load(str(tmp_path / "vit")).encode_images(PICTURES), whole)
    ALONE["siglip-vision"](tmp_path / "siglip")
    assert load(str(without_weights(tmp_path / "siglip", "head."))).card.settings["pooling"] == "mean"
