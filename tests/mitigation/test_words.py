"""Mitigations of words: what they make of a prompt, what they spare, and what they refuse. Needs no model."""

import json
from collections import Counter
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

import clinometer as cm
from clinometer.errors import Code, InvalidInputError, ModelError, ModelNotFoundError, SuiteError
from clinometer.mitigation import Made, methods, mitigate
from clinometer.mitigation import making as making_module
from clinometer.models.mitigation import FILE, GroupWords, Mitigation, Reworded, read_mitigation
from clinometer.models.protocols import GenerationRequest
from clinometer.suites import load_suite
from clinometer.suites.base import Reference
from tests.models.openai.image_server import ImageServer
from tests.raising import raises
from tests.toys import Eye, Painter, toy_suite

GROUPS = {
    "man": GroupWords(word="man", names=("man", "he", "his", "boy")),
    "woman": GroupWords(word="woman", names=("woman", "she", "her", "girl", "wife")),
    "nonbinary": GroupWords(word="non-binary", adjective=True, names=("non-binary", "they")),
}


def balanced(target=None, **fields):
    return Mitigation(
        method="balanced", acts_on="group in the prompt", made_for={"name": "toy"}, groups=GROUPS,
        target=target or {"man": 0.5, "woman": 0.5}, **fields,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("prompt", "spared"),
    [
        ("an image of a firefighter", False),
        ("an image of a man", True),
        ("two Women and a dog", True),
        ("a nurse and her patient", True),
        ("several wives", True),
        ("a non-binary person", True),
        ("an image of a human", False),  # "man" within another word
        ("a manager in Manchester", False),
        ("a theme park", False),
        ("", False),
    ],
)
def test_the_gate_knows_a_group_as_a_word_of_its_own(prompt, spared):
    assert balanced().spares(prompt) is spared
    assert not balanced(gate="none").spares(prompt)
    if spared:
        assert balanced().worded(prompt, 3) == prompt


def test_every_prompt_of_a_suite_that_names_a_group_is_spared(tmp_path):
    for name in ("reference", "mcas"):
        suite = load_suite(name)
        found = mitigate("openai:any", "balanced", tmp_path / name, suite=name).mitigation
        for group in suite.groups.values():
            assert all(found.spares(each.prompt) for each in group.prompts)
        assert not any(found.spares(target.prompt) for target in suite.targets)


@given(st.integers(0, 2**63 - 1))
def test_an_image_is_of_the_group_that_its_seed_alone_draws(seed):
    one, other = balanced(), balanced(seed=1)
    assert one.group_of(seed) == one.group_of(seed) in one.target
    assert balanced({"man": 0.0, "woman": 1.0}).group_of(seed) == "woman"
    assert balanced({"man": 1.0, "woman": 0.0}).group_of(seed) == "man"
    assert other.group_of(seed) in other.target


def test_groups_come_as_often_as_the_target_says():
    target = {"man": 0.2, "woman": 0.5, "nonbinary": 0.3}
    drawn = Counter(balanced(target).group_of(seed) for seed in range(20_000))
    for group, share in target.items():
        assert drawn[group] / 20_000 == pytest.approx(share, abs=5 * (share * (1 - share) / 20_000) ** 0.5)


def test_concepts_of_a_standard_get_its_shares_and_the_others_those_of_the_target(tmp_path):
    standard = Reference(
        source="S", year="2024", shares={"pilot": {"women": 0.1}, "teacher": {"man": 0.2, "woman": 0.6}}
    )
    found = mitigate("openai:any", "balanced", tmp_path / "it", reference=standard).mitigation
    for prompt, share in (("a pilot", 0.1), ("a teacher", 0.75), ("a cook", 0.5)):
        drawn = Counter(found.group_of(seed, f"an image of {prompt}") for seed in range(4_000))
        assert drawn["woman"] / 4_000 == pytest.approx(share, abs=5 * (share * (1 - share) / 4_000) ** 0.5)
        worded = Counter(found.worded(f"an image of {prompt}", seed) for seed in range(4_000))
        assert sum(number for words, number in worded.items() if "woman" in words) == drawn["woman"]
    read, _ = read_mitigation(tmp_path / "it")
    assert read == found
    assert read.settings["targets"]["an image of a pilot"] == {"man": 0.9, "woman": 0.1}
    card = (tmp_path / "it/README.md").read_text("utf-8")
    assert "for 2 prompts those of S, 2024" in card
    assert "--reference FILE" in card
    assert "targets" not in balanced().settings  # an earlier card stays what it was


