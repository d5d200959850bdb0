"""Matrix products take one thread wherever a study computes: helpers that spin cost more than the products."""

from copy import copy
from dataclasses import dataclass
from importlib import import_module

import pytest
from threadpoolctl import threadpool_info, threadpool_limits

import clinometer as cm
from clinometer.pipeline.comparison import evidence_between
from clinometer.studies import study_of
from clinometer.studies.study import RunWork
from tests import quick
from tests.toys import Eye, Painter, toy_suite

COMPUTES = ("score", "compare", "open_concepts", "paired_evidence_of")
"""The fields of a study's record by which it multiplies matrices."""

SUITE = toy_suite(target=4, attribute=8, concepts=2)


@pytest.fixture(autouse=True)
def two_threads():
    with threadpool_limits(limits=2, user_api="blas"):
        yield


def blas_threads():
    return {library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"}


@pytest.fixture
def seen(monkeypatch):
    """How many threads there were wherever a study computed, by what it did."""
    found = {}

    def watched(name, function):
        def watch(*arguments, **options):
            found.setdefault(name, set()).update(blas_threads())
            return function(*arguments, **options)

        return watch

    def watched_study(suite):
        study = copy(study_of(suite))
        for name in COMPUTES:
            setattr(study, name, watched(name, getattr(study, name)))
        return study

    for module in ("pipeline.results", "pipeline.comparison", "pipeline.execution", "sweeps.outcome"):
        monkeypatch.setattr(import_module(f"clinometer.{module}"), "study_of", watched_study)
    return found


@pytest.mark.thorough
def test_a_study_computes_with_one_thread(tmp_path, seen):
    runs = [
        quick.audit(Painter(name=name), SUITE, tmp_path / name, encoder=Eye(), until="decided", images=10)
        for name in ("one", "other")
    ]
    assert seen.pop("score") == {1}
    cm.compare(*runs)
    evidence_between(*runs)
    grid = {"axes": {"suite": "toy", "model": "one", "seed": [0, 1]}}
    quick.sweep(grid, tmp_path / "sweep", models={"one": Painter(name="one")}, suites={"toy": SUITE}, encoder=Eye())
    assert seen == {name: {1} for name in COMPUTES}


@dataclass(frozen=True)
class Counting(RunWork):
    """Says how many threads there are while it begins, and while it makes a unit."""

    def on(self, run):
        begun = blas_threads()
        return lambda unit: (begun, blas_threads())


def test_a_worker_begins_with_one_thread_too(tmp_path):
    run = quick.audit(Painter(), SUITE, tmp_path / "run", encoder=Eye())
    assert Counting(run.url).open()((0,)) == ({1}, {1})
