"""``clinometer serve``, the viewer over runs, and ``clinometer ratings``: most of it needs the extra ``web``."""

from __future__ import annotations

import importlib.util
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from clinometer.cli.options import with_options
from clinometer.cli.tables import check_place, echo, print_json, write_table
from clinometer.errors import InvalidInputError, RatingsError, RunNotFoundError
from clinometer.pipeline.request import Argument, Option

if TYPE_CHECKING:
    from fastapi import FastAPI
    from sqlalchemy import Engine

    from clinometer.web.security import ServerSettings

DEFAULT_RUNS: Final = "runs"
NEEDED: Final = ("fastapi", "uvicorn", "multipart", "itsdangerous", "argon2", "limits", "sqlalchemy", "alembic")
"""Modules of the extra ``web``."""


DatabaseOption = Annotated[
    str,
    Option(
        "Database of ratings, as an SQLAlchemy URL such as "
        "postgresql+psycopg://USER@HOST/NAME. [default: ~/.local/share/clinometer/ratings.sqlite]",
    ),
]


@with_options()
def serve(
    runs: Annotated[
        list[str] | None,
        Argument(
            "Run directories, or folders that contain them; paths or URLs. [default: runs]", metavar="RUNS…", many=True
        ),
    ] = None,
    host: Annotated[str, Option("Address to listen on. Any other than this machine's own needs a password.")] = (
        "127.0.0.1"
    ),
    port: Annotated[int, Option("Port to listen on; 0 picks a free one.", least=0, most=65535)] = 8765,
    password_file: Annotated[
        Path | None,
        Option("A file whose first line is the organiser's password. [default: CLINOMETER_PASSWORD]"),
    ] = None,
    allowed_host: Annotated[
        list[str] | None,
        Option(
            "A host name that browsers may use for the server. Repeatable. [default: any, with a password]", many=True
        ),
    ] = None,
    behind_https: Annotated[
        bool,
        Option("A proxy on this machine handles HTTPS: send cookies over HTTPS only."),
    ] = False,
    database: DatabaseOption = "",
    demo: Annotated[bool, Option("Add an example rating task, with simulated raters of known skill.")] = False,
    cache: Annotated[Path | None, Option("Folder for indices and thumbnails. [default: ~/.cache/clinometer]")] = None,
    export: Annotated[
        Path | None,
        Option(
            "Write pictures and reports to a folder of pages that opens from disk or any web host, and exit.",
            metavar="DIR",
        ),
    ] = None,
) -> None:
    """Look at runs in a browser.

    Shows an index of the runs, their pictures side by side, trends and comparisons.
    """
    require_web("serve")
    from clinometer.runs import Directory
    from clinometer.web.database import default_cache, default_data, file_of, find_database
    from clinometer.web.security import ServerSettings, guarded, hosts_asked_for, kept_key, password_given

    places = tuple(runs or [DEFAULT_RUNS])
    for place in places:  # an index that stays empty would not say why
        directory = Directory(place)
        if directory.is_local and not Path(directory.root).is_dir():
            raise RunNotFoundError(
                f"{place}: no such directory; give a folder of runs, or make a run first: clinometer audit"
            )
    cache = cache or default_cache()
    if export is not None:
        from clinometer.web.explorer import write_site

        written = write_site(places, export, cache)
        typer.echo(f"{len(written)} pages: {export / 'index.html'}")
        print_json("files", of="serve --export", place=str(export), files=[str(export / name) for name in written])
        return
    # the password first: without one that is needed nothing is touched
    password_hash = guarded(host, password_given(password_file))
    found = find_database(database, default_data(), cache, default_cache())
    file = file_of(found)
    settings = ServerSettings(
        runs=places, cache=cache, database=found, host=host, port=port,
        password_hash=password_hash, hosts=hosts_asked_for(host, tuple(allowed_host or ())),
        behind_https=behind_https, session_key=kept_key(file.parent if file is not None else default_data()),
    )  # fmt: skip
    _listen(settings, demo=demo)


def require_web(command: str) -> None:
    """Refuse a command that needs the extra ``web`` where something of it is not installed."""
    lacking = next((name for name in NEEDED if importlib.util.find_spec(name) is None), None)
    if lacking is not None:
        raise InvalidInputError.lacks_package(lacking, "clinometer[web]", what=command)


