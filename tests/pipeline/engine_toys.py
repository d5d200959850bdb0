"""Toys of engines: models that kill or fail their workers, and what a run holds, to be compared."""

import os
import signal
import time
from contextlib import suppress
from pathlib import Path

import numpy as np

from clinometer.errors import ModelError
from clinometer.models import Card, Reading
from clinometer.pipeline.engines import Done
from tests import quick
from tests.toys import Eye, Painter, toy_suite, wait_to_be_killed


def audit(out, **options):
    return quick.audit(**{"model": Painter(), "suite": toy_suite(), "encoder": Eye(), "out": out} | options)


def tables(run):
    """What a run holds, but for the seconds that its images took."""
    samples = run.samples.drop(columns="seconds")
    vectors = run.embeddings("eye")
    return (
        run.directory.read_bytes("scores.parquet"),
        run.directory.read_bytes("curves.parquet"),
        samples.to_csv(),
        list(run.images(samples.id)),
        {key: vector.tobytes() for key, vector in vectors.items()},
        {name: sorted(os.listdir(Path(run.directory.root) / name)) for name in ("samples", "embeddings/eye")},
    )


class Deadly(Painter):
    """Kills the process that draws a prompt, so many times."""

    def __init__(self, prompt, times, place):
        super().__init__()
        self.prompt, self.times, self.place = prompt, times, place

    def generate(self, requests):
        for request in requests:
            if request.prompt == self.prompt and len(list(self.place.iterdir())) < self.times:
                (self.place / f"{time.monotonic_ns()}").touch()
                os.kill(os.getpid(), signal.SIGKILL)
            yield from super().generate([request])


class Glance:
    """Reads the mean colour of a picture; it is unsure of pale ones, and does what else it is told.

    ``place`` : a folder that counts what it did over all processes. ``deaths`` : how often it kills its process.
    """

    def __init__(self, name="glance", *, place=None, deaths=0, stop_after=None, fails=(), says=None, settings=None):
        self.card = Card(kind="reader", name=name, family="toy/glance", settings=settings or {})
        self.batch_size, self.place, self.deaths, self.stop_after = 3, place, deaths, stop_after
        self.fails, self.says, self.asked = set(fails), says, 0

    def possible_answers(self, question):
        if question.name == "unheard":
            raise ModelError("glance: it knows no such question")
        return tuple(question.options)

    def read(self, images, question):
        for death in range(self.deaths):
            with suppress(FileExistsError):  # each is died once, whoever reads beside
                (self.place / str(death)).touch(exist_ok=False)
                os.kill(os.getpid(), signal.SIGKILL)
        return [self._reading(image, question) for image in images]

    def _reading(self, image, question):
        if self.asked == self.stop_after:
            raise ModelError("glance: it is tired")
        self.asked += 1
        if self.asked in self.fails:
            return Reading(None, reason="failed: it blinked")
        if self.says is not None:
            return self.says
        red, _, blue = np.asarray(image, float).mean(axis=(0, 1)) / 255
        if abs(red - 0.5) < 0.02:
            return Reading("unclear", words="neither")
        others = blue > 0.35 and len(question.groups) > 2
        return Reading(question.groups[2 if others else 0 if red > 0.5 else 1], words="a colour")


def children(pid):
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            if int(stat.read_text().rsplit(")", 1)[1].split()[1]) == pid:
                found.append(int(stat.parent.name))
        except (FileNotFoundError, ProcessLookupError):
            continue
    return found


def descendants(pid):
    """Children, and theirs: workers may be children of a process that has imported for them."""
    found = children(pid)
    return found + [each for child in found for each in descendants(child)]


class InTurn:
    """An engine of this process alone, that pretends to have so many workers and makes units from the last on."""

    def __init__(self, workers):
        self.workers, self.units = workers, []

    def map(self, work, units):
        make = work.open()
        self.units += units
        yield from (Done(unit, make(unit)) for unit in reversed(units))

    def close(self):
        """Nothing is open."""


class Doomed(Painter):
    """Waits to be killed on one machine of a cluster; on others it draws once that one is at work.

    ``node`` : what Ray calls the machine. ``place`` : a folder where a file says that it is at work.
    """

    def __init__(self, node, place):
        super().__init__()
        self.node, self.place = node, place

    def generate(self, requests):
        import ray

        if ray.get_runtime_context().get_node_id() == self.node:
            (self.place / "at work").touch()
            wait_to_be_killed()
        while not (self.place / "at work").exists():
            time.sleep(0.02)
        yield from super().generate(requests)


class Broken(Painter):
    def generate(self, requests):
        raise RuntimeError("no such layer")


class SeenGpus:
    """Tells which GPUs a worker sees, once so many workers in all have told: a fast one must not do all the work."""

    def __init__(self, place, workers):
        self.place, self.workers = place, workers

    def open(self):
        def tell(unit):
            gpus = os.environ.get("CUDA_VISIBLE_DEVICES")
            (self.place / str(os.getpid())).touch()
            while len(list(self.place.iterdir())) < self.workers:
                time.sleep(0.05)
            return gpus

        return tell
