"""What is finished is not computed again; whatever it is made of may change, and then it is."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
import yaml

import clinometer as cm
from clinometer import api
from clinometer.errors import Code, RunCorruptError
from clinometer.pipeline.audits import _hash_asked
from clinometer.pipeline.request import AuditRequest
from clinometer.pipeline.results import refresh_report, write_report
from clinometer.runs import NoProgress, verification
from clinometer.runs.ledger import vectors_name
from clinometer.runs.record import with_checksum
from clinometer.runs.run import Run
from clinometer.runs.samples import Samples
from clinometer.suites import load_suite
from tests import quick
from tests.builders import tiny_clip, tiny_stable_diffusion
from tests.old_runs import as_of_format_1
from tests.raising import raises
from tests.toys import Eye, Painter, toy_suite

pytestmark = pytest.mark.usefixtures("shortcuts_of_a_module")

SUITE = toy_suite(margin=0.1, target=8)
NOTHING_TO_DO = "scoring: nothing to do"


class Listener(NoProgress):
    """A listener that remembers the stages and the notes."""

    def __init__(self):
        self.stages, self.notes = [], []

    def start(self, stage, total, done):
        self.stages.append(stage)

    def note(self, message):
        self.notes.append(message)

    @property
    def scored(self):
        return "scoring" in self.stages


def audit(out, **options):
    listener = Listener()
    options = {"model": Painter(), "suite": SUITE, "encoder": Eye(), "out": out, "progress": listener} | options
    quick.audit(**options)
    return listener


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    out = tmp_path_factory.mktemp("finished") / "run"
    audit(out)
    return out


@pytest.fixture(scope="module")
def finished_with_a_page(tmp_path_factory):
    out = tmp_path_factory.mktemp("finished") / "run"
    audit(out, report=True)
    return out


@pytest.fixture
def run(tmp_path, request, finished):
    whole = request.getfixturevalue("finished_with_a_page") if quick.draws_pages() else finished
    shutil.copytree(whole, tmp_path / "run")
    return tmp_path / "run"


def rescored(run, **options):
    """Whether ``score_run`` computes; and that what it leaves is what computing from scratch leaves."""
    listener = Listener()
    table = cm.score_run(run, progress=listener, **options)
    assert listener.scored != any(note.startswith(NOTHING_TO_DO) for note in listener.notes)
    assert len(table) == len(cm.open_run(run).scores)
    return listener.scored


def test_a_finished_audit_that_is_repeated_computes_nothing(run):
    before = {path.name: path.read_bytes() for path in run.iterdir() if path.is_file()}
    listener = audit(run)
    assert not listener.scored
    assert listener.notes[-1].startswith(NOTHING_TO_DO)
    after = {path.name: path.read_bytes() for path in run.iterdir() if path.is_file()}
    assert {name for name in before if before[name] != after[name]} <= {verification.STAMPS}


def test_a_repeated_score_computes_nothing_and_returns_the_same(run):
    first = cm.open_run(run).scores
    assert not rescored(run)
    assert cm.score_run(run).equals(first)


def test_a_setting_of_the_suite_that_changes_is_scored(run):
    assert rescored(run, suite_options=["margin=0.9"])
    assert not rescored(run)
    assert rescored(run, suite_options=["margin=0.1"])
    assert not rescored(run, suite_options=["margin=0.1"])


def test_another_encoder_is_scored_and_so_are_the_rest_without_it(run):
    assert rescored(run, encoder=Eye("second"))
    assert not rescored(run)
    assert rescored(run, drop_encoder="second")
    assert not rescored(run)


def test_a_part_that_comes_back_bit_for_bit_needs_no_scoring(run):
    for name in (vectors_name("eye", 0), "samples/part-00000.parquet"):
        (run / name).unlink()
        assert not audit(run).scored


def test_a_part_with_another_checksum_is_scored(run):
    opened = Run(run)
    part = {sample.id for sample in opened.parts[0]}
    vectors = {key: vector for key, vector in opened.embeddings("eye").items() if key in part}
    opened.vectors.write("eye", 0, list(vectors), np.stack(list(vectors.values())) + np.float32(0.01))
    opened.end_stage()
    assert rescored(run)
    assert not rescored(run)


def test_a_part_that_was_exchanged_is_refused_and_not_passed_over(run, tmp_path):
    other = tmp_path / "other"
    audit(other, seed=1)
    name = vectors_name("eye", 0)
    shutil.copy(other / name, run / name)
    with raises(RunCorruptError, code=Code.CORRUPT, match=r"part-00000\.parquet: it is another file"):
        cm.score_run(run)


@pytest.mark.parametrize("name", verification.SCORED)
def test_scores_that_are_damaged_or_gone_are_computed_again(run, name):
    whole = (run / name).read_bytes()
    (run / name).write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    assert rescored(run)
    assert (run / name).read_bytes() == whole
    (run / name).unlink()
    assert rescored(run)
    assert (run / name).read_bytes() == whole


@pytest.mark.parametrize("package", ["numpy", "scipy", "pandas", "clinometer"])
def test_another_version_of_what_computes_scores_anew(run, monkeypatch, package):
    changed = verification.versions() | {package: "another"}
    monkeypatch.setattr(verification, "versions", lambda: changed)
    assert rescored(run)
    assert not rescored(run)


def test_another_number_of_resamples_is_scored(run):
    listener = Listener()
    cm.score_run(run, resamples=100, progress=listener)
    assert listener.scored


def test_scores_of_another_state_are_not_taken_for_those_of_this_one(run):
    """Killed between the scores and the note of what they are made of; and then the change is taken back."""
    noted = Run(run).record["made_of"]
    cm.score_run(run, suite_options=["margin=0.9"])
    record = json.loads((run / "run.json").read_text())
    (run / "run.json").write_text(json.dumps(with_checksum(record | {"made_of": noted})))
    assert rescored(run, suite_options=["margin=0.1"])


@pytest.mark.thorough
@pytest.mark.pages
def test_a_report_is_written_only_where_something_it_shows_has_changed(run):
    opened = Run(run)
    assert not refresh_report(opened)
    (run / "report.html").write_text("changed")
    assert refresh_report(opened)
    opened.record_batch_size(3)
    assert refresh_report(opened)
    assert not refresh_report(opened)


@pytest.mark.thorough
@pytest.mark.pages
def test_a_report_of_a_damaged_run_is_written_again_when_it_is_mended(run):
    part = run / "samples" / "part-00000.parquet"
    whole = part.read_bytes()
    part.write_bytes(whole[:100])
    assert write_report(Run(run))  # says what is missing
    part.write_bytes(whole)
    assert refresh_report(Run(run))


def test_a_run_without_checksums_is_always_scored(run):
    as_of_format_1(run)
    for _ in range(2):
        with pytest.warns(UserWarning, match="format 1"):
            assert rescored(run)


def test_the_code_is_a_version_of_its_own():
    assert len(verification.versions()["clinometer"]) == 64


def test_what_was_kept_verifies(run):
    audit(run)
    assert api.verify_run(run) > 0
    assert pq.read_table(run / "scores.parquet").num_rows == len(cm.open_run(run).scores)


def test_a_finished_audit_that_is_repeated_builds_no_plan_and_reads_no_part(run, monkeypatch):
    audit(run)  # a copy's files have other stamps

    def never(*_, **__):
        raise AssertionError("a part was read, or a plan was built")

    monkeypatch.setattr("clinometer.pipeline.audits.build_plan", never)
    monkeypatch.setattr("clinometer.runs.storage.Directory.seal", never)
    monkeypatch.setattr(Samples, "part", never)
    assert audit(run).notes[-1].startswith(NOTHING_TO_DO)
    assert not rescored(run)
    with pytest.raises(AssertionError, match="plan"):
        audit(run, encoder=[Eye(), Eye("second")])


def test_what_was_touched_is_looked_into(run):
    audit(run)
    part = run / "samples" / "part-00000.parquet"
    content, times = part.read_bytes(), part.stat()
    other = run / vectors_name("eye", 0)
    kept, other_times = other.read_bytes(), other.stat()
    part.write_bytes(content)
    os.utime(part, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert not rescored(run)  # the same again
    audit(run)
    other.write_bytes((run / vectors_name("eye", 1)).read_bytes().ljust(len(kept))[: len(kept)])
    os.utime(other, ns=(other_times.st_atime_ns, other_times.st_mtime_ns))  # as large and as old as before
    with raises(RunCorruptError, code=Code.CORRUPT):
        audit(run)
    other.unlink()
    assert not audit(run).scored  # embedded again, bit for bit


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """Models in folders, a suite in a file, and a finished audit of them."""
    place = tmp_path_factory.mktemp("folders")
    few = toy_suite(target=1, attribute=1, concepts=2).model_dump(mode="json", exclude_none=True)
    (place / "few.yaml").write_text(yaml.safe_dump(few))
    models = {"model": str(tiny_stable_diffusion(place / "sd")), "encoder": str(tiny_clip(place / "clip"))}
    asked = quick.options(**models, suite=str(place / "few.yaml"), out=str(place / "run"), steps=1)
    quick.audit(**asked)
    return asked


@pytest.fixture
def loads(monkeypatch):
    """Whether an audit loads a model; it ends there."""

    def stop(*_, **__):
        raise KeyboardInterrupt

    def audit_and_tell(**asked):
        try:
            return quick.audit(**asked) is None
        except KeyboardInterrupt:
            return True

    monkeypatch.setattr("clinometer.pipeline.recipes.load_generator", stop)
    return audit_and_tell


def test_a_finished_audit_is_repeated_without_torch(folders):
    code = (
        "import sys, json; sys.modules['torch'] = None; import clinometer; clinometer.audit(**json.loads(sys.argv[1]))"
    )
    command = [sys.executable, "-c", code, json.dumps(folders)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_a_model_is_loaded_where_an_audit_asks_for_something_else(folders, loads, tmp_path):
    assert not loads(**folders)
    suite = yaml.safe_load(Path(folders["suite"]).read_text())
    (tmp_path / "few.yaml").write_text(yaml.safe_dump(suite | {"title": "Another"}))
    for other in ({"steps": 2}, {"seed": 1}, {"images": 2}, {"device": "cpu"}, {"suite": str(tmp_path / "few.yaml")}):
        assert loads(**folders | other), other
    for other in ({"retry_failed": True}, {"until": "decided"}, {"encoder": [folders["encoder"], Eye()]}):
        assert loads(**folders | other), other
    assert not loads(**folders)


def test_a_lora_is_among_what_is_asked(folders, tmp_path):
    file = tmp_path / "lora.safetensors"
    suite = load_suite(folders["suite"])

    def asked(**options):
        fields = {name: value for name, value in folders.items() if name in AuditRequest.model_fields}
        return _hash_asked(AuditRequest(**fields | {"model_options": options}), suite)

    assert asked(lora=str(file)) is None
    file.write_bytes(b"one")
    first, scaled = asked(lora=str(file)), asked(lora=str(file), lora_scale=0.5)
    assert len({None, asked(), first, scaled}) == 4
    file.write_bytes(b"other")
    assert asked(lora=str(file)) not in (None, first)


@pytest.mark.parametrize("kind", ["model", "encoder"])
def test_a_model_is_loaded_where_its_files_were_touched(folders, request, kind):
    quick.audit(**folders)
    loads = request.getfixturevalue("loads")
    assert not loads(**folders)
    weights = next(path for path in sorted(Path(folders[kind]).rglob("*.safetensors")))
    content, times = weights.read_bytes(), weights.stat()
    weights.write_bytes(content)
    os.utime(weights, ns=(times.st_atime_ns, times.st_mtime_ns))  # as large and as old as before
    assert loads(**folders)


def test_the_default_place_of_a_run_is_found_without_its_model(folders, loads, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    here = {name: value for name, value in folders.items() if name != "out"}
    assert loads(**here)
    shutil.copytree(folders["out"], "runs/sd-toy")
    assert loads(**here)  # a copy's files have other stamps
    monkeypatch.undo()
    monkeypatch.chdir(tmp_path)
    quick.audit(**here)
    monkeypatch.setattr("clinometer.pipeline.recipes.load_generator", None)
    assert quick.audit(**here).url.endswith("runs/sd-toy")


@pytest.mark.parametrize("content", [b"", b"no JSON", b"[]", b'{"checked": 5, "finished": []}'])
def test_stamps_that_say_nothing_are_passed_over(run, content):
    (run / verification.STAMPS).write_bytes(content)
    assert audit(run).notes[-1].startswith(NOTHING_TO_DO)


def test_a_run_that_lost_no_image_is_not_read_for_it_twice(run, monkeypatch):
    assert len(verification.lost_images(Run(run))) == 0
    monkeypatch.setattr(Samples, "part", None)
    assert len(verification.lost_images(Run(run))) == 0


def test_images_that_are_lost_are_told_each_time(tmp_path):
    audit(tmp_path / "run", model=Painter(refuse="men"))
    for _ in range(2):
        assert set(verification.lost_images(Run(tmp_path / "run")).status) == {"refused"}
