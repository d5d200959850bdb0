"""The cells of a sweep, one after another: models are loaded once, and a cell that fails stops no other."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final

from clinometer.errors import ClinometerError, RunLockedError, SweepError
from clinometer.models.protocols import Generator
from clinometer.models.registry import HUB_ID
from clinometer.models.weights import user_path
from clinometer.pipeline.audits import Steering, Workers, audit, audited
from clinometer.pipeline.engines import Engine
from clinometer.pipeline.loaded_models import Models
from clinometer.pipeline.request import AuditRequest, CellOptions, Encoders, ask
from clinometer.pipeline.rounds import SteeredRounds, rounds_of
from clinometer.runs import Directory, Progress
from clinometer.suites import Suite
from clinometer.sweeps.grid import Cell, Grid
from clinometer.sweeps.reading import SweepFile
from clinometer.sweeps.record import CellRecord, SweepRecord, cell_place, write_record
from clinometer.sweeps.rounds import SweepRounds, is_drawn_together

OPTIONS: Final = ("lora", "lora_scale", "scheduler", "negative_prompt")
"""Axes that are options of the model's adapter."""


@dataclass(frozen=True)
class LoadedObjects:
    """What is given beside the grid: models, suites and encoders as objects, by the names that the axes have for them.

    ``retry_failed`` draws images anew that failed earlier.
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
    order = _by_weights(record.grid)
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
        """Audit a cell, as far as the rounds have come where there are any, and say what became of it."""
        steering = None if rounds is None else Steering(rounds.targets(cell), unscored)
        return _outcome(cell, partial(self._run, cell, steering), self.progress)

    def _run(self, cell: Cell, steering: Steering | None) -> None:
        audit_request = request_of(cell, self.sweep_file, self.objects, cell_place(self.directory, cell))
        if cell in self.retried:  # once, and not in every round
            audit_request = audit_request.model_copy(update={"retry_failed": False})
        self.retried.add(cell)
        audit(audit_request, self.models, self.workers, self.progress, steering)


def _by_weights(grid: Grid) -> list[Cell]:
    """The cells in the order of the grid, but all of one model together: it is loaded once."""
    by_weights: dict[Any, list[Cell]] = {}
    for cell in grid:
        by_weights.setdefault(cell.weights, []).append(cell)
    return [cell for cells in by_weights.values() for cell in cells]


def _outcome(cell: Cell, run: Callable[[], None], progress: Progress) -> CellRecord:
    """Audit a cell, and say what became of it."""
    values = dict(cell.values)
    try:
        run()
    except RunLockedError:
        raise
    except ClinometerError as error:
        reason = str(error)
    except Exception as error:  # whatever happens to one cell must not cost the others
        reason = f"an error of clinometer's own: {type(error).__name__}: {error}"
    else:
        return CellRecord(values=values, status="finished")
    progress.note(f"this cell failed: {reason}")
    return CellRecord(values=values, status="failed", reason=" ".join(reason.split())[:2000])


def request_of(cell: Cell, sweep_file: SweepFile, objects: LoadedObjects, out: str) -> AuditRequest:
    """The audit that a cell is."""
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
        model_options=options | own,
        retry_failed=objects.retry_failed,
    )


def require_rounds(sweep_file: SweepFile, objects: LoadedObjects) -> None:
    """Refuse ``until`` of a suite that cannot be drawn so: no mending of its cells would help.

    A suite that cannot be read may be mended, and is left to its cells.

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
            suite = audited(asked.suite)
        except ClinometerError:
            continue
        try:
            rounds = rounds_of(suite, sweep_file.until, sweep_file.images)
            if len(sweep_file.grid.settings(cell["suite"])) > 1:
                SteeredRounds(rounds.rule, rounds.suite)
        except ClinometerError as error:
            raise SweepError(f"{error}; leave the suite out, or until", field="until") from error


def model_of(cell: Cell) -> str:
    """The model of a cell: of one with a checkpoint, the folder of that name within it, or a revision on the hub.

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
    raise SweepError(
        f"checkpoint: found {checkpoint}, and {model} is neither a folder that holds checkpoints nor OWNER/NAME on the "
        "hub, whose revisions they would be; name each checkpoint as a model"
    )
