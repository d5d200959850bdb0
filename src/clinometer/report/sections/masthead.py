"""Who was asked what, and the finding in one sentence."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from clinometer.report import wording
from clinometer.report.figures import overview_figure
from clinometer.report.rows import Row
from clinometer.report.sections.protocol import protocol_in_short
from clinometer.report.view import LeaningView, View


def masthead(view: LeaningView) -> dict[str, Any]:
    """Title, finding, facts and the dial."""
    report = view.report
    return {
        "title": report.title,
        "model": str(report.model_card.get("name", "unnamed model")),
        "finding": finding(view),
        "strongest": strongest(view),
        "facts": facts(view),
        "figure": overview_figure(view),
        "caption": caption(view),
        "heaps": heap_counts(view),
    }


def caption(view: LeaningView) -> str:
    """Say how the dial reads."""
    drawn = {concept.category for concept in view.ranked()}
    rings = [view.category_label(name) for name in reversed(view.suite.categories) if name in drawn]
    named = f"Rings, from outside in: {', '.join(rings)}" if len(rings) > 1 else f"The ring: {', '.join(rings)}"
    scale = "" if strongest(view) else f" ({wording.MCAS_SCALE})"
    return (
        f"Every concept on one dial: upright is no leaning. {f'{named}. ' if rings else ''}"
        f"Arcs are 95\N{NARROW NO-BREAK SPACE}% intervals of MCAS{scale}."
    )


def heap_counts(view: LeaningView) -> list[dict[str, Any]]:
    """How many concepts each verdict holds, from leaning to B to leaning to A."""
    counts: Counter[str] = Counter(view.heap(name) for name in view.concepts)
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
    counts: Counter[str] = Counter(view.heap(name) for name in view.concepts)
    measured = sum(counts.values()) - counts["unmeasured"]
    model = str(view.report.model_card.get("name", "the model"))
    if not measured:
        return nothing_judged("concept", model, view.mcas.values())
    asked = f"Asked for {wording.count(measured, 'concept')} without naming a group, {model}"
    leans = [
        f"to {label} for {wording.count(counts[heap], 'of them', 'of them', words=True)}"
        for heap, label in (("a", view.label_a), ("b", view.label_b))
        if counts[heap]
    ]
    rest = rest_in_words(counts)
    if leans:
        return f"{asked} leans {wording.listed(leans)}{f'; {rest}' if rest else ''}."
    untold = nothing_told(counts)
    if untold:
        return f"{untold} whether {model} leans, asked for {wording.count(measured, 'concept')} without naming a group."
    return f"{asked} is shown to lean for none of them: {rest}."


def nothing_told(counts: Mapping[str, int]) -> str:
    """The beginning of a sentence where all that was measured is of one heap that tells nothing; else empty."""
    heaps = {heap for heap, n in counts.items() if n and heap != "unmeasured"}
    if heaps == {"few"}:
        return "There are too few images to tell"
    return "The images do not tell" if heaps == {"undecided"} else ""


def rest_in_words(counts: Mapping[str, int], one: str = "") -> str:
    """The heaps that name no side, counted: ``three are shown balanced and for ten the images do not tell``.

    What the images cannot tell is never worded as no leaning. ``one`` : what is counted, where it is not said before.
    """
    told = (
        ("balanced", "{} is shown balanced", "{} are shown balanced"),
        ("undecided", "for {} the images do not tell", "for {} the images do not tell"),
        ("few", "{} has too few images to tell", "{} have too few images to tell"),
    )
    said = [
        (singular if counts[heap] == 1 else plural).format(
            wording.count(counts[heap], one, words=True) if one else wording.numeral(counts[heap])
        )
        for heap, singular, plural in told
        if counts.get(heap)
    ]
    return wording.listed(said)


def nothing_judged(unit: str, model: str, rows: Iterable[Row]) -> str:
    """Say that there is no score, or that there are some and none with what a verdict needs."""
    if any(row.defined for row in rows):
        return f"Nothing could be judged: no {unit} of the suite has a score with an interval and a q for {model}."
    return f"Nothing could be measured: no {unit} of the suite has a score for {model}."


def strongest(view: LeaningView) -> str:
    """Name the concept that leans the most, with its interval."""
    leaning = [c for c in view.ranked() if view.heap(c.name) in ("a", "b")]
    if not leaning:
        return ""
    concept = max(leaning, key=lambda c: abs(view.mcas[c.name].value))
    row = view.mcas[concept.name]
    label = view.label_a if row.value > 0 else view.label_b
    shown = f"{wording.signed(row.value, view.digits)} {wording.interval(row.low, row.high, view.digits)}".strip()
    images = wording.share_words(view.shares.get(concept.name), view.label_a, view.label_b)
    told = f"The strongest: {concept.prompt} leans to {label}, MCAS {shown} ({wording.MCAS_SCALE})"
    return f"{told}{f'; {images}' if images else ''}."


def facts(view: View) -> list[tuple[str, str]]:
    """List the facts under the title: a name and a value each."""
    report = view.report
    settings = report.settings
    held = [
        ("Model", str(report.model_card.get("name", "unnamed"))),
        ("Suite", report.suite.title),
        ("Protocol", protocol_in_short(report.departures)),
        ("Images", image_counts(view)),
        (
            "Encoder" if len(report.encoder_cards) == 1 else "Encoders",
            ", ".join(report.encoder_cards) or "none",
        ),
        ("Seed", str(settings.get("seed", ""))),
        ("Date", str(settings.get("created", settings.get("date", "")))[:10]),
    ]
    return [(name, value) for name, value in held if value]


def image_counts(view: View) -> str:
    """How many images were drawn, and what became of the others."""
    samples = view.report.samples
    statuses = Counter(samples["status"]) if "status" in samples else Counter()
    if not statuses:
        return "none"
    others = [f"{statuses[status]:,} {status}" for status in ("refused", "failed", "blank") if statuses[status]]
    return ", ".join([f"{statuses['ok']:,} drawn", *(others or ["none refused or failed"])])
