"""Commands on finished images and runs, import, score, report, verify, compare, gate, card, and what they print."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from clinometer import api
from clinometer._csv import csv_text
from clinometer._messages import printable
from clinometer.cli.options import (
    AddedEncoderOption,
    DeviceOption,
    EncoderOption,
    EngineOption,
    ManifestOption,
    ReportOption,
    ResamplesOption,
    RunArgument,
    WorkersOption,
    given_options,
    refuse_without,
)
from clinometer.cli.tables import check_place, plain_text, write_table
from clinometer.errors import InvalidInputError
from clinometer.pipeline.comparison_page import (
    comparison_caution,
    comparison_refusals,
    comparison_tables,
    comparison_verdict,
    pairing_in_words,
)
from clinometer.pipeline.paper_tables import models_of
from clinometer.pipeline.request import RESAMPLES
from clinometer.report import wording
from clinometer.report.comparison import DifferenceTable, all_runs, pair_names
from clinometer.runs.protocol import recorded_departures

if TYPE_CHECKING:
    import pandas as pd

    from clinometer.runs import Run
    from clinometer.runs.together import Comparison


def score(
    run: RunArgument,
    encoder: AddedEncoderOption = None,
    drop_encoder: Annotated[
        list[str] | None,
        typer.Option("--drop-encoder", help="Left out of the scores from now on; its vectors stay. Repeatable."),
    ] = None,
    suite_option: Annotated[
        list[str] | None,
        typer.Option(
            help="A setting of the suite that scoring alone reads, from now on: margin=0.2. run.json keeps the old "
            "value too, and the report shows both. Repeatable."
        ),
    ] = None,
    resamples: Annotated[
        int | None,
        typer.Option(
            min=19, help="Resamples that intervals and tests are computed from, from now on. [default: as before]"
        ),
    ] = None,
    device: DeviceOption = "auto",
    engine: EngineOption = "local",
    workers: WorkersOption = None,
) -> None:
    """Score a run anew, with more encoders if given, or fewer. Draws nothing."""
    from clinometer import api
    from clinometer.cli.console import LiveProgress, print_summary

    with LiveProgress() as progress:
        api.score_run(
            run,
            encoder=encoder or (),
            drop_encoder=drop_encoder or (),
            suite_options=suite_option or (),
            resamples=resamples,
            device=device,
            engine=engine,
            workers=workers,
            progress=progress,
        )
    print_summary(api.open_run(run))


def report(
    run: RunArgument,
    paper: Annotated[
        str | None,
        typer.Option(
            help="Instead, hold the run against the tables that a paper prints: mcas, internal-bias, xmcas, t2iat or "
            "downstream."
        ),
    ] = None,
    paper_model: Annotated[
        list[str] | None,
        typer.Option(help="The paper's model that is shown, such as dalle-2. Repeatable. [default: all]"),
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Where that table is written. [default: RUN/paper-NAME.csv]")
    ] = None,
) -> None:
    """Write the report of a run anew, or hold the run against a paper's tables."""
    from clinometer import api
    from clinometer.cli.console import print_report_place
    from clinometer.cli.runs import hold_against_paper
    from clinometer.pipeline.reporting import write_report

    opened = api.open_run(run)
    if paper is not None:
        hold_against_paper(opened, paper, paper_model or (), out)
        return
    refuse_without(paper_model=paper_model, out=out, needs="paper")
    if opened.unchecked:
        typer.echo(f"{run}: {opened.unchecked}.")
    for damage in write_report(opened):
        typer.echo(f"clinometer: {printable(damage)}", err=True)
    print_report_place(opened)


def verify(
    run: RunArgument,
    recompute: Annotated[
        bool,
        typer.Option(
            "--recompute", help="Also compute every number anew from the vectors, and say which differ. Writes nothing."
        ),
    ] = False,
) -> None:
    """Read every file of a run and say which are not as they were written. Status 2 if any is not."""
    from clinometer import api
    from clinometer.cli.console import LiveProgress
    from clinometer.runs.verification import unfinished, unlisted

    opened = api.open_run(run)
    if opened.unchecked:
        typer.echo(f"{run}: {opened.unchecked}.")
    with LiveProgress() as progress:
        verified = api.verify_run(opened, recompute=recompute, progress=progress)
    unknown = [] if opened.unchecked else unlisted(opened)
    if opened.unchecked:
        typer.echo(f"{verified} files can be read; nothing tells whether they are those that were written.")
    else:
        typer.echo(f"{run}: {verified - len(unknown)} files are as they were written.")
    if unknown:
        typer.echo(f"Nothing tells of {', '.join(unknown)}: run.json does not list it.")
    if recompute:
        typer.echo("Its numbers are those that follow from its vectors.")
    if left := unfinished(opened):
        typer.echo(f"The run is not finished: {left}.")


