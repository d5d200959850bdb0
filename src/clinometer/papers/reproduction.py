"""A reproduction from the papers' names to their pages. Models are loaded once, and a run that fails stops no other."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from math import isfinite
from typing import Any, Final

from clinometer.errors import ClinometerError, InvalidInputError, RunError, RunLockedError, RunMismatchError
from clinometer.models.protocols import Generator
from clinometer.papers.page import write_page
from clinometer.papers.paper import ALL, Paper, load_paper, paper_names
from clinometer.papers.pictures import counts_of_labels
from clinometer.papers.planning import (
    COUNTS,
    RUNS,
    AnyRun,
    Needs,
    PlannedCounts,
    PlannedRun,
    Rate,
    needs_of,
    planned_counts,
    planned_runs,
    rate_of,
)
from clinometer.papers.record import RECORD, Reproduction, ReproductionRecord, RunStatus, read_record
from clinometer.pipeline.audits import Workers, audit
from clinometer.pipeline.recipes import Models, named_encoders
from clinometer.runs import Directory, Progress
from clinometer.sweeps.sweep import SharedWorkers

ALIKE: Final = ("quick", "seed", "encoder")
"""What all runs of a reproduction are asked alike, as long as it lasts."""


KINDS: Final = (".csv", ".tex", ".svg", ".pdf")
"""Files of tables and figures."""


@dataclass(frozen=True)
class Asked:
    """What a reproduction is asked.

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

    def runs_in(self, directory: Directory) -> list[AnyRun]:
        """Plan every run, with generators that are loaded already in the place of their names."""
        planned = planned_runs(directory, self.papers, self.models, quick=self.quick, options=self.options)
        loaded = [
            replace(run, request=run.request.model_copy(update={"model": self.objects[run.model]}))
            if run.model in self.objects
            else run
            for run in planned
        ]
        return [*loaded, *planned_counts(directory, self.papers, self.pictures)]


def papers_of(names: str | Sequence[str], pictures: str | None = None) -> list[Paper]:
    """Return papers by their names, in the order of the house; ``all`` is every one that can be done.

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


def _opened_record(directory: Directory, asked: Asked) -> ReproductionRecord:
    """Return the record of a reproduction that is begun, or that goes on with the same or more; it is written."""
    encoders = named_encoders(asked.options.get("encoder") or ())
    names = [str(each) if isinstance(each, str | os.PathLike) else each.card.name for each in encoders]
    alike = {"quick": asked.quick, "seed": int(asked.options.get("seed") or 0), "encoder": names}
    portraits = asked.options.get("portraits")
    if directory.exists(RECORD):
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
                f"{directory.url}: not empty and no reproduction: it has no {RECORD}; give another --out"
            )
        record = ReproductionRecord(created=datetime.now(UTC).isoformat("T", "seconds"), papers=[], models=[], **alike)
    papers = {*record.papers, *(paper.name for paper in asked.papers)}
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
            "models": list(dict.fromkeys([*record.models, *asked.models])),
            "portraits": record.portraits if portraits is None else str(portraits),
            "pictures": record.pictures if asked.pictures is None else asked.pictures,
        }
    )
    _write_record(directory, record)
    return record


def _write_record(directory: Directory, record: ReproductionRecord) -> None:
    directory.write_json(RECORD, record.model_dump(mode="json"))


def look_ahead(out: str | os.PathLike[str], asked: Asked) -> Needs:
    """Estimate what a reproduction takes. Models are loaded; nothing is drawn or written."""
    directory = Directory(out)
    planned, rates, finished = asked.runs_in(directory), dict[str, Rate](), {}
    if directory.exists(RECORD):
        record = read_record(directory)
        rates, finished = _known_rates(record), _finished(directory, record)
    return needs_of(planned, Models(), rates, finished, draws=False)


def reproduce(
    out: str | os.PathLike[str],
    asked: Asked,
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
    planned = asked.runs_in(directory)
    with directory.locked():
        record = _opened_record(directory, asked)
        rates = _known_rates(record)
        needs = needs_of(planned, models, rates, _finished(directory, record), draws=True)
        record = record.model_copy(update={"rates": _plain_rates(rates)})
        _write_record(directory, record)
        show(needs)
        shared = SharedWorkers(workers)
        do = _Do(directory, models, shared, progress, import_counts)
        try:
            _run_all(do, record, planned)
        finally:
            shared.close()
    return Reproduction(directory.url)


ImportCounts = Callable[[str, str, str], object]
"""Makes a run: from the file of a table of counts, where, and under which name."""


@dataclass(frozen=True)
class _Do:
    """Resources that all runs of a reproduction share."""

    directory: Directory
    models: Models
    workers: SharedWorkers
    progress: Progress
    import_counts: ImportCounts


def _run_all(do: _Do, record: ReproductionRecord, planned: Sequence[AnyRun]) -> None:
    """Execute the runs in order; rewrite a paper's page as soon as the last of its runs is over."""
    directory, last = do.directory, {run.paper: run.key for run in planned}
    for number, run in enumerate(planned, 1):
        do.progress.note(f"run {number} of {len(planned)}: {run.paper}, {run.name}, of {run.model}")
        others = [place for place in _finished(directory, record).get(run.model, ()) if place != run.place]
        status, rates = _run_one(do, run, others), record.rates
        if isinstance(run, PlannedRun):
            rates = rates | _plain_rates({run.model: rate_of(run.place) or Rate()})
        record = record.model_copy(update={"runs": record.runs | {run.key: status}, "rates": rates})
        _write_record(directory, record)
        if last[run.paper] == run.key:
            write_page(Reproduction(directory.url), load_paper(run.paper))
    for name in record.papers:  # those that were asked for earlier, where their pages have moved
        opened = Reproduction(directory.url)
        if name not in last and not directory.exists(opened.page_of(load_paper(name))):
            write_page(opened, load_paper(name))


