"""The order of the tests, the examples of their properties, and the cores that each of several processes takes."""

from __future__ import annotations

import functools
import gc
import os
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest
from _pytest.doctest import DoctestModule
from hypothesis import settings

from clinometer._cores import available_cores

PROCESSES = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
if PROCESSES > 1:  # before torch is imported: processes that each take all cores slow each other down
    os.environ.setdefault("OMP_NUM_THREADS", str(max(1, available_cores() // PROCESSES)))

# the same examples everywhere, and no stopwatch: a loaded machine is no failure
settings.register_profile("clinometer", deadline=None, derandomize=True, max_examples=50)
settings.load_profile("clinometer")


class OnlyWritten:
    """Look for examples only in files that have some: to look, each is imported and all it holds is gone through."""

    @pytest.hookimpl(wrapper=True)
    def pytest_collect_file(self, file_path: Path) -> Generator[None, list[pytest.Collector], list[pytest.Collector]]:
        found = yield
        if any(isinstance(each, DoctestModule) for each in found) and b">>> " not in file_path.read_bytes():
            found = [each for each in found if not isinstance(each, DoctestModule)]
        return found


def pytest_configure(config: pytest.Config) -> None:
    """Register what is asked of files outside this folder, too."""
    config.pluginmanager.register(OnlyWritten())


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Slow tests first, so that in the end no process waits for another; each kind in its own order."""
    items.sort(key=lambda item: item.get_closest_marker("slow") is None)


def pytest_collection_finish() -> None:
    """What was imported and collected stays to the end, so the garbage collector need not look through it again."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session", autouse=True)
def no_wait_for_the_disk() -> Iterator[None]:
    """Files are not forced to the disk: no test cuts the power, and a killed process loses nothing it has written."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda file: None)
        yield


@pytest.fixture(scope="session", autouse=True)
def no_configuration_of_the_user(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """What whoever runs the tests has set for their own audits, and allowed, changes none of them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CONFIG_HOME", str(tmp_path_factory.getbasetemp() / "config"))
        yield


@pytest.fixture(scope="session", autouse=True)
def few_planned_runs() -> Iterator[None]:
    """Find ``n_decide`` of leanings, and plans, from few drawn runs of few sizes: a third of a small study's time.

    ``tests/stats/test_power.py`` asks of the numbers themselves, with as many runs and sizes as an audit draws.
    """
    from clinometer.stats.power import SIZES, ScoredPilot
    from clinometer.studies.leaning.scores import needed, rows

    with pytest.MonkeyPatch.context() as patch:
        for module in (needed, rows):
            patch.setattr(module, "ScoredPilot", functools.partial(ScoredPilot, runs=24))
        patch.setattr(needed, "SIZES", SIZES[::4])
        yield


@pytest.fixture(scope="session", autouse=True)
def toys_are_shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Let what is scored, and finished runs that nobody changes, be made once; see :mod:`tests.quick`."""
    from tests.quick import remember_rows, share_finished_runs  # numpy, too, asks at once how many cores it may take

    with pytest.MonkeyPatch.context() as patch:
        base = tmp_path_factory.getbasetemp()
        folder = base.parent if PROCESSES > 1 else base
        remember_rows(patch, folder / "rows")
        yield from share_finished_runs(folder / "finished")
