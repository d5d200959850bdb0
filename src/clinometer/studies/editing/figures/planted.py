"""Flip rates over the planted probability of the gender that they flip to."""

from __future__ import annotations

from typing import NamedTuple

from clinometer.report import wording
from clinometer.report.figures.marks import Mark, draw_mark, drawable, place
from clinometer.report.figures.svg import Figure, Ink, canvas, finish, tidy
from clinometer.report.rows import Row
from clinometer.studies.editing.view import EditingView


class PlantedCell(NamedTuple):
    """A group edited into a profession: what was planted for the other gender, and how often it flipped."""

    group: str
    profession: str
    planted: float
    row: Row


def known_cells(view: EditingView, setting: str) -> list[PlantedCell]:
    """Every group and profession whose leaning is known, at one strength."""
    planted = view.report.planted or {}
    suite = view.suite
    other = {suite.genders.a: suite.genders.b, suite.genders.b: suite.genders.a}
    rows = view.scores.select("editing", "flip_rate", encoder=view.reader, setting=setting)
    return [
        PlantedCell(row.group, row.concept, float(planted[row.concept][gender]), row)
        for row in rows
        if row.concept and (gender := other[suite.groups[row.group].gender]) in planted.get(row.concept, {})
    ]


def flips_figure(view: EditingView, setting: str, number: int) -> Figure | None:
    """Draw the planted probability of the other gender across and the flip rate up; colour and shape are genders."""
    cells = [cell for cell in known_cells(view, setting) if cell.row.defined]
    if not cells:
        return None
    with canvas(330, 300) as figure:
        axes = place(figure, 58, 50, 12, 12)
        tidy(axes, grid="both")
        tips = {}
        for order, cell in enumerate(cells):
            mark = gender_mark(view, cell.group)
            if cell.row.has_interval:
                axes.plot(
                    [cell.planted] * 2, [cell.row.low, cell.row.high], color=mark.colour, linewidth=2.2, alpha=0.3
                )
            draw_mark(axes, cell.planted, cell.row.value, mark, size=6, gid=f"f{number}-{order}")
            numbers = f"planted {wording.number(cell.planted)}, flipped {wording.number(cell.row.value)}"
            tips[f"f{number}-{order}"] = drawable(f"{view.label(cell.group)} as {cell.profession}: {numbers}", 120)
        axes.set_xlim(-0.03, 1.03)
        axes.set_ylim(-0.03, 1.03)
        axes.set_xlabel("planted probability of the other gender")
        axes.set_ylabel("flip rate")
        axes.tick_params(axis="y", labelcolor=Ink.MUTED)
        return finish(
            figure,
            name=f"planted-flips{number}",
            title=f"Flip rate over the planted probability of the other gender, {setting}",
            description="; ".join(tips.values()),
            tips=tips,
        )


def gender_mark(view: EditingView, group: str) -> Mark:
    """Colour and shape of a group's gender."""
    return Mark("o", Ink.A) if view.suite.groups[group].gender == view.suite.genders.a else Mark("s", Ink.B)
