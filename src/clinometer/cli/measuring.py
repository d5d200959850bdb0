"""Commands that measure without a run, classify and test, and what they print."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from rich.table import Table

from clinometer import api
from clinometer.cli.options import TableOption, with_options
from clinometer.cli.tables import Console, check_place, plain_text, print_json, text_table, write_table

if TYPE_CHECKING:
    import pandas as pd


@with_options(api.classify_images)
def classify(images: list[str], labels: list[str], *, out: TableOption = None, **options: Any) -> None:
    """Classify images with a diffusion model.

    An image gets the label under which the model denoises it best.
    """
    from clinometer.cli.console import LiveProgress

    check_place(out)
    with LiveProgress() as progress:
        names = [label.strip() for line in labels for label in line.split(",") if label.strip()]
        choices = api.classify_images(images, names, **options, progress=progress)
    print_choices(choices)
    write_table(choices, out)
    print_json("tables", of="classify", tables={"choices": choices})


@with_options(api.association_test)
def association_test(*, out: TableOption = None, **options: Any) -> None:
    """Run association tests: WEAT, SEAT and iEAT.

    On words, pictures or vectors of your own. Draws nothing.
    """
    check_place(out)
    table = api.association_test(**options)
    print_tests(table)
    write_table(table, out)
    print_json("tables", of="test", tables={"association tests": table})


WIDE: Final = 120
"""Columns of a terminal from which names stand beside each other; below, under each other: no number is cut."""
NAMES: Final = ("test", "X, Y", "A, B", "n")


def print_tests(table: pd.DataFrame) -> None:
    """Print a line a test, then what was left out and what the columns mean."""
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


def print_choices(choices: pd.DataFrame) -> None:
    """Print a row an image."""
    from clinometer.report import wording

    rows = []
    for row in choices.to_dict("records"):
        note = row["reason"] or ("tie" if row["tie"] else "")
        margin, low, high = (wording.signed_percent(row[name]) for name in ("margin", "low", "high"))
        ends = f"[{low}, {high}]" if wording.MISSING not in (low, high) else ""
        margin = margin if row["label"] else ""
        rows.append(
            (Path(row["file"]).name, row["label"], row["runner_up"], margin, ends, str(row["evaluations"]), note)
        )
    title = "margin to the runner-up relative to the error, 95 % over noise samples; rows: what the network was asked"
    columns = ("image", "label", "runner-up", "margin", "95 %", "rows", "")
    Console().print(text_table(title, columns, rows, left=("image", "label", "runner-up", "")))


def print_swatches(swatches: Iterable[Any]) -> None:
    """Print the ten Monk skin tones as the mask and the angle see them."""
    table = Table("tone", "colour", "counts as skin", "angle", "class", title="Monk Skin Tone Scale")
    seen = list(swatches)
    for swatch in seen:
        answer = "yes" if swatch.is_skin else "[bold]no[/]"
        table.add_row(str(swatch.number), f"[on {swatch.colour}]      [/] {swatch.colour}", answer,
                      f"{swatch.angle:.1f}°", swatch.tone)  # fmt: skip
    console = Console()
    console.print(table)
    console.print(
        "A tone that does not count as skin is reported as unknown, never as a class; a rate of unknowns that differs "
        "between groups is itself a finding."
    )
    rows = [{name: getattr(each, name) for name in ("number", "colour", "is_skin", "angle", "tone")} for each in seen]
    print_json("tables", of="models", tables={"Monk Skin Tone Scale": rows})
