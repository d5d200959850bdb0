"""The command line: parse, call one function, print."""

from __future__ import annotations

import io
import re
import sys
import traceback
import warnings
from collections.abc import Callable
from itertools import pairwise
from typing import Any, Final, TextIO

LONG_WORD: Final = re.compile(r"(\S{200})\S{300,}(\S{50})")
"""A name, or a number, of thousands of characters: its beginning and its end tell which it is."""


def main() -> None:
    """Run the command line: what goes wrong ends with one or two lines, never with a traceback.

    A user's mistake has status 2, Ctrl-C 130, an error of clinometer's own 70. ``--debug`` shows the traceback too.
    Whoever stops reading, such as ``| head``, changes neither what is done nor the status.
    """
    from clinometer._secrets import MaskedStream, masked_address
    from clinometer.cli.app import app
    from clinometer.cli.crash import STATUS, crash_message, is_wanted
    from clinometer.errors import ClinometerError

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
        _end(error, str(error), 2, with_traceback=is_wanted(words))
    except KeyboardInterrupt:
        print("clinometer: stopped. The same command goes on from here.", file=sys.stderr)  # noqa: T201
        sys.exit(130)
    except OSError as error:
        message = f"{error.filename}: {error.strerror}" if error.filename and error.strerror else ""
        _end(error, message or crash_message(error, words), 2 if message else STATUS, with_traceback=is_wanted(words))
    except Exception as error:
        _end(error, crash_message(error, words), STATUS, with_traceback=is_wanted(words))


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


def _end(error: Exception, message: str, status: int, *, with_traceback: bool) -> None:
    """Print what went wrong, below its traceback where that is wanted, and exit."""
    if with_traceback:
        traceback.print_exception(error)
    from clinometer._messages import printable

    short = LONG_WORD.sub(r"\1…\2", printable(message))
    print(f"clinometer: {short}", file=sys.stderr)  # noqa: T201
    sys.exit(status)


def _in_a_line() -> Callable[..., None]:
    """Return what shows warnings: clinometer's own in a line, each once; others as Python shows them."""
    from clinometer._messages import printable
    from clinometer.errors import DamagedRunWarning, UncheckedRunWarning

    python_shows, said = warnings.showwarning, set[str]()

    def show(message: Warning | str, category: type[Warning], *place: Any, **more: Any) -> None:
        if not issubclass(category, (DamagedRunWarning, UncheckedRunWarning)):
            python_shows(message, category, *place, **more)
        elif str(message) not in said:
            said.add(str(message))
            print(f"clinometer: {printable(str(message))}", file=sys.stderr)  # noqa: T201

    return show
