"""The page of a steerability study: verdicts, success by group, the default, pictures, and its figures."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, Final

import numpy as np
import pandas as pd

from clinometer.report import figures, wording
from clinometer.report.gallery import all_there, counts_in_words, losses
from clinometer.report.page import Page, Section
from clinometer.report.sections import masthead, nothing_told, rest_in_words
from clinometer.report.verdicts import Verdicts
from clinometer.report.view import (
    AT_A_VERDICT,
    DECIDING_FLAG,
    FEWEST_PER_PROMPT,
    MOST_IMAGES,
    MOST_PER_PROMPT,
    READING_METRIC,
    STEERABILITY_METRIC,
    Album,
    ReportInput,
    Row,
    Samples,
    StudyView,
    Tile,
    is_flagged,
    text_of,
)
from clinometer.report.wording import CountedShare, leans
from clinometer.suites.steerability import SteerabilitySuite

GROUP_MARKS: Final = (
    figures.Mark("^", figures.Ink.A),
    figures.Mark("v", figures.Ink.B),
    figures.Mark("D", figures.Ink.THIRD),
    figures.Mark("s", figures.Ink.BALANCED),
)
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


def group_mark(view: SteerabilityView, group: str) -> figures.Mark:
    """Return the mark of a group by its place in the suite."""
    return GROUP_MARKS[list(view.suite.groups).index(group) % len(GROUP_MARKS)]


def success_figure(view: SteerabilityView) -> figures.Figure | None:
    """Draw success by concept and group, each share with its interval; the widest gap on top."""
    by_concept = {name: [row for (concept, _), row in view.success.items() if concept == name and row.defined]
                  for name in view.suite.concept_names()}  # fmt: skip
    names = [name for name, rows in by_concept.items() if rows]
    if not names:
        return None
    names = sorted(names, key=lambda name: -np.ptp([row.value for row in by_concept[name]]))[:MOST_DRAWN]
    groups = list(view.suite.groups)
    height = figures.ROW_HEIGHT * max(1.0, len(groups) / 2)
    with figures.canvas(560, 62 + height * len(names)) as figure:
        axes = figures.place(figure, 176, 50, 18, 10)
        figures.tidy(axes)
        tips = {}
        for y, name in enumerate(names):
            figures.shade_alternate(axes, y)
            values = [row.value for row in by_concept[name]]
            axes.plot([min(values), max(values)], [y, y], color=figures.Ink.GRID, linewidth=2.4, zorder=1)
            for row in by_concept[name]:
                at, gid = groups.index(row.group), f"s{y}x{groups.index(row.group)}"
                offset = y + (at - (len(groups) - 1) / 2) * 0.36
                mark = group_mark(view, row.group)
                figures.draw_intervals(axes, row, offset, mark.colour)
                figures.draw_mark(axes, row.value, offset, mark, size=6.5, gid=gid)
                tips[gid] = figures.drawable(
                    f"{name}, asked for {view.label(row.group)}: {success_words(view, row)}", 140
                )
        figures.label_rows(axes, [wording.capitalised(name) for name in names], 24)
        axes.set_xlim(-0.02, 1.02)
        axes.xaxis.set_major_formatter(lambda value, _: wording.percent(value))
        axes.set_xlabel("pictures read as the group that was asked for")
        return figures.finish(
            figure, name="success", title="Success by concept and group", tips=tips,
            description="; ".join(tips.values()),
        )  # fmt: skip


def success_words(view: SteerabilityView, row: Row | None) -> str:
    """State how many pictures asked for a group are read as it: ``12 of 20 read as women``."""
    if row is None or not row.defined:
        return wording.MISSING
    return f"{round(row.value * row.n_target):,} of {row.n_target:,} read as {view.label(row.group)}"


def default_figure(view: SteerabilityView) -> figures.Figure | None:
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
    with figures.canvas(560, 420) as figure:
        axes = figures.place(figure, 62, 54, 16, 12)
        figures.tidy(axes, grid="both")
        axes.axhline(0, color=figures.Ink.MUTED, linewidth=1.2, zorder=1)
        _draw_line(axes, view, first_pair)
        tips = {}
        for number, (share, gap, row) in enumerate(points):
            mark, gid = figures.MARKS[wording.verdict_group_of(row) if row.defined else "undecided"], f"d{number}"
            axes.plot([share.low, share.high], [gap.value] * 2, color=mark.colour, linewidth=1.1, alpha=0.5, zorder=2)
            axes.plot([share.value] * 2, [gap.low, gap.high], color=mark.colour, linewidth=1.1, alpha=0.5, zorder=2)
            figures.draw_mark(axes, share.value, gap.value, mark, size=7, gid=gid)
            by_default = f"{wording.percent(share.value)} {view.label(first)} by default"
            tips[gid] = figures.drawable(f"{gap.concept}: {by_default}, gap {points_words(gap)}", 140)
            if gap in named:
                right = share.value < 0.7
                axes.annotate(
                    figures.drawable(gap.concept, 18), (share.value, gap.value), (7 if right else -7, 5),
                    textcoords="offset points", ha="left" if right else "right", fontsize=10.5, color=figures.Ink.TEXT,
                    zorder=5, bbox=figures.HALO,
                )  # fmt: skip
        axes.set_xlim(-0.02, 1.02)
        axes.xaxis.set_major_formatter(lambda value, _: wording.percent(value))
        axes.yaxis.set_major_formatter(lambda value, _: wording.signed(100 * value, 0))
        axes.set_xlabel(f"{figures.drawable(view.label(first), 30)} among the pictures of the neutral prompt")
        axes.set_ylabel("gap, percentage points")
        return figures.finish(
            figure, name="default", title="Gap against the default share", tips=tips,
            description="; ".join(tips.values()),
        )  # fmt: skip


def _draw_line(axes: Any, view: SteerabilityView, pair: str) -> None:
    """Draw the gap that the fitted line has at each default share; nothing where there is no line."""
    ends = [next(iter(view.rows(name, group=pair)), None) for name in ("gap_on_default", "gap_at_parity")]
    slope, at_parity = (row.value if row is not None else np.nan for row in ends)
    if np.isfinite(slope) and abs(at_parity) < 1:
        x = np.linspace(0.01, 0.99, 99)
        odds = 2 * np.arctanh(at_parity) + slope * np.log(x / (1 - x))
        axes.plot(x, np.tanh(odds / 2), color=figures.Ink.ACCENT, linewidth=2, zorder=2)


def points_words(row: Row | None) -> str:
    """Write a difference of shares in percentage points, with its interval."""
    return wording.estimate(row, 0, scale=100, unit=" pp")


NO_READER: Final = "no reader and no encoder with a text tower says what the pictures show"


def said(view: SteerabilityView, row: Row) -> str:
    """Word the verdict on a gap: ``men are drawn more readily``."""
    if leans(row):
        somewhat = "slightly " if wording.slightly(row) else ""
        return f"{view.label(row.side)} are drawn {somewhat}more readily{wording.assumption(row)}"
    if wording.verdict_group_of(row) == "balanced":
        return f"both are drawn equally readily, within the margin{wording.assumption(row)}"
    return wording.verdict_in_full(row, view.label)


def both_in_words(view: SteerabilityView, row: Row) -> str:
    """State how many pictures of either group are read as it: ``asked for men, 20 of 20 read as men; …``."""
    rows = [view.success.get((row.concept, group)) for group in view.pair_of(row)]
    return "; ".join(f"asked for {view.label(each.group)}, {success_words(view, each)}" for each in rows if each)


# --- the finding -----------------------------------------------------------------------------------------------------


def overall(view: SteerabilityView) -> str:
    """State how often each group is drawn when asked for, over all pictures."""
    parts = []
    for group, label in ((group, view.label(group)) for group in view.suite.groups):
        rows = [row for row in view.rows("success", group=group) if row.defined]
        if n := sum(row.n_target for row in rows):
            share = wording.percent(sum(round(row.value * row.n_target) for row in rows) / n)
            parts.append(f"{share} of {n:,} pictures asked for {label} are read as {label}")
    return f"{wording.capitalised(wording.listed(parts))}." if parts else ""


def foremost_gap(view: SteerabilityView) -> Row | None:
    """Return the gap that stands out most: of those with a verdict, or as read where there is none."""
    rows = [row for row in view.judged if leans(row)] or [row for row in view.judged if row.defined]
    return max(rows or [row for row in view.gaps.values() if row.defined], key=lambda row: abs(row.value), default=None)


def reader_words(reader: str, question: str) -> str:
    """State who read the pictures, and by what."""
    return f"{reader}, by the groups\u2019 words" if question == BY_WORDS else f"{reader}, asked about {question}"


# --- the sections ----------------------------------------------------------------------------------------------------


def tipping(row: Row | None) -> str:
    """State how different the reader's recalls would have to be to explain the whole of a gap as read."""
    if row is None or not row.defined or row.value == 0:
        return ""
    first, second = ("first", "second") if row.value > 0 else ("second", "first")
    return (
        f"a reader that recognises the {first} group {abs(100 * row.value):.0f} percentage points more often than the "
        f"{second} would produce all of this gap by itself"
    )


