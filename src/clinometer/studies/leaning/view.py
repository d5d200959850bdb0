"""The run of a leaning study as its sections see it.

Along axes every axis is named by its levels, then what goes together; never one cell against another. Undecided is
worded as undecided. "No interaction" would be a finding, and no test here makes it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from typing import Any, Final

from clinometer.metrics.mcas import IMAGE_PART, TEXT_PART
from clinometer.metrics.verdict import Source, source_of
from clinometer.report import wording
from clinometer.report.view import PairView, Row
from clinometer.report.wording import VerdictGroup, not_measured, verdict_group_of
from clinometer.suites import LeaningSuite

AXES_METRIC: Final = "intersections"
WITHOUT_SIDE: Final[dict[str, str]] = {
    "balanced": "shown balanced",
    "undecided": "undecided",
    "few": "with too few images to tell",
    "unmeasured": "not measured",
}
"""Verdicts that name no side, in words, in the order in which they are counted."""

Side = tuple[str, bool]
"""A level, and whether a concept leans away from it."""


COMPONENT_NAMES: Final = {
    "ii": "II",
    "itp": "ITP",
    "ita": "ITA",
    "tt": "TT",
    "image_part": "image part",
    "text_part": "text part",
    "mcas": "MCAS",
}
PART_SCALE: Final = f"on a scale from {wording.MINUS}4 to 4"
MCAS_SCALE: Final = f"on a scale from {wording.MINUS}8 to 8"
COMPONENT_MEANINGS: Final = {
    "ii": "drawn images against drawn images",
    "itp": "prompts against drawn images",
    "ita": "drawn images against words",
    "tt": "prompts against words",
}


@dataclass(frozen=True)
class Concept:
    """A target of the suite as the page names it."""

    name: str
    prompt: str
    category: str
    stereotype: str


def axes_of(suite: LeaningSuite) -> dict[str, dict[str, str]]:
    """Return the axes of a suite by name, in order: the labels of their levels, by level.

    A pair of groups is an axis of two levels whose name is empty. Of two levels, positive is the first.
    """
    if suite.axes is None:
        return {"": {group: suite.label_of(group) for group in (suite.compared.a, suite.compared.b)}}
    return {name: axis.levels for name, axis in suite.axes.items()}


def axis_component(axis: str) -> str:
    """Name the component of the rows that are judged along an axis."""
    return f"axis:{axis}" if axis else IMAGE_PART


@dataclass(frozen=True)
class Curve:
    """A smooth curve of bias amplification on diffusion bias, with its 95 % band, as it was stored with the scores.

    Attributes
    ----------
    x, y, low, high : the curve and its band, in rising ``x``.
    reason : why there is no curve; empty when there is one.
    """

    x: Sequence[float] = ()
    y: Sequence[float] = ()
    low: Sequence[float] = ()
    high: Sequence[float] = ()
    reason: str = ""


class LeaningView(PairView[LeaningSuite]):
    """The run of a leaning study, with its names looked up once; only a pair of groups has A, B and a third."""

    @cached_property
    def curve(self) -> Curve:
        """The curve through every concept with both numbers, unstable ones included; or why there is none."""
        if self.report.curves is None:
            return Curve(reason="curves are drawn for the average over encoders only")
        alpha = self.scores.select("internal_bias", "bias_amplification")
        if alpha and all(row.unstable for row in alpha):
            return Curve(reason="no curve: \N{GREEK SMALL LETTER ALPHA} is unstable for every concept")
        rows = self.report.curves[self.report.curves.curve == "delta_alpha"].sort_values("x")
        if not len(rows):
            return Curve(reason="too few points for a curve")
        x, y, low, high = (rows[name].tolist() for name in ("x", "y", "low", "high"))
        return Curve(x, y, low, high)

    @property
    def is_pair(self) -> bool:
        """Whether the suite compares one pair of groups; else its groups are cells of axes."""
        return self.suite.axes is None

    @cached_property
    def axes(self) -> dict[str, dict[str, str]]:
        """The axes by name: see :func:`axes_of`."""
        return axes_of(self.suite)

    def axis_label(self, axis: str) -> str:
        """Look up an axis' label for people."""
        return self.suite.axis_label(axis)

    @property
    def group_a(self) -> str:
        """Name of the group that a positive score leans to."""
        return self.suite.compared.a

    @property
    def group_b(self) -> str:
        """Name of the group that a negative score leans to."""
        return self.suite.compared.b

    @property
    def third(self) -> str | None:
        """Name of the third group, where the suite has one."""
        return self.suite.compared.third

    @property
    def label_a(self) -> str:
        """Label of group A."""
        return self.label(self.group_a)

    @property
    def label_b(self) -> str:
        """Label of group B."""
        return self.label(self.group_b)

    def labels_of(self, side: str) -> list[str]:
        """Labels of the two groups of a difference, or of the first two levels of the axis that has ``side``."""
        levels = next((levels for levels in self.axes.values() if side in levels), next(iter(self.axes.values())))
        return list(levels.values())[:2]

    @property
    def label_third(self) -> str:
        """Label of the third group; empty without one."""
        return self.label(self.third) if self.third else ""

    def category_label(self, category: str) -> str:
        """Look up a category's label for people."""
        entry = self.suite.categories.get(category)
        if entry is None:
            return "All concepts" if category == "all" else wording.capitalised(category)
        return entry.label or wording.capitalised(category)

    @cached_property
    def concepts(self) -> dict[str, Concept]:
        """The suite's targets in order, by name."""
        return {
            target.name: Concept(target.name, target.prompt, category, target.stereotype or "")
            for category, target in self.suite.categorised_targets()
        }

    @cached_property
    def pictures(self) -> dict[str, Row]:
        """The image part of each concept, averaged over encoders: what the page's verdicts are of."""
        return self.scores.by_concept("mcas", IMAGE_PART)

    @cached_property
    def texts(self) -> dict[str, Row]:
        """The text part of each concept."""
        return self.scores.by_concept("mcas", TEXT_PART)

    @cached_property
    def mcas(self) -> dict[str, Row]:
        """The MCAS row of each concept."""
        return self.scores.by_concept("mcas", "mcas")

    def middle(self, component: str, setting: str = "") -> float | None:
        """Look up where the groups' own pictures, in equal parts, lie on the scale of a component."""
        row = self.scores.first("middle", component, concept="", group="", setting=setting)
        return row.value if row is not None and row.defined else None

    @cached_property
    def shares(self) -> dict[str, Row]:
        """The share of images nearer to group A, by concept."""
        return self.scores.by_concept("share", "share")

    @cached_property
    def digits(self) -> int:
        """Decimal places for MCAS, its parts and components."""
        rows = [self.axis_row(axis, name) for axis in self.axes for name in self.concepts]
        return wording.digits_for([row.value for row in rows if row is not None])

    def ranked(self, category: str | None = None, by: Mapping[str, Row] | None = None) -> list[Concept]:
        """Return concepts with an image part (or one of the scores ``by``), from leaning to A down to leaning to B."""
        rows = self.pictures if by is None else by
        concepts = [
            concept
            for name, concept in self.concepts.items()
            if (category is None or concept.category == category) and name in rows and rows[name].defined
        ]
        return sorted(concepts, key=lambda concept: -rows[concept.name].value)

    @cached_property
    def ordered(self) -> list[Concept]:
        """Concepts by how far they lean along any axis, the farthest first; of a pair, those that lean come first."""

        def rank(concept: Concept) -> tuple[bool, float]:
            rows = [row for axis in self.axes if (row := self.axis_row(axis, concept.name)) is not None]
            is_behind = self.is_pair and not any(map(wording.leans, rows))
            return is_behind, -max((abs(row.value) for row in rows), default=-1.0)

        return sorted(self.concepts.values(), key=rank)

    @property
    def foremost(self) -> list[Concept]:
        """Concepts as ordered, but first of all the one that leans most to A and the one that leans most to B."""
        ordered = self.ordered
        sides = [next((c for c in ordered if self.said_of(c)[0] == side), None) for side in ("a", "b")]
        first = [concept for concept in sides if concept is not None]
        return [*first, *(concept for concept in ordered if concept not in first)]

    def said_of(self, concept: Concept) -> tuple[VerdictGroup, str, str]:
        """Look up the list, the verdict in words, and the number of a concept, for its pictures.

        Several axes have no one number. They share one mark: ``"a"`` where any leans, as a side of one axis is not a
        side of another.
        """
        if not self.is_pair:
            leans = {self.axis_lean(axis, concept.name) for axis in self.axes}
            overall: VerdictGroup = "a" if {"a", "b"} & leans else leans.pop() if len(leans) == 1 else "undecided"
            return overall, self.verdict_words(concept.name), ""
        row = self.pictures.get(concept.name)
        words = wording.said_of(row, self.label) if row else "not measured"
        value = wording.signed(row.value, self.digits) if row and row.defined else ""
        return self.verdict_group(concept.name), words, value

    def verdict_group(self, concept: str) -> VerdictGroup:
        """Return the group of verdicts that a concept is listed in."""
        return verdict_group_of(self.pictures.get(concept))

    @property
    def holds_few(self) -> bool:
        """Return whether a concept has too few images to tell."""
        return any(self.verdict_group(name) == "few" for name in self.concepts)

    def source(self, concept: str) -> Source:
        """Return which part of a concept's MCAS, pictures or text, puts it where it is."""
        return source_of(self.mcas[concept], self.pictures.get(concept, Row()))

    def sources_in_words(self) -> str:
        """Count by which part of MCAS, pictures or text, concepts lean, and where the two cancel."""
        known = [name for name, mcas in self.mcas.items() if mcas.defined]
        counts = Counter(map(self.source, known))
        words = {Source.PICTURES: "by their pictures", Source.TEXT: "by their text", Source.BOTH: "by both"}
        by_part = wording.listed([f"{counts[source]} {phrase}" for source, phrase in words.items() if counts[source]])
        leaning = sum(wording.leans(self.mcas[name]) for name in known)
        said = [
            f"By MCAS {wording.count(leaning, 'concept leans', 'concepts lean')}{f': {by_part}' if by_part else ''}."
        ]
        if cancelled := counts[Source.CANCEL]:
            concepts = wording.count(cancelled, "concept that does", "concepts that do")
            said.append(f"For {concepts} not lean, {Source.CANCEL}.")
        return " ".join(said) if known else ""

    # --- along axes --------------------------------------------------------------------------------------------------

    @cached_property
    def _judged(self) -> dict[tuple[str, str], list[Row]]:
        """Look up what the average over encoders says, by component and concept; parts of an axis are left out."""
        rows = {(IMAGE_PART, name): [row] for name, row in self.pictures.items()}
        for row in self.scores.select(AXES_METRIC, setting=""):
            rows.setdefault((row.component, row.concept), []).append(row)
        return rows

    def rows(self, component: str, concept: str) -> list[Row]:
        """Look up the rows of single levels or cells: of an axis of two levels or an interaction of two pairs, one."""
        return [row for row in self._judged.get((component, concept), []) if row.group or component == IMAGE_PART]

    def joint(self, component: str, concept: str) -> Row | None:
        """Look up the joint test of all levels or cells, where there is one."""
        return next((row for row in self._judged.get((component, concept), []) if not row.group), None)

    def largest(self, component: str, concept: str) -> Row | None:
        """Look up the row that lies furthest from 0: of an axis of two levels, its only one."""
        defined = (row for row in self.rows(component, concept) if row.defined)
        return max(defined, key=lambda row: abs(row.value), default=None)

    def axis_rows(self, axis: str, concept: str) -> list[Row]:
        """Look up what is judged along an axis: the row of two levels, or those of each of more."""
        return self.rows(axis_component(axis), concept)

    def axis_row(self, axis: str, concept: str) -> Row | None:
        """Look up the row of an axis of two levels, or that of the level that lies furthest from the mean."""
        return self.largest(axis_component(axis), concept)

    def axis_lean(self, axis: str, concept: str) -> VerdictGroup:
        """Find where the axis' verdict is listed; of more than two levels, ``"a"`` where any leans."""
        leans = [verdict_group_of(row) for row in self.axis_rows(axis, concept)]
        order: tuple[VerdictGroup, ...] = ("a", "b", "undecided", "balanced", "few", "unmeasured")
        return next((lean for lean in order if lean in leans), "unmeasured")

    def sides(self, axis: str, concept: str) -> list[Side]:
        """Find the levels that the concept leans to; those it leans away from where it leans to none."""
        leans = [(row.group, verdict_group_of(row)) for row in self.axis_rows(axis, concept)]
        levels = list(self.axes[axis])
        if len(levels) == 2:
            return [(levels[lean == "b"], False) for _, lean in leans if lean in ("a", "b")]
        near = [(level, False) for level, lean in leans if lean == "a"]
        return near or [(level, True) for level, lean in leans if lean == "b"]

    def side_label(self, side: Side) -> str:
        """Name a side: ``men``, ``others than medium skin``."""
        level, away = side
        return f"others than {self.label(level)}" if away else self.label(level)

    def counts(self, axis: str) -> dict[Side | VerdictGroup, int]:
        """Count concepts by what they lean to, in the order of the levels, then by the other verdicts."""
        counts = Counter[Any]()
        for name in self.concepts:
            sides: list[Any] = list(self.sides(axis, name))
            counts.update(sides or [self.axis_lean(axis, name)])
        levels = self.axes[axis]
        order: list[Any] = [*((level, away) for away in (False, True) for level in levels), *WITHOUT_SIDE]
        return {kind: counts[kind] for kind in order if counts[kind]}

    def matrix(self, concept: str) -> list[tuple[str, list[Row]]]:
        """Look up the cells: a row each combination of the other axes' levels, a column each level of the last."""
        *others, last = self.axes.values()
        cell_of = {
            tuple((group.cell or {})[axis] for axis in self.axes): name for name, group in self.suite.groups.items()
        }
        lines = []
        for levels in product(*others):
            names = [cell_of[(*levels, level)] for level in last]
            cells = [next(iter(self.rows(f"cell:{name}", concept)), Row(group=name)) for name in names]
            lines.append((", ".join(self.label(level) for level in levels), cells))
        return lines

    def reasons(self, concept: str) -> str:
        """Explain why axes have no verdict."""
        rows = [row for axis in self.axes for row in self.axis_rows(axis, concept)]
        return "; ".join(dict.fromkeys(r.reason for r in rows if r.reason and (not r.has_interval or not_measured(r))))

    @cached_property
    def interactions(self) -> list[str]:
        """Components of the interactions, in stored order."""
        names = dict.fromkeys(row.component for row in self.scores.select(AXES_METRIC))
        return [name for name in names if name.partition(":")[0] == "interaction"]

    def verdict_words(self, concept: str) -> str:
        """Word each axis, to follow the concept: ``leans to women and to light skin; interaction undecided``."""
        sides = {axis: self.sides(axis, concept) for axis in self.axes}
        leans = [
            f"to {wording.listed([self.side_label(side) for side in of_axis])}" for of_axis in sides.values() if of_axis
        ]
        parts = [f"leans {wording.listed(leans)}"] if leans else []
        rest: dict[str, list[str]] = {}
        for axis in self.axes:
            lean = self.axis_lean(axis, concept)
            if lean not in ("a", "b"):  # where none leans and all say the same, it is said once
                rest.setdefault(lean if not leans else axis, []).append(axis)
        if not leans and len(rest) > 1:
            rest = {axis: [axis] for axis in self.axes}
        for axes in rest.values():
            labels = wording.listed([self.axis_label(axis) for axis in axes])
            parts.append(f"by {labels} {WITHOUT_SIDE[self.axis_lean(axes[0], concept)]}")
        return "; ".join([*parts, *(self.interaction_words(component, concept) for component in self.interactions)])

    def interaction_words(self, component: str, concept: str) -> str:
        """State what goes together more or less often than its levels alone give, or that it is undecided."""
        rows = self.rows(component, concept)
        phrases = []
        for row in rows:
            if (lean := verdict_group_of(row)) in ("a", "b"):
                group = self.suite.groups.get(row.group)  # a combination of some axes' levels is named by them
                levels = row.group.split("×") if group is None else [(group.cell or {})[axis] for axis in self.axes]
                alone = wording.listed([self.label(level) for level in levels])
                often = f"{'more' if lean == 'a' else 'less'} often"
                phrases.append(f"{self.label(row.group)} {often} than {alone} alone would give")
        return wording.listed(phrases) or f"{self.interaction_name(component)} {_INTERACTION_WORDS[_interaction(rows)]}"

    def interaction_name(self, component: str) -> str:
        """Name an interaction: ``interaction``; of one among several, with its axes."""
        if len(self.interactions) == 1:
            return "interaction"
        axes = component.partition(":")[2].split("×")
        return f"interaction of {wording.listed([self.axis_label(axis) for axis in axes])}"

    def interaction_counts(self, component: str) -> dict[str, int]:
        """Count concepts by whether an interaction was found."""
        counts = Counter(_interaction(self.rows(component, name)) for name in self.concepts)
        return {words: counts[kind] for kind, words in _INTERACTION_WORDS.items() if counts[kind]}


_INTERACTION_WORDS: Final = {"found": "found", **WITHOUT_SIDE}


def _interaction(rows: Sequence[Row]) -> str:
    leans = {verdict_group_of(row) for row in rows}
    if leans & {"a", "b"}:
        return "found"
    return next((lean for lean in ("undecided", "few") if lean in leans), "unmeasured")
