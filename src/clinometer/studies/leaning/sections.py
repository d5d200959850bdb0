"""The sections on numbers: MCAS, internal bias, other audits, words of a prompt, and whether encoders read right."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import ceil, isfinite
from typing import Any, Final

from clinometer.report import wording
from clinometer.report.figures import ENCODER_SHAPES, SHAPE_CHARACTERS, Figure
from clinometer.report.readings import confusion_figure
from clinometer.report.verdicts import digits_of
from clinometer.report.view import ABLATION_METRIC, BY_COSINES, OWN_TEXT_METRIC, PRIOR_METRIC, Row, View
from clinometer.report.wording import too_few, without_estimate
from clinometer.studies.leaning.figures import (
    category_figure,
    component_figure,
    encoder_figure,
    internal_bias_figure,
    lean_limits,
    planted_figure,
    planted_probabilities,
)
from clinometer.studies.leaning.scores.encoder_check import UNREAD
from clinometer.studies.leaning.scores.shares import NOT_SHOWN
from clinometer.studies.leaning.view import COMPONENT_NAMES, MCAS_SCALE, LeaningView

# --- MCAS, its stages, its encoders ----------------------------------------------------------------------------------


def categories(view: LeaningView) -> dict[str, Any]:
    """Gather what MCAS says of each concept, a figure for each category, and the table of category statistics."""
    limits = lean_limits(view)
    figures = [(view.category_label(name), category_figure(view, name, limits)) for name in view.suite.categories]
    return {
        "concepts": [concept.name for concept in view.ranked(by=view.mcas)],
        "source": lambda name: view.source(name).value,
        "sources": view.sources_in_words(),
        "scale": MCAS_SCALE,
        "figures": [entry for entry in figures if entry[1] is not None],
        "statistics": category_statistics(view),
        "stimulus": any(row.has_stimulus_interval for row in view.mcas.values()),
        "few": any(map(too_few, view.mcas.values())),
    }


def category_statistics(view: LeaningView) -> dict[str, list[tuple[Row, Row]]]:
    """Find mean and standard deviation of MCAS, by category: of concepts measured positive, negative, and of all."""

    def statistic(category: str, group: str, component: str) -> Row:
        rows = view.scores.select("category" if group == "all" else "category_by_sign", component, category=category)
        return next((row for row in rows if row.group in (("", "all") if group == "all" else (group,))), Row())

    by_category = {
        category: [
            (statistic(category, group, "mean"), statistic(category, group, "std"))
            for group in (view.group_a, view.group_b, "all")
        ]
        for category in (*view.suite.categories, "all")
    }
    return {name: pairs for name, pairs in by_category.items() if any(row.defined for pair in pairs for row in pair)}


def stages(view: LeaningView) -> dict[str, Any] | None:
    """Gather components and encoders; left out when there is neither."""
    components = component_figure(view)
    if components is None:
        return None
    shapes = [ENCODER_SHAPES[order % len(ENCODER_SHAPES)] for order in range(len(view.encoders))]
    by_encoder = [view.scores.by_concept("mcas", "image_part", encoder=name) for name in view.encoders]
    everyone = "Both" if len(view.encoders) == 2 else f"All {len(view.encoders)}"
    return {
        "components": components,
        "encoders": encoder_figure(view),
        "encoder_keys": [(SHAPE_CHARACTERS[shape], name) for shape, name in zip(shapes, view.encoders, strict=True)],
        "agreement": agreement(view, by_encoder, f"{everyone} encoders") if len(view.encoders) > 1 else "",
    }


def agreement(view: LeaningView, stages: Sequence[Mapping[str, Row]], everyone: str) -> str:
    """Count the concepts of which all see the same direction; empty where they share none."""
    shared = [name for name in view.concepts if all(name in rows and rows[name].defined for rows in stages)]
    same = sum(len({rows[name].value > 0 for rows in stages}) == 1 for name in shared)
    return f"{everyone} agree on the direction for {same} of {wording.count(len(shared), 'concept')}." if shared else ""


def own_text(view: LeaningView) -> dict[str, Any] | None:
    """Gather TT of the model's own text encoders beside the audit's; left out where it showed none."""
    names = list(dict.fromkeys(row.encoder for row in view.scores.select(OWN_TEXT_METRIC, "tt", encoder="*")))
    if not names:
        return None
    columns = [view.scores.by_concept("mcas", "tt")]
    columns += [view.scores.by_concept(OWN_TEXT_METRIC, "tt", encoder=name) for name in names]
    # TT may be far smaller than MCAS; every encoder has a scale of its own, and one row the same decimals throughout
    digits = max(digits_of(rows.values(), "stimuli") for rows in columns)
    return {"encoders": names, "columns": [(rows, _is_tested(rows)) for rows in columns], "digits": digits}


def _is_tested(rows: Mapping[str, Row]) -> bool:
    """Return whether any row has a q, which else would head an empty column."""
    return any(isfinite(row.q) for row in rows.values())


def prior(view: LeaningView) -> dict[str, Any] | None:
    """Gather the leaning at the three stages of a model with a prior; left out where it has none."""
    (name, *_) = [row.encoder for row in view.scores.select(PRIOR_METRIC, "ii", encoder="*")] or [""]
    if not name:
        return None
    guides = [row.encoder for row in view.scores.select(OWN_TEXT_METRIC, "tt", encoder="*")]  # the first guides it
    text = view.scores.by_concept(OWN_TEXT_METRIC, "tt", encoder=guides[0]) if guides else {}
    drawn = view.scores.by_concept(PRIOR_METRIC, "ii", encoder=name)
    image = view.scores.by_concept("mcas", "ii")
    over = ("stimuli", "images", "images")  # of a text, over words; of what was drawn, over what was drawn
    columns = [
        (rows, digits_of(rows.values(), ends), ends, _is_tested(rows))
        for rows, ends in zip((text, drawn, image), over, strict=True)
    ]
    return {"prior": name, "columns": columns, "agreement": agreement(view, (text, drawn, image), "All three")}


# --- inside the model, other audits ----------------------------------------------------------------------------------


def internal_bias(view: LeaningView) -> dict[str, Any] | None:
    """Gather the figure, the summary by stereotype group and every concept's numbers."""
    names = ("diffusion_bias", "signed_diffusion_bias", "bias_amplification")
    delta, signed, alpha = (view.scores.by_concept("internal_bias", name) for name in names)
    concepts = [name for name in view.concepts if name in delta or name in alpha]
    if not concepts:
        return None
    curve, unstable = view.curve, sum(name in alpha and alpha[name].unstable for name in concepts)
    shapes = {view.group_a: ("a", "▶"), view.group_b: ("b", "◀"), view.third: ("third", "◆")}
    ties = dict.fromkeys(concept.stereotype for concept in view.concepts.values())
    return {
        "figure": internal_bias_figure(view) if unstable < len(concepts) else None,
        "summary": internal_summary(view),
        "concepts": [(name, delta.get(name), signed.get(name), alpha.get(name)) for name in concepts],
        "unstable": unstable,
        "curve_reason": curve.reason,
        "stereotypes": [
            (*shapes.get(group, ("balanced", "■")), f"tied to {view.label(group)}" if group else "tied to no group")
            for group in ties
        ],
    }


