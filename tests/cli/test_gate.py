"""``clinometer gate``: its status, its words, its table."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pandas as pd
import pytest
from markdown_it import MarkdownIt

import clinometer as cm
from clinometer.errors import Code, RunCorruptError, UncheckedRunWarning
from clinometer.gates.numbers import LAST
from tests import quick
from tests.old_runs import as_of_format_1, set_back
from tests.raising import raises
from tests.toys import Eye, Painter, toy_suite


@pytest.fixture(scope="module")
def run():
    return quick.finished(Painter(), toy_suite(target=12, attribute=6), encoder=Eye(), report=True).directory.place


@pytest.fixture
def shown(monkeypatch, tmp_path):
    """What the command prints, on a wide terminal."""
    from rich.console import Console

    from clinometer.cli import runs

    console = Console(width=200, record=True, file=(tmp_path / "shown").open("w"))
    monkeypatch.setattr(runs, "Console", lambda: console)
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
    quick.audit(Painter(), toy_suite(target=4, attribute=3), place, encoder=Eye())
    assert cli("gate", place, "--metric", "mcas", "--within", 1)[0] == 3
    text = shown()
    assert "mcas within ±1: undecided; 4 undecided of 4 numbers: too few images." in text
    assert text.count("too few images") == 1


def test_shares_have_no_sign(cli, run, shown):
    assert cli("gate", run, "--metric", "share", "--component", "share", "--at-most", 0.01)[0] in (1, 3)
    assert "+" not in shown()


def test_the_smallest_share_over_the_largest_says_of_what_whose_and_of_how_many_images(cli, tmp_path, shown):
    (tmp_path / "counts.csv").write_text("concept,group,n\nnurse,man,9\nnurse,woman,11\nguard,man,12\nguard,woman,8\n")
    assert cli("import", "--counts", tmp_path / "counts.csv", "--out", tmp_path / "counted", "--quiet") == (0, "")
    assert cli("gate", tmp_path / "counted", "--four-fifths", 0.8) == (3, "")
    cells = [[cell.strip() for cell in line.split("│")] for line in shown().splitlines() if "(smallest: " in line]
    assert {name: images for _, name, _, _, _, images, *_ in cells} == {
        "nurse (smallest: man)": "20", "guard (smallest: woman)": "20", "all concepts (smallest: woman)": "40",
    }  # fmt: skip
    cli("gate", tmp_path / "counted", "--four-fifths", 0.8, "--explain")
    assert "all concepts (smallest: woman): 0.90 [" in shown()


def test_what_is_undecided_may_be_let_through_and_what_is_broken_not(cli, run):
    scores = cm.open_run(run).scores
    most = scores[(scores.metric == "mcas") & (scores.component == "mcas")].value.abs().max()
    assert cli("gate", run, "--metric", "mcas", "--within", most, "--allow-undecided")[0] == 0
    assert cli("gate", run, "--metric", "mcas", "--within", 0.001, "--allow-undecided")[0] == 1


def test_a_short_history_opens_no_gate_and_is_told(cli, run, other, shown, tmp_path):
    place = tmp_path / "gate.json"
    assert cli("gate", run, "--history", Path(other).parent, "--out", place) == (3, "")
    assert f"Compared with 0 earlier runs in {Path(other).parent}; left out: {other} (" in shown()
    assert json.loads(place.read_text())["history"]["runs"] == []
    assert cli("gate", run, "--history", Path(other).parent, "--allow-undecided", "--json")[0] == 0
    assert json.loads(cli.printed)["history"]["last"] == LAST


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
    assert "mcas at most 0: broken" in text
    written = json.loads((tmp_path / "gate.json").read_text())
    table = pd.DataFrame(cm.gate(run, policy).table)
    assert [row["outcome"] for row in written["rows"]] == table.outcome.tolist()
    assert [row["value"] for row in written["rows"]] == pytest.approx(table.value.tolist())


def test_json_says_what_was_held_to_what_and_what_came_of_it(cli, run, tmp_path):
    place, record = tmp_path / "gate.json", cm.open_run(run).record
    cli("gate", run, "--metric", "mcas", "--at-most", 0, "--out", place)
    written = json.loads(place.read_text())
    assert written["outcome"] == "broken"
    assert written["run"]["checksum"] == record["checksum"]
    assert written["run"]["suite_fingerprint"] == record["suite_fingerprint"]
    assert written["baseline"] is None
    assert {"clinometer", "numpy", "python"} <= written["versions"].keys()
    (rule,) = written["rules"]
    assert rule == {"name": "mcas at most 0", "outcome": "broken", "numbers": 4, "metric": "mcas", "at_most": 0}
    assert {row["at_least"] for row in written["rows"]} == {None}
    assert "unchecked" not in written


def test_how_many_images_decide_is_null_where_nobody_knows(cli, tmp_path):
    quick.audit(Painter(), toy_suite(target=4, attribute=3), tmp_path / "few", encoder=Eye())
    out = [f"--out={tmp_path / name}" for name in ("few.json", "few.csv")]
    assert [cli("gate", tmp_path / "few", "--metric", "mcas", "--within", 1, each)[0] for each in out] == [3, 3]
    assert [row["n_decide"] for row in json.loads((tmp_path / "few.json").read_text())["rows"]] == [None] * 4
    assert pd.read_csv(tmp_path / "few.csv").n_decide.isna().all()


def judged_thrice(cli, run, place, *words):
    """A gate with a rule that holds, one that is broken and one that is undecided; its status."""
    scores = cm.open_run(run).scores
    most = scores[(scores.metric == "mcas") & (scores.component == "mcas")].value.abs().max()
    (place / "three.yaml").write_text(
        "title: 'Release <1> | \x1b'\nrules:\n- {name: far, metric: mcas, within: 9}\n"
        "- {name: 'signs & such', metric: mcas, at_most: 0}\n"
        f"- {{name: near, metric: mcas, concept: 'concept 0.?0', within: {most}}}\n".replace("\x1b", "\\e").replace(
            "'Release <1> | \\e'", '"Release <1> | \\e"'
        )
    )
    return cli("gate", run, "--policy", place / "three.yaml", *words)


def test_a_pipeline_gets_a_case_for_each_number(cli, run, tmp_path):
    assert judged_thrice(cli, run, tmp_path, "--junit", tmp_path / "gate.xml") == (1, "")
    root, table = ElementTree.parse(tmp_path / "gate.xml").getroot(), cm.gate(run, tmp_path / "three.yaml").table
    assert [suite.get("name") for suite in root] == ["far", "signs & such", "near"]
    cases = root.findall("testsuite/testcase")
    outcomes = [getattr(case.find("failure"), "attrib", {}).get("type", "holds") for case in cases]
    assert outcomes == table.outcome.tolist()
    assert set(outcomes) == {"holds", "broken", "undecided"}
    for element in (root, *root.findall("testsuite")):
        held = [case for case in element.iter("testcase")]
        counted = {name: int(element.get(name)) for name in ("tests", "failures", "errors", "skipped")}
        failed = sum(case.find("failure") is not None for case in held)
        assert counted == {"tests": len(held), "failures": failed, "errors": 0, "skipped": 0}
    checksum = cm.open_run(run).record["checksum"]
    assert root.find("testsuite/properties/property[@name='checksum']").get("value") == checksum
    judged_thrice(cli, run, tmp_path, "--junit", tmp_path / "gate.xml", "--allow-undecided")
    root = ElementTree.parse(tmp_path / "gate.xml").getroot()
    assert int(root.get("skipped")) == (table.outcome == "undecided").sum()


def test_a_summary_is_added_to_the_file_that_a_pipeline_names(cli, run, tmp_path, monkeypatch):
    place = tmp_path / "summary.md"
    place.write_text("# What came before\n")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(place))
    judged_thrice(cli, run, tmp_path)
    text = place.read_text()
    assert text.startswith("# What came before\n## Release &lt;1&gt; &#124; \ufffd: broken\n")
    html = MarkdownIt().enable("table").render(text)
    assert html.count("<table>") == 1 + sum(outcome != "holds" for outcome in ("holds", "broken", "undecided"))
    assert "<td>signs &amp; such</td>" in html
    status, errors = judged_thrice(cli, run, tmp_path, "--summary", tmp_path / "no/summary.md")
    assert (status, errors.split(": cannot")[0]) == (2, f"clinometer: --summary {tmp_path}/no/summary.md")
    assert judged_thrice(cli, run, tmp_path, "--junit", Path(run) / "run.json")[0] == 2


def test_every_number_is_explained(cli, run, tmp_path):
    judged_thrice(cli, run, tmp_path, "--explain")
    table = cm.gate(run, tmp_path / "three.yaml").table
    said = {outcome: cli.printed.count(f": it {words}.") for outcome, words in
            (("holds", "holds"), ("broken", "is broken"), ("undecided", "is undecided"))}  # fmt: skip
    assert said == table.outcome.value_counts().to_dict()
    assert "and the limit is at most 0. The value is beyond by " in cli.printed
    assert f"Holm's correction over the policy's {len(table)} numbers p " in cli.printed
    assert "The value keeps the limit and the interval reaches over it" in cli.printed
    assert "More images will not change that" in cli.printed


# --- what the numbers rest on ----------------------------------------------------------------------------------------


@pytest.fixture
def copy(run, tmp_path):
    shutil.copytree(run, tmp_path / "copy")
    return tmp_path / "copy"


@pytest.fixture(scope="module")
def other(tmp_path_factory):
    place = tmp_path_factory.mktemp("gate") / "other"
    quick.audit(Painter(), toy_suite(target=12, attribute=6), place, encoder=Eye(), seed=1)
    return place


def overwrite_head(path):
    content = path.read_bytes()
    path.write_bytes(bytes(range(200)) + content[200:])


ATTACKS = {
    "another run's vectors": lambda run, other: shutil.copy(
        other / "embeddings/eye/part-00000.parquet", run / "embeddings/eye/part-00000.parquet"
    ),
    "no vectors": lambda run, other: shutil.rmtree(run / "embeddings"),
    "no texts": lambda run, other: (run / "embeddings/eye/texts.parquet").unlink(),
    "a head overwritten": lambda run, other: overwrite_head(run / "samples/part-00000.parquet"),
    "a head of vectors overwritten": lambda run, other: overwrite_head(run / "embeddings/eye/part-00000.parquet"),
    "another run's scores": lambda run, other: shutil.copy(other / "scores.parquet", run / "scores.parquet"),
}


@pytest.mark.parametrize("attack", ATTACKS)
def test_no_gate_opens_on_what_is_no_longer_there(cli, copy, other, attack):
    ATTACKS[attack](copy, other)
    for words in ([], ["--unchecked"], ["--allow-undecided"]):
        status, errors = cli("gate", copy, "--metric", "mcas", "--within", 9, *words)
        assert status == 2
        assert str(copy) in errors
        assert errors.count("\n") == 1


def test_what_the_numbers_do_not_rest_on_keeps_no_gate_shut(cli, copy):
    (copy / "report.html").unlink()
    (copy / "scores.csv").write_text("")
    assert cli("gate", copy, "--metric", "mcas", "--within", 9) == (0, "")


@pytest.mark.parametrize("take_out", [as_of_format_1, set_back])
def test_no_gate_opens_on_a_run_without_checks(cli, copy, take_out, tmp_path):
    take_out(copy)
    rule, out = ("--metric", "mcas", "--within", 9), tmp_path / "gate.json"
    status, errors = cli("gate", copy, *rule, "--out", out)
    assert (status, cli.error.code) == (2, Code.CORRUPT)
    assert f"{copy}: unchecked: " in errors
    assert "--unchecked" in errors
    assert not out.exists()
    with raises(RunCorruptError, code=Code.CORRUPT, match="unchecked"), pytest.warns(UncheckedRunWarning):
        cm.gate(copy, {"rules": [{"metric": "mcas", "within": 9}]})
    assert cli("gate", copy, *rule, "--unchecked", "--out", out)[0] == 0
    assert "unchecked" in out.read_text().splitlines()[0]
    assert json.loads(out.read_text())["unchecked"].startswith(f"{copy}: unchecked: ")


def test_no_gate_opens_on_a_baseline_without_checks(cli, run, other, tmp_path):
    shutil.copytree(other, tmp_path / "baseline")
    as_of_format_1(tmp_path / "baseline")
    policy = tmp_path / "gate.yaml"
    policy.write_text("rules:\n- {difference: mcas, within: 9}\n")
    status, errors = cli("gate", run, "--policy", policy, "--baseline", tmp_path / "baseline")
    assert (status, cli.error.code) == (2, Code.CORRUPT)
    assert f"{tmp_path / 'baseline'}: unchecked" in errors


def test_every_word_about_a_run_without_checks_says_so_first(cli, copy, other, tmp_path):
    as_of_format_1(copy)
    for words in (["verify", copy], ["report", copy], ["compare", copy, other], ["card", copy, "--out", "card.md"]):
        assert cli(*words)[0] == 0
        assert "as they were written" not in cli.printed.replace("whether they are", "")
        if words[0] != "card":
            assert "unchecked" in cli.printed.splitlines()[0], words
    card = (tmp_path / "card.md").read_text()
    section = card[card.index("begin -->") :].splitlines()
    assert "unchecked" in section[1]
    assert "metric" not in card or "name: 'unchecked: " in card


# --- the status ------------------------------------------------------------------------------------------------------


def given(*words, stdout=subprocess.PIPE):
    command = [sys.executable, "-m", "clinometer", *map(str, words)]
    return subprocess.run(command, stdout=stdout, stderr=subprocess.PIPE, text=True, check=False)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("gate", "RUN", "--metric", "mcas", "--at-most", 0), 1),
        pytest.param(("gate", "RUN", "--metric", "mcas", "--within", "MOST"), 3, marks=pytest.mark.thorough),
        pytest.param(("gate", "RUN", "--metric", "mcas", "--within", 9), 0, marks=pytest.mark.thorough),
        pytest.param(("plan", "--pilot", "RUN"), 0, marks=pytest.mark.thorough),
        pytest.param(("verify", "DAMAGED"), 2, marks=pytest.mark.thorough),
        pytest.param(("suites",), 0, marks=pytest.mark.thorough),
    ],
)
def test_the_status_survives_whoever_stops_reading(run, copy, words, expected):
    scores = cm.open_run(run).scores
    most = scores[(scores.metric == "mcas") & (scores.component == "mcas")].value.abs().max()
    (copy / "plan.parquet").unlink()
    meant = {"RUN": run, "DAMAGED": copy, "MOST": most}
    read, write = os.pipe()
    os.close(read)  # as when ``head`` has seen enough
    done = given(*(meant.get(word, word) for word in words), stdout=write)
    os.close(write)
    assert (done.returncode, "BrokenPipe" in done.stderr) == (expected, False)


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        ([], Code.MISSING, "--policy FILE, or --metric mcas --component image_part --within 0.25"),
        (["--metric", "mcas"], Code.MISSING, "gate: rules.0: "),
        (["--metric", "mcsa", "--within", 1], Code.UNKNOWN_NAME, "mean mcas"),
        (["--policy", "nowhere.yaml"], Code.NOT_FOUND, "nowhere.yaml: "),
        (["--policy", "nowhere.yaml", "--at-most", 1], Code.CONFLICT, "--at-most: "),
        (["--metric", "mcas", "--within", 1, "--out", "gate.txt"], Code.UNSUPPORTED, "--out gate.txt: "),
        (["--metric", "mcas", "--within", 1, "--baseline", "nowhere"], Code.NOT_FOUND, "nowhere: "),
        (["--metric", "mcas", "--within", 1, "--last", 20], Code.MISSING, "--history"),
        (["--history", "nowhere"], Code.TOO_FEW, "--history: nowhere: "),
        (["--history", "nowhere", "--last", 3], Code.OUT_OF_RANGE, "--last: found 3, "),
    ],
)
def test_a_mistake_has_status_2_and_one_line(cli, run, words, code, message):
    status, errors = cli("gate", run, *words)
    assert (status, cli.error.code) == (2, code)
    assert message in errors
    assert errors.count("\n") == 1


@pytest.mark.parametrize("inside", ["run.json", "samples/table.csv"])
def test_a_table_does_not_overwrite_what_is_judged(cli, run, inside):
    place = Path(run)
    before = (place / "run.json").read_bytes()
    status, errors = cli("gate", run, "--metric", "mcas", "--within", 9, "--out", place / inside)
    assert (status, cli.error.code) == (2, Code.CONFLICT)
    assert str(place / inside) in errors
    assert (place / "run.json").read_bytes() == before


def test_a_table_does_not_overwrite_its_policy(cli, run, tmp_path):
    policy = tmp_path / "gate.json"
    policy.write_text('{"rules": [{"metric": "mcas", "within": 9}]}')
    assert cli("gate", run, "--policy", policy, "--out", policy)[0] == 2
    assert cli("gate", run, "--policy", policy)[0] == 0


def test_a_run_that_is_not_scored_is_told(cli, tmp_path):
    assert cli("gate", tmp_path / "nothing", "--metric", "mcas", "--within", 1)[0] == 2
