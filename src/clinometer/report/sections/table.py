"""Every number of the run in one table."""

from __future__ import annotations

from math import isfinite
from typing import Any, Final

from clinometer.report import wording
from clinometer.report.rows import MEAN, Row
from clinometer.report.verdict_words import not_measured, reason_words, verdict_words
from clinometer.report.view import View

IDENTITY: Final = ("concept", "metric", "component", "encoder")
"""What a row is a number of: the head of its row, which stays in view while the numbers scroll."""

COLUMNS: Final[tuple[tuple[str, str, str], ...]] = (
    ("value", "Value", "number"),
    ("low", "Low", "number"),
    ("high", "High", "number"),
    ("p", "p", "number"),
    ("q", "q", "number"),
    ("n_target", "n", "number"),
    ("group", "Group", "text"),
    ("stimulus_low", "Stimulus low", "number"),
    ("stimulus_high", "Stimulus high", "number"),
    ("null", "Null", "number"),
    ("category", "Category", "text"),
    ("setting", "Setting", "text"),
    ("note", "Note", "text"),
)


def table(view: View) -> dict[str, Any]:
    """Columns and rows; a cell is (text, key to sort by). What no row has is left out."""
    identities = [[_cell(view, row, name, "text")[0] for name in IDENTITY] for row in view.scores]
    named = [name for name, texts in zip(IDENTITY, zip(*identities, strict=True), strict=False) if any(texts)]
    cells = [[_cell(view, row, name, kind) for name, _, kind in COLUMNS] for row in view.scores]
    filled = [any(text for text, _ in column) for column in zip(*cells, strict=True)]
    columns = [column for column, there in zip(COLUMNS, filled, strict=False) if there]
    return {
        "identity": named,
        "columns": [{"name": name, "label": label, "kind": kind} for name, label, kind in columns],
        "rows": [
            {
                "identity": [text for name, text in zip(IDENTITY, identity, strict=True) if name in named],
                "cells": [cell for cell, there in zip(of_row, filled, strict=True) if there],
            }
            for identity, of_row in zip(identities, cells, strict=True)
        ],
        "csv": view.report.csv_name,
        "unit": view.unit,
        "metrics": list(dict.fromkeys(row.metric for row in view.scores)),
    }


def _why(row: Row) -> str:
    """The row's own reason, or why there is no verdict."""
    return reason_words(row) if row.verdict and not_measured(row) else row.reason


def _cell(view: View, row: Row, name: str, kind: str) -> tuple[str, str]:
    if name == "note":
        return "; ".join(part for part in (row.flag, verdict_words(row, view.label), _why(row)) if part), ""
    if name == "encoder":
        return ("mean" if row.encoder == MEAN else row.encoder), ""
    value = getattr(row, name)
    if kind == "text":
        return str(value).replace("_", " ") if name in ("metric", "component") else str(value), ""
    if name == "n_target":
        return (str(value), str(value)) if value else ("", "")
    if not isfinite(value):
        return (wording.MISSING, "") if name == "value" else ("", "")
    return wording.number(value, 4), f"{value:.9g}"
