"""The page of a leaning study: the finding, the verdicts, and a section for each of its numbers.

A pair of groups is an axis of two levels without a name. There is more to show of a single pair than of axes: what a
page has is said in :data:`PAGE` and :data:`AXES_PAGE`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from math import isfinite
from typing import Any, Final

from clinometer.report import wording
from clinometer.report.page import Page, Section
from clinometer.report.sections import leanings_in_words, masthead, nothing_judged, nothing_told
from clinometer.report.verdicts import SHOWN, Summary, Verdicts, unmeasured
from clinometer.report.view import Row
from clinometer.report.wording import IN_PROPORTION, leans, note, qualification, without_estimate
from clinometer.studies.leaning import sections
from clinometer.studies.leaning.figures import forest_figure, planted_probabilities, shown_concepts
from clinometer.studies.leaning.pictures import gallery, onsets_in_words, way
from clinometer.studies.leaning.plane import plane
from clinometer.studies.leaning.view import PART_SCALE, WITHOUT_SIDE, LeaningView

# --- the finding and the verdicts ------------------------------------------------------------------------------------


def _left_out(view: LeaningView) -> str:
    """State how many concepts the figure has no room for; nothing where it has all."""
    more = len(view.ranked()) - len(shown_concepts(view))
    shown = "Shown are the concepts that lean most, or lie farthest from 0"
    return f"{shown}; {wording.count(more, 'more is', 'more are')} listed below. " if more else ""


def _dashed(view: LeaningView) -> str:
    """Explain the dashed line; nothing where there is none."""
    middle = view.middle("image_part")
    if middle is None:
        return ""
    return (
        f"The dashed line, at {wording.signed(middle, view.digits)}, marks an equal mix of the groups\u2019 own "
        "pictures; a verdict names a side only beyond both lines."
    )


NEARLY_ALL: Final = 0.9
"""Share of pictures of one group from which on a concept is an anchor of the scale."""


def scale_words(view: LeaningView) -> str:
    """Anchor the scale: what 0 is, and how far concepts lie of which nearly all pictures show, or read as, one group.

    Where the leaning was planted it is known what the pictures show; elsewhere it is what the encoder reads.
    """
    planted = {name: max(p, 1 - p) for name, p in planted_probabilities(view).items()}
    read = {
        name: counted.value
        for name, row in view.shares.items()
        if (counted := wording.counted_share(row, view.label_a, view.label_b))
    }
    sure = [name for name, share in (planted or read).items() if share >= NEARLY_ALL]
    sizes = sorted(abs(view.pictures[name].value) for name in sure if name in view.pictures)
    sizes = [size for size in sizes if isfinite(size)]
    says = (
        "were planted to show one group in nine of ten pictures or more" if planted
        else "have nine of ten pictures or more that read as one group"
    )  # fmt: skip
    ends = dict.fromkeys(wording.number(size, view.digits) for size in sizes[:: max(len(sizes) - 1, 1)])
    anchor = (
        f" In this run the {wording.count(len(sizes), 'concept')} that {says} lie {' to '.join(ends)} from 0."
        if len(sizes) > 1
        else ""
    )
    return (
        "The score, the image part, is 0 where pictures are, all in all, as near to one group\u2019s words and "
        f"pictures as to the other\u2019s.{anchor} It cannot exceed 4 in either direction. How far it goes "
        "depends on the encoder, so compare only scores by the same encoder."
    )


def images_in_words(view: LeaningView, row: Row) -> str:
    """State how many of a concept's images read as the group that most do, or how many there are."""
    shares = wording.share_words(view.shares.get(row.concept), view.label_a, view.label_b)
    return shares or wording.count(row.n_target, "image")


