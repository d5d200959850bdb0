"""The diffusion classifier over real, tiny pipelines of every kind of prediction and conditioning."""

import numpy as np
import pytest
from PIL import Image

from clinometer._torch import torch
from clinometer.errors import Code, InvalidInputError, ModelError
from clinometer.models import load_generator
from clinometer.models.diffusers.classifier import DiffusionClassifier, choose, fractions, noise
from clinometer.models.diffusers.denoiser import DiffusersDenoiser, record_call
from clinometer.models.diffusers.pipeline import load
from clinometer.models.images import image_sha256
from clinometer.models.protocols import Card
from clinometer.stats.sequential import Elimination
from tests.builders import tiny_stable_diffusion
from tests.models.diffusers.pipelines import FAMILIES
from tests.raising import raises

LABELS = ["cook", "pilot", "nurse"]
CARD = Card(kind="generator", name="tiny", family="diffusers")


def pictures(n=3, size=(32, 32)):
    rng = np.random.default_rng(0)
    return [Image.fromarray(rng.integers(0, 256, (*size, 3), np.uint8)) for _ in range(n)]


@pytest.fixture(scope="module")
def pipelines(stable_diffusion, tmp_path_factory):
    """A pipeline of each kind, by name: three predictions of Stable Diffusion, and three other families."""
    built = {"epsilon": load(str(stable_diffusion)).pipeline}
    for prediction in ("v_prediction", "sample"):
        path = tiny_stable_diffusion(tmp_path_factory.mktemp("sd") / prediction, prediction_type=prediction)
        built[prediction] = load(str(path)).pipeline
    for name, build in FAMILIES.items():
        built[name] = build()
        built[name].set_progress_bar_config(disable=True)
    return built


KINDS = ("epsilon", "v_prediction", "sample", *FAMILIES)
SHORT = ("epsilon", "flux")
"""A UNet that predicts noise and a transformer that predicts the flow; `make test-all` takes the others."""


def denoiser_of(pipelines, kind, **options):
    settings = {"size": (32, 32), "batch_size": 4} | options
    return DiffusersDenoiser(pipelines[kind], CARD, **settings)


def classifier_of(pipelines, kind="epsilon", *, batch_size=4, **options):
    settings = {"trials": 5} | options
    return DiffusionClassifier(denoiser_of(pipelines, kind, batch_size=batch_size), LABELS, **settings)


def within(measured, other, tolerance):
    """Whether two sets of mean errors differ by rounding only."""
    first, second = (each.errors.mean(axis=-1, dtype=np.float64) for each in (measured, other))
    return np.abs(first / second - 1).max() < tolerance


