"""Work done in threads, its results in order; what waits is bounded by its weight."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")


def in_order(
    work: Callable[[Item], Result],
    items: Iterable[Item],
    *,
    weight: Callable[[Item], int],
    most: int,
    workers: int,
) -> Iterator[Result]:
    """Yield the work's result for each item, in the items' order, made ahead by some threads.

    Parameters
    ----------
    weight : of an item, from before its work begins until its result is taken.
    most : what the items at work or waiting weigh together; an item that weighs more is alone.
    workers : threads; twice as many items are taken ahead at most.
    """
    pending: deque[tuple[Future[Result], int]] = deque()
    total = 0
    with ThreadPoolExecutor(workers) as pool:
        for item in items:
            item_weight = weight(item)
            while pending and (total + item_weight > most or len(pending) >= 2 * workers):
                future, first_weight = pending.popleft()
                yield future.result()
                total -= first_weight
            pending.append((pool.submit(work, item), item_weight))
            total += item_weight
        while pending:
            yield pending.popleft()[0].result()
