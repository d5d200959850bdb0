"""Figures of a leaning study: a forest plot, MCAS by category, components, encoders, δ and α, planted truth."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import isfinite, nan
from typing import Any, Final, NamedTuple

from clinometer.report import wording
from clinometer.report.figures import (
    ENCODER_SHAPES,
    MARKS,
    ROW_HEIGHT,
    Figure,
    Ink,
    Mark,
    canvas,
    draw_intervals,
    draw_mark,
    drawable,
    finish,
    label_rows,
    place,
    span,
    tidy,
)
from clinometer.report.view import Row
from clinometer.report.wording import verdict_group_of
from clinometer.studies.leaning.view import COMPONENT_MEANINGS, COMPONENT_NAMES, Concept, Curve, LeaningView

MOST_ROWS: Final = 32
"""Concepts that the first figure names; those beyond are in the list of verdicts."""

_FOREST_ROW: Final = 17
_NAMES: Final = 138
_SHARES: Final = 206
_PARTS: Final = 212


def forest_figure(view: LeaningView) -> Figure | None:
    """Draw what was found, a row a concept: the share of pictures that read as A, and the image part, with intervals.

    A share that is not read, as where the pictures are not shown to show the concept, has no mark; where there is no
    share at all, the image parts stand alone.
    """
    concepts = shown_concepts(view)
    if not concepts:
        return None
    names = {concept.name for concept in concepts}
    shares = {name: row for name, row in _defined(view.shares).items() if name in names and row.flag != "not shown"}
    height = _FOREST_ROW if len(concepts) > 12 else ROW_HEIGHT + 4
    left = _NAMES + (_SHARES if shares else 0)
    with canvas(left + _PARTS, 92 + height * len(concepts)) as figure:
        tips: dict[str, str] = {}
        if shares:
            axes = place(figure, _NAMES, 44, _PARTS + 32, 48)
            axes.set_xlim(-0.02, 1.02)
            axes.set_xticks([0, 0.5, 1], [wording.percent(at) for at in (0, 0.5, 1)])
            _draw_forest(axes, view, concepts, shares, "s")
            _head(axes, f"Read as {drawable(view.label_a, 22)}", "share of pictures, 95 % interval")
            axes.axvline(0.5, **PARITY_LINE)
            tips |= {
                f"s{y}": drawable(f"{c.name}: {wording.share_words(shares[c.name], view.label_a, view.label_b)}", 120)
                for y, c in enumerate(concepts)
                if c.name in shares
            }
        parts = {name: view.pictures[name] for name in names}
        axes = place(figure, left, 44, 14, 48)
        reach = max(map(abs, span(list(parts.values()), stimulus=False)))
        axes.set_xlim(-reach, reach)
        axes.locator_params(axis="x", nbins=5)
        axes.xaxis.set_major_formatter(lambda value, _: wording.signed(value, 2).removesuffix("0") if value else "0")
        _draw_forest(axes, view, concepts, parts, "p")
        _head(axes, "Score (image part)", "with 95 % interval")
        axes.axvline(0, **PARITY_LINE)
        _mark_middle(axes, view.middle("image_part"))
        _name_ends(axes, view, 11)
        tips |= {f"p{y}": _tip(view, view.pictures[c.name], "image part") for y, c in enumerate(concepts)}
        label_rows(figure.axes[0], [concept.name for concept in concepts])
        if shares:
            label_rows(axes, [""] * len(concepts))
        return finish(
            figure,
            name="forest",
            title="What was found, concept by concept",
            description=f"One row per concept, from those nearest to {view.label_a} to those nearest to {view.label_b}."
            f"{_of_middle(view.middle('image_part'), view.digits)} {'; '.join(tips.values())}.",
            tips=tips,
        )


def shown_concepts(view: LeaningView) -> list[Concept]:
    """Choose the concepts that the first figure has room for: those that lean most, then those farthest from 0."""
    names = [concept.name for concept in view.ordered if concept.name in _defined(view.pictures)][:MOST_ROWS]
    return [concept for concept in view.ranked() if concept.name in names]


def _defined(rows: Mapping[str, Row]) -> dict[str, Row]:
    return {name: row for name, row in rows.items() if row.defined}


def _draw_forest(axes: Any, view: LeaningView, concepts: Sequence[Concept], rows: Mapping[str, Row], gid: str) -> None:
    """Draw a number and its interval for each concept that has one, in the colour of its verdict."""
    tidy(axes)
    for y, concept in enumerate(concepts):
        row, mark = rows.get(concept.name), MARKS[view.verdict_group(concept.name)]
        if row is not None:
            draw_intervals(axes, replace(row, stimulus_low=nan), y, mark.colour)
            draw_mark(axes, row.value, y, mark, size=6, gid=f"{gid}{y}")


def _head(axes: Any, title: str, below: str) -> None:
    """Write the head of a panel: what it shows, and below it how."""
    above = dict(xycoords="axes fraction", textcoords="offset points", va="bottom")
    axes.annotate(title, (0, 1), (0, 22), fontweight="bold", fontsize=12.5, **above)
    axes.annotate(below, (0, 1), (0, 6), color=Ink.MUTED, fontsize=11, **above)


def _name_ends(axes: Any, view: LeaningView, characters: int = 18) -> None:
    """Write below an axis which group either end is."""
    below = dict(transform=axes.transAxes, va="top", color=Ink.MUTED, fontsize=11.5)
    drop = -27 / (axes.figure.get_size_inches()[1] * axes.figure.dpi * axes.get_position().height)
    axes.text(0, drop, f"\u25c2 to {drawable(view.label_b, characters)}", ha="left", **below)
    axes.text(1, drop, f"to {drawable(view.label_a, characters)} \u25b8", ha="right", **below)


PARITY_LINE: Final[dict[str, Any]] = {"color": Ink.MUTED, "linewidth": 1.2, "zorder": 1}
MIDDLE_LINE: Final[dict[str, Any]] = {"color": Ink.MUTED, "linewidth": 1.4, "linestyle": (0, (3, 3)), "zorder": 1}
"""The groups' middle, the second zero of a verdict."""


