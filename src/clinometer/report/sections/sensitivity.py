"""How much the answer depends on the encoder: a table of components and encoders."""

from __future__ import annotations

from typing import Any

from clinometer.report import wording
from clinometer.report.rows import Row
from clinometer.report.view import LeaningView

COMPONENTS = {"ii": "II", "itp": "ITP", "ita": "ITA", "tt": "TT", "mcas": "MCAS"}


def sensitivity(view: LeaningView) -> dict[str, Any] | None:
    """A row a component, a column an encoder; left out with a single encoder."""
    if not view.scores.select("sensitivity", encoder="*"):
        return None
    return {
        "encoders": view.encoders,
        "rows": [
            {
                "name": name,
                "cells": [_cell(view, component, encoder) for encoder in view.encoders],
                "spread": _number(view.scores.first("sensitivity", component, setting="spread"), view.digits),
            }
            for component, name in COMPONENTS.items()
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
    reason = size.reason if size is not None and not size.defined else ""
    return {"size": _number(size, view.digits), "tau": tau, "reason": reason}


def _number(row: Row | None, digits: int) -> str:
    return wording.MISSING if row is None or not row.defined else wording.number(row.value, digits)
