"""A comparison of runs in a terminal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table

from clinometer.cli.tables import plain_text
from clinometer.pipeline.comparison_page import (
    comparison_caution,
    comparison_refusals,
    comparison_tables,
    comparison_verdict,
    pairing_in_words,
)
from clinometer.report.comparison import DifferenceTable, all_runs, pair_names

if TYPE_CHECKING:
    from clinometer.runs.together import Comparison


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
