"""An audit from names and options to a finished run directory."""

from __future__ import annotations

import glob
import hashlib
import json
import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Final, Protocol

from clinometer.errors import InvalidInputError, ModelError, SuiteError
from clinometer.models import reference
from clinometer.models.files import choose_portraits, read_portraits
from clinometer.models.files.source import EmbeddedSource, FolderSource, PortraitSource
from clinometer.models.protocols import (
    Card,
    Converts,
    DrawsAtOnce,
    EditRequest,
    Encoder,
    GenerationRequest,
    Generator,
    ShowsRequests,
    offers,
    weights_of,
)
from clinometer.models.readers import Reader
from clinometer.models.registry import require_names, stamps_of
from clinometer.pipeline.engines import Engine, find_engine, open_engine, places_by_weights
from clinometer.pipeline.execution import (
    Executor,
    Job,
    Rounds,
    SteeredRounds,
    count_of_groups,
    execute,
    is_as_it_ended,
    is_finished,
    part_size_of,
    require_traced,
    rounds_of,
)
from clinometer.pipeline.parallel import Parallel
from clinometer.pipeline.recipes import (
    Models,
    ReadyModel,
    Recipe,
    TracedGenerator,
    WithEncoders,
    WithPortraits,
    named_encoders,
    one_by_one,
    require_texts,
)
from clinometer.pipeline.request import OF_SUITE, AuditRequest, Encoders, Readers
from clinometer.pipeline.results import refresh_report, score
from clinometer.readings.fit import misfits, require_learned
from clinometer.readings.folder import read_groups, read_known
from clinometer.readings.scores import require_counterfactuals, require_reader
from clinometer.readings.standard import read_reference
from clinometer.runs import Directory, Progress
from clinometer.runs.answers import reader_question
from clinometer.runs.drawing import WatchedGenerator, cost, price_of
from clinometer.runs.ledger import RECORD, Ledger
from clinometer.runs.plan import Sample, build_plan, groups_by_prompt, manifest_prompt_specs
from clinometer.runs.progress import naming_errors
from clinometer.runs.record import Departure, card_record, portrait_departures, suite_under
from clinometer.runs.run import Run, require_run_or_nothing
from clinometer.runs.verification import recalled, remember
from clinometer.studies import study_of
from clinometer.studies.study import PartStage, WholeStage
from clinometer.suites import PromptSpec, Suite, load_suite
from clinometer.suites import Protocol as PaperProtocol
from clinometer.suites.question import QuestionSpec, load_question, question_names

REFERENCE_PORTRAITS: Final = "reference portraits"
"""What the portraits that come with the package are called; ``reference`` asks for them."""


@dataclass(frozen=True)
class Steering:
    """A sweep's word on an audit that is drawn in rounds.

    Attributes
    ----------
    targets : how many images each concept is to have by now.
    unscored : whether the audit ends once they are drawn and embedded.
    """

    targets: Mapping[str, int]
    unscored: bool


class OpensEngine(Protocol):
    """Opens the engine that does the work, once it is known on which device."""

    def opened(
        self, device: str, weights: int = 0, make_room: Callable[[], None] = lambda: None
    ) -> AbstractContextManager[Engine | None]:
        """Open the engine, for models of so many bytes; None where this process alone does the work.

        ``make_room`` : frees this process's models once workers will replace them. It is called before the engine looks
        for room, unless there is none to open or the next audit needs them.
        """
        ...


@dataclass(frozen=True)
class Workers:
    """An engine as it was asked for, and how many workers of it."""

    engine: str | Engine = "local"
    workers: int | None = None

    def places_by_weights(self, device: str) -> bool:
        """Return whether models that take more may need other workers."""
        return isinstance(self.engine, str) and places_by_weights(self.engine, device)

    @contextmanager
    def opened(
        self, device: str, weights: int = 0, make_room: Callable[[], None] = lambda: None
    ) -> Iterator[Engine | None]:
        """Open the engine, and close it again unless it was given open; None where this process alone does the work."""
        spec = self.engine
        if isinstance(spec, str):
            engine = open_engine(spec, self.workers, device, weights, make_room)
        else:
            make_room()
            engine = spec
        try:
            yield engine
        finally:
            if engine is not None and engine is not self.engine:
                engine.close()


