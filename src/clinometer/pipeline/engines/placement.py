"""Which worker goes to which GPU, by the memory that its models take.

A worker holds every model of the audit. What their weights take is counted; what it takes to work with them is not
known before, and is estimated by :data:`WORKING`. A batch that does not fit is drawn in halves, so too little room
costs time and no image. See decision 37.
"""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil
from typing import Final

from clinometer.errors import EngineError

WORKING: Final = 2 * 2**30
"""Bytes of a GPU that a worker needs besides its weights, about: CUDA's own, and the smallest batch."""

GIB: Final = 2**30


@dataclass(frozen=True)
class Gpu:
    """Memory of a GPU, in bytes."""

    free: int
    total: int


def gpu_table() -> dict[str, Gpu]:
    """The GPUs of this machine by their numbers and their identifiers; empty where the driver's tool tells nothing.

    The tool is asked and not torch, which would take memory on each GPU that it looks at.
    """
    command = ["nvidia-smi", "--query-gpu=index,uuid,memory.free,memory.total", "--format=csv,noheader,nounits"]
    try:
        output = subprocess.run(command, capture_output=True, text=True, timeout=30, check=True).stdout
    except (OSError, subprocess.SubprocessError):
        return {}
    gpus: dict[str, Gpu] = {}
    for line in output.splitlines():
        index, identifier, *memory = (cell.strip() for cell in line.split(","))
        if len(memory) == 2 and all(cell.isdecimal() for cell in memory):  # of a GPU in parts it is "[N/A]"
            gpus[index] = gpus[identifier] = Gpu(*(int(cell) * 2**20 for cell in memory))
    return gpus


def placed(gpus: Sequence[str], weights: int, workers: int | None, table: Mapping[str, Gpu]) -> list[str]:
    """Name the GPU of each worker: one for each GPU that has room where nobody says how many.

    Where weights or memory are not known, workers take the GPUs in turn.

    Raises
    ------
    EngineError
        The GPUs have no room for so many.
    """
    if not weights or not all(gpu in table for gpu in gpus):
        return [gpus[worker % len(gpus)] for worker in range(workers or len(gpus))]
    room = {gpu: table[gpu].free // (weights + WORKING) for gpu in gpus}
    if workers is None:
        chosen = [gpu for gpu in gpus if room[gpu]]
        if not chosen:
            most = max(table[gpu].free for gpu in gpus)
            raise EngineError(
                f"{_needed(weights)}, and no GPU has more than {most / GIB:.1f} GiB free{_WAY_OUT}", field="engine"
            )
        return chosen
    turns = range(max(room.values(), default=0))
    places = [gpu for turn in turns for gpu in gpus if room[gpu] > turn]  # a GPU each, before any gets a second
    if workers > len(places):
        raise _no_room(workers, weights, len(places))
    return places[:workers]


def share_of_a_gpu(gpus: int, workers: int, weights: int, total: int | None) -> float:
    """What part of a GPU each of so many workers of a cluster asks for.

    ``total`` : memory of the smallest GPU, in bytes; None where it is not known, and workers share evenly.

    Raises
    ------
    EngineError
        The GPUs have no room for so many.
    """
    if not gpus:
        return 0.0
    on_one = ceil(workers / gpus)
    if weights and total is not None:
        room = total // (weights + WORKING)
        if on_one > room:
            raise _no_room(workers, weights, gpus * room)
    return int(10_000 / on_one) / 10_000  # Ray counts in ten-thousandths; more than that would not fit


_WAY_OUT: Final = "; name a smaller model or --dtype, or other GPUs by CUDA_VISIBLE_DEVICES"


def _needed(weights: int) -> str:
    need = weights + WORKING
    return f"a worker needs about {need / GIB:.1f} GiB of a GPU ({weights / GIB:.1f} of them for weights)"


def _no_room(workers: int, weights: int, room: int) -> EngineError:
    way_out = f"; give --workers {room}" if room else _WAY_OUT
    return EngineError(
        f"{_needed(weights)}, and the GPUs have room for {room} workers, not {workers}{way_out}", field="engine"
    )
