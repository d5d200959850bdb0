"""The explorer: pictures of some runs side by side, aligned by the noise that they began from, with their verdicts.

Filters and order are those of the first run that is chosen; what the others drew from the same noise stands beside it,
or, of a run that shares none, what has the same rank. The whole state of a view is in its address. The same pages can
be written into a folder, to be opened without a server.
"""

from __future__ import annotations

import os
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import groupby
from pathlib import Path
from types import SimpleNamespace
from typing import Annotated, Any, Final, Literal
from urllib.parse import urlencode

from fastapi import APIRouter, Query, Request, Response
from fastapi.responses import RedirectResponse
from markupsafe import Markup
from pydantic import BaseModel, Field, field_validator
from starlette.exceptions import HTTPException

from clinometer import api
from clinometer._messages import OTHERWISE
from clinometer.errors import InvalidInputError, RunStorageError
from clinometer.pipeline.results import render_html
from clinometer.report import wording
from clinometer.report.differences import run_names
from clinometer.report.html import asset, page_style, policy
from clinometer.report.wording import verdict_group_of, verdict_in_full
from clinometer.studies import component_names
from clinometer.studies.reporting import report_input
from clinometer.web import pages, sample_index
from clinometer.web.pages import Identifier, is_partial, render
from clinometer.web.pictures import Album
from clinometer.web.ratings.room import Vote, votes_of
from clinometer.web.runs_index import MOST_RUNS, Listed, RunEntry, RunsIndex, Text, judged, scores_at, scores_of


@dataclass(frozen=True)
class Finding:
    """A verdict with its score.

    Attributes
    ----------
    lean : which colour and mark it has, as in the report. words : the verdict.
    number, interval : the score and its 95 % interval.
    """

    lean: str
    words: str
    metric: str
    number: str
    interval: str


def findings_of(entry: RunEntry) -> Mapping[str, Finding]:
    """Return the finding of each concept of a run; none of a run without scores."""
    assert entry.run is not None
    return _findings(entry.run, entry.stamp) if entry.listed.is_scored else {}


@lru_cache(maxsize=64)
def _findings(run: api.Run, stamp: str) -> Mapping[str, Finding]:
    rows = judged(scores_at(run, stamp))
    digits = wording.digits_for([row.value for row in rows.values()])
    return {
        concept: Finding(
            verdict_group_of(row),
            verdict_in_full(row, run.suite.label_of) or "no verdict",
            component_names().get(row.component, row.component.replace("_", " ")),
            wording.signed(row.value, digits),
            wording.interval(row.low, row.high, digits),
        )
        for concept, row in rows.items()
    }


def furthest(entry: RunEntry) -> list[str]:
    """Return the concept that leans furthest to either side, where any does."""
    rows = judged(scores_of(entry)).values() if entry.listed.is_scored else []
    sides = ([row for row in rows if verdict_group_of(row) == side] for side in ("a", "b"))
    return [max(leaning, key=lambda row: abs(row.value)).concept for leaning in sides if leaning]


router = APIRouter()

PER_PAGE: Final = (24, 48, 96)


class ExplorerQuery(BaseModel):
    """What an address of the explorer asks.

    Attributes
    ----------
    run : ids of runs, the first of which leads.
    of : whose images, as ``role/name``; all where none is named.
    encoder : whose readings; the first of the leading run by default.
    side : only images that read as this group. within : only those whose margin is at most this.
    people : only those that people rated, or see as the encoder reads, or otherwise; or that simulated raters rated.
    """

    run: Annotated[list[Text], Field(max_length=MOST_RUNS)] = []
    of: Annotated[list[Text], Field(max_length=1000)] = []
    encoder: Text = ""
    side: Text = ""
    status: sample_index.Status = "any"
    people: sample_index.People = "any"
    reader: Text = ""
    said: Text = ""
    readers: Literal["any", "disagree"] = "any"
    within: float | None = Field(None, ge=0, le=2)
    order: sample_index.Order = "seed"
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
        """Return the address of this view, or of one that differs by some fields."""
        fields = self.model_copy(update=changes).model_dump(exclude_defaults=True)
        return f"/explore?{urlencode(fields, doseq=True)}"


