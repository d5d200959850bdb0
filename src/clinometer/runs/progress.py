"""How a long stage tells its listener how far it is."""

from __future__ import annotations

import html
import logging
import sys
from time import monotonic
from typing import Any, Final, Protocol

LOG: Final = logging.getLogger("clinometer.progress")


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


class NotebookProgress:
    """A bar below the cell of a notebook, which needs no extension of it; notes are listed under the bar."""

    EVERY: Final = 0.2
    """Seconds between two looks of the bar: a notebook keeps every message that it gets."""

    def __init__(self) -> None:
        self._stage, self._total, self._done = "", 0, 0
        self._began = self._shown = monotonic()
        self._before: list[str] = []
        self._handle: Any = None

    def start(self, stage: str, total: int, done: int) -> None:
        """Show a bar for the stage."""
        self._stage, self._total, self._done, self._began = stage, total, done, monotonic()
        self._show()

    def advance(self, items: int) -> None:
        """Move the bar."""
        self._done += items
        if monotonic() - self._shown >= self.EVERY:
            self._show()

    def finish(self) -> None:
        """Put a line in the bar's place."""
        self._before.append(f"{self._stage}: done in {monotonic() - self._began:.1f} s")
        self._stage = ""
        self._show()

    def note(self, message: str) -> None:
        """List what a user should read."""
        self._before.append(message)
        self._show()

    def _show(self) -> None:
        from IPython.display import HTML, display

        lines = [html.escape(line) for line in self._before]
        if self._stage:
            bar = f'<progress max="{max(self._total, 1)}" value="{self._done}"></progress>'
            lines.append(f"{html.escape(self._stage)} {bar} {self._done:,} of {self._total:,}")
        shown = HTML("<br>".join(lines))  # type: ignore[no-untyped-call]
        if self._handle is None:
            self._handle = display(shown, display_id=True)  # type: ignore[no-untyped-call]
        else:
            self._handle.update(shown)
        self._shown = monotonic()


class _Logged:
    """Tells a listener, and the log ``clinometer.progress``, what a stage does."""

    def __init__(self, listener: Progress) -> None:
        self._listener = listener
        self._stage, self._began = "", monotonic()

    def start(self, stage: str, total: int, done: int) -> None:
        LOG.info("%s: %d%s", stage, total, f", {done} already there" if done else "")
        self._stage, self._began = stage, monotonic()
        self._listener.start(stage, total, done)

    def advance(self, items: int) -> None:
        self._listener.advance(items)

    def finish(self) -> None:
        LOG.info("%s: done in %.1f s", self._stage, monotonic() - self._began)
        self._listener.finish()

    def note(self, message: str) -> None:
        LOG.warning("%s", message)
        self._listener.note(message)


def listening(progress: Progress | None) -> Progress:
    """Return who is told how far the work is: the listener that is given, in a notebook a bar, and always the log."""
    if progress is None:
        shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
        progress = NotebookProgress() if hasattr(shell, "kernel") else NoProgress()
    return _Logged(progress)
