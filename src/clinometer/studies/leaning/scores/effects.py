"""What can be asked of groups that are cells of axes: each axis, cell and interaction, as contrasts of the cells.

With ``c`` the mean cosines of a target to the cells, every question is a linear one, ``w · c`` with weights ``w`` that
sum to 0. Those of a set S of axes are the analysis of variance of a complete product::

    P_S = ⊗_axis (I − J/K)  of the axes in S,  J/K  of the others            J of ones, K the axis' levels

    row of P_S at a cell  =  what the cell's levels on S add to the levels on fewer axes
    Σ_S P_S = I − J/G                                              so the parts of a cell add up to its deviation

S of one axis is that axis' own leaning, averaged over the levels of the others; S of more is their interaction: the
double-centred residual. They are orthogonal, so none takes from another, whatever the axes show.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import combinations
from math import prod

import numpy as np

from clinometer.studies.leaning.scores.design import Design

CROSS = "×"
CELLS = "cells"


@dataclass(frozen=True)
class Effect:
    """One question about the cells.

    Attributes
    ----------
    kind : ``"axis"``, ``"interaction"`` or ``"cell"``.
    component : what its rows are called: ``axis:gender``, ``interaction:gender×tone``, ``cells``.
    axes : the axes it is about, in order.
    names : of each contrast, the level or the cell that a positive value leans to.
    others : of each contrast, what a negative one leans to: the other level, or empty where there are several.
    weights : (contrasts × groups), every row summing to 0.
    rank : how many of the contrasts are free; 1 is a single question, more take a joint test.
    """

    kind: str
    component: str
    axes: tuple[str, ...]
    names: tuple[str, ...]
    others: tuple[str, ...]
    weights: np.ndarray
    rank: int

    @property
    def basis(self) -> np.ndarray:
        """Orthonormal rows that span the contrasts: (rank × groups)."""
        return np.linalg.svd(self.weights)[2][: self.rank]

    @property
    def residual(self) -> np.ndarray:
        """Of an interaction, the contrast of cosines at its first cell: how far they exceed the sum of its levels'."""
        return np.asarray(self.weights[0])

    @property
    def of_halves(self) -> bool:
        """Whether a value is a deviation from the middle: half of the difference between two that are opposite."""
        return not (self.kind == "axis" and self.rank == 1)


def effects_of(design: Design) -> tuple[Effect, ...]:
    """Each axis, each interaction, and the cells against all alike, in this order."""
    sets = [chosen for size in range(1, len(design.axes) + 1) for chosen in combinations(design.axes, size)]
    return (*(_effect(design, chosen) for chosen in sets), _cells(design))


def level_weights(design: Design, axis: str) -> np.ndarray:
    """Of every level of an axis its deviation from the mean of all levels, over the groups: (levels × groups)."""
    return _projection(design, (axis,))[list(_combinations(design, (axis,)).values())]


def centring(sizes: Sequence[int]) -> np.ndarray:
    """``⊗ (I − J/K)``: a table of these sizes, as one row, with all its margins taken out."""
    return np.asarray(reduce(_kron, [np.eye(size) - 1 / size for size in sizes]))


def _kron(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    return np.asarray(np.kron(first, second))


def _effect(design: Design, chosen: tuple[str, ...]) -> Effect:
    projection = _projection(design, chosen)
    rank = prod(len(design.axes[axis]) - 1 for axis in chosen)
    places = _combinations(design, chosen)
    if len(chosen) == 1:
        return _axis(design, chosen[0], projection[list(places.values())], rank)
    row_places = dict(list(places.items())[: None if rank > 1 else 1])
    return Effect(
        kind="interaction",
        component=f"interaction:{CROSS.join(chosen)}",
        axes=chosen,
        names=tuple(row_places),
        others=("",) * len(row_places),
        weights=projection[list(row_places.values())],
        rank=rank,
    )


def _axis(design: Design, axis: str, rows: np.ndarray, rank: int) -> Effect:
    """Of two levels their difference, on the scale of MCAS; of more, the deviation of each."""
    levels, component = design.axes[axis], f"axis:{axis}"
    if rank == 1:
        return Effect("axis", component, (axis,), levels[:1], levels[1:], rows[:1] - rows[1:], 1)
    return Effect("axis", component, (axis,), levels, ("",) * len(levels), rows, rank)


def _cells(design: Design) -> Effect:
    n = len(design.groups)
    weights = np.eye(n) - 1 / n
    return Effect("cell", CELLS, tuple(design.axes), design.groups, ("",) * n, weights, n - 1)


def _projection(design: Design, chosen: Sequence[str]) -> np.ndarray:
    """P_S in the order of the design's groups: (groups × groups)."""
    parts = [
        np.eye(len(levels)) - 1 / len(levels) if axis in chosen else np.full((len(levels),) * 2, 1 / len(levels))
        for axis, levels in design.axes.items()
    ]
    places = [_place(design, group) for group in design.groups]
    return np.asarray(reduce(_kron, parts)[np.ix_(places, places)])


def _place(design: Design, group: str) -> int:
    """The group's number in the full product, the last axis running fastest."""
    place = 0
    for level, levels in zip(design.cells[group], design.axes.values(), strict=True):
        place = place * len(levels) + levels.index(level)
    return place


def _combinations(design: Design, chosen: Sequence[str]) -> dict[str, int]:
    """Each combination of the chosen axes' levels by name, and a group that has it: rows of P_S are alike at them all.

    A combination of all axes is a cell, and has the group's name.
    """
    at = [list(design.axes).index(axis) for axis in chosen]
    places: dict[str, int] = {}
    for group in sorted(design.groups, key=lambda group: _place(design, group)):
        levels = [design.cells[group][i] for i in at]
        name = group if len(chosen) == len(design.axes) else CROSS.join(levels)
        places.setdefault(name, design.index(group))
    return places