def _bars(view: LeaningView, row: Row, scale: float) -> dict[str, Any]:
    """Place both parts as bars in a strip of 120: where each begins, how long it is, and on which side of 60."""
    text = view.texts.get(row.concept)
    rows = {"pictures": row} | ({"text": text} if text is not None and text.defined else {})
    bars: dict[str, Any] = {
        name: {
            "x": round(60 + min(scale * part.value, 0.0), 1),
            "width": round(abs(scale * part.value), 1),
            "side": "a" if part.value > 0 else "b",
        }
        for name, part in rows.items()
    }
    return bars | {
        "interval": [round(60 + scale * end, 1) for end in row.ends()] if row.has_interval else [],
        "words": ", ".join(f"{name} {wording.signed(part.value, view.digits)}" for name, part in rows.items()),
    }


def reservations(view: LeaningView, row: Row) -> tuple[str, str]:
    """Return doubts on what a concept's images read as: where it seems not to fit, and for how many it says little."""
    return explain_apart(view, row), like_neither(view, row)


def like_neither(view: LeaningView, row: Row) -> str:
    """State how many of a concept's pictures are like neither group's own, where chance does not explain so many."""
    between = view.scores.by_concept("share", "between").get(row.concept)
    if between is None or between.flag != "some lie between":
        return ""
    a, b, n = view.label_a, view.label_b, round(between.value * between.n_target)
    return (
        f"{n:,} of its {wording.count(between.n_target, 'picture')} {'falls' if n == 1 else 'fall'} between the "
        f"groups: less like {a} than nearly all pictures drawn for {a}, and less like {b} than nearly all drawn for {b}"
    )


def explain_apart(view: LeaningView, row: Row) -> str:
    """Explain, by the concept's own numbers, why most images read as the group that its pictures do not lean to.

    An image is read by the words alone, and ITA is the mean of what the words say of each. Where ITA too lies on the
    other side, it is II that the sum follows; where it does not, few images lie further out than the many.
    """
    ita, share = view.scores.by_concept("mcas", "ita").get(row.concept), view.shares.get(row.concept)
    if not leans(row) or share is None or not share.defined or (share.value - 0.5) * row.value >= 0 or ita is None:
        return ""
    side = view.label(row.side)
    if ita.value * row.value < 0:
        return f"read by the words alone; its pictures are nearer to the pictures drawn for {side}, and by more"
    few = round(share.n_target * min(share.value, 1 - share.value))
    return f"{wording.count(few, 'image')} read as {side}, further from the middle than the others" if few else ""


def verdicts_along(view: LeaningView, axis: str) -> Verdicts:
    """Judge every concept along an axis, a row a level where these are more than two, or between a pair of groups."""
    rows = [row for name in view.concepts for row in view.axis_rows(axis, name) or [without_estimate(concept=name)]]
    # a run that is drawn until decided draws more of its concepts alone
    beside = "" if view.report.stopped_early else IN_PROPORTION
    if axis:
        has_sides = len(view.axes[axis]) == 2
        return Verdicts(
            "concept", f"image part, {view.axis_label(axis)}",
            f"image part along {_axis_sign(view, axis)}; {PART_SCALE}", rows, view.label, beside=beside,
            digits=view.digits, notes=lambda row: (note(row, beside=beside),),
            name=lambda row: row.concept if has_sides or not row.group else f"{row.concept}, {view.label(row.group)}",
        )  # fmt: skip
    signs = f"+ leans to {view.label_a}, {wording.MINUS} to {view.label_b}"
    return Verdicts(
        "concept", "image part", f"II + ITA, how the pictures lean: {signs}; {PART_SCALE}", rows, view.label,
        beside=beside, digits=view.digits, reach=(-4, 4), is_ranked=True,
        notes=lambda row: (
            images_in_words(view, row), *reservations(view, row), qualification(row), note(row, beside=beside)
        ),
        counted=lambda row: wording.counted_share(view.shares.get(row.concept), view.label_a, view.label_b),
    )  # fmt: skip


def _axis_sign(view: LeaningView, axis: str) -> str:
    """Name an axis with its first level, which is positive: ``gender (+ men)``."""
    return f"{view.axis_label(axis)} (+ {next(iter(view.axes[axis].values()))})"


