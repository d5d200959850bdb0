"""Models of a sweep drawn in rounds: each is loaded once in a process, where it can make room for the others."""

import os

import pytest

from clinometer.pipeline.audits import Workers
from clinometer.sweeps.sweep import SharedWorkers
from tests import quick
from tests.sweeps.loaded_toys import LOG, installed, loads
from tests.sweeps.toy_sweeps import record
from tests.toys import toy_suite

SUITES = {"toy": toy_suite(target=4, attribute=4, concepts=2)}
ENCODERS = ["watching:one", "watching:two"]
ROUNDS = 3
MOST = 20  # ten in the first round, five in each that follows


@pytest.fixture(autouse=True)
def package(tmp_path, monkeypatch):
    """The toys are installed, also for workers, and the file of loads is empty."""
    (tmp_path / "packages").mkdir()
    installed(tmp_path / "packages")
    monkeypatch.syspath_prepend(str(tmp_path / "packages"))
    monkeypatch.setenv(LOG, str(tmp_path / "loads"))


def swept(out, kind="mobile", **options):
    axes = {"suite": "toy", "model": [f"{kind}:plain", f"{kind}:far"], "seed": [0]}
    asked = {"axes": axes, "encoder": ENCODERS, "until": "decided", "images": MOST}
    found = quick.sweep(asked, out, suites=SUITES, **options)
    assert not found.failed
    levels = record(out)["rounds"]["toy"]["level"]
    assert max(levels.values()) == MOST
    return found


def parts(sweep):
    """What was found by each model; its seconds, and how it was asked for, are left out."""
    return {
        run.model_card["name"]: (
            run.directory.read_bytes("scores.parquet"),
            list(run.images(run.samples.id)),
            [{key: vector.tobytes() for key, vector in run.embeddings(name).items()} for name in ("one", "two")],
        )
        for run in sweep.runs.values()
    }


@pytest.mark.thorough
def test_a_process_loads_each_model_once_for_all_rounds(tmp_path):
    swept(tmp_path / "by-worker", workers=1)
    by_process = loads()
    assert len(by_process) == 2
    assert all(sorted(names) == ["far", "one", "plain", "two"] for names in by_process.values())
    assert os.getpid() in by_process


@pytest.mark.thorough
def test_those_that_cannot_leave_are_loaded_in_each_round_and_give_the_same(tmp_path, monkeypatch):
    mobile = swept(tmp_path / "mobile")
    assert sorted(loads()[os.getpid()]) == ["far", "one", "plain", "two"]
    monkeypatch.setenv(LOG, str(tmp_path / "loads of fixed ones"))
    fixed = swept(tmp_path / "fixed", "fixed")
    generators = [name for name in loads()[os.getpid()] if name in ("plain", "far")]
    assert generators == ["plain", "far"] * (ROUNDS + 1)  # and once more to score
    assert parts(fixed) == parts(mobile)


@pytest.mark.parametrize(("gpus", "engines"), [([], 1), (["0"], 2)])
def test_a_larger_model_has_other_workers_only_where_they_need_another_place(monkeypatch, gpus, engines):
    monkeypatch.setattr("clinometer.pipeline.engines.visible_gpus", lambda: gpus)
    monkeypatch.setattr("clinometer.pipeline.engines.gpu_table", dict)
    shared, opened = SharedWorkers(Workers("local", 1)), []
    for weights in (5, 8, 3, 8):
        with shared.opened("auto", weights) as engine:
            opened.append(engine)
    shared.close()
    assert len(set(map(id, opened))) == engines
    assert opened[1] is opened[2] is opened[3]
