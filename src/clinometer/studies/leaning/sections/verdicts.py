"""A verdict for each concept, in plain words with its interval."""

from __future__ import annotations

from math import isfinite
from typing import Any

from clinometer.report import wording
from clinometer.report.page import Judged, Told, Verdicts, judged
from clinometer.report.rows import Row
from clinometer.report.wording import (
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
    """What the sign of a score means: ``+ leans to men, − to women``."""
    return f"+ leans to {suite.label_of(suite.compared.a)}, {wording.MINUS} to {suite.label_of(suite.compared.b)}"


def told(view: LeaningView) -> Told:
    """The finding, and every concept with its verdict."""
    meaning = f"II + ITA, what the pictures lean: {signs(view.suite)}; {wording.PART_SCALE}"
    rows = tuple(_judged(view, concept) for concept in view.concepts.values())
    return Told(finding(view), strongest(view), (Verdicts("concept", "Image part", meaning, rows, view.label),))


def _judged(view: LeaningView, concept: Concept) -> Judged:
    row, item = view.pictures.get(concept.name) or without_estimate(concept=concept.name), _item(view, concept)
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
        "scale": wording.PART_SCALE,
        "reach": wording.number(_reach(view), view.digits),
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
    concepts.sort(key=lambda c: -abs(view.pictures[c.name].value) if lean != "unmeasured" else 0.0)
    return [_item(view, concept) for concept in concepts]


def _item(view: LeaningView, concept: Concept) -> dict[str, Any]:
    row = view.pictures.get(concept.name)
    item = {"name": concept.name, "subject": wording.capitalised(concept.prompt)}
    if row is None or not row.defined:
        row = row or without_estimate()
        return item | {"verdict": said_of(row), "value": "", "reason": reason_words(row)}
    share, text = view.shares.get(concept.name), view.texts.get(concept.name)
    return item | {
        "verdict": said_of(row, view.label),
        "value": wording.signed(row.value, view.digits),
        "interval": wording.interval(row.low, row.high, view.digits),
        "images": wording.share_words(share, view.label_a, view.label_b) or wording.count(row.n_target, "image"),
        "text": wording.signed(text.value, view.digits) if text is not None and text.defined else "",
        "bars": _bars(view, row, text),
        "qualification": qualification(row),
        "apart": _apart(view, row, share),
        "reason": note(row),
    }


def _reach(view: LeaningView) -> float:
    """What half the width of the small bars stands for: the largest number that any of them shows."""
    ends = [(row.value, row.low, row.high) for row in view.pictures.values()]
    ends += [(row.value,) * 3 for row in view.texts.values()]
    return max((abs(end) for each in ends for end in each if isfinite(end)), default=1.0) or 1.0


def _bars(view: LeaningView, row: Row, text: Row | None) -> dict[str, Any]:
    """Both parts as bars from the middle of a strip of 120: where each begins, how long it is, and on which side."""
    scale = 58 / _reach(view)
    rows = {"pictures": row} | ({"text": text} if text is not None and text.defined else {})
    bars: dict[str, Any] = {
        name: {
            "x": round(60 + min(scale * part.value, 0.0), 1),
            "width": round(abs(scale * part.value), 1),
            "side": "a" if part.value > 0 else "b",
        }
        for name, part in rows.items()
    }
    return bars | {
        "interval": [round(60 + scale * end, 1) for end in (row.low, row.high)] if row.has_interval else [],
        "words": ", ".join(f"{name} {wording.signed(part.value, view.digits)}" for name, part in rows.items()),
    }


def _apart(view: LeaningView, row: Row, share: Row | None) -> str:
    """Explain, by the concept's own numbers, why most images read as the group that its pictures do not lean to.

    An image is read by the words alone, and ITA is the mean of what the words say of each. Where ITA too lies on the
    other side, it is II that the sum follows; where it does not, few images lie further out than the many.
    """
    ita = view.scores.by_concept("mcas", "ita").get(row.concept)
    if not leans(row) or share is None or not share.defined or (share.value - 0.5) * row.value >= 0 or ita is None:
        return ""
    side = view.label(row.side)
    if ita.value * row.value < 0:
        return f"read by the words alone; to the pictures drawn for {side} its pictures are nearer still"
    few = round(share.n_target * min(share.value, 1 - share.value))
    return f"{wording.count(few, 'image')} read as {side}, further from the middle than the others" if few else ""
