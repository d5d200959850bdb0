"""The record of a run for an auditor: valid OSCAL, every verdict and rule in it, and tied to the files it names."""

import hashlib
import json
from datetime import date, datetime
from pathlib import Path

import pandas as pd
import pytest

import clinometer as cm
from clinometer.api import verify_run
from clinometer.errors import Code, InvalidInputError, RunCorruptError, UncheckedRunWarning
from clinometer.exports.evidence import HASHED
from clinometer.studies import study_of
from clinometer.studies.reporting import report_input
from tests import quick
from tests.old_runs import as_of_format_1
from tests.raising import raises
from tests.toys import Eye, Painter, crossed_suite, toy_suite, toy_t2iat_suite

POLICY = {
    "title": "Release",
    "rules": [
        {"metric": "mcas", "component": "image_part", "within": 8},
        {"metric": "mcas", "component": "image_part", "concept": "concept 0.20", "at_least": 7.5},
        {"metric": "mcas", "component": "image_part", "concept": "concept 0.60", "at_least": 0.3},
    ],
}
STATES = {"holds": ("satisfied", "pass"), "broken": ("not-satisfied", "fail"), "undecided": ("not-satisfied", "other")}


@pytest.fixture(scope="module")
def run():
    return quick.finished(Painter(), toy_suite(target=12), encoder=Eye())


def read(folder):
    return json.loads((folder / "assessment-results.json").read_text("utf-8"))["assessment-results"]


@pytest.fixture
def assessment_results():
    from trestle.oscal.assessment_results import AssessmentResults

    return AssessmentResults


@pytest.mark.parametrize("suite", [toy_suite(), crossed_suite(), toy_t2iat_suite()], ids=["pair", "axes", "t2iat"])
def test_the_record_is_what_oscal_calls_assessment_results(tmp_path, assessment_results, suite):
    run = quick.audit(Painter(refuse="0.20"), suite, tmp_path / "run", encoder=Eye())
    assert cm.export(run, tmp_path / "out", evidence=True) == ["assessment-results.json", "clauses.csv"]
    record = assessment_results.oscal_read(tmp_path / "out" / "assessment-results.json")
    page = study_of(suite).page(suite)
    judged = [row for verdicts in page.verdicts(page.view.of(report_input(run))) for row in verdicts.rows]
    assert (
        len(record.results[0].observations)
        == len(judged)
        == len({each.uuid for each in record.results[0].observations})
    )
    assert record.results[0].findings is None


def test_each_number_is_there_to_the_last_digit(run, tmp_path):
    cm.export(run, tmp_path, evidence=True)
    observations = {each["title"]: each for each in read(tmp_path)["results"][0]["observations"]}
    rows = run.scores[
        (run.scores.metric == "mcas") & (run.scores.component == "image_part") & (run.scores.encoder == "mean")
    ]
    assert set(observations) == set(rows.concept)
    for row in rows.itertuples():
        told = {each["name"]: each["value"] for each in observations[row.concept]["props"]}
        assert [float(told[name]) for name in ("value", "low", "high", "q")] == [row.value, row.low, row.high, row.q]


def test_each_rule_of_a_policy_is_a_finding(run, assessment_results, tmp_path):
    judged = cm.gate(run, POLICY)
    cm.export(run, tmp_path, evidence=True, policy=POLICY)
    findings = read(tmp_path)["results"][0]["findings"]
    assert [each.outcome for each in judged.rules] == ["holds", "broken", "undecided"]
    assert [(each["target"]["status"]["state"], each["target"]["status"]["reason"]) for each in findings] == [
        STATES[each.outcome] for each in judged.rules
    ]
    assert [each["title"] for each in findings] == [each.name for each in judged.rules]
    assessment_results.oscal_read(tmp_path / "assessment-results.json")


def test_clauses_say_by_what_and_claim_nothing(run, tmp_path):
    cm.export(run, tmp_path, evidence=True)
    table = pd.read_csv(tmp_path / "clauses.csv", keep_default_na=False)
    assert (table[["framework", "clause", "asks", "field", "source"]] != "").all(axis=None)
    assert set(table[table.field == "checksum"].shown) == {run.record["checksum"]}
    for clause in table.itertuples():  # a date in law, or no duty
        assert (clause.applies_from == "") == (clause.applies == "Voluntary.") == ("AI Act" not in clause.framework)
        assert (
            not clause.applies_from
            or datetime.fromisoformat(clause.applies_from).strftime("%-d %B %Y") in clause.applies
        )
    assert date.fromisoformat(table.as_of.unique().item()) >= date(2026, 7, 27)  # when the dates were last changed
    said = read(tmp_path)["results"][0]["reviewed-controls"]["remarks"]
    assert all(words in said for words in (*table.applies, *table.as_of))
    assert set(table[table.field == "outcome"].shown) == {"none"}
    assert "compl" not in "".join(table.shown)
    assert "no claim of compliance" in read(tmp_path)["metadata"]["remarks"]


