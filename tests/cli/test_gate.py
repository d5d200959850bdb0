"""``clinometer gate``: its status, its words, its table."""

import json
from pathlib import Path

import pandas as pd
import pytest

import clinometer as cm
from tests.toys import Eye, Painter, toy_suite

pytestmark = pytest.mark.usefixtures("few_resamples", "blank_pages")


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    place = tmp_path_factory.mktemp("gate") / "run"
    return cm.audit(Painter(), toy_suite(target=12, attribute=6), place, encoder=Eye()).directory.place


@pytest.fixture
def shown(monkeypatch, tmp_path):
    """What the command prints, on a wide terminal."""
    from rich.console import Console

    from clinometer.cli import gate

    console = Console(width=200, record=True, file=(tmp_path / "shown").open("w"))
    monkeypatch.setattr(gate, "Console", lambda: console)
    return console.export_text


@pytest.mark.parametrize(
    ("limit", "status", "sentence"),
    [
        (9, 0, "The gate holds: every number is shown to keep its limits."),
        (0.001, 1, "The gate is broken: of 4 numbers"),
        (None, 3, "The gate is undecided: no number is shown to be beyond its limit, but"),
    ],
)
def test_the_status_says_what_a_pipeline_must_know(cli, run, shown, limit, status, sentence):
    if limit is None:  # within the interval that is farthest out
        scores = cm.open_run(run).scores
        limit = scores[(scores.metric == "mcas") & (scores.component == "mcas")].value.abs().max()
    assert cli("gate", run, "--metric", "mcas", "--within", limit) == (status, "")
    assert sentence in shown()


def test_a_reason_that_all_share_is_said_once(cli, tmp_path, shown):
    place = tmp_path / "few"
    cm.audit(Painter(), toy_suite(target=4, attribute=3), place, encoder=Eye())
    assert cli("gate", place, "--metric", "mcas", "--within", 1)[0] == 3
    text = shown()
    assert "mcas within ±1: undecided; 4 undecided of 4 numbers: too few images." in text
    assert text.count("too few images") == 1


def test_shares_have_no_sign(cli, run, shown):
    assert cli("gate", run, "--metric", "share", "--component", "share", "--at-most", 0.01)[0] in (1, 3)
    assert "+" not in shown()


def test_what_is_undecided_may_be_let_through_and_what_is_broken_not(cli, run):
    scores = cm.open_run(run).scores
    most = scores[(scores.metric == "mcas") & (scores.component == "mcas")].value.abs().max()
    assert cli("gate", run, "--metric", "mcas", "--within", most, "--allow-undecided")[0] == 0
    assert cli("gate", run, "--metric", "mcas", "--within", 0.001, "--allow-undecided")[0] == 1


def test_a_policy_is_shown_rule_by_rule_and_written(cli, run, shown, tmp_path):
    policy = tmp_path / "gate.yaml"
    policy.write_text(
        "title: '[bold]Release[/]'\nrules:\n- {name: none leans far, metric: mcas, within: 9}\n"
        "- {metric: mcas, concept: 'concept 0.80', at_most: 0}\n"
    )
    status, errors = cli("gate", run, "--policy", policy, "--out", tmp_path / "gate.json")
    assert (status, errors) == (1, "")
    text = shown()
    assert "[bold]Release[/]" in text
    assert "none leans far (within ±9): holds for all 4 numbers." in text
    assert "mcas at most 0: broken." in text
    written = json.loads((tmp_path / "gate.json").read_text())
    table = pd.DataFrame(cm.gate(run, policy).table)
    assert [row["outcome"] for row in written] == table.outcome.tolist()
    assert [row["value"] for row in written] == pytest.approx(table.value.tolist())


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "gate: no limit is given; give --policy FILE, or --metric mcas --within 0.25"),
        (["--metric", "mcas"], "gate: rules.0: it has no limit"),
        (["--metric", "mcsa", "--within", 1], "did you mean mcas"),
        (["--policy", "nowhere.yaml"], "nowhere.yaml: no such file"),
        (["--policy", "nowhere.yaml", "--at-most", 1], "--at-most: a policy is given, too"),
        (["--metric", "mcas", "--within", 1, "--out", "gate.txt"], "--out gate.txt: expected a file of .csv"),
        (["--metric", "mcas", "--within", 1, "--baseline", "nowhere"], "nowhere: not a run directory"),
    ],
)
def test_a_mistake_has_status_2_and_one_line(cli, run, words, message):
    status, errors = cli("gate", run, *words)
    assert status == 2
    assert message in errors
    assert errors.count("\n") == 1


@pytest.mark.parametrize("inside", ["run.json", "samples/table.csv"])
def test_a_table_does_not_overwrite_what_is_judged(cli, run, inside):
    place = Path(run)
    before = (place / "run.json").read_bytes()
    status, errors = cli("gate", run, "--metric", "mcas", "--within", 9, "--out", place / inside)
    assert status == 2
    assert "it would overwrite, or lie in" in errors
    assert (place / "run.json").read_bytes() == before


def test_a_table_does_not_overwrite_its_policy(cli, run, tmp_path):
    policy = tmp_path / "gate.json"
    policy.write_text('{"rules": [{"metric": "mcas", "within": 9}]}')
    assert cli("gate", run, "--policy", policy, "--out", policy)[0] == 2
    assert cli("gate", run, "--policy", policy)[0] == 0


def test_a_run_that_is_not_scored_is_told(cli, tmp_path):
    assert cli("gate", tmp_path / "nothing", "--metric", "mcas", "--within", 1)[0] == 2
