"""A run directory: its files as mappings and tables, sealed, and the lock that one process holds."""

from __future__ import annotations

import hashlib
import re
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from threading import Lock
from typing import Any, Final, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from clinometer._memory import memory
from clinometer._parquet import require_bounded
from clinometer.errors import RunCorruptError, RunNotFoundError, RunStorageError
from clinometer.runs.files import Files
from clinometer.runs.leases import hold

Check = Callable[[str | None], None]
"""Called with the checksum that a file has, or None, before a byte of it is interpreted."""

Shape = Callable[[pa.Table], None]
"""Called with a table; raises what is wrong with it."""

HOLDS_PIXELS: Final = re.compile(r"(samples|unfinished)/")
"""Names of files that may be mostly pixels, which are not read unless they are asked for."""

LEFTOVER = re.compile(r"\..+\.(\d+|[0-9a-f]{32})\.tmp")
"""What a killed process was writing."""

REDO_MISSING = "Give the command that began the run again: only what is missing is done again"
REDO = "Delete the file and give the command that began the run again: only this part is done again"


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

    def write_table(self, name: str, table: pa.Table) -> str:
        """Write a table as Parquet, sealed. Returns its checksum."""
        content, checksum = sealed(table, name)
        self.write_bytes(name, content)
        return checksum

    def create_table(self, name: str, table: pa.Table) -> str | None:
        """Write a table, sealed, unless there is one. Returns its checksum, or None where there is one."""
        content, checksum = sealed(table, name)
        return checksum if self.create_bytes(name, content) else None

    def read_table(self, name: str, columns: list[str] | None = None, **how: Any) -> pa.Table:
        """Read a Parquet table, or some of its columns; keywords as for :meth:`_read_table`.

        Raises
        ------
        RunCorruptError
            The file is not what was written, damaged, or has no such column: the message says which, and the way out;
            or it may not be read.
        """
        try:
            return self._read_table(name, columns, **how)
        except (RunCorruptError, RunNotFoundError):
            if self.inventory is None or not self.inventory.doubt(name):
                raise
        # without what a listing said: another process may have written the file since
        return self._read_table(name, columns, **how)

    def _read_table(
        self,
        name: str,
        columns: list[str] | None,
        *,
        way_out: str = REDO,
        check: Check | None = None,
        shape: Shape | None = None,
        added: pa.Schema | None = None,
    ) -> pa.Table:
        """Read a table. Of a sealed file all is read and hashed, but for pixels that are not asked for.

        ``check`` may refuse it by its checksum, and ``shape`` by what it holds. Columns of ``added`` are empty where
        the file has none.
        """
        pixels = columns is None or "image" in columns
        opened = partial(self._opened, name, whole=pixels or not HOLDS_PIXELS.match(name))
        copy = self.inventory.kept(name) if self.inventory is not None and not pixels else None
        with self._naming_damage(name, way_out), opened() if copy is None else nullcontext(copy) as file:
            contents = self._require_sealed(file, name, way_out, check, pixels=pixels)
            if contents is None:
                table = _table(file, columns, added)
            else:  # or the one that the same bytes gave before: a page asks for a table a dozen times
                names = (None if each is None else tuple(each) for each in (columns, added and added.names))
                key = (contents.checksum, *names)
                if (table := _READ.get(key)) is None:
                    table = _table(pa.BufferReader(contents.buffer), columns, added)
                    _READ.keep(key, table)
                if contents.pixels[1] and self.inventory is not None:
                    self.inventory.keep(name, contents.buffer, contents.pixels)
            if shape is not None:
                shape(table)
            return table

    def read_batches(
        self, name: str, columns: list[str], rows: int, *, way_out: str = REDO, check: Check | None = None
    ) -> Iterator[pa.RecordBatch]:
        """Yield some columns of a table, at most so many ``rows`` at a time, for those who want a few of its images.

        All but the pixels is hashed first, as by :meth:`read_table`. Pixels are read as far as the caller goes, so
        their common hash says nothing: the caller compares each image with its own.
        """
        with self._naming_damage(name, way_out), self._opened(name, in_blocks=True) as file:
            self._require_sealed(file, name, way_out, check, pixels=False)
            opened = pq.ParquetFile(file, pre_buffer=False, buffer_size=_BUFFER)
            require_bounded(opened, file, columns)
            yield from opened.iter_batches(rows, columns=columns, use_threads=False)

    def count_rows(self, name: str, *, way_out: str = REDO) -> int:
        """Return how many rows a table has by its footer alone, which is all that is read."""
        with self._naming_damage(name, way_out), self._opened(name, in_blocks=True) as file:
            return int(pq.read_metadata(file).num_rows)

    def _require_sealed(
        self, file: Any, name: str, way_out: str, check: Check | None, *, pixels: bool
    ) -> Contents | None:
        """Read and hash a table, and refuse one that does not fit its seal or ``check``; None of one without a seal."""
        contents = read_sealed(file, name, pixels=pixels)
        if contents is not None and contents.seal != contents.checksum:
            raise RunCorruptError(
                f"{self.path(name)}: it is not what was written (checksum {contents.seal[:8]}…, found "
                f"{contents.checksum[:8]}…). {way_out}"
            )
        if check is not None:
            check(None if contents is None else contents.checksum)
        return contents

    @contextmanager
    def _naming_damage(self, name: str, way_out: str) -> Iterator[None]:
        """Raise whatever damaged bytes lead Arrow to as an error that names the file and the way out."""
        try:
            yield
        except (RunCorruptError, RunNotFoundError, RunStorageError):
            raise
        except Exception as error:  # bytes that were damaged lead Arrow anywhere: to texts and numbers that are none
            message = " ".join(str(error).split()) or type(error).__name__
            raise RunCorruptError(f"{self.path(name)}: cannot be read ({message[:300]}). {way_out}") from error

    def seal(self, name: str) -> str | None:
        """Return the checksum that a table carries; None where it carries none, or is not there."""
        try:
            with self._opened(name) as file:
                return seal_of(file)
        except (RunCorruptError, RunNotFoundError, OSError):
            return None

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Lock the directory for one process.

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


