"""What the pages of ratings share: the database, and the pictures of items."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress
from functools import cached_property
from typing import Final

from sqlalchemy import Engine, select
from sqlalchemy.orm import Session

from clinometer.errors import ClinometerError
from clinometer.runs import Run
from clinometer.runs.browse import Stored, stored_in
from clinometer.runs.ratings.sampling import drawn_before
from clinometer.runs.ratings.store import OF_CONCEPT
from clinometer.studies import rated_of
from clinometer.web.database import GroupCommit, Output, database_url, is_kept, open_database, reading
from clinometer.web.pictures import Album
from clinometer.web.ratings.tables import Item
from clinometer.web.settings import ServerSettings

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
        self._parts: OrderedDict[tuple[str, int], dict[str, Stored]] = OrderedDict()
        self._pictures: OrderedDict[tuple[str, str], bytes | None] = OrderedDict()
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
        """Let go of the database: SQLite takes its log into the file."""
        if "engine" in self.__dict__:
            self.engine.dispose()

    def write(self, work: Callable[[Session], Output]) -> Output:
        """What some work on the database returns, once it is on disk."""
        return self._commits.write(work)

    @cached_property
    def _commits(self) -> GroupCommit:
        engine = self.engine
        with self._lock:
            return GroupCommit(engine)

    def samples_of(self, item: Item) -> list[str]:
        """The samples that an item shows: one, or those that were drawn of a concept to be shown at once."""
        if not item.name.startswith(OF_CONCEPT):
            return [item.name]
        return item.pictures or self._drawn_before(item)

    def _drawn_before(self, item: Item) -> list[str]:
        run = self._run(item.run)
        return drawn_before(run, rated_of(run), item.name)

    def picture(self, item: Item, order: int) -> bytes | None:
        """An item's picture as WebP, drawn anew from its pixels; None where there is none."""
        samples = self.samples_of(item)
        if not 0 <= order < len(samples):
            return None
        key = (item.run, samples[order])
        with self._lock:
            if key in self._pictures:
                self._pictures.move_to_end(key)
                return self._pictures[key]
        return self._keep(key)

    def make_ready(self, task: str) -> None:
        """Make the pictures of a task in the background, once: its raters will ask for them all."""
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

    def _keep(self, key: tuple[str, str]) -> bytes | None:
        picture = self._album.picture(self._run(key[0]), self._stored(*key), "large")
        with self._lock:
            self._pictures[key] = picture
            while len(self._pictures) > PICTURES:
                self._pictures.popitem(last=False)
        return picture

    def _stored(self, url: str, sample: str) -> Stored:
        """Where an image lies."""
        run = self._run(url)
        key = (url, run.sample(sample).part)
        with self._lock:
            images = self._parts.get(key)
        if images is None:
            images = stored_in(run, key[1])
            with self._lock:
                self._parts[key] = images
                while len(self._parts) > PARTS:
                    self._parts.popitem(last=False)
        return images[sample]

    def _run(self, url: str) -> Run:
        with self._lock:
            return self._runs.setdefault(url, Run(url))
