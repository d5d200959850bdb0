"""Units to slots: the part of an engine that is the same wherever its workers run.

A slot holds one worker at a time and gives it one unit at a time, so a worker that dies can only have died of that
unit. Nothing is given to a slot before its worker is up: a cluster may have no place for one.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from typing import Any, Final, Protocol

from clinometer.errors import EngineError
from clinometer.pipeline.engines.protocol import MOST_DEATHS, Death, Done, Unit

PATIENCE: Final = 600.0
"""Seconds to wait for the first worker: a cluster may have to start a machine for it."""


class WorkerDiedError(Exception):
    """A worker ended with its unit unmade. Its text is the reason."""


class Slot(Protocol):
    """A place for a worker."""

    @property
    def has_worker(self) -> bool:
        """Whether a worker was started here and is not known to have died; it may still wait for a machine."""
        ...

    def start(self) -> Future[Any]:
        """Have a worker that lives; done when it is up."""
        ...

    def submit(self, unit: Unit) -> Future[Any]:
        """Give the worker a unit."""
        ...

    def read_error(self, error: BaseException) -> BaseException:
        """What an error of a future means: `WorkerDiedError` where the worker is gone, else what the work raised."""
        ...


def dispatch(slots: Sequence[Slot], units: Sequence[Unit], lost: Future[None] | None = None) -> Iterator[Done | Death]:
    """Have the slots make every unit; as of :meth:`clinometer.pipeline.engines.Engine.map`.

    ``lost`` : fails where all workers are gone at once, with what is to be said of it.
    """
    table = _Table(_enough(slots, len(units)), units, [lost] if lost is not None else [])
    while table.is_busy:
        yield from table.next_events()


def _enough(slots: Sequence[Slot], units: int) -> Sequence[Slot]:
    """All slots with a worker, and fresh ones while there are more units.

    All, although the units may be fewer: a worker that was started again may wait for a machine that never comes back.
    """
    started = [slot for slot in slots if slot.has_worker]
    fresh = [slot for slot in slots if not slot.has_worker]
    return started + fresh[: max(0, units - len(started))]


class _Table:
    """Who works on what."""

    def __init__(self, slots: Sequence[Slot], units: Sequence[Unit], lost: list[Future[None]]) -> None:
        self._lost = lost
        self._waiting = deque(units)
        self._starting: dict[Future[Any], Slot] = {slot.start(): slot for slot in slots}
        self._working: dict[Future[Any], tuple[Slot, Unit]] = {}
        self._idle: list[Slot] = []
        self._deaths: Counter[Unit] = Counter()
        self._false_starts: Counter[int] = Counter()

    @property
    def is_busy(self) -> bool:
        return bool(self._waiting or self._working)

    def next_events(self) -> Iterator[Done | Death]:
        while self._idle and self._waiting:
            slot, unit = self._idle.pop(), self._waiting.popleft()
            self._working[slot.submit(unit)] = slot, unit
        awaited = [*self._starting, *self._working, *self._lost]
        finished, _ = wait(awaited, None if self._working else PATIENCE, FIRST_COMPLETED)
        for future in finished.intersection(self._lost):
            future.result()
        if not finished:
            raise EngineError(
                f"no worker could be started within {PATIENCE:g} s; see whether the cluster has free places, "
                "or ask for fewer --workers",
                field="engine",
            )
        for future in finished:
            if future in self._starting:
                self._meet_start(future)
            else:
                yield self._met_end(future)

    def _meet_start(self, future: Future[Any]) -> None:
        slot = self._starting.pop(future)
        error = future.exception()
        if error is None:
            self._idle.append(slot)
            return
        read = slot.read_error(error)
        if not isinstance(read, WorkerDiedError):
            raise read
        self._false_starts[id(slot)] += 1
        if self._false_starts[id(slot)] < MOST_DEATHS:
            self._starting[slot.start()] = slot
        elif not (self._starting or self._working or self._idle):
            raise EngineError(
                f"no worker lives long enough to be given work: {read}; a script must start workers under "
                '`if __name__ == "__main__":`',
                field="engine",
            )

    def _met_end(self, future: Future[Any]) -> Done | Death:
        slot, unit = self._working.pop(future)
        error = future.exception()
        if error is None:
            self._idle.append(slot)
            return Done(unit, future.result())
        read = slot.read_error(error)
        if not isinstance(read, WorkerDiedError):
            raise read
        self._starting[slot.start()] = slot
        return self._death(unit, str(read))

    def _death(self, unit: Unit, reason: str) -> Death:
        """Have a unit made again, part by part where it has several: which of them it was is not known."""
        if len(unit) > 1:
            self._waiting.extendleft((part,) for part in reversed(unit))
            return Death(unit, reason, 1)
        self._deaths[unit] += 1
        if self._deaths[unit] < MOST_DEATHS:
            self._waiting.append(unit)
        return Death(unit, reason, self._deaths[unit])
