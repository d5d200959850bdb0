"""A leaning study whose groups are cells of axes: its view, its words, its page, and its runs beside each other.

Every axis is told by its levels, then what goes together; never one cell against another. Undecided is worded as
undecided. "No interaction" would be a finding, and no test here makes it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cached_property
from itertools import product
from typing import Any, Final

from clinometer.report import wording
from clinometer.report.differences import Quantity, RunsCompared, own_name
from clinometer.report.page import Page, Section
from clinometer.report.rows import Row, Scores
from clinometer.report.sections import masthead, nothing_judged, nothing_told
from clinometer.report.verdicts import SHOWN, Summary, Verdicts, unmeasured
from clinometer.report.wording import (
    VerdictGroup,
    difference_words,
    not_measured,
    note,
    verdict_group_of,
    without_estimate,
)
from clinometer.runs.several import Comparison
from clinometer.studies.leaning.encoder_sections import RATES, UNREAD, errors_by_cosines
from clinometer.studies.leaning.page import leans_means
from clinometer.studies.leaning.pictures import gallery
from clinometer.studies.leaning.view import Concept, LeaningView
from clinometer.suites import LeaningSuite, Suite
from clinometer.suites.leaning import CrossedAxis

METRIC: Final = "intersections"
_WORDS: Final = {
    "balanced": "shown balanced",
    "undecided": "undecided",
    "few": "with too few images to tell",
    "unmeasured": "not measured",
}
Side = tuple[str, bool]
"""A level, and whether a concept leans away from it."""


class CellsView(LeaningView):
    """A leaning study with axes: there is no group A or B, every axis has levels of its own."""

    @property
    def axes(self) -> dict[str, CrossedAxis]:
        """Look up the axes by name, in order."""
        return self.suite.axes or {}

    def axis_label(self, axis: str) -> str:
        """Look up an axis' label for people."""
        return self.suite.axis_label(axis)

    @cached_property
    def interactions(self) -> list[str]:
        """Components of the interactions, in stored order."""
        names = dict.fromkeys(row.component for row in self.scores.select(METRIC))
        return [name for name in names if name.partition(":")[0] == "interaction"]

    @cached_property
    def _mean_rows(self) -> dict[tuple[str, str], list[Row]]:
        """Look up rows of the average over encoders, by component and concept; parts of an axis are left out."""
        rows: dict[tuple[str, str], list[Row]] = {}
        for row in self.scores.select(METRIC, setting=""):
            rows.setdefault((row.component, row.concept), []).append(row)
        return rows

    def rows(self, component: str, concept: str) -> list[Row]:
        """Look up the rows of single levels or cells: of an axis of two levels or an interaction of two pairs, one."""
        return [row for row in self._mean_rows.get((component, concept), []) if row.group]

    def joint(self, component: str, concept: str) -> Row | None:
        """Look up the joint test of all levels or cells, where there is one."""
        return next((row for row in self._mean_rows.get((component, concept), []) if not row.group), None)

    def largest(self, component: str, concept: str) -> Row | None:
        """Look up the row that lies furthest from 0: of an axis of two levels, its only one."""
        rows = [row for row in self.rows(component, concept) if row.defined]
        return max(rows, key=lambda row: abs(row.value), default=None)

    def axis_row(self, axis: str, concept: str) -> Row | None:
        """Look up the row of an axis of two levels, or that of the level that lies furthest from the mean."""
        return self.largest(f"axis:{axis}", concept)

    def axis_lean(self, axis: str, concept: str) -> VerdictGroup:
        """Find where the axis' verdict is listed; of more than two levels, ``"a"`` where any leans."""
        leans = [verdict_group_of(row) for row in self.rows(f"axis:{axis}", concept)]
        order: tuple[VerdictGroup, ...] = ("a", "b", "undecided", "balanced", "few", "unmeasured")
        return next((lean for lean in order if lean in leans), "unmeasured")

    def sides(self, axis: str, concept: str) -> list[Side]:
        """Find the levels that the concept leans to; those it leans away from where it leans to none."""
        leans = [(row.group, verdict_group_of(row)) for row in self.rows(f"axis:{axis}", concept)]
        levels = list(self.axes[axis].levels)
        if len(levels) == 2:
            return [(levels[lean == "b"], False) for _, lean in leans if lean in ("a", "b")]
        near = [(level, False) for level, lean in leans if lean == "a"]
        return near or [(level, True) for level, lean in leans if lean == "b"]

    def side_label(self, side: Side) -> str:
        """Name a side: ``men``, ``others than medium skin``."""
        level, away = side
        return f"others than {self.label(level)}" if away else self.label(level)

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

    def counts(self, axis: str) -> dict[Side | VerdictGroup, int]:
        """Count concepts by what they lean to, in the order of the levels, then by the other verdicts."""
        counts = Counter[Any]()
        for name in self.concepts:
            sides: list[Any] = list(self.sides(axis, name))
            counts.update(sides or [self.axis_lean(axis, name)])
        levels = self.axes[axis].levels
        order: list[Any] = [*((level, away) for away in (False, True) for level in levels), *_WORDS]
        return {kind: counts[kind] for kind in order if counts[kind]}

    def matrix(self, concept: str) -> list[tuple[str, list[Row]]]:
        """Look up the cells: a row each combination of the other axes' levels, a column each level of the last."""
        *others, last = self.axes.values()
        cell_of = {
            tuple((group.cell or {})[axis] for axis in self.axes): name for name, group in self.suite.groups.items()
        }
        lines = []
        for levels in product(*(axis.levels for axis in others)):
            names = [cell_of[(*levels, level)] for level in last.levels]
            cells = [next(iter(self.rows(f"cell:{name}", concept)), Row(group=name)) for name in names]
            lines.append((", ".join(self.label(level) for level in levels), cells))
        return lines

    def reasons(self, concept: str) -> str:
        """Explain why axes have no verdict."""
        rows = [row for axis in self.axes for row in self.rows(f"axis:{axis}", concept)]
        return "; ".join(dict.fromkeys(r.reason for r in rows if r.reason and (not r.has_interval or not_measured(r))))

    def said_of(self, concept: Concept) -> tuple[VerdictGroup, str, str]:
        """Find where the first axis that leans is listed, the verdicts in words, and no one number: there are several.

        One mark stands for all axes: ``"a"`` where any leans, as a side of one axis is not a side of another.
        """
        leans = {self.axis_lean(axis, concept.name) for axis in self.axes}
        overall: VerdictGroup = "a" if {"a", "b"} & leans else leans.pop() if len(leans) == 1 else "undecided"
        return overall, verdict_words(self, concept.name), ""


