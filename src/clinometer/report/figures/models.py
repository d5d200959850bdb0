"""The papers' two-model figures: several models on one scale, a shape and a colour for each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from clinometer.report import wording
from clinometer.report.figures.marks import (
    Mark,
    draw_intervals,
    draw_mark,
    drawable,
    label_rows,
    place,
    span,
)
from clinometer.report.figures.svg import Figure, Ink, canvas, finish, tidy
from clinometer.report.rows import Row

SHAPES: Final = ("o", "s", "^", "D", "v", "P", "X", "*")
COLOURS: Final = (("accent", Ink.ACCENT), ("third", Ink.THIRD), ("a", Ink.A), ("b", Ink.B))
LEFT: Final = 156
LANE: Final = 15
_GAP: Final = 13
HALO: Final = {"facecolor": Ink.PAPER, "edgecolor": "none", "pad": 1.0}


def model_mark(order: int) -> Mark:
    """Shape and colour of a model by its place; the shape alone tells it."""
    return Mark(SHAPES[order % len(SHAPES)], COLOURS[order % len(COLOURS)][1])


def row_height(models: int) -> int:
    """Pixels of a row that holds a mark of every model."""
    return _GAP + LANE * models


def lane_offset(order: int, models: int) -> float:
    """How far below its row's middle a model's mark lies, in rows."""
    return (order - (models - 1) / 2) * LANE / row_height(models)


def shade_alternate(axes: Any, y: int) -> None:
    """Shade every other row."""
    if y % 2:
        axes.axhspan(y - 0.5, y + 0.5, color=Ink.SHADE, alpha=0.45, linewidth=0, zorder=0)


def draw_model(axes: Any, row: Row, y: float, mark: Mark, gid: str) -> None:
    """Draw one model's number with its intervals."""
    draw_intervals(axes, row, y, mark.colour)
    draw_mark(axes, row.value, y, mark, size=6.5, gid=gid)


def model_tip(name: str, model: str, symbol: str, row: Row, digits: int, *, stimulus: bool = False) -> str:
    """The text that a pointer over a model's mark shows."""
    low, high = (row.stimulus_low, row.stimulus_high) if stimulus else (row.low, row.high)
    number = wording.with_interval(row.value, low, high, digits)
    return drawable(f"{name}, {model}: {symbol} {number}", 140)


def rows_figure(
    by_model: Mapping[str, Mapping[str, Row]],
    names: Sequence[str],
    symbol: str,
    ends: tuple[str, str],
    *,
    name: str,
    title: str,
    margin: float | None = None,
) -> Figure | None:
    """Draw signed numbers, a row each, models beside each other; None where no model has one."""
    names = [label for label in names if any(label in rows and rows[label].defined for rows in by_model.values())]
    if not names:
        return None
    height = max(24, row_height(len(by_model)))
    with canvas(460, 64 + height * len(names)) as figure:
        axes = place(figure, 176, 52, 14, 12)
        tidy(axes)
        axes.set_xlim(*span([row for rows in by_model.values() for row in rows.values()], stimulus=False))
        axes.axvline(0, color=Ink.MUTED, linewidth=1.2, zorder=1)
        if margin:
            axes.axvspan(-margin, margin, color=Ink.SHADE, linewidth=0, zorder=0)
        tips = {}
        for y, label in enumerate(names):
            for order, (model, rows) in enumerate(by_model.items()):
                row = rows.get(label, Row())
                if row.defined:
                    gid = f"r{y}x{order}"
                    draw_model(axes, row, y + (order - (len(by_model) - 1) / 2) * LANE / height, model_mark(order), gid)
                    tips[gid] = model_tip(label, model, symbol, row, 2)
        label_rows(axes, [wording.capitalised(label) for label in names], 26, lines=2)
        left, right = (drawable(end, 26 if all(ends) else 44) for end in ends)
        axes.set_xlabel(f"{left} \u25c2  {symbol}  \u25b8 {right}" if left else f"{symbol}  \u25b8 {right}")
        return finish(figure, name=f"models-{name}", title=title, description="; ".join(tips.values()), tips=tips)


SHAPE_CHARACTERS = {
    "o": "●",
    "s": "■",
    "^": "▲",
    "D": "◆",
    "v": "▼",
    "P": "✚",
    "X": "✖",
    "*": "★",
    "p": "⬟",
    "h": "⬢",
}
