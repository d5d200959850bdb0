"""Raters join, answer and undo, and what they see: consent, one item after the other, the end.

Nothing of the machine's answer is on any of their pages. Simulated raters of known skill do the same for a
demonstration. What is written is the work of one transaction each. See decision 45.
"""

from __future__ import annotations

import random
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from math import isfinite
from typing import Annotated, Final, TypeVar

from fastapi import APIRouter, Form, Path, Request, Response
from fastapi.responses import RedirectResponse
from sqlalchemy import Engine, case, func, insert, or_, select
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.orm import Session, joinedload
from starlette.exceptions import HTTPException

from clinometer.errors import RatingsError
from clinometer.ratings import readings_of
from clinometer.runs import Run
from clinometer.studies import rated_of
from clinometer.web.database import Answer, Invitation, Item, Rater, Task, Turn, reading, writing
from clinometer.web.pages import render
from clinometer.web.ratings import tasks
from clinometer.web.ratings.room import Room

router = APIRouter()

APART: Final = 5
"""Items at least that stand between an item and its repeat, where there are so many."""
LONGEST: Final = 3_600.0
"""Seconds beyond which somebody was away."""
NOTHING_LEFT: Final = "Every picture has as many answers as were asked for. Thank you for coming."
ALL_HELD: Final = (
    "Others are rating the remaining pictures. Those that they leave unanswered become free again after "
    f"{tasks.HELD // timedelta(hours=1)} hours: please come back then."
)


def join(session: Session, invitation: Invitation) -> tuple[str, str]:
    """Create a rater with an order of items of their own; return the token for coming back, or why no item is left."""
    task = session.scalars(select(Task).where(Task.id == invitation.task_id).with_for_update()).one()
    rng = random.Random(secrets.token_bytes(16))
    rated = list(session.scalars(select(Item.id).where(Item.task_id == task.id, Item.attention == "")))
    answered, taken = (_raters_of_items(session, task, held=held) for held in (False, True))
    items = [item for item in rated if taken.get(item, 0) < task.raters_each]
    if not items:
        is_full = all(answered.get(item, 0) >= task.raters_each for item in rated)
        return "", NOTHING_LEFT if is_full else ALL_HELD
    rng.shuffle(items)
    items = sorted(items, key=lambda item: taken.get(item, 0))[: task.items_each or None]
    token = tasks.new_token()
    rater = Rater(task_id=task.id, invitation_id=invitation.id, name=secrets.token_hex(6), hash=tasks.hash_of(token))
    session.add(rater)
    session.flush()
    checks = session.scalars(select(Item.id).where(Item.task_id == task.id, Item.attention != ""))
    # all of them at random, and some a second time, later
    shown = [*items, *checks]
    order = [(item, False) for item in rng.sample(shown, len(shown))]
    for item in rng.sample(items, min(round(task.repeats * len(items)), len(items))):
        first = order.index((item, False))
        order.insert(rng.randint(min(first + 1 + APART, len(order)), len(order)), (item, True))
    turns = [
        {"rater_id": rater.id, "item_id": item, "place": place, "repeat": repeat}
        for place, (item, repeat) in enumerate(order, 1)
    ]
    session.execute(insert(Turn), turns)
    return token, ""


def _raters_of_items(session: Session, task: Task, *, held: bool) -> dict[int, int]:
    """Count the people who answered each item; with ``held`` also those whose answer it waits for."""
    query = (
        select(Turn.item_id, func.count())
        .join(Rater, Rater.id == Turn.rater_id)
        .outerjoin(Answer, Answer.turn_id == Turn.id)
        .where(Rater.task_id == task.id, Rater.withdrawn.is_(None), ~Rater.simulated, ~Turn.repeat)
        .group_by(Turn.item_id)
    )
    is_answered = Answer.turn_id.is_not(None)
    here = select(Rater.id).where(Rater.task_id == task.id, tasks.is_here(session)) if held else None
    counts = is_answered if here is None else or_(is_answered, Turn.rater_id.in_(session.scalars(here).all()))
    return {item: n for item, n in session.execute(query.where(counts))}


def _count_turns(session: Session, rater: Rater) -> tuple[int | None, int, int]:
    """Return the place of the first turn without an answer (None at the end), how many have one, and all."""
    waiting = case((Answer.turn_id.is_(None), Turn.place))
    counts = select(func.min(waiting), func.count(Answer.turn_id), func.count(Turn.id))
    row = session.execute(
        counts.select_from(Turn).outerjoin(Answer, Answer.turn_id == Turn.id).where(Turn.rater_id == rater.id)
    ).one()
    return row[0], row[1], row[2]


