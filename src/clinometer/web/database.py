"""The database of ratings: SQLite in a file by default, or PostgreSQL by URL; its schema is Alembic's.

An answer is on disk when its transaction ends. SQLite runs in WAL mode with ``synchronous=FULL``, so a commit is synced
before it returns; PostgreSQL's default does the same. See decision 57 for what was measured. No name, address or
account of a rater is kept.

SQLite reads its log up to the first damaged frame and takes the rest as never written, and it has no checksums of its
pages: answers that raters were told are saved could be gone, or altered, in silence. So each table has a row in
``seals``: how often its rows were changed, and a sum of hashes over them. Triggers keep it, within the transaction that
changes the rows. Beside the file lies another, FILE.seal, with the number of changes as of the last acknowledged
transaction: a file with fewer has lost some, or is an older copy. See decision 46.
"""

from __future__ import annotations

import hashlib
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

import sqlalchemy as sa
import sqlalchemy.exc
from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from alembic.util import CommandError
from filelock import FileLock
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column, relationship
from sqlalchemy.types import TypeDecorator

from clinometer._messages import named_in_a_line
from clinometer._secrets import masked_address
from clinometer.errors import RatingsError, RatingsPlaceWarning


class Moment(TypeDecorator[datetime]):
    """A moment in UTC; SQLite keeps no zone."""

    impl = sa.DateTime(timezone=True)
    cache_ok = True

    def process_result_value(self, value: datetime | None, dialect: Any) -> datetime | None:
        """Attach the UTC time zone."""
        return value.replace(tzinfo=UTC) if value is not None and value.tzinfo is None else value


def now() -> datetime:
    """Return the moment, in UTC."""
    return datetime.now(UTC)


def clock(session: Session) -> datetime:
    """Ask the database for the moment: servers that share one need not agree on the time."""
    moment: datetime = session.scalars(sa.select(sa.func.now())).one()
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


class Base(DeclarativeBase):
    """Every table."""


class Task(Base):
    """A question about some images, with the answers that can be chosen.

    ``answers`` is a list of {name, label}: the names are groups of the suite, or others such as "cannot tell".
    ``raters_each`` is wanted of every item, ``items_each`` the most that one rater gets, 0 for all.
    """

    __tablename__ = "tasks"

    id: Mapped[str] = mapped_column(sa.String(32), primary_key=True)
    title: Mapped[str] = mapped_column(sa.Text)
    question: Mapped[str] = mapped_column(sa.Text)
    consent: Mapped[str] = mapped_column(sa.Text)
    warning: Mapped[str] = mapped_column(sa.Text, default="")
    answers: Mapped[list[dict[str, str]]] = mapped_column(sa.JSON)
    raters_each: Mapped[int]
    items_each: Mapped[int] = mapped_column(default=0)
    repeats: Mapped[float] = mapped_column(default=0.0)
    created: Mapped[datetime] = mapped_column(Moment, default=now)
    closed: Mapped[datetime | None] = mapped_column(Moment, default=None)
    items: Mapped[list[Item]] = relationship(back_populates="task", cascade="all, delete-orphan")


class Item(Base):
    """An image, or several neutral images of a concept at once, of one run.

    ``attention`` is the known answer of an item that checks attention, empty for others. ``pictures`` are the samples
    that are shown at once; empty for a single image.
    """

    __tablename__ = "items"
    __table_args__ = (sa.UniqueConstraint("task_id", "run", "name"),)

    id: Mapped[int] = mapped_column(primary_key=True)
    task_id: Mapped[str] = mapped_column(sa.ForeignKey("tasks.id", ondelete="CASCADE"), index=True)
    run: Mapped[str] = mapped_column(sa.Text)
    name: Mapped[str] = mapped_column(sa.String(300))
    concept: Mapped[str] = mapped_column(sa.Text)
    stratum: Mapped[str] = mapped_column(sa.Text, default="")
    stratum_size: Mapped[int] = mapped_column(default=0)
    attention: Mapped[str] = mapped_column(sa.Text, default="")
    blurred: Mapped[bool] = mapped_column(default=False)
    pictures: Mapped[list[str]] = mapped_column(sa.JSON, default=list, server_default="[]")
    task: Mapped[Task] = relationship(back_populates="items")


