"""A run directory: its files as mappings and tables, sealed, and the lock that one process holds."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from clinometer._parquet import require_bounded
from clinometer.errors import RunCorruptError, RunNotFoundError, RunStorageError
from clinometer.runs.files import Files
from clinometer.runs.holding import hold
from clinometer.runs.seals import read_sealed, seal_of, sealed, unsealed

Check = Callable[[str | None], None]
"""Told the checksum that a file bears and has, or None, before a byte of it is interpreted."""

Shape = Callable[[pa.Table], None]
"""Told what a table holds; raises what it has against it."""

MOST_JSON: Final = 2**26
"""Of run.json and the like: it lists a file for each part."""

HOLDS_PIXELS: Final = re.compile(r"(samples|unfinished)/")
"""Names of files of which pixels may be most, so that they are left aside where nobody asks for them."""

LEFTOVER = re.compile(r"\..+\.(\d+|[0-9a-f]{32})\.tmp")
"""What a killed process was writing."""

REDO_MISSING = "Give the command that began the run again: only what is missing is done anew"
REDO = "Delete the file and give the command that began the run again: only this part is done anew"


class Directory(Files):
    """A run directory at a path or URL: its tables are sealed, and one process at a time holds it."""

    def remove_leftovers(self) -> None:
        """Remove what killed processes were writing; for the one that holds the directory, a local one."""
        if not self.is_local:
            return
        for leftover in Path(self.root).rglob(".*.tmp"):
            if LEFTOVER.fullmatch(leftover.name) and not leftover.is_dir():  # a folder is somebody else's
                with suppress(OSError):  # it does no harm
                    leftover.unlink(missing_ok=True)

    def write_json(self, name: str, content: dict[str, Any]) -> None:
        """Write a mapping as readable JSON."""
        self.write_bytes(name, json.dumps(content, indent=2, ensure_ascii=False).encode() + b"\n")

    def read_json(self, name: str) -> dict[str, Any]:
        """Read a mapping back."""
        try:
            content = json.loads(self.read_bytes(name, MOST_JSON))
            if isinstance(content, dict):
                return content
            fault = f"found {type(content).__name__}, expected a mapping"
        except RecursionError:
            fault = "not JSON that clinometer wrote (nested too deeply)"
        except ValueError as error:  # a number of thousands of digits is one, too
            fault = f"not JSON ({error})"
        raise RunCorruptError(f"{self.path(name)}: {fault}; restore it or start a new run")

    def write_table(self, name: str, table: pa.Table) -> str:
        """Write a table as Parquet, sealed. Returns its checksum."""
        content, checksum = sealed(table, name)
        self.write_bytes(name, content)
        return checksum

    def create_table(self, name: str, table: pa.Table) -> str | None:
        """Write a table, sealed, unless there is one. Returns its checksum, or None where there is one."""
        content, checksum = sealed(table, name)
        return checksum if self.create_bytes(name, content) else None

    def read_table(
        self,
        name: str,
        columns: list[str] | None = None,
        *,
        way_out: str = REDO,
        check: Check | None = None,
        shape: Shape | None = None,
        added: pa.Schema | None = None,
    ) -> pa.Table:
        """Read a Parquet table, or some of its columns.

        Of a sealed file all is read and hashed, but for pixels that are not asked for. ``check`` may refuse it too, by
        its checksum, and ``shape`` by what it holds. Columns of ``added`` are empty where the file has none.

        Raises
        ------
        RunCorruptError
            The file is not what was written, damaged, or has no such column: the message says which, and the way out;
            or it may not be read.
        """
        read = partial(self._read_table, name, columns, way_out=way_out, check=check, shape=shape, added=added)
        try:
            return read()
        except (RunCorruptError, RunNotFoundError):
            if self.inventory is None or not self.inventory.doubt(name):
                raise
        return read()  # without what a listing said: another process may have written the file since

    def _read_table(
        self,
        name: str,
        columns: list[str] | None,
        *,
        way_out: str,
        check: Check | None,
        shape: Shape | None,
        added: pa.Schema | None,
    ) -> pa.Table:
        pixels = columns is None or "image" in columns
        try:
            with self._kept_or_opened(name, pixels=pixels) as file:
                contents = read_sealed(file, name, pixels=pixels)
                if contents is not None and contents.seal != contents.checksum:
                    raise RunCorruptError(
                        f"{self.path(name)}: it is not what was written (checksum {contents.seal[:8]}…, found "
                        f"{contents.checksum[:8]}…). {way_out}"
                    )
                if check is not None:
                    check(None if contents is None else contents.checksum)
                table = _table(file if contents is None else pa.BufferReader(contents.buffer), columns, added)
            if contents is not None and contents.pixels[1] and self.inventory is not None:
                self.inventory.keep(name, contents.buffer, contents.pixels)
            if shape is not None:
                shape(table)
            return table
        except (RunCorruptError, RunNotFoundError, RunStorageError):
            raise
        except Exception as error:  # bytes that were damaged lead Arrow anywhere: to texts and numbers that are none
            message = " ".join(str(error).split()) or type(error).__name__
            raise RunCorruptError(f"{self.path(name)}: cannot be read ({message[:300]}). {way_out}") from error

    @contextmanager
    def _kept_or_opened(self, name: str, *, pixels: bool) -> Iterator[Any]:
        copy = self.inventory.kept(name) if self.inventory is not None and not pixels else None
        if copy is not None:
            yield copy
            return
        with self._opened(name, whole=pixels or not HOLDS_PIXELS.match(name)) as file:
            yield file

    def seal(self, name: str) -> str | None:
        """The checksum that a table carries; None where it carries none, or is not there."""
        try:
            with self._opened(name) as file:
                return seal_of(file)
        except (RunCorruptError, RunNotFoundError, OSError):
            return None

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the directory for one process.

        On this machine the lock is the operating system's, so it goes with the process however that ends. Other
        machines, and directories that know no locks, are kept out by a lease; see :mod:`clinometer.runs.leases`.

        Raises
        ------
        RunLockedError
            Another process holds it; the message says which.
        RunStorageError
            It cannot be made, or not be written.
        """
        with hold(self):
            yield


def _table(source: Any, columns: list[str] | None, added: pa.Schema | None) -> pa.Table:
    # In this thread alone: one of Arrow's that lets go of a Python file as the interpreter ends aborts the process,
    # after all its work is done (apache/arrow#34314).
    opened = pq.ParquetFile(source, pre_buffer=False, page_checksum_verification=True)
    there = opened.schema_arrow.names
    lost = [name for name in columns or () if name not in there]
    new = [field for field in added or () if field.name in lost]
    if len(lost) > len(new):  # which read() would pass over
        new_names = {field.name for field in new}
        raise pa.ArrowInvalid(f"it has no column {next(name for name in lost if name not in new_names)!r}")
    require_bounded(opened, source, columns)
    table = unsealed(opened.read(columns, use_threads=False))
    for field in new:
        table = table.append_column(field, pa.nulls(len(table), field.type))
    return table.select(columns) if new and columns else table
