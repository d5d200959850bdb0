"""The stages of a run on an engine's workers: the driver says which parts are missing, and keeps the record.

A stage is sent as the same function that one process calls, to be done on some of the run's parts. Deaths of workers
are reported as they come, and what was given up once all else is made.
"""

from __future__ import annotations

import os
from collections import Counter, deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from collections.abc import Generator as Iteration
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from types import MappingProxyType
from typing import Any, Final

from clinometer._cores import use_threads
from clinometer.errors import EngineError, ModelError
from clinometer.models.protocols import (
    Card,
    Converts,
    EmbedsInPassing,
    Encoder,
    GenerationResult,
    Generator,
    Priced,
    offers,
)
from clinometer.models.readers import Reader
from clinometer.pipeline.engines import MOST_DEATHS, Death, Done, Engine, Unit
from clinometer.pipeline.engines.dispatch import Work as EngineWork
from clinometer.pipeline.execution import Executor
from clinometer.pipeline.recipes import Recipe, load_once
from clinometer.runs.drawing import generate, price_of, tell_conversions
from clinometer.runs.encoding import encode, forget_on_failure, require_drawn
from clinometer.runs.ledger import Worker, readings_name
from clinometer.runs.plan import Sample
from clinometer.runs.progress import Failures, NoProgress, Progress
from clinometer.runs.reading import finish_reading, read, waiting_answers
from clinometer.runs.run import Run
from clinometer.studies.study import PartStage, Pool, Stage, WholeStage, Work

TEXTS: Final[Unit] = ()
"""The unit of no part: the texts, which an encoder embeds before any image."""
LARGEST_UNIT: Final = 16
"""Parts that an encoder is given at once: it decodes the next while it embeds one."""


