"""The index: every run that lies below what the server was given, its report, and several runs side by side.

Of some runs a number is followed over checkpoints, dates or settings; and each is compared with the first.
"""

from __future__ import annotations

import hashlib
import re
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from math import inf
from typing import Annotated, Any, Final, Literal

from fastapi import APIRouter, Query, Request, Response
from fastapi.responses import HTMLResponse
from pydantic import BaseModel, Field
from starlette.exceptions import HTTPException

from clinometer import api
from clinometer._messages import printable, shortened
from clinometer.errors import ClinometerError, InvalidInputError, RunNotFoundError
from clinometer.pipeline.comparison_page import comparison_html
from clinometer.report import wording
from clinometer.report.figures import Step, trend_figure
from clinometer.report.html import asset, page_style, policy
from clinometer.report.view import MEAN, Row, Scores
from clinometer.runs import Directory
from clinometer.runs.browse import found_below, stamp_of
from clinometer.runs.plan import PLAN_LOST
from clinometer.runs.several import Comparison
from clinometer.studies import component_names, study_of
from clinometer.web.pages import BackgroundJobs, Identifier, is_partial, render

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
    "sandbox allow-scripts allow-downloads; default-src 'none'; img-src data:; font-src data:; "
    "style-src 'unsafe-inline'; script-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
"""A report is a file that somebody may have made by hand, so it is shown in a sandbox: a page of its own that has no
cookies, reaches no server, and may run the script that filters its table."""

MOST_RUNS: Final = 8
"""Columns that a screen holds."""

Text = Annotated[str, Field(max_length=500)]

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
            by_id = {}
            for place in self._places:
                for directory in found_below(place):
                    identifier, stamp = id_of(directory), stamp_of(directory)
                    entry = self._entries.get(identifier)
                    by_id[identifier] = entry if entry is not None and entry.stamp == stamp else _looked_at(directory)
            self._entries = by_id
            return [entry.listed for entry in by_id.values()]

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
        """Return whether a run's files are others by now; a store that answers slowly is asked once in a while only."""
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
        page = study_of(run.suite).page(run.suite)
        described = replace(
            listed,
            model=str(run.model_card["name"]),
            suite=run.suite.name,
            study=run.suite.study,
            date=run.record["created"][:16].replace("T", " "),
            seed=run.record["seed"],
            images=run.directory.count_rows("plan.parquet", way_out=PLAN_LOST),
            findings=page.summary(run.suite, run.scores).verdicts if run.is_scored else "",
            is_scored=run.is_scored,
            has_report=run.directory.exists("report.html"),
        )
        return RunEntry(stamp, described, run)
    except Exception as error:  # one run that cannot be read must not take the others from the page
        prefix = "" if isinstance(error, ClinometerError) else f"it cannot be read: {type(error).__name__}: "
        message = shortened(printable(" ".join(f"{prefix}{directory.without_place(error)}".split())), 300)
        return RunEntry(stamp, replace(listed, error=message), None)