def _verdicts_together(view: LeaningView, component: str) -> Verdicts:
    """Judge, for each concept, the cell of an interaction that stands out most, as on the page."""
    rows = [
        view.largest(component, name) or next(iter(view.rows(component, name)), without_estimate(concept=name))
        for name in view.concepts
    ]
    return Verdicts(
        "concept", view.interaction_name(component),
        "the share of images in a cell beyond what its levels alone would give",
        rows, view.label, digits=1, scale=100, suffix="\N{NARROW NO-BREAK SPACE}%",
        said=lambda row: view.interaction_words(component, row.concept), notes=lambda row: (view.label(row.group),),
        beside=IN_PROPORTION,
    )  # fmt: skip


def _pair_on_first_screen(view: LeaningView) -> dict[str, Any]:
    """Count the verdicts, anchor the scale, and draw a figure that names the concepts."""
    caption = f"{_left_out(view)}Coloured by verdict; solid lines are at one half and at 0. {_dashed(view)}"
    return {
        "scale": scale_words(view),
        "marks": verdicts_along(view, "").marks((view.label_a, view.label_b)),
        "figure": forest_figure(view),
        "caption": caption.strip(),
    }


def _pair_summary(view: LeaningView) -> Summary:
    """Summarise the verdicts, and what else was found or is to be wary of, a line each."""
    sentences = (
        *onsets_in_words(view),
        *sections.ablation_in_words(view),
        *filter(None, [sections.language_caution(view)]),
    )
    return replace(verdicts_along(view, "").summary(), found=sentences)


def verdict_lists(view: LeaningView) -> dict[str, Any]:
    """List concepts by their verdicts, each with the bars of its parts and the count of its images."""
    ends = [(row.value, row.low, row.high) for row in view.pictures.values()]
    ends += [(row.value,) * 3 for row in view.texts.values()]
    reach = max((abs(end) for each in ends for end in each if isfinite(end)), default=1.0) or 1.0
    verdicts = verdicts_along(view, "")
    return {
        "lists": verdicts.lists((view.label_a, view.label_b), view.suite.margin),
        "beside": verdicts.beside,
        "images": {name: images_in_words(view, row) for name, row in view.pictures.items()},
        "shares": {
            name: counted.share
            for name, row in view.shares.items()
            if (counted := wording.counted_share(row, view.label_a, view.label_b))
        },
        "bars": {name: _bars(view, row, 58 / reach) for name, row in view.pictures.items() if row.defined},
        "apart": {name: "; ".join(filter(None, reservations(view, row))) for name, row in view.pictures.items()},
        "qualification": {name: qualification(row) for name, row in view.pictures.items()},
        "scale": PART_SCALE,
        "reach": reach,
        "language": sections.language_caution(view),
    }


# --- along axes ------------------------------------------------------------------------------------------------------


def _axes_finding(view: LeaningView) -> str:
    """State after the model's name to which levels it leans, axis by axis, and what goes together."""
    parts = []
    for axis in view.axes:
        leanings, others = [], []
        for kind, n in view.counts(axis).items():
            if isinstance(kind, tuple):
                leanings.append(f"to {view.side_label(kind)} for {n}")
            else:
                others.append(f"{n} {WITHOUT_SIDE[kind]}")
        parts.append(f"by {view.axis_label(axis)} {', '.join([wording.listed(leanings) or 'to no side', *others])}")
    for component in view.interactions:
        counted = [f"{word} for {n}" for word, n in view.interaction_counts(component).items()]
        parts.append(f"{view.interaction_name(component)} {', '.join(counted)}")
    return f"leans {'; '.join(parts)}"


