"""Leases: who works on a run, on any filesystem and from any machine.

::

    RUN/.leases/driver-000001.json    who holds it since when: a claim, created only if there is none, never changed
    RUN/.leases/TOKEN.beat            the holder's last sign, written again every third of `LIFETIME`

Unlike a lock, a lease ends by itself: a holder that gives no sign for `LIFETIME` has lost it, and the next claim has
the next number. A holder that comes back, of a machine that slept, finds the higher number and stops before it writes.
This takes one thing of a filesystem: to create a file only if there is none. Local ones link it, object stores have a
conditional PUT. All of it goes when the work ends; nothing that a run says depends on it.

The claim is the first sign, so a lease that is held for a moment takes four requests of a store: a listing and the
claim; a look whether the claim is still its own, and its removal. See decision 30.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import socket
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from math import isfinite
from pathlib import Path
from threading import Event, Thread
from typing import TYPE_CHECKING, Final
from uuid import getnode, uuid4

from filelock import FileLock, Timeout

from clinometer.errors import PLACE, RunCorruptError, RunError, RunLockedError, RunNotFoundError, in_hand
from clinometer.runs.backends import HELD, INVENTORIES, Inventory, not_writable

if TYPE_CHECKING:
    from clinometer.runs.files import Files

FOLDER: Final = ".leases"
LIFETIME: Final = 60.0
"""Seconds without a sign after which a holder has lost its lease."""
SIGNS: Final = 3
"""Signs in a lifetime: one may come late, or be lost."""
_TOKEN: Final = re.compile(r"[0-9a-f]{32}")
"""It names a file."""


def boot_id() -> str:
    """Return an id of this machine since it was started; empty where the system has none."""
    with suppress(OSError):
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    return ""


def mark_of(host: str) -> str:
    """Return a mark that is unique to a host and does not name it: a run that is shared holds no host name.

    It is a hash with what this machine alone knows, so a name cannot be tried out on it.
    """
    return hashlib.sha256(f"{boot_id() or getnode()}/{host}".encode()).hexdigest()[:32]


@dataclass(frozen=True)
class Holder:
    """Who holds a lease, by marks of its host and of its machine; hosts of two machines may have one name."""

    pid: int = field(default_factory=os.getpid)
    host: str = field(default_factory=lambda: mark_of(socket.gethostname()))
    machine: str = field(default_factory=lambda: mark_of("") if boot_id() else "")
    token: str = field(default_factory=lambda: uuid4().hex)

    def __str__(self) -> str:
        where = "this machine" if self.host == mark_of(socket.gethostname()) else "another machine"
        return f"process {self.pid} on {where}"


def is_of_this_machine(holder: Holder) -> bool:
    """Return whether a holder works, or worked, on this machine since it was started."""
    return bool(holder.machine) and holder.machine == mark_of("")


def is_gone(holder: Holder) -> bool:
    """Return whether a holder is known to have ended: a process of this machine and container that has ended."""
    if sys.platform == "win32" or not is_of_this_machine(holder) or holder.host != mark_of(socket.gethostname()):
        return False
    try:
        os.kill(holder.pid, 0)  # asks, and does nothing to it
    except ProcessLookupError:
        return True
    except OSError:
        pass
    return False


class Lease:
    """The right to work on something in a directory, for as long as its holder gives signs.

    Parameters
    ----------
    name : what is leased; one holder at a time.
    lifetime : seconds without a sign after which others may take it.
    is_dead : returns whether a holder is known to be gone, so that nobody waits for its lease to end.
    """

    def __init__(
        self,
        place: Files,
        name: str,
        *,
        lifetime: float = LIFETIME,
        is_dead: Callable[[Holder], bool] = lambda holder: False,
    ) -> None:
        self._place, self._name, self._lifetime, self._is_dead = place, name, lifetime, is_dead
        self._holder = Holder()
        self._generation = 0
        self._over: list[int] = []
        self._has_beat = False
        self._lost: str = ""
        self._held_at = 0.0
        self._released = Event()
        self._signs: Thread | None = None

    def acquire(self, wait: float = 0.0) -> None:
        """Acquire the lease, waiting up to so many seconds for it.

        Raises
        ------
        RunLockedError
            Another process holds it; the message says which.
        """
        deadline = time.monotonic() + wait
        while not self._claimed():
            late = time.monotonic() - deadline
            holder = self._last_holder() if late >= 0 else ""
            if holder or late >= self._lifetime:  # without a holder it was given back meanwhile
                raise RunLockedError(
                    f"{self._place.url}: another process is working on this run ({holder or 'process unknown'}); wait "
                    "for it, or give another --out"
                )
            time.sleep(min(0.2, self._lifetime / 10))
        self._signs = Thread(target=self._give_signs, name=f"lease {self._name}", daemon=True)
        self._signs.start()

    def _claimed(self) -> bool:
        """Make the next claim, unless the last one's holder lives or another process is faster."""
        claimed = self._generations()
        if claimed and not self._is_over(claimed[-1]):
            return False
        generation = (claimed or [0])[-1] + 1
        claim = asdict(self._holder) | {"time": time.time()}
        if not self._place.create_bytes(self._claim(generation), json.dumps(claim).encode()):
            return False
        self._generation, self._over, self._held_at = generation, claimed, claim["time"]
        return True

    def _generations(self) -> list[int]:
        claims = re.compile(rf"{re.escape(FOLDER)}/{re.escape(self._name)}-(\d{{6,18}})\.json")
        matches = map(claims.fullmatch, self._place.names(FOLDER, ".json"))
        return [int(match[1]) for match in matches if match is not None]

    def _is_over(self, generation: int) -> bool:
        """Return whether a claim's holder is gone: known to be, or silent while it was watched.

        Clocks of machines differ, so a last sign that looks old, or lies ahead, is only taken for a reason to watch.
        """
        holder = self._read_holder(generation)
        if holder is None or self._is_dead(holder):
            return True
        before = self._last_sign(generation, holder)
        if abs(time.time() - before) < self._lifetime:
            return False
        time.sleep(self._watched)
        return self._last_sign(generation, holder) == before

    @property
    def _watched(self) -> float:
        """Seconds that a silent holder is watched before its lease is taken."""
        return 2 * self._lifetime / SIGNS

    def _read_holder(self, generation: int) -> Holder | None:
        """Return who made a claim; None where it is gone or cannot be read."""
        with suppress(RunNotFoundError, RunCorruptError, TypeError):
            claim = self._place.read_json(self._claim(generation))
            claim.pop("time", None)
            holder = Holder(**claim)  # what was read back may be anything
            is_process = type(holder.pid) is int and 0 < holder.pid < 2**31
            texts = (holder.host, holder.machine, holder.token)
            if is_process and all(isinstance(text, str) for text in texts) and _TOKEN.fullmatch(holder.token):
                return holder
        return None

    def _last_sign(self, generation: int, holder: Holder) -> float:
        """Return a holder's last sign of life, in seconds since 1970 by its own clock; 0 where it is not known."""
        for name in (_beat(holder), self._claim(generation)):  # who has claimed may have given no other sign yet
            with suppress(RunNotFoundError):
                with suppress(RunCorruptError, KeyError, TypeError, ValueError, OverflowError):
                    seconds = float(self._place.read_json(name)["time"])
                    return seconds if isfinite(seconds) else 0.0
                return 0.0
        return 0.0

    def _last_holder(self) -> str:
        """Return the holder of the last claim in words; empty where none is left."""
        last = self._generations()[-1:]
        return str(self._read_holder(last[0]) or "process unknown") if last else ""

    def last_claim(self) -> str:
        """Return in words who made the last claim and when: a file lock does not say who holds it."""
        with suppress(RunError, KeyError, TypeError, ValueError, OverflowError, OSError):
            generation = self._generations()[-1:]
            holder = self._read_holder(*generation) if generation else None
            if holder is not None:
                since = datetime.fromtimestamp(self._place.read_json(self._claim(*generation))["time"], UTC)
                return f"{holder} since {since.isoformat('T', 'seconds')}"
        return "process unknown"

    def _give_signs(self) -> None:
        """Renew the lease until it is released or lost. A disk that does not answer once is asked again."""
        while not self._released.wait(self._lifetime / SIGNS):
            with suppress(RunError):
                self._find_out_whether_lost()
                if self._lost:
                    return
                self._give_sign()

    def _give_sign(self) -> None:
        self._has_beat = True
        self._place.write_json(_beat(self._holder), {"time": time.time()})

    def _find_out_whether_lost(self) -> None:
        now = time.time()
        later = [number for number in self._generations() if number > self._generation]
        holder = self._read_holder(self._generation)
        if later or holder != self._holder:
            self._lost = self._last_holder() or "a process that has ended since"
        else:
            self._held_at = now

    def require_held(self) -> None:
        """Refuse to write once another process has taken over.

        Who has just woken may come here before the thread that gives signs. After a silence in which others may have
        taken over, the claims are looked at again.

        Raises
        ------
        RunLockedError
            It has; the message says which.
        """
        if not self._lost and abs(time.time() - self._held_at) >= self._watched:
            self._find_out_whether_lost()
        if self._lost:
            raise RunLockedError(
                f"{self._place.url}: this process was silent for {self._lifetime:g} s, and another has taken over "
                f"({self._lost}); it goes on there, and what was finished here is kept"
            )

    def release(self) -> None:
        """Release the lease and remove its files. One that was lost is for its new holder to remove."""
        self._released.set()
        if self._signs is not None:
            self._signs.join()
        with suppress(RunError):
            if not self._lost and self._read_holder(self._generation) == self._holder:
                for generation in self._over:  # claims that were over, and their holders' signs
                    holder = self._read_holder(generation)
                    if holder is not None:
                        self._place.remove(_beat(holder))
                    self._place.remove(self._claim(generation))
                self._place.remove(self._claim(self._generation))  # last: until then nobody begins to count again
            if self._has_beat:
                self._place.remove(_beat(self._holder))
            self._place.remove_empty(FOLDER)

    def _claim(self, generation: int) -> str:
        return f"{FOLDER}/{self._name}-{generation:06d}.json"


