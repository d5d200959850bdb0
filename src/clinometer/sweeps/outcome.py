"""What a sweep found: the numbers of every setting over all its seeds, and its differences from the baseline.

Settings are held against each other as runs are (:mod:`clinometer.pipeline.comparison`), in pairs of images that were
drawn from one noise. All differences of one kind over the whole grid are one family of tests.

sweep.json holds the grid as it was asked, and what became of each cell.
"""

from __future__ import annotations

import hashlib
import json
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, Final, Literal

import pandas as pd
import pyarrow as pa
from pydantic import BaseModel, ConfigDict, ValidationError

from clinometer._cores import one_blas_thread
from clinometer._secrets import masked_values
from clinometer.errors import ClinometerError, RunCorruptError, RunMismatchError, RunNotFoundError, SweepError
from clinometer.metrics.differences import judged_over_grid, judged_when_stopped
from clinometer.metrics.records import Score
from clinometer.pipeline.comparison import compare_runs
from clinometer.pipeline.request import ALIKE
from clinometer.pipeline.score import resamples_of
from clinometer.report.rows import Scores
from clinometer.runs import Directory, NoProgress, Progress, Run
from clinometer.runs.together import Comparison, pooled
from clinometer.runs.verification import fingerprint_of_scores
from clinometer.studies import study_of
from clinometer.studies.refusals.scoring import with_refusals
from clinometer.studies.study import scores_table
from clinometer.suites.strict import explain
from clinometer.sweeps.grid import AXES, Cell, Grid, SweepFile, Value

FOLDER: Final = "pooled"
"""Where numbers are kept that were computed from several runs."""

Computed = tuple[pd.DataFrame, dict[str, Any]]
"""A table, and a few facts about it."""


@dataclass(frozen=True)
class Setting:
    """A setting of the grid and what was found at it.

    Attributes
    ----------
    cell : its values, the seed left out.
    runs : its finished runs, by seed.
    missing : seeds that did not finish, and why.
    run : its runs as one; None where none has finished.
    scores : the numbers of that.
    comparison : it held against the baseline, over the seeds that both have; None for the baseline itself.
    undone : why there is no comparison.
    """

    cell: Cell
    runs: dict[Value, Run]
    missing: dict[Value, str]
    run: Run | None = None
    scores: pd.DataFrame | None = None
    comparison: Comparison | None = None
    undone: str = ""


@dataclass(frozen=True)
class Split:
    """A setting beside the one that differs from it in guidance alone, at guidance 1: rows of metric ``split``.

    ``scores`` is None where there are none, and ``undone`` says why.
    """

    at_one: Setting
    setting: Setting
    scores: pd.DataFrame | None = None
    undone: str = ""


@dataclass(frozen=True)
class SweepOutcome:
    """All settings of a sweep, suite by suite, in the order of the grid, and what guidance adds at them."""

    record: SweepRecord
    settings: tuple[Setting, ...]
    splits: tuple[Split, ...] = ()

    @property
    def grid(self) -> Grid:
        """The grid."""
        return self.record.grid

    def of_suite(self, suite: Value) -> list[Setting]:
        """Return the settings of a suite."""
        return [setting for setting in self.settings if setting.cell["suite"] == suite]

    def is_baseline(self, setting: Setting) -> bool:
        """Tell whether all others are held against it."""
        return self.grid.baseline_of(setting.cell) == setting.cell


def outcome_of(directory: Directory, record: SweepRecord, progress: Progress | None = None) -> SweepOutcome:
    """Read every finished cell, and compute what was not computed of these before."""
    progress = progress or NoProgress()
    grid = record.grid
    settings = [_setting(directory, record, cell) for suite in grid.values("suite") for cell in grid.settings(suite)]
    progress.start("comparing settings", len(settings), 0)
    by_cell = {setting.cell: setting for setting in settings}
    compared_settings = []
    for setting in settings:
        compared_settings.append(_compared(directory, setting, by_cell[grid.baseline_of(setting.cell)]))
        progress.advance(1)
    progress.finish()
    return SweepOutcome(record, tuple(_over_grid(compared_settings, until_decided=record.rounds is not None)))


def _setting(directory: Directory, record: SweepRecord, cell: Cell) -> Setting:
    runs, missing = dict[Value, Run](), dict[Value, str]()
    # in the order of their seeds, however they were given
    for replicate in sorted(record.grid.cells_of(cell), key=lambda replicate: int(replicate["seed"] or 0)):
        status = record.status(replicate)
        if status.status == "finished":
            runs[replicate["seed"]] = Run(cell_place(directory, replicate))
        else:
            missing[replicate["seed"]] = status.reason or "not drawn yet"
    return Setting(cell, runs, missing)


