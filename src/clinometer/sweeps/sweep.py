"""A sweep from its file to its page."""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

import pandas as pd

from clinometer.errors import SweepError
from clinometer.pipeline.audits import Workers
from clinometer.report.html import notebook_html
from clinometer.runs import Directory, Progress, Run
from clinometer.sweeps.grid import Cell, SweepFile, load_sweep, sweep_from_mapping
from clinometer.sweeps.guidance import split_lacks, split_table, with_splits, write_split
from clinometer.sweeps.outcome import SweepOutcome, SweepRecord, cell_place, opened_record, outcome_of, read_record
from clinometer.sweeps.page import settings_tables, write_page
from clinometer.sweeps.running import LoadedObjects, require_rounds, run_cells
from clinometer.sweeps.tables import differences_of, table_of, write_tables


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


def read_sweep(source: str | os.PathLike[str] | Mapping[str, Any] | SweepFile) -> SweepFile:
    """Return a sweep as it was asked for: a file, or what one would say."""
    if isinstance(source, SweepFile):
        return source
    return sweep_from_mapping(source) if isinstance(source, Mapping) else load_sweep(source)


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
    """Audit every cell that is not finished, hold all against the baseline, and write the tables and the page.

    Raises
    ------
    SweepError, RunError, EngineError
        As :func:`clinometer.sweep`.
    """
    sweep_file = read_sweep(source)
    require_rounds(sweep_file, objects)
    directory = Directory(out or default_out(source, sweep_file))
    with directory.locked():
        record = opened_record(directory, sweep_file)
        record = run_cells(directory, record, sweep_file, objects, workers, progress)
        outcome = with_splits(directory, outcome_of(directory, record, progress))
        write_tables(directory, outcome)
        write_split(directory, outcome)
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
        raise SweepError(
            f"{sweep.url}: {len(sweep.failed)} of {len(sweep.cells)} cells failed; the others are finished. The first, "
            f"{name}: {reason}. Mend that and give the same command again: only what failed is done"
        )