class Invitation(Base):
    """A link that lets raters in. The link itself is not kept, its hash is."""

    __tablename__ = "invitations"

    id: Mapped[int] = mapped_column(primary_key=True)
    task_id: Mapped[str] = mapped_column(sa.ForeignKey("tasks.id", ondelete="CASCADE"), index=True)
    hash: Mapped[str] = mapped_column(sa.String(64), unique=True)
    created: Mapped[datetime] = mapped_column(Moment, default=now)
    expires: Mapped[datetime] = mapped_column(Moment)
    revoked: Mapped[datetime | None] = mapped_column(Moment, default=None)
    raters_most: Mapped[int] = mapped_column(default=0)
    task: Mapped[Task] = relationship()


class Rater(Base):
    """Somebody who consented. ``name`` is a pseudonym; ``hash`` is that of the address by which they come back.

    ``simulated`` marks raters that the demonstration made up: their answers are never counted among people's.
    """

    __tablename__ = "raters"
    __table_args__ = (sa.UniqueConstraint("task_id", "name"),)

    id: Mapped[int] = mapped_column(primary_key=True)
    task_id: Mapped[str] = mapped_column(sa.ForeignKey("tasks.id", ondelete="CASCADE"), index=True)
    invitation_id: Mapped[int] = mapped_column(sa.ForeignKey("invitations.id"))
    name: Mapped[str] = mapped_column(sa.String(32))
    hash: Mapped[str] = mapped_column(sa.String(64), unique=True)
    consented: Mapped[datetime] = mapped_column(Moment, default=sa.func.now())
    withdrawn: Mapped[datetime | None] = mapped_column(Moment, default=None)
    simulated: Mapped[bool] = mapped_column(default=False, server_default=sa.false())
    task: Mapped[Task] = relationship()
    invitation: Mapped[Invitation] = relationship()


class Turn(Base):
    """One item in a rater's order: shown at ``place``, from 1; a repeat is an item's second turn."""

    __tablename__ = "turns"
    __table_args__ = (sa.UniqueConstraint("rater_id", "place"), sa.UniqueConstraint("rater_id", "item_id", "repeat"))

    id: Mapped[int] = mapped_column(primary_key=True)
    rater_id: Mapped[int] = mapped_column(sa.ForeignKey("raters.id", ondelete="CASCADE"), index=True)
    item_id: Mapped[int] = mapped_column(sa.ForeignKey("items.id", ondelete="CASCADE"), index=True)
    place: Mapped[int]
    repeat: Mapped[bool] = mapped_column(default=False)
    item: Mapped[Item] = relationship()


class Answer(Base):
    """What was chosen at a turn: one answer each, the first."""

    __tablename__ = "answers"

    turn_id: Mapped[int] = mapped_column(sa.ForeignKey("turns.id", ondelete="CASCADE"), primary_key=True)
    answer: Mapped[str] = mapped_column(sa.Text)
    seconds: Mapped[float | None]
    given: Mapped[datetime] = mapped_column(Moment, default=sa.func.now())


class Seal(Base):
    """How often a table of an SQLite file was changed, and a sum over its rows: see decision 46."""

    __tablename__ = "seals"

    name: Mapped[str] = mapped_column(sa.String(32), primary_key=True)
    changes: Mapped[int] = mapped_column(sa.BigInteger)
    total: Mapped[str] = mapped_column(sa.String(32))


SEALED: Final[tuple[sa.Table, ...]] = tuple(t for t in Base.metadata.sorted_tables if t.name != Seal.__tablename__)
WAIT: Final = 30
"""Seconds that a writer waits for the others, and a process for another's lock."""
_MODULUS: Final = 1 << 128


