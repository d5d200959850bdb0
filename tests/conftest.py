"""The order of the tests, the examples of their properties, and the cores that each of several processes takes."""

from __future__ import annotations

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
def no_configuration_of_the_user(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """What whoever runs the tests has set for their own audits, and allowed, changes none of them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CONFIG_HOME", str(tmp_path_factory.getbasetemp() / "config"))
        yield


@pytest.fixture(scope="session", autouse=True)
def shared_folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Give :mod:`tests.quick` a folder for what all processes of a session share; only its callers read from there."""
    from tests import quick  # numpy, too, asks at once how many cores it may take

    base = tmp_path_factory.getbasetemp()
    yield from quick.share(base.parent if PROCESSES > 1 else base)


@pytest.fixture
def shortcuts() -> Iterator[None]:
    """Let a test compute with the shortcuts of :func:`tests.quick.shortcuts`."""
    from tests import quick

    with quick.shortcuts():
        yield


@pytest.fixture(scope="module")
def shortcuts_of_a_module() -> Iterator[None]:
    """Let all tests of a module, and what they share, compute with shortcuts."""
    from tests import quick

    with quick.shortcuts():
        yield
