"""What is in hand when something goes wrong that nobody foresaw: notes that travel with the exception.

Errors raised on purpose name what they are about themselves.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from clinometer.errors import ClinometerError

MARK: Final = "in hand: "
PLACE: Final = "run directory: "


@contextmanager
def in_hand(what: str, *, mark: str = MARK) -> Iterator[None]:
    """Note what was in hand on an exception that passes and was not raised on purpose."""
    try:
        yield
    except ClinometerError:
        raise
    except Exception as error:
        error.add_note(f"{mark}{what}")
        raise


def things_in_hand(error: BaseException) -> list[str]:
    """What was in hand, the nearest first."""
    return _noted(error, MARK)


def run_directory(error: BaseException) -> str:
    """The run directory that was worked on; empty where none was."""
    return next(iter(_noted(error, PLACE)), "")


def _noted(error: BaseException, mark: str) -> list[str]:
    """Notes of an exception, and of those that it replaces."""
    notes = getattr(error, "__notes__", [])
    own = [note.removeprefix(mark) for note in notes if isinstance(note, str) and note.startswith(mark)]
    return list(dict.fromkeys(own))
