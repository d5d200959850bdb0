"""The text encoders of a model itself, of every family, and their rows in a run."""

import re
from types import SimpleNamespace

import numpy as np
import pytest

import clinometer as cm
from clinometer._torch import torch
from clinometer.errors import Code, RunNotFoundError
from clinometer.models.diffusers.pipeline import load
from clinometer.models.encoders.own_text import own_text_encoders
from clinometer.runs import NoProgress
from clinometer.runs.ledger import embeddings_name
from tests import quick
from tests.models.diffusers.families import ARCHITECTURES
from tests.quick import thorough_but
from tests.raising import raises
from tests.toys import Eye, Painter, toy_suite

VECTORS = {
    "sd-1": ["end-of-text state"],
    "sdxl": ["end-of-text state", "projected end-of-text state"],
    "flux": ["end-of-text state", "mean of the last hidden states"],
    "sana": ["mean of the last hidden states"],
    "qwen-image": ["mean of the last hidden states"],
    "kandinsky-2.2": ["projected end-of-text state"],
}
SUITE = toy_suite(target=2, attribute=1, concepts=2)
TEXTS = ["a nurse", "a very old carpenter", "man"]


@pytest.mark.parametrize(
    "name",
    thorough_but(VECTORS, *ARCHITECTURES),
)
def test_every_family_embeds_texts_by_itself(families, name):
    encoders = list(own_text_encoders(load(str(families(name)))))
    assert [each.card.settings["vector"] for each in encoders] == VECTORS[name]
    assert len({each.card.name for each in encoders}) == len(encoders)
    for encoder in encoders:
        together = encoder.encode_texts(TEXTS)
        assert np.isfinite(together).all()
        assert together.any(axis=1).all()
        assert (encoder.encode_texts(TEXTS[::-1])[::-1] == together).all()  # a text does not see its company


def test_the_vector_is_what_the_pipeline_makes_of_the_prompt(families):
    generator = load(str(families("sdxl")))
    _, _, pooled, _ = generator.pipeline.encode_prompt(TEXTS[0], do_classifier_free_guidance=False)
    second = list(own_text_encoders(generator))[1].encode_texts(TEXTS[:1])
    # padding follows the end of the text and is not seen by it: equal but for the order of sums
    torch.testing.assert_close(torch.from_numpy(second), pooled, rtol=1e-4, atol=1e-5)


@pytest.mark.thorough
@pytest.mark.pages
def test_a_run_holds_tt_of_the_models_own_encoder(tmp_path, stable_diffusion):
    from clinometer.metrics import association_scores

    suite, model = SUITE, load(str(stable_diffusion), steps=1)
    run = quick.audit(model, suite, tmp_path / "run", encoder=Eye())
    rows = run.scores[run.scores.metric == "own_text"]
    assert set(rows.component) == {"tt"}
    assert set(rows.encoder) == {"own:text_encoder"}
    assert list(rows.concept) == [target.name for target in suite.targets]
    (encoder,) = own_text_encoders(model)
    words = [encoder.encode_texts(suite.groups[group].words) for group in (suite.axis.a, suite.axis.b)]
    expected = association_scores(encoder.encode_texts([suite.text_of(each) for each in suite.targets]), *words)
    np.testing.assert_allclose(rows.value, expected, rtol=1e-6, atol=1e-9)
    assert list(run.own_encoder_cards) == ["own:text_encoder"]
    assert "own:text_encoder" not in run.encoder_cards
    page = run.directory.read_bytes("report.html").decode()
    assert "The model’s own text encoder" in page
    again = cm.score_run(tmp_path / "run")
    assert again.equals(run.scores)


def test_it_moves_no_other_number(tmp_path, stable_diffusion, monkeypatch):
    model = load(str(stable_diffusion), steps=1)
    run = quick.audit(model, SUITE, tmp_path / "with", encoder=Eye())
    monkeypatch.setattr("clinometer.models.encoders.own_text.own_text_encoders", lambda generator: iter(()))
    without = quick.audit(model, SUITE, tmp_path / "without", encoder=Eye()).scores
    rest = run.scores[run.scores.metric != "own_text"].reset_index(drop=True)
    assert rest.equals(without)


def test_texts_that_are_gone_are_missed(tmp_path, stable_diffusion):
    run = quick.audit(load(str(stable_diffusion), steps=1), SUITE, tmp_path / "run", encoder=Eye())
    (name, *_) = run.own_encoder_cards
    run.directory.remove(f"{embeddings_name(name)}/texts.parquet")
    with raises(RunNotFoundError, code=Code.INCOMPLETE, match=name):
        cm.score_run(run.url)


def test_texts_are_embedded_once(tmp_path, stable_diffusion, monkeypatch):
    model = load(str(stable_diffusion), steps=1)
    quick.audit(model, SUITE, tmp_path / "run", encoder=Eye())
    monkeypatch.setattr("clinometer.models.encoders.own_text.OwnTextEncoder.encode_texts", None)
    quick.audit(model, SUITE, tmp_path / "run", encoder=Eye())


class Unknown:
    """A text encoder of a kind that nobody knows: it asks for pictures, too."""

    dtype = torch.float32

    def forward(self, input_ids, attention_mask, pixel_values):
        raise AssertionError

    __call__ = forward


class NotFinite(Unknown):
    """One that overflows."""

    def forward(self, input_ids, attention_mask):
        return (torch.full((1, 4), float("nan")),)

    __call__ = forward


class Listener(NoProgress):
    def __init__(self):
        self.notes = []

    def note(self, message):
        self.notes.append(message)


@pytest.mark.parametrize(
    ("encoder", "why"),
    [(Unknown(), "it stopped with TypeError: .*pixel_values"), (NotFinite(), r"\d+ of \d+ embeddings are not finite")],
)
def test_an_encoder_that_gives_no_vectors_is_left_out_and_said(tmp_path, stable_diffusion, encoder, why):
    model, listener = load(str(stable_diffusion), steps=1), Listener()
    parts = model.pipeline.components
    painter = Painter()
    painter.pipeline = SimpleNamespace(
        _execution_device="cpu",
        components={"text_encoder": encoder, "tokenizer": parts["tokenizer"]}
        | {f"{name}_2": parts[name] for name in ("text_encoder", "tokenizer")},
    )
    run = quick.audit(painter, SUITE, tmp_path / "run", encoder=Eye(), progress=listener)
    assert list(run.own_encoder_cards) == ["own:text_encoder_2"]
    assert set(run.scores.encoder[run.scores.metric == "own_text"]) == {"own:text_encoder_2"}
    (note,) = [note for note in listener.notes if "own:text_encoder" in note]
    assert re.search(f"left out, and nothing else depends on them: encoder own:text_encoder: {why}", note)


@pytest.mark.pages
def test_a_model_that_shows_no_encoder_has_no_such_rows(tmp_path):
    run = quick.audit(Painter(), SUITE, tmp_path / "run", encoder=Eye())
    assert not (run.scores.metric == "own_text").any()
    assert run.own_encoder_cards == {}
    assert "own-text-heading" not in run.directory.read_bytes("report.html").decode()


def test_a_vector_is_named_by_the_token_whose_state_it_is(stable_diffusion):
    """An encoder may take another token for the end of a text than its tokenizer writes there."""
    model = load(str(stable_diffusion))
    text_model = model.pipeline.text_encoder
    text_model = getattr(text_model, "text_model", text_model)
    text_model.eos_token_id = model.pipeline.tokenizer.bos_token_id
    (encoder,) = own_text_encoders(model)
    assert encoder.card.settings["vector"] == "state of the first token, which does not end the text"