# --- words -----------------------------------------------------------------------------------------------------------


def verdict_words(view: CellsView, concept: str) -> str:
    """Word each axis, to follow the concept: ``leans to women and to light skin; interaction undecided``."""
    sides = {axis: view.sides(axis, concept) for axis in view.axes}
    leans = [f"to {wording.listed([view.side_label(side) for side in of])}" for of in sides.values() if of]
    parts = [f"leans {wording.listed(leans)}"] if leans else []
    rest: dict[str, list[str]] = {}
    for axis in view.axes:
        lean = view.axis_lean(axis, concept)
        if lean not in ("a", "b"):  # where none leans and all say the same, it is said once
            rest.setdefault(lean if not leans else axis, []).append(axis)
    if not leans and len(rest) > 1:
        rest = {axis: [axis] for axis in view.axes}
    for axes in rest.values():
        labels = wording.listed([view.axis_label(axis) for axis in axes])
        parts.append(f"by {labels} {_WORDS[view.axis_lean(axes[0], concept)]}")
    return "; ".join([*parts, *(interaction_words(view, component, concept) for component in view.interactions)])


def interaction_words(view: CellsView, component: str, concept: str) -> str:
    """State what goes together more or less often than its levels alone give, or that it is undecided."""
    rows = view.rows(component, concept)
    phrases = []
    for row in rows:
        if (lean := verdict_group_of(row)) in ("a", "b"):
            group = view.suite.groups.get(row.group)  # a combination of some axes' levels is named by them
            levels = row.group.split("×") if group is None else [(group.cell or {})[axis] for axis in view.axes]
            alone = wording.listed([view.label(level) for level in levels])
            phrases.append(f"{view.label(row.group)} {'more' if lean == 'a' else 'less'} often than {alone} alone give")
    return wording.listed(phrases) or f"{interaction_name(view, component)} {_WORDS[_interaction_kind(rows)]}"


def interaction_name(view: CellsView, component: str) -> str:
    """Name an interaction: ``interaction``; of one among several, with its axes."""
    if len(view.interactions) == 1:
        return "interaction"
    axes = component.partition(":")[2].split("×")
    return f"interaction of {wording.listed([view.axis_label(axis) for axis in axes])}"


