"""What `classify` and `models --check-skin` print."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table

from clinometer.cli.words import plain_text

if TYPE_CHECKING:
    import pandas as pd


def print_choices(choices: pd.DataFrame) -> None:
    """A row an image."""
    from clinometer.report import wording

    table = Table(
        title="margin to the runner-up relative to the error, 95 % over noise samples; rows: what the network was asked"
    )
    for heading, justify in (("image", "left"), ("label", "left"), ("runner-up", "left"), ("margin", "right"),
                             ("95 %", "right"), ("rows", "right"), ("", "left")):  # fmt: skip
        table.add_column(heading, justify=justify, overflow="fold")  # type: ignore[arg-type]
    for row in choices.to_dict("records"):
        note = row["reason"] or ("tie" if row["tie"] else "")
        margin, low, high = (wording.signed_percent(row[name]) for name in ("margin", "low", "high"))
        ends = f"[{low}, {high}]" if wording.MISSING not in (low, high) else ""
        margin = margin if row["label"] else ""
        cells = (Path(row["file"]).name, row["label"], row["runner_up"], margin, ends, str(row["evaluations"]), note)
        table.add_row(*map(plain_text, cells))
    Console().print(table)


def print_swatches(swatches: Iterable[Any]) -> None:
    """The ten Monk skin tones as the mask and the angle see them."""
    table = Table("tone", "colour", "counts as skin", "angle", "class", title="Monk Skin Tone Scale")
    for swatch in swatches:
        answer = "yes" if swatch.is_skin else "[bold]no[/]"
        table.add_row(str(swatch.number), f"[on {swatch.colour}]      [/] {swatch.colour}", answer,
                      f"{swatch.angle:.1f}°", swatch.tone)  # fmt: skip
    console = Console()
    console.print(table)
    console.print(
        "A tone that does not count as skin is reported as unknown, never as a class; a rate of unknowns that differs "
        "between groups is itself a finding."
    )
