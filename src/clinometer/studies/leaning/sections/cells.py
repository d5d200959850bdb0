"""The sections of a suite with axes: what leads the page, verdicts with the cells, planted truth, method."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from clinometer.report import wording
from clinometer.report.page import Judged, Told, Verdicts, judged
from clinometer.report.rows import Row
from clinometer.report.sections import facts, measured_how, nothing_judged, nothing_told
from clinometer.report.wording import not_measured, note, verdict_group_of, without_estimate
from clinometer.studies.leaning.cells_view import CellsView
from clinometer.studies.leaning.cells_wording import (
    axis_finding,
    excess,
    excess_interval,
    interaction_finding,
    interaction_name,
    interaction_words,
    verdict_words,
)
from clinometer.studies.leaning.sections.masthead import leans_means
from clinometer.studies.leaning.sections.method import group_texts
from clinometer.studies.leaning.sections.reader import RATES, UNREAD, confusion, rate
from clinometer.studies.leaning.view import Concept


def cells_masthead(view: CellsView) -> dict[str, Any]:
    """Title, finding axis by axis, and the counts of each."""
    model = str(view.report.model_card.get("name", "unnamed model"))
    return {
        "title": view.report.title,
        "model": model,
        "finding": finding(view, model),
        "strongest": strongest(view),
        "meaning": leans_means(*list(next(iter(view.axes.values())).levels.values())[:2]),
        "facts": facts(view),
        "figure": None,
        "caption": "",
        "verdict_groups": [verdict_group for axis in view.axes for verdict_group in _verdict_groups(view, axis)],
    }


def finding(view: CellsView, model: str) -> str:
    """Count the verdicts of each axis and of the interactions, in one sentence."""
    rows = [row for axis in view.axes for name in view.concepts if (row := view.axis_row(axis, name))]
    if not rows:
        return f"Nothing could be measured: no concept of the suite has a score for {model}."
    kinds = {kind for axis in view.axes for kind in view.counts(axis)}
    if kinds == {"unmeasured"}:
        return nothing_judged("concept", model, rows)
    asked = f"asked for {wording.count(len(view.concepts), 'concept')} without naming a group"
    if kinds == {"few"}:
        return f"{nothing_told({'few': len(rows)})} whether {model} leans, {asked}."
    parts = [axis_finding(view, axis) for axis in view.axes]
    parts += [interaction_finding(view, component) for component in view.interactions]
    return f"{wording.capitalised(asked)}, {model} leans {'; '.join(parts)}."


def strongest(view: CellsView) -> str:
    """The concept that leans most, axis by axis, with its intervals."""
    leaning = [c for c in view.ordered if any(view.leaned_to(axis, c.name) for axis in view.axes)]
    if not leaning:
        return ""
    concept = leaning[0]
    numbers = [
        f"{view.suite.axis_label(axis)} {_numbers(view, view.axis_row(axis, concept.name))}" for axis in view.axes
    ]
    return f"The strongest: {concept.prompt} {verdict_words(view, concept.name)} ({', '.join(numbers)})."


def _numbers(view: CellsView, row: Row | None) -> str:
    if row is None or not row.defined:
        return wording.MISSING
    text = f"{wording.signed(row.value, view.digits)} {wording.interval(row.low, row.high, view.digits)}"
    return text.strip()


def _verdict_groups(view: CellsView, axis: str) -> list[dict[str, Any]]:
    """The counts of one axis, for the marks under the finding."""
    counts, label = view.counts(axis), view.suite.axis_label(axis)
    levels = list(view.axes[axis].levels.values())
    leans = dict(zip((f"to {name}" for name in levels), ("a", "b") if len(levels) == 2 else ("a",) * 99, strict=False))
    words = {name: f"{label}: {name}" for name in leans}
    words |= {
        "undecided": f"{label}: undecided",
        "balanced": f"{label}: balanced",
        "few": f"{label}: too few images to tell",
        "unmeasured": f"{label}: not measured",
    }
    return [
        {"lean": leans.get(name, name), "count": counts[name], "words": phrase}
        for name, phrase in words.items()
        if counts[name]
    ]


def cells_verdicts(view: CellsView) -> dict[str, Any]:
    """One item a concept: its verdicts, the axes' numbers, the cells as a matrix, the interactions."""
    return {
        "columns": view.matrix_columns,
        "axes": [
            {
                "label": wording.capitalised(view.suite.axis_label(axis)),
                "levels": list(crossed_axis.levels.values()),
                "two": len(crossed_axis.levels) == 2,
            }
            for axis, crossed_axis in view.axes.items()
        ],
        "concepts": [_item(view, concept) for concept in view.ordered],
        "margin": wording.number(view.suite.margin) if view.suite.margin else "",
        "half": wording.number(view.suite.margin / 2) if view.suite.margin else "",
    }


