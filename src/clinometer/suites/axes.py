"""Axes whose combinations are a suite's groups: gender × skin tone, each group a cell of the product."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import product

from pydantic import Field

from clinometer.suites.base import refuse_duplicates, refuse_unknown
from clinometer.suites.strict import Name, Strict


class CrossedAxis(Strict):
    """One axis: its levels with their labels for people. Of two levels, positive leans to the first."""

    label: Name | None = None
    levels: dict[Name, Name] = Field(min_length=2)


def check_axes(axes: Mapping[str, CrossedAxis], groups: Iterable[str]) -> None:
    """Refuse axes that are not two or more, and names that would not say which level or group is meant."""
    if len(axes) < 2:
        raise ValueError(
            f"axes: found {', '.join(axes) or 'none'}, expected two or more; for one pair give axis.a, axis.b"
        )
    if odd := next((name for name in axes if ":" in name or "×" in name), ""):
        raise ValueError(f"axes.{odd}: ':' and '×' stand between names in the scores; give another name")
    levels = [level for axis in axes.values() for level in axis.levels]
    refuse_duplicates(levels, "axes: levels of two axes need different names; found twice")
    refuse_duplicates([*groups, *levels], "axes: a level and a group need different names; found twice")


def check_cells(axes: Mapping[str, CrossedAxis], cells: Mapping[str, Mapping[str, str] | None]) -> None:
    """Every group a cell, every cell a group, none twice."""
    groups: dict[tuple[str, ...], str] = {}
    for name, cell in cells.items():
        place = _place(axes, name, cell)
        if place in groups:
            raise ValueError(f"groups.{name}.cell: {' × '.join(place)} is the cell of {groups[place]!r} already")
        groups[place] = name
    missing = [place for place in product(*(axis.levels for axis in axes.values())) if place not in groups]
    if missing:
        cells_in_words = ", ".join(" × ".join(place) for place in missing)
        raise ValueError(f"groups: no group for {cells_in_words}; every combination of the axes' levels needs one")


def _place(axes: Mapping[str, CrossedAxis], name: str, cell: Mapping[str, str] | None) -> tuple[str, ...]:
    """A group's levels in the order of the axes."""
    if cell is None:
        raise ValueError(f"groups.{name}.cell: missing, and the suite has axes; give its level of {', '.join(axes)}")
    if odd := next((axis for axis in cell if axis not in axes), ""):
        raise ValueError(f"groups.{name}.cell: no axis named {odd!r}; axes are {', '.join(axes)}")
    for axis, spec in axes.items():
        if axis not in cell:
            raise ValueError(f"groups.{name}.cell.{axis}: missing; levels are {', '.join(spec.levels)}")
        refuse_unknown(f"groups.{name}.cell.{axis}", "level", cell[axis], spec.levels)
    return tuple(cell[axis] for axis in axes)
