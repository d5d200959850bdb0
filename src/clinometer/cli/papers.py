"""``clinometer reproduce``: papers, each whole, and what that takes."""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from clinometer._messages import first_and_more
from clinometer.cli.options import (
    DeviceOption,
    EngineOption,
    ResamplesOption,
    RetryFailedOption,
    WorkersOption,
    given_options,
    option_of,
)
from clinometer.cli.tables import Console, plain_text, tell, text_table
from clinometer.errors import InvalidInputError
from clinometer.pipeline.request import RESAMPLES

if TYPE_CHECKING:
    from clinometer.papers.planning import Needs, RunNeeds
    from clinometer.papers.record import Reproduction


def reproduce(
    papers: Annotated[
        list[str],
        typer.Argument(metavar="PAPER…", help="mcas, internal-bias, xmcas, t2iat, downstream, prompting, or all."),
    ],
    out: Annotated[str, typer.Option("--out", "-o", help="The directory. What is finished in it is kept.")],
    model: Annotated[
        list[str] | None,
        typer.Option(
            "--model",
            "-m",
            help="As of audit; repeatable. On reference a paper is rehearsed, in words that the model knows. "
            "[default: reference]",
        ),
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Few images, and every page says so.")] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Load the models, say what it takes, and end. Draws nothing.")
    ] = False,
    encoder: Annotated[list[str] | None, option_of("encoder")] = None,
    seed: Annotated[int, typer.Option(min=0, help="Every image's noise follows from it.")] = 0,
    portraits: Annotated[str | None, option_of("portraits")] = None,
    pictures: Annotated[
        str | None,
        typer.Option(
            help="A folder of labelled pictures with pictures.csv, for the paper prompting, which draws none."
        ),
    ] = None,
    budget: Annotated[float | None, option_of("budget")] = None,
    resamples: ResamplesOption = RESAMPLES,
    device: DeviceOption = "auto",
    engine: EngineOption = "local",
    workers: WorkersOption = None,
    retry_failed: RetryFailedOption = False,
) -> None:
    """Reproduce papers: every run that one takes, and a page with its tables and figures beside what was measured."""
    from clinometer import api
    from clinometer.cli.console import LiveProgress
    from clinometer.papers.reproduction import require_finished

    models = model or ["reference"]
    if twice := next((name for place, name in enumerate(models) if name in models[:place]), None):
        raise InvalidInputError.duplicate(f"--model: found {twice} twice; leave one out")
    options = given_options(
        encoder=encoder, portraits=portraits, budget=budget, retry_failed=retry_failed or None
    ) | {"seed": seed, "resamples": resamples, "device": device}  # fmt: skip
    if dry_run:
        needs = api.plan_reproduction(papers, out, models=models, quick=quick, pictures=pictures, **options)
        print_needs(needs)
        tell(
            "tables",
            of="reproduce",
            tables={"runs": [_needs_row(each) for each in needs.runs]},
            remarks=lines_of(needs),
        )
        return
    with LiveProgress() as progress:
        done = api.reproduce(
            papers, out, models=models, quick=quick, pictures=pictures, engine=engine, workers=workers,
            progress=progress, show=print_needs, **options,
        )  # fmt: skip
    invitations = set_up_raters(done)
    print_pages(done, invitations)
    require_finished(done)


RATINGS: Final = "ratings.sqlite"


