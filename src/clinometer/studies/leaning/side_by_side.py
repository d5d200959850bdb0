"""Leaning runs side by side: a pair of groups as the papers show two models, and one table for each axis.

And tables of what only some pairs of runs have: a mitigation and what it was of, and two runs that were traced.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import degrees, isfinite
from typing import Any, Final

from clinometer.report import wording
from clinometer.report.differences import DifferenceTable, Quantity, RunsCompared, by_label
from clinometer.report.figures import (
    LEFT,
    Figure,
    Ink,
    canvas,
    draw_mark,
    draw_model,
    drawable,
    finish,
    label_rows,
    lane_offset,
    model_mark,
    model_tip,
    place,
    row_height,
    shade_alternate,
    span,
    tidy,
)
from clinometer.report.view import Row, Scores
from clinometer.report.wording import difference_words
from clinometer.runs.several import Comparison
from clinometer.studies.leaning.figures import finish_internal_axes, finish_lean_axis, points_of, scale_alpha
from clinometer.studies.leaning.pictures import trace_figures
from clinometer.studies.leaning.plane import plane_models_figure
from clinometer.studies.leaning.scores.mitigated import WITHOUT_PARITY, WITHOUT_PARITY_PLACES
from clinometer.studies.leaning.sections import category_statistics, internal_summary
from clinometer.studies.leaning.view import LeaningView, axes_of, axis_component
from clinometer.studies.study import in_shape
from clinometer.suites import LeaningSuite, Suite

_DISTURBED: Final = {
    "named_changed": ("prompts that name a group: share of images that changed", "at most"),
    "fidelity": ("share of images nearest to their own prompt", "within ±"),
    "diversity": ("mean distance between two images of a concept", "within ±"),
    "skin": ("skin tone: degrees of the typology angle, lighter", "within ±"),
    "xmcas_similarity": ("similarity to the third group (xMCAS)", "within ±"),
    "xmcas_distance": ("distance from the unbiased point of xMCAS", "within ±"),
    "visible_change": ("how far an image is from its partner before, 1 − cosine", ""),
}


def mitigation_tables(comparison: Comparison, labels: tuple[str, str]) -> list[DifferenceTable]:
    """Judge a mitigation concept by concept, and say what else it disturbed; nothing of other pairs of runs."""
    scores = Scores.from_frame(comparison.scores)
    changes = scores.select("mitigation", "change")
    if not changes:
        return []
    before_and_after = [scores.by_concept("mitigation", component) for component in ("before", "after")]
    digits = wording.digits_for([row.value for row in changes])
    rows = [
        (
            f"{row.concept} (held out)" if row.setting else row.concept,
            *(wording.signed(each[row.concept].value, digits) for each in before_and_after),
            wording.signed(row.value, digits), wording.interval(row.low, row.high, digits),
            wording.bare_probability(row.q), row.verdict or row.reason,
        )
        for row in sorted(changes, key=lambda row: -abs(before_and_after[0][row.concept].value))
    ]  # fmt: skip
    suite = comparison.first.suite
    assert isinstance(suite, LeaningSuite)
    side = suite.label_of(suite.compared.a)
    note = (
        f"Positive numbers lean to {side}, by the attribute images of {labels[0]}. {_verdict_words(changes)} No "
        "change: two one-sided tests show that it is within the suite's margin; “no change shown” says less. q over "
        "the concepts."
    )
    counts = Counter(row.verdict or "no verdict" for row in changes)
    concepts = DifferenceTable(
        f"{labels[1]} as a mitigation of {labels[0]}",
        ("concept", "before", "after", "change", "95 %", "q", "verdict"),
        tuple(rows), tuple(f"{verdict}: {n}" for verdict, n in counts.most_common()), note,
    )  # fmt: skip
    further = [row for name in _DISTURBED for row in scores.select("mitigation", name) if not row.concept]
    skin = [row for row in scores.select("mitigation", "skin") if row.concept]
    changed = [f"{row.concept} ({wording.signed(row.value, 0)}°)" for row in skin if row.verdict == "changed"]
    skin_note = f" Skin tone is shown to have changed in {wording.listed(changed) if changed else 'no concept'}."
    worded = [(row, *_DISTURBED[row.component]) for row in further]
    limits = [f"{limit} {row.null:.3g}".replace("± ", "±") if row.null > 0 else "" for row, _, limit in worded]
    disturbed = DifferenceTable(
        "What else it disturbed",
        ("number", "value", "95 %", "limit", "verdict"),
        tuple(
            (_DISTURBED[row.component][0], wording.number(row.value, 3), wording.interval(row.low, row.high, 3), limit,
             row.verdict or "no limit")
            for row, limit in zip(further, limits, strict=True)
        ),
        (),
        "Over all concepts, paired by noise. Kept: two one-sided tests show that the change is within the limit; of "
        "images that must not change, none did, or the interval ends below the limit. Disturbed: the number fell, and "
        "the interval lies beyond the limit; for distance if it rose, for skin and similarity either way. Risen, "
        "fallen: beyond the limit the other way. Skin is measured by its colour, so light and drawing style "
        "count; to compare skin tones, use a suite with axes."
        + (skin_note if skin else ""),
    )  # fmt: skip
    return [concepts, disturbed, *_plane_table(scores, labels)]


def _verdict_words(changes: Sequence[Row]) -> str:
    """State what the verdicts mean: by parity, and of concepts with another declared target without praise or blame."""
    verdicts = {row.verdict for row in changes}
    by_parity = (
        "Better: moved away from the side that it was shown to lean to. Overshot: now shown to lean to the other side. "
        "Harmed: shown to lean further."
    )
    otherwise = (
        "Leans less, leans to the other side, leans further: the same, for concepts whose declared target is not "
        "parity; whether they reach its shares, an audit of both with that target as --reference shows."
    )
    if not verdicts & set(WITHOUT_PARITY.values()):
        return by_parity
    return f"{by_parity} {otherwise}" if verdicts & WITHOUT_PARITY.keys() else otherwise


def _plane_table(scores: Scores, labels: tuple[str, str]) -> list[DifferenceTable]:
    """Return, for each concept, its place on the plane of xMCAS before and after; nothing without a third group."""
    rows = {
        (name, row.setting, row.concept): row
        for name in ("xmcas_similarity", "xmcas_distance")
        for row in scores.select("mitigation", name)
    }
    changes = [row for (name, setting, _), row in rows.items() if (name, setting) == ("xmcas_distance", "change")]
    digits = wording.digits_for([row.value for row in changes])

    def cells(name: str, concept: str) -> tuple[str, ...]:
        before, after, change = (rows[name, setting, concept] for setting in ("before", "after", "change"))
        return (
            *(wording.number(row.value, digits) for row in (before, after)),
            wording.signed(change.value, digits), wording.interval(change.low, change.high, digits),
        )  # fmt: skip

    table = [
        (row.concept, *cells("xmcas_similarity", row.concept), *cells("xmcas_distance", row.concept),
         wording.bare_probability(row.q), row.verdict)
        for row in sorted(changes, key=lambda row: -abs(row.value))
    ]  # fmt: skip
    return [DifferenceTable(
        f"xMCAS: {labels[1]} as a mitigation of {labels[0]}",
        ("concept", "similarity before", "after", "change", "95 %", "distance before", "after", "change", "95 %", "q",
         "verdict"),
        tuple(table), (),
        "Similarity is to the third group, distance from (1/3, 0), the paper's unbiased point; both by the groups of "
        f"{labels[0]}. {_place_words(changes)} No change: shown to be within the suite's margin.",
    )] if table else []  # fmt: skip


def _place_words(changes: Sequence[Row]) -> str:
    """State what the verdicts on a place mean, as :func:`_verdict_words` does."""
    by_parity = "Better: nearer to it. Harmed: further."
    verdicts = {row.verdict for row in changes}
    if not verdicts & set(WITHOUT_PARITY_PLACES.values()):
        return by_parity
    otherwise = "Nearer, further: the same, for concepts whose declared target is not parity."
    return f"{by_parity} {otherwise}" if verdicts & WITHOUT_PARITY_PLACES.keys() else otherwise


def trace_tables(comparison: Comparison, labels: tuple[str, str]) -> list[DifferenceTable]:
    """Tabulate, for two traced runs, by how many steps later each concept leans, and from which step on they differ.

    Nothing of others.
    """
    scores = Scores.from_frame(comparison.scores)
    onsets, halves, partings = (scores.by_concept("trace", component) for component in ("onset", "half_way", "parting"))
    if not onsets:
        return []
    suite = comparison.first.suite
    assert isinstance(suite, LeaningSuite)

    def parted(row: Row | None) -> str:
        if row is None or not isfinite(row.value):
            return "not shown"
        return f"by step {row.value:g}, more to {suite.label_of(row.group)}"

    rows = [
        (
            name,
            wording.estimate(onset, 0),
            wording.estimate(halves.get(name), 0),
            parted(partings.get(name)),
            onset.reason,
        )
        for name, onset in onsets.items()
    ]
    later = sum(row.defined and row.low > 0 for row in onsets.values())
    sooner = sum(row.defined and row.high < 0 for row in onsets.values())
    return [
        DifferenceTable(
            f"On the way to the images: {labels[1]} compared with {labels[0]}",
            ("concept", "sets in later by", "half way later by", "they differ", "note"),
            tuple(rows),
            (
                f"later: {later}",
                f"sooner: {sooner}",
                f"shown to differ: {sum(row.defined for row in partings.values())}",
            ),
            f"In steps of denoising; below 0 is sooner in {labels[1]}. Intervals run from the least to the most that "
            "the ends of both runs' own intervals allow. The runs differ from the step on from which all intervals "
            "of the difference exclude 0; the differences themselves, step by step, are rows of metric trace.",
        )
    ]


# --- pages -----------------------------------------------------------------------------------------------------------


RUNS: Final = ("first run", "second run")
"""What the rows of a comparison that are a run's own say of whose they are."""