def _sum(total: str, sign: int, *row: Any) -> str:
    """Add the hash of a row to a sum, or take it away."""
    hashed = hashlib.blake2b(repr(row).encode("utf-8", "backslashreplace"), digest_size=16).digest()
    return f"{(int(total, 16) + sign * int.from_bytes(hashed)) % _MODULUS:032x}"


def _triggers() -> Iterator[tuple[str, str]]:
    """Return the name and the SQL of each trigger."""
    for table in SEALED:
        old, new = (
            ", ".join([f"'{table.name}'", *(f"{age}.{c.name}" for c in table.columns)]) for age in ("OLD", "NEW")
        )
        for change, total in (
            ("INSERT", f"clinometer_sum(total, 1, {new})"),
            ("DELETE", f"clinometer_sum(total, -1, {old})"),
            ("UPDATE", f"clinometer_sum(clinometer_sum(total, -1, {old}), 1, {new})"),
        ):
            name = f"seal_{table.name}_{change.lower()}"
            counted = f"UPDATE seals SET changes = changes + 1, total = {total} WHERE name = '{table.name}'"
            yield name, f"CREATE TRIGGER {name} AFTER {change} ON {table.name} BEGIN {counted}; END"


def remove_triggers(connection: sa.Connection) -> None:
    """Allow changes of the tables without seals: they are about to be sealed again."""
    for name, _ in _triggers():
        connection.exec_driver_sql(f"DROP TRIGGER IF EXISTS {name}")


def seal(connection: sa.Connection) -> None:
    """Seal every table as it is."""
    remove_triggers(connection)
    changes = changes_of(connection)
    connection.execute(sa.delete(Seal))
    for table in SEALED:
        total = _total(connection, table)
        connection.execute(sa.insert(Seal).values(name=table.name, changes=1, total=total))
    connection.execute(sa.update(Seal).where(Seal.name == SEALED[0].name).values(changes=changes + 1))
    for _, sql in _triggers():
        connection.exec_driver_sql(sql)


def _total(connection: sa.Connection, table: sa.Table) -> str:
    # the driver's own values, as the triggers see them
    names = ", ".join(column.name for column in table.columns)
    total = f"{0:032x}"
    for row in connection.exec_driver_sql(f"SELECT {names} FROM {table.name}"):
        total = _sum(total, 1, table.name, *row)
    return total


def changes_of(connection: sa.Connection) -> int:
    """Count the changes that a file holds."""
    return int(connection.scalar(sa.select(sa.func.coalesce(sa.func.sum(Seal.changes), 0))) or 0)


def is_sealed(connection: sa.Connection) -> bool:
    """Return whether a file is of a version that seals it."""
    return sa.inspect(connection).has_table(Seal.__tablename__)


def damage_of(connection: sa.Connection, acknowledged: int) -> str:
    """Describe what is not as it was written; empty if everything is. All reads must be in one transaction."""
    integrity = connection.exec_driver_sql("PRAGMA integrity_check(1)").scalar()
    if integrity != "ok":
        return f"SQLite finds it damaged: {' '.join(str(integrity).split())[:200]}"
    totals = {row.name: row.total for row in connection.execute(sa.select(Seal.name, Seal.total))}
    altered = [table.name for table in SEALED if totals.get(table.name) != _total(connection, table)]
    if altered:
        return f"it does not hold what was written: {', '.join(altered)}"
    sql = "SELECT name, sql FROM sqlite_master WHERE type = 'trigger'"
    if {name: text for name, text in connection.exec_driver_sql(sql)} != dict(_triggers()):
        return "its triggers are not those that were written"
    changes = changes_of(connection)
    if changes < acknowledged:
        return (
            f"{acknowledged - changes:,} changes that were said to be saved are gone (an answer is one): its log was "
            "damaged, or an older copy was put here"
        )
    return ""


# --- the file beside it ----------------------------------------------------------------------------------------------


def seal_file(place: Path) -> Path:
    """Return the path of the file that records how many changes were acknowledged."""
    return place.with_name(f"{place.name}.seal")


