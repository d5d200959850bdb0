"""Raters join, answer and undo. Each function is one transaction's work."""

from __future__ import annotations

import random
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Final

from sqlalchemy import case, func, insert, select
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.orm import Session, joinedload

from clinometer.web.ratings.links import hash_of, new_token
from clinometer.web.ratings.tables import Answer, Invitation, Item, Rater, Task, Turn, now

APART: Final = 5
"""Items at least that stand between an item and its repeat, where there are so many."""
LONGEST: Final = 3_600.0
"""Seconds beyond which somebody was away."""


@dataclass(frozen=True)
class RaterProgress:
    """Where a rater is: the turn that is next, None at the end, and how many are done of how many."""

    turn: Turn | None
    done: int
    total: int


def join(session: Session, invitation: Invitation) -> str | None:
    """Make a rater with an order of their own; returns the token to come back by, None where no item is left."""
    task = session.scalars(select(Task).where(Task.id == invitation.task_id).with_for_update()).one()
    rng = random.Random(secrets.token_bytes(16))
    items = _wanting(session, task, rng)
    if not items:
        return None
    token = new_token()
    rater = Rater(task_id=task.id, invitation_id=invitation.id, name=secrets.token_hex(6), hash=hash_of(token))
    session.add(rater)
    session.flush()
    checks = session.scalars(select(Item.id).where(Item.task_id == task.id, Item.attention != ""))
    order = _order([*items, *checks], round(task.repeats * len(items)), items, rng)
    turns = [
        {"rater_id": rater.id, "item_id": item, "place": place, "repeat": repeat}
        for place, (item, repeat) in enumerate(order, 1)
    ]
    session.execute(insert(Turn), turns)
    return token


def _wanting(session: Session, task: Task, rng: random.Random) -> list[int]:
    """Ids of items that want raters, those with fewest first, as many as one rater gets."""
    counted = (
        select(Turn.item_id, func.count())
        .join(Rater, Rater.id == Turn.rater_id)
        .where(Rater.task_id == task.id, Rater.withdrawn.is_(None), Turn.repeat.is_(False))
        .group_by(Turn.item_id)
    )
    rater_counts: dict[int, int] = {item: n for item, n in session.execute(counted)}
    rated = session.scalars(select(Item.id).where(Item.task_id == task.id, Item.attention == "").order_by(Item.id))
    items = [item for item in rated if rater_counts.get(item, 0) < task.raters_each]
    rng.shuffle(items)
    items.sort(key=lambda item: rater_counts.get(item, 0))
    return items[: task.items_each or None]


def _order(items: Sequence[int], repeats: int, repeatable: Sequence[int], rng: random.Random) -> list[tuple[int, bool]]:
    """All items at random, and some a second time, later."""
    order = [(item, False) for item in rng.sample(list(items), len(items))]
    for item in rng.sample(list(repeatable), min(repeats, len(repeatable))):
        first = order.index((item, False))
        order.insert(rng.randint(min(first + 1 + APART, len(order)), len(order)), (item, True))
    return order


def progress_of(session: Session, rater: Rater) -> RaterProgress:
    """Where a rater is: the first turn without an answer is next."""
    place, done, total = _counted(session, rater)
    return RaterProgress(turn_at(session, rater, place) if place is not None else None, done, total)


def next_place(session: Session, rater: Rater) -> int | None:
    """The place of the turn that is next; None at the end."""
    return _counted(session, rater)[0]


def _counted(session: Session, rater: Rater) -> tuple[int | None, int, int]:
    """The place that is next, how many turns are answered, and all."""
    waiting = case((Answer.turn_id.is_(None), Turn.place))
    counts = select(func.min(waiting), func.count(Answer.turn_id), func.count(Turn.id))
    row = session.execute(
        counts.select_from(Turn).outerjoin(Answer, Answer.turn_id == Turn.id).where(Turn.rater_id == rater.id)
    ).one()
    return row[0], row[1], row[2]


def turn_at(session: Session, rater: Rater, place: int) -> Turn | None:
    """A rater's own turn: those of others cannot be named."""
    query = select(Turn).where(Turn.rater_id == rater.id, Turn.place == place).options(joinedload(Turn.item))
    return session.scalar(query)


def record(session: Session, rater: Rater, place: int, answer: str, seconds: float | None) -> bool:
    """Keep an answer; the first of a turn counts, and a further one changes nothing. False of what cannot be one."""
    turn = session.scalar(select(Turn.id).where(Turn.rater_id == rater.id, Turn.place == place))
    names = {choice["name"] for choice in rater.task.answers}
    following = next_place(session, rater)
    if turn is None or answer not in names or (following is not None and place > following):
        return False
    into = postgresql.insert if session.get_bind().dialect.name == "postgresql" else sqlite.insert
    valid_seconds = seconds if seconds is not None and isfinite(seconds) and 0 <= seconds <= LONGEST else None
    values = into(Answer).values(turn_id=turn, answer=answer, seconds=valid_seconds, given=now())
    session.execute(values.on_conflict_do_nothing(index_elements=["turn_id"]))
    return True


def undo(session: Session, rater: Rater, place: int) -> None:
    """Take the last answer back, if it is still that of this turn: a double click takes back one."""
    last = session.execute(
        select(Answer, Turn.place)
        .join(Turn, Turn.id == Answer.turn_id)
        .where(Turn.rater_id == rater.id)
        .order_by(Turn.place.desc())
        .limit(1)
    ).first()
    if last is not None and last[1] == place:
        session.delete(last[0])
