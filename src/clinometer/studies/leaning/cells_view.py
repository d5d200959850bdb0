"""The run of a suite whose groups are cells of axes, as its sections see it."""

from __future__ import annotations

from collections import Counter
from functools import cached_property
from itertools import product

from clinometer.report import wording
from clinometer.report.rows import Row
from clinometer.report.wording import VerdictGroup, verdict_group_of
from clinometer.studies.leaning.cells_wording import verdict_words
from clinometer.studies.leaning.view import Concept, LeaningView
from clinometer.suites.axes import CrossedAxis

METRIC = "intersections"


class CellsView(LeaningView):
    """A leaning study with axes: there is no group A or B, every axis has levels of its own."""

    @property
    def axes(self) -> dict[str, CrossedAxis]:
        """The axes by name, in order."""
        return self.suite.axes or {}

    @cached_property
    def interactions(self) -> list[str]:
        """Components of the interactions, in stored order."""
        rows = self.scores.select(METRIC)
        return list(dict.fromkeys(row.component for row in rows if row.component.startswith("interaction:")))

    @cached_property
    def _mean_rows(self) -> dict[tuple[str, str], list[Row]]:
        """Rows of the average over encoders, by component and concept; parts of an axis are left out."""
        rows: dict[tuple[str, str], list[Row]] = {}
        for row in self.scores.select(METRIC, setting=""):
            rows.setdefault((row.component, row.concept), []).append(row)
        return rows

    def rows(self, component: str, concept: str) -> list[Row]:
        """The rows of single levels or cells: of an axis of two levels or an interaction of two pairs, one."""
        return [row for row in self._mean_rows.get((component, concept), []) if row.group]

    def joint(self, component: str, concept: str) -> Row | None:
        """The joint test of all levels or cells, where there is one."""
        return next((row for row in self._mean_rows.get((component, concept), []) if not row.group), None)

    def axis_row(self, axis: str, concept: str) -> Row | None:
        """The row of an axis of two levels, or that of the level that lies furthest from the mean."""
        rows = [row for row in self.rows(f"axis:{axis}", concept) if row.defined]
        return max(rows, key=lambda row: abs(row.value), default=None)

    def axis_lean(self, axis: str, concept: str) -> VerdictGroup:
        """Where the axis' verdict is listed; of more than two levels, ``"a"`` where any leans."""
        leans = [verdict_group_of(row) for row in self.rows(f"axis:{axis}", concept)]
        order: tuple[VerdictGroup, ...] = ("a", "b", "undecided", "balanced", "few", "unmeasured")
        return next((lean for lean in order if lean in leans), "unmeasured")

    def leaned_to(self, axis: str, concept: str) -> list[str]:
        """Labels of the levels that the concept leans to; those it leans away from where it leans to none."""
        rows = self.rows(f"axis:{axis}", concept)
        if len(self.axes[axis].levels) == 2:
            first, second = (self.label(level) for level in self.axes[axis].levels)
            return [{"a": first, "b": second}[lean] for row in rows if (lean := verdict_group_of(row)) in ("a", "b")]
        near = [self.label(row.group) for row in rows if verdict_group_of(row) == "a"]
        return near or [f"others than {self.label(row.group)}" for row in rows if verdict_group_of(row) == "b"]

    @cached_property
    def ordered(self) -> list[Concept]:
        """Concepts with any number, the strongest leaning along any axis first, then those without one."""

        def strength(concept: Concept) -> float:
            rows = [self.axis_row(axis, concept.name) for axis in self.axes]
            return max((abs(row.value) for row in rows if row is not None), default=-1.0)

        return sorted(self.concepts.values(), key=lambda concept: -strength(concept))

    @cached_property
    def digits(self) -> int:
        """Decimal places for image parts."""
        rows = [self.axis_row(axis, name) for axis in self.axes for name in self.concepts]
        return wording.digits_for([row.value for row in rows if row is not None])

    def labels_of(self, side: str) -> list[str]:
        """Labels of the two levels of the axis whose first level is ``side``."""
        return next(list(axis.levels.values())[:2] for axis in self.axes.values() if side in axis.levels)

    def counts(self, axis: str) -> Counter[str]:
        """Concepts by what they lean to along an axis, and by the other verdicts."""
        counts: Counter[str] = Counter()
        for name in self.concepts:
            towards = self.leaned_to(axis, name)
            counts.update([f"to {label}" for label in towards] or [self.axis_lean(axis, name)])
        return counts

    @property
    def matrix_columns(self) -> list[str]:
        """Labels of the matrix's columns: the levels of the last axis."""
        return list(list(self.axes.values())[-1].levels.values())

    def matrix(self, concept: str) -> list[tuple[str, list[Row]]]:
        """The cells, a row each combination of the other axes' levels."""
        *others, last = self.axes.values()
        cell_of = {
            tuple((group.cell or {})[axis] for axis in self.axes): name for name, group in self.suite.groups.items()
        }
        table = []
        for levels in product(*(axis.levels for axis in others)):
            names = [cell_of[(*levels, level)] for level in last.levels]
            cells = [next(iter(self.rows(f"cell:{name}", concept)), Row(group=name)) for name in names]
            table.append((", ".join(self.label(level) for level in levels), cells))
        return table

    def said_of(self, concept: Concept) -> tuple[VerdictGroup, str, str]:
        """Where the first axis that leans is listed, the verdicts in words, and no one number: there are several."""
        return self.overall(concept.name), verdict_words(self, concept.name), ""

    def overall(self, concept: str) -> VerdictGroup:
        """One mark for all axes: ``"a"`` where any leans, as a side of one axis is not a side of another."""
        leans = [self.axis_lean(axis, concept) for axis in self.axes]
        if {"a", "b"} & set(leans):
            return "a"
        return leans[0] if len(set(leans)) == 1 else "undecided"
