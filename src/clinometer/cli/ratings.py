"""``clinometer ratings``: tasks for people, their answers taken into a run, and out of it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from clinometer.runs import Run

ratings = typer.Typer(
    name="ratings", help="Have people rate images, and hold their answers against the machine's.", no_args_is_help=True
)

DatabaseOption = Annotated[
    str,
    typer.Option(
        "--database",
        help="Where clinometer serve keeps ratings: an SQLAlchemy URL such as postgresql+psycopg://HOST/NAME. "
        "[default: a file in the user's cache]",
    ),
]


@ratings.command("import")
def import_(
    run: Annotated[str, typer.Argument(metavar="RUN", help="The run whose images were rated.")],
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE", help="CSV of item, rater, answer; MTurk's or Prolific's CSV; Label Studio's JSON."
        ),
    ],
    item_column: Annotated[str, typer.Option(help="The column that names the item. [default: found by its name]")] = "",
    rater_column: Annotated[str, typer.Option(help="The rater's column. [default: found by its name]")] = "",
    answer_column: Annotated[str, typer.Option(help="The answer's column. [default: found by its name]")] = "",
    question: Annotated[str, typer.Option(help="What the raters were asked.")] = "",
) -> None:
    """Take ratings made elsewhere into a run, and score and report it with them."""
    from clinometer.runs import Run
    from clinometer.runs.ratings.importing import import_ratings

    opened = Run(run)
    columns = {"item": item_column, "rater": rater_column, "answer": answer_column}
    named = {key: name for key, name in columns.items() if name}
    with opened.directory.locked():
        found = import_ratings(opened, file, named=named, question=question)
        _score(opened)
    typer.echo(f"{run}: {found.ratings} ratings of {found.items} items by {found.raters} raters.")
    _say_scores(opened)


@ratings.command()
def export(
    run: Annotated[str, typer.Argument(metavar="RUN", help="A run with ratings.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="The file: .csv, .json or .parquet.")] = Path("ratings.csv"),
) -> None:
    """Write the ratings of a run as a table, a row an answer. Raters are pseudonyms."""
    from clinometer.cli.tables import check_place, write_table
    from clinometer.errors import RatingsError
    from clinometer.runs import Run
    from clinometer.runs.ratings import ratings_of

    check_place(out)
    held = ratings_of(Run(run))
    if held.empty:
        raise RatingsError(f"{run}: nobody has rated it; give: clinometer ratings import {run} FILE")
    write_table(held, out)


def _score(run: Run) -> None:
    """Scores and report, where the run was scored before."""
    from clinometer import report
    from clinometer.runs.ratings import rescore

    if run.is_scored:
        rescore(run)
        report.write(run)


def _say_scores(run: Run) -> None:
    from clinometer.cli.console import print_report_place

    if run.is_scored:
        print_report_place(run)
    else:
        typer.echo(f"It is not scored yet: clinometer score {run.url}")
