"""The number of available cores, and threads that use them while a model computes."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from threading import Condition, Lock
from typing import Any, Final, TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")


class _OneThread:
    """The number of Python threads under the limits of BLAS and torch, and the limits to undo."""

    def __init__(self) -> None:
        self._lock, self._inside, self._undo = Lock(), 0, list[Callable[[], object]]()

    def enter(self) -> None:
        """Limit libraries to one thread, including those that were loaded since the last call."""
        from threadpoolctl import threadpool_limits

        with self._lock:
            self._undo.append(threadpool_limits(limits=1, user_api="blas").restore_original_limits)
            torch: Any = sys.modules.get("torch")
            if hasattr(torch, "get_num_threads"):  # another thread may be importing it
                self._undo.append(partial(torch.set_num_threads, torch.get_num_threads()))
                torch.set_num_threads(1)  # of this thread of Python too, whatever the others have set
            elif torch is None:  # it may be imported meanwhile, and asks the environment then
                self._undo.append(partial(_reset_threads, os.environ.get("OMP_NUM_THREADS")))
                os.environ["OMP_NUM_THREADS"] = "1"
            self._inside += 1

    def leave(self) -> None:
        """Undo the limits, the latest first, once nobody works under them."""
        with self._lock:
            self._inside -= 1
            while self._undo and not self._inside:
                self._undo.pop()()


def _reset_threads(before: str | None) -> None:
    """Restore the environment's number of threads, and that of a torch imported since then."""
    if before is None:
        os.environ.pop("OMP_NUM_THREADS", None)
    else:
        os.environ["OMP_NUM_THREADS"] = before
    if torch := sys.modules.get("torch"):
        torch.set_num_threads(int(before) if before and before.isdigit() else available_cores())


_ONE_THREAD: Final = _OneThread()


def available_cores() -> int:
    """Count the cores that this process may use: a container or a cluster's scheduler may have narrowed them."""
    affinity = getattr(os, "sched_getaffinity", None)  # not every system can say
    return len(affinity(0)) if affinity else os.cpu_count() or 1


def mapped_by_threads(function: Callable[[Item], Result], items: Iterable[Item], threads: int) -> Iterator[Result]:
    """Yield a function's result for each item, in their order; at most twice as many as threads are ahead."""
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
def one_thread() -> Iterator[None]:
    """Limit matrix products and torch to one thread each, so that no number depends on how many cores there are.

    It is used to compute scores and to embed texts. Both are many small products, for which OpenBLAS's helper threads,
    which spin in between, cost more time than they save. The limit is one of the whole process, so where several
    threads set it at once, the last to leave restores the former one. See decisions 38 and 71.
    """
    _ONE_THREAD.enter()
    try:
        yield
    finally:
        _ONE_THREAD.leave()


def use_threads(count: int) -> None:
    """Limit torch to so many threads, now or when it is imported, which may never happen."""
    os.environ["OMP_NUM_THREADS"] = str(count)
    if "torch" in sys.modules:
        sys.modules["torch"].set_num_threads(count)


WORKERS = max(1, min(16, available_cores() - 1))
"""Threads that compress images, or decode them, while the model is at work, for which a core is left."""


class WeightGate:
    """Limits the total weight of the tasks at work; a heavier one works alone."""

    def __init__(self, most: int) -> None:
        self._most, self._weight = most, 0
        self._changed = Condition()

    def submit(self, pool: Executor, weight: int, task: Callable[..., Result], *arguments: Any) -> Future[Result]:
        """Submit a task to a pool, once there is room for its weight."""
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
def unbroken() -> Iterator[None]:
    """Ignore further interrupts, after a first one or an error, while results that cost money are stored."""
    if threading.current_thread() is not threading.main_thread():  # which alone is interrupted
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


@contextmanager
def one_behind() -> Iterator[Callable[..., None]]:
    """Start a thread that runs one task at a time while its caller goes on.

    The caller waits for the task before, and gets its error: a full disk ends the run with every earlier part whole.
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
