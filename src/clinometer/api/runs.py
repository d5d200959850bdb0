"""A finished run: open, score, trace, read, verify."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from clinometer.errors import InvalidInputError
from clinometer.exports.evidence import policy_of, require_unchanged
from clinometer.exports.paper import Figures, metric_latex
from clinometer.gates import Policy
from clinometer.gates.policy import policy_digest
from clinometer.gates.registration import Review, review
from clinometer.metrics.reading import OpenAnswers
from clinometer.metrics.records import TRACE
from clinometer.models import load_encoder
from clinometer.models.protocols import weights_of
from clinometer.pipeline.audits import Workers, executor_of, questions_of
from clinometer.pipeline.engines import Engine
from clinometer.pipeline.execution import Executor, ask_failed_again, read_all
from clinometer.pipeline.execution import trace_run as trace_again
from clinometer.pipeline.recipes import Models, require_texts
from clinometer.pipeline.request import ask
from clinometer.pipeline.results import refresh_report, require_same_scores, run_repr_html, score
from clinometer.readings.folder import keep_clusters, read_known
from clinometer.readings.open_answers import clusters_of, distribute
from clinometer.readings.scores import require_reader
from clinometer.readings.standard import read_reference
from clinometer.runs import Progress, listening, store
from clinometer.runs.drawing import require_budget
from clinometer.runs.encoding import require_drawn
from clinometer.runs.reading import answers_again, answers_to_come
from clinometer.runs.verification import verify
from clinometer.studies import study_of

if TYPE_CHECKING:
    import pandas as pd

    from clinometer.models import Encoder, Reader
    from clinometer.models.protocols import Generator


_NAMES = ("metric", "component", "concept", "category", "group", "setting", "encoder")
"""The columns that name a row of scores."""


class Run(store.Run):
    """A run directory, opened: ``run.scores``, ``run.samples``, ``run.suite``, ``run.model_card``, …"""

    def _repr_html_(self) -> str:
        return run_repr_html(
            suite=self.suite,
            model_card=self.model_card,
            samples=self.drawn.whole([]),
            scores=self.scores if self.is_scored else None,
            planned=len(self.plan),
            place=self.directory.shown,
        )

    @property
    def verdicts(self) -> pd.DataFrame:
        """The headline: the rows of ``scores`` that the report judges, with all their columns.

        These are a row a concept, of its image part, where a suite compares two groups; with axes a row for each
        concept and axis, of other studies a row for each test, contrast or share. What has no score has no row; what
        has one and no verdict says why in ``reason``. The verdicts on all other numbers are in ``all_verdicts``.
        """
        page, scores = study_of(self.suite).page(self.suite), self.scores
        view = page.view.of_scores(self.suite, scores)
        judged = {tuple(getattr(row, name) for name in _NAMES) for each in page.verdicts(view) for row in each.rows}
        rows = scores[scores.metric.isin({metric for metric, *_ in judged})]
        names = zip(*(rows[name].fillna("").astype(str) for name in _NAMES), strict=True)
        return rows[[name in judged for name in names]].reset_index(drop=True)

    @property
    def all_verdicts(self) -> pd.DataFrame:
        """Whatever was judged: the rows of ``scores`` that have a verdict, of every metric, component and encoder."""
        scores = self.scores
        return scores[scores.verdict.fillna("") != ""].reset_index(drop=True)

    @property
    def figures(self) -> Figures:
        """The figures of the report, as matplotlib's: ``run.figures.leaning()``; ``dir(run.figures)`` names all."""
        return Figures(self)

    def to_latex(self, metric: str) -> str:
        """Write the numbers of a metric, such as ``"mcas"``, as a LaTeX table with the rules of booktabs.

        Raises
        ------
        InvalidInputError, RunError
            The run has no such metric; it is not scored.
        """
        return metric_latex(self.scores, metric)


def open_run(path: str | os.PathLike[str]) -> Run:
    """Open a run directory (a path, or any URL that fsspec knows)."""
    return Run(path)