def _of_middle(middle: float | None, digits: int) -> str:
    """State where the dashed line lies; nothing where there is none."""
    if middle is None:
        return ""
    return f" The dashed line, at {wording.signed(middle, digits)}, is the middle of the groups' own pictures."


def _tip(view: LeaningView, row: Row, score: str) -> str:
    """Return one line about a concept, shown on hovering over its mark."""
    text = f"{row.concept}: {score} {wording.signed(row.value, view.digits)}"
    return drawable(f"{text} {wording.interval(row.low, row.high, view.digits)}".strip(), 120)


def category_figure(view: LeaningView, category: str, limits: tuple[float, float]) -> Figure | None:
    """Draw MCAS of the concepts of one category, dot and both intervals; one of the papers' figures 3 to 6."""
    concepts = view.ranked(category, by=view.mcas)
    if not concepts:
        return None
    label = view.category_label(category)
    with canvas(440, 60 + ROW_HEIGHT * len(concepts)) as figure:
        axes = place(figure, 156, 48, 14, 12)
        tips = {}
        for y, concept in enumerate(concepts):
            row = view.mcas[concept.name]
            mark = MARKS[verdict_group_of(row)]
            draw_intervals(axes, row, y, mark.colour)
            draw_mark(axes, row.value, y, mark, gid=f"c{y}")
            tips[f"c{y}"] = _tip(view, row, "MCAS")
        label_rows(axes, [concept.name for concept in concepts])
        finish_lean_axis(axes, view, limits)
        _mark_middle(axes, view.middle("mcas"))
        number = list(view.suite.categories).index(category)
        return finish(
            figure,
            name=f"category{number}",
            title=f"MCAS: {label}",
            description="; ".join(tips.values()) + "." + _of_middle(view.middle("mcas"), view.digits),
            tips=tips,
        )


def _mark_middle(axes: Any, middle: float | None) -> None:
    """Draw where the groups' own pictures, in equal parts, lie, if it is known and within the axis."""
    if middle is not None and axes.get_xlim()[0] <= middle <= axes.get_xlim()[1]:
        axes.axvline(middle, **MIDDLE_LINE)


def finish_lean_axis(axes: Any, view: LeaningView, limits: tuple[float, float], *, total: bool = True) -> None:
    """Draw zero and, where the axis is MCAS and not a part of it, the margin and where the ends point."""
    tidy(axes)
    axes.set_xlim(*limits)
    axes.axvline(0, color=Ink.MUTED, linewidth=1.2, zorder=1)
    margin = view.suite.margin
    if margin and total:
        axes.axvspan(-margin, margin, color=Ink.SHADE, linewidth=0, zorder=0)
    axes.xaxis.set_major_formatter(lambda value, _: wording.signed(value, 2).removesuffix("0") if value else "0")
    axes.locator_params(axis="x", nbins=6)
    if total:
        _name_ends(axes, view)


