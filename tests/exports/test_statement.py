"""The in-toto statement of a run: valid by others' tools, tied to the model's files, and read back."""

import base64
import json
import shutil

import pytest
from google.protobuf import json_format
from in_toto_attestation.predicates.test_result.v0.test_result_pb2 import TestResult as Predicate
from in_toto_attestation.v1.statement import Statement
from in_toto_attestation.v1.statement_pb2 import Statement as StatementMessage
from typer.testing import CliRunner

import clinometer as cm
from clinometer.api import verify_run
from clinometer.cli.app import app
from clinometer.errors import Code, InvalidInputError, ModelError, RunCorruptError
from clinometer.gates import policy_from_mapping
from clinometer.runs.files import MOST_JSON
from clinometer.runs.record import with_checksum
from tests import quick
from tests.raising import raises
from tests.signed_model import DIGEST, SIGNED, WEIGHTS, write_model
from tests.toys import Eye, Notes, Painter, toy_suite

RULES = [
    {"metric": "mcas", "component": "image_part", "within": 8},
    {"metric": "mcas", "component": "image_part", "concept": "concept 0.20", "at_least": 7.5},
    {"metric": "mcas", "component": "image_part", "concept": "concept 0.60", "at_least": 0.3},
]


def audited():
    return quick.finished(Painter(), toy_suite(target=12), encoder=Eye())


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """The run of other tests, whose model has the weights of a folder."""
    place = tmp_path_factory.mktemp("runs") / "run"
    shutil.copytree(audited().url, place)
    record = json.loads((place / "run.json").read_text("utf-8"))
    record["model"]["weights_sha256"] = WEIGHTS
    (place / "run.json").write_text(json.dumps(with_checksum(record)), "utf-8")
    return cm.open_run(place)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return write_model(tmp_path_factory.mktemp("models") / "toy")


@pytest.fixture
def exported(run, folder, tmp_path):
    files = cm.export(run, tmp_path, evidence=True, policy={"rules": RULES}, model=folder)
    assert files == ["assessment-results.json", "clauses.csv", "statement.json"]
    return tmp_path / "statement.json"


def read(path):
    return json.loads(path.read_text("utf-8"))


def test_others_read_the_statement_and_its_test_result(run, exported):
    message = json_format.Parse(exported.read_text("utf-8"), StatementMessage())
    Statement.copy_from_pb(message).validate()
    predicate = json_format.ParseDict(read(exported)["predicate"], Predicate())  # refuses fields that it does not know
    assert predicate.result == "FAILED"
    tests = [predicate.passed_tests, predicate.warned_tests, predicate.failed_tests]
    assert [[name.partition(":")[0] for name in names] for names in tests] == [["rule 1"], ["rule 3"], ["rule 2"]]
    described = {each.name: each for each in predicate.configuration}
    assert policy_from_mapping(json.loads(described["policy"].content)) == policy_from_mapping({"rules": RULES})
    assert described["run.json"].digest["sha256"] == run.directory.sha256("run.json")


def test_the_numbers_are_those_of_the_gate_to_the_last_digit(run, exported):
    judged = cm.gate(run, {"rules": RULES})
    described = {each["name"]: each for each in read(exported)["predicate"]["configuration"]}
    numbers = described["scores.parquet"]["annotations"]["numbers"]
    assert [(each["rule"], each["outcome"], each["value"], each["low"], each["high"]) for each in numbers] == [
        (row.rule, row.outcome, row.value, row.low, row.high) for row in judged.table.itertuples()
    ]


def test_the_subject_is_the_model_as_it_is_signed_or_else_the_run(run, exported, folder, tmp_path):
    assert read(exported)["subject"] == [{"name": "toy", "digest": {"sha256": DIGEST}}]
    signed = write_model(tmp_path / "signed", signed=True)
    cm.export(run, tmp_path, evidence=True, policy={"rules": RULES}, model=signed)
    assert read(exported)["subject"][0]["digest"] == {"sha256": SIGNED}
    cm.export(run, tmp_path, evidence=True, policy={"rules": RULES})
    assert read(exported)["subject"] == [{"name": "run.json", "digest": {"sha256": run.directory.sha256("run.json")}}]
    about = {each["name"]: each for each in read(exported)["predicate"]["configuration"]}["run.json"]["annotations"]
    assert about["subject"] == "the run: no folder of the model's files was given"
    verify_run(run, evidence=exported)
    with raises(InvalidInputError, code=Code.UNSUPPORTED, match="leave --model out"):
        verify_run(run, evidence=exported, model=folder)


def test_it_is_read_back_signed_or_not(run, exported, folder, tmp_path):
    notes = Notes()
    verify_run(run, evidence=exported, model=folder, progress=notes)
    assert any("by the digest that model-signing signs" in note for note in notes.messages)
    verify_run(run, evidence=exported, progress=notes)
    assert any("was not compared with the files of a model; --model FOLDER does so" in note for note in notes.messages)
    envelope = {
        "payloadType": "application/vnd.in-toto+json", "payload": base64.b64encode(exported.read_bytes()).decode(),
        "signatures": [{"sig": ""}],
    }  # fmt: skip
    for name, document in (("dsse", envelope), ("sigstore", {"dsseEnvelope": envelope})):
        (tmp_path / name).write_text(json.dumps(document))
        verify_run(run, evidence=tmp_path / name, model=folder, progress=notes)
        assert "whether the signature is genuine only its key tells" in notes.messages[-1]