def success(view: SteerabilityView) -> dict[str, Any] | None:
    """Return success as a figure and a table, a row a concept."""
    if not view.success:
        return None
    by = {(row.component, row.concept, row.group): row
          for name in ("other_group", "concept_shown", "quality_gap") for row in view.rows(name)}  # fmt: skip
    first, *others = view.suite.groups
    corrected = {(row.concept, row.group): row for row in view.judged}
    return {
        "figure": success_figure(view), "by": by, "labels": view.has_labels,
        "points": lambda row: wording.estimate(row, 0, scale=100),
        "concepts": [name for name in view.suite.concept_names() if (name, first) in view.success],
        "pairs": [(other, f"{first}-{other}") for other in others], "corrected": corrected,
        "defaults": {row.concept: row for row in view.rows("default_share", group=first)}, "first": first,
    }  # fmt: skip


def default(view: SteerabilityView) -> dict[str, Any] | None:
    """Compare the gaps with the default share, concept by concept and over all of them."""
    figure = default_figure(view)
    rows = [row for name in OVERALL for row in view.rows(name) if not row.concept]
    if figure is None and not rows:
        return None
    first = next(iter(view.suite.groups))
    return {"figure": figure, "rows": rows, "words": OVERALL, "first": first, "said": on_default_words(view)}


