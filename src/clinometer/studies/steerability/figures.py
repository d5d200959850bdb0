"""A run of a steerability study as its sections see it, and their figures: who is drawn when asked for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, Final

import numpy as np
import pandas as pd

from clinometer.report import wording
from clinometer.report.album import AT_A_VERDICT, Album, Samples, Tile, is_flagged, text_of
from clinometer.report.figures import Figure, Ink, canvas, finish, tidy
from clinometer.report.figures.marks import (
    HALO,
    MARKS,
    ROW_HEIGHT,
    Mark,
    draw_intervals,
    draw_mark,
    drawable,
    label_rows,
    place,
    shade_alternate,
)
from clinometer.report.inputs import ReportInput
from clinometer.report.rows import DECIDING_FLAG, READING_METRIC, STEERABILITY_METRIC, Row
from clinometer.report.view import StudyView
from clinometer.suites.steerability import SteerabilitySuite

GROUP_MARKS: Final = (Mark("^", Ink.A), Mark("v", Ink.B), Mark("D", Ink.THIRD), Mark("s", Ink.BALANCED))
BY_WORDS: Final = "groups"
"""The question that an encoder answers by the words of the groups: which of them a picture is nearest to."""

MOST_DRAWN: Final = 60
"""Concepts of a figure; scores.csv has all."""
NAMED: Final = 14
"""Concepts that a figure names."""
NEAR_GAP, NEAR_SHARE = 0.09, 0.2
"""Distances in gap and default share below which two names would overlap."""


class AskedAlbum(Album):
    """The album of a run whose verdicts are on pictures that were asked for a group, and not on a concept's own."""

    def __init__(self, report: ReportInput, groups: Sequence[str]) -> None:
        super().__init__(report)
        self._groups = groups

    @cached_property
    def asked(self) -> Mapping[tuple[str, ...], Samples]:
        """The samples of each concept and group."""
        return Samples(self._report.samples).by("concept", "group")

    def of(self, concept: str, group: str, most: int) -> list[Tile]:
        """Show the first pictures of a concept asked for a group; what is flagged or not there is left out."""
        there = [each for each in self.asked.get((concept, group), ())
                 if text_of(each.get("status")) == "ok" and not is_flagged(each)][:most]  # fmt: skip
        tiles = [self.tile(each, f"{each['prompt']}, picture {at}", is_shared=True) for at, each in enumerate(there, 1)]
        return [tile for tile in tiles if tile.picture]

    def at_verdict(self, concept: str) -> list[Tile]:
        """Show the first pictures asked for each of the first two groups, of the same noises."""
        most = min(AT_A_VERDICT, self.limit) // 2
        return [tile for group in self._groups[:2] for tile in self.of(concept, group, most)]


