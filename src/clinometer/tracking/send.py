"""Sending results to trackers: a tracker that is down, slow or out of disk stops no audit and loses nothing."""

from __future__ import annotations

import logging
import os
import pickle
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

from clinometer._messages import shortened
from clinometer._secrets import masked
from clinometer.runs import Progress, Run
from clinometer.runs.several import Comparison
from clinometer.sweeps.sweep import Sweep
from clinometer.tracking.clients import TrackedRun, require_trackers
from clinometer.tracking.content import tracked

DEADLINE: Final = 300
"""Seconds that a tracker may take; one that takes longer is given up, and tried again by the next command."""


def log_to(results: Run | Sweep | Sequence[Comparison], targets: Iterable[str], progress: Progress) -> list[str]:
    """Send numbers, pictures and report of results to each of ``targets``; return what went wrong, a line each.

    Whatever happens to a tracker is logged and returned, and raises nothing. What was sent before is not sent again,
    and what was not is sent by the next call. Pictures that a safety checker flagged are left out.

    Parameters
    ----------
    results : a scored run, a sweep, or comparisons with one first run.
    targets : ``TRACKER`` or ``TRACKER:TARGET``; see `TRACKERS`. Keys are read by the clients themselves, from where
        each looks for them; none is printed or stored.

    Raises
    ------
    InvalidInputError
        As of :func:`require_trackers`.
    RunError
        A run is not scored, or is damaged.
    """
    trackers = require_trackers(targets)
    runs = tracked(results) if trackers else []
    problems = []
    for name, target in trackers:
        progress.note(f"sending to {name}")
        if problem := _send(name, target, runs):
            again = "it is sent by the next command that is given --log-to, such as clinometer score"
            problems.append(masked(f"{name}: not sent: {problem}; {again}"))
            logging.getLogger("clinometer").warning(problems[-1])
    return problems


def _send(name: str, target: str, runs: Sequence[TrackedRun]) -> str:
    """Send runs from a process of its own; return what went wrong, in words, or nothing."""
    source = str(Path(__file__).parents[2])
    path = os.pathsep.join(filter(None, (source, os.environ.get("PYTHONPATH"))))
    command = [sys.executable, "-c", "from clinometer.tracking.clients import main; main()", name, target]
    with tempfile.TemporaryFile() as errors:  # no pipe: what a client leaves running would keep it open
        try:
            process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=errors,
                env=os.environ | {"PYTHONPATH": path},
                start_new_session=True,  # an interrupt is for the audit; clients write what they have before they end
            )  # fmt: skip
        except OSError as error:
            return f"its process could not start: {error}"
        try:
            process.communicate(pickle.dumps(list(runs)), timeout=DEADLINE)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            return f"no answer within {DEADLINE} seconds"
        if process.returncode == 0:
            return ""
        errors.seek(0)
        lines = errors.read().decode("utf-8", "replace").strip().splitlines()
    return shortened(lines[-1] if lines else f"its process ended with status {process.returncode}", 300)
