"""Where files lie: how object stores differ from a disk, what their listings tell, and how a disk is written.

See decision 31.
"""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from threading import RLock
from typing import Any, Final

import numpy as np
import pyarrow as pa

from clinometer._scratch import Scratch, ScratchArray
from clinometer.errors import ClinometerError, RunStorageError

STORES: Final = frozenset({"s3", "s3a", "gs", "gcs", "az", "abfs", "abfss", "adl", "oci"})
"""Kinds of filesystems where a file appears when its last byte has come, so that nothing has to be renamed."""

READ_ONLY: Final = frozenset({"hf"})
"""Kinds that runs are read from and never written to: there each file would be a commit."""

CLIENTS: Final = frozenset(
    {"botocore", "aiobotocore", "aiohttp", "gcsfs", "google", "azure", "fsspec", "requests", "huggingface_hub"}
    | {"httpx", "httpx2", "httpcore", "httpcore2"}
)
"""Packages that talk to a store."""


BUSY: Final = frozenset({429, 500, 502, 503, 504})
"""Answers of a server that may do what it is asked a little later."""

ATTEMPTS: Final = 6
"""Times a request is made before it is given up: a tenth of a second apart first, and each time 1.7 times as long."""


def be_patient(fs: Any) -> None:
    """Make a filesystem retry a busy store; s3fs by itself overlooks answers without a body, as to HEAD."""
    if "s3" not in fs.protocol or not hasattr(fs, "retries"):
        return
    from s3fs.core import set_custom_error_handler

    fs.retries = max(fs.retries, ATTEMPTS)
    set_custom_error_handler(_is_busy)


def _is_busy(error: Any) -> bool:
    answer = getattr(error, "response", None) or {}
    return answer.get("ResponseMetadata", {}).get("HTTPStatusCode") in BUSY


def is_of_client(error: BaseException) -> bool:
    """Return whether an error says something of the way to a store, and nothing of what lies there."""
    return any(kind.__module__.partition(".")[0] in CLIENTS for kind in type(error).__mro__)


def no_answer(path: str, error: BaseException) -> RunStorageError:
    """Return the error about a store that gives no answer, or one without meaning."""
    message = " ".join(str(error).split())[:300] or "no reason given"
    return RunStorageError(
        f"{path}: the store does not answer as it should ({type(error).__name__}: {message}); see the credentials in "
        "the environment and the connection, and give the same command again"
    )


@contextmanager
def answering(path: str) -> Iterator[None]:
    """Raise errors of a store's client, which are of its own kinds, as one line.

    Raises
    ------
    RunStorageError
        No credentials, no answer, or one that means nothing.
    """
    try:
        yield
    except (OSError, ClinometerError) as error:
        if not is_of_client(error):
            raise
        raise no_answer(path, error) from error
    except Exception as error:
        raise no_answer(path, error) from error


# --- A file of an object store, read in as few requests as can be ----------------------------------------------------


_SMALL: Final = 2**20
"""Bytes of a file that is fetched whole: a request takes as long as a megabyte."""


class StoreFile:
    """A file that is fetched in ranges as it is read.

    Parameters
    ----------
    size : its bytes, where a listing has them; else the store is asked once they are needed.
    whole : all of it will be read, so it is fetched at once.
    """

    def __init__(self, fs: Any, path: str, *, size: int | None = None, whole: bool = False) -> None:
        self._fs, self._path, self._size, self._at = fs, path, size, 0
        self._content: bytes | None = None
        if whole or (size is not None and size <= _SMALL):
            self._content = self._fetched(0, None)
            self._size = len(self._content)

    def seek(self, offset: int, whence: int = 0) -> int:
        """Go to a place, counted from the beginning, from here or from the end."""
        if whence == 2 and self._size is None:
            self._size = int(self._fs.size(self._path))
        self._at = max(0, offset + (0, self._at, self._size or 0)[whence])
        return self._at

    def read(self, size: int = -1) -> bytes:
        """Read so many bytes from here on, or as many as there are."""
        stop = None if size < 0 else self._at + size
        if self._size is not None:
            stop = self._size if stop is None else min(stop, self._size)
        if stop is not None and stop <= self._at:
            return b""
        if self._content is not None:
            chunk = self._content[self._at : stop]
        else:
            chunk = self._fetched(self._at, stop)
            if self._size is None and (stop is None or len(chunk) < stop - self._at):
                self._size = self._at + len(chunk)  # it ended there
        self._at += len(chunk)
        return chunk

    def _fetched(self, start: int, stop: int | None) -> bytes:
        try:
            return bytes(self._fs.cat_file(self._path, start=start, end=stop))  # with a start it asks for no size first
        except FileNotFoundError:
            raise
        except Exception:  # each client has its own
            if self._fs.size(self._path) <= start:  # a range that begins behind the end is refused
                return b""
            raise