class SteerabilityView(StudyView[SteerabilitySuite]):
    """A run of the study, by the reader whose verdicts stand."""

    @cached_property
    def album(self) -> AskedAlbum:
        """The pictures of the page, each of which it holds once."""
        return AskedAlbum(self.report, list(self.suite.groups))

    @cached_property
    def readers(self) -> list[tuple[str, str]]:
        """Each reader with its question; the one whose verdicts stand comes first."""
        rows = self.scores.select(STEERABILITY_METRIC, "success", encoder="*")
        readings = self.scores.select(READING_METRIC, "separation", encoder="*")
        decide = {(row.encoder, row.setting) for row in readings if row.flag == DECIDING_FLAG}
        return sorted(dict.fromkeys((row.encoder, row.setting) for row in rows), key=lambda each: each not in decide)

    def rows(self, component: str, /, **equal: str) -> list[Row]:
        """Select rows of a component, of the reader whose verdicts stand."""
        if not self.readers:
            return []
        reader, question = self.readers[0]
        return self.scores.select(STEERABILITY_METRIC, component, encoder=reader, setting=question, **equal)

    @cached_property
    def judged(self) -> list[Row]:
        """The gaps with verdicts: one for each concept and pair of groups."""
        return self.rows("corrected_gap")

    @cached_property
    def gaps(self) -> dict[tuple[str, str], Row]:
        """The gaps as read, by concept and pair."""
        return {(row.concept, row.group): row for row in self.rows("gap")}

    @cached_property
    def success(self) -> dict[tuple[str, str], Row]:
        """The share of pictures asked for a group that are read as it, by concept and group."""
        return {(row.concept, row.group): row for row in self.rows("success")}

    @cached_property
    def has_labels(self) -> bool:
        """Whether it is known from labelled pictures how often the reader errs."""
        return any(row.defined for row in self.rows("recall_gap"))

    def pair_of(self, row: Row) -> tuple[str, str]:
        """Return the two groups that a gap lies between, the first of the suite in front."""
        first, *others = self.suite.groups
        return first, next((other for other in others if row.group == f"{first}-{other}"), others[0])

    def name(self, row: Row) -> str:
        """Return the name of a gap: its concept and, of more than two groups, its pair."""
        several = len(self.suite.groups) > 2
        return f"{row.concept}, {' and '.join(map(self.label, self.pair_of(row)))}" if several else row.concept

    @cached_property
    def answers(self) -> Mapping[str, str]:
        """As which group each picture is read, by its id, by the reader whose verdicts stand; empty for none."""
        curves = self.report.curves
        if not self.readers or curves is None or "reader" not in curves:
            return {}
        reader, question = self.readers[0]
        is_reader = (curves.reader == reader) & (curves.question == question)
        rows: pd.DataFrame = curves[(curves.curve == "read") & is_reader]
        return dict(zip(rows["id"], rows.answer, strict=True))


def group_mark(view: SteerabilityView, group: str) -> Mark:
    """Return the mark of a group by its place in the suite."""
    return GROUP_MARKS[list(view.suite.groups).index(group) % len(GROUP_MARKS)]


def success_figure(view: SteerabilityView) -> Figure | None:
    """Draw success by concept and group, each share with its interval; the widest gap on top."""
    by_concept = {name: [row for (concept, _), row in view.success.items() if concept == name and row.defined]
                  for name in view.suite.concept_names()}  # fmt: skip
    names = [name for name, rows in by_concept.items() if rows]
    if not names:
        return None
    names = sorted(names, key=lambda name: -np.ptp([row.value for row in by_concept[name]]))[:MOST_DRAWN]
    groups = list(view.suite.groups)
    height = ROW_HEIGHT * max(1.0, len(groups) / 2)
    with canvas(560, 62 + height * len(names)) as figure:
        axes = place(figure, 176, 50, 18, 10)
        tidy(axes)
        tips = {}
        for y, name in enumerate(names):
            shade_alternate(axes, y)
            values = [row.value for row in by_concept[name]]
            axes.plot([min(values), max(values)], [y, y], color=Ink.GRID, linewidth=2.4, zorder=1)
            for row in by_concept[name]:
                at, gid = groups.index(row.group), f"s{y}x{groups.index(row.group)}"
                offset = y + (at - (len(groups) - 1) / 2) * 0.36
                mark = group_mark(view, row.group)
                draw_intervals(axes, row, offset, mark.colour)
                draw_mark(axes, row.value, offset, mark, size=6.5, gid=gid)
                tips[gid] = drawable(f"{name}, asked for {view.label(row.group)}: {success_words(view, row)}", 140)
        label_rows(axes, [wording.capitalised(name) for name in names], 24)
        axes.set_xlim(-0.02, 1.02)
        axes.xaxis.set_major_formatter(lambda value, _: wording.percent(value))
        axes.set_xlabel("pictures read as the group that was asked for")
        return finish(
            figure, name="success", title="Success by concept and group", tips=tips,
            description="; ".join(tips.values()),
        )  # fmt: skip


def success_words(view: SteerabilityView, row: Row | None) -> str:
    """State how many pictures asked for a group are read as it: ``12 of 20 read as women``."""
    if row is None or not row.defined:
        return wording.MISSING
    return f"{round(row.value * row.n_target):,} of {row.n_target:,} read as {view.label(row.group)}"