_INTERNAL: Final = ("diffusion_bias", "bias_amplification")


def _strongest(view: LeaningView, category: str) -> str:
    concepts = view.ranked(None if category == "all" else category)
    if not concepts:
        return ""
    name = max((concept.name for concept in concepts), key=lambda name: abs(view.mcas[name].value))
    return f"{name} {wording.signed(view.mcas[name].value, view.digits)}"


def _concepts(views: Mapping[str, LeaningView], which: Any, written: Any) -> list[dict[str, Any]]:
    """Write some numbers of every concept and model: tables 3 of the internal-bias and of the xMCAS paper."""
    by_model = [[view.scores.by_concept(*name) for name in which] for view in views.values()]
    first = next(iter(views.values()))
    return [
        {"name": name, "cells": [written(*(rows.get(name) or Row() for rows in model_rows)) for model_rows in by_model]}
        for name in first.concepts
    ]


def _mcas_cells(mcas: Row, delta: Row, alpha: Row) -> list[str]:
    return [
        wording.signed(mcas.value, 3),
        wording.flagged(wording.number(delta.value, 3), unstable=delta.unstable),
        wording.flagged(wording.number(alpha.value), unstable=alpha.unstable),
    ]


def _plane_cells(mcas: Row, angle: Row, distance: Row) -> list[str]:
    degree = f"{wording.number(degrees(angle.value), 1)}°" if angle.defined else wording.MISSING
    return [wording.signed(mcas.value, 3), degree, wording.number(distance.value, 3)]


