"""Units to slots: the part of an engine that is the same wherever its workers run.

A slot holds one worker at a time and gives it one unit at a time, so a worker that dies can only have died of that
unit. Nothing is given to a slot before its worker is up: a cluster may have no place for one.

Workers go to GPUs by the memory that their models take.
A worker holds every model of the audit. What their weights take is counted; what it takes to work with them is not
known before, and is estimated by :data:`WORKING`. A batch that does not fit is drawn in halves, so too little room
costs time and no image. See decision 37.
"""

from __future__ import annotations

import subprocess
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from dataclasses import dataclass
from math import ceil
from typing import Any, Final, Protocol

from clinometer.errors import EngineError

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
        """Start a worker if none is alive; returns when it is up."""
        ...

    def submit(self, unit: Unit) -> Future[Any]:
        """Send the worker a unit."""
        ...

    def read_error(self, error: BaseException) -> BaseException:
        """Translate a future's error: `WorkerDiedError` where the worker is gone, else what the work raised."""
        ...


def dispatch(slots: Sequence[Slot], units: Sequence[Unit], lost: Future[None] | None = None) -> Iterator[Done | Death]:
    """Run every unit in the slots; see :meth:`clinometer.pipeline.engines.Engine.map`.

    ``lost`` : fails where all workers are gone at once, with what is to be said of it.
    """
    # all slots with a worker, although the units may be fewer: one that was started again may wait for a machine that
    # never comes back; and fresh ones while there are more units
    started = [slot for slot in slots if slot.has_worker]
    fresh = [slot for slot in slots if not slot.has_worker]
    enough = started + fresh[: max(0, len(units) - len(started))]
    table = _Table(enough, units, [lost] if lost is not None else [])
    while table.is_busy:
        yield from table.next_events()


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
        """Requeue a unit. Which of its parts killed the worker is not known, so each then runs alone."""
        slot, unit = self._working.pop(future)
        error = future.exception()
        if error is None:
            self._idle.append(slot)
            return Done(unit, future.result())
        read = slot.read_error(error)
        if not isinstance(read, WorkerDiedError):
            raise read
        self._starting[slot.start()] = slot
        if len(unit) > 1:
            self._waiting.extendleft((part,) for part in reversed(unit))
            return Death(unit, str(read), 1)
        self._deaths[unit] += 1
        if self._deaths[unit] < MOST_DEATHS:
            self._waiting.append(unit)
        return Death(unit, str(read), self._deaths[unit])


WORKING: Final = 2 * 2**30
"""Bytes of a GPU that a worker needs besides its weights, about: CUDA's own, and the smallest batch."""

GIB: Final = 2**30


@dataclass(frozen=True)
class Gpu:
    """Memory of a GPU, in bytes."""

    free: int
    total: int


def gpu_table() -> dict[str, Gpu]:
    """List this machine's GPUs by number and identifier; empty where the driver's tool reports none.

    The tool is asked and not torch, which would take memory on each GPU that it looks at.
    """
    command = ["nvidia-smi", "--query-gpu=index,uuid,memory.free,memory.total", "--format=csv,noheader,nounits"]
    try:
        output = subprocess.run(command, capture_output=True, text=True, timeout=30, check=True).stdout
    except (OSError, subprocess.SubprocessError):
        return {}
    gpus: dict[str, Gpu] = {}
    for line in output.splitlines():
        index, identifier, *memory = (cell.strip() for cell in line.split(","))
        if len(memory) == 2 and all(cell.isdecimal() for cell in memory):  # of a GPU in parts it is "[N/A]"
            gpus[index] = gpus[identifier] = Gpu(*(int(cell) * 2**20 for cell in memory))
    return gpus


def placed(gpus: Sequence[str], weights: int, workers: int | None, table: Mapping[str, Gpu]) -> list[str]:
    """Name the GPU of each worker: one for each GPU that has room where nobody says how many.

    Where weights or memory are not known, workers take the GPUs in turn.

    Raises
    ------
    EngineError
        The GPUs have no room for so many.
    """
    if not weights or not all(gpu in table for gpu in gpus):
        return [gpus[worker % len(gpus)] for worker in range(workers or len(gpus))]
    room = {gpu: table[gpu].free // (weights + WORKING) for gpu in gpus}
    if workers is None:
        chosen = [gpu for gpu in gpus if room[gpu]]
        if not chosen:
            most = max(table[gpu].free for gpu in gpus)
            raise EngineError(
                f"{_say_need(weights)}, and no GPU has more than {most / GIB:.1f} GiB free{_WAY_OUT}", field="engine"
            )
        return chosen
    turns = range(max(room.values(), default=0))
    places = [gpu for turn in turns for gpu in gpus if room[gpu] > turn]  # a GPU each, before any gets a second
    if workers > len(places):
        raise _no_room(workers, weights, len(places))
    return places[:workers]


def share_of_a_gpu(gpus: int, workers: int, weights: int, total: int | None) -> float:
    """Return what part of a GPU each of so many workers of a cluster asks for.

    ``total`` : memory of the smallest GPU, in bytes; None where it is not known, and workers share evenly.

    Raises
    ------
    EngineError
        The GPUs have no room for so many.
    """
    if not gpus:
        return 0.0
    on_one = ceil(workers / gpus)
    if weights and total is not None:
        room = total // (weights + WORKING)
        if on_one > room:
            raise _no_room(workers, weights, gpus * room)
    return int(10_000 / on_one) / 10_000  # Ray counts in ten-thousandths; more than that would not fit


_WAY_OUT: Final = "; name a smaller model or --dtype, or other GPUs by CUDA_VISIBLE_DEVICES"


def _say_need(weights: int) -> str:
    need = weights + WORKING
    return f"a worker needs about {need / GIB:.1f} GiB of a GPU ({weights / GIB:.1f} of them for weights)"


def _no_room(workers: int, weights: int, room: int) -> EngineError:
    way_out = f"; give --workers {room}" if room else _WAY_OUT
    return EngineError(
        f"{_say_need(weights)}, and the GPUs have room for {room} workers, not {workers}{way_out}", field="engine"
    )
