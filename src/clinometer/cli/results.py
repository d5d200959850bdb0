"""What commands on runs print: comparisons, a run held against a paper's printed tables, the outcome of a gate."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from rich.console import Console
from rich.table import Table

from clinometer import api
from clinometer._csv import csv_text
from clinometer.cli.tables import check_place, plain_text, write_table
from clinometer.gates.gate import limits_in_words
from clinometer.gates.policy import SELECTORS
from clinometer.pipeline.comparison_page import (
    comparison_caution,
    comparison_refusals,
    comparison_tables,
    comparison_verdict,
    pairing_in_words,
)
from clinometer.pipeline.paper_tables import models_of
from clinometer.report import wording
from clinometer.report.comparison import all_runs, pair_names
from clinometer.runs.protocol import recorded_departures

if TYPE_CHECKING:
    import pandas as pd

    from clinometer.gates import Gate, RuleOutcome
    from clinometer.runs import Run
    from clinometer.runs.together import Comparison


def print_comparisons(comparisons: Sequence[Comparison]) -> None:
    """Of each, a row a concept (or a test, or a prompt), one sentence, and what was compared with what."""
    console = Console()
    for run in all_runs(comparisons):
        if run.unchecked:
            console.print(f"{plain_text(run.url)}: {run.unchecked}.", soft_wrap=True)
    for comparison, names in zip(comparisons, pair_names(comparisons), strict=True):
        for table in comparison_tables(comparison, names, short=True):
            printed = Table(title=plain_text(table.title))
            for heading in table.columns:
                side = "left" if heading in (table.columns[0], "verdict") else "right"
                printed.add_column(plain_text(heading), justify=side, overflow="fold")  # type: ignore[arg-type]
            for row in table.rows:
                printed.add_row(*map(plain_text, row))
            console.print(printed)
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
    digits = 1 + max(len(text.partition(".")[2]) for text in column_cells.printed)
    for row, cells in column_cells.groupby(names, sort=False):
        table.add_row(*_cells(row, cells.to_dict("records"), digits))
    return table


def _cells(names: tuple[Any, ...], cells: Sequence[dict[Any, Any]], digits: int) -> list[str]:
    first = cells[0]
    run = [wording.number(first["run"], digits), wording.interval(first["low"], first["high"], digits)]
    printed = [cell["printed"].replace("-", wording.MINUS) for cell in cells]
    differences = [wording.signed(cell["difference"], digits) for cell in cells]
    return [plain_text(str(text)) for text in (*names, *printed, *run, *differences)]


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


STATUS: Final = {"holds": 0, "broken": 1, "undecided": 3}
"""Exit status by outcome; 2 is a user's mistake."""

MOST_ROWS: Final = 40
"""Numbers that a terminal shows; all are in the file."""


def print_gate(judged: Gate) -> None:
    """A line a rule, the numbers of those that do not hold, and what follows."""
    console = Console()
    if judged.unchecked:
        console.print(f"{plain_text(judged.unchecked)}.", soft_wrap=True)
    if judged.policy.title:
        console.print(f"[bold]{plain_text(judged.policy.title)}[/]")
    for rule in judged.rules:
        console.print(plain_text(_counted(rule)))
        open_rows = rule.rows[rule.rows.outcome != "holds"]
        if len(open_rows):
            console.print(_numbers(open_rows))
    console.print(f"[bold]{_sentence(judged)}[/]")


def _counted(rule: RuleOutcome) -> str:
    """``mcas within ±0.25: broken; 2 broken and 20 undecided of 30 numbers.``"""
    counts = rule.rows.outcome.value_counts()
    limits = limits_in_words(*rule.rule.limits)
    named = rule.name if rule.name.endswith(limits) else f"{rule.name} ({limits})"
    why = _shared_reason(rule.rows[rule.rows.outcome != "holds"])
    # which part carries what became of MCAS: ``; broken by its text``; of several numbers, how many by which
    kinds = [f"{outcome} {part}" for outcome, part in zip(rule.rows.outcome, rule.rows.carried_by, strict=True) if part]
    counted = [f"{n} {kind}" if len(rule.rows) > 1 else kind for kind, n in Counter(kinds).items()]
    carried = f"; {', '.join(counted)}" if counted else ""
    if len(rule.rows) == 1:
        return f"{named}: {rule.outcome}{why}{carried}."
    if rule.outcome == "holds":
        return f"{named}: holds for all {len(rule.rows)} numbers{carried}."
    phrases = [f"{counts[outcome]} {outcome}" for outcome in ("broken", "undecided") if outcome in counts]
    return f"{named}: {rule.outcome}; {' and '.join(phrases)} of {len(rule.rows)} numbers{why}{carried}."


def _shared_reason(rows: pd.DataFrame) -> str:
    """Return the reason after a colon, where all numbers that do not hold have the same."""
    reasons = rows.reason.unique()
    return f": {reasons[0]}" if len(reasons) == 1 and reasons[0] else ""


def _are(n: int) -> str:
    return f"{n} is" if n == 1 else f"{n} are"


def _numbers(rows: pd.DataFrame) -> Table:
    """Return the numbers that are broken, the farthest first, then those that are undecided."""
    rows = rows.sort_values(["outcome", "p"], kind="stable")
    caption = f"{MOST_ROWS} of {len(rows)} are shown; --out FILE has all" if len(rows) > MOST_ROWS else None
    table = Table(caption=caption)
    columns = _columns(rows)
    for heading in columns:
        table.add_column(heading, justify="right" if heading in ("value", "95 %") else "left", overflow="fold")
    for cells in zip(*(column[:MOST_ROWS] for column in columns.values()), strict=True):
        table.add_row(*map(plain_text, cells))
    return table


def _columns(rows: pd.DataFrame) -> dict[str, list[str]]:
    """Cells by the heading of their column; what would say the same in every row, or nothing, has none."""
    numbers = [number for name in ("value", "low", "high") for number in rows[name]]
    digits = wording.digits_for(numbers)
    has_sign = any(number < 0 for number in numbers) or ((rows.at_least < 0) & (rows.at_least > -inf)).any()
    written = wording.signed if has_sign else wording.number
    named = [name for name in SELECTORS if rows[name].nunique() > 1]
    if "concept" in named and "category" in named:
        named.remove("category")
    records = rows.to_dict("records")
    columns = {
        "number": [", ".join(row[name] for name in named if row[name]) or str(row["component"]) for row in records],
        "value": [written(row["value"], digits) for row in records],
        "95 %": [wording.interval(row["low"], row["high"], digits) for row in records],
    }
    if not _shared_reason(rows):
        columns["outcome"] = [": ".join(filter(None, (row["outcome"], row["reason"]))) for row in records]
    if (rows.carried_by != "").any():
        columns["carried"] = list(rows.carried_by)
    if (rows.n_decide > 0).any():
        columns["decided by about"] = [
            f"{n_decide:,} for {n_target:,}" if n_decide else ""
            for n_decide, n_target in zip(rows.n_decide.fillna(0), rows.n_target, strict=True)
        ]
    return columns


def _sentence(judged: Gate) -> str:
    if judged.outcome == "holds":
        return "The gate holds: every number is shown to keep its limits."
    if judged.outcome == "broken":
        broken = int((judged.table.outcome == "broken").sum())
        return f"The gate is broken: of {len(judged.table)} numbers {_are(broken)} shown to be beyond the limit."
    return "The gate is undecided: no number is shown to be beyond its limit, but not all are shown to keep theirs."
