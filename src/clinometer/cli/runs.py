"""Commands on finished images and runs, such as import, score, compare and gate, and what they print."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, cast

import typer
from rich.table import Table

from clinometer import api
from clinometer._messages import printable
from clinometer.cli.options import LogToOption, pop_given, refuse_without, with_options
from clinometer.cli.tables import (
    Console,
    check_place,
    echo,
    plain_text,
    print_json,
    print_place,
    require_other_place,
    text_table,
    write_file,
    write_table,
)
from clinometer.errors import InvalidInputError
from clinometer.pipeline.request import Option

if TYPE_CHECKING:
    import pandas as pd

    from clinometer.exports.board import Paper
    from clinometer.gates import Gate
    from clinometer.runs import Run
    from clinometer.runs.several import Comparison


@with_options(api.score_run)
def score(path: str, *, log_to: LogToOption = None, **options: Any) -> None:
    """Score a run again, adding or dropping encoders if asked to. Draws nothing."""
    from clinometer.cli.console import LiveProgress, print_summary, send_to

    with LiveProgress() as progress:
        api.score_run(path, **options, progress=progress)
    print_summary(scored := api.open_run(path))
    print_json(scored)
    send_to(log_to, scored)


BEGUN_WITH: Final[dict[str, Option]] = {
    "lora": Option("The LoRA that the run was drawn with."),
    "lora_scale": Option("Strength at which that LoRA was merged.", kind=float),
    "lora_partly": Option(
        "Merge that LoRA even if most of its weights have no counterpart in the model, as the run did.", kind=bool
    ),
    "scheduler": Option("The scheduler that the run was drawn with."),
}
"""Options of the model that a run's card does not hold."""


@with_options(api.trace_run, also=BEGUN_WITH)
def trace(run: str, **options: Any) -> None:
    """Find the step from which a run's images lean.

    Draws them again; the run's own images stay as they are.
    """
    from clinometer.cli.console import LiveProgress, print_summary

    model_options = pop_given(options, BEGUN_WITH)
    with LiveProgress() as progress:
        api.trace_run(run, **options, model_options=model_options, progress=progress)
    print_summary(traced := api.open_run(run))
    print_json(traced)


@with_options(api.paper_table, optional=("paper",))
def report(
    run: str,
    *,
    paper: str | None = None,
    models: Sequence[str] = (),
    out: Annotated[
        Path | None,
        Option("With --paper: where to write the table. [default: RUN/paper-NAME.csv]", short="-o"),
    ] = None,
) -> None:
    """Write a run's report again, or compare it with a paper's tables."""
    from clinometer.cli.console import print_report_place
    from clinometer.pipeline.results import write_report

    opened = api.open_run(run)
    if paper is not None:
        print_paper_tables(opened, paper, models, out)
        return
    refuse_without(paper_model=list(models) or None, out=out, needs="paper")
    if opened.unchecked:
        echo(f"{run}: {opened.unchecked}.")
    damages = write_report(opened)
    for damage in damages:
        typer.echo(f"clinometer: {printable(damage)}", err=True)
    print_report_place(opened)
    print_json("files", of="report", place=opened.directory.shown, files=["report.html"], remarks=damages)


PAPER_KEYS = ("category", "concept", "group", "setting")


def print_paper_tables(run: Run, paper: str, models: Sequence[str], out: Path | None) -> None:
    """Print a paper's tables beside the run's numbers, and write them."""
    from clinometer._csv import csv_text
    from clinometer.papers.printed import models_of

    check_place(out)
    cells = api.paper_table(run, paper, models=models)
    console, labels = Console(), models_of(paper)
    for (name, column), column_cells in cells.groupby(["table", "column"], sort=False):
        console.print(column_table(f"{name}: {column}", column_cells, labels))
    lines = list(remarks(run, cells, labels))
    console.print_lines(lines)
    print_json("tables", of="report", tables={f"paper {paper}": cells}, remarks=lines)
    if out is not None:
        write_table(cells, out)
        return
    name = f"paper-{paper}.csv"
    run.ledger.write_bytes(name, csv_text(cells).encode("utf-8", "backslashreplace"))
    print_place("Table", run.directory.path(name))


