"""Functions of finished runs: compare, gate, model_card, export, push, paper_table.

What a function needs is imported when it is called: the command line reads the signatures, and starts at once.
"""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, Literal, get_args

from clinometer.api.runs import MODEL_FOLDER, REGISTRATION, AskedPolicy, open_if_place, review_registration
from clinometer.errors import GateError, InvalidInputError
from clinometer.pipeline.request import (
    RUN,
    Argument,
    AskedRun,
    AskedSuite,
    Option,
    Place,
    documented,
)

if TYPE_CHECKING:
    import pandas as pd

    from clinometer.exports.hub import Pushed
    from clinometer.gates import Gate
    from clinometer.pipeline.comparison_page import Comparisons

LICENSE: Final = Option("For a data set: its licence, as an SPDX identifier.")


@documented
def compare(
    *runs: Annotated[AskedRun, Argument("Two or more runs of one suite.", metavar="RUN RUN…", many=True)],
    out: Annotated[
        Place | None, Option("Directory to write comparison.html and comparison.csv to.", short="-o")
    ] = None,
) -> "Comparisons":
    """Compare finished runs of one suite with the first of them.

    Parameters
    ----------
    runs : two or more, as paths or opened. Runs of one seed are compared image by image: their noise is the same.
    out : a directory for ``comparison.html`` and ``comparison.csv``; nothing is written without one.

    Returns
    -------
    A list with a :class:`clinometer.runs.several.Comparison` for each run after the first. Its ``scores`` has a
    row for each concept (or test, or prompt) and component: the difference, second minus first, with interval, p, q and
    verdict; and rows of refusals, where either run has any. The list says in words which leans more, and ``table`` has
    the rows of all.

    Raises
    ------
    RunMismatchError
        The runs are of other suites, were drawn until decided, or no encoder has seen both.
    """
    from clinometer.pipeline.comparison import first_against_rest
    from clinometer.pipeline.comparison_page import Comparisons, write_comparison
    from clinometer.runs import Directory

    if out is not None:
        Directory(out).require_place()
    compared = Comparisons(first_against_rest([open_if_place(run) for run in runs]))
    if out is not None:
        write_comparison(compared, out)
    return compared


