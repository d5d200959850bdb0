"""Several models in one figure of an editing study."""

from __future__ import annotations

from collections.abc import Mapping

from clinometer.report.figures.models import rows_figure
from clinometer.report.figures.svg import Figure
from clinometer.studies.editing.view import EditingView


def asymmetry_models_figure(views: Mapping[str, EditingView], encoder: str) -> Figure | None:
    """Draw the flip asymmetry of every class and strength, models beside each other."""
    first = next(iter(views.values()))
    held = {
        model: {f"{row.category}, {row.setting}": row for row in view.class_rows("flip_asymmetry", encoder)}
        for model, view in views.items()
    }
    names = [f"{kind}, {setting}" for kind, setting in first.columns]
    ends = (f"edits move to {first.label_b}", f"to {first.label_a}")
    return rows_figure(held, names, "flip asymmetry", ends, name="asymmetry", title="Flip asymmetry of every model")
