"""A number of some runs over checkpoints, dates or settings, and comparisons of runs with each other."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Annotated, Any, Final, Literal

from fastapi import APIRouter, Query, Request, Response
from fastapi.responses import HTMLResponse
from pydantic import BaseModel, Field

from clinometer import api
from clinometer.errors import InvalidInputError
from clinometer.pipeline.comparison_page import comparison_html
from clinometer.report import wording
from clinometer.report.figures.marks import Step, trend_figure
from clinometer.report.html import asset, policy
from clinometer.report.rows import MEAN, Row, Scores
from clinometer.report.wording import verdict_words
from clinometer.web.explorer import MOST_RUNS, judged
from clinometer.web.pages import render
from clinometer.web.runs_index import Listed, RunEntry

router = APIRouter()

MOST_POINTS: Final = 200
Over = Literal["checkpoint", "date", "guidance", "steps"]
OVERS: Final[dict[Over, str]] = {
    "checkpoint": "checkpoint",
    "date": "date",
    "guidance": "guidance scale",
    "steps": "denoising steps",
}
_SETTINGS: Final[dict[Over, str]] = {"guidance": "guidance_scale", "steps": "steps"}

Text = Annotated[str, Field(max_length=500)]


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
        names = wording.COMPONENT_NAMES
        named = (names.get(name, name.replace("_", " ")) for name in (self.metric, self.component))
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
    chosen = query.run or _of_one_suite(listed)
    entries = [request.app.state.runs.get(identifier) for identifier in dict.fromkeys(chosen)]
    trend = trend_of([entry for entry in entries if entry.listed.is_scored], query)
    title = trend.quantity.words + (f", {trend.concept}" if trend.concept else "")
    figure = trend_figure(trend.points, title=title, x_label=OVERS[query.over], zero="no leaning")
    cells = list(_cells(trend))
    return render(request, "trends.html", t=trend, figure=figure, title=title, overs=OVERS, runs=listed, cells=cells)


def _of_one_suite(listed: Sequence[Listed]) -> list[str]:
    """Return the runs of the suite that was asked last."""
    newest = max(listed, key=lambda run: run.date, default=None)
    return [run.id for run in listed if newest and run.suite == newest.suite][:MOST_POINTS]


def trend_of(entries: Sequence[RunEntry], query: TrendQuery) -> TrendsPage:
    """Choose the number that is asked, or the main one of the first concept, and find it in each run.

    Raises
    ------
    InvalidInputError
        There is no run with scores.
    """
    if not entries:
        raise InvalidInputError("None of these runs is scored. Choose others, or score one: clinometer score RUN")
    rows = [row for entry in entries for row in scores_of(entry)]
    main = next(iter(judged(rows).values()), rows[0])
    quantities = tuple(sorted({TrendQuantity.of(row) for row in rows}))
    quantity = next((quantity for quantity in quantities if quantity.key == query.number), TrendQuantity.of(main))
    own = [row for row in rows if TrendQuantity.of(row) == quantity]
    concepts = tuple(dict.fromkeys(row.concept or row.category for row in own))
    concept = query.concept if query.concept in concepts else next(iter(concepts), "")
    points = tuple(_points(entries, quantity, concept, query))
    encoders = tuple(dict.fromkeys(row.encoder for row in own))
    return TrendsPage(query, tuple(entries), quantities, concepts, encoders, quantity, concept, points)


def scores_of(entry: RunEntry) -> Scores:
    """Return the rows of a run's scores."""
    assert entry.run is not None
    return _scores(entry.run, entry.stamp)


@lru_cache(maxsize=MOST_POINTS)
def _scores(run: api.Run, stamp: str) -> Scores:
    return Scores.from_frame(run.scores)


def _points(entries: Sequence[RunEntry], quantity: TrendQuantity, concept: str, query: TrendQuery) -> Iterator[Step]:
    """Yield each run's number, from left to right."""
    place = _places(entries, query.over)
    for entry in sorted(entries, key=lambda run: place(run)[0]):
        for row in scores_of(entry):
            is_it = TrendQuantity.of(row) == quantity and (row.concept or row.category) == concept
            if is_it and row.encoder == query.encoder:
                yield Step(*place(entry), row, entry.listed.name)


def _places(entries: Sequence[RunEntry], over: Over) -> Callable[[RunEntry], tuple[float, str]]:
    """Say where on the axis each run stands, and what its place is called."""
    if over in _SETTINGS:
        return lambda run: _setting(run, _SETTINGS[over])
    key: Callable[[RunEntry], Any] = _by_date if over == "date" else _by_name
    order = {run.listed.id: place for place, run in enumerate(sorted(entries, key=key))}
    return lambda run: (order[run.listed.id], run.listed.date[:10] if over == "date" else run.listed.name)


def _setting(entry: RunEntry, name: str) -> tuple[float, str]:
    """Return a setting of a run's model; those without it stand at 0."""
    assert entry.run is not None
    value = entry.run.model_card["settings"].get(name)
    return (float(value), f"{value:g}") if isinstance(value, int | float) else (0.0, "not set")


def _by_date(entry: RunEntry) -> str:
    return entry.listed.date


def _by_name(entry: RunEntry) -> list[tuple[int, int | str]]:
    """Names in the order people give them: ``step-900`` before ``step-1000``."""
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
            "verdict": verdict_words(row, entry.run.suite.label_of) or row.reason,
        }


@router.get("/compare")
def compare(request: Request, run: Annotated[list[Text], Query(min_length=2, max_length=MOST_RUNS)]) -> Response:
    """Show the page that ``clinometer compare`` writes, of any runs of one suite: each against the first."""
    entries = [request.app.state.runs.get(identifier) for identifier in dict.fromkeys(run)]
    if len(entries) < 2:
        raise InvalidInputError("A comparison takes two runs or more; choose another beside the first.")
    page = _compared(tuple(entry.run for entry in entries), tuple(entry.stamp for entry in entries))
    own = f"{policy(asset('style.css'), asset('page.js'))}; frame-ancestors 'none'"
    return HTMLResponse(page.encode("utf-8", "replace"), headers={"Content-Security-Policy": own})


@lru_cache(maxsize=8)
def _compared(runs: tuple[api.Run, ...], stamps: tuple[str, ...]) -> str:
    return comparison_html(api.compare(*runs))