def _interaction_kind(rows: Sequence[Row]) -> str:
    leans = {verdict_group_of(row) for row in rows}
    return (
        "found" if leans & {"a", "b"} else next((lean for lean in ("undecided", "few") if lean in leans), "unmeasured")
    )


def interaction_counts(view: CellsView, component: str) -> dict[str, int]:
    """Count concepts by whether an interaction was found."""
    counts = Counter(_interaction_kind(view.rows(component, name)) for name in view.concepts)
    words = {"found": "found"} | _WORDS
    return {words[kind]: counts[kind] for kind in words if counts[kind]}


# --- the page --------------------------------------------------------------------------------------------------------


def _along(view: CellsView, axis: str) -> Verdicts:
    rows = [
        row
        for name in view.concepts
        for row in view.rows(f"axis:{axis}", name) or [without_estimate(concept=name)]
    ]  # fmt: skip
    is_pair = len(view.axes[axis].levels) == 2
    return Verdicts(
        "concept", f"image part, {view.axis_label(axis)}",
        f"image part along {axis_sign(view, axis)}; {wording.PART_SCALE}", rows, view.label, digits=view.digits,
        name=lambda row: row.concept if is_pair or not row.group else f"{row.concept}, {view.label(row.group)}",
        notes=lambda row: (note(row, beside=wording.IN_PROPORTION),), beside=wording.IN_PROPORTION,
    )  # fmt: skip


def axis_sign(view: CellsView, axis: str) -> str:
    """Name an axis with its first level, which is positive: ``gender + men``."""
    return f"{view.axis_label(axis)} + {next(iter(view.axes[axis].levels.values()))}"


def _together(view: CellsView, component: str) -> Verdicts:
    """Return, for each concept, the cell that stands out most, as on the page."""
    rows = [
        view.largest(component, name)
        or next(iter(view.rows(component, name)), without_estimate(concept=name))
        for name in view.concepts
    ]  # fmt: skip
    return Verdicts(
        "concept", interaction_name(view, component), "the share of images in a cell beyond what its levels alone give",
        rows, view.label, digits=1, scale=100, suffix="\N{NARROW NO-BREAK SPACE}%",
        said=lambda row: interaction_words(view, component, row.concept), notes=lambda row: (view.label(row.group),),
        beside=wording.IN_PROPORTION,
    )  # fmt: skip


def verdict_list(view: CellsView) -> dict[str, Any]:
    """Return what the template calls: the words of verdicts and interactions."""

    def reason(component: str, name: str) -> str:
        return next((row.reason for row in view.rows(component, name) if row.reason), "")

    return {
        "columns": list(list(view.axes.values())[-1].levels.values()),
        "verdict": lambda name: verdict_words(view, name),
        "interaction_name": lambda component: interaction_name(view, component),
        "interaction_reason": reason,
    }


def planted(view: CellsView) -> dict[str, Any] | None:
    """Find what was planted on each axis of two levels; left out where nothing was."""
    truth = view.report.planted or {}
    pairs = {axis: list(of.levels) for axis, of in view.axes.items() if len(of.levels) == 2}
    axes = {axis: levels for axis, levels in pairs.items() if any(set(levels) <= set(of) for of in truth.values())}
    return {"axes": axes, "planted": {name: truth[name] for name in view.concepts if name in truth}} if axes else None


def reader(view: CellsView) -> dict[str, Any] | None:
    """Gather a row an encoder and axis, or level of it; None where the run holds no such rows."""
    found = view.scores.select("reader", "informedness", encoder="*")
    names = list(dict.fromkeys(row.encoder for row in found))
    if not names:
        return None
    encoders, checks = names[1:] if len(names) == 2 else names, []
    for row in found:
        if row.encoder in encoders:  # with one encoder the average is that encoder
            axis = next(name for name, of in view.axes.items() if row.group in of.levels)
            others = [label for name, label in view.axes[axis].levels.items() if name != row.group]
            rates = [view.scores.first("reader", r, encoder=row.encoder, setting=row.setting) for r in RATES]
            checks.append((row, view.axis_label(axis), others[0] if len(others) == 1 else "the others", rates))
    return {"checks": checks, "unread": UNREAD, "errors": errors_by_cosines(view, encoders)}


