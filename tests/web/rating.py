"""A rating task over a run, and raters who answer it without a browser."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from fastapi.testclient import TestClient

from clinometer.ratings import draw_items
from clinometer.runs import Run
from clinometer.studies import rated_of
from clinometer.web.database import writing
from clinometer.web.ratings.tasks import TaskSpec, answers_for, invite, make_task

QUESTION = "Whom does the picture show?"


def token_in(page: str) -> str:
    return re.search(r'name="csrf_token" value="([^"]+)"', page)[1]


def place_in(page: str) -> int | None:
    found = re.search(r'data-place="(\d+)"', page)
    return int(found[1]) if found else None


def make(
    browser: TestClient, run: Run, *, images: int = 2, days: float = 1, most: int = 0, **wanted: Any
) -> tuple[str, str]:
    """A task and the token of an invitation to it."""
    given = {"title": "A task", "question": QUESTION, "answers": answers_for([run]), "raters_each": 50} | wanted
    drawn = [(run.directory.place, item) for item in draw_items(run, rated_of(run), images, attention=2)]
    with writing(browser.app.state.ratings.engine) as session:
        task = make_task(session, TaskSpec(**given), drawn)
        return task.id, invite(session, task, days=days, raters_most=most)


class Rater:
    """Somebody with a browser of their own."""

    def __init__(self, app: Any, invitation: str) -> None:
        self.browser = TestClient(app, follow_redirects=True)
        page = self.browser.get(f"/join/{invitation}")
        self.joined = self.browser.post(f"/join/{invitation}", data={"csrf_token": token_in(page.text)})
        self.address = self.joined.url.path

    def page(self) -> str:
        return self.browser.get(self.address).text

    def answer(self, answer: str, page: str | None = None, **fields: Any):
        page = page or self.page()
        data = {"csrf_token": token_in(page), "place": place_in(page), "answer": answer, "seconds": "1.5"} | fields
        return self.browser.post(self.address, data=data)

    def undo(self, place: int):
        return self.browser.post(f"{self.address}/undo", data={"csrf_token": token_in(self.page()), "place": place})

    def answer_all(self, chosen: Callable[[int], str]) -> int:
        count, page = 0, self.page()
        while place_in(page):
            page = self.answer(chosen(place_in(page)), page).text
            count += 1
        return count
