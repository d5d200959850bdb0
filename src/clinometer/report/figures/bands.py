"""A number along an axis of settings: a line and its 95 % band for each of a few other settings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Any, Final

from clinometer.report import wording
from clinometer.report.figures.marks import draw_mark, drawable, place, span
from clinometer.report.figures.models import SHAPE_CHARACTERS, model_mark
from clinometer.report.figures.svg import Figure, Ink, canvas, finish, tidy
from clinometer.report.rows import Row

_WIDTH: Final = 520
_HEIGHT: Final = 300
_LINE: Final = 17
_MOST_LABELS: Final = 9


@dataclass(frozen=True)
class Step:
    """A number at a place of the axis; ``label`` says which."""

    x: float
    label: str
    row: Row


@dataclass(frozen=True)
class Line:
    """Numbers of one setting of all other axes, along this one."""

    name: str
    steps: tuple[Step, ...]

    @property
    def measured_steps(self) -> tuple[Step, ...]:
        """Those that are measured."""
        return tuple(step for step in self.steps if step.row.defined)


def bands_figure(
    lines: Sequence[Line], *, name: str, title: str, x_label: str, symbol: str, zero: str = ""
) -> Figure | None:
    """Draw the lines with their bands; None where nothing is measured.

    ``zero`` : what 0 means, said at its line; empty for a number of which it means nothing.
    """
    curves = [line for line in lines if line.measured_steps]
    if not curves:
        return None
    steps = [step for line in curves for step in line.measured_steps]
    below = 66 + (_LINE * len(curves) if len(curves) > 1 else 0)
    with canvas(_WIDTH, _HEIGHT + below - 66) as figure:
        axes = place(figure, 66, below, 16, 26)
        tidy(axes, grid="y")
        axes.set_ylim(*span([step.row for step in steps], include=(0.0,) if zero else (), stimulus=False))
        if zero:
            axes.axhline(0, color=Ink.MUTED, linewidth=1.2, zorder=1)
        tips = {
            gid: tip for order, line in enumerate(curves) for gid, tip in _draw(axes, line, order, len(curves), symbol)
        }
        _name_places(axes, steps)
        axes.set_xlabel(x_label)
        axes.set_title(symbol, fontsize=12)
        if len(curves) > 1:
            _key(axes, curves, below)
        return finish(figure, name=name, title=title, description=". ".join(tips.values()), tips=tips)


def _draw(axes: Any, line: Line, order: int, lines: int, symbol: str) -> list[tuple[str, str]]:
    """Draw a line; return the ids of its marks and what hovering over them says."""
    mark, steps = model_mark(order), line.measured_steps
    banded = [step for step in steps if step.row.has_interval]
    if len(banded) > 1:
        ends = ([step.row.low for step in banded], [step.row.high for step in banded])
        axes.fill_between([step.x for step in banded], *ends, color=mark.colour, alpha=0.14, linewidth=0, zorder=1)
    axes.plot(
        [step.x for step in steps], [step.row.value for step in steps], color=mark.colour, linewidth=1.6, zorder=2
    )
    tips = []
    for place_, step in enumerate(steps):
        row, gid = step.row, f"b{order}x{place_}"
        if row.has_interval:
            axes.plot([step.x, step.x], [row.low, row.high], color=mark.colour, linewidth=2.4, alpha=0.5, zorder=3)
        draw_mark(axes, step.x, row.value, mark, size=6, gid=gid)
        digits = wording.digits_for([value for value in (row.value, row.low, row.high) if isfinite(value)])
        number = wording.with_interval(row.value, row.low, row.high, digits)
        tips.append((gid, drawable(f"{line.name}{', ' if line.name else ''}{step.label}: {symbol} {number}", 160)))
    return tips


def _name_places(axes: Any, steps: Sequence[Step]) -> None:
    places = {step.x: drawable(step.label, 14) for step in steps}
    ordered = sorted(places)
    every = -(-len(ordered) // _MOST_LABELS)
    axes.set_xticks(ordered[::every], [places[x] for x in ordered[::every]])
    air = 0.06 * (ordered[-1] - ordered[0]) or 0.5
    axes.set_xlim(ordered[0] - air, ordered[-1] + air)


def _key(axes: Any, lines: Sequence[Line], below: float) -> None:
    """Name the lines below the axis: shape, colour, setting."""
    for order, line in enumerate(lines):
        mark = model_mark(order)
        text = f"{SHAPE_CHARACTERS[mark.shape]} {drawable(line.name, 60)}"
        axes.annotate(
            text, (0, 0), xycoords="axes fraction", xytext=(0, -50 - _LINE * order), textcoords="offset pixels",
            color=mark.colour, fontsize=11.5, va="top", annotation_clip=False,
        )  # fmt: skip
