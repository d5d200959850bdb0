"""Planted against measured: whether the ruler is straight."""

from __future__ import annotations

from typing import Any

from clinometer.report import wording
from clinometer.report.figures.marks import MARKS, draw_mark, drawable, place, span
from clinometer.report.figures.svg import Figure, Ink, canvas, finish, tidy
from clinometer.report.rows import Row
from clinometer.studies.leaning.view import LeaningView


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
            mark = MARKS[view.verdict_group(name)]
            _draw_interval(axes, planted[name], row, mark.colour)
            draw_mark(axes, planted[name], row.value, mark, size=7, gid=f"p{order}")
            tips[f"p{order}"] = drawable(
                f"{name}: planted {wording.number(planted[name])}, measured {wording.number(row.value)}", 120
            )
        _frame(axes, view, score, list(rows.values()))
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


def _draw_interval(axes: Any, x: float, row: Row, colour: str) -> None:
    if row.has_interval:
        axes.plot([x, x], [row.low, row.high], color=colour, linewidth=2.6, alpha=0.4, zorder=2)


def _frame(axes: Any, view: LeaningView, score: str, rows: list[Row]) -> None:
    label = drawable(view.label_a, 24)
    axes.set_xlim(-0.03, 1.03)
    axes.set_xlabel(f"planted probability of {label}")
    axes.tick_params(axis="y", labelcolor=Ink.MUTED)
    if score == "share":
        axes.plot([0, 1], [0, 1], color=Ink.ACCENT, linewidth=1.8, zorder=1)
        axes.set_ylim(-0.03, 1.03)
        axes.set_ylabel(f"measured share read as {label}")
        return
    axes.axhline(0, color=Ink.MUTED, linewidth=1.1, zorder=1)
    axes.axvline(0.5, color=Ink.MUTED, linewidth=1.1, zorder=1)
    axes.set_ylim(*span(rows, stimulus=False))
    axes.set_ylabel("measured image part")
