"""Commands that say what there is and what an audit would take: plan, suites, models. Nothing is drawn."""

from __future__ import annotations

from decimal import ROUND_FLOOR, Context
from math import isfinite
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from clinometer.cli.options import ModelConfigOption, given_options, option_of
from clinometer.cli.tables import plain_text

if TYPE_CHECKING:
    from clinometer.pipeline.planning import Plan


def plan(
    suite: Annotated[
        str | None, typer.Option("--suite", "-s", help="A built-in suite or a YAML file. [default: the pilot's]")
    ] = None,
    pilot: Annotated[
        str | None, typer.Option("--pilot", "-p", metavar="RUN", help="A scored run of the suite.")
    ] = None,
    images: Annotated[int | None, option_of("images")] = None,
    concepts: Annotated[str | None, option_of("concepts")] = None,
    effect: Annotated[
        float | None,
        typer.Option(help="Image part (either side) that is to be found. [default: each concept's own in the pilot]"),
    ] = None,
    margin: Annotated[
        float | None, typer.Option(help="Within which balance is to be shown. [default: the suite's]")
    ] = None,
    power: Annotated[float, typer.Option(help="Probability of deciding.")] = 0.8,
    alpha: Annotated[float, typer.Option(help="Level of the tests, of a concept by itself.")] = 0.05,
    price: Annotated[float, typer.Option(help="What an image costs, of a model behind an API.")] = 0.0,
) -> None:
    """Say how many images an audit needs, and the time and disk they would take. Draws nothing."""
    from clinometer import api

    image_plan = api.plan(
        suite,
        pilot=pilot,
        effect=effect,
        margin=margin,
        power=power,
        alpha=alpha,
        price=price,
        images=images,
        concepts=concepts,
    )
    print_plan(image_plan, images)


def suites(
    name: Annotated[str | None, typer.Argument(help="A built-in suite or a YAML file.")] = None,
) -> None:
    """List the built-in suites, or show what one asks."""
    from clinometer.cli.console import print_suite, print_suites
    from clinometer.suites import load_suite

    if name is None:
        print_suites()
    else:
        print_suite(load_suite(name))


def models(
    name: Annotated[
        str | None,
        typer.Argument(
            help="What an audit takes as its model or encoder; it is loaded. 'reference' also shows its planted truth."
        ),
    ] = None,
    check_skin: Annotated[
        bool, typer.Option("--check-skin", help="Hold the skin mask against the ten Monk skin tones.")
    ] = False,
    model_config: ModelConfigOption = None,
) -> None:
    """List the installed generators and encoders, or say what one is and can do. Draws nothing."""
    from clinometer.cli.console import print_model, print_models

    if check_skin:
        from clinometer import api
        from clinometer.cli.measuring import print_swatches

        print_swatches(api.check_skin())
    elif name is None:
        print_models()
    else:
        print_model(name, **given_options(model_config=model_config))


def print_plan(plan: Plan, images: int | None = None) -> None:
    """A line a concept, and the totals; ``images`` a target where they are not the suite's own."""
    from clinometer.report import wording

    console = Console()
    tests = f"power {plan.power:g}, level {plan.alpha:g} for a concept by itself"
    console.print(_shares(plan, tests) if not plan.pilot else _concepts(plan, tests))
    costs = f" At {plan.price:g} each they cost {plan.cost:,.2f}." if plan.price else ""
    suite = "The suite as it stands" if images is None else f"With --images {images} the suite"
    console.print(f"{suite} draws {plan.images:,} images.{costs}")
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
            + (f"; at {plan.price:g} each, --budget {plan.cost_needed:.2f}." if plan.price else ".")
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
    for column in columns:
        table.add_column(column, justify="right")
    for row in plan.table.itertuples():
        cells = [_estimate(row.estimate, row.standard_error), str(row.images), _count(row.to_detect)]
        if isfinite(plan.margin):
            cells.append(_count(row.to_show_balance))
        table.add_row(plain_text(str(row.concept)), *cells)
    return table


def _estimate(value: Any, error: Any) -> str:
    from clinometer.report import wording

    return wording.signed(value, 3) + (f" ± {wording.number(error, 3)}" if isfinite(error) else "")


def _count(value: Any) -> str:
    return f"{value:,.0f}" if isfinite(value) else "no number"


def _hours(hours: float) -> str:
    return f"{hours:.1f} hours" if hours >= 1 else f"{60 * hours:.0f} minutes"
