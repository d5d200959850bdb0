"""Functions of a finished run: open, score, trace, read, verify.

What a function needs is imported when it is called: the command line reads the signatures, and starts at once.
"""

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeAlias

from clinometer.errors import InvalidInputError
from clinometer.pipeline.request import (
    RUN,
    AskedEncoder,
    AskedEngine,
    AskedModel,
    AskedRun,
    Encoders,
    Listener,
    Option,
    Place,
    Readers,
    ask,
    documented,
    option_of,
)

if TYPE_CHECKING:
    import pandas as pd

    from clinometer.api.run import Run
    from clinometer.gates import Policy
    from clinometer.gates.registration import Review
    from clinometer.metrics.reading import OpenAnswers
    from clinometer.runs.run import Run as StoredRun

    AskedPolicy: TypeAlias = str | os.PathLike[str] | Mapping[str, Any] | Policy
else:
    AskedPolicy = Any


def open_run(path: Place) -> "Run":
    """Open a run directory (a path, or any URL that fsspec knows)."""
    from clinometer.api.run import Run

    return Run(path)


MODEL_FOLDER: Final = Option(
    "Folder with the model's files. The statement is then about these, identified by the digest that OpenSSF "
    "model-signing signs.",
    short="-m",
    metavar="FOLDER",
    default="the statement is about the run",
    kind=Path,
)
REGISTRATION: Final = Option("The registration that the run was drawn under, with its journal next to it.", kind=Path)


@documented
def score_run(
    path: Annotated[Place, RUN],
    *,
    encoder: Annotated[
        Encoders,
        replace(option_of("encoder"), help=f"An encoder to add first: {option_of('encoder').help}", default=""),
    ] = (),
    drop_encoder: Annotated[
        str | Sequence[str],
        Option("Encoder to leave out of the scores from now on; its vectors are kept. Repeatable.", many=True),
    ] = (),
    suite_options: Annotated[
        Sequence[str],
        Option(
            "Change a setting of the suite that only scoring uses, such as margin=0.2, from now on. run.json also "
            "keeps the old value, and the report shows both. Repeatable.",
            key="suite_option",
            many=True,
        ),
    ] = (),
    resamples: Annotated[
        int | None,
        Option("Resamples for intervals and tests, from now on.", default="unchanged", least=19),
    ] = None,
    verdict_reader: Annotated[
        str | None,
        Option("The reader whose answers decide the verdicts from now on; '' selects the best-calibrated one."),
    ] = None,
    reference: Annotated[Place | None, option_of("reference")] = None,
    device: Annotated[str, option_of("device")] = "auto",
    engine: Annotated[AskedEngine, option_of("engine")] = "local",
    workers: Annotated[int | None, option_of("workers")] = None,
    progress: Listener | None = None,
) -> "pd.DataFrame":
    """Score a run again without drawing anything.

    Parameters
    ----------
    drop_encoder : names of encoders that are taken out of it then. Their vectors stay, so naming one as ``encoder``
        again brings it back at once; ``run.json`` keeps its card under ``dropped_encoders``.

    Raises
    ------
    RunError, ModelError, SuiteError, EngineError
        A file is missing or is not what was written; an encoder that cannot be used; an unknown setting; no encoder
        of a name that is to be dropped, or no other than those.
    """
    from clinometer.models.protocols import weights_of
    from clinometer.pipeline.audits import Workers, executor_of
    from clinometer.pipeline.recipes import Models, require_texts
    from clinometer.pipeline.results import refresh_report, score
    from clinometer.readings.scores import require_reader
    from clinometer.readings.standard import read_reference
    from clinometer.runs import listening

    progress = listening(progress)
    run = open_run(path)
    if encoder or drop_encoder:
        run.require_images("an encoder")
    with run.directory.locked():
        declared: list[str] = []
        if reference is not None:
            standard = read_reference(reference)
            run.suite.with_reference(standard, os.fspath(reference))
            declared = [f"reference={standard.model_dump_json()}"]
        run.change_suite([*suite_options, *declared])
        if resamples is not None:
            run.record_options(run.record.get("options", {}) | ask(resamples=resamples).kept)
        if verdict_reader is not None:
            require_reader(run, verdict_reader)
            others = {name: value for name, value in run.record.get("options", {}).items() if name != "verdict_reader"}
            run.record_options(others | ({"verdict_reader": verdict_reader} if verdict_reader else {}))
        models = Models()
        encoders, recipes = models.encoders(encoder, device)
        require_texts(encoders, run.suite, until=run.record.get("until") is not None)
        make_room = partial(models.release, generator=False)
        with Workers(engine, workers).opened(device, weights_of(encoders), make_room) as opened:
            executor = executor_of(opened, None, recipes)
            for added_encoder in encoders:
                executor.encode(run, added_encoder, progress)
            run.encoders.drop([drop_encoder] if isinstance(drop_encoder, str) else drop_encoder)
            table = score(run, progress, pool=executor.pool(progress))
        run.refresh_protocol()
        refresh_report(run)
    return table


