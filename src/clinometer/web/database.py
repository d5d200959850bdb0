"""The database that people write to: SQLite in a file by default, or PostgreSQL by URL; its schema is Alembic's.

An answer is on disk when its transaction ends. SQLite runs in WAL mode with ``synchronous=FULL``, so a commit is synced
before it returns; PostgreSQL's default does the same. What an SQLite file lost since is said when it is opened:
:mod:`clinometer.web.ratings.tables`. See decision 57 for what was measured.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
import threading
import warnings
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final
from weakref import WeakKeyDictionary

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from alembic.util import CommandError
from filelock import FileLock
from sqlalchemy import Connection, Engine, create_engine, event, make_url
from sqlalchemy.exc import (
    ArgumentError,
    DatabaseError,
    DataError,
    IntegrityError,
    NoSuchModuleError,
    ProgrammingError,
)
from sqlalchemy.orm import Session

from clinometer._messages import named_in_a_line
from clinometer._secrets import masked_address
from clinometer.errors import RatingsError, RatingsPlaceWarning
from clinometer.web.ratings import tables

FILE: Final = "ratings.sqlite"
WAIT: Final = 30
"""Seconds that a writer waits for the others."""
CONNECTIONS: Final = 20
"""Connections to PostgreSQL that are kept: as many requests as that are worked on at a time."""
LOG_PAGES: Final = 32
"""Pages of SQLite's log, of 4 KB each, from which on a commit takes them into the file: some tens of answers."""
_WRITERS: Final[WeakKeyDictionary[Engine, threading.Lock]] = WeakKeyDictionary()
_OWN: Final = frozenset({"tasks", "invitations", "items", "raters", "turns", "answers", "seals"})
_MIGRATIONS: Final = Path(__file__).parent / "migrations"


def default_cache() -> Path:
    """Return the user's own folder for caches, as XDG names it."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "clinometer"


def default_data() -> Path:
    """Return the user's own folder for data that nothing makes again, as XDG names it."""
    return Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local/share") / "clinometer"


def database_url(url: str, folder: Path) -> str:
    """Return the URL that was given, or that of a file in a folder."""
    return url or f"sqlite:///{folder / FILE}"


def file_of(url: str) -> Path | None:
    """Return the file of an SQLite database; None of another, and of one in memory."""
    try:
        parsed = make_url(url)
    except ArgumentError:
        return None
    is_file = parsed.get_backend_name() == "sqlite" and parsed.database not in (None, "", ":memory:")
    return Path(str(parsed.database)) if is_file else None


def is_kept(url: str) -> bool:
    """Return whether there is a database, or was one that must be missed: none is made by looking for it."""
    place = file_of(url)
    return place is None or place.exists() or tables.seal_file(place).exists()


def find_database(url: str, folder: Path, *former: Path) -> str:
    """Find the database of ratings: the one that was given, or a file in a folder of data.

    Earlier versions kept the file in a cache, which may be deleted at any time; from there it is moved.

    Raises
    ------
    RatingsError
        Another process has it open in its former place.

    Warns
    -----
    RatingsPlaceWarning
        It was moved, or another lies in a former place.
    """
    place = folder / FILE
    for old in (other / FILE for other in dict.fromkeys(former) if other != folder):
        if url or not old.is_file():
            continue
        if is_kept(f"sqlite:///{place}"):
            message = (
                f"{old}: a database of ratings that is not used; {place} is. Look at it with --database sqlite:///{old}"
            )
        else:
            _move(old, place)
            message = f"the database of ratings was moved from {old}, a cache, to {place}"
        warnings.warn(RatingsPlaceWarning(message), stacklevel=2)
    return database_url(url, folder)


def _move(old: Path, place: Path) -> None:
    """Merge the log into the file, which nobody else may have open, and move the file."""
    try:
        with closing(sqlite3.connect(old, isolation_level=None, timeout=1)) as connection:
            if connection.execute("PRAGMA journal_mode = DELETE").fetchone()[0] != "delete":
                raise sqlite3.OperationalError("database is locked")
        place.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        moving = place.with_name(f"{place.name}.moving")
        shutil.move(old, moving)
        moving.replace(place)
        if tables.seal_file(old).exists():
            shutil.move(tables.seal_file(old), tables.seal_file(place))
    except (sqlite3.Error, OSError) as error:
        raise RatingsError.storage(
            f"{old}: the database of ratings lies in a cache and cannot be moved to {place}: {_in_a_line(error)}; end "
            f"what has it open, or give --database sqlite:///{old}"
        ) from error
    Path(f"{old}.lock").unlink(missing_ok=True)


