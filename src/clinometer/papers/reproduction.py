"""A reproduction from the papers' names to their pages. Models are loaded once, and a run that fails stops no other."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from math import isfinite
from typing import Any, Final

from clinometer.errors import InvalidInputError, RunError, RunMismatchError
from clinometer.models.protocols import Generator
from clinometer.papers.page import write_page
from clinometer.papers.paper import ALL, Paper, load_paper, paper_names
from clinometer.papers.planning import (
    COUNTS,
    REPRODUCTION,
    RUNS,
    AnyRun,
    Needs,
    PlannedCounts,
    PlannedRun,
    Rate,
    Reproduction,
    ReproductionRecord,
    RunStatus,
    needs_of,
    planned_runs,
    rate_of,
    read_record,
)
from clinometer.papers.printed import counts_of_labels
from clinometer.pipeline.audits import Workers, audit
from clinometer.pipeline.recipes import Models, named_encoders
from clinometer.runs import Directory, Progress
from clinometer.sweeps.sweep import SharedWorkers, outcome_of_work

ALIKE: Final = ("quick", "seed", "encoder")
"""Options that are the same for all runs of a reproduction, and stay so."""

KINDS: Final = (".csv", ".tex", ".svg", ".pdf")
"""Files of tables and figures."""


@dataclass(frozen=True)
class ReproductionRequest:
    """What a reproduction is asked for.

    Attributes
    ----------
    papers, models : names; of papers ``all`` is every one.
    quick : few images, and every page says so.
    options : of an audit, which hold for every run: seed, encoder, device, portraits, …
    objects : generators that are loaded already, by the names that ``models`` has for them.
    pictures : a folder of labelled pictures, for a paper whose pictures are given.
    """

    papers: Sequence[Paper]
    models: Sequence[str]
    quick: bool
    options: Mapping[str, Any]
    objects: Mapping[str, Generator] = field(default_factory=dict)
    pictures: str | None = None

    def planned_in(self, directory: Directory) -> list[AnyRun]:
        """Plan every run in a directory."""
        return planned_runs(
            directory, self.papers, self.models, quick=self.quick, options=self.options, pictures=self.pictures,
            objects=self.objects,
        )  # fmt: skip


def papers_of(names: str | Sequence[str], pictures: str | None = None) -> list[Paper]:
    """Return papers by their names, in the order of :func:`paper_names`; ``all`` is every one that can be done.

    A paper whose pictures are given can where ``pictures`` names their folder.

    Raises
    ------
    InvalidInputError
        There is no such paper, none is named, or one is that takes pictures and none are given.
    """
    named = [names] if isinstance(names, str) else list(names)
    if not named:
        raise InvalidInputError.missing(
            f"found none, expected one of {', '.join(paper_names())} or {ALL}", field="paper"
        )
    papers = [load_paper(name) for name in paper_names()]
    if ALL in named:
        return [paper for paper in papers if pictures is not None or not paper.counted]
    chosen = [load_paper(name) for name in named]
    for paper in chosen if pictures is None else ():
        for run in paper.counted.values():
            raise InvalidInputError.missing(f"paper {paper.name} takes {run.needs}", field="pictures")
    return [paper for paper in papers if paper in chosen]


def _open_record(directory: Directory, request: ReproductionRequest) -> ReproductionRecord:
    """Write the record of a reproduction that begins, or that goes on with the same or more, and return it."""
    encoders = named_encoders(request.options.get("encoder") or ())
    names = [str(each) if isinstance(each, str | os.PathLike) else each.card.name for each in encoders]
    alike = {"quick": request.quick, "seed": int(request.options.get("seed") or 0), "encoder": names}
    portraits = request.options.get("portraits")
    if directory.exists(REPRODUCTION):
        record = read_record(directory)
        for name in ALIKE:
            if getattr(record, name) != alike[name]:
                raise RunMismatchError(
                    f"found {alike[name] or 'none'}, and {directory.url} was begun with "
                    f"{getattr(record, name) or 'none'}; give that, or another --out",
                    field=name,
                )
    else:
        if directory.contents():
            raise RunMismatchError(
                f"{directory.url}: not empty and no reproduction: it has no {REPRODUCTION}; give another --out"
            )
        record = ReproductionRecord(created=datetime.now(UTC).isoformat("T", "seconds"), papers=[], models=[], **alike)
    papers = {*record.papers, *(paper.name for paper in request.papers)}
    if len(record.papers) == 1 and len(papers) > 1:  # each has a folder of its own from now on
        for folder in ("tables", "figures"):
            for name in (name for kind in KINDS for name in directory.names(folder, kind)):
                directory.remove(name)
            directory.remove_empty(folder)
        directory.remove("figures.tex")
        directory.remove("paper.html")
    record = record.model_copy(
        update={
            "papers": [name for name in paper_names() if name in papers],
            "models": list(dict.fromkeys([*record.models, *request.models])),
            "portraits": record.portraits if portraits is None else str(portraits),
            "pictures": record.pictures if request.pictures is None else request.pictures,
        }
    )
    _write_record(directory, record)
    return record


def _write_record(directory: Directory, record: ReproductionRecord) -> None:
    directory.write_json(REPRODUCTION, record.model_dump(mode="json"))


def look_ahead(out: str | os.PathLike[str], request: ReproductionRequest) -> Needs:
    """Estimate what a reproduction takes. Models are loaded; nothing is drawn or written."""
    directory = Directory(out)
    planned, rates, finished = request.planned_in(directory), dict[str, Rate](), {}
    if directory.exists(REPRODUCTION):
        record = read_record(directory)
        rates, finished = _known_rates(record), _finished(directory, record)
    return needs_of(planned, Models(), rates, finished, draws=False)


def reproduce(
    out: str | os.PathLike[str],
    request: ReproductionRequest,
    workers: Workers,
    progress: Progress,
    import_counts: ImportCounts,
    show: Callable[[Needs], None] = lambda needs: None,
) -> Reproduction:
    """Execute every run that is not finished, and write the page of each paper.

    ``import_counts`` : makes a run of a table of counts; it knows the study.
    ``show`` : is given what it takes before anything is drawn, but for one picture that is timed and thrown away.

    Raises
    ------
    InvalidInputError, RunError, EngineError
        As :func:`clinometer.reproduce`.
    """
    directory, models = Directory(out), Models()
    planned = request.planned_in(directory)
    with directory.locked():
        record = _open_record(directory, request)
        rates = _known_rates(record)
        needs = needs_of(planned, models, rates, _finished(directory, record), draws=True)
        record = record.model_copy(update={"rates": _plain_rates(rates)})
        _write_record(directory, record)
        show(needs)
        shared = SharedWorkers(workers)
        resources = _Resources(directory, models, shared, progress, import_counts)
        try:
            _run_all(resources, record, planned)
        finally:
            shared.close()
    return Reproduction(directory.url)


ImportCounts = Callable[[str, str, str], object]
"""Makes a run: from the file of a table of counts, where, and under which name."""


@dataclass(frozen=True)
class _Resources:
    """Resources that all runs of a reproduction share."""

    directory: Directory
    models: Models
    workers: SharedWorkers
    progress: Progress
    import_counts: ImportCounts


def _run_all(resources: _Resources, record: ReproductionRecord, planned: Sequence[AnyRun]) -> None:
    """Execute the runs in order; rewrite a paper's page as soon as the last of its runs is over."""
    directory, last = resources.directory, {run.paper: run.key for run in planned}
    for number, run in enumerate(planned, 1):
        resources.progress.note(f"run {number} of {len(planned)}: {run.paper}, {run.name}, of {run.model}")
        others = [place for place in _finished(directory, record).get(run.model, ()) if place != run.place]
        status, rates = _run_one(resources, run, others), record.rates
        if isinstance(run, PlannedRun):
            rates = rates | _plain_rates({run.model: rate_of(run.place) or Rate()})
        record = record.model_copy(update={"runs": record.runs | {run.key: status}, "rates": rates})
        _write_record(directory, record)
        if last[run.paper] == run.key:
            write_page(Reproduction(directory.url), load_paper(run.paper))
    for name in record.papers:  # papers of an earlier request, whose pages may have moved
        opened = Reproduction(directory.url)
        if name not in last and not directory.exists(opened.page_of(load_paper(name))):
            write_page(opened, load_paper(name))


