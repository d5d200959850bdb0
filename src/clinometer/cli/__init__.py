"""The command line: parse, call one function, print."""

from __future__ import annotations

import re
import sys
import traceback
import warnings
from collections.abc import Callable
from typing import Any, Final

LONG_WORD: Final = re.compile(r"(\S{200})\S{300,}(\S{50})")
"""A name, or a number, of thousands of characters: its beginning and its end tell which it is."""


def main() -> None:
    """Run the command line: what goes wrong ends with one or two lines, never with a traceback.

    A user's mistake has status 2, Ctrl-C 130, an error of clinometer's own 70. ``--debug`` shows the traceback too.
    """
    from clinometer.cli.app import app
    from clinometer.cli.unforeseen import STATUS, crash_message, is_wanted
    from clinometer.errors import ClinometerError

    words = sys.argv[1:]
    warnings.showwarning = _in_a_line()
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")  # a file's name need not be text
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


def _end(error: Exception, message: str, status: int, *, with_traceback: bool) -> None:
    """Say what happened, below its traceback where that is wanted."""
    if with_traceback:
        traceback.print_exception(error)
    from clinometer._messages import printable

    short = LONG_WORD.sub(r"\1…\2", printable(message))
    print(f"clinometer: {short}", file=sys.stderr)  # noqa: T201
    sys.exit(status)


def _in_a_line() -> Callable[..., None]:
    """What shows warnings: clinometer's own in a line, each once; others as Python shows them."""
    from clinometer.errors import DamagedRunWarning, UncheckedRunWarning

    python_shows, crash_message = warnings.showwarning, set[str]()

    def show(message: Warning | str, category: type[Warning], *place: Any, **more: Any) -> None:
        if not issubclass(category, (DamagedRunWarning, UncheckedRunWarning)):
            python_shows(message, category, *place, **more)
        elif str(message) not in crash_message:
            crash_message.add(str(message))
            print(f"clinometer: {message}", file=sys.stderr)  # noqa: T201

    return show
