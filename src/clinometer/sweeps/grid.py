"""A sweep as requested, a YAML file or a mapping of the same keys: its axes, its cells, and what they are called.

sweep.json holds the grid as it was asked, and what became of each cell.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from itertools import product
from math import prod
from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from clinometer._messages import did_you_mean, first_and_more, quoted
from clinometer._secrets import masked_values
from clinometer.errors import InvalidInputError, RunMismatchError, SweepError
from clinometer.pipeline.request import ALIKE, CellOptions, Scale
from clinometer.runs import Directory
from clinometer.suites.strict import Number, Strict, Text, code_of, explain, read_request, several

Value = str | int | float | None

AXES: Final = (
    "suite",
    "model",
    "checkpoint",
    "lora",
    "lora_scale",
    "scheduler",
    "negative_prompt",
    "system_prompt",
    "rewriter",
    "wording",
    "guidance",
    "steps",
    "seed",
)
"""What a grid may vary, in the order of its cells: the last varies fastest."""

SETTING_AXES: Final = tuple(axis for axis in AXES if axis != "seed")
"""The axes that make a setting: its seeds are taken together."""

WEIGHTS: Final = ("model", "checkpoint", "lora", "lora_scale", "scheduler")
"""Axes along which another model is loaded."""

REPLICATES: Final = ("suite", "seed")
"""Axes along which nothing is compared: each suite and each seed has its own baseline, of the same questions and noise.
"""

LATER: Final = ("system_prompt", "rewriter", "wording")
"""Axes that earlier versions had not: the folder of a cell without them is called as it was."""

DEFAULTS: Final[Mapping[str, Value]] = {"suite": "reference", "model": "reference", "seed": 0}

MOST_CELLS: Final = 10_000
LONGEST: Final = 80
"""Characters of a cell's folder, before its hash."""


@dataclass(frozen=True)
class Cell:
    """One run of a sweep: a value on every axis; None where the model's own is taken."""

    values: tuple[tuple[str, Value], ...]

    @classmethod
    def of(cls, **values: Value) -> Cell:
        """Return a cell by its values; those that are left out are the model's own, or the reference's."""
        by_axis = {**DEFAULTS, **values}
        return cls(tuple((axis, by_axis.get(axis)) for axis in AXES))

    def __getitem__(self, axis: str) -> Value:
        return dict(self.values)[axis]

    def at(self, **values: Value) -> Cell:
        """Return the cell that has other values on some axes."""
        return Cell(tuple((axis, values.get(axis, value)) for axis, value in self.values))

    @property
    def name(self) -> str:
        """Its folder: what is asked for, in words that a path can hold. It does not depend on the rest of the grid."""
        by_axis = dict(self.values)
        parts = [value_in_words(axis, by_axis.pop(axis)) for axis in ("model", "suite")]
        options = {
            axis.replace("_", "-"): value_in_words(axis, value) for axis, value in by_axis.items() if value is not None
        }
        parts += [f"{axis}-{value}" for axis, value in options.items()]
        exact = "-".join(parts)
        readable = re.sub(r"[^A-Za-z0-9._-]+", "-", exact)[:LONGEST].strip("-.")
        if readable == exact:
            return readable
        known = [pair for pair in self.values if pair[0] not in LATER or pair[1] is not None]
        digest = hashlib.sha256(json.dumps(known).encode()).hexdigest()[:8]
        return f"{readable}-{digest}"

    @property
    def setting(self) -> Cell:
        """The same without a seed: its images are one sample, drawn in as many runs as there are seeds."""
        return self.at(seed=None)

    @property
    def weights(self) -> tuple[Value, ...]:
        """What has to be loaded for it."""
        return tuple(self[axis] for axis in WEIGHTS)

    def words(self, axes: tuple[str, ...]) -> str:
        """Return its values on some axes, for people."""
        phrases = [in_words(axis, self[axis]) for axis in axes]
        return ", ".join(phrases) or in_words("model", self["model"])


def in_words(axis: str, value: Value) -> str:
    """Return a value of an axis, for people: ``guidance 7.5``; of a model or a suite its name alone."""
    if axis in ("model", "suite"):
        return str(value)
    label = axis.replace("_", " ")
    return f"{label} {value_in_words(axis, value)}"