def _compared(directory: Directory, setting: Setting, baseline: Setting) -> Setting:
    """Return the same with its numbers, and its differences from the baseline."""
    if not setting.runs:
        return replace(setting, undone="no run of it has finished")
    try:
        setting = _scored(directory, setting)
        if setting.cell == baseline.cell:
            return setting
        # over the seeds that both have
        seeds = [seed for seed in setting.runs if seed in baseline.runs]
        if not seeds:
            raise RunNotFoundError("the baseline has no finished run of its seeds")
        first, second = ([side.runs[seed] for seed in seeds] for side in (baseline, setting))
        both = pooled(first), pooled(second)

        def compute() -> Computed:
            comparison = compare_runs(*both)
            return comparison.scores, {name: getattr(comparison, name) for name in FACTS}

        scores, facts = stored_table(directory, f"{setting.cell.name}-differences", [*first, *second], compute)
        return replace(setting, comparison=Comparison(first=both[0], second=both[1], scores=scores, **facts))
    except ClinometerError as error:
        return replace(setting, undone=str(error))


def _scored(directory: Directory, setting: Setting) -> Setting:
    runs = list(setting.runs.values())
    run = pooled(runs)
    if len(runs) == 1:
        return replace(setting, run=run, scores=run.scores)

    def compute() -> Computed:
        with one_blas_thread():
            scored = study_of(run.suite).score(run, resamples_of(*runs))
        return with_refusals(run, scored.scores), {}

    scores, _ = stored_table(directory, f"{setting.cell.name}-scores", runs, compute)
    return replace(setting, run=run, scores=scores)


FACTS: Final = ("unpaired", "pairs", "dropped", "identical")
"""What a comparison tells besides its scores."""


def _over_grid(settings: Sequence[Setting], *, until_decided: bool) -> list[Setting]:
    """The same with all differences of one kind corrected together, whatever the setting, the suite and the unit."""
    entries: list[tuple[int, Score]] = [
        (order, row)
        for order, setting in enumerate(settings)
        for row in (() if setting.comparison is None else Scores.from_frame(setting.comparison.scores).rows)
    ]
    families = defaultdict[tuple[str, str, str], list[int]](list)
    for place, (_, row) in enumerate(entries):
        families[row.metric, row.component, row.encoder].append(place)
    judged = [row for _, row in entries]
    for (metric, component, _), places in families.items():
        family = f"{metric}: {component} over {len(places)} differences of the grid"
        rows = [judged[place] for place in places]
        if until_decided and all(row.verdict for row in rows):
            sides = [_sides(settings[entries[place][0]]) for place in places]
            judgements = judged_when_stopped(rows, family, sides)
        else:
            judgements = judged_over_grid(rows, family)
        for place, row in zip(places, judgements, strict=True):
            judged[place] = row
    by_setting = defaultdict[int, list[Any]](list)
    for (order, _), row in zip(entries, judged, strict=True):
        by_setting[order].append(row)
    return [
        setting if setting.comparison is None
        else replace(setting, comparison=replace(setting.comparison, scores=scores_table(by_setting[order])))
        for order, setting in enumerate(settings)
    ]  # fmt: skip


def _sides(setting: Setting) -> tuple[str, str]:
    """Return the groups that positive and negative differences lean to."""
    assert setting.comparison is not None
    suite = setting.comparison.first.suite
    groups = study_of(suite).compared_groups(suite)[0]
    return groups.a, groups.b


def stored_table(directory: Directory, name: str, runs: Sequence[Run], compute: Callable[[], Computed]) -> Computed:
    """Read a table that follows from runs where it was computed from the same; else compute and keep it.

    A file carries the hash of what its table is made of in its name, so none is taken for that of another state.
    """
    made_of = _hash_made_of(runs)
    if made_of is None:
        return compute()
    stem = f"{FOLDER}/{name}-{made_of}"
    try:
        facts = directory.read_json(f"{stem}.json")  # written last
        return directory.read_table(f"{stem}.parquet").to_pandas(ignore_metadata=True), facts
    except (RunNotFoundError, RunCorruptError):
        table, facts = compute()
    # remove what was computed from an earlier state
    for suffix in (".json", ".parquet"):
        for file in directory.names(FOLDER, suffix):
            if file.removeprefix(f"{FOLDER}/").removesuffix(suffix)[:-17] == name:
                directory.remove(file)
    directory.write_table(f"{stem}.parquet", pa.Table.from_pandas(table, preserve_index=False))
    directory.write_json(f"{stem}.json", facts)
    return table, facts


def _hash_made_of(runs: Sequence[Run]) -> str | None:
    """Hash what the scores of some runs are made of; None where it is unknown for one of them."""
    prints = [fingerprint_of_scores(run, resamples_of(*runs)) for run in runs]
    if not all(prints):
        return None
    return hashlib.sha256(json.dumps(prints).encode()).hexdigest()[:16]


