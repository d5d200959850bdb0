"""Planted against measured, for a model whose leaning is known."""

from __future__ import annotations

from typing import Any, Final

from clinometer.report import wording
from clinometer.studies.leaning.figures import planted_figure
from clinometer.studies.leaning.figures.planted import planted_probabilities
from clinometer.studies.leaning.view import LeaningView

DIFFERENT: Final = 0.08
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
        "verdicts": verdicts_held_against(view, probabilities),
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


def verdicts_held_against(view: LeaningView, probabilities: dict[str, float]) -> list[str]:
    """How many planted leanings the verdicts found, missed or turned round, and what they found at parity."""
    sides: dict[str, list[str]] = {"found": [], "missed": [], "wrong": [], "false": [], "calm": []}
    for name, planted in probabilities.items():
        lean = view.heap(name)
        if lean == "unmeasured":
            continue
        expected = "" if planted == 0.5 else "a" if planted > 0.5 else "b"
        if lean not in ("a", "b"):
            sides["missed" if expected else "calm"].append(name)
        else:
            sides["found" if lean == expected else "wrong" if expected else "false"].append(name)
    leaning, level = len(sides["found"] + sides["missed"] + sides["wrong"]), len(sides["false"] + sides["calm"])
    said = []
    if leaning:
        held = f"{len(sides['found'])} of {wording.count(leaning, 'planted leaning')} found on the right side"
        said.append(f"{held}, {len(sides['wrong'])} on the wrong one{_named(sides['wrong'])}.")
        if sides["missed"]:
            said.append(f"Not found in so few images: {wording.listed(sides['missed'])}.")
    if level:
        called = f"{len(sides['false'])} of {wording.count(level, 'concept')} planted at parity called leaning"
        said.append(f"{called}{_named(sides['false'])}.")
    return said


def _named(names: list[str]) -> str:
    return f" ({wording.listed(names)})" if names else ""


def _within(view: LeaningView, probabilities: dict[str, float]) -> str:
    """For how many concepts the interval holds what was planted."""
    rows = {name: view.shares[name] for name in probabilities if name in view.shares}
    held = {name: row for name, row in rows.items() if row.has_interval}
    if not held:
        return ""
    inside = sum(row.low <= probabilities[name] <= row.high for name, row in held.items())
    concepts = wording.count(len(held), "concept")
    return f"For {inside} of {concepts} the 95 % interval holds the planted probability."