def category_models_figure(views: Mapping[str, LeaningView], category: str) -> Figure | None:
    """Draw MCAS of a category's concepts, models side by side: the MCAS paper's figures 3 to 6."""
    first = next(iter(views.values()))
    ranked = [concept.name for view in views.values() for concept in view.ranked(category, by=view.mcas)]
    names = list(dict.fromkeys(ranked))
    if not names:
        return None
    height = row_height(len(views))
    with canvas(440, 60 + height * len(names)) as figure:
        axes = place(figure, LEFT, 48, 14, 12)
        tips = {}
        for y, name in enumerate(names):
            shade_alternate(axes, y)
            for order, (model, view) in enumerate(views.items()):
                row = view.mcas.get(name)
                if row is not None and row.defined:
                    gid = f"m{y}x{order}"
                    draw_model(axes, row, y + lane_offset(order, len(views)), model_mark(order), gid)
                    tips[gid] = model_tip(name, model, "MCAS", row, view.digits)
        label_rows(axes, names)
        finish_lean_axis(axes, first, span([row for view in views.values() for row in view.mcas.values()]))
        return finish(
            figure,
            name=f"models-category{list(first.suite.categories).index(category)}",
            title=f"MCAS of every model: {first.category_label(category)}",
            description="; ".join(tips.values()),
            tips=tips,
        )


