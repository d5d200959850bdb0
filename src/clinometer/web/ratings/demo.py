"""A rating task to look at: on a run that is there, with simulated raters of known skill."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Final

from sqlalchemy import Engine, select
from sqlalchemy.orm import Session

from clinometer._secrets import masked
from clinometer.errors import RatingsError
from clinometer.runs import Run
from clinometer.runs.ratings.sampling import draw_items
from clinometer.runs.ratings.scoring import readings_of
from clinometer.studies import rated_of
from clinometer.web.database import writing
from clinometer.web.ratings import answers
from clinometer.web.ratings.links import invitation_of, invite, rater_of
from clinometer.web.ratings.tables import Task, Turn
from clinometer.web.ratings.tasks import TaskSpec, answers_for, make_task

TITLE: Final = "Demonstration: simulated raters"
SKILLS: Final = (0.98, 0.95, 0.9, 0.8, 0.6)
"""How often each rater answers as the encoder reads, or as an image was asked for."""
WANTED: Final = 3
"""People that each item wants: a visitor can rate, too."""


def add_demo(engine: Engine, runs: Sequence[Run]) -> str:
    """Make the task, once, of the first run that an encoder has read; returns its id.

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
            raise RatingsError("--demo: no run that an encoder has read; make one first: clinometer audit")
        return _make(session, run)


def _make(session: Session, run: Run) -> str:
    spec = TaskSpec(TITLE, "Whom does the picture show?", answers_for([run]), raters_each=WANTED, repeats=0.1)
    drawn = draw_items(run, rated_of(run), 4, strata="reading", attention=4)
    items = [(masked(run.directory.place), item) for item in drawn]
    task = make_task(session, spec, items)
    token = invite(session, task)
    session.flush()
    read, groups = readings_of(run, rated_of(run))["mean"], rated_of(run).groups
    truth = {name: groups[0] if reads else groups[1] for name, reads in read.items()}
    for order, skill in enumerate(SKILLS):
        _rate(session, token, skill, truth, groups, random.Random(order))
    return task.id


def _rate(
    session: Session, token: str, skill: float, truth: dict[str, str], groups: tuple[str, str], rng: random.Random
) -> None:
    """One simulated rater goes through the task."""
    invitation = invitation_of(session, token)
    own, _ = answers.join(session, invitation) if invitation is not None else ("", "")
    rater = rater_of(session, own)
    assert rater is not None  # the task was just made
    rater.name, rater.simulated = f"skill-{skill:.0%}".rstrip("%"), True
    for turn in session.scalars(select(Turn).where(Turn.rater_id == rater.id).order_by(Turn.place)):
        right = turn.item.attention or truth[turn.item.name]
        wrong = groups[1] if right == groups[0] else groups[0]
        answer = right if rng.random() < skill else wrong
        answers.record(session, rater, turn.place, answer, round(rng.lognormvariate(0.8, 0.4), 2))