def column_table(title: str, column_cells: pd.DataFrame, labels: dict[str, str]) -> Table:
    """Return one printed column: a row a printed row, with the number of each of the paper's models."""
    from clinometer.report import wording

    models = list(dict.fromkeys(column_cells.model))
    names = [name for name in PAPER_KEYS if (column_cells[name] != "").any()]
    table = Table(title=plain_text(title), title_justify="left")
    for name in names:
        table.add_column(name, overflow="fold")
    for header in [plain_text(labels[model]) for model in models] + ["this run", "95 %"]:
        table.add_column(header, justify="right", overflow="fold")
    for model in models:
        header = f"less {plain_text(labels[model])}" if len(models) > 1 else "difference"
        table.add_column(header, justify="right", overflow="fold")
    digits = 1 + max(len(text.partition(".")[2]) for text in column_cells.printed)
    for row, row_cells in column_cells.groupby(names, sort=False):
        cells = row_cells.to_dict("records")
        run = [wording.number(cells[0]["run"], digits), wording.interval(cells[0]["low"], cells[0]["high"], digits)]
        printed = [cell["printed"].replace("-", wording.MINUS) for cell in cells]
        differences = [wording.signed(cell["difference"], digits) for cell in cells]
        table.add_row(*(plain_text(str(text)) for text in (*row, *printed, *run, *differences)))
    return table


def remarks(run: Run, cells: pd.DataFrame, labels: dict[str, str]) -> Iterator[str]:
    """Yield whose numbers are compared, under which protocol, and what is known of single cells."""
    from clinometer.report import wording
    from clinometer.runs.record import recorded_departures

    name, models = run.model_card["name"], list(dict.fromkeys(cells.model))
    others = [labels[model] for model in models if not cells[cells.model == model].same_model.any()]
    if others:
        yield f"The run's model is {name}, which is not {' or '.join(others)}: a difference is one of models, too."
    departures = recorded_departures(run.record)
    if departures is None:
        yield "The run was not made under the paper's protocol (--protocol paper); its settings may be others."
    elif departures:
        yield "Departures from the protocol: " + "; ".join(departure.sentence for departure in departures) + "."
    noted = cells.assign(note=cells.note.str.split("; ")).explode("note")
    for note, noted_cells in noted[noted.note != ""].groupby("note", sort=False):
        first = noted_cells.iloc[0]
        cell = ", ".join(filter(None, [first.column, *(first[name] for name in PAPER_KEYS)]))
        more = wording.count(len(noted_cells) - 1, "more cell")
        yield f"{cell}{f' and {more}' if len(noted_cells) > 1 else ''}: {note}."


@with_options(api.verify_run, api.review_registration, optional=("registration",))
def verify(
    run: str, *, evidence: Path | None = None, registration: Path | None = None, recompute: bool = False, **options: Any
) -> None:
    """Check that every file of a run is as it was written. Exits with status 2 if any is not.

    With --registration, also list what was changed since the run was registered, how often it was attempted and what
    was left out; exits with status 1 if anything was changed.
    """
    from clinometer.cli.console import LiveProgress
    from clinometer.runs.verification import unfinished, unlisted

    if evidence is None:
        refuse_without(needs="evidence", **options)
    opened = api.open_run(run)
    if opened.unchecked:
        echo(f"{run}: {opened.unchecked}.")
    with LiveProgress() as progress:
        verified = api.verify_run(opened, recompute=recompute, evidence=evidence, **options, progress=progress)
    unknown = [] if opened.unchecked else unlisted(opened)
    if opened.unchecked:
        echo(f"{verified} files can be read; nothing tells whether they are those that were written.")
    else:
        echo(f"{run}: {verified - len(unknown)} files are as they were written.")
    if unknown:
        echo(f"Not listed in run.json: {', '.join(unknown)}.")
    if evidence is not None:
        echo(f"It is the run of {evidence}, and what that says follows from it.")
    reviewed = None if registration is None else api.review_registration(opened, registration, evidence=evidence)
    if reviewed is not None:
        echo("\n".join(reviewed.lines()))
    if recompute:
        echo("Its numbers follow from its vectors.")
    if left := unfinished(opened):
        echo(f"The run is not finished: {left}.")
    print_json(
        "verification", run=opened, files=verified, checked=not opened.unchecked, unlisted=unknown, unfinished=left,
        recomputed=recompute, evidence=None if evidence is None else str(evidence),
        attempts=[] if reviewed is None else list(reviewed.attempts),
        changes=None if reviewed is None else list(reviewed.changes),
    )  # fmt: skip
    raise typer.Exit(1 if reviewed is not None and reviewed.changes else 0)


