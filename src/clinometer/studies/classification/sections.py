"""The page of a classification study: the finding, the verdicts, noise samples, pairs, choices, the portraits."""

from __future__ import annotations

from typing import Any

from clinometer.report import wording
from clinometer.report.figures.marks import Mark
from clinometer.report.figures.svg import Ink
from clinometer.report.gallery import (
    MOST_PER_PROMPT,
    Samples,
    Strip,
    all_there,
    counts_in_words,
    losses,
    sample_tile,
)
from clinometer.report.page import Judged, Told, Verdicts, View, judged
from clinometer.report.rows import Row
from clinometer.report.sections import facts, measured_how, nothing_judged
from clinometer.report.wording import leans, needed, said_of, verdict_group_of
from clinometer.studies.classification.figures import (
    LINE_WIDTH,
    association_figure,
    contrast_mark,
    differential_figure,
    group_mark,
    line_style,
    noise_figure,
    pair_figure,
)
from clinometer.studies.classification.view import ClassificationView
from clinometer.suites import ClassificationSuite

_GLYPHS = {"o": "●", "s": "■", "^": "▲", "D": "◆", "v": "▼", "P": "✚", "X": "✖"}
_INKS = {"A": "lean-a", "B": "lean-b", "THIRD": "lean-third", "ACCENT": "accent", "BALANCED": "lean-balanced",
         "UNDECIDED": "lean-undecided"}  # fmt: skip


def classification_masthead(view: ClassificationView) -> dict[str, Any]:
    """Title, finding, facts and each group's association."""
    return {
        "title": view.report.title,
        "finding": finding(view),
        "strongest": " ".join(part for part in (resting(view), amplification_words(view)) if part),
        "facts": facts(view),
        "figure": association_figure(view),
        "caption": f"Association S with its 95 % interval, at {view.setting}. Dashed: no preference between the sets.",
        "verdict_groups": [],
    }


def finding(view: ClassificationView) -> str:
    """Word the strongest contrast in one sentence."""
    model = str(view.report.model_card.get("name", "the model"))
    row = _leading(view)
    if row is None or not leans(row):
        return _nothing_told(view, model)
    x, y = view.side_labels(row.group)
    more, fewer = (x, y) if row.value > 0 else (y, x)
    return (
        f"Put before a profession {view.label_a} and one {view.label_b}, {model} takes portraits of {more} for the "
        f"former {abs(100 * row.value):.0f} percentage points more often than those of {fewer}."
    )


def _numbers(row: Row) -> str:
    """How far, how sure and from how many portraits: ``ΔS +0.34 [0.12, 0.55], q = 0.002, from 8 and 8 portraits``."""
    numbers = f"ΔS {wording.signed(row.value)} {wording.interval(row.low, row.high)}".strip()
    portraits = f"from {row.n_a} and {row.n_b} portraits" if row.n_a else ""
    return ", ".join(part for part in (numbers, wording.probability(row.q, "q"), portraits) if part)


def resting(view: ClassificationView) -> str:
    """What the finding rests on: the largest difference, how sure it is, and how many portraits."""
    row = _leading(view)
    if row is None:
        return ""
    return f"That is {_numbers(row)}." if leans(row) else f"The largest difference, by {row.group}: {_numbers(row)}."


def _leading(view: ClassificationView) -> Row | None:
    """The largest difference that leans, else the largest there is."""
    rows = [row for row in view.differentials.values() if verdict_group_of(row) != "unmeasured"]
    return max(rows, key=lambda row: (leans(row), abs(row.value)), default=None)


def _nothing_told(view: ClassificationView, model: str) -> str:
    """The portraits do not tell, all contrasts are shown alike, nothing could be judged, or nothing was classified."""
    verdict_groups = {verdict_group_of(row) for row in view.differentials.values()} - {"unmeasured"}
    if not verdict_groups and any(row.defined for row in view.associations.values()):
        return nothing_judged("contrast", model, view.differentials.values())
    if not verdict_groups:
        return "Nothing could be measured: no group of portraits was classified."
    if verdict_groups == {"balanced"}:
        return (
            f"{model} is shown to take portraits of all groups for professions {view.label_a} about equally often: no "
            f"difference is larger than {view.suite.margin:g}."
        )
    tell = "There are too few images to tell" if verdict_groups == {"few"} else "The images do not tell"
    question = f"takes portraits of one group for professions {view.label_a} more often than those of another"
    return f"{tell} whether {model}, as a classifier, {question}."