RECORD: Final = "sweep.json"
CELLS: Final = "cells"
FORMAT: Final = 1

COMMON: Final = (*ALIKE, "options")
"""What all cells of a sweep are asked alike, as long as it lasts; the rest does not change an image."""


class CellRecord(BaseModel):
    """What became of a cell: ``reason`` says why it failed, or what it is waiting for."""

    model_config = ConfigDict(extra="forbid")

    values: dict[str, str | int | float | None]
    status: Literal["planned", "finished", "failed"] = "planned"
    reason: str = ""

    @property
    def cell(self) -> Cell:
        """The cell."""
        return Cell(tuple((axis, self.values.get(axis)) for axis in AXES))


class SuiteRounds(BaseModel):
    """How far the cells of a suite have come that are drawn until their differences are decided.

    Attributes
    ----------
    level : how many images a seed each concept has in every cell that has not stopped it; the first round's where it
        is not named.
    stopped : by setting and concept, with how many images a seed the difference from the baseline was decided.
    """

    model_config = ConfigDict(extra="forbid")

    level: dict[str, int] = {}
    stopped: dict[str, dict[str, int]] = {}


class SweepRecord(BaseModel):
    """The contents of sweep.json.

    Attributes
    ----------
    common : what all cells are asked alike.
    axes, baseline : the grid that was asked last.
    cells : every cell that was ever part of the sweep, by its folder.
    rounds : by suite, how far the rounds have come of a sweep that is drawn until its differences are decided.
    """

    model_config = ConfigDict(extra="forbid")

    format: Literal[1] = 1
    created: str
    title: str | None = None
    common: dict[str, Any]
    axes: dict[str, list[str | int | float | None]]
    baseline: dict[str, str | int | float | None]
    cells: dict[str, CellRecord]
    rounds: dict[str, SuiteRounds] | None = None

    @property
    def grid(self) -> Grid:
        """The grid that was asked last."""
        return Grid({axis: tuple(values) for axis, values in self.axes.items()}, self.baseline)

    def status(self, cell: Cell) -> CellRecord:
        """Return what became of a cell."""
        return self.cells.get(cell.name) or CellRecord(values=dict(cell.values))


def opened_record(directory: Directory, sweep_file: SweepFile) -> SweepRecord:
    """The record of a sweep that is begun, or that is there and goes on with the same or more cells; it is written.

    Raises
    ------
    SweepError
        The directory holds a sweep of which all cells were asked something else.
    RunMismatchError
        It holds something that is no sweep.
    """
    grid, common = sweep_file.grid, masked_values(sweep_file.model_dump(mode="json", include=set(COMMON)))
    if directory.exists(RECORD):
        record = read_record(directory)
        _require_same(directory, masked_values(record.common), common)
    else:
        if [name for name in directory.contents() if name != CELLS]:
            raise RunMismatchError(
                f"{directory.url}: not empty and not a sweep: it has no {RECORD}; give another --out"
            )
        record = SweepRecord(
            created=datetime.now(UTC).isoformat("T", "seconds"), common=common, axes={}, baseline={}, cells={}
        )
    new = {cell.name: CellRecord(values=dict(cell.values)) for cell in grid}
    axes: dict[str, list[Value]] = {axis: list(grid.values(axis)) for axis in AXES}
    record = record.model_copy(
        update={"title": sweep_file.title, "axes": axes, "baseline": dict(grid.baseline), "cells": new | record.cells}
    )
    write_record(directory, record)
    return record


def read_record(directory: Directory) -> SweepRecord:
    """Read sweep.json.

    Raises
    ------
    RunNotFoundError, SweepError
        There is none, or it is not what was written.
    """
    place = directory.path(RECORD)
    try:
        return SweepRecord.model_validate(directory.read_json(RECORD))
    except ValidationError as error:
        raise SweepError(f"{explain(error, place)}; restore it, or give another --out") from error


def write_record(directory: Directory, record: SweepRecord) -> None:
    """Write sweep.json."""
    directory.write_json(RECORD, record.model_dump(mode="json"))


def cell_place(directory: Directory, cell: Cell) -> str:
    """Say where the run of a cell lies."""
    return f"{directory.url.rstrip('/')}/{CELLS}/{cell.name}"


def _require_same(directory: Directory, old: Mapping[str, Any], new: Mapping[str, Any]) -> None:
    for name in COMMON:
        if old.get(name) != new.get(name):
            raise SweepError(
                f"{name}: found {new.get(name)}, and the cells of {directory.url} were asked with {old.get(name)}; "
                "give that, or another --out"
            )
