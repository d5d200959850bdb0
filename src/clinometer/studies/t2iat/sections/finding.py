"""The first screen of an association study: the finding, the strongest test or prompt, and the verdicts counted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any, Final

from clinometer.report import wording
from clinometer.report.rows import Row
from clinometer.report.sections import facts, nothing_judged, nothing_told, rest_in_words
from clinometer.report.wording import leans, slightly, verdict_group_of
from clinometer.studies.t2iat.figures import effect_figure
from clinometer.studies.t2iat.view import AssociationView
from clinometer.suites import DifferentialTest

MOST_NAMED: Final = 3
"""Tests that the finding names; more are counted."""


def association_masthead(view: AssociationView) -> dict[str, Any]:
    """Title, finding, facts and the effect sizes."""
    return {
        "title": view.report.title,
        "finding": finding(view),
        "strongest": strongest(view),
        "facts": facts(view),
        "figure": effect_figure(view),
        "caption": "Cohen’s d of each test. Thick bars: 95 % over images; thin ones: over prompts too. The shades end "
        "where an effect is called small (0.2), medium (0.5) and large (0.8).",
        "verdict_groups": _verdict_counts(view),
    }


def _verdict_counts(view: AssociationView) -> list[dict[str, Any]]:
    counts: Counter[str] = Counter(verdict_group_of(row) for row in view.judged.values())
    phrases = {
        "b": f"to {view.label_b}",
        "few": "too few images to tell",
        "undecided": "undecided",
        "balanced": "balanced",
        "a": f"to {view.label_a}",
        "unmeasured": "not measured",
    }
    return [{"lean": lean, "count": counts[lean], "words": words} for lean, words in phrases.items() if counts[lean]]


def finding(view: AssociationView) -> str:
    """Word the finding in one sentence: which concept is tied to what, or where prompts lean."""
    counts: Counter[str] = Counter(verdict_group_of(row) for row in view.judged.values())
    model = str(view.report.model_card.get("name", "the model"))
    measured = sum(counts.values()) - counts["unmeasured"]
    if not measured:
        unit = "test" if view.suite.tests else "prompt"
        return nothing_judged(unit, model, view.judged.values())
    if view.suite.tests:
        return _tests_finding(view, model, counts)
    sides = [
        f"to {label} for {wording.count(counts[verdict_group], 'of them', 'of them', words=True)}"
        for verdict_group, label in (("a", view.label_a), ("b", view.label_b))
        if counts[verdict_group]
    ]
    opening, rest = f"Given {wording.count(measured, 'prompt')} that name neither, {model}", rest_in_words(counts)
    if sides:
        return f"{opening} leans {wording.listed(sides)}{f'; {rest}' if rest else ''}."
    untold = nothing_told(counts)
    if untold:
        return f"{untold} whether {model} leans, given {wording.count(measured, 'prompt')} that name neither."
    return f"{opening} is shown to lean for none of them: {rest}."


def _tests_finding(view: AssociationView, model: str, counts: Mapping[str, int]) -> str:
    """Name the concepts, the attribute and the side of the tests that tell, strongest first; and count the others."""
    leaning = [test for test in view.suite.tests if leans(view.judged[test.name])]
    ties = [_tie(view, test) for test in sorted(leaning, key=lambda test: -abs(view.judged[test.name].value))]
    more = len(ties) - MOST_NAMED
    named = ties[:MOST_NAMED] + ([f"so in {wording.count(more, 'more test', words=True)}"] if more > 0 else [])
    others = {verdict_group: n for verdict_group, n in counts.items() if verdict_group not in ("a", "b")}
    rest = rest_in_words(others, one="test")
    if named:
        return f"{model} ties {', and '.join(named)}{f'; {rest}' if rest else ''}."
    question = f"which concepts {model} ties closer to {view.label_a} than to {view.label_b}"
    untold = nothing_told(others)
    return f"{untold or 'It is not shown'} {question}{'' if untold else f': {rest}'}. {_largest(view)}"


def _largest(view: AssociationView) -> str:
    """The test with the largest effect, where none tells."""
    tests = [test for test in view.suite.tests if view.judged[test.name].defined]
    test = max(tests, key=lambda test: abs(view.judged[test.name].value))
    row = view.judged[test.name]
    near = view.label_a if row.value > 0 else view.label_b
    numbers = ", ".join(part for part in (judged_interval(view, row), wording.probability(row.q, "q")) if part)
    return (
        f"The largest difference: “{view.concept_label(test.x)}” closer to {near} than “{view.concept_label(test.y)}”, "
        f"S {wording.signed(row.value, view.digits)} {numbers}.".replace(" .", ".")
    )


def _tie(view: AssociationView, test: DifferentialTest) -> str:
    row = view.judged[test.name]
    near = view.label_a if row.value > 0 else view.label_b
    how = "slightly closer" if slightly(row) else "closer"
    return f"“{view.concept_label(test.x)}” {how} to {near} than “{view.concept_label(test.y)}”"


def strongest(view: AssociationView) -> str:
    """The test with the largest effect that stands out, or the stimulus that leans most: how strong, sure, on what."""
    leaning = {name: row for name, row in view.judged.items() if leans(row)}
    if not leaning:
        return ""
    name = max(leaning, key=lambda test: abs(leaning[test].value))
    row = leaning[name]
    numbers = f"{wording.signed(row.value, view.digits)} {judged_interval(view, row)}".strip()
    q = wording.probability(row.q, "q")
    sure = f" ({q})" if q else ""
    if not view.suite.tests:
        label = view.label_a if row.value > 0 else view.label_b
        rests = f", from {wording.count(row.n_target, 'image')}" if row.n_target else ""
        return f"The strongest: {view.subject(name)} leans to {label}, Asc {numbers}{sure}{rests}."
    effect = view.effect_sizes.get(name)
    size = f", {effect_words(effect)}" if effect is not None and effect.defined else ""
    sentence = f"The strongest: {view.subject(name)}, S {numbers}{size}{sure}."
    return f"{sentence} {_prompt_directions(view, name)}".strip()


def _prompt_directions(view: AssociationView, name: str) -> str:
    """To which side the pictures of both concepts lie, prompt by prompt, and what that rests on."""
    test = next(test for test in view.suite.tests if test.name == name)
    directions = [
        f"{near} of {n} about “{view.concept_label(concept)}”"
        for concept in (test.x, test.y)
        for near, n in [_towards_a(view, concept)]
        if n
    ]
    row = view.judged[name]
    rests = f" It rests on {wording.count(row.n_target, 'neutral image')} of both." if row.n_target else ""
    return (
        f"Of the prompts, {wording.listed(directions)} lie towards {view.label_a}.{rests}"
        if directions
        else rests.strip()
    )


def _towards_a(view: AssociationView, concept: str) -> tuple[int, int]:
    """How many of a concept's prompts measure positive, and of how many."""
    rows = [view.associations.get(stimulus.name) for stimulus in view.suite.concepts[concept].stimuli]
    values = [row.value for row in rows if row is not None and row.defined]
    return sum(value > 0 for value in values), len(values)


def magnitude(row: Row) -> str:
    """Cohen's word for an effect size: its thresholds are the paper's."""
    words = (("negligible", 0.2), ("small", 0.5), ("medium", 0.8))
    return next((word for word, below in words if abs(row.value) < below), "large")


def judged_interval(view: AssociationView, row: Row) -> str:
    """The interval that a verdict rests on, in brackets."""
    return wording.interval(*judged_ends(view, row), view.digits)


def judged_ends(view: AssociationView, row: Row) -> tuple[float, float]:
    """The interval that a verdict rests on: over prompts for tests, over images for stimuli."""
    return (row.stimulus_low, row.stimulus_high) if view.suite.tests else (row.low, row.high)


def effect_words(effect: Row | None) -> str:
    """An effect size with Cohen's word: ``d +1.05, large``."""
    return f"d {wording.signed(effect.value)}, {magnitude(effect)}" if effect is not None and effect.defined else ""
