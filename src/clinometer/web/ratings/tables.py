"""What is kept of tasks and answers. No name, address or account of a rater is."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from sqlalchemy import (
    JSON,
    BigInteger,
    DateTime,
    ForeignKey,
    String,
    Text,
    UniqueConstraint,
    false,
    func,
    select,
)
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column, relationship
from sqlalchemy.types import TypeDecorator


class Moment(TypeDecorator[datetime]):
    """A moment in UTC; SQLite keeps no zone."""

    impl = DateTime(timezone=True)
    cache_ok = True

    def process_result_value(self, value: datetime | None, dialect: Any) -> datetime | None:
        """Say the zone."""
        return value.replace(tzinfo=UTC) if value is not None and value.tzinfo is None else value


def now() -> datetime:
    """The moment, in UTC."""
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
    """How often a table of an SQLite file was changed, and a sum over its rows: see :mod:`clinometer.web.seals`."""

    __tablename__ = "seals"

    name: Mapped[str] = mapped_column(String(32), primary_key=True)
    changes: Mapped[int] = mapped_column(BigInteger)
    total: Mapped[str] = mapped_column(String(32))