def internal_summary(view: LeaningView) -> list[dict[str, Any]]:
    """Find least, greatest, mean and standard error of δ and α by stereotype group: the paper's table 4."""
    rows = {(row.group, row.component): row for row in view.scores.select("internal_bias_summary")}
    return [
        {
            "label": "All concepts" if group in ("", "all") else f"Tied to {view.label(group)}",
            "scores": [
                ({s: rows.get((group, f"{name}_{s}"), Row()) for s in ("min", "max", "mean", "standard_error")}, digits)
                for name, digits in (("diffusion_bias", 3), ("bias_amplification", 2))
            ],
        }
        for group in dict.fromkeys(group for group, _ in rows)
    ]


OTHER_AUDITS: Final = (
    ("gender_gap", "HEIM", "|share − ½|", "0 at parity, ½ at most"),
    ("mean_absolute_deviation", "DALL-Eval", "MAD", "0 when all groups are seen equally often"),
    ("entropy_bias", "OpenBias", "1 − H/ln K", "0 when all groups are seen equally often, 1 when only one is seen"),
    ("distribution_bias", "Vice", "area", "K − 1 when all groups are seen equally often, smaller when one dominates"),
    ("miss_rate", "Vice", "misses", "share of images nearer to a blank prompt than to their own text"),
)


def other_audits(view: LeaningView) -> dict[str, Any] | None:
    """Gather what other audits would report of the same images; None where the run has none of it."""
    by_score = {name: view.scores.by_concept("other_audits", name) for name, *_ in OTHER_AUDITS}
    concepts = [name for name in view.concepts if any(name in rows for rows in by_score.values())]
    if not concepts:
        return None
    empty = [
        (f"{tool}, {symbol}, of {name}", row.reason)
        for score, tool, symbol, _ in OTHER_AUDITS
        for name in concepts
        if (row := by_score[score].get(name)) and not row.defined and row.reason
    ]
    return {"scores": OTHER_AUDITS, "found": by_score, "concepts": concepts, "missing": wording.reasons(empty)}