def executor_of(
    engine: Engine | None,
    generator: Recipe | None,
    encoders: Mapping[str, Recipe],
    readers: Mapping[str, Recipe] = MappingProxyType({}),
) -> Executor:
    """Return who makes the missing parts of a stage."""
    return Executor() if engine is None else Parallel(engine, generator, encoders, readers)


def questions_of(
    suite: Suite, readers: Readers | None, named_ones: str | Path | Sequence[str | Path] = ()
) -> tuple[QuestionSpec, ...]:
    """Find what readers are asked: the suite's questions, or those of some names; nothing where there are no readers.

    Raises
    ------
    SuiteError
        There is no such question; or the suite asks nothing of readers, and has no groups of which to ask.
    InvalidInputError
        A counterfactual names a concept that the suite does not have.
    """
    own = {spec.name: spec for spec in suite.questions()}
    names = [named_ones] if isinstance(named_ones, str | Path) else list(named_ones)
    asked = tuple(own.get(str(name)) or load_question(name) for name in names) if names else tuple(own.values())
    if readers and not asked:
        raise SuiteError.unsupported(
            f"suite {suite.name}: it asks readers nothing, and has no groups of people to ask of; add 'readings: "
            f"[{', '.join(question_names())}]' to it, or give clinometer read RUN --question {question_names()[0]}"
        )
    concepts = {spec.concept for spec in suite.every_prompt_spec() if spec.role == "target" and spec.concept}
    for question in asked if readers else ():
        require_counterfactuals(question, concepts)
    return asked if readers else ()


def errors_from(
    request: AuditRequest, asked: Sequence[QuestionSpec]
) -> Callable[[Run, Sequence[Reader], Progress], None] | None:
    """Check the labelled pictures of a request, and return what reads them; None where it names none.

    Raises
    ------
    InvalidInputError, ImportManifestError
        Labelled pictures without a reader, or of several questions; a file that is not there or names other groups; or
        nothing decides, with ``until``, as a group has none.
    """
    if request.truth is None:
        return None
    if len(asked) != 1:
        found = f"{len(asked)} questions, expected the one that the labels answer" if asked else "no reader, give one"
        raise InvalidInputError.conflict(f"found {found}", field="truth")
    spec, truth, budget = asked[0], request.truth, request.budget
    labelled, _ = read_groups(Path(truth).parent, truth, reader_question(spec))
    none = [name for name in spec.answers if name not in labelled.values()]
    if none and request.until is not None:
        raise InvalidInputError.missing(
            f"{Path(truth).name}: no picture of {', '.join(none)}, so nothing would be decided; label some of each",
            field="truth",
        )
    return lambda run, readers, progress: read_known(run, readers, spec, truth, progress, budget=budget)


def audit(
    request: AuditRequest,
    models: Models,
    workers: OpensEngine,
    progress: Progress,
    steering: Steering | None = None,
    pictures: Sequence[str] = (),
) -> str:
    """Draw, embed, score and report; what is finished already is kept. Returns the run's place.

    ``steering`` : where a sweep says how many images there are to be, in place of the audit's own concepts.
    ``pictures`` : runs of which pictures are taken that are those this one would draw.

    Raises
    ------
    SuiteError, ModelError, RunError, EngineError, InvalidInputError
        As :func:`clinometer.audit`.
    """
    suite, rounds = suite_and_rounds(request, steering)
    questions_asked = questions_of(suite, request.reader)
    learn_errors = errors_from(request, questions_asked)
    ask = partial(_hash_asked, request, suite) if steering is None else lambda: None
    asked = ask()
    if asked is not None and (place := _find_kept(request.out, suite, asked, progress)):
        return place
    prescribed = None if request.protocol is None else suite.protocol
    prefer = {} if prescribed is None else prescribed.sampling
    generator, recipe = models.generator(request.model, request.adapter_options, request.device, prefer=prefer)
    require_learned(card_record(generator.card), suite)
    out = request.out or default_out(generator.card, suite)
    settle_batch_size(out, generator, suite, progress)
    part_size = part_size_of(generator)
    prompt_specs, source, typed = (suite if rounds is None else rounds).prompt_specs(), None, list[Departure]()
    if request.portraits is not None:
        suite, prompt_specs, source = given_portraits(request, suite, prescribed)
        typed = portrait_departures(prescribed, request.images, request.expression)
        generator, recipe = PortraitSource(source, generator), WithPortraits(source, recipe)
    elif request.expression != "N":
        raise InvalidInputError.conflict(
            f"found {request.expression!r}, and no portraits to take it of; give --portraits", field="expression"
        )
    study, card = study_of(suite), generator.card
    if request.watches is not None:
        require_traced(suite)
    study.check(generator, suite)

    def planned() -> Sequence[Sample]:
        plan = build_plan(prompt_specs, seed=request.seed, model_fingerprint=card.fingerprint, part_size=part_size)
        if source is not None:
            source.assign({sample.id: sample.file for sample in plan})
        return study.extend_plan(suite, plan, part_size)

    plan = planned() if source is not None else None  # portraits: their source is to know them before workers do
    readers, reader_recipes = models.readers(
        request.reader, request.device, questions_asked, {"price": request.answer_price, "base_url": request.reader_url}
    )
    job = Job(
        suite, generator, planned if plan is None else lambda: plan, request.seed,
        rounds=rounds, budget=request.budget, retry_failed=request.retry_failed,
        protocol=None if prescribed is None else typed, unscored=steering is not None and steering.unscored,
        asked=ask if asked is None else lambda: asked, readers=readers, questions=questions_asked,
        learn_errors=learn_errors, watches=request.watches, options=request.kept, pictures=pictures,
    )  # fmt: skip
    usual = (() if prescribed is None else prescribed.encoders) or "reference"
    encoders = usual if request.encoder is None else request.encoder
    return run_job(job, out, encoders, request.device, models, workers, recipe, progress, reader_recipes)