def turn_at(session: Session, rater: Rater, place: int) -> Turn | None:
    """Return a rater's own turn: those of others cannot be named."""
    query = select(Turn).where(Turn.rater_id == rater.id, Turn.place == place).options(joinedload(Turn.item))
    return session.scalar(query)


def record(session: Session, rater: Rater, place: int, answer: str, seconds: float | None) -> bool:
    """Store an answer. The first one of a turn counts; later ones change nothing. False for an invalid answer."""
    turn = session.scalar(select(Turn.id).where(Turn.rater_id == rater.id, Turn.place == place))
    names = {choice["name"] for choice in rater.task.answers}
    following = _count_turns(session, rater)[0]
    if turn is None or answer not in names or (following is not None and place > following):
        return False
    into = postgresql.insert if session.get_bind().dialect.name == "postgresql" else sqlite.insert
    valid_seconds = seconds if seconds is not None and isfinite(seconds) and 0 <= seconds <= LONGEST else None
    values = into(Answer).values(turn_id=turn, answer=answer, seconds=valid_seconds, given=func.now())
    session.execute(values.on_conflict_do_nothing(index_elements=["turn_id"]))
    return True


def undo(session: Session, rater: Rater, place: int) -> None:
    """Undo the last answer, if it is still that of this turn: a double click undoes one."""
    last = session.execute(
        select(Answer, Turn.place)
        .join(Turn, Turn.id == Answer.turn_id)
        .where(Turn.rater_id == rater.id)
        .order_by(Turn.place.desc())
        .limit(1)
    ).first()
    if last is not None and last[1] == place:
        session.delete(last[0])


# --- pages -----------------------------------------------------------------------------------------------------------

Found = TypeVar("Found")
Token = Annotated[str, Path(pattern=r"^[0-9A-Za-z_-]{16,64}$")]
Place = Annotated[int, Form(ge=1, le=1_000_000)]
UNKNOWN = "This address does not belong to a task. Please ask whoever gave it to you for the right one."


def _room(request: Request) -> Room:
    room: Room = request.app.state.ratings
    return room


def _require_known(found: Found | None) -> Found:
    if found is None:
        raise HTTPException(404, UNKNOWN)
    return found


@router.get("/join/{token}")
def consent_page(request: Request, token: Token) -> Response:
    """Return what is asked and what is kept, before anything is shown."""
    with reading(_room(request).engine) as session:
        invitation = _require_known(tasks.invitation_of(session, token))
        refusal = tasks.refusal_of(session, invitation)
        if refusal:
            return _end(request, refusal, 403)
        _room(request).make_ready(invitation.task_id)
        blurred = tasks.blurred_of(session, invitation.task_id)
        return render(request, "ratings/consent.html", task=invitation.task, token=token, blurred=blurred)


@router.post("/join/{token}")
def consent(request: Request, token: Token) -> Response:
    """Create a rater, who consented, with an order of items."""
    with writing(_room(request).engine) as session:
        invitation = _require_known(tasks.invitation_of(session, token))
        refusal = tasks.refusal_of(session, invitation)
        token_of_rater, nothing_left = ("", "") if refusal else join(session, invitation)
    if refusal or nothing_left:
        return _end(request, refusal or nothing_left, 403 if refusal else 200)
    return RedirectResponse(f"/rate/{token_of_rater}", 303)


@dataclass(frozen=True)
class Progress:
    """Where a rater is: why they cannot go on; else the turn that is next, None at the end, and how many are done."""

    task: Task
    refusal: str = ""
    turn: Turn | None = None
    done: int = 0
    total: int = 0

    @classmethod
    def of(cls, session: Session, rater: Rater) -> Progress:
        """Look up where a rater is."""
        if refusal := tasks.rater_refusal(rater):
            return cls(rater.task, refusal)
        place, done, total = _count_turns(session, rater)
        return cls(rater.task, "", turn_at(session, rater, place) if place is not None else None, done, total)


@router.get("/rate/{token}")
def turn_page(request: Request, token: Token) -> Response:
    """Show the item that is next, or the end."""
    with reading(_room(request).engine) as session:
        progress = Progress.of(session, _require_known(tasks.rater_of(session, token)))
    return _turn_page(request, token, progress)


@router.post("/rate/{token}")
def answer(
    request: Request,
    token: Token,
    place: Place,
    answer: Annotated[str, Form(max_length=300)],
    seconds: Annotated[str, Form(max_length=30)] = "",
) -> Response:
    """Store an answer: it is on disk when the page says so. Sent twice, it counts once."""
    try:
        took = float(seconds)
    except ValueError:
        took = None
    with writing(_room(request).engine) as session:
        rater = _require_known(tasks.rater_of(session, token))
        if not tasks.rater_refusal(rater) and not record(session, rater, place, answer, took):
            raise HTTPException(400, "This answer does not belong to your picture. Open the page again.")
        progress = Progress.of(session, rater)
    return _next_page(request, token, progress)


