"""What a script meets: documents and their schema, plain text in a pipe, defaults from a file, a log, examples."""

import errno
import json
import logging
import re
import shlex
from pathlib import Path

import pandas as pd
import pytest
import typer
from PIL import Image

import clinometer as cm
from clinometer.cli import tables
from clinometer.cli.app import EXAMPLES, EXIT_CODES, app
from clinometer.cli.documents import SCHEMA, json_schema
from clinometer.errors import Code, RunStorageError
from tests import quick
from tests.builders import tiny_stable_diffusion
from tests.exports.hub_server import TOKEN, hub_server
from tests.models.openai.image_server import ImageServer
from tests.raising import raises
from tests.toys import Eye, Painter, toy_suite

ROOT = typer.main.get_command(app)


def commands(group=ROOT, before=()):
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from commands(command, (*before, name))
        else:
            yield " ".join((*before, name)), command


COMMANDS = dict(commands())


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Two runs of one suite, one that drew no men, and what other commands read."""
    place = tmp_path_factory.mktemp("scripts")
    for seed, name in enumerate(("first", "second")):
        quick.audit(Painter(), toy_suite(target=12, attribute=6), place / name, encoder=Eye(), seed=seed, report=True)
    quick.audit(Painter(refuse=" men"), toy_suite(), place / "few", encoder=Eye())
    for name in ("red.png", "blue.png"):
        Image.new("RGB", (16, 16), name.removesuffix(".png")).save(place / name)
    (place / "gate.yaml").write_text("rules: [{metric: mcas, within: 9}]")
    (place / "counts.csv").write_text("concept,group,n\nnurse,woman,18\nnurse,man,2\nCEO,woman,3\nCEO,man,17\n")
    words = "".join(f"{word} {n % 3} {n % 5} {n % 7}\n" for n, word in enumerate(sorted(toy_words())))
    (place / "vectors.vec").write_text(words)
    return place


def toy_words():
    from clinometer.suites import load_suite

    return {text.lower() for text in load_suite("weat/6").texts()}


def validator():
    from jsonschema import Draft202012Validator  # a second that no other process of the tests need wait

    return Draft202012Validator(json_schema())


def document(cli, *words, status=0):
    """What a command says under --json, valid by the schema."""
    found, errors = cli(*words, "--json", "--quiet")
    assert found == status, errors
    assert errors == ""
    held = json.loads(cli.printed)
    validator().validate(held)
    assert held["schema"] == SCHEMA
    assert held["clinometer"] == cm.__version__
    return held


@pytest.mark.thorough
def test_the_schema_is_one(cli):
    from jsonschema import ValidationError

    validator().check_schema(json_schema())
    assert cli("schema") == (0, "")
    assert json.loads(cli.printed) == json_schema()
    with pytest.raises(ValidationError):
        validator().validate({"schema": SCHEMA, "kind": "files", "of": "card", "place": None, "files": [], "more": 1})


def test_a_run_is_told_with_every_verdict(cli, runs):
    held, scores = document(cli, "score", runs / "first"), cm.open_run(runs / "first").scores
    assert held["kind"] == "run"
    assert held["images"] == {"ok": held["planned"]}
    judged = scores[scores.verdict != ""]
    assert [(row["concept"], row["verdict"]) for row in held["verdicts"]] == list(
        zip(judged.concept, judged.verdict, strict=True)
    )
    assert [row["value"] for row in held["verdicts"]] == pytest.approx(judged.value.tolist())


def test_what_is_not_measured_is_null_and_has_a_reason(cli, runs):
    held = document(cli, "score", runs / "few")
    unknown = [row for row in held["verdicts"] if row["value"] is None]
    assert unknown
    assert all(row["reason"] and row["verdict"] == "not measured" for row in unknown)
    assert held["lost"] == held["images"]["refused"] > 0


@pytest.mark.thorough
def test_runs_are_compared_and_held_to_limits(cli, runs, tmp_path):
    held = document(cli, "compare", runs / "first", runs / "second", "--out", tmp_path / "beside")
    (one,) = held["comparisons"]
    assert (one["first"]["seed"], one["second"]["seed"], one["paired"]) == (0, 1, False)
    assert held["report"] == str(tmp_path / "beside/comparison.html")
    rule = ("gate", runs / "first", "--metric", "mcas")
    held = document(cli, *rule, "--at-most", 0, status=1)
    assert (held["outcome"], held["exit_code"]) == ("broken", 1)
    assert held["run"]["checksum"] == cm.open_run(runs / "first").record["checksum"]
    assert document(cli, *rule, "--within", 9)["rows"][0]["at_least"] == -9


@pytest.mark.thorough
@pytest.mark.usefixtures("shortcuts")
def test_the_other_commands_have_a_document_each(cli, runs, tmp_path):
    first = runs / "first"
    for kind, words in (
        ("plan", ("plan", "--suite", "mcas")),
        ("plan", ("plan", "--pilot", first)),
        ("verification", ("verify", first, "--recompute")),
        ("files", ("report", first)),
        ("files", ("card", first, "--out", "card.md")),
        ("files", ("card", first)),
        ("files", ("export", first, "paper", "--board", "none")),
        ("files", ("export", first, "evidence", "--evidence", "--policy", runs / "gate.yaml")),
        ("run", ("import", "--counts", runs / "counts.csv", "--out", "counts", "--no-report")),
        ("tables", ("test", "weat/6", "--encoder", runs / "vectors.vec")),
        ("tables", ("suites",)),
        ("tables", ("suites", "mcas")),
        ("tables", ("models",)),
        ("tables", ("models", "reference")),
        ("tables", ("models", "--check-skin")),
        ("tables", ("read", runs, "--reader", "monk", "--question", "monk", "--out", "answers")),
        ("tables", ("config",)),
    ):
        held = document(cli, *words)
        assert held["kind"] == kind, words
        assert held.get("of", words[0]) == words[0]
    held = document(cli, "ratings", "new", first, "--database", f"sqlite:///{tmp_path}/ratings.sqlite")
    listed = document(cli, "ratings", "list", "--database", f"sqlite:///{tmp_path}/ratings.sqlite")
    assert listed["tables"][0]["rows"][0]["task"] == held["tables"][0]["rows"][0]["task"]


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    """A diffusers pipeline, and beside it a run of two steps."""
    model = tiny_stable_diffusion(tmp_path_factory.mktemp("models") / "tiny")
    suite = toy_suite(target=2, attribute=2, concepts=2)
    quick.audit(str(model), suite, model.with_name("run"), encoder="reference", steps=2, resamples=19)
    return model


@pytest.mark.thorough
def test_commands_that_ask_a_model_or_a_server_have_a_document_each(cli, runs, tiny, tmp_path, monkeypatch):
    words = ("--labels", "cook,pilot", "--model", tiny, "--trials", 2)
    (table,) = document(cli, "classify", runs / "red.png", *words)["tables"]
    assert table["rows"][0]["label"] in {"cook", "pilot"}

    held = document(cli, "trace", tiny.with_name("run"), "--model", tiny, "--steps", "1,2")
    assert held["kind"] == "run"
    assert {"image_part", "onset"} <= {row["component"] for row in held["verdicts"] if row["metric"] == "trace"}
    assert cli("trace", tiny.with_name("run"), "--model", tiny, "--steps", "1,2")[0] == 0
    assert re.search("that lean, half do by step|so nothing sets in", cli.printed)

    held = document(cli, "mitigate", "openai:gpt-image-1", "--method", "balanced", "--out", tmp_path / "words")
    assert (held["kind"], held["of"]) == ("files", "mitigate")
    assert all((tmp_path / "words" / name).exists() for name in held["files"])

    proposed = json.dumps({"questions": [{"name": "age", "question": "Old?", "answers": ["yes", "no"],
                                          "counterfactuals": ["an old nurse"]}]})  # fmt: skip
    answer = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": proposed}}
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret-of-tests")
    with ImageServer(lambda *_: (200, {"choices": [answer]}, {})) as server:
        words = ("--concepts", "nurse", "--writer", "openai:scribe", "--price", 0, "--base-url", server.url)
        held = document(cli, "questions", "mcas", *words, "--out", tmp_path / "questions.yaml")
    assert held["of"] == "questions"

    monkeypatch.setenv("HF_TOKEN", TOKEN)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)
    with hub_server() as hub:
        monkeypatch.setenv("HF_ENDPOINT", hub.url)
        held = document(cli, "push", runs / "first", "hf://datasets/me/audit")
        assert set(held["files"]) == {name for _, name in hub.files}
    assert held["remarks"][-1].startswith("Sent ")


def test_every_command_that_finds_something_takes_json():
    without = {
        name for name, command in COMMANDS.items() if "--json" not in {o for p in command.params for o in p.opts}
    }
    assert without == {"serve"}


def test_a_mistake_is_no_document(cli):
    status, errors = cli("score", "nowhere", "--json")
    assert (status, cli.printed) == (2, "")
    assert re.fullmatch("clinometer: nowhere: .*run.json.*\n", errors)


# --- plain text ------------------------------------------------------------------------------------------------------


def test_a_pipe_gets_a_line_a_row_and_no_lines_drawn(cli, runs):
    for words in (["score", runs / "first"], ["suites"], ["compare", runs / "first", runs / "second"], ["score", "-h"]):
        cli(*words)
        assert not re.search("[\u2500-\u257f\x1b]", cli.printed)
        assert all(line == line.rstrip() for line in cli.printed.splitlines())
    cli("suites")
    (line,) = (line for line in cli.printed.splitlines() if line.startswith("mcas "))
    assert re.split(r"\s{2,}", line)[:2] == ["mcas", "MCAS: gendered association in 28 concepts"]


def test_quiet_says_nothing_but_what_is_found(cli, runs):
    status, errors = cli("verify", runs / "first", "--quiet")
    assert (status, errors) == (0, "")
    assert "files are as they were written" in cli.printed
    assert "verifying: done" in cli("verify", runs / "first")[1]


# --- a log -----------------------------------------------------------------------------------------------------------


def test_a_log_tells_the_stages_and_the_end(cli, runs, tmp_path):
    log = tmp_path / "clinometer.log"
    cli("verify", runs / "first", "--log-file", log, "--quiet")
    cli("verify", "s3://me:secret-word@nowhere/run", "--log-file", log)
    lines = log.read_text().splitlines()
    assert any(re.search(r"INFO clinometer\.progress: .*: \d+", line) for line in lines)
    assert any("INFO clinometer.cli: ended with status 0" in line for line in lines)
    assert any("ERROR clinometer.cli: " in line for line in lines)
    assert "secret-word" not in log.read_text()
    assert logging.getLogger("clinometer").level == logging.NOTSET
    status, errors = cli("verify", runs / "first", "--log-file", tmp_path / "no/where.log")
    assert status == 2
    assert errors.startswith(f"clinometer: --log-file {tmp_path}/no/where.log: cannot be written: ")


@pytest.mark.parametrize(
    ("name", "content", "found"),
    [
        ("scores.parquet", b"PAR1", "a .parquet file"),
        ("scores.csv", b"a,b\n", "a .csv file"),
        ("picture", b"\x89PNG\r\n\x1a\n\0\0", "a file that is not text"),
    ],
)
def test_lines_are_appended_to_no_file_that_they_would_break(cli, runs, tmp_path, name, content, found):
    (tmp_path / name).write_bytes(content)
    status, errors = cli("verify", runs / "first", "--log-file", tmp_path / name)
    assert status == 2
    said = f"--log-file {tmp_path / name}: lines cannot be appended to {found}; give another file"
    assert said in errors
    assert (tmp_path / name).read_bytes() == content


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is always full")
def test_a_full_disk_ends_the_log_and_not_the_command(cli, runs):
    status, errors = cli("verify", runs / "first", "--log-file", "/dev/full", "--quiet")
    assert (status, errors) == (0, "clinometer: --log-file /dev/full: it ends here: No space left on device\n")


def test_a_table_that_does_not_fit_the_disk_leaves_what_was_there(tmp_path, monkeypatch):
    def begun(table, place):
        place.write_text("concept,")
        raise OSError(errno.ENOSPC, "No space left on device")

    out = tmp_path / "scores.csv"
    out.write_text("what was there\n")
    with monkeypatch.context() as full:
        full.setitem(tables.WRITERS, ".csv", begun)
        with raises(RunStorageError, code=Code.STORAGE, match=r"scores\.csv: .*No space left"):
            tables.write_table(pd.DataFrame({"a": [1]}), out)
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("scores.csv", "what was there\n")]
    (tmp_path / "link.csv").symlink_to(out)
    tables.write_table(pd.DataFrame({"a": [1]}), tmp_path / "link.csv")
    assert (out.read_text(), (tmp_path / "link.csv").is_symlink()) == ("a\n1\n", True)


# --- defaults --------------------------------------------------------------------------------------------------------


def test_defaults_come_from_a_file_the_environment_and_the_words(cli, runs, tmp_path, monkeypatch):
    (tmp_path / "pyproject.toml").write_text(
        "[tool.clinometer]\nquiet = true\n[tool.clinometer.gate]\nmetric = 'mcas'\nwithin = 9\nat-most = 3\n"
        "[tool.clinometer.audit]\nencoder = ['a', 'b']\nseed = 3\nguidance = [1, 2.5]\nreport = false\n"
        "base-url = 'https://gateway.example/sk-0123456789abcdef/v1'\n[tool.clinometer.ratings.new]\nimages = 4\n"
    )
    monkeypatch.setenv("CLINOMETER_GATE_AT_MOST", "2")
    assert cli("config", "allow") == (0, "")
    held = document(cli, "config")
    told = {(row["command"], row["option"]): (row["value"], row["from"]) for row in held["tables"][0]["rows"]}
    place = "pyproject.toml: tool.clinometer."
    assert told["gate", "--within"] == (9.0, f"{place}gate.within")
    assert told["gate", "--at-most"] == (2.0, "CLINOMETER_GATE_AT_MOST")
    assert told["gate", "--quiet"] == (True, f"{place}quiet")
    assert told["ratings list", "--quiet"] == (True, f"{place}quiet")
    assert told["audit", "--encoder"] == ("a, b", f"{place}audit.encoder")
    assert told["audit", "--seed"] == ("3", f"{place}audit.seed")
    assert told["audit", "--guidance"] == ("1, 2.5", f"{place}audit.guidance")
    assert told["audit", "--report"] == (False, f"{place}audit.report")
    assert told["audit", "--base-url"] == ("https://gateway.example/…/v1", f"{place}audit.base-url")
    assert told["ratings new", "--images"] == (4, f"{place}ratings.new.images")
    cli("config", "gate", "--within", "4")
    assert re.search(r"gate +--within +4\.0 +command line", cli.printed)
    assert re.search(r"gate +--allow-undecided +False +default", cli.printed)
    # and they hold: both limits are given
    status, errors = cli("gate", runs / "first")
    assert (status, "within stands for both limits" in errors) == (2, True)
    monkeypatch.delenv("CLINOMETER_GATE_AT_MOST")
    (tmp_path / "clinometer.toml").write_text("[gate]\nmetric = 'mcas'\nwithin = 9\n")  # and not the project's
    assert cli("config", "allow")[0] == 0
    said = "clinometer: from clinometer.toml: metric = mcas, within = 9.0\n"
    assert cli("gate", runs / "first") == (0, said)
    assert cli("gate", runs / "first", "--within", "1e-9")[0] == 1


@pytest.mark.parametrize(
    ("content", "code", "said"),
    [
        ("[gaet]\n", Code.UNKNOWN_NAME, r"clinometer\.toml: gaet: .*mean gate\?"),
        ("[gate]\nwithn = 1\n", Code.UNKNOWN_NAME, r"clinometer\.toml: gate\.withn: .*mean within\?"),
        ("[gate]\nwithin = 'x'\n", Code.MALFORMED, r"clinometer\.toml: gate\.within: .*'x'"),
        ("[gate]\nwithin = [1]\n", Code.WRONG_TYPE, r"clinometer\.toml: gate\.within: .*list"),
        ("[gate]\nunchecked = 1\n", Code.WRONG_TYPE, r"clinometer\.toml: gate\.unchecked: .*true or false"),
        ("gate = 1\n", Code.WRONG_TYPE, r"clinometer\.toml: gate: .*\[gate\]"),
        ("[ratings.new]\nimagse = 1\n", Code.UNKNOWN_NAME, r"clinometer\.toml: ratings\.new\.imagse: .*mean "),
        ("[gate]\nmetric = 'mcsa'\nwithin = 1\n", Code.UNKNOWN_NAME, r"gate: rules\.0\.metric: .*'mcsa'.*mean mcas\?"),
        ("[plan]\neffect = -1\n", Code.OUT_OF_RANGE, r"clinometer\.toml: plan\.effect: .*-1"),
        ("[gate\n", Code.UNREADABLE, r"clinometer\.toml: "),
    ],
)
def test_a_bad_key_is_named_with_its_file(cli, runs, tmp_path, content, code, said):
    (tmp_path / "clinometer.toml").write_text(content)
    cli("config", "allow")
    status, errors = cli("plan") if "[plan]" in content else cli("gate", runs / "first")
    assert (status, cli.error.code) == (2, code)
    assert re.match(f"clinometer: {said}", errors.splitlines()[-1])
    assert errors.count("\n") == 1 + errors.startswith("clinometer: from clinometer.toml: ")


def test_a_value_of_the_environment_is_named_by_its_variable(cli, runs, monkeypatch):
    monkeypatch.setenv("CLINOMETER_GATE_WITHIN", "x")
    assert cli("gate", runs / "first") == (2, "clinometer: CLINOMETER_GATE_WITHIN: expected a number, found 'x'\n")


@pytest.mark.parametrize(
    "words",
    [
        ("gate", "RUN", "--within", "1", "--within", "2"),
        ("audit", "--report", "--no-report"),
        ("ratings", "export", "RUN", "--out", "a.csv", "-o", "b.csv"),
        ("verify", "RUN", "--log-file", "a", "--log-file", "b"),
    ],
)
def test_a_single_option_that_is_repeated_is_an_error(cli, words):
    status, errors = cli(*words)
    assert status == 2
    assert re.fullmatch(r"clinometer: --[a-z-]+: found 2 values, and it takes one; give it once\n", errors)


# --- help ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", COMMANDS)
def test_help_has_examples_that_are_read(cli, name):
    assert cli(*name.split(), "--help")[0] == 0
    shown = " ".join(cli.printed.split())
    for example in EXAMPLES[name]:
        assert example in shown
        words = shlex.split(example)
        assert words[: 1 + len(name.split())] == ["clinometer", *name.split()]
        context = COMMANDS[name].make_context(name, words[1 + len(name.split()) :])
        assert not context.args
    assert EXAMPLES.keys() == COMMANDS.keys()


def test_every_status_is_documented():
    from clinometer.cli.app import STATUS
    from clinometer.cli.runs import STATUS as OF_GATES

    assert EXIT_CODES.keys() == {0, 2, 130, STATUS, *OF_GATES.values()}
