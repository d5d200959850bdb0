"""sweep.json: the grid of a sweep as it was asked, and what became of each cell."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final, Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from clinometer._secrets import masked_values
from clinometer.errors import RunMismatchError, SweepError
from clinometer.pipeline.request import ALIKE
from clinometer.runs import Directory
from clinometer.suites.strict import explain
from clinometer.sweeps.grid import AXES, Cell, Grid, Value
from clinometer.sweeps.reading import SweepFile

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
        """What became of a cell."""
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
    """Where the run of a cell lies."""
    return f"{directory.url.rstrip('/')}/{CELLS}/{cell.name}"


def _require_same(directory: Directory, old: Mapping[str, Any], new: Mapping[str, Any]) -> None:
    for name in COMMON:
        if old.get(name) != new.get(name):
            raise SweepError(
                f"{name}: found {new.get(name)}, and the cells of {directory.url} were asked with {old.get(name)}; "
                "give that, or another --out"
            )