def default_figure(view: SteerabilityView) -> Figure | None:
    """Draw the gap of each concept over the share of the first group that it is drawn as by default."""
    first = next(iter(view.suite.groups))
    shares = {row.concept: row for row in view.rows("default_share", group=first)}
    first_pair = f"{first}-{list(view.suite.groups)[1]}"
    judged = {row.concept: row for row in view.judged if row.group == first_pair}
    gaps = {name: row if row.defined else view.gaps.get((name, first_pair), Row()) for name, row in judged.items()}
    points = [(shares[name], gap, judged[name]) for name, gap in gaps.items()
              if gap.defined and name in shares and shares[name].defined]  # fmt: skip
    if len(points) < 2:
        return None
    named: list[Row] = []  # those farthest out first, and none whose name would lie over another
    for share, gap, _ in sorted(points, key=lambda each: -abs(each[1].value))[:NAMED]:
        near = [other for other in named if abs(other.value - gap.value) < NEAR_GAP
                and abs(shares[other.concept].value - share.value) < NEAR_SHARE]  # fmt: skip
        named += [] if near else [gap]
    with canvas(560, 420) as figure:
        axes = place(figure, 62, 54, 16, 12)
        tidy(axes, grid="both")
        axes.axhline(0, color=Ink.MUTED, linewidth=1.2, zorder=1)
        _draw_line(axes, view, first_pair)
        tips = {}
        for number, (share, gap, row) in enumerate(points):
            mark, gid = MARKS[wording.verdict_group_of(row) if row.defined else "undecided"], f"d{number}"
            axes.plot([share.low, share.high], [gap.value] * 2, color=mark.colour, linewidth=1.1, alpha=0.5, zorder=2)
            axes.plot([share.value] * 2, [gap.low, gap.high], color=mark.colour, linewidth=1.1, alpha=0.5, zorder=2)
            draw_mark(axes, share.value, gap.value, mark, size=7, gid=gid)
            tips[gid] = drawable(f"{gap.concept}: {wording.percent(share.value)} {view.label(first)} by default, "
                                 f"gap {points_words(gap)}", 140)  # fmt: skip
            if gap in named:
                right = share.value < 0.7
                axes.annotate(
                    drawable(gap.concept, 18), (share.value, gap.value), (7 if right else -7, 5),
                    textcoords="offset points", ha="left" if right else "right", fontsize=10.5, color=Ink.TEXT,
                    zorder=5, bbox=HALO,
                )  # fmt: skip
        axes.set_xlim(-0.02, 1.02)
        axes.xaxis.set_major_formatter(lambda value, _: wording.percent(value))
        axes.yaxis.set_major_formatter(lambda value, _: wording.signed(100 * value, 0))
        axes.set_xlabel(f"{drawable(view.label(first), 30)} among the pictures of the neutral prompt")
        axes.set_ylabel("gap, percentage points")
        return finish(
            figure, name="default", title="Gap over the default share", description="; ".join(tips.values()), tips=tips
        )  # fmt: skip


def _draw_line(axes: Any, view: SteerabilityView, pair: str) -> None:
    """Draw the gap that the fitted line has at each default share; nothing where there is no line."""
    ends = [next(iter(view.rows(name, group=pair)), None) for name in ("gap_on_default", "gap_at_parity")]
    slope, at_parity = (row.value if row is not None else np.nan for row in ends)
    if np.isfinite(slope) and abs(at_parity) < 1:
        x = np.linspace(0.01, 0.99, 99)
        odds = 2 * np.arctanh(at_parity) + slope * np.log(x / (1 - x))
        axes.plot(x, np.tanh(odds / 2), color=Ink.ACCENT, linewidth=2, zorder=2)


def points_words(row: Row | None) -> str:
    """Write a difference of shares in percentage points, with its interval."""
    return wording.estimate(row, 0, scale=100, unit=" pp")