# --- the network is called as its pipeline calls it ----------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_the_network_sees_what_the_pipeline_shows_it(pipelines, kind):
    """A pipeline's own first step, hooked, against the same call made here: the same prediction, bit for bit."""
    pipeline = pipelines[kind]
    denoiser = denoiser_of(pipelines, kind)
    network = denoiser._network._network
    seen = {}

    def keep(module, positional, named, output):
        seen.setdefault("inputs", (positional, named))
        seen.setdefault("output", output[0] if isinstance(output, tuple) else output.sample)

    handle = network.register_forward_hook(keep, with_kwargs=True)
    pipeline(["a cook"] * 2, guidance_scale=1.0, num_inference_steps=2, height=32, width=32, output_type="latent")
    handle.remove()
    positional, named = seen["inputs"]
    latents = positional[0] if positional else named["hidden_states"]
    first = float(pipeline.scheduler.timesteps[0])
    rows = denoiser._network.rows(["a cook"] * 2)
    with torch.inference_mode():
        ours = denoiser._network(latents, torch.tensor([first, first]), rows)
    assert torch.allclose(ours, seen["output"].float(), atol=1e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_an_error_follows_from_the_definition(pipelines, kind):
    denoiser = denoiser_of(pipelines, kind)
    latents = denoiser.encode_images(pictures())
    timesteps = denoiser.timesteps(torch.tensor([0.1, 0.5, 0.9]))
    drawn = torch.stack([noise(0, "x", i, 0, latents.shape[1:]) for i in range(3)])
    errors = denoiser.errors(latents, timesteps, drawn, ["a cook", "a pilot", "a cook"])
    assert errors.dtype == np.float32
    for i, prompt in enumerate(["a cook", "a pilot", "a cook"]):
        row = slice(i, i + 1)
        shown = denoiser._pack(denoiser.noising.noised(latents[row], drawn[row], timesteps[row]))
        target = denoiser._pack(denoiser.noising.target(latents[row], drawn[row], timesteps[row]))
        with torch.inference_mode():
            predicted = denoiser._network(shown, timesteps[row], denoiser._network.rows([prompt]))
        assert errors[i] == pytest.approx(float(((predicted - target) ** 2).double().mean()), rel=1e-5)


def test_text_embeddings_are_those_of_the_pipeline(pipelines):
    pipeline = pipelines["epsilon"]
    call = record_call(pipeline, "a cook", {"height": 32, "width": 32})
    own, _ = pipeline.encode_prompt("a cook", "cpu", 1, False)
    assert torch.allclose(call.arguments["encoder_hidden_states"], own, atol=1e-6)
    assert call.per_prompt == {"encoder_hidden_states"}
    assert call.timestep_scale == 1


def test_flux_is_called_with_its_own_conventions(pipelines):
    call = record_call(pipelines["flux"], "a cook", {"height": 32, "width": 32})
    assert call.timestep_scale == 1 / 1000
    assert call.per_prompt == {"encoder_hidden_states", "pooled_projections", "guidance"}
    assert call.latents.shape == (1, 64, 16)  # patches of 2 × 2
    assert call.arguments["guidance"].item() == 1.0


def test_a_shifted_vae(pipelines):
    images = pictures(1)
    denoiser, vae = denoiser_of(pipelines, "sd3"), pipelines["sd3"].vae
    pixels = torch.from_numpy(np.asarray(images[0], np.float32) / 127.5 - 1).permute(2, 0, 1)[None]
    with torch.inference_mode():
        expected = (vae.encode(pixels).latent_dist.mode() - 0.0609) * 1.5035
    assert torch.allclose(denoiser.encode_images(images), expected, atol=1e-6)


def test_images_of_another_size_are_fitted(pipelines):
    denoiser = denoiser_of(pipelines, "epsilon")
    square = Image.fromarray(np.full((64, 64, 3), 77, np.uint8))
    wide = Image.fromarray(np.full((64, 200, 3), 77, np.uint8))
    assert torch.equal(denoiser.encode_images([square]), denoiser.encode_images([wide.convert("L")]))


@pytest.mark.parametrize("kind", ["epsilon", "v_prediction", "sample", "sd3"])
def test_errors_of_the_noise_are_weighted_errors_of_the_target(pipelines, kind):
    plain, weighted = denoiser_of(pipelines, kind), denoiser_of(pipelines, kind, weighting="epsilon")
    latents = plain.encode_images(pictures())
    t = plain.timesteps(torch.tensor([0.2, 0.5, 0.8]))
    arguments = latents, t, torch.ones_like(latents), ["a cook"] * 3
    weights = plain.noising.weights(t, "epsilon").numpy()
    assert weighted.errors(*arguments) == pytest.approx(weights * plain.errors(*arguments), rel=1e-5)


# --- neither batch nor company decides -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "size"),
    [
        *((kind, 7) for kind in SHORT),
        (KINDS[0], 1),
        *(pytest.param(k, 7, marks=pytest.mark.thorough) for k in KINDS if k not in SHORT),
        *(pytest.param(k, 1, marks=pytest.mark.thorough) for k in KINDS[1:]),
    ],
)
def test_batch_size_changes_errors_by_rounding_only(pipelines, kind, size):
    images = pictures()
    whole = classifier_of(pipelines, kind, batch_size=64).errors(images)
    other = classifier_of(pipelines, kind, batch_size=size).errors(images)
    assert within(other, whole, whole.tolerance)
    assert [choose(other, i).label for i in range(3)] == [choose(whole, i).label for i in range(3)]


def test_an_image_is_measured_alike_in_any_company(pipelines):
    images = pictures(4)
    together = classifier_of(pipelines).errors(images)
    for number in (3, 1):
        alone = classifier_of(pipelines).errors(images[number : number + 1])
        assert alone.images[0] == together.images[number] == image_sha256(images[number])
        assert np.allclose(alone.errors[0], together.errors[number], rtol=1e-4)
        assert np.array_equal(alone.fractions[0], together.fractions[number])


def test_fewer_trials_are_a_prefix_of_more(pipelines):
    images = pictures(2)
    more, fewer = (classifier_of(pipelines, trials=n).errors(images) for n in (12, 3))
    assert np.allclose(more.errors[:, :, :3], fewer.errors, rtol=1e-4)


def test_the_order_of_classes_does_not_matter(pipelines):
    images = pictures(2)
    plain = classifier_of(pipelines).errors(images)
    turned = DiffusionClassifier(denoiser_of(pipelines, "epsilon"), LABELS[::-1], trials=5).errors(images)
    assert np.allclose(turned.errors[:, ::-1], plain.errors, rtol=1e-4)


def test_classes_share_timestep_and_noise(pipelines, monkeypatch):
    """Two labels with the same prompt have the same errors: nothing but the prompt tells classes apart."""
    classifier = classifier_of(pipelines)
    classifier.prompts = ("a cook", "a cook", "a pilot")
    errors = classifier.errors(pictures(2)).errors
    assert np.allclose(errors[:, 0], errors[:, 1], rtol=1e-4)
    assert not np.allclose(errors[:, 0], errors[:, 2], rtol=1e-4)


