"""Every number of the run in one table."""

from __future__ import annotations

from math import isfinite
from typing import Any, Final

from clinometer.report import wording
from clinometer.report.rows import MEAN, Row
from clinometer.report.verdict_words import verdict_words
from clinometer.report.view import View

COLUMNS: Final[tuple[tuple[str, str, str], ...]] = (
    ("metric", "Metric", "text"),
    ("component", "Component", "text"),
    ("concept", "Concept", "text"),
    ("category", "Category", "text"),
    ("group", "Group", "text"),
    ("encoder", "Encoder", "text"),
    ("setting", "Setting", "text"),
    ("value", "Value", "number"),
    ("low", "Low", "number"),
    ("high", "High", "number"),
    ("stimulus_low", "Stimulus low", "number"),
    ("stimulus_high", "Stimulus high", "number"),
    ("null", "Null", "number"),
    ("p", "p", "number"),
    ("q", "q", "number"),
    ("n_target", "n", "number"),
    ("note", "Note", "text"),
)


def table(view: View) -> dict[str, Any]:
    """Columns and rows; a cell is (text, key to sort by). The setting is a column where any row has one."""
    varied = any(row.setting for row in view.scores)
    columns = [column for column in COLUMNS if varied or column[0] != "setting"]
    rows = [[_cell(view, row, name, kind) for name, _, kind in columns] for row in view.scores]
    return {
        "columns": [{"name": name, "label": label, "kind": kind} for name, label, kind in columns],
        "rows": rows,
        "csv": view.report.csv_name,
        "unit": view.unit,
        "metrics": list(dict.fromkeys(row.metric for row in view.scores)),
    }


def _cell(view: View, row: Row, name: str, kind: str) -> tuple[str, str]:
    if name == "note":
        return "; ".join(part for part in (row.flag, verdict_words(row, view.label), row.reason) if part), ""
    if name == "encoder":
        return ("mean of encoders" if row.encoder == MEAN else row.encoder), ""
    value = getattr(row, name)
    if kind == "text":
        return str(value).replace("_", " ") if name in ("metric", "component") else str(value), ""
    if name == "n_target":
        return (str(value), str(value)) if value else ("", "")
    if not isfinite(value):
        return (wording.MISSING, "") if name == "value" else ("", "")
    return wording.number(value, 4), f"{value:.9g}"
