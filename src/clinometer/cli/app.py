"""All commands, and those that say what there is and what an audit would take: plan, suites, models.

Each imports what it needs when it runs, so that ``--help`` is instant.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Final

import typer
from pydantic import ValidationError
from typer.core import TyperCommand, TyperGroup

from clinometer import api
from clinometer._messages import did_you_mean, nearest, printable
from clinometer.cli.audit import audit, mitigate, register, reproduce, sweep
from clinometer.cli.config import check_defaults, config, merge_defaults, read_defaults, words_for, words_of
from clinometer.cli.options import MODEL_OPTIONS, refuse_repeated, with_options
from clinometer.cli.reading import association_test, classify, questions, read
from clinometer.cli.runs import card, compare, export, gate, import_, push, report, score, trace, verify
from clinometer.cli.serve import RATINGS_COMMANDS, serve
from clinometer.cli.tables import Console, echo, plain_text, print_json, text_table, with_common_options
from clinometer.errors import ClinometerError, InvalidInputError
from clinometer.pipeline.request import Argument, Option
from clinometer.suites.strict import first_problem


@with_options(api.plan)
def plan(*, images: int | None = None, **options: Any) -> None:
    """Estimate how many images an audit needs.

    Also estimates the time and disk space that they would take. Draws nothing.
    """
    from clinometer.studies.planning import plan_in_words

    image_plan = api.plan(images=images, **options)
    (title, columns, rows), lines = plan_in_words(image_plan, images)
    console = Console()
    console.print(text_table(title, columns, rows, left=(columns[0],)))
    console.print_lines(lines)
    print_json(image_plan)


@with_options()
def suites(
    name: Annotated[str | None, Argument("A built-in suite or a YAML file.")] = None,
    dataset: Annotated[
        str | None,
        Option("Instead, write the suite as a benchmark for the Hub: prompts, eval.yaml, a card.", metavar="DIR"),
    ] = None,
    new: Annotated[
        Path | None, Option("Instead, write a complete, commented suite to start from.", metavar="FILE")
    ] = None,
) -> None:
    """List the suites, show what one asks, or start your own."""
    from clinometer.cli.console import print_suite, print_suites
    from clinometer.suites import load_suite, write_scaffold

    if new is not None:
        if name is not None or dataset is not None:
            found = "--dataset" if name is None else name
            raise InvalidInputError.conflict(
                f"--new: found {found} too; a new suite is made of nothing, so leave it out"
            )
        write_scaffold(new)
        file = printable(str(new))
        echo(f"Written: {file}. Edit it; clinometer suites {file} shows what it asks.")
        print_json("files", of="suites", place=file, files=[file])
    elif dataset is not None:
        if name is None:
            raise InvalidInputError.missing("--dataset: no suite is named; give clinometer suites NAME --dataset DIR")
        names = api.write_benchmark(name, dataset)
        echo(f"{', '.join(names)}: {printable(dataset)}")
        print_json("files", of="suites", place=dataset, files=names)
    elif name is None:
        print_suites()
    else:
        print_suite(load_suite(name))


@with_options(also={name: MODEL_OPTIONS[name] for name in ("model_config", "base_url", "price")})
def models(
    name: Annotated[
        str | None,
        Argument(
            "A model, encoder or reader, named as for audit; it is loaded. 'reference' also shows its planted truth."
        ),
    ] = None,
    *,
    check_skin: Annotated[bool, Option("Check the skin mask against the ten Monk skin tones.")] = False,
    **options: Any,
) -> None:
    """List the generators, encoders and readers, or describe one.

    Draws nothing and costs nothing.
    """
    from clinometer.cli.console import print_model, print_models

    if check_skin:
        from clinometer.cli.reading import print_swatches

        print_swatches(api.check_skin())
    elif name is None:
        print_models()
    else:
        print_model(name, **options)


def schema() -> None:
    """Print the JSON Schema (draft 2020-12) of --json documents."""
    from clinometer.cli.documents import json_schema

    sys.stdout.write(f"{json.dumps(json_schema(), indent=2)}\n")


STATUS: Final = 70
"""The exit status: of ``sysexits.h`` that of a mistake in the program itself. A user's mistake ends with 2."""

