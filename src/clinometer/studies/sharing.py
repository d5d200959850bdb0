"""What a study measures piece by piece: by an engine's workers where there are some, else by this process, in turn.

See decision 36.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from clinometer._cores import one_blas_thread
from clinometer.runs.store import Run
from clinometer.studies.study import Pool

UNITS_A_WORKER: Final = 4
"""So many at least: the last to end keeps the others waiting."""
BYTES_A_UNIT: Final = 2**24
"""What a process returns at once, about."""

Unit = tuple[int, ...]


@dataclass(frozen=True)
class RunWork(ABC):
    """Work on a run that is finished but for its scores.

    Attributes
    ----------
    place : of the run, absolute: a worker may be elsewhere.
    """

    place: str

    @abstractmethod
    def on(self, run: Run) -> Callable[[Unit], Any]:
        """Read what it takes, and return what makes a unit."""

    def open(self) -> Callable[[Unit], Any]:
        """The same in another process."""
        with one_blas_thread():
            make = self.on(Run(self.place))
        return partial(_in_one_thread, make)


def _in_one_thread(make: Callable[[Unit], Any], unit: Unit) -> Any:
    with one_blas_thread():
        return make(unit)


def made(
    work: RunWork, run: Run, numbers: Sequence[int], names: Sequence[str], pool: Pool | None, *, size: int
) -> Iterator[Any]:
    """What is made of every number, unit by unit, in any order.

    ``names`` : what the numbers stand for, to a user; ``size`` : bytes that a process returns of one number, about.
    """
    if pool is None:
        return map(work.on(run), [(number,) for number in numbers])
    return pool.map(work, units_of(numbers, pool.workers, size), names)


def units_of(numbers: Sequence[int], workers: int, size: int) -> list[Unit]:
    """Numbers in order, some a unit: a few units for each worker, of about :data:`BYTES_A_UNIT` at most."""
    at_once = max(1, min(-(-len(numbers) // (UNITS_A_WORKER * workers)), BYTES_A_UNIT // max(size, 1)))
    return [tuple(numbers[first : first + at_once]) for first in range(0, len(numbers), at_once)]
