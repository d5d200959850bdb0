"""Files of a run directory: written whole or not at all, on any filesystem that fsspec knows."""

from __future__ import annotations

import errno
import json
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from filelock import FileLock, Timeout
from fsspec.core import url_to_fs
from fsspec.implementations.local import LocalFileSystem

from clinometer.errors import RunCorruptError, RunLockedError, RunNotFoundError, RunStorageError
from clinometer.runs.parquet import writing_options

local_path = LocalFileSystem._strip_protocol
"""A path made absolute, with ``~`` read."""

REDO = "Delete the file and give the command that began the run again: only this part is done anew"


class Directory:
    """A directory at a path or URL. Every write goes to a temporary name first and is then renamed."""

    def __init__(self, url: str | os.PathLike[str]) -> None:
        self.url = os.fspath(url)
        try:
            # A path may hold "::", which fsspec takes for URLs in a chain.
            is_url = "://" in self.url
            self.fs, root = url_to_fs(self.url) if is_url else (LocalFileSystem(), local_path(self.url))
        except (ImportError, ValueError) as error:
            raise RunStorageError(
                f"{self.url}: its kind of filesystem is not at hand ({error}); install its package, or give a path"
            ) from error
        self.root = root.rstrip("/")

    @property
    def is_local(self) -> bool:
        """Whether the directory is on this machine's own filesystem."""
        return isinstance(self.fs, LocalFileSystem)

    @property
    def place(self) -> str:
        """What tells it from other directories, however its path was written."""
        return os.path.realpath(self.root) if self.is_local else str(self.fs.unstrip_protocol(self.root))

    def path(self, name: str) -> str:
        """The full path of a file in the directory."""
        return f"{self.root}/{name}"

    def exists(self, name: str) -> bool:
        """Whether a file is there.

        Raises
        ------
        RunCorruptError
            That cannot be said: no permission, or its disk does not answer.
        """
        return self._is_there(self.path(name))

    def _is_there(self, path: str) -> bool:
        try:
            if not self.is_local:
                return bool(self.fs.exists(path))
            os.stat(path)  # fsspec takes whatever goes wrong for a file that is not there, and it would be drawn anew
        except (FileNotFoundError, NotADirectoryError):
            return False
        except OSError as error:
            raise _unreadable(path, error) from error
        return True

    def _listed(self, path: str) -> list[str]:
        """Names of what a directory holds; none where it is missing."""
        if not self._is_there(path):
            return []
        try:
            return [entry.rstrip("/").rsplit("/", 1)[-1] for entry in self.fs.ls(path, detail=False)]
        except OSError as error:
            raise _unreadable(path, error) from error

    def contents(self) -> list[str]:
        """Names of what the directory holds beside hidden files; none where it is missing."""
        return sorted(name for name in self._listed(self.root) if not name.startswith("."))

    def names(self, folder: str, suffix: str) -> list[str]:
        """Names (``folder/file``) of the files with a suffix in a folder, sorted; shorter numbers before longer."""
        names = [f"{folder}/{name}" for name in self._listed(self.path(folder)) if name.endswith(suffix)]
        return sorted(names, key=lambda name: (len(name), name))

    def size(self, name: str) -> int:
        """Size of a file in bytes."""
        return int(self.fs.size(self.path(name)))

    def write_bytes(self, name: str, content: bytes | memoryview) -> None:
        """Write a file whole or not at all.

        Raises
        ------
        RunStorageError
            The disk is full, or it may not be written there. What was there before is untouched.
        """
        folder, base = self.path(name).rsplit("/", 1)
        # hidden: what reads a folder of parts must not take it for one
        temporary = f"{folder}/.{base}.{os.getpid()}.tmp"
        try:
            self.fs.makedirs(folder, exist_ok=True)
            with self.fs.open(temporary, "wb") as file:
                file.write(content)
                if self.is_local:
                    file.flush()
                    os.fsync(file.fileno())
            if self.is_local:
                os.replace(temporary, self.path(name))
            else:
                self.fs.mv(temporary, self.path(name))
        except OSError as error:
            with suppress(OSError):
                self.fs.rm(temporary)
            raise RunStorageError(
                f"{self.path(name)}: cannot be written: {error.strerror or error}. What is finished is kept; "
                "make room or fix the permission and give the same command again"
            ) from error

    def remove_leftovers(self) -> None:
        """Remove what killed processes were writing; for the one that holds the directory, a local one."""
        if self.is_local:
            for leftover in Path(self.root).rglob(".*.tmp"):
                leftover.unlink(missing_ok=True)

    def remove(self, name: str) -> None:
        """Remove a file if it is there.

        Raises
        ------
        RunStorageError
            It may not be removed.
        """
        if not self.exists(name):
            return
        try:
            self.fs.rm_file(self.path(name))
        except OSError as error:
            raise RunStorageError(
                f"{self.path(name)}: cannot be removed: {error.strerror or error}; fix the permission and give "
                "the same command again"
            ) from error

    def read_bytes(self, name: str) -> bytes:
        """Read a file.

        Raises
        ------
        RunNotFoundError
            There is no such file.
        RunCorruptError
            It may not be read, or its disk does not answer.
        """
        try:
            return bytes(self.fs.cat_file(self.path(name)))
        except FileNotFoundError as error:
            raise RunNotFoundError(f"{self.path(name)}: no such file; is {self.url} a run directory?") from error
        except OSError as error:
            raise _unreadable(self.path(name), error) from error

    def write_json(self, name: str, content: dict[str, Any]) -> None:
        """Write a mapping as readable JSON."""
        self.write_bytes(name, json.dumps(content, indent=2, ensure_ascii=False).encode() + b"\n")

    def read_json(self, name: str) -> dict[str, Any]:
        """Read a mapping back."""
        try:
            content = json.loads(self.read_bytes(name))
            if isinstance(content, dict):
                return content
            found = f"found {type(content).__name__}, expected a mapping"
        except ValueError as error:
            found = f"not JSON ({error})"
        raise RunCorruptError(f"{self.path(name)}: {found}; restore it or start a new run")

    def write_table(self, name: str, table: pa.Table) -> None:
        """Write a table as Parquet."""
        sink = pa.BufferOutputStream()
        pq.write_table(table, sink, write_page_checksum=True, **writing_options(table.schema))
        self.write_bytes(name, memoryview(sink.getvalue()))

    def read_table(self, name: str, columns: list[str] | None = None, *, way_out: str = REDO) -> pa.Table:
        """Read a Parquet table, or some of its columns.

        Raises
        ------
        RunCorruptError
            The file is damaged, or has no such column: the message says which, and the way out; or it may not be read.
        """
        try:
            with self.fs.open(self.path(name), "rb") as file:
                # In this thread alone: one of Arrow's that lets go of a Python file as the interpreter ends aborts the
                # process, after all its work is done (apache/arrow#34314).
                opened = pq.ParquetFile(file, pre_buffer=False, page_checksum_verification=True)
                lost = [name for name in columns or () if name not in opened.schema_arrow.names]
                if lost:  # which read() would pass over
                    raise pa.ArrowInvalid(f"it has no column {lost[0]!r}")
                return opened.read(columns, use_threads=False)
        except FileNotFoundError as error:
            raise RunNotFoundError(f"{self.path(name)}: no such file; is {self.url} a run directory?") from error
        except (pa.ArrowException, OSError) as error:
            if isinstance(error, OSError) and error.errno is not None:
                raise _unreadable(self.path(name), error) from error
            raise RunCorruptError(
                f"{self.path(name)}: cannot be read ({' '.join(str(error).split())}). {way_out}"
            ) from error

    def require_place(self) -> None:
        """Make the directory, so that what takes long to compute is not lost to a place that cannot be written.

        Raises
        ------
        RunStorageError
            It cannot be made, or not be written.
        """
        try:
            self.fs.makedirs(self.root, exist_ok=True)
            if self.is_local and not os.access(self.root, os.W_OK):
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        except OSError as error:
            raise RunStorageError(
                f"{self.url}: cannot be written: {error.strerror or error}; give another --out"
            ) from error

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the directory for one process.

        The lock is the operating system's, so it goes with the process however that ends. A remote directory has
        none: there the plan's parts keep two writers from harm, as both would write the same bytes.

        Raises
        ------
        RunLockedError
            Another process holds it; the message says which.
        RunStorageError
            It cannot be made, or not be written.
        """
        if not self.is_local:
            yield
            return
        lock = FileLock(self.path(".lock"), timeout=0)
        try:
            os.makedirs(self.root, exist_ok=True)
            lock.acquire()
        except Timeout as error:
            raise RunLockedError(
                f"{self.url}: another process is working on this run ({self._lock_holder()}); wait for it, or give "
                "another --out"
            ) from error
        except OSError as error:  # a file is in the way, no permission, no such disk
            raise RunStorageError(f"{self.url}: cannot be written: {error.strerror}; give another --out") from error
        try:  # what is raised from here on is not the lock's
            self._sign_lock()
            yield
        finally:
            lock.release()

    def _sign_lock(self) -> None:
        holder = {
            "pid": os.getpid(),
            "host": socket.gethostname(),
            "since": datetime.now(UTC).isoformat("T", "seconds"),
        }
        self.write_json(".lock-holder.json", holder)

    def _lock_holder(self) -> str:
        with suppress(RunNotFoundError, RunCorruptError):
            holder = self.read_json(".lock-holder.json")
            return f"process {holder.get('pid')} on {holder.get('host')} since {holder.get('since')}"
        return "process unknown"


def _unreadable(path: str, error: OSError) -> RunCorruptError:
    """The system's answer, which says nothing against what the file holds: it must not be deleted for that."""
    return RunCorruptError(
        f"{path}: cannot be read: {error.strerror or error}; mend that and give the same command again"
    )
