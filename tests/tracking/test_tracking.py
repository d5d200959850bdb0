"""What is sent to trackers, and the trackers' own clients writing to local folders."""

import io
import json
import math
import os
import shutil
import struct
import subprocess
import sys

import pytest
from PIL import Image

import clinometer as cm
from clinometer.errors import Code, InvalidInputError
from clinometer.runs import NoProgress
from clinometer.tracking import clients, content
from clinometer.tracking.clients import Step, TrackedRun, require_trackers
from clinometer.tracking.content import _step_numbers, log_to, tracked
from tests.cli.conftest import cli
from tests.raising import raises

__all__ = ["cli"]


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("run") / "run"
    shutil.copytree("tests/fixtures/runs/leaning", folder)
    cm.score_run(folder, resamples=999)
    return cm.open_run(folder)


@pytest.fixture
def quiet(monkeypatch, tmp_path):
    """Keep every client on this machine and in this folder."""
    for name, value in {
        "WANDB_MODE": "offline", "WANDB_DIR": str(tmp_path), "TRACKIO_DIR": str(tmp_path / "trackio"),
        "MLFLOW_TRACKING_URI": f"sqlite:///{tmp_path}/mlflow.db", "MLFLOW_DISABLE_TELEMETRY": "true",
    }.items():  # fmt: skip
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_every_number_is_that_of_the_scores_with_its_interval(run):
    [sent] = tracked(run)
    [step] = sent.steps
    rows = run.scores.query("metric == 'mcas' and component == 'image_part' and encoder == 'mean'").set_index("concept")
    for concept, row in rows.iterrows():
        for end, column in (("", "value"), ("/low", "low"), ("/high", "high")):
            assert step.metrics[f"image_part/{concept}{end}"] == row[column]
    verdicts = {name: n for name, n in step.metrics.items() if name.startswith("verdicts/")}
    assert sum(verdicts.values()) == len(rows)
    assert step.number == step.metrics["images"] == (run.samples["status"] == "ok").sum()
    assert all(map(math.isfinite, step.metrics.values()))


def test_the_same_audit_has_the_same_identifier_wherever_it_lies(run, tmp_path):
    shutil.copytree(run.directory.path(""), tmp_path / "moved")
    assert tracked(cm.open_run(tmp_path / "moved"))[0].id == tracked(run)[0].id


def test_a_comparison_is_a_run_of_the_tracker(run, tmp_path):
    shutil.copytree(run.directory.path(""), tmp_path / "other")
    compared = cm.compare(run, tmp_path / "other")
    [sent] = tracked(compared)
    assert sent.id != tracked(run)[0].id
    shown = compared.table.query("value == value")
    assert len([name for name in sent.steps[0].metrics if name.startswith("magnitude")]) > 0
    assert len(sent.steps[0].metrics) >= len(shown.drop_duplicates(["component", "concept", "group", "setting"]))
    assert set(sent.steps[0].files) == {"comparison.csv", "comparison.html"}


@pytest.mark.parametrize(
    ("checkpoints", "expected"),
    [
        (["checkpoint-500", "checkpoint-1000"], [500, 1000]),
        (["step-20-final", "step-10-final"], [20, 10]),
        (["start", "end"], [0, 1]),
        (["a-1", "b-1"], [0, 1]),
    ],
)
def test_a_checkpoint_stands_at_the_number_of_its_name_where_each_has_its_own(run, checkpoints, expected):
    assert _step_numbers(checkpoints, run) == expected


def test_an_unknown_tracker_and_a_missing_client_are_refused_with_the_way_out(monkeypatch):
    with raises(InvalidInputError, code=Code.UNKNOWN_NAME, match=r"'mlfow', .*mlflow\[:"):
        require_trackers(["mlfow"])
    monkeypatch.setattr(clients.importlib.util, "find_spec", lambda name: None)
    with raises(InvalidInputError, code=Code.NOT_INSTALLED, match=r"clinometer\[wandb\]"):
        require_trackers(["wandb:team/project"])


def test_a_command_refuses_an_unknown_tracker_before_anything_is_drawn(cli, tmp_path):
    status, said = cli("audit", "--out", str(tmp_path / "run"), "--log-to", "nowhere")
    assert (status, cli.error.code) == (2, Code.UNKNOWN_NAME)
    assert "--log-to: found 'nowhere'" in said
    assert not (tmp_path / "run").exists()


