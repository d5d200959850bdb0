"""What workers measure of a run is scored to the same bits, whoever measures and whoever dies."""

import os
import shutil
import signal
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import clinometer as cm
from clinometer.errors import Code, EngineError, ModelError
from clinometer.pipeline import engines
from clinometer.pipeline.engines import Death, Done
from clinometer.pipeline.parallel import EnginePool
from clinometer.pipeline.results import score
from clinometer.runs import NoProgress
from clinometer.studies.editing.faces import Landmarks
from clinometer.studies.leaning.embeddings import encoder_embeddings, lazy_embeddings, target_sizes
from clinometer.studies.study import suite_of
from clinometer.suites import LeaningSuite
from tests.docs.pages import ROOT
from tests.pipeline.engine_toys import InTurn, audit, tables
from tests.raising import raises
from tests.toys import Eye, Notes

pytestmark = pytest.mark.usefixtures("shortcuts_of_a_module")

RUNS = ROOT / "tests/fixtures/runs"


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    return audit(tmp_path_factory.mktemp("finished") / "run", encoder=[Eye(), Eye("other eye")])


@pytest.fixture
def unscored(finished, tmp_path):
    """The same run, everything drawn and embedded, and no scores."""
    place = tmp_path / "run"
    shutil.copytree(finished.url, place)
    for name in ("scores.parquet", "scores.csv", "curves.parquet"):
        (place / name).unlink()
    return cm.open_run(place)


@dataclass(frozen=True)
class Watched:
    """Work that tells which process did it; a process dies of a unit while there are fewer deaths than asked for."""

    work: Any
    place: Path
    unit: tuple[int, ...] = ()
    times: int = 0

    def open(self):
        make = self.work.open()

        def watched(unit):
            if unit == self.unit and len(list(self.place.iterdir())) < self.times:
                (self.place / str(os.getpid())).touch()
                os.kill(os.getpid(), signal.SIGKILL)
            return os.getpid(), make(unit)

        return watched


class WatchedEngine:
    """An engine whose workers are watched while they measure."""

    def __init__(self, engine, place, **deadly):
        self.engine, self.workers, self.place, self.deadly = engine, engine.workers, place, deadly
        self.measured: dict[tuple[int, ...], int] = {}

    def map(self, work, units):
        self.place.mkdir(exist_ok=True)
        for event in self.engine.map(Watched(work, self.place, **self.deadly), units):
            if isinstance(event, Done):
                self.measured[event.unit], result = event.result
                yield Done(event.unit, result)
            else:
                yield event

    def close(self):
        self.engine.close()


@pytest.fixture
def workers(kept_workers):
    """Two processes."""
    return engines.LocalEngine(2)


@pytest.mark.thorough
def test_targets_are_measured_in_workers_and_one_that_is_killed_is_replaced(unscored, finished, workers, tmp_path):
    engine, notes = WatchedEngine(workers, tmp_path / "deaths", unit=(2,), times=1), Notes()
    cm.score_run(unscored.url, engine=engine, progress=notes)
    assert tables(cm.open_run(unscored.url)) == tables(finished)
    assert sorted(target for unit in engine.measured for target in unit) == [0, 1, 2, 3]
    assert os.getpid() not in engine.measured.values()
    (died,) = [message for message in notes.messages if "died" in message]
    assert died.startswith("a worker died over target 'concept 0.60' (")


class Fatal(InTurn):
    """Every worker dies of the third target."""

    def map(self, work, units):
        yield from super().map(work, [unit for unit in units if unit != (2,)])
        yield from (Death((2,), "killed", times) for times in (1, 2, 3))


def test_a_target_that_kills_three_workers_is_named_and_the_run_can_still_be_scored(unscored, finished):
    with raises(EngineError, code=Code.FAILED, field="engine", match=r"3 .*target 'concept 0\.60'"):
        cm.score_run(unscored.url, engine=Fatal(2))
    assert not (Path(unscored.url) / "scores.parquet").exists()
    cm.score_run(unscored.url)
    assert tables(cm.open_run(unscored.url)) == tables(finished)


def unscored_copy(place, study):
    """One of the kept runs without its scores."""
    shutil.copytree(RUNS / study, place)
    for name in ("scores.parquet", "curves.parquet"):
        (place / name).unlink()
    return cm.open_run(place)


def scored(run, engine=None):
    """The bytes of its scores and curves."""
    score(run, NoProgress(), pool=engine and EnginePool(engine, NoProgress()))
    return [run.directory.read_bytes(name) for name in ("scores.parquet", "curves.parquet")]


@pytest.mark.thorough
@pytest.mark.parametrize("study", ["leaning", "editing", "t2iat"])
def test_an_earlier_run_is_measured_to_the_same_bits_by_any_number_of_workers(tmp_path, study):
    alone = scored(unscored_copy(tmp_path / "alone", study))
    for workers in (1, 2, 7):
        engine, run = InTurn(workers), unscored_copy(tmp_path / str(workers), study)
        assert scored(run, engine) == alone
        assert len(set(engine.units)) >= min(workers, 2)


@pytest.mark.thorough
@pytest.mark.parametrize("study", ["editing", "t2iat"])
def test_a_worker_that_dies_over_portraits_or_concepts_is_replaced(tmp_path, workers, study):
    engine = WatchedEngine(workers, tmp_path / "deaths", unit=(1,), times=1)
    found = scored(unscored_copy(tmp_path / "run", study), engine)
    assert found == scored(unscored_copy(tmp_path / "alone", study))
    assert len(list((tmp_path / "deaths").iterdir())) == 1
    assert os.getpid() not in engine.measured.values()


def test_what_finds_landmarks_has_to_be_the_same_everywhere(tmp_path):
    run = unscored_copy(tmp_path / "run", "editing")
    with raises(ModelError, code=Code.MISMATCH, match=r"expected dlib 0; .*clinometer\[faces\]"):
        Landmarks(run.directory.place, "dlib 0").open()


def test_a_study_that_shares_nothing_is_scored_by_the_command(tmp_path):
    engine = InTurn(2)
    assert scored(unscored_copy(tmp_path / "run", "classification"), engine)
    assert engine.units == []


def test_vectors_of_targets_are_the_same_in_whatever_order_they_are_read(finished):
    """Parts of eight images hold targets of six, so a part that is read for one target serves two."""
    run, suite = cm.open_run(finished.url), suite_of(finished, LeaningSuite)
    whole, sizes = encoder_embeddings(run, suite, "eye"), target_sizes(run, suite, ())
    assert sizes == whole.target_images.sizes == (6,) * 4
    (lazy,) = lazy_embeddings(run, suite, ["eye"], sizes)
    for target in (3, 1, 0, 2):
        np.testing.assert_array_equal(lazy.target_images[target], whole.target_images[target])
        for rows in (1, 4, 6):
            pieces = list(lazy.target_images.pieces(target, rows))
            np.testing.assert_array_equal(np.concatenate(pieces), whole.target_images[target])
    for group, prompts in whole.group_images.items():
        for images, others in zip(prompts, lazy.group_images[group], strict=True):
            np.testing.assert_array_equal(images, others)
