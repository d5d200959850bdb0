"""What commands on runs print: comparisons, a run held against a paper's printed tables, the outcome of a gate."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from decimal import ROUND_FLOOR, Context
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from rich.table import Table

from clinometer import api
from clinometer._csv import csv_text
from clinometer.cli.tables import Console, check_place, plain_text, tell, write_table
from clinometer.gates.telling import columns_of, explanations, gate_in_words, rule_in_words, way_on
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

    from clinometer.gates import Gate
    from clinometer.pipeline.planning import Plan
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
    tell("tables", of="report", tables={f"paper {paper}": cells}, remarks=list(remarks(run, cells, labels)))
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


def print_gate(judged: Gate, *, explain: bool = False) -> None:
    """A line a rule, the numbers of those that do not hold, and what follows; or of every number why it came out so."""
    console = Console()
    if judged.unchecked:
        console.print(f"{plain_text(judged.unchecked)}.", soft_wrap=True)
    if judged.policy.title:
        console.print(f"[bold]{plain_text(judged.policy.title)}[/]")
    explained = iter(explanations(judged))
    for rule in judged.rules:
        console.print(plain_text(rule_in_words(rule)))
        open_rows = rule.rows[rule.rows.outcome != "holds"]
        if explain:
            for _ in range(len(rule.rows)):
                console.print(plain_text(f"  {next(explained)}"))
        elif len(open_rows):
            console.print(_numbers(open_rows))
    console.print(f"[bold]{gate_in_words(judged)}[/]")
    if explain:
        console.print(plain_text(way_on(judged)))


def _numbers(rows: pd.DataFrame) -> Table:
    """Return the numbers that are broken, the farthest first, then those that are undecided."""
    rows = rows.sort_values(["outcome", "p"], kind="stable")
    caption = f"{MOST_ROWS} of {len(rows)} are shown; --out FILE has all" if len(rows) > MOST_ROWS else None
    table = Table(caption=caption)
    columns = columns_of(rows)
    for heading in columns:
        table.add_column(heading, justify="right" if heading in ("value", "95 %") else "left", overflow="fold")
    for cells in zip(*(column[:MOST_ROWS] for column in columns.values()), strict=True):
        table.add_row(*map(plain_text, cells))
    return table


def print_plan(plan: Plan, images: int | None = None) -> None:
    """A line a concept, and the totals; ``images`` a target where they are not the suite's own."""
    console = Console()
    tests = f"power {plan.power:g}, level {plan.alpha:g} for a concept by itself"
    console.print(_shares(plan, tests) if not plan.pilot else _concepts(plan, tests))
    costs = f" At {plan.price:g} each they cost {plan.cost:,.2f}." if plan.price else ""
    suite = "The suite as it stands" if images is None else f"With --images {images} the suite"
    console.print(f"{suite} draws {plan.images:,} images.{costs}")
    asked = f" At {plan.answer_price:g} each they cost {plan.answers_cost:,.2f}." if plan.answer_price else ""
    console.print(f"A reader of them gives {wording.count(plan.answers, 'answer')}.{asked}")
    if not plan.pilot:
        console.print(
            "Without a pilot the spread of a score is unknown. Draw a small run, then: clinometer plan --pilot RUN"
        )
        return
    reasons = plan.table.reason[plan.table.reason != ""]
    if len(reasons):
        why = plain_text(wording.commonest(reasons, "concept"))
        console.print(f"Nothing can be said where the pilot does not tell the spread: {why}.")
    if len(reasons) == len(plan.table):
        return
    if isfinite(plan.images_needed):
        neediest, most = list(plan.images_each.items())[-1]
        console.print(
            f"Half of the concepts need at most {_count(plan.images_for(0.5))} images each, nine in ten at most "
            f"{_count(plan.images_for(0.9))}; {plain_text(str(neediest))} needs {_count(most)}."
        )
        console.print(
            f"To decide every concept that can be decided, each by itself: about {plan.images_needed:,.0f} images, "
            f"{_hours(plan.hours)} at the pilot's {plan.seconds_per_image:.2g} s an image"
            + (" one after another" if plan.by_server else "")
            + f", {plan.gigabytes:.2g} GB"
            + (f"; --budget {plan.cost_needed:.2f}." if plan.price or plan.answer_price else ".")
        )
    if plan.alpha > plan.alpha_for_verdicts:
        console.print(
            f"A verdict is corrected over the {len(plan.table)} concepts and may take more. With --alpha "
            f"{_rounded_down(plan.alpha_for_verdicts)} the images are enough whatever the other concepts show."
        )


def _rounded_down(level: float) -> str:
    """In two figures, and not above."""
    return str(Context(prec=2, rounding=ROUND_FLOOR).create_decimal(repr(level)).normalize())


def _shares(plan: Plan, tests: str) -> Table:
    table = Table("share of images on one side", "images to find it", title=plain_text(f"Any concept; {tests}"))
    for row in plan.table.itertuples():
        table.add_row(f"{row.share:g}", _count(row.to_detect))
    return table


def _concepts(plan: Plan, tests: str) -> Table:
    effect = f"an image part of {plan.effect:g}" if isfinite(plan.effect) else "the pilot's own"
    table = Table(title=plain_text(f"Images a concept; {tests}"))
    table.add_column("concept")
    columns = ["image part in the pilot", "images now", f"to find {effect}"]
    if isfinite(plan.margin):
        columns.append(f"to show balance within ±{plan.margin:g}")
    has_read = bool(plan.table.ratings.notna().any())
    if has_read:
        columns.append("ratings to decide")
    for column in columns:
        table.add_column(column, justify="right")
    for row in plan.table.itertuples():
        cells = [_estimate(row.estimate, row.standard_error), str(row.images), _count(row.to_detect)]
        if isfinite(plan.margin):
            cells.append(_count(row.to_show_balance))
        if has_read:
            cells.append(_count(row.ratings))
        table.add_row(plain_text(str(row.concept)), *cells)
    return table


def _estimate(value: Any, error: Any) -> str:
    return wording.signed(value, 3) + (f" ± {wording.number(error, 3)}" if isfinite(error) else "")


def _count(value: Any) -> str:
    return f"{value:,.0f}" if isfinite(value) else "no number"


def _hours(hours: float) -> str:
    return f"{hours:.1f} hours" if hours >= 1 else f"{60 * hours:.0f} minutes"
