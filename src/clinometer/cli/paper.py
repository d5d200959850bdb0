"""A run held against a paper's printed tables: a table a printed column, and the whole as a file."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table

from clinometer import api
from clinometer._csv import csv_text
from clinometer.cli.tables import check_place, plain_text, write_table
from clinometer.pipeline.paper_tables import models_of
from clinometer.report import wording
from clinometer.runs.protocol import recorded_departures

if TYPE_CHECKING:
    import pandas as pd

    from clinometer.runs import Run

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
