"""The page of a T2IAT study: the finding, the verdicts, tests, distributions, arrows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from clinometer.report import sections, wording
from clinometer.report.gallery import Strip, all_there, counts_in_words, losses
from clinometer.report.page import Page, Section
from clinometer.report.verdicts import Verdicts
from clinometer.report.view import FEWEST_PER_PROMPT, MOST_IMAGES, MOST_PER_PROMPT, Row, Samples
from clinometer.studies.t2iat.figures import (
    T2IATView,
    arrow_figure,
    arrow_limits,
    distribution_figure,
    distribution_limits,
    effect_figure,
)
from clinometer.suites import DifferentialTest

MOST_NAMED: Final = 3
"""Tests that the finding names; more are counted."""

OPENED: Final = 3
"""Prompts whose pictures are seen without opening anything, and on paper."""

QUARTILES: Final = ("lower_quartile", "median", "upper_quartile")


# --- the finding and the verdicts ------------------------------------------------------------------------------------


def note(view: T2IATView, row: Row) -> str:
    """Explain why there is no verdict, or how many images would decide, prompts in proportion where these are permuted.

    Where prompts permuted by chance do as well, no number of images would.
    """
    if wording.not_measured(row) or row.reason:
        return wording.reason_words(row)
    words = wording.needed(row, "neutral images", beside="with prompts in proportion" if view.suite.tests else "")
    if view.suite.tests and not words and wording.held_back(row, *row.ends(view.over)):
        return "prompts permuted at random give as large a value: more images alone would not decide"
    return words


def _tests_finding(view: T2IATView, others: Mapping[str, int]) -> str:
    """Name concepts, attribute and side of the tests with a verdict, strongest first; and count the others."""
    leaning = [test for test in view.suite.tests if wording.leans(view.judged[test.name])]
    leaning.sort(key=lambda test: -abs(view.judged[test.name].value))
    named = [
        _tie(view, test, "slightly closer" if wording.slightly(view.judged[test.name]) else "closer")
        for test in leaning[:MOST_NAMED]
    ]
    if more := leaning[MOST_NAMED:]:
        named.append(f"so in {wording.count(len(more), 'more test', words=True)}")
    rest = sections.rest_in_words(others, one="test")
    if named:
        return f"{view.model} ties {', and '.join(named)}{f'; {rest}' if rest else ''}."
    question = f"which concepts {view.model} ties closer to {view.label_a} than to {view.label_b}"
    untold = sections.nothing_told(others)
    test = max(
        (test for test in view.suite.tests if view.judged[test.name].defined),
        key=lambda test: abs(view.judged[test.name].value),
    )
    row = view.judged[test.name]
    numbers = [wording.estimate(row, view.digits, over=view.over), wording.probability(row.q, "q")]
    return (
        f"{untold or 'It is not shown'} {question}{'' if untold else f': {rest}'}. The largest difference: "
        f"{_tie(view, test, 'closer')}, S {', '.join(part for part in numbers if part)}."
    )


def _tie(view: T2IATView, test: DifferentialTest, how: str) -> str:
    near = view.label_a if view.judged[test.name].value > 0 else view.label_b
    return f"“{view.concept_label(test.x)}” {how} to {near} than “{view.concept_label(test.y)}”"


# --- numbers ---------------------------------------------------------------------------------------------------------


def tests(view: T2IATView) -> dict[str, Any] | None:
    """Gather all that is needed to defend a test; return None where the suite has none."""
    if not view.suite.tests:
        return None
    encoders = view.encoders if len(view.encoders) > 1 else []
    return {
        "how": sorted({row.test for row in view.statistics.values() if row.test}),
        "splits": wording.splits,
        "by_encoder": {
            name: view.scores.by_concept("t2iat", "differential_association", encoder=name) for name in encoders
        },
    }


def distributions(view: T2IATView) -> dict[str, Any]:
    """Gather a figure of distributions for each concept, and the quartiles."""
    limits = distribution_limits(view)
    figures = [(view.concept_label(name), distribution_figure(view, name, limits)) for name in view.suite.concepts]
    rows = [(concept, name) for concept in view.suite.concepts for name in view.ordered(concept)]
    named = {name for _, name in rows}
    return {
        "figures": [entry for entry in figures if entry[1] is not None],
        "rows": rows,
        "quartiles": [view.scores.by_concept("association", part) for part in QUARTILES],
        "missing": [stimulus.name for _, stimulus in view.suite.stimuli() if stimulus.name not in named],
        "few": any(map(wording.too_few, view.associations.values())),
    }


def amplification(view: T2IATView) -> dict[str, Any] | None:
    """Gather arrows for each concept, and the mean change; return None where no prompt has both ends of an arrow."""
    rows = [row for row in view.scores.by_concept("amplification", "amplification").values() if row.defined]
    if not rows:
        return None
    limits, change = arrow_limits(view), view.scores.by_concept("amplification", "change")
    figures = [(view.concept_label(name), arrow_figure(view, name, limits)) for name in view.suite.concepts]
    beyond = [row for row in rows if row.value > 0]
    certain = sum(change[row.concept].q <= 0.05 for row in beyond)
    overall = {
        concept: [
            next((r for r in view.scores.select("amplification", part, category=concept) if not r.concept), None)
            for part in ("change", "amplification")
        ]
        for concept in (*view.suite.concepts, "all")
    }
    sentence = (
        f"For {len(beyond)} of {wording.count(len(rows), 'prompt')} the images lean farther than the text in the "
        f"text’s own direction; for {certain} of those the change has a q of at most 0.05."
    )
    if why := wording.withheld(view.judged.values()):
        sentence = f"Whether they do could not be judged: {why}."
    return {
        "figures": [entry for entry in figures if entry[1] is not None],
        "sentence": sentence,
        "overall": {concept: pair for concept, pair in overall.items() if any(pair)},
    }


# --- pictures --------------------------------------------------------------------------------------------------------


def gallery(view: T2IATView) -> dict[str, Any]:
    """Gather strips of every stimulus, concept by concept, and what was refused."""
    samples = Samples(view.report.samples)
    if not samples:
        return {"reason": "The run has no images."}
    by_group = samples.by("concept", "group")
    limit = max(FEWEST_PER_PROMPT, min(MOST_PER_PROMPT, MOST_IMAGES // len(by_group)))
    concepts = {}
    farthest = sorted(view.associations.values(), key=lambda row: (not wording.leans(row), -abs(row.value)))
    opened = [row.concept for row in farthest if row.defined][:OPENED]
    for name, concept in view.suite.concepts.items():
        stimuli = []
        for stimulus in concept.stimuli:
            pictures = [by_group.get((stimulus.name, group), samples[:0]) for group in ("", *view.suite.pair)]
            labels = (concept.neutral_prompt(stimulus), *map(view.label, view.suite.pair))
            stimuli.append(
                {
                    "name": stimulus.name,
                    "is_open": stimulus.name in opened,
                    "strips": [_strip(view, *strip, limit) for strip in zip(labels, pictures, strict=True)],
                    "counts": counts_in_words(*pictures),
                }
            )
        concepts[name] = stimuli
    return {
        "reason": "",
        "concepts": concepts,
        "losses": losses(view, samples),
        "refusal": sections.refusal_words(view),
        "there": all_there(len(samples)),
    }


def _strip(view: T2IATView, label: str, samples: Samples, limit: int) -> Strip:
    """Return a strip of images, every n-th of them where there are more than ``limit``, so that every word is seen."""
    step = max(1, -(-len(samples) // limit))
    selection = samples[::step]
    tiles = [
        view.album.tile(sample, f"{sample['prompt']}, image {order * step + 1} of {len(samples)}")
        for order, sample in enumerate(selection)
    ]
    return Strip(label, tiles, len(samples) - len(selection))


class T2IATPage(Page[T2IATView]):
    """The page of a T2IAT study."""

    view = T2IATView
    package = "clinometer.studies.t2iat"

    def finding(self, view: T2IATView) -> str:
        """Word the finding in one sentence: which concept is tied to what, or where prompts lean."""
        counts = self.verdicts(view)[0].counts()
        if counts.total() == counts["unmeasured"]:
            return sections.nothing_judged("test" if view.suite.tests else "prompt", view.model, view.judged.values())
        if view.suite.tests:
            return _tests_finding(view, {group: n for group, n in counts.items() if group not in ("a", "b")})
        prompts = f"given {wording.count(counts.total(), 'prompt')} that name neither"
        return sections.leanings_in_words(counts, prompts, view.model, (view.label_a, view.label_b))

    def strongest(self, view: T2IATView) -> str:
        """Name the test with the largest effect, or the stimulus that leans most, and what that rests on."""
        leaning = [row for row in view.judged.values() if wording.leans(row)]
        if not leaning:
            return ""
        row = max(leaning, key=lambda row: abs(row.value))
        subject, numbers = view.subject(row.concept), wording.estimate(row, view.digits, over=view.over)
        q = wording.probability(row.q, "q")
        sure = f" ({q})" if q else ""
        if not view.suite.tests:
            label = view.label_a if row.value > 0 else view.label_b
            rests = f", from {wording.count(row.n_target, 'image')}" if row.n_target else ""
            return f"The strongest of those that lean: {subject}, to {label}, Asc {numbers}{sure}{rests}."
        effect = view.effect_words(row.concept)
        sentences = [
            f"The strongest of those that lean: {subject}, S {numbers}{f', {effect}' if effect else ''}{sure}."
        ]
        test = next(test for test in view.suite.tests if test.name == row.concept)
        directions = []
        for concept in (test.x, test.y):
            rows = [view.associations.get(stimulus.name) for stimulus in view.suite.concepts[concept].stimuli]
            values = [each.value for each in rows if each is not None and each.defined]
            if values:
                near = sum(value > 0 for value in values)
                directions.append(f"{near} of {len(values)} about “{view.concept_label(concept)}”")
        if directions:
            sentences.append(f"Of the prompts, {wording.listed(directions)} are nearer to {view.label_a}.")
        if row.n_target:
            sentences.append(f"It is based on {wording.count(row.n_target, 'neutral image')} of both concepts.")
        return " ".join(sentences)

    def meaning(self, view: T2IATView) -> str:
        """Explain in one sentence what a test that names a side means, or a prompt that leans."""
        a, b = view.label_a, view.label_b
        than = f"those of Y, relative to {b}" if view.suite.tests else f"to those drawn with {b}"
        pictures = "the pictures of X" if view.suite.tests else "the pictures of a prompt"
        return (
            f"Where a side is named, {pictures} are, to the encoder, nearer to pictures drawn with {a} than {than} (or "
            "the other way round), and by more than chance explains."
        )

    def verdicts(self, view: T2IATView) -> tuple[Verdicts]:
        """Judge every test, or every stimulus where the suite has no tests."""
        has_tests = bool(view.suite.tests)
        verb = f"ties X closer to {view.label_a} than Y" if has_tests else f"leans to {view.label_a}"
        return (
            Verdicts(
                "test" if has_tests else "prompt", "S" if has_tests else "Asc",
                f"+ {verb}, {wording.MINUS} to {view.label_b}", list(view.judged.values()), view.label, over=view.over,
                drawn="neutral images",
                digits=view.digits, name=lambda row: view.subject(row.concept), short_name=lambda row: row.concept,
                notes=lambda row: (view.effect_words(row.concept), note(view, row), wording.bounds_words(row)),
                effects=view.effect_sizes if has_tests else None, is_ranked=not has_tests,
            ),
        )  # fmt: skip

    def lead(self, view: T2IATView) -> dict[str, Any]:
        """Lead the page with the finding and the effect sizes."""
        return sections.masthead(
            view,
            self.finding(view),
            self.strongest(view),
            marks=self.verdicts(view)[0].marks((view.label_a, view.label_b)),
            figure=effect_figure(view),
            caption="Cohen’s d of each test. Thick bars: 95 % intervals over images; thin ones: over prompts too. The "
            "shading ends where an effect is called small (0.2), medium (0.5) and large (0.8).",
        )

    def method(self, view: T2IATView) -> dict[str, Any]:
        """Gather cards, settings, words and limits."""
        return sections.measured_how(view) | {
            "families": sorted(family for (family,) in view.scores.distinct("family") if family)
        }

    def verdict_lists(self, view: T2IATView) -> dict[str, Any]:
        """List tests, or stimuli, by their verdicts, the strongest first."""
        (judged,) = self.verdicts(view)
        return {
            "judged": judged,
            "lists": judged.lists((view.label_a, view.label_b), view.suite.margin),
            "note": lambda row: note(view, row),
        }

    def own_sections(self) -> Sequence[Section]:
        """Return the sections of this study alone."""
        return (
            Section("verdicts", "Verdicts", self.verdict_lists, "verdicts"),
            Section("tests", "Differential association", tests, "tests"),
            Section("distributions", "Prompt by prompt", distributions, "distributions"),
            Section("amplification", "From text to images", amplification, "amplification"),
            Section("gallery", "The pictures", gallery, "gallery", "pictures"),
        )


PAGE: Final = T2IATPage()
