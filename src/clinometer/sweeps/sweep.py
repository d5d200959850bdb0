"""A sweep from its file to its page. Models are loaded once, and a cell that fails stops no other."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Final

import pandas as pd

from clinometer.errors import ClinometerError, RunLockedError, SweepError
from clinometer.models.protocols import Generator
from clinometer.models.registry import HUB_ID
from clinometer.models.weights import user_path
from clinometer.pipeline.audits import Steering, Workers, audit, load_asked_suite
from clinometer.pipeline.engines import Engine
from clinometer.pipeline.execution import SteeredRounds, rounds_of
from clinometer.pipeline.recipes import Models
from clinometer.pipeline.request import AuditRequest, CellOptions, Encoders, ask
from clinometer.report.html import notebook_html
from clinometer.runs import Directory, Progress, Run
from clinometer.suites import Suite
from clinometer.sweeps.grid import (
    Cell,
    CellRecord,
    SweepFile,
    SweepRecord,
    cell_place,
    load_sweep,
    opened_record,
    read_record,
    sweep_from_mapping,
    write_record,
)
from clinometer.sweeps.outcome import (
    SweepOutcome,
    SweepRounds,
    outcome_of,
    split_lacks,
    split_table,
    with_splits,
)
from clinometer.sweeps.page import differences_of, settings_tables, table_of, write_page, write_tables

OPTIONS: Final = ("lora", "lora_scale", "scheduler", "negative_prompt", "system_prompt", "rewriter")
"""Axes that are options of the model's adapter."""


@dataclass(frozen=True)
class LoadedObjects:
    """What is given beside the grid: models, suites and encoders as objects, by the names that the axes have for them.

    ``retry_failed`` draws failed images again.
    """

    models: Mapping[str, Generator] = field(default_factory=dict)
    suites: Mapping[str, Suite] = field(default_factory=dict)
    encoder: Encoders | None = None
    retry_failed: bool = False


class SharedWorkers:
    """Workers that stay from one cell to the next, with the models they hold."""

    def __init__(self, workers: Workers) -> None:
        self._workers = workers
        self._resources = ExitStack()
        self._engine: Engine | None = None
        self._is_open, self._weights = False, 0

    @contextmanager
    def opened(
        self, device: str, weights: int = 0, make_room: Callable[[], None] = lambda: None
    ) -> Iterator[Engine | None]:
        """Open the engine the first time, and keep it for as long as nothing goes wrong and its workers have room.

        Room is not made: this process needs its models for the next cell, and their place on the device.
        """
        if weights > self._weights and self._workers.places_by_weights(device):
            self.close()
        if not self._is_open:
            self._engine = self._resources.enter_context(self._workers.opened(device, weights))
            self._is_open, self._weights = True, weights
        try:
            yield self._engine
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """End the workers; the next cell would open others."""
        self._resources.close()
        self._is_open, self._weights = False, 0


def run_cells(
    directory: Directory,
    record: SweepRecord,
    sweep_file: SweepFile,
    objects: LoadedObjects,
    workers: Workers,
    progress: Progress,
) -> SweepRecord:
    """Audit every cell of the grid; what is finished of one is kept. Returns what became of them.

    The caller holds the directory.
    """
    models, shared = Models(), SharedWorkers(workers)
    run_one = _Cells(directory, sweep_file, objects, models, shared, progress)
    weights = list(dict.fromkeys(cell.weights for cell in record.grid))
    order = sorted(record.grid, key=lambda cell: weights.index(cell.weights))  # a model is loaded once for its cells
    try:
        failed: dict[str, CellRecord] = {}
        if is_drawn_together(record):
            record, failed = _drawn_together(directory, record, order, run_one, progress)
        for number, cell in enumerate(order, 1):
            progress.note(f"cell {number} of {len(order)}: {cell.words(record.grid.varied)}")
            rounds = None if record.rounds is None else SweepRounds.of(directory, record)
            cell_record = failed.get(cell.name) or run_one(cell, rounds)
            record = record.model_copy(update={"cells": record.cells | {cell.name: cell_record}})
            write_record(directory, record)
    finally:
        shared.close()
    return record


def _drawn_together(
    directory: Directory, record: SweepRecord, order: Sequence[Cell], run_one: _Cells, progress: Progress
) -> tuple[SweepRecord, dict[str, CellRecord]]:
    """Draw all cells round by round until their differences are decided. Returns the cells that failed, too."""
    rounds, failed = SweepRounds.of(directory, record), dict[str, CellRecord]()
    waiting, number = list(order), 0
    while waiting:
        number += 1
        undone = {cell.name: record.status(cell).model_copy(update={"status": "planned"}) for cell in waiting}
        record = record.model_copy(update={"cells": record.cells | undone, "rounds": rounds.suites})
        write_record(directory, record)
        for place, cell in enumerate(waiting, 1):
            progress.note(f"round {number}, cell {place} of {len(waiting)}: {cell.words(record.grid.varied)}")
            cell_record = run_one(cell, rounds, unscored=True)
            if cell_record.status == "failed":
                failed[cell.name] = cell_record
        ready = [cell for cell in order if cell.name not in failed]
        grown = rounds.advance(ready, progress)
        waiting = [cell for cell in ready if cell in grown]
    record = record.model_copy(update={"rounds": rounds.suites})
    write_record(directory, record)
    return record, failed


