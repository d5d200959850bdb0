"""Units to slots, the part of an engine that is the same wherever its workers run; and processes on this machine.

A slot holds one worker at a time and gives it one unit at a time, so a worker that dies can only have died of that
unit. Nothing is given to a slot before its worker is up: a cluster may have no place for one.

Workers go to GPUs by the memory that their models take.
A worker holds every model of the audit. What their weights take is counted; what it takes to work with them is not
known before, and is estimated by :data:`WORKING`. A batch that does not fit is drawn in halves, so too little room
costs time and no image. See decision 37.
"""

from __future__ import annotations

import multiprocessing
import os
import pickle
import re
import signal
import subprocess
import sys
import threading
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from dataclasses import dataclass
from math import ceil
from multiprocessing.context import BaseContext
from typing import Any, Final, Protocol
from uuid import uuid4

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


class LocalEngine:
    """Processes of this machine.

    Parameters
    ----------
    workers : how many.
    gpus : names of the GPUs that each sees one of, in turn; empty where they see what this process does.
    """

    def __init__(self, workers: int, gpus: Sequence[str] = ()) -> None:
        self.workers = workers
        settings = [{"CUDA_VISIBLE_DEVICES": gpus[slot % len(gpus)]} if gpus else {} for slot in range(workers)]
        self._slots = [_ProcessSlot(environment) for environment in settings]

    def map(self, work: Work, units: Sequence[Unit]) -> Iterator[Done | Death]:
        """See :class:`clinometer.pipeline.engines.Engine`."""
        pickled, key = pickled_work(work), uuid4().hex
        for slot in self._slots:
            slot.take_up(key, pickled)
        yield from dispatch(self._slots, units)

    def close(self) -> None:
        """End all workers."""
        for slot in self._slots:
            slot.kill()
        for slot in self._slots:
            slot.end()


def pickled_work(work: Work) -> bytes:
    """Return work as it is sent to another process.

    Raises
    ------
    EngineError
        Something of it cannot be sent, such as a model that was given as an object.
    """
    try:
        return pickle.dumps(work)
    except Exception as error:  # objects raise what they like when they are pickled
        raise EngineError(
            f"the work cannot be sent to another process ({type(error).__name__}: {error}); give models by "
            "their names, or leave engine and workers out",
            field="engine",
        ) from error


IMPORTED: Final = re.compile(
    r"torch|diffusers|transformers|open_clip|clinometer\._torch|diffusers\.pipelines\.\w+\.pipeline_\w+"
    r"|diffusers\.models\.\w+\.\w+|transformers\.models\.\w+\.modeling_\w+"
)
"""Modules that a worker imports before its first part, most of the time until then."""


def _context() -> BaseContext:
    """Choose how workers start: each by itself, or as a copy of a process that has imported and done nothing else.

    The copy starts at once and shares its memory. It must be of a process without threads (pyarrow's allocator has one)
    and without a GPU's driver, which libraries may start that look for GPUs when they are imported.
    """
    if sys.platform != "linux" or _may_see_gpus():
        return multiprocessing.get_context("spawn")  # a copy of a process that runs torch's threads may hang
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([name for name in sys.modules if IMPORTED.fullmatch(name)])
    return context


def _may_see_gpus() -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and bool(torch.cuda.is_available())


class _ProcessSlot:
    """One process at a time, in a pool of its own: it dies alone."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._environment = dict(environment)
        self._pool: ProcessPoolExecutor | None = None
        self._process: Any = None
        self._unit: Future[Any] | None = None
        self._key = self._opened = ""
        self._work = b""

    def take_up(self, key: str, work: bytes) -> None:
        """Switch to this work: units from now on belong to it."""
        self._key, self._work = key, work

    @property
    def has_worker(self) -> bool:
        return self._pool is not None

    def start(self) -> Future[Any]:
        if self._pool is None:
            self._pool = ProcessPoolExecutor(
                1, _context(), initializer=_begin, initargs=({**os.environ, **self._environment},)
            )
            self._opened = ""
        try:
            started = self._pool.submit(os.getpid)
        except BrokenProcessPool:  # it died with nothing to do
            self._forget()
            return self.start()
        started.add_done_callback(self._note_process)
        return started

    def _note_process(self, started: Future[int]) -> None:
        """Store the process for its exit code, which its pool does not tell.

        The pipe of results is to end with the worker, else half a result is awaited for good: the pool keeps an end to
        write by, which it does not use.
        """
        if started.exception() is None:
            writer = getattr(getattr(self._pool, "_result_queue", None), "_writer", None)
            if writer is not None and not writer.closed:
                writer.close()
            children = multiprocessing.active_children()
            self._process = next((child for child in children if child.pid == started.result()), self._process)

    def submit(self, unit: Unit) -> Future[Any]:
        assert self._pool is not None  # start
        work = None if self._opened == self._key else self._work
        self._opened = self._key
        try:
            self._unit = self._pool.submit(make, self._key, work, unit)
        except BrokenProcessPool as error:
            self._unit = Future()
            self._unit.set_exception(error)
        return self._unit

    def read_error(self, error: BaseException) -> BaseException:
        if not isinstance(error, BrokenProcessPool):
            return error
        reason = self._cause_of_death()
        self._forget()
        return WorkerDiedError(reason)

    def _cause_of_death(self) -> str:
        if self._process is None:
            return "it ended before it was up"
        with suppress(AssertionError, ValueError):
            self._process.join(5)
        code = self._process.exitcode
        if code == -signal.SIGKILL:
            return "killed by signal 9, as by a system whose memory is full"
        if code is None:
            return "it is gone, and the system does not say why"
        return f"killed by signal {-code}" if code < 0 else f"it ended with status {code}"

    def _forget(self) -> None:
        if self._pool is not None:
            self._pool.shutdown(wait=True, cancel_futures=True)
        self._pool = self._process = None

    def kill(self) -> None:
        """Kill the process if it is working; an idle one ends when asked."""
        if self._unit is not None and not self._unit.done() and self._process is not None:
            self._process.kill()

    def end(self) -> None:
        """Stop the process, even one that is still writing a file."""
        self._forget()


def _begin(environment: Mapping[str, str]) -> None:
    """Make a process a worker, with the driver's environment, before it imports anything that asks for GPUs."""
    os.environ.clear()  # a copy of a process that started earlier has that one's
    os.environ.update(environment)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the driver, which ends its workers
    threading.Thread(target=_end_with_driver, daemon=True).start()


def _end_with_driver() -> None:
    """End this worker when its driver is gone: a driver that is killed cannot do it."""
    driver = multiprocessing.parent_process()
    if driver is not None:
        driver.join()
        os._exit(1)


_OPENED: dict[str, Callable[[Unit], Any]] = {}


def make(key: str, work: bytes | None, unit: Unit) -> Any:
    """Make a unit, in a worker: of the work that comes with it, or else of the one that came before."""
    if work is not None:
        _OPENED.clear()
        _OPENED[key] = pickle.loads(work).open()
    return _OPENED[key](unit)
