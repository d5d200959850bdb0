"""How many cores there are to work with, and how they are put to work."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")


def available_cores() -> int:
    """Cores that this process may use: a container or a cluster's scheduler may have narrowed them."""
    affinity = getattr(os, "sched_getaffinity", None)  # not every system can say
    return len(affinity(0)) if affinity else os.cpu_count() or 1


def mapped_by_threads(function: Callable[[Item], Result], items: Iterable[Item], threads: int) -> Iterator[Result]:
    """What a function makes of each item, in their order; no more than twice as many as threads are ahead."""
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
    and most where other processes want the cores.
    """
    from threadpoolctl import threadpool_limits

    with threadpool_limits(limits=1, user_api="blas"):
        yield
