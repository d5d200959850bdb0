"""The sizes and times of a run's files when its last command ended, so that the same command need not read them all.

A hidden file holds what the scores were made of, and a hash of the stamps of all files: sizes and times, as the
operating system tells them. While the hash is the same, no file was written since. The file is no part of the run:
without it, or on an object store, every file's own checksum is read.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from typing import Any, Final

from clinometer.errors import RunError
from clinometer.runs.store import Run

NAME: Final = ".file-stamps.json"


def stamps_of(run: Run, *, beside: tuple[str, ...] = ()) -> str | None:
    """Sizes, times and places of a run's files as one hash, but for some; None where they cannot be told."""
    if not run.directory.is_local:
        return None
    seen = hashlib.sha256()
    try:
        for name in run.ledger.present():
            if name not in beside:
                found = os.stat(run.directory.path(name))
                seen.update(
                    f"{name}\0{found.st_size} {found.st_mtime_ns} {found.st_ctime_ns} {found.st_ino}\n".encode()
                )
    except OSError:
        return None
    return seen.hexdigest()


def remember(run: Run, **said: Any) -> None:
    """Add facts to the hidden file; a place that cannot be written, or has no stamps, is left as it is."""
    if not run.directory.is_local:
        return
    known = {**recalled(run), **said}
    try:
        if known != recalled(run):
            run.directory.write_bytes(NAME, json.dumps(known).encode())
    except RunError:
        return


def recalled(run: Run) -> Mapping[str, Any]:
    """What was kept; nothing where it cannot be read."""
    if not run.directory.is_local:
        return {}
    try:
        with open(run.directory.path(NAME), encoding="utf-8") as file:
            found = json.load(file)
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}
