"""Addresses that only who was given them knows. The database holds their hashes: reading it lets nobody in.

See decision 45.
"""

from __future__ import annotations

import hashlib
import secrets
from datetime import timedelta
from typing import Final

from sqlalchemy import ColumnElement, Select, func, or_, select
from sqlalchemy.orm import Session, joinedload

from clinometer.errors import RatingsError
from clinometer.web.ratings.tables import Answer, Invitation, Rater, Task, Turn, clock, now

BYTES = 24
HELD: Final = timedelta(hours=2)
"""How long places and pictures wait for a rater, from consent or the last answer on, by the database's clock."""


def new_token() -> str:
    """192 random bits, as an address can hold them."""
    return secrets.token_urlsafe(BYTES)


def hash_of(token: str) -> str:
    """What is kept of a token. It is random, so a plain hash cannot be searched for."""
    return hashlib.sha256(token.encode("utf-8", "replace")).hexdigest()


def invite(session: Session, task: Task, *, days: float = 30, raters_most: int = 0) -> str:
    """A new invitation to a task; returns its token, which is shown once.

    Raises
    ------
    RatingsError
        It would expire at once.
    """
    if not 0 < days <= 3650:
        raise RatingsError(f"days: expected a number above 0, at most 3650, found {days:g}")
    token = new_token()
    expires = now() + timedelta(days=days)
    session.add(Invitation(task_id=task.id, hash=hash_of(token), expires=expires, raters_most=raters_most))
    return token


def invitation_of(session: Session, token: str) -> Invitation | None:
    """The invitation of a token; None of an unknown one."""
    return session.scalar(select(Invitation).where(Invitation.hash == hash_of(token)))


def rater_of(session: Session, token: str) -> Rater | None:
    """The rater of a token; None of an unknown one."""
    query = select(Rater).where(Rater.hash == hash_of(token))
    return session.scalar(query.options(joinedload(Rater.task), joinedload(Rater.invitation)))


def refusal_of(session: Session, invitation: Invitation) -> str:
    """Why an invitation lets nobody in any more; empty where it does."""
    if invitation.revoked is not None:
        return "This invitation was withdrawn."
    if invitation.expires <= now():
        return "This invitation has expired."
    if invitation.task.closed is not None:
        return "This task is closed. Thank you for coming."
    takes_place = or_(is_here(session), _answers_of_rater().exists())
    raters = session.scalar(select(func.count()).where(Rater.invitation_id == invitation.id, takes_place)) or 0
    if invitation.raters_most and raters >= invitation.raters_most:
        return "As many people as were asked for have come. Thank you for coming."
    return ""


def is_here(session: Session) -> ColumnElement[bool]:
    """Tell raters who consented or answered within ``HELD`` from those for whom nothing waits any longer."""
    since = clock(session) - HELD
    return or_(Rater.consented > since, _answers_of_rater().where(Answer.given > since).exists())


def _answers_of_rater() -> Select[int]:
    """Select the answers of the rater that an outer query is about."""
    own = select(Answer.turn_id).join(Turn, Turn.id == Answer.turn_id).where(Turn.rater_id == Rater.id)
    return own.correlate(Rater)


def rater_refusal(rater: Rater) -> str:
    """Why a rater cannot go on; empty where they can."""
    if rater.withdrawn is not None:
        return "Your answers were withdrawn, and nothing of them is used."
    if rater.invitation.revoked is not None:
        return "This invitation was withdrawn."
    if rater.invitation.expires <= now():
        return "This invitation has expired."
    return "This task is closed. Thank you for your answers." if rater.task.closed is not None else ""
