"""A comparison of runs in a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from clinometer.report.comparison import comparison_rows, comparison_verdict, names

if TYPE_CHECKING:
    from clinometer.runs.comparison import Comparison


def print_comparison(comparison: Comparison) -> None:
    """One sentence, a row a concept, and what was compared with what."""
    first, second = names(comparison)
    table = Table(title=escape(f"MCAS of {second} minus MCAS of {first}"))
    for heading in ("concept", "difference", "95 %", "q", "verdict"):
        table.add_column(heading, justify="left" if heading in ("concept", "verdict") else "right", overflow="fold")
    for row in comparison_rows(comparison):
        table.add_row(*map(escape, row))
    console = Console()
    console.print(table)
    console.print(f"[bold]{escape(comparison_verdict(comparison))}[/]")
    if comparison.paired:
        left_out = f"; {comparison.dropped} images without a partner are left out" if comparison.dropped else ""
        console.print(f"{comparison.pairs} pairs of images{left_out}.")
    else:
        console.print("Not paired: the runs have other seeds, or their images were not drawn here.")