def test_another_seed_is_another_estimate(pipelines):
    images = pictures(1)
    first, second = (classifier_of(pipelines, seed=seed).errors(images) for seed in (0, 1))
    assert not np.allclose(first.errors, second.errors, rtol=1e-3)
    assert np.array_equal(first.fractions[0], fractions(0, first.images[0], 5))


def test_each_image_and_prompt_is_encoded_once_and_batches_are_full(pipelines):
    pipeline = pipelines["epsilon"]
    classifier = classifier_of(pipelines, batch_size=8)  # starts the pipeline once, on a prompt of its own
    counts = {"vae": 0, "text": 0}
    rows = []
    handles = [
        pipeline.vae.encoder.register_forward_hook(lambda *_: counts.update(vae=counts["vae"] + 1)),
        pipeline.text_encoder.register_forward_hook(lambda *_: counts.update(text=counts["text"] + 1)),
        pipeline.unet.register_forward_pre_hook(lambda module, inputs: rows.append(len(inputs[0]))),
    ]
    measured = classifier.errors(pictures())
    for handle in handles:
        handle.remove()
    assert counts == {"vae": 3, "text": 3}
    # a prompt is started with two copies, and stopped at the door of the network
    assert [size for size in rows if size != 2] == [8] * 5 + [5]
    assert measured.evaluations.tolist() == [15, 15, 15]


@pytest.mark.parametrize(
    "error",
    [torch.OutOfMemoryError("CUDA out of memory."), pytest.param(MemoryError(), marks=pytest.mark.thorough)],
)
def test_out_of_memory_halves_the_batch(pipelines, error):
    pipeline = pipelines["epsilon"]
    whole = classifier_of(pipelines).errors(pictures(2))

    def trip(module, inputs):
        if len(inputs[0]) > 3:
            raise error

    classifier = classifier_of(pipelines, batch_size=16)
    handle = pipeline.unet.register_forward_pre_hook(trip)
    try:
        halved = classifier.errors(pictures(2))
    finally:
        handle.remove()
    assert classifier.denoiser.batch_size == 2
    assert within(halved, whole, whole.tolerance)


def test_an_error_that_is_none_of_memory_passes(pipelines):
    def trip(module, inputs):
        raise ValueError("a kernel stumbled")

    classifier = classifier_of(pipelines)
    classifier.errors(pictures(1))  # so that every prompt is encoded
    handle = pipelines["epsilon"].unet.register_forward_pre_hook(trip)
    try:
        with pytest.raises(ValueError, match="stumbled"):
            classifier.errors(pictures(1))
    finally:
        handle.remove()


# --- classes leave -------------------------------------------------------------------------------------------------


class Known:
    """A denoiser whose errors are known by prompt: a level, plus noise that all prompts share but for a little."""

    tolerance = 1e-5
    card = CARD

    def __init__(self, levels, *, batch_size=16):
        self.levels, self.batch_size, self.rows = levels, batch_size, 0

    def encode_images(self, images):
        return torch.stack([torch.full((1, 2, 2), float(np.asarray(image).mean())) for image in images])

    def timesteps(self, fractions):
        return fractions

    def errors(self, latents, timesteps, noise, prompts):
        self.rows += len(prompts)
        shared = 1 + timesteps.numpy() + 0.1 * noise.flatten(1).mean(1).numpy()
        own = 0.02 * noise.flatten(1)[:, 0].numpy()
        return np.array(
            [s + self.levels[p] + o * (p == "c") for s, p, o in zip(shared, prompts, own, strict=True)], np.float32
        )


def test_clear_classes_leave_early_and_the_choice_stays():
    levels = {"a": 0.0, "b": 0.5, "c": 0.01, "d": 0.3}
    full = DiffusionClassifier(Known(levels), list(levels), trials=60)
    adaptive = DiffusionClassifier(Known(levels), list(levels), trials=60, elimination=Elimination())
    images = pictures(5)
    every, some = full.errors(images), adaptive.errors(images)
    assert every.evaluations.tolist() == [240] * 5
    assert (some.evaluations < 240).all()
    assert adaptive.denoiser.rows == some.evaluations.sum()
    measured = np.isfinite(some.errors)
    assert np.array_equal(some.errors[measured], every.errors[measured])
    for image in range(5):
        choice = choose(some, image)
        assert (choice.label, choice.runner_up) == ("a", "c")
        assert choice.low < choice.margin < choice.high
        assert choice.evaluations == some.evaluations[image]


def test_progress_is_told_of_everything_done_or_spared():
    told = []
    classifier = DiffusionClassifier(Known({"a": 0.0, "b": 0.5}), ["a", "b"], trials=40, elimination=Elimination())
    classifier.errors(pictures(3), advance=told.append)
    assert sum(told) == 3 * 2 * 40


