"""The stages of a run on an engine's workers: the driver says which parts are missing, and keeps the record."""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator as Iteration
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from typing import Any, Final

from clinometer.errors import ModelError
from clinometer.models.abilities import EmbedsInPassing, offers
from clinometer.models.protocols import Encoder, Generator
from clinometer.pipeline.engines import Engine, Unit
from clinometer.pipeline.execution import Serial
from clinometer.pipeline.finished_units import finished
from clinometer.pipeline.recipes import Recipe
from clinometer.pipeline.stage_work import StageFunction, StageWork, WorkOutcome, threads_of_a_worker
from clinometer.runs.drawing import generate, price_of, tell_conversions
from clinometer.runs.encoding import encode, forgotten, require_drawn
from clinometer.runs.failures import Failures
from clinometer.runs.plan import Sample
from clinometer.runs.progress import Progress
from clinometer.runs.store import Run
from clinometer.studies.study import PartStage, Pool, Stage, WholeStage, Work

TEXTS: Final[Unit] = ()
"""The unit of no part: the texts, which an encoder embeds before any image."""
LARGEST_UNIT: Final = 16
"""Parts that an encoder is given at once: it decodes the next while it embeds one."""


@dataclass(frozen=True)
class Parallel:
    """Makes the parts of a run on workers.

    Attributes
    ----------
    engine : where the workers are.
    generator : how they come by the generator; None where nothing is drawn.
    encoders : how they come by each encoder, by its name.
    """

    engine: Engine
    generator: Recipe | None
    encoders: Mapping[str, Recipe]

    def generate(self, run: Run, generator: Generator, progress: Progress) -> None:
        """See :class:`clinometer.pipeline.execution.Executor`."""
        parts = {part: samples for part, samples in run.parts.items() if not samples[0].source}
        title = "drawing" if run.record["origin"] == "generated" else "reading"
        if offers(generator, EmbedsInPassing) and any(run.drawn.missing(part) for part in parts):
            for encoder in generator.encoders:
                self._begin_encoding(run, encoder, progress)
        self._draw(generate, run, generator, parts, progress, title)

    def stage(self, stage: Stage, run: Run, generator: Generator, progress: Progress) -> None:
        """See :class:`clinometer.pipeline.execution.Executor`. A stage of no kind that is shared is done here."""
        if not isinstance(stage, PartStage | WholeStage) or self.generator is None:
            Serial().stage(stage, run, generator, progress)
        elif isinstance(stage, WholeStage):
            if stage.is_missing(run, generator):
                work = self._work(stage.make, run, self.generator, generator)
                self._make(run, work, [TEXTS], Silently(progress), stage.title)
        elif stage.missing is None:
            parts = {part: samples for part, samples in run.parts.items() if samples[0].source}
            self._draw(stage.make, run, generator, parts, progress, stage.title)
        elif (missing := stage.missing(run, generator)) is not None:
            work = replace(self._work(stage.make, run, self.generator, generator), batch_size=generator.batch_size)
            self._make(run, work, [(part,) for part in missing], progress, stage.title)

    def encode(self, run: Run, encoder: Encoder, progress: Progress) -> None:
        """See :class:`clinometer.pipeline.execution.Executor`."""
        name = encoder.card.name
        missing = [part for part in run.parts if not run.vectors.has(name, part)]
        require_drawn(run, f"clinometer score {run.url} --encoder {name}")
        work = self._begin_encoding(run, encoder, progress)
        size = min(LARGEST_UNIT, max(1, len(missing) // (4 * self.engine.workers)))
        units = [tuple(missing[start : start + size]) for start in range(0, len(missing), size)]
        with forgotten(run, name):
            self._make(run, work, units, progress, f"encoding with {name}")
        run.encoders.finish(encoder.card)

    def _begin_encoding(self, run: Run, encoder: Encoder, progress: Progress) -> StageWork:
        """Record an encoder and embed the texts, before any image."""
        run.encoders.begin(encoder.card)
        work = self._work(encode, run, self.encoders[encoder.card.name], encoder)
        with forgotten(run, encoder.card.name):
            if not run.vectors.has_texts(encoder.card.name):
                self._make(run, work, [TEXTS], Silently(progress), "texts")
        return work

    def pool(self, progress: Progress) -> Pool:
        """See :class:`clinometer.pipeline.execution.Executor`."""
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
        if price_of(generator) > 0 or self.generator is None:
            stage(run, generator, progress)  # a server draws, and has its own requests at once
            return
        undrawn = [part for part in parts if run.drawn.missing(part)]
        for part in undrawn:
            run.drawn.forget_made_of(part)
        failures, converted = Failures(run), Counter[str]()
        work = replace(
            self._work(stage, run, self.generator, generator),
            batch_size=generator.batch_size,
            redraw=run.drawn.to_redraw,
            draws=True,
        )
        with failures.forgotten(), _unmet_forgotten(run, undrawn) as unmet:
            outcomes = self._finished_units(run, parts, work, [(part,) for part in undrawn], progress, title)
            with closing(outcomes):  # ends the workers before what failed is forgotten
                for outcome in outcomes:
                    unmet -= set(run.plan.parts_of([result.id for result in outcome.results]))
                    self._meet(outcome, run, generator, failures)
                    converted.update(outcome.conversions)
            run.drawn.note_redrawn(undrawn)
            failures.require_one(sample for samples in parts.values() for sample in samples)
        tell_conversions(converted, progress)

    @staticmethod
    def _meet(outcome: WorkOutcome, run: Run, generator: Generator, failures: Failures) -> None:
        """Take over what a worker found out."""
        if outcome.batch_size is not None and outcome.batch_size < generator.batch_size:
            generator.batch_size = outcome.batch_size
            run.record_batch_size(outcome.batch_size)
        samples = [run.sample(result.id) for result in outcome.results]
        for _ in failures.watch(samples, outcome.results):
            pass

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
        """Have units of a stage's parts made, and tell of each when it is; once all are, refuse that some are not."""
        sizes = {part: len(samples) for part, samples in parts.items()}
        missing = sum(sizes[part] for unit in units for part in unit)
        progress.start(title, sum(sizes.values()), sum(sizes.values()) - missing)
        names = {part: f"part {part}" for part in sizes}
        events = finished(self.engine, work, units, progress, names, sizes)
        with _written_by_workers(run) as written, closing(events):
            for done in events:
                for note in done.result.notes:
                    progress.note(note)
                progress.advance(sum(sizes[part] for part in done.unit))
                written.update(done.result.written)
                for card in done.result.own_encoders:
                    run.encoders.add_own(card)
                yield done.result
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
        with closing(finished(self.engine, work, units, self.progress, dict(enumerate(names)))) as events:
            for done in events:
                yield done.result


@contextmanager
def _written_by_workers(run: Run) -> Iterator[dict[str, str]]:
    """Have a run know that workers have written, and the checksums of files that its user adds."""
    written = dict[str, str]()
    try:
        yield written
    finally:
        run.ledger.note_others_wrote(written)


@contextmanager
def _unmet_forgotten(run: Run, parts: Iterable[int]) -> Iterator[set[int]]:
    """Where a model is stopped, keep no part of failures alone that a worker wrote and nobody has counted yet.

    The set holds the parts that are not met yet; its user takes out those that are.
    """
    unmet = set(parts)
    try:
        yield unmet
    except ModelError:
        run.drawn.forget_failed_parts(unmet)
        raise


class Silently:
    """A listener that passes on what should be read, and nothing else."""

    def __init__(self, progress: Progress) -> None:
        self.note = progress.note

    def start(self, stage: str, total: int, done: int) -> None:
        """Say nothing."""

    def advance(self, items: int) -> None:
        """Say nothing."""

    def finish(self) -> None:
        """Say nothing."""