@documented
def gate(
    run: Annotated[AskedRun, RUN],
    policy: Annotated[
        AskedPolicy | None, Option("A YAML file with rules; see docs/gates.md.", short="-p", kind=Path)
    ] = None,
    *,
    baseline: Annotated[
        AskedRun | None, Option("The run that differences are measured from, such as the last release.")
    ] = None,
    history: Annotated[
        Place | None,
        Option(
            "A folder of earlier runs that were accepted. Rules against the history, and --metric, then limit the "
            "change from these. Without rules: check whether the main numbers have changed."
        ),
    ] = None,
    last: Annotated[int, Option("How many of these runs to use, the latest first.", default="40")] = 40,
    unchecked: Annotated[bool, Option("Check a run even if it has no checksums.")] = False,
) -> "Gate":
    """Check a finished run against limits, such as before a model is released.

    Parameters
    ----------
    policy : a YAML file with rules, or a mapping of the same keys:
        ``{"rules": [{"metric": "mcas", "component": "image_part", "within": 0.25}]}``. None, with a ``history``: no
        number that the first verdicts rest on has changed.
    history : the folder of earlier runs, of accepted checkpoints, that rules ``against: history`` are compared with.
    last : how many of these; those that are not comparable are left out, and named in ``history.left_out``.

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
    from clinometer.gates import Policy, load_policy, policy_of_verdicts
    from clinometer.gates import gate as hold_to_policy

    source = "gate" if policy is None or isinstance(policy, Policy | Mapping) else os.fspath(policy)
    opened = open_if_place(run)
    policy = policy_of_verdicts(opened) if policy is None else load_policy(policy)
    held_against = None if baseline is None else open_if_place(baseline)
    folder = None if history is None else os.fspath(history)
    return hold_to_policy(opened, policy, held_against, history=folder, last=last, source=source, unchecked=unchecked)


@documented
def model_card(
    *runs: Annotated[AskedRun, Argument("Finished runs of one model, of any suites.", metavar="RUN…", many=True)],
    out: Annotated[
        Place | None,
        Option(
            "File to write the card to, such as README.md. An existing card keeps its text and metadata; only what "
            "this command wrote before is replaced. For eval-results: the folder of a model repository.",
            short="-o",
            default="print it",
        ),
    ] = None,
    rows: Annotated[
        int,
        Option(
            "How many verdicts to list for each run, the largest leanings first; the rest are only counted.", least=1
        ),
    ] = 20,
    format: Annotated[
        str,
        Option(
            "model-card (Markdown with model-index), eval-results (.eval_results/*.yaml of the Hub), every-eval-ever "
            "(its aggregate, JSON), fairness (a Fairness Card, YAML), cyclonedx (an ML-BOM, JSON), or the name of a "
            "plug-in.",
            short="-f",
        ),
    ] = "model-card",
    benchmark: Annotated[
        str, Option("For eval-results: the benchmark's data set on the Hub.", metavar="OWNER/NAME")
    ] = "",
    source: Annotated[str, Option("For eval-results: a page that shows the run.", metavar="URL")] = "",
    by: Annotated[str, Option("For every-eval-ever and fairness: who carried out the evaluation.")] = "",
    in_scope: Annotated[
        str | Sequence[str], Option("For fairness: a use that the conclusions apply to. Repeatable.", many=True)
    ] = (),
    out_of_scope: Annotated[
        str | Sequence[str], Option("For fairness: a use that the conclusions do not apply to. Repeatable.", many=True)
    ] = (),
) -> str:
    """Return the part on bias of a model card: Markdown, and the results that the Hugging Face Hub reads as metadata.

    Or the verdicts in another format, see ``docs/formats.md``.

    Parameters
    ----------
    out : a card, such as ``README.md``. One that is there keeps its text and its metadata: only the section between our
        markers, and our own results in ``model-index``, are replaced. Nothing is written without it.
    format : ``"model-card"``; ``"eval-results"``, of which ``out`` is a model's repository, a folder;
        ``"every-eval-ever"``, ``"fairness"`` or ``"cyclonedx"``, of one run. These hold all verdicts, whatever
        ``rows``.

    Returns
    -------
    The whole card: of ``out``, as it is written there; without it, one with nothing else. Of another format its text.

    Raises
    ------
    RunError, InvalidInputError, ModelError
        A run that is not scored, or of another model than the first; a card that cannot be changed without losing
        something of it; huggingface_hub, which the extra ``models`` brings, is not installed.
    """
    from clinometer.exports.formats import MODEL_CARD, write_as
    from clinometer.exports.model_cards import CardDetails, write_model_card

    scopes = [(each,) if isinstance(each, str) else tuple(each) for each in (in_scope, out_of_scope)]
    details, opened = CardDetails(benchmark, source, by, *scopes), [open_if_place(run) for run in runs]
    if format != MODEL_CARD:
        return write_as(opened, format, details, out)
    for name, value in vars(details).items():
        if value:
            raise InvalidInputError.unsupported(
                "a model card does not take it; leave it out, or name a format", field=name
            )
    return write_model_card(opened, out, rows=rows)


@documented
def export(
    run: Annotated[AskedRun, RUN],
    out: Annotated[Place, Argument("The folder to write to.", metavar="DIR")],
    *,
    evidence: Annotated[
        bool,
        Option(
            "Instead, write a dated record for an auditor: OSCAL Assessment Results, the clauses that they may be "
            "evidence for and, with a policy, an in-toto statement."
        ),
    ] = False,
    policy: Annotated[
        AskedPolicy | None,
        Option("With --evidence: a YAML file of rules, each of which becomes a finding.", short="-p", kind=Path),
    ] = None,
    baseline: Annotated[AskedRun | None, Option("The run that the policy's differences are measured from.")] = None,
    model: Annotated[Place | None, MODEL_FOLDER] = None,
    registration: Annotated[Place | None, REGISTRATION] = None,
    dataset: Annotated[
        bool,
        Option("Instead, write the images as a data set for the Hub: Parquet, a card, Croissant 1.1."),
    ] = False,
    license: Annotated[str, LICENSE] = "",
    board: Annotated[
        Literal["a4", "letter"] | None,
        Option("Paper size of the summary for a board: a4, letter, or none to leave it out.", metavar="PAPER"),
    ] = "a4",
) -> list[str]:
    """Write what of a run goes into a paper and before a board, what an auditor signs, or its images as a data set.

    Parameters
    ----------
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
    from clinometer.exports.board import Paper
    from clinometer.exports.evidence import write_evidence
    from clinometer.exports.hub import write_dataset
    from clinometer.exports.paper import export_run
    from clinometer.gates import load_policy
    from clinometer.gates.registration import copy_registration
    from clinometer.runs import Directory

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
            raise InvalidInputError.expected_one_of((*get_args(Paper), "none"), board, field="board")
        return export_run(opened, out, board)
    if policy is not None and load_policy(policy).needs_history:
        raise GateError.unsupported(
            "a rule is against the history, and whoever verifies a record has the run alone; leave it out here",
            field="policy",
        )
    judged = None if policy is None else gate(opened, policy, baseline=baseline)
    if registration is None:
        return write_evidence(opened, out, judged, model)
    reviewed = review_registration(opened, registration, policy=policy)
    return write_evidence(opened, out, judged, model) + copy_registration(Directory(out), registration, reviewed)


