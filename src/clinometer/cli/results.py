"""What commands on runs print: comparisons, a run held against a paper's printed tables, the outcome of a gate."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from rich.table import Table

from clinometer import api
from clinometer._csv import csv_text
from clinometer.cli.tables import Console, check_place, plain_text, print_json, print_place, text_table, write_table
from clinometer.gates.outcome import columns_of, explanations, gate_in_words, rule_in_words, way_on
from clinometer.papers.printed import models_of
from clinometer.pipeline.comparison_page import (
    comparison_caution,
    comparison_refusals,
    comparison_tables,
    comparison_verdict,
    pairing_in_words,
)
from clinometer.report import wording
from clinometer.report.differences import all_runs, pair_names
from clinometer.runs.record import recorded_departures
from clinometer.studies.planning import plan_in_words

if TYPE_CHECKING:
    import pandas as pd

    from clinometer.gates import Gate
    from clinometer.runs import Run
    from clinometer.runs.several import Comparison
    from clinometer.studies.planning import Plan


def print_comparisons(comparisons: Sequence[Comparison]) -> None:
    """Print, for each, one row per concept (or test, or prompt), one sentence, and what was compared with what."""
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


NAMES = ("category", "concept", "group", "setting")


def print_paper_tables(run: Run, paper: str, models: Sequence[str], out: Path | None) -> None:
    """Print a paper's tables beside the run's numbers, and write them."""
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


STATUS: Final = {"holds": 0, "broken": 1, "undecided": 3}
"""Exit status by outcome; 2 is a user's mistake."""

MOST_ROWS: Final = 40
"""Numbers that a terminal shows; all are in the file."""


def print_gate(judged: Gate, *, explain: bool = False) -> None:
    """Print a line a rule, the numbers of broken ones and what follows; or why each number came out so."""
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


def print_plan(plan: Plan, images: int | None = None) -> None:
    """Print a line a concept, and the totals; ``images`` a target where they are not the suite's own."""
    (title, columns, rows), lines = plan_in_words(plan, images)
    console = Console()
    console.print(text_table(title, columns, rows, left=(columns[0],)))
    console.print_lines(lines)