@dataclass(frozen=True)
class Preview:
    """What an audit would ask, of a model that is loaded and draws nothing.

    Attributes
    ----------
    model : its name.
    takes : what a request of it can say, by the name of a setting.
    suite : its name. ``images`` are those of a whole run, without portraits that are given, ``of_groups`` those of them
        that are drawn for the groups, ``price`` is what one costs and ``cost`` what all do.
    prompt, seed : of the first image.
    requests : what would be sent for it, key masked; empty of a model that asks no server.
    """

    model: str
    takes: Mapping[str, str]
    suite: str
    images: int
    of_groups: int
    price: float
    cost: float
    prompt: str
    seed: int
    requests: Sequence[str]


def preview(request: AuditRequest, others: Sequence[AuditRequest] = ()) -> Preview:
    """Load a model and say what an audit of it would ask first. Nothing is drawn, sent or written.

    ``others`` : audits that are asked for together with it; their names are checked.

    Raises
    ------
    SuiteError, ModelError, EngineError, RunError, InvalidInputError
        As :func:`clinometer.audit`, of what is asked. Encoders and readers are looked up by name, and not loaded.
    """
    from PIL import Image

    from clinometer.models.description import capabilities_of

    suite, rounds = suite_and_rounds(request)
    prefer = {} if request.protocol is None or suite.protocol is None else suite.protocol.sampling
    for other in others:
        suite_and_rounds(other)
    errors_from(request, questions_of(suite, request.reader))
    readers = one_by_one(request.reader)
    generators = [each.model for each in (request, *others)]
    require_names(named_encoders(request.encoder or ()), readers, generators)
    if isinstance(request.engine, str):
        find_engine(request.engine)
    if request.watches is not None:
        require_traced(suite)
    generator, _ = Models().generator(request.model, request.adapter_options, request.device, prefer=prefer)
    require_learned(card_record(generator.card), suite)
    decider, directory = (
        request.kept.get("verdict_reader"),
        Directory(request.out or default_out(generator.card, suite)),
    )
    if decider and not readers:  # what those are called is known once they are loaded
        if not directory.exists(RECORD):
            raise InvalidInputError.conflict(
                f"found {decider!r}, and nothing that reads the images; give --reader as well", field="verdict_reader"
            )
        require_reader(Run(directory.url), str(decider))
    study, part_size, images = study_of(suite), part_size_of(generator), suite.image_count
    study.check(generator, suite)
    plan: Sequence[Sample] = build_plan(
        (suite if rounds is None else rounds).prompt_specs(), seed=request.seed,
        model_fingerprint=generator.card.fingerprint, part_size=part_size,
    )  # fmt: skip
    if request.portraits is not None:
        given_portraits(request, suite, None if request.protocol is None else suite.protocol)  # whether they are there
        if study.overrides("extend_plan"):  # their edits are asked for
            plan = [sample for sample in study.extend_plan(suite, plan, part_size) if sample.source]
            images = len(plan)
    first, price = plan[0], price_of(generator)
    asked = GenerationRequest(first.id, first.prompt, first.seed)
    if first.source:
        asked = EditRequest(first.id, first.prompt, first.seed, Image.new("RGB", (64, 64)), first.strength)
    of_groups = count_of_groups(sample.role for sample in plan)
    return Preview(
        generator.card.name, capabilities_of(generator).takes, suite.name, images, of_groups, price,
        cost(images, price), first.prompt, first.seed,
        generator.shown_requests(asked) if offers(generator, ShowsRequests) else (),
    )  # fmt: skip