@router.get("/runs")
def index(
    request: Request,
    q: Annotated[str, Query(max_length=200)] = "",
    sort: Sort = "date",
    order: Literal["up", "down"] = "down",
) -> Response:
    """Show every run that has all words of a search, sorted; for htmx the table alone."""

    def key(run: Listed) -> tuple[str | int, str]:
        value = getattr(run, sort)
        return (value.casefold() if isinstance(value, str) else value, run.name)

    runs = request.app.state.runs.listed()
    matches = [run for run in runs if all(word in run.words for word in q.casefold().split())]
    whole = sorted((run for run in matches if not run.error), key=key, reverse=order == "down")
    unreadable = sorted((run for run in matches if run.error), key=lambda run: run.name)
    return render(
        request,
        "runs_table.html" if is_partial(request, "runs") else "index.html",
        runs=[*whole, *unreadable],
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


# --- several runs side by side ---------------------------------------------------------------------------------------


def judged(rows: Iterable[Row]) -> dict[str, Row]:
    """Return the first row of each concept that bears a verdict of its own: that of the study's main score."""
    by_concept: dict[str, Row] = {}
    for row in rows:
        if row.concept and row.verdict and not row.group:
            by_concept.setdefault(row.concept, row)
    return by_concept


MOST_POINTS: Final = 200
Over = Literal["checkpoint", "date", "guidance", "steps"]
OVERS: Final[dict[Over, str]] = {
    "checkpoint": "checkpoint",
    "date": "date",
    "guidance": "guidance scale",
    "steps": "denoising steps",
}
_SETTINGS: Final[dict[Over, str]] = {"guidance": "guidance_scale", "steps": "steps"}


@dataclass(frozen=True, order=True)
class TrendQuantity:
    """Which number of a run: all but the concept and the encoder."""

    metric: str
    component: str
    group: str = ""
    setting: str = ""

    @property
    def key(self) -> str:
        """What an address calls it."""
        return "|".join((self.metric, self.component, self.group, self.setting))

    @property
    def words(self) -> str:
        """What a page calls it."""
        named = (component_names().get(name, name.replace("_", " ")) for name in (self.metric, self.component))
        parts = [*named, self.group, self.setting]
        return " \N{MIDDLE DOT} ".join(part for part in dict.fromkeys(parts) if part)

    @classmethod
    def of(cls, row: Row) -> TrendQuantity:
        """Return the quantity of a row."""
        return cls(row.metric, row.component, row.group, row.setting)


class TrendQuery(BaseModel):
    """What an address of the trends asks; of the runs all of one suite where none is named."""

    run: Annotated[list[Text], Field(max_length=MOST_POINTS)] = []
    number: Text = ""
    concept: Text = ""
    encoder: Text = MEAN
    over: Over = "date"


@dataclass(frozen=True)
class TrendsPage:
    """A page of trends: the runs, what can be chosen, and the number that is."""

    query: TrendQuery
    entries: tuple[RunEntry, ...]
    quantities: tuple[TrendQuantity, ...]
    concepts: tuple[str, ...]
    encoders: tuple[str, ...]
    quantity: TrendQuantity
    concept: str
    points: tuple[Step, ...]


@router.get("/trends")
def trends(request: Request, query: Annotated[TrendQuery, Query()]) -> Response:
    """Show the figure and its numbers."""
    listed = [run for run in request.app.state.runs.listed() if run.is_scored and not run.error]
    newest = max(listed, key=lambda run: run.date, default=None)
    of_its_suite = [run.id for run in listed if newest and run.suite == newest.suite]
    chosen = query.run or of_its_suite[:MOST_POINTS]
    entries = [request.app.state.runs.get(identifier) for identifier in dict.fromkeys(chosen)]
    trend = trend_of([entry for entry in entries if entry.listed.is_scored], query)
    title = trend.quantity.words + (f", {trend.concept}" if trend.concept else "")
    figure = trend_figure(trend.points, title=title, x_label=OVERS[query.over], zero="no leaning")
    cells = list(_cells(trend))
    return render(request, "trends.html", t=trend, figure=figure, title=title, overs=OVERS, runs=listed, cells=cells)


def trend_of(entries: Sequence[RunEntry], query: TrendQuery) -> TrendsPage:
    """Choose the number that is asked, or the main one of the first concept, and find it in each run.

    Raises
    ------
    InvalidInputError
        There is no run with scores.
    """
    if not entries:
        raise InvalidInputError.incomplete(
            "None of these runs is scored. Choose others, or score one: clinometer score RUN"
        )
    rows = [row for entry in entries for row in scores_of(entry)]
    main = next(iter(judged(rows).values()), rows[0])
    quantities = tuple(sorted({TrendQuantity.of(row) for row in rows}))
    quantity = next((quantity for quantity in quantities if quantity.key == query.number), TrendQuantity.of(main))
    rows_of_quantity = [row for row in rows if TrendQuantity.of(row) == quantity]
    concepts = tuple(dict.fromkeys(row.concept or row.category for row in rows_of_quantity))
    concept = query.concept if query.concept in concepts else next(iter(concepts), "")
    place = _places(entries, query.over)
    points = tuple(
        Step(*place(entry), row, entry.listed.name)
        for entry in sorted(entries, key=lambda run: place(run)[0])
        for row in scores_of(entry)
        if TrendQuantity.of(row) == quantity and (row.concept or row.category) == concept
        and row.encoder == query.encoder
    )  # fmt: skip
    encoders = tuple(dict.fromkeys(row.encoder for row in rows_of_quantity))
    return TrendsPage(query, tuple(entries), quantities, concepts, encoders, quantity, concept, points)


def scores_of(entry: RunEntry) -> Scores:
    """Return the rows of a run's scores."""
    assert entry.run is not None
    return scores_at(entry.run, entry.stamp)


@lru_cache(maxsize=MOST_POINTS)
def scores_at(run: api.Run, stamp: str) -> Scores:
    """Return the rows of a run's scores as they are while its files have this stamp; read once."""
    return Scores.from_frame(run.scores)


def _places(entries: Sequence[RunEntry], over: Over) -> Callable[[RunEntry], tuple[float, str]]:
    """Return each run's position on the axis, and the position's label."""
    if over in _SETTINGS:

        def setting(entry: RunEntry) -> tuple[float, str]:
            """Return a setting of a run's model; those without it stand at 0."""
            assert entry.run is not None
            value = entry.run.model_card["settings"].get(_SETTINGS[over])
            return (float(value), f"{value:g}") if isinstance(value, int | float) else (0.0, "not set")

        return setting
    key: Callable[[RunEntry], Any] = _by_name if over == "checkpoint" else lambda run: run.listed.date
    order = {run.listed.id: place for place, run in enumerate(sorted(entries, key=key))}
    return lambda run: (order[run.listed.id], run.listed.date[:10] if over == "date" else run.listed.name)


def _by_name(entry: RunEntry) -> list[tuple[int, int | str]]:
    """Return a key by which names are in the order people give them: ``step-900`` before ``step-1000``."""
    pieces = re.findall(r"\d+|\D+", entry.listed.name)
    return [(0, int(piece)) if piece.isdecimal() else (1, piece) for piece in pieces]


def _cells(trend: TrendsPage) -> Iterator[dict[str, str]]:
    """Yield the numbers of the figure as a table shows them."""
    by_name = {entry.listed.name: entry for entry in trend.entries}
    digits = wording.digits_for([point.row.value for point in trend.points])
    for point in trend.points:
        entry, row = by_name[point.name], point.row
        assert entry.run is not None
        yield {
            "id": entry.listed.id,
            "name": point.name,
            "place": point.label,
            "value": wording.signed(row.value, digits),
            "interval": wording.interval(row.low, row.high, digits),
            "verdict": wording.verdict_words(row, entry.run.suite.label_of) or row.reason,
        }


@router.get("/compare")
def compare(
    request: Request,
    run: Annotated[list[Text], Query(min_length=1, max_length=MOST_RUNS)],
    baseline: Text = "",
) -> Response:
    """Show the page that ``clinometer compare`` writes, of any runs of one suite: each against ``baseline``.

    Without one the first run is it; one that is not among the runs is compared with all of them.
    """
    identifiers = list(dict.fromkeys(filter(None, (baseline, *run))))
    if len(identifiers) < 2:
        raise InvalidInputError.too_few("A comparison needs at least two runs; choose another one.")
    if len(identifiers) > MOST_RUNS:
        raise InvalidInputError.too_many(
            f"A comparison takes at most {MOST_RUNS} runs, including the baseline; choose fewer."
        )
    entries = [request.app.state.runs.get(identifier) for identifier in identifiers]
    page = request.app.state.comparing.page(tuple(entry.run for entry in entries), tuple(e.stamp for e in entries))
    page_policy = f"{policy(page_style(), asset('page.js'))}; frame-ancestors 'none'"
    return HTMLResponse(page.encode("utf-8", "replace"), headers={"Content-Security-Policy": page_policy})


class Comparing:
    """Makes pages of comparisons, one at a time beside the server's other work, and keeps the last ones."""

    def __init__(self, *, patience: float = 2.0) -> None:
        why = "Every difference is tested again, which takes a while."
        self._jobs = BackgroundJobs("Comparing the runs", why, patience=patience, kept=8)
        self._turn = threading.Lock()

    def page(self, runs: Sequence[api.Run], stamps: Sequence[str]) -> str:
        """Return the page of some runs, each against the first, as they are while their files have these stamps.

        Raises
        ------
        Building
            It is being made, and takes longer than a page should.
        ClinometerError
            The runs cannot be compared.
        """

        def make(progress: Callable[[float], None]) -> str:
            with self._turn:
                compared: list[Comparison] = []
                for done, run in enumerate(runs[1:], 1):
                    compared += api.compare(runs[0], run)
                    progress(done / len(runs))
                return comparison_html(compared)

        return str(self._jobs.result((*(run.url for run in runs), *stamps), make))
