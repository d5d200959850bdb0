"""The run of an editing study as its page sees it, and the figures of the page: who flips, whose skin changes."""

from __future__ import annotations

from functools import cached_property
from typing import NamedTuple

from clinometer.report import wording
from clinometer.report.figures import Figure, Ink, canvas, finish, tidy
from clinometer.report.figures.marks import Mark, draw_cell, draw_mark, drawable, label_rows, place, span
from clinometer.report.rows import Row
from clinometer.report.view import StudyView
from clinometer.studies.editing.scores import PIXELS
from clinometer.suites import EditingSuite

CELL = 64

LABEL = 190


class EditingView(StudyView[EditingSuite]):
    """The run of an editing study."""

    unit = "portraits"

    @property
    def label_a(self) -> str:
        """The gender that a positive asymmetry moves to."""
        return self.suite.genders.a

    @property
    def label_b(self) -> str:
        """The other gender."""
        return self.suite.genders.b

    @cached_property
    def readers(self) -> list[str]:
        """The encoders that read genders."""
        return [name for name in self.encoders if name != PIXELS]

    @property
    def reader(self) -> str:
        """The encoder whose readings lead the page: the first."""
        return self.readers[0] if self.readers else ""

    @cached_property
    def kinds(self) -> list[str]:
        """The classes of professions, in the suite's order."""
        return list(dict.fromkeys(profession.kind for profession in self.suite.professions.values()))

    @cached_property
    def settings(self) -> list[str]:
        """The strengths as rows name them."""
        return list(self.suite.settings.values())

    @cached_property
    def columns(self) -> list[tuple[str, str]]:
        """Every (class, strength)."""
        return [(kind, setting) for kind in self.kinds for setting in self.settings]

    def class_rows(self, component: str, encoder: str = PIXELS) -> list[Row]:
        """Return rows about whole classes, measured on pixels unless an encoder is named."""
        return [row for row in self.scores.select("editing", component, encoder=encoder) if not row.concept]

    def by_cell(self, component: str, encoder: str = PIXELS) -> dict[tuple[str, str, str], Row]:
        """Return rows about whole classes by group, class and strength."""
        return {(row.group, row.category, row.setting): row for row in self.class_rows(component, encoder)}


def flip_matrix(view: EditingView, encoder: str, name: str, component: str = "flip_rate") -> Figure | None:
    """Draw the share of flipped edits: a row a group, a column a class and strength."""
    groups, columns = list(view.suite.groups), view.columns
    cells = {(row.group, row.category, row.setting): row for row in view.class_rows(component, encoder) if row.defined}
    if not cells:
        return None
    with canvas(LABEL + CELL * len(columns) + 10, 62 + CELL * 0.72 * len(groups)) as figure:
        axes = place(figure, LABEL, 8, 10, 54)
        for y, group in enumerate(groups):
            for x, (kind, setting) in enumerate(columns):
                row = cells.get((group, kind, setting))
                if row is None:
                    axes.text(x, y, wording.MISSING, ha="center", va="center", color=Ink.MUTED)
                    continue
                ends = f"{100 * row.low:.0f}{wording.DASH}{100 * row.high:.0f}" if row.has_interval else ""
                draw_cell(axes, x, y, Ink.ACCENT, row.value, wording.percent(row.value), ends)
        axes.set_xlim(-0.5, len(columns) - 0.5)
        label_rows(axes, [wording.capitalised(view.label(group)) for group in groups], 26)
        axes.set_ylim(len(groups) - 0.5, -0.5)
        axes.xaxis.tick_top()
        axes.set_xticks(range(len(columns)), [setting.removeprefix("strength ") for _, setting in columns])
        for order, kind in enumerate(view.kinds):
            start = (order * len(view.settings) - 0.45, -0.5)
            beside = {"textcoords": "offset points", "annotation_clip": False, "color": Ink.MUTED}
            axes.annotate(drawable(kind, 30), start, (0, 30), **beside)
        tidy(axes)
        axes.grid(visible=False)
        return finish(
            figure, name=name, title="Share of edits whose gender reads otherwise than before",
            description="One row a group of portraits, one column a class of professions and a strength. "
            "The same numbers are in the full table.",
        )  # fmt: skip