def run_job(
    job: Job,
    out: str | os.PathLike[str],
    encoder_specs: Encoders,
    device: str,
    models: Models,
    workers: OpensEngine,
    generator_recipe: Recipe,
    progress: Progress,
    reader_recipes: Mapping[str, Recipe] = MappingProxyType({}),
) -> str:
    """Load the encoders, make what is missing of a run, and write its report; return the place of the run."""
    encoders, recipes = list[Encoder](), dict[str, Recipe]()
    if study_of(job.suite).encoders_needed:
        encoders, recipes = models.encoders(encoder_specs, device)
        if not encoders:
            raise ModelError.missing("found none, expected one at least, such as reference", field="encoder")
        require_texts(encoders, job.suite, until=job.rounds is not None)
    for encoder in encoders:
        if warning := misfits(card_record(encoder.card), card_record(job.generator.card), job.suite):
            progress.note(warning)
    if job.origin == "imported" and isinstance(generator_recipe, ReadyModel) and offers(job.generator, Converts):
        generator_recipe = WithEncoders(
            generator_recipe, tuple((recipes[encoder.card.name], encoder.card) for encoder in encoders)
        )
        job = replace(job, generator=EmbeddedSource(job.generator, encoders))
    if job.watches is not None:
        looking = tuple((recipes[encoder.card.name], encoder.card) for encoder in encoders)
        generator_recipe = TracedGenerator(generator_recipe, looking, job.watches)
        job = replace(job, generator=WatchedGenerator(job.generator, encoders, **job.watches))
    directory = Directory(out)
    require_run_or_nothing(directory)
    weights = weights_of([job.generator, *encoders, *(each for each in job.readers if not price_of(each))])
    with directory.locked(), ExitStack() as opened:
        if is_finished(job, out, encoders):
            score(run := Run(out), progress)  # reports that nothing has changed
            refresh_report(run)
            remember(run, asked=job.asked())
            return directory.url
        is_shared = all(isinstance(stage, PartStage | WholeStage) for stage in study_of(job.suite).stages)
        make_room = partial(models.release, generator=is_shared and not price_of(job.generator))
        engine = opened.enter_context(workers.opened(device, weights, make_room))
        run = execute(job, out, encoders, progress, executor_of(engine, generator_recipe, recipes, reader_recipes))
        if not job.unscored:
            refresh_report(run)
    return directory.url


def _find_kept(out: str | os.PathLike[str] | None, suite: Suite, asked: str, progress: Progress) -> str | None:
    """Find the run that ended as it is asked for now, of models whose files are as they were; None where there is none.

    PyTorch is not imported, which takes longer than all the rest.
    """
    named = glob.escape(suite.name.replace("/", "-"))
    for place in Path("runs").glob(f"*-{named}") if out is None else [out]:
        directory = Directory(place)
        if not (directory.is_local and directory.exists(RECORD)) or recalled(Run(place)).get("asked") != asked:
            continue
        with directory.locked():
            run = Run(place)
            if is_as_it_ended(run):
                for card in run.encoder_cards.values():
                    if warning := misfits(card, run.model_card, suite):
                        progress.note(warning)
                score(run, progress)  # which says that there is nothing to do
                refresh_report(run)
                return directory.url
    return None


def load_asked_suite(suite: str | Path | Suite) -> Suite:
    """Load a suite, and refuse one that asks for no images."""
    loaded_suite = load_suite(suite)
    if not loaded_suite.draws:
        name = loaded_suite.name if isinstance(suite, Suite) else suite
        raise SuiteError.unsupported(f"suite {loaded_suite.name}: it asks for no images; give: clinometer test {name}")
    return loaded_suite


