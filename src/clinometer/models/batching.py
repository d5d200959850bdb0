"""How many items a model takes at once: as many as memory holds, and fewer as soon as it holds no more.

See decision 38.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from time import perf_counter
from typing import TypeVar

from clinometer._torch import is_out_of_memory, torch
from clinometer.models.weights import describe

Item = TypeVar("Item")
Result = TypeVar("Result")

MOST_IMAGES = 256
"""Images a call, at most: even small ones go no faster beyond, and a run that is killed loses a batch."""

MOST_PIXELS = 2**24
"""Pixels a call, at most: a VAE's last layers hold 128 values a pixel, and some CUDA kernels count in 32 bits."""


@dataclass(frozen=True)
class BatchBounds:
    """Between which sizes a batch is looked for: the one to begin with, and the largest."""

    start: int
    most: int


def batch_bounds(device: str, size: tuple[int, int] | None, *, compiled: bool = False) -> BatchBounds:
    """Choose the bounds of a batch of images of a size (height, width), by default 1024 x 1024.

    It begins with as many pixels as a common device holds. Only CUDA refuses memory and goes on, so only there may it
    grow. Other devices swap, or end the process, before they refuse; and a CPU draws no faster with more at once. A
    compiled network is compiled for every size it meets, which takes longer than any size saves.
    """
    height, width = size or (1024, 1024)
    pixels = height * width
    budget = 8 * 512 * 512 if device == "cuda" else 2 * 256 * 256
    start = max(1, min(64, budget // pixels))
    grows = device == "cuda" and not compiled
    return BatchBounds(start, max(start, min(MOST_IMAGES, MOST_PIXELS // pixels)) if grows else start)


def largest_batch(attempt: Callable[[int], object], bounds: BatchBounds) -> int:
    """Find the largest batch that ``attempt`` gets through: doubled while it does, halved until it does.

    Sizes are the first one times a power of two: a little more or less of free memory then seldom changes what is
    found. An error other than of memory ends the search; a run meets it again and names the image that caused it.

    >>> largest_batch(lambda size: None, BatchBounds(8, 100))
    64
    """
    size = bounds.start
    outcome = _outcome(attempt, size)
    if outcome == "fits":
        while size * 2 <= bounds.most and _outcome(attempt, size * 2) == "fits":
            size *= 2
    while outcome == "too large" and size > 1:
        size //= 2
        outcome = _outcome(attempt, size)
    release_memory()
    return size


def _outcome(attempt: Callable[[int], object], size: int) -> str:
    try:
        attempt(size)
    except Exception as error:  # whatever a model's code raises
        outcome = "too large" if is_out_of_memory(error) else "broken"
    else:
        return "fits"
    release_memory()  # outside the handler, so that the failed attempt's tensors are freed
    return outcome


def release_memory() -> None:
    """Empty torch's caches, where it has any."""
    if torch.cuda.is_available():
        torch.cuda.empty_cache()


class Batches:
    """Cuts items into batches; where memory runs out, a batch is cut in half and all later ones are as small.

    Parameters
    ----------
    size : items a batch.
    """

    def __init__(self, size: int) -> None:
        self.size = size

    def results(self, items: Sequence[Item], call: Callable[[list[Item]], Result]) -> Iterator[Result]:
        """Yield the result of each batch. An item that does not fit into memory alone raises torch's own error."""
        done = 0
        while done < len(items):
            batch = list(items[done : done + self.size])
            try:
                result = call(batch)
            except Exception as error:
                if not is_out_of_memory(error) or len(batch) == 1:
                    raise
            else:
                done += len(batch)
                yield result
                continue
            # Outside the handler, so that the failed attempt's tensors are freed before the next one.
            self.size = (len(batch) + 1) // 2
            release_memory()

    def attempt(
        self,
        items: Iterable[Item],
        call: Callable[[list[Item]], Sequence[Result]],
        failed: Callable[[Item, str, float], Result],
    ) -> Iterator[Result]:
        """Yield one result an item, in their order, whatever a call raises; the items are read a batch at a time.

        Where a batch fails, its halves are tried (out of memory) or its items one by one; what fails alone is
        ``failed(item, reason, seconds)``.
        """
        source = iter(items)
        while batch := list(islice(source, self.size)):
            yield from self._attempt(batch, call, failed)

    def _attempt(
        self,
        batch: list[Item],
        call: Callable[[list[Item]], Sequence[Result]],
        failed: Callable[[Item, str, float], Result],
    ) -> Iterator[Result]:
        started = perf_counter()
        try:
            results = call(batch)
        except Exception as error:  # whatever a model's code raises: the run goes on and the reason is kept
            reason, out_of_memory = describe(error), is_out_of_memory(error)
        else:
            yield from results
            return
        # Outside the handler, so that the failed attempt's tensors are freed before the next one.
        if out_of_memory:
            release_memory()
        if len(batch) == 1:
            yield failed(batch[0], reason, perf_counter() - started)
            return
        size = 1
        if out_of_memory:
            size = (len(batch) + 1) // 2
            self.size = min(self.size, size)
        for start in range(0, len(batch), size):
            yield from self._attempt(batch[start : start + size], call, failed)
