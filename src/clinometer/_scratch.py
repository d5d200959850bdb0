"""Arrays that wait outside memory, in a temporary file: vectors, and what a study has drawn of each target."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from tempfile import SpooledTemporaryFile, gettempdir
from threading import Lock
from typing import Final

import numpy as np

from clinometer.errors import RunStorageError
from clinometer.stats.blocks import Blocks

IN_MEMORY: Final = 2**26
"""Bytes that are held in memory; more go into the system's folder for temporary files (``TMPDIR``)."""


@dataclass(frozen=True)
class ScratchArray:
    """An array in a scratch file: where it begins, its numbers, its shape."""

    scratch: Scratch
    start: int
    kind: np.dtype
    shape: tuple[int, ...]

    def read(self, first: int = 0, stop: int | None = None) -> np.ndarray:
        """Read its entries along the first axis, from ``first`` to ``stop``."""
        first, stop, _ = slice(first, stop).indices(self.shape[0])
        size = int(np.prod(self.shape[1:], dtype=int))
        numbers = self.scratch.read(self.start + first * size * self.kind.itemsize, (stop - first) * size, self.kind)
        return numbers.reshape(stop - first, *self.shape[1:])


class Scratch:
    """Arrays one behind the other in a temporary file; several threads may keep and read them.

    Parameters
    ----------
    in_memory : bytes that are held before a file is made.
    """

    def __init__(self, in_memory: int | None = None) -> None:
        limit = IN_MEMORY if in_memory is None else in_memory
        self._file = SpooledTemporaryFile(max_size=limit, prefix="clinometer-")  # noqa: SIM115  lives as long
        self._end, self._in_use = 0, Lock()

    def keep(self, array: np.ndarray) -> ScratchArray:
        """Write an array to the file.

        Raises
        ------
        RunStorageError
            The folder for temporary files is full.
        """
        array = np.ascontiguousarray(array)
        with self._in_use:
            try:
                self._file.seek(self._end)
                self._file.write(array.data)
            except OSError as error:
                raise RunStorageError(
                    f"{gettempdir()}: no scratch file of {(self._end + array.nbytes) / 2**20:,.0f} MiB can be written "
                    f"there ({error.strerror}); free some space, or name another folder in TMPDIR"
                ) from error
            handle = ScratchArray(self, self._end, array.dtype, array.shape)
            self._end += array.nbytes
        return handle

    def read(self, start: int, count: int, kind: np.dtype) -> np.ndarray:
        """Read ``count`` numbers from a byte position on."""
        with self._in_use:
            self._file.seek(start)
            return np.frombuffer(self._file.read(count * kind.itemsize), kind)


_NUMBER: Final = np.dtype(np.float32)


class VectorFile:
    """Rows of float32 by key, in the order in which they were added.

    A million vectors of 768 numbers are 3 GB. They are read from their Parquet parts once, checksums and all, and each
    target's rows are read from here when they are needed.

    Parameters
    ----------
    in_memory : bytes that are held before a file is made.
    """

    def __init__(self, in_memory: int | None = None) -> None:
        self._scratch = Scratch(in_memory)
        self._spans: dict[Hashable, list[tuple[int, int]]] = {}
        self._rows = 0
        self.width = 0

    def add(self, keys: Sequence[Hashable], vectors: np.ndarray) -> None:
        """Add rows (n × width), each under its key."""
        self.width = self.width or vectors.shape[1]
        self._scratch.keep(np.asarray(vectors, _NUMBER))
        for key in keys:
            spans = self._spans.setdefault(key, [])
            first = spans.pop()[0] if spans and spans[-1][1] == self._rows else self._rows
            self._rows += 1
            spans.append((first, self._rows))

    def blocks(self, keys: Iterable[Hashable], width: int) -> Blocks:
        """Return the rows of each key, (n × width), read when they are asked for; n may be 0."""
        spans = [self._spans.get(key, []) for key in keys]
        sizes = [sum(stop - start for start, stop in key_spans) for key_spans in spans]
        return Blocks(
            sizes,
            lambda position: self._read(spans[position], width),
            lambda position, first, stop: self._read(_within(spans[position], first, stop), width),
        )

    def rows(self, keys: Iterable[Hashable], width: int, first: int = 0, stop: int | None = None) -> np.ndarray:
        """Return the rows of some keys, key after key, or those from position ``first`` to ``stop`` among them."""
        spans = [span for key in keys for span in self._spans.get(key, [])]
        return self._read(spans if stop is None else _within(spans, first, stop), width)

    def _read(self, spans: Sequence[tuple[int, int]], width: int) -> np.ndarray:
        row = self.width * _NUMBER.itemsize
        rows = [self._scratch.read(start * row, (stop - start) * self.width, _NUMBER) for start, stop in spans]
        if not rows:
            return np.zeros((0, width), _NUMBER)
        return (np.concatenate(rows) if len(rows) > 1 else rows[0]).reshape(-1, self.width)


def _within(spans: Sequence[tuple[int, int]], first: int, stop: int) -> list[tuple[int, int]]:
    """Return the rows from position ``first`` to ``stop``, from rows in spans."""
    selection, before = [], 0
    for start, end in spans:
        low, high = max(first - before, 0) + start, min(stop - before + start, end)
        if low < high:
            selection.append((low, high))
        before += end - start
    return selection