def value_in_words(axis: str, value: Value) -> str:
    """Return a value as it is typed; of one that was not given, that it is the model's own."""
    if value is None:
        if axis == "wording":
            return "all"
        return "none" if axis in ("lora", "checkpoint", "system_prompt", "rewriter") else "of the model"
    return f"{value:g}" if isinstance(value, float) else str(value)


@dataclass(frozen=True)
class Grid:
    """A grid, checked.

    Attributes
    ----------
    axes : the values of each axis, in order; axes that are left out have one, the model's own.
    baseline : the values of the setting that all others are compared with.
    """

    axes: Mapping[str, tuple[Value, ...]]
    baseline: Mapping[str, Value] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for axis, values in self.axes.items():
            if axis not in AXES:
                hint = did_you_mean(axis, AXES) or f"axes are {', '.join(AXES)}"
                raise SweepError.unknown_name(f"axes: unknown axis {quoted(axis)}; {hint}")
            if not values:
                raise SweepError.too_few(f"axes.{axis}: it is empty; give it a value, or leave it out")
            doubled = [value for place, value in enumerate(values) if value in values[:place]]
            if doubled:
                twice = value_in_words(axis, doubled[0])
                raise SweepError.duplicate(
                    f"axes.{axis}: {twice} comes twice, so cells would be doubled; leave one out"
                )
        most = prod(len(self.values(axis)) for axis in AXES)
        if most > MOST_CELLS:
            raise SweepError.too_many(f"axes: {most:,} cells, more than {MOST_CELLS:,}; divide the sweep")
        self._check_baseline()
        # two cells that would share a folder: on many systems names that differ in case alone do
        by_folder: dict[str, Cell] = {}
        for cell in self:
            other = by_folder.setdefault(cell.name.lower(), cell)
            if other != cell:
                raise SweepError.duplicate(
                    f"axes: two cells would lie in one folder, {cell.name}; rename one of what they name"
                )

    def _check_baseline(self) -> None:
        for axis, value in self.baseline.items():
            if axis in REPLICATES:
                raise SweepError.conflict(
                    f"baseline.{axis}: each {axis} has its own baseline, drawn from the same noise; leave it out"
                )
            if axis not in AXES:
                hint = did_you_mean(axis, self.axes) or f"axes are {', '.join(self.axes)}"
                raise SweepError.unknown_name(f"baseline: unknown axis {quoted(axis)}; {hint}")
            there = self.values(axis)
            if value not in there:
                choices = first_and_more([value_in_words(axis, choice) for choice in there], 10)
                raise SweepError.unknown_name(
                    f"baseline.{axis}: found {value_in_words(axis, value)}, and the axis has {choices}; give one of "
                    "them"
                )

    def values(self, axis: str) -> tuple[Value, ...]:
        """Return the values of an axis; of one that is left out, its default."""
        return self.axes.get(axis) or (DEFAULTS.get(axis),)

    @property
    def varied(self) -> tuple[str, ...]:
        """Axes of more than one value."""
        return tuple(axis for axis in AXES if len(self.values(axis)) > 1)

    def __len__(self) -> int:
        return len(self.cells)

    def __iter__(self) -> Iterator[Cell]:
        return iter(self.cells)

    @cached_property
    def cells(self) -> tuple[Cell, ...]:
        """Every cell once. Without a LoRA there is none to scale, so all scales of none are one cell."""
        combinations = (Cell(tuple(zip(AXES, values, strict=True))) for values in product(*map(self.values, AXES)))
        return tuple(dict.fromkeys(cell if cell["lora"] else cell.at(lora_scale=None) for cell in combinations))

    def settings(self, suite: Value) -> list[Cell]:
        """Return the settings of a suite, seeds taken together, in the order of the grid."""
        return list(dict.fromkeys(cell.setting for cell in self if cell["suite"] == suite))

    def cells_of(self, setting: Cell) -> list[Cell]:
        """Return the cells of a setting, a seed each."""
        return [setting.at(seed=seed) for seed in self.values("seed")]

    def baseline_of(self, cell: Cell) -> Cell:
        """Return the baseline of a cell or a setting: of the same suite and seed."""
        values = {axis: self.baseline.get(axis, self.values(axis)[0]) for axis in AXES if axis not in REPLICATES}
        baseline = cell.at(**values)
        return baseline if baseline["lora"] else baseline.at(lora_scale=None)


