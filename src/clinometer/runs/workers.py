"""Threads beside the model."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import contextmanager
from threading import Condition
from typing import Any, TypeVar

import pyarrow as pa

from clinometer._cores import available_cores

T = TypeVar("T")

WORKERS = max(1, min(16, available_cores() - 1))
"""Threads that compress images, or decode them, while the model is at work, for which a core is left."""

WORTH_GIVING_BACK = 2**26
"""Bytes: what is less is taken again at once."""


def give_back(bytes_freed: int) -> None:
    """Give freed memory back to the system, where it was much: Arrow and glibc keep it for what comes next.

    What is kept of one large image would stand beside the next one.
    """
    if bytes_freed < WORTH_GIVING_BACK:
        return
    pa.default_memory_pool().release_unused()
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None) if sys.platform == "linux" else None  # glibc alone has it
    if trim is not None:
        trim(0)


class WeightGate:
    """Lets tasks in by their weight: together they weigh at most so much, or there is one alone."""

    def __init__(self, most: int) -> None:
        self._most, self._weight = most, 0
        self._changed = Condition()

    def submit(self, pool: Executor, weight: int, task: Callable[..., T], *arguments: Any) -> Future[T]:
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