def cells_told(view: CellsView) -> Told:
    """The finding, and every concept with its verdict along each axis and on each interaction."""
    model = str(view.report.model_card.get("name", "unnamed model"))
    axes = [_axis_verdicts(view, axis) for axis in view.axes]
    interactions = [_interaction_verdicts(view, component) for component in view.interactions]
    return Told(finding(view, model), strongest(view), (*axes, *interactions))


def axis_signs(view: CellsView, axis: str) -> str:
    """An axis with its first level, which is positive: ``gender + men``."""
    return f"{view.suite.axis_label(axis)} + {next(iter(view.axes[axis].levels.values()))}"


def _axis_verdicts(view: CellsView, axis: str) -> Verdicts:
    """A row a concept; of an axis of more levels than two, a row for each."""
    label = view.suite.axis_label(axis)
    meaning = f"image part along {axis_signs(view, axis)}; {wording.PART_SCALE}"
    rows = [
        (f"{name}, {view.label(row.group)}" if len(view.axes[axis].levels) > 2 else name, row)
        for name in view.concepts
        for row in view.rows(f"axis:{axis}", name) or [without_estimate(concept=name)]
    ]
    judged_rows = (_judged_axis(view, name, row) for name, row in rows)
    return Verdicts("concept", f"Image part, {label}", meaning, tuple(judged_rows), view.label)


def _judged_axis(view: CellsView, name: str, row: Row) -> Judged:
    value, interval = wording.signed(row.value, view.digits), wording.interval(row.low, row.high, view.digits)
    notes = (note(row),)
    return judged(row, name, view.label, value, interval, ends=(row.low, row.high), notes=notes)


def _interaction_verdicts(view: CellsView, component: str) -> Verdicts:
    """A row a concept: the cell that stands out most, as on the page."""
    rows = []
    for name in view.concepts:
        known = [row for row in view.rows(component, name) if row.defined]
        first = view.rows(component, name)[:1] or [without_estimate(concept=name)]
        row = max(known, key=lambda row: abs(row.value), default=first[0])
        value, interval = wording.signed_percent(row.value), excess_interval(row)
        notes = (view.label(row.group),)
        one = judged(row, name, view.label, value, interval, ends=(row.low, row.high), notes=notes)
        rows.append(replace(one, verdict=interaction_words(view, component, name)))
    meaning = "the share of images in a cell beyond what its levels alone give"
    return Verdicts("concept", wording.capitalised(interaction_name(view, component)), meaning, tuple(rows), view.label)


def _item(view: CellsView, concept: Concept) -> dict[str, Any]:
    name = concept.name
    joint = view.joint("cells", name)
    axes = [row for axis in view.axes for row in view.rows(f"axis:{axis}", name)]
    missing = [row.reason for row in axes if row.reason and (not row.has_interval or not_measured(row))]
    return {
        "subject": wording.capitalised(concept.prompt),
        "verdict": verdict_words(view, name),
        "axes": [_axis_item(view, axis, name) for axis in view.axes],
        "interactions": [_interaction_item(view, component, name) for component in view.interactions],
        "matrix": [{"label": label, "cells": [_cell(view, row) for row in rows]} for label, rows in view.matrix(name)],
        "joint": wording.probability(joint.q, "q") if joint is not None else "",
        "reason": "; ".join(dict.fromkeys(missing)),
    }


