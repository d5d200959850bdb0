"""Audits as most tests want them: intervals of 999 resamples, and no page, which is most of a toy audit's time.

A test or a module that reads pages is marked ``pages``; in it they are drawn. Whoever audits by this module computes
with :func:`shortcuts`; a test or a module that scores or compares without it asks for the fixture of that name.
"""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import functools
import hashlib
import os
import pickle
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pydantic import BaseModel

import clinometer as cm

RESAMPLES = 999
SMALL = 2_000_000
"""Bytes of what a study is given, over which its rows are not kept."""
_drawn = [False]
_folders: list[Path] = []
_made: dict[Path, dict[str, str]] = {}
_remembered: dict[str, list[Any]] = {}
_taken = [False]


@pytest.fixture(scope="module", autouse=True)
def pages_of_a_module(request: pytest.FixtureRequest) -> Iterator[None]:
    """Draw pages in what the tests of a marked module share."""
    yield from _pages(request)


@pytest.fixture(autouse=True)
def pages_of_a_test(request: pytest.FixtureRequest, pages_of_a_module: None) -> Iterator[None]:
    """Draw pages in a marked test."""
    yield from _pages(request)


def _pages(request: pytest.FixtureRequest) -> Iterator[None]:
    _drawn.append(request.node.get_closest_marker("pages") is not None)
    yield
    _drawn.pop()


def thorough_but(cases: Iterable[Any], *kept: Any) -> list[Any]:
    """Return cases for ``parametrize``, of which all but those that are kept are left to the thorough half."""
    return [case if case in kept else pytest.param(case, marks=pytest.mark.thorough) for case in cases]


def draws_pages() -> bool:
    """Tell whether the test that runs is marked ``pages``."""
    return _drawn[-1]


def options(**given: Any) -> dict[str, Any]:
    """Complete what is asked of an audit."""
    return {"resamples": RESAMPLES, "report": draws_pages()} | given


@contextlib.contextmanager
def shortcuts() -> Iterator[None]:
    """Shorten what hundreds of tests wait for and none of them asks about.

    - Files are not forced to the disk: no test cuts the power, and a killed process loses nothing it has written.
    - ``n_decide`` and plans follow from few drawn runs of few sizes: a third of a small study's time.
      ``tests/stats/test_power.py`` asks about the numbers themselves, with as many as an audit draws.
    - Rows of a study, or of readers, that were given the same before, in any process of the session, are those of
      before: they follow from the arguments alone, bit for bit, to which ``tests/studies`` and ``tests/metrics`` hold
      them.
    """
    from clinometer.readings import scores as readings
    from clinometer.stats.power import SIZES, ScoredPilot
    from clinometer.studies.classification import study as classification
    from clinometer.studies.editing import study as editing
    from clinometer.studies.leaning import pair_and_axes as leaning
    from clinometer.studies.leaning.scores import rows
    from clinometer.studies.t2iat import study as t2iat

    if _taken[-1]:
        yield
        return
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda file: None)
        patch.setattr(rows, "ScoredPilot", functools.partial(ScoredPilot, runs=24))
        patch.setattr(rows, "SIZES", SIZES[::4])
        for study, names in (
            (leaning, ("mcas_study", "crossed_study", "compare_leanings", "compare_intersections")),
            (t2iat, ("compare_t2iat",)),
            (editing, ("editing_study", "compare_edits")),
            (classification, ("classification_study", "compare_classifications")),
            (readings, ("reading_rows",)),
        ):
            for name in names:
                patch.setattr(study, name, remembered(getattr(study, name)))
        _taken.append(True)
        try:
            yield
        finally:
            _taken.pop()


@shortcuts()
def audit(*what: Any, **given: Any) -> cm.Run:
    """Audit a model, as :func:`clinometer.audit`."""
    return cm.audit(*what, **options(**given))


