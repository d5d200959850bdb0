"""Registrations: what is written down, how an audit keeps to it, and what its journal shows of every attempt."""

import json
import os
import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pandas as pd
import pytest
import yaml
from typer.testing import CliRunner

import clinometer as cm
from clinometer.api import review_registration
from clinometer.cli.app import app
from clinometer.errors import Code, InvalidInputError, ModelError, RunMismatchError
from clinometer.gates.registration import MOST_BYTES, Journal, read_registration, with_registration
from clinometer.pipeline.request import ask
from clinometer.report.sections import facts
from clinometer.runs.record import checksum_of, registration_changes, registration_in_words
from clinometer.studies import study_of
from clinometer.studies.reporting import report_input
from tests import quick
from tests.raising import raises
from tests.toys import Eye, Painter, toy_suite

pytestmark = pytest.mark.usefixtures("shortcuts_of_a_module")

ASKED = {"model": "./toy", "suite": "toy.yaml", "images": 12, "resamples": 999}
POLICY = {"rules": [{"metric": "mcas", "component": "image_part", "within": 8}]}


class Breaks(Painter):
    """A model that fails before its first picture."""

    def __init__(self, error):
        super().__init__()
        self.error = error

    def generate(self, requests):
        raise self.error


def world(folder, patch):
    """A folder with a suite and a model's name, where every model is a toy."""
    patch.chdir(folder)
    (folder / "toy").mkdir()
    (folder / "toy.yaml").write_text(
        yaml.safe_dump(toy_suite().model_dump(mode="json", exclude_none=True), sort_keys=False)
    )
    patch.setattr("clinometer.pipeline.recipes.load_generator", lambda spec, **_: Painter())
    patch.setattr("clinometer.pipeline.recipes.load_encoder", lambda spec, **_: Eye(spec))
    cm.register("r.json", policy=POLICY, **ASKED)
    return folder


@pytest.fixture
def place(tmp_path, monkeypatch):
    return world(tmp_path, monkeypatch)


@pytest.fixture(scope="module")
def drawn(tmp_path_factory):
    """A registration with three attempts: one that failed, one that was finished, and one that was left out."""
    with pytest.MonkeyPatch.context() as patch:
        folder = world(tmp_path_factory.mktemp("registered"), patch)
        with patch.context() as broken:
            broken.setattr(
                "clinometer.pipeline.recipes.load_generator", lambda spec, **_: Breaks(ModelError("no luck"))
            )
            with pytest.raises(ModelError):
                cm.audit(registration="r.json", report=False)
        shutil.rmtree(folder / "runs", ignore_errors=True)
        cm.audit(registration="r.json", images=12, out="runs/kept", report=False)
        cm.audit(registration="r.json", out="runs/other", report=False)
        cm.audit(registration="r.json", out="runs/kept", report=False)
    return folder


@pytest.fixture
def copy(drawn, tmp_path):
    return Path(shutil.copytree(drawn, tmp_path / "copy"))


def lines(folder):
    return [json.loads(line) for line in (folder / "r.journal.jsonl").read_text("utf-8").splitlines()]


def test_a_registration_says_what_an_audit_will_ask(place):
    registration = read_registration("r.json")
    assert (place / "r.json").stat().st_size <= MOST_BYTES
    assert registration.asked == {**ASKED, "seed": 0}
    assert registration.encoders == ["reference"]
    assert registration.policy_sha256 is not None
    asked = with_registration(ask(registration="r.json", device="cpu"))
    assert (asked.model, asked.suite, asked.images, asked.device) == ("./toy", "toy.yaml", 12, "cpu")
    assert asked.out == Path("runs/r")
    with raises(InvalidInputError, code=Code.ALREADY_EXISTS, match=r"r\.json"):
        cm.register("r.json", **ASKED)


