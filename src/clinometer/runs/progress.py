"""How a long stage tells its listener how far it is."""

from __future__ import annotations

from typing import Protocol


class Progress(Protocol):
    """A listener. Stages come one after the other; each starts, advances and finishes."""

    def start(self, stage: str, total: int, done: int) -> None:
        """Begin a stage of ``total`` items, of which ``done`` were there already."""
        ...

    def advance(self, items: int) -> None:
        """Note that some more items are done."""
        ...

    def finish(self) -> None:
        """End the stage."""
        ...

    def note(self, message: str) -> None:
        """Say something a user should read."""
        ...


class NoProgress:
    """A listener that says nothing."""

    def start(self, stage: str, total: int, done: int) -> None:
        """Say nothing."""

    def advance(self, items: int) -> None:
        """Say nothing."""

    def finish(self) -> None:
        """Say nothing."""

    def note(self, message: str) -> None:
        """Say nothing."""