def acknowledged(place: Path) -> int | None:
    """Read how many changes were acknowledged; 0 where nobody said, None where what was said is damaged."""
    try:
        content = seal_file(place).read_bytes()
    except FileNotFoundError:
        return 0
    number = content[:20]
    return int(number) if number.isdigit() and content == _line(int(number)) else None


def acknowledge(place: Path, changes: int, *, reset: bool = False) -> None:
    """Record on disk how many changes are safe; a higher number from another process stays, unless ``reset``."""
    with FileLock(f"{seal_file(place)}.lock", timeout=WAIT):
        if not reset and (acknowledged(place) or 0) >= changes:
            return
        file = os.open(seal_file(place), os.O_RDWR | os.O_CREAT, 0o600)
        try:
            os.write(file, _line(changes))
            os.fsync(file)
        finally:
            os.close(file)


def _line(changes: int) -> bytes:
    number = b"%020d" % changes
    return number + b" " + hashlib.sha256(number).hexdigest()[:16].encode() + b"\n"


def keep_log(place: Path) -> str:
    """Copy the log before SQLite, which no longer needs it, removes it. Return the path of the copy."""
    log, copy = (place.with_name(f"{place.name}-wal{ending}") for ending in ("", ".damaged"))
    if not log.exists() or not log.stat().st_size:
        return ""
    if not copy.exists():
        shutil.copy2(log, copy)
    return f" (a copy of the log: {copy.name})"


# --- Opening the database --------------------------------------------------------------------------------------------


FILE: Final = "ratings.sqlite"
CONNECTIONS: Final = 20
"""Connections to PostgreSQL that are kept: as many requests as that are worked on at a time."""
LOG_PAGES: Final = 32
"""Pages of SQLite's log, of 4 KB each, from which on a commit takes them into the file: some tens of answers."""
_WRITERS: Final[WeakKeyDictionary[sa.Engine, threading.Lock]] = WeakKeyDictionary()
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
        parsed = sa.make_url(url)
    except sa.exc.ArgumentError:
        return None
    is_file = parsed.get_backend_name() == "sqlite" and parsed.database not in (None, "", ":memory:")
    return Path(str(parsed.database)) if is_file else None


def is_kept(url: str) -> bool:
    """Return whether there is a database, or was one that must be missed: none is made by looking for it."""
    place = file_of(url)
    return place is None or place.exists() or seal_file(place).exists()


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
        if seal_file(old).exists():
            shutil.move(seal_file(old), seal_file(place))
    except (sqlite3.Error, OSError) as error:
        raise RatingsError.storage(
            f"{old}: the database of ratings lies in a cache and cannot be moved to {place}: {_in_a_line(error)}; end "
            f"what has it open, or give --database sqlite:///{old}"
        ) from error
    Path(f"{old}.lock").unlink(missing_ok=True)


def open_database(url: str, *, repair: bool = False) -> sa.Engine:
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
    except (
        sa.exc.ArgumentError,
        sa.exc.NoSuchModuleError,
        sa.exc.DatabaseError,
        OSError,
        ImportError,
        CommandError,
    ) as error:
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
        n = acknowledged(place)
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
    n = acknowledged(place)
    if not names and n:
        raise RatingsError.corrupt(
            f"{place}: the database of ratings held {n:,} changes and is empty; restore it from a copy, or delete "
            f"it and {seal_file(place).name} to start over"
        )
    if names and ("alembic_version" not in names or len(_OWN & set(names)) < 2):
        raise RatingsError.mismatch(
            f"{place}: it is a database of something else, with the tables {named_in_a_line(names, 100)}; nothing is "
            "added to it: name another with --database"
        )