class CellsPage(Page[CellsView]):
    """The page of groups that are cells of axes."""

    view = CellsView
    package = "clinometer.studies.leaning"
    method_template = "cells_method"

    def finding(self, view: CellsView) -> str:
        """Count the verdicts of each axis and of the interactions, in one sentence."""
        rows = [row for axis in view.axes for name in view.concepts if (row := view.axis_row(axis, name))]
        if not rows:
            return nothing_judged("concept", view.model, rows)
        by_axis = {axis: view.counts(axis) for axis in view.axes}
        kinds = {kind for counts in by_axis.values() for kind in counts}
        if kinds == {"unmeasured"}:
            return nothing_judged("concept", view.model, rows)
        asked = f"asked for {wording.count(len(view.concepts), 'concept')} without naming a group"
        if kinds == {"few"}:
            return f"{nothing_told({'few': len(rows)})} whether {view.model} leans, {asked}."
        parts = []
        for axis, counts in by_axis.items():
            leans = [f"to {view.side_label(kind)} for {n}" for kind, n in counts.items() if isinstance(kind, tuple)]
            rest = [f"{n} {_WORDS[kind]}" for kind, n in counts.items() if not isinstance(kind, tuple)]
            parts.append(f"by {view.axis_label(axis)} {', '.join([wording.listed(leans) or 'to no side', *rest])}")
        for component in view.interactions:
            counted = [f"{word} for {n}" for word, n in interaction_counts(view, component).items()]
            parts.append(f"{interaction_name(view, component)} {', '.join(counted)}")
        return f"{wording.capitalised(asked)}, {view.model} leans {'; '.join(parts)}."

    def strongest(self, view: CellsView) -> str:
        """Name the concept that leans most, axis by axis, with its intervals."""
        found = [
            (abs(row.value), concept)
            for concept in view.ordered
            for axis in view.axes
            if view.sides(axis, concept.name) and (row := view.axis_row(axis, concept.name)) is not None
        ]
        if not found:
            return ""
        concept = max(found, key=lambda each: each[0])[1]
        rows = {axis: view.axis_row(axis, concept.name) for axis in view.axes}
        numbers = [f"{view.axis_label(axis)} {wording.estimate(row, view.digits)}" for axis, row in rows.items()]
        leans = verdict_words(view, concept.name)
        return f"The strongest of those that lean: {concept.prompt} {leans} ({', '.join(numbers)})."

    def verdicts(self, view: CellsView) -> list[Verdicts]:
        """Judge every concept along each axis, a row a level where these are more than two, and on each interaction."""
        return [*(_along(view, axis) for axis in view.axes), *(_together(view, name) for name in view.interactions)]

    def lead(self, view: CellsView) -> dict[str, Any]:
        """Lead the page with the finding axis by axis, and the counts of each."""
        marks = []
        for axis, crossed_axis in view.axes.items():
            levels, label = list(crossed_axis.levels), view.axis_label(axis)
            for kind, n in view.counts(axis).items():
                if isinstance(kind, tuple):
                    lean, words = (
                        "b" if len(levels) == 2 and kind[0] == levels[1] else "a",
                        f"to {view.side_label(kind)}",
                    )
                else:
                    lean, words = (
                        kind,
                        {"balanced": "balanced", "few": "too few images to tell"}.get(kind, _WORDS[kind]),
                    )
                marks.append({"lean": lean, "count": n, "words": f"{label}: {words}"})
        meaning = leans_means(*list(next(iter(view.axes.values())).levels.values())[:2])
        return masthead(view, self.finding(view), self.strongest(view), meaning=meaning, marks=marks)

    def summarise(self, view: CellsView) -> Summary:
        """Count each axis' verdicts, and list the concepts that lean most along any axis."""
        counted = []
        for axis in view.axes:
            counts = [
                f"{n} {f'to {view.side_label(kind)}' if isinstance(kind, tuple) else _WORDS[kind]}"
                for kind, n in view.counts(axis).items()
            ]
            counted.append(f"{view.axis_label(axis)}: {' · '.join(counts)}")
        for component in view.interactions:
            counts = [f"{n} {word}" for word, n in interaction_counts(view, component).items()]
            counted.append(f"{interaction_name(view, component)}: {' · '.join(counts)}")

        def cell(axis: str, concept: str) -> str:
            row = view.axis_row(axis, concept)
            text = wording.estimate(row, view.digits)
            return f"{view.label(row.group)} {text}" if row and len(view.rows(row.component, concept)) > 1 else text

        rows = [row for axis in view.axes for name in view.concepts for row in view.rows(f"axis:{axis}", name)]
        return Summary(
            verdicts="; ".join(counted),
            title=f"Image part of MCAS along each axis: {', '.join(axis_sign(view, axis) for axis in view.axes)}",
            columns=("concept", *map(view.axis_label, view.axes), "verdict"),
            rows=tuple(
                (concept.name, *(cell(axis, concept.name) for axis in view.axes), verdict_words(view, concept.name))
                for concept in view.ordered[:SHOWN]
            ),
            unmeasured=unmeasured(rows, "axis verdict"),
        )

    def own_sections(self) -> Sequence[Section]:
        """Return the sections of this study alone."""
        return (
            Section("verdicts", "Verdicts", verdict_list, "cells_verdicts"),
            Section("gallery", "The pictures", gallery, "gallery", "pictures"),
            Section("reader", "Does the encoder read right?", reader, "cells_reader", "sure"),
            Section("planted", "Is the ruler straight?", planted, "cells_planted", "sure"),
        )


