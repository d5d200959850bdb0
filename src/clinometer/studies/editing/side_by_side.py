"""Editing runs beside each other."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from clinometer.report import wording
from clinometer.report.comparison import by_label
from clinometer.report.figures.marks import rows_figure
from clinometer.report.figures.svg import Figure
from clinometer.report.rows import Row
from clinometer.studies.editing.sections.edits import average_faces
from clinometer.studies.editing.view import EditingView


def side_by_side(views: Mapping[str, EditingView], encoder: str) -> dict[str, Any]:
    """Figures and tables of several editing runs, as ``encoder`` reads them."""
    first = next(iter(views.values()))
    return {
        "reader": encoder,
        "label_a": first.label_a,
        "label_b": first.label_b,
        "margin": None,
        "asymmetry": asymmetry_models_figure(views, encoder),
        "edits": [
            {
                "name": f"{wording.capitalised(first.label(group))}, into “{kind}”",
                "concept": setting,
                "cells": [_edit_cells(view, encoder, group, kind, setting) for view in views.values()],
            }
            for group in first.suite.groups
            for kind, setting in first.columns
        ],
        "columns": first.columns,
        "faces": by_label([{"model": model, **row} for model, view in views.items() for row in average_faces(view)]),
    }


def _edit_cells(view: EditingView, encoder: str, group: str, kind: str, setting: str) -> list[str]:
    """Flip rate, change of the skin's angle, cosine of before and after."""
    rows = {
        "flip_rate": view.class_rows("flip_rate", encoder),
        "ita_change": [row for row in view.pixel_rows("ita_change") if not row.concept],
        "identity": view.class_rows("identity", encoder),
    }
    about = (group, kind, setting)
    flips, skin, identity = (
        next((row for row in component_rows if (row.group, row.category, row.setting) == about), Row())
        for component_rows in rows.values()
    )
    return [
        wording.percent(flips.value) if flips.defined else wording.MISSING,
        f"{wording.signed(skin.value, 1)}°" if skin.defined else wording.MISSING,
        wording.number(identity.value) if identity.defined else wording.MISSING,
    ]


def asymmetry_models_figure(views: Mapping[str, EditingView], encoder: str) -> Figure | None:
    """Draw the flip asymmetry of every class and strength, models beside each other."""
    first = next(iter(views.values()))
    rows = {
        model: {f"{row.category}, {row.setting}": row for row in view.class_rows("flip_asymmetry", encoder)}
        for model, view in views.items()
    }
    names = [f"{kind}, {setting}" for kind, setting in first.columns]
    ends = (f"edits move to {first.label_b}", f"to {first.label_a}")
    return rows_figure(rows, names, "flip asymmetry", ends, name="asymmetry", title="Flip asymmetry of every model")