def _listen(settings: ServerSettings, *, demo: bool) -> None:
    """Serve until Ctrl-C. The socket is opened first: a port that is taken is the user's to know."""
    from clinometer.web.app import create_app, server_over
    from clinometer.web.database import address_of

    app = create_app(settings)
    ratings = app.state.ratings
    has_ratings = ratings.is_there
    if has_ratings:
        ratings.engine.dispose()  # a database that does not answer is the user's to know
    if demo:
        _add_demo(app)
    listening = _socket(settings.host, settings.port)
    host = f"[{settings.host}]" if ":" in settings.host else settings.host
    address = f"http://{host}:{listening.getsockname()[1]}"
    n = len(app.state.runs.listed())
    typer.echo(f"{n} {'run' if n == 1 else 'runs'}: {address}  (Ctrl-C ends the server)")
    typer.echo(f"Pictures of the newest: {address}/explore" if n > 1 else f"Every run: {address}/runs")
    typer.echo(f"Ratings are kept in {address_of(settings.database)}{'' if has_ratings else ' (none yet)'}")
    server_over(app).run(sockets=[listening])
    ratings.close()


def _add_demo(app: FastAPI) -> None:
    from clinometer.web.ratings.raters import add_demo

    listed = (run for run in app.state.runs.listed() if not run.error)
    add_demo(app.state.ratings.engine, [app.state.runs.get(run.id).run for run in listed])


def _socket(host: str, port: int) -> socket.socket:
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        return socket.create_server((host, port), family=family, backlog=512)
    except OSError as error:
        raise InvalidInputError.failed(
            f"--host {host} --port {port}: cannot listen there: {error.strerror or error}; give another --port"
        ) from error


# --- tasks for people, their answers taken into a run, and out of it ------------------------------------------------


@with_options()
def import_(
    run: Annotated[str, Argument("The run whose images were rated.", metavar="RUN")],
    file: Annotated[
        Path,
        Argument(
            "A CSV file with the columns item, rater and answer, a CSV file from MTurk or Prolific, or JSON from "
            "Label Studio.",
            metavar="FILE",
        ),
    ],
    item_column: Annotated[str, Option("Column that names the item. [default: recognised by name]")] = "",
    rater_column: Annotated[str, Option("Column that names the rater. [default: recognised by name]")] = "",
    answer_column: Annotated[str, Option("Column that contains the answer. [default: recognised by name]")] = "",
    question: Annotated[str, Option("The question that the raters were asked.")] = "",
) -> None:
    """Import ratings made elsewhere into a run, and update its scores and report."""
    from clinometer.cli.console import print_report_place
    from clinometer.pipeline.results import score_answers_again, write_report
    from clinometer.ratings.importing import import_ratings
    from clinometer.runs import Run
    from clinometer.studies import rated_of

    opened = Run(run)
    columns = {"item": item_column, "rater": rater_column, "answer": answer_column}
    named = {key: name for key, name in columns.items() if name}
    with opened.directory.locked():
        counts = import_ratings(opened, rated_of(opened), file, named=named, question=question)
        if opened.is_scored:
            score_answers_again(opened)
            write_report(opened)
    echo(f"{run}: {counts.ratings} ratings of {counts.items} items by {counts.raters} raters.")
    if counts.missing:
        echo(f"{counts.missing} answers are missing in the file (nan, None or N/A) and do not count.")
    if opened.is_scored:
        print_report_place(opened)
    else:
        echo(f"It is not scored yet: clinometer score {opened.url}")
    row = {"run": run, "ratings": counts.ratings, "items": counts.items, "raters": counts.raters}
    print_json("tables", of="ratings import", tables={"taken": [row | {"scored": opened.is_scored}]})


