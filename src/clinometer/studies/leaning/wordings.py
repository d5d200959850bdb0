"""The sections on what the words of a prompt do: its wordings and languages, and single words left out."""

from __future__ import annotations

from math import ceil, isfinite
from typing import Any, Final

from clinometer.report import wording
from clinometer.report.rows import ABLATION_METRIC, Row
from clinometer.report.verdicts import digits_of
from clinometer.report.wording import without_estimate
from clinometer.studies.leaning.view import LeaningView

WORDING_SOURCES: Final = {
    "concept": "concept",
    "wording": "wording, alike in all concepts",
    "concept_wording": "concept × wording",
    "noise": "noise, alike in all wordings",
    "image": "single image",
}
"""What the variance of images of several wordings is split into."""


def wordings(view: LeaningView) -> dict[str, Any] | None:
    """Gather the variance by its source, and every concept in all its wordings; None of a suite without wordings."""
    rows = {row.component: row for row in view.scores.select("wording") if not row.concept}
    if not rows or not view.suite.wordings:
        return None
    total = sum(max(row.value, 0.0) for row in rows.values() if row.defined)
    tests = view.scores.by_concept("wording", "by_wording")
    unit = "language" if len(view.suite.languages) > 1 else "wording"
    return {
        "fold": f"Does the {unit} matter?",
        "unit": unit,
        "parts": [
            (words.replace("wording", unit), rows[name], max(rows[name].value, 0) / total if total else 0.0)
            for name, words in WORDING_SOURCES.items()
        ],
        "said": said_of_wordings(rows.get("concept_wording", Row()), tests.values(), unit),
        "apart": [_verdicts_by_wording(view, name, unit) for name, test in tests.items() if test.flag],
        "names": list(next(iter(view.suite.wordings.values()))),
        "concepts": [
            (concept, [view.pictures.get(target) for target in by_wording.values()], tests.get(concept))
            for concept, by_wording in view.suite.wordings.items()
        ],
        "reasons": wording.reasons(
            (WORDING_SOURCES[name].replace("wording", unit), row.reason) for name, row in rows.items() if row.reason
        ),
    }


def said_of_wordings(both: Row, tests: Any, unit: str = "wording") -> str:
    """State whether verdicts depend on the wording, or the language, and for which concepts."""
    names = [row.concept for row in tests if row.flag]
    if not both.defined:
        return f"Whether verdicts depend on the {unit} cannot be told" + (f": {both.reason}." if both.reason else ".")
    whose = "the" if unit == "language" else "its"
    verdict = (
        f"How far a concept leans depends on {whose} {unit}" if both.flag
        else f"It is not shown that how far a concept leans depends on {whose} {unit}"
    )  # fmt: skip
    of = f"; by itself it is shown for {wording.listed(names)}" if names else ""
    return f"{verdict} ({wording.probability(both.p, 'p')}){of}."


def ablation(view: LeaningView) -> dict[str, Any] | None:
    """Gather each prompt with its words coloured by what they do, and all words in a table; None without any.

    A piece of a prompt is its text and, of a word, its row, the side of a verdict, and how strongly it is coloured,
    1 to 4 by its share of the largest effect.
    """
    rows = view.scores.select(ABLATION_METRIC)
    if not rows or not view.suite.ablations:
        return None
    found = {(row.concept, row.setting): row for row in rows}
    largest = max((abs(row.value) for row in rows if wording.decided(row)), default=1.0)
    concepts = []
    for name, left_out in view.suite.ablations.items():
        prompt, pieces, end = view.concepts[name].prompt, list[tuple[str, Row | None, str, int]](), 0
        for each in left_out:
            row = found.get((name, each.word)) or without_estimate(concept=name, setting=each.word)
            lean = "" if not wording.decided(row) else "a" if row.value > 0 else "b"
            pieces.append((prompt[end : each.start], None, "", 0))
            pieces.append(
                (prompt[each.start : each.stop], row, lean, ceil(4 * abs(row.value) / largest) if lean else 0)
            )
            end = each.stop
        concepts.append({"name": name, "pieces": [*pieces, (prompt[end:], None, "", 0)]})
    return {
        "concepts": concepts,
        "rows": rows,
        "total": sum(isfinite(row.p) for row in rows),
        "digits": digits_of(rows),
        "said": ablation_in_words(view)[0],
        "reasons": wording.reasons((f"{row.concept}, {row.setting}", row.reason) for row in rows if row.reason),
    }


MOST_WORDS: Final = 5
"""Words whose effects one sentence tells."""


def ablation_in_words(view: LeaningView) -> tuple[str, ...]:
    """State which words move the pictures, the furthest first; nothing of a run in which none was left out."""
    rows = view.scores.select(ABLATION_METRIC)
    if not rows:
        return ()
    shown = sorted((row for row in rows if wording.decided(row)), key=lambda row: -abs(row.value))
    if not shown:
        return (
            f"None of {wording.count(len(rows), 'word')} is shown to move the pictures; "
            "that does not mean that none does.",
        )
    told = [
        f"“{row.setting}” those of {row.concept} to {view.label(row.side)} "
        f"({wording.signed(row.value, digits_of(rows))}{wording.assumption(row)})"
        for row in shown[:MOST_WORDS]
    ]
    more = len(shown) - len(told)
    rest = f", and {wording.count(more, 'more word')}" if more else ""
    return (f"Of {wording.count(len(rows), 'word')}, {len(shown)} move the pictures: {wording.listed(told)}{rest}.",)


def _verdicts_by_wording(view: LeaningView, concept: str, unit: str) -> str:
    """Word the verdicts on a concept whose wordings are shown to differ: other verdicts, or one by other amounts.

    That one leaning is shown and another is not would say little by itself; here the difference is shown as well.
    """
    targets = view.suite.wordings[concept]
    rows = {name: view.pictures.get(target) or without_estimate(concept=target) for name, target in targets.items()}
    names: dict[str, list[str]] = {}
    for wording_name, row in rows.items():
        names.setdefault(wording.verdict_words(row, view.label) or wording.MISSING, []).append(wording_name)
    if len(names) == 1:
        return f"{concept} {next(iter(names))} in every {unit}, and not as far in all"
    told = "; ".join(f"{words} in {wording.listed(own)}" for words, own in names.items())
    if any(map(wording.not_measured, rows.values())):  # what differs then is no verdict from another
        return f"How far {concept} leans depends on the {unit}: {told}"
    return f"The verdict on {concept} depends on the {unit}: {told}"


def language_caution(view: LeaningView) -> str:
    """Warn of what rests on how an encoder reads another language than English; empty for English prompts."""
    others = [tag for tag in view.suite.languages if tag.lower().split("-")[0] != "en"]
    if not others:
        return ""
    return (
        f"Prompts are in {wording.listed(others)}. The text part, MCAS, and whether pictures match their prompt rest "
        "on how well the encoder reads that, which is not checked here; many read English alone. The image part holds "
        "no prompt, so verdicts on pictures do not."
    )