def open_database(url: str, *, repair: bool = False) -> Engine:
    """Connect, bring the schema up to date, and see whether all that was acknowledged is there.

    With ``repair``, what is there is taken for what should be.

    Raises
    ------
    RatingsError
        Not a database URL, or nothing answers there; or what was written is not there, or is not what was written.
    """
    masked_address(url)  # its password is known from here on
    place = file_of(url)
    try:
        if place is not None:
            _require_file(place)
            place.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        engine = _engine(url)
        if place is None:
            with engine.connect() as connection:
                _upgrade(connection)
        else:
            with FileLock(f"{place}.lock", timeout=WAIT):
                _open_file(engine, place, repair=repair)
    except (ArgumentError, NoSuchModuleError, DatabaseError, OSError, ImportError, CommandError) as error:
        reason = _in_a_line(error)
        raise RatingsError.unreadable(
            f"--database {address_of(url)}: {reason}; expected sqlite:///FILE or "
            "postgresql+psycopg://USER@HOST/NAME; restore a damaged file, or move it away"
        ) from error
    return engine


def _require_file(place: Path) -> None:
    """Raise if a file that was there is gone, or if the file belongs to another program.

    It is looked at before a connection of our own, whose log would change it.
    """
    if place.is_file():
        url = f"{place.resolve().as_uri()}?mode=ro"
        with suppress(sqlite3.Error), closing(sqlite3.connect(url, uri=True)) as opened:
            rows = opened.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
            _require_own(place, [name for (name,) in rows])
    if place.exists():
        return
    beside = [place.with_name(f"{place.name}{ending}") for ending in (".seal", "-wal")]
    there = [file for file in beside if file.exists()]
    if there:
        n = tables.acknowledged(place)
        changes = f" that held {n:,} changes" if n else ""
        raise RatingsError.not_found(
            f"{place}: the database of ratings{changes} is missing, and {there[0].name} is still there; bring it back, "
            f"name its new place with --database, or delete {' and '.join(file.name for file in there)} to start over"
        )


def _require_own(place: Path, names: Sequence[str]) -> None:
    """Raise if the file's tables are not those of ratings, or if it lost them all.

    Raises
    ------
    RatingsError
        It is so.
    """
    n = tables.acknowledged(place)
    if not names and n:
        raise RatingsError.corrupt(
            f"{place}: the database of ratings held {n:,} changes and is empty; restore it from a copy, or delete "
            f"it and {tables.seal_file(place).name} to start over"
        )
    if names and ("alembic_version" not in names or len(_OWN & set(names)) < 2):
        raise RatingsError.mismatch(
            f"{place}: it is a database of something else, with the tables {named_in_a_line(names, 100)}; nothing is "
            "added to it: name another with --database"
        )


def _open_file(engine: Engine, place: Path, *, repair: bool) -> None:
    """Check the file before anything changes it, migrate its schema, and seal it where sealing is new."""
    acknowledged = tables.acknowledged(place)
    with engine.execution_options(clinometer_reads=True).connect() as connection:
        # where migrations are to be run, or were by a newer version, running them says so
        revision = MigrationContext.configure(connection).get_current_revision()
        is_newest = revision == ScriptDirectory.from_config(_config(connection)).get_current_head()
        is_sealed = tables.is_sealed(connection) and is_newest
        damage = tables.damage_of(connection, acknowledged or 0) if is_sealed and not repair else ""
        if acknowledged is None and not repair:
            damage = (
                damage or f"{tables.seal_file(place).name} is damaged, so it cannot be told whether answers are lost"
            )
        if damage:
            raise RatingsError.corrupt(
                f"{place}: {damage}{tables.keep_log(place)}; restore it from a copy, or go on with what is there: "
                f"clinometer ratings repair --database sqlite:///{place}"
            )
    if is_sealed and not repair:
        return
    with engine.connect() as connection:
        tables.remove_triggers(connection)
        if repair:
            connection.exec_driver_sql("REINDEX")
        _upgrade(connection, commit=False)
        tables.seal(connection)
        changes = tables.changes_of(connection)
        connection.commit()
    tables.acknowledge(place, changes, reset=True)


