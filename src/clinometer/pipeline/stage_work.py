"""A stage of a run as work for an engine: the same function that one process calls, on some of the run's parts."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from clinometer._torch_threads import use_threads
from clinometer.models.abilities import Converts, offers
from clinometer.models.protocols import Card, GenerationResult
from clinometer.pipeline.engines.protocol import Unit
from clinometer.pipeline.recipes import Recipe, built
from clinometer.runs.progress import NoProgress, Progress
from clinometer.runs.store import Run
from clinometer.runs.worker_run import WorkerRun

StageFunction = Callable[[Run, Any, Progress], None]
"""Makes what the parts of a run lack, with a model."""


@dataclass(frozen=True)
class WorkOutcome:
    """What a driver learns of a unit beside its files.

    Attributes
    ----------
    notes : what a user should read.
    batch_size : how many images the model draws at once by now; None of a model that does not say.
    results : what became of the samples of the unit; no images.
    conversions : what was done to images that were read from files, and to how many.
    written : the files that were not there before, and their checksums.
    own_encoders : cards of the model's own encoders that made some of them.
    """

    notes: tuple[str, ...]
    batch_size: int | None
    results: tuple[GenerationResult, ...]
    conversions: Mapping[str, int]
    written: Mapping[str, str] = field(default_factory=dict)
    own_encoders: tuple[Card, ...] = ()


@dataclass(frozen=True)
class StageWork:
    """A stage that workers do.

    Attributes
    ----------
    place : of the run, absolute: a worker may be elsewhere.
    stage : a function of a module, as it is pickled by its name.
    recipe, card : the model, and what it is expected to be.
    batch_size : how many images the driver's draws at once; a part's batches must not depend on the worker.
    threads : torch's, in each worker. Sums run in another order where there are more, so all have as many.
    redraw : samples that are drawn anew, by part.
    draws : the stage makes samples, so the driver is told what became of them.
    folder : where the driver works: relative paths mean there what they mean here.
    """

    place: str
    stage: StageFunction
    recipe: Recipe
    card: Card
    threads: int
    batch_size: int | None = None
    redraw: Mapping[int, Collection[str]] = field(default_factory=dict)
    draws: bool = False
    folder: str = field(default_factory=os.getcwd)

    def open(self) -> Callable[[Unit], WorkOutcome]:
        """Load the model, open the run, and return what makes a unit."""
        use_threads(self.threads)
        if os.path.isdir(self.folder):
            os.chdir(self.folder)
        model = built(self.recipe, self.card)
        if self.batch_size is not None:
            model.batch_size = self.batch_size
        return partial(self._make, model, WorkerRun(self.place, self.redraw))

    def _make(self, model: Any, run: WorkerRun, unit: Unit) -> WorkOutcome:
        """Make what the parts of a unit lack."""
        run.choose(unit)
        before = _conversions(model)
        notes = _Notes()
        self.stage(run, model, notes)
        after = _conversions(model)
        return WorkOutcome(
            notes=tuple(notes.messages),
            batch_size=getattr(model, "batch_size", None),
            results=tuple(GenerationResult(*row[:2], None, row[2]) for row in run.drawn.statuses())
            if self.draws
            else (),
            conversions={what: count - before.get(what, 0) for what, count in after.items()},
            written=run.take_created(),
            own_encoders=run.encoders.take_own(),
        )


def _conversions(model: object) -> dict[str, int]:
    return dict(model.conversions) if offers(model, Converts) else {}


class _Notes(NoProgress):
    """Keeps what is to be read, for the driver to say."""

    def __init__(self) -> None:
        self.messages: list[str] = []

    def note(self, message: str) -> None:
        """Keep it."""
        self.messages.append(message)


def threads_of_a_worker() -> int:
    """Threads of torch in each worker: those of ``OMP_NUM_THREADS``, or one, as the other cores have workers too."""
    threads = os.environ.get("OMP_NUM_THREADS", "")
    return int(threads) if threads.isdecimal() and int(threads) else 1


def _results(run: WorkerRun) -> tuple[GenerationResult, ...]:
    """What became of each sample, without its image."""
    return tuple(GenerationResult(key, status, None, reason) for key, status, reason in run.drawn.statuses())
