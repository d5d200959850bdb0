"""Engines: where the parts of a run are worked on. One maps units to workers, and knows nothing of models or runs.

A part is the unit of work (docs/decisions/0027), so results cannot depend on the engine, on how many workers it has or
on the order in which they finish.

A package offers one by an entry point in the group ``clinometer.engines``: a callable ``factory(address: str, workers:
int | None)`` that returns an :class:`Engine`. ``address`` is what follows the equals sign in ``--engine name=address``.
See decision 36.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from importlib.metadata import entry_points
from typing import Any, Final

from clinometer.errors import ClinometerError, EngineError
from clinometer.pipeline.engines.dispatch import (
    MOST_DEATHS,
    Death,
    Done,
    Engine,
    LocalEngine,
    Unit,
    Work,
    gpu_table,
    placed,
)

__all__ = ["MOST_DEATHS", "Death", "Done", "Engine", "Unit", "Work", "open_engine", "places_by_weights"]


GROUP: Final = "clinometer.engines"


def open_engine(
    spec: str,
    workers: int | None,
    device: str = "auto",
    weights: int = 0,
    make_room: Callable[[], None] = lambda: None,
) -> Engine | None:
    """Open the engine that ``spec`` names; None where this process alone is to do the work.

    Parameters
    ----------
    spec : ``local``, ``ray``, ``ray=ADDRESS``, or ``plug-in[=ADDRESS]``.
    workers : how many; None leaves it to the engine.
    device : where models are; of ``local``, one process is opened for each of several GPUs where it is not named.
    weights : bytes that the models of a worker take; workers are placed where GPUs have room. 0 where unknown.
    make_room : called before anybody looks for room, once it is clear that this process is not to do the work.

    Raises
    ------
    EngineError
        No engine of that name, or it cannot be opened.
    """
    if workers is not None and workers < 1:
        raise EngineError.out_of_range(f"expected 1 or more, found {workers}", field="workers")
    name, _, address = spec.partition("=")
    factory = find_engine(spec)
    if factory is None:
        return _local(workers, device, weights, make_room)
    make_room()
    try:
        engine: Engine = factory(address, workers, weights=weights) if name == "ray" else factory(address, workers)
    except ClinometerError:
        raise
    except Exception as error:  # a plug-in raises what it likes
        raise EngineError(f"engine {spec!r}: it cannot be opened: {type(error).__name__}: {error}") from error
    return engine


def find_engine(spec: str) -> Callable[..., Any] | None:
    """Return what opens the engine that ``spec`` names, without opening it; None for this machine's own.

    Raises
    ------
    EngineError
        As :func:`open_engine`, of the name.
    """
    name, _, address = spec.partition("=")
    if name == "local" and address:
        raise EngineError.unsupported(
            f"'local' is this machine and takes no address, found {address!r}; leave it out", field="engine"
        )
    if name == "local":
        return None
    if name != "ray":
        return _plug_in(name)
    try:
        from clinometer.pipeline.engines.ray import RayEngine
    except ImportError as error:
        raise EngineError.lacks_package("Ray", "clinometer[ray]", what="engine 'ray'") from error
    return RayEngine


def _local(workers: int | None, device: str, weights: int, make_room: Callable[[], None]) -> LocalEngine | None:
    gpus = visible_gpus() if device in ("auto", "cuda") else []
    if workers is None and len(gpus) < 2:
        return None
    make_room()
    if not gpus:
        return LocalEngine(workers or 1)
    places = placed(gpus, weights, workers, gpu_table())
    return LocalEngine(len(places), places)


def places_by_weights(spec: str, device: str) -> bool:
    """Return whether what weights take says where the workers of an engine go: larger ones may need others."""
    name = spec.partition("=")[0]
    return name == "ray" or (name == "local" and device in ("auto", "cuda") and bool(visible_gpus()))


def visible_gpus() -> list[str]:
    """List this process's GPUs as ``CUDA_VISIBLE_DEVICES`` names them; none where no model asked for torch."""
    if "torch" not in sys.modules:
        return []
    from clinometer._torch import torch

    named = os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",")
    count = torch.cuda.device_count()
    return [name.strip() for name in named][:count] if named != [""] else [str(gpu) for gpu in range(count)]


def _plug_in(name: str) -> Callable[[str, int | None], Any]:
    plug_ins = {point.name: point for point in entry_points(group=GROUP)}
    if name not in plug_ins:
        names = sorted({"local", "ray", *plug_ins})
        raise EngineError.expected_one_of(names, name, field="engine")
    try:
        factory: Callable[[str, int | None], Any] = plug_ins[name].load()
    except Exception as error:  # importing a package runs it
        raise EngineError(f"engine {name!r} ({plug_ins[name].value}) cannot be imported: {error}") from error
    return factory