def _open_file(engine: sa.Engine, place: Path, *, repair: bool) -> None:
    """Check the file before anything changes it, migrate its schema, and seal it where sealing is new."""
    known = acknowledged(place)
    with engine.execution_options(clinometer_reads=True).connect() as connection:
        # where migrations are to be run, or were by a newer version, running them says so
        revision = MigrationContext.configure(connection).get_current_revision()
        is_newest = revision == ScriptDirectory.from_config(_config(connection)).get_current_head()
        sealed = is_sealed(connection) and is_newest
        damage = damage_of(connection, known or 0) if sealed and not repair else ""
        if known is None and not repair:
            damage = damage or f"{seal_file(place).name} is damaged, so it cannot be told whether answers are lost"
        if damage:
            raise RatingsError.corrupt(
                f"{place}: {damage}{keep_log(place)}; restore it from a copy, or go on with what is there: "
                f"clinometer ratings repair --database sqlite:///{place}"
            )
    if sealed and not repair:
        return
    with engine.connect() as connection:
        remove_triggers(connection)
        if repair:
            connection.exec_driver_sql("REINDEX")
        _upgrade(connection, commit=False)
        seal(connection)
        changes = changes_of(connection)
        connection.commit()
    acknowledge(place, changes, reset=True)


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
    keep_log(place)
    open_database(url, repair=True).dispose()
    return str(copy)


@contextmanager
def writing(engine: sa.Engine) -> Iterator[Session]:
    """Open a transaction that writes: kept when the block ends, undone when it raises."""
    place = file_of(str(engine.url))
    # SQLite has one writer at a time, and has the others ask again and again: here they wait for each other
    is_sqlite = engine.dialect.name == "sqlite"
    turn: AbstractContextManager[Any] = _WRITERS.setdefault(engine, threading.Lock()) if is_sqlite else nullcontext()
    with _answering(engine):
        with turn, Session(engine, expire_on_commit=False) as session, session.begin():
            yield session
            session.flush()
            changes = changes_of(session.connection()) if place is not None else 0
        if place is not None:  # not within the turn: the next writer commits while this number is synced
            acknowledge(place, changes)


@contextmanager
def reading(engine: sa.Engine) -> Iterator[Session]:
    """Open a transaction that reads."""
    with _answering(engine), Session(engine.execution_options(clinometer_reads=True)) as session:
        yield session


@contextmanager
def _answering(engine: sa.Engine) -> Iterator[None]:
    """Name the database in errors that it raises: a damaged file, a full disk, a server that is gone.

    Raises
    ------
    RatingsError
        The message says which, and the way out.
    """
    try:
        yield
    except sa.exc.DatabaseError as error:
        if isinstance(
            error, sa.exc.IntegrityError | sa.exc.ProgrammingError | sa.exc.DataError
        ):  # that would be our own mistake
            raise
        raise RatingsError.failed(
            f"the database of ratings, {address_of(str(engine.url))}: {_in_a_line(error)}; fix that, restore "
            "it, or name another with --database"
        ) from error


def _in_a_line(error: Exception) -> str:
    return str(getattr(error, "orig", None) or error).strip().splitlines()[0]


def _engine(url: str) -> sa.Engine:
    if sa.make_url(url).get_backend_name() != "sqlite":
        return sa.create_engine(url, pool_pre_ping=True, pool_size=CONNECTIONS, max_overflow=0)
    engine = sa.create_engine(url, connect_args={"timeout": WAIT, "check_same_thread": False})
    sa.event.listen(engine, "connect", _durable)
    sa.event.listen(engine, "begin", _begin)
    return engine


def _durable(connection: Any, record: Any) -> None:
    """Sync each commit, let readers read meanwhile, and take the log into the file every few commits.

    The log is where a commit is lost with all that follow it; what is removed is overwritten.
    """
    connection.isolation_level = None  # SQLAlchemy begins transactions; the driver would begin them late
    connection.create_function("clinometer_sum", -1, _sum, deterministic=True)  # which the triggers call
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


def _config(connection: sa.Connection) -> Config:
    config = Config()
    config.set_main_option("script_location", str(_MIGRATIONS).replace("%", "%%"))
    config.attributes["connection"] = connection
    return config


def _upgrade(connection: sa.Connection, *, commit: bool = True) -> None:
    command.upgrade(_config(connection), "head")
    if commit:
        connection.commit()


def address_of(url: str) -> str:
    """Return the address of a database for messages: its file, or its URL without a password."""
    place = file_of(url)
    return masked_address(url) if place is None else str(place)