@documented
def push(
    run: Annotated[AskedRun, RUN],
    target: Annotated[
        str,
        Argument(
            "hf://datasets/OWNER/NAME for the images, with scores, report and Croissant; or hf://OWNER/NAME, a "
            "model's repository, for the bias section of its card.",
            metavar="TARGET",
        ),
    ],
    *,
    dry_run: Annotated[bool, Option("List what would be sent, without contacting the Hub.")] = False,
    benchmark: Annotated[
        str,
        Option(
            "For a model: the data set that contains the suite; results are then also written to .eval_results.",
            metavar="OWNER/NAME",
        ),
    ] = "",
    source: Annotated[str, Option("For a model: a page that shows the run.", metavar="URL")] = "",
    license: Annotated[str, LICENSE] = "",
    public: Annotated[bool, Option("Make a new data set public.", default="private")] = False,
    pull_request: Annotated[bool, Option("Send it as a pull request.")] = False,
) -> "Pushed":
    """Send a run to the Hugging Face Hub.

    Parameters
    ----------
    run : a finished run, as a path or opened. Every file of it is read, and one that is damaged is not sent.

    Returns
    -------
    The files with their sizes, and the address of the commit.

    Raises
    ------
    RunError, InvalidInputError, ModelError
        A run that is damaged, not finished, or without checksums; no such target; the Hub refuses or does not answer.
    """
    from clinometer.exports.hub import push as send
    from clinometer.exports.model_cards import CardDetails

    return send(
        open_if_place(run), target, dry_run=dry_run, details=CardDetails(benchmark, source), license=license,
        public=public, pull_request=pull_request,
    )  # fmt: skip


def write_benchmark(suite: AskedSuite, out: Place) -> list[str]:
    """Write a suite as a benchmark data set of the Hugging Face Hub into a folder: prompts, ``eval.yaml``, a card.

    Raises
    ------
    SuiteError, RunError
        No such suite, or of a study whose tasks follow from a run; the folder cannot be written.
    """
    from clinometer.exports.hub import write_benchmark as benchmark_into
    from clinometer.suites import Suite, load_suite

    return benchmark_into(load_suite(suite if isinstance(suite, Suite) else os.fspath(suite)), out)


@documented
def paper_table(
    run: Annotated[AskedRun, RUN],
    paper: Annotated[
        str,
        Option(
            "Instead, compare the run with the tables that a paper prints: mcas, internal-bias, xmcas, t2iat or "
            "downstream."
        ),
    ],
    *,
    models: Annotated[
        str | Sequence[str],
        Option(
            "Which of the paper's models to show, such as dalle-2. Repeatable.",
            key="paper_model",
            default="all",
            many=True,
        ),
    ] = (),
) -> "pd.DataFrame":
    """Compare a run's numbers with the tables that a paper prints, one row per printed cell.

    Parameters
    ----------
    run : a scored run, as a path or opened, of a suite that asks what the tables show.
    paper : ``"mcas"``, ``"internal-bias"``, ``"xmcas"``, ``"t2iat"`` or ``"downstream"``.

    Returns
    -------
    The fields of :class:`clinometer.studies.study.PrintedCell`: the printed number, the run's with its
    interval, their difference (run less paper), whether the models are the same, and what is known to be wrong in
    print.

    Raises
    ------
    InvalidInputError, RunError
        No such paper or model; not a run, not scored, or of another suite.
    """
    from clinometer.papers.printed import paper_table as tabulate

    opened = open_if_place(run)
    return tabulate(opened, paper, [models] if isinstance(models, str) else models)
