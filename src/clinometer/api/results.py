"""Functions of finished runs: compare, gate, model_card, export, push, paper_table."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, get_args

from clinometer.api.runs import open_if_place, review_registration
from clinometer.errors import GateError, InvalidInputError
from clinometer.exports.board import Paper
from clinometer.exports.evidence import write_evidence
from clinometer.exports.hub import Pushed, write_dataset
from clinometer.exports.hub import push as send
from clinometer.exports.hub import write_benchmark as benchmark_into
from clinometer.exports.model_cards import CardDetails, write_model_card
from clinometer.exports.paper import export_run
from clinometer.exports.paper_tables import paper_table as tabulate
from clinometer.exports.registry import MODEL_CARD, write_as
from clinometer.gates import Gate, Policy, load_policy, policy_from_mapping, policy_of_verdicts
from clinometer.gates import gate as hold_to_policy
from clinometer.gates.history import LAST
from clinometer.gates.registration import copy_registration
from clinometer.pipeline.comparison import first_against_rest
from clinometer.pipeline.comparison_page import Comparisons, write_comparison
from clinometer.report.model_card.content import ROWS
from clinometer.runs import Directory, store
from clinometer.suites import Suite, load_suite

if TYPE_CHECKING:
    import pandas as pd


def compare(*runs: str | os.PathLike[str] | store.Run, out: str | os.PathLike[str] | None = None) -> Comparisons:
    """Compare finished runs of one suite with the first of them.

    Parameters
    ----------
    runs : two or more, as paths or opened. Runs of one seed are compared image by image: their noise is the same.
    out : a directory for ``comparison.html`` and ``comparison.csv``; nothing is written without one.

    Returns
    -------
    A list with a :class:`clinometer.runs.comparison.Comparison` for each run after the first. Its ``scores`` has a
    row for each concept (or test, or prompt) and component: the difference, second minus first, with interval, p, q and
    verdict; and rows of refusals, where either run has any. The list says in words which leans more, and ``table`` has
    the rows of all.

    Raises
    ------
    RunMismatchError
        The runs are of other suites, were drawn until decided, or no encoder has seen both.
    """
    if out is not None:
        Directory(out).require_place()
    compared = Comparisons(first_against_rest([open_if_place(run) for run in runs]))
    if out is not None:
        write_comparison(compared, out)
    return compared


def gate(
    run: str | os.PathLike[str] | store.Run,
    policy: str | os.PathLike[str] | Mapping[str, Any] | Policy | None = None,
    *,
    baseline: str | os.PathLike[str] | store.Run | None = None,
    history: str | os.PathLike[str] | None = None,
    last: int = LAST,
    unchecked: bool = False,
) -> Gate:
    """Check a finished run against limits, such as before a model is released.

    Parameters
    ----------
    run : a scored run, as a path or opened.
    policy : a YAML file with rules, or a mapping of the same keys:
        ``{"rules": [{"metric": "mcas", "component": "image_part", "within": 0.25}]}``. None, with a ``history``: no
        number that the first verdicts rest on has changed.
    baseline : the run that rules about a ``difference`` are held against: this run less the baseline.
    history : the folder of earlier runs, of accepted checkpoints, that rules ``against: history`` are held against.
    last : how many of these; those that are not comparable are left out, and named in ``history.left_out``.
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
    source = "gate" if policy is None or isinstance(policy, Policy | Mapping) else os.fspath(policy)
    opened = open_if_place(run)
    policy = policy_of_verdicts(opened) if policy is None else _policy_of(policy)
    held_against = None if baseline is None else open_if_place(baseline)
    folder = None if history is None else os.fspath(history)
    return hold_to_policy(opened, policy, held_against, history=folder, last=last, source=source, unchecked=unchecked)


def _policy_of(policy: str | os.PathLike[str] | Mapping[str, Any] | Policy) -> Policy:
    if isinstance(policy, Policy):
        return policy
    return policy_from_mapping(policy) if isinstance(policy, Mapping) else load_policy(policy)


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
        ``"every-eval-ever"``, ``"fairness"`` or ``"cyclonedx"``, of one run. These hold all verdicts, whatever
        ``rows``.
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
    said, opened = CardDetails(benchmark, source, by, *scopes), [open_if_place(run) for run in runs]
    if format != MODEL_CARD:
        return write_as(opened, format, said, out)
    for name, value in vars(said).items():
        if value:
            raise InvalidInputError.unsupported(
                "a model card does not take it; leave it out, or name a format", field=name
            )
    return write_model_card(opened, out, rows=rows)


def export(
    run: str | os.PathLike[str] | store.Run,
    out: str | os.PathLike[str],
    *,
    evidence: bool = False,
    policy: str | os.PathLike[str] | Mapping[str, Any] | Policy | None = None,
    baseline: str | os.PathLike[str] | store.Run | None = None,
    model: str | os.PathLike[str] | None = None,
    registration: str | os.PathLike[str] | None = None,
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
    policy, baseline : what the run is held to for the record, as in :func:`gate`; each rule becomes a finding, and
        ``statement.json``, an in-toto Test Result, says what became of all.
    model : the folder of the model's files. The statement is then about them, by the digest that OpenSSF model-signing
        signs; otherwise it is about the run.
    registration : the registration that the run was drawn under: it and its journal are copied beside the record, and
        ``registration.txt`` says what was changed, how often it was tried and what was left out.
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
    opened = open_if_place(run)
    if license and not dataset:
        raise InvalidInputError.conflict("it is of a data set alone; ask for one, or leave it out", field="license")
    if dataset:
        if evidence or (policy, baseline, model, registration) != (None, None, None, None):
            raise InvalidInputError.conflict(
                "a data set holds no evidence and no policy; ask for one of them", field="dataset"
            )
        return write_dataset(opened, out, license=license)
    if not evidence:
        if (policy, baseline, model, registration) != (None, None, None, None):
            raise InvalidInputError.conflict(
                "a policy, a model and a registration are part of evidence alone; ask for evidence, or leave it out"
            )
        if board not in (None, *get_args(Paper)):
            raise InvalidInputError.expected_one_of(get_args(Paper), board, field="board")
        return export_run(opened, out, board)
    if policy is not None and _policy_of(policy).needs_history:
        raise GateError.unsupported(
            "a rule is against the history, and whoever verifies a record has the run alone; leave it out here",
            field="policy",
        )
    judged = None if policy is None else gate(opened, policy, baseline=baseline)
    if registration is None:
        return write_evidence(opened, out, judged, model)
    reviewed = review_registration(opened, registration, policy=policy)
    return write_evidence(opened, out, judged, model) + copy_registration(Directory(out), registration, reviewed)


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
        open_if_place(run), target, dry_run=dry_run, said=CardDetails(benchmark, source), license=license,
        public=public, pull_request=pull_request,
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
    The fields of :class:`clinometer.studies.printed.PrintedCell`: the printed number, the run's with its
    interval, their difference (run less paper), whether the models are the same, and what is known to be wrong in
    print.

    Raises
    ------
    InvalidInputError, RunError
        No such paper or model; not a run, not scored, or of another suite.
    """
    opened = open_if_place(run)
    return tabulate(opened, paper, [models] if isinstance(models, str) else models)