@with_options(api.compare)
def compare(runs: list[str], *, out: str | None = None, log_to: LogToOption = None) -> None:
    """Compare runs with the first: which leans more, and by how much."""
    from clinometer.cli.console import send_to

    compared = api.compare(*runs, out=out)
    print_comparisons(compared)
    page = None if out is None else f"{out.rstrip('/')}/comparison.html"
    if page is None:
        echo("Report: none, as no --out was given")
    else:
        print_place("Report", page)
    print_json(compared, report=page)
    send_to(log_to, compared)


def print_comparisons(comparisons: Sequence[Comparison]) -> None:
    """Print, for each, one row per concept (or test, or prompt), one sentence, and what was compared with what."""
    from clinometer.pipeline.comparison_page import (
        comparison_caution,
        comparison_refusals,
        comparison_tables,
        comparison_verdict,
        pairing_in_words,
    )
    from clinometer.report.differences import all_runs, pair_names

    console = Console()
    for run in all_runs(comparisons):
        if run.unchecked:
            console.print(f"{plain_text(run.url)}: {run.unchecked}.", soft_wrap=True)
    for comparison, names in zip(comparisons, pair_names(comparisons), strict=True):
        for table in comparison_tables(comparison, names, short=True):
            left = (table.columns[0], "verdict")
            console.print(text_table(table.title, table.columns, table.rows, left=left))
            console.print(f"[dim]{plain_text(table.note)}[/]")
        console.print(f"[bold]{plain_text(comparison_verdict(comparison, names))}[/]")
        caution = " ".join(filter(None, comparison_caution(comparison, names)))
        if caution:
            console.print(plain_text(caution))
        refusals = comparison_refusals(comparison, names)
        if refusals:
            console.print(plain_text(refusals))
        console.print(plain_text(pairing_in_words(comparison)))


RULE: Final[dict[str, Option]] = {
    "metric": Option("Instead of a policy, check one rule: the metric to limit."),
    "component": Option("Component of the metric.", default="the one with the metric's name"),
    "within": Option("Limits of the metric: ± this value.", kind=float),
    "at_least": Option("Lower limit of the metric.", kind=float),
    "at_most": Option("Upper limit of the metric.", kind=float),
    "four_fifths": Option(
        "Instead of a metric and limits: the least that the smallest share divided by the largest may be.", kind=float
    ),
}
"""Options of a gate without a policy: the keys of its one rule."""


