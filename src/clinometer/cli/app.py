"""All commands, and those that say what there is and what an audit would take: plan, suites, models.

Each imports what it needs when it runs, so that ``--help`` is instant.
"""

from __future__ import annotations

import os
import sys
import tempfile
import traceback
from collections.abc import Callable
from contextlib import suppress
from decimal import ROUND_FLOOR, Context
from importlib import metadata
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer
from pydantic import ValidationError
from rich.console import Console
from rich.table import Table
from typer.core import TyperGroup

from clinometer._in_hand import run_directory, things_in_hand
from clinometer._secrets import masked
from clinometer.cli.audit import audit, sweep
from clinometer.cli.measuring import association_test, classify, questions, read
from clinometer.cli.options import (
    BaseUrlOption,
    ModelConfigOption,
    PriceOption,
    given_options,
    option_of,
    refuse_repeated,
)
from clinometer.cli.ratings import ratings
from clinometer.cli.runs import card, compare, export, gate, import_, report, score, verify
from clinometer.cli.serve import serve
from clinometer.cli.tables import plain_text
from clinometer.errors import ClinometerError
from clinometer.suites.strict import first_problem

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
    answer_price: Annotated[float, typer.Option(help="What an answer costs, of a reader behind an API.")] = 0.0,
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
        answer_price=answer_price,
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
    base_url: BaseUrlOption = None,
    price: PriceOption = None,
) -> None:
    """List the installed generators and encoders, or say what one is and can do. Draws nothing, and costs nothing."""
    from clinometer.cli.console import print_model, print_models

    if check_skin:
        from clinometer import api
        from clinometer.cli.measuring import print_swatches

        print_swatches(api.check_skin())
    elif name is None:
        print_models()
    else:
        print_model(name, **given_options(model_config=model_config, base_url=base_url, price=price))


def print_plan(plan: Plan, images: int | None = None) -> None:
    """A line a concept, and the totals; ``images`` a target where they are not the suite's own."""
    from clinometer.report import wording

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
    from clinometer.report import wording

    return wording.signed(value, 3) + (f" ± {wording.number(error, 3)}" if isfinite(error) else "")


def _count(value: Any) -> str:
    return f"{value:,.0f}" if isfinite(value) else "no number"


def _hours(hours: float) -> str:
    return f"{hours:.1f} hours" if hours >= 1 else f"{60 * hours:.0f} minutes"


class _Commands(TyperGroup):
    """All commands. Mistakes name options as they are typed. Ctrl-C ends in a line: Typer's own answer has no word."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except ClinometerError as error:
            command = self.commands.get(ctx.invoked_subcommand or "")
            options = [each for each in getattr(command, "params", ()) if each.param_type_name == "option"]
            error.args = (error.in_words_of({option.name: max(option.opts, key=len) for option in options}),)
            raise
        except typer.BadParameter as error:
            if isinstance(error.__cause__, ValidationError):  # Typer has pydantic read a number, and repeats its words
                error.message = first_problem(error.__cause__)[1]
            raise
        except KeyboardInterrupt:
            goes_on = " The same command goes on from here." if ctx.invoked_subcommand in RESUMED else ""
            typer.echo(f"clinometer: stopped.{goes_on}", err=True)
            raise typer.Exit(130) from None

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        resolution = super().resolve_command(ctx, args)
        refuse_repeated(resolution[1], resolution[2])
        return resolution


app = typer.Typer(
    name="clinometer",
    cls=_Commands,
    help="Measure how far a text-to-image model leans.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

app.add_typer(ratings)

COMMANDS: Final[dict[str, Callable[..., None]]] = {
    "audit": audit, "score": score, "report": report, "verify": verify, "compare": compare, "gate": gate,
    "card": card, "export": export, "import": import_, "classify": classify, "read": read, "questions": questions,
    "test": association_test,
    "plan": plan, "suites": suites, "models": models, "sweep": sweep, "serve": serve,
}  # fmt: skip
for name, command in COMMANDS.items():
    app.command(name)(command)


def _version(value: bool) -> None:
    if value:
        from importlib import metadata

        typer.echo(metadata.version("clinometer"))
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and exit.")
    ] = False,
    debug: Annotated[
        bool, typer.Option("--debug", help=f"Show the traceback of what goes wrong; also by {VARIABLE}=1.")
    ] = False,
) -> None:
    pass


# --- the last handler: an exception that nobody foresaw, in two lines, with its traceback in a file -----------------

STATUS: Final = 70
"""The exit status: of ``sysexits.h`` that of a mistake in the program itself. A user's mistake ends with 2."""

VARIABLE: Final = "CLINOMETER_DEBUG"
FILE: Final = ".last-error.txt"
LONGEST: Final = 200
RESUMED: Final = ("audit", "import", "score", "sweep")
"""Commands that go on where they were."""


def is_wanted(words: list[str]) -> bool:
    """Tell whether tracebacks are to be shown."""
    return "--debug" in words or os.environ.get(VARIABLE, "") not in ("", "0")


def crash_message(error: BaseException, words: list[str]) -> str:
    """Return the message about an exception: where it arose, what is kept, where its traceback is and whom to tell.

    Parameters
    ----------
    words : the command line.
    """
    hand = ", ".join(things_in_hand(error)[:2])
    way_on = " What was finished is kept; the same command goes on from there." if set(words) & set(RESUMED) else ""
    lines = f"an error of clinometer's own{f', with {hand} in hand' if hand else ''}: {_in_short(error)}.{way_on}"
    place = _written(error, words)
    where = f"The traceback is in {place}" if place else "--debug before the command shows the traceback"
    version = _installed_version()
    return f"{lines}\n{where}; please report it with the command, to the issue tracker of clinometer {version}."


def _in_short(error: BaseException) -> str:
    """Return an exception's kind and the start of its message, on one line."""
    message = masked(" ".join(str(error).split()))[:LONGEST].rstrip(".")
    return f"{type(error).__name__}: {message}" if message else type(error).__name__


def _written(error: BaseException, words: list[str]) -> str:
    """Say where the traceback was written; empty where it could not be.

    In the run directory where there is a run, hidden, as it names the machine's paths; else in the temporary folder.
    """
    text = f"clinometer {_installed_version()}, Python {sys.version.split()[0]}, {sys.platform}\n{' '.join(words)}\n\n"
    text += "".join(traceback.format_exception(error))
    content = masked(text).encode(errors="backslashreplace")
    place = run_directory(error)
    with suppress(OSError):
        if place and (Path(place) / "run.json").is_file():
            through_no_link = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | getattr(os, "O_NOFOLLOW", 0)
            with open(os.open(Path(place) / FILE, through_no_link, 0o644), "wb") as written:
                written.write(content)
            return str(Path(place) / FILE)
    with suppress(OSError), tempfile.NamedTemporaryFile(prefix="clinometer-", suffix=".txt", delete=False) as file:
        file.write(content)
        return file.name
    return ""


def _installed_version() -> str:
    with suppress(metadata.PackageNotFoundError):
        return metadata.version("clinometer")
    return "(not installed)"