def repair_database(url: str) -> str:
    """Accept a damaged SQLite file as it is, after making a copy. Return the path of the copy.

    Raises
    ------
    RatingsError
        It is no file, or SQLite cannot read it.
    """
    place = file_of(url)
    if place is None or not place.is_file():
        raise RatingsError.not_found(
            f"--database {address_of(url)}: expected the file of an SQLite database, found none"
        )
    copy = place.with_name(f"{place.name}.damaged-{datetime.now(UTC):%Y%m%dT%H%M%S}")
    shutil.copy2(place, copy)
    tables.keep_log(place)
    open_database(url, repair=True).dispose()
    return str(copy)


@contextmanager
def writing(engine: Engine) -> Iterator[Session]:
    """Open a transaction that writes: kept when the block ends, undone when it raises."""
    place = file_of(str(engine.url))
    # SQLite has one writer at a time, and has the others ask again and again: here they wait for each other
    is_sqlite = engine.dialect.name == "sqlite"
    turn: AbstractContextManager[Any] = _WRITERS.setdefault(engine, threading.Lock()) if is_sqlite else nullcontext()
    with _answering(engine):
        with turn, Session(engine, expire_on_commit=False) as session, session.begin():
            yield session
            session.flush()
            changes = tables.changes_of(session.connection()) if place is not None else 0
        if place is not None:  # not within the turn: the next writer commits while this number is synced
            tables.acknowledge(place, changes)


@contextmanager
def reading(engine: Engine) -> Iterator[Session]:
    """Open a transaction that reads."""
    with _answering(engine), Session(engine.execution_options(clinometer_reads=True)) as session:
        yield session


@contextmanager
def _answering(engine: Engine) -> Iterator[None]:
    """Name the database in errors that it raises: a damaged file, a full disk, a server that is gone.

    Raises
    ------
    RatingsError
        The message says which, and the way out.
    """
    try:
        yield
    except DatabaseError as error:
        if isinstance(error, IntegrityError | ProgrammingError | DataError):  # that would be our own mistake
            raise
        raise RatingsError.failed(
            f"the database of ratings, {address_of(str(engine.url))}: {_in_a_line(error)}; fix that, restore "
            "it, or name another with --database"
        ) from error


def _in_a_line(error: Exception) -> str:
    return str(getattr(error, "orig", None) or error).strip().splitlines()[0]


def _engine(url: str) -> Engine:
    if make_url(url).get_backend_name() != "sqlite":
        return create_engine(url, pool_pre_ping=True, pool_size=CONNECTIONS, max_overflow=0)
    engine = create_engine(url, connect_args={"timeout": WAIT, "check_same_thread": False})
    event.listen(engine, "connect", _durable)
    event.listen(engine, "begin", _begin)
    return engine


def _durable(connection: Any, record: Any) -> None:
    """Sync each commit, let readers read meanwhile, and take the log into the file every few commits.

    The log is where a commit is lost with all that follow it; what is removed is overwritten.
    """
    connection.isolation_level = None  # SQLAlchemy begins transactions; the driver would begin them late
    tables.register_sum(connection)
    for pragma in (
        "journal_mode = WAL",
        "synchronous = FULL",
        "foreign_keys = ON",
        f"wal_autocheckpoint = {LOG_PAGES}",
        "secure_delete = ON",
    ):
        connection.execute(f"PRAGMA {pragma}")


def _begin(connection: Any) -> None:
    """Take the lock at the beginning of a transaction that writes: one that read first could not wait for it."""
    reads = connection.get_execution_options().get("clinometer_reads", False)
    connection.exec_driver_sql("BEGIN" if reads else "BEGIN IMMEDIATE")


def _config(connection: Connection) -> Config:
    config = Config()
    config.set_main_option("script_location", str(_MIGRATIONS).replace("%", "%%"))
    config.attributes["connection"] = connection
    return config


def _upgrade(connection: Connection, *, commit: bool = True) -> None:
    command.upgrade(_config(connection), "head")
    if commit:
        connection.commit()


def address_of(url: str) -> str:
    """Return the address of a database for messages: its file, or its URL without a password."""
    place = file_of(url)
    return masked_address(url) if place is None else str(place)
