"""The database that people write to: SQLite in a file by default, or PostgreSQL by URL; its schema is Alembic's.

An answer is on disk when its transaction ends. SQLite runs in WAL mode with ``synchronous=FULL``, so a commit is synced
before it returns; PostgreSQL's default does the same. Answers that come at once share a commit.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Generic, TypeVar, cast
from weakref import WeakKeyDictionary

from alembic import command
from alembic.config import Config
from filelock import FileLock
from sqlalchemy import Engine, create_engine, event, make_url
from sqlalchemy.exc import (
    ArgumentError,
    DatabaseError,
    DataError,
    IntegrityError,
    NoSuchModuleError,
    ProgrammingError,
)
from sqlalchemy.orm import Session

from clinometer._secrets import masked_address
from clinometer.errors import RatingsError

Output = TypeVar("Output")

FILE: Final = "ratings.sqlite"
WAIT: Final = 30
"""Seconds that a writer waits for the others."""
CONNECTIONS: Final = 20
"""Connections to PostgreSQL that are kept: as many requests as that are worked on at a time."""
_WRITERS: Final[WeakKeyDictionary[Engine, threading.Lock]] = WeakKeyDictionary()
_MIGRATIONS: Final = Path(__file__).parent / "migrations"


def database_url(url: str, folder: Path) -> str:
    """The URL that was given, or that of a file in a folder."""
    return url or f"sqlite:///{folder / FILE}"


def open_database(url: str) -> Engine:
    """Connect, and bring the schema up to date.

    Raises
    ------
    RatingsError
        Not a database URL, or nothing answers there.
    """
    try:
        masked_address(url)  # its password is known from here on
        parsed = make_url(url)
        if parsed.get_backend_name() == "sqlite" and parsed.database:
            Path(parsed.database).parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        engine = _engine(url)
        _upgrade(engine)
    except (ArgumentError, NoSuchModuleError, DatabaseError, OSError, ImportError) as error:
        reason = _in_a_line(error)
        raise RatingsError(
            f"--database {url}: {reason}; expected sqlite:///FILE or postgresql+psycopg://USER@HOST/NAME; restore "
            "a damaged file, or move it away"
        ) from error
    return engine


@contextmanager
def writing(engine: Engine) -> Iterator[Session]:
    """A transaction that writes: kept when the block ends, undone when it raises."""
    with _answering(engine), _turn_of(engine), Session(engine, expire_on_commit=False) as session, session.begin():
        yield session


def _turn_of(engine: Engine) -> AbstractContextManager[Any]:
    """SQLite has one writer at a time, and has the others ask again and again: here they wait for each other."""
    return _WRITERS.setdefault(engine, threading.Lock()) if engine.dialect.name == "sqlite" else nullcontext()


class GroupCommit:
    """Writes of requests that come at once, in one transaction: a disk that syncs slowly then bounds no one's wait.

    Whoever gets the lock does the work of all who wait for it, each within a savepoint, and commits once. PostgreSQL
    writes at once and groups commits itself, so there each work is a transaction.
    """

    MOST: Final = 64
    """Works of a transaction."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._is_needed = engine.dialect.name == "sqlite"
        self._leads = threading.Lock()
        self._waiting: deque[_Work[Any]] = deque()

    def write(self, work: Callable[[Session], Output]) -> Output:
        """What the work returns, once that is on disk; it raises what the work raises, and nothing of it is kept."""
        if not self._is_needed:
            with writing(self._engine) as session:
                return work(session)
        own = _Work(work)
        self._waiting.append(own)
        while not own.is_over:
            with self._leads:
                if not own.is_over:
                    self._do_together()
        return own.outcome()

    def _do_together(self) -> None:
        works = [self._waiting.popleft() for _ in range(min(len(self._waiting), self.MOST))]
        try:
            with writing(self._engine) as session:
                for work in works:
                    work.do(session)
        except Exception as error:  # nothing of any is on disk, and each is told so
            for work in works:
                work.error = error
        finally:
            for work in works:
                work.is_over = True


@dataclass
class _Work(Generic[Output]):
    """What one request writes, and what became of it."""

    work: Callable[[Session], Output]
    output: Output | None = None
    error: Exception | None = None
    is_over: bool = False

    def do(self, session: Session) -> None:
        """Do it, or leave no trace of it."""
        try:
            with session.begin_nested():
                self.output = self.work(session)
        except Exception as error:
            self.error = error

    def outcome(self) -> Output:
        """What it returned; raises what it raised."""
        if self.error is not None:
            raise self.error
        return cast("Output", self.output)


@contextmanager
def reading(engine: Engine) -> Iterator[Session]:
    """A transaction that reads."""
    with _answering(engine), Session(engine.execution_options(clinometer_reads=True)) as session:
        yield session


@contextmanager
def _answering(engine: Engine) -> Iterator[None]:
    """Name the database where it does not answer: its file is damaged, its disk is full, its server is gone.

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
        raise RatingsError(
            f"the database of ratings, {engine.url}: {_in_a_line(error)}; mend that, restore "
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
