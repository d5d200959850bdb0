"""Does the encoder read each axis right? Of crossed axes: how often, axis by axis, and as what each cell is read."""

from __future__ import annotations

from typing import Any

from clinometer.report.rows import Row
from clinometer.studies.leaning.cells_view import CellsView
from clinometer.studies.leaning.sections.reader import RATES, UNREAD, confusion, rate


def cells_reader(view: CellsView) -> dict[str, Any] | None:
    """A row an encoder and axis, or level of it; None where the run holds no such rows."""
    judged = view.scores.select("reader", "informedness", encoder="*")
    if not judged:
        return None
    names = list(dict.fromkeys(row.encoder for row in judged))
    shown = names[1:] if len(names) == 2 else names  # with one encoder the average is that encoder
    return {
        "checks": [_check(view, row) for row in judged if row.encoder in shown],
        "confusion": confusion(view),
        "groups": [view.label(name) for name in view.suite.groups],
    }


def _check(view: CellsView, judged: Row) -> dict[str, Any]:
    axis = next(name for name, held in view.axes.items() if judged.group in held.levels)
    levels = view.axes[axis].levels
    others = [label for name, label in levels.items() if name != judged.group]
    rates = [view.scores.first("reader", each, encoder=judged.encoder, setting=judged.setting) for each in RATES]
    return {
        "encoder": "average over encoders" if judged.encoder == "mean" else judged.encoder,
        "axis": view.suite.axis_label(axis),
        "first": view.label(judged.group),
        "second": others[0] if len(others) == 1 else "the others",
        "rates": [rate(row) for row in rates],
        "reads": judged.flag != UNREAD,
        "reason": judged.reason if judged.flag else "",
    }
