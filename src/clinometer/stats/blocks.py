"""Arrays that are made when they are asked for: a sequence of which one is held at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import overload

import numpy as np


class Blocks(Sequence[np.ndarray]):
    """Arrays by position, each made anew whenever it is asked for.

    Parameters
    ----------
    sizes : rows of each.
    make : the array at a position.
    """

    def __init__(self, sizes: Sequence[int], make: Callable[[int], np.ndarray]) -> None:
        self.sizes = tuple(sizes)
        self._make = make

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
        return Blocks([self.sizes[place] for place in places], lambda position: self._make(places[position]))

    def __iter__(self) -> Iterator[np.ndarray]:
        return map(self._make, range(len(self.sizes)))


def sizes_of(arrays: Sequence[np.ndarray]) -> tuple[int, ...]:
    """Rows of each array, without making those that are made when they are asked for."""
    return arrays.sizes if isinstance(arrays, Blocks) else tuple(map(len, arrays))


def mapped(change: Callable[..., np.ndarray], *sequences: Sequence[np.ndarray]) -> Sequence[np.ndarray]:
    """Apply a function that keeps the rows to arrays position by position: lazily where the first are lazy."""
    if not isinstance(sequences[0], Blocks):
        return tuple(change(*arrays) for arrays in zip(*sequences, strict=True))
    return Blocks(sequences[0].sizes, lambda position: change(*(each[position] for each in sequences)))
