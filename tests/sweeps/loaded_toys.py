"""Toys that are loaded by their names, in any process: each load is a line of a file."""

from __future__ import annotations

import os
from pathlib import Path

from tests.sweeps.toy_sweeps import Shifted
from tests.toys import Eye

LOG = "CLINOMETER_TEST_LOADS"
POINTS = {
    "clinometer.generators": {"mobile": "load_mobile", "fixed": "load_fixed"},
    "clinometer.encoders": {"watching": "load_watching"},
}


class Mobile(Shifted):
    """A painter that can leave its device, and draws nowhere else."""

    weight_bytes = 1
    is_here = True

    def park(self):
        self.is_here = False

    def unpark(self):
        self.is_here = True

    def generate(self, requests):
        assert self.is_here
        yield from super().generate(requests)


def load_fixed(source, kind=Shifted, **options):
    """A painter; its name says how it leans."""
    note(source)
    return kind({"plain": 0.0, "far": 0.5}[source], name=source)


def load_mobile(source, **options):
    """The same, that can leave its device."""
    return load_fixed(source, Mobile)


def load_watching(source, **options):
    """An eye."""
    note(source)
    return Eye(source)


def note(what: str) -> None:
    with Path(os.environ[LOG]).open("a") as log:
        log.write(f"{os.getpid()} {what}\n")


def loads() -> dict[int, list[str]]:
    """What each process has loaded, in order."""
    found: dict[int, list[str]] = {}
    for line in Path(os.environ[LOG]).read_text().splitlines():
        process, what = line.split()
        found.setdefault(int(process), []).append(what)
    return found


def installed(folder: Path) -> None:
    """Have a package in a folder that offers these, to any process that looks there for packages."""
    package = folder / "loaded_toys-1.dist-info"
    package.mkdir()
    (package / "METADATA").write_text("Metadata-Version: 2.1\nName: loaded_toys\nVersion: 1\n")
    lines = [
        line
        for group, names in POINTS.items()
        for line in (f"[{group}]", *(f"{name} = {__name__}:{load}" for name, load in names.items()))
    ]
    (package / "entry_points.txt").write_text("\n".join(lines) + "\n")