VARIABLE: Final = "CLINOMETER_DEBUG"
RESUMED: Final = ("audit", "import", "reproduce", "score", "sweep")
"""Commands that go on where they were."""

IN_BOXES: Final = sys.stdout is not None and sys.stdout.isatty()
"""True if Rich formats ``--help``; in a pipe or a file it is plain text."""


def _prepared(options: list[Any]) -> list[Any]:
    """Hide environment variables from ``--help``, as docs/cli.md has the one rule for all, and show all brackets.

    Rich would take ``[default: all]`` for markup and leave it out. Prompts have no variables.
    """
    for each in options:
        each.show_envvar, each.allow_from_autoenv = False, not each.is_eager
        if IN_BOXES and each.help and r"\[" not in each.help:
            each.help = plain_text(each.help)
    return options


UsageError: Final[type[Exception]] = typer.BadParameter.__bases__[0]
"""Typer's base of every mistake in what is typed; it has no public name."""


def _in_a_line(error: Any, ctx: Any) -> InvalidInputError:
    """Word what Typer says of a mistyped command line as every other mistake: one line, with the way out.

    Options are named as they are typed, or as the file or the variable that they come from names them.
    """
    ctx = error.ctx or ctx
    words = words_of(ctx)
    place = f"{' '.join(words)}: " if words else ""
    see = f"see {' '.join(['clinometer', *words])} --help"
    kind, message, param = type(error).__name__, error.format_message().rstrip("."), getattr(error, "param", None)
    if param is not None:
        is_option = param.param_type_name == "option"
        name = words_for(ctx)[param.name] if is_option else (param.metavar or param.name.upper()).strip("[]")
        if kind == "MissingParameter":
            return InvalidInputError.missing(f"{place}{name} is missing; {see}")
        if isinstance(error.__cause__, ValidationError):  # Typer has pydantic read a number, and repeats its words
            error.message = first_problem(error.__cause__)[1]
        return InvalidInputError.malformed(f"{name}: {error.message}")
    if kind == "NoSuchOption":
        typed = {each.lstrip("-") for option in ctx.command.params for each in option.opts if each.startswith("--")}
        near = nearest(error.option_name.lstrip("-"), typed)
        hint = f"did you mean --{near[0]}?" if near else see
        return InvalidInputError.unknown_name(f"{place}there is no option {error.option_name}; {hint}")
    if message.startswith("No such command"):
        name = message.split("'")[1]
        hint = did_you_mean(name, ctx.command.commands) or f"expected one of {', '.join(ctx.command.commands)}"
        return InvalidInputError.unknown_name(f"{place}there is no command {name!r}; {hint}")
    if message.startswith("Got unexpected extra argument"):
        message = f"found {message.rpartition('(')[2].rstrip(')')!r}, more than it takes"
    return InvalidInputError.malformed(f"{place}{message}; {see}")


class _Command(TyperCommand):
    """A command. Mistakes name its options as they are typed, or the file or the variable that they come from."""

    def get_params(self, ctx: Any) -> list[Any]:
        return _prepared(super().get_params(ctx))

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        refuse_repeated(ctx, args)
        try:
            rest = super().parse_args(ctx, args)
            if not ctx.resilient_parsing:
                check_defaults(ctx)
            return rest
        except UsageError as error:
            raise _in_a_line(error, ctx) from error

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except ClinometerError as error:
            error.args = (error.in_words_of(words_for(ctx)),)
            raise


