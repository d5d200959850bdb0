"""Report an unexpected exception: two lines in the terminal, and a file with the traceback."""

from __future__ import annotations

import getpass
import os
import re
import sys
import tempfile
import traceback
from contextlib import suppress
from importlib import metadata
from pathlib import Path
from typing import Final

from clinometer._secrets import masked, without_home
from clinometer.errors import run_directory, things_in_hand

STATUS: Final = 70
"""The exit status: of ``sysexits.h`` that of a mistake in the program itself. A user's mistake ends with 2."""

VARIABLE: Final = "CLINOMETER_DEBUG"
FILE: Final = ".last-error.txt"
LONGEST: Final = 200
RESUMED: Final = ("audit", "import", "reproduce", "score", "sweep")
"""Commands that go on where they were."""


def is_wanted(words: list[str]) -> bool:
    """Return whether tracebacks are to be shown."""
    return "--debug" in words or os.environ.get(VARIABLE, "") not in ("", "0")


def crash_message(error: BaseException, words: list[str]) -> str:
    """Return the message about an exception: where it arose, what is kept, where its traceback is and whom to tell.

    Parameters
    ----------
    words : the command line.
    """
    hand = ", ".join(things_in_hand(error)[:2])
    way_on = " What was finished is kept; the same command goes on from there." if set(words) & set(RESUMED) else ""
    message = masked(" ".join(str(error).split()))[:LONGEST].rstrip(".")
    short = f"{type(error).__name__}: {message}" if message else type(error).__name__
    lines = f"an error of clinometer's own{f', with {hand} in hand' if hand else ''}: {short}.{way_on}"
    place = _write_traceback(error, words)
    where = f"The traceback is in {place}" if place else "--debug before the command shows the traceback"
    version = _installed_version()
    return f"{lines}\n{where}; please report it with the command, to the issue tracker of clinometer {version}."


def _write_traceback(error: BaseException, words: list[str]) -> str:
    """Write the traceback and return where it is; empty where it could not be written.

    In the run directory where there is a run, hidden, as it names the machine's paths; else in the temporary folder.
    The user's home is ``~`` in it, and no other path has the user's name: people send this file to others.
    """
    text = f"clinometer {_installed_version()}, Python {sys.version.split()[0]}, {sys.platform}\n{' '.join(words)}\n\n"
    text += "".join(traceback.format_exception(error))
    text = without_home(masked(text))
    with suppress(OSError, KeyError, ImportError):
        text = re.sub(rf"(?<=[/\\]){re.escape(getpass.getuser())}(?=[/\\])", "USER", text)
    content = text.encode(errors="backslashreplace")
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


def _installed_version() -> str:
    with suppress(metadata.PackageNotFoundError):
        return metadata.version("clinometer")
    return "(not installed)"