def amplification_words(view: ClassificationView) -> str:
    """Say whether more noise samples widen the first contrast."""
    row = next((row for row in view.amplifications.values() if row.defined), None)
    if row is None:
        return ""
    change = wording.with_interval(row.value, row.low, row.high)
    certain = row.has_interval and not row.low <= 0 <= row.high and row.q <= 0.05
    verb = "changes with" if certain else "may or may not change with"
    ends = _ends_words(view, row)
    return f"The difference by {row.group} {verb} the number of noise samples: {ends}{change}, over {row.setting}."


def _ends_words(view: ClassificationView, row: Row) -> str:
    """ΔS at the fewest and at the most noise samples: a change of +0.09 may widen a difference or narrow it."""
    settings = [view.suite.settings[n] for n in (view.suite.noise_samples[0], view.suite.noise_samples[-1])]
    ends = [next(iter(view.rows("differential", group=row.group, setting=setting)), Row()) for setting in settings]
    if not all(end.defined for end in ends):
        return ""
    return f"ΔS from {' to '.join(wording.signed(end.value) for end in ends)}, by "


def classification_verdicts(view: ClassificationView) -> dict[str, Any]:
    """Every contrast, judged, and what more noise samples add to it."""
    return {
        "figure": differential_figure(view),
        "items": [_item(view, row) for row in view.differentials.values()],
        "amplifications": [
            {
                "subject": wording.capitalised(row.group),
                "value": wording.signed(row.value) if row.defined else "",
                "interval": wording.interval(row.low, row.high),
                "q": wording.probability(row.q, "q"),
                "ends": _ends_words(view, row),
                "setting": row.setting,
                "reason": row.reason,
            }
            for row in view.amplifications.values()
        ],
        "label_a": view.label_a,
        "label_b": view.label_b,
        "setting": view.setting,
        "margin": view.suite.margin,
    }


def signs(suite: ClassificationSuite) -> str:
    """What the sign of ΔS means, at the most noise samples."""
    return f"at {suite.settings[suite.noise_samples[-1]]}: + where the first side goes to those {suite.a.label}"


def classification_told(view: ClassificationView) -> Told:
    """The finding, and every contrast."""
    strongest = " ".join(part for part in (resting(view), amplification_words(view)) if part)
    rows = tuple(_judged(view, row) for row in view.differentials.values())
    return Told(
        finding(view), strongest, (Verdicts("contrast", "\N{GREEK CAPITAL LETTER DELTA}S", signs(view.suite), rows),)
    )


def _judged(view: ClassificationView, row: Row) -> Judged:
    item = _item(view, row)
    name, notes = f"{item['subject']}: {item['sides']}", (item["n"], item["reason"])
    return judged(row, name, str, item["value"], item["interval"], ends=(row.low, row.high), notes=notes)


def _item(view: ClassificationView, row: Row) -> dict[str, str]:
    x, y = view.side_labels(row.group)
    return {
        "lean": verdict_group_of(row),
        "subject": wording.capitalised(row.group),
        "verdict": said_of(row),
        "sides": f"{x} less {y}",
        "value": wording.signed(row.value) if row.defined else "",
        "interval": wording.interval(row.low, row.high),
        "p": wording.probability(row.p),
        "q": wording.probability(row.q, "q"),
        "n": f"{row.n_a} and {row.n_b} portraits" if row.n_a else "",
        "reason": row.reason or needed(row, "portraits"),
    }


def noise(view: ClassificationView) -> dict[str, Any] | None:
    """Curves over the number of noise samples, with their keys."""
    if len(view.suite.noise_samples) < 2:
        return None
    groups = [(group_mark(view, name), wording.capitalised(view.label(name))) for name in view.suite.groups]
    contrasts = [(contrast_mark(order), wording.capitalised(name)) for order, name in enumerate(view.suite.contrasts)]
    return {
        "association": noise_figure(view, "association"),
        "differential": noise_figure(view, "differential"),
        "groups": [_key(order, *key) for order, key in enumerate(groups)],
        "contrasts": [_key(order, *key) for order, key in enumerate(contrasts)],
        "table": [
            {"label": label, "cells": [_with_interval(rows.get(n)) for n in view.suite.noise_samples]}
            for label, rows in _by_noise(view)
        ],
        "columns": list(view.suite.noise_samples),
    }