def _axes_on_first_screen(view: LeaningView) -> dict[str, Any]:
    """Count the verdicts of each axis."""
    short = WITHOUT_SIDE | {"balanced": "balanced", "few": "too few images to tell"}
    marks = []
    for axis, levels in view.axes.items():
        for kind, n in view.counts(axis).items():
            if isinstance(kind, tuple):
                is_second = len(levels) == 2 and kind[0] == list(levels)[1]
                lean, words = "b" if is_second else "a", f"to {view.side_label(kind)}"
            else:
                lean, words = kind, short[kind]
            marks.append({"lean": lean, "count": n, "words": f"{view.axis_label(axis)}: {words}"})
    return {"marks": marks}


def _axes_summary(view: LeaningView) -> Summary:
    """Count each axis' verdicts, and list the concepts that lean most along any axis."""
    counted = []
    for axis in view.axes:
        counts = [
            f"{n} {f'to {view.side_label(kind)}' if isinstance(kind, tuple) else WITHOUT_SIDE[kind]}"
            for kind, n in view.counts(axis).items()
        ]
        counted.append(f"{view.axis_label(axis)}: {' · '.join(counts)}")
    for component in view.interactions:
        counts = [f"{n} {word}" for word, n in view.interaction_counts(component).items()]
        counted.append(f"{view.interaction_name(component)}: {' · '.join(counts)}")

    def cell(axis: str, concept: str) -> str:
        row = view.axis_row(axis, concept)
        text = wording.estimate(row, view.digits)
        return f"{view.label(row.group)} {text}" if row and len(view.axis_rows(axis, concept)) > 1 else text

    rows = [row for axis in view.axes for name in view.concepts for row in view.axis_rows(axis, name)]
    return Summary(
        verdicts="; ".join(counted),
        title=f"Image part of MCAS along each axis: {', '.join(_axis_sign(view, axis) for axis in view.axes)}",
        columns=("concept", *map(view.axis_label, view.axes), "verdict"),
        rows=tuple(
            (concept.name, *(cell(axis, concept.name) for axis in view.axes), view.verdict_words(concept.name))
            for concept in view.ordered[:SHOWN]
        ),
        unmeasured=unmeasured(rows, "axis verdict"),
    )


