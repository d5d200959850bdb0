"""Files of a directory as bytes: written whole or not at all, on any filesystem that fsspec knows."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import stat
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any, Final
from uuid import uuid4

from fsspec.core import url_to_fs
from fsspec.implementations.local import LocalFileSystem

from clinometer._secrets import masked, masked_address, recalled
from clinometer.errors import InvalidInputError, RunCorruptError, RunNotFoundError, RunStorageError
from clinometer.runs import backends

_LOCAL = LocalFileSystem()

local_path = LocalFileSystem._strip_protocol
"""A path made absolute, with ``~`` read."""

_BLOCK: Final = 2**26
"""Bytes that are hashed at a time."""

MOST_JSON: Final = 2**26
"""Of run.json and the like: it lists a file for each part."""

MOST_BYTES: Final = 2**29
"""The most bytes of a file that is read whole and is not a Parquet table: a page, a CSV file."""


class Files:
    """The files of a directory at a path or URL. A file is written whole or not at all.

    Elsewhere than on an object store that takes a temporary name first, which is then renamed.
    """

    def __init__(self, url: str | os.PathLike[str]) -> None:
        self.url = recalled(os.fspath(url))
        self.shown = masked_address(self.url)
        """The URL as it may be printed and stored."""
        try:
            # A path may hold "::", which fsspec takes for URLs in a chain.
            kind, is_url, _ = self.url.partition("://")
            # Other processes write to a store, too, so its listings must not be cached.
            options = {"use_listings_cache": False} if kind in backends.STORES else {}
            self.fs, root = url_to_fs(self.url, **options) if is_url else (_LOCAL, local_path(self.url))
        except (ImportError, ValueError) as error:
            raise RunStorageError.not_installed(
                f"{self.url}: this kind of filesystem is not available ({error}); install its package, or give a path"
            ) from error
        except Exception as error:  # each kind of filesystem has its own: no such archive, server, credentials
            message = f"{type(error).__name__}: {error}"
            raise RunStorageError.unreadable(
                f"{self.url}: cannot be opened ({message}); fix the URL, or give a path"
            ) from error
        self.root = root.rstrip("/")
        kinds = self.fs.protocol
        self._kinds = (kinds,) if isinstance(kinds, str) else tuple(kinds)
        self.is_local = isinstance(self.fs, LocalFileSystem)
        """Whether the directory is on this machine's own filesystem."""
        self.is_store = not backends.STORES.isdisjoint(self._kinds)
        """Whether it lies on an object store."""
        self._snapshot: backends.Inventory | None = None
        backends.be_patient(self.fs)

    @property
    def inventory(self) -> backends.Inventory | None:
        """What listings of an object store showed, where that still holds; None where the store is to be asked."""
        return (backends.INVENTORIES.get(self.place) or self._snapshot) if self.is_store else None

    @contextmanager
    def listed_once(self) -> Iterator[None]:
        """Look up files of a store in listings that are made once, where nobody waits for another file to appear.

        A file that turns out to be another one by then is looked for again.
        """
        if not self.is_store or self.inventory is not None:
            yield
            return
        self._snapshot = backends.Inventory(self.fs, self.root)
        try:
            yield
        finally:
            self._snapshot = None

    @property
    def place(self) -> str:
        """Its unique place, however its path was written."""
        return os.path.realpath(self.root) if self.is_local else str(self.fs.unstrip_protocol(self.root))

    def path(self, name: str) -> str:
        """Return the full path of a file in the directory."""
        return f"{self.root}/{name}"

    def without_place(self, error: Exception) -> str:
        """Return an error's text without the directory's place on this machine: for a page that may be published."""
        return str(error).replace(masked(f"{self.root}/"), "")

    def exists(self, name: str) -> bool:
        """Return whether a file is there.

        Raises
        ------
        RunCorruptError
            It is not known: no permission, or its disk does not answer.
        """
        inventory = self.inventory
        if inventory is not None and inventory.knows(name):
            return inventory.entry(name) is not None
        return self._is_there(self.path(name))

    def _is_there(self, path: str) -> bool:
        try:
            if self.is_store and path.rstrip("/") != self.root:
                with backends.answering(path):
                    return backends.is_there(self.fs, path)
            if not self.is_local:
                with backends.answering(path):
                    return bool(self.fs.exists(path))
            os.stat(path)  # fsspec takes whatever goes wrong for a file that is not there, and it would be drawn again
        except (FileNotFoundError, NotADirectoryError):
            return False
        except (OSError, ValueError) as error:  # a NUL in its name
            raise _unreadable(path, error) from error
        return True

    def _listed(self, folder: str) -> Collection[str]:
        """Return the names of what a folder holds; none where it is missing."""
        path = self.path(folder).rstrip("/")
        if self.is_store:
            inventory = self.inventory
            if inventory is not None and inventory.knows(f"{folder}/x" if folder else "x"):
                return inventory.folder(folder)
            try:
                return backends.listing(self.fs, path)
            except OSError as error:
                raise _unreadable(path, error) from error
        if not self._is_there(path):
            return []
        try:
            with backends.answering(path):
                return [entry.rstrip("/").rsplit("/", 1)[-1] for entry in self.fs.ls(path, detail=False)]
        except OSError as error:
            raise _unreadable(path, error) from error

    def contents(self) -> list[str]:
        """Return the names of what the directory holds beside hidden files; none where it is missing."""
        return sorted(name for name in self._listed("") if not name.startswith("."))

    def names(self, folder: str, suffix: str) -> list[str]:
        """List the files with a suffix in a folder as ``folder/file``, sorted; shorter numbers before longer."""
        names = [f"{folder}/{name}" for name in self._listed(folder) if name.endswith(suffix)]
        return sorted(names, key=lambda name: (len(name), name))

    def size(self, name: str) -> int:
        """Return the size of a file in bytes."""
        entry = self._entry(name)
        return int(self.fs.size(self.path(name))) if entry is None else entry.size

    def stamps(self, names: Sequence[str]) -> list[str] | None:
        """Return a text for each file that changes when the file is written; None where there is no such text."""
        if self.is_local:
            try:
                infos = [os.stat(self.path(name)) for name in names]
            except OSError:
                return None
            return [f"{info.st_size} {info.st_mtime_ns} {info.st_ctime_ns} {info.st_ino}" for info in infos]
        with self.listed_once():
            if self.inventory is not None and not all(self._stamps(names)):  # it was written since
                self.inventory.look_again()
            stamps = self._stamps(names)
        return stamps if all(stamps) else None

    def _stamps(self, names: Sequence[str]) -> list[str]:
        entries = [self._entry(name) for name in names]
        return [f"{entry.size} {entry.stamp}" if entry is not None and entry.stamp else "" for entry in entries]

    def _entry(self, name: str) -> backends.Entry | None:
        """Return what a listing says of a file of a store, where one is at hand."""
        inventory = self.inventory
        return inventory.entry(name) if inventory is not None and inventory.knows(name) else None

    def require_own(self, names: Iterable[str], marks: Mapping[str, bytes]) -> None:
        """Refuse to replace files of somebody else's, such as the README of a repository.

        ``marks`` : by name, what stands in every file of that name that is ours; of others nothing is asked.

        Raises
        ------
        InvalidInputError
            A file is there, without its mark.
        """
        for name in marks.keys() & set(names):
            if self.exists(name) and marks[name] not in self.read_bytes(name):
                raise InvalidInputError.already_exists(
                    f"{self.path(name)}: it is there and was not written by clinometer, and this would replace it; "
                    "give another place, or move it away"
                )

    def write_bytes(self, name: str, content: bytes | memoryview) -> None:
        """Write a file whole or not at all.

        Raises
        ------
        RunStorageError
            The disk is full, or it may not be written there. What was there before is untouched.
        """
        if "\0" in self.path(name):
            raise RunStorageError(f"{self.path(name)!r}: a path holds no NUL; leave it out")
        self._require_may_write(name)
        if self.is_store:
            self._put(name, content)
            return
        folder, temporary = self._temporary(name)
        try:
            if self.is_local:
                backends.write_file(temporary, content)
                os.replace(temporary, self.path(name))
                backends.settle(folder)
            else:
                self.fs.makedirs(folder, exist_ok=True)
                self.fs.pipe_file(temporary, bytes(content))
                self.fs.mv(temporary, self.path(name))
        except OSError as error:
            with suppress(OSError):
                self.fs.rm(temporary)
            raise self._unwritable(name, error) from error

    def require_writable(self) -> None:
        """Refuse a kind of place that is only read.

        Raises
        ------
        RunStorageError
            It is one.
        """
        if not backends.READ_ONLY.isdisjoint(self._kinds):
            raise RunStorageError(
                f"{self.url}: this place can be read but not written; give another --out, or copy the run to a disk"
            )

    def _require_may_write(self, name: str) -> None:
        """Refuse to write where another process has taken over, in a place that is only read, or outside of it."""
        # hidden files say who has taken over, and may be written
        require = backends.HELD.get(self.place) if backends.HELD and not name.startswith(".") else None
        if require is not None:
            require()
        self.require_writable()
        self._require_inside(name)

    def _require_inside(self, name: str) -> None:
        """Refuse to write, or remove, through a folder that is a link out of the directory."""
        if not self.is_local or "/" not in name:
            return
        folder = os.path.realpath(os.path.dirname(self.path(name)))
        if os.path.commonpath([folder, os.path.realpath(self.root)]) != os.path.realpath(self.root):
            raise RunStorageError(
                f"{self.path(name)}: its folder is a link to {folder}, out of {self.url}, and nothing is written "
                "there; put a folder in its place"
            )

    def _put(self, name: str, content: bytes | memoryview, **options: Any) -> None:
        """Write a file of an object store in one piece, or in several of which nothing is seen until the last is in."""
        try:
            with backends.answering(self.path(name)):
                self.fs.pipe_file(self.path(name), bytes(content), **options)
        except FileExistsError:
            if self.inventory is not None:
                self.inventory.doubt(name)
            raise
        except OSError as error:
            raise self._unwritable(name, error) from error
        if self.inventory is not None:
            self.inventory.note(name, backends.Entry(len(content), ""))

    def create_bytes(self, name: str, content: bytes | memoryview) -> bool:
        """Write a file whole, unless there is one: False then, and that one stays. Of several writers the first wins.

        Raises
        ------
        RunStorageError
            As of :meth:`write_bytes`.
        """
        self._require_may_write(name)
        try:
            if self.is_local:
                backends.create_file(self.path(name), self._temporary(name)[1], content)
            else:
                self._put(name, content, mode="create")
        except FileExistsError:
            # A store may have taken it and its answer been lost; asked again, it says that there is one.
            return self.is_store and self.read_bytes(name) == bytes(content)
        except OSError as error:
            raise self._unwritable(name, error) from error
        return True

    def _temporary(self, name: str) -> tuple[str, str]:
        """Return the folder of a file, and a name in it that no other writer has, on this machine or another."""
        folder, base = self.path(name).rsplit("/", 1)
        return folder, f"{folder}/.{base}.{uuid4().hex}.tmp"  # hidden: what reads a folder of parts takes it for none

    def _unwritable(self, name: str, error: OSError) -> RunStorageError:
        return RunStorageError(
            f"{self.path(name)}: cannot be written: {error.strerror or error}. What is finished is kept; "
            "make room or fix the permission and give the same command again"
        )

    def remove(self, name: str) -> None:
        """Remove a file if it is there.

        Raises
        ------
        RunStorageError
            It may not be removed.
        """
        self._require_inside(name)
        inventory = self.inventory
        is_told = not self.is_store or (inventory is not None and inventory.knows(name))
        if is_told and not self.exists(name):
            return
        try:
            with backends.answering(self.path(name)):
                self.fs.rm_file(self.path(name))
        except FileNotFoundError:
            pass
        except OSError as error:
            raise RunStorageError(
                f"{self.path(name)}: cannot be removed: {error.strerror or error}; fix the permission and give "
                "the same command again"
            ) from error
        if inventory is not None:
            inventory.note(name, None)

    def remove_empty(self, folder: str) -> None:
        """Remove a folder that holds nothing; one that does stays. On a store there is none to remove."""
        if not self.is_store:
            self._require_inside(f"{folder}/x")
            with suppress(OSError):
                self.fs.rmdir(self.path(folder))

    def read_bytes(self, name: str, most: int = MOST_BYTES) -> bytes:
        """Read a file.

        Raises
        ------
        RunNotFoundError
            There is no such file.
        RunCorruptError
            It may not be read, its disk does not answer, it is not a regular file, or has more bytes than ``most``.
        """
        try:
            with self._opened(name) as file:
                content = bytes(file.read(most + 1))
        except OSError as error:
            raise _unreadable(self.path(name), error) from error
        if len(content) > most:
            raise _too_large(self.path(name), most)
        return content

    def sha256(self, name: str) -> str:
        """Return the checksum of a file, which may be a Parquet table of any size; raises as :meth:`read_bytes`."""
        try:
            hasher, read = hashlib.sha256(), 0
            with self._opened(name) as file:
                while block := file.read(_BLOCK):
                    hasher.update(block)
                    read += len(block)
                    if read > MOST_BYTES and not name.endswith(".parquet"):
                        raise _too_large(self.path(name), MOST_BYTES)
            return hasher.hexdigest()
        except OSError as error:
            raise _unreadable(self.path(name), error) from error

    def write_json(self, name: str, content: dict[str, Any]) -> None:
        """Write a mapping as readable JSON; a lone surrogate, as in a name that is not UTF-8, as its escape."""
        text = json.dumps(content, indent=2, ensure_ascii=False)
        self.write_bytes(name, text.encode(errors="backslashreplace") + b"\n")

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

    @contextmanager
    def _opened(self, name: str, *, whole: bool = False, in_blocks: bool = False) -> Iterator[Any]:
        """Open a file for reading: one that is there, and no pipe or device that gives bytes without end.

        ``whole`` : all of it will be read, so a store is asked for it at once; ``in_blocks`` : many short pieces of it
        will be, so fsspec fetches megabytes and keeps them.
        """
        path = self.path(name)
        try:
            if self.is_local and not stat.S_ISREG(os.stat(path).st_mode):
                raise OSError(errno.EISDIR if os.path.isdir(path) else errno.EINVAL, "it is not a regular file")
            if self.is_store and not in_blocks:
                entry = self._entry(name)
                yield backends.StoreFile(self.fs, path, size=None if entry is None else entry.size, whole=whole)
                return
            with self.fs.open(path, "rb") as file:
                yield file
        except FileNotFoundError as error:
            raise RunNotFoundError(f"{path}: no such file; is {self.url} a run directory?") from error
        except OSError as error:
            if backends.is_of_client(error):
                raise backends.no_answer(path, error) from error
            if error.errno is None:  # of Arrow, which says so of damaged bytes
                raise
            raise _unreadable(path, error) from error
        except Exception as error:
            if backends.is_of_client(error):
                raise backends.no_answer(path, error) from error
            raise

    def require_place(self) -> None:
        """Make the directory, so that what takes long to compute is not lost to a place that cannot be written.

        Raises
        ------
        RunStorageError
            It cannot be made, or not be written.
        """
        self.require_writable()
        if self.is_store:
            self.exists("")  # a bucket is not created: its name may be mistyped
            return
        try:
            self.fs.makedirs(self.root, exist_ok=True)
            if self.is_local and not os.access(self.root, os.W_OK):
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        except OSError as error:
            raise backends.not_writable(self.url, error) from error


def _too_large(path: str, most: int) -> RunCorruptError:
    return RunCorruptError(f"{path}: more than {most:,} bytes, as it was not written; restore it")


def _unreadable(path: str, error: OSError | ValueError) -> RunCorruptError:
    """Return the error of a system that could not read: it says nothing against what the file holds."""
    message = getattr(error, "strerror", None) or error
    return RunCorruptError(f"{path}: cannot be read: {message}; fix that and give the same command again")
