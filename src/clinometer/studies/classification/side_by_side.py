"""Classification runs beside each other."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from clinometer.report import wording
from clinometer.report.rows import Row
from clinometer.studies.classification.figures import differential_models_figure
from clinometer.studies.classification.view import ClassificationView, contrast_in_words


def side_by_side(views: Mapping[str, ClassificationView], encoder: str) -> dict[str, Any]:
    """Figures and tables of several classification runs; no encoder has a part in them."""
    first = next(iter(views.values()))
    return {
        "label_a": first.label_a,
        "label_b": first.label_b,
        "margin": first.suite.margin,
        "setting": first.setting,
        "differentials": differential_models_figure(views),
        "contrasts": [
            {"name": contrast_in_words(first.suite, name),
             "cells": [_differential_cells(view.differentials.get(name, Row())) for view in views.values()]}
            for name in first.suite.contrasts
        ],
        "groups": [
            {"name": wording.capitalised(first.label(group)),
             "cells": [_association_cells(view.associations.get(group, Row())) for view in views.values()]}
            for group in first.suite.groups
        ],
    }  # fmt: skip


def _differential_cells(row: Row) -> list[str]:
    """ΔS with its interval, and q."""
    difference = wording.with_interval(row.value, row.low, row.high)
    q = wording.bare_probability(row.q)
    return [difference if row.defined else wording.MISSING, q or wording.MISSING]


def _association_cells(row: Row) -> list[str]:
    association = f"{wording.number(row.value)} {wording.interval(row.low, row.high)}".strip()
    return [association if row.defined else wording.MISSING]