def _read_values(entry: Any) -> Any:
    """Read a value or several, ``none`` as nothing."""
    return [None if axis_value == "none" else axis_value for axis_value in several(entry)]


Texts = Annotated[tuple[Text, ...], BeforeValidator(several)]
TextsOrNone = Annotated[tuple[Text | None, ...], BeforeValidator(_read_values)]
Seed = Annotated[int, Field(ge=0, lt=2**63, strict=True)]
Steps = Annotated[int, Field(ge=1, strict=True)]


class Axes(Strict):
    """The axes of a sweep, as a file writes them: a value or a list of them each."""

    suite: Texts = ("reference",)
    model: Texts = ("reference",)
    checkpoint: TextsOrNone = (None,)
    lora: TextsOrNone = (None,)
    lora_scale: Annotated[tuple[Number | None, ...], BeforeValidator(_read_values)] = (None,)
    scheduler: TextsOrNone = (None,)
    negative_prompt: TextsOrNone = (None,)
    system_prompt: TextsOrNone = (None,)
    rewriter: TextsOrNone = (None,)
    wording: TextsOrNone = (None,)
    guidance: Annotated[tuple[Scale | None, ...], BeforeValidator(_read_values)] = (None,)
    steps: Annotated[tuple[Steps | None, ...], BeforeValidator(_read_values)] = (None,)
    seed: Annotated[tuple[Seed, ...], BeforeValidator(several)] = (0,)


class SweepFile(CellOptions):
    """A sweep, as a file describes it. Whatever is not an axis holds for every cell."""

    title: Text | None = None
    out: Text | None = None
    axes: Axes = Axes()
    baseline: dict[str, Any] = Field(default_factory=dict)
    encoder: Annotated[tuple[Text, ...] | None, BeforeValidator(lambda entry: entry and several(entry))] = None
    options: dict[str, Any] = Field(default_factory=dict)

    @property
    def grid(self) -> Grid:
        """The grid, checked."""
        axes: dict[str, tuple[Value, ...]] = {name: getattr(self.axes, name) for name in Axes.model_fields}
        # the values of the baseline, read as those of its axes are
        read: dict[str, Value] = {}
        for axis, value in self.baseline.items():
            if axis in Axes.model_fields:
                (read[axis],) = getattr(Axes.model_validate({axis: value}), axis) or (None,)
            else:
                read[axis] = value
        return Grid(axes, read)


def load_sweep(path: str | os.PathLike[str]) -> SweepFile:
    """Read a sweep's file.

    Raises
    ------
    SweepError
        There is none, or it says something it must not: the message names the file and the key.
    """
    return sweep_from_mapping(read_request(path, "sweep", SweepError), source=os.fspath(path))


def sweep_from_mapping(data: Mapping[str, Any], *, source: str = "sweep") -> SweepFile:
    """Check a sweep that is already a mapping.

    Raises
    ------
    SweepError
        It says something it must not.
    """
    try:
        sweep_file = SweepFile.model_validate(data)
        sweep_file.grid, sweep_file.watches  # noqa: B018 - checked now, not at the first cell
    except ValidationError as error:
        raise SweepError(explain(error, source), code=code_of(error)) from error
    except (SweepError, InvalidInputError) as error:
        raise SweepError(f"{source}: {error}", code=error.code) from error
    return sweep_file


# --- the record ------------------------------------------------------------------------------------------------------

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
    """Write the record of a sweep that begins, or of one that goes on with the same or more cells.

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
        old = masked_values(record.common)
        for name in COMMON:
            if old.get(name) != common.get(name):
                raise SweepError.mismatch(
                    f"{name}: found {common.get(name)}, and the cells of {directory.url} were asked with "
                    f"{old.get(name)}; give that, or another --out"
                )
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
        raise SweepError.corrupt(f"{explain(error, place)}; restore it, or give another --out") from error


def write_record(directory: Directory, record: SweepRecord) -> None:
    """Write sweep.json."""
    directory.write_json(RECORD, record.model_dump(mode="json"))


def cell_place(directory: Directory, cell: Cell) -> str:
    """Return the place of a cell's run."""
    return f"{directory.url.rstrip('/')}/{CELLS}/{cell.name}"