def edit(statement, where, value):
    *path, last = where
    for key in path:
        statement = statement[key]
    statement[last] = value


@pytest.mark.parametrize(
    ("edits", "lines"),
    [
        ([(("predicate", "result"), "PASSED"), (("predicate", "failedTests"), [])],
         ['predicate.result is "PASSED", expected "FAILED"', 'predicate.failedTests is [], expected ["rule 2: ']),
        ([(("subject", 0, "digest", "sha256"), "0" * 64)], ['subject.0.digest.sha256 is "000']),
        ([(("predicate", "configuration", 3, "annotations", "numbers", 0, "value"), 0.0)],
         ["predicate.configuration.3.annotations.numbers.0.value is 0.0, expected "]),
        ([(("predicate", "configuration", 1, "digest", "sha256"), "1" * 64), (("more",), 1)],
         ["predicate.configuration.1.digest.sha256 is", "more is 1, expected not there"]),
    ],
)  # fmt: skip
def test_each_difference_is_a_line(run, exported, folder, edits, lines):
    statement = read(exported)
    for where, value in edits:
        edit(statement, where, value)
    exported.write_text(json.dumps(statement))
    with raises(RunCorruptError, code=Code.CORRUPT, most_lines=3) as error:
        verify_run(run, evidence=exported, model=folder)
    told = str(error.value).splitlines()
    assert len(told) == len(lines) + 1
    for said, words in zip(told, lines, strict=False):
        assert said.startswith(f"{exported}: {words}")
    assert "it was changed, or is of another run or version" in told[-1]


def test_a_statement_of_another_run_or_model_is_refused(run, exported, folder, tmp_path):
    with raises(RunCorruptError, code=Code.CORRUPT, match=r"statement\.json: predicate\.configuration", most_lines=3):
        verify_run(audited(), evidence=exported)
    changed = write_model(tmp_path / "toy")
    (changed / "unet/config.json").write_text("{ }")
    with raises(RunCorruptError, code=Code.CORRUPT, match=rf'subject\.0\.digest\.sha256 is "{DIGEST}"'):
        verify_run(run, evidence=exported, model=changed)
    (changed / "unet/diffusion_pytorch_model.safetensors").write_text("other")
    with raises(ModelError, code=Code.MISMATCH):
        verify_run(run, evidence=exported, model=changed)


@pytest.mark.parametrize(
    ("content", "code", "words"),
    [
        (b"{", Code.MALFORMED, "no record of a run"),
        (b'{"a":' * 100_000, Code.MALFORMED, "no record of a run"),
        (
            b'{"predicateType": "https://slsa.dev/provenance/v1"}',
            Code.UNSUPPORTED,
            "an in-toto statement",
        ),
        (b'{"payloadType": "application/vnd.in-toto+json", "payload": "?"}', Code.NOT_FOUND, "no record of a run"),
        (
            b'{"bomFormat": "CycloneDX", "components": [{"modelCard": 1}, 2]}',
            Code.UNSUPPORTED,
            "no component",
        ),
        (b" " * (MOST_JSON + 1), Code.TOO_MANY, "more than 64 MiB"),
    ],
    ids=["no JSON", "deep", "foreign", "no payload", "foreign BOM", "huge"],
)
def test_another_file_is_a_line(run, tmp_path, content, code, words):
    (tmp_path / "file").write_bytes(content)
    with raises(InvalidInputError, code=code, match=words) as error:
        verify_run(run, evidence=tmp_path / "file")
    assert "\n" not in str(error.value)


def test_a_bom_is_read_back_even_within_that_of_a_product(run, folder, tmp_path):
    bom = json.loads(cm.model_card(run, format="cyclonedx", out=tmp_path / "bom.json"))
    verify_run(run, evidence=tmp_path / "bom.json", model=folder)
    bom["components"].insert(0, {"type": "library", "name": "other"})
    (tmp_path / "bom.json").write_text(json.dumps(bom))
    verify_run(run, evidence=tmp_path / "bom.json")
    bom["components"][1]["modelCard"]["quantitativeAnalysis"]["performanceMetrics"][0]["value"] = "0.0"
    (tmp_path / "bom.json").write_text(json.dumps(bom))
    with raises(RunCorruptError, code=Code.CORRUPT):
        verify_run(run, evidence=tmp_path / "bom.json")


def test_the_commands_write_it_and_read_it_back(run, folder, tmp_path):
    (tmp_path / "gate.yaml").write_text(json.dumps({"rules": RULES}))
    told = CliRunner().invoke(
        app, ["export", run.url, str(tmp_path), "--evidence", "-p", str(tmp_path / "gate.yaml"), "-m", str(folder)]
    )
    assert "Sign assessment-results.json and statement.json." in told.stdout, told.output
    words = ["verify", run.url, "--evidence", str(tmp_path / "statement.json")]
    told = CliRunner().invoke(app, [*words, "--model", str(folder)], catch_exceptions=False)
    assert told.exit_code == 0
    assert "and what that says follows from it" in told.stdout
    with raises(InvalidInputError, code=Code.CONFLICT):
        CliRunner().invoke(app, [*words[:2], "--model", str(folder)], catch_exceptions=False)
    with raises(InvalidInputError, code=Code.CONFLICT, field="model"):
        cm.export(run, tmp_path, evidence=True, model=folder)
