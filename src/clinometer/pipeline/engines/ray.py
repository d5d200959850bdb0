"""Ray: actors on the machines of a cluster, or on this one. Ray 2.60 or later.

An actor holds the models and makes one unit at a time. Ray is not asked to try again: which unit an actor died of is
counted here, as for every engine.
"""

from __future__ import annotations

import errno
import logging
import os
import socket
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from contextlib import suppress
from threading import Event, Thread
from time import monotonic
from typing import Any, Final
from uuid import uuid4

os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # an audit reports to nobody but its user

import ray
from ray.exceptions import OutOfMemoryError, RayActorError, RayError, RayTaskError, WorkerCrashedError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from clinometer.errors import EngineError
from clinometer.pipeline.engines.dispatch import (
    Death,
    Done,
    Unit,
    Work,
    WorkerDiedError,
    dispatch,
    gpu_table,
    make,
    pickled_work,
    share_of_a_gpu,
)

STORE_BYTES: Final = 128 * 2**20
"""Ray's store of objects on a machine of its own making: images never pass through it, so it need not be large."""

PATIENCE: Final = 60.0
"""Seconds that machines have to tell their GPUs' memory."""

RECONNECTING: Final = "RAY_gcs_rpc_server_reconnect_timeout_s"
"""Ray's variable: for how many seconds it looks for the head of a cluster that no longer answers."""

DEATHS: Final = (RayActorError, WorkerCrashedError, OutOfMemoryError)


class RayEngine:
    """Actors of a Ray cluster.

    Parameters
    ----------
    address : of a cluster, such as ``auto`` or ``ray://host:10001``; empty starts one on this machine.
    workers : how many actors; None takes one for each GPU of the cluster, or for each CPU where it has none.
    weights : bytes that the models of an actor take; several share a GPU only where its memory has room.
    """

    def __init__(self, address: str = "", workers: int | None = None, weights: int = 0) -> None:
        self._is_ours = not ray.is_initialized()
        own: dict[str, Any] = {} if address else {"object_store_memory": STORE_BYTES, "include_dashboard": False}
        if self._is_ours:  # join a cluster, or start one here
            try:
                ray.init(address=address or "local", log_to_driver=False, logging_level=logging.ERROR, **own)
            except Exception as error:  # of many kinds, from sockets to processes
                with suppress(Exception):
                    ray.shutdown()  # else what comes later is still sent to the client that found no cluster
                where = f"no cluster answers at {address!r}" if address else "it cannot be started here"
                raise EngineError(f"engine 'ray': {where} ({type(error).__name__}: {error})") from error
        resources = ray.cluster_resources()  # type: ignore[no-untyped-call]
        gpus, cpus = int(resources.get("GPU", 0)), int(resources.get("CPU", 0))
        self.workers = workers or gpus or max(1, cpus)
        try:
            of_a_gpu = share_of_a_gpu(gpus, self.workers, weights, smallest_gpu(weights, gpus))
        except BaseException:
            if self._is_ours:
                ray.shutdown()
            raise
        self._lost, self._closed = Future[None](), Event()
        if not address.startswith("ray://"):  # whose client tells by itself
            context = ray.get_runtime_context()
            host, _, port = context.gcs_address.rpartition(":")
            nodes = ray.nodes()  # type: ignore[no-untyped-call]
            here = (str(node["RayletSocketName"]) for node in nodes if node["NodeID"] == context.get_node_id())
            watched = ((host, int(port)), next(here, ""), self._lost, self._closed)
            Thread(target=_watch, args=watched, daemon=True).start()
        share = {"num_cpus": 1, "num_gpus": of_a_gpu}
        self._slots = [_ActorSlot(share) for _ in range(self.workers)]

    def map(self, work: Work, units: Sequence[Unit]) -> Iterator[Done | Death]:
        """See :class:`clinometer.pipeline.engines.Engine`."""
        work_ref, key = ray.put(pickled_work(work)), uuid4().hex
        for slot in self._slots:
            slot.take_up(key, work_ref)
        yield from dispatch(self._slots, units, self._lost)

    def close(self) -> None:
        """End all actors, and Ray where it was started for them."""
        self._closed.set()
        for slot in self._slots:
            slot.end()
        if self._is_ours:
            ray.shutdown()