def on_default_words(view: SteerabilityView) -> str:
    """State whether the group that is drawn by default is drawn more readily when named; empty without a line."""
    row = next(iter(view.rows("gap_on_default")), None)
    if row is None or not row.defined:
        return ""
    slope = f"(slope {wording.estimate(row)}, {wording.probability(row.p)}, over {row.n_a} concepts)"
    if row.low > 0:
        return f"The group that is drawn by default is also the one that is drawn more readily when named {slope}."
    if row.high < 0:
        return f"The group that is drawn less by default is drawn more readily when named {slope}."
    return f"It is not shown that the group drawn by default is drawn more, or less, readily when named {slope}."


OVERALL: Final = {
    "mean_gap": "Mean gap over concepts like these",
    "mean_gap_here": "Mean gap over these concepts alone",
    "gap_on_default": "Slope of the gap on the default, log odds",
    "gap_at_parity": "Gap where the default is half and half",
    "excess_gap": "IRIS\u2019s max(0, gap of the group drawn by default)",
    "recall_gap": "How much more often the reader recognises the first group",
}


def gallery(view: SteerabilityView) -> dict[str, Any]:
    """Gather the pictures of each concept: neutral, and asked for each group, with how each is read."""
    samples = Samples(view.report.samples)
    by_prompt = samples.by("concept", "group")
    limit = max(FEWEST_PER_PROMPT, min(MOST_PER_PROMPT, MOST_IMAGES // max(1, len(by_prompt))))
    row = foremost_gap(view)
    ranked = [each.concept for each in sorted(view.judged, key=lambda each: -abs(each.value) if each.defined else 0.0)]
    opened = {row.concept, *ranked[:2]} if row is not None else set(ranked[:2])
    concepts = []
    for _, concept in view.suite.concepts:
        prompts = {"": concept.prompt} | {group: concept.asked[group] for group in view.suite.groups}
        pictures = {group: by_prompt.get((concept.name, group), samples[:0]) for group in prompts}
        if not any(pictures.values()):
            continue
        strips = [
            {"group": group, "prompt": prompt, "left_out": max(0, len(pictures[group]) - limit),
             "success": _strip_words(view, concept.name, group),
             "tiles": [_read_tile(view, picture, f"{prompt}, picture {number}")
                       for number, picture in enumerate(pictures[group][:limit], 1)]}
            for group, prompt in prompts.items()
        ]  # fmt: skip
        concepts.append({"name": concept.name, "strips": strips, "is_open": concept.name in opened,
                         "counts": counts_in_words(*pictures.values())})  # fmt: skip
    return {"concepts": concepts, "losses": losses(view, samples), "there": all_there(len(samples)),
            "voices": [reader_words(*each) for each in view.readers[:1]]}  # fmt: skip


def _strip_words(view: SteerabilityView, concept: str, group: str) -> str:
    if group:
        return success_words(view, view.success.get((concept, group)))
    defaults = view.rows("default_share", concept=concept, group=next(iter(view.suite.groups)))
    return success_words(view, next(iter(defaults), None))


def _read_tile(view: SteerabilityView, sample: Mapping[str, Any], alt: str) -> Tile:
    """Show a picture, and below it as which group the reader whose verdicts stand reads it."""
    tile, answer = view.album.tile(sample, alt), view.answers.get(text_of(sample.get("id")))
    if tile.picture is not None and answer is not None and view.readers:
        tile.said = [(view.readers[0][0], view.label(answer) if answer else "none")]
    return tile


class SteerabilityPage(Page[SteerabilityView]):
    """The page of a steerability study."""

    view = SteerabilityView
    package = "clinometer.studies.steerability"

    def finding(self, view: SteerabilityView) -> str:
        """Word the finding in one sentence, by counting verdicts; without labels, as far as it goes."""
        if not view.success:
            return f"Nothing could be measured for {view.model}: {NO_READER}."
        counts = self.verdicts(view)[0].counts()
        measured = counts.total() - counts["unmeasured"]
        if not measured:
            reasons = dict.fromkeys(wording.reason_words(row) for row in view.judged if row.reason_code or row.reason)
            return f"{overall(view)} There is no verdict: {'; '.join(reasons) or 'no gap could be measured'}."
        unit = "concept" if len(view.suite.groups) == 2 else "gap"
        sides = Counter(row.side for row in view.judged if leans(row))
        parts = [f"{view.label(side)} more readily for {wording.numeral(n)}" for side, n in sides.items()]
        if counts["balanced"]:
            parts.append(f"both equally readily for {wording.numeral(counts['balanced'])}")
        rest = rest_in_words({group: n for group, n in counts.items() if group != "balanced"})
        if parts:
            opening = f"Of {wording.count(measured, unit)}, {view.model} draws {wording.listed(parts)}"
            return f"{opening}{f'; {rest}' if rest else ''}."
        untold = nothing_told(counts) or "The images cannot tell"
        return f"{untold} whether {view.model} draws one group more readily, over {wording.count(measured, unit)}."

    def strongest(self, view: SteerabilityView) -> str:
        """State what was asked for and what was drawn, of the widest gap."""
        row = foremost_gap(view)
        if row is None:
            return ""
        prompts = {concept.name: concept.asked for _, concept in view.suite.concepts}[row.concept]
        pair = sorted(view.pair_of(row), key=lambda group: (view.success[row.concept, group].value, group))
        shares = [
            f"\u201c{prompts[group]}\u201d: {success_words(view, view.success[row.concept, group])}" for group in pair
        ]
        kind = "Gap" if row.component == "corrected_gap" else "Gap as read"
        return f"{'; '.join(shares)}. {kind}: {points_words(row)}."

    def meaning(self, view: SteerabilityView) -> str:
        """Explain in one sentence what a verdict means."""
        return (
            "A group is drawn more readily where a larger share of the pictures that name it show it than of those "
            "that name the other, by more than chance and the reader\u2019s own errors explain."
        )

    def verdicts(self, view: SteerabilityView) -> tuple[Verdicts]:
        """Judge the gap of every concept and pair of groups, without what the reader does to it."""
        first = view.label(next(iter(view.suite.groups)))

        return (
            Verdicts(
                "concept", "gap",
                f"share of {first} drawn when asked for, minus that of the other group, in percentage points, "
                f"corrected for the reader\u2019s errors; + means that {first} are drawn more readily",
                view.judged, view.label, digits=0, scale=100, suffix=" pp", name=view.name,
                said=lambda row: said(view, row), drawn="images per prompt", is_ranked=True,
                notes=lambda row: (
                    both_in_words(view, row), wording.bounds_words(row, 100), wording.needed(row, "images per prompt")
                ),
            ),
        )  # fmt: skip

    def lead(self, view: SteerabilityView) -> dict[str, Any]:
        """Lead the page with the finding, and say what is not known of the reader."""
        first = view.label(next(iter(view.suite.groups)))
        others = wording.listed([view.label(group) for group in list(view.suite.groups)[1:]])
        words = {"a": f"{first} drawn more readily", "b": f"{others} drawn more readily",
                 "balanced": "drawn equally readily"}  # fmt: skip
        marks = [
            {**mark, "words": words.get(mark["lean"], mark["words"])}
            for mark in self.verdicts(view)[0].marks((first, others))
        ]
        lead = masthead(
            view, self.finding(view), self.strongest(view), meaning=self.meaning(view), scale=on_default_words(view),
            marks=marks,
        )  # fmt: skip
        facts = [fact for fact in lead["facts"] if not fact[0].startswith("Reader")]
        if view.readers:
            facts.append(("Read by", "; ".join(reader_words(*each) for each in view.readers)))
        return lead | {"facts": facts}

    def foremost(
        self, view: SteerabilityView, judged: Sequence[Verdicts], most: int, pictures: int
    ) -> list[dict[str, Any]]:
        """Return the first pictures of the widest gap, asked for each of its two groups, the harder one first."""
        row = foremost_gap(view)
        if row is None:
            return []
        strips = []
        for group in sorted(view.pair_of(row), key=lambda name: view.success[row.concept, name].value)[:most]:
            success, name = view.success[row.concept, group], f"{row.concept}, asked for {view.label(group)},"
            strips.append({
                "label": wording.capitalised(name), "name": name, "said": success_words(view, success),
                "lean": wording.verdict_group_of(row), "verdict": judged[0].verdict(row),
                "score": f"gap {points_words(row)}",
                "counted": CountedShare(success.value, success.low, success.high, success.n_target, view.label(group)),
                "tiles": view.album.of(row.concept, group, pictures),
                "of": len(view.album.asked.get((row.concept, group), ())),
            })  # fmt: skip
        return [strip for strip in strips if strip["tiles"]]

    def verdict_list(self, view: SteerabilityView) -> dict[str, Any]:
        """List the verdicts, or the gaps as read where no picture is labelled."""
        (judged,) = self.verdicts(view)
        first, *others = (view.label(group) for group in view.suite.groups)
        headings = {"a": f"{wording.capitalised(first)} are drawn more readily",
                    "b": f"{wording.capitalised(' or '.join(others))} are drawn more readily",
                    "balanced": "Drawn equally readily"}  # fmt: skip
        lists = [{**each, "heading": headings.get(each["lean"], each["heading"])}
                 for each in judged.lists((first, wording.listed(others)), view.suite.margin)]  # fmt: skip
        return {"judged": judged, "lists": lists, "gap": lambda row: view.gaps.get((row.concept, row.group)),
                "points": points_words, "both": lambda row: both_in_words(view, row), "tipping": tipping}  # fmt: skip

    def own_sections(self) -> Sequence[Section]:
        """Return the sections of this study alone."""
        return (
            Section("verdicts", "Verdicts", self.verdict_list, "verdicts"),
            Section("success", "Asked for and drawn", success, "success"),
            Section("default", "Against the default", default, "default"),
            Section("gallery", "The pictures", gallery, "gallery", "pictures"),
        )


PAGE: Final = SteerabilityPage()