@dataclass(frozen=True)
class Parallel(Executor):
    """Makes the parts of a run on workers.

    Attributes
    ----------
    engine : where the workers are.
    generator_recipe : how they load the generator; None where nothing is drawn.
    encoders, readers : how they load each encoder, and each reader, by its name.
    """

    engine: Engine
    generator_recipe: Recipe | None
    encoders: Mapping[str, Recipe]
    readers: Mapping[str, Recipe] = field(default_factory=dict)

    def generate(self, run: Run, generator: Generator, progress: Progress) -> None:
        """Draw what is drawn from a prompt alone."""
        parts = {part: samples for part, samples in run.parts.items() if not samples[0].source}
        title = "drawing" if run.record["origin"] == "generated" else "reading"
        if offers(generator, EmbedsInPassing) and any(run.drawn.missing(part) for part in parts):
            for encoder in generator.encoders:
                self._begin_encoding(run, encoder, progress)
        self._draw(generate, run, generator, parts, progress, title)

    def stage(self, stage: Stage, run: Run, generator: Generator, progress: Progress) -> None:
        """Share out a stage of a kind that can be; do any other here."""
        if not isinstance(stage, PartStage | WholeStage) or self.generator_recipe is None:
            super().stage(stage, run, generator, progress)
        elif isinstance(stage, WholeStage):
            if stage.is_missing(run, generator):
                work = self._work(stage.make, run, self.generator_recipe, generator)
                self._make(run, work, [TEXTS], NotesAlone(progress.note), stage.title)
        elif stage.missing is None:
            parts = {part: samples for part, samples in run.parts.items() if samples[0].source}
            self._draw(stage.make, run, generator, parts, progress, stage.title)
        elif (missing := stage.missing(run, generator)) is not None:
            work = replace(
                self._work(stage.make, run, self.generator_recipe, generator), batch_size=generator.batch_size
            )
            self._make(run, work, [(part,) for part in missing], progress, stage.title)

    def encode(self, run: Run, encoder: Encoder, progress: Progress) -> None:
        """Embed what an encoder has not seen."""
        name = encoder.card.name
        missing = [part for part in run.parts if not run.vectors.has(name, part)]
        require_drawn(run, f"clinometer score {run.url} --encoder {name}")
        work = self._begin_encoding(run, encoder, progress)
        with forget_on_failure(run, name):
            self._make(run, work, self._units(missing), progress, f"encoding with {name}")
            if not run.vectors.has_saved_again(name):  # a worker that has some parts only cannot measure it
                self._make(run, work, [TEXTS], NotesAlone(progress.note), "texts")
        run.encoders.finish(encoder.card)

    def read(self, run: Run, reader: Reader, progress: Progress) -> None:
        """Ask a reader what it has not answered; a server has its own requests at once and is asked here."""
        card = reader.card
        is_server = offers(reader, Priced)
        if is_server:
            read(run, reader, progress)
            return
        require_drawn(run, f"clinometer read {run.url} --reader {card.name}")
        waiting = list(waiting_answers(run, card, run.readers.questions(card.name)))
        run.ledger.unlist([readings_name(card.name, part) for part in waiting])  # workers add to some of them
        work = self._work(read, run, self.readers[card.name], reader)
        self._make(run, work, self._units(waiting), progress, f"reading with {card.name}")
        finish_reading(run, card, progress)

    def _units(self, parts: Sequence[int]) -> list[Unit]:
        """Divide parts among the workers, a few at once for each."""
        size = min(LARGEST_UNIT, max(1, len(parts) // (4 * self.engine.workers)))
        return [tuple(parts[start : start + size]) for start in range(0, len(parts), size)]

    def _begin_encoding(self, run: Run, encoder: Encoder, progress: Progress) -> StageWork:
        """Record an encoder and embed the texts, before any image."""
        run.encoders.begin(encoder.card)
        work = self._work(encode, run, self.encoders[encoder.card.name], encoder)
        with forget_on_failure(run, encoder.card.name):
            if not run.vectors.has_texts(encoder.card.name):
                self._make(run, work, [TEXTS], NotesAlone(progress.note), "texts")
        return work

    def pool(self, progress: Progress) -> Pool:
        """Return the engine's workers, who measure for the scores."""
        return EnginePool(self.engine, progress)

    def _draw(
        self,
        stage: StageFunction,
        run: Run,
        generator: Generator,
        parts: Mapping[int, Sequence[Sample]],
        progress: Progress,
        title: str,
    ) -> None:
        """Draw missing parts. What fails is counted here, over all workers, as it would be of one."""
        if price_of(generator) > 0 or self.generator_recipe is None:
            stage(run, generator, progress)  # a server draws, and has its own requests at once
            return
        undrawn = [part for part in parts if run.drawn.missing(part)]
        for part in undrawn:
            run.drawn.forget_made_of(part)
        failures, converted = Failures(run), Counter[str]()
        work = replace(
            self._work(stage, run, self.generator_recipe, generator),
            batch_size=generator.batch_size,
            redraw=dict(run.drawn.to_redraw),
            draws=True,
        )
        with failures.forget_on_failure(), _forget_unmet_on_failure(run, undrawn) as unmet:
            outcomes = self._finished_units(run, parts, work, [(part,) for part in undrawn], progress, title)
            with closing(outcomes):  # ends the workers before what failed is forgotten
                for outcome in outcomes:
                    unmet -= set(run.plan.parts_of([result.id for result in outcome.results]))
                    if outcome.batch_size is not None and outcome.batch_size < generator.batch_size:
                        generator.batch_size = outcome.batch_size
                        run.record_batch_size(outcome.batch_size)
                    samples = [run.sample(result.id) for result in outcome.results]
                    deque(failures.check(samples, outcome.results), maxlen=0)
                    converted.update(outcome.conversions)
            for part in undrawn:
                run.drawn.to_redraw.pop(part, None)
            failures.require_one(sample for samples in parts.values() for sample in samples)
        tell_conversions(converted, progress)

    @staticmethod
    def _work(stage: StageFunction, run: Run, recipe: Recipe, model: Any) -> StageWork:
        return StageWork(run.directory.place, stage, recipe, model.card, threads_of_a_worker())

    def _make(self, run: Run, work: StageWork, units: Sequence[Unit], progress: Progress, title: str) -> None:
        for _ in self._finished_units(run, run.parts, work, units, progress, title):
            pass

    def _finished_units(
        self,
        run: Run,
        parts: Mapping[int, Sequence[Sample]],
        work: StageWork,
        units: Sequence[Unit],
        progress: Progress,
        title: str,
    ) -> Iteration[WorkOutcome, None, None]:
        """Run the units of a stage's parts and report each as it ends; at the end, raise if some are missing."""
        sizes = {part: len(samples) for part, samples in parts.items()}
        missing = sum(sizes[part] for unit in units for part in unit)
        progress.start(title, sum(sizes.values()), sum(sizes.values()) - missing)
        names = {part: f"part {part}" for part in sizes}
        events = finish_units(self.engine, work, units, progress, names, sizes)
        written = dict[str, str]()
        try:
            with closing(events):
                for done in events:
                    for note in done.result.notes:
                        progress.note(note)
                    progress.advance(sum(sizes[part] for part in done.unit))
                    written.update(done.result.written)
                    for card in done.result.own_encoders:
                        run.encoders.add_own(card)
                    yield done.result
        finally:
            run.ledger.note_others_wrote(written)
        progress.finish()


@dataclass(frozen=True)
class EnginePool:
    """An engine's workers, as a study sees them."""

    engine: Engine
    progress: Progress

    @property
    def workers(self) -> int:
        """How many there are."""
        return self.engine.workers

    def map(self, work: Work, units: Sequence[Unit], names: Sequence[str]) -> Iterator[Any]:
        """See :class:`clinometer.studies.study.Pool`."""
        with closing(finish_units(self.engine, work, units, self.progress, dict(enumerate(names)))) as events:
            for done in events:
                yield done.result


@contextmanager
def _forget_unmet_on_failure(run: Run, parts: Iterable[int]) -> Iterator[set[int]]:
    """Drop parts of failures alone that a worker wrote and nobody has counted, where the model is stopped.

    The set holds the parts that are not met yet; its user takes out those that are.
    """
    unmet = set(parts)
    try:
        yield unmet
    except ModelError:
        run.drawn.forget_failed_parts(unmet)
        raise


class NotesAlone(NoProgress):
    """A listener that passes on what should be read, and nothing else."""

    def __init__(self, note: Callable[[str], None]) -> None:
        self._note = note

    def note(self, message: str) -> None:
        """Pass it on."""
        self._note(message)


def finish_units(
    engine: Engine,
    work: EngineWork,
    units: Sequence[Unit],
    progress: Progress,
    names: Mapping[int, str],
    images: Mapping[int, int] = MappingProxyType({}),
) -> Iteration[Done, None, None]:
    """Run units and yield each as it ends; at the end, raise if some are missing.

    Parameters
    ----------
    names : what the numbers in units stand for. A unit without a number is the texts.
    images : how many images each stands for, where that says something.

    Raises
    ------
    EngineError
        Units were given up; the others are made. The message names them.
    """

    def named(death: Death) -> str:
        return ", ".join(names[number] for number in death.unit) or "the texts"

    lost: list[Death] = []
    try:
        for event in engine.map(work, units) if units else ():
            if isinstance(event, Done):
                yield event
                continue
            lost += [event] if event.given_up else []
            then = "it is given up for now" if event.given_up else "another takes it"
            progress.note(f"a worker died over {named(event)} ({event.reason}); {then}")
    except BaseException:  # the user stops it, too
        engine.close()  # what a worker still wrote would be there after it was forgotten
        raise
    if lost:
        if images:
            names = {number: f"{name} ({images[number]} images)" for number, name in names.items()}
        raise EngineError(
            f"{MOST_DEATHS} workers died over each of {', '.join(map(named, lost))}; the "
            f"last because: {lost[-1].reason}. All others are finished; give the same command again, with fewer "
            "--workers or a smaller --batch-size if memory ran out",
            field="engine",
        )


StageFunction = Callable[[Run, Any, Progress], None]
"""Makes what the parts of a run lack, with a model."""


@dataclass(frozen=True)
class WorkOutcome:
    """What a worker reports of a unit beside its files.

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
    redraw : samples that are drawn again, by part.
    draws : the stage makes samples, so their statuses are reported to the driver.
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
        model = load_once(self.recipe, self.card)
        if self.batch_size is not None:
            model.batch_size = self.batch_size
        worker = Worker()
        run = Run(self.place, worker)
        run.drawn.redraw(self.redraw)
        return partial(self._make, model, run, worker)

    def _make(self, model: Any, run: Run, worker: Worker, unit: Unit) -> WorkOutcome:
        """Make what the parts of a unit lack."""
        worker.begin(unit)
        converts = offers(model, Converts)
        before = dict(model.conversions) if converts else {}
        notes = list[str]()
        self.stage(run, model, NotesAlone(notes.append))
        after = model.conversions if converts else {}
        statuses = run.drawn.statuses() if self.draws else ()
        return WorkOutcome(
            notes=tuple(notes),
            batch_size=getattr(model, "batch_size", None),
            results=tuple(GenerationResult(key, status, None, reason) for key, status, reason in statuses),
            conversions={what: count - before.get(what, 0) for what, count in after.items()},
            written=worker.created,
            own_encoders=tuple(worker.own_encoders),
        )


def threads_of_a_worker() -> int:
    """Return torch's threads in a worker: those of ``OMP_NUM_THREADS``, or one, as other cores have workers too."""
    threads = os.environ.get("OMP_NUM_THREADS", "")
    return int(threads) if threads.isdecimal() and int(threads) else 1
