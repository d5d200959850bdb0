"""The prior of a model of two stages: its embeddings are those that its images are drawn from, and their rows."""

import numpy as np
import pytest

import clinometer as cm
from clinometer._torch import torch
from clinometer.errors import Code, ModelError
from clinometer.metrics import association_scores
from clinometer.metrics.verdict import FIXED_ONLY
from clinometer.models import GenerationRequest
from clinometer.models.diffusers.conditioning import DiffusersPrior, prior_of
from clinometer.models.diffusers.pipeline import load
from clinometer.report import wording
from clinometer.runs import NoProgress
from tests import quick
from tests.raising import raises
from tests.toys import Eye, Painter, toy_suite

WITH_PRIOR = ("kandinsky-2.2", "unclip")
ONE = (pytest.param("kandinsky-2.2", marks=pytest.mark.thorough), "unclip")
PROMPTS = ["a cook", "an image of a very old firefighter", "a man"]
REQUESTS = [GenerationRequest(str(index), prompt, 100 + index) for index, prompt in enumerate(PROMPTS)]
SUITE = toy_suite(target=3, attribute=2, concepts=2)


def opened(families, name, **options):
    sizes = {"height": 32, "width": 32} if name == "kandinsky-2.2" else {}
    return load(str(families(name)), **({"steps": 2, "prior_steps": 3, "batch_size": 3} | sizes | options))


@pytest.fixture(scope="module")
def whole(families, tmp_path_factory):
    return quick.audit(opened(families, "unclip"), SUITE, tmp_path_factory.mktemp("runs") / "whole", encoder=Eye())


def vectors(generator, requests=REQUESTS):
    drawn = list(prior_of(generator).embed(requests))
    assert [(each.id, each.reason) for each in drawn] == [(request.id, None) for request in requests]
    return np.stack([each.vector for each in drawn])


def given_to_the_decoder(generator, requests):
    """The embeddings that the decoder of a pipeline gets while it draws images."""
    seen, often = [], 1
    pipeline = generator.pipeline
    if hasattr(pipeline, "prior_pipe"):  # at every step; guidance stacks the embedding of nothing before each
        often = generator.card.settings["steps"]
        handle = pipeline.unet.register_forward_pre_hook(
            lambda module, given, named: seen.append(named["added_cond_kwargs"]["image_embeds"].chunk(2)[1]),
            with_kwargs=True,
        )
    else:
        handle = pipeline.text_proj.register_forward_pre_hook(
            lambda module, given, named: seen.append(named["image_embeddings"]), with_kwargs=True
        )
    assert {each.status for each in generator.generate(requests)} == {"ok"}
    handle.remove()
    return torch.cat(seen[::often]).numpy()


@pytest.mark.parametrize(
    ("name", "options"), [*((name, {}) for name in WITH_PRIOR), ("kandinsky-2.2", {"negative_prompt": "ugly"})]
)
def test_an_embedding_is_the_one_its_image_is_drawn_from(families, name, options):
    generator = opened(families, name, **options)
    embeddings = vectors(generator)
    assert embeddings.shape == (3, 32)
    assert embeddings.dtype == np.float32
    np.testing.assert_array_equal(embeddings, given_to_the_decoder(generator, REQUESTS))


@pytest.mark.parametrize("name", ONE)
def test_an_embedding_depends_on_prompt_and_seed_and_not_on_the_batch(families, name):
    generator = opened(families, name)
    together = vectors(generator)
    generator.batch_size = 1
    np.testing.assert_allclose(vectors(generator, REQUESTS[::-1])[::-1], together, rtol=1e-4, atol=1e-4)
    other = vectors(generator, [GenerationRequest("x", PROMPTS[0], 7), GenerationRequest("y", PROMPTS[2], 100)])
    assert np.abs(other - together[0]).max(axis=1).min() > 0.01
    assert prior_of(opened(families, name, prior_steps=2)).card.settings["prior_steps"] == 2