def suite_and_rounds(request: AuditRequest, steering: Steering | None = None) -> tuple[Suite, Rounds | None]:
    """Load the suite with its options, and the rounds that it is drawn in where it may stop early.

    Raises
    ------
    SuiteError, InvalidInputError
        No such suite, or it does not take an option.
    """
    suite = suite_under(request.protocol, load_asked_suite(request.suite))
    suite = suite.with_options(**{name: getattr(request, name) for name in OF_SUITE})
    if request.reference is not None:
        suite = suite.with_reference(read_reference(request.reference), os.fspath(request.reference))
    if request.until is None:
        return suite, None
    if getattr(suite, "ablate", None):
        raise InvalidInputError.conflict(
            f"found beside --until {request.until}; pairs with and without a word need a number of images fixed "
            "beforehand, so leave one of them out",
            field="ablate",
        )
    rounds = rounds_of(suite, request.until, request.images, labelled=request.truth is not None)
    return rounds.suite, rounds if steering is None else SteeredRounds(
        rounds.rule, rounds.suite, targets=steering.targets
    )


def _hash_asked(request: AuditRequest, suite: Suite) -> str | None:
    """Hash what is asked, and the stamps of the models' files; None where only the loaded models tell."""
    if request.reader:
        return None
    plain = (request.protocol, request.until, request.portraits, request.expression) == (None, None, None, "N")
    specs = [request.model, *named_encoders("reference" if request.encoder is None else request.encoder)]
    options = {name: value for name, value in request.adapter_options.items() if value not in (None, "auto")}
    known = all(isinstance(each, int | float) or key in ("dtype", "lora") for key, each in options.items())
    if not (plain and known) or request.retry_failed:
        return None
    offline = bool(options.get("offline"))
    stamps = [stamps_of(spec, offline=offline) for spec in specs]
    stamps += [stamps_of(options["lora"], offline=offline, of_lora=True)] if "lora" in options else []
    if not all(stamps):
        return None
    asked = [suite.model_dump(mode="json"), request.seed, options, request.kept, request.device, stamps]
    return hashlib.sha256(json.dumps(asked, sort_keys=True).encode()).hexdigest()


def default_out(card: Card, suite: Suite) -> Path:
    """Name the directory of a run that was given none."""
    return Path("runs") / f"{card.name}-{suite.name}".replace("/", "-")


def given_portraits(
    request: AuditRequest, suite: Suite, prescribed: PaperProtocol | None
) -> tuple[Suite, Iterator[PromptSpec], FolderSource]:
    """Return the suite with the number of the portraits that are given, the prompt specs they answer, and their source.

    At most as many of a group as the suite asks for are taken, or all of them where the prescribed protocol says so.
    """
    assert request.portraits is not None
    needed = suite.portraits()
    if needed is None:
        raise SuiteError.unsupported(
            f"suite {suite.name}: it asks for no portraits; give a suite of study editing or classification, or no "
            "portraits"
        )
    codes, most = needed
    is_whole = prescribed is not None and prescribed.portraits == "all" and request.images is None
    is_ours = str(request.portraits) == "reference"
    folder = reference.portraits_path() if is_ours else Path(request.portraits)
    all_rows = read_portraits(folder, codes, expression=request.expression, prompts=groups_by_prompt(suite))
    rows = choose_portraits(all_rows, None if is_whole else most, request.seed)
    if is_whole:
        suite = suite.with_options(images=max(Counter(row.group for row in rows).values()))
    source = FolderSource(folder, rows, name=REFERENCE_PORTRAITS if is_ours else folder.resolve().name)
    return suite, manifest_prompt_specs(rows, suite, str(request.portraits)), source


def settle_batch_size(out: str | os.PathLike[str], generator: Generator, suite: Suite, progress: Progress) -> None:
    """Find the batch size of a generator that can, before the plan is cut into parts of that size.

    A run that is there already says what it found, so that it goes on with the batches it would have had.
    """
    if not offers(generator, DrawsAtOnce):
        return
    begun = generator.batch_size
    directory = Directory(out)
    recorded_size = Ledger(directory).record.get("batch_size") if directory.exists(RECORD) else None
    with naming_errors("generator", generator.card.name, note=""):
        longest = max((spec.prompt for spec in suite.prompt_specs()), key=len, default="")
        generator.fit_batch_size(longest, known=recorded_size)
    if recorded_size is None and generator.batch_size != begun:
        progress.note(f"{generator.batch_size} images per batch: as many as memory holds")
