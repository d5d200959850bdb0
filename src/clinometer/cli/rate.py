"""How fast a stage goes: a moving average that is right from the first batch.

A batch's items are told of one by one, within a millisecond, after the seconds that it took to make them all. So what
comes at once counts as one step, and the first step began when the stage did.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from time import monotonic
from typing import Final

AT_ONCE: Final = 0.05
"""Seconds within which items belong to one batch."""
WINDOW: Final = 60.0
"""Seconds that are averaged over, or the last `FEWEST` batches where they take longer."""
FEWEST: Final = 3


class MovingRate:
    """Items a second, over the last minute or the last few batches.

    ::

        rate = (items of the steps in the window) / (end of the last step − end of the step before the window)
    """

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        self._clock = clock
        now = clock()
        self._steps: deque[tuple[float, float, int]] = deque([(now, now, 0)])  # begin and end of its news, items so far

    def advance(self, items: int) -> None:
        """Note that some more items are done."""
        now, (begin, _, done) = self._clock(), self._steps[-1]
        if len(self._steps) > 1 and now - begin < AT_ONCE:
            self._steps[-1] = (begin, now, done + items)
            return
        self._steps.append((now, now, done + items))
        while len(self._steps) > FEWEST + 1 and now - self._steps[0][1] > WINDOW:
            self._steps.popleft()

    @property
    def per_second(self) -> float | None:
        """Items a second; None before the first."""
        (_, first, before), (_, last, done) = self._steps[0], self._steps[-1]
        return (done - before) / (last - first) if done > before and last > first else None

    def seconds_left(self, items: int) -> float | None:
        """How long so many items will take, from now on; None before the first."""
        rate = self.per_second
        if rate is None:
            return None
        return max(items / rate - (self._clock() - self._steps[-1][1]), 0.0)
