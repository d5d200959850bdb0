"""No traceback reaches a user: what nobody foresaw is told in two lines, and what a user may do by mistake in one."""

import os
import re
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import clinometer as cm
from clinometer import api
from clinometer.errors import Code
from tests import quick
from tests.old_runs import as_of_format_1
from tests.toys import Eye, Painter, toy_suite


@pytest.fixture(scope="module")
def finished():
    return quick.finished(Painter(), toy_suite(margin=0.1), encoder=Eye())


@pytest.fixture
def run(tmp_path, finished):
    shutil.copytree(finished.url, tmp_path / "run")
    return tmp_path / "run"


def test_an_error_of_its_own_is_two_lines_and_a_file(cli, run, monkeypatch):
    monkeypatch.setattr(sys.modules["clinometer.pipeline.results"], "with_refusals", lambda *_: {}["no such\nkey"])
    (run / "scores.parquet").unlink()  # scores that are there would be kept
    status, said = cli("score", run)
    told = said[said.index("clinometer: ") :]
    assert status == 70
    assert "Traceback" not in said
    assert told.splitlines()[0] == (
        "clinometer: an error of clinometer's own, with scoring in hand: KeyError: 'no such\\nkey'. What was finished "
        "is kept; the same command goes on from there."
    )
    assert f"The traceback is in {run}/.last-error.txt; please report it" in told.splitlines()[1]
    written = (run / ".last-error.txt").read_text()
    assert "Traceback (most recent call last)" in written
    assert f"score {run}" in written
    monkeypatch.undo()
    monkeypatch.chdir(run)
    cm.score_run(run)  # the file is in nobody's way
    api.verify_run(run)


def test_without_a_run_the_traceback_is_in_the_temporary_folder(cli, tmp_path, monkeypatch):
    monkeypatch.setattr("clinometer.suites.load_suite", lambda name: 1 / 0)
    status, said = cli("suites", "mcas")
    assert status == 70
    assert said.startswith("clinometer: an error of clinometer's own: ZeroDivisionError: division by zero.\nThe ")
    (written,) = tmp_path.glob("clinometer-*.txt")
    assert str(written) in said
    assert "ZeroDivisionError" in written.read_text()


@pytest.mark.parametrize("how", ["option", "variable"])
def test_the_traceback_is_shown_to_who_asks_for_it(cli, monkeypatch, how):
    monkeypatch.setattr("clinometer.suites.load_suite", lambda name: 1 / 0)
    if how == "variable":
        monkeypatch.setenv("CLINOMETER_DEBUG", "1")
    status, said = cli(*(["--debug"] if how == "option" else []), "suites", "mcas")
    assert status == 70
    assert said.startswith("Traceback")
    assert said.splitlines()[-2].startswith("clinometer: an error of clinometer's own")
    monkeypatch.undo()
    assert "Traceback" in cli("--debug", "suites", "no such suite")[1]


def test_ctrl_c_stays_what_it_is(cli, monkeypatch):
    def stop(name):
        raise KeyboardInterrupt

    monkeypatch.setattr("clinometer.suites.load_suite", stop)
    assert cli("suites", "mcas") == (130, "clinometer: stopped.\n")


LONG = "x" * 5000


