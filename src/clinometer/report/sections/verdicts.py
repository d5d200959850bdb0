"""A verdict for each concept, in plain words with its interval."""

from __future__ import annotations

from typing import Any

from clinometer.report import wording
from clinometer.report.view import Concept, LeaningView


def verdicts(view: LeaningView) -> dict[str, Any]:
    """Sort concepts in five heaps, each by strength."""
    heaps = [
        ("a", f"Leans to {view.label_a}", ""),
        ("b", f"Leans to {view.label_b}", ""),
        ("balanced", "Shown balanced", _margin_words(view)),
        ("undecided", "Undecided", "The images do not tell. Where more of them would, it says how many."),
        ("unmeasured", "Not measured", ""),
    ]
    held = [
        {"lean": lean, "heading": heading, "note": note, "items": _items(view, lean)} for lean, heading, note in heaps
    ]
    return {
        "heaps": [heap for heap in held if heap["items"]],
        "label_a": view.label_a,
        "label_b": view.label_b,
        "stopped_early": view.report.stopped_early,
        "margin": wording.number(view.suite.margin or float("nan")),
    }


def _margin_words(view: LeaningView) -> str:
    margin = view.suite.margin
    return f"Tests show the score to be within \N{PLUS-MINUS SIGN}{margin:g}." if margin else ""


def _items(view: LeaningView, lean: str) -> list[dict[str, str]]:
    concepts = [concept for concept in view.concepts.values() if view.lean(concept.name) == lean]
    concepts.sort(key=lambda c: -abs(view.mcas[c.name].value) if lean != "unmeasured" else 0.0)
    return [_item(view, concept) for concept in concepts]


def _item(view: LeaningView, concept: Concept) -> dict[str, str]:
    row = view.mcas.get(concept.name)
    item = {"name": concept.name, "subject": wording.capitalised(concept.prompt)}
    if row is None or not row.defined:
        reason = row.reason if row is not None and row.reason else "there is no score for it"
        return item | {"verdict": "could not be measured", "value": "", "reason": reason}
    return item | {
        "verdict": wording.verdict_words(row, label_a=view.label_a, label_b=view.label_b),
        "value": wording.signed(row.value, view.digits),
        "interval": wording.interval(row.low, row.high, view.digits),
        "images": wording.share_words(view.shares.get(concept.name), view.label_a, view.label_b),
        "reason": row.reason if not row.has_interval else wording.needed(row),
    }
