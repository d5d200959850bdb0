"""What scoring holds of a run's vectors: little more than they take as float32, whatever is made of them."""

import gc
import tracemalloc

import pytest

from benchmarks.study_runs import make_study_run
from clinometer import _scratch
from clinometer.pipeline.results import score
from clinometer.runs import NoProgress
from clinometer.studies.editing.study import edits_of, gender_readings
from clinometer.studies.t2iat import ConceptMeasurer
from clinometer.studies.t2iat.study import t2iat_design, t2iat_embeddings

IMAGES, WIDTH = 4000, 768


def made_up(place, study, concepts):
    return make_study_run(place, study, IMAGES, concepts, part=400, width=WIDTH, side=8)


def peak_of(function, *arguments):
    """The most bytes that were held at once, beyond those that are held before.

    The least of three calls: the first also imports and remembers things, and threads of tests before this one may
    hold something of their own meanwhile.
    """
    peaks = []
    for _ in range(3):
        gc.collect()
        tracemalloc.start()
        function(*arguments)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    return min(peaks)


@pytest.mark.thorough
def test_vectors_of_edits_are_held_once(tmp_path):
    run = made_up(tmp_path / "run", "editing", 4)
    portraits = [sample for sample in run.plan if sample.role == "portrait"]
    edits = edits_of(run, run.suite, portraits)
    peak = peak_of(gender_readings, run, run.suite, "eye", portraits, edits)
    assert len(run.plan) * WIDTH * 4 <= peak < 1.5 * len(run.plan) * WIDTH * 4


@pytest.mark.thorough
def test_vectors_of_concepts_wait_outside_memory(tmp_path, monkeypatch):
    monkeypatch.setattr(_scratch, "IN_MEMORY", 2**20)
    run = made_up(tmp_path / "run", "t2iat", 10)

    def measure_each():
        embeddings = t2iat_embeddings(run, run.suite, "eye")
        measure = ConceptMeasurer([embeddings], t2iat_design(run.suite), 20, 0)
        return [measure(number) for number in range(10)]

    assert peak_of(measure_each) < len(run.plan) * WIDTH * 4


@pytest.mark.parametrize("study", ["leaning", "crossed", "editing", "t2iat", "classification"])
def test_every_made_up_run_can_be_scored(tmp_path, study):
    run = make_study_run(tmp_path / "run", study, 120, 2, part=16, width=8, side=8)
    run.record_options({"resamples": 50})
    assert len(score(run, NoProgress()))