def skin_arrows(view: EditingView, kind: str, number: int) -> Figure | None:
    """Draw an arrow for each group and strength: from the portraits' mean angle to the edits'."""
    rows = [row for row in view.scores.select("editing", "ita", encoder=PIXELS) if row.defined]
    before = {row.group: row for row in rows if row.setting == "before"}
    after = {(row.group, row.setting): row for row in rows if row.category == kind}
    lines = [(group, setting) for group in view.suite.groups for setting in view.settings if (group, setting) in after]
    if not lines or not before:
        return None
    with canvas(460, 64 + 19 * len(lines)) as figure:
        axes = place(figure, 210, 46, 14, 10)
        labels, named = [], set[str]()
        for y, (group, setting) in enumerate(lines):
            start, end = before.get(group), after[group, setting]
            if end.has_interval:
                axes.plot([end.low, end.high], [y, y], color=Ink.ACCENT, linewidth=3.6, alpha=0.3, zorder=2)
            if start is not None:
                arrow = {"arrowstyle": "->", "color": Ink.MUTED, "lw": 1.2}
                axes.annotate("", (end.value, y), (start.value, y), arrowprops=arrow, zorder=3)
                draw_mark(axes, start.value, y, Mark("o", Ink.MUTED, filled=False), size=4.5)
            draw_mark(axes, end.value, y, Mark("o", Ink.ACCENT), size=4.5)
            group_label = "" if group in named else f"{drawable(view.label(group), 24)}  "
            labels.append(f"{group_label}{setting.removeprefix('strength ')}")
            named.add(group)
        label_rows(axes, labels, 30)
        tidy(axes)
        axes.set_xlim(*span([*before.values(), *after.values()], include=(), stimulus=False))
        axes.set_xlabel("individual typology angle, degrees: lighter \N{RIGHTWARDS ARROW}")
        return finish(
            figure, name=f"skin{number}", title=f"Skin tone before and after editing into {kind} professions",
            description="Each arrow leads from the mean angle of a group's portraits to that of their edits.",
        )  # fmt: skip


class PlantedCell(NamedTuple):
    """A group edited into a profession: what was planted for the other gender, and how often it flipped."""

    group: str
    profession: str
    planted: float
    row: Row


def known_cells(view: EditingView, setting: str) -> list[PlantedCell]:
    """Return every group and profession whose leaning is known, at one strength."""
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
            is_a = view.suite.groups[cell.group].gender == view.suite.genders.a
            mark = Mark("o", Ink.A) if is_a else Mark("s", Ink.B)
            if cell.row.has_interval:
                ends = [cell.row.low, cell.row.high]
                axes.plot([cell.planted] * 2, ends, color=mark.colour, linewidth=2.2, alpha=0.3)
            draw_mark(axes, cell.planted, cell.row.value, mark, size=6, gid=f"f{number}-{order}")
            numbers = f"planted {wording.number(cell.planted)}, flipped {wording.number(cell.row.value)}"
            tips[f"f{number}-{order}"] = drawable(f"{view.label(cell.group)} as {cell.profession}: {numbers}", 120)
        axes.set_xlim(-0.03, 1.03)
        axes.set_ylim(-0.03, 1.03)
        axes.set_xlabel("planted probability of the other gender")
        axes.set_ylabel("flip rate")
        axes.tick_params(axis="y", labelcolor=Ink.MUTED)
        return finish(
            figure, name=f"planted-flips{number}", description="; ".join(tips.values()), tips=tips,
            title=f"Flip rate over the planted probability of the other gender, {setting}",
        )  # fmt: skip