def _watch(head: tuple[str, int], raylet: str, lost: Future[None], closed: Event) -> None:
    """Fail ``lost`` when the cluster's head no longer answers, or the socket of this machine's raylet is gone.

    Ray ends the whole process then, with status 1: for a head once it has waited as long as this variable says. Half of
    that leaves the time to end by oneself; a head that is started again by then is met again.
    """
    patience = float(os.environ.get(RECONNECTING, "60")) / 2
    answered, is_here = monotonic(), True
    while not closed.wait(patience / 20):
        with suppress(OSError), socket.create_connection(head, timeout=patience / 4):
            answered = monotonic()
        if raylet:
            with socket.socket(socket.AF_UNIX) as at_raylet, suppress(TimeoutError):
                at_raylet.settimeout(patience / 4)
                is_here = at_raylet.connect_ex(raylet) not in (errno.ECONNREFUSED, errno.ENOENT)
        if not is_here or monotonic() - answered > patience:
            kept = "what is finished is kept, and the same command goes on from there"
            lost.set_exception(EngineError(f"engine 'ray': the cluster no longer answers; {kept}"))
            return


def smallest_gpu(weights: int, gpus: int) -> int | None:
    """Return bytes of the cluster's smallest GPU; None where nobody needs it or a machine does not tell."""
    if not (weights and gpus):
        return None
    nodes = [node["NodeID"] for node in ray.nodes() if node["Alive"] and node["Resources"].get("GPU")]  # type: ignore[no-untyped-call]
    refs = [_memory_here.options(scheduling_strategy=NodeAffinitySchedulingStrategy(node, soft=False)).remote()
             for node in nodes]  # fmt: skip
    try:
        sizes = ray.get(refs, timeout=PATIENCE)
    except RayError:
        return None
    return min(sizes) if sizes and all(sizes) else None


@ray.remote(num_cpus=0)
def _memory_here() -> int:
    """Return the memory of a machine's smallest GPU; 0 where its driver does not tell."""
    return min((gpu.total for gpu in gpu_table().values()), default=0)


@ray.remote
class _Worker:
    """A process of the cluster that makes units."""

    def up(self) -> None:
        """Answer that the worker is up."""

    def make(self, key: str, work: bytes | None, unit: Unit) -> Any:
        """Make a unit; see :func:`clinometer.pipeline.engines.dispatch.make`."""
        return make(key, work, unit)


class _ActorSlot:
    """One actor at a time."""

    def __init__(self, share: dict[str, float]) -> None:
        self._share = share
        self._actor: Any = None
        self._key = self._opened = ""
        self._work: Any = None

    def take_up(self, key: str, work: Any) -> None:
        """Switch to this work: units from now on belong to it."""
        self._key, self._work = key, work

    @property
    def has_worker(self) -> bool:
        return self._actor is not None

    def start(self) -> Future[Any]:
        if self._actor is None:
            self._actor = _Worker.options(max_restarts=0, **self._share).remote()  # type: ignore[attr-defined]
            self._opened = ""
        return _future(self._actor.up.remote())

    def submit(self, unit: Unit) -> Future[Any]:
        work = None if self._opened == self._key else self._work
        self._opened = self._key
        return _future(self._actor.make.remote(self._key, work, unit))

    def read_error(self, error: BaseException) -> BaseException:
        if isinstance(error, RayTaskError):
            return error.cause if isinstance(error.cause, Exception) else error
        if isinstance(error, DEATHS):
            self.end()
            return WorkerDiedError(" ".join(str(error).split())[:300])
        return EngineError(f"engine 'ray': {type(error).__name__}: {error}") if isinstance(error, RayError) else error

    def end(self) -> None:
        if self._actor is not None:
            with suppress(Exception):  # it may be gone, and so may the cluster
                ray.kill(self._actor)
        self._actor = None


def _future(reference: Any) -> Future[Any]:
    future: Future[Any] = reference.future()
    return future
