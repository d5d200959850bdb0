"""Make, count and close tasks, export their answers into the runs of their images, and invite raters.

An invitation is an address that only its recipient knows. The database holds its hash: reading the database lets nobody
in. See decision 45.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final, Literal

import pandas as pd
from sqlalchemy import ColumnElement, Engine, Select, delete, func, or_, select
from sqlalchemy.orm import Session, joinedload

from clinometer._secrets import masked
from clinometer.errors import RatingsError, RunNotFoundError
from clinometer.pipeline.results import score_answers_again, write_report
from clinometer.ratings import DrawnItem, add_ratings, draw_items, draw_pairs, remove_ratings
from clinometer.runs import Run
from clinometer.studies import rated_of
from clinometer.web.database import Answer, Invitation, Item, Rater, Task, Turn, clock, now, reading, writing

OTHER_ANSWERS: Final = ("neither", "cannot tell")
OF_PAIRS: Final = (("left", "the left one"), ("right", "the right one"), ("tie", "neither more than the other"))
"""Answers to two pictures, with their labels."""
MOST_ANSWERS: Final = 9
"""Answers have the keys 1 to 9."""
CONSENT: Final = (
    "You will see pictures that a computer made, one at a time, and say what you see. Taking part is voluntary, and "
    "you can stop at any time. We keep your answers, how long each took, when it was given, and the order of your "
    "pictures, under a random name. We keep no name, no address and no account of yours. Your answers will be used to "
    "study whether image models show groups of people equally often, and may be published."
)


@dataclass(frozen=True)
class TaskSpec:
    """What a task is to be: see :class:`clinometer.web.database.Task`."""

    title: str
    question: str
    answers: tuple[tuple[str, str], ...]
    raters_each: int = 3
    items_each: int = 0
    repeats: float = 0.05
    consent: str = CONSENT
    warning: str = ""
    blur: bool = False

    def __post_init__(self) -> None:
        names = [name for name, _ in self.answers]
        if not 2 <= len(names) <= MOST_ANSWERS or len(set(names)) < len(names):
            raise RatingsError.out_of_range(
                f"answers: expected 2 to {MOST_ANSWERS} different ones, found {', '.join(names)}"
            )
        if self.raters_each < 1 or self.items_each < 0 or not 0 <= self.repeats <= 1:
            raise RatingsError.out_of_range(
                "raters, items, repeats: expected at least 1 rater, and repeats from 0 to 1"
            )
        if not self.question.strip():
            raise RatingsError.missing("question: expected what the raters are asked, found nothing")


def answers_for(runs: Sequence[Run], others: Sequence[str] = OTHER_ANSWERS) -> tuple[tuple[str, str], ...]:
    """Return the groups of the runs' suite, with their labels, and other answers; of three groups nothing is "neither".

    Raises
    ------
    RatingsError
        The runs compare other groups than each other.
    """
    pairs = {rated_of(run).groups for run in runs}
    if len(pairs) > 1:
        raise RatingsError.mismatch(
            f"expected suites that compare the same groups, found {sorted(pairs)}", field="runs"
        )
    suite, third = runs[0].suite, rated_of(runs[0]).third
    groups = [*pairs.pop(), *([third] if third else [])]
    if third and tuple(others) == OTHER_ANSWERS:
        others = [name for name in others if name != "neither"]
    return (*((name, suite.label_of(name)) for name in groups), *((name, name) for name in others))


def make_task(session: Session, spec: TaskSpec, items: Sequence[tuple[str, DrawnItem]]) -> Task:
    """Store a task with its items, each with the run it is from."""
    task = Task(
        id=secrets.token_hex(8),
        title=spec.title,
        question=spec.question,
        consent=spec.consent,
        warning=spec.warning,
        answers=[{"name": name, "label": label} for name, label in spec.answers],
        raters_each=spec.raters_each,
        items_each=spec.items_each,
        repeats=spec.repeats,
    )
    task.items = [
        Item(run=run, name=item.name, concept=item.concept, stratum=item.stratum, stratum_size=item.stratum_size,
             attention=item.attention, blurred=spec.blur or item.flagged, pictures=list(item.pictures))
        for run, item in items
    ]  # fmt: skip
    session.add(task)
    session.flush()
    return task


def draw_from(runs: Sequence[Run], images: int, *, pairs: int = 0, **drawing: Any) -> list[tuple[str, DrawnItem]]:
    """Draw the items of a task from several runs, each with the place of its run, as ``draw_items`` does of one.

    ``pairs`` : as many pairs of each run in place of single images, of ``concepts`` and by ``seed`` alone.
    """
    of_pairs = {name: drawing[name] for name in ("concepts", "seed") if name in drawing}
    return [
        (masked(run.directory.place), item)
        for run in runs
        for item in (
            draw_pairs(run, rated_of(run), pairs, **of_pairs)
            if pairs
            else draw_items(run, rated_of(run), images, **drawing)
        )
    ]


def task_of(session: Session, identifier: str) -> Task:
    """Return the task of an id.

    Raises
    ------
    RatingsError
        There is none.
    """
    task = session.get(Task, identifier)
    if task is None:
        raise RatingsError.not_found(f"there is no task {identifier!r}; the page of ratings lists all of them")
    return task


def blurred_of(session: Session, identifier: str) -> Literal["", "some", "all"]:
    """Return whether some of a task's items, or all of them, are shown blurred at first."""
    of_task = select(func.count()).where(Item.task_id == identifier)
    blurred = session.scalar(of_task.where(Item.blurred.is_(True))) or 0
    if not blurred:
        return ""
    return "all" if blurred == session.scalar(of_task) else "some"


