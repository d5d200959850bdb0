"""Runs of a suite with axes beside each other: a difference along every axis, and of every cell."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Final

from clinometer.report.comparison import Quantity, RunsCompared, own_name
from clinometer.report.rows import Row, Scores
from clinometer.report.verdict_words import difference_words
from clinometer.runs.comparison import Comparison
from clinometer.studies.leaning.cells_side_by_side import crossed_models
from clinometer.studies.leaning.cells_view import CellsView
from clinometer.suites import LeaningSuite, Suite
from clinometer.suites.axes import CrossedAxis

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
        symbol=f"MCAS by {suite.axis_label(name)}",
        unit="concept",
        column="ΔMCAS",
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


def verdict_by_axis(comparison: Comparison, called: tuple[str, str]) -> str:
    """What is said of the concepts along each axis, counted: magnitudes of several axes make no one number."""
    suite, scores = comparison.first.suite, Scores.from_frame(comparison.scores)
    assert isinstance(suite, LeaningSuite)
    parts = []
    for axis in suite.axes or {}:
        rows = scores.select("comparison", f"axis:{axis}")
        counts = Counter(difference_words(row, called, suite.label_of) for row in rows)
        told = ", ".join(f"{said}: {n}" for said, n in counts.most_common())
        parts.append(f"by {suite.axis_label(axis)}, {told}")
    return f"{called[1]} beside {called[0]}, concepts counted {'; '.join(parts)}."


CROSSED: Final = RunsCompared(
    quantities=crossed_quantities,
    label_a=lambda suite: "",
    view=CellsView,
    side_by_side=lambda views, encoder: crossed_models(views),
    template="cells_comparison",
    verdict=verdict_by_axis,
)
"""How runs of a suite with axes are shown beside each other."""