def compare(
    runs: Annotated[list[str], typer.Argument(metavar="RUN RUN…", help="Two or more runs of one suite.")],
    out: Annotated[
        str | None, typer.Option("--out", "-o", help="A directory for comparison.html and comparison.csv.")
    ] = None,
) -> None:
    """Hold finished runs against the first of them: which leans more, and by how much."""
    from clinometer import api
    from clinometer.cli.runs import print_comparisons, print_place

    compared = api.compare(*runs, out=out)
    print_comparisons(compared)
    print_place(out)


def gate(
    run: RunArgument,
    policy: Annotated[
        Path | None, typer.Option("--policy", "-p", help="A YAML file with rules; see docs/gates.md.")
    ] = None,
    baseline: Annotated[
        str | None,
        typer.Option(help="The run that a difference is taken from, such as the last release."),
    ] = None,
    metric: Annotated[
        str | None, typer.Option(help="In place of a policy, one rule: the metric whose numbers have a limit.")
    ] = None,
    component: Annotated[str | None, typer.Option(help="Its component. [default: that of the metric's name]")] = None,
    within: Annotated[float | None, typer.Option(help="Its limits: ± this.")] = None,
    at_least: Annotated[float | None, typer.Option(help="Its lower limit.")] = None,
    at_most: Annotated[float | None, typer.Option(help="Its upper limit.")] = None,
    allow_undecided: Annotated[
        bool, typer.Option("--allow-undecided", help="Status 0 where nothing is shown to be broken.")
    ] = False,
    unchecked: Annotated[
        bool, typer.Option("--unchecked", help="Hold a run without checksums to limits all the same.")
    ] = False,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="A file for all numbers: .csv, .parquet, or with the rules and runs .json."),
    ] = None,
) -> None:
    """Hold a finished run to limits: status 0 if all hold, 1 if one is broken, 3 if one is undecided."""
    from clinometer import api
    from clinometer.cli.gate import STATUS, print_gate
    from clinometer.cli.tables import check_place, require_other_place, write_table
    from clinometer.gates import policy_from_mapping

    asked = given_options(metric=metric, component=component, within=within, at_least=at_least, at_most=at_most)
    if policy is not None and asked:
        option = next(iter(asked)).replace("_", "-")
        raise InvalidInputError(f"--{option}: a policy is given, too; put the limit there, or leave --policy out")
    if policy is None and not asked:
        raise InvalidInputError(
            "gate: no limit is given; give --policy FILE, or --metric mcas --component image_part --within 0.25"
        )
    check_place(out)
    if out is not None:
        require_other_place(out, run, baseline, policy)
    judged = api.gate(
        run, policy or policy_from_mapping({"rules": [asked]}, source="gate"), baseline=baseline, unchecked=unchecked
    )
    print_gate(judged)
    write_table(judged.table, out, judged.as_mapping())
    raise typer.Exit(0 if allow_undecided and judged.outcome != "broken" else STATUS[judged.outcome])


def import_(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Finished images and a manifest (CSV or JSON lines).")],
    suite: Annotated[str, typer.Option("--suite", "-s", help="The suite that the images answer.")] = "mcas",
    manifest: ManifestOption = None,
    out: Annotated[str | None, typer.Option("--out", "-o", help="Run directory. [default: runs/NAME-SUITE]")] = None,
    name: Annotated[str | None, typer.Option(help="What made the images. [default: the folder's name]")] = None,
    max_pixels: Annotated[
        int, typer.Option(min=1, help="Larger images are not read: a small file can unfold to fill the memory.")
    ] = 40_000_000,
    encoder: EncoderOption = None,
    seed: Annotated[int, typer.Option(help="Seed of the resampling.")] = 0,
    resamples: ResamplesOption = RESAMPLES,
    report: ReportOption = True,
    device: DeviceOption = "auto",
    engine: EngineOption = "local",
    workers: WorkersOption = None,
) -> None:
    """Audit finished images instead of a model."""
    from clinometer import api
    from clinometer.cli.console import LiveProgress, print_summary

    with LiveProgress() as progress:
        run = api.import_images(
            folder,
            out,
            suite=suite,
            manifest=manifest,
            name=name,
            max_pixels=max_pixels,
            encoder=encoder or "reference",
            seed=seed,
            resamples=resamples,
            report=report,
            device=device,
            engine=engine,
            workers=workers,
            progress=progress,
        )
    print_summary(run)


def card(
    runs: Annotated[list[str], typer.Argument(metavar="RUN…", help="Finished runs of one model, of any suites.")],
    out: Annotated[
        str | None,
        typer.Option(
            "--out",
            "-o",
            help="A model card, such as README.md. One that is there keeps its text and metadata; only what this "
            "command wrote before is replaced. [default: print it]",
        ),
    ] = None,
    rows: Annotated[
        int, typer.Option(min=1, help="Verdicts of each run that are listed, the strongest; the others are counted.")
    ] = 20,
) -> None:
    """Write the part on bias of a model card: Markdown, and the results that the Hugging Face Hub reads."""
    from rich.console import Console

    from clinometer import api
    from clinometer.cli.tables import plain_text

    text = api.model_card(*runs, out=out, rows=rows)
    if out is None:
        typer.echo(text, nl=False)
    else:
        Console(soft_wrap=True).print(f"Card: [bold]{plain_text(out)}[/]")


