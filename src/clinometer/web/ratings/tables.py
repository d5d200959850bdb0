"""The tables of tasks and answers, and the seals that show what an SQLite file of them has lost.

No name, address or account of a rater is kept.

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
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from filelock import FileLock
from sqlalchemy import (
    JSON,
    BigInteger,
    Connection,
    DateTime,
    ForeignKey,
    String,
    Table,
    Text,
    UniqueConstraint,
    delete,
    false,
    func,
    insert,
    inspect,
    select,
    update,
)
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column, relationship
from sqlalchemy.types import TypeDecorator


class Moment(TypeDecorator[datetime]):
    """A moment in UTC; SQLite keeps no zone."""

    impl = DateTime(timezone=True)
    cache_ok = True

    def process_result_value(self, value: datetime | None, dialect: Any) -> datetime | None:
        """Attach the UTC time zone."""
        return value.replace(tzinfo=UTC) if value is not None and value.tzinfo is None else value


def now() -> datetime:
    """Return the moment, in UTC."""
    return datetime.now(UTC)


def clock(session: Session) -> datetime:
    """Ask the database for the moment: servers that share one need not agree on the time."""
    moment: datetime = session.scalars(select(func.now())).one()
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


class Base(DeclarativeBase):
    """Every table."""


class Task(Base):
    """A question about some images, with the answers that can be chosen.

    ``answers`` is a list of {name, label}: the names are groups of the suite, or others such as "cannot tell".
    ``raters_each`` is wanted of every item, ``items_each`` the most that one rater gets, 0 for all.
    """

    __tablename__ = "tasks"

    id: Mapped[str] = mapped_column(String(32), primary_key=True)
    title: Mapped[str] = mapped_column(Text)
    question: Mapped[str] = mapped_column(Text)
    consent: Mapped[str] = mapped_column(Text)
    warning: Mapped[str] = mapped_column(Text, default="")
    answers: Mapped[list[dict[str, str]]] = mapped_column(JSON)
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
    __table_args__ = (UniqueConstraint("task_id", "run", "name"),)

    id: Mapped[int] = mapped_column(primary_key=True)
    task_id: Mapped[str] = mapped_column(ForeignKey("tasks.id", ondelete="CASCADE"), index=True)
    run: Mapped[str] = mapped_column(Text)
    name: Mapped[str] = mapped_column(String(300))
    concept: Mapped[str] = mapped_column(Text)
    stratum: Mapped[str] = mapped_column(Text, default="")
    stratum_size: Mapped[int] = mapped_column(default=0)
    attention: Mapped[str] = mapped_column(Text, default="")
    blurred: Mapped[bool] = mapped_column(default=False)
    pictures: Mapped[list[str]] = mapped_column(JSON, default=list, server_default="[]")
    task: Mapped[Task] = relationship(back_populates="items")


class Invitation(Base):
    """A link that lets raters in. The link itself is not kept, its hash is."""

    __tablename__ = "invitations"

    id: Mapped[int] = mapped_column(primary_key=True)
    task_id: Mapped[str] = mapped_column(ForeignKey("tasks.id", ondelete="CASCADE"), index=True)
    hash: Mapped[str] = mapped_column(String(64), unique=True)
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
    __table_args__ = (UniqueConstraint("task_id", "name"),)

    id: Mapped[int] = mapped_column(primary_key=True)
    task_id: Mapped[str] = mapped_column(ForeignKey("tasks.id", ondelete="CASCADE"), index=True)
    invitation_id: Mapped[int] = mapped_column(ForeignKey("invitations.id"))
    name: Mapped[str] = mapped_column(String(32))
    hash: Mapped[str] = mapped_column(String(64), unique=True)
    consented: Mapped[datetime] = mapped_column(Moment, default=func.now())
    withdrawn: Mapped[datetime | None] = mapped_column(Moment, default=None)
    simulated: Mapped[bool] = mapped_column(default=False, server_default=false())
    task: Mapped[Task] = relationship()
    invitation: Mapped[Invitation] = relationship()


class Turn(Base):
    """One item in a rater's order: shown at ``place``, from 1; a repeat is an item's second turn."""

    __tablename__ = "turns"
    __table_args__ = (UniqueConstraint("rater_id", "place"), UniqueConstraint("rater_id", "item_id", "repeat"))

    id: Mapped[int] = mapped_column(primary_key=True)
    rater_id: Mapped[int] = mapped_column(ForeignKey("raters.id", ondelete="CASCADE"), index=True)
    item_id: Mapped[int] = mapped_column(ForeignKey("items.id", ondelete="CASCADE"), index=True)
    place: Mapped[int]
    repeat: Mapped[bool] = mapped_column(default=False)
    item: Mapped[Item] = relationship()


class Answer(Base):
    """What was chosen at a turn: one answer each, the first."""

    __tablename__ = "answers"

    turn_id: Mapped[int] = mapped_column(ForeignKey("turns.id", ondelete="CASCADE"), primary_key=True)
    answer: Mapped[str] = mapped_column(Text)
    seconds: Mapped[float | None]
    given: Mapped[datetime] = mapped_column(Moment, default=func.now())


class Seal(Base):
    """How often a table of an SQLite file was changed, and a sum over its rows: see decision 46."""

    __tablename__ = "seals"

    name: Mapped[str] = mapped_column(String(32), primary_key=True)
    changes: Mapped[int] = mapped_column(BigInteger)
    total: Mapped[str] = mapped_column(String(32))


SEALED: Final[tuple[Table, ...]] = tuple(t for t in Base.metadata.sorted_tables if t.name != Seal.__tablename__)
WAIT: Final = 30
"""Seconds that a process waits for another's lock."""
_MODULUS: Final = 1 << 128