@documented
def trace_run(
    run: Annotated[Place, RUN],
    *,
    model: Annotated[
        AskedModel | None, Option("The model that drew the run.", short="-m", default="the model that the run names")
    ] = None,
    encoder: Annotated[
        Encoders, Option("Which of the run's encoders to use. Repeatable.", short="-e", default="all", many=True)
    ] = (),
    steps: Annotated[
        str | int | Sequence[int] | None,
        Option("How many steps to keep, their numbers such as 1,5,10, or all.", default="6, evenly spread"),
    ] = None,
    decoder: Annotated[
        str | None,
        Option("A tiny decoder (diffusers' AutoencoderTiny) for speed, as a directory or a hub id."),
    ] = None,
    latents: Annotated[bool, Option("Also store the latents of these steps.")] = False,
    model_options: Mapping[str, Any] | None = None,
    device: Annotated[str, option_of("device")] = "auto",
    progress: Listener | None = None,
) -> "pd.DataFrame":
    """Draw a run's images again, keep what the model took them for on the way, and score the run again.

    Parameters
    ----------
    model_options : what the model was loaded with beside the settings of its card, such as ``{"lora": …}``.

    Returns
    -------
    The rows of metric ``trace``.

    Raises
    ------
    RunError, ModelError, SuiteError
        The run is not drawn to the end, or another model drew it; its study follows no way; a model that shows no
        steps; a step beyond the schedule.
    """
    from clinometer.metrics.records import TRACE
    from clinometer.pipeline.execution import trace_run as trace_again
    from clinometer.runs import listening

    opened = open_run(run)
    trace_again(
        opened, listening(progress), model=model, encoder=encoder, model_options=model_options, steps=steps,
        decoder=decoder, latents=latents, device=device,
    )  # fmt: skip
    scores = opened.scores
    return scores[scores.metric == TRACE].reset_index(drop=True)