@pytest.mark.thorough
@pytest.mark.pages
@pytest.mark.parametrize("name", ONE)
def test_a_run_holds_ii_of_the_models_prior(families, name, tmp_path):
    model = opened(families, name)
    run = quick.audit(model, SUITE, tmp_path / "run", encoder=Eye())
    rows = run.scores[run.scores.metric == "prior"]
    assert list(rows.concept) == [target.name for target in SUITE.targets]
    assert (set(rows.component), set(rows.encoder)) == ({"ii"}, {"own:prior"})
    assert (set(rows.n_target), set(rows.n_a), set(rows.n_b)) == ({3}, {4}, {4})
    assert np.isfinite(rows[["value", "low", "high", "p", "q"]]).all(axis=None)

    def drawn_for(**wanted):
        chosen = [s for s in run.plan if all(getattr(s, key) == value for key, value in wanted.items())]
        return vectors(model, [GenerationRequest(s.id, s.prompt, s.seed) for s in chosen])

    a, b = drawn_for(group=SUITE.axis.a), drawn_for(group=SUITE.axis.b)
    expected = [association_scores(drawn_for(concept=concept), a, b).mean() for concept in rows.concept]
    np.testing.assert_allclose(rows.value, expected, atol=1e-5)  # in other batches

    card = run.own_encoder_cards["own:prior"]
    assert card["family"] == "diffusers/PriorTransformer"
    assert card["settings"]["prior_steps"] == 3
    assert list(run.encoder_cards) == ["eye"]
    page = run.directory.read_bytes("report.html").decode()
    assert "From the text through the prior to the image" in page
    assert "agree on the direction for" in page
    digits = wording.digits_for([*rows.value, *rows.low, *rows.high])
    assert all(f">{wording.signed(value, digits)}" in page for value in rows.value)
    assert cm.score_run(tmp_path / "run").equals(run.scores)


@pytest.mark.thorough
def test_a_run_stopped_while_its_prior_draws_ends_the_same(families, whole, tmp_path, monkeypatch):
    embed, parts = DiffusersPrior.embed, []

    def stop(prior, requests):
        parts.append(1)
        if len(parts) == 2:
            raise KeyboardInterrupt
        return embed(prior, requests)

    monkeypatch.setattr(DiffusersPrior, "embed", stop)
    with pytest.raises(KeyboardInterrupt):
        quick.audit(opened(families, "unclip"), SUITE, tmp_path / "run", encoder=Eye())
    stopped = cm.open_run(tmp_path / "run")
    assert 0 < len(stopped.embeddings("own:prior")) < len(stopped.plan)
    again = quick.audit(opened(families, "unclip"), SUITE, tmp_path / "run", encoder=Eye())
    assert len(parts) == 1 + len(again.parts)  # the first was not drawn twice
    ours, theirs = again.embeddings("own:prior"), whole.embeddings("own:prior")
    assert list(ours) == list(theirs)
    assert all((ours[each] == theirs[each]).all() for each in ours)
    assert again.scores.equals(whole.scores)


@pytest.mark.thorough
def test_a_prior_that_stops_is_named(families, tmp_path, monkeypatch):
    def stop(prior, requests):
        raise RuntimeError("no more\nsecond line")

    monkeypatch.setattr(DiffusersPrior, "embed", stop)
    with raises(ModelError, code=Code.FAILED, match="^prior own:prior: .*RuntimeError: no more"):
        quick.audit(opened(families, "unclip"), SUITE, tmp_path / "run", encoder=Eye())


class Spots(Eye):
    """Sees three spots of an image: by its mean colour, the noise that a model of one step draws is one picture."""

    def encode_images(self, images):
        spots = [np.asarray(image.convert("L"), float)[[4, 16, 28], [4, 16, 28]] for image in images]
        return np.array(spots, np.float32) - 128.5


