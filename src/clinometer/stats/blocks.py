"""Arrays that are made when they are asked for, and arrays that are put away until they are read again."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol, overload

import numpy as np


class Blocks(Sequence[np.ndarray]):
    """Arrays by position, each made again whenever it is asked for.

    Parameters
    ----------
    sizes : rows of each.
    make : the array at a position.
    cut : some of its rows, from one to another; without it the whole array is made for them.
    """

    def __init__(
        self,
        sizes: Sequence[int],
        make: Callable[[int], np.ndarray],
        cut: Callable[[int, int, int], np.ndarray] | None = None,
    ) -> None:
        self.sizes = tuple(sizes)
        self._make, self._cut = make, cut

    def __len__(self) -> int:
        return len(self.sizes)

    @overload
    def __getitem__(self, index: int) -> np.ndarray: ...
    @overload
    def __getitem__(self, index: slice) -> Blocks: ...
    def __getitem__(self, index: int | slice) -> np.ndarray | Blocks:
        places = range(len(self.sizes))[index]
        if isinstance(places, int):
            return self._make(places)
        cut = self._cut
        return Blocks(
            [self.sizes[place] for place in places],
            lambda position: self._make(places[position]),
            cut and (lambda position, first, stop: cut(places[position], first, stop)),
        )

    def __iter__(self) -> Iterator[np.ndarray]:
        return map(self._make, range(len(self.sizes)))

    def pieces(self, position: int, rows: int) -> Iterator[np.ndarray]:
        """Yield the array at a position, so many rows at a time; one piece of an array without rows."""
        if self._cut is None:
            yield from pieces_of((self[position],), 0, rows)
            return
        size = self.sizes[position]
        for first in range(0, max(size, 1), rows):
            yield self._cut(position, first, min(first + rows, size))


def pieces_of(arrays: Sequence[np.ndarray], position: int, rows: int) -> Iterator[np.ndarray]:
    """Return the array at a position, so many rows at a time; one piece of an array without rows."""
    if isinstance(arrays, Blocks):
        return arrays.pieces(position, rows)
    array = arrays[position]
    return (array[first : first + rows] for first in range(0, max(len(array), 1), rows))


def sizes_of(arrays: Sequence[np.ndarray]) -> tuple[int, ...]:
    """Return how many rows each array has, without making those that are made when they are asked for."""
    return arrays.sizes if isinstance(arrays, Blocks) else tuple(map(len, arrays))


def mapped(change: Callable[..., np.ndarray], *sequences: Sequence[np.ndarray]) -> Sequence[np.ndarray]:
    """Apply a function of each row to arrays position by position: lazily where the first are lazy."""
    if not isinstance(sequences[0], Blocks):
        return tuple(change(*arrays) for arrays in zip(*sequences, strict=True))

    def cut(position: int, first: int, stop: int) -> np.ndarray:
        return change(*(_cut(sequence, position, first, stop) for sequence in sequences))

    return Blocks(sequences[0].sizes, lambda position: change(*(sequence[position] for sequence in sequences)), cut)


def chosen(arrays: Sequence[np.ndarray], rows: Sequence[np.ndarray | None]) -> Sequence[np.ndarray]:
    """Select rows of each array, in rising order (None: all of them): lazily where the arrays are lazy."""
    if all(own is None for own in rows):
        return arrays
    sizes = [n if own is None else len(own) for n, own in zip(sizes_of(arrays), rows, strict=True)]

    def cut(position: int, first: int, stop: int) -> np.ndarray:
        own = rows[position]
        if own is None:
            return _cut(arrays, position, first, stop)
        own = own[first:stop]
        return _cut(arrays, position, int(own[0]), int(own[-1]) + 1)[own - own[0]] if len(own) else arrays[position][:0]

    if isinstance(arrays, Blocks):
        return Blocks(sizes, lambda position: cut(position, 0, sizes[position]), cut)
    return tuple(x if own is None else x[own] for x, own in zip(arrays, rows, strict=True))


def _cut(arrays: Sequence[np.ndarray], position: int, first: int, stop: int) -> np.ndarray:
    if isinstance(arrays, Blocks) and arrays._cut is not None:
        return arrays._cut(position, first, stop)
    return arrays[position][first:stop]


class StoredArray(Protocol):
    """An array that was put away."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Its shape, without reading it."""
        ...

    def read(self, first: int = 0, stop: int | None = None) -> np.ndarray:
        """Read its entries along the first axis, from ``first`` to ``stop``."""
        ...


class ArrayStore(Protocol):
    """A store of arrays: in memory, or wherever a caller who has many of them keeps them."""

    def keep(self, array: np.ndarray) -> StoredArray:
        """Store an array."""
        ...


@dataclass(frozen=True)
class ArrayInMemory:
    """An array that waits in memory."""

    array: np.ndarray

    @property
    def shape(self) -> tuple[int, ...]:
        """Its shape."""
        return self.array.shape

    def read(self, first: int = 0, stop: int | None = None) -> np.ndarray:
        """Read some of its entries."""
        return self.array[first:stop]


class InMemory:
    """A store that holds what it is given in memory."""

    def keep(self, array: np.ndarray) -> ArrayInMemory:
        """Store a copy of an array."""
        return ArrayInMemory(np.array(array))