def is_there(fs: Any, path: str) -> bool:
    """Return whether a file is there, in one request: fsspec's own lists the folder where it finds nothing."""
    try:
        fs.cat_file(path, start=0, end=1)
    except FileNotFoundError:
        return False
    except Exception:  # an empty file has no first byte, and each client its own error for that
        return bool(fs.exists(path))
    return True


# --- What lies in a directory of an object store, by its listings -----------------------------------------------
#
# So it is not asked for file by file: a listing names a thousand files a request. It holds for as long as nobody else
# writes: while a process holds the run, between two stages, or while one table is read. What this process writes and
# removes is noted. Others may always write hidden files, such as leases, and ratings; those are never taken from
# here.


_STAMPS: Final = ("ETag", "etag", "generation", "md5Hash", "LastModified", "updated", "last_modified")
"""What stores say of a file that differs once it is written again."""
_OTHERS_WRITE: Final = re.compile(r"(.*/)?\..*|ratings(/.*)?")


@dataclass(frozen=True)
class Entry:
    """What a listing says of a file or folder.

    Attributes
    ----------
    stamp : a text that is another one once the file is written again; empty where the store says nothing, and of what
        this process wrote since the listing.
    """

    size: int
    stamp: str
    is_folder: bool = False


@dataclass(frozen=True)
class _Piece:
    """A file without its pixels: what lies before and behind them."""

    entry: Entry
    head: ScratchArray
    rest: ScratchArray


class Inventory:
    """The files of a directory, listed folder by folder when they are asked for."""

    def __init__(self, fs: Any, root: str) -> None:
        self._fs, self._root = fs, root
        self._folders: dict[str, dict[str, Entry]] = {}
        self._doubted: set[str] = set()
        self._pieces: dict[str, _Piece] = {}
        self._scratch = Scratch()
        self._lock = RLock()

    def knows(self, name: str) -> bool:
        """Return whether it can say of a file whether it is there."""
        return bool(name) and name not in self._doubted and not _OTHERS_WRITE.fullmatch(name)

    def entry(self, name: str) -> Entry | None:
        """Return what is known of a file or folder; None where it is not there."""
        folder, _, base = name.rpartition("/")
        return self.folder(folder).get(base)

    def folder(self, folder: str) -> Mapping[str, Entry]:
        """Return what a folder holds, by name; nothing where it is missing."""
        with self._lock:
            if folder not in self._folders:
                entry = self.entry(folder) if folder else Entry(0, "", is_folder=True)
                is_there = entry is not None and entry.is_folder
                self._folders[folder] = listing(self._fs, f"{self._root}/{folder}".rstrip("/")) if is_there else {}
            return self._folders[folder]

    def look_again(self) -> None:
        """Forget the listings, so that everything is listed again: workers may have written, or this process has."""
        with self._lock:
            self._folders.clear()
            self._doubted.clear()

    def doubt(self, name: str) -> bool:
        """Ask the store itself about a file from now on. Whether anything was known that may have been wrong."""
        with self._lock:
            is_known = self.knows(name)
            self._doubted.add(name)
            self._pieces.pop(name, None)
            return is_known

    def note(self, name: str, entry: Entry | None) -> None:
        """Record a file that this process wrote, or one that it removed, which has no entry."""
        with self._lock:
            self._pieces.pop(name, None)
            self._doubted.discard(name)
            folder, _, base = name.rpartition("/")
            if entry is None:
                self._folders.get(folder, {}).pop(base, None)
                return
            while True:
                if folder in self._folders:
                    self._folders[folder][base] = entry
                if not folder:
                    return
                entry = Entry(0, "", is_folder=True)
                folder, _, base = folder.rpartition("/")

    # --- files without their pixels ------------------------------------------------------------------------------

    def keep(self, name: str, content: pa.Buffer, pixels: tuple[int, int]) -> None:
        """Cache a file that was read, without its pixels, outside memory: it is read again in the same stage."""
        with self._lock:
            entry = self.entry(name) if self.knows(name) else None
            if entry is None or not entry.stamp or entry.size != content.size:
                return
            view, (low, high) = np.frombuffer(content, np.uint8), pixels
            self._pieces[name] = _Piece(entry, self._scratch.keep(view[:low]), self._scratch.keep(view[high:]))

    def kept(self, name: str) -> pa.NativeFile | None:
        """Return a cached file, with zeros in place of its pixels; None where there is none, or it has changed."""
        with self._lock:
            piece = self._pieces.get(name)
            if piece is None or not self.knows(name) or self.entry(name) != piece.entry:
                return None
            content = bytearray(piece.entry.size)  # zeros take no memory until they are written over
            head, rest = piece.head.read(), piece.rest.read()
            content[: len(head)] = head.data
            content[len(content) - len(rest) :] = rest.data
        return pa.BufferReader(pa.py_buffer(content))