def score_run(
    path: str | os.PathLike[str],
    *,
    encoder: str | Encoder | Sequence[str | Encoder] = (),
    drop_encoder: str | Sequence[str] = (),
    suite_options: Sequence[str] = (),
    resamples: int | None = None,
    verdict_reader: str | None = None,
    reference: str | os.PathLike[str] | None = None,
    device: str = "auto",
    engine: str | Engine = "local",
    workers: int | None = None,
    progress: Progress | None = None,
) -> pd.DataFrame:
    """Score a run anew without drawing anything.

    Parameters
    ----------
    encoder : encoders that are added to the run first.
    drop_encoder : names of encoders that are taken out of it then. Their vectors stay, so naming one as ``encoder``
        again brings it back at once; ``run.json`` keeps its card under ``dropped_encoders``.
    suite_options : settings of the suite that scoring alone reads, such as ``["margin=0.2"]``. They hold from now on;
        ``run.json`` keeps the old values beside them, and the report shows both.
    resamples : from how many resamples intervals and tests are computed from now on; by default as before.
    verdict_reader : the reader by whose answers concepts are judged from now on; empty for the best-calibrated one.
    reference : a declared standard that shares are held against from now on, as of :func:`audit`.
    engine, workers : who embeds and measures, as of :func:`audit`.

    Raises
    ------
    RunError, ModelError, SuiteError, EngineError
        A file is missing or is not what was written; an encoder that cannot be used; an unknown setting; no encoder
        of a name that is to be dropped, or no other than those.
    """
    progress = listening(progress)
    run = Run(path)
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


def trace_run(
    run: str | os.PathLike[str],
    *,
    model: str | Generator | None = None,
    encoder: str | Encoder | Sequence[str | Encoder] = (),
    model_options: Mapping[str, Any] | None = None,
    steps: str | int | Sequence[int] | None = None,
    decoder: str | None = None,
    latents: bool = False,
    device: str = "auto",
    progress: Progress | None = None,
) -> pd.DataFrame:
    """Draw a run's images again, keep what the model took them for on the way, and score the run anew.

    Parameters
    ----------
    model : what drew them, at the settings of the run's card; by default the model of that name.
    encoder : who looks at it, of the encoders that have embedded the run; all of them by default.
    model_options : what the model was loaded with beside the settings of its card, such as ``{"lora": …}``.
    steps : so many steps, evenly spread up to the last; or some by number; or ``"all"``. Six by default.
    decoder : a tiny decoder (diffusers' AutoencoderTiny) in place of the model's own.
    latents : whether the latents of these steps are stored, too.

    Returns
    -------
    The rows of metric ``trace``.

    Raises
    ------
    RunError, ModelError, SuiteError
        The run is not drawn to the end, or another model drew it; its study follows no way; a model that shows no
        steps; a step beyond the schedule.
    """
    opened = Run(run)
    trace_again(
        opened, listening(progress), model=model, encoder=encoder, model_options=model_options, steps=steps,
        decoder=decoder, latents=latents, device=device,
    )  # fmt: skip
    scores = opened.scores
    return scores[scores.metric == TRACE].reset_index(drop=True)


def read_run(
    run: str | os.PathLike[str],
    *,
    reader: str | Reader | Sequence[str | Reader] = "reference",
    question: str | Path | Sequence[str | Path] = (),
    truth: str | os.PathLike[str] | None = None,
    encoder: str | Encoder | None = None,
    threshold: float = 0.9,
    budget: float | None = None,
    check_drift: int = 0,
    retry_failed: bool = False,
    device: str = "auto",
    engine: str | Engine = "local",
    workers: int | None = None,
    progress: Progress | None = None,
    **options: Any,
) -> dict[str, pd.DataFrame]:
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
    retry_failed : ask once more for answers that failed so often that they are asked for no longer.
    engine, workers : who reads, as of :func:`audit`.
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
    progress, opened_run = listening(progress), Run(run)
    opened_run.require_images("a reader")
    asked = questions_of(opened_run.suite, reader, question)
    if truth is not None and len(asked) != 1:
        raise InvalidInputError.too_many(
            f"found {len(asked)} questions, expected the one that the labels answer; name it as the question",
            field="truth",
        )
    _require_one_process(check_drift, engine, workers)
    models = Models()
    with opened_run.directory.locked():
        opened_run.ledger.forget_missing()
        require_drawn(opened_run, f"clinometer read {opened_run.url} --reader NAME")
        readers, recipes = models.readers(reader, device, asked, options)
        for each in readers:
            opened_run.readers.require(each.card)
        if retry_failed:
            ask_failed_again(opened_run, readers, progress)
        to_come = [
            (each, answers_to_come(opened_run, each, asked) + answers_again(opened_run, each, asked, check_drift))
            for each in readers
        ]
        require_budget(opened_run, None, budget, answers=to_come)
        with Workers(engine, workers).opened(device, weights_of(readers)) as engine_at_work:
            executor = Executor(once_more=True) if check_drift else executor_of(engine_at_work, None, {}, recipes)
            read_all(opened_run, readers, asked, progress, executor, again=check_drift)
            loaded = load_encoder(encoder) if isinstance(encoder, str) else encoder
            if truth is not None:
                read_known(opened_run, readers, asked[0], truth, progress, budget=budget, encoder=loaded)
            if loaded is not None:
                keep_clusters(opened_run, readers, asked, loaded, threshold)
            if opened_run.is_scored:
                score(opened_run, progress, pool=executor.pool(progress))
                refresh_report(opened_run)
    return {each.card.name: opened_run.readings(each.card.name) for each in readers}