class _LastRead:
    """Small tables that were read last, by the checksum that their bytes were just found to have, up to a size."""

    def __init__(self, most: int, largest: int) -> None:
        self._most, self._largest, self._held, self._lock = most, largest, 0, Lock()
        self._tables: OrderedDict[tuple[object, ...], tuple[pa.Table, int]] = OrderedDict()

    def get(self, key: tuple[object, ...]) -> pa.Table | None:
        with self._lock:
            if key not in self._tables:
                return None
            self._tables.move_to_end(key)
            return self._tables[key][0]

    def keep(self, key: tuple[object, ...], table: pa.Table) -> None:
        size = max(table.nbytes, 2**12)
        if size > self._largest:
            return
        with self._lock:
            if key not in self._tables:
                self._tables[key], self._held = (table, size), self._held + size
            while self._held > self._most:
                self._held -= self._tables.popitem(last=False)[1][1]


_READ: Final = _LastRead(most=2**25, largest=2**18)
"""A comparison reads a thousand parts ten times."""


def _table(source: Any, columns: list[str] | None, added: pa.Schema | None) -> pa.Table:
    # In this thread alone: one of Arrow's that lets go of a Python file as the interpreter ends aborts the process,
    # after all its work is done (apache/arrow#34314). It happened to 63 of 600 processes that read three small tables.
    # Pages of tables from before there were seals may have checksums; those of a sealed table have been hashed.
    is_sealed = isinstance(source, pa.BufferReader)
    opened = pq.ParquetFile(source, pre_buffer=False, page_checksum_verification=not is_sealed)
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


# --- Seals: a Parquet file that carries the checksum of what it held when it was written -----------------------------
#
# A part is renamed into place at once, so its checksum cannot lie elsewhere without a moment in which a kill parts the
# two. It lies in the file's own footer, as a key-value pair::
#
#     clinometer.seal = "sha256 <64 hexadecimal digits> apart <first byte>-<byte after the last> <64 digits>"
#
#     checksum = SHA-256(name in the run directory, 0x00, the file's bytes but for those apart, its digits as zeros)
#
# The bytes apart are the pixels of a part of samples, so that scoring need not read them. The seal ends with their own
# SHA-256, which the checksum covers. The name is part of it, so that one encoder's file is not taken for another's.


IMAGE: Final = "image"


KEY: Final = "clinometer.seal"
PIXELS: Final = "image.bytes"
"""The column that lies apart, as Parquet names it."""

_BLANK: Final = b"0" * 64
_FORM: Final = re.compile(rb"sha256 ([0-9a-f]{64}) apart (\d{20})-(\d{20}) ([0-9a-f]{64})")
_TAIL: Final = 1 << 16
"""Bytes read first, from the end: of most files that is the whole footer, of many the whole file."""

_BUFFER: Final = 1 << 20
"""Bytes of a column that are read at once where its rows are read a few at a time."""

_LARGE: Final = 1 << 28
"""Bytes that are read without asking what they are."""


class _File(Protocol):
    def seek(self, offset: int, whence: int = 0, /) -> int: ...
    def read(self, size: int = -1, /) -> bytes: ...


@dataclass(frozen=True)
class Contents:
    """A sealed file as it was read.

    Attributes
    ----------
    buffer : its bytes; zeros in place of the pixels where those were not asked for.
    seal : the checksum that it carries; of its pixels, where they alone are others.
    checksum : that it has, likewise.
    pixels : where they lie, first byte and the byte after the last; nowhere in a file without pixels.
    """

    buffer: pa.Buffer
    seal: str
    checksum: str
    pixels: tuple[int, int]


