"""What pages about ratings share: the database, pictures of items, and what people say of a run's pictures.

Answers come from the run, and from the tasks of this server, which the run may not hold yet. Beside single pictures
they stand next to what the encoder reads; of a whole run, the report's section on people is shown.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, Final

from fastapi import APIRouter, Request, Response
from markupsafe import Markup
from sqlalchemy import Engine, func, select

from clinometer import api
from clinometer._secrets import masked
from clinometer.errors import ClinometerError
from clinometer.ratings import OF_CONCEPT, drawn_before, has_ratings, mixed_raters, ratings_of
from clinometer.report.html import environment
from clinometer.report.sections import HUMAN
from clinometer.report.sections import people as section
from clinometer.report.view import View
from clinometer.runs import Run
from clinometer.runs.browse import Stored, stored_in
from clinometer.studies import rated_of
from clinometer.web.database import Answer, Item, Rater, Turn, database_url, is_kept, open_database, reading
from clinometer.web.pages import Identifier, render
from clinometer.web.pictures import Album
from clinometer.web.runs_index import RunEntry
from clinometer.web.security import ServerSettings

PICTURES: Final = 512
"""Pictures that are held, some tens of kilobytes each."""
PARTS: Final = 64
"""Parts of runs of which it is held where their images lie."""


class Room:
    """The ratings of a server. The database is opened when somebody first needs it."""

    def __init__(self, settings: ServerSettings, album: Album) -> None:
        self._settings = settings
        self._album = album
        self._runs: dict[str, Run] = {}
        self._images = lru_cache(maxsize=PARTS)(lambda url, part: stored_in(self._run(url), part))
        self._picture = lru_cache(maxsize=PICTURES)(
            lambda url, sample: album.picture(self._run(url), self._stored(url, sample), "large")
        )
        self._begun: set[str] = set()
        self._lock = threading.Lock()

    @property
    def is_there(self) -> bool:
        """Whether there is a database; where nobody made a task yet, none is made by looking."""
        return "engine" in self.__dict__ or is_kept(self._url)

    @cached_property
    def engine(self) -> Engine:
        """The database of tasks and answers."""
        with self._lock:
            return open_database(self._url)

    @property
    def _url(self) -> str:
        return database_url(self._settings.database, self._settings.data)

    def close(self) -> None:
        """Close the database: SQLite merges its log into the file."""
        if "engine" in self.__dict__:
            self.engine.dispose()

    def samples_of(self, item: Item) -> list[str]:
        """Return the samples that an item shows: one, two to compare, or those of a concept that are shown at once."""
        if item.pictures:
            return item.pictures
        if not item.name.startswith(OF_CONCEPT):
            return [item.name]
        run = self._run(item.run)
        return drawn_before(run, rated_of(run), item.name)

    def picture(self, item: Item, order: int) -> bytes | None:
        """Return an item's picture as WebP, drawn again from its pixels; None where there is none."""
        samples = self.samples_of(item)
        if not 0 <= order < len(samples):
            return None
        return self._picture(item.run, samples[order])

    def make_ready(self, task: str) -> None:
        """Render the pictures of a task in the background, once: its raters will ask for all of them."""
        with self._lock:
            if task in self._begun:
                return
            self._begun.add(task)
        threading.Thread(target=self._make_ready, args=(task,), daemon=True).start()

    def _make_ready(self, task: str) -> None:
        with reading(self.engine) as session:
            items = session.scalars(select(Item).where(Item.task_id == task)).all()
            session.expunge_all()
        by_run: dict[str, list[str]] = {}
        for item in items:
            by_run.setdefault(item.run, []).extend(self.samples_of(item))
        for url, samples in by_run.items():
            with suppress(ClinometerError):  # whoever asks for such a picture is told
                self._album.make_ready(self._run(url), [self._stored(url, sample) for sample in samples], "large")

    def _stored(self, url: str, sample: str) -> Stored:
        return self._images(url, self._run(url).sample(sample).part)[sample]

    def _run(self, url: str) -> Run:
        with self._lock:
            return self._runs.setdefault(url, Run(url))


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
        """Make a vote from how often each answer was given."""
        ranked = tuple(sorted(counts.items(), key=lambda pair: (-pair[1], pair[0])))
        tied = len(ranked) > 1 and ranked[0][1] == ranked[1][1]
        return cls("" if tied else ranked[0][0], ranked, is_simulated)


def votes_of(room: Room, entry: RunEntry) -> Mapping[str, Vote]:
    """Return what people said of each rated picture of a run, by its id; repeats do not count.

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
    """Show the report's section on people, of a run whose ratings were scored."""
    entry = request.app.state.runs.get(run)
    content, problem = _section(entry.run, entry.stamp) if entry.listed.is_scored else ("", "")
    by_people = bool(content) and (entry.run.scores.metric == HUMAN).any()
    return render(request, "people.html", entry=entry, content=Markup(content), problem=problem, by_people=by_people)


@lru_cache(maxsize=16)
def _section(run: api.Run, stamp: str) -> tuple[str, str]:
    """Return the section as the report has it, empty where nobody rated; or why it cannot be shown."""
    if problem := mixed_raters(run):
        return "", problem
    view = View.of_scores(run.suite, run.scores)
    content = section(view)
    if content is None:
        return "", ""
    return environment("clinometer.report").get_template("sections/people.html").render(s=content, view=view), ""
