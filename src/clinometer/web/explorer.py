"""The explorer: pictures of some runs side by side, aligned by the noise that they began from.

Filters and order are those of the first run that is chosen; what the others drew from the same noise stands beside it.
The whole state of a view is in its address.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Annotated, Any, Final, Literal
from urllib.parse import urlencode

from fastapi import APIRouter, Query, Request, Response
from fastapi.responses import RedirectResponse
from pydantic import BaseModel, Field, field_validator
from starlette.exceptions import HTTPException

from clinometer import api
from clinometer.report.comparison import run_names
from clinometer.web.findings import Finding, findings_of, furthest
from clinometer.web.pages import is_partial, render
from clinometer.web.people import Said, said_of
from clinometer.web.pictures import Identifier
from clinometer.web.runs_index import Known, Listed
from clinometer.web.samples import (
    ORDERS,
    PEOPLE,
    STATUSES,
    Eye,
    IndexedSample,
    Noise,
    Order,
    Owner,
    People,
    SampleChoice,
    Samples,
    Status,
)

router = APIRouter()

MOST_RUNS: Final = 8
"""Columns that a screen holds."""
PER_PAGE: Final = (24, 48, 96)

Text = Annotated[str, Field(max_length=500)]


class ExplorerQuery(BaseModel):
    """What an address of the explorer asks.

    Attributes
    ----------
    run : ids of runs, the first of which leads.
    of : whose images, as ``role/name``; all where none is named.
    encoder : whose readings; the first of the leading run by default.
    side : only images that read as this group. within : only those whose margin is at most this.
    people : only those that people rated, or see as the encoder reads, or otherwise.
    """

    run: Annotated[list[Text], Field(max_length=MOST_RUNS)] = []
    of: Annotated[list[Text], Field(max_length=1000)] = []
    encoder: Text = ""
    side: Text = ""
    status: Status = "any"
    people: People = "any"
    within: float | None = Field(None, ge=0, le=2)
    order: Order = "seed"
    page: int = Field(1, ge=1, le=10_000_000)
    per: Literal[24, 48, 96] = 48

    @field_validator("within", mode="before")
    @classmethod
    def _empty_is_none(cls, value: Any) -> Any:
        return None if value == "" else value

    @field_validator("per", mode="before")
    @classmethod
    def _as_number(cls, value: Any) -> Any:
        return int(value) if isinstance(value, str) and value.isdigit() else value

    def address(self, **changes: Any) -> str:
        """The address of this view, or of one that differs by some fields."""
        asked = self.model_copy(update=changes).model_dump(exclude_defaults=True)
        return f"/explore?{urlencode(asked, doseq=True)}"


@dataclass(frozen=True)
class Column:
    """A run of the view: what it is called there, its encoder and its findings by concept."""

    known: Known
    name: str
    eye: Eye | None
    findings: Mapping[str, Finding]
    said: Mapping[str, Said]

    @property
    def id(self) -> str:
        """What addresses call the run."""
        return self.known.listed.id

    @property
    def run(self) -> api.Run:
        """The run, opened."""
        assert self.known.run is not None
        return self.known.run

    def label(self, group: str) -> str:
        """A group's label for people."""
        return self.run.suite.label_of(group)

    def differs(self, sample: IndexedSample) -> bool:
        """Whether most people say another thing of a picture than the encoder reads."""
        said = self.said.get(sample.id)
        return bool(said and said.answer and sample.side and said.answer != sample.side)

    def finding(self, owner: Owner) -> Finding | None:
        """What the scores say of an owner; nothing of groups, for which none is asked."""
        return self.findings.get(owner.name) if owner.role == "target" else None


@dataclass(frozen=True)
class NoiseLine:
    """What began from one noise: the leading run's sample, and for each run its own or None."""

    number: int
    lead: IndexedSample
    samples: tuple[IndexedSample | None, ...]


@dataclass(frozen=True)
class OwnerSection:
    """Consecutive lines of one owner."""

    owner: Owner
    lines: tuple[NoiseLine, ...]