@dataclass(frozen=True)
class Column:
    """A run of the view: what it is called there, its encoder and its findings by concept."""

    entry: RunEntry
    name: str
    eye: sample_index.IndexedEncoder | None
    findings: Mapping[str, Finding]
    votes: Mapping[str, Vote]
    is_by_rank: bool = False
    """Whether its samples stand beside the leading run's by rank, as the two share no noise."""

    @property
    def id(self) -> str:
        """What addresses call the run."""
        return self.entry.listed.id

    @property
    def run(self) -> api.Run:
        """The run, opened."""
        assert self.entry.run is not None
        return self.entry.run

    def label(self, group: str) -> str:
        """Return a group's label for people, or a reader's answer that is none of the groups."""
        return OTHERWISE.get(group) or self.run.suite.label_of(group)

    def differs(self, sample: sample_index.IndexedSample) -> bool:
        """Return whether most people say another thing of a picture than the encoder reads."""
        vote = self.votes.get(sample.id)
        return bool(vote and vote.answer and sample.side and vote.answer != sample.side)

    def finding(self, owner: sample_index.Owner) -> Finding | None:
        """Return what the scores say of an owner; nothing of groups, for which none is asked."""
        return self.findings.get(owner.name) if owner.role == "target" else None


@dataclass(frozen=True)
class NoiseLine:
    """What began from one noise: the leading run's sample, and for each run its own or None."""

    number: int
    lead: sample_index.IndexedSample
    samples: tuple[sample_index.IndexedSample | None, ...]


@dataclass(frozen=True)
class OwnerSection:
    """Consecutive lines of one owner."""

    owner: sample_index.Owner
    lines: tuple[NoiseLine, ...]


