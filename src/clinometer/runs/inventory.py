"""What lies in a directory of an object store, as its listings told, so that it is not asked for file by file.

A listing names a thousand files a request. It holds for as long as nobody else writes: while a process holds the run,
between two stages, or while one table is read. What this process writes and removes is noted. Others may always write
hidden files, such as leases, and ratings; those are never taken from here.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from threading import RLock
from typing import Any, Final

import numpy as np
import pyarrow as pa

from clinometer.runs.stores import answering
from clinometer.stats.scratch import Kept, Scratch

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
    head: Kept
    rest: Kept


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
        """Whether it can say of a file whether it is there."""
        return bool(name) and name not in self._doubted and not _OTHERS_WRITE.fullmatch(name)

    def entry(self, name: str) -> Entry | None:
        """What is known of a file or folder; None where it is not there."""
        folder, _, base = name.rpartition("/")
        return self.folder(folder).get(base)

    def folder(self, folder: str) -> Mapping[str, Entry]:
        """What a folder holds, by name; nothing where it is missing."""
        with self._lock:
            if folder not in self._folders:
                self._folders[folder] = self._listed(folder)
            return self._folders[folder]

    def _listed(self, folder: str) -> dict[str, Entry]:
        if folder:
            above = self.entry(folder)
            if above is None or not above.is_folder:
                return {}
        return listing(self._fs, f"{self._root}/{folder}".rstrip("/"))

    def look_again(self) -> None:
        """Have everything listed anew when it is asked for: workers may have written, or this process has."""
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

    def note_written(self, name: str, size: int) -> None:
        """Take note of a file that this process wrote."""
        self._note(name, Entry(size, ""))

    def note_removed(self, name: str) -> None:
        """Take note of a file that this process removed."""
        self._note(name, None)

    def _note(self, name: str, entry: Entry | None) -> None:
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
        """Keep a file that was read, but for its pixels, outside memory: it is read again in the same stage."""
        with self._lock:
            entry = self.entry(name) if self.knows(name) else None
            if entry is None or not entry.stamp or entry.size != content.size:
                return
            view, (low, high) = np.frombuffer(content, np.uint8), pixels
            self._pieces[name] = _Piece(entry, self._scratch.keep(view[:low]), self._scratch.keep(view[high:]))

    def kept(self, name: str) -> pa.NativeFile | None:
        """A file that was kept, with zeros in the place of its pixels; None where it was not, or is another by now."""
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
    """What a folder of a store holds, by name; nothing where it is missing."""
    try:
        with answering(path):
            infos = fs.ls(path, detail=True)
    except (FileNotFoundError, NotADirectoryError):
        return {}
    return dict(_entry(info) for info in infos if info["name"].rstrip("/") != path)


def _entry(info: Mapping[str, Any]) -> tuple[str, Entry]:
    stamp = " ".join(str(info[key]) for key in _STAMPS if info.get(key))
    name = info["name"].rstrip("/").rsplit("/", 1)[-1]
    return name, Entry(int(info.get("size") or 0), stamp, is_folder=info.get("type") == "directory")


INVENTORIES: Final[dict[str, Inventory]] = {}
"""Of the directories that this process holds, by place."""
