"""How much memory this process has, which a container or a scheduler may limit, and how to return it."""

from __future__ import annotations

import ctypes
import gc
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

WORTH_GIVING_BACK = 2**26
"""Bytes: less than this is soon allocated again."""


@dataclass(frozen=True)
class Memory:
    """Memory in bytes: all there is, and what is free without swapping."""

    total: int
    available: int


@dataclass(frozen=True)
class _Hierarchy:
    """The files of Linux with a control group's memory limit, by their names in its two versions."""

    controllers: str
    folder: str
    limit: str
    usage: str
    reclaimable: str

    def of(self, group: Path) -> Memory | None:
        """Return what a group may use, and what is left of it; None where it has no limit."""
        try:
            limit, usage = (int((group / name).read_text()) for name in (self.limit, self.usage))
            lines = (group / "memory.stat").read_text().splitlines()
        except (OSError, ValueError):  # no such group here, or its limit is "max"
            return None
        files = {name: int(size) for name, size in (line.split() for line in lines)}.get(self.reclaimable, 0)
        return Memory(limit, max(0, limit - usage + files))


_HIERARCHIES = (
    _Hierarchy("", "", "memory.max", "memory.current", "inactive_file"),
    _Hierarchy("memory", "memory", "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
)


def memory(root: Path = Path("/")) -> Memory:
    """Return the memory of this machine, or of this process's narrowest control group; ``root`` : where /proc lies."""
    import psutil

    machine = psutil.virtual_memory()
    limits = [Memory(machine.total, machine.available), *_list_grants(root)]
    return Memory(min(each.total for each in limits), min(each.available for each in limits))


def _list_grants(root: Path) -> Iterator[Memory]:
    """Yield the memory of each control group that this process is in, and of those around it."""
    try:
        lines = (root / "proc/self/cgroup").read_text().splitlines()
    except OSError:  # not Linux
        return
    for line in lines:
        _, controllers, path = line.split(":", 2)
        for hierarchy in _HIERARCHIES:
            if hierarchy.controllers in controllers.split(","):
                inner = PurePosixPath(path.lstrip("/"))
                # in a container the path may be the host's, and the folder its own: then only the last is there
                for group in (inner, *inner.parents):
                    if granted := hierarchy.of(root / "sys/fs/cgroup" / hierarchy.folder / group):
                        yield granted


def give_back_freed_memory() -> None:
    """Return memory that is no longer used to the device and to the system.

    Models refer to themselves in circles, which only the collector finds; and allocators keep what is freed.
    """
    gc.collect()
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_available():
        torch.cuda.empty_cache()
    _trim()


def _trim() -> None:
    """Ask glibc to return the pages it keeps; other C libraries have no such call."""
    if sys.platform == "linux" and hasattr(library := ctypes.CDLL(None), "malloc_trim"):  # musl has none
        library.malloc_trim(0)


def give_back(bytes_freed: int) -> None:
    """Return freed memory to the system, where it was much: Arrow and glibc keep it for later.

    The memory of one large image would still be taken when the next one is read.
    """
    if bytes_freed < WORTH_GIVING_BACK:
        return
    if pyarrow := sys.modules.get("pyarrow"):
        pyarrow.default_memory_pool().release_unused()
    _trim()