def test_every_attempt_has_its_lines_whatever_became_of_it(drawn):
    events = [(line["event"], line["attempt"]) for line in lines(drawn)]
    assert events == [
        ("started", 1), ("failed", 1), ("started", 2), ("finished", 2), ("started", 3), ("finished", 3),
        ("continued", 2), ("finished", 2),
    ]  # fmt: skip
    assert lines(drawn)[1]["problem"] == "ModelError: no luck"
    found = review_registration(drawn / "runs/kept", drawn / "r.json", policy=POLICY)
    assert found.changes == ()
    assert [told.partition(")")[0] for told in found.attempts] == [
        "Attempt 1 (left out: r", "Attempt 2 (this run: kept", "Attempt 3 (left out: other",
    ]  # fmt: skip
    assert "failed on" in found.attempts[0]
    assert "(ModelError: no luck)" in found.attempts[0]
    assert "continued once; finished on" in found.attempts[1]
    assert str(drawn) not in (drawn / "r.journal.jsonl").read_text("utf-8")  # a place may name a user


def test_the_same_numbers_as_without_a_registration(drawn):
    plain = quick.finished(Painter(), toy_suite(), encoder=Eye("reference"), images=12)
    pd.testing.assert_frame_equal(cm.open_run(drawn / "runs/kept").scores, plain.scores)
    run = cm.open_run(drawn / "runs/kept")
    assert run.record["options"]["registration"]["attempt"] == 2
    told = dict(facts(study_of(run.suite).page(run.suite).view.of(report_input(run))))["Registration"]
    assert told == registration_in_words(run.record)


@pytest.mark.parametrize("error", [KeyboardInterrupt(), RuntimeError("out of memory")])
def test_an_attempt_that_ends_badly_says_so_and_one_that_was_killed_has_no_end(place, monkeypatch, error):
    monkeypatch.setattr("clinometer.pipeline.recipes.load_generator", lambda spec, **_: Breaks(error))
    with pytest.raises((KeyboardInterrupt, ModelError)):
        cm.audit(registration="r.json", report=False)
    event = "interrupted" if isinstance(error, KeyboardInterrupt) else "failed"
    assert [line["event"] for line in lines(place)] == ["started", event]
    Journal(Path("r.json"), read_registration("r.json")).start("killed", None)
    assert [line["event"] for line in lines(place)] == ["started", event, "started"]


def rewrite(path, **changes):
    content = json.loads(path.read_text("utf-8")) | changes
    content["checksum"] = checksum_of(content)
    path.write_text(json.dumps(content), "utf-8")


def change_suite(folder):
    suite = yaml.safe_load((folder / "toy.yaml").read_text("utf-8"))
    (folder / "toy.yaml").write_text(yaml.safe_dump(suite | {"margin": 0.31}, sort_keys=False))


@pytest.mark.parametrize(
    ("change", "given", "code", "field", "words"),
    [
        (lambda f: (f / "r.json").write_text((f / "r.json").read_text().replace('"images": 12', '"images": 13')), {},
         Code.CORRUPT, (), r"r\.json: .*\(checksum '"),
        (lambda f: rewrite(f / "r.json", registered=(datetime.now(UTC) + timedelta(days=1)).isoformat()), {},
         Code.OUT_OF_RANGE, (), "set the clock right"),
        (lambda f: rewrite(f / "r.json", more=1), {}, Code.UNKNOWN_NAME, (), "r.json: more: "),
        (lambda f: rewrite(f / "r.json", asked=ASKED | {"seed": 0, "out": "/tmp/x"}), {},
         Code.UNKNOWN_NAME, (), "asked: found 'out'"),
        (lambda f: rewrite(f / "r.json", asked=ASKED | {"seed": 0, "concepts": [1.5]}), {},
         Code.MALFORMED, "concepts", "expected"),
        (lambda f: rewrite(f / "r.json", asked=ASKED), {}, Code.WRONG_TYPE, (), "asked: expected a seed"),
        (lambda f: rewrite(f / "r.json", asked=ASKED | {"model": [1], "seed": 0}), {},
         Code.MISSING, (), "names of a model"),
        (lambda f: rewrite(f / "r.json", asked=ASKED | {"seed": 0, "steps": "x"}), {},
         Code.WRONG_TYPE, "steps", "steps"),
        (change_suite, {}, Code.MISMATCH, (), "suite toy"),
        (lambda f: (f / "r.json").write_text("{"), {}, Code.MALFORMED, (), "no registration"),
        (lambda f: (f / "r.json").write_text(" " * 3000), {}, Code.TOO_MANY, (), "more than 2,048 bytes"),
        (lambda f: (f / "r.json").unlink(), {}, Code.UNREADABLE, (), "No such file"),
        (lambda f: None, {"images": 13}, Code.MISMATCH, "images", r"found 13, and r\.json says 12"),
        (lambda f: None, {"encoder": "RN50/openai"}, Code.MISMATCH, "encoder", r"r\.json says nothing"),
        (lambda f: None, {"model_options": {"lora": "x"}}, Code.MISMATCH, "lora", r"found 'x', and r\.json"),
    ],
)  # fmt: skip
def test_what_is_not_as_registered_is_refused_before_anything_is_drawn(place, change, given, code, field, words):
    change(place)
    with raises(InvalidInputError, code=code, field=field, match=words):
        cm.audit(registration="r.json", report=False, **given)
    assert not (place / "runs").exists()
    assert not (place / "r.journal.jsonl").exists()


