"""A run directory in the hands of one process: a lock on this machine, and a lease for all others."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from filelock import FileLock, Timeout

from clinometer._in_hand import PLACE, in_hand
from clinometer.errors import RunCorruptError, RunLockedError, RunNotFoundError
from clinometer.runs.disk import not_writable
from clinometer.runs.inventory import INVENTORIES, Inventory
from clinometer.runs.leases import LIFETIME, Lease, is_gone, is_of_this_machine

if TYPE_CHECKING:
    from clinometer.runs.files import Files
    from clinometer.runs.storage import Directory

SIGNATURE: Final = ".lock-holder.json"

_LEASES: Final[dict[str, Lease]] = {}
"""What this process holds, by place."""


@contextmanager
def hold(directory: Directory) -> Iterator[None]:
    """Hold a directory, as :meth:`clinometer.runs.storage.Directory.locked` says."""
    with _locked(directory) if directory.is_local else nullcontext():
        # Who had the lock of this machine has it no more, so its lease is over, too.
        is_dead = is_of_this_machine if directory.is_local else is_gone
        lease = Lease(directory, "driver", lifetime=LIFETIME, is_dead=is_dead)
        lease.acquire()
        _LEASES[directory.place] = lease
        INVENTORIES[directory.place] = Inventory(directory.fs, directory.root)
        try:
            yield
        finally:
            del _LEASES[directory.place], INVENTORIES[directory.place]
            lease.release()


def require_held(directory: Files, name: str) -> None:
    """Refuse to write where another process has taken over. Hidden files say who that is, so they may be written.

    Raises
    ------
    RunLockedError
        Another process has; the message says which.
    """
    lease = _LEASES.get(directory.place) if _LEASES and not name.startswith(".") else None
    if lease is not None:
        lease.require_held()


@contextmanager
def _locked(directory: Directory) -> Iterator[None]:
    lock = FileLock(directory.path(".lock"), timeout=0)
    try:
        os.makedirs(directory.root, exist_ok=True)
        lock.acquire()
    except Timeout as error:
        raise RunLockedError(
            f"{directory.url}: another process is working on this run ({_holder(directory)}); wait for it, or give "
            "another --out"
        ) from error
    except OSError as error:  # a file is in the way, no permission, no such disk
        raise not_writable(directory.url, error) from error
    try:  # what is raised from here on is not the lock's
        _sign(directory)
        with in_hand(directory.root, mark=PLACE):
            yield
    finally:
        lock.release()


def _sign(directory: Directory) -> None:
    since = datetime.now(UTC).isoformat("T", "seconds")
    directory.write_json(SIGNATURE, {"pid": os.getpid(), "host": socket.gethostname(), "since": since})


def _holder(directory: Directory) -> str:
    with suppress(RunNotFoundError, RunCorruptError):
        holder = directory.read_json(SIGNATURE)
        return f"process {holder.get('pid')} on {holder.get('host')} since {holder.get('since')}"
    return "process unknown"