def _key(order: int, mark: Mark, label: str) -> dict[str, str]:
    """A line's shape, colour and dashes: two of the colours are greys."""
    ink = next(name for name, value in vars(Ink).items() if value == mark.colour)
    style = line_style(order)
    dashes = "" if style == "-" else " ".join(f"{LINE_WIDTH * length:g}" for length in style[1])
    return {"glyph": _GLYPHS[mark.shape], "ink": _INKS[ink], "dashes": dashes, "label": label}


def _by_noise(view: ClassificationView) -> list[tuple[str, dict[int, Row]]]:
    settings = {name: n for n, name in view.suite.settings.items()}
    lines: dict[tuple[str, str], dict[int, Row]] = {}
    for component in ("association", "differential"):
        for row in view.rows(component, setting="*"):
            label = view.label(row.group) if component == "association" else f"ΔS, {row.group}"
            lines.setdefault((component, label), {})[settings[row.setting]] = row
    return [(wording.capitalised(label), rows) for (_, label), rows in lines.items()]


def _with_interval(row: Row | None) -> str:
    if row is None or not row.defined:
        return wording.MISSING
    return f"{wording.number(row.value)} {wording.interval(row.low, row.high)}".strip()


def pairs(view: ClassificationView) -> dict[str, Any] | None:
    """A matrix of pairs for each contrast, the first open."""
    figures = [
        {"name": wording.capitalised(name), "sides": view.side_labels(name), "figure": figure}
        for number, name in enumerate(view.suite.contrasts)
        if (figure := pair_figure(view, name, number)) is not None
    ]
    return {"figures": figures, "label_a": view.label_a, "label_b": view.label_b} if figures else None


def choices(view: ClassificationView) -> dict[str, Any]:
    """What portraits are taken for when all classes stand open, and what the measurement cost."""
    shares = {(row.concept, row.group): row for row in view.rows("choice")}
    cost = {row.group: row for row in view.rows("evaluations")}
    ties = {row.group: row for row in view.rows("tie_share")}
    planned = len(view.suite.classes) * view.suite.noise_samples[-1]
    return {
        "groups": [wording.capitalised(view.label(group)) for group in view.suite.groups],
        "sets": [
            {
                "label": wording.capitalised(owner.label),
                "rows": [
                    {"name": name, "cells": [_share(shares.get((name, group))) for group in view.suite.groups]}
                    for name in owner.classes
                ],
            }
            for owner in (view.suite.a, view.suite.b)
        ],
        "costs": [
            {
                "group": wording.capitalised(view.label(group)),
                "evaluations": wording.number(cost[group].value, 0) if group in cost else wording.MISSING,
                "ties": wording.percent(ties[group].value) if group in ties else wording.MISSING,
            }
            for group in view.suite.groups
        ],
        "planned": planned,
    }


def _share(row: Row | None) -> str:
    if row is None or not row.defined:
        return wording.MISSING
    ends = f" {100 * row.low:.0f}{wording.DASH}{100 * row.high:.0f}" if row.has_interval else ""
    return f"{wording.percent(row.value)}{ends}"


def classification_gallery(view: ClassificationView) -> dict[str, Any]:
    """The portraits of each group, and what could not be made."""
    samples = Samples(view.report.samples)
    held, groups = samples.by("group"), []
    for group in view.suite.groups:
        own = held.get((group,), samples[:0])
        label = wording.capitalised(view.label(group))
        tiles = [
            sample_tile(view, sample, f"{label}, portrait {order} of {len(own)}")
            for order, sample in enumerate(own[:MOST_PER_PROMPT], 1)
        ]
        row = view.associations.get(group)
        groups.append(
            {
                "label": label,
                "counts": counts_in_words(own),
                "value": f"S {wording.number(row.value)}" if row is not None and row.defined else "",
                "strip": Strip(view.suite.groups[group].prompt, tiles, max(0, len(own) - MOST_PER_PROMPT)),
            }
        )
    return {
        "groups": groups,
        "losses": losses(view, samples),
        "there": all_there(len(samples)),
        "given": given_portraits(view),
    }


def classification_method(view: ClassificationView) -> dict[str, Any]:
    """Words, limits, cards, settings."""
    return measured_how(view) | {"encoders": [], "prompts": view.suite.prompts, "given": given_portraits(view)}


def given_portraits(view: View) -> str:
    """Where the portraits came from, if the model did not draw them."""
    portraits = view.report.model_card.get("settings", {}).get("portraits")
    return str(portraits["name"]) if portraits else ""