@documented
def read_run(
    run: Place,
    *,
    reader: Annotated[
        Readers,
        Option(
            "A directory or hub id of a classifier, VQA or vision-language model; openai:MODEL; or an encoder. "
            "Repeatable for a run.",
            short="-r",
            default="reference",
            many=True,
        ),
    ] = "reference",
    question: Annotated[
        str | Path | Sequence[str | Path],
        Option(
            "gender, age, monk, a YAML file with a question, or the name of one of the suite's questions. Repeatable "
            "for a run.",
            short="-q",
            default="gender; for a run, what its suite asks",
            many=True,
        ),
    ] = (),
    truth: Annotated[
        Place | None,
        Option(
            "A CSV file that says what some pictures show: the columns file and group; for an open question, file and "
            "concept, by default the folder that a picture is in.",
            kind=Path,
        ),
    ] = None,
    encoder: Annotated[
        AskedEncoder | None,
        Option(
            "With --truth: the encoder whose vectors compare those pictures with the others; for a run, one of its "
            "encoders. For an open question: the encoder that finds answers of the same meaning.",
            short="-e",
        ),
    ] = None,
    threshold: Annotated[float, Option("Mean cosine from which answers have the same meaning, in (0, 1].")] = 0.9,
    budget: Annotated[float | None, Option("The most that the answers still to be asked for may cost.")] = None,
    check_drift: Annotated[
        int,
        Option(
            "For a run: ask about this many pictures again before each part, and report whether the reader changes "
            "over time, as one behind an API may. [default: 0]",
            least=0,
        ),
    ] = 0,
    retry_failed: Annotated[bool, Option("For a run: ask again where the reader failed.")] = False,
    device: Annotated[str, option_of("device")] = "auto",
    engine: Annotated[AskedEngine, option_of("engine")] = "local",
    workers: Annotated[int | None, option_of("workers")] = None,
    progress: Listener | None = None,
    **options: Any,
) -> "dict[str, pd.DataFrame]":
    """Ask readers what a run's images show, and score the run again if it was scored. Draws nothing.

    Parameters
    ----------
    reader : as of :func:`clinometer.models.load_reader`, objects that read, or several of either.
    question : names of the suite's questions, built-in ones, or YAML files; by default all that the suite asks, or to
        which of its groups a person belongs. The run keeps what it was asked.
    truth : a CSV file with the columns ``file`` and ``group`` (an answer to the question), beside pictures of a folder:
        how each reader errs is measured on them, in place of the attribute images. It takes one question.
    encoder, threshold : put answers to open questions together, as of :func:`read_images`. The run keeps which. With
        ``truth`` the encoder is one of the run's, and its vectors say whether those pictures look like the run's.
    budget : what the missing answers may cost, of readers with a price; those about a folder's pictures have their own.
    check_drift : ask about so many of the first pictures again before each part, and at the end: whether the reader
        changes meanwhile shows in that. One process reads then, as answers are compared in the order of time. The run
        keeps the number, and goes on so.
    **options : ``price`` and ``base_url`` of readers behind an endpoint.

    Returns
    -------
    Every answer of each reader, by its name: see ``Run.readings``.

    Raises
    ------
    RunError, SuiteError, ModelError, EngineError
        A run that is not drawn to the end, or a file that is not what was written; no such question; a reader that
        cannot answer it, or whose answers cost more than the budget.
    """
    from clinometer.models import load_encoder
    from clinometer.models.protocols import weights_of
    from clinometer.pipeline.audits import Workers, executor_of, questions_of
    from clinometer.pipeline.execution import Executor, ask_failed_again, read_all
    from clinometer.pipeline.recipes import Models
    from clinometer.pipeline.results import refresh_report, score
    from clinometer.readings.folder import keep_clusters, read_known
    from clinometer.runs import listening
    from clinometer.runs.drawing import require_budget
    from clinometer.runs.encoding import require_drawn
    from clinometer.runs.reading import answers_again, answers_to_come

    progress, opened_run = listening(progress), open_run(run)
    opened_run.require_images("a reader")
    questions = questions_of(opened_run.suite, reader, question)
    if truth is not None and len(questions) != 1:
        raise InvalidInputError.too_many(
            f"found {len(questions)} questions, expected the one that the labels answer; name it as the question",
            field="truth",
        )
    _require_one_process(check_drift, engine, workers)
    models = Models()
    with opened_run.directory.locked():
        opened_run.ledger.forget_missing()
        require_drawn(opened_run, f"clinometer read {opened_run.url} --reader NAME")
        readers, recipes = models.readers(reader, device, questions, options)
        for each in readers:
            opened_run.readers.require(each.card)
        if retry_failed:
            ask_failed_again(opened_run, readers, progress)
        to_come = [
            (
                each,
                answers_to_come(opened_run, each, questions) + answers_again(opened_run, each, questions, check_drift),
            )
            for each in readers
        ]
        require_budget(opened_run, None, budget, answers=to_come)
        with Workers(engine, workers).opened(device, weights_of(readers)) as engine_at_work:
            executor = Executor(once_more=True) if check_drift else executor_of(engine_at_work, None, {}, recipes)
            read_all(opened_run, readers, questions, progress, executor, again=check_drift)
            loaded = load_encoder(encoder) if isinstance(encoder, str) else encoder
            if truth is not None:
                read_known(opened_run, readers, questions[0], truth, progress, budget=budget, encoder=loaded)
            if loaded is not None:
                keep_clusters(opened_run, readers, questions, loaded, threshold)
            if opened_run.is_scored:
                score(opened_run, progress, pool=executor.pool(progress))
                refresh_report(opened_run)
    return {each.card.name: opened_run.readings(each.card.name) for each in readers}


def _require_one_process(check_drift: int, engine: AskedEngine, workers: int | None) -> None:
    """Refuse a number of pictures below 0, and several processes that would ask again at the same time."""
    if isinstance(check_drift, bool) or check_drift < 0:
        raise InvalidInputError.out_of_range(
            f"found {check_drift}, expected a number of pictures, or 0 for none", field="check_drift"
        )
    if check_drift and (engine != "local" or (workers or 1) > 1):
        found = f"{workers} workers" if engine == "local" else f"engine {engine}"
        raise InvalidInputError.conflict(
            f"found beside {found}; answers are compared in the order of time, so one process reads: leave that out",
            field="check_drift",
        )


