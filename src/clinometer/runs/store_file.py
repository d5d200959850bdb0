"""A file of an object store, read in as few requests as can be."""

from __future__ import annotations

from typing import Any, Final

_SMALL: Final = 2**20
"""Bytes of a file that is fetched whole: a request takes as long as a megabyte."""


class StoreFile:
    """A file that is fetched in ranges as it is read.

    Parameters
    ----------
    size : its bytes, where a listing told them; else the store is asked, if anybody asks for the end.
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
        """So many bytes from here on, or as many as there are."""
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
    """Whether a file is there, in one request: fsspec's own look is followed by a listing where it finds nothing."""
    try:
        fs.cat_file(path, start=0, end=1)
    except FileNotFoundError:
        return False
    except Exception:  # an empty file has no first byte, and each client its own error for that
        return bool(fs.exists(path))
    return True
