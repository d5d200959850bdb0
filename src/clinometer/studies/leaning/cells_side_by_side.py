"""Several runs of a suite whose groups are cells of axes, side by side: each run's own numbers along every axis."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from clinometer.report import wording
from clinometer.studies.leaning.cells_view import CellsView


def crossed_models(views: Mapping[str, CellsView]) -> dict[str, Any]:
    """A table an axis: a row a concept (and level, of more than two), with the number and q of every run."""
    first = next(iter(views.values()))
    return {"tables": [_table(views, first, axis) for axis in first.axes], "margin": first.suite.margin}


def _table(views: Mapping[str, CellsView], first: CellsView, axis: str) -> dict[str, Any]:
    levels = list(first.axes[axis].levels)
    shown = levels[:1] if len(levels) == 2 else levels
    return {
        "label": wording.capitalised(first.suite.axis_label(axis)),
        "positive": f"positive to {first.label(levels[0])}" if len(levels) == 2 else "against the mean of all levels",
        "rows": [
            {
                "name": name if len(shown) == 1 else f"{name}: {first.label(level)}",
                "cells": [_cells(view, axis, level, name) for view in views.values()],
            }
            for name in first.concepts
            for level in shown
        ],
    }


def _cells(view: CellsView, axis: str, level: str, concept: str) -> list[str]:
    row = next((each for each in view.rows(f"axis:{axis}", concept) if each.group == level), None)
    if row is None or not row.defined:
        return [wording.MISSING, wording.MISSING]
    shown = wording.with_interval(row.value, row.low, row.high, view.digits)
    return [shown, wording.bare_probability(row.q)]
