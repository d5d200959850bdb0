"""All commands. Each imports what it needs when it runs, so that ``--help`` is instant."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, Final

import typer
from typer.core import TyperGroup

from clinometer.cli.audit import audit
from clinometer.cli.listing import models, plan, suites
from clinometer.cli.measuring import association_test, classify
from clinometer.cli.options import refuse_repeated
from clinometer.cli.ratings import ratings
from clinometer.cli.read import read
from clinometer.cli.runs import card, compare, export, gate, import_, report, score, verify
from clinometer.cli.serve import serve
from clinometer.cli.sweep import sweep
from clinometer.cli.unforeseen import RESUMED, VARIABLE
from clinometer.errors import ClinometerError


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
    "card": card, "export": export, "import": import_, "classify": classify, "read": read, "test": association_test,
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
