"""The GitHub Action: each of its steps, run as a runner does."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.docs.pages import ROOT, page
from tests.pipeline.reference_audits import few_targets

ACTION = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))
STEPS = {step["name"]: step for step in ACTION["runs"]["steps"]}
EXPRESSION = re.compile(r"\$\{\{\s*(.*?)\s*\}\}")
RECORDS = f"""#!{sys.executable}
import json, os, sys
with open("given.jsonl", "a") as file:
    file.write(json.dumps([os.path.basename(sys.argv[0]), *sys.argv[1:]]) + "\\n")
sys.exit(int(os.environ.get("STATUS", "0")) if "gate" in sys.argv else 0)
"""


def value_of(expression, inputs):
    """What an expression of the action stands for; there are no others than these."""
    if expression == "github.action_path":
        return str(ROOT)
    return inputs[re.fullmatch(r"inputs\.([\w-]+)", expression)[1]]


def is_run(condition, inputs):
    """Whether a step runs after others that passed."""
    parts = re.split(r" (?:&&|\|\|) ", condition)
    told = [re.fullmatch(r"inputs\.([\w-]+) != '(.*)'|always\(\)", part) for part in parts]
    held = [found[1] is None or inputs[found[1]] != found[2] for found in told]
    return any(held) if "||" in condition else all(held)


def run_steps(place, bin_folder, **given):
    """Run the shell of every step whose condition holds, until one fails; its status and what the steps put out."""
    inputs = {name: each.get("default", "") for name, each in ACTION["inputs"].items()} | given
    files = {name: str(place / name.lower()) for name in ("GITHUB_OUTPUT", "GITHUB_STEP_SUMMARY")}
    status = 0
    for step in STEPS.values():
        if "run" not in step or not is_run(step.get("if", "always()"), inputs):
            continue
        (place / "step.sh").write_text(step["run"], encoding="utf-8")
        own = {name: value_of(EXPRESSION.fullmatch(text)[1], inputs) for name, text in step["env"].items()}
        environment = os.environ | files | own | {"PATH": f"{bin_folder}:{os.environ['PATH']}"}
        shell = ["bash", "--noprofile", "--norc", "-eo", "pipefail", place / "step.sh"]
        status = subprocess.run(shell, cwd=place, env=environment, check=False, stdout=subprocess.DEVNULL).returncode
        if status:
            break
    written = Path(files["GITHUB_OUTPUT"])
    return status, written.read_text() if written.exists() else ""


@pytest.fixture
def recorder(tmp_path):
    """Commands that only write down what they were given."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in ("clinometer", "python"):
        (folder / name).write_text(RECORDS)
        (folder / name).chmod(0o755)
    return folder


def given(place):
    return [json.loads(line) for line in (place / "given.jsonl").read_text().splitlines()]


def test_no_input_is_part_of_a_script():
    for step in STEPS.values():
        assert "${{" not in step.get("run", "")
        assert ("run" in step) == ("shell" in step) != ("uses" in step)
    used = set(re.findall(r"inputs\.([\w-]+)", (ROOT / "action.yml").read_text(encoding="utf-8")))
    assert used == set(ACTION["inputs"])


def test_what_others_wrote_is_named_by_its_commit():
    text = (ROOT / "action.yml").read_text(encoding="utf-8")
    uses = re.findall(r"uses: (.*)", text)
    assert len(uses) == sum("uses" in step for step in STEPS.values()) == 2
    assert all(re.fullmatch(r"actions/[\w-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", each) for each in uses)


def test_every_input_reaches_its_command_as_one_word(tmp_path, recorder):
    hostile = '$(touch ran) "; touch ran; `touch ran`'
    status, told = run_steps(
        tmp_path, recorder, model=hostile, encoder="a b\nc", images="4", options="--device=cpu\n\n--steps=2 3",
        policy=hostile, baseline="--help", history="h", **{"allow-undecided": "true"},
    )  # fmt: skip
    assert (status, told) == (0, "status=0\n")
    assert not (tmp_path / "ran").exists()
    install, audit, gate = given(tmp_path)
    assert install == ["python", "-m", "pip", "install", f"{ROOT}[models]"]
    assert audit == [
        "clinometer", "audit", f"--model={hostile}", "--suite=mcas", "--out=clinometer-run", "--images=4",
        "--encoder=a b", "--encoder=c", "--device=cpu", "--steps=2 3",
    ]  # fmt: skip
    assert gate == [
        "clinometer", "gate", "--junit=clinometer-gate.xml", "--out=clinometer-gate.json",
        f"--summary={tmp_path}/github_step_summary", "--explain", f"--policy={hostile}", "--baseline=--help",
        "--history=h", "--allow-undecided", "--", "clinometer-run",
    ]  # fmt: skip


def test_what_is_installed_and_whether_there_is_a_gate_is_chosen(tmp_path, recorder):
    assert run_steps(tmp_path, recorder, model="m", version="0.1.0") == (0, "")
    assert run_steps(tmp_path, recorder, model="m", version="installed") == (0, "")
    assert [words[1:4] for words in given(tmp_path) if words[0] == "python"] == [["-m", "pip", "install"]]
    assert given(tmp_path)[0][-1] == "clinometer[models]==0.1.0"
    assert not any("gate" in words for words in given(tmp_path))


@pytest.mark.parametrize("status", [0, 1, 2, 3])
def test_the_step_ends_as_the_gate_does_and_says_so(tmp_path, recorder, monkeypatch, status):
    monkeypatch.setenv("STATUS", str(status))
    assert run_steps(tmp_path, recorder, model="m", policy="p") == (status, f"status={status}\n")
    assert STEPS["Keep the report and the outcome"]["if"].startswith("always()")


@pytest.mark.thorough
def test_it_audits_the_reference_model_and_gates_it(tmp_path):
    (tmp_path / "few.yaml").write_text(yaml.safe_dump(few_targets().model_dump(mode="json", exclude_none=True)))
    (tmp_path / "gate.yaml").write_text("rules:\n- {metric: mcas, component: image_part, within: 9}\n")
    status, told = run_steps(
        tmp_path, Path(sys.executable).parent, model="reference", suite="few.yaml", policy="gate.yaml", out="runs/one",
        version="installed", options="--steps=1\n--resamples=99\n--device=cpu\n--no-report",
    )  # fmt: skip
    assert (status, told) == (3, "status=3\n")  # two images of a concept decide nothing
    assert (tmp_path / "runs/one/scores.csv").exists()
    assert json.loads((tmp_path / "clinometer-gate.json").read_text())["outcome"] == "undecided"
    assert "<testsuite" in (tmp_path / "clinometer-gate.xml").read_text()
    assert ": undecided" in (tmp_path / "github_step_summary").read_text().splitlines()[0]


def test_the_pages_show_inputs_that_there_are():
    for name in ("docs/gates.md", "docs/recipes/nightly-gate.md"):
        for block in re.findall(r"uses: OWNER/clinometer@.*?\n\s+with:\n((?: +[\w-]+: .*\n)+)", page(name)):
            assert set(re.findall(r"^ +([\w-]+):", block, re.MULTILINE)) <= set(ACTION["inputs"]), name
    assert "uses: OWNER/clinometer@" in page("docs/gates.md")