@dataclass(frozen=True)
class _Cells:
    """Audits one cell after another, with what they share."""

    directory: Directory
    sweep_file: SweepFile
    objects: LoadedObjects
    models: Models
    workers: SharedWorkers
    progress: Progress
    retried: set[Cell] = field(default_factory=set)

    def __call__(self, cell: Cell, rounds: SweepRounds | None, *, unscored: bool = False) -> CellRecord:
        """Audit a cell, as far as the rounds have come where there are any, and return its record."""
        steering = None if rounds is None else Steering(rounds.targets(cell), unscored)

        def audit_cell() -> None:
            asked = request_of(cell, self.sweep_file, self.objects, cell_place(self.directory, cell))
            if cell in self.retried:  # once, and not in every round
                asked = asked.model_copy(update={"retry_failed": False})
            self.retried.add(cell)
            audit(asked, self.models, self.workers, self.progress, steering)

        return CellRecord(values=dict(cell.values), **outcome_of_work(audit_cell, self.progress, "cell"))


def outcome_of_work(work: Callable[[], object], progress: Progress, what: str) -> dict[str, Any]:
    """Do one piece of the work, and return its status and, where it failed, why: one must not cost the others.

    Raises
    ------
    RunLockedError
        Another process works on it.
    """
    try:
        work()
    except RunLockedError:
        raise
    except ClinometerError as error:
        reason = str(error)
    except Exception as error:
        reason = f"an error of clinometer's own: {type(error).__name__}: {error}"
    else:
        return {"status": "finished"}
    progress.note(f"this {what} failed: {reason}")
    return {"status": "failed", "reason": " ".join(reason.split())[:2000]}


def request_of(cell: Cell, sweep_file: SweepFile, objects: LoadedObjects, out: str) -> AuditRequest:
    """Return the audit that a cell is."""
    own = {axis: cell[axis] for axis in OPTIONS if cell[axis] is not None}
    options = {name: value for name, value in sweep_file.options.items() if name != "lora_scale" or cell["lora"]}
    return ask(
        **{name: getattr(sweep_file, name) for name in CellOptions.model_fields},
        model=objects.models.get(str(cell["model"])) or model_of(cell),
        suite=objects.suites.get(str(cell["suite"])) or str(cell["suite"]),
        out=out,
        encoder=sweep_file.encoder if objects.encoder is None else objects.encoder,
        seed=int(cell["seed"] or 0),
        steps=cell["steps"],
        guidance_scale=cell["guidance"],
        wording=cell["wording"],
        model_options=options | own,
        retry_failed=objects.retry_failed,
    )


def require_rounds(sweep_file: SweepFile, objects: LoadedObjects) -> None:
    """Refuse ``until`` of a suite that cannot be drawn so: repairing its cells would not help.

    A suite that cannot be read may be repaired, and is left to its cells.

    Raises
    ------
    SweepError
        The message names the suite.
    """
    if sweep_file.until is None:
        return
    for cell in {cell["suite"]: cell for cell in sweep_file.grid}.values():
        asked = request_of(cell, sweep_file, objects, out="")
        try:
            suite = load_asked_suite(asked.suite)
        except ClinometerError:
            continue
        try:
            rounds = rounds_of(suite, sweep_file.until, sweep_file.images)
            if len(sweep_file.grid.settings(cell["suite"])) > 1:
                SteeredRounds(rounds.rule, rounds.suite)
        except ClinometerError as error:
            raise SweepError(f"{error}; leave the suite out, or until", code=error.code, field="until") from error


def model_of(cell: Cell) -> str:
    """Return a cell's model: with a checkpoint, the folder of that name within it, or a revision on the hub.

    Raises
    ------
    SweepError
        The model is neither a folder nor on the hub.
    """
    model, checkpoint = str(cell["model"]), cell["checkpoint"]
    if checkpoint is None:
        return model
    folder = user_path(model)
    if folder.is_dir():
        return str(Path(model) / str(checkpoint))
    if re.fullmatch(HUB_ID, model) and "@" not in model:
        return f"{model}@{checkpoint}"
    raise SweepError.not_found(
        f"checkpoint: found {checkpoint}, and {model} is neither a folder that holds checkpoints nor OWNER/NAME on the "
        "hub, whose revisions they would be; name each checkpoint as a model"
    )


def is_drawn_together(record: SweepRecord) -> bool:
    """Return whether cells draw until their differences are decided: only several settings differ.

    Raises
    ------
    SweepError
        Cells were drawn until their own concepts were decided: by a sweep of one setting, or by an earlier version.
    """
    if record.common.get("until") is None or len(record.grid.settings(record.grid.values("suite")[0])) < 2:
        return False
    if record.rounds is None and any(cell.status == "finished" for cell in record.cells.values()):
        raise SweepError.unsupported(
            "the cells of this sweep were drawn until their own concepts were decided, and cannot be compared "
            "now; give another --out",
            field="until",
        )
    return True


