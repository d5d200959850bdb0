"""A reproduction's directory: what was asked of it, and what became of each run."""

from __future__ import annotations

import os
from functools import cached_property
from typing import Final, Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from clinometer.errors import RunMismatchError
from clinometer.papers.paper import Paper, load_paper
from clinometer.papers.planning import AnyRun, planned_runs
from clinometer.runs import Directory, Run
from clinometer.suites.strict import explain

RECORD: Final = "reproduction.json"


class RunStatus(BaseModel):
    """What became of a run; ``reason`` says why it failed."""

    model_config = ConfigDict(extra="forbid")

    paper: str
    run: str
    model: str
    status: Literal["planned", "finished", "failed"] = "planned"
    reason: str = ""


class ReproductionRecord(BaseModel):
    """The contents of reproduction.json.

    Attributes
    ----------
    papers, models : every one that was ever asked for here, in this order.
    quick, seed, encoder : what all runs are asked alike.
    portraits, pictures : the folder of given ones, or nothing.
    runs : by its folder, what became of each run.
    rates : seconds and bytes of an image, by model.
    """

    model_config = ConfigDict(extra="forbid")

    format: Literal[1] = 1
    created: str
    papers: list[str]
    models: list[str]
    quick: bool
    seed: int
    encoder: list[str]
    portraits: str | None = None
    pictures: str | None = None
    runs: dict[str, RunStatus] = {}
    rates: dict[str, tuple[float | None, float | None]] = {}


class Reproduction:
    """A reproduction's directory, opened: ``.pages``, ``.runs``, ``.failed``, …"""

    def __init__(self, url: str | os.PathLike[str]) -> None:
        self.directory = Directory(url)
        self.record: ReproductionRecord = read_record(self.directory)

    @property
    def url(self) -> str:
        """Where it is."""
        return self.directory.url

    @property
    def papers(self) -> list[Paper]:
        """The papers that were asked for here."""
        return [load_paper(name) for name in self.record.papers]

    @cached_property
    def planned(self) -> list[AnyRun]:
        """Every run of these papers, of every model."""
        record = self.record
        options = {"seed": record.seed, "encoder": record.encoder or None, "portraits": record.portraits}
        return planned_runs(
            self.directory, self.papers, record.models, quick=record.quick, options=options, pictures=record.pictures
        )

    @property
    def runs(self) -> dict[str, Run]:
        """The finished runs, by their folders."""
        finished = [run for run in self.planned if self.status(run).status == "finished"]
        return {run.key: Run(run.place) for run in finished}

    @property
    def failed(self) -> dict[str, str]:
        """The runs that failed, by their folders, and why."""
        statuses = {run.key: self.status(run) for run in self.planned}
        return {key: status.reason for key, status in statuses.items() if status.status == "failed"}

    @property
    def pages(self) -> dict[str, str]:
        """The page of each paper, by its name."""
        return {paper.name: self.directory.path(self.page_of(paper)) for paper in self.papers}

    def status(self, run: AnyRun) -> RunStatus:
        """Return what became of a run."""
        return self.record.runs.get(run.key) or RunStatus(paper=run.paper, run=run.name, model=run.model)

    def folder_of(self, paper: Paper) -> str:
        """Return where a paper's page and tables lie, within the directory: in a folder where there are several."""
        return f"{paper.name}/" if len(self.record.papers) > 1 else ""

    def page_of(self, paper: Paper) -> str:
        """Return the name of a paper's page."""
        return f"{self.folder_of(paper)}paper.html"

    def __repr__(self) -> str:
        return f"Reproduction({self.directory.shown!r}: {', '.join(self.record.papers)}, {len(self.failed)} failed)"


def read_record(directory: Directory) -> ReproductionRecord:
    """Read reproduction.json.

    Raises
    ------
    RunNotFoundError, RunMismatchError
        There is none, or it is not what was written.
    """
    try:
        return ReproductionRecord.model_validate(directory.read_json(RECORD))
    except ValidationError as error:
        raise RunMismatchError(
            f"{explain(error, directory.path(RECORD))}; restore it, or give another --out"
        ) from error
