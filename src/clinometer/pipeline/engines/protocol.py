"""What an engine is, to the rest of the house."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

Unit = tuple[int, ...]
"""Parts of a run, by number, that one worker makes in one go."""

MOST_DEATHS: Final = 3
"""Workers that may die over one unit before it is given up: memory may run out by chance, and twice by bad luck."""


class Work(Protocol):
    """Something that is done unit by unit. It is pickled for the workers, each of which opens it once."""

    def open(self) -> Callable[[Unit], Any]:
        """Load what it takes, and return what makes a unit."""
        ...


@dataclass(frozen=True)
class Done:
    """A unit that was made, and what was returned of it."""

    unit: Unit
    result: Any


@dataclass(frozen=True)
class Death:
    """A worker that died over a unit, for the ``times``-th time; ``given_up`` where no other is to try."""

    unit: Unit
    reason: str
    times: int

    @property
    def given_up(self) -> bool:
        """Whether the unit has cost as many workers as it may."""
        return self.times >= MOST_DEATHS


class Engine(Protocol):
    """Maps units to workers.

    ``workers`` is how many it has. A worker that dies is replaced, and its unit is made again by the next that is free.
    """

    workers: int

    def map(self, work: Work, units: Sequence[Unit]) -> Iterator[Done | Death]:
        """Make every unit, in any order, and tell of each when it is made; of a worker that dies, too.

        Raises
        ------
        Exception
            Whatever the work raised first; units that were not made by then may never be.
        EngineError
            No worker can be started, or the work cannot be sent to one.
        """
        ...

    def close(self) -> None:
        """End all workers, whatever they are at. What they have written is whole, as files are."""
        ...
