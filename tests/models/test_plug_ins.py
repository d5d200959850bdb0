"""Models of others: whatever they give or raise ends in one line, and writes nothing where it does not belong."""

import itertools
import sys
import types
from importlib.metadata import EntryPoint

import numpy as np
import pytest

import clinometer as cm
from clinometer.errors import ClinometerError
from clinometer.models import Card, GenerationResult, registry
from clinometer.models.registry import load_encoder, load_generator
from clinometer.runs.ledger import embeddings_name
from clinometer.suites import suite_from_mapping
from tests import quick
from tests.toys import Eye, Painter, toy_suite

SUITE = toy_suite(target=2, attribute=2, concepts=2)


def one_line(call, *words):
    with pytest.raises(ClinometerError) as caught:
        call()
    message = str(caught.value)
    assert "\n" not in message
    assert len(message) < 700
    for word in words:
        assert word in message


class Generator(Painter):
    """A painter whose results a test changes."""

    def __init__(self, change):
        super().__init__()
        self.change = change

    def generate(self, requests):
        return self.change(super().generate(requests))


def endless(results):
    first = next(results)
    return itertools.chain([first], results, itertools.repeat(first))


def endless_and_new(results):
    last = next(results)
    return (GenerationResult(f"id-{number}", "ok", last.image) for number in itertools.count())


def ends_the_program(results):
    yield next(results)
    raise SystemExit(0)


CHANGES = {
    "endless": (endless, "a second result for"),
    "endless, of its own": (endless_and_new, "a result for 'id-0', which was not asked for"),
    "twice": (lambda results: (each for result in results for each in (result, result)), "a second result for"),
    "an id that is no text": (
        lambda results: (GenerationResult(7, r.status, r.image) for r in results),
        "result for 7",
    ),
    "none": (lambda results: iter(()), "gave no result for"),
    "a picture alone": (lambda results: (result.image for result in results), "no attribute 'status'"),
    "an array": (
        lambda results: (GenerationResult(r.id, "ok", np.asarray(r.image)) for r in results),
        "without an image",
    ),
    "a reason that is no text": (
        lambda results: (GenerationResult(r.id, "ok", r.image, 7) for r in results),
        "reason 7",
    ),
    "no number of seconds": (
        lambda results: (GenerationResult(r.id, "ok", r.image, None, "s") for r in results),
        "'s'",
    ),
    "a status without an end": (lambda results: (GenerationResult(r.id, "x" * 10**6, None) for r in results), "'xxx"),
    "it ends the program": (ends_the_program, "it stopped with SystemExit: 0"),
}


@pytest.mark.parametrize("kind", CHANGES)
def test_what_a_generator_may_not_do(kind, tmp_path):
    change, words = CHANGES[kind]
    one_line(lambda: quick.audit(Generator(change), SUITE, tmp_path / "run", encoder=Eye()), words)


class Restless(Eye):
    """Answers with other vectors every time, of images or of texts."""

    def __init__(self, what, wobble=0.2):
        super().__init__("restless")
        self.what, self.wobble = what, wobble
        self.rng = np.random.default_rng(0)

    def encode_images(self, images):
        return self._vectors(super().encode_images(images), "image")

    def encode_texts(self, texts):
        return self._vectors(super().encode_texts(texts), "text")

    def _vectors(self, vectors, what):
        noise = self.wobble if what == self.what else 0
        return (vectors + noise * self.rng.standard_normal(vectors.shape)).astype(np.float32)


@pytest.mark.parametrize("what", ["image", "text"])
def test_an_encoder_that_answers_differently_the_second_time_is_refused_and_forgotten(what, tmp_path):
    run = tmp_path / "run"
    one_line(
        lambda: quick.audit(Painter(), SUITE, run, encoder=Restless(what)), f"one {what}, embedded twice", "random in"
    )
    assert set(quick.audit(Painter(), SUITE, run, encoder=[Eye()]).encoder_cards) == {"eye"}


def test_rounding_is_no_difference(tmp_path):
    run = quick.audit(Painter(), SUITE, tmp_path / "run", encoder=Restless("image", wobble=1e-6))
    assert run.is_scored


def test_a_test_refuses_such_an_encoder_too():
    sets = {role: {"label": role, "words": [f"{role}{n} he" for n in range(4)]} for role in "xyab"}
    suite = suite_from_mapping({"study": "weat", "name": "w", "title": "w", "description": "w", **sets}, source="w")
    one_line(lambda: cm.association_test(suite, encoder=Restless("text")), "one text, embedded twice")
    assert len(cm.association_test(suite, encoder=Eye())) == 1


class Ends(Eye):
    def encode_images(self, images):
        raise SystemExit("bye")


def test_an_encoder_does_not_end_the_program(tmp_path):
    one_line(lambda: quick.audit(Painter(), SUITE, tmp_path / "run", encoder=Ends()), "it stopped with SystemExit: bye")


@pytest.mark.parametrize("name", ["..", ".", "", "/", "../..", "x" * 300])
def test_an_encoder_is_not_named_as_another_folder(name, tmp_path):
    one_line(lambda: quick.audit(Painter(), SUITE, tmp_path / "run", encoder=Eye(name)), "none can be called so")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("name", ["..", ".", "", "/", "../..", "a/../../b", "..\\..", "\x00", "~", "C:"])
def test_embeddings_of_any_name_lie_in_a_folder_of_their_own(name):
    place = embeddings_name(name)
    folder, slash, own = place.partition("/")
    assert (folder, slash) == ("embeddings", "/")
    assert own.strip(".")
    assert "/" not in own
    assert "\\" not in own


def plug_in(monkeypatch, group, factory):
    module = types.ModuleType("a_plug_in")
    module.load = factory
    monkeypatch.setitem(sys.modules, "a_plug_in", module)
    point = EntryPoint("odd", "a_plug_in:load", group)
    real = registry.entry_points
    monkeypatch.setattr(registry, "entry_points", lambda **asked: [point] if asked["group"] == group else real(**asked))


def ends(source):
    raise SystemExit(3)


class Nameless:
    card = Card(kind="generator", name="odd", family="odd/1")


@pytest.mark.parametrize(
    ("factory", "words"),
    [
        (ends, "stopped with SystemExit: 3"),
        (lambda source: None, "found NoneType, expected a card and"),
        (lambda source: Nameless(), "found Nameless, expected a card and"),
        (lambda source: Painter(batch_size=0) if source else Eye, "expected"),
    ],
)
def test_a_factory_that_gives_no_model(factory, words, monkeypatch):
    plug_in(monkeypatch, registry.GENERATORS, factory)
    one_line(lambda: load_generator("odd:1"), "odd", words)
    plug_in(monkeypatch, registry.ENCODERS, factory)
    one_line(lambda: load_encoder("odd"), "odd", words)


def test_a_plug_in_that_ends_the_program_while_it_finds_its_batch_size_is_told(tmp_path):
    class Fits(Painter):
        def fit_batch_size(self, prompt, known=None):
            raise SystemExit(0)

    one_line(lambda: quick.audit(Fits(), SUITE, tmp_path / "run", encoder=Eye()), "it stopped with SystemExit: 0")