def answers_of(session: Session, task: Task) -> pd.DataFrame:
    """Return every answer that counts, a row each, as a run keeps them, with the run and the concept beside."""
    columns = {
        "run": Item.run, "item": Item.name, "concept": Item.concept, "attention": Item.attention,
        "stratum": Item.stratum, "stratum_size": Item.stratum_size, "rater": Rater.name, "simulated": Rater.simulated,
        "order": Turn.place, "repeat": Turn.repeat, "answer": Answer.answer, "seconds": Answer.seconds,
        "time": Answer.given,
    }  # fmt: skip
    rows = session.execute(
        select(*columns.values())
        .join(Turn, Turn.item_id == Item.id)
        .join(Answer, Answer.turn_id == Turn.id)
        .join(Rater, Rater.id == Turn.rater_id)
        .where(Item.task_id == task.id, Rater.withdrawn.is_(None))
        .order_by(Rater.id, Turn.place)
    ).all()
    table = pd.DataFrame([tuple(row) for row in rows], columns=list(columns))
    table = table.astype({"repeat": bool, "simulated": bool})
    return table.assign(time=[moment.isoformat("T", "seconds") for moment in table.time], question=task.question)


def export_task(engine: Engine, identifier: str) -> dict[str, tuple[int, int]]:
    """Write a task's answers into its runs, and score and report them with these.

    Returns how many of people and of simulated raters went to each run. What the task left in a run before is replaced,
    so a rater who was withdrawn since is gone from there, too.

    Raises
    ------
    RatingsError, RunError
        There is no such task, or a run cannot be written.
    """
    with reading(engine) as session:
        task = task_of(session, identifier)
        table = answers_of(session, task)
        runs = list(dict.fromkeys(item.run for item in task.items))
    counts = {}
    for place in runs:
        run, answers = Run(place), table[table.run == place]
        with run.directory.locked():
            rows: Any = answers.drop(columns=["run", "concept"]).to_dict("records")
            add_ratings(run, _source(identifier), rows)
            _score(run)
        counts[place] = (int((~answers.simulated).sum()), int(answers.simulated.sum()))
    return counts


def _source(identifier: str) -> str:
    """Return the name of a task in the runs that hold its answers."""
    return f"task {identifier}"


def _score(run: Run) -> None:
    if run.is_scored:
        score_answers_again(run)
        write_report(run)


def counted(
    engine: Engine, identifier: str, *, rater: str = "", simulated: bool = False
) -> tuple[str, int, int, list[str]]:
    """Count what would be removed: a task's title, raters, answers, and the runs that its images are of.

    Raises
    ------
    RatingsError
        There is no such task, or no such rater of it.
    """
    with reading(engine) as session:
        task = task_of(session, identifier)
        raters = session.scalars(_chosen(task, rater, simulated=simulated)).all()
        if not raters and (rater or simulated):
            names = ", ".join(session.scalars(select(Rater.name).where(Rater.task_id == identifier)).all()[:8])
            raise RatingsError.not_found(
                f"task {identifier} has no {'simulated raters' if simulated else f'rater {rater!r}'}; "
                f"found {names or 'none'}"
            )
        of_raters = select(func.count(Answer.turn_id)).join(Turn).where(Turn.rater_id.in_([each.id for each in raters]))
        runs = list(dict.fromkeys(item.run for item in task.items))
        return task.title, len(raters), session.scalar(of_raters) or 0, runs


def _chosen(task: Task, rater: str, *, simulated: bool) -> Select[Rater]:
    query = select(Rater).where(Rater.task_id == task.id)
    query = query.where(Rater.name == rater) if rater else query
    return query.where(Rater.simulated) if simulated else query


