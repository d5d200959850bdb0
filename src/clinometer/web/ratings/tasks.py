"""Tasks are made, counted, closed, and taken out into the runs that their images are of."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

import pandas as pd
from sqlalchemy import Engine, func, select
from sqlalchemy.orm import Session

from clinometer.errors import RatingsError
from clinometer.pipeline.reporting import write_report
from clinometer.runs import Run
from clinometer.runs.ratings import add_ratings, rescore
from clinometer.runs.ratings.sampling import DrawnItem
from clinometer.runs.ratings.scoring import compared_groups
from clinometer.web.database import reading
from clinometer.web.ratings.tables import Answer, Item, Rater, Task, Turn

OTHER_ANSWERS: Final = ("neither", "cannot tell")
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
    """What a task is to be: see :class:`clinometer.web.ratings.tables.Task`."""

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
            raise RatingsError(f"answers: expected 2 to {MOST_ANSWERS} different ones, found {', '.join(names)}")
        if self.raters_each < 1 or self.items_each < 0 or not 0 <= self.repeats <= 1:
            raise RatingsError("raters, items, repeats: expected at least 1 rater, and repeats from 0 to 1")
        if not self.question.strip():
            raise RatingsError("question: expected what the raters are asked, found nothing")


def answers_for(runs: Sequence[Run], others: Sequence[str] = OTHER_ANSWERS) -> tuple[tuple[str, str], ...]:
    """The groups of the runs' suite, with their labels, and other answers; of three groups nothing is "neither".

    Raises
    ------
    RatingsError
        The runs compare other groups than each other.
    """
    pairs = {compared_groups(run.suite) for run in runs}
    if len(pairs) > 1:
        raise RatingsError(f"runs: expected suites that compare the same groups, found {sorted(pairs)}")
    suite: Any = runs[0].suite
    third = getattr(getattr(suite, "axis", None), "third", None)
    groups = [*pairs.pop(), *([third] if third else [])]
    if third and tuple(others) == OTHER_ANSWERS:
        others = [name for name in others if name != "neither"]
    return (*((name, suite.label_of(name)) for name in groups), *((name, name) for name in others))


def make_task(session: Session, spec: TaskSpec, items: Sequence[tuple[str, DrawnItem]]) -> Task:
    """Keep a task with its items, each with the run that it is of."""
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
             attention=item.attention, blurred=spec.blur or item.flagged)
        for run, item in items
    ]  # fmt: skip
    session.add(task)
    session.flush()
    return task


def task_of(session: Session, identifier: str) -> Task:
    """The task of an id.

    Raises
    ------
    RatingsError
        There is none.
    """
    task = session.get(Task, identifier)
    if task is None:
        raise RatingsError(f"there is no task {identifier!r}; the page of ratings lists all of them")
    return task


def blurred_of(session: Session, identifier: str) -> Literal["", "some", "all"]:
    """Whether some of a task's items, or all of them, are shown blurred at first."""
    of_task = select(func.count()).where(Item.task_id == identifier)
    blurred = session.scalar(of_task.where(Item.blurred.is_(True))) or 0
    if not blurred:
        return ""
    return "all" if blurred == session.scalar(of_task) else "some"


def answers_of(session: Session, task: Task) -> pd.DataFrame:
    """Every answer that counts, a row each, as a run keeps them, with the run and the concept beside."""
    columns = {
        "run": Item.run, "item": Item.name, "concept": Item.concept, "attention": Item.attention,
        "stratum": Item.stratum, "stratum_size": Item.stratum_size, "rater": Rater.name, "order": Turn.place,
        "repeat": Turn.repeat, "answer": Answer.answer, "seconds": Answer.seconds, "time": Answer.given,
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
    return table.assign(time=[moment.isoformat("T", "seconds") for moment in table.time], question=task.question)


def export_task(engine: Engine, identifier: str) -> dict[str, int]:
    """Write a task's answers into its runs, and score and report them with these. Returns how many went to each run.

    What the task left in a run before is replaced, so a rater who was withdrawn since is gone from there, too.

    Raises
    ------
    RatingsError, RunError
        There is no such task, or a run cannot be written.
    """
    with reading(engine) as session:
        task = task_of(session, identifier)
        table = answers_of(session, task)
        runs = list(dict.fromkeys(item.run for item in task.items))
    return {run: _export(Run(run), f"task {identifier}", table[table.run == run]) for run in runs}


def _export(run: Run, source: str, answers: pd.DataFrame) -> int:
    with run.directory.locked():
        add_ratings(run, source, answers.drop(columns=["run", "concept"]).to_dict("records"))  # type: ignore[arg-type]
        if run.is_scored:
            rescore(run)
            write_report(run)
    return len(answers)


def tasks_with_counts(session: Session) -> list[tuple[Task, int, int]]:
    """Every task, the newest first, with its raters and its answers."""
    raters = select(Rater.task_id, func.count().label("n")).where(Rater.withdrawn.is_(None)).group_by(Rater.task_id)
    answers = (
        select(Rater.task_id, func.count().label("n"))
        .join(Turn, Turn.rater_id == Rater.id)
        .join(Answer, Answer.turn_id == Turn.id)
        .where(Rater.withdrawn.is_(None))
        .group_by(Rater.task_id)
    )
    of_raters, of_answers = ({task: n for task, n in session.execute(query)} for query in (raters, answers))
    tasks = session.scalars(select(Task).order_by(Task.created.desc()))
    return [(task, of_raters.get(task.id, 0), of_answers.get(task.id, 0)) for task in tasks]
