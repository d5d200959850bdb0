"""The index: every run that lies below what the server was given, and its report."""

from __future__ import annotations

import hashlib
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from math import inf
from typing import Annotated, Final, Literal

from fastapi import APIRouter, Query, Request, Response
from starlette.exceptions import HTTPException

from clinometer import api
from clinometer._messages import printable, shortened
from clinometer.errors import ClinometerError, RunNotFoundError
from clinometer.runs import Directory
from clinometer.runs.browse import found_below, planned_count, stamp_of
from clinometer.studies import study_of
from clinometer.web.pages import is_partial, render
from clinometer.web.pictures import Identifier

router = APIRouter()

Sort = Literal["date", "name", "model", "suite", "seed", "images", "findings"]

COLUMNS: Final[tuple[tuple[Sort, str], ...]] = (
    ("name", "Run"),
    ("model", "Model"),
    ("suite", "Suite"),
    ("date", "Date"),
    ("seed", "Seed"),
    ("images", "Images"),
    ("findings", "Findings"),
)

REPORT_POLICY: Final = (
    "sandbox allow-scripts allow-downloads; default-src 'none'; img-src data:; style-src 'unsafe-inline'; "
    "script-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
"""A report is a file that somebody may have made by hand, so it is shown in a sandbox: a page of its own that has no
cookies, reaches no server, and may run the script that filters its table."""

TRUST_SECONDS: Final = 5.0
"""How long a run on an object store is taken for unchanged: a page of pictures asks dozens of times."""


@dataclass(frozen=True)
class Listed:
    """A run as the index shows it.

    Attributes
    ----------
    id : what addresses name it by: a hash of its place, so no path comes in with a request.
    place : where it lies. name : its folder.
    images : planned. findings : its verdicts, counted.
    error : in one line, why it cannot be shown; empty for a run that can.
    """

    id: str
    place: str
    name: str
    model: str = ""
    suite: str = ""
    study: str = ""
    date: str = ""
    seed: int = 0
    images: int = 0
    findings: str = ""
    is_scored: bool = False
    has_report: bool = False
    error: str = ""

    @property
    def words(self) -> str:
        """What a search looks in."""
        texts = (self.name, self.model, self.suite, self.study, self.date, str(self.seed), self.findings, self.error)
        return " ".join(texts).casefold()


@dataclass(frozen=True)
class RunEntry:
    """A run as it was when it was last looked at; no run where it cannot be read."""

    stamp: str
    listed: Listed
    run: api.Run | None


class RunsIndex:
    """Runs below some places, found again at each look; what is known of one is kept until its files change."""

    def __init__(self, places: Sequence[str]) -> None:
        self._places = tuple(places)
        self._lock = threading.Lock()
        self._entries: dict[str, RunEntry] = {}
        self._look_times: dict[str, float] = {}

    def listed(self) -> list[Listed]:
        """Return every run that is there now."""
        with self._lock:
            self._entries = self._runs_by_id()
            return [entry.listed for entry in self._entries.values()]

    def _runs_by_id(self) -> dict[str, RunEntry]:
        by_id = {}
        for place in self._places:
            for directory in found_below(place):
                identifier, stamp = id_of(directory), stamp_of(directory)
                entry = self._entries.get(identifier)
                by_id[identifier] = entry if entry is not None and entry.stamp == stamp else _looked_at(directory)
        return by_id

    def get(self, identifier: str) -> RunEntry:
        """Return a run by its id, as it is now.

        Raises
        ------
        RunNotFoundError
            There is none that can be shown.
        """
        entry = self._entries.get(identifier)
        if entry is None or self._has_changed(entry):
            self.listed()
            entry = self._entries.get(identifier)
        if entry is None:
            raise RunNotFoundError("No run has this address any more. Choose one from the index.")
        if entry.run is None:
            raise RunNotFoundError(entry.listed.error)
        return entry

    def _has_changed(self, entry: RunEntry) -> bool:
        """Tell whether a run's files are others by now; a store that answers slowly is asked once in a while only."""
        directory, now = Directory(entry.listed.place), time.monotonic()
        if not directory.is_local and now - self._look_times.get(entry.listed.id, -inf) < TRUST_SECONDS:
            return False
        self._look_times[entry.listed.id] = now
        return stamp_of(directory) != entry.stamp


def id_of(directory: Directory) -> str:
    """Return what a run is called in addresses: 12 hexadecimal digits of its place's SHA-256."""
    return hashlib.sha256(directory.place.encode("utf-8", "surrogateescape")).hexdigest()[:12]


def _looked_at(directory: Directory) -> RunEntry:
    stamp, name = stamp_of(directory), printable(directory.place.rstrip("/").rsplit("/", 1)[-1])
    listed = Listed(id_of(directory), directory.url, name)
    try:
        run = api.open_run(directory.url)
        return RunEntry(stamp, _described(run, listed), run)
    except Exception as error:  # one run that cannot be read must not take the others from the page
        prefix = "" if isinstance(error, ClinometerError) else f"it cannot be read: {type(error).__name__}: "
        message = shortened(printable(" ".join(f"{prefix}{directory.without_place(error)}".split())), 300)
        return RunEntry(stamp, Listed(listed.id, listed.place, listed.name, error=message), None)


def _described(run: api.Run, listed: Listed) -> Listed:
    findings = study_of(run.suite).page(run.suite).summary(run.suite, run.scores).verdicts if run.is_scored else ""
    return Listed(
        listed.id,
        listed.place,
        listed.name,
        model=str(run.model_card["name"]),
        suite=run.suite.name,
        study=run.suite.study,
        date=run.record["created"][:16].replace("T", " "),
        seed=run.record["seed"],
        images=planned_count(run),
        findings=findings,
        is_scored=run.is_scored,
        has_report=run.directory.exists("report.html"),
    )


def filtered_runs(runs: Sequence[Listed], query: str, sort: Sort, *, downwards: bool) -> list[Listed]:
    """Runs that hold every word of a query, in order; those that cannot be read stay last."""
    words = query.casefold().split()
    matches = [run for run in runs if all(word in run.words for word in words)]
    whole = sorted((run for run in matches if not run.error), key=lambda run: _key(run, sort), reverse=downwards)
    return whole + sorted((run for run in matches if run.error), key=lambda run: run.name)


def _key(run: Listed, sort: Sort) -> tuple[str | int, str]:
    value = getattr(run, sort)
    return (value.casefold() if isinstance(value, str) else value, run.name)


@router.get("/runs")
def index(
    request: Request,
    q: Annotated[str, Query(max_length=200)] = "",
    sort: Sort = "date",
    order: Literal["up", "down"] = "down",
) -> Response:
    """Show every run, searched and sorted; for htmx the table alone."""
    runs = request.app.state.runs.listed()
    return render(
        request,
        "runs_table.html" if is_partial(request, "runs") else "index.html",
        runs=filtered_runs(runs, q, sort, downwards=order == "down"),
        total=len(runs),
        columns=COLUMNS,
        q=q,
        sort=sort,
        order=order,
    )


@router.get("/runs/{run}/report")
def report(request: Request, run: Identifier) -> Response:
    """Show the report of a run, as it lies there."""
    entry = request.app.state.runs.get(run)
    try:
        content = entry.run.directory.read_bytes("report.html")
    except RunNotFoundError as error:
        raise HTTPException(404, "This run has no report yet. Write it: clinometer report RUN") from error
    return Response(content, media_type="text/html", headers={"Content-Security-Policy": REPORT_POLICY})