def test_a_run_that_changed_is_not_that_of_the_record(run, tmp_path):
    cm.export(run, tmp_path, evidence=True)
    record = tmp_path / "assessment-results.json"
    named = {
        each["title"]: each["rlinks"][0]["hashes"][0]["value"] for each in read(tmp_path)["back-matter"]["resources"]
    }
    assert set(named) <= set(HASHED)
    for name, checksum in named.items():
        assert hashlib.sha256(Path(run.directory.path(name)).read_bytes()).hexdigest() == checksum
    verify_run(run, evidence=record)
    record.write_text(record.read_text("utf-8").replace(named["scores.parquet"], "0" * 64), "utf-8")
    with raises(RunCorruptError, code=Code.CORRUPT, match=r"scores\.parquet: .*\(SHA-256 00000000"):
        verify_run(run, evidence=record)


def change(record, **changes):
    """Write a record with other words in its first result."""
    text = record.read_text("utf-8")
    for old, new in changes.values():
        assert old in text
        text = text.replace(old, new, 1)
    record.write_text(text, "utf-8")


@pytest.mark.parametrize(
    "changed",
    [
        ('"state": "not-satisfied"', '"state": "satisfied"'),
        ('"reason": "fail"', '"reason": "pass"'),
        ('"name": "verdict",\n                "ns": "urn:clinometer:evidence:1",\n                "value": "', "X"),
        ('"images"', '"pictures"'),
        ('"title": "Bias audit of', '"title": "Clean audit of'),
        ('"findings": [', '"risks": [], "findings": ['),
    ],
)
def test_a_record_that_does_not_follow_from_its_run_is_refused(run, tmp_path, changed):
    cm.export(run, tmp_path, evidence=True, policy=POLICY)
    record = tmp_path / "assessment-results.json"
    verify_run(run, evidence=record)
    old, new = changed
    change(record, at=(old, new if new != "X" else f"{old}not "))
    with raises(RunCorruptError, code=Code.CORRUPT):
        verify_run(run, evidence=record)


def test_findings_without_their_policy_are_refused(run, tmp_path):
    cm.export(run, tmp_path, evidence=True, policy=POLICY)
    record = tmp_path / "assessment-results.json"
    change(record, at=('"name": "policy"', '"name": "politics"'))
    with raises(InvalidInputError, code=Code.INCOMPLETE):
        verify_run(run, evidence=record)


def test_findings_of_differences_take_the_baseline(run, tmp_path):
    other = quick.finished(Painter(), toy_suite(target=12), encoder=Eye(), seed=1)
    policy = {"rules": [{"difference": "image_part", "within": 8}]}
    cm.export(run, tmp_path, evidence=True, policy=policy, baseline=other)
    record = tmp_path / "assessment-results.json"
    with raises(InvalidInputError, code=Code.MISMATCH):
        verify_run(run, evidence=record)
    with raises(InvalidInputError, code=Code.MISMATCH):
        verify_run(run, evidence=record, baseline=run)
    verify_run(run, evidence=record, baseline=other)


@pytest.mark.parametrize(
    ("content", "code", "words"),
    [
        ("{", Code.MALFORMED, r"assessment-results\.json"),
        ("[]", Code.NOT_FOUND, "no record of a run"),
        (json.dumps({"assessment-results": {"back-matter": {"resources": [
            {"rlinks": [{"href": "../x", "hashes": [{"value": "1"}]}]}]}}}),
         Code.UNKNOWN_NAME, r"'\.\./x'"),
        (None, Code.UNREADABLE, "No such file"),
    ],
)  # fmt: skip
def test_a_file_that_is_no_record_is_refused(run, tmp_path, content, code, words):
    path = tmp_path / "record.json"
    if content is not None:
        path.write_text(content)
    with raises(InvalidInputError, code=code, match=words):
        verify_run(run, evidence=path)


def test_nothing_is_signed_for_a_run_without_checksums(tmp_path):
    run = quick.audit(Painter(), toy_suite(), tmp_path / "run", encoder=Eye())
    as_of_format_1(tmp_path / "run")
    with pytest.warns(UncheckedRunWarning), raises(RunCorruptError, code=Code.CORRUPT, match="nothing can be signed"):
        cm.export(run.url, tmp_path / "out", evidence=True)


def test_a_policy_goes_with_evidence_alone(run, tmp_path):
    with raises(InvalidInputError, code=Code.CONFLICT):
        cm.export(run, tmp_path, policy=POLICY)
    with raises(InvalidInputError, code=Code.CONFLICT):
        cm.export(run, run.url, evidence=True)