@shortcuts()
def finished(*what: Any, **given: Any) -> cm.Run:
    """Audit toys, or open the run of the test that asked the same of equal toys first, in any process of the session.

    Nobody changes it: whoever does takes a copy, and :func:`share` finds out who does not.
    """
    asked = options(**given)
    place = _folders[-1] / "finished" / hashlib.sha256(pickle.dumps(_plain((what, asked)))).hexdigest()
    if not place.exists():
        made = place.with_suffix(f".{os.getpid()}")
        cm.audit(*what, out=made, **asked)
        with contextlib.suppress(OSError):  # another process was faster
            made.rename(place)
        _made[place] = _contents(place)
    return cm.open_run(place)


def share(folder: Path) -> Iterator[None]:
    """Share rows and finished runs in a folder for as long as tests run; at the end the runs are as they were made."""
    (folder / "finished").mkdir(exist_ok=True)
    (folder / "rows").mkdir(exist_ok=True)
    _folders.append(folder)
    yield
    _folders.pop()
    changed = [str(place) for place, held in _made.items() if _contents(place) != held]
    assert not changed, f"tests changed finished runs that others read: {changed}"


def _contents(place: Path) -> dict[str, str]:
    files = (file for file in place.rglob("*") if file.is_file() and not file.name.startswith("."))
    return {str(file.relative_to(place)): hashlib.sha256(file.read_bytes()).hexdigest() for file in files}


@shortcuts()
def import_images(*what: Any, **given: Any) -> cm.Run:
    """Audit finished images, as :func:`clinometer.import_images`."""
    return cm.import_images(*what, **options(**given))


@shortcuts()
def sweep(grid: Any, *what: Any, **given: Any) -> Any:
    """Audit a grid, as :func:`clinometer.sweep`; a file says itself what it asks."""
    return cm.sweep(options(**grid) if isinstance(grid, Mapping) else grid, *what, **given)


def remembered(study: Callable[..., list[Any]]) -> Callable[..., list[Any]]:
    """Return a study that takes the rows which equal arguments gave before, in any process of the session.

    It computes with the other shortcuts, too: what is kept must not depend on who asked first.
    """

    @functools.wraps(study)
    @shortcuts()
    def rows(*given: Any, **settings: Any) -> list[Any]:
        told = {name: value for name, value in settings.items() if name != "store"}
        try:
            content = pickle.dumps((study.__name__, _plain((given, told))))
        except TypeError:  # something that is read as it is used
            return study(*given, **settings)
        if len(content) > SMALL or not _folders:  # a program that a test runs shares none
            return study(*given, **settings)
        key = hashlib.sha256(content).hexdigest()
        place = _folders[-1] / "rows" / key
        if key not in _remembered:
            made = pickle.loads(place.read_bytes()) if place.exists() else study(*given, **settings)
            _remembered[key] = [_with_one_nan(row) for row in made]
        if not place.exists():
            unnamed = place.with_suffix(f".{os.getpid()}")
            unnamed.write_bytes(pickle.dumps(_remembered[key]))
            unnamed.replace(place)
        return copy.copy(_remembered[key])

    return rows


def _with_one_nan(row: Any) -> Any:
    """Return the row with ``np.nan`` where it has another NaN: dataclasses are equal only where a NaN is the same."""
    fields = {field.name: getattr(row, field.name) for field in dataclasses.fields(row)}
    unlike = [name for name, each in fields.items() if isinstance(each, float) and np.isnan(each)]
    return dataclasses.replace(row, **dict.fromkeys(unlike, np.nan))


def _plain(value: Any) -> Any:
    """Take apart what arguments hold, arrays that are read when they are asked for among them: equal where they are."""
    if isinstance(value, np.ndarray):
        return str(value.dtype), value.shape, value.tobytes()
    if isinstance(value, BaseModel):
        return type(value).__name__, value.model_dump_json()
    if type(value).__module__.startswith("tests.") and "<locals>" not in type(value).__qualname__:  # a toy
        return type(value).__module__, type(value).__qualname__, _plain(vars(value))
    if dataclasses.is_dataclass(value):
        return type(value).__name__, [_plain(getattr(value, field.name)) for field in dataclasses.fields(value)]
    if isinstance(value, Mapping):
        return [(name, _plain(each)) for name, each in value.items()]
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_plain(each) for each in value]
    if not isinstance(value, str | int | float | np.generic | None):
        raise TypeError(type(value))
    return type(value).__name__, repr(value)
