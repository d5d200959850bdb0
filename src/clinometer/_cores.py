"""How many cores there are to work with, and how threads put them to work beside a model."""

from __future__ import annotations

import os
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import contextmanager
from threading import Condition, Lock
from typing import Any, Final, TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")


class _BlasLimits:
    """How many threads work under a limit of BLAS, which is one of the whole process, and the limits to be undone."""

    def __init__(self) -> None:
        self._lock, self._inside, self._limits = Lock(), 0, list[Any]()

    def enter(self) -> None:
        """Have libraries take one thread, those too that were loaded since the last one came."""
        from threadpoolctl import threadpool_limits

        with self._lock:
            self._limits.append(threadpool_limits(limits=1, user_api="blas"))
            self._inside += 1

    def leave(self) -> None:
        """Undo the limits, the latest first, once nobody works under them."""
        with self._lock:
            self._inside -= 1
            while self._limits and not self._inside:
                self._limits.pop().restore_original_limits()


_BLAS: Final = _BlasLimits()


def available_cores() -> int:
    """Count the cores that this process may use: a container or a cluster's scheduler may have narrowed them."""
    affinity = getattr(os, "sched_getaffinity", None)  # not every system can say
    return len(affinity(0)) if affinity else os.cpu_count() or 1


def mapped_by_threads(function: Callable[[Item], Result], items: Iterable[Item], threads: int) -> Iterator[Result]:
    """Yield what a function makes of each item, in their order; no more than twice as many as threads are ahead."""
    if threads < 2:
        yield from map(function, items)
        return
    ahead: deque[Future[Result]] = deque()
    with ThreadPoolExecutor(threads) as pool:
        try:
            for item in items:
                ahead.append(pool.submit(function, item))
                if len(ahead) >= 2 * threads:
                    yield ahead.popleft().result()
            while ahead:
                yield ahead.popleft().result()
        finally:
            for future in ahead:
                future.cancel()


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Have matrix products take one thread each, where several are made side by side.

    OpenBLAS keeps its helper threads spinning between products: of many small ones they cost more time than they save,
    and most where other processes want the cores. The number is one of the whole process, so where several threads ask
    for this at once, the last to leave puts it back. See decision 38.
    """
    _BLAS.enter()
    try:
        yield
    finally:
        _BLAS.leave()


def use_threads(count: int) -> None:
    """Have torch, which this process may never need, compute with so many threads whenever it is imported."""
    os.environ["OMP_NUM_THREADS"] = str(count)
    if "torch" in sys.modules:
        sys.modules["torch"].set_num_threads(count)


WORKERS = max(1, min(16, available_cores() - 1))
"""Threads that compress images, or decode them, while the model is at work, for which a core is left."""


class WeightGate:
    """Lets tasks in by their weight: together they weigh at most so much, or there is one alone."""

    def __init__(self, most: int) -> None:
        self._most, self._weight = most, 0
        self._changed = Condition()

    def submit(self, pool: Executor, weight: int, task: Callable[..., Result], *arguments: Any) -> Future[Result]:
        """Hand a task to a pool, once there is room for its weight."""
        with self._changed:
            self._changed.wait_for(lambda: not self._weight or self._weight + weight <= self._most)
            self._weight += weight
        future = pool.submit(task, *arguments)
        future.add_done_callback(lambda _: self._leave(weight))
        return future

    def _leave(self, weight: int) -> None:
        with self._changed:
            self._weight -= weight
            self._changed.notify_all()


@contextmanager
def one_behind() -> Iterator[Callable[..., None]]:
    """A thread that does one thing at a time while its caller goes on.

    The caller waits for the thing before, and meets its error: a full disk ends the run with every earlier part whole.
    """
    pending: list[Future[Any]] = []
    with ThreadPoolExecutor(max_workers=1) as thread:

        def submit(task: Callable[..., object], *arguments: Any) -> None:
            while pending:
                pending.pop().result()
            pending.append(thread.submit(task, *arguments))

        yield submit
        while pending:
            pending.pop().result()