def open_answers(
    run: Place,
    *,
    reader: str,
    question: str,
    encoder: AskedEncoder | None = None,
    threshold: float = 0.9,
) -> "OpenAnswers":
    """Test what a reader answered to an open question against the concepts of a run that it has read before.

    Parameters
    ----------
    reader, question : by their names in the run.
    encoder, threshold : as of :func:`read_images`; without an encoder what the run keeps of :func:`read_run`.

    Raises
    ------
    RunError, InvalidInputError, ModelError
        The reader has not read the run, or was not asked that or nothing open; an encoder that reads no text.
    """
    from clinometer.models import load_encoder
    from clinometer.readings.scores import clusters_of, distribute

    opened_run = open_run(run)
    table = opened_run.readings(reader)
    questions = {name: spec for name, spec in opened_run.readers.questions(reader).items() if spec.kind == "open"}
    if question not in questions:
        raise InvalidInputError.unknown_name(
            f"found {question!r}, expected an open question that {reader} was asked: {', '.join(questions) or 'none'}; "
            f"give: clinometer read {opened_run.url} --reader {reader} --question FILE",
            field="question",
        )
    rows = table[(table.question == question) & (table.role == "target")].reset_index(drop=True)
    if encoder is None:
        clusters = opened_run.answers.clusters(opened_run.readers.cards[reader]).get(question)
    else:
        loaded = load_encoder(encoder) if isinstance(encoder, str) else encoder
        clusters = clusters_of(rows["answer"], loaded, threshold)
    return distribute(rows, questions[question], clusters)[0]


@documented
def verify_run(
    run: Annotated[AskedRun, RUN],
    *,
    recompute: Annotated[
        bool, Option("Also compute every number again from the vectors, and list those that differ. Writes nothing.")
    ] = False,
    evidence: Annotated[
        Place | None,
        Option(
            "Also check that a file follows from the run: assessment-results.json or statement.json from an export, "
            "or the ML-BOM from a card.",
            kind=Path,
        ),
    ] = None,
    baseline: Annotated[
        AskedRun | None, Option("The baseline run, if the file's findings are differences from one.")
    ] = None,
    model: Annotated[Place | None, MODEL_FOLDER] = None,
    progress: Listener | None = None,
) -> int:
    """Read every file of a run, images too, and return how many there are.

    Parameters
    ----------
    evidence : a record or a statement that :func:`export` wrote, or the BOM of :func:`model_card`; the run must be the
        one that it names, by hashes, and what it says must be what follows from the run.
    model : the folder of the model's files, which must be those of the run's model and of the statement's subject.

    Raises
    ------
    RunCorruptError
        Some are missing, or not as they were written, or numbers are not those that follow from the vectors: the
        message names them and the way out; or the evidence says something else, a line for each difference.
    InvalidInputError, ModelError
        No such evidence; the folder does not hold the model's files.

    Warns
    -----
    UncheckedRunWarning
        It has no checksums: what was found is no more than that its files can be read.
    """
    from clinometer.exports.evidence import require_unchanged
    from clinometer.pipeline.results import require_same_scores
    from clinometer.runs import listening
    from clinometer.runs.verification import verify

    opened, progress = open_if_place(run), listening(progress)
    verified = verify(opened, progress)
    if evidence is not None:
        against = None if baseline is None else open_if_place(baseline)
        if remark := require_unchanged(opened, evidence, against, model):
            progress.note(f"{os.fspath(evidence)}: {remark}")
    if recompute:
        require_same_scores(opened, progress)
    return verified


@documented
def review_registration(
    run: Annotated[AskedRun, RUN],
    registration: Annotated[Place, REGISTRATION],
    *,
    policy: AskedPolicy | None = None,
    evidence: Place | None = None,
) -> "Review":
    """Compare a run with the registration that it was drawn under, and the journal beside it.

    Parameters
    ----------
    policy : the rules that the run is held to, if any; others than were registered are a change.
    evidence : in place of these, a record or a statement that holds them.

    Returns
    -------
    ``attempts``: every attempt in a line, those that were left out too; ``changes``: what is not as registered.

    Raises
    ------
    InvalidInputError, RunMismatchError, GateError
        The registration or its journal was changed, or is not there; the run was not drawn under it, or the journal
        does not know it; the policy cannot be read.
    """
    from clinometer.exports.evidence import policy_of
    from clinometer.gates.policy import policy_digest
    from clinometer.gates.registration import review

    if policy is None and evidence is not None:
        policy = policy_of(evidence)
    return review(open_if_place(run), registration, None if policy is None else policy_digest(policy))


def open_if_place(run: AskedRun) -> "StoredRun":
    """Return a run that is given by its place, or open already."""
    from clinometer.runs.run import Run as StoredRun

    return run if isinstance(run, StoredRun) else open_run(run)