def test_a_tie_is_said_to_be_one():
    choice = DiffusionClassifier(Known({"a": 0.5, "b": 0.5}), ["a", "b"], trials=4).classify(pictures(1))[0]
    assert choice.tie
    assert choice.margin == 0
    assert not DiffusionClassifier(Known({"a": 0.4, "b": 0.5}), ["a", "b"]).classify(pictures(1))[0].tie


@pytest.mark.parametrize("elimination", [None, Elimination()])
def test_errors_that_are_not_finite_make_no_choice(elimination):
    levels = {"a": 0.0, "b": float("nan")}
    choice = DiffusionClassifier(Known(levels), ["a", "b"], trials=20, elimination=elimination).classify(pictures(1))[0]
    assert choice.label == ""
    assert "not finite; try dtype float32" in choice.reason


def test_no_images():
    measured = DiffusionClassifier(Known({"a": 0, "b": 1}), ["a", "b"]).errors([])
    assert measured.errors.shape == (0, 2, 100)


@pytest.mark.parametrize(
    ("labels", "options", "code", "field", "message"),
    [
        (["a"], {}, Code.TOO_FEW, "labels", "expected two or more"),
        (["a", "a"], {}, Code.TOO_FEW, "labels", "found a, a"),
        (["a", "b"], {"template": "a portrait"}, Code.MALFORMED, "template", "expected {}"),
        (["a", "b"], {"trials": 0}, Code.OUT_OF_RANGE, "trials", "expected 1 or more"),
    ],
)
def test_settings_that_do_not_fit(labels, options, code, field, message):
    with raises(InvalidInputError, code=code, field=field, match=message):
        DiffusionClassifier(Known({}), labels, **options)


# --- what cannot classify says so ----------------------------------------------------------------------------------


def test_a_pipeline_without_a_schedule_that_can_be_scored(stable_diffusion):
    generator = load(str(stable_diffusion), scheduler="EulerDiscreteScheduler")
    assert generator.denoiser().noising.prediction == "epsilon"
    generator.pipeline.scheduler = __import__("diffusers").EDMEulerScheduler()
    with raises(ModelError, code=Code.UNSUPPORTED, match="cannot be scored"):
        generator.denoiser()


def test_a_pipeline_without_a_network(pipelines):
    class Bare:
        scheduler = pipelines["epsilon"].scheduler
        dtype = torch.float32

    with raises(ModelError, code=Code.UNSUPPORTED, match="has no denoising network"):
        DiffusersDenoiser(Bare(), CARD, size=(32, 32), batch_size=1)


def test_a_pipeline_that_fails_on_a_prompt(pipelines, monkeypatch):
    denoiser = denoiser_of(pipelines, "sd3")
    latents = denoiser.encode_images(pictures(1))
    monkeypatch.setattr(pipelines["sd3"], "tokenizer", None)
    with raises(ModelError, code=Code.UNSUPPORTED, match="cannot be started on a prompt"):
        denoiser_of(pipelines, "sd3")
    with raises(ModelError, code=Code.UNSUPPORTED, match="cannot be started on a prompt"):
        denoiser.errors(latents, torch.tensor([10.0]), latents, ["a cook"])


def test_latents_of_an_unknown_layout(pipelines, monkeypatch):
    denoiser = denoiser_of(pipelines, "flux")
    latents = denoiser.encode_images(pictures(1))
    denoiser.errors(latents, torch.tensor([10.0]), latents, ["a cook"])
    monkeypatch.setattr(type(pipelines["flux"]), "_pack_latents", staticmethod(lambda latents, *_: latents))
    with raises(ModelError, code=Code.UNSUPPORTED, match="how one becomes the other"):
        denoiser.errors(latents, torch.tensor([10.0]), latents, ["a cook"])


@pytest.mark.thorough
@pytest.mark.slow
def test_the_reference_model_knows_what_it_drew():
    """Four professions, two portraits each, a man's and a woman's: classified right at ten trials."""
    from clinometer.models import GenerationRequest

    generator = load_generator("reference", steps=4)
    labels = ["firefighter", "pilot", "teacher", "cook"]
    asked = [f"a portrait of a {gender} {label}" for label in labels for gender in ("man", "woman")]
    drawn = generator.generate([GenerationRequest(prompt, prompt, seed) for seed, prompt in enumerate(asked)])
    classifier = DiffusionClassifier(
        generator.denoiser(), labels, template="a portrait of a {}", trials=10, elimination=Elimination()
    )
    choices = classifier.classify([result.image for result in drawn])
    right = [choice.label in prompt for choice, prompt in zip(choices, asked, strict=True)]
    assert sum(right) >= 7, [choice.label for choice in choices]
