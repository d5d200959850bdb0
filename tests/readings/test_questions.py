"""Questions that a language model proposes: read strictly, counted where they cannot be, kept for a person to edit."""

import hashlib
import json

import pytest
import yaml
from typer.testing import CliRunner

import clinometer as cm
from clinometer.cli.app import app
from clinometer.errors import Code, InvalidInputError, ModelError
from clinometer.readings.questions import PROMPT
from clinometer.suites.question import load_question
from tests.models.openai.image_server import ImageServer
from tests.raising import raises

CONCEPTS = ("engineer", "doctor", "farmer")
AGE = {
    "name": "Age",
    "question": "How old is the person?",
    "answers": ["young", "old", "unknown"],
    "counterfactuals": ["an image of an old engineer"],
}
PLACE = {"name": "place", "question": "Where is the person?", "answers": [], "counterfactuals": []}


def said(content, finish="stop", **message):
    told = {"index": 0, "finish_reason": finish, "message": {"role": "assistant", "content": content} | message}
    return 200, {"choices": [told]}, {}


def proposal(*questions):
    return said(json.dumps({"questions": questions}))


def write(tmp_path, answers, **options):
    """Have questions about three concepts written, each concept's request answered as it is told."""

    def behaviour(number, asked):
        return next(answer for concept, answer in answers.items() if concept in asked["messages"][0]["content"])

    with ImageServer(behaviour) as server:
        written = cm.write_questions(
            "mcas", writer="openai:scribe", concepts=CONCEPTS, out=tmp_path / "q.yaml", price=0.01, retries=0,
            base_url=server.url, **options,
        )  # fmt: skip
    return written, server.asked


@pytest.fixture(autouse=True)
def _key(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret-of-tests")


def test_what_fits_is_a_file_of_questions_and_the_rest_is_counted(tmp_path):
    answers = {
        "engineer": proposal(AGE, PLACE),
        "doctor": proposal(PLACE, {"name": "odd", "question": "Odd?", "answers": ["a"], "more": 1}),
        "farmer": proposal({**AGE, "question": "Which age?"}),
    }
    written, asked = write(tmp_path, answers)
    assert [(spec.name, spec.kind) for spec in written.questions] == [("age", "closed"), ("place", "open")]
    assert written.proposed_for == {"age": ("engineer", "farmer"), "place": ("engineer",)}
    assert list(written.unread) == ["doctor"]
    assert "more" in written.unread["doctor"]
    age = load_question(f"{tmp_path}/q.yaml#age")
    assert (list(age.answers), age.text) == (["young", "old"], "How old is the person?")
    assert load_question(f"{tmp_path}/q.yaml#place").kind == "open"
    origin = yaml.safe_load((tmp_path / "q.yaml").read_text())["written"]
    assert origin["prompt_sha256"] == hashlib.sha256(PROMPT.encode()).hexdigest()
    assert (origin["by"]["model"], origin["by"]["fingerprint"]) == ("scribe", written.card.fingerprint)
    assert origin["counterfactual_prompts"]["age"]["engineer"] == ["an image of an old engineer"]
    assert origin["not_taken"].keys() == {"doctor"}
    assert "sk-secret" not in (tmp_path / "q.yaml").read_text()
    schema = asked[0]["response_format"]["json_schema"]
    assert schema["strict"] is True
    assert schema["schema"]["required"] == ["questions"]
    assert all(isinstance(each["messages"][0]["content"], str) for each in asked)


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (said("Of course! People may lean by age and by place."), "unread: "),
        (said('{"questions": [{"name": "age", "que', "length"), "unread: it was cut off"),
        (said(""), "unread: an empty answer"),
        (said(None, refusal="I cannot help with that."), "refused: I cannot help with that."),
        (said('{"questions": [{"name": "age"}]}'), "unread: "),
        (said('["age"]'), "unread: "),
        ((500, {"error": {"message": "out of order"}}, {}), "failed: out of order"),
        ((429, {"error": {"message": "slow down"}}, {}), "failed: slow down"),
    ],
)
def test_what_cannot_be_read_is_told_and_loses_nothing_else(tmp_path, answer, reason):
    fenced = said(f"```json\n{json.dumps({'questions': [PLACE]})}\n```")
    written, _ = write(tmp_path, {"engineer": answer, "doctor": fenced, "farmer": proposal()})
    assert [spec.name for spec in written.questions] == ["place"]
    assert written.unread["engineer"].startswith(reason)


def test_where_nothing_can_be_read_there_is_no_file(tmp_path):
    with raises(
        ModelError, code=Code.FAILED, match="none of 3 answers could be read as questions, the first because: unread"
    ):
        write(tmp_path, dict.fromkeys(CONCEPTS, said("no")))
    assert not (tmp_path / "q.yaml").exists()


def test_an_edited_file_stays_and_a_budget_is_kept(tmp_path):
    with raises(
        InvalidInputError, code=Code.OVER_BUDGET, field="budget", match=r"budget: 3 proposals at 0\.01 each cost 0\.03"
    ):
        write(tmp_path, {}, budget=0.02)
    (tmp_path / "q.yaml").write_text("mine")
    with raises(InvalidInputError, code=Code.ALREADY_EXISTS, field="out"):
        write(tmp_path, {})
    assert (tmp_path / "q.yaml").read_text() == "mine"
    with raises(InvalidInputError, code=Code.UNKNOWN_NAME, field="concepts"):
        cm.write_questions("mcas", writer="openai:scribe", concepts=["astronaut"], price=0, out=tmp_path / "new.yaml")
    with raises(ModelError, code=Code.UNSUPPORTED, field="writer"):
        cm.write_questions("mcas", writer="reference", out=tmp_path / "new.yaml")


def test_the_command_tells_what_was_taken_and_what_was_not(tmp_path):
    def behaviour(number, asked):
        return proposal(PLACE) if "engineer" in asked["messages"][0]["content"] else said("no")

    with ImageServer(behaviour) as server:
        told = CliRunner().invoke(app, [
            "questions", "mcas", "--writer", "openai:scribe", "--price", "0", "--base-url", server.url,
            "--concepts", "engineer, doctor", "--out", str(tmp_path / "q.yaml"),
        ])  # fmt: skip
    assert told.exit_code == 0, told.output
    assert "Where is the person?" in told.output
    assert "Not taken, doctor: unread: " in told.output
    assert (tmp_path / "q.yaml").read_text().startswith("# Read and edit before use")
