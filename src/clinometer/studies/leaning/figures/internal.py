"""Bias amplification on diffusion bias, with the stored curve: the internal-bias paper's figures 2 to 4."""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite
from typing import Any, NamedTuple

from clinometer.report import wording
from clinometer.report.figures.marks import Mark, draw_mark, drawable, place
from clinometer.report.figures.svg import Figure, Ink, canvas, finish, tidy
from clinometer.report.inputs import Curve
from clinometer.report.rows import Row
from clinometer.studies.leaning.view import LeaningView


class InternalPoint(NamedTuple):
    """A concept's δ and α."""

    concept: str
    delta: Row
    alpha: Row
    stereotype: str


LOG_SPAN = 20.0
"""Ratio of the largest to the smallest α from which its axis is logarithmic."""


def internal_bias_figure(view: LeaningView) -> Figure | None:
    """Draw every concept that has both numbers; a hollow mark is unstable."""
    points = list(points_of(view))
    if not points:
        return None
    with canvas(460, 390) as figure:
        axes = place(figure, 66, 52, 14, 14)
        tidy(axes, grid="both")
        logarithmic = scale_alpha(axes, [point.alpha.value for point in points])
        axes.axhline(1, color=Ink.MUTED, linewidth=1, linestyle=(0, (4, 3)), zorder=1)
        _draw_curve(axes, view.report.curve, logarithmic)
        tips = {}
        for order, point in enumerate(points):
            draw_mark(axes, point.delta.value, point.alpha.value, _mark(view, point), gid=f"p{order}", size=8)
            tips[f"p{order}"] = _tip(point)
        finish_internal_axes(axes, logarithmic)
        return finish(
            figure,
            name="internal",
            title="Bias amplification on diffusion bias",
            description=_words(view, points),
            tips=tips,
        )


def points_of(view: LeaningView) -> Sequence[InternalPoint]:
    """Every concept that has both numbers."""
    delta = view.scores.by_concept("internal_bias", "diffusion_bias")
    alpha = view.scores.by_concept("internal_bias", "bias_amplification")
    return [
        InternalPoint(name, delta[name], alpha[name], concept.stereotype)
        for name, concept in view.concepts.items()
        if name in delta and name in alpha and delta[name].defined and alpha[name].defined
    ]


def scale_alpha(axes: Any, values: Sequence[float]) -> bool:
    """Use a logarithmic axis where α spans more than one order of magnitude."""
    logarithmic = min(values) > 0 and max(values) / min(values) > LOG_SPAN
    if logarithmic:
        axes.set_yscale("log")
        axes.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
        axes.yaxis.set_minor_formatter(lambda *_: "")
        axes.tick_params(which="minor", length=0)
        axes.set_ylim(min(values) / 1.5, max(values) * 1.5)
    else:
        axes.set_ylim(min(0.0, *values), max(values) * 1.08 or 1)
    return logarithmic


def finish_internal_axes(axes: Any, logarithmic: bool) -> None:
    """Name both axes once everything is drawn; the one of δ begins at 0 at the latest."""
    axes.set_xlim(left=min(0, *axes.get_xlim()))
    axes.set_xlabel("diffusion bias  δ")
    axes.set_ylabel("bias amplification  α" + (" (log scale)" if logarithmic else ""))
    axes.tick_params(axis="y", labelcolor=Ink.MUTED)


def _draw_curve(axes: Any, curve: Curve, logarithmic: bool) -> None:
    steps = [
        (x, y, low, high)
        for x, y, low, high in zip(curve.x, curve.y, curve.low, curve.high, strict=True)
        if all(map(isfinite, (x, y)))
    ]
    if not steps:
        return
    floor = axes.get_ylim()[0] if logarithmic else float("-inf")
    x, y, *ends = zip(*steps, strict=True)
    low, high = ([max(v, floor) for v in bound] for bound in ends)
    axes.fill_between(x, low, high, color=Ink.SHADE, linewidth=0, zorder=0)  # below the line at α = 1
    points = [(a, b) for a, b in zip(x, y, strict=True) if b > floor]
    if points:
        axes.plot(*zip(*points, strict=True), color=Ink.ACCENT, linewidth=2.2)


def stereotype_mark(view: LeaningView, stereotype: str, *, filled: bool = True) -> Mark:
    """Shape and colour of a stereotype group."""
    marks = {view.group_a: (">", Ink.A), view.group_b: ("<", Ink.B), view.third: ("D", Ink.THIRD)}
    shape, colour = marks.get(stereotype, ("s", Ink.BALANCED))
    return Mark(shape, colour, filled)


def _mark(view: LeaningView, point: InternalPoint) -> Mark:
    return stereotype_mark(view, point.stereotype, filled=not point.alpha.unstable)


def _tip(point: InternalPoint) -> str:
    unstable = ", unstable" if point.alpha.unstable else ""
    delta, alpha = wording.number(point.delta.value, 3), wording.number(point.alpha.value)
    return drawable(f"{point.concept}: δ {delta}, α {alpha}{unstable}", 120)


def _words(view: LeaningView, points: Sequence[InternalPoint]) -> str:
    unstable = sum(point.alpha.unstable for point in points)
    fitted = "with a LOESS curve and its band" if len(view.report.curve.x) else "with no curve"
    return (
        f"{wording.count(len(points), 'concept')}, diffusion bias across, bias amplification up, {fitted}. "
        f"{wording.count(unstable, 'point is', 'points are')} hollow: unstable. " + "; ".join(map(_tip, points))
    )
