"""Threads beside the model."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

from clinometer._cores import available_cores

WORKERS = max(1, min(16, available_cores() - 1))
"""Threads that compress images, or decode them, while the model is at work, for which a core is left."""


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
