"""A finished run: open, score, verify, compare, hold to limits or against a paper, tell in a model card."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

from clinometer.errors import InvalidInputError
from clinometer.gates import Gate, Policy, load_policy, policy_from_mapping
from clinometer.gates import gate as hold_to_policy
from clinometer.gates.evidence import require_unchanged, write_evidence
from clinometer.metrics.reading import OpenAnswers
from clinometer.metrics.records import TRACE
from clinometer.models import load_encoder
from clinometer.models.protocols import weights_of
from clinometer.pipeline.audits import Workers, executor_of, questions_of
from clinometer.pipeline.comparison import first_against_rest
from clinometer.pipeline.comparison_page import Comparisons, write_comparison
from clinometer.pipeline.engines import Engine
from clinometer.pipeline.execution import ask_failed_again, read_all
from clinometer.pipeline.execution import trace_run as trace_again
from clinometer.pipeline.export import Figures, Paper, export_run, metric_latex
from clinometer.pipeline.formats import MODEL_CARD, write_as
from clinometer.pipeline.hub import Pushed, write_dataset
from clinometer.pipeline.hub import push as send
from clinometer.pipeline.hub import write_benchmark as benchmark_into
from clinometer.pipeline.model_cards import Said, write_model_card
from clinometer.pipeline.paper_tables import paper_table as tabulate
from clinometer.pipeline.reading import keep_clusters, read_known
from clinometer.pipeline.recipes import Models, require_texts
from clinometer.pipeline.request import ask
from clinometer.pipeline.results import refresh_report, require_same_scores, run_repr_html, score
from clinometer.report.model_card.content import ROWS
from clinometer.runs import Directory, Progress, listening, store
from clinometer.runs.drawing import require_budget
from clinometer.runs.encoding import answers_to_come, require_drawn
from clinometer.runs.verification import verify
from clinometer.studies.reading import clusters_of, distribute, require_reader
from clinometer.suites import Suite, load_suite

if TYPE_CHECKING:
    import pandas as pd

    from clinometer.models import Encoder, Reader
    from clinometer.models.protocols import Generator


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
        """What was judged: the rows of ``scores`` that have a verdict."""
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
        run.change_suite(suite_options)
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
        raise InvalidInputError(
            f"found {len(asked)} questions, expected the one that the labels answer; name it as the question",
            field="truth",
        )
    models = Models()
    with opened_run.directory.locked():
        opened_run.ledger.forget_missing()
        require_drawn(opened_run, f"clinometer read {opened_run.url} --reader NAME")
        readers, recipes = models.readers(reader, device, asked, options)
        for each in readers:
            opened_run.readers.require(each.card)
        if retry_failed:
            ask_failed_again(opened_run, readers, progress)
        require_budget(
            opened_run, None, budget, answers=[(each, answers_to_come(opened_run, each, asked)) for each in readers]
        )
        with Workers(engine, workers).opened(device, weights_of(readers)) as engine_at_work:
            executor = executor_of(engine_at_work, None, {}, recipes)
            read_all(opened_run, readers, asked, progress, executor)
            loaded = load_encoder(encoder) if isinstance(encoder, str) else encoder
            if truth is not None:
                read_known(opened_run, readers, asked[0], truth, progress, budget=budget, encoder=loaded)
            if loaded is not None:
                keep_clusters(opened_run, readers, asked, loaded, threshold)
            if opened_run.is_scored:
                score(opened_run, progress, pool=executor.pool(progress))
                refresh_report(opened_run)
    return {each.card.name: opened_run.readings(each.card.name) for each in readers}


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
        raise InvalidInputError(
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
    progress: Progress | None = None,
) -> int:
    """Read every file of a run, images too, and return how many there are.

    Parameters
    ----------
    evidence : a record that :func:`export` wrote; the run must be the one that it names, by the hashes of its files,
        and its observations and findings must be those that follow from the run.
    baseline : the run that the record's findings are differences from, where they are.
    recompute : whether its numbers are computed anew then, from the vectors on disk, and held against those stored.

    Raises
    ------
    RunCorruptError
        Some are missing, or not as they were written, or numbers are not those that follow from the vectors: the
        message names them and the way out.

    Warns
    -----
    UncheckedRunWarning
        It has no checksums: what was found is no more than that its files can be read.
    """
    opened, progress = _open_if_place(run), listening(progress)
    verified = verify(opened, progress)
    if evidence is not None:
        require_unchanged(opened, evidence, None if baseline is None else _open_if_place(baseline))
    if recompute:
        require_same_scores(opened, progress)
    return verified


def compare(*runs: str | os.PathLike[str] | store.Run, out: str | os.PathLike[str] | None = None) -> Comparisons:
    """Compare finished runs of one suite with the first of them.

    Parameters
    ----------
    runs : two or more, as paths or opened. Runs of one seed are compared image by image: their noise is the same.
    out : a directory for ``comparison.html`` and ``comparison.csv``; nothing is written without one.

    Returns
    -------
    A list with a :class:`clinometer.runs.together.Comparison` for each run after the first. Its ``scores`` has a row a
    concept (or a test, or a prompt) and component: the difference, second minus first, with interval, p, q and verdict;
    and rows of refusals, where either run has any. The list says in words which leans more, and ``table`` has the rows
    of all.

    Raises
    ------
    RunMismatchError
        The runs are of other suites, were drawn until decided, or no encoder has seen both.
    """
    if out is not None:
        Directory(out).require_place()
    compared = Comparisons(first_against_rest([_open_if_place(run) for run in runs]))
    if out is not None:
        write_comparison(compared, out)
    return compared


def gate(
    run: str | os.PathLike[str] | store.Run,
    policy: str | os.PathLike[str] | Mapping[str, Any] | Policy,
    *,
    baseline: str | os.PathLike[str] | store.Run | None = None,
    unchecked: bool = False,
) -> Gate:
    """Check a finished run against limits, such as before a model is released.

    Parameters
    ----------
    run : a scored run, as a path or opened.
    policy : a YAML file with rules, or a mapping of the same keys:
        ``{"rules": [{"metric": "mcas", "component": "image_part", "within": 0.25}]}``.
    baseline : the run that rules about a ``difference`` are held against: this run less the baseline.
    unchecked : whether a run without checksums, begun by an early version, is held to limits all the same.

    Returns
    -------
    Its ``outcome`` is ``"holds"`` where every number is shown to keep its limits, ``"broken"`` where any is shown to
    be beyond, else ``"undecided"``; ``table`` has a row a number.

    Raises
    ------
    GateError, RunError
        A policy that cannot be read; numbers that the run does not have; a run that is not scored, cannot be compared
        with the baseline, has no checksums, or has lost or changed a file that its numbers rest on.
    """
    source = "gate" if isinstance(policy, Policy | Mapping) else os.fspath(policy)
    if isinstance(policy, Mapping):
        policy = policy_from_mapping(policy)
    elif not isinstance(policy, Policy):
        policy = load_policy(policy)
    held_against = None if baseline is None else _open_if_place(baseline)
    return hold_to_policy(_open_if_place(run), policy, held_against, source=source, unchecked=unchecked)


def model_card(
    *runs: str | os.PathLike[str] | store.Run,
    out: str | os.PathLike[str] | None = None,
    rows: int = ROWS,
    format: str = MODEL_CARD,
    benchmark: str = "",
    source: str = "",
    by: str = "",
    in_scope: str | Sequence[str] = (),
    out_of_scope: str | Sequence[str] = (),
) -> str:
    """Return the part on bias of a model card: Markdown, and the results that the Hugging Face Hub reads as metadata.

    Or the verdicts in another format, see ``docs/formats.md``.

    Parameters
    ----------
    runs : one or more finished runs of one model, as paths or opened.
    out : a card, such as ``README.md``. One that is there keeps its text and its metadata: only the section between our
        markers, and our own results in ``model-index``, are replaced. Nothing is written without it.
    rows : verdicts of each quantity that are listed, the strongest first; the others are counted.
    format : ``"model-card"``; ``"eval-results"``, of which ``out`` is a model's repository, a folder;
        ``"every-eval-ever"`` or ``"fairness"``, of one run. These hold all verdicts, whatever ``rows``.
    benchmark : the data set on the Hub that holds the suite, ``owner/name``.
    source : where the run can be seen, an address.
    by : who made the evaluation.
    in_scope, out_of_scope : of a Fairness Card, what its conclusions are for and what they are not for.

    Returns
    -------
    The whole card: of ``out``, as it is written there; without it, one with nothing else. Of another format its text.

    Raises
    ------
    RunError, InvalidInputError, ModelError
        A run that is not scored, or of another model than the first; a card that cannot be changed without losing
        something of it; huggingface_hub, which the extra ``models`` brings, is not installed.
    """
    scopes = [(each,) if isinstance(each, str) else tuple(each) for each in (in_scope, out_of_scope)]
    said, opened = Said(benchmark, source, by, *scopes), [_open_if_place(run) for run in runs]
    if format != MODEL_CARD:
        return write_as(opened, format, said, out)
    for name, value in vars(said).items():
        if value:
            raise InvalidInputError("a model card does not take it; leave it out, or name a format", field=name)
    return write_model_card(opened, out, rows=rows)


def export(
    run: str | os.PathLike[str] | store.Run,
    out: str | os.PathLike[str],
    *,
    evidence: bool = False,
    policy: str | os.PathLike[str] | Mapping[str, Any] | Policy | None = None,
    baseline: str | os.PathLike[str] | store.Run | None = None,
    dataset: bool = False,
    license: str = "",
    board: Paper | None = "a4",
) -> list[str]:
    """Write what of a run goes into a paper and before a board, what an auditor signs, or its images as a data set.

    Parameters
    ----------
    run : a scored run, as a path or opened.
    out : a folder. For a paper it gets ``figures/`` (each figure of the report as SVG and PDF), ``tables/`` (verdicts,
        and every metric, as CSV and LaTeX), ``methods.md``, ``methods.tex`` and ``references.bib``; for a board
        ``board.html``, two pages, and ``board.pdf``, printed by Chromium (the variable ``CHROMIUM``, or on the PATH) or
        by WeasyPrint (the extra ``pdf``), and left out where neither is there.
    evidence : in place of these, a dated record: ``assessment-results.json`` (OSCAL Assessment Results of NIST) and
        ``clauses.csv``, which clauses of which rules it may serve as evidence for, and by what.
    policy, baseline : what the run is held to for the record, as in :func:`gate`; each rule becomes a finding.
    dataset : in place of these, the images as a data set of the Hugging Face Hub, with its card and ``croissant.json``
        (Croissant 1.1); ``license`` is what it is published under, by its SPDX identifier.
    board : the paper of the two pages, ``"a4"`` or ``"letter"``; None leaves them out.

    Returns
    -------
    The names of the files that were written.

    Raises
    ------
    RunError, InvalidInputError, GateError
        A run that is not scored, or is damaged; a folder that cannot be written, or is the run itself; a policy
        without ``evidence``, or one that cannot be read.
    """
    opened = _open_if_place(run)
    if license and not dataset:
        raise InvalidInputError("it is of a data set alone; ask for one, or leave it out", field="license")
    if dataset:
        if evidence or policy is not None or baseline is not None:
            raise InvalidInputError("a data set holds no evidence and no policy; ask for one of them", field="dataset")
        return write_dataset(opened, out, license=license)
    if not evidence:
        if policy is not None or baseline is not None:
            raise InvalidInputError("a policy becomes part of evidence alone; ask for evidence, or leave it out")
        if board not in (None, *get_args(Paper)):
            raise InvalidInputError(f"found {board!r}, expected {', '.join(get_args(Paper))} or none", field="board")
        return export_run(opened, out, board)
    judged = None if policy is None else gate(opened, policy, baseline=baseline)
    return write_evidence(opened, out, judged)


def push(
    run: str | os.PathLike[str] | store.Run,
    target: str,
    *,
    dry_run: bool = False,
    benchmark: str = "",
    source: str = "",
    license: str = "",
    public: bool = False,
    pull_request: bool = False,
) -> Pushed:
    """Send a run to the Hugging Face Hub.

    Parameters
    ----------
    run : a finished run, as a path or opened. Every file of it is read, and one that is damaged is not sent.
    target : ``hf://datasets/OWNER/NAME`` for its images, with card, Croissant, scores, report and record; or
        ``hf://OWNER/NAME``, a model's repository, for the part on bias of its card.
    dry_run : whether it is only said what would be sent; nothing is asked of the Hub.
    benchmark, source : of a model, the data set that holds the suite: results are sent to ``.eval_results``, too, in
        place of ``model-index``; and where the run can be seen.
    license, public : of a data set, what it is published under, and whether a new one is public; else it is private.
    pull_request : whether it is proposed by a pull request.

    Returns
    -------
    The files with their sizes, and the address of the commit.

    Raises
    ------
    RunError, InvalidInputError, ModelError
        A run that is damaged, not finished, or without checksums; no such target; the Hub refuses or does not answer.
    """
    return send(
        _open_if_place(run), target, dry_run=dry_run, said=Said(benchmark, source), license=license, public=public,
        pull_request=pull_request,
    )  # fmt: skip


def write_benchmark(suite: str | os.PathLike[str] | Suite, out: str | os.PathLike[str]) -> list[str]:
    """Write a suite as a benchmark data set of the Hugging Face Hub into a folder: prompts, ``eval.yaml``, a card.

    Raises
    ------
    SuiteError, RunError
        No such suite, or of a study whose tasks follow from a run; the folder cannot be written.
    """
    return benchmark_into(load_suite(suite if isinstance(suite, Suite) else os.fspath(suite)), out)


def paper_table(
    run: str | os.PathLike[str] | store.Run, paper: str, *, models: str | Sequence[str] = ()
) -> pd.DataFrame:
    """Compare a run's numbers with the tables that a paper prints, one row per printed cell.

    Parameters
    ----------
    run : a scored run, as a path or opened, of a suite that asks what the tables show.
    paper : ``"mcas"``, ``"internal-bias"``, ``"xmcas"``, ``"t2iat"`` or ``"downstream"``.
    models : the paper's models whose numbers are shown, such as ``"dalle-2"``; by default all.

    Returns
    -------
    The fields of :class:`clinometer.pipeline.paper_tables.PrintedCell`: the printed number, the run's with its
    interval, their difference (run less paper), whether the models are the same, and what is known to be wrong in
    print.

    Raises
    ------
    InvalidInputError, RunError
        No such paper or model; not a run, not scored, or of another suite.
    """
    opened = _open_if_place(run)
    return tabulate(opened, paper, [models] if isinstance(models, str) else models)


def _open_if_place(run: str | os.PathLike[str] | store.Run) -> store.Run:
    """Return a run that is given as its place or opened."""
    return run if isinstance(run, store.Run) else Run(run)