def _beat(holder: Holder) -> str:
    return f"{FOLDER}/{holder.token}.beat"


# --- A run directory in the hands of one process: a lock on this machine, and a lease for all others -----------------


@contextmanager
def hold(directory: Files) -> Iterator[None]:
    """Lock a directory, as :meth:`clinometer.runs.storage.Directory.locked` says."""
    with _lock(directory) if directory.is_local else nullcontext():
        # Who had the lock of this machine has it no more, so its lease is over, too.
        is_dead = is_of_this_machine if directory.is_local else is_gone
        lease = Lease(directory, "driver", lifetime=LIFETIME, is_dead=is_dead)
        lease.acquire()
        HELD[directory.place] = lease.require_held
        INVENTORIES[directory.place] = Inventory(directory.fs, directory.root)
        try:
            yield
        finally:
            del HELD[directory.place], INVENTORIES[directory.place]
            lease.release()


@contextmanager
def _lock(directory: Files) -> Iterator[None]:
    lock = FileLock(directory.path(".lock"), timeout=0)
    try:
        os.makedirs(directory.root, exist_ok=True)
        lock.acquire()
    except Timeout as error:
        raise RunLockedError(
            f"{directory.url}: another process is working on this run ({Lease(directory, 'driver').last_claim()}); "
            "wait for it, or give another --out"
        ) from error
    except OSError as error:  # a file is in the way, no permission, no such disk
        raise not_writable(directory.url, error) from error
    try:  # what is raised from here on is not the lock's
        with in_hand(directory.root, mark=PLACE):
            yield
    finally:
        lock.release()