# --- the whole -------------------------------------------------------------------------------------------------------


class Sweep:
    """A sweep's directory, opened: ``sweep.table``, ``sweep.differences``, ``sweep.runs``, ``sweep.failed``, …"""

    def __init__(self, url: str | os.PathLike[str]) -> None:
        self.directory = Directory(url)
        self.record: SweepRecord = read_record(self.directory)

    @property
    def url(self) -> str:
        """Where the sweep is."""
        return self.directory.url

    @property
    def cells(self) -> list[Cell]:
        """The cells of the grid, in its order."""
        return list(self.record.grid)

    @property
    def failed(self) -> dict[str, str]:
        """The cells of the grid that failed, by their folders, and why."""
        statuses = {cell.name: self.record.status(cell) for cell in self.cells}
        return {name: status.reason for name, status in statuses.items() if status.status == "failed"}

    @property
    def runs(self) -> dict[str, Run]:
        """The finished runs of the grid, by the folders of their cells."""
        finished = [cell for cell in self.cells if self.record.status(cell).status == "finished"]
        return {cell.name: Run(cell_place(self.directory, cell)) for cell in finished}

    @property
    def table(self) -> pd.DataFrame:
        """A row a number of every setting, with its difference from the baseline."""
        return table_of(self.outcome)

    @property
    def differences(self) -> pd.DataFrame:
        """Every difference from the baseline, as the rows of a comparison."""
        return differences_of(self.outcome)

    @property
    def split(self) -> pd.DataFrame:
        """What the network learned and what guidance adds, a row a number; none without a setting at guidance 1."""
        return split_table(self.outcome)

    @property
    def split_lacks(self) -> dict[str, str]:
        """By suite, why nothing is split by guidance and what to do for it; empty where all is well."""
        suites = self.record.grid.values("suite")
        return {str(suite): lacks for suite in suites if (lacks := split_lacks(self.outcome, suite))}

    @cached_property
    def outcome(self) -> SweepOutcome:
        """What was found at every setting; read where it was computed before."""
        return with_splits(self.directory, outcome_of(self.directory, self.record))

    def _repr_html_(self) -> str:
        failed = [f"failed, {name}: {reason}" for name, reason in self.failed.items()]
        about = (f"{len(self.cells)} cells, {len(self.runs)} finished", self.directory.shown)
        return notebook_html(self.record.title or "Sweep", about, failed, settings_tables(self.outcome))

    def __repr__(self) -> str:
        count = len(self.cells)
        return f"Sweep({self.directory.shown!r}: {count} cells, {len(self.runs)} finished, {len(self.failed)} failed)"


def default_out(source: str | os.PathLike[str] | Mapping[str, Any] | SweepFile, sweep_file: SweepFile) -> str:
    """Name the directory of a sweep that was given none, by its file or by its first cell."""
    if sweep_file.out is not None:
        return sweep_file.out
    if isinstance(source, str | os.PathLike):
        return str(Path("runs") / Path(source).stem)
    first = next(iter(sweep_file.grid))
    return str(Path("runs") / f"{first['model']}-{first['suite']}-sweep".replace("/", "-"))


def sweep(
    source: str | os.PathLike[str] | Mapping[str, Any] | SweepFile,
    out: str | os.PathLike[str] | None,
    objects: LoadedObjects,
    workers: Workers,
    progress: Progress,
) -> Sweep:
    """Audit every cell that is not finished, compare all with the baseline, and write the tables and the page.

    Raises
    ------
    SweepError, RunError, EngineError
        As :func:`clinometer.sweep`.
    """
    if isinstance(source, SweepFile):
        sweep_file = source
    else:
        sweep_file = sweep_from_mapping(source) if isinstance(source, Mapping) else load_sweep(source)
    require_rounds(sweep_file, objects)
    directory = Directory(out or default_out(source, sweep_file))
    with directory.locked():
        record = opened_record(directory, sweep_file)
        record = run_cells(directory, record, sweep_file, objects, workers, progress)
        outcome = with_splits(directory, outcome_of(directory, record, progress))
        write_tables(directory, outcome)
        write_page(directory, outcome)
    swept = Sweep(directory.url)
    swept.__dict__["outcome"] = outcome
    return swept


def require_finished(sweep: Sweep) -> None:
    """Refuse to end well where a cell failed.

    Raises
    ------
    SweepError
        The message counts them, says of the first why, and names the way out.
    """
    if sweep.failed:
        name, reason = next(iter(sweep.failed.items()))
        raise SweepError.failed(
            f"{sweep.url}: {len(sweep.failed)} of {len(sweep.cells)} cells failed; the others are finished. The first, "
            f"{name}: {reason}. Fix that and give the same command again: only what failed is done"
        )
