"""An audit under its paper's protocol: what is taken from it, what wins over it, and how departures are named."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import clinometer as cm
from clinometer.errors import Code, InvalidInputError, SuiteError
from clinometer.runs.record import Departure, departures
from clinometer.suites import load_suite, suite_from_mapping, suite_names
from tests import quick
from tests.builders import tiny_clip, tiny_stable_diffusion
from tests.models.openai.image_server import ImageServer
from tests.raising import raises
from tests.report.page import Page
from tests.toys import Eye, Notes, Painter, toy_suite

PROTOCOL = {
    "paper": "A toy paper",
    "models": [{"label": "Painter", "names": ["painter"]}],
    "encoders": ["eye"],
    "images": {"target": 3, "attribute": 2},
    "steps": 3,
    "guidance_scale": 2.5,
    "height": 32,
    "width": 32,
    "unsaid": [{"option": "scheduler", "taken": "The model's own."}],
    "decisions": ["Nothing is decided otherwise."],
}


def suite(**changes):
    return toy_suite(target=4, attribute=4, concepts=2, protocol=PROTOCOL | changes)


@pytest.fixture(scope="module")
def pipeline(tmp_path_factory) -> Path:
    return tiny_stable_diffusion(tmp_path_factory.mktemp("models") / "tiny-sd")


def named(run: cm.Run) -> dict[str, tuple[str, str]]:
    return {each["option"]: (each["paper"], each["run"]) for each in run.record["protocol"]["departures"]}


def test_the_papers_settings_are_taken(tmp_path, pipeline):
    run = quick.audit(pipeline, suite(), tmp_path / "run", encoder=Eye(), protocol="paper", device="cpu")
    settings = run.model_card["settings"]
    assert {key: settings[key] for key in ("steps", "guidance_scale", "height", "width")} == {
        "steps": 3, "guidance_scale": 2.5, "height": 32, "width": 32,
    }  # fmt: skip
    assert run.suite.images.model_dump() == {"target": 3, "attribute": 2}
    assert named(run) == {"model": ("Painter", "tiny-sd")}
    assert run.record["suite"]["protocol"]["paper"] == "A toy paper"  # it travels with the resolved suite


@pytest.mark.pages
def test_what_is_typed_wins_and_is_named(tmp_path, pipeline):
    notes = Notes()
    run = quick.audit(
        pipeline, suite(), tmp_path / "run", encoder=Eye("other"), protocol="paper", device="cpu",
        images=2, steps=2, guidance_scale=1.0, progress=notes,
    )  # fmt: skip
    assert named(run) == {
        "model": ("Painter", "tiny-sd"),
        "steps": ("3", "2"),
        "guidance_scale": ("2.5", "1"),
        "encoder": ("eye", "other"),
        "images (target)": ("3", "2"),
    }
    assert "  steps: the paper 3, this run 2" in notes.messages
    html = (tmp_path / "run" / "report.html").read_text()
    page = Page(html)
    shown = [element.text for element in page.find("th", scope="row")]
    assert set(named(run)) <= set(shown)
    assert "with 5 departures: model, steps, guidance_scale, encoder, images (target)" in html
    assert "A toy paper" in html
    assert "The model&#39;s own." in html
    assert "Nothing is decided otherwise." in html


@pytest.mark.pages
def test_without_departures_the_page_says_so(tmp_path):
    bare = {key: PROTOCOL[key] for key in ("paper", "models", "encoders", "images")}
    asked = toy_suite(target=4, attribute=4, concepts=2, protocol=bare)
    run = quick.audit(Painter(), asked, tmp_path / "run", encoder=Eye(), protocol="paper")
    assert named(run) == {}
    assert "without departures" in (tmp_path / "run" / "report.html").read_text()


@pytest.mark.pages
def test_a_run_without_a_protocol_says_nothing_of_it(tmp_path):
    run = quick.audit(Painter(), suite(), tmp_path / "run", encoder=Eye())
    assert run.record["protocol"] is None
    assert run.suite.images.target == 4
    assert "protocol-heading" not in (tmp_path / "run" / "report.html").read_text()


def test_a_protocol_asks_nothing_by_itself():
    """Runs from before protocols were written go on."""
    with_it, without = suite(), toy_suite(target=4, attribute=4, concepts=2)
    assert with_it.fingerprint == without.fingerprint
    assert with_it.content == without.content


def test_a_loaded_model_keeps_its_settings_and_the_report_names_them(tmp_path):
    run = quick.audit(Painter(), suite(), tmp_path / "run", encoder=Eye(), protocol="paper")
    assert set(named(run)) == {"steps", "guidance_scale", "height", "width"}
    assert all(found == "not set" for _, found in named(run).values())


def test_a_model_behind_an_api_gets_departures_and_no_crash(tmp_path, monkeypatch):
    pytest.importorskip("openai")
    monkeypatch.setenv("OPENAI_API_KEY", "sk-none")
    with ImageServer() as server:
        options = {"price": 0.0, "base_url": server.url}
        run = quick.audit(
            "openai:dall-e-2", suite(height=512, width=512), tmp_path / "run",
            encoder=Eye(), protocol="paper", model_options=options,
        )  # fmt: skip
    assert set(named(run)) == {"model", "steps", "guidance_scale"}
    assert run.model_card["settings"]["size"] == "512x512"


def test_the_protocols_encoders_and_text_targets_are_taken(tmp_path):
    clip = tiny_clip(tmp_path / "tiny-clip")
    asked = suite(encoders=[str(clip)], text_targets="keyword").model_dump()
    for category in asked["categories"].values():
        category["targets"] = [each | {"keyword": f"word {each['name']}"} for each in category["targets"]]
    asked = suite_from_mapping(asked, source="toy")
    run = quick.audit(Painter(), asked, tmp_path / "run", protocol="paper", device="cpu")
    assert list(run.encoder_cards) == ["tiny-clip"]
    assert run.suite.text_targets == "keyword"
    other = quick.audit(Painter(), asked, tmp_path / "other", protocol="paper", text_targets="prompt", device="cpu")
    assert named(other)["text_targets"] == ("keyword", "prompt")


@pytest.mark.thorough
@pytest.mark.pages
def test_an_encoder_that_is_added_later_is_a_departure(tmp_path):
    run = quick.audit(Painter(), suite(), tmp_path / "run", encoder=Eye(), protocol="paper")
    assert "encoder" not in named(run)
    cm.score_run(tmp_path / "run", encoder=Eye("other"))
    assert named(cm.open_run(tmp_path / "run"))["encoder"] == ("eye", "eye, other")
    assert "eye, other" in (tmp_path / "run" / "report.html").read_text()


def test_a_run_under_a_protocol_goes_on(tmp_path):
    first = quick.audit(Painter(), suite(), tmp_path / "run", encoder=Eye(), protocol="paper")
    painter = Painter()
    again = quick.audit(painter, suite(), tmp_path / "run", encoder=Eye(), protocol="paper")
    assert painter.drawn == 0
    assert again.record["protocol"] == first.record["protocol"]


def test_rounds_are_a_departure(tmp_path):
    asked = toy_suite(target=4, attribute=4, concepts=2, protocol=PROTOCOL, margin=0.1)
    run = quick.audit(Painter(), asked, tmp_path / "run", encoder=Eye(), protocol="paper", until="decided", images=8)
    assert {"until", "images (target)"} <= set(named(run))


@pytest.mark.parametrize(
    ("concepts", "told"), [(1, "the first 1 of each category"), (["concept 0.20"], "concept 0.20")]
)
def test_fewer_concepts_are_a_departure(tmp_path, concepts, told):
    run = quick.audit(Painter(), suite(), tmp_path / "run", encoder=Eye(), protocol="paper", concepts=concepts)
    assert named(run)["concepts"] == ("all", told)


def test_a_suite_without_a_protocol_names_those_that_have_one(tmp_path):
    with raises(SuiteError, code=Code.UNSUPPORTED, field="protocol") as caught:
        quick.audit(Painter(), "reference", tmp_path / "run", encoder=Eye(), protocol="paper")
    message = str(caught.value)
    assert message.startswith("protocol: suite reference has none; those that have one: downstream/classification, ")
    assert "internal-bias, mcas, t2iat/career-family" in message
    assert not (tmp_path / "run").exists()
    with raises(InvalidInputError, code=Code.UNKNOWN_NAME, field="protocol", match="'paper', found 'mine'"):
        quick.audit(Painter(), suite(), tmp_path / "run", encoder=Eye(), protocol="mine")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("change", "code", "said"),
    [
        ({"images": {"group": 3}}, Code.UNKNOWN_NAME, r"protocol\.images: .*'group'; .*target, attribute"),
        ({"steps": 0}, Code.OUT_OF_RANGE, "protocol.steps"),
        ({"models": []}, Code.TOO_FEW, "protocol.models"),
        ({"colour": "red"}, Code.UNKNOWN_NAME, "protocol.colour: unknown key"),
    ],
)
def test_a_protocol_that_does_not_fit_its_suite(change, code, said):
    with raises(SuiteError, code=code, match=said):
        suite(**change)


def test_text_targets_are_of_a_leaning_study_only():
    asked = load_suite("t2iat/career-family").model_dump()
    asked["protocol"] |= {"text_targets": "prompt"}
    with raises(SuiteError, code=Code.UNSUPPORTED, match=r"protocol\.text_targets: .*'t2iat'"):
        suite_from_mapping(asked, source="mine.yaml")


def test_what_the_papers_prescribe():
    """As method.md and the papers have it, number by number."""
    held = {name: load_suite(name).protocol for name in suite_names() if load_suite(name).protocol}
    six = ["RN50/openai", "RN101/openai", "RN50x4/openai", "RN50x16/openai", "ViT-B-32/openai", "ViT-B-16/openai"]
    for name in ("internal-bias", "xmcas"):
        assert list(held[name].encoders) == six
        assert held[name].text_targets == "keyword"
    assert held["mcas"].text_targets == "prompt"
    for name in ("mcas", "internal-bias", "xmcas"):
        assert held[name].images == {"target": 20, "attribute": 16}
        assert not held[name].sampling
        assert held[name].leaves_open("steps")
    for name, protocol in held.items():
        if name.startswith("t2iat/"):
            assert protocol.sampling == {"steps": 50, "guidance_scale": 7.5, "height": 512, "width": 512}
            images = 100 if name == "t2iat/occupations" else 10
            assert protocol.images == {"neutral": images, "attribute": images}
    editing, classification = held["downstream/editing"], held["downstream/classification"]
    drawn = {"steps": 100, "guidance_scale": 8.5}
    assert editing.sampling == drawn | {"edit_steps": 50, "edit_guidance_scale": 7.5}
    assert classification.sampling == drawn
    assert (editing.images, classification.images) == ({"group": 25}, {"group": 256})
    assert (editing.portraits, classification.portraits, editing.reader) == ("all", "all", "single wording")


@pytest.mark.parametrize("name", [name for name in suite_names() if load_suite(name).protocol])
def test_the_built_in_numbers_of_images_are_the_papers(name):
    asked = load_suite(name)
    assert asked.as_in_the_paper().images == asked.images


def faces(folder: Path, people: int) -> Path:
    folder.mkdir()
    for person in range(people):
        for code in ("WF", "WM", "BF", "BM"):
            pixels = np.random.default_rng([person, *code.encode()]).integers(60, 220, (16, 16, 3), np.uint8)
            for expression in ("N", "A"):
                Image.fromarray(pixels).save(folder / f"CFD-{code}-{person:03}-001-{expression}.png")
    Image.fromarray(pixels).save(folder / "CFD-WF-999-001-N.png")
    return folder


def editing_suite():
    asked = load_suite("downstream/editing").model_dump()
    asked["professions"] = {name: asked["professions"][name] for name in ("doctor", "dishwasher-worker")}
    asked["strengths"] = [1.0]
    asked["images"] = {"group": 2}
    asked["protocol"] |= {"images": {"group": 2}, "steps": 3, "edit_steps": 2}
    return suite_from_mapping(asked, source="toy")


def test_a_face_database_is_taken_whole(tmp_path, pipeline):
    folder = faces(tmp_path / "faces", people=3)
    run = quick.audit(
        pipeline, editing_suite(), tmp_path / "run", encoder=Eye(), protocol="paper", portraits=folder, device="cpu"
    )
    portraits = run.samples[run.samples.role == "portrait"]
    assert portraits.groupby("group").size().to_dict() == {
        "Caucasian woman": 4, "Caucasian man": 3, "African-American woman": 3, "African-American man": 3,
    }  # fmt: skip
    assert run.suite.images.group == 4  # what the page says of it
    assert set(named(run)) == {"model", "encoder"}
    assert run.model_card["settings"]["edit_steps"] == 2
    assert run.model_card["settings"]["edit_guidance_scale"] == 7.5
    single = run.scores[run.scores.component == "flip_rate_single_wording"]
    assert set(single.group) == set(run.suite.groups)


def test_fewer_portraits_or_another_expression_are_departures(tmp_path, pipeline):
    folder = faces(tmp_path / "faces", people=3)
    run = quick.audit(
        pipeline, editing_suite(), tmp_path / "run", encoder=Eye(), protocol="paper", portraits=folder, device="cpu",
        images=1, expression="A",
    )  # fmt: skip
    assert len(run.samples[run.samples.role == "portrait"]) == 4
    assert named(run)["images (group)"] == ("all portraits", "at most 1")
    assert named(run)["expression"] == ("N (neutral)", "A")


def test_departures_follow_from_run_json_alone(tmp_path, pipeline):
    run = quick.audit(
        pipeline, suite(), tmp_path / "run", encoder=Eye("other"), protocol="paper", device="cpu", steps=2
    )
    record = json.loads((tmp_path / "run" / "run.json").read_text())
    assert departures(record, list(run.encoder_cards)) == [
        Departure(**each) for each in record["protocol"]["departures"]
    ]