def _run_one(do: _Do, run: AnyRun, pictures: Sequence[str]) -> RunStatus:
    """Audit, and say what became of it; whatever happens to one run must not cost the others."""
    try:
        if isinstance(run, PlannedCounts):
            _count(do, run)
        else:
            audit(run.request, do.models, do.workers, do.progress, pictures=pictures)
    except RunLockedError:
        raise
    except ClinometerError as error:
        reason = str(error)
    except Exception as error:
        reason = f"an error of clinometer's own: {type(error).__name__}: {error}"
    else:
        return RunStatus(paper=run.paper, run=run.name, model=run.model, status="finished")
    do.progress.note(f"this run failed: {reason}")
    reason = " ".join(reason.split())[:2000]
    return RunStatus(paper=run.paper, run=run.name, model=run.model, status="failed", reason=reason)


def _count(do: _Do, run: PlannedCounts) -> None:
    """Count labels into a table of the directory, which then becomes a run as any table of counts does."""
    text, _ = counts_of_labels(run.pictures, run.spec.label)
    if not do.directory.is_local:
        raise InvalidInputError.unsupported(
            f"{do.directory.url}: counts are imported from this machine; give a local --out"
        )
    name = f"{COUNTS}/{run.key}.csv"
    do.directory.write_bytes(name, text.encode())
    do.import_counts(do.directory.path(name), run.place, run.pictures.resolve().name)


def _finished(directory: Directory, record: ReproductionRecord) -> dict[str, list[str]]:
    """Return by model where its finished runs lie, whose pictures others of the model may take."""
    found: dict[str, list[str]] = {}
    for key, status in record.runs.items():
        place = f"{directory.url.rstrip('/')}/{RUNS}/{key}"
        if status.status == "finished" and Directory(place).exists("run.json"):
            found.setdefault(status.model, []).append(place)
    return found


def _known_rates(record: ReproductionRecord) -> dict[str, Rate]:
    return {name: Rate(*ends) for name, ends in record.rates.items() if all(end is not None for end in ends)}  # type: ignore[arg-type]


def _plain_rates(rates: Mapping[str, Rate]) -> dict[str, tuple[float | None, float | None]]:
    """Return rates as JSON has them, those that are known."""
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