@with_options(api.gate, also=RULE)
def gate(
    run: str,
    *,
    policy: Path | None = None,
    baseline: str | None = None,
    history: str | None = None,
    allow_undecided: Annotated[bool, Option("Exit with status 0 unless a limit is shown to be broken.")] = False,
    out: Annotated[
        Path | None,
        Option(
            "File to write all numbers to: .csv, .parquet, or .json, which includes the rules and runs.",
            short="-o",
        ),
    ] = None,
    explain: Annotated[
        bool,
        Option("Explain for every number why it came out as it did, and what can be done."),
    ] = False,
    junit_file: Annotated[
        Path | None,
        Option(
            "Also write JUnit XML for a pipeline to show, with a suite for each rule and a case for each number.",
            name="--junit",
        ),
    ] = None,
    summary: Annotated[
        Path | None,
        typer.Option(
            envvar="GITHUB_STEP_SUMMARY",
            help="Also append a summary in Markdown to a file. [default: the one that GITHUB_STEP_SUMMARY names, if "
            "any]",
        ),
    ] = None,
    **options: Any,
) -> None:
    """Check a finished run against limits.

    Exits with status 0 if all hold, 1 if one is broken, 3 if one is undecided.
    """
    from clinometer.gates import policy_from_mapping
    from clinometer.gates.outcome import explanations, junit, markdown

    rule = pop_given(options, RULE)
    if policy is not None and rule:
        option = next(iter(rule)).replace("_", "-")
        raise InvalidInputError.conflict(
            f"--{option}: a policy is given, too; put the limit there, or leave --policy out"
        )
    if "last" in options and history is None:
        raise InvalidInputError.missing("--last: there is no --history to take runs from")
    if policy is None and not rule and history is None:
        raise InvalidInputError.missing(
            "gate: no limit is given; give --policy FILE, or --metric mcas --component image_part --within 0.25"
        )
    check_place(out)
    for option, file in (("--out", out), ("--junit", junit_file), ("--summary", summary)):
        if file is not None:
            require_other_place(file, run, baseline, policy, history, option=option)
    if rule and history is not None:
        rule["against"] = "history"
    of_rule = policy_from_mapping({"rules": [rule]}, source="gate") if rule else None
    judged = api.gate(run, policy or of_rule, baseline=baseline, history=history, **options)
    print_gate(judged, explain=explain)
    write_table(judged.table, out, judged.as_mapping())
    write_file(junit_file, "--junit", junit(judged, allow_undecided=allow_undecided))
    write_file(summary, "--summary", markdown(judged).encode("utf-8", "backslashreplace"), mode="ab")
    status = 0 if allow_undecided and judged.outcome != "broken" else STATUS[judged.outcome]
    print_json(judged, exit_code=status, explanations=list(explanations(judged)))
    raise typer.Exit(status)


STATUS: Final = {"holds": 0, "broken": 1, "undecided": 3}
"""Exit status by outcome; 2 is a user's mistake."""

MOST_ROWS: Final = 40
"""Numbers that a terminal shows; all are in the file."""


def print_gate(judged: Gate, *, explain: bool = False) -> None:
    """Print a line a rule, the numbers of broken ones and what follows; or why each number came out so."""
    from clinometer.gates.outcome import columns_of, explanations, gate_in_words, rule_in_words, way_on

    console = Console()
    if judged.unchecked:
        console.print(f"{plain_text(judged.unchecked)}.", soft_wrap=True)
    if judged.policy.title:
        console.print(f"[bold]{plain_text(judged.policy.title)}[/]")
    if judged.history is not None:
        console.print(plain_text(judged.history.in_words()), soft_wrap=True)
    explained = iter(explanations(judged))
    for rule in judged.rules:
        console.print(plain_text(rule_in_words(rule)))
        open_rows = rule.rows[rule.rows.outcome != "holds"]
        if explain:
            for _ in range(len(rule.rows)):
                console.print(plain_text(f"  {next(explained)}"))
        elif len(open_rows):  # those that are broken, the farthest first, then those that are undecided
            columns = columns_of(judged, open_rows.sort_values(["outcome", "p"], kind="stable"))
            cells = list(zip(*(column[:MOST_ROWS] for column in columns.values()), strict=True))
            table = text_table("", list(columns), cells, left=set(columns) - {"value", "95 %"})
            if len(open_rows) > MOST_ROWS:
                table.caption = f"{MOST_ROWS} of {len(open_rows)} are shown; --out FILE has all"
            console.print(table)
    console.print(f"[bold]{gate_in_words(judged)}[/]")
    if explain:
        console.print(plain_text(way_on(judged)))