@router.post("/rate/{token}/undo")
def take_back(request: Request, token: Token, place: Place) -> Response:
    """Undo the last answer."""
    with writing(_room(request).engine) as session:
        rater = _require_known(tasks.rater_of(session, token))
        if not tasks.rater_refusal(rater):
            undo(session, rater, place)
            session.flush()
        progress = Progress.of(session, rater)
    return _next_page(request, token, progress)


def _next_page(request: Request, token: str, progress: Progress) -> Response:
    """Return the next item: the page's script shows it at once, a browser without script is sent to its page."""
    if progress.refusal or _is_by_script(request):
        return _turn_page(request, token, progress)
    return RedirectResponse(f"/rate/{token}", 303)


def _turn_page(request: Request, token: str, progress: Progress) -> Response:
    """Return the page of a turn, or the part that the script exchanges; or why the rater has no turn."""
    if progress.refusal:
        return _end(request, progress.refusal, 403)
    pictures = len(_room(request).samples_of(progress.turn.item)) if progress.turn else 0
    template = "ratings/turn.html" if _is_by_script(request) else "ratings/rate.html"
    return render(request, template, task=progress.task, token=token, progress=progress, pictures=pictures)


def _is_by_script(request: Request) -> bool:
    return request.headers.get("X-Part") == "turn"


@router.get("/rate/{token}/picture/{place}/{order}")
def picture(request: Request, token: Token, place: int, order: int) -> Response:
    """Show a picture of one of the rater's own turns, up to the one that is next."""
    room = _room(request)
    with reading(room.engine) as session:
        rater = _require_known(tasks.rater_of(session, token))
        turn = turn_at(session, rater, place) if not tasks.rater_refusal(rater) else None
        following = _count_turns(session, rater)[0]
        if turn is None or (following is not None and place > following):
            raise HTTPException(404, "There is no such picture.")
        session.expunge_all()
    content = room.picture(turn.item, order)
    if content is None:
        raise HTTPException(404, "There is no such picture.")
    return Response(content, media_type="image/webp", headers={"Cache-Control": "private, max-age=3600"})


def _end(request: Request, message: str, status: int) -> Response:
    return render(request, "ratings/end.html", status, message=message)


# --- a demonstration -------------------------------------------------------------------------------------------------

TITLE: Final = "Demonstration: simulated raters"
SKILLS: Final = (0.98, 0.95, 0.9, 0.8, 0.6)
"""How often each rater answers as the encoder reads, or as an image was asked for."""
WANTED: Final = 3
"""People that each item wants: a visitor can rate, too."""


def add_demo(engine: Engine, runs: Sequence[Run]) -> str:
    """Create the demo task, once, from the first run that an encoder has read; return its id.

    Its raters are named by their skill and marked as simulated: nothing counts their answers among people's.

    Raises
    ------
    RatingsError
        There is no such run.
    """
    with writing(engine) as session:
        task_id = session.scalar(select(Task.id).where(Task.title == TITLE).with_for_update())
        if task_id is not None:
            return task_id
        run = next((run for run in runs if run.is_scored and readings_of(run, rated_of(run))), None)
        if run is None:
            raise RatingsError.too_few("--demo: no run that an encoder has read; make one first: clinometer audit")
        spec = tasks.TaskSpec(
            TITLE, "Whom does the picture show?", tasks.answers_for([run]), raters_each=WANTED, repeats=0.1
        )
        task = tasks.make_task(session, spec, tasks.draw_from([run], 4, strata="reading", attention=4))
        token = tasks.invite(session, task)
        session.flush()
        read, groups = readings_of(run, rated_of(run))["mean"], rated_of(run).groups
        truth = {name: groups[0] if reads else groups[1] for name, reads in read.items()}
        for order, skill in enumerate(SKILLS):
            # one simulated rater goes through the task
            rng = random.Random(order)
            invitation = tasks.invitation_of(session, token)
            rater_token, _ = join(session, invitation) if invitation is not None else ("", "")
            rater = tasks.rater_of(session, rater_token)
            assert rater is not None  # the task was just made
            rater.name, rater.simulated = f"skill-{skill:.0%}".rstrip("%"), True
            for turn in session.scalars(select(Turn).where(Turn.rater_id == rater.id).order_by(Turn.place)):
                right = turn.item.attention or truth[turn.item.name]
                wrong = groups[1] if right == groups[0] else groups[0]
                answer = right if rng.random() < skill else wrong
                record(session, rater, turn.place, answer, round(rng.lognormvariate(0.8, 0.4), 2))
        return task.id