@pytest.mark.parametrize(
    ("given", "code", "field", "words"),
    [
        ({"model": Painter()}, Code.WRONG_TYPE, "model", "expected its name"),
        ({"out": "runs/x"}, Code.UNSUPPORTED, "out", "with the audit"),
        ({"concepts": [f"concept {n}" for n in range(400)]}, Code.TOO_MANY, (), "at most 2,048"),
        ({"model_options": {"base_url": "https://user:secret@host/v1"}}, Code.UNTRUSTED, (), "a password"),
    ],
)
def test_what_cannot_be_written_down_is_refused(place, given, code, field, words, monkeypatch):
    monkeypatch.setattr("clinometer.gates.registration.suite_and_rounds", lambda request: (toy_suite(), None))
    with raises(InvalidInputError, code=code, field=field, match=words):
        cm.register("other.json", **ASKED | given)
    assert not (place / "other.json").exists()


def test_a_declared_standard_is_registered_too(place):
    (place / "s.csv").write_text("concept,group,share,source\nconcept 0.20,woman,0.8,S\n")
    registered = cm.register("s.json", reference="s.csv", **ASKED)
    assert registered.standard_sha256 is not None
    assert registered.suite_fingerprint == read_registration("r.json").suite_fingerprint
    assert with_registration(ask(registration="s.json")).reference == "s.csv"
    (place / "s.csv").write_text("concept,group,share,source\nconcept 0.20,woman,0.7,S\n")
    with raises(InvalidInputError, code=Code.MISMATCH, match=r"s\.json: the declared standard"):
        with_registration(ask(registration="s.json"))


def test_a_dry_run_under_a_registration_is_no_attempt(place, monkeypatch):
    monkeypatch.setattr("clinometer.pipeline.audits.require_names", lambda *_: None)
    shown = CliRunner().invoke(app, ["audit", "--registration", "r.json", "--dry-run"], catch_exceptions=False)
    assert shown.exit_code == 0, shown.output
    assert "toy asks for 78 images" in shown.stdout
    assert not (place / "r.journal.jsonl").exists()


def test_a_run_that_was_begun_otherwise_is_not_taken_over(copy, monkeypatch):
    monkeypatch.chdir(copy)
    shutil.copytree(
        quick.finished(Painter(), toy_suite(), encoder=Eye("reference"), images=12).url, copy / "runs/older"
    )
    before = lines(copy)
    with raises(RunMismatchError, code=Code.MISMATCH, match=r"not begun under r\.json; give another --out"):
        cm.audit(registration="r.json", out="runs/older")
    assert lines(copy) == before
    with raises(
        RunMismatchError, code=Code.MISMATCH, match=r"runs/older: .*under r\.json; run\.json names no registration"
    ):
        review_registration("runs/older", "r.json")


def test_a_changed_or_missing_line_is_found_wherever_it_is(copy):
    journal = Journal(copy / "r.json", read_registration(copy / "r.json"))
    whole = journal.path.read_bytes().splitlines(keepends=True)
    for number, line in enumerate(whole, 1):
        journal.path.write_bytes(
            b"".join([*whole[: number - 1], line.replace(b'"attempt": ', b'"attempt": 1'), *whole[number:]])
        )
        with raises(InvalidInputError, code=Code.CORRUPT, match=f"line {number} was changed"):
            journal.lines()
        if number < len(whole):
            journal.path.write_bytes(b"".join([*whole[: number - 1], *whole[number:]]))
            with raises(InvalidInputError, code=Code.CORRUPT, match=f"line {number} was changed"):
                journal.lines()
    other = Journal(copy / "r.json", rewrite_as_other(copy))
    journal.path.write_bytes(b"".join(whole))
    with raises(InvalidInputError, code=Code.CORRUPT, match="line 1 .*of another registration"):
        other.lines()