@with_options()
def new(
    runs: Annotated[list[str], Argument("Runs whose images are shown.", metavar="RUN…", many=True)],
    question: Annotated[str, Option("The question to ask raters.")] = "Whom does the picture show?",
    title: Annotated[str, Option("Title of the task.")] = "What do these pictures show?",
    images: Annotated[
        int, Option("Images per concept, shown one at a time; 0 shows several of a concept at once.", least=0)
    ] = 10,
    pairs: Annotated[
        int,
        Option(
            "Instead of single images: how many pairs of images of two concepts to show, asking which is preferred.",
            least=0,
        ),
    ] = 0,
    shown: Annotated[
        int,
        Option(
            "With --images 0: how many images to show at once, drawn at random across the prompts.", least=1, most=100
        ),
    ] = 20,
    strata: Annotated[
        str,
        Option("How to stratify the random choice of images: by concept, by reading (the encoder's), or none."),
    ] = "concept",
    concept: Annotated[list[str] | None, Option("Only this concept. Repeatable. [default: all]", many=True)] = None,
    answer: Annotated[
        list[str] | None,
        Option(
            "An answer in addition to the groups. Repeatable. [default: neither (of two groups), cannot tell]",
            many=True,
        ),
    ] = None,
    raters: Annotated[int, Option("Raters per item.", least=1)] = 3,
    items: Annotated[int, Option("Maximum number of items per rater; 0 for all.", least=0)] = 0,
    repeats: Annotated[float, Option("Share of a rater's items to ask about twice.", least=0, most=1)] = 0.05,
    attention: Annotated[int, Option("Number of attention checks: images drawn for a named group.", least=0)] = 4,
    blur: Annotated[bool, Option("Blur pictures until the rater asks to see them.")] = False,
    warning: Annotated[str, Option("Content warning to show before raters begin.")] = "",
    consent: Annotated[Path | None, Option("A text file with what raters agree to. [default: a standard text]")] = None,
    days: Annotated[float, Option("Days until the invitation expires.")] = 30,
    seed: Annotated[int, Option("Seed that determines which images are chosen.")] = 0,
    url: Annotated[str, Option("URL at which raters reach clinometer serve.")] = "http://127.0.0.1:8765",
    database: DatabaseOption = "",
) -> None:
    """Make a rating task from runs, and print its invitation. Raters need a running clinometer serve."""
    require_web("ratings")
    from clinometer.runs import Run
    from clinometer.web.database import writing
    from clinometer.web.ratings.tasks import (
        CONSENT,
        OF_PAIRS,
        OTHER_ANSWERS,
        TaskSpec,
        answers_for,
        draw_from,
        invite,
        make_task,
    )

    opened = [Run(run) for run in runs]
    if pairs and answer:
        raise RatingsError.unsupported("--answer: pairs are answered by left, right or tie; leave --answer out")
    answers = OF_PAIRS if pairs else answers_for(opened, OTHER_ANSWERS if answer is None else answer)
    try:
        plain = CONSENT.replace("one at a time", "two at a time") if pairs else CONSENT
        agreed = plain if consent is None else consent.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not UTF-8"
        raise RatingsError.unreadable(f"--consent {consent}: cannot be read: {reason}") from error
    spec = TaskSpec(title, question, answers, raters, items, repeats, agreed, warning, blur)
    drawing = {"strata": strata, "concepts": concept or (), "attention": attention, "seed": seed, "shown": shown}
    drawn = draw_from(opened, images, pairs=pairs, **drawing)
    with ratings_database(database, is_new=True) as engine, writing(engine) as session:
        task = make_task(session, spec, drawn)
        token = invite(session, task, days=days)
    echo(f"Task {task.id}: {len(drawn)} items.")
    echo(f"Invitation, shown this once: {url.rstrip('/')}/join/{token}")
    row = {"task": task.id, "items": len(drawn), "invitation": f"{url.rstrip('/')}/join/{token}"}
    print_json("tables", of="ratings new", tables={"made": [row]})


@with_options()
def list_(database: DatabaseOption = "") -> None:
    """List the rating tasks, with their raters and answers."""
    require_web("ratings")
    from clinometer._messages import printable
    from clinometer.web.database import reading
    from clinometer.web.ratings.tasks import listed_tasks

    rows = []
    with ratings_database(database) as engine, reading(engine) as session:
        for listed in listed_tasks(session):
            task, state = listed.task, "closed" if listed.task.closed else "open"
            simulated = f", {listed.simulated_raters} simulated with {listed.simulated_answers} answers"
            echo(
                f"{task.id}  {state}  {listed.raters} raters, {listed.answers} answers"
                f"{simulated if listed.simulated_raters else ''}  {printable(task.title)}"
            )
            names = ("raters", "answers", "simulated_raters", "simulated_answers")
            row = {"task": task.id, "title": task.title, "state": state}
            rows.append(row | {name: getattr(listed, name) for name in names})
    print_json("tables", of="ratings list", tables={"tasks": rows})


TaskArgument = Annotated[str, Argument("The task, as clinometer ratings list names it.", metavar="TASK")]


