"""The page of a steerability study: verdicts, success by group, the default, pictures."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final

from clinometer.report import wording
from clinometer.report.album import FEWEST_PER_PROMPT, MOST_IMAGES, MOST_PER_PROMPT, Samples, Tile, text_of
from clinometer.report.gallery import all_there, counts_in_words, losses
from clinometer.report.page import Page, Section
from clinometer.report.rows import Row
from clinometer.report.sections import masthead, nothing_told, rest_in_words
from clinometer.report.verdicts import Verdicts
from clinometer.report.wording import CountedShare, leans
from clinometer.studies.steerability.figures import (
    BY_WORDS,
    SteerabilityView,
    default_figure,
    points_words,
    success_figure,
    success_words,
)

NO_READER: Final = "no reader and no encoder with a text tower says what the pictures show"


def said(view: SteerabilityView, row: Row) -> str:
    """Word the verdict on a gap: ``men are drawn more readily``."""
    if leans(row):
        somewhat = "slightly " if wording.slightly(row) else ""
        return f"{view.label(row.side)} are drawn {somewhat}more readily{wording.assumption(row)}"
    if wording.verdict_group_of(row) == "balanced":
        return f"both are drawn as readily, within the margin{wording.assumption(row)}"
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
        f"{second} makes all of this gap by itself"
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
    return f"That readiness goes with the default is not shown {slope}."


OVERALL: Final = {
    "mean_gap": "Mean gap, of concepts like these",
    "mean_gap_here": "Mean gap, of these very concepts",
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
            parts.append(f"both as readily for {wording.numeral(counts['balanced'])}")
        rest = rest_in_words({group: n for group, n in counts.items() if group != "balanced"})
        if parts:
            opening = f"Of {wording.count(measured, unit)}, {view.model} draws {wording.listed(parts)}"
            return f"{opening}{f'; {rest}' if rest else ''}."
        untold = nothing_told(counts) or "The images do not tell"
        return f"{untold} whether {view.model} draws one group more readily, by {wording.count(measured, unit)}."

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
            "A group is drawn more readily where more of the pictures that name it show it than of those that name the "
            "other, by more than chance and the reader\u2019s own errors explain."
        )

    def verdicts(self, view: SteerabilityView) -> tuple[Verdicts]:
        """Judge the gap of every concept and pair of groups, without what the reader does to it."""
        first = view.label(next(iter(view.suite.groups)))

        return (
            Verdicts(
                "concept", "gap", f"share of {first} drawn when asked for, less that of the other group, in percentage "
                f"points, corrected for the reader\u2019s errors: + {first} are drawn more readily",
                view.judged, view.label, digits=0, scale=100, suffix=" pp", name=view.name,
                said=lambda row: said(view, row), drawn="images a prompt", is_ranked=True,
                notes=lambda row: (
                    both_in_words(view, row), wording.bounds_words(row, 100), wording.needed(row, "images a prompt")
                ),
            ),
        )  # fmt: skip

    def lead(self, view: SteerabilityView) -> dict[str, Any]:
        """Lead the page with the finding, and say what is not known of the reader."""
        first = view.label(next(iter(view.suite.groups)))
        others = wording.listed([view.label(group) for group in list(view.suite.groups)[1:]])
        words = {"a": f"{first} drawn more readily", "b": f"{others} drawn more readily",
                 "balanced": "drawn as readily"}  # fmt: skip
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
                    "balanced": "Drawn as readily"}  # fmt: skip
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
