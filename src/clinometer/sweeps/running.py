"""The cells of a sweep, one after another: models are loaded once, and a cell that fails stops no other.

In rounds, images go to the concepts whose difference from the baseline is not decided yet: all cells draw a round, then
every setting is held against the baseline of its suite, and all differences of the grid are judged as one family. A
concept of a setting that is decided is drawn no further there. The baseline draws a concept for as long as any setting
does, so that all images have partners.

What was decided is kept in sweep.json, and so is how far each concept has come. A cell that joins late, or that failed
and is mended, first draws as many images as the baseline has, and is looked at only then: nobody who decides when it
stops has seen the partners of images that it is still to draw. See decision 51.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from math import isnan, nan
from pathlib import Path
from typing import Any, Final

from clinometer.errors import ClinometerError, RunLockedError, SweepError
from clinometer.metrics.stopping import Evidence, StoppingRule, in_family
from clinometer.models.protocols import Generator
from clinometer.models.registry import HUB_ID
from clinometer.models.weights import user_path
from clinometer.pipeline.audits import Steering, Workers, audit, audited
from clinometer.pipeline.comparison import evidence_between
from clinometer.pipeline.engines import Engine
from clinometer.pipeline.loaded_models import Models
from clinometer.pipeline.request import AuditRequest, CellOptions, Encoders, ask
from clinometer.pipeline.rounds import FIRST_ROUND, LATER_ROUND, SteeredRounds, rounds_of
from clinometer.runs import Directory, Progress, Run
from clinometer.runs.together import pooled
from clinometer.suites import Suite
from clinometer.sweeps.grid import Cell, Grid, SweepFile, Value
from clinometer.sweeps.outcome import CellRecord, SuiteRounds, SweepRecord, cell_place, write_record

OPTIONS: Final = ("lora", "lora_scale", "scheduler", "negative_prompt", "system_prompt", "rewriter")
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
        # audit a cell, and say what became of it
        run = partial(self._run, cell, steering)
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
        self.progress.note(f"this cell failed: {reason}")
        return CellRecord(values=values, status="failed", reason=" ".join(reason.split())[:2000])

    def _run(self, cell: Cell, steering: Steering | None) -> None:
        audit_request = request_of(cell, self.sweep_file, self.objects, cell_place(self.directory, cell))
        if cell in self.retried:  # once, and not in every round
            audit_request = audit_request.model_copy(update={"retry_failed": False})
        self.retried.add(cell)
        audit(audit_request, self.models, self.workers, self.progress, steering)


def _by_weights(grid: Grid) -> list[Cell]:
    """Return the cells in the order of the grid, but all of one model together: it is loaded once."""
    by_weights: dict[Any, list[Cell]] = {}
    for cell in grid:
        by_weights.setdefault(cell.weights, []).append(cell)
    return [cell for cells in by_weights.values() for cell in cells]


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


Difference = tuple[str, str, str]
"""A suite, a setting by its folder's name, and a concept."""


def is_drawn_together(record: SweepRecord) -> bool:
    """Whether the cells draw until their differences are decided: with several settings there is something to decide.

    Raises
    ------
    SweepError
        Cells were drawn until their own concepts were decided: by a sweep of one setting, or by an earlier version.
    """
    if record.common.get("until") is None or len(record.grid.settings(record.grid.values("suite")[0])) < 2:
        return False
    if record.rounds is None and any(cell.status == "finished" for cell in record.cells.values()):
        raise SweepError(
            "the cells of this sweep were drawn until their own concepts were decided, and cannot be compared "
            "now; give another --out",
            field="until",
        )
    return True