@with_options(api.import_counts, api.import_images, optional=("folder", "file"))
def import_(folder: Path | None = None, *, file: Path | None = None, **options: Any) -> None:
    """Audit existing images, or counts of them, instead of a model."""
    from clinometer.cli.console import LiveProgress, print_summary

    if file is not None:
        images = [name for name in ("suite", "manifest", "encoder", "workers") if options.get(name) is not None]
        if folder is not None or images:
            found = "a folder" if folder is not None else f"--{images[0]}"
            raise InvalidInputError.conflict(f"--counts: found {found} too; counts have no images, so leave it out")
        taken = {name: options[name] for name in ("out", "name", "report", "reference") if name in options}
        print_summary(counted := api.import_counts(file, **taken))
        print_json(counted)
        return
    if folder is None:
        raise InvalidInputError.missing(
            "import: nothing is given; name the folder of the images, or give --counts FILE"
        )
    if "encoder" not in options:
        raise InvalidInputError.missing(
            "--encoder: found none; give one that knows such images, such as ViT-B-32/openai, or reference for images "
            "of the reference model"
        )
    with LiveProgress() as progress:
        run = api.import_images(folder, **options, progress=progress)
    print_summary(run)
    print_json(run)


@with_options(api.model_card)
def card(runs: list[str], *, out: str | None = None, **options: Any) -> None:
    """Write the bias section of a model card.

    Markdown, with the results that the Hugging Face Hub reads as metadata.
    """
    text = api.model_card(*runs, out=out, **options)
    if out is None:
        echo(text, nl=False)
    else:
        print_place("Card", out)
    print_json("files", of="card", place=out, files=[] if out is None else [out], text=text if out is None else None)


@with_options(api.export)
def export(
    run: str, out: str, *, evidence: bool = False, dataset: bool = False, board: str = "a4", **options: Any
) -> None:
    """Export a run for a paper, a board, an auditor or the Hub.

    Writes figures, tables, methods and BibTeX for a paper and a two-page summary for a board; or, with --evidence or
    --dataset, one of the others instead.
    """
    paper = None if board == "none" else cast("Paper", board)
    names = api.export(run, out, evidence=evidence, dataset=dataset, board=paper, **options)
    if dataset:
        echo(f"A data set of {len(names)} files. See what its card says before you publish it.")
    elif evidence:
        signed = "the first" if "statement.json" not in names else f"{names[0]} and {names[2]}"
        echo(f"{', '.join(names)}: what was measured, and no claim of compliance. Sign {signed}.")
    else:
        figures, tables = (sum(name.startswith(folder) for name in names) // 2 for folder in ("figures/", "tables/"))
        echo(f"{figures} figures as SVG and PDF, {tables} tables as CSV and LaTeX, the methods and references.")
        if "board.pdf" in names:
            echo("Two pages for a board: board.pdf, printed from board.html.")
        elif "board.html" in names:
            echo(
                "Two pages for a board: board.html. Print it from a browser; with Chromium or "
                "clinometer[pdf] there is a board.pdf."
            )
    print_place("Export", out)
    print_json("files", of="export", place=out, files=names)


@with_options(api.push)
def push(run: str, target: str, **options: Any) -> None:
    """Send a run to the Hugging Face Hub.

    Uses huggingface_hub's own token. A damaged run is not sent.
    """
    sent = api.push(run, target, **options)
    for name, size in sent.files.items():
        echo(f"{size:>13,}  {printable(name)}")
    files = f"{len(sent.files)} files of {sum(sent.files.values()):,} bytes"
    place = printable(sent.target)
    remarks = [*sent.notes, f"Sent {files}: {sent.url}" if sent.url else f"{files} would be sent to {place}."]
    echo("\n".join(remarks))
    print_json("files", of="push", place=place, files=list(sent.files), remarks=remarks)
