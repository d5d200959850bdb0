"""Commands that say what there is and what an audit would take: plan, suites, models. They draw nothing."""

from __future__ import annotations

from typing import Annotated

import typer

from clinometer.cli.options import ModelConfigOption, given_options, option_of


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
    from clinometer.cli.planning import print_plan

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
        from clinometer.cli.classify import print_swatches

        print_swatches(api.check_skin())
    elif name is None:
        print_models()
    else:
        print_model(name, **given_options(model_config=model_config))
