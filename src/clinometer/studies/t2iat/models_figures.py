"""Several models in one figure of a T2IAT study, a shape and a colour for each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from clinometer.report import wording
from clinometer.report.figures.marks import (
    HALO,
    LANE,
    draw_cut,
    draw_mark,
    drawable,
    label_rows,
    model_mark,
    model_tip,
    place,
    shade_alternate,
    span,
    within,
)
from clinometer.report.figures.svg import Figure, Ink, canvas, finish, tidy
from clinometer.report.rows import Row
from clinometer.studies.t2iat.figures import (
    BOX,
    MOST_EFFECT,
    draw_box,
    draw_density,
    draw_zero,
    name_ends,
    stored_curve,
)
from clinometer.studies.t2iat.view import AssociationView

AssociationViews = Mapping[str, AssociationView]


def effect_models_figure(views: AssociationViews) -> Figure | None:
    """Draw Cohen's d of every test, models beside each other: the T2IAT paper's table 1 as a figure."""
    first = next(iter(views.values()))
    tests = first.suite.tests
    rows = {model: [view.effect_sizes.get(test.name, Row()) for test in tests] for model, view in views.items()}
    drawn = [row for model_rows in rows.values() for row in model_rows if row.defined]
    if not drawn:
        return None
    height = 30 + LANE * len(views)
    with canvas(450, 78 + height * len(tests)) as figure:
        axes = place(figure, 12, 50, 14, 12)
        tidy(axes)
        limits = span([within(row, MOST_EFFECT) for row in drawn], include=(0.0, -1.0, 1.0))
        axes.set_xlim(*limits)
        axes.axvline(0, color=Ink.MUTED, linewidth=1.2, zorder=1)
        tips = {}
        for y, test in enumerate(tests):
            subject = f"{first.concept_label(test.x)} / {first.concept_label(test.y)}"
            axes.text(limits[0], y - 0.36, drawable(subject, 58), va="center", fontsize=11.5, bbox=HALO)
            for order, (model, model_rows) in enumerate(rows.items()):
                if model_rows[y].defined:
                    gid = f"d{y}x{order}"
                    at = y + (0.5 + order) * LANE / height
                    draw_cut(axes, model_rows[y], at, model_mark(order), MOST_EFFECT, gid=gid, size=6.5)
                    tips[gid] = model_tip(subject, model, "d", model_rows[y], 2, stimulus=True)
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
                    shade_alternate(axes, y)
                quartiles = [boxes[part].get(name, Row()) for part in BOX]
                if all(row.defined for row in quartiles):
                    at = y + (order - (models - 1) / 2) * 18 / height
                    gid = f"b{y}x{order}"
                    _draw_distribution(axes, view, name, [row.value for row in quartiles], at, order, gid, 18 / height)
                    tips[gid] = _quartiles(name, model, quartiles, view.digits)
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
    quartiles = [Row(value=row.value) for view in views.values() for part in BOX
                 for row in view.stimulus_rows("association", part).values()]  # fmt: skip
    curves = [
        stored_curve(view, f"association_{kind}")[0] for view in views.values() for kind in ("density", "outlier")
    ]
    return span([*quartiles, *(Row(value=float(edge)) for x in curves if len(x) for edge in (x.min(), x.max()))])


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
