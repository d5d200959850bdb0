"""A verdict for each concept, in plain words with its interval."""

from __future__ import annotations

from typing import Any

from clinometer.report import wording
from clinometer.report.page import Judged, Told, Verdicts, judged
from clinometer.report.rows import Row
from clinometer.report.verdict_words import (
    HEADINGS,
    NOTES,
    VERDICT_GROUPS,
    leans,
    note,
    qualification,
    reason_words,
    said_of,
    without_estimate,
)
from clinometer.studies.leaning.sections.masthead import finding, strongest
from clinometer.studies.leaning.view import Concept, LeaningView
from clinometer.suites import LeaningSuite


def signs(suite: LeaningSuite) -> str:
    """What the sign of MCAS means: ``+ leans to men, − to women``."""
    return f"+ leans to {suite.label_of(suite.compared.a)}, {wording.MINUS} to {suite.label_of(suite.compared.b)}"


def told(view: LeaningView) -> Told:
    """The finding, and every concept with its verdict."""
    meaning = f"{signs(view.suite)}; {wording.MCAS_SCALE}"
    rows = tuple(_judged(view, concept) for concept in view.concepts.values())
    return Told(finding(view), strongest(view), (Verdicts("concept", "MCAS", meaning, rows, view.label),))


def _judged(view: LeaningView, concept: Concept) -> Judged:
    row, item = view.mcas.get(concept.name) or without_estimate(concept=concept.name), _item(view, concept)
    notes = (item.get(name, "") for name in ("images", "apart", "qualification", "reason"))
    interval = item.get("interval", "")
    return judged(row, concept.name, view.label, item["value"], interval, ends=(row.low, row.high), notes=notes)


def verdicts(view: LeaningView) -> dict[str, Any]:
    """Concepts by their verdicts, the strongest first."""
    headings = {"a": f"Leans to {view.label_a}", "b": f"Leans to {view.label_b}", **HEADINGS}
    notes = {"balanced": _margin_words(view), **NOTES}
    verdict_groups = [
        {
            "id": verdict_group,
            "lean": verdict_group,
            "heading": headings[verdict_group],
            "note": notes.get(verdict_group, ""),
            "items": _items(view, verdict_group),
        }
        for verdict_group in VERDICT_GROUPS
    ]
    for each in verdict_groups:
        if each["id"] == "unmeasured":
            _say_once(each)
    return {
        "verdict_groups": [verdict_group for verdict_group in verdict_groups if verdict_group["items"]],
        "label_a": view.label_a,
        "label_b": view.label_b,
        "stopped_early": view.report.stopped_early,
        "scale": wording.MCAS_SCALE,
        "margin": wording.number(view.suite.margin or float("nan")),
    }


def _say_once(unmeasured: dict[str, Any]) -> None:
    """Put a reason that all concepts share above them, in place of a line below each."""
    items = unmeasured["items"]
    reasons = {item["reason"] for item in items}
    if len(items) > 1 and len(reasons) == 1 and reasons != {""}:
        unmeasured["note"] = f"{wording.capitalised(reasons.pop())}."
        unmeasured["items"] = [item | {"reason": ""} for item in items]


def _margin_words(view: LeaningView) -> str:
    margin = view.suite.margin
    return f"Tests show the score to be within \N{PLUS-MINUS SIGN}{margin:g}." if margin else ""


def _items(view: LeaningView, lean: str) -> list[dict[str, str]]:
    concepts = [concept for concept in view.concepts.values() if view.verdict_group(concept.name) == lean]
    concepts.sort(key=lambda c: -abs(view.mcas[c.name].value) if lean != "unmeasured" else 0.0)
    return [_item(view, concept) for concept in concepts]


def _item(view: LeaningView, concept: Concept) -> dict[str, str]:
    row = view.mcas.get(concept.name)
    item = {"name": concept.name, "subject": wording.capitalised(concept.prompt)}
    if row is None or not row.defined:
        row = row or without_estimate()
        return item | {"verdict": said_of(row), "value": "", "reason": reason_words(row)}
    return item | {
        "verdict": said_of(row, view.label),
        "value": wording.signed(row.value, view.digits),
        "interval": wording.interval(row.low, row.high, view.digits),
        "images": wording.share_words(view.shares.get(concept.name), view.label_a, view.label_b),
        "qualification": qualification(row),
        "apart": _apart(row, view.shares.get(concept.name)),
        "reason": note(row),
    }


def _apart(row: Row, share: Row | None) -> str:
    """A word where most images read as the group that the score does not lean to."""
    if not leans(row) or share is None or not share.defined or (share.value - 0.5) * row.value >= 0:
        return ""
    return "score and count differ: a few images far to one side outweigh more that lie near the middle"
