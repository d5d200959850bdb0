"""Arrays that wait outside memory, in a temporary file: vectors, and what a study has drawn of each target."""

from __future__ import annotations

from dataclasses import dataclass
from tempfile import SpooledTemporaryFile, gettempdir
from threading import Lock
from typing import Final

import numpy as np

from clinometer.errors import RunStorageError

IN_MEMORY: Final = 2**26
"""Bytes that are held in memory; more go into the system's folder for temporary files (``TMPDIR``)."""


@dataclass(frozen=True)
class Kept:
    """An array in a scratch file: where it begins, its numbers, its shape."""

    scratch: Scratch
    start: int
    kind: np.dtype
    shape: tuple[int, ...]

    def read(self, first: int = 0, stop: int | None = None) -> np.ndarray:
        """Its entries along the first axis, from ``first`` to ``stop``."""
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

    def keep(self, array: np.ndarray) -> Kept:
        """Put an array away.

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
            handle = Kept(self, self._end, array.dtype, array.shape)
            self._end += array.nbytes
        return handle

    def read(self, start: int, count: int, kind: np.dtype) -> np.ndarray:
        """So many numbers from a place on."""
        with self._in_use:
            self._file.seek(start)
            return np.frombuffer(self._file.read(count * kind.itemsize), kind)
