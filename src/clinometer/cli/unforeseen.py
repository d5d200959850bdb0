"""The last handler: an exception that nobody foresaw, in two lines, with its traceback in a file."""

from __future__ import annotations

import os
import sys
import tempfile
import traceback
from contextlib import suppress
from importlib import metadata
from pathlib import Path
from typing import Final

from clinometer._in_hand import run_directory, things_in_hand
from clinometer._secrets import masked

STATUS: Final = 70
"""The exit status: of ``sysexits.h`` that of a mistake in the program itself. A user's mistake ends with 2."""

VARIABLE: Final = "CLINOMETER_DEBUG"
FILE: Final = ".last-error.txt"
LONGEST: Final = 200
RESUMED: Final = ("audit", "import", "score", "sweep")
"""Commands that go on where they were."""


def is_wanted(words: list[str]) -> bool:
    """Whether tracebacks are to be shown."""
    return "--debug" in words or os.environ.get(VARIABLE, "") not in ("", "0")


def crash_message(error: BaseException, words: list[str]) -> str:
    """The message about an exception: where it arose, what is kept, where its traceback is and whom to tell.

    Parameters
    ----------
    words : the command line.
    """
    hand = ", ".join(things_in_hand(error)[:2])
    way_on = " What was finished is kept; the same command goes on from there." if set(words) & set(RESUMED) else ""
    lines = f"an error of clinometer's own{f', with {hand} in hand' if hand else ''}: {_in_short(error)}.{way_on}"
    place = _written(error, words)
    where = f"The traceback is in {place}" if place else "--debug before the command shows the traceback"
    return f"{lines}\n{where}; please report it with the command, to the issue tracker of clinometer {_version()}."


def _in_short(error: BaseException) -> str:
    """An exception's kind and the start of its message, on one line."""
    message = masked(" ".join(str(error).split()))[:LONGEST].rstrip(".")
    return f"{type(error).__name__}: {message}" if message else type(error).__name__


def _written(error: BaseException, words: list[str]) -> str:
    """Where the traceback was written; empty where it could not be.

    In the run directory where there is a run, hidden, as it names the machine's paths; else in the temporary folder.
    """
    text = f"clinometer {_version()}, Python {sys.version.split()[0]}, {sys.platform}\n{' '.join(words)}\n\n"
    text += "".join(traceback.format_exception(error))
    content = masked(text).encode(errors="backslashreplace")
    place = run_directory(error)
    with suppress(OSError):
        if place and (Path(place) / "run.json").is_file():
            through_no_link = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | getattr(os, "O_NOFOLLOW", 0)
            with open(os.open(Path(place) / FILE, through_no_link, 0o644), "wb") as written:
                written.write(content)
            return str(Path(place) / FILE)
    with suppress(OSError), tempfile.NamedTemporaryFile(prefix="clinometer-", suffix=".txt", delete=False) as file:
        file.write(content)
        return file.name
    return ""


def _version() -> str:
    with suppress(metadata.PackageNotFoundError):
        return metadata.version("clinometer")
    return "(not installed)"