def lean_limits(view: LeaningView) -> tuple[float, float]:
    """Return limits of the MCAS axis that all categories share."""
    return span(list(view.mcas.values()))


def component_figure(view: LeaningView) -> Figure | None:
    """Draw the four components side by side, one row a concept: at which stage it leans."""
    concepts = view.ranked()
    panels = {name: view.scores.by_concept("mcas", name) for name in ("ii", "itp", "ita", "tt")}
    rows = [_widest(row) for panel in panels.values() for row in panel.values() if row.defined]
    if not concepts or not rows:
        return None
    reach = max(map(abs, span(rows, stimulus=False)))
    with canvas(_LEFT + 4 * _PANEL, 88 + (ROW_HEIGHT - 2) * len(concepts)) as figure:
        for column, (name, by_concept) in enumerate(panels.items()):
            axes = place(figure, _LEFT + column * _PANEL, 28, (3 - column) * _PANEL + _GAP, 58)
            for y, concept in enumerate(concepts):
                row = by_concept.get(concept.name)
                if row is not None and row.defined:
                    widest, mark = _widest(row), MARKS["a"] if row.value > 0 else MARKS["b"]
                    if widest.has_interval and widest.low <= 0 <= widest.high:
                        mark = MARKS["undecided"]
                    draw_intervals(axes, widest, y, mark.colour)
                    draw_mark(axes, row.value, y, mark, size=6)
            label_rows(axes, [c.name if column == 0 else "" for c in concepts])
            finish_lean_axis(axes, view, (-reach, reach), total=False)
            axes.locator_params(axis="x", nbins=4)
            above = dict(xycoords="axes fraction", textcoords="offset points", va="bottom")
            meaning = COMPONENT_MEANINGS[name].replace(" against ", "\nagainst ")
            axes.annotate(meaning, (0, 1), (0, 5), color=Ink.MUTED, fontsize=10.5, **above)
            axes.annotate(COMPONENT_NAMES[name], (0, 1), (0, 36), fontweight="bold", fontsize=14, **above)
        compared = [f"{COMPONENT_NAMES[name]} compares {COMPONENT_MEANINGS[name]}" for name in panels]
        return finish(
            figure,
            name="components",
            title="The four components of MCAS",
            description=f"Four panels, one row per concept: {'; '.join(compared)}. Every number is in the full table.",
        )


_LEFT: Final = 158
_PANEL: Final = 152
_GAP: Final = 22


def _widest(row: Row) -> Row:
    """Return a row with its image interval, or its stimulus interval where there is no other: TT has no images."""
    low, high = (row.low, row.high) if row.has_interval else (row.stimulus_low, row.stimulus_high)
    return Row(value=row.value, low=low, high=high)


