"""What a sweep found: the numbers of every setting over all its seeds, and its differences from the baseline.

Settings are held against each other as runs are (:mod:`clinometer.pipeline.comparison`), in pairs of images that were
drawn from one noise. All differences of one kind over the whole grid are one family of tests.
"""

from __future__ import annotations

import hashlib
import json
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import pandas as pd
import pyarrow as pa

from clinometer._cores import one_blas_thread
from clinometer.errors import ClinometerError, RunCorruptError, RunNotFoundError
from clinometer.metrics.differences import judged_over_grid, judged_when_stopped
from clinometer.metrics.records import Score
from clinometer.pipeline.comparison import compare_runs
from clinometer.pipeline.score import resamples_of
from clinometer.report.rows import Row, Scores
from clinometer.runs import Directory, NoProgress, Progress, Run
from clinometer.runs.fingerprint import fingerprint_of_scores
from clinometer.runs.together import Comparison, pooled
from clinometer.studies import study_of
from clinometer.studies.common import scores_table
from clinometer.studies.refusals.scoring import with_refusals
from clinometer.sweeps.grid import Cell, Grid, Value
from clinometer.sweeps.record import SweepRecord, cell_place

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
class SweepOutcome:
    """All settings of a sweep, suite by suite, in the order of the grid."""

    record: SweepRecord
    settings: tuple[Setting, ...]

    @property
    def grid(self) -> Grid:
        """The grid."""
        return self.record.grid

    def of_suite(self, suite: Value) -> list[Setting]:
        """The settings of a suite."""
        return [setting for setting in self.settings if setting.cell["suite"] == suite]

    def is_baseline(self, setting: Setting) -> bool:
        """Whether all others are held against it."""
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
    """The same with its numbers, and its differences from the baseline."""
    if not setting.runs:
        return replace(setting, undone="no run of it has finished")
    try:
        setting = _scored(directory, setting)
        if setting.cell == baseline.cell:
            return setting
        return replace(setting, comparison=_comparison(directory, setting, baseline))
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


def _comparison(directory: Directory, setting: Setting, baseline: Setting) -> Comparison:
    """Over the seeds that both have."""
    seeds = [seed for seed in setting.runs if seed in baseline.runs]
    if not seeds:
        raise RunNotFoundError("the baseline has no finished run of its seeds")
    first, second = ([side.runs[seed] for seed in seeds] for side in (baseline, setting))
    both = pooled(first), pooled(second)

    def compute() -> Computed:
        comparison = compare_runs(*both)
        return comparison.scores, {name: getattr(comparison, name) for name in FACTS}

    scores, facts = stored_table(directory, f"{setting.cell.name}-differences", [*first, *second], compute)
    return Comparison(first=both[0], second=both[1], scores=scores, **facts)


FACTS: Final = ("unpaired", "pairs", "dropped", "identical")
"""What a comparison tells besides its scores."""


def _over_grid(settings: Sequence[Setting], *, until_decided: bool) -> list[Setting]:
    """The same with all differences of one kind corrected together, whatever the setting, the suite and the unit."""
    entries: list[tuple[int, Score]] = [
        (order, row) for order, setting in enumerate(settings) for row in _rows(setting)
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
    """The groups that positive and negative differences lean to."""
    assert setting.comparison is not None
    suite = setting.comparison.first.suite
    groups = study_of(suite).compared_groups(suite)[0]
    return groups.a, groups.b


def _rows(setting: Setting) -> Sequence[Row]:
    return () if setting.comparison is None else Scores.from_frame(setting.comparison.scores).rows


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
    _forget(directory, name)
    directory.write_table(f"{stem}.parquet", pa.Table.from_pandas(table, preserve_index=False))
    directory.write_json(f"{stem}.json", facts)
    return table, facts


def _hash_made_of(runs: Sequence[Run]) -> str | None:
    """Hash what the scores of some runs are made of; None where it is unknown for one of them."""
    prints = [fingerprint_of_scores(run, resamples_of(*runs)) for run in runs]
    if not all(prints):
        return None
    return hashlib.sha256(json.dumps(prints).encode()).hexdigest()[:16]


def _forget(directory: Directory, name: str) -> None:
    """Remove what was computed from an earlier state."""
    for suffix in (".json", ".parquet"):
        for file in directory.names(FOLDER, suffix):
            if file.removeprefix(f"{FOLDER}/").removesuffix(suffix)[:-17] == name:
                directory.remove(file)
