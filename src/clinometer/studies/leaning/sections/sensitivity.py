"""How much the answer depends on the encoder: a table of components and encoders."""

from __future__ import annotations

from typing import Any

from clinometer.report import wording
from clinometer.report.rows import Row
from clinometer.studies.leaning.view import LeaningView


def sensitivity(view: LeaningView) -> dict[str, Any] | None:
    """A row a component, a column an encoder; left out with a single encoder."""
    if not view.scores.select("sensitivity", encoder="*"):
        return None
    empty = [row for row in view.scores.select("sensitivity", encoder="*") if not row.defined and row.reason]
    return {
        "missing": wording.reasons((_cell_name(row), row.reason) for row in empty),
        "encoders": view.encoders,
        "rows": [
            {
                "name": name,
                "cells": [_cell(view, component, encoder) for encoder in view.encoders],
                "spread": _number(view.scores.first("sensitivity", component, setting="spread"), view.digits),
            }
            for component, name in wording.COMPONENT_NAMES.items()
        ],
    }


def _cell(view: LeaningView, component: str, encoder: str) -> dict[str, str]:
    size, agreement = (
        view.scores.first("sensitivity", component, setting=setting, encoder=encoder)
        for setting in ("size", "agreement")
    )
    tau = wording.MISSING
    if agreement is not None and agreement.defined:
        interval = f" {wording.interval(agreement.low, agreement.high, 2)}" if agreement.has_interval else ""
        tau = f"{wording.signed(agreement.value, 2)}{interval}"
    return {"size": _number(size, view.digits), "tau": tau}


def _cell_name(row: Row) -> str:
    """Which cell a row is, by the heads of its row and column."""
    component = wording.COMPONENT_NAMES.get(row.component, row.component)
    if row.setting == "spread":
        return f"{component} between encoders"
    return f"{'τ of ' if row.setting == 'agreement' else ''}{component} by {row.encoder}"


def _number(row: Row | None, digits: int) -> str:
    return wording.MISSING if row is None or not row.defined else wording.number(row.value, digits)
