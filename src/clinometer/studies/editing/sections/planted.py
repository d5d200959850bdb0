"""Flips against what was planted, for a model whose leaning is known."""

from __future__ import annotations

from typing import Any

from clinometer.report import wording
from clinometer.studies.editing.figures.planted import flips_figure, known_cells
from clinometer.studies.editing.view import EditingView


def editing_planted(view: EditingView) -> dict[str, Any] | None:
    """The order of flips at each strength, drawn and in words; left out when nothing was planted."""
    rows = view.scores.select("editing", "planted_order", encoder=view.reader)
    if not rows:
        return None
    return {
        "orders": [
            {
                "setting": wording.capitalised(row.setting),
                "value": wording.signed(row.value) if row.defined else wording.MISSING,
                "interval": wording.interval(row.low, row.high),
                "reason": row.reason,
                "figure": flips_figure(view, row.setting, number),
            }
            for number, row in enumerate(rows)
        ],
        "encoder": view.reader,
        "label_a": view.label_a,
        "label_b": view.label_b,
        "settings": [row.setting for row in rows],
        "cells": _cells(view, [row.setting for row in rows]),
    }


def _cells(view: EditingView, settings: list[str]) -> list[dict[str, Any]]:
    """A row a group and profession, the most planted first: planted probability, then the rate at each strength."""
    by_setting = {
        setting: {(cell.group, cell.profession): cell for cell in known_cells(view, setting)} for setting in settings
    }
    first = sorted(by_setting[settings[0]].values(), key=lambda cell: -cell.planted)
    return [
        {
            "group": view.label(cell.group),
            "profession": cell.profession,
            "planted": wording.number(cell.planted),
            "rates": [_rate(by_setting[setting].get((cell.group, cell.profession))) for setting in settings],
        }
        for cell in first
    ]


def _rate(cell: Any) -> str:
    if cell is None or not cell.row.defined:
        return wording.MISSING
    return f"{wording.number(cell.row.value)} {wording.interval(cell.row.low, cell.row.high)}".strip()