@pytest.mark.parametrize(
    ("group", "prompt", "worded"),
    [
        ("nonbinary", "an image of a person running", "an image of a non-binary person running"),
        ("man", "an image of an artist", "an image of a man artist"),
        ("woman", "the pilot", "the woman pilot"),
        ("woman", "doctors at work", "doctors at work, woman"),
        ("man", "", ""),
    ],
)
def test_a_group_is_put_before_what_the_prompt_is_of(group, prompt, worded):
    assert balanced({group: 1.0}).worded(prompt, 0) == worded


def test_an_intervention_repeats_what_the_prompt_is_of(tmp_path):
    made = mitigate("openai:any", "prompt", tmp_path / "a").mitigation
    assert made.worded("an image of a nurse", 1) == (
        "an image of a nurse if all individuals can be a nurse irrespective of their gender"
    )
    own = mitigate("openai:any", "prompt", tmp_path / "b", intervention="{prompt}, diverse").mitigation
    assert own.worded("nurses {subject}", 1) == "nurses {subject}, diverse"


def test_any_generator_wears_a_mitigation_of_words_and_says_so():
    painter, asked = Painter(), []
    draw = painter.generate
    painter.generate = lambda requests: draw(asked.append(each.prompt) or each for each in requests)
    painter.shown_requests = lambda request: [request.prompt]
    worn = Reworded(painter, balanced({"man": 0.0, "woman": 1.0}))
    results = list(worn.generate([GenerationRequest("1", "a pilot", 4), GenerationRequest("2", "a man", 5)]))
    assert [result.reason for result in results] == ["drawn from: a woman pilot", None]
    assert asked == ["a woman pilot", "a man"]
    assert worn.shown_requests(GenerationRequest("1", "a pilot", 4)) == ["a woman pilot"]
    assert worn.card.settings["mitigation"]["target"] == {"man": 0.0, "woman": 1.0}
    assert worn.card.fingerprint != painter.card.fingerprint
    for does, ask in (("edits", worn.editor), ("classifies", worn.denoiser)):
        with raises(ModelError, code=Code.UNSUPPORTED, field="mitigation", match=f"balanced .*{does}"):
            ask()
    with raises(ModelError, code=Code.UNSUPPORTED, field="mitigation", match="balanced .*painter"):
        Reworded(painter, balanced().model_copy(update={"acts_on": "cross-attention"}))


def test_a_server_s_model_gets_a_file_of_words_and_a_card(tmp_path):
    made = mitigate("openai:gpt-image-1", "balanced", tmp_path / "it")
    assert sorted(path.name for path in made.directory.iterdir()) == ["README.md", FILE]
    assert made.options == ("--model", "openai:gpt-image-1", "--mitigation", str(tmp_path / "it"))
    card = (made.directory / "README.md").read_text()
    assert "There are no weights here." in card
    assert "| target | man 0.5, woman 0.5 |" in card
    assert read_mitigation(made.directory)[0] == made.mitigation == read_mitigation(made.directory / FILE)[0]


def test_a_server_is_asked_in_other_words_and_the_run_keeps_both(tmp_path, monkeypatch):
    pytest.importorskip("openai")
    monkeypatch.setenv("OPENAI_API_KEY", "sk-any")
    suite, words = toy_suite(target=3, attribute=1, concepts=2), {name: name for name in ("man", "woman", "other")}
    made = mitigate("openai:gpt-image-1", "balanced", tmp_path / "it", suite=suite, words=words)
    with ImageServer() as server:
        options = {"mitigation": str(made.directory), "base_url": server.url, "price": 0.01}
        run = cm.audit(
            "openai:gpt-image-1", suite, tmp_path / "run", encoder=Eye(), model_options=options, budget=1.0,
            report=False, resamples=99,
        )  # fmt: skip
    worded = [made.mitigation.worded(each.prompt, each.seed) for each in run.samples.itertuples()]
    assert Counter(each["prompt"] for each in server.asked) == Counter(worded)
    for sample, drawn_from in zip(run.samples.itertuples(), worded, strict=True):
        if sample.role == "attribute":
            assert drawn_from == sample.prompt
            assert not isinstance(sample.reason, str)
        else:
            assert sample.prompt in {target.prompt for target in suite.targets}
            assert drawn_from in {f"{sample.prompt}, {group}" for group in ("man", "woman")}
            assert sample.reason == f"drawn from: {drawn_from}"
    assert run.model_card["settings"]["mitigation"]["method"] == "balanced"


def test_crossed_groups_are_named_by_what_they_have_in_common(tmp_path):
    made = mitigate("openai:any", "balanced", tmp_path / "it", suite="reference-intersections").mitigation
    assert set(made.target.values()) == {0.25}
    worded = {made.worded("an image of an artist", seed) for seed in range(40)}
    assert "an image of a man artist with light skin" in worded
    assert len(worded) == 4