class LeaningPage(Page[LeaningView]):
    """The page of a pair of groups, or of axes.

    ``first_screen`` : (view) → what :func:`~clinometer.report.sections.masthead` shows besides the finding. ``summary``
    : (view) → the run in a few lines. ``sections`` : those that such a suite has.
    """

    view = LeaningView
    package = "clinometer.studies.leaning"

    def __init__(
        self,
        first_screen: Callable[[LeaningView], dict[str, Any]],
        summary: Callable[[LeaningView], Summary],
        sections: Sequence[Section],
        method_template: str = "method",
    ) -> None:
        self._first_screen, self._summary, self._sections = first_screen, summary, sections
        self.method_template = method_template

    def own_sections(self) -> Sequence[Section]:
        """Return the sections of this study alone."""
        return self._sections

    def finding(self, view: LeaningView) -> str:
        """Word the finding in one sentence, by counting verdicts."""
        kinds = {kind for axis in view.axes for kind in view.counts(axis)}
        if kinds <= {"unmeasured"}:
            rows = [row for name in view.concepts for axis in view.axes if (row := view.axis_row(axis, name))]
            return nothing_judged("concept", view.model, rows)
        question = f"asked for {wording.count(len(view.concepts), 'concept')} without naming a group"
        if view.is_pair:
            counts = verdicts_along(view, "").counts()
            return leanings_in_words(counts, question, view.model, (view.label_a, view.label_b))
        if kinds == {"few"}:
            return f"{nothing_told({'few': 1})} whether {view.model} leans, {question}."
        return f"{wording.capitalised(question)}, {view.model} {_axes_finding(view)}."

    def strongest(self, view: LeaningView) -> str:
        """Name the concept that leans most, with its intervals."""
        leaning = [
            (abs(row.value), concept)
            for concept in view.ordered
            for axis in view.axes
            if view.sides(axis, concept.name) and (row := view.axis_row(axis, concept.name)) is not None
        ]
        if not leaning:
            return ""
        concept = max(leaning, key=lambda each: each[0])[1]
        rows = {axis: view.axis_row(axis, concept.name) for axis in view.axes}
        estimates = {axis: wording.estimate(row, view.digits) for axis, row in rows.items()}
        if view.is_pair:
            label = view.side_label(view.sides("", concept.name)[0])
            images = wording.share_words(view.shares.get(concept.name), view.label_a, view.label_b)
            leans_to = f", to {label}, image part {estimates['']} ({PART_SCALE}){f'; {images}' if images else ''}"
        else:
            numbers = ", ".join(f"{view.axis_label(axis)} {estimate}" for axis, estimate in estimates.items())
            leans_to = f" {view.verdict_words(concept.name)} ({numbers})"
        return f"The strongest of those that lean: {concept.prompt}{leans_to}."

    def meaning(self, view: LeaningView) -> str:
        """Explain in one sentence what is said of a concept that leans."""
        label, other = view.labels_of("")
        return (
            f"\N{LEFT DOUBLE QUOTATION MARK}Leans to {label}\N{RIGHT DOUBLE QUOTATION MARK} means: to the encoder, the "
            f"pictures drawn for the concept are, all in all, nearer to the pictures and words for {label} than to "
            f"those for {other}, and by more than the chance of drawing explains."
        )

    def verdicts(self, view: LeaningView) -> Sequence[Verdicts]:
        """Judge every concept along each axis, and on each interaction."""
        by_axis = [verdicts_along(view, axis) for axis in view.axes]
        return [*by_axis, *(_verdicts_together(view, component) for component in view.interactions)]

    def lead(self, view: LeaningView) -> dict[str, Any]:
        """Lead the page with the finding and the counted verdicts."""
        texts = self.finding(view), self.strongest(view)
        return masthead(view, *texts, meaning=self.meaning(view), **self._first_screen(view))

    def summarise(self, view: LeaningView) -> Summary:
        """Summarise the verdicts, and what else was found."""
        return self._summary(view)


_GALLERY: Final = Section("gallery", "The pictures", gallery, "gallery", "pictures")

PAGE: Final = LeaningPage(_pair_on_first_screen, _pair_summary, (
    Section("verdicts", "Verdicts", verdict_lists, "verdicts"),
    Section("categories", "MCAS: pictures and text together", sections.categories, "categories"),
    Section("stages", "The four components", sections.stages, "stages"),
    Section("inside", "From which step on it leans", way, "way"),
    Section("internal", "Diffusion bias and amplification", sections.internal_bias, "internal"),
    Section("plane", "A third group", plane, "plane"),
    _GALLERY,
    Section("reader", "Does the encoder read right?", sections.reader, "reader", "sure"),
    Section("planted", "Is the ruler straight?", sections.planted, "planted", "sure"),
    Section("wordings", "Does the wording matter?", sections.wordings, "wordings", "sure"),
    Section("ablation", "Which word carries it?", sections.ablation, "ablation", "sure"),
    Section("sensitivity", "Would another encoder say the same?", sections.sensitivity, "sensitivity", "sure"),
    Section("own-text", "The model’s own text encoder", sections.own_text, "own_text", "numbers"),
    Section("prior", "From the text through the prior to the image", sections.prior, "prior", "numbers"),
    Section("other-audits", "What other audits would report", sections.other_audits, "other_audits", "numbers"),
))  # fmt: skip

AXES_PAGE: Final = LeaningPage(
    _axes_on_first_screen,
    _axes_summary,
    (
        Section("verdicts", "Verdicts", lambda view: {}, "cells_verdicts"),
        _GALLERY,
        Section("reader", "Does the encoder read right?", sections.reader_by_axis, "cells_reader", "sure"),
        Section("planted", "Is the ruler straight?", sections.planted_on_axes, "cells_planted", "sure"),
    ),
    method_template="cells_method",
)