def remove_answers(
    engine: Engine, identifier: str, *, rater: str = "", simulated: bool = False
) -> dict[str, int | None]:
    """Remove a task, or some of its raters, from its runs and then from the database.

    Returns how many answers each run held of them; None of a run that is not there.
    """
    removed: dict[str, int | None] = {}
    for place in counted(engine, identifier, rater=rater, simulated=simulated)[3]:
        try:
            run = Run(place)
            with run.directory.locked():
                removed[place] = remove_ratings(run, _source(identifier), rater=rater, simulated=simulated)
                if removed[place]:
                    _score(run)
        except RunNotFoundError:
            removed[place] = None
    with writing(engine) as session:
        task = task_of(session, identifier)
        for each in session.scalars(_chosen(task, rater, simulated=simulated)):
            session.delete(each)
        session.flush()
        if not rater and not simulated:
            session.execute(delete(Invitation).where(Invitation.task_id == identifier))
            session.execute(delete(Item).where(Item.task_id == identifier))
            session.execute(delete(Task).where(Task.id == identifier))
    return removed


@dataclass(frozen=True)
class ListedTask:
    """A task with its people and their answers, and beside these its simulated raters and theirs."""

    task: Task
    raters: int
    answers: int
    simulated_raters: int
    simulated_answers: int


def listed_tasks(session: Session) -> list[ListedTask]:
    """List every task, the newest first."""
    rows = session.execute(
        select(Rater.task_id, Rater.simulated, func.count(Rater.id.distinct()), func.count(Answer.turn_id))
        .outerjoin(Turn, Turn.rater_id == Rater.id)
        .outerjoin(Answer, Answer.turn_id == Turn.id)
        .where(Rater.withdrawn.is_(None))
        .group_by(Rater.task_id, Rater.simulated)
    )
    counts = {(task, is_simulated): (raters, answers) for task, is_simulated, raters, answers in rows}
    return [
        ListedTask(task, *counts.get((task.id, False), (0, 0)), *counts.get((task.id, True), (0, 0)))
        for task in session.scalars(select(Task).order_by(Task.created.desc()))
    ]


BYTES = 24
HELD: Final = timedelta(hours=2)
"""How long places and pictures wait for a rater, from consent or the last answer on, by the database's clock."""


def new_token() -> str:
    """Return 192 random bits in letters that an address can contain."""
    return secrets.token_urlsafe(BYTES)


def hash_of(token: str) -> str:
    """Return what is kept of a token. It is random, so a plain hash cannot be searched for."""
    return hashlib.sha256(token.encode("utf-8", "replace")).hexdigest()


def invite(session: Session, task: Task, *, days: float = 30, raters_most: int = 0) -> str:
    """Create an invitation to a task; return its token, which is shown once.

    Raises
    ------
    RatingsError
        It would expire at once.
    """
    if not 0 < days <= 3650:
        raise RatingsError.out_of_range(f"expected a number above 0, at most 3650, found {days:g}", field="days")
    token = new_token()
    expires = now() + timedelta(days=days)
    session.add(Invitation(task_id=task.id, hash=hash_of(token), expires=expires, raters_most=raters_most))
    return token


def invitation_of(session: Session, token: str) -> Invitation | None:
    """Return the invitation of a token; None of an unknown one."""
    return session.scalar(select(Invitation).where(Invitation.hash == hash_of(token)))


def rater_of(session: Session, token: str) -> Rater | None:
    """Return the rater of a token; None of an unknown one."""
    query = select(Rater).where(Rater.hash == hash_of(token))
    return session.scalar(query.options(joinedload(Rater.task), joinedload(Rater.invitation)))


def refusal_of(session: Session, invitation: Invitation) -> str:
    """Return why an invitation is no longer valid; empty if it is."""
    if invitation.revoked is not None:
        return "This invitation was withdrawn."
    if invitation.expires <= now():
        return "This invitation has expired."
    if invitation.task.closed is not None:
        return "This task is closed. Thank you for coming."
    takes_place = or_(is_here(session), _answers_of_rater().exists())
    raters = session.scalar(select(func.count()).where(Rater.invitation_id == invitation.id, takes_place)) or 0
    if invitation.raters_most and raters >= invitation.raters_most:
        return "Enough people have joined already. Thank you for coming."
    return ""


def is_here(session: Session) -> ColumnElement[bool]:
    """Separate raters who consented or answered within ``HELD`` from those for whom nothing waits any longer."""
    since = clock(session) - HELD
    return or_(Rater.consented > since, _answers_of_rater().where(Answer.given > since).exists())


def _answers_of_rater() -> Select[int]:
    """Select the answers of the rater that an outer query is about."""
    answers = select(Answer.turn_id).join(Turn, Turn.id == Answer.turn_id).where(Turn.rater_id == Rater.id)
    return answers.correlate(Rater)


def rater_refusal(rater: Rater) -> str:
    """Return why a rater cannot continue; empty if they can."""
    if rater.withdrawn is not None:
        return "Your answers were withdrawn and are not used."
    if rater.invitation.revoked is not None:
        return "This invitation was withdrawn."
    if rater.invitation.expires <= now():
        return "This invitation has expired."
    return "This task is closed. Thank you for your answers." if rater.task.closed is not None else ""
