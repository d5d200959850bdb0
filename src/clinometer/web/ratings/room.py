"""What the pages of ratings share: the database, and the pictures of items."""

from __future__ import annotations

import threading
from collections import OrderedDict
from functools import cached_property
from typing import Final

from sqlalchemy import Engine

from clinometer.runs import Run
from clinometer.runs.ratings.store import OF_CONCEPT
from clinometer.web.database import database_url, open_database
from clinometer.web.pictures import AT_ONCE, SIDES, shrunk
from clinometer.web.ratings.tables import Item
from clinometer.web.settings import Settings

MOST_PICTURES: Final = 12
"""Images of a concept that are shown at once."""
KEPT: Final = 512
"""Pictures that are held, some tens of kilobytes each."""


class Room:
    """The ratings of a server. The database is opened when somebody first needs it."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._runs: dict[str, Run] = {}
        self._pictures: OrderedDict[tuple[str, str], bytes | None] = OrderedDict()
        self._lock = threading.Lock()
        self._decoding = threading.BoundedSemaphore(AT_ONCE)

    @cached_property
    def engine(self) -> Engine:
        """The database of tasks and answers."""
        with self._lock:
            return open_database(database_url(self._settings.database, self._settings.cache))

    def samples_of(self, item: Item) -> list[str]:
        """The samples that an item shows: one, or the first neutral ones of a concept."""
        if not item.name.startswith(OF_CONCEPT):
            return [item.name]
        plan = self._run(item.run).plan
        of = [s.id for s in plan if s.role == "target" and item.concept in (s.concept, s.category) and not s.group]
        return of[:MOST_PICTURES]

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

    def _keep(self, key: tuple[str, str]) -> bytes | None:
        run, identifier = key
        with self._decoding:
            content = next((held for _, held in self._run(run).images([identifier])), None)
            made = shrunk(content, SIDES["large"]) if content else None
        with self._lock:
            self._pictures[key] = made
            while len(self._pictures) > KEPT:
                self._pictures.popitem(last=False)
        return made

    def _run(self, url: str) -> Run:
        with self._lock:
            return self._runs.setdefault(url, Run(url))