def _axis_item(view: CellsView, axis: str, name: str) -> dict[str, str]:
    row = view.axis_row(axis, name)
    many = wording.about(row.n_decide) if row else ""
    return {
        "label": wording.capitalised(view.suite.axis_label(axis)),
        "lean": view.axis_lean(axis, name),
        "value": _numbers(view, row),
        "q": wording.probability(row.q, "q") if row else "",
        "level": view.label(row.group) if row and len(view.axes[axis].levels) > 2 else "",
        "needed": f"about {many} images a concept would decide, if the estimate stands" if many else "",
    }


def _interaction_item(view: CellsView, component: str, name: str) -> dict[str, str]:
    rows = view.rows(component, name)
    row = max((row for row in rows if row.defined), key=lambda row: abs(row.value), default=None)
    return {
        "label": wording.capitalised(interaction_name(view, component)),
        "cell": view.label(row.group) if row else "",
        "value": excess(row),
        "q": wording.probability(row.q, "q") if row else "",
        "said": interaction_words(view, component, name),
        "reason": "" if row else next((row.reason for row in rows if row.reason), ""),
    }


def _cell(view: CellsView, row: Row) -> dict[str, str]:
    return {
        "lean": verdict_group_of(row),
        "value": wording.signed(row.value, view.digits),
        "interval": wording.interval(row.low, row.high, view.digits),
    }


def cells_planted(view: CellsView) -> dict[str, Any] | None:
    """What was planted on each axis of two levels, beside what was measured; left out where nothing was."""
    planted = view.report.planted or {}
    axes = [
        axis
        for axis, crossed_axis in view.axes.items()
        if len(crossed_axis.levels) == 2 and _is_planted(planted, crossed_axis.levels)
    ]
    if not axes:
        return None
    return {
        "axes": [
            {"label": view.suite.axis_label(axis), "levels": list(view.axes[axis].levels.values())} for axis in axes
        ],
        "concepts": [
            {"name": name, "cells": [_planted_cell(view, axis, name, planted[name]) for axis in axes]}
            for name in view.concepts
            if name in planted
        ],
    }


def _is_planted(planted: Any, levels: Any) -> bool:
    return any(set(levels) <= set(probabilities) for probabilities in planted.values())


def _planted_cell(view: CellsView, axis: str, name: str, planted: Any) -> dict[str, str]:
    first, second = view.axes[axis].levels
    return {
        "planted": wording.signed(planted[first] - planted[second]),
        "measured": _numbers(view, view.axis_row(axis, name)),
        "lean": view.axis_lean(axis, name),
    }


def cells_method(view: CellsView) -> dict[str, Any]:
    """Cards, settings, words and limits."""
    return measured_how(view) | {
        "groups": group_texts(view, view.suite),
        "margin": wording.number(view.suite.margin) if view.suite.margin else "",
    }


def cells_reader(view: CellsView) -> dict[str, Any] | None:
    """A row an encoder and axis, or level of it; None where the run holds no such rows."""
    judged = view.scores.select("reader", "informedness", encoder="*")
    if not judged:
        return None
    names = list(dict.fromkeys(row.encoder for row in judged))
    encoders = names[1:] if len(names) == 2 else names  # with one encoder the average is that encoder
    return {
        "checks": [_check(view, row) for row in judged if row.encoder in encoders],
        "confusion": confusion(view),
        "groups": [view.label(name) for name in view.suite.groups],
    }


def _check(view: CellsView, judged: Row) -> dict[str, Any]:
    axis = next(name for name, crossed_axis in view.axes.items() if judged.group in crossed_axis.levels)
    levels = view.axes[axis].levels
    others = [label for name, label in levels.items() if name != judged.group]
    rates = [
        view.scores.first("reader", component, encoder=judged.encoder, setting=judged.setting) for component in RATES
    ]
    return {
        "encoder": "average over encoders" if judged.encoder == "mean" else judged.encoder,
        "axis": view.suite.axis_label(axis),
        "first": view.label(judged.group),
        "second": others[0] if len(others) == 1 else "the others",
        "rates": [rate(row) for row in rates],
        "reads": judged.flag != UNREAD,
        "reason": judged.reason if judged.flag else "",
    }
