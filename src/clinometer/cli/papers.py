"""``clinometer reproduce``: papers, each whole, and what that takes."""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite
from typing import TYPE_CHECKING, Annotated, Any, Final

from clinometer import api
from clinometer._messages import first_and_more
from clinometer.cli.options import given_options, with_options
from clinometer.cli.tables import Console, plain_text, print_json, text_table
from clinometer.errors import InvalidInputError
from clinometer.pipeline.options import Option
from clinometer.pipeline.request import AuditRequest

if TYPE_CHECKING:
    from clinometer.papers.planning import Needs
    from clinometer.papers.record import Reproduction

OF_RUNS: Final = AuditRequest.model_fields.keys() - {
    "encoder", "portraits", "budget", "resamples", "device", "engine", "workers", "retry_failed", "out",
}  # fmt: skip
"""Options of an audit that the papers themselves prescribe."""


@with_options(api.reproduce, api.audit, without=OF_RUNS)
def reproduce(
    papers: list[str],
    out: str,
    *,
    models: Sequence[str] = ("reference",),
    quick: bool = False,
    pictures: str | None = None,
    engine: str = "local",
    workers: int | None = None,
    dry_run: Annotated[
        bool,
        Option("Load the models, show what the reproduction would take, and exit. Draws nothing."),
    ] = False,
    seed: Annotated[int, Option("Seed from which every image's noise is derived.", least=0)] = 0,
    **options: Any,
) -> None:
    """Reproduce papers: make their runs, and compare the results."""
    from clinometer.cli.console import LiveProgress
    from clinometer.papers.reproduction import require_finished

    if twice := next((name for place, name in enumerate(models) if name in models[:place]), None):
        raise InvalidInputError.duplicate(f"--model: found {twice} twice; leave one out")
    options = given_options(**options, seed=seed)  # what is not asked for is not recorded
    if dry_run:
        needs = api.plan_reproduction(papers, out, models=models, quick=quick, pictures=pictures, **options)
        print_needs(needs)
        names = ("images", "missing", "shared", "there", "evaluations", "seconds", "bytes", "cost", "reason")
        rows = [
            {"paper": each.run.paper, "run": each.run.name, "model": each.run.model, "place": each.run.place}
            | {name: getattr(each, name) for name in names}
            for each in needs.runs
        ]
        print_json("tables", of="reproduce", tables={"runs": rows}, remarks=lines_of(needs))
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
    tasks = [(paper, task) for paper in done.papers if paper.raters for task in paper.raters.tasks]
    if not tasks or not done.directory.is_local:
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
    for paper, task in tasks:
        assert paper.raters is not None
        for model in done.record.models:
            runs = [
                run for run in done.planned if (run.paper, run.model) == (paper.name, model) and run.name in task.runs
            ]
            if any(done.status(run).status != "finished" for run in runs):
                continue
            opened = [Run(run.place) for run in runs]
            answers = answers_for(opened, OTHER_ANSWERS)
            spec = TaskSpec(f"{task.title}: {model}", paper.raters.question, answers, paper.raters.raters, repeats=0)
            drawn = draw_from(opened, 0, shown=paper.raters.shown, seed=done.record.seed)
            with ratings_database(f"sqlite:///{place}", is_new=True) as engine, writing(engine) as session:
                token = invite(session, stored := make_task(session, spec, drawn))
                lines.append(f"Raters of {stored.title}: http://127.0.0.1:8765/join/{token} (shown this once)")
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
    console.print_lines(lines_of(needs))


def lines_of(needs: Needs) -> list[str]:
    """Return what it takes in all, what must be brought, and what cannot be done, a line each."""
    images, evaluations, seconds, size, cost = (
        needs.total(name) for name in ("missing", "evaluations", "seconds", "bytes", "cost")
    )
    hours = f"about {_decimal(seconds / 3600)} hours of drawing" if isfinite(seconds) else (
        "the drawing time is not known before one picture is timed, without --dry-run"
    )  # fmt: skip
    disk = f", {_decimal(size / 1e9)} GB" if isfinite(size) else ""
    work = f"{_whole(evaluations)} evaluations of the network" if isfinite(evaluations) else (
        "an unknown number of evaluations, as a model names no steps"
    )  # fmt: skip
    price = f" They cost {cost:,.2f}." if cost else ""
    lines = [f"{_whole(images)} images to draw, {work}, {hours}{disk}.{price} Encoding and scoring are extra."]
    lines += [f"You need to provide: {line}" for line in needs.brought]
    lost = [f"{each.run.name} of {each.run.model} ({each.reason})" for each in needs.runs if each.reason]
    return [*lines, *([f"Not possible, unlike the others: {first_and_more(lost, 5)}"] if lost else [])]


def _whole(number: float) -> str:
    return f"{number:,.0f}" if isfinite(number) else "?"


def _decimal(number: float) -> str:
    return f"{number:.2g}" if isfinite(number) and number < 100 else f"{number:,.0f}" if isfinite(number) else "?"


def print_pages(done: Reproduction, raters: Sequence[str]) -> None:
    """Name the page of each paper, how raters get to their tasks, and the runs that failed."""
    console = Console(soft_wrap=True)
    console.print_lines(raters)
    for name, page in done.pages.items():
        console.print(f"{name}: [bold]{plain_text(page)}[/]")
    for name, reason in done.failed.items():
        console.print(plain_text(f"{name} failed: {reason}"))
    failed = [f"{name}: {reason}" for name, reason in done.failed.items()]
    print_json(
        "files", of="reproduce", place=done.directory.shown, files=list(done.pages.values()), remarks=[*raters, *failed]
    )
