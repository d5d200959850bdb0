"""The sections on whether an encoder reads right: its own errors, other encoders, and what was planted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from clinometer.report import wording
from clinometer.report.figures import Figure
from clinometer.report.readers import confusion_figure
from clinometer.report.rows import BY_COSINES, Row
from clinometer.report.view import View
from clinometer.studies.leaning.figures import planted_figure, planted_probabilities
from clinometer.studies.leaning.scores.encoder_check import UNREAD
from clinometer.studies.leaning.scores.shares import NOT_SHOWN
from clinometer.studies.leaning.view import COMPONENT_NAMES, LeaningView

RATES: Final = ("sensitivity", "specificity", "informedness")


def reader(view: LeaningView) -> dict[str, Any] | None:
    """Gather how the encoders read, and what that makes of shares; None where the run has no such rows."""
    rows = view.scores.select("reader", "informedness", encoder="*")
    names = list(dict.fromkeys(row.encoder for row in rows))
    if not names:
        return None
    encoders = names[1:] if len(names) == 2 else names  # with one encoder the average is that encoder
    unshown = [name for name in view.concepts if name in view.shares and view.shares[name].flag == NOT_SHOWN]
    empty = [row for row in view.scores.select("share", "corrected_share") if not row.defined and row.reason]
    return {
        "encoders": {
            name: [view.scores.first("reader", component, encoder=name) for component in RATES] for name in encoders
        },
        "unread": UNREAD,
        "errors": errors_by_cosines(view, encoders),
        "corrected": view.scores.by_concept("share", "corrected_share"),
        "first": view.scores.by_concept("fidelity", "own_prompt_first"),
        "upper": view.scores.by_concept("fidelity", "own_prompt_upper_half"),
        "missed": view.scores.by_concept("other_audits", "miss_rate"),
        "unshown": unshown,
        "missing": wording.reasons((f"corrected share of {row.concept}", row.reason) for row in empty),
        "prompts": len({view.suite.text_of(target) for target in view.suite.targets}),
    }


def errors_by_cosines(view: View, encoders: Sequence[str]) -> list[tuple[str, Figure]]:
    """Name the reader ``clip`` with each encoder, and draw what it reads each group's images as."""
    figures = []
    for number, encoder in enumerate(encoders):
        name = f"{BY_COSINES}{view.encoder_label(encoder)}"
        figure = confusion_figure(
            view, name, view.scores.select("reader", "confusion", encoder=encoder), f"errors-clip{number}"
        )
        if figure is not None:
            figures.append((name, figure))
    return figures


def sensitivity(view: LeaningView) -> dict[str, Any] | None:
    """Gather a row a component, a column an encoder; left out with a single encoder."""
    rows = view.scores.select("sensitivity", encoder="*")
    if not rows:
        return None

    def column(row: Row) -> str:
        component = COMPONENT_NAMES.get(row.component, row.component)
        if row.setting == "spread":
            return f"{component} between encoders"
        return f"{'τ of ' if row.setting == 'agreement' else ''}{component} by {row.encoder}"

    return {
        "missing": wording.reasons((column(row), row.reason) for row in rows if not row.defined and row.reason),
        "names": COMPONENT_NAMES,
        "found": {(row.component, row.setting, row.encoder): row for row in rows},
    }


APART: Final = 0.03
"""Difference of the shares of men, as the encoder and the judge count them, from which on a concept is named."""


def planted(view: LeaningView) -> dict[str, Any] | None:
    """Compare what was measured with what was planted; left out when nothing was."""
    probabilities = planted_probabilities(view)
    if not probabilities:
        return None
    counted = _select_counted(view)
    estimates = {name: row for name in probabilities if (row := view.shares.get(name)) and row.has_interval}
    inside = sum(row.low <= probabilities[name] <= row.high for name, row in estimates.items())
    concepts = wording.count(len(estimates), "concept")
    apart = {name: row for name, row in counted.items() if _distance(row) >= APART}
    return {
        "share": planted_figure(view, score="share"),
        "part": planted_figure(view, score="image_part"),
        "probabilities": probabilities,
        "by_judge": {name: _share_of_a(view, row["judge"] / row["n"]) for name, row in counted.items()},
        "within": f"For {inside} of {concepts} the 95 % interval holds the planted probability." if estimates else "",
        "verdicts": hold_verdicts_against(view, probabilities),
        "counted": max((int(row["n"]) for row in counted.values()), default=0),
        "of": len(counted),
        "least_apart": APART,
        "apart": dict(sorted(apart.items(), key=lambda item: -_distance(item[1]))),
    }