def _require_one_process(check_drift: int, engine: str | Engine, workers: int | None) -> None:
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
    run: str | os.PathLike[str],
    *,
    reader: str,
    question: str,
    encoder: str | Encoder | None = None,
    threshold: float = 0.9,
) -> OpenAnswers:
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
    opened_run = Run(run)
    table = opened_run.readings(reader)
    asked = {name: spec for name, spec in opened_run.readers.questions(reader).items() if spec.kind == "open"}
    if question not in asked:
        raise InvalidInputError.unknown_name(
            f"found {question!r}, expected an open question that {reader} was asked: {', '.join(asked) or 'none'}; "
            f"give: clinometer read {opened_run.url} --reader {reader} --question FILE",
            field="question",
        )
    rows = table[(table.question == question) & (table.role == "target")].reset_index(drop=True)
    if encoder is None:
        clusters = opened_run.answers.clusters(opened_run.readers.cards[reader]).get(question)
    else:
        loaded = load_encoder(encoder) if isinstance(encoder, str) else encoder
        clusters = clusters_of(rows["answer"], loaded, threshold)
    return distribute(rows, asked[question], clusters)[0]


def verify_run(
    run: str | os.PathLike[str] | store.Run,
    *,
    recompute: bool = False,
    evidence: str | os.PathLike[str] | None = None,
    baseline: str | os.PathLike[str] | store.Run | None = None,
    model: str | os.PathLike[str] | None = None,
    progress: Progress | None = None,
) -> int:
    """Read every file of a run, images too, and return how many there are.

    Parameters
    ----------
    evidence : a record or a statement that :func:`export` wrote, or the BOM of :func:`model_card`; the run must be the
        one that it names, by hashes, and what it says must be what follows from the run.
    baseline : the run that the record's findings are differences from, where they are.
    model : the folder of the model's files, which must be those of the run's model and of the statement's subject.
    recompute : whether its numbers are computed anew then, from the vectors on disk, and held against those stored.

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
    opened, progress = open_if_place(run), listening(progress)
    verified = verify(opened, progress)
    if evidence is not None:
        against = None if baseline is None else open_if_place(baseline)
        if remark := require_unchanged(opened, evidence, against, model):
            progress.note(f"{os.fspath(evidence)}: {remark}")
    if recompute:
        require_same_scores(opened, progress)
    return verified


def review_registration(
    run: str | os.PathLike[str] | store.Run,
    registration: str | os.PathLike[str],
    *,
    policy: str | os.PathLike[str] | Mapping[str, Any] | Policy | None = None,
    evidence: str | os.PathLike[str] | None = None,
) -> Review:
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
    if policy is None and evidence is not None:
        policy = policy_of(evidence)
    return review(open_if_place(run), registration, None if policy is None else policy_digest(policy))


def open_if_place(run: str | os.PathLike[str] | store.Run) -> store.Run:
    """Return a run that is given by its place, or open already."""
    return run if isinstance(run, store.Run) else Run(run)
