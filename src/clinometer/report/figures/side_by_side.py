"""The papers' two-model figures: several models on one scale, a shape and a colour for each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import isfinite
from typing import Any, Final

from clinometer.report import wording
from clinometer.report.association_view import AssociationView
from clinometer.report.classification_view import ClassificationView
from clinometer.report.figures.association import BOX, draw_box, draw_density, draw_zero, name_ends, stored_curve
from clinometer.report.figures.internal import finish_internal_axes, points_of, scale_alpha
from clinometer.report.figures.leaning import finish_lean_axis
from clinometer.report.figures.marks import Mark, draw_intervals, draw_mark, drawable, label_rows, place, span
from clinometer.report.figures.plane import CENTROID, group_places
from clinometer.report.figures.svg import Figure, Ink, canvas, finish, tidy
from clinometer.report.rows import Row
from clinometer.report.view import EditingView, LeaningView

SHAPES: Final = ("o", "s", "^", "D", "v", "P", "X", "*")
COLOURS: Final = (("accent", Ink.ACCENT), ("third", Ink.THIRD), ("a", Ink.A), ("b", Ink.B))
_LEFT: Final = 156
_LANE: Final = 15
_GAP: Final = 13
_HALO: Final = {"facecolor": Ink.PAPER, "edgecolor": "none", "pad": 1.0}

LeaningViews = Mapping[str, LeaningView]
AssociationViews = Mapping[str, AssociationView]


def model_mark(order: int) -> Mark:
    """Shape and colour of a model by its place; the shape alone tells it."""
    return Mark(SHAPES[order % len(SHAPES)], COLOURS[order % len(COLOURS)][1])


def _row_height(models: int) -> int:
    return _GAP + _LANE * models


def _lane(order: int, models: int) -> float:
    """How far below its row's middle a model's mark lies, in rows."""
    return (order - (models - 1) / 2) * _LANE / _row_height(models)


def category_models_figure(views: LeaningViews, category: str) -> Figure | None:
    """Draw MCAS of a category's concepts, models beside each other: the MCAS paper's figures 3 to 6."""
    first = next(iter(views.values()))
    names = _ranked(views, category)
    if not names:
        return None
    height = _row_height(len(views))
    with canvas(440, 60 + height * len(names)) as figure:
        axes = place(figure, _LEFT, 48, 14, 12)
        tips = {}
        for y, name in enumerate(names):
            _shade_alternate(axes, y)
            for order, (model, view) in enumerate(views.items()):
                row = view.mcas.get(name)
                if row is not None and row.defined:
                    gid = f"m{y}x{order}"
                    _draw_model(axes, row, y + _lane(order, len(views)), model_mark(order), gid)
                    tips[gid] = _tip(name, model, "MCAS", row, view.digits)
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
    ranked = [concept.name for view in views.values() for concept in view.ranked(category)]
    return list(dict.fromkeys(ranked))


def _shade_alternate(axes: Any, y: int) -> None:
    if y % 2:
        axes.axhspan(y - 0.5, y + 0.5, color=Ink.SHADE, alpha=0.45, linewidth=0, zorder=0)


def _draw_model(axes: Any, row: Row, y: float, mark: Mark, gid: str) -> None:
    draw_intervals(axes, row, y, mark.colour)
    draw_mark(axes, row.value, y, mark, size=6.5, gid=gid)


def _tip(name: str, model: str, symbol: str, row: Row, digits: int, *, stimulus: bool = False) -> str:
    low, high = (row.stimulus_low, row.stimulus_high) if stimulus else (row.low, row.high)
    shown = f"{wording.signed(row.value, digits)} {wording.interval(low, high, digits)}".strip()
    return drawable(f"{name}, {model}: {symbol} {shown}", 140)


def asymmetry_models_figure(views: Mapping[str, EditingView], encoder: str) -> Figure | None:
    """Draw the flip asymmetry of every class and strength, models beside each other."""
    first = next(iter(views.values()))
    held = {
        model: {f"{row.category}, {row.setting}": row for row in view.class_rows("flip_asymmetry", encoder)}
        for model, view in views.items()
    }
    names = [f"{kind}, {setting}" for kind, setting in first.columns]
    ends = (f"edits move to {first.label_b}", f"to {first.label_a}")
    return _rows_figure(held, names, "flip asymmetry", ends, name="asymmetry", title="Flip asymmetry of every model")


def differential_models_figure(views: Mapping[str, ClassificationView]) -> Figure | None:
    """Draw ΔS of every contrast, models beside each other."""
    first = next(iter(views.values()))
    held = {model: view.differentials for model, view in views.items()}
    return _rows_figure(
        held, list(first.suite.contrasts), "ΔS", ("", f"more often {first.label_a}"), name="differentials",
        title="Difference between groups in every model", margin=first.suite.margin,
    )  # fmt: skip


def _rows_figure(
    held: Mapping[str, Mapping[str, Row]],
    names: Sequence[str],
    symbol: str,
    ends: tuple[str, str],
    *,
    name: str,
    title: str,
    margin: float | None = None,
) -> Figure | None:
    """Draw signed numbers, a row each, models beside each other; None where no model has one."""
    names = [each for each in names if any(each in rows and rows[each].defined for rows in held.values())]
    if not names:
        return None
    height = max(24, _row_height(len(held)))
    with canvas(460, 64 + height * len(names)) as figure:
        axes = place(figure, 176, 52, 14, 12)
        tidy(axes)
        axes.set_xlim(*span([row for rows in held.values() for row in rows.values()], stimulus=False))
        axes.axvline(0, color=Ink.MUTED, linewidth=1.2, zorder=1)
        if margin:
            axes.axvspan(-margin, margin, color=Ink.SHADE, linewidth=0, zorder=0)
        tips = {}
        for y, each in enumerate(names):
            for order, (model, rows) in enumerate(held.items()):
                row = rows.get(each, Row())
                if row.defined:
                    gid = f"r{y}x{order}"
                    _draw_model(axes, row, y + (order - (len(held) - 1) / 2) * _LANE / height, model_mark(order), gid)
                    tips[gid] = _tip(each, model, symbol, row, 2)
        label_rows(axes, [wording.capitalised(each) for each in names], 26, lines=2)
        left, right = (drawable(end, 26 if all(ends) else 44) for end in ends)
        axes.set_xlabel(f"{left} \u25c2  {symbol}  \u25b8 {right}" if left else f"{symbol}  \u25b8 {right}")
        return finish(figure, name=f"models-{name}", title=title, description="; ".join(tips.values()), tips=tips)


def internal_models_figure(views: LeaningViews) -> Figure | None:
    """Draw δ across and α up, every concept of every model, with each model's stored curve."""
    points = {model: points_of(view) for model, view in views.items()}
    if not any(points.values()):
        return None
    with canvas(460, 390) as figure:
        axes = place(figure, 66, 52, 14, 14)
        tidy(axes, grid="both")
        logarithmic = scale_alpha(axes, [point.alpha.value for held in points.values() for point in held])
        axes.axhline(1, color=Ink.MUTED, linewidth=1, linestyle=(0, (4, 3)), zorder=1)
        tips = {}
        for order, (model, held) in enumerate(points.items()):
            _draw_relation(axes, views[model], model_mark(order))
            for number, point in enumerate(held):
                gid = f"i{order}x{number}"
                mark = model_mark(order)._replace(filled=not point.alpha.unstable)
                draw_mark(axes, point.delta.value, point.alpha.value, mark, size=6.5, gid=gid)
                shown = f"δ {wording.number(point.delta.value, 3)}, α {wording.number(point.alpha.value)}"
                unstable = ", unstable" if point.alpha.unstable else ""
                tips[gid] = drawable(f"{point.concept}, {model}: {shown}{unstable}", 140)
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
    shown = [(x, y) for x, y in zip(curve.x, curve.y, strict=True) if isfinite(x) and isfinite(y) and y > floor]
    if shown:
        axes.plot(*zip(*shown, strict=True), color=mark.colour, linewidth=1.8, zorder=2)