def _select_counted(view: LeaningView) -> dict[str, Mapping[str, float]]:
    """Find what encoder and independent judge counted in the same images, of the concepts of this run."""
    return {name: row for name, row in (view.report.readings or {}).items() if name in view.concepts}


def _distance(row: Mapping[str, float]) -> float:
    return abs(row["encoder"] - row["judge"]) / row["n"]


def _share_of_a(view: LeaningView, men: float) -> float:
    return men if view.group_a == "man" else 1 - men


def hold_verdicts_against(view: LeaningView, probabilities: Mapping[str, float]) -> list[str]:
    """State how many leanings the verdicts found, missed or turned round, and what they found at parity.

    A concept leans as the judge counts it in many images, or, where nobody counted, as it was planted.
    """
    sides: dict[str, list[str]] = {"found": [], "missed": [], "wrong": [], "false": [], "calm": []}
    counted = _select_counted(view)
    for name, probability in probabilities.items():
        lean = view.verdict_group(name)
        if lean == "unmeasured":
            continue
        ends = [counted[name][end] for end in ("low", "high")] if name in counted else [probability, probability]
        ends = [_share_of_a(view, end) for end in ends] if name in counted else ends
        expected = "a" if min(ends) > 0.5 else "b" if max(ends) < 0.5 else ""
        if lean not in ("a", "b"):
            sides["missed" if expected else "calm"].append(name)
        else:
            sides["found" if lean == expected else "wrong" if expected else "false"].append(name)

    def named(names: Sequence[str]) -> str:
        return f" ({wording.listed(names)})" if names else ""

    leaning, level = len(sides["found"] + sides["missed"] + sides["wrong"]), len(sides["false"] + sides["calm"])
    sentences = []
    if leaning:
        hits = f"{len(sides['found'])} of {wording.count(leaning, 'leaning')} found on the right side"
        sentences.append(f"{hits}, {len(sides['wrong'])} on the wrong one{named(sides['wrong'])}.")
        if sides["missed"]:
            sentences.append(f"Not found in so few images: {wording.listed(sides['missed'])}.")
    if level:
        false_alarms = f"{len(sides['false'])} of {wording.count(level, 'concept')} at parity called leaning"
        sentences.append(f"{false_alarms}{named(sides['false'])}.")
    misread = [
        name for name in sides["wrong"] + sides["false"] if name in counted and _distance(counted[name]) >= APART
    ]
    if misread:
        sentences.append(f"The encoder misreads {wording.listed(misread)}: see below.")
    return sentences


# --- along axes ------------------------------------------------------------------------------------------------------


def planted_on_axes(view: LeaningView) -> dict[str, Any] | None:
    """Find what was planted on each axis of two levels; left out where nothing was."""
    truth = view.report.planted or {}
    axes = {
        axis: list(levels)
        for axis, levels in view.axes.items()
        if len(levels) == 2 and any(levels.keys() <= set(probabilities) for probabilities in truth.values())
    }
    return {"axes": axes, "planted": {name: truth[name] for name in view.concepts if name in truth}} if axes else None


def reader_by_axis(view: LeaningView) -> dict[str, Any] | None:
    """Gather a row an encoder and axis, or level of it; None where the run has no such rows."""
    rows = view.scores.select("reader", "informedness", encoder="*")
    names = list(dict.fromkeys(row.encoder for row in rows))
    if not names:
        return None
    encoders, checks = names[1:] if len(names) == 2 else names, []
    for row in rows:
        if row.encoder in encoders:  # with one encoder the average is that encoder
            axis = next(name for name, levels in view.axes.items() if row.group in levels)
            others = [label for name, label in view.axes[axis].items() if name != row.group]
            rates = [view.scores.first("reader", r, encoder=row.encoder, setting=row.setting) for r in RATES]
            checks.append((row, view.axis_label(axis), others[0] if len(others) == 1 else "the others", rates))
    return {"checks": checks, "unread": UNREAD, "errors": errors_by_cosines(view, encoders)}
