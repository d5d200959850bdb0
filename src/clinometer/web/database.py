"""The database that people write to: SQLite in a file by default, or PostgreSQL by URL; its schema is Alembic's.

An answer is on disk when its transaction ends. SQLite runs in WAL mode with ``synchronous=FULL``, so a commit is synced
before it returns; PostgreSQL's default does the same.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from alembic import command
from alembic.config import Config
from filelock import FileLock
from sqlalchemy import Engine, create_engine, event, make_url
from sqlalchemy.exc import ArgumentError, DatabaseError, NoSuchModuleError
from sqlalchemy.orm import Session

from clinometer.errors import RatingsError

FILE: Final = "ratings.sqlite"
WAIT: Final = 30
"""Seconds that a writer waits for the others."""
_MIGRATIONS: Final = Path(__file__).parent / "migrations"


def database_url(given: str, folder: Path) -> str:
    """The URL that was given, or that of a file in a folder."""
    return given or f"sqlite:///{folder / FILE}"


def open_database(url: str) -> Engine:
    """Connect, and bring the schema up to date.

    Raises
    ------
    RatingsError
        The URL is none, or nothing answers there.
    """
    try:
        parsed = make_url(url)
        if parsed.get_backend_name() == "sqlite" and parsed.database:
            Path(parsed.database).parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        engine = _engine(url)
        _upgrade(engine)
    except (ArgumentError, NoSuchModuleError, DatabaseError, OSError, ImportError) as error:
        said = str(getattr(error, "orig", None) or error).strip().splitlines()[0]
        shown = _without_password(url)
        raise RatingsError(
            f"--database {shown}: {said}; expected sqlite:///FILE or postgresql+psycopg://USER@HOST/NAME"
        ) from error
    return engine


@contextmanager
def writing(engine: Engine) -> Iterator[Session]:
    """A transaction that writes: kept when the block ends, undone when it raises."""
    with Session(engine, expire_on_commit=False) as session, session.begin():
        yield session


@contextmanager
def reading(engine: Engine) -> Iterator[Session]:
    """A transaction that reads."""
    with Session(engine.execution_options(clinometer_reads=True)) as session:
        yield session


def _engine(url: str) -> Engine:
    if make_url(url).get_backend_name() != "sqlite":
        return create_engine(url, pool_pre_ping=True)
    engine = create_engine(url, connect_args={"timeout": WAIT, "check_same_thread": False})
    event.listen(engine, "connect", _durable)
    event.listen(engine, "begin", _begin)
    return engine


def _durable(connection: Any, record: Any) -> None:
    """Sync each commit, and let readers read meanwhile."""
    connection.isolation_level = None  # SQLAlchemy begins transactions; the driver would begin them late
    for pragma in ("journal_mode = WAL", "synchronous = FULL", "foreign_keys = ON"):
        connection.execute(f"PRAGMA {pragma}")


def _begin(connection: Any) -> None:
    """Writers take the lock at the beginning: one that read before it would write could not wait for it."""
    reads = connection.get_execution_options().get("clinometer_reads", False)
    connection.exec_driver_sql("BEGIN" if reads else "BEGIN IMMEDIATE")


def _upgrade(engine: Engine) -> None:
    config = Config()
    config.set_main_option("script_location", str(_MIGRATIONS).replace("%", "%%"))
    place = engine.url.database if engine.url.get_backend_name() == "sqlite" else None
    if place:
        with FileLock(f"{place}.lock", timeout=WAIT):
            _run_upgrade(engine, config)
    else:
        _run_upgrade(engine, config)


def _run_upgrade(engine: Engine, config: Config) -> None:
    with engine.connect() as connection:
        config.attributes["connection"] = connection
        command.upgrade(config, "head")
        connection.commit()


def _without_password(url: str) -> str:
    try:
        return make_url(url).render_as_string(hide_password=True)
    except ArgumentError:
        return url.partition("@")[2] or url
