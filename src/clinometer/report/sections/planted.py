"""Planted against measured, for a model whose leaning is known."""

from __future__ import annotations

from typing import Any, Final

from clinometer.report import wording
from clinometer.report.figures import planted_figure
from clinometer.report.figures.planted import planted_probabilities
from clinometer.report.view import LeaningView

DIFFERENT: Final = 0.1
"""Share of images, read differently by the encoder and the judge, from which on a concept is named."""


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
        "readers": readers(view),
    }


def readers(view: LeaningView) -> dict[str, Any] | None:
    """Concepts that encoder and independent judge read differently in many of the same images; None if unmeasured."""
    held = {name: row for name, row in (view.report.readings or {}).items() if name in view.concepts}
    if not held:
        return None
    apart = {name: row for name, row in held.items() if row["differ"] >= DIFFERENT * row["n"]}
    return {
        "n": max(int(row["n"]) for row in held.values()),
        "of": len(held),
        "rows": [
            {
                "name": name,
                "encoder": wording.number(row["encoder"] / row["n"]),
                "judge": wording.number(row["judge"] / row["n"]),
                "differ": f"{int(row['differ'])} of {int(row['n'])}",
            }
            for name, row in sorted(apart.items(), key=lambda item: -item[1]["differ"] / item[1]["n"])
        ],
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