CELLS: Final = CellsPage()


# --- runs beside each other ------------------------------------------------------------------------------------------

TO_DECIDE: Final = f"images of the concept, {wording.IN_PROPORTION}"


def level_name(suite: Suite, row: Row) -> str:
    """Name a concept and the level that a row is about."""
    return f"{row.concept}: {suite.label_of(row.group)}"


class CrossedCompared(RunsCompared[LeaningSuite]):
    """Runs of a suite with axes beside each other."""

    view = CellsView
    template = "cells_comparison"
    sums_up = False

    def quantities(self, suite: LeaningSuite) -> Sequence[Quantity]:
        """List every axis, and every cell against the mean of all."""
        found = []
        for axis, crossed_axis in (suite.axes or {}).items():
            levels = list(crossed_axis.levels.values())
            is_pair = len(levels) == 2
            named = own_name if is_pair else level_name
            found.append(
                Quantity(
                    f"axis:{axis}", f"image part by {suite.axis_label(axis)}", "concept", "Δ image part", TO_DECIDE,
                    "concept", "more to {a} than {first}", a=levels[0] if is_pair else "the level named",
                    family="" if is_pair else "concepts and levels", name=named,
                )
            )  # fmt: skip
        cells = [
            Quantity(
                f"cell:{name}", f"nearness to {suite.label_of(name)}", "concept", "difference", TO_DECIDE, "concept",
                "nearer to {a} than in {first}, against the mean of all groups", a=suite.label_of(name),
                family="concepts and groups", brief=False,
            )
            for name in suite.groups
        ]  # fmt: skip
        return [*found, *cells]

    def label_a(self, suite: LeaningSuite) -> str:
        """Name no side: each axis has its own."""
        return ""

    def side_by_side(self, views: Mapping[str, CellsView], encoder: str) -> dict[str, Any]:
        """Gather a table an axis: a row a concept (and level, of more than two), with the number and q of every run."""
        first = next(iter(views.values()))

        def cells(view: CellsView, axis: str, level: str, concept: str) -> list[str]:
            row = next((row for row in view.rows(f"axis:{axis}", concept) if row.group == level), None)
            q = wording.bare_probability(row.q) if row is not None and row.defined else wording.MISSING
            return [wording.estimate(row, view.digits), q]

        tables = []
        for axis, crossed_axis in first.axes.items():
            levels = list(crossed_axis.levels)
            is_pair = len(levels) == 2
            rows = [
                {
                    "name": name if is_pair else f"{name}: {first.label(level)}",
                    "cells": [cells(view, axis, level, name) for view in views.values()],
                }
                for name in first.concepts
                for level in (levels[:1] if is_pair else levels)
            ]
            positive = f"positive to {first.label(levels[0])}" if is_pair else "against the mean of all levels"
            tables.append({"label": wording.capitalised(first.axis_label(axis)), "positive": positive, "rows": rows})
        return {"tables": tables, "margin": first.suite.margin}

    def verdict(self, comparison: Comparison, labels: tuple[str, str]) -> str:
        """Count verdicts on the concepts along each axis: magnitudes of several axes do not add up to one number."""
        suite, scores = comparison.first.suite, Scores.from_frame(comparison.scores)
        assert isinstance(suite, LeaningSuite)
        parts = []
        for axis in suite.axes or {}:
            rows = scores.select("comparison", f"axis:{axis}")
            counts = Counter(difference_words(row, labels, suite.label_of) for row in rows)
            tally = ", ".join(f"{verdict}: {n}" for verdict, n in counts.most_common())
            parts.append(f"by {suite.axis_label(axis)}, {tally}")
        return f"{labels[1]} beside {labels[0]}, concepts counted {'; '.join(parts)}."
