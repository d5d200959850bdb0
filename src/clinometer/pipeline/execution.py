"""A run from the first image to the scores: what is finished is not done again."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from clinometer.models.protocols import Encoder, Generator, Reader
from clinometer.pipeline.rounds import Rounds
from clinometer.pipeline.score import resamples_of, score
from clinometer.runs.drawing import generate, price_of, require_budget
from clinometer.runs.encoding import answers_to_come, encode, read
from clinometer.runs.ledger import RECORD
from clinometer.runs.plan import Sample
from clinometer.runs.progress import Progress
from clinometer.runs.record import (
    Departure,
    new_record,
    protocol_record,
    question_of,
    recorded_departures,
)
from clinometer.runs.storage import Directory
from clinometer.runs.store import Run, create_run
from clinometer.runs.tracing import WatchedGenerator, parts_without_trace
from clinometer.runs.verification import (
    SCORES,
    fingerprint_of_scores,
    has_stamps,
    is_current,
    lost_images,
    recalled,
    remember,
)
from clinometer.studies import study_of
from clinometer.studies.reading import require_reader
from clinometer.studies.study import Pool, Stage
from clinometer.suites import Suite
from clinometer.suites.question import QuestionSpec

SMALLEST_PART = 8


class Executor(Protocol):
    """Makes the missing parts of a stage; which process makes which is its own affair."""

    def generate(self, run: Run, generator: Generator, progress: Progress) -> None:
        """Draw what is drawn from a prompt alone; as :func:`clinometer.runs.drawing.generate`."""
        ...

    def stage(self, stage: Stage, run: Run, generator: Generator, progress: Progress) -> None:
        """Do what a study does beside drawing; as calling ``stage``."""
        ...

    def encode(self, run: Run, encoder: Encoder, progress: Progress) -> None:
        """Embed what an encoder has not seen; as :func:`clinometer.runs.encoding.encode`."""
        ...

    def read(self, run: Run, reader: Reader, progress: Progress) -> None:
        """Ask a reader what it has not answered; as :func:`clinometer.runs.encoding.read`."""
        ...

    def pool(self, progress: Progress) -> Pool | None:
        """Who measures for the scores; None where this process alone does."""
        ...


class Serial:
    """Makes them all in this process, one after the other."""

    def generate(self, run: Run, generator: Generator, progress: Progress) -> None:
        """See :class:`Executor`."""
        generate(run, generator, progress)

    def stage(self, stage: Stage, run: Run, generator: Generator, progress: Progress) -> None:
        """See :class:`Executor`."""
        stage(run, generator, progress)

    def encode(self, run: Run, encoder: Encoder, progress: Progress) -> None:
        """See :class:`Executor`."""
        encode(run, encoder, progress)

    def read(self, run: Run, reader: Reader, progress: Progress) -> None:
        """See :class:`Executor`."""
        read(run, reader, progress)

    def pool(self, progress: Progress) -> None:
        """See :class:`Executor`."""


@dataclass(frozen=True)
class Job:
    """What a run is of, and how it is drawn.

    Attributes
    ----------
    plan : makes every sample; of a run that is finished it is not asked.
    origin : ``"generated"`` or ``"imported"``.
    rounds : how it is drawn where it may stop early.
    budget : what the images still missing may cost.
    retry_failed : draw images anew that failed earlier.
    protocol : the departures from the suite's protocol that only the caller knows of; None of a run without a protocol.
    unscored : end once everything is drawn and embedded; more is drawn later.
    asked : hashes what was asked and the files that it names, once these are here; None where only loaded models tell.
    readers, questions : who reads the images, and what each is asked.
    watches : what is looked at on the way to the images, as of :class:`~clinometer.runs.tracing.WatchedGenerator`.
    options : what run.json keeps of how the images are worked on, such as how many resamples.
    """

    suite: Suite
    generator: Generator
    plan: Callable[[], Sequence[Sample]]
    seed: int
    origin: str = "generated"
    rounds: Rounds | None = None
    budget: float | None = None
    retry_failed: bool = False
    protocol: Sequence[Departure] | None = None
    unscored: bool = False
    asked: Callable[[], str | None] = lambda: None
    readers: Sequence[Reader] = ()
    questions: Sequence[QuestionSpec] = ()
    watches: Mapping[str, Any] | None = None
    options: Mapping[str, Any] = field(default_factory=dict)


def part_size_of(generator: Generator) -> int:
    """Images in a part: a batch, but no fewer than are worth a file."""
    return max(generator.batch_size, SMALLEST_PART)


def execute(
    job: Job,
    out: str | os.PathLike[str],
    encoders: Sequence[Encoder],
    progress: Progress,
    executor: Executor | None = None,
) -> Run:
    """Draw, embed and score what is missing in a run directory that the caller has locked."""
    run, executor = _created(job, out), executor or Serial()
    run.record_options(job.options)
    for cards, models in ((run.encoders, encoders), (run.readers, job.readers)):
        for model in models:
            cards.require(model.card)
    decider = str(job.options.get("verdict_reader") or "")
    require_reader(run, decider, [reader.card.name for reader in job.readers])
    if job.protocol is not None:
        _put_under_protocol(run, job.protocol, encoders, progress)
    if job.retry_failed:
        progress.note(f"{run.drawn.redraw_failures()} failed images are drawn anew")
    _require_budget(job, run, progress)
    while True:
        executor.generate(run, job.generator, progress)
        run.end_stage()
        for stage in study_of(job.suite).stages:
            executor.stage(stage, run, job.generator, progress)
            run.end_stage()
        for encoder in encoders:
            executor.encode(run, encoder, progress)
        if job.rounds is None or not _extended(job, job.rounds, run, encoders, progress):
            break
    if job.unscored:
        return run
    read_all(run, job.readers, job.questions, progress, executor)
    score(run, progress, pool=executor.pool(progress))
    run.refresh_protocol()
    _remember_finished(run, job.asked())
    return run


def _require_budget(job: Job, run: Run, progress: Progress) -> None:
    """Refuse to begin what would cost more than the budget: images, and the answers of readers."""
    if job.budget is not None and not (price_of(job.generator) or any(map(price_of, job.readers))):
        progress.note(
            f"--budget {job.budget:g}: images of {job.generator.card.name} cost nothing, so it limits nothing"
        )
    further = 0 if job.rounds is None else job.suite.image_count - len(run.plan)
    to_come = [(reader, answers_to_come(run, reader, job.questions, further=further)) for reader in job.readers]
    require_budget(run, job.generator, job.budget, further=further, answers=to_come)


def read_all(
    run: Run, readers: Sequence[Reader], asked: Sequence[QuestionSpec], progress: Progress, executor: Executor
) -> None:
    """Have every reader answer all that it is asked and has not answered."""
    for reader in readers:
        run.readers.begin_reading(reader.card, asked)
        executor.read(run, reader, progress)


def _remember_finished(run: Run, asked: str | None) -> None:
    remember(run, finished=fingerprint_of_scores(run, resamples_of(run)), asked=asked)
    if run.directory.is_store:
        lost_images(run)  # the samples are at hand now, and who asks later need not fetch them


def is_finished(job: Job, out: str | os.PathLike[str], encoders: Sequence[Encoder]) -> bool:
    """Whether a run directory holds all of a job, done to the end by this code, and no file was touched since."""
    plain = job.origin == "generated" and job.rounds is None and job.protocol is None  # a manifest may be mended
    if not plain or job.retry_failed or job.unscored:
        return False
    directory = Directory(out)
    if not (has_stamps(directory) and directory.exists(RECORD)):
        return False
    run = Run(out)
    return (
        is_as_it_ended(run)
        and question_of(run.record) == question_of(_record(job))
        and run.record["origin"] == job.origin
        and run.record.get("options", {}) == job.options
        and all(
            run.encoder_cards.get(encoder.card.name, {}).get("fingerprint") == encoder.card.fingerprint
            for encoder in encoders
        )
        and (job.watches is None or (bool(run.traces.record) and not parts_without_trace(run, job.generator)))
        and all(run.readers.has_finished(reader.card, job.questions) for reader in job.readers)
    )


def is_as_it_ended(run: Run) -> bool:
    """Tell whether a run was done to the end by this code, and no file was touched since."""
    made_of = fingerprint_of_scores(run, resamples_of(run))
    return is_current(run, SCORES, made_of) and recalled(run).get("finished") == made_of


def _created(job: Job, out: str | os.PathLike[str]) -> Run:
    run = create_run(out, _record(job), job.plan())
    if isinstance(job.generator, WatchedGenerator):
        run.traces.begin(job.generator.watches)
    return run


def _record(job: Job) -> dict[str, Any]:
    return new_record(
        job.suite,
        job.generator.card,
        seed=job.seed,
        origin=job.origin,
        until=None if job.rounds is None else job.rounds.record,
        batch_size=job.generator.batch_size,
        options=job.options,
    )


def _put_under_protocol(run: Run, typed: Sequence[Departure], encoders: Sequence[Encoder], progress: Progress) -> None:
    """Record the protocol and say, before anything is drawn, where the run departs from it."""
    names = list(dict.fromkeys([*run.encoder_cards, *(encoder.card.name for encoder in encoders)]))
    run.record_protocol(protocol_record(run.record, names, typed))
    departures = recorded_departures(run.record) or []
    progress.note(f"Protocol of the paper, departures: {len(departures) or 'none'}")
    for departure in departures:
        progress.note(f"  {departure.sentence}")


def _extended(job: Job, rounds: Rounds, run: Run, encoders: Sequence[Encoder], progress: Progress) -> bool:
    names = [encoder.card.name for encoder in encoders]
    return rounds.extend(run, job.generator, names, part_size_of(job.generator), progress)
