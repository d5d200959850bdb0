"""Reading a run piece by piece, for those who look at its images: what is held at once does not grow with the run."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import Final

import pyarrow.parquet as pq

from clinometer.errors import RunCorruptError
from clinometer.runs.storage import Directory
from clinometer.runs.store import PLAN_LOST, Run

RECORD: Final = "run.json"
_STAMPS: Final = ("size", "mtime", "LastModified", "last_modified", "updated", "ETag", "etag")
"""What filesystems say of a file that changes with it."""


def found_below(place: str, *, depth: int = 4, most_folders: int = 20_000) -> Iterator[Directory]:
    """Run directories at a place or below it, nearest first; hidden folders and links are not followed."""
    level, looked_at = [Directory(place)], 0
    for _ in range(depth + 1):
        below: list[Directory] = []
        for directory in level:
            looked_at += 1
            if directory.exists(RECORD):
                yield directory
            elif looked_at <= most_folders:
                below += _folders_in(directory)
        level = below


def _folders_in(directory: Directory) -> list[Directory]:
    try:
        entries = directory.fs.ls(directory.root, detail=True)
    except OSError:  # it is no folder, or may not be read
        return []
    names = sorted(
        entry["name"].rstrip("/").rsplit("/", 1)[-1]
        for entry in entries
        if entry["type"] == "directory" and not entry.get("islink")
    )
    base = directory.url.rstrip("/")
    return [Directory(f"{base}/{name}") for name in names if not name.startswith(".")]


def stamp_of(directory: Directory) -> str:
    """A text that changes when a run's record does, or when parts are added to it."""
    said = []
    for name in (RECORD, "samples", "report.html"):
        with suppress(OSError):
            info = directory.fs.info(directory.path(name))
            said.append("/".join(str(info[key]) for key in _STAMPS if key in info))
    return " ".join(said)


def planned_count(run: Run) -> int:
    """How many samples are planned, by the plan's footer alone.

    Raises
    ------
    RunCorruptError
        The plan is missing or damaged.
    """
    name = run.directory.path("plan.parquet")
    try:
        with run.directory.fs.open(name, "rb") as file:
            return int(pq.ParquetFile(file, pre_buffer=False).metadata.num_rows)
    except Exception as error:  # damaged bytes lead Arrow to errors of many kinds
        said = " ".join(str(error).split())[:200]
        raise RunCorruptError(f"{name}: cannot be read ({said}). {PLAN_LOST}") from error
