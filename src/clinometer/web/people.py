"""What people say of single pictures, beside what the encoder reads; and of a run, the report's section on people.

Answers come from the run, and from the tasks of this server, which the run may not hold yet.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from fastapi import APIRouter, Request, Response
from markupsafe import Markup
from sqlalchemy import func, select

from clinometer import api
from clinometer._secrets import masked
from clinometer.report.html import environment
from clinometer.report.page import View
from clinometer.report.sections import HUMAN
from clinometer.report.sections import people as section
from clinometer.runs.ratings import pooled
from clinometer.runs.ratings.store import has_ratings, ratings_of
from clinometer.web.database import reading
from clinometer.web.pages import render
from clinometer.web.pictures import Identifier
from clinometer.web.ratings.room import Room
from clinometer.web.ratings.tables import Answer, Item, Rater, Turn
from clinometer.web.runs_index import RunEntry

router = APIRouter()


@dataclass(frozen=True)
class Vote:
    """What people said of one picture.

    Attributes
    ----------
    answer : what most of them said; empty where two answers tie.
    counts : how many gave each answer, the most frequent first.
    is_simulated : whether simulated raters said it, and no person anything.
    """

    answer: str
    counts: tuple[tuple[str, int], ...]
    is_simulated: bool = False

    @property
    def voters(self) -> str:
        """Name those who said it."""
        return "simulated raters" if self.is_simulated else "people"

    @property
    def raters(self) -> int:
        """How many people said something."""
        return sum(n for _, n in self.counts)

    @property
    def agreeing(self) -> int:
        """How many gave the most frequent answer."""
        return self.counts[0][1]

    @classmethod
    def of(cls, counts: Counter[str], *, is_simulated: bool) -> Vote:
        """From how often each answer was given."""
        ranked = tuple(sorted(counts.items(), key=lambda pair: (-pair[1], pair[0])))
        tied = len(ranked) > 1 and ranked[0][1] == ranked[1][1]
        return cls("" if tied else ranked[0][0], ranked, is_simulated)


def votes_of(room: Room, entry: RunEntry) -> Mapping[str, Vote]:
    """What people said of each rated picture of a run, by its id; repeats do not count.

    Where nobody said anything of a picture, it is what simulated raters did.
    """
    assert entry.run is not None
    live = list(_on_this_server(room, masked(entry.run.directory.place)))
    tasks = {source for source, *_ in live}
    # what the run holds of a task may be older than what the server does
    exported = [row for row in _in_the_run(entry.run, entry.stamp) if row[0] not in tasks]
    votes: dict[str, Vote] = {}
    for is_simulated in (True, False):
        counts: dict[str, Counter[str]] = {}
        for _, item, answer, simulated, n in (*exported, *live):
            if simulated == is_simulated:
                counts.setdefault(item, Counter())[answer] += n
        votes |= {item: Vote.of(of_item, is_simulated=is_simulated) for item, of_item in counts.items()}
    return votes


Counted = tuple[str, str, str, bool, int]
"""Source, item, answer, whether simulated raters gave it, and how often."""


@lru_cache(maxsize=64)
def _in_the_run(run: api.Run, stamp: str) -> tuple[Counted, ...]:
    """Count the answers that the run holds."""
    if not has_ratings(run):
        return ()
    ratings = ratings_of(run)
    counted = ratings[~ratings["repeat"]].groupby(["source", "item", "answer", "simulated"]).size()
    rows: Any = counted.reset_index(name="n").itertuples(index=False)
    return tuple((str(row.source), str(row.item), str(row.answer), bool(row.simulated), int(row.n)) for row in rows)


def _on_this_server(room: Room, place: str) -> Iterator[Counted]:
    """Count the answers of the tasks of this server."""
    if not room.is_there:
        return
    query = (
        select(Item.task_id, Item.name, Answer.answer, Rater.simulated, func.count())
        .join(Turn, Turn.item_id == Item.id)
        .join(Answer, Answer.turn_id == Turn.id)
        .join(Rater, Rater.id == Turn.rater_id)
        .where(Item.run == place, Rater.withdrawn.is_(None), ~Turn.repeat)
        .group_by(Item.task_id, Item.name, Answer.answer, Rater.simulated)
    )
    with reading(room.engine) as session:
        for task, item, answer, is_simulated, n in session.execute(query):
            yield f"task {task}", item, answer, is_simulated, n


@router.get("/runs/{run}/people")
def people_page(request: Request, run: Identifier) -> Response:
    """The report's section on people, of a run whose ratings were scored."""
    entry = request.app.state.runs.get(run)
    content, problem = _section(entry.run, entry.stamp) if entry.listed.is_scored else ("", "")
    by_people = bool(content) and (entry.run.scores.metric == HUMAN).any()
    return render(request, "people.html", entry=entry, content=Markup(content), problem=problem, by_people=by_people)


@lru_cache(maxsize=16)
def _section(run: api.Run, stamp: str) -> tuple[str, str]:
    """The section as the report has it, empty where nobody rated; or why it cannot be shown."""
    if problem := pooled(run):
        return "", problem
    view = View.of_scores(run.suite, run.scores)
    content = section(view)
    if content is None:
        return "", ""
    return environment("clinometer.report").get_template("sections/people.html").render(s=content, view=view), ""
