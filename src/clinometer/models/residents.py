"""Generators that a process has loaded: one is on its device, and others wait in the host's memory to come back.

Two may not fit on a device, and how many images one draws at once must not depend on which others were loaded before.
So one that makes room takes its weights along, if it can (`Parks`) and the host has room; else it is loaded again. See
decision 37.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

from clinometer._memory import give_back_freed_memory, memory
from clinometer.models.abilities import Parks, Releases, offers

KEPT_FREE: Final = 0.25
"""Share of memory that stays free beside what waits: the next model passes through it, and others need some too.

What counts is what is free at the time, so processes that keep models side by side leave it together.
"""


class Residents:
    """Generators by a key for each: one at work, and those that wait."""

    def __init__(self) -> None:
        self._at_work: tuple[str, Any] | None = None
        self._waiting: dict[str, Any] = {}

    def take(self, key: str, load: Callable[[], Any]) -> Any:
        """Have one at work: the one that is, one that waits, or one that is loaded. The one before makes room."""
        if self._at_work is None or self._at_work[0] != key:
            self._set_aside(key)
            model = self._fetched(key)
            self._at_work = key, load() if model is None else model
        return self._at_work[1]

    def release(self) -> None:
        """Let go of all weights, also where others still hold the models."""
        at_work, self._at_work = self._at_work, None
        self._waiting.clear()
        release([] if at_work is None else [at_work[1]])

    def _set_aside(self, following: str) -> None:
        """Have none at work, and tell which is to follow: it need not leave where memory has become scarce.

        Where there is no room for all, those that wait stay: rounds come to them before the one that was at work.
        """
        for other in [other for other in self._waiting if other != following]:
            if room() < 0:  # other processes have grown
                del self._waiting[other]
                give_back_freed_memory()
        if self._at_work is None:
            return
        (key, model), self._at_work = self._at_work, None
        if _fits(model) and _is_done(model.park):
            self._waiting[key] = model
        else:
            del model
            give_back_freed_memory()

    def _fetched(self, key: str) -> Any:
        """One that waits, back on its device; None where there is none, or it cannot come back."""
        model = self._waiting.pop(key, None)
        if model is None or _is_done(model.unpark):
            return model
        del model
        give_back_freed_memory()
        return None


def release(models: Iterable[Any]) -> None:
    """Have models let go of their weights, those that can."""
    for model in models:
        if offers(model, Releases):
            _is_done(model.release)
    give_back_freed_memory()


def _fits(model: Any) -> bool:
    """Whether a model may wait."""
    return offers(model, Parks) and 0 < model.weight_bytes <= room()


def room() -> int:
    """Bytes that models may take while they wait, besides what they take already."""
    now = memory()
    return now.available - int(KEPT_FREE * now.total)


def _is_done(move: Callable[[], None]) -> bool:
    """Move a model; False where it cannot, whatever the reason: out of memory, or a library that refuses."""
    try:
        move()
    except Exception:  # it is loaded again, which says what is wrong if that fails too
        return False
    return True
