"""Leaning runs beside each other: a pair of groups as the papers show two models, axes as a table each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import degrees, isfinite
from typing import Any, Final

from clinometer.report import wording
from clinometer.report.differences import DifferenceTable, Quantity, RunsCompared, by_label
from clinometer.report.figures import Figure, Ink, canvas, finish, tidy
from clinometer.report.figures.marks import (
    LEFT,
    draw_mark,
    draw_model,
    drawable,
    label_rows,
    lane_offset,
    model_mark,
    model_tip,
    place,
    row_height,
    shade_alternate,
    span,
)
from clinometer.report.rows import Row, Scores
from clinometer.report.wording import difference_words
from clinometer.runs.several import Comparison
from clinometer.studies.leaning.difference_tables import mitigation_tables, trace_tables
from clinometer.studies.leaning.figures import finish_internal_axes, finish_lean_axis, points_of, scale_alpha
from clinometer.studies.leaning.pictures import trace_figures
from clinometer.studies.leaning.plane import plane_models_figure
from clinometer.studies.leaning.sections import category_statistics, internal_summary
from clinometer.studies.leaning.view import LeaningView, axes_of, axis_component
from clinometer.studies.study import in_shape
from clinometer.suites import LeaningSuite, Suite

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
    """Draw MCAS of a category's concepts, models beside each other: the MCAS paper's figures 3 to 6."""
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
        axis_component(axis), symbol, "concept", "Δ image part", TO_DECIDE, "concept", "more to {a} than {first}",
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
        positive = f"positive to {levels[level_a]}" if has_sides else "against the mean of all levels"
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
    """Leanings of several runs to one of a pair of groups, or along axes, beside each other."""

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
                "nearer to {a} than in {first}, against the mean of all groups", a=suite.label_of(name),
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
        return f"{labels[1]} beside {labels[0]}, concepts counted {'; '.join(parts)}."

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
            f" Of {wording.count(unshown[worse].n_target, 'concept')}, {n} {'is' if n == 1 else 'are'} not shown to be "
            f"drawn better than chance would, and {other} in {labels[1 - worse]}."
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