@pytest.mark.thorough
def test_a_run_that_stops_early_has_the_estimate_alone(families, tmp_path):
    """Its number of embeddings follows from the images, which were drawn from them."""
    model = opened(families, "kandinsky-2.2", steps=1, prior_steps=2)
    run = quick.audit(model, SUITE, tmp_path / "run", encoder=Spots(), until=0.0001, images=12)
    assert set(run.embeddings("own:prior")) == {sample.id for sample in run.plan}  # of both rounds
    rows = run.scores[run.scores.metric == "prior"]
    assert set(rows.n_target) == {12}
    assert np.isfinite(rows.value).all()
    assert rows[["low", "high", "p", "q"]].isna().all(axis=None)
    assert set(rows.reason) == {FIXED_ONLY}


@pytest.mark.thorough
@pytest.mark.pages
def test_it_moves_no_other_number(families, whole, tmp_path, monkeypatch):
    monkeypatch.setattr("clinometer.models.diffusers.conditioning.prior_of", lambda generator: None)
    without = quick.audit(opened(families, "unclip"), SUITE, tmp_path / "without", encoder=Eye())
    assert "own:prior" not in without.own_encoder_cards
    assert "prior-heading" not in without.directory.read_bytes("report.html").decode()
    assert whole.scores[whole.scores.metric != "prior"].reset_index(drop=True).equals(without.scores)


class Listener(NoProgress):
    def __init__(self):
        self.notes = []

    def note(self, message):
        self.notes.append(message)


def test_what_the_prior_cannot_draw_is_left_out_and_said(families, tmp_path, monkeypatch):
    model, listener = opened(families, "kandinsky-2.2"), Listener()
    bad = SUITE.targets[0].prompt
    draw = model.pipeline.prior_pipe

    def failing(prompt, **arguments):
        output = draw(prompt=prompt, **arguments)
        output.image_embeds[[each == bad for each in prompt]] = float("nan")
        return output

    prior = prior_of(model)
    monkeypatch.setattr(model.pipeline, "prior_pipe", failing)
    drawn = list(prior.embed([GenerationRequest("bad", bad, 1), *REQUESTS]))
    assert [each.vector is None for each in drawn] == [True, False, False, False]
    assert drawn[0].reason.startswith("the prior returned values that are not finite")

    class Once:
        card, batch_size, pipeline = model.card, model.batch_size, object()

        def generate(self, requests):
            return Painter().generate(requests)

        def prior(self):
            return prior

    run = quick.audit(Once(), SUITE, tmp_path / "run", encoder=Eye(), progress=listener)
    rows = run.scores[run.scores.metric == "prior"].set_index("concept")
    assert np.isnan(rows.value.iloc[0])
    assert rows.reason.iloc[0] == "no prior embedding of the target"
    assert np.isfinite(rows.value.iloc[1])
    assert any(note.startswith("3 embeddings of the prior could not be drawn") for note in listener.notes)


def test_out_of_memory_draws_halves(families, monkeypatch):
    generator = opened(families, "unclip")
    expected, sizes = vectors(generator), []
    prior = prior_of(generator)
    draw = prior._draw

    def scarce(pipeline, arguments):
        sizes.append(len(arguments["prompt"]))
        if sizes[-1] > 1:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return draw(pipeline, arguments)

    monkeypatch.setattr(prior, "_draw", scarce)
    drawn = np.stack([each.vector for each in prior.embed(REQUESTS)])
    np.testing.assert_allclose(drawn, expected, rtol=1e-4, atol=1e-4)
    assert sizes == [3, 2, 1, 1, 1]


@pytest.mark.pages
def test_a_model_without_a_prior_has_no_such_rows(tmp_path, stable_diffusion):
    model = load(str(stable_diffusion), steps=1)
    assert prior_of(model) is None
    assert prior_of(Painter()) is None
    with raises(ModelError, code=Code.UNSUPPORTED, match="StableDiffusionPipeline has no prior"):
        model.prior()
    run = quick.audit(Painter(), SUITE, tmp_path / "run", encoder=Eye())
    assert not (run.scores.metric == "prior").any()
    assert "prior-heading" not in run.directory.read_bytes("report.html").decode()