@pytest.mark.parametrize(
    ("options", "error", "code", "field", "words"),
    [
        ({"target": {"man": 0.5, "woman": 0.6}}, InvalidInputError, Code.OUT_OF_RANGE, "target", r"woman 0\.6"),
        ({"target": {"man": 1.5, "woman": -0.5}}, InvalidInputError, Code.OUT_OF_RANGE, "target", r"woman -0\.5"),
        ({"target": {"man": 0.5, "child": 0.5}}, InvalidInputError, Code.UNKNOWN_NAME, "target", "'child'"),
        ({"words": {"man": " "}}, InvalidInputError, Code.MISSING, "word", "man=WORD"),
        ({"words": {"men": "man"}}, InvalidInputError, Code.UNKNOWN_NAME, "word", "'men'"),
        ({"gate": "classifier"}, InvalidInputError, Code.UNKNOWN_NAME, "gate", "'classifier'"),
        ({"learning_rate": float("nan")}, InvalidInputError, Code.OUT_OF_RANGE, "learning_rate", "nan"),
        ({"training_steps": 0}, InvalidInputError, Code.OUT_OF_RANGE, "training_steps", "found 0"),
        ({"strength": float("inf")}, InvalidInputError, Code.OUT_OF_RANGE, "strength", "inf"),
        ({"suite": "weat/6"}, SuiteError, Code.UNSUPPORTED, (), "weat/6"),
        ({"concepts": "firefihter"}, SuiteError, Code.UNKNOWN_NAME, "concepts", "firefighter"),
        ({"reference": Reference(source="S", shares={"pilto": {"man": 0.9}})}, SuiteError,
         Code.MISMATCH, (), "pilto.*pilot"),
        ({"reference": Reference(source="S", shares={"pilot": {"man": 0.9}}),
          "target": {"man": 0.4, "woman": 0.4, "nonbinary": 0.2}}, InvalidInputError,
         Code.MISSING, "reference", "man 0.9"),
        ({"reference": Reference(source="S", shares={"pilot": {"man": 0.9}}), "method": "prompt"}, InvalidInputError,
         Code.UNSUPPORTED, "reference", "prompt"),
        ({"reference": "nowhere.csv"}, SuiteError, Code.UNREADABLE, (), r"nowhere\.csv"),
        ({"method": "balnced"}, InvalidInputError, Code.UNKNOWN_NAME, "method", "balanced"),
        ({"method": "prompt", "intervention": "be fair"}, InvalidInputError,
         Code.MALFORMED, "intervention", "'be fair'"),
    ],
)  # fmt: skip
def test_what_cannot_be_done_is_said_and_nothing_is_written(options, error, code, field, words, tmp_path):
    method = options.pop("method", "balanced")
    with raises(error, code=code, field=field, match=words):
        mitigate("openai:any", method, tmp_path / "it", **options)
    assert list(tmp_path.iterdir()) == []


def test_a_place_that_holds_something_is_left_as_it_is(tmp_path):
    (tmp_path / "mine").write_text("")
    with raises(InvalidInputError, code=Code.ALREADY_EXISTS, field="out", match="a_place_that_holds_someth"):
        mitigate("openai:any", "balanced", tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]


@pytest.mark.parametrize(
    ("change", "code", "words"),
    [
        ({"target": {"man": 0.4}}, Code.MALFORMED, r"mitigation\.json: target: .*man 0\.4"),
        ({"acts_on": "magic"}, Code.MALFORMED, "acts_on"),
        ({"surprise": 1}, Code.MALFORMED, "surprise"),
        ({"tensors_sha256": "0" * 64}, Code.CORRUPT, r"mitigation\.safetensors"),
    ],
)
def test_a_file_that_was_changed_is_refused(change, code, words, tmp_path):
    place = mitigate("openai:any", "balanced", tmp_path / "it").directory / FILE
    place.write_text(json.dumps(json.loads(place.read_text()) | change))
    with raises(ModelError, code=code, field="mitigation", match=words):
        read_mitigation(place)
    with raises(ModelNotFoundError, code=Code.NOT_FOUND, field="mitigation", match=r"mitigation\.json"):
        read_mitigation(tmp_path)


def test_a_plug_in_adds_a_method(tmp_path, monkeypatch):
    def reversing(job):
        """Every prompt is read backwards."""
        assert list(job.prompts) == ["firefighter", "golfing"]
        return Made("prompt", template="{prompt}, backwards", told={"by": "a plug-in"})

    points = [SimpleNamespace(name="reversing", value="other:reversing", load=lambda: reversing)]
    monkeypatch.setattr(making_module, "entry_points", lambda group: points)
    assert methods() == {"reversing": "Every prompt is read backwards."}
    made = mitigate("openai:any", "reversing", tmp_path / "it", concepts=1)
    assert made.mitigation.made_of["by"] == "a plug-in"
    assert "Every prompt is read backwards." in (made.directory / "README.md").read_text()
