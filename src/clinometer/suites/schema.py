"""Reading suites: a YAML file, data and no code, checked once against the shape that its study asks for.

``load_suite`` reads one by name (a built-in) or by path. Unknown keys, missing groups, empty sets and duplicate names
are errors that name the file and the field.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from importlib import resources
from importlib.metadata import entry_points
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any, Final

from clinometer._messages import did_you_mean, quoted, shortened
from clinometer.errors import SuiteError
from clinometer.suites.base import Suite
from clinometer.suites.classification import ClassificationSuite
from clinometer.suites.counts import CountsSuite
from clinometer.suites.editing import EditingSuite
from clinometer.suites.leaning import LeaningSuite
from clinometer.suites.lists import suite_from_list, suite_from_scenarios
from clinometer.suites.safe_yaml import read_text, read_yaml
from clinometer.suites.steerability import SteerabilitySuite
from clinometer.suites.t2iat import T2iatSuite
from clinometer.suites.weat import WeatSuite

SHAPES: Final[dict[str, type[Suite]]] = {
    "leaning": LeaningSuite,
    "t2iat": T2iatSuite,
    "editing": EditingSuite,
    "classification": ClassificationSuite,
    "weat": WeatSuite,
    "counts": CountsSuite,
    "steerability": SteerabilitySuite,
}
"""The shape of a suite by its key ``study``."""

STUDIES: Final = "clinometer.studies"
"""The entry points of studies, those of other packages too: each names a record with a field ``suite``."""

SUITES: Final = "clinometer.suites"
"""The entry points of packages with suites."""

DEFAULT_STUDY: Final = "leaning"

_PACKAGE: Final = resources.files("clinometer.suites")

_EARLIER_NAMES: Final = {"association": "t2iat"}
"""What studies were called in suites and runs of earlier versions."""


def suite_names() -> list[str]:
    """Return the names of the built-in suites; those in a folder are named ``folder/suite``."""
    return sorted(_data_names(_PACKAGE / "data"))


def installed_suites() -> dict[str, Traversable]:
    """Return the files of other packages' suites by name: the entry point's name, a slash, and the file's.

    An entry point in the group ``clinometer.suites`` names a package that holds YAML files. One that cannot be imported
    has none.
    """
    suites: dict[str, Traversable] = {}
    for point in entry_points(group=SUITES):
        with suppress(Exception):  # importing a package runs it
            folder = resources.files(point.value)
            suites |= {name: folder.joinpath(f"{name.partition('/')[2]}.yaml")
                       for name in _data_names(folder, f"{point.name}/")}  # fmt: skip
    return suites


def _data_names(folder: Traversable, prefix: str = "") -> Iterator[str]:
    for entry in folder.iterdir():
        if entry.is_dir():
            yield from _data_names(entry, f"{prefix}{entry.name}/")
        elif entry.name.endswith(".yaml"):
            yield prefix + entry.name.removesuffix(".yaml")


def write_scaffold(file: str | Path) -> None:
    """Write a suite to begin with: whole, commented, and in words that the reference model knows.

    Raises
    ------
    SuiteError
        The file is there already, or cannot be written.
    """
    path, text = Path(file), (_PACKAGE / "scaffold.yaml").read_text(encoding="utf-8")
    try:
        with path.open("x", encoding="utf-8", newline="") as written:
            written.write(text)
    except FileExistsError as error:
        raise SuiteError.already_exists(f"{path}: it is there already; give another file") from error
    except (OSError, ValueError) as error:
        raise SuiteError.storage(f"{path}: cannot be written: {getattr(error, 'strerror', None) or error}") from error


def load_suite(suite: str | Path | Suite) -> Suite:
    """Read a built-in suite by name, a suite file by path, an installed package's by name, or another audit's list.

    Which these are, :mod:`clinometer.suites.lists` says.

    Raises
    ------
    SuiteError
        There is no such suite, or it says something it must not: the message names the file and the field.
    """
    if isinstance(suite, Suite):
        return suite
    if str(suite) in suite_names():
        return _built_in(str(suite))
    path = Path(suite)
    try:
        if path.suffix.lower() == ".csv":
            return suite_from_mapping(suite_from_list(path, _groups_of_mcas()), source=str(path))
        data = read_yaml(text := read_text(path), source=str(path))
        if "scenarios" in data and "study" not in data:
            data, text = suite_from_scenarios(data, _groups_of_mcas(), source=str(path)), ""
        read = suite_from_mapping(data, source=str(path), text=text)
        if read.reference is not None:  # of a quick look at few concepts it may have none
            read.reference.require_fit(read.concept_names(), f"{path}, reference")
        return read
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError) as error:
        installed = installed_suites()
        if (name := str(suite)) in installed:
            return suite_from_text(installed[name].read_text(encoding="utf-8"), source=f"suite {name}")
        name, known = shortened(name, 200), [*suite_names(), *installed]
        hint = " ".join(filter(None, (did_you_mean(name, known, most=3), '"clinometer suites" lists them')))
        raise SuiteError.unknown_name(f"no suite named {name!r}: it is neither a file nor built in; {hint}") from error
    except (OSError, ValueError) as error:  # a NUL in its name is a ValueError, as is what is no UTF-8
        raise SuiteError.not_text(f"{path}: cannot be read as text: {error}") from error


@cache
def _built_in(name: str) -> Suite:
    """Return a suite of the package, parsed once: a suite does not change."""
    return suite_from_text(
        _PACKAGE.joinpath("data", f"{name}.yaml").read_text(encoding="utf-8"), source=f"suite {name}"
    )


def _groups_of_mcas() -> dict[str, Any]:
    return load_suite("mcas").model_dump(include={"groups", "axis"})


def suite_from_text(text: str, *, source: str) -> Suite:
    """Parse and check a suite. ``source`` is what an error calls it."""
    return suite_from_mapping(read_yaml(text, source=source), source=source, text=text)


def suite_from_mapping(data: dict[str, Any], *, source: str, text: str = "") -> Suite:
    """Check a suite that is already a mapping. Without the key ``study`` it is a leaning study.

    ``source`` is what an error calls it, ``text`` the YAML that it was read from, whose lines the error names.
    """
    study = data.get("study", DEFAULT_STUDY)
    shape: type[Suite] | None = None
    if isinstance(study, str):
        if study in _EARLIER_NAMES:
            study = _EARLIER_NAMES[study]
            data = data | {"study": study}
        shape = SHAPES.get(study) or next(
            (entry.load().suite for entry in entry_points(group=STUDIES, name=study)), None
        )
    if shape is None:
        studies = dict.fromkeys([*SHAPES, *(entry.name for entry in entry_points(group=STUDIES))])
        raise SuiteError.unknown_name(f"{source}: study: found {quoted(study)}, expected one of {', '.join(studies)}")
    return shape.checked(data, source=source, text=text)