def register_sum(connection: Any) -> None:
    """Register with SQLite the function that the triggers call."""
    connection.create_function("clinometer_sum", -1, _sum, deterministic=True)


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
        for event, total in (
            ("INSERT", f"clinometer_sum(total, 1, {new})"),
            ("DELETE", f"clinometer_sum(total, -1, {old})"),
            ("UPDATE", f"clinometer_sum(clinometer_sum(total, -1, {old}), 1, {new})"),
        ):
            name = f"seal_{table.name}_{event.lower()}"
            change = f"UPDATE seals SET changes = changes + 1, total = {total} WHERE name = '{table.name}'"
            yield name, f"CREATE TRIGGER {name} AFTER {event} ON {table.name} BEGIN {change}; END"


def remove_triggers(connection: Connection) -> None:
    """Allow changes of the tables without seals: they are about to be sealed again."""
    for name, _ in _triggers():
        connection.exec_driver_sql(f"DROP TRIGGER IF EXISTS {name}")


def seal(connection: Connection) -> None:
    """Seal every table as it is."""
    remove_triggers(connection)
    changes = changes_of(connection)
    connection.execute(delete(Seal))
    for table in SEALED:
        total = _total(connection, table)
        connection.execute(insert(Seal).values(name=table.name, changes=1, total=total))
    connection.execute(update(Seal).where(Seal.name == SEALED[0].name).values(changes=changes + 1))
    for _, sql in _triggers():
        connection.exec_driver_sql(sql)


def _total(connection: Connection, table: Table) -> str:
    # the driver's own values, as the triggers see them
    names = ", ".join(column.name for column in table.columns)
    total = f"{0:032x}"
    for row in connection.exec_driver_sql(f"SELECT {names} FROM {table.name}"):
        total = _sum(total, 1, table.name, *row)
    return total


def changes_of(connection: Connection) -> int:
    """Count the changes that a file holds."""
    return int(connection.scalar(select(func.coalesce(func.sum(Seal.changes), 0))) or 0)


def is_sealed(connection: Connection) -> bool:
    """Return whether a file is of a version that seals it."""
    return inspect(connection).has_table(Seal.__tablename__)


def damage_of(connection: Connection, acknowledged: int) -> str:
    """Describe what is not as it was written; empty if everything is. All reads must be in one transaction."""
    found = connection.exec_driver_sql("PRAGMA integrity_check(1)").scalar()
    if found != "ok":
        return f"SQLite finds it damaged: {' '.join(str(found).split())[:200]}"
    totals = {row.name: row.total for row in connection.execute(select(Seal.name, Seal.total))}
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
