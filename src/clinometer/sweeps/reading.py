"""A sweep as requested: a YAML file, or a mapping of the same keys."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, ValidationError

from clinometer.errors import SweepError
from clinometer.pipeline.request import CellOptions, Scale
from clinometer.suites.reading import read_request
from clinometer.suites.strict import Number, Strict, Text, explain, several
from clinometer.sweeps.grid import Grid, Value


def _named(entry: Any) -> Any:
    """``none`` as nothing."""
    return [None if axis_value == "none" else axis_value for axis_value in several(entry)]


Texts = Annotated[tuple[Text, ...], BeforeValidator(several)]
TextsOrNone = Annotated[tuple[Text | None, ...], BeforeValidator(_named)]
Seed = Annotated[int, Field(ge=0, lt=2**63, strict=True)]
Steps = Annotated[int, Field(ge=1, strict=True)]


class Axes(Strict):
    """The axes of a sweep, as a file writes them: a value or a list of them each."""

    suite: Texts = ("reference",)
    model: Texts = ("reference",)
    checkpoint: TextsOrNone = (None,)
    lora: TextsOrNone = (None,)
    lora_scale: Annotated[tuple[Number | None, ...], BeforeValidator(_named)] = (None,)
    scheduler: TextsOrNone = (None,)
    negative_prompt: TextsOrNone = (None,)
    guidance: Annotated[tuple[Scale | None, ...], BeforeValidator(_named)] = (None,)
    steps: Annotated[tuple[Steps | None, ...], BeforeValidator(_named)] = (None,)
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
        return Grid(axes, self._baseline())

    def _baseline(self) -> dict[str, Value]:
        """The values of the baseline, read as those of its axes are."""
        read: dict[str, Value] = {}
        for axis, value in self.baseline.items():
            if axis in Axes.model_fields:
                (read[axis],) = getattr(Axes.model_validate({axis: value}), axis) or (None,)
            else:
                read[axis] = value
        return read


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
        sweep_file.grid  # noqa: B018 - checked now, not at the first cell
    except ValidationError as error:
        raise SweepError(explain(error, source)) from error
    except SweepError as error:
        raise SweepError(f"{source}: {error}") from error
    return sweep_file
