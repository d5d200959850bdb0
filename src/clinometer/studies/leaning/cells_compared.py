"""Runs of a suite with axes beside each other: a difference along every axis, and of every cell."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final

from clinometer.report import wording
from clinometer.report.comparison import Quantity, RunsCompared, own_name
from clinometer.report.rows import Row, Scores
from clinometer.report.wording import difference_words
from clinometer.runs.together import Comparison
from clinometer.studies.leaning.cells_view import CellsView
from clinometer.suites import LeaningSuite, Suite
from clinometer.suites.axes import CrossedAxis


def crossed_models(views: Mapping[str, CellsView]) -> dict[str, Any]:
    """A table an axis: a row a concept (and level, of more than two), with the number and q of every run."""
    first = next(iter(views.values()))
    return {"tables": [_table(views, first, axis) for axis in first.axes], "margin": first.suite.margin}


def _table(views: Mapping[str, CellsView], first: CellsView, axis: str) -> dict[str, Any]:
    levels = list(first.axes[axis].levels)
    row_levels = levels[:1] if len(levels) == 2 else levels
    return {
        "label": wording.capitalised(first.suite.axis_label(axis)),
        "positive": f"positive to {first.label(levels[0])}" if len(levels) == 2 else "against the mean of all levels",
        "rows": [
            {
                "name": name if len(row_levels) == 1 else f"{name}: {first.label(level)}",
                "cells": [_cells(view, axis, level, name) for view in views.values()],
            }
            for name in first.concepts
            for level in row_levels
        ],
    }


def _cells(view: CellsView, axis: str, level: str, concept: str) -> list[str]:
    row = next((row for row in view.rows(f"axis:{axis}", concept) if row.group == level), None)
    if row is None or not row.defined:
        return [wording.MISSING, wording.MISSING]
    text = wording.with_interval(row.value, row.low, row.high, view.digits)
    return [text, wording.bare_probability(row.q)]


TO_DECIDE: Final = "images, of the concept, with as many more of the groups"


def crossed_quantities(suite: Suite) -> Sequence[Quantity]:
    """Every axis, and every cell against the mean of all."""
    assert isinstance(suite, LeaningSuite)
    axes = [_along(suite, name, axis) for name, axis in (suite.axes or {}).items()]
    return [*axes, *(_of_cell(suite, name) for name in suite.groups)]


def _along(suite: LeaningSuite, name: str, axis: CrossedAxis) -> Quantity:
    levels = list(axis.levels.values())
    is_pair = len(levels) == 2
    return Quantity(
        component=f"axis:{name}",
        symbol=f"image part by {suite.axis_label(name)}",
        unit="concept",
        column="Δ image part",
        to_decide=TO_DECIDE,
        counted="concept",
        positive="more to {a} than {first}",
        a=levels[0] if is_pair else "the level named",
        family="" if is_pair else "concepts and levels",
        name=own_name if is_pair else level_name,
        short_name=own_name if is_pair else level_name,
    )


def level_name(suite: Suite, row: Row) -> str:
    """A concept and the level that it is about."""
    return f"{row.concept}: {suite.label_of(row.group)}"


def _of_cell(suite: LeaningSuite, name: str) -> Quantity:
    return Quantity(
        component=f"cell:{name}",
        symbol=f"nearness to {suite.label_of(name)}",
        unit="concept",
        column="difference",
        to_decide=TO_DECIDE,
        counted="concept",
        positive="nearer to {a} than in {first}, against the mean of all groups",
        a=suite.label_of(name),
        family="concepts and groups",
        brief=False,
    )


def verdict_by_axis(comparison: Comparison, labels: tuple[str, str]) -> str:
    """Verdicts on the concepts along each axis, counted: magnitudes of several axes do not add up to one number."""
    suite, scores = comparison.first.suite, Scores.from_frame(comparison.scores)
    assert isinstance(suite, LeaningSuite)
    parts = []
    for axis in suite.axes or {}:
        rows = scores.select("comparison", f"axis:{axis}")
        counts = Counter(difference_words(row, labels, suite.label_of) for row in rows)
        tally = ", ".join(f"{verdict}: {n}" for verdict, n in counts.most_common())
        parts.append(f"by {suite.axis_label(axis)}, {tally}")
    return f"{labels[1]} beside {labels[0]}, concepts counted {'; '.join(parts)}."


CROSSED: Final = RunsCompared(
    quantities=crossed_quantities,
    label_a=lambda suite: "",
    view=CellsView,
    side_by_side=lambda views, encoder: crossed_models(views),
    template="cells_comparison",
    verdict=verdict_by_axis,
)
"""How runs of a suite with axes are shown beside each other."""
