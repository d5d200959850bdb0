"""``clinometer serve``: the viewer over run directories."""

from __future__ import annotations

import importlib.util
import socket
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from clinometer.errors import InvalidInputError, RunNotFoundError

if TYPE_CHECKING:
    from fastapi import FastAPI

    from clinometer.web.security import ServerSettings

DEFAULT_RUNS: Final = "runs"
NEEDED: Final = ("fastapi", "uvicorn", "multipart", "itsdangerous", "argon2", "limits", "sqlalchemy", "alembic")
"""Modules of the extra ``web``."""


def serve(
    runs: Annotated[
        list[str] | None,
        typer.Argument(metavar="RUNS…", help="Run directories, or folders of them; paths or URLs. [default: runs]"),
    ] = None,
    host: Annotated[str, typer.Option(help="Where it listens. Another than this machine needs a password.")] = (
        "127.0.0.1"
    ),
    port: Annotated[int, typer.Option(min=0, max=65535, help="0 takes one that is free.")] = 8765,
    password_file: Annotated[
        Path | None,
        typer.Option(help="A file whose first line is the organiser's password. [default: CLINOMETER_PASSWORD]"),
    ] = None,
    allowed_host: Annotated[
        list[str] | None,
        typer.Option(help="A name that browsers may call the server by. Repeatable. [default: any, with a password]"),
    ] = None,
    behind_https: Annotated[
        bool, typer.Option("--behind-https", help="A proxy on this machine speaks HTTPS: cookies are for HTTPS alone.")
    ] = False,
    database: Annotated[
        str,
        typer.Option(
            help="Where ratings are kept: postgresql+psycopg://USER@HOST/NAME. "
            "[default: ~/.local/share/clinometer/ratings.sqlite]"
        ),
    ] = "",
    demo: Annotated[
        bool, typer.Option("--demo", help="Add a rating task with simulated raters of known skill, to look at.")
    ] = False,
    cache: Annotated[
        Path | None, typer.Option(help="A folder for indices and small pictures. [default: ~/.cache/clinometer]")
    ] = None,
) -> None:
    """Look at runs in a browser: an index, their pictures side by side, trends, comparisons."""
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
    # the password first: without one that is needed nothing is touched
    password_hash = guarded(host, password_given(password_file))
    found = find_database(database, default_data(), cache or default_cache(), default_cache())
    file = file_of(found)
    settings = ServerSettings(
        runs=places, cache=cache or default_cache(), database=found, host=host, port=port,
        password_hash=password_hash, hosts=hosts_asked_for(host, tuple(allowed_host or ())),
        behind_https=behind_https, session_key=kept_key(file.parent if file is not None else default_data()),
    )  # fmt: skip
    _listen(settings, demo=demo)


def require_web(command: str) -> None:
    """Refuse a command that needs the extra ``web`` where something of it is not installed."""
    lacking = next((name for name in NEEDED if importlib.util.find_spec(name) is None), None)
    if lacking is not None:
        raise InvalidInputError(f"{command}: {lacking} is not installed; give: pip install 'clinometer[web]'")


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
        raise InvalidInputError(
            f"--host {host} --port {port}: cannot listen there: {error.strerror or error}; give another --port"
        ) from error