# --- what the words of a prompt do: wordings, languages, and single words left out ---------------------------------

WORDING_SOURCES: Final = {
    "concept": "concept",
    "wording": "wording, the same in all concepts",
    "concept_wording": "concept × wording",
    "noise": "noise, the same in all wordings",
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
    shown = f"; singly, it is shown for {wording.listed(names)}" if names else ""
    return f"{verdict} ({wording.probability(both.p, 'p')}){shown}."


def ablation(view: LeaningView) -> dict[str, Any] | None:
    """Gather each prompt with its words coloured by what they do, and all words in a table; None without any.

    A piece of a prompt is its text and, of a word, its row, the side of a verdict, and how strongly it is coloured,
    1 to 4 by its share of the largest effect.
    """
    rows = view.scores.select(ABLATION_METRIC)
    if not rows or not view.suite.ablations:
        return None
    by_word = {(row.concept, row.setting): row for row in rows}
    largest = max((abs(row.value) for row in rows if wording.decided(row)), default=1.0)
    concepts = []
    for name, left_out in view.suite.ablations.items():
        prompt, pieces, end = view.concepts[name].prompt, list[tuple[str, Row | None, str, int]](), 0
        for each in left_out:
            row = by_word.get((name, each.word)) or without_estimate(concept=name, setting=each.word)
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
    effects = [
        f"“{row.setting}” moves those of {row.concept} to {view.label(row.side)} "
        f"({wording.signed(row.value, digits_of(rows))}{wording.assumption(row)})"
        for row in shown[:MOST_WORDS]
    ]
    more = len(shown) - len(effects)
    rest = f", and {wording.count(more, 'more word')}" if more else ""
    return (f"Of {wording.count(len(rows), 'word')}, {len(shown)} move the pictures: {wording.listed(effects)}{rest}.",)


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
        return f"{concept} {next(iter(names))} in every {unit}, but not equally far in all"
    listed = "; ".join(f"{words} in {wording.listed(names_of_wordings)}" for words, names_of_wordings in names.items())
    if any(map(wording.not_measured, rows.values())):  # what differs then is no verdict from another
        return f"How far {concept} leans depends on the {unit}: {listed}"
    return f"The verdict on {concept} depends on the {unit}: {listed}"


def language_caution(view: LeaningView) -> str:
    """Warn of what rests on how an encoder reads another language than English; empty for English prompts."""
    others = [tag for tag in view.suite.languages if tag.lower().split("-")[0] != "en"]
    if not others:
        return ""
    return (
        f"Prompts are in {wording.listed(others)}. The text part, MCAS, and whether pictures match their prompt "
        "depend on how well the encoder reads that, which is not checked here; many read only English. The image part "
        "uses no prompt, so verdicts on pictures do not depend on it."
    )


# --- whether an encoder reads right ----------------------------------------------------------------------------------

RATES: Final = ("sensitivity", "specificity", "informedness")


def reader(view: LeaningView) -> dict[str, Any] | None:
    """Gather how the encoders read, and what that makes of shares; None where the run has no such rows."""
    encoders = _checked_encoders(view)
    if not encoders:
        return None
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


def _checked_encoders(view: LeaningView) -> list[str]:
    """List the average and every encoder that was checked; with one encoder the average is that encoder."""
    rows = view.scores.select("reader", "informedness", encoder="*")
    names = list(dict.fromkeys(row.encoder for row in rows))
    return names[1:] if len(names) == 2 else names


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
        "within": f"For {inside} of {concepts} the 95 % interval covers the planted probability." if estimates else "",
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
            sentences.append(f"Not found with so few images: {wording.listed(sides['missed'])}.")
    if level:
        false_alarms = f"{len(sides['false'])} of {wording.count(level, 'concept')} at parity found to lean"
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
    encoders, checks = _checked_encoders(view), []
    if not encoders:
        return None
    for row in rows:
        if row.encoder in encoders:
            axis = next(name for name, levels in view.axes.items() if row.group in levels)
            others = [label for name, label in view.axes[axis].items() if name != row.group]
            rates = [view.scores.first("reader", r, encoder=row.encoder, setting=row.setting) for r in RATES]
            checks.append((row, view.axis_label(axis), others[0] if len(others) == 1 else "the others", rates))
    return {"checks": checks, "unread": UNREAD, "errors": errors_by_cosines(view, encoders)}