def encoder_figure(view: LeaningView) -> Figure | None:
    """Draw the image part of each concept as every encoder measures it; nothing when there is but one."""
    concepts = view.ranked()
    if len(view.encoders) < 2 or not concepts:
        return None
    by_encoder = {name: view.scores.by_concept("mcas", "image_part", encoder=name) for name in view.encoders}
    rows = [row for by_concept in by_encoder.values() for row in by_concept.values()]
    with canvas(440, 60 + (ROW_HEIGHT - 2) * len(concepts)) as figure:
        axes = place(figure, 156, 48, 14, 12)
        for y, concept in enumerate(concepts):
            concept_rows = [by_concept.get(concept.name) for by_concept in by_encoder.values()]
            values = [row.value for row in concept_rows if row is not None and isfinite(row.value)]
            if values:
                axes.plot([min(values), max(values)], [y, y], color=Ink.GRID, linewidth=2)
            for order, row in enumerate(concept_rows):
                if row is not None and row.defined:
                    shape = ENCODER_SHAPES[order % len(ENCODER_SHAPES)]
                    draw_mark(axes, row.value, y, Mark(shape, Ink.ACCENT, filled=order < len(ENCODER_SHAPES)), size=5)
            mean = view.pictures[concept.name].value
            axes.plot([mean] * 2, [y - 0.32, y + 0.32], color=Ink.TEXT, linewidth=2, zorder=5)
        label_rows(axes, [concept.name for concept in concepts])
        finish_lean_axis(axes, view, span(rows, stimulus=False))
        _mark_middle(axes, view.middle("image_part"))
        return finish(
            figure,
            name="encoders",
            title="The image part as each encoder measures it",
            description=f"One row per concept, one shape per encoder: {wording.listed(view.encoders)}.",
        )


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
        _draw_curve(axes, view.curve, logarithmic)
        marks = {view.group_a: (">", Ink.A), view.group_b: ("<", Ink.B), view.third: ("D", Ink.THIRD)}
        tips = {}
        for order, (name, delta, alpha, stereotype) in enumerate(points):
            mark = Mark(*marks.get(stereotype, ("s", Ink.BALANCED)), filled=not alpha.unstable)
            draw_mark(axes, delta.value, alpha.value, mark, gid=f"p{order}", size=8)
            numbers = f"δ {wording.number(delta.value, 3)}, α {wording.number(alpha.value)}"
            tips[f"p{order}"] = drawable(f"{name}: {numbers}{', unstable' if alpha.unstable else ''}", 120)
        finish_internal_axes(axes, logarithmic)
        fitted = "with a LOESS curve and its band" if view.curve.x else "with no curve"
        hollow = wording.count(sum(point.alpha.unstable for point in points), "point is", "points are")
        return finish(
            figure,
            name="internal",
            title="Bias amplification on diffusion bias",
            description=f"{wording.count(len(points), 'concept')}, diffusion bias across, bias amplification up, "
            f"{fitted}. {hollow} hollow: unstable. " + "; ".join(tips.values()),
            tips=tips,
        )


def points_of(view: LeaningView) -> Sequence[InternalPoint]:
    """Return every concept that has both numbers."""
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


def planted_figure(view: LeaningView, *, score: str) -> Figure | None:
    """Draw the planted probability of group A across and what was measured up.

    Parameters
    ----------
    score : ``"share"``, the share of images nearer to group A (with the line of equality), or ``"image_part"``.
    """
    by_concept = view.shares if score == "share" else view.pictures
    planted = planted_probabilities(view)
    rows = {name: by_concept[name] for name in planted if name in by_concept and by_concept[name].defined}
    if not rows:
        return None
    with canvas(440, 400) as figure:
        axes = place(figure, 64, 52, 16, 14)
        tidy(axes, grid="both")
        tips = {}
        for order, (name, row) in enumerate(rows.items()):
            mark, x = MARKS[view.verdict_group(name)], planted[name]
            if row.has_interval:
                axes.plot([x, x], [row.low, row.high], color=mark.colour, linewidth=2.6, alpha=0.4, zorder=2)
            draw_mark(axes, x, row.value, mark, size=7, gid=f"p{order}")
            numbers = f"planted {wording.number(x)}, measured {wording.number(row.value)}"
            tips[f"p{order}"] = drawable(f"{name}: {numbers}", 120)
        label = drawable(view.label_a, 24)
        axes.set_xlim(-0.03, 1.03)
        axes.set_xlabel(f"planted probability of {label}")
        axes.tick_params(axis="y", labelcolor=Ink.MUTED)
        if score == "share":
            axes.plot([0, 1], [0, 1], color=Ink.ACCENT, linewidth=1.8, zorder=1)
            axes.set_ylim(-0.03, 1.03)
            axes.set_ylabel(f"measured share read as {label}")
        else:
            axes.axhline(0, color=Ink.MUTED, linewidth=1.1, zorder=1)
            axes.axvline(0.5, color=Ink.MUTED, linewidth=1.1, zorder=1)
            axes.set_ylim(*span(list(rows.values()), stimulus=False))
            axes.set_ylabel("measured image part")
        return finish(
            figure,
            name=f"planted-{score.replace('_', '-')}",
            title=f"Planted against measured: {'share of images' if score == 'share' else 'image part'}",
            description="; ".join(tips.values()),
            tips=tips,
        )


def planted_probabilities(view: LeaningView) -> dict[str, float]:
    """Look up the planted probability of group A, by concept, in the suite's order."""
    planted = view.report.planted or {}
    return {
        name: float(planted[name][view.group_a])
        for name in view.concepts
        if name in planted and view.group_a in planted[name]
    }
