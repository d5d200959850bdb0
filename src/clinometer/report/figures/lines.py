"""A number of several runs: along an axis of settings with 95 % bands, or over checkpoints and dates."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from clinometer.report import wording
from clinometer.report.figures.marks import MARKS, SHAPE_CHARACTERS, draw_mark, drawable, model_mark, place, span
from clinometer.report.figures.svg import Figure, Ink, canvas, finish, tidy
from clinometer.report.rows import Row
from clinometer.report.wording import verdict_group_of

_LINE: Final = 17
_MOST_LABELS: Final = 9


@dataclass(frozen=True)
class Step:
    """A number at a place of the axis; ``label`` says which place, ``name`` which run."""

    x: float
    label: str
    row: Row
    name: str = ""


@dataclass(frozen=True)
class Line:
    """Numbers of one setting of all other axes, along this one."""

    name: str
    steps: tuple[Step, ...]


def bands_figure(
    lines: Sequence[Line], *, name: str, title: str, x_label: str, symbol: str, zero: str = ""
) -> Figure | None:
    """Draw the lines with their bands; None where nothing is measured.

    ``zero`` : what 0 means, said at its line; empty for a number of which it means nothing.
    """
    curves = [(line.name, steps) for line in lines if (steps := [step for step in line.steps if step.row.defined])]
    if not curves:
        return None
    below = 66 + (_LINE * len(curves) if len(curves) > 1 else 0)
    with canvas(520, 234 + below) as figure:
        axes = place(figure, 66, below, 16, 26)
        _prepare(axes, [step for _, steps in curves for step in steps], zero, air=0.06)
        tips = {}
        for order, (line, steps) in enumerate(curves):
            mark = model_mark(order)
            banded = [step for step in steps if step.row.has_interval]
            if len(banded) > 1:
                ends = ([step.row.low for step in banded], [step.row.high for step in banded])
                axes.fill_between(
                    [step.x for step in banded], *ends, color=mark.colour, alpha=0.14, linewidth=0, zorder=1
                )
            values = [step.row.value for step in steps]
            axes.plot([step.x for step in steps], values, color=mark.colour, linewidth=1.6, zorder=2)
            for at, step in enumerate(steps):
                row, gid = step.row, f"b{order}x{at}"
                if row.has_interval:
                    axes.plot([step.x] * 2, [row.low, row.high], color=mark.colour, linewidth=2.4, alpha=0.5, zorder=3)
                draw_mark(axes, step.x, row.value, mark, size=6, gid=gid)
                which = ", ".join(part for part in (line, step.label) if part)
                tips[gid] = drawable(f"{which}: {symbol} {_number(row)}", 160)
            if len(curves) > 1:  # name the lines below the axis: shape, colour, setting
                axes.annotate(
                    f"{SHAPE_CHARACTERS[mark.shape]} {drawable(line, 60)}", (0, 0), xycoords="axes fraction",
                    xytext=(0, -50 - _LINE * order), textcoords="offset pixels", color=mark.colour, fontsize=11.5,
                    va="top", annotation_clip=False,
                )  # fmt: skip
        axes.set_xlabel(x_label)
        return finish(figure, name=name, title=title, description=". ".join(tips.values()), tips=tips)


def trend_figure(points: Sequence[Step], *, title: str, x_label: str, zero: str = "") -> Figure | None:
    """Draw each run's number with its 95 % interval, from left to right; None where no run has the number.

    ``zero`` : what 0 means, said at its line; empty for a number of which it means nothing.
    """
    measures = [point for point in points if point.row.defined]
    if not measures:
        return None
    with canvas(760, 320) as figure:
        axes = place(figure, 66, 66, 20, 16)
        _prepare(axes, measures, zero, air=0.08)
        tips = {}
        for order, point in enumerate(measures):
            row, gid = point.row, f"t{order}"
            mark = MARKS[verdict_group_of(row) if row.verdict else "balanced"]
            if row.has_interval:
                axes.plot([point.x] * 2, [row.low, row.high], color=mark.colour, linewidth=3.6, alpha=0.55, zorder=3)
            draw_mark(axes, point.x, row.value, mark, gid=gid)
            tips[gid] = drawable(f"{point.name}, {point.label}: {_number(row)}", 160)
        axes.plot([p.x for p in measures], [p.row.value for p in measures], color=Ink.GRID, linewidth=1.4, zorder=1)
        axes.set_xlabel(x_label)
        return finish(figure, name="trend", title=title, description=". ".join(tips.values()), tips=tips)


def _prepare(axes: Any, steps: Sequence[Step], zero: str, *, air: float) -> None:
    """Set both limits, draw zero where it means something, and name not more places than can be read."""
    tidy(axes, grid="y")
    axes.set_ylim(*span([step.row for step in steps], include=(0.0,) if zero else (), stimulus=False))
    if zero:
        axes.axhline(0, color=Ink.MUTED, linewidth=1.2, zorder=1)
    places = {step.x: drawable(step.label, 14) for step in steps}
    ordered = sorted(places)
    every = -(-len(ordered) // _MOST_LABELS)
    axes.set_xticks(ordered[::every], [places[x] for x in ordered[::every]])
    margin = air * (ordered[-1] - ordered[0]) or 0.5
    axes.set_xlim(ordered[0] - margin, ordered[-1] + margin)


def _number(row: Row) -> str:
    return wording.with_interval(row.value, row.low, row.high, wording.digits_for([row.value, row.low, row.high]))
