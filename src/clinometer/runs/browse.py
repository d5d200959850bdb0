"""Reading a run piece by piece, for those who look at its images: what is held at once does not grow with the run."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

import pyarrow.parquet as pq

from clinometer._parquet import require_bounded
from clinometer.errors import RunCorruptError
from clinometer.models.images import sha256
from clinometer.runs.asked_run import PLAN_LOST
from clinometer.runs.places import samples_name
from clinometer.runs.storage import REDO, Directory
from clinometer.runs.store import Run

RECORD: Final = "run.json"
_STAMPS: Final = ("size", "mtime", "LastModified", "last_modified", "updated", "ETag", "etag")
"""What filesystems say of a file that changes with it."""
_ROWS: Final = 8
"""Images read at once on the way to the one that is wanted."""
_BUFFER: Final = 1 << 20
_IMAGE: Final = ["id", "sha256", "image.bytes"]


@dataclass(frozen=True)
class Stored:
    """Where an image is in its run, and the hash of its bytes; empty where there is no image."""

    id: str
    part: int
    row: int
    sha256: str


def found_below(place: str, *, depth: int = 4, most_folders: int = 20_000) -> Iterator[Directory]:
    """Run directories at a place or below it, nearest first; hidden folders and links are not followed."""
    level, looked_at = [Directory(place)], 0
    for _ in range(depth + 1):
        below: list[Directory] = []
        for directory in level:
            looked_at += 1
            if _is_run(directory):
                yield directory
            elif looked_at <= most_folders:
                below += _folders_in(directory)
        level = below


def _is_run(directory: Directory) -> bool:
    """Whether a folder is a run; one of which that cannot be said is shown with the reason."""
    try:
        return directory.exists(RECORD)
    except RunCorruptError:
        return True


def _folders_in(directory: Directory) -> list[Directory]:
    try:
        entries = directory.fs.ls(directory.root, detail=True)
    except OSError:  # not a folder, or not readable
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
    stamps = []
    for name in (RECORD, "samples", "report.html"):
        with suppress(OSError):
            info = directory.fs.info(directory.path(name))
            stamps.append("/".join(str(info[key]) for key in _STAMPS if key in info))
    return " ".join(stamps)


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
        message = " ".join(str(error).split())[:200]
        raise RunCorruptError(f"{name}: cannot be read ({message}). {PLAN_LOST}") from error


def stored_in(run: Run, part: int) -> dict[str, Stored]:
    """Where the images of a part lie, by their ids; no pixels are read.

    Raises
    ------
    RunCorruptError, RunNotFoundError
        The part is not what was written, or is not there.
    """
    table = run.ledger.read_table(samples_name(part), ["id", "sha256"])
    rows = zip(table["id"].to_pylist(), table["sha256"].to_pylist(), strict=True)
    return {identifier: Stored(identifier, part, row, digest or "") for row, (identifier, digest) in enumerate(rows)}


def read_through(run: Run, part: int, rows: Collection[int]) -> Iterator[tuple[int, bytes | None]]:
    """The images of some rows of a part as they are stored, in order; the part is read once, a few rows at a time.

    Raises
    ------
    RunCorruptError
        One is not what was written, or the part cannot be read.
    """
    name, row_numbers, start = run.directory.path(samples_name(part)), set(rows), 0
    try:
        with run.directory.fs.open(name, "rb") as file:
            opened = pq.ParquetFile(file, pre_buffer=False, buffer_size=_BUFFER)
            require_bounded(opened, file, _IMAGE)
            for batch in opened.iter_batches(_ROWS, columns=_IMAGE, use_threads=False):
                for order in sorted(row_numbers & set(range(start, start + batch.num_rows))):
                    yield order, _checked(batch.slice(order - start, 1).to_pylist()[0], name)
                start += batch.num_rows
    except RunCorruptError:
        raise
    except Exception as error:
        raise _unreadable(name, error) from error


def _unreadable(name: str, error: Exception) -> RunCorruptError:
    """Damaged bytes lead Arrow to errors of many kinds."""
    message = " ".join(str(error).split())[:200] or type(error).__name__
    return RunCorruptError(f"{name}: cannot be read ({message}). {REDO}")


def stored_images(run: Run, part: int, row: int) -> dict[int, tuple[str | None, bytes | None]]:
    """A few images of a part as they are stored, by row, that of ``row`` among them: its id and its bytes, or None.

    Only one row group is read, and of that a few rows at a time as far as the one that is wanted.

    Raises
    ------
    RunCorruptError
        One is not what was written, or the part cannot be read.
    """
    name = run.directory.path(samples_name(part))
    try:
        with run.directory.fs.open(name, "rb") as file:
            opened = pq.ParquetFile(file, pre_buffer=False, buffer_size=_BUFFER)
            require_bounded(opened, file, _IMAGE)
            first, rows = _rows_around(opened, row)
    except Exception as error:
        raise _unreadable(name, error) from error
    return {first + order: (image["id"], _checked(image, name)) for order, image in enumerate(rows)}


def _checked(row: dict[str, Any], name: str) -> bytes | None:
    """A row's image, if it is the one that was written."""
    content: bytes | None = (row["image"] or {}).get("bytes")
    if content and sha256(content) != row["sha256"]:
        raise RunCorruptError(
            f"{name}: image {row['id']} is not the one that was written (its sha256 does not fit). {REDO}"
        )
    return content


def _rows_around(file: pq.ParquetFile, row: int) -> tuple[int, list[dict[str, Any]]]:
    """The few rows that are read together with one, and the number of the first."""
    start = 0
    for group in range(file.num_row_groups):
        n_rows = file.metadata.row_group(group).num_rows
        if row < start + n_rows:
            break
        start += n_rows
    for batch in file.iter_batches(_ROWS, row_groups=[group], columns=_IMAGE, use_threads=False):
        if row < start + batch.num_rows:
            return start, batch.to_pylist()
        start += batch.num_rows
    raise IndexError("it has fewer rows than it had")
