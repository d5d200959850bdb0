"""A sweep is its audits: cells are ordinary runs, whatever else is in the grid and whenever they were drawn."""

import hashlib
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import clinometer as cm
from clinometer.cli.audit import print_sweep
from clinometer.errors import Code, ModelError, RunCorruptError, RunMismatchError, SweepError
from clinometer.runs.browse import found_below
from clinometer.runs.several import pooled
from clinometer.runs.storage import Directory
from clinometer.sweeps.sweep import require_finished
from tests import quick
from tests.raising import raises
from tests.sweeps.sweep_by_workers import sweep_by_workers
from tests.sweeps.toy_sweeps import AXES, SUITE, Broken, Shifted, contents, painters, record, swept
from tests.toys import Eye, Sketcher, toy_suite


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """Two models at two seeds."""
    return swept(tmp_path_factory.mktemp("whole") / "sweep")


def parts(folder):
    """Hashes of what was drawn and embedded."""
    files = sorted((*folder.rglob("samples/*.parquet"), *folder.rglob("embeddings/**/*.parquet")))
    return {str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def folder_of(sweep, name=""):
    return Path(sweep.directory.root) / "cells" / name


def test_a_sweep_of_one_cell_is_an_audit_bit_for_bit(tmp_path):
    one = swept(tmp_path / "sweep", {"model": "plain", "seed": 1})
    alone = quick.audit(Shifted(name="plain"), SUITE, tmp_path / "audit", encoder=Eye(), seed=1)
    ((name, run),) = one.runs.items()
    assert name == "plain-toy-seed-1"
    cell = folder_of(one, name)
    assert parts(cell) == parts(tmp_path / "audit")
    assert contents(cell) == contents(tmp_path / "audit")
    assert run.record["model"] == alone.record["model"]
    assert {path.name for path in cell.iterdir()} == {path.name for path in (tmp_path / "audit").iterdir()}


@pytest.mark.thorough
def test_cells_are_the_same_in_whatever_order_and_whatever_else_is_in_the_grid(whole, tmp_path):
    turned = swept(tmp_path / "turned", {"model": ["redder", "plain"], "seed": [1, 0]}, baseline={"model": "plain"})
    assert parts(folder_of(turned)) == parts(folder_of(whole))
    assert turned.runs.keys() == whole.runs.keys()
    key = ["model", "kind", "metric", "component", "concept"]
    tables = [sweep.table.sort_values(key).reset_index(drop=True) for sweep in (whole, turned)]
    pd.testing.assert_frame_equal(*tables)


@pytest.mark.thorough
def test_cells_that_are_added_redo_none_and_change_none(whole, tmp_path):
    out = tmp_path / "sweep"
    first = painters()
    swept(out, {"seed": 0}, models=first)
    before = {path: path.stat().st_mtime_ns for path in (out / "cells").rglob("*.parquet")}
    drawn = {name: model.drawn for name, model in first.items()}
    grown = swept(out, models=first)
    assert {path: path.stat().st_mtime_ns for path in before} == before
    assert {name: model.drawn for name, model in first.items()} == {name: 2 * count for name, count in drawn.items()}
    assert contents(out) == contents(Path(whole.directory.root))
    assert len(grown.runs) == 4


def test_a_sweep_that_is_stopped_goes_on_as_if_it_had_not_been(whole, tmp_path):
    out, models = tmp_path / "sweep", painters(redder=Shifted(1.0, name="redder", stop_after=10))
    with pytest.raises(KeyboardInterrupt):
        swept(out, models=models)
    assert sum(status["status"] == "finished" for status in record(out)["cells"].values()) == 2
    models["redder"].stop_after = None
    drawn = models["plain"].drawn
    again = swept(out, models=models)
    assert models["plain"].drawn == drawn
    assert contents(out) == contents(Path(whole.directory.root))
    assert not again.failed


def test_a_finished_sweep_computes_nothing_again(whole, tmp_path):
    shutil.copytree(whole.directory.root, tmp_path / "sweep")
    models, eye = painters(), Eye()
    before = contents(tmp_path / "sweep")
    swept(tmp_path / "sweep", models=models, encoder=eye)
    assert contents(tmp_path / "sweep") == before
    assert [model.drawn for model in models.values()] == [0, 0]
    assert eye.seen == 0


@pytest.mark.thorough
def test_a_cell_that_fails_stops_no_other_and_is_told_with_the_way_out(tmp_path):
    found = swept(tmp_path / "sweep", models=painters(redder=Broken(1.0, name="redder")))
    assert list(found.failed) == ["redder-toy-seed-0", "redder-toy-seed-1"]
    assert list(found.runs) == ["plain-toy-seed-0", "plain-toy-seed-1"]
    with raises(SweepError, code=Code.FAILED, match="2 of 4 .*kernel"):
        require_finished(found)
    undone = found.table[found.table.kind == "undone"]
    assert list(undone.model) == ["redder", "redder"]
    assert undone.reason.str.contains("no such kernel").all()
    repaired = swept(tmp_path / "sweep")
    assert not repaired.failed
    require_finished(repaired)


def test_differences_are_those_of_compare(whole, tmp_path):
    one = swept(tmp_path / "sweep", {"seed": 0})
    runs = one.runs
    (expected,) = cm.compare(runs["plain-toy-seed-0"], runs["redder-toy-seed-0"])
    found = one.differences.drop(columns=[name for name in one.differences if name not in expected.scores])
    same = ["component", "concept", "encoder", "value", "low", "high", "p", "n_target"]
    pd.testing.assert_frame_equal(found[same], expected.scores[same])


def test_seeds_of_a_setting_are_one_sample(whole):
    setting = whole.outcome.settings[1]
    assert setting.comparison.pairs == sum(len(run.plan) for run in setting.runs.values())
    assert setting.comparison.paired
    both = pooled(list(setting.runs.values()))
    held = {key: vector for run in setting.runs.values() for key, vector in run.embeddings("eye").items()}
    for key, vector in both.embeddings("eye").items():
        np.testing.assert_array_equal(vector, held.pop(key))
    assert not held
    assert len(both.samples) == len(both.plan)
    assert dict(both.images(both.samples.id)).keys() == set(both.samples.id)


def test_what_another_process_writes_into_a_pooled_run_is_no_damage(whole, tmp_path):
    runs = []
    for seed in (0, 1):
        runs.append(cm.open_run(shutil.copytree(whole.runs[f"plain-toy-seed-{seed}"].url, tmp_path / str(seed))))
    both = pooled(runs)
    before = both.embeddings("eye")
    for run in runs:
        part = max(run.parts)
        vectors = {key: 2 * vector for key, vector in run.vectors.of_part("eye", part).items()}
        other = cm.open_run(run.url)
        other.vectors.write("eye", part, [*vectors], np.stack([*vectors.values()]))
        other.end_stage()
    after = both.embeddings("eye")
    assert after.keys() == before.keys()
    assert any((after[key] == 2 * before[key]).all() for key in before)
    Directory(runs[1].url).write_table("embeddings/eye/part-00000.parquet", pa.table({"id": ["x"]}))
    with raises(RunCorruptError, code=Code.CORRUPT, match=r"1/embeddings/eye/part-00000\.parquet: it is another file"):
        both.embeddings("eye")


def test_runs_of_other_questions_are_not_pooled(whole):
    runs = whole.runs
    with raises(RunMismatchError, code=Code.MISMATCH):
        pooled([runs["plain-toy-seed-0"], runs["redder-toy-seed-1"]])
    with raises(RunMismatchError, code=Code.DUPLICATE, match="seed 0 is given twice"):
        pooled([runs["plain-toy-seed-0"]] * 2)


def test_a_redder_model_is_found_redder_and_q_is_over_the_grid(whole):
    rows = whole.table[(whole.table.kind == "difference") & (whole.table.component == "image_part")]
    assert (rows.value > 0).all()
    assert (rows.q >= rows.p).all()
    assert (rows.p_holm >= rows.q).all()
    assert whole.differences.family.str.contains("of the grid").all()


def test_a_directory_of_something_else_is_refused(whole, tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    with raises(RunMismatchError, code=Code.MISMATCH, match=r"sweep\.json"):
        swept(tmp_path)
    with raises(SweepError, code=Code.MISMATCH, match=r"images: found 5, .* None"):
        swept(whole.directory.root, images=5)


def test_the_runs_are_found_where_runs_are_looked_for(whole):
    names = {directory.root.rsplit("/", 1)[-1] for directory in found_below(str(folder_of(whole).parents[1]))}
    assert names == set(whole.runs)
    assert {directory.root for directory in found_below(whole.url)} == {
        run.directory.root for run in whole.runs.values()
    }


@pytest.mark.thorough
def test_weights_are_loaded_once_for_all_their_cells(tmp_path, monkeypatch):
    loaded = []

    class Settable(Shifted):
        def with_settings(self, guidance_scale=0.0, **others):
            return Settable(guidance_scale, name=self.card.name)

    def load(spec, guidance_scale=0.0, **options):
        loaded.append(spec)
        if spec == "gone":
            raise ModelError("gone: it is not there")
        return Settable(guidance_scale, name=spec)

    monkeypatch.setattr("clinometer.pipeline.recipes.load_generator", load)
    small = toy_suite(target=2, attribute=1, concepts=2)
    axes = {"model": ["a", "b", "gone"], "guidance": [0, 1], "seed": [0, 1]}
    found = quick.sweep({"axes": axes | {"suite": "toy"}}, tmp_path / "s", suites={"toy": small}, encoder=Eye())
    assert loaded == ["a", "b", "gone", "gone", "gone", "gone"]
    assert len(found.runs) == 8
    scales = {name: run.model_card["settings"]["guidance_scale"] for name, run in found.runs.items()}
    assert scales["a-toy-guidance-1-seed-0"] == 1
    assert scales["a-toy-guidance-0-seed-1"] == 0


@pytest.mark.thorough
@pytest.mark.slow
def test_a_sweep_that_is_killed_with_its_workers_goes_on(whole, tmp_path):
    """Twice, with two workers, in the midst of a cell; then as if it had not been."""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    out = tmp_path / "killed"
    for least in (2, 4):  # each worker halts in its second part
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.sweeps.sweep_by_workers", str(out), "9"],
            env=environment,
            cwd=Path(__file__).parents[2],
        )
        while len(list(out.rglob("samples/part-*.parquet"))) < least:
            assert process.poll() is None
            time.sleep(0.02)
        process.kill()
        process.wait()
    sweep_by_workers(out)
    assert parts(out / "cells") == parts(folder_of(whole))
    assert contents(out) == contents(Path(whole.directory.root))


@pytest.mark.pages
def test_the_page_and_the_terminal_say_what_was_found(whole, capsys):
    page = (folder_of(whole).parent / "sweep.html").read_text()
    told = (
        "One setting compared with the baseline: the images cannot tell.",
        "<bdi>Colours</bdi>; the baseline is <bdi>plain",
        "<bdi>plain and redder</bdi>",
    )
    for expected in (*told, "4 of 4 cells", "<svg", "Along the axes"):
        assert expected in page
    assert page.count("<script") == 1  # its own, which the policy names
    columns = re.findall(r"<th scope=\"col\"[^>]*>([^<]+)</th>", page.split("Settings of ")[1])
    assert columns[:2] == ["Setting", "Verdict"]  # seen without scrolling
    print_sweep(whole)
    said = " ".join(capsys.readouterr().out.split())
    assert "the baseline is plain" in said
    assert "sweep.html" in said


def test_what_can_be_read_of_a_sweep_later(whole):
    opened = cm.Sweep(whole.url)
    pd.testing.assert_frame_equal(opened.table, whole.table)
    assert repr(opened) == f"Sweep({whole.url!r}: 4 cells, 4 finished, 0 failed)"
    with raises(Exception, code=Code.NOT_FOUND):
        cm.Sweep(f"{whole.url}/cells")
    assert Directory(whole.url).names("pooled", ".parquet")
    assert AXES["seed"] == [0, 1]


@pytest.mark.thorough
def test_a_traced_sweep_carries_each_cell_s_onset_and_how_much_later_it_is(tmp_path):
    suite = toy_suite(target=12, attribute=6, concepts=2)
    models = {"soon": Sketcher(sets_in=2, name="soon"), "late": Sketcher(sets_in=4, name="late")}
    axes = {"suite": "toy", "model": list(models)}
    asked = {"models": models, "suites": {"toy": suite}, "encoder": Eye()}
    found = quick.sweep({"axes": axes, "trace": True, "trace_steps": "1,2,3,4"}, tmp_path / "sweep", **asked)
    onset = found.table[(found.table.kind == "number") & (found.table.component == "onset")]
    of_all = onset[onset.concept.fillna("") == ""].set_index("model").value
    assert of_all.to_dict() == {"soon": 2.0, "late": 4.0}
    own = onset[onset.concept.fillna("") != ""]
    assert len(own) == 4
    assert set(own[own.model == "soon"].value.dropna()) == {2.0}
    (setting,) = (each for each in found.outcome.settings if each.comparison is not None)
    rows = setting.comparison.scores
    rows = rows[rows.metric == "trace"]
    assert (rows[rows.component == "onset"].value.dropna() == 2).all()
    steps = rows[(rows.component == "image_part") & (rows.encoder == "mean")]
    assert (steps[steps.setting == "step 1"].value == 0).all()
    assert (steps[steps.setting == "step 2"].p < 0.05).all()
    assert steps.family.str.startswith("trace: image_part over").all()
    page = (tmp_path / "sweep" / "sweep.html").read_text()
    assert "sets in later by" in page
    with raises(SweepError, code=Code.CONFLICT, match="--until decided"):
        quick.sweep({"axes": axes, "trace": True, "until": "decided"}, tmp_path / "until", **asked)
    assert not (tmp_path / "until").exists()
