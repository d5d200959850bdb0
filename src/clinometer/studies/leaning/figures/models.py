"""Several models in one figure of a leaning study, a shape and a colour for each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import isfinite
from typing import Any

from clinometer.report import wording
from clinometer.report.figures.marks import (
    LEFT,
    Mark,
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
from clinometer.report.figures.svg import Figure, Ink, canvas, finish, tidy
from clinometer.studies.leaning.figures.concepts import finish_lean_axis
from clinometer.studies.leaning.figures.internal import finish_internal_axes, points_of, scale_alpha
from clinometer.studies.leaning.figures.plane import CENTROID, group_places
from clinometer.studies.leaning.view import LeaningView

LeaningViews = Mapping[str, LeaningView]


def category_models_figure(views: LeaningViews, category: str) -> Figure | None:
    """Draw MCAS of a category's concepts, models beside each other: the MCAS paper's figures 3 to 6."""
    first = next(iter(views.values()))
    names = _ranked(views, category)
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


def _ranked(views: LeaningViews, category: str) -> list[str]:
    """Concepts that any model has an MCAS for, in the order of the first model that has it."""
    ranked = [concept.name for view in views.values() for concept in view.ranked(category, by=view.mcas)]
    return list(dict.fromkeys(ranked))


def internal_models_figure(views: LeaningViews) -> Figure | None:
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
            _draw_relation(axes, views[model], model_mark(order))
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


def _draw_relation(axes: Any, view: LeaningView, mark: Mark) -> None:
    curve = view.report.curve
    floor = axes.get_ylim()[0]
    points = [(x, y) for x, y in zip(curve.x, curve.y, strict=True) if isfinite(x) and isfinite(y) and y > floor]
    if points:
        axes.plot(*zip(*points, strict=True), color=mark.colour, linewidth=1.8, zorder=2)


def plane_models_figure(views: LeaningViews) -> Figure | None:
    """Draw the groups' own places on the xMCAS plane, model by model: the xMCAS paper's figure 3."""
    places = {model: group_places(view) for model, view in views.items()}
    first = next(iter(views.values()))
    groups = [group for group in first.suite.groups if any(group in by_group for by_group in places.values())]
    if first.third is None or not groups:
        return None
    with canvas(460, 420) as figure:
        axes = place(figure, 62, 52, 18, 16)
        tidy(axes, grid="both")
        axes.axhline(0, color=Ink.MUTED, linewidth=1.1, zorder=1)
        tips = {}
        for order, (model, by_group) in enumerate(places.items()):
            mark = model_mark(order)
            for group, (x, y) in by_group.items():
                gid = f"g{order}x{groups.index(group)}"
                draw_mark(axes, x, y, mark, size=8 + 4 * (len(places) - 1 - order), gid=gid)  # none hides another
                numbers = f"similarity {wording.number(x, 3)}, MCAS {wording.signed(y, 3)}"
                tips[gid] = drawable(f"{first.label(group)}, {model}: {numbers}", 140)
        points = [point for by_group in places.values() for point in by_group.values()]
        _frame_plane(axes, first, points)
        for group in groups:
            _name_group(
                axes, first.label(group), [by_group[group] for by_group in places.values() if group in by_group]
            )
        return finish(
            figure,
            name="models-plane",
            title="The groups' own places on the xMCAS plane",
            description="; ".join(tips.values()),
            tips=tips,
        )


def _frame_plane(axes: Any, view: LeaningView, points: Sequence[tuple[float, float]]) -> None:
    axes.set_xlim(*span([], include=[CENTROID[0], *(x for x, _ in points)]))
    reach = max(map(abs, span([], include=[0.0, *(y for _, y in points)])))
    axes.set_ylim(-reach, reach)
    axes.plot(*([at] for at in CENTROID), marker="+", markersize=15, markeredgewidth=2.4, color=Ink.TEXT, zorder=5)
    axes.set_xlabel(f"similarity to {drawable(view.label_third, 34)}")
    axes.set_ylabel(f"\u25c2 {drawable(view.label_b, 16)}    MCAS    {drawable(view.label_a, 16)} \u25b8")
    axes.tick_params(axis="y", labelcolor=Ink.MUTED)


def _name_group(axes: Any, label: str, points: Sequence[tuple[float, float]]) -> None:
    """Join a group's places by a line and name it beside the outermost of them."""
    xs, ys = zip(*points, strict=True)
    axes.plot(xs, ys, color=Ink.GRID, linewidth=2, zorder=1)
    left, right = axes.get_xlim()
    near_right = max(xs) > (left + right) / 2
    x, y = min(points) if near_right else max(points)
    axes.annotate(
        drawable(label, 20),
        (x, y),
        (-11 if near_right else 11, 0),
        textcoords="offset points",
        ha="right" if near_right else "left",
        va="center",
        fontsize=11.5,
    )
