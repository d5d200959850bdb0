"""Who was asked what, and the finding of a leaning study in one sentence."""

from __future__ import annotations

from collections import Counter
from typing import Any

from clinometer.report import wording
from clinometer.report.sections import facts, nothing_judged, nothing_told, rest_in_words
from clinometer.studies.leaning.figures import overview_figure
from clinometer.studies.leaning.view import LeaningView


def masthead(view: LeaningView) -> dict[str, Any]:
    """Title, finding, facts and the dial."""
    report = view.report
    return {
        "title": report.title,
        "model": str(report.model_card.get("name", "unnamed model")),
        "finding": finding(view),
        "strongest": strongest(view),
        "meaning": leans_means(view.label_a, view.label_b),
        "facts": facts(view),
        "figure": overview_figure(view),
        "caption": caption(view),
        "verdict_groups": verdict_counts(view),
    }


def caption(view: LeaningView) -> str:
    """Say how the dial reads."""
    drawn = {concept.category for concept in view.ranked()}
    rings = [view.category_label(name) for name in reversed(view.suite.categories) if name in drawn]
    named = f"Rings, from outside in: {', '.join(rings)}" if len(rings) > 1 else f"The ring: {', '.join(rings)}"
    return (
        f"Every concept on one dial: upright means no leaning. {f'{named}. ' if rings else ''}Marks are the image "
        f"parts, {wording.PART_SCALE}, and arcs their 95\N{NARROW NO-BREAK SPACE}% intervals."
    )


def leans_means(label: str, other: str) -> str:
    """Explain in one sentence what is said of a concept that leans."""
    return (
        f"\N{LEFT DOUBLE QUOTATION MARK}Leans to {label}\N{RIGHT DOUBLE QUOTATION MARK} means: to the encoder, the "
        f"pictures drawn for the concept are nearer to the pictures and words for {label} than to those for {other}, "
        "and by more than the chance of drawing explains."
    )


def verdict_counts(view: LeaningView) -> list[dict[str, Any]]:
    """How many concepts each verdict holds, from leaning to B to leaning to A."""
    counts: Counter[str] = Counter(view.verdict_group(name) for name in view.concepts)
    words = {
        "b": f"lean to {view.label_b}" if counts["b"] != 1 else f"leans to {view.label_b}",
        "few": "too few images to tell",
        "undecided": "undecided",
        "balanced": "balanced",
        "a": f"lean to {view.label_a}" if counts["a"] != 1 else f"leans to {view.label_a}",
        "unmeasured": "not measured",
    }
    return [{"lean": lean, "count": counts[lean], "words": words[lean]} for lean in words if counts[lean]]


def finding(view: LeaningView) -> str:
    """Word the finding in one sentence, by counting verdicts."""
    counts: Counter[str] = Counter(view.verdict_group(name) for name in view.concepts)
    measured = sum(counts.values()) - counts["unmeasured"]
    model = str(view.report.model_card.get("name", "the model"))
    if not measured:
        return nothing_judged("concept", model, view.pictures.values())
    opening = f"Asked for {wording.count(measured, 'concept')} without naming a group, {model}"
    leans = [
        f"to {label} for {wording.count(counts[verdict_group], 'of them', 'of them', words=True)}"
        for verdict_group, label in (("a", view.label_a), ("b", view.label_b))
        if counts[verdict_group]
    ]
    rest = rest_in_words(counts)
    if leans:
        return f"{opening} leans {wording.listed(leans)}{f'; {rest}' if rest else ''}."
    untold = nothing_told(counts)
    if untold:
        return f"{untold} whether {model} leans, asked for {wording.count(measured, 'concept')} without naming a group."
    return f"{opening} is shown to lean for none of them: {rest}."


def strongest(view: LeaningView) -> str:
    """Name the concept that leans the most, with its interval."""
    leaning = [c for c in view.ranked() if view.verdict_group(c.name) in ("a", "b")]
    if not leaning:
        return ""
    concept = max(leaning, key=lambda c: abs(view.pictures[c.name].value))
    row = view.pictures[concept.name]
    label = view.label_a if row.value > 0 else view.label_b
    estimate = wording.with_interval(row.value, row.low, row.high, view.digits)
    images = wording.share_words(view.shares.get(concept.name), view.label_a, view.label_b)
    sentence = f"The strongest: {concept.prompt} leans to {label}, image part {estimate} ({wording.PART_SCALE})"
    return f"{sentence}{f'; {images}' if images else ''}."
