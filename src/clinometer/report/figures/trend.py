"""A number of several runs: over checkpoints, dates, or a setting."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from clinometer.report import wording
from clinometer.report.figures.marks import MARKS, draw_mark, drawable, place, span
from clinometer.report.figures.svg import Figure, Ink, canvas, finish, tidy
from clinometer.report.rows import Row
from clinometer.report.verdict_words import verdict_group_of

_WIDTH: Final = 760
_MOST_LABELS: Final = 9
_LABEL: Final = 14


@dataclass(frozen=True)
class TrendPoint:
    """One run's number. ``x`` is where it stands, ``label`` what its place is called, ``name`` the run."""

    x: float
    label: str
    name: str
    row: Row


def trend_figure(points: Sequence[TrendPoint], *, title: str, x_label: str, zero: str = "") -> Figure | None:
    """Draw each run's number with its 95 % interval, from left to right; None where no run has the number.

    ``zero`` : what 0 means, said at its line; empty for a number of which it means nothing.
    """
    measures = [point for point in points if point.row.defined]
    if not measures:
        return None
    with canvas(_WIDTH, 320) as figure:
        axes = place(figure, 66, 66, 20, 16)
        tidy(axes, grid="y")
        axes.set_ylim(*span([point.row for point in measures], include=(0.0,) if zero else (), stimulus=False))
        if zero:
            axes.axhline(0, color=Ink.MUTED, linewidth=1.2, zorder=1)
        tips = dict(_draw(axes, point, f"t{order}") for order, point in enumerate(measures))
        axes.plot([p.x for p in measures], [p.row.value for p in measures], color=Ink.GRID, linewidth=1.4, zorder=1)
        _name_places(axes, measures)
        axes.set_xlabel(x_label)
        return finish(figure, name="trend", title=title, description=". ".join(tips.values()), tips=tips)


def _draw(axes: Any, point: TrendPoint, gid: str) -> tuple[str, str]:
    """Draw one number; return its id and what hovering over it says."""
    row, mark = point.row, MARKS[verdict_group_of(point.row) if point.row.verdict else "balanced"]
    if row.has_interval:
        axes.plot([point.x, point.x], [row.low, row.high], color=mark.colour, linewidth=3.6, alpha=0.55, zorder=3)
    draw_mark(axes, point.x, row.value, mark, gid=gid)
    digits = wording.digits_for([row.value, row.low, row.high])
    number = wording.with_interval(row.value, row.low, row.high, digits)
    return gid, drawable(f"{point.name}, {point.label}: {number}", 160)


def _name_places(axes: Any, points: Sequence[TrendPoint]) -> None:
    """Label places on the axis, not more of them than can be read."""
    places = {point.x: drawable(point.label, _LABEL) for point in points}
    ordered = sorted(places)
    step = -(-len(ordered) // _MOST_LABELS)
    axes.set_xticks(ordered[::step], [places[x] for x in ordered[::step]])
    air = 0.08 * (ordered[-1] - ordered[0]) or 0.5
    axes.set_xlim(ordered[0] - air, ordered[-1] + air)
