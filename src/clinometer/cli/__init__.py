"""The command line: parse, call one function, print; and report an unexpected exception, with a file for it."""

from __future__ import annotations

import getpass
import io
import os
import re
import sys
import tempfile
import traceback
import warnings
from collections.abc import Callable
from contextlib import suppress
from importlib import metadata
from itertools import pairwise
from pathlib import Path
from typing import Any, Final, NoReturn, TextIO

from clinometer._messages import printable
from clinometer._secrets import MaskedStream, masked, masked_address, without_home
from clinometer.errors import (
    ClinometerError,
    DamagedRunWarning,
    UncheckedRunWarning,
    run_directory,
    things_in_hand,
)

FILE: Final = ".last-error.txt"
LONGEST: Final = 200
LONG_WORD: Final = re.compile(r"(\S{200})\S{300,}(\S{50})")
"""A name, or a number, of thousands of characters: its beginning and its end tell which it is."""


def main() -> None:
    """Run the command line: what goes wrong ends with one or two lines, never with a traceback.

    A user's mistake has status 2, Ctrl-C 130, an error of clinometer's own 70. ``--debug`` shows the traceback too.
    Whoever stops reading, such as ``| head``, changes neither what is done nor the status.
    """
    from clinometer.cli.app import STATUS, app

    words = sys.argv[1:]
    warnings.showwarning = _in_a_line()
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is not None and stream is getattr(sys, f"__{name}__"):
            setattr(sys, name, stream := _with_any_reader(stream))
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")  # a file's name need not be text
        if stream is not None:
            setattr(sys, name, MaskedStream(stream))
    for before, word in pairwise(["", *words]):  # what a crash may repeat is known before anything runs
        is_server = before == "--base-url" or word.startswith("--base-url=")
        masked_address(word.removeprefix("--base-url="), keys_in_path=is_server)
    try:
        app()
    except ClinometerError as error:
        _end(error, str(error), 2)
    except KeyboardInterrupt:
        print("clinometer: stopped. The same command goes on from here.", file=sys.stderr)  # noqa: T201
        sys.exit(130)
    except OSError as error:
        message = f"{error.filename}: {error.strerror}" if error.filename and error.strerror else ""
        _end(error, message or crash_message(error, words), 2 if message else STATUS)
    except Exception as error:
        _end(error, crash_message(error, words), STATUS)


class _Pipe(io.FileIO):
    """A stream that goes on when its reader has gone.

    Click and Rich end a command with status 1 on a closed pipe, and Python with 120: of a gate, 1 says "broken".
    """

    def write(self, content: Any, /) -> int:
        try:
            return super().write(content)
        except BrokenPipeError:
            return memoryview(content).nbytes


def _with_any_reader(stream: TextIO) -> TextIO:
    """Return the stream of a process, written so that nothing is lost but what nobody reads."""
    stream.flush()
    raw = _Pipe(stream.fileno(), "w", closefd=False)
    return io.TextIOWrapper(
        io.BufferedWriter(raw), stream.encoding, stream.errors, line_buffering=raw.isatty() or stream is sys.stderr
    )


def _end(error: Exception, message: str, status: int) -> NoReturn:
    """Print what went wrong, below its traceback if --debug or the variable asks for it, and exit."""
    from clinometer.cli.app import VARIABLE

    if "--debug" in sys.argv[1:] or os.environ.get(VARIABLE, "") not in ("", "0"):
        traceback.print_exception(error)
    short = LONG_WORD.sub(r"\1…\2", printable(message))
    print(f"clinometer: {short}", file=sys.stderr)  # noqa: T201
    sys.exit(status)


def _in_a_line() -> Callable[..., None]:
    """Return what shows warnings: clinometer's own in a line, each once; others as Python shows them."""
    python_shows, said = warnings.showwarning, set[str]()

    def show(message: Warning | str, category: type[Warning], *place: Any, **more: Any) -> None:
        if not issubclass(category, (DamagedRunWarning, UncheckedRunWarning)):
            python_shows(message, category, *place, **more)
        elif str(message) not in said:
            said.add(str(message))
            print(f"clinometer: {printable(str(message))}", file=sys.stderr)  # noqa: T201

    return show


def crash_message(error: BaseException, words: list[str]) -> str:
    """Return the message about an exception: where it arose, what is kept, where its traceback is and whom to tell.

    Parameters
    ----------
    words : the command line.
    """
    from clinometer.cli.app import RESUMED

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
