"""Processes on this machine: one for each visible GPU, or as many as are asked for."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import re
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from multiprocessing.context import BaseContext
from typing import Any, Final
from uuid import uuid4

from clinometer.errors import EngineError
from clinometer.pipeline.engines.dispatch import Death, Done, Unit, Work, WorkerDiedError, dispatch


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
"""What workers import, and take longer for than for anything else before their first part."""


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