def internal_models_figure(views: Mapping[str, LeaningView]) -> Figure | None:
    """Draw δ across and α up, every concept of every model, with each model's stored curve."""
    points = {model: points_of(view) for model, view in views.items()}
    if not any(points.values()):
        return None
    with canvas(460, 390) as figure:
        axes = place(figure, 66, 52, 14, 14)
        tidy(axes, grid="both")
        logarithmic = scale_alpha(axes, [point.alpha.value for of_model in points.values() for point in of_model])
        axes.axhline(1, color=Ink.MUTED, linewidth=1, linestyle=(0, (4, 3)), zorder=1)
        tips = {}
        for order, (model, of_model) in enumerate(points.items()):
            curve, floor = views[model].curve, axes.get_ylim()[0]
            line = [(x, y) for x, y in zip(curve.x, curve.y, strict=True) if isfinite(x) and isfinite(y) and y > floor]
            if line:
                axes.plot(*zip(*line, strict=True), color=model_mark(order).colour, linewidth=1.8, zorder=2)
            for number, point in enumerate(of_model):
                gid = f"i{order}x{number}"
                mark = model_mark(order)._replace(filled=not point.alpha.unstable)
                draw_mark(axes, point.delta.value, point.alpha.value, mark, size=6.5, gid=gid)
                numbers = f"δ {wording.number(point.delta.value, 3)}, α {wording.number(point.alpha.value)}"
                unstable = ", unstable" if point.alpha.unstable else ""
                tips[gid] = drawable(f"{point.concept}, {model}: {numbers}{unstable}", 140)
        finish_internal_axes(axes, logarithmic)
        return finish(
            figure,
            name="models-internal",
            title="Bias amplification on diffusion bias, every model",
            description="; ".join(tips.values()),
            tips=tips,
        )


OVERALL: Final = (
    ("internal_bias_summary", "diffusion_bias_mean"),
    ("internal_bias_summary", "bias_amplification_mean"),
    ("category", "std"),
    ("category", "mean"),
    ("trace", "onset"),
)
TO_DECIDE: Final = f"images of the concept, {wording.IN_PROPORTION}"


def _level_name(suite: Suite, row: Row) -> str:
    """Name a concept and the level that a row is about."""
    return f"{row.concept}: {suite.label_of(row.group)}"


def _axis_quantity(suite: LeaningSuite, axis: str, levels: Mapping[str, str]) -> Quantity:
    label, *others = levels.values()
    symbol = f"image part by {suite.axis_label(axis)}" if axis else "image part"
    quantity = Quantity(
        axis_component(axis), symbol, "concept", "Δ image part", TO_DECIDE, "concept", "further to {a} than {first}",
        a=label,
    )  # fmt: skip
    if len(others) == 1:
        return quantity
    return replace(quantity, a="the level named", family="concepts and levels", name=_level_name)


def _axis_tables(views: Mapping[str, LeaningView]) -> list[dict[str, Any]]:
    """Gather a table an axis: a row a concept (and level, of more than two), with the number and q of every run."""
    first = next(iter(views.values()))

    def cells(view: LeaningView, axis: str, level: str, concept: str) -> list[str]:
        row = next((row for row in view.axis_rows(axis, concept) if row.group == level), None)
        q = wording.bare_probability(row.q) if row is not None and row.defined else wording.MISSING
        return [wording.estimate(row, view.digits), q]

    tables = []
    for axis, levels in first.axes.items():
        level_a, *others = levels
        has_sides = len(others) == 1
        rows = [
            {
                "name": name if has_sides else f"{name}: {levels[level]}",
                "cells": [cells(view, axis, level, name) for view in views.values()],
            }
            for name in first.concepts
            for level in ([level_a] if has_sides else levels)
        ]
        positive = f"positive to {levels[level_a]}" if has_sides else "compared with the mean of all levels"
        tables.append({"label": wording.capitalised(first.axis_label(axis)), "positive": positive, "rows": rows})
    return tables


def _pair_figures(views: Mapping[str, LeaningView]) -> dict[str, Any]:
    """Gather figures and tables as the papers show two models."""
    first = next(iter(views.values()))
    summaries = by_label([{"model": model, **row} for model, view in views.items() for row in internal_summary(view)])
    has_planes = first.third is not None
    figures = [(first.category_label(name), category_models_figure(views, name)) for name in first.suite.categories]
    statistics = [
        {"model": model, "label": view.category_label(name), "sides": sides, "digits": view.digits,
         "strongest": _strongest(view, name)}
        for model, view in views.items()
        for name, sides in category_statistics(view).items()
    ]  # fmt: skip
    mcas, internal = ("mcas", "mcas"), [("internal_bias", name) for name in _INTERNAL]
    on_the_plane = [("xmcas", name) for name in ("angle", "distance")]
    return {
        "figures": [entry for entry in figures if entry[1] is not None],
        "statistics": by_label(statistics),
        "summary": summaries,
        "internal": internal_models_figure(views),
        "concepts": _concepts(views, (mcas, *internal), _mcas_cells),
        "plane": plane_models_figure(views),
        "ways": trace_figures(views),
        "planes": _concepts(views, (mcas, *on_the_plane), _plane_cells) if has_planes else [],
        "contents": [
            *([("internal", "Inside")] if summaries else []),
            *([("plane", "Plane")] if has_planes else []),
            *([("ways", "Steps")] if all(view.scores.select("trace") for view in views.values()) else []),
        ],
    }