@pytest.fixture
def odd(tmp_path):
    """Files that no program expects."""
    (tmp_path / "deep.yaml").write_text("a: " + "[" * 900 + "]" * 900)
    (tmp_path / "deeper.yaml").write_text("a: " + "[" * 3000 + "]" * 3000)
    (tmp_path / "digits.yaml").write_text(f"name: x\nimages: {{target: {'9' * 6000}}}\n")
    (tmp_path / "loop").symlink_to("loop")
    folder = tmp_path / "images"
    folder.mkdir()
    pixels = np.random.default_rng(0).integers(0, 255, (8, 8, 3), dtype=np.uint8)
    Image.fromarray(pixels).save(folder / "a.png")
    (folder / "deep.jsonl").write_text('{"file": "a.png", "concept": ' + "[" * 5000 + "]" * 5000 + "}\n")
    (folder / "digits.jsonl").write_text('{"file": "a.png", "concept": ' + "9" * 6000 + "}\n")
    return tmp_path


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["suites", "deep.yaml"], "deep.yaml: line 1: more than 20 lists and mappings within each other"),
        (["suites", "deeper.yaml"], "deeper.yaml: (line 1: more than 20|not YAML: .*maximum nesting depth)"),
        (["suites", "digits.yaml"], "digits.yaml: not YAML: Exceeds the limit"),
        (["suites", "loop"], "loop: cannot be read as text: .*Too many levels of symbolic links"),
        (["suites", LONG], "x…x+: cannot be read as text: .*File name too long"),
        (["suites", "x\0y"], "cannot be read as text: embedded null byte"),
        (["models", LONG], "x…x+: File name too long"),
        (["test", "weat", "--encoder", LONG], "x…x+: File name too long"),
        (["classify", LONG, "-l", "a,b"], "x…x+: File name too long"),
        (["import", LONG, "-e", "reference"], "x…x+: File name too long"),
        (["import", "images", "-e", "reference", "--manifest", LONG], "x…x+: File name too long"),
        (
            ["import", "images", "-e", "reference", "--manifest", "images/deep.jsonl"],
            "deep.jsonl, line 1: nested too deeply",
        ),
        (
            ["import", "images", "-e", "reference", "--manifest", "images/digits.jsonl"],
            "digits.jsonl, line 1: not valid JSON: Exceeds",
        ),
        (["score", LONG], "x…x+/?run.json: cannot be read: File name too long"),
        (["score", "loop"], "loop/run.json: cannot be read: Too many levels of symbolic links"),
        (["score", "zip://a::b"], r"zip://a::b: cannot be opened \(.*\); fix the URL, or give a path"),
        (["audit", "--out", "zip://a::b"], r"zip://a::b: cannot be opened \(.*\); fix the URL, or give a path"),
    ],
)
def test_what_no_program_expects_is_a_line(cli, odd, words, said):
    status, told = cli(*words)
    assert status == 2
    last = told.splitlines()[-1]
    assert last.startswith("clinometer: ")
    assert len(last) < 900
    assert re.search(said, last), last


@pytest.mark.thorough
def test_names_that_are_no_text_are_no_harm(cli, odd, tmp_path):
    folder = Path(os.fsdecode(b"\xff"))
    (odd / "images").rename(tmp_path / folder)
    rows = ["file,concept,group", "a.png,nurse,"]
    (tmp_path / folder / "manifest.csv").write_text("\n".join(rows))
    status, said = cli("import", folder, "-e", "reference", "--out", f"{folder}/run")
    assert status == 0, said
    held = cm.open_run(tmp_path / folder / "run")
    assert held.model_card["name"] == "\\udcff"
    assert cli("classify", folder / "a.png", "-l", "man,woman", "--trials", "1", "--out", "c.csv")[0] == 0
    assert "\\udcff/a.png" in (tmp_path / "c.csv").read_text()


def test_a_stray_folder_is_in_nobodys_way(cli, run):
    (run / ".x.tmp").mkdir()
    (run / "samples" / ".y.1.tmp").mkdir()
    assert cli("score", run)[0] == 0
    quick.audit(Painter(), toy_suite(margin=0.1), run, encoder=Eye())
    assert (run / ".x.tmp").is_dir()


def test_an_old_run_is_told_in_a_line(cli, run):
    as_of_format_1(run)
    for command in ("score", "report", "verify"):
        status, said = cli(command, run)
        assert status == 0
        lines = [line for line in said.splitlines() if "format 1" in line]
        assert lines == [
            f"clinometer: {run}: unchecked: its run.json is of format 1, without checksums: "
            "what is read back cannot be verified"
        ]


def test_damage_is_told_by_every_command(cli, run):
    (run / "samples/part-00001.parquet").write_bytes(b"")
    status, said = cli("verify", run)
    assert status == 2
    assert "samples/part-00001.parquet: it carries no checksum" in said
    status, said = cli("report", run)
    assert status == 0
    assert "samples/part-00001.parquet: it carries no checksum" in said
    assert cli("score", run)[0] == 2


def test_a_run_that_is_whole_so_far_is_not_called_finished(cli, run, tmp_path, monkeypatch):
    class Tired(Painter):
        def generate(self, requests):
            for result in super().generate(requests):
                yield result
                if self.drawn == 40:
                    raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        quick.audit(Tired(), toy_suite(), tmp_path / "begun", encoder=Eye())
    printed = []
    monkeypatch.setattr("typer.echo", lambda text, **_: printed.append(text))
    assert cli("verify", tmp_path / "begun")[0] == 0
    drawn = len(list((tmp_path / "begun" / "samples").iterdir()))
    assert printed[1] == f"The run is not finished: {drawn} of 7 parts are drawn."
    assert cli("verify", run)[0] == 0
    assert len(printed) == 3


def test_another_margin_is_given_to_score(cli, run):
    assert cli("score", run, "--suite-option", "margin=.2")[0] == 0
    assert cm.open_run(run).suite.margin == 0.2
    status, said = cli("score", run, "--suite-option", "colour=red")
    assert (status, cli.error.code) == (2, Code.UNSUPPORTED)
    assert "margin=…" in said