def plane_models_figure(views: LeaningViews) -> Figure | None:
    """Draw the groups' own places on the xMCAS plane, model by model: the xMCAS paper's figure 3."""
    places = {model: group_places(view) for model, view in views.items()}
    first = next(iter(views.values()))
    groups = [group for group in first.suite.groups if any(group in held for held in places.values())]
    if first.third is None or not groups:
        return None
    with canvas(460, 420) as figure:
        axes = place(figure, 62, 52, 18, 16)
        tidy(axes, grid="both")
        axes.axhline(0, color=Ink.MUTED, linewidth=1.1, zorder=1)
        tips = {}
        for order, (model, held) in enumerate(places.items()):
            mark = model_mark(order)
            for group, (x, y) in held.items():
                gid = f"g{order}x{groups.index(group)}"
                draw_mark(axes, x, y, mark, size=8 + 4 * (len(places) - 1 - order), gid=gid)  # none hides another
                shown = f"similarity {wording.number(x, 3)}, MCAS {wording.signed(y, 3)}"
                tips[gid] = drawable(f"{first.label(group)}, {model}: {shown}", 140)
        points = [point for held in places.values() for point in held.values()]
        _frame_plane(axes, first, points)
        for group in groups:
            _name_group(axes, first.label(group), [held[group] for held in places.values() if group in held])
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