def sealed(table: pa.Table, name: str) -> tuple[memoryview, str]:
    """Return a table as the bytes of a sealed Parquet file that will have this name, and the checksum."""
    options: dict[str, Any] = {"compression": "zstd"}
    if IMAGE in table.schema.names:
        # A PNG is compressed already. To try again, to look for the same image twice and to note the smallest one takes
        # twice the time and holds five more copies of a part.
        others = [column for column in table.schema.names if column != IMAGE]
        kinds = {f"{IMAGE}.bytes": "none", f"{IMAGE}.path": "zstd"} | dict.fromkeys(others, "zstd")
        options = {"compression": kinds, "use_dictionary": others, "write_statistics": others}
    sink = pa.BufferOutputStream()
    with pq.ParquetWriter(sink, table.schema, **options) as writer:
        writer.write_table(table)
        # of a fixed length: the places are filled in when they are known
        writer.add_key_value_metadata({KEY: f"sha256 {_BLANK.decode()} apart {0:020d}-{0:020d} {_BLANK.decode()}"})
    content = memoryview(bytearray(sink.getvalue()))
    low, high = _apart(content)
    at = _seal_in(content)
    assert at is not None  # just written
    pixels = hashlib.sha256(content[low:high]).hexdigest()
    content[at.start(2) : at.end(4)] = b"%020d-%020d %b" % (low, high, pixels.encode())
    checksum = _checksum(name, content, low, high, at.start(1))
    content[at.start(1) : at.end(1)] = checksum.encode()
    return content, checksum


def read_sealed(file: _File, name: str, *, pixels: bool) -> Contents | None:
    """Read a file once and hash what is read; None where it bears no seal. Nothing of it is interpreted before."""
    size = file.seek(0, 2)
    tail_at = max(0, size - _TAIL)
    file.seek(tail_at)
    tail = file.read(size - tail_at)
    at = _seal_in(memoryview(tail))
    if at is None:
        return None
    low, high = min(int(at[2]), size), min(int(at[3]), size)
    if size - (0 if pixels else max(0, high - low)) > _LARGE:
        # A large file of which the columns are but a part has a hole; and memory may not hold it.
        metadata = pq.read_metadata(file)
        groups = [metadata.row_group(number) for number in range(metadata.num_row_groups)]
        columns = sum(group.column(n).total_compressed_size for group in groups for n in range(group.num_columns))
        if size - columns - metadata.serialized_size > _LARGE // 64:
            raise ValueError(f"its columns take {columns:,} of {size:,} bytes")
        if size > (there := memory().available):
            raise ValueError(f"it takes {size:,} bytes of memory, and {there:,} are free")
    content = np.zeros(size, np.uint8).data  # zeros take no memory until they are written over
    content[tail_at:] = tail
    for start, stop in [(0, tail_at)] if pixels else [(0, min(low, tail_at)), (high, tail_at)]:
        _fill(content[start:stop], file, start)
    seal, checksum = at[1].decode(), _checksum(name, content, low, max(low, high), tail_at + at.start(1))
    if pixels and seal == checksum:
        pixels_checksum = hashlib.sha256(content[low:high]).hexdigest()
        if pixels_checksum != at[4].decode():
            seal, checksum = at[4].decode(), pixels_checksum
    return Contents(pa.py_buffer(content), seal, checksum, (low, max(low, high)))


def seal_of(file: _File) -> str | None:
    """Return the checksum that a file carries, without a look at the rest of it."""
    size = file.seek(0, 2)
    tail_at = max(0, size - _TAIL)
    file.seek(tail_at)
    at = _seal_in(memoryview(file.read(size - tail_at)))
    return at[1].decode() if at is not None else None


def unsealed(table: pa.Table) -> pa.Table:
    """Return a table without the seal among its metadata: what is made of it is another."""
    metadata = {key: value for key, value in (table.schema.metadata or {}).items() if key != KEY.encode()}
    return table.replace_schema_metadata(metadata or None)


def _seal_in(tail: memoryview) -> re.Match[bytes] | None:
    """Return the seal among a file's last bytes. The last of them counts: what the table says stands before it."""
    return next(reversed(list(_FORM.finditer(tail))), None)


def _checksum(name: str, content: memoryview, low: int, high: int, digits: int) -> str:
    hasher = hashlib.sha256(name.encode() + b"\0")
    for piece in (content[:low], content[high:digits], _BLANK, content[digits + len(_BLANK) :]):
        hasher.update(piece)
    return hasher.hexdigest()


def _apart(content: memoryview) -> tuple[int, int]:
    """Return where the pixels lie, first byte and the byte after the last; 0 and 0 where they are not in one piece."""
    metadata = pq.read_metadata(pa.BufferReader(pa.py_buffer(content)))
    if metadata.num_row_groups == 1:
        group = metadata.row_group(0)
        for column in map(group.column, range(group.num_columns)):
            if column.path_in_schema == PIXELS:
                start = column.dictionary_page_offset if column.has_dictionary_page else column.data_page_offset
                return start, start + column.total_compressed_size
    return 0, 0


def _fill(place: memoryview, file: _File, start: int) -> None:
    """Read bytes of a file into their place."""
    file.seek(start)
    done = 0
    while done < len(place):
        piece = file.read(len(place) - done)
        if not piece:
            raise EOFError("it ends early")
        place[done : done + len(piece)] = piece
        done += len(piece)