@pytest.mark.thorough
def test_a_tracker_that_fails_costs_nothing_and_its_key_is_not_repeated(run, tmp_path, monkeypatch):
    (tmp_path / "file").write_text("no folder can be made here")
    before = {path: path.read_bytes() for path in sorted(tmp_path.rglob("*")) if path.is_file()}
    [problem] = log_to(run, [f"tensorboard:{tmp_path / 'file'}"], NoProgress())
    assert problem.startswith("tensorboard: not sent: ")
    assert "next command that is given --log-to" in problem
    assert {path: path.read_bytes() for path in before} == before
    [problem] = log_to(run, ["mlflow:nowhere://user:secret-of-mine@host"], NoProgress())
    assert "secret-of-mine" not in problem


def test_a_tracker_that_does_not_answer_is_given_up(run, monkeypatch, tmp_path):
    monkeypatch.setattr(content, "DEADLINE", 0.01)
    assert "no answer within 0.01 seconds" in log_to(run, [f"tensorboard:{tmp_path}"], NoProgress())[0]


def sent_by(name, target, run):
    """Send in this process's place, as ``log_to`` does, and fail with what the client said."""
    assert content._send(name, target, [run]) == ""


def two_steps():
    """Return a run at its first step, and the same when it has another."""
    png = tracked_picture()
    steps = [
        Step(n, {"image_part/nurse": n / 100, "images": float(n)}, {"Nurse": png}, {"scores.csv": b"a\n1\n"})
        for n in (20, 40)
    ]
    run = TrackedRun("0123456789abcdef" * 2, "toy", "painter toy seed 0", {"model": "painter", "seed": 0}, steps[:1])
    return run, TrackedRun(run.id, run.project, run.name, run.config, steps)


def tracked_picture():
    png = io.BytesIO()
    Image.new("RGB", (8, 8), "red").save(png, "PNG")
    return png.getvalue()


def by_tensorboard(place):
    from tensorboard.backend.event_processing.event_multiplexer import EventMultiplexer

    events = EventMultiplexer().AddRunsFromDirectory(str(place / "logs")).Reload()
    [name] = events.Runs()
    assert len(events.Images(name, "pictures/Nurse")) == 2
    return [(each.step, round(each.value, 6)) for each in events.Scalars(name, "image_part/nurse")]


def by_mlflow(place):
    from mlflow import MlflowClient

    client = MlflowClient()
    [there] = client.search_runs([client.get_experiment_by_name("toy").experiment_id])
    assert there.data.params == {"model": "painter", "seed": "0"}
    assert {each.path for each in client.list_artifacts(there.info.run_id, "files/40")} == {"files/40/scores.csv"}
    return [(each.step, each.value) for each in client.get_metric_history(there.info.run_id, "image_part/nurse")]


def by_wandb(place):
    from wandb.proto.wandb_internal_pb2 import Record

    points = []
    for file in sorted(place.glob("wandb/offline-run-*/*.wandb")):
        for data in stored_records(file.read_bytes()):
            values = {item.key or "/".join(item.nested_key): item for item in Record.FromString(data).history.item}
            if "image_part/nurse" in values:
                points.append((Record.FromString(data).history.step.num, float(values["image_part/nurse"].value_json)))
    return points


def stored_records(data):
    """Read a file of Weights & Biases, a log of LevelDB's: blocks of 32 KiB with parts of records, after 7 bytes."""
    at, whole = 7, b""
    while at < len(data):
        if (left := 32768 - at % 32768) < 7:  # no header fits: the block's end is padding
            at += left
            continue
        _, length, kind = struct.unpack_from("<IHB", data, at)
        whole += data[at + 7 : at + 7 + length]
        at += 7 + length
        if kind in (1, 4):  # a whole record, or the last part of one
            yield whole
            whole = b""


def by_trackio(place):
    told = """
import json, trackio
from trackio.sqlite_storage import SQLiteStorage
[run] = trackio.Api().runs("toy")
print(json.dumps([[each["step"], each["image_part/nurse"]] for each in SQLiteStorage.get_logs("toy", run.name)]))
"""
    said = subprocess.run(
        [sys.executable, "-c", told], capture_output=True, text=True, check=True, env=os.environ
    ).stdout
    return [tuple(point) for point in json.loads(said.splitlines()[-1])]


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("name", "target", "read"),
    [
        ("tensorboard", "logs", by_tensorboard),
        ("mlflow", "", by_mlflow),
        ("wandb", "", by_wandb),
        ("trackio", "", by_trackio),
    ],
)
def test_a_run_that_is_sent_again_goes_on_where_it_was(quiet, name, target, read):
    first, both = two_steps()
    for run in (first, first, both):
        sent_by(name, target, run)
    assert read(quiet) == [(20, 0.2), (40, 0.4)]