def rewrite_as_other(folder):
    shutil.copy(folder / "r.json", folder / "s.json")
    rewrite(folder / "s.json", planned=1)
    return read_registration(folder / "s.json")


def test_a_journal_whose_end_is_missing_does_not_know_the_run(copy):
    journal = Journal(copy / "r.json", read_registration(copy / "r.json")).path
    journal.write_bytes(b"".join(journal.read_bytes().splitlines(keepends=True)[:3]))
    with raises(RunMismatchError, code=Code.MISMATCH, match=r"knows no end .*attempt 2, begun on "):
        review_registration(copy / "runs/kept", copy / "r.json")
    journal.unlink()
    with raises(RunMismatchError, code=Code.MISMATCH, match="knows no end"):
        review_registration(copy / "runs/kept", copy / "r.json")


def test_a_journal_that_somebody_else_wrote_by_its_rules_is_read_all_the_same(copy):
    journal = Journal(copy / "r.json", read_registration(copy / "r.json"))
    created = cm.open_run(copy / "runs/kept").record["created"]
    journal.add(event="started", attempt=9)
    journal.add(event="finished", attempt=2, created=created)
    found = review_registration(copy / "runs/kept", copy / "r.json")
    assert "it was scored again since the attempt ended" in found.changes
    assert "the run was analysed by different code, or with different packages, than was registered" in found.changes


def test_a_line_that_was_cut_off_stays_and_is_told(copy):
    journal = Journal(copy / "r.json", read_registration(copy / "r.json"))
    with journal.path.open("ab") as file:
        file.write(b'{"line": 9, "eve')
    journal.start("next", None)
    assert [line.get("event", "torn") for line in journal.lines()][-2:] == ["torn", "started"]
    found = review_registration(copy / "runs/kept", copy / "r.json")
    assert found.changes == ("1 line of the journal was cut off while being written",)
    assert "no end: killed, or still at work" in found.attempts[-1]


def test_a_journal_that_cannot_be_written_is_told_before_anything_is_drawn(place):
    (place / "r.journal.jsonl").mkdir()
    with raises(InvalidInputError, code=Code.UNREADABLE, match=r"r\.journal\.jsonl: "):
        cm.audit(registration="r.json", report=False)
    assert not (place / "runs").exists()


def test_a_clock_that_runs_backwards_is_told(copy, monkeypatch):
    class Yesterday(datetime):
        @classmethod
        def now(cls, tz=None):
            return datetime.now(tz) - timedelta(days=1)

    monkeypatch.setattr("clinometer.gates.registration.datetime", Yesterday)
    Journal(copy / "r.json", read_registration(copy / "r.json")).start("next", None)
    assert [told for told in review_registration(copy / "runs/kept", copy / "r.json").changes if "clock" in told]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda r: r["encoders"].update({"RN50/openai": {}}), "encoder RN50/openai was added: its numbers, and"),
        (lambda r: r["encoders"].clear(), "encoder reference is not there: its numbers were left out"),
        (lambda r: r["readers"].update({"clip": {}}), "reader clip was added: its numbers"),
        (lambda r: r["options"].update(resamples=1999), "resamples is 1999 (registered: 999)"),
        (lambda r: r["options"].update(verdict_reader="clip"), "verdict_reader is clip (registered: None)"),
        (lambda r: r["suite_options"].append({"option": "margin", "old": 0.1, "new": 0.2, "since": "today"}),
         "margin is 0.2 since today, it was 0.1"),
        (lambda r: r["suite_options"].append({"option": "reference", "old": None, "new": {}, "since": "today"}),
         "the declared standard is another since today"),
        (lambda r: r.update(created="2020-01-01T00:00:00+00:00"), "begun on 2020-01-01T00:00:00"),
        (lambda r: r.update(trace={"steps": [1]}), "numbers of the trace are exploratory"),
        (lambda r: r["files"].update({"ratings/part-0.parquet": "0"}), "ratings by people were added"),
    ],
)  # fmt: skip
def test_what_was_changed_after_drawing_is_said(drawn, change, words):
    record = {"readers": {}} | json.loads(json.dumps(cm.open_run(drawn / "runs/kept").record))
    assert registration_changes(record) == []
    assert registration_in_words(record).endswith("attempt 2; nothing was changed since")
    change(record)
    (told,) = registration_changes(record)
    assert words in told
    assert registration_in_words(record).endswith(f"attempt 2; changed since: {told}")
    del record["options"]["registration"]
    assert registration_changes(record) == []
    assert registration_in_words(record) == ""


