"""The stamps of a run's files when its last command ended, so that the same command need not read them all.

A hidden file holds what the scores were made of, and a hash of the stamps of all files: sizes and times, as the
operating system tells them; of an object store what its listings say, among it the hash that it keeps of each file.
While the hash is the same, no file was written since. The file is no part of the run: without it, or on another kind
of filesystem, every file's own checksum is read.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any, Final

from clinometer.errors import RunError
from clinometer.runs.storage import MOST_JSON, Directory
from clinometer.runs.store import Run

NAME: Final = ".file-stamps.json"


def has_stamps(directory: Directory) -> bool:
    """Whether the place of a run tells stamps of its files."""
    return directory.is_local or directory.is_store


def stamps_of(run: Run, *, beside: tuple[str, ...] = ()) -> str | None:
    """The stamps of a run's files as one hash, but for some; None where they cannot be told."""
    if not has_stamps(run.directory):
        return None
    names = [name for name in run.ledger.present() if name not in beside]
    stamps = run.directory.stamps(names)
    if stamps is None:
        return None
    hasher = hashlib.sha256()
    for name, stamp in zip(names, stamps, strict=True):
        hasher.update(f"{name}\0{stamp}\n".encode())
    return hasher.hexdigest()


def remember(run: Run, **facts: Any) -> None:
    """Add facts to the hidden file; a place that cannot be written, or has no stamps, is left as it is."""
    if not has_stamps(run.directory):
        return
    memory = recalled(run)
    try:
        if memory != {**memory, **facts}:
            run.directory.write_bytes(NAME, json.dumps({**memory, **facts}).encode())
    except RunError:
        return


def recalled(run: Run) -> Mapping[str, Any]:
    """What was kept; nothing where it cannot be read."""
    if not has_stamps(run.directory):
        return {}
    try:
        content = json.loads(run.directory.read_bytes(NAME, MOST_JSON))
    except (RunError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}
