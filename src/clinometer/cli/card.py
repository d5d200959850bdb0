"""``clinometer card``: the part on bias of a model card."""

from __future__ import annotations

from typing import Annotated

import typer


def card(
    runs: Annotated[list[str], typer.Argument(metavar="RUN…", help="Finished runs of one model, of any suites.")],
    out: Annotated[
        str | None,
        typer.Option(
            "--out",
            "-o",
            help="A model card, such as README.md. One that is there keeps its text and metadata; only what this "
            "command wrote before is replaced. [default: print it]",
        ),
    ] = None,
    rows: Annotated[
        int, typer.Option(min=1, help="Verdicts of each run that are listed, the strongest; the others are counted.")
    ] = 20,
) -> None:
    """Write the part on bias of a model card: Markdown, and the results that the Hugging Face Hub reads."""
    from rich.console import Console

    from clinometer import api
    from clinometer.cli.words import plain_text

    text = api.model_card(*runs, out=out, rows=rows)
    if out is None:
        typer.echo(text, nl=False)
    else:
        Console(soft_wrap=True).print(f"Card: [bold]{plain_text(out)}[/]")