@with_options()
def collect(
    task: TaskArgument,
    database: DatabaseOption = "",
) -> None:
    """Write a task's answers into its runs, and update their scores and reports."""
    require_web("ratings")
    from clinometer.web.ratings.tasks import export_task

    with ratings_database(database) as engine:
        exported = export_task(engine, task)
    for run, (answers, simulated) in exported.items():
        beside = f" and {simulated} of simulated raters, kept apart" if simulated else ""
        echo(f"{run}: {answers} answers{beside}, and scores and report made with them.")
    rows = [{"run": run, "answers": n, "simulated": simulated} for run, (n, simulated) in exported.items()]
    print_json("tables", of="ratings collect", tables={"collected": rows})


@with_options()
def remove(
    task: TaskArgument,
    rater: Annotated[str, Option("Remove only this rater's answers; name the rater as on the task's page.")] = "",
    simulated: Annotated[bool, Option("Remove only the answers of simulated raters.")] = False,
    yes: Annotated[bool, Option("Do not ask for confirmation.", short="-y")] = False,
    database: DatabaseOption = "",
) -> None:
    """Permanently remove a task, or a rater of it.

    Removes it from the database and from the runs that have its answers.
    """
    require_web("ratings")
    from clinometer._messages import printable
    from clinometer.web.ratings.tasks import counted, remove_answers

    with ratings_database(database) as engine:
        title, raters, answers, runs = counted(engine, task, rater=rater, simulated=simulated)
        whom = "simulated raters of " if simulated else f"rater {rater} of " if rater else ""
        echo(f"{whom}task {task} ({printable(title)}): {raters} raters, {answers} answers")
        for run in runs:
            echo(f"  and its answers in {run}")
        if not yes and not typer.confirm("Remove this for good?", err=True):
            raise RatingsError.refused("nothing was removed; give --yes to remove without being asked")
        removed = remove_answers(engine, task, rater=rater, simulated=simulated)
    for run, n in removed.items():
        echo(f"{run}: {'not there, so nothing was removed from it' if n is None else f'{n} answers removed'}")
    echo(f"Removed: {raters} raters, {answers} answers.")
    tables = {
        "removed": [{"raters": raters, "answers": answers}],
        "runs": [{"run": run, "answers": n} for run, n in removed.items()],
    }
    print_json("tables", of="ratings remove", tables=tables)


@with_options()
def repair(database: DatabaseOption = "") -> None:
    """Make a damaged database usable again, after saving a copy of it.

    What is lost stays lost.
    """
    require_web("ratings")
    from clinometer.web.database import reading, repair_database
    from clinometer.web.ratings.tasks import listed_tasks

    found = _locate_database(database)
    copy = repair_database(found)
    echo(f"A copy of the damaged database: {copy}")
    with ratings_database(found) as engine, reading(engine) as session:
        listed = listed_tasks(session)
    answers = sum(each.answers for each in listed)
    echo(f"It now holds {len(listed)} tasks and {answers} answers of people.")
    print_json(
        "tables", of="ratings repair", tables={"kept": [{"copy": str(copy), "tasks": len(listed), "answers": answers}]}
    )


@with_options()
def export(
    run: Annotated[str, Argument("A run with ratings.", metavar="RUN")],
    out: Annotated[Path, Option("The file to write: .csv, .json or .parquet.", short="-o")] = Path("ratings.csv"),
) -> None:
    """Write the ratings of a run as a table, one row per answer. Raters are pseudonyms."""
    from clinometer.ratings import ratings_of
    from clinometer.runs import Run

    check_place(out)
    table = ratings_of(Run(run))
    if table.empty:
        raise RatingsError.not_found(f"{run}: nobody has rated it; give: clinometer ratings import {run} FILE")
    write_table(table, out)
    print_json("files", of="ratings export", place=str(out), files=[str(out)])


@contextmanager
def ratings_database(url: str, *, is_new: bool = False) -> Iterator[Engine]:
    """Open the database that ``clinometer serve`` has, too, and close it; only making a task creates one."""
    from clinometer.web.database import address_of, is_kept, open_database

    found = _locate_database(url)
    if not is_new and not is_kept(found):
        raise RatingsError.not_found(
            f"{address_of(found)}: there is no database of ratings; name the one that is meant with --database, "
            "or make a task: clinometer ratings new RUN"
        )
    engine = open_database(found)
    try:
        yield engine
    finally:
        engine.dispose()


def _locate_database(url: str) -> str:
    from clinometer.web.database import default_cache, default_data, find_database

    return find_database(url, default_data(), default_cache())


RATINGS_COMMANDS: Final[dict[str, Callable[..., None]]] = {
    "import": import_, "new": new, "list": list_, "collect": collect, "remove": remove, "repair": repair,
    "export": export,
}  # fmt: skip
