"""Planted against measured, for a model whose leaning is known."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from clinometer.report import wording
from clinometer.studies.leaning.figures import planted_figure
from clinometer.studies.leaning.figures.planted import planted_probabilities
from clinometer.studies.leaning.view import LeaningView

APART: Final = 0.03
"""Difference of the shares of men, as the encoder and the judge count them, from which on a concept is named."""


def planted(view: LeaningView) -> dict[str, Any] | None:
    """Both figures and the numbers; left out when nothing was planted."""
    probabilities = planted_probabilities(view)
    if not probabilities:
        return None
    counted = counted_of(view)
    return {
        "share": planted_figure(view, score="share"),
        "part": planted_figure(view, score="image_part"),
        "label_a": view.label_a,
        "concepts": _concepts(view, probabilities),
        "within": _within(view, probabilities),
        "counted": max(int(row["n"]) for row in counted.values()) if counted else 0,
        "verdicts": verdicts_held_against(view, probabilities),
        "readers": readers(view),
    }


def counted_of(view: LeaningView) -> dict[str, Mapping[str, float]]:
    """What encoder and independent judge counted in the same images, of the concepts of this run."""
    return {name: row for name, row in (view.report.readings or {}).items() if name in view.concepts}


def readers(view: LeaningView) -> dict[str, Any] | None:
    """Concepts of which encoder and independent judge count other shares in the same images; None if unmeasured."""
    counts = counted_of(view)
    if not counts:
        return None
    apart = {name: row for name, row in counts.items() if _distance(row) >= APART}
    return {
        "n": max(int(row["n"]) for row in counts.values()),
        "of": len(counts),
        "apart": wording.percent(APART),
        "rows": [
            {
                "name": name,
                "encoder": wording.number(row["encoder"] / row["n"]),
                "judge": wording.number(row["judge"] / row["n"]),
                "differ": f"{int(row['differ'])} of {int(row['n']):,}",
            }
            for name, row in sorted(apart.items(), key=lambda item: -_distance(item[1]))
        ],
    }


def _distance(row: Mapping[str, float]) -> float:
    return abs(row["encoder"] - row["judge"]) / row["n"]


def _counted_share(view: LeaningView, row: Mapping[str, float] | None) -> str:
    if row is None:
        return wording.MISSING
    men = row["judge"] / row["n"]
    return wording.number(men if view.group_a == "man" else 1 - men)


def _concepts(view: LeaningView, probabilities: dict[str, float]) -> list[dict[str, str]]:
    counted = counted_of(view)
    ordered = sorted(probabilities, key=lambda name: -probabilities[name])
    return [
        {
            "name": name,
            "planted": wording.number(probabilities[name]),
            "counted": _counted_share(view, counted.get(name)),
            "share": wording.number(share.value) if share else wording.MISSING,
            "interval": wording.interval(share.low, share.high) if share else "",
            "part": wording.signed(part.value, view.digits) if part else wording.MISSING,
        }
        for name in ordered
        for share, part in [(view.shares.get(name), view.pictures.get(name))]
    ]


def verdicts_held_against(view: LeaningView, probabilities: dict[str, float]) -> list[str]:
    """How many leanings the verdicts found, missed or turned round, and what they found at parity.

    A concept leans as the judge counts it in many images, or, where nobody counted, as it was planted.
    """
    sides: dict[str, list[str]] = {"found": [], "missed": [], "wrong": [], "false": [], "calm": []}
    counted = counted_of(view)
    for name, planted in probabilities.items():
        lean = view.verdict_group(name)
        if lean == "unmeasured":
            continue
        expected = _side(view, counted[name]) if name in counted else "" if planted == 0.5 else "ba"[planted > 0.5]
        if lean not in ("a", "b"):
            sides["missed" if expected else "calm"].append(name)
        else:
            sides["found" if lean == expected else "wrong" if expected else "false"].append(name)
    leaning, level = len(sides["found"] + sides["missed"] + sides["wrong"]), len(sides["false"] + sides["calm"])
    sentences = []
    if leaning:
        hits = f"{len(sides['found'])} of {wording.count(leaning, 'leaning')} found on the right side"
        sentences.append(f"{hits}, {len(sides['wrong'])} on the wrong one{_named(sides['wrong'])}.")
        if sides["missed"]:
            sentences.append(f"Not found in so few images: {wording.listed(sides['missed'])}.")
    if level:
        false_alarms = f"{len(sides['false'])} of {wording.count(level, 'concept')} at parity called leaning"
        sentences.append(f"{false_alarms}{_named(sides['false'])}.")
    misread = [
        name for name in sides["wrong"] + sides["false"] if name in counted and _distance(counted[name]) >= APART
    ]
    if misread:
        sentences.append(f"The encoder misreads {wording.listed(misread)}: see below.")
    return sentences


def _side(view: LeaningView, row: Mapping[str, float]) -> str:
    """The side of the share that the judge counted, of men; none where its interval holds one half."""
    of_men = "a" if row["low"] > 0.5 else "b" if row["high"] < 0.5 else ""
    return of_men if view.group_a == "man" else of_men.translate(str.maketrans("ab", "ba"))


def _named(names: list[str]) -> str:
    return f" ({wording.listed(names)})" if names else ""


def _within(view: LeaningView, probabilities: dict[str, float]) -> str:
    """For how many concepts the interval holds what was planted."""
    rows = {name: view.shares[name] for name in probabilities if name in view.shares}
    estimates = {name: row for name, row in rows.items() if row.has_interval}
    if not estimates:
        return ""
    inside = sum(row.low <= probabilities[name] <= row.high for name, row in estimates.items())
    concepts = wording.count(len(estimates), "concept")
    return f"For {inside} of {concepts} the 95 % interval holds the planted probability."