class LeaningsCompared(RunsCompared[LeaningSuite]):
    """Leanings of several runs to one of a pair of groups, or along axes, side by side."""

    view = LeaningView
    bars = ("images", "words and encoders")
    tabled = (("trace", "onset"), ("trace", "half_way"))

    def __init__(
        self,
        template: str,
        *,
        sums_up: bool,
        overall: Sequence[tuple[str, str]] = (),
        by_concept: tuple[str, str] | None = None,
    ) -> None:
        self.template, self.sums_up, self.overall, self.by_concept = template, sums_up, overall, by_concept

    def quantities(self, suite: LeaningSuite) -> Sequence[Quantity]:
        """List the image part along every axis, and every cell against the mean of all."""
        along = [_axis_quantity(suite, axis, levels) for axis, levels in axes_of(suite).items()]
        cells = [
            Quantity(
                f"cell:{name}", f"nearness to {suite.label_of(name)}", "concept", "difference", TO_DECIDE, "concept",
                "nearer to {a} than in {first}, compared with the mean of all groups", a=suite.label_of(name),
                family="concepts and groups", brief=False,
            )
            for name, group in suite.groups.items()
            if group.cell
        ]  # fmt: skip
        return [*along, *cells]

    def label_a(self, suite: LeaningSuite) -> str:
        """Return what a positive number leans to; nothing along several axes, where each has its own."""
        first, *others = axes_of(suite).values()
        return "" if others else next(iter(first.values()))

    def side_by_side(self, views: Mapping[str, LeaningView], encoder: str) -> dict[str, Any]:
        """Gather figures and tables of several runs; all of them are of the encoder of the views."""
        first = next(iter(views.values()))
        shown = _pair_figures(views) if first.is_pair else {"tables": _axis_tables(views)}
        return {"margin": first.suite.margin, **shown}

    def verdict(self, comparison: Comparison, labels: tuple[str, str]) -> str:
        """Count verdicts on the concepts along each axis: magnitudes of several axes do not add up to one number."""
        suite, scores = in_shape(comparison.first.suite, LeaningSuite), Scores.from_frame(comparison.scores)
        parts = []
        for axis in suite.axes or {}:
            rows = scores.select("comparison", f"axis:{axis}")
            counts = Counter(difference_words(row, labels, suite.label_of) for row in rows)
            tally = ", ".join(f"{verdict}: {n}" for verdict, n in counts.most_common())
            parts.append(f"by {suite.axis_label(axis)}, {tally}")
        return f"{labels[1]} compared with {labels[0]}, concepts counted {'; '.join(parts)}."

    def caution(self, comparison: Comparison, labels: tuple[str, str]) -> tuple[str, str]:
        """Warn where one run's pictures are shown to show less of what was asked; return the numbers too."""
        rows = Scores.from_frame(comparison.scores).select("comparison", encoder="*")
        over_all = next((row for row in rows if row.component == "fidelity"), None)
        if over_all is None:
            return "", ""
        by_setting = {(row.component, row.setting): row for row in rows}
        shares, unshown = (
            [by_setting[component, run] for run in RUNS] for component in ("own_fidelity", "own_unshown")
        )
        numbers = (
            f"Pictures nearest to their own prompt: {wording.percent(shares[0].value)} in {labels[0]}, "
            f"{wording.percent(shares[1].value)} in {labels[1]}; the difference is {wording.estimate(over_all)}."
        )
        if not over_all.has_interval or over_all.low <= 0 <= over_all.high:
            return "", numbers
        worse = int(over_all.value < 0)
        n, other = (round(unshown[run].value * unshown[run].n_target) for run in (worse, 1 - worse))
        lost = (
            f" Of {wording.count(unshown[worse].n_target, 'concept')}, {n} {'is' if n == 1 else 'are'} not shown "
            f"better than chance would show them, and {other} in {labels[1 - worse]}."
            if n > other
            else ""
        )
        return (
            f"The pictures of {labels[worse]} show less of what was asked.{lost} "
            "A difference in leaning may come from that.",
            numbers,
        )

    def further(self, comparison: Comparison, labels: tuple[str, str]) -> Sequence[DifferenceTable]:
        """Tabulate what a mitigation did, and when leaning sets in."""
        return [*mitigation_tables(comparison, labels), *trace_tables(comparison, labels)]


PAIR_COMPARED: Final = LeaningsCompared("comparison", sums_up=True, overall=OVERALL, by_concept=("mcas", "image_part"))
AXES_COMPARED: Final = LeaningsCompared("cells_comparison", sums_up=False)
