"""Planted against measured, for a model whose leaning is known."""

from __future__ import annotations

from typing import Any

from clinometer.report import wording
from clinometer.report.figures import planted_figure
from clinometer.report.figures.planted import planted_probabilities
from clinometer.report.view import LeaningView


def planted(view: LeaningView) -> dict[str, Any] | None:
    """Both figures and the numbers; left out when nothing was planted."""
    probabilities = planted_probabilities(view)
    if not probabilities:
        return None
    return {
        "share": planted_figure(view, score="share"),
        "mcas": planted_figure(view, score="mcas"),
        "label_a": view.label_a,
        "concepts": _concepts(view, probabilities),
        "within": _within(view, probabilities),
    }


def _concepts(view: LeaningView, probabilities: dict[str, float]) -> list[dict[str, str]]:
    ordered = sorted(probabilities, key=lambda name: -probabilities[name])
    return [
        {
            "name": name,
            "planted": wording.number(probabilities[name]),
            "share": wording.number(share.value) if share else wording.MISSING,
            "interval": wording.interval(share.low, share.high) if share else "",
            "mcas": wording.signed(mcas.value, view.digits) if mcas else wording.MISSING,
        }
        for name in ordered
        for share, mcas in [(view.shares.get(name), view.mcas.get(name))]
    ]


def _within(view: LeaningView, probabilities: dict[str, float]) -> str:
    """For how many concepts the interval holds what was planted."""
    rows = {name: view.shares[name] for name in probabilities if name in view.shares}
    held = {name: row for name, row in rows.items() if row.has_interval}
    if not held:
        return ""
    inside = sum(row.low <= probabilities[name] <= row.high for name, row in held.items())
    concepts = wording.count(len(held), "concept")
    return f"For {inside} of {concepts} the 95 % interval holds the planted probability."