@dataclass(frozen=True)
class ExplorerPage:
    """A page of the explorer."""

    asked: ExplorerQuery
    columns: tuple[Column, ...]
    owners: tuple[Owner, ...]
    eyes: tuple[Eye, ...]
    sections: tuple[OwnerSection, ...]
    total: int

    @property
    def pages(self) -> int:
        """How many pages there are."""
        return max(1, -(-self.total // self.asked.per))

    @property
    def first(self) -> int:
        """The number of the page's first sample, from 1."""
        return (self.asked.page - 1) * self.asked.per + 1


@router.get("/")
def start(request: Request) -> Response:
    """Where a visitor begins: with the pictures, where there is but one run; with the index of several or none."""
    listed = request.app.state.runs.listed()
    return _of_newest(request.app.state, listed) if len(listed) == 1 else RedirectResponse("/runs", 303)


@router.get("/explore")
def explore(request: Request, asked: Annotated[ExplorerQuery, Query()]) -> Response:
    """The pictures of some runs; for htmx the view without the form."""
    listed = request.app.state.runs.listed() if not asked.run or not is_partial(request, "view") else []
    if not asked.run:
        return _of_newest(request.app.state, listed)
    view = viewed(request.app.state, asked)
    template = "explorer_view.html" if is_partial(request, "view") else "explorer.html"
    return render(
        request,
        template,
        v=view,
        runs=_nearest_first(listed, view),
        orders=ORDERS,
        statuses=STATUSES,
        sizes=PER_PAGE,
        ways=PEOPLE,
    )


def _of_newest(state: Any, listed: Sequence[Listed]) -> Response:
    """The explorer of the run that was begun last, of those that are scored if there are any.

    It begins with the concepts that lean furthest to either side: they are what there is to see.
    """
    whole = [run for run in listed if not run.error]
    if not whole:
        return RedirectResponse("/runs", 303)
    newest = max(whole, key=lambda run: (run.is_scored, run.date))
    known = state.runs.get(newest.id)
    with Samples(state.shelf.path(known)) as samples:
        shown = {owner.name: owner.key for owner in samples.owners() if owner.role == "target"}
    return RedirectResponse(
        ExplorerQuery(run=[newest.id], of=[shown[c] for c in furthest(known) if c in shown]).address(), 303
    )


def _nearest_first(listed: Sequence[Listed], view: ExplorerPage) -> list[Listed]:
    """Runs that can stand beside the leading one first: those of its suite."""
    suite = view.columns[0].known.listed.suite
    whole = [run for run in listed if not run.error]
    return sorted(whole, key=lambda run: (run.suite != suite, run.name))


def viewed(state: Any, asked: ExplorerQuery) -> ExplorerPage:
    """Look up what an address asks.

    Raises
    ------
    Building
        The index of a run is being made.
    RunError
        A run is not there, or cannot be read.
    """
    runs = [state.runs.get(identifier) for identifier in dict.fromkeys(asked.run)]
    paths = [state.shelf.path(known) for known in runs]
    said = [said_of(state.ratings, known) for known in runs]
    with Samples(paths[0]) as lead:
        lead.bring_people({item: each.answer for item, each in said[0].items()})
        owners, eyes = lead.owners(), lead.eyes()
        eye = next((each for each in eyes if each.name == asked.encoder), next(iter(eyes), None))
        choice = choice_of(asked, owners, eye)
        total = lead.count(choice)
        found = lead.page(choice, (asked.page - 1) * asked.per, asked.per, total)
    others = [_beside(path, found, eye) for path in paths[1:]]
    return ExplorerPage(
        asked,
        tuple(_columns(runs, [eye, *(own for own, _ in others)], said)),
        tuple(owners),
        tuple(eyes),
        tuple(_sections(asked, owners, found, [by_noise for _, by_noise in others])),
        total,
    )


def _beside(
    path: Path, found: Sequence[IndexedSample], eye: Eye | None
) -> tuple[Eye | None, dict[Noise, IndexedSample]]:
    """What another run drew from the noises of some samples, as its encoder of the same name reads it."""
    with Samples(path) as samples:
        own = next((each for each in samples.eyes() if eye is not None and each.name == eye.name), None)
        return own, samples.of_noise([sample.noise for sample in found], own.code if own else None)


def _columns(runs: Sequence[Known], eyes: Sequence[Eye | None], said: Sequence[Mapping[str, Said]]) -> Iterator[Column]:
    """The runs of a view, each called as on the page of a comparison."""
    names = run_names([known.run for known in runs if known.run is not None])
    for known, name, eye, held in zip(runs, names, eyes, said, strict=True):
        yield Column(known, name, eye, findings_of(known), held)


def _column(state: Any, known: Known, eye: Eye | None) -> Column:
    return Column(known, known.listed.name, eye, findings_of(known), said_of(state.ratings, known))


def choice_of(asked: ExplorerQuery, owners: Sequence[Owner], eye: Eye | None) -> SampleChoice:
    """What an address asks, in the codes of the index. A name that it does not have finds nothing."""
    codes = {owner.key: owner.code for owner in owners}
    return SampleChoice(
        tuple(codes.get(key, -1) for key in asked.of),
        eye.code if eye else None,
        asked.side,
        asked.status,
        asked.within,
        asked.order,
        asked.people,
    )


def _sections(
    asked: ExplorerQuery,
    owners: Sequence[Owner],
    found: Sequence[IndexedSample],
    beside: Sequence[Mapping[Noise, IndexedSample]],
) -> Iterator[OwnerSection]:
    by_code = {owner.code: owner for owner in owners}
    first = (asked.page - 1) * asked.per + 1
    lines = [
        NoiseLine(number, sample, (sample, *(other.get(sample.noise) for other in beside)))
        for number, sample in enumerate(found, first)
    ]
    for code, own in groupby(lines, key=lambda line: line.lead.owner):
        yield OwnerSection(by_code[code], tuple(own))


@router.get("/runs/{run}/pictures/{sample}")
def one_picture(request: Request, run: Identifier, sample: Identifier) -> Response:
    """One picture, large, with what is known of it."""
    state = request.app.state
    known = state.runs.get(run)
    with Samples(state.shelf.path(known)) as samples:
        seen = [(eye, samples.find(sample, eye.code)) for eye in samples.eyes()]
        found = samples.find(sample)
        owners = {owner.code: owner for owner in samples.owners()}
    if found is None:
        raise HTTPException(404, "There is no such picture.")
    return render(
        request,
        "picture.html",
        column=_column(state, known, None),
        sample=found,
        owner=owners[found.owner],
        seen=seen,
        others=list(_of_same_noise(state, known, found)),
        statuses=STATUSES,
    )


def _of_same_noise(state: Any, known: Known, sample: IndexedSample) -> Iterator[tuple[Column, IndexedSample]]:
    """What other runs of the suite drew from a sample's noise, of those that were looked at before."""
    shown = 0
    for listed in state.runs.listed():
        if listed.error or listed.suite != known.listed.suite or listed.id == known.listed.id or shown == MOST_RUNS:
            continue
        other = state.runs.get(listed.id)
        if state.shelf.has(other):
            with Samples(state.shelf.path(other)) as samples:
                eye = next(iter(samples.eyes()), None)
                for own in samples.of_noise([sample.noise], eye.code if eye else None).values():
                    shown += 1
                    yield _column(state, other, eye), own