class _Commands(TyperGroup):
    """All commands. Ctrl-C ends in a line: Typer's own answer has no word."""

    def get_params(self, ctx: Any) -> list[Any]:
        return _prepared(super().get_params(ctx))

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if not args and self.no_args_is_help and not ctx.resilient_parsing:
            typer.echo(ctx.get_help())  # Typer's own way, without its boxes, is to take it for a mistake
            ctx.exit(2)
        refuse_repeated(ctx, args)
        try:
            return super().parse_args(ctx, args)
        except UsageError as error:
            raise _in_a_line(error, ctx) from error

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except UsageError as error:
            raise _in_a_line(error, ctx) from error
        except KeyboardInterrupt:
            goes_on = " The same command goes on from here." if ctx.invoked_subcommand in RESUMED else ""
            typer.echo(f"clinometer: stopped.{goes_on}", err=True)
            raise typer.Exit(130) from None


app = typer.Typer(
    name="clinometer",
    cls=_Commands,
    help="Measure how far a text-to-image model leans.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich" if IN_BOXES else None,
    context_settings={"help_option_names": ["-h", "--help"], "auto_envvar_prefix": "CLINOMETER"},
)

COMMANDS: Final[dict[str, Callable[..., None]]] = {
    "audit": audit, "register": register,
    "score": score, "trace": trace, "report": report, "verify": verify, "compare": compare,
    "gate": gate, "card": card, "export": export, "push": push, "import": import_, "classify": classify, "read": read,
    "questions": questions, "test": association_test,
    "plan": plan, "suites": suites, "models": models, "sweep": sweep, "reproduce": reproduce, "mitigate": mitigate,
    "serve": serve, "schema": schema, "config": config,
}  # fmt: skip
EXIT_CODES: Final = {
    0: "Success. For `gate`: every number is shown to be within its limits or, with `--allow-undecided`, none is shown "
    "to be outside.",
    1: "`gate`: a number is shown to be outside its limits, or to have changed from earlier runs. `verify "
    "--registration`: something is not as registered.",
    2: "A user error, explained in one or two lines on stderr; no command was given, and the help is printed; files of "
    "a run are not as they were written; or an audit of a sweep or a reproduction failed, and the others are finished.",
    3: "`gate`: undecided, because no number is shown to be outside its limits and not all are shown to be within; or "
    "there are too few earlier runs to show a change.",
    STATUS: "An internal error of clinometer, reported in two lines, with a file that contains the traceback.",
    130: "Stopped by Ctrl-C. A command that can resume continues when it is run again.",
}


VERBATIM: Final = {"allow_interspersed_args": False, "ignore_unknown_options": True}
"""What follows ``clinometer config COMMAND`` is that command's."""

_LINES: Final = (Path(__file__).parent / "examples.txt").read_text("utf-8").splitlines()
EXAMPLES: Final = {
    name: [line for line in _LINES if f"{line} ".startswith(f"clinometer {name} ")]
    for name in (*COMMANDS, *(f"ratings {name}" for name in RATINGS_COMMANDS))
}
"""The examples in the ``--help`` of each command; a test reads them as the command would."""

ratings = typer.Typer(help="Let people rate images, to compare with the machine's answers.", no_args_is_help=True)
for group, prefix, commands in ((app, "", COMMANDS), (ratings, "ratings ", RATINGS_COMMANDS)):
    for name, command in commands.items():
        group.command(
            name, cls=_Command, epilog="\n\n".join(["Examples:", *EXAMPLES[f"{prefix}{name}"]]),
            context_settings=VERBATIM if command is config else None,
        )(command if command is serve else with_common_options(command))  # fmt: skip
app.add_typer(ratings, name="ratings", cls=_Commands)


def _version(value: bool) -> None:
    if value:
        from importlib import metadata

        typer.echo(metadata.version("clinometer"))
        raise typer.Exit


@app.callback()
def _root(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and exit.")
    ] = False,
    debug: Annotated[
        bool, typer.Option("--debug", help=f"Show the traceback of any error; {VARIABLE}=1 does the same.")
    ] = False,
) -> None:
    context.obj = read_defaults(context.command)
    context.default_map = merge_defaults(context.obj)