def set_up_raters(done: Reproduction) -> list[str]:
    """Make the rating tasks of the papers, once their runs are finished, and say how raters get to them.

    The database lies in the directory, with the runs whose pictures it shows; what is there already is left as it is.
    """
    asked = [(paper, task) for paper in done.papers if paper.raters for task in paper.raters.tasks]
    if not asked or not done.directory.is_local:
        return []
    from clinometer.cli.serve import ratings_database, require_web

    try:
        require_web("raters")
    except InvalidInputError as error:
        return [f"The paper asked people, too; no task is made for them: {error}"]
    from clinometer.runs import Run
    from clinometer.web.database import writing
    from clinometer.web.ratings.tasks import OTHER_ANSWERS, TaskSpec, answers_for, draw_from, invite, make_task

    place = done.directory.path(RATINGS)
    serve = f"clinometer serve {done.directory.shown} --database sqlite:///{place}"
    if done.directory.exists(RATINGS):
        return [
            f"Rating tasks are in {place}; open them: {serve}; then: clinometer ratings collect TASK, and this again"
        ]
    lines = []
    for paper, task in asked:
        assert paper.raters is not None
        for model in done.record.models:
            own = [
                run for run in done.planned if (run.paper, run.model) == (paper.name, model) and run.name in task.runs
            ]
            if any(done.status(run).status != "finished" for run in own):
                continue
            opened = [Run(run.place) for run in own]
            answers = answers_for(opened, OTHER_ANSWERS)
            spec = TaskSpec(f"{task.title}: {model}", paper.raters.question, answers, paper.raters.raters, repeats=0)
            drawn = draw_from(opened, 0, shown=paper.raters.shown, seed=done.record.seed)
            with ratings_database(f"sqlite:///{place}", is_new=True) as engine, writing(engine) as session:
                token = invite(session, made := make_task(session, spec, drawn))
                lines.append(f"Raters of {made.title}: http://127.0.0.1:8765/join/{token} (shown this once)")
    return [*lines, f"Open them: {serve}"] if lines else []


def print_needs(needs: Needs) -> None:
    """Print a row a run, then what it takes in all and what has to be brought."""
    console = Console()
    columns = ("run", "images", "drawn", "of another run", "evaluations", "hours", "GB")
    rows = [
        (
            f"{each.run.paper}, {each.run.name}, {each.run.model}",
            *(_whole(number) for number in (each.images, each.missing, each.shared, each.evaluations)),
            *(_decimal(number) for number in (each.seconds / 3600, each.bytes / 1e9)),
        )
        for each in needs.runs
        if not each.reason
    ]
    console.print(text_table("What it takes", columns, rows, left=columns[:1]))
    for line in lines_of(needs):
        console.print(plain_text(line))


def lines_of(needs: Needs) -> list[str]:
    """Say what it takes in all, what must be brought, and what cannot be had."""
    images, evaluations, seconds, size, cost = (
        needs.total(name) for name in ("missing", "evaluations", "seconds", "bytes", "cost")
    )
    hours = f"about {_decimal(seconds / 3600)} hours of drawing" if isfinite(seconds) else (
        "how long is not known before one picture is timed, without --dry-run"
    )  # fmt: skip
    disk = f", {_decimal(size / 1e9)} GB" if isfinite(size) else ""
    told = f"{_whole(evaluations)} evaluations of the network" if isfinite(evaluations) else (
        "evaluations that nobody can count, as a model names no steps"
    )  # fmt: skip
    paid = f" They cost {cost:,.2f}." if cost else ""
    lines = [f"{_whole(images)} images to draw, {told}, {hours}{disk}.{paid} Encoding and scoring come on top."]
    lines += [f"To be brought: {line}" for line in needs.brought]
    lost = [f"{each.run.name} of {each.run.model} ({each.reason})" for each in needs.runs if each.reason]
    return [*lines, *([f"Cannot be done, the others can: {first_and_more(lost, 5)}"] if lost else [])]


def _needs_row(each: RunNeeds) -> dict[str, Any]:
    names = ("images", "missing", "shared", "there", "evaluations", "seconds", "bytes", "cost", "reason")
    told = {"paper": each.run.paper, "run": each.run.name, "model": each.run.model, "place": each.run.place}
    return told | {name: getattr(each, name) for name in names}


def _whole(number: float) -> str:
    return f"{number:,.0f}" if isfinite(number) else "?"


def _decimal(number: float) -> str:
    return f"{number:.2g}" if isfinite(number) and number < 100 else f"{number:,.0f}" if isfinite(number) else "?"


def print_pages(done: Reproduction, raters: Sequence[str]) -> None:
    """Name the page of each paper, how raters get to their tasks, and the runs that failed."""
    console = Console(soft_wrap=True)
    for line in raters:
        console.print(plain_text(line))
    for name, page in done.pages.items():
        console.print(f"{name}: [bold]{plain_text(page)}[/]")
    for name, reason in done.failed.items():
        console.print(plain_text(f"{name} failed: {reason}"))
    failed = [f"{name}: {reason}" for name, reason in done.failed.items()]
    tell(
        "files", of="reproduce", place=done.directory.shown, files=list(done.pages.values()), remarks=[*raters, *failed]
    )
