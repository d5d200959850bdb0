"""The command line: parse, call one function, print."""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command line. A user's mistake ends with one or two lines and status 2, never with a traceback."""
    from clinometer._messages import printable
    from clinometer.cli.app import app
    from clinometer.errors import ClinometerError

    try:
        app()
    except ClinometerError as error:
        print(f"clinometer: {printable(str(error))}", file=sys.stderr)  # noqa: T201
        sys.exit(2)
    except KeyboardInterrupt:
        print("clinometer: stopped. The same command goes on from here.", file=sys.stderr)  # noqa: T201
        sys.exit(130)