def effect_models_figure(views: AssociationViews) -> Figure | None:
    """Draw Cohen's d of every test, models beside each other: the T2IAT paper's table 1 as a figure."""
    first = next(iter(views.values()))
    tests = first.suite.tests
    rows = {model: [view.effect_sizes.get(test.name, Row()) for test in tests] for model, view in views.items()}
    drawn = [row for held in rows.values() for row in held if row.defined]
    if not drawn:
        return None
    height = 30 + _LANE * len(views)
    with canvas(450, 78 + height * len(tests)) as figure:
        axes = place(figure, 12, 50, 14, 12)
        tidy(axes)
        limits = span(drawn, include=(0.0, -1.0, 1.0))
        axes.set_xlim(*limits)
        axes.axvline(0, color=Ink.MUTED, linewidth=1.2, zorder=1)
        tips = {}
        for y, test in enumerate(tests):
            subject = f"{first.concept_label(test.x)} / {first.concept_label(test.y)}"
            axes.text(limits[0], y - 0.36, drawable(subject, 58), va="center", fontsize=11.5, bbox=_HALO)
            for order, (model, held) in enumerate(rows.items()):
                if held[y].defined:
                    gid = f"d{y}x{order}"
                    _draw_model(axes, held[y], y + (0.5 + order) * _LANE / height, model_mark(order), gid)
                    tips[gid] = _tip(subject, model, "d", held[y], 2, stimulus=True)
        axes.set_yticks([])
        axes.set_ylim(len(tests) - 0.4, -0.75)
        name_ends(axes, first)
        return finish(
            figure,
            name="models-effects",
            title="Effect sizes of every model",
            description=f"Cohen's d of each test. {'; '.join(tips.values())}.",
            tips=tips,
        )


def distribution_models_figure(views: AssociationViews, concept: str) -> Figure | None:
    """Draw the distribution of Asc over each stimulus's images, models beside each other: the paper's figure 3."""
    first = next(iter(views.values()))
    names = list(dict.fromkeys(name for view in views.values() for name in view.ordered(concept)))
    if not names:
        return None
    models, height = len(views), 12 + 18 * len(views)
    with canvas(440, 60 + height * len(names)) as figure:
        axes = place(figure, 168, 48, 14, 12)
        tidy(axes)
        axes.set_xlim(*_limits(views))
        draw_zero(axes, first)
        tips = {}
        for order, (model, view) in enumerate(views.items()):
            boxes = {part: view.stimulus_rows("association", part) for part in BOX}
            for y, name in enumerate(names):
                if not order:
                    _shade_alternate(axes, y)
                held = [boxes[part].get(name, Row()) for part in BOX]
                if all(row.defined for row in held):
                    at = y + (order - (models - 1) / 2) * 18 / height
                    gid = f"b{y}x{order}"
                    _draw_distribution(axes, view, name, [row.value for row in held], at, order, gid, 18 / height)
                    tips[gid] = _quartiles(name, model, held, view.digits)
        label_rows(axes, names)
        name_ends(axes, first)
        return finish(
            figure,
            name=f"models-distribution{list(first.suite.concepts).index(concept)}",
            title=f"Associations in every model: {first.concept_label(concept)}",
            description="; ".join(tips.values()),
            tips=tips,
        )


def _limits(views: AssociationViews) -> tuple[float, float]:
    """Limits that all concepts and models share."""
    held = [Row(value=row.value) for view in views.values() for part in BOX
            for row in view.stimulus_rows("association", part).values()]  # fmt: skip
    curves = [
        stored_curve(view, f"association_{kind}")[0] for view in views.values() for kind in ("density", "outlier")
    ]
    return span([*held, *(Row(value=float(edge)) for x in curves if len(x) for edge in (x.min(), x.max()))])


def _draw_distribution(
    axes: Any, view: AssociationView, name: str, five: Sequence[float], y: float, order: int, gid: str, scale: float
) -> None:
    mark = model_mark(order)
    draw_density(axes, *stored_curve(view, "association_density", name), y, mark.colour, scale=scale)
    draw_box(axes, five, y, mark.colour, gid, scale=scale)
    draw_mark(axes, five[2], y, mark, size=5)
    outliers = stored_curve(view, "association_outlier", name)[0]
    axes.plot(outliers, [y] * len(outliers), linestyle="none", marker=".", markersize=3, color=mark.colour)


def _quartiles(name: str, model: str, five: Sequence[Row], digits: int) -> str:
    first, median, third = (wording.signed(row.value, digits) for row in five[1:4])
    return drawable(f"{name}, {model}: median {median}, quartiles {first} to {third}", 140)