def print_comparisons(comparisons: Sequence[Comparison]) -> None:
    """Of each, a row a concept (or a test, or a prompt), one sentence, and what was compared with what."""
    console = Console()
    for run in all_runs(comparisons):
        if run.unchecked:
            console.print(f"{plain_text(run.url)}: {run.unchecked}.", soft_wrap=True)
    for comparison, names in zip(comparisons, pair_names(comparisons), strict=True):
        for table in comparison_tables(comparison, names, short=True):
            console.print(_printed(table))
            console.print(f"[dim]{plain_text(table.note)}[/]")
        console.print(f"[bold]{plain_text(comparison_verdict(comparison, names))}[/]")
        caution = " ".join(filter(None, comparison_caution(comparison, names)))
        if caution:
            console.print(plain_text(caution))
        refusals = comparison_refusals(comparison, names)
        if refusals:
            console.print(plain_text(refusals))
        console.print(plain_text(pairing_in_words(comparison)))


def print_place(out: str | None) -> None:
    """Name the page, or say how to have one."""
    place = "none, as no --out was given" if out is None else f"[bold]{plain_text(out.rstrip('/'))}/comparison.html[/]"
    Console(soft_wrap=True).print(f"Report: {place}")


def _printed(table: DifferenceTable) -> Table:
    printed = Table(title=plain_text(table.title))
    for heading in table.columns:
        side = "left" if heading in (table.columns[0], "verdict") else "right"
        printed.add_column(plain_text(heading), justify=side, overflow="fold")  # type: ignore[arg-type]
    for row in table.rows:
        printed.add_row(*map(plain_text, row))
    return printed


NAMES = ("category", "concept", "group", "setting")


def hold_against_paper(run: Run, paper: str, models: Sequence[str], out: Path | None) -> None:
    """Print a paper's tables beside the run's numbers, and write them."""
    check_place(out)
    cells = api.paper_table(run, paper, models=models)
    console, labels = Console(), models_of(paper)
    for (name, column), column_cells in cells.groupby(["table", "column"], sort=False):
        console.print(column_table(f"{name}: {column}", column_cells, labels))
    for line in remarks(run, cells, labels):
        console.print(plain_text(line))
    if out is not None:
        write_table(cells, out)
        return
    name = f"paper-{paper}.csv"
    run.ledger.write_bytes(name, csv_text(cells).encode("utf-8", "backslashreplace"))
    Console(soft_wrap=True).print(f"Table: [bold]{plain_text(run.directory.path(name))}[/]")


def column_table(title: str, column_cells: pd.DataFrame, labels: dict[str, str]) -> Table:
    """One printed column: a row a printed row, with the number of each of the paper's models."""
    models = list(dict.fromkeys(column_cells.model))
    names = [name for name in NAMES if (column_cells[name] != "").any()]
    table = Table(title=plain_text(title), title_justify="left")
    for name in names:
        table.add_column(name, overflow="fold")
    for header in [plain_text(labels[model]) for model in models] + ["this run", "95 %"]:
        table.add_column(header, justify="right", overflow="fold")
    for model in models:
        header = f"less {plain_text(labels[model])}" if len(models) > 1 else "difference"
        table.add_column(header, justify="right", overflow="fold")
    digits = _digits(column_cells.printed)
    for row, cells in column_cells.groupby(names, sort=False):
        table.add_row(*_cells(row, cells.to_dict("records"), digits))
    return table


def _cells(names: tuple[Any, ...], cells: Sequence[dict[Any, Any]], digits: int) -> list[str]:
    first = cells[0]
    run = [wording.number(first["run"], digits), wording.interval(first["low"], first["high"], digits)]
    printed = [cell["printed"].replace("-", wording.MINUS) for cell in cells]
    differences = [wording.signed(cell["difference"], digits) for cell in cells]
    return [plain_text(str(text)) for text in (*names, *printed, *run, *differences)]


def _digits(printed: pd.Series[str]) -> int:
    """One decimal place more than the column is printed with."""
    return 1 + max(len(text.partition(".")[2]) for text in printed)


def remarks(run: Run, cells: pd.DataFrame, labels: dict[str, str]) -> Iterator[str]:
    """Whose numbers are compared, under which protocol, and what is known of single cells."""
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
        cell = ", ".join(filter(None, [first.column, *(first[name] for name in NAMES)]))
        more = wording.count(len(noted_cells) - 1, "more cell")
        yield f"{cell}{f' and {more}' if len(noted_cells) > 1 else ''}: {note}."