def _run_one(resources: _Resources, run: AnyRun, pictures: Sequence[str]) -> RunStatus:
    """Execute a run and return its status."""

    def execute() -> None:
        if isinstance(run, PlannedCounts):
            _count(resources, run)
        else:
            audit(run.request, resources.models, resources.workers, resources.progress, pictures=pictures)

    outcome = outcome_of_work(execute, resources.progress, "run")
    return RunStatus(paper=run.paper, run=run.name, model=run.model, **outcome)


def _count(resources: _Resources, run: PlannedCounts) -> None:
    """Count labels into a table of the directory, which then becomes a run as any table of counts does."""
    text, _ = counts_of_labels(run.pictures, run.spec.label)
    if not resources.directory.is_local:
        raise InvalidInputError.unsupported(
            f"{resources.directory.url}: counts are imported from this machine; give a local --out"
        )
    name = f"{COUNTS}/{run.key}.csv"
    resources.directory.write_bytes(name, text.encode())
    resources.import_counts(resources.directory.path(name), run.place, run.pictures.resolve().name)


def _finished(directory: Directory, record: ReproductionRecord) -> dict[str, list[str]]:
    """Return the finished runs of each model, whose pictures its other runs may share."""
    places: dict[str, list[str]] = {}
    for key, status in record.runs.items():
        place = f"{directory.url.rstrip('/')}/{RUNS}/{key}"
        if status.status == "finished" and Directory(place).exists("run.json"):
            places.setdefault(status.model, []).append(place)
    return places


def _known_rates(record: ReproductionRecord) -> dict[str, Rate]:
    return {name: Rate(*ends) for name, ends in record.rates.items() if all(end is not None for end in ends)}  # type: ignore[arg-type]


def _plain_rates(rates: Mapping[str, Rate]) -> dict[str, tuple[float | None, float | None]]:
    """Return the rates that are known, for JSON."""
    known = {name: rate for name, rate in rates.items() if isfinite(rate.seconds) and isfinite(rate.bytes)}
    return {name: (rate.seconds, rate.bytes) for name, rate in known.items()}


def require_finished(reproduction: Reproduction) -> None:
    """Raise if a run failed.

    Raises
    ------
    RunError
        The message counts them, says of the first why, and names the way out.
    """
    if failed := reproduction.failed:
        name, reason = next(iter(failed.items()))
        raise RunError.failed(
            f"{reproduction.url}: {len(failed)} of {len(reproduction.planned)} runs failed; the others are finished, "
            f"and the pages say what is left out. The first, {name}: {reason}. Fix that and give the same command "
            "again: only what failed is done"
        )
