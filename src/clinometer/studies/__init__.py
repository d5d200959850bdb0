"""The studies: each in a package of its own, which the rest of clinometer uses through one class.

A package offers a study by an entry point in the group ``clinometer.studies``: its name is the value of the key
``study`` in suites, and it names an object of a subclass of :class:`clinometer.studies.study.Study`. This package's own
are registered so in its ``pyproject.toml``.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Any, Final

from clinometer.errors import SuiteError

if TYPE_CHECKING:
    from clinometer.ratings import Rated
    from clinometer.runs import Run
    from clinometer.studies.study import Study
    from clinometer.suites import Suite

GROUP: Final = "clinometer.studies"


def study_names() -> list[str]:
    """Return names of the studies that are installed."""
    return sorted({entry.name for entry in entry_points(group=GROUP)})


@cache
def study_named(name: str) -> Study[Any]:
    """Load a study by its name.

    Raises
    ------
    SuiteError
        No study of that name is installed.
    """
    for entry in entry_points(group=GROUP, name=name):
        study: Study[Any] = entry.load()
        return study
    raise SuiteError.unknown_name(f"study {name!r}: none of that name is installed, found {', '.join(study_names())}")


def study_of(suite: Suite) -> Study[Any]:
    """Return the study of a suite."""
    return study_named(suite.study)


@cache
def component_names() -> Mapping[str, str]:
    """Return what people call components, as all installed studies say; of others their names with spaces will do."""
    return {name: words for study in study_names() for name, words in study_named(study).component_names.items()}


def rated_of(run: Run) -> Rated:
    """Return what people rate in a run, as its study says."""
    return study_of(run.suite).rated(run.suite)