@dataclass
class SweepRounds:
    """How far a sweep's rounds have come.

    Attributes
    ----------
    directory, grid : of the sweep.
    rule : when a difference needs no more images.
    suites : by suite, how many images a seed each concept has come to, and where each setting stopped.
    """

    directory: Directory
    grid: Grid
    rule: StoppingRule
    suites: dict[str, SuiteRounds]

    @classmethod
    def of(cls, directory: Directory, record: SweepRecord) -> SweepRounds:
        """Go on where a record has come to."""
        until = record.common["until"]
        rule = StoppingRule() if until == "decided" else StoppingRule(float(until))
        rounds = {name: suite_rounds.model_copy(deep=True) for name, suite_rounds in (record.rounds or {}).items()}
        suites = {str(suite): rounds.get(str(suite)) or SuiteRounds() for suite in record.grid.values("suite")}
        return cls(directory, record.grid, rule, rounds | suites)

    def targets(self, cell: Cell) -> dict[str, int]:
        """Count how many images each concept of a cell is to have by now."""
        rounds = self.suites[str(cell["suite"])]
        return {**rounds.level, **rounds.stopped.get(cell.setting.name, {})}

    def advance(self, ready: Sequence[Cell], progress: Progress) -> set[Cell]:
        """Look at what is decided, and take what is not a round further. Returns the cells that are to draw more.

        ``ready`` : the cells that have drawn and embedded all they are to have by now. What is not ready is looked at
        another time, and drives nothing.
        """
        looked = {suite: list(self._looked(suite, set(ready), progress)) for suite in self.grid.values("suite")}
        family = self._family(looked)
        judged = dict(zip(family, in_family(list(family.values())), strict=True))
        grown: set[Cell] = set()
        for suite, settings in looked.items():
            # note what is decided by now. Returns the concepts that some setting has yet to decide
            rounds, still_open = self.suites[str(suite)], set[str]()
            for setting, stands in settings:
                stopped = rounds.stopped.setdefault(setting.name, {})
                for concept in stands:
                    if concept in stopped:
                        continue
                    if judged[str(suite), setting.name, concept].stops(self.rule):
                        stopped[concept] = rounds.level.get(concept, FIRST_ROUND)
                    else:
                        still_open.add(concept)
            raised = self._raise(suite, settings, still_open)
            grown |= {cell for cell in ready if cell["suite"] == suite and self._draws(cell, raised)}
        decided = sum(evidence.n > 0 and evidence.stops(self.rule) for evidence in judged.values())
        progress.note(f"{decided} of {len(judged)} differences from the baseline are decided")
        return grown

    def _looked(self, suite: Value, ready: set[Cell], progress: Progress) -> Iterator[tuple[Cell, dict[str, Evidence]]]:
        """Return what the pairs of each setting tell, over the seeds that it and the baseline are ready at."""
        for setting in self.grid.settings(suite):
            baseline = self.grid.baseline_of(setting)
            if setting == baseline:
                continue
            seeds = [
                seed for seed in self.grid.values("seed") if {setting.at(seed=seed), baseline.at(seed=seed)} <= ready
            ]
            if not seeds:
                continue
            runs = [pooled([self._run(cell.at(seed=seed)) for seed in seeds]) for cell in (baseline, setting)]
            try:
                yield setting, evidence_between(runs[0], runs[1])
            except ClinometerError as error:
                progress.note(f"{setting.words(self.grid.varied)}: not looked at: {error}")

    def _run(self, cell: Cell) -> Run:
        return Run(cell_place(self.directory, cell))

    def _family(self, looked: Mapping[Value, Sequence[tuple[Cell, dict[str, Evidence]]]]) -> dict[Difference, Evidence]:
        """Return all differences of the grid; one of which nothing is known is one of the family all the same."""
        family: dict[Difference, Evidence] = {}
        for suite, settings in looked.items():
            by_setting = {setting.name: stands for setting, stands in settings}
            some = next(iter(by_setting.values()), {})
            for setting in self.grid.settings(suite):
                if setting != self.grid.baseline_of(setting):
                    for concept, like in some.items():
                        stand = by_setting.get(setting.name, {}).get(concept) or _nothing(like)
                        family[str(suite), setting.name, concept] = stand
        return family

    def _raise(
        self, suite: Value, settings: Sequence[tuple[Cell, dict[str, Evidence]]], still_open: set[str]
    ) -> set[str]:
        """Take concepts a round further. Returns those of which more images may be drawn."""
        if not settings:
            return set()
        rounds, raised = self.suites[str(suite)], set[str]()
        some = next(run for run in map(self._run_or_none, self.grid.cells_of(settings[0][0])) if run is not None)
        for question in some.suite.prompt_specs():
            level = rounds.level.get(question.concept, min(FIRST_ROUND, question.images))
            if question.concept in still_open and level < question.images:
                rounds.level[question.concept] = min(level + LATER_ROUND, question.images)
                raised.add(question.concept)
        return raised

    def _run_or_none(self, cell: Cell) -> Run | None:
        try:
            return self._run(cell)
        except ClinometerError:
            return None

    def _draws(self, cell: Cell, raised: set[str]) -> bool:
        stopped = self.suites[str(cell["suite"])].stopped.get(cell.setting.name, {})
        return not raised <= stopped.keys()


def _nothing(like: Evidence) -> Evidence:
    """Return the evidence of no image."""
    return Evidence(0, nan, nan, nan, 1.0, e_balance=nan if isnan(like.e_balance) else 1.0)