@pytest.mark.parametrize("spec", ["RN50/openai", "me/model@main", "./folder/clip/", "openai:gpt-4o"])
def test_a_model_is_known_by_the_name_that_its_spec_gives_it(drawn, spec):
    record = {"readers": {}} | json.loads(json.dumps(cm.open_run(drawn / "runs/kept").record))
    name = {"me/model@main": "me/model", "./folder/clip/": "clip", "openai:gpt-4o": "gpt-4o"}.get(spec, spec)
    record["options"]["registration"]["encoders"], record["encoders"] = [spec], {name: {}}
    assert registration_changes(record) == []


def test_scoring_anew_and_another_policy_are_changes_and_the_evidence_holds_them(copy, tmp_path):
    run = copy / "runs/kept"
    assert cm.export(run, tmp_path / "out", evidence=True, policy=POLICY, registration=copy / "r.json")[3:] == [
        "registration.json", "registration.journal.jsonl", "registration.txt",
    ]  # fmt: skip
    assert (tmp_path / "out/registration.txt").read_text("utf-8").endswith("\nNothing was changed.\n")
    said = registration_in_words(cm.open_run(run).record)
    for name in ("assessment-results.json", "statement.json"):
        assert f'"{said}"' in (tmp_path / "out" / name).read_text("utf-8")
        assert review_registration(run, copy / "r.json", evidence=tmp_path / "out" / name).changes == ()
    cm.score_run(run, suite_options=["margin=0.3"])
    other = {"rules": [{"metric": "mcas", "component": "image_part", "within": 0.1}]}
    found = review_registration(run, copy / "r.json", policy=other).changes
    assert [told.partition(" since")[0] for told in found] == [
        "margin is 0.3", "it was scored again", "it is held to a policy that is not the registered one",
    ]  # fmt: skip
    cm.export(run, tmp_path / "other", evidence=True, policy=other)
    for name in ("assessment-results.json", "statement.json"):
        told = review_registration(run, copy / "r.json", evidence=tmp_path / "other" / name).changes
        assert "it is held to a policy that is not the registered one" in told
    with raises(InvalidInputError, code=Code.CONFLICT, match="a policy, a model and a registration"):
        cm.export(run, tmp_path / "paper", registration=copy / "r.json")


def test_the_commands(copy, monkeypatch):
    monkeypatch.chdir(copy)

    def told(*words):
        return CliRunner().invoke(app, list(words), catch_exceptions=False)

    made = told("register", "--model", "./toy", "--suite", "toy.yaml", "--images", "5", "-o", "mine.json")
    assert made.exit_code == 0, made.output
    assert f"SHA-256 {read_registration('mine.json').checksum}." in made.stdout
    with raises(InvalidInputError, code=Code.TOO_MANY, match="--seed: found several"):
        told("register", "--model", "./toy", "--suite", "toy.yaml", "--seed", "0,1", "-o", "sweep.json")
    with raises(InvalidInputError, code=Code.CONFLICT, match="--registration: .*several"):
        told("audit", "--registration", "mine.json", "--seed", "0,1")
    words = ["verify", "runs/kept", "--registration", "r.json"]
    assert told(*words).exit_code == 0
    assert "Nothing was changed." in told(*words).stdout
    cm.score_run("runs/kept", resamples=1999)
    changed = told(*words, "--json")
    assert changed.exit_code == 1
    assert json.loads(changed.stdout)["changes"][0] == "resamples is 1999 (registered: 999)"
    assert len(json.loads(changed.stdout)["attempts"]) == 3
    assert os.listdir("runs") == os.listdir(copy / "runs")