def listing(fs: Any, path: str) -> dict[str, Entry]:
    """Return what a folder of a store holds, by name; nothing where it is missing."""
    try:
        with answering(path):
            infos = _list_patiently(fs, path)
    except (FileNotFoundError, NotADirectoryError):
        return {}
    entries = {}
    for info in infos:
        if (entry_path := info["name"].rstrip("/")) != path:
            stamp = " ".join(str(info[key]) for key in _STAMPS if info.get(key))
            entry = Entry(int(info.get("size") or 0), stamp, is_folder=info.get("type") == "directory")
            entries[entry_path.rsplit("/", 1)[-1]] = entry
    return entries


def _list_patiently(fs: Any, path: str) -> list[dict[str, Any]]:
    """List a folder; of S3 several times where the store is busy, as some versions of s3fs retry all but listings.

    Versions that do are as patient by themselves: after their last attempt there is none of ours.
    """
    if "s3" not in fs.protocol:
        return list(fs.ls(path, detail=True))
    from tenacity import Retrying, retry_if_exception, stop_after_attempt, stop_after_delay, wait_exponential

    attempts = Retrying(
        stop=stop_after_attempt(ATTEMPTS) | stop_after_delay(2.0),
        wait=wait_exponential(multiplier=0.1, exp_base=1.7),
        retry=retry_if_exception(_may_pass),
        reraise=True,
    )
    return list(attempts(fs.ls, path, detail=True))


def _may_pass(error: BaseException) -> bool:
    """Return whether a request that failed so may do a little later: the store is busy, or the connection broke."""
    from botocore.exceptions import HTTPClientError

    return isinstance(error, HTTPClientError) or getattr(error, "errno", None) == errno.EBUSY or _is_busy(error)


INVENTORIES: Final[dict[str, Inventory]] = {}
"""Of the directories that this process holds, by place."""

HELD: Final[dict[str, Callable[[], None]]] = {}
"""By the places of directories that this process holds, what refuses to write once another has taken over."""


# --- Files of this machine's own filesystems, written so that a power cut finds them whole ---------------------------


def not_writable(place: str, error: OSError) -> RunStorageError:
    """Return what a command says that must write in a place and may not."""
    return RunStorageError(
        f"{place}: cannot be written: {error.strerror or error}; give another --out, or copy the run to a place where "
        "you may write"
    )


def write_file(path: str, content: bytes | memoryview) -> None:
    """Write a file, and the folders it takes, and have the disk hold it."""
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def create_file(path: str, temporary: str, content: bytes | memoryview) -> None:
    """Write under a temporary name, and link it: a link is made only where there is no file yet.

    Raises
    ------
    FileExistsError
        There is one.
    """
    try:
        write_file(temporary, content)
        try:
            os.link(temporary, path)
        except OSError as error:
            if error.errno not in (errno.EPERM, errno.ENOTSUP, errno.EMLINK):
                raise
            if os.path.lexists(path):  # a filesystem without links: what is between here and
                raise FileExistsError(path) from error
            os.replace(temporary, path)  # here is all that two writers can fall into
        settle(os.path.dirname(path))
    finally:
        with suppress(OSError):
            os.unlink(temporary)


def settle(folder: str) -> None:
    """Flush a directory to disk: otherwise a power cut may undo the renaming of a file in it."""
    with suppress(OSError):  # some systems open no directories
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
