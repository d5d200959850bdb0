"""What ``clinometer test`` prints."""

from __future__ import annotations

from collections.abc import Iterator
from math import isfinite
from typing import TYPE_CHECKING, Any, Final

from rich.console import Console
from rich.table import Table

from clinometer.cli.words import plain_text

if TYPE_CHECKING:
    import pandas as pd

WIDE: Final = 120
"""Columns of a terminal from which names stand beside each other; below, under each other: no number is cut."""
NAMES: Final = ("test", "X, Y", "A, B", "n")


def print_tests(table: pd.DataFrame) -> None:
    """A line a test, then what it went without and what the columns mean."""
    from clinometer.report import wording

    console = Console()
    first = table.iloc[0]
    wide = console.width >= WIDE
    printed = Table(title=plain_text(f"Association tests on {first.encoder}"), show_lines=not wide)
    for name in NAMES if wide else ("\n".join(NAMES),):
        printed.add_column(name, overflow="fold")
    for name in ("statistic", "effect\nsize d", "95 %\ninterval", "p", "q"):
        printed.add_column(name, justify="right", no_wrap=True)
    for row in _rows(table):
        about = (row.test, f"{row.x}, {row.y}", f"{row.a}, {row.b}", f"{row.n_x}+{row.n_y}, {row.n_a}+{row.n_b}")
        cells = (
            *(about if wide else ("\n".join(about),)),
            wording.number(row.statistic, 4),
            wording.number(row.effect_size, 3),
            wording.interval(row.effect_size_low, row.effect_size_high) or wording.MISSING,
            *(f"{probability:.3g}" if isfinite(probability) else wording.MISSING for probability in (row.p, row.q)),
        )
        printed.add_row(*map(plain_text, cells))
    console.print(printed)
    for row in _rows(table):
        if row.reason:
            console.print(f"{plain_text(row.test)}: {plain_text(row.reason)}")
        elif row.missing:
            console.print(f"{plain_text(row.test)}: without {plain_text(row.missing)}")
    unfit = [row for row in _rows(table) if row.misfit]
    if unfit:
        count = "" if len(unfit) == len(table) else f" ({len(unfit)} of {len(table)} tests)"
        way_out = "name another, such as --encoder ViT-B-32/openai"
        console.print(
            f"[yellow]{plain_text(unfit[0].misfit)}{count}. No number of such a test is a finding; {way_out}[/]"
        )
    console.print(f"[dim]{plain_text(_conventions(table))}[/]")


def _rows(table: pd.DataFrame) -> Iterator[Any]:
    return iter(table.itertuples(index=False))


METHODS = {
    "exact": "every split counted",
    "certified": "bracketed with proof (p_low to p_high)",
    "sampled": "splits sampled",
}


def _conventions(table: pd.DataFrame) -> str:
    first = table.iloc[0]
    counts = table.p_method.value_counts()
    methods = ", ".join(f"{words} in {counts[how]} of {len(table)}" for how, words in METHODS.items() if how in counts)
    sides = ", ".join(sorted(set(table.alternative)))
    divisor = "the two sets' pooled" if first.spread == "pooled" else "the targets'"
    ddof = "" if first.spread == "pooled" else f" (ddof {first.ddof})"
    lacking = " What is — has its reason above." if (table.reason != "").any() else ""
    return (
        f"p: {sides}; {methods or 'none'}. q: Benjamini–Hochberg, {first.family}. "
        f"d divides by {divisor} standard deviation{ddof}; intervals, of d, resample the stimuli.{lacking}"
    )