@dataclass(frozen=True)
class ExplorerPage:
    """A page of the explorer."""

    query: ExplorerQuery
    columns: tuple[Column, ...]
    owners: tuple[sample_index.Owner, ...]
    eyes: tuple[sample_index.IndexedEncoder, ...]
    voices: tuple[sample_index.ReaderQuestion, ...]
    sections: tuple[OwnerSection, ...]
    total: int

    @property
    def said(self) -> list[str]:
        """List every answer that some reader might give."""
        return list(dict.fromkeys(answer for voice in self.voices for answer in voice.answers))

    @property
    def by_rank(self) -> list[Column]:
        """List the runs that share no noise with the leading one."""
        return [column for column in self.columns if column.is_by_rank]

    @property
    def pages(self) -> int:
        """How many pages there are."""
        return max(1, -(-self.total // self.query.per))

    @property
    def first(self) -> int:
        """The number of the page's first sample, from 1."""
        return (self.query.page - 1) * self.query.per + 1


@router.get("/")
def start(request: Request) -> Response:
    """Return the page a visitor starts at: the pictures of a single run, or the index of several or none."""
    listed = request.app.state.runs.listed()
    return _of_newest(request.app.state, listed) if len(listed) == 1 else RedirectResponse("/runs", 303)


@router.get("/explore")
def explore(request: Request, query: Annotated[ExplorerQuery, Query()]) -> Response:
    """Show the pictures of some runs; for htmx the view without the form."""
    listed = request.app.state.runs.listed() if not query.run or not is_partial(request, "view") else []
    if not query.run:
        return _of_newest(request.app.state, listed)
    view = viewed(request.app.state, query)
    template = "explorer_view.html" if is_partial(request, "view") else "explorer.html"
    # choices by what people said, as far as anybody said anything, and the one that the address holds
    column = view.columns[0]
    kinds = {vote.is_simulated for vote in column.votes.values()}
    offered: set[sample_index.People] = {"any", view.query.people}
    if False in kinds:
        offered |= {"rated", "alike", "otherwise"} if column.eye and column.eye.groups else {"rated"}
    if True in kinds:
        offered.add("simulated")
    # runs that can stand beside the leading one first: those of its suite
    suite = view.columns[0].entry.listed.suite
    whole = [run for run in listed if not run.error]
    return render(
        request,
        template,
        v=view,
        runs=sorted(whole, key=lambda run: (run.suite != suite, run.name)),
        orders=sample_index.ORDERS,
        statuses=sample_index.STATUSES,
        sizes=PER_PAGE,
        ways={way: words for way, words in sample_index.PEOPLE.items() if way in offered},
    )


def _of_newest(state: Any, listed: Sequence[Listed]) -> Response:
    """Return the explorer of the run that was begun last, of those that are scored if there are any.

    It begins with the concepts that lean furthest to either side: they are what there is to see.
    """
    whole = [run for run in listed if not run.error]
    if not whole:
        return RedirectResponse("/runs", 303)
    newest = max(whole, key=lambda run: (run.is_scored, run.date))
    entry = state.runs.get(newest.id)
    with sample_index.Samples(state.shelf.path(entry)) as samples:
        target_keys = {owner.name: owner.key for owner in samples.owners() if owner.role == "target"}
    return RedirectResponse(
        ExplorerQuery(run=[newest.id], of=[target_keys[c] for c in furthest(entry) if c in target_keys]).address(), 303
    )


def viewed(state: Any, query: ExplorerQuery) -> ExplorerPage:
    """Return the view that an address asks for. ``state`` : of the app; without ratings nothing is shown of them.

    Raises
    ------
    Building
        The index of a run is being made.
    RunError
        A run is not there, or cannot be read.
    """
    entries = [state.runs.get(identifier) for identifier in dict.fromkeys(query.run)]
    paths = [state.shelf.path(entry) for entry in entries]
    votes = [votes_of(state.ratings, entry) if state.ratings is not None else {} for entry in entries]
    with sample_index.Samples(paths[0]) as lead:
        lead.bring_people({identifier: (vote.answer, vote.is_simulated) for identifier, vote in votes[0].items()})
        owners, eyes, voices = lead.owners(), lead.eyes(), lead.voices()
        eye = next((eye for eye in eyes if eye.name == query.encoder), next(iter(eyes), None))
        choice = choice_of(query, owners, eye, voices)
        total = lead.count(choice)
        offset = (query.page - 1) * query.per
        samples = lead.page(choice, offset, query.per, total)
        ranks = _ranks(lead, choice, owners, samples, offset)
    others = [_beside(path, query, eye, ranks) for path in paths[1:]]
    names = run_names([entry.run for entry in entries if entry.run is not None])  # as on the page of a comparison
    own_eyes = [eye, *(own for own, _, _ in others)]
    by_rank = [False, *(is_by_rank for *_, is_by_rank in others)]
    columns = (
        Column(entry, name, own, findings_of(entry), run_votes, ranked)
        for entry, name, own, run_votes, ranked in zip(entries, names, own_eyes, votes, by_rank, strict=True)
    )
    lines = [
        NoiseLine(number, sample, (sample, *(found.get(sample.id) for _, found, _ in others)))
        for number, sample in enumerate(samples, offset + 1)
    ]
    by_code = {owner.code: owner for owner in owners}
    sections = (OwnerSection(by_code[code], tuple(own)) for code, own in groupby(lines, key=lambda at: at.lead.owner))
    return ExplorerPage(query, tuple(columns), tuple(owners), tuple(eyes), tuple(voices), tuple(sections), total)


Ranks = Sequence[tuple[sample_index.Owner, int, Sequence[sample_index.IndexedSample]]]
"""Of each owner on a page the rank of its first sample there, from 0, and its samples."""


def _ranks(
    lead: sample_index.Samples,
    choice: sample_index.SampleChoice,
    owners: Sequence[sample_index.Owner],
    samples: Sequence[sample_index.IndexedSample],
    offset: int,
) -> Ranks:
    """Return the rank of each sample of a page among its owner's samples that match the filter; owners are in order."""
    by_code = {owner.code: owner for owner in owners}
    ranks: list[tuple[sample_index.Owner, int, Sequence[sample_index.IndexedSample]]] = []
    for code, samples_of_owner in groupby(samples, key=lambda sample: sample.owner):
        rank = 0
        if not ranks:  # the page begins within an owner
            earlier = tuple(c for c in choice.owners or by_code if c < code)
            rank = offset - (lead.count(replace(choice, owners=earlier)) if earlier else 0)
        ranks.append((by_code[code], rank, list(samples_of_owner)))
    return ranks


def _beside(
    path: Path, query: ExplorerQuery, eye: sample_index.IndexedEncoder | None, ranks: Ranks
) -> tuple[sample_index.IndexedEncoder | None, dict[str, sample_index.IndexedSample], bool]:
    """Return another run's counterparts of a page's samples, by id, as its encoder of the same name reads them.

    That is what it drew from the same noise. Where it shares none, as with another seed, it is what has the same rank
    among the samples of the same owner in the same order; the last value says so.
    """
    with sample_index.Samples(path) as samples:
        match = next((encoder for encoder in samples.eyes() if eye is not None and encoder.name == eye.name), None)
        shown = [sample for *_, of_owner in ranks for sample in of_owner]
        by_noise = samples.of_noise([sample.noise for sample in shown], match.code if match else None)
        if by_noise or not shown:
            return match, {sample.id: by_noise[sample.noise] for sample in shown if sample.noise in by_noise}, False
        owners, voices, counterparts = samples.owners(), samples.voices(), dict[str, sample_index.IndexedSample]()
        for owner, rank, of_owner in ranks:
            choice = choice_of(query.model_copy(update={"of": [owner.key]}), owners, match, voices)
            beside = samples.page(choice, rank, len(of_owner), samples.count(choice))
            counterparts |= {sample.id: other for sample, other in zip(of_owner, beside, strict=False)}
        return match, counterparts, True


def _column(state: Any, entry: RunEntry, eye: sample_index.IndexedEncoder | None) -> Column:
    return Column(entry, entry.listed.name, eye, findings_of(entry), votes_of(state.ratings, entry))


def choice_of(
    query: ExplorerQuery,
    owners: Sequence[sample_index.Owner],
    eye: sample_index.IndexedEncoder | None,
    voices: Sequence[sample_index.ReaderQuestion] = (),
) -> sample_index.SampleChoice:
    """Return what an address asks, in the codes of the index. A name that it does not have finds nothing."""
    codes = {owner.key: owner.code for owner in owners}
    return sample_index.SampleChoice(
        tuple(codes.get(key, -1) for key in query.of),
        eye.code if eye else None,
        query.side,
        query.status,
        query.within,
        query.order,
        query.people,
        next((voice.code for voice in voices if voice.key == query.reader), -1) if query.reader else None,
        query.said,
        query.readers == "disagree",
    )


@router.get("/runs/{run}/pictures/{sample}")
def one_picture(request: Request, run: Identifier, sample: Identifier) -> Response:
    """Return one picture, large, with what is known of it."""
    state = request.app.state
    entry = state.runs.get(run)
    with sample_index.Samples(state.shelf.path(entry)) as samples:
        readings = [(eye, samples.find(sample, eye.code)) for eye in samples.eyes()]
        indexed_sample = samples.find(sample)
        owners = {owner.code: owner for owner in samples.owners()}
    if indexed_sample is None:
        raise HTTPException(404, "There is no such picture.")
    # what other runs of the suite drew from its noise, of those that were looked at before
    others: list[tuple[Column, sample_index.IndexedSample]] = []
    of_suite = [each for each in state.runs.listed() if not each.error and each.suite == entry.listed.suite]
    for listed in of_suite:
        if listed.id == entry.listed.id or len(others) == MOST_RUNS:
            continue
        other = state.runs.get(listed.id)
        if state.shelf.has(other):
            with sample_index.Samples(state.shelf.path(other)) as samples:
                eye = next(iter(samples.eyes()), None)
                counterparts = samples.of_noise([indexed_sample.noise], eye.code if eye else None)
            others += [(_column(state, other, eye), counterpart) for counterpart in counterparts.values()]
    return render(
        request,
        "picture.html",
        column=_column(state, entry, None),
        sample=indexed_sample,
        owner=owners[indexed_sample.owner],
        readings=readings,
        others=others,
        statuses=sample_index.STATUSES,
    )


# --- The explorer as a folder of pages, which opens from a file or from any web host, without a server ---------------
#
# Pages show what the explorer shows of each run, and of runs of one suite side by side, without filters. People's
# ratings stay on the server. Files are named by numbers, every picture is decoded and saved again, and a page loads
# nothing but these thumbnails, so a hostile run can do no more than on the server.


IMAGES: Final = 24
"""Pictures of each concept and group, the first of the plan, at most."""


@dataclass
class _Site:
    """A folder that is being written, and what pages are made of."""

    folder: Path
    state: Any
    images: int
    names: dict[str, str] = field(default_factory=dict)
    """The file of each picture by its run and sample; empty of one that cannot be shown."""

    def picture(self, column: Column, sample: sample_index.IndexedSample) -> str:
        """Write a sample's picture once; its address from a page, empty where there is none to show."""
        key = f"{column.id}/{sample.id}"
        if key not in self.names:
            shows = sample.status in ("ok", "blank") and not sample.flagged
            content = self.state.album.picture(column.run, sample, "small") if shows else None
            self.names[key] = f"pictures/{len(self.names)}.webp" if content else ""
            if content:
                self.folder.joinpath(self.names[key]).write_bytes(content)
        return self.names[key]

    def write(self, file: str, template: str, **values: Any) -> None:
        """Fill in a template and write a page."""
        style, script = page_style(pages.files()["web.css"]), asset("page.js")
        allowed = policy(style, script).replace("img-src data:", "img-src 'self' file: data:")
        head = {"style": Markup(style), "script": Markup(script), "policy": allowed}
        text = pages.environment().get_template(template).render(**head, **values)
        self.folder.joinpath(file).write_text(text, "utf-8", "backslashreplace")


def write_site(
    places: Sequence[str], folder: Path, cache: Path, *, images: int = IMAGES, has_reports: bool = True
) -> list[str]:
    """Write the explorer of some runs into a new folder, and return the names of its pages.

    Parameters
    ----------
    places : run directories, or folders of them; paths or URLs.
    cache : a folder for indices and small pictures, as the server has.
    images : of each concept and group, at most 24.
    has_reports : whether the report of each scored run is written beside its pictures.

    Raises
    ------
    InvalidInputError
        The folder is there and not empty, or is a file.
    RunError, RunStorageError
        A run cannot be read; the folder cannot be written.
    """
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise InvalidInputError.already_exists(
            f"--export {folder}: found something there, expected a new or an empty folder"
        )
    index = RunsIndex(tuple(places))
    shelf = sample_index.RunIndices(cache / "samples", patience=threading.TIMEOUT_MAX)
    state = SimpleNamespace(runs=index, shelf=shelf, album=Album(cache), ratings=None)
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=f".{folder.name}-", dir=folder.parent) as temporary:
            site = _Site(Path(temporary, "site"), state, min(images, IMAGES))
            (site.folder / "pictures").mkdir(parents=True)
            listed = index.listed()
            whole = [run for run in listed if not run.error]
            rows = [_write_run(site, number, run, has_reports=has_reports) for number, run in enumerate(whole, 1)]
            beside = list(_write_side_by_side(site, whole))
            site.write("index.html", "site_index.html", rows=rows, beside=beside, broken=len(listed) - len(whole))
            os.replace(site.folder, folder)  # a folder that is there is whole
    except OSError as error:
        raise RunStorageError(f"--export {folder}: cannot be written: {error.strerror or error}") from error
    return sorted(path.name for path in folder.glob("*.html"))


def _write_run(site: _Site, number: int, run: Listed, *, has_reports: bool) -> Mapping[str, Any]:
    """Write the pictures of a run and its report; what the index says of it."""
    file, report = f"run-{number}.html", ""
    _write_pictures(site, file, [run.id])
    entry: RunEntry = site.state.runs.get(run.id)
    if has_reports and run.is_scored and entry.run is not None:
        report = f"report-{number}.html"
        page = render_html(report_input(entry.run))
        site.folder.joinpath(report).write_text(page, "utf-8", "backslashreplace")
    return {"run": run, "file": file, "report": report}


def _write_side_by_side(site: _Site, listed: Sequence[Listed]) -> Iterator[tuple[str, list[Listed]]]:
    """Write the runs of each suite side by side, as many as a page takes; the files, and the runs of each."""
    by_suite = groupby(sorted(listed, key=lambda run: run.suite), key=lambda run: run.suite)
    for number, (_, of_suite) in enumerate(by_suite, 1):
        runs = list(of_suite)[:MOST_RUNS]
        if len(runs) > 1:
            _write_pictures(site, f"side-by-side-{number}.html", [run.id for run in runs])
            yield f"side-by-side-{number}.html", runs


def _write_pictures(site: _Site, file: str, runs: list[str]) -> None:
    """Write the page of some runs: every owner's first pictures, and how many there are."""
    sections: list[tuple[OwnerSection, int]] = []
    view: ExplorerPage | None = None
    with sample_index.Samples(site.state.shelf.path(site.state.runs.get(runs[0]))) as samples:
        owners = samples.owners()
    for owner in owners:
        view = viewed(site.state, ExplorerQuery(run=runs, of=[owner.key], per=24))
        for section in view.sections:
            sections.append((OwnerSection(section.owner, section.lines[: site.images]), view.total))
    site.write(file, "site_pictures.html", v=view, sections=sections, picture=site.picture)
