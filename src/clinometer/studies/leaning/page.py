"""The page of a leaning study: the finding, the verdicts, and a section for each of its numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import isfinite
from typing import Any, Final

from clinometer.report import wording
from clinometer.report.figures.marks import ENCODER_SHAPES, SHAPE_CHARACTERS
from clinometer.report.page import Page, Section
from clinometer.report.rows import OWN_TEXT_METRIC, PRIOR_METRIC, Row
from clinometer.report.sections import (
    leanings_in_words,
    masthead,
    nothing_judged,
)
from clinometer.report.verdicts import Summary, Verdicts, digits_of
from clinometer.report.wording import leans, qualification, source_words, sources_counted, too_few, without_estimate
from clinometer.studies.leaning.encoder_sections import planted, reader, sensitivity
from clinometer.studies.leaning.figures import (
    category_figure,
    component_figure,
    encoder_figure,
    forest_figure,
    internal_bias_figure,
    lean_limits,
    planted_probabilities,
    shown_concepts,
)
from clinometer.studies.leaning.pictures import gallery, onsets_in_words, way
from clinometer.studies.leaning.plane import plane
from clinometer.studies.leaning.view import LeaningView
from clinometer.studies.leaning.wordings import ablation, ablation_in_words, language_caution, wordings

# --- the finding and the verdicts ------------------------------------------------------------------------------------


def _left_out(view: LeaningView) -> str:
    """State how many concepts the figure has no room for; nothing where it has all."""
    more = len(view.ranked()) - len(shown_concepts(view))
    shown = "The concepts that lean most, or lie farthest out"
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
        f"pictures as to the other\u2019s.{anchor} It cannot exceed 4 either way. How far it goes depends on the "
        "encoder, so compare only scores by the same encoder."
    )


def leans_means(label: str, other: str) -> str:
    """Explain in one sentence what is said of a concept that leans."""
    return (
        f"\N{LEFT DOUBLE QUOTATION MARK}Leans to {label}\N{RIGHT DOUBLE QUOTATION MARK} means: to the encoder, the "
        f"pictures drawn for the concept are, all in all, nearer to the pictures and words for {label} than to those "
        f"for {other}, and by more than the chance of drawing explains."
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
        return f"read by the words alone; to the pictures drawn for {side} its pictures are nearer still"
    few = round(share.n_target * min(share.value, 1 - share.value))
    return f"{wording.count(few, 'image')} read as {side}, further from the middle than the others" if few else ""


# --- MCAS, its stages, its encoders ----------------------------------------------------------------------------------


def categories(view: LeaningView) -> dict[str, Any]:
    """Gather what MCAS says of each concept, a figure for each category, and the table of category statistics."""
    limits = lean_limits(view)
    figures = [(view.category_label(name), category_figure(view, name, limits)) for name in view.suite.categories]
    return {
        "concepts": [concept.name for concept in view.ranked(by=view.mcas)],
        "source": lambda name: source_words(view.mcas[name], view.pictures.get(name, Row())),
        "sources": sources_counted((view.mcas[name], view.pictures.get(name, Row())) for name in view.mcas),
        "scale": wording.MCAS_SCALE,
        "figures": [entry for entry in figures if entry[1] is not None],
        "statistics": category_statistics(view),
        "stimulus": any(row.has_stimulus_interval for row in view.mcas.values()),
        "few": any(map(too_few, view.mcas.values())),
    }


def category_statistics(view: LeaningView) -> dict[str, list[tuple[Row, Row]]]:
    """Find mean and standard deviation of MCAS, by category: of concepts measured positive, negative, and of all."""

    def statistic(category: str, group: str, component: str) -> Row:
        rows = view.scores.select("category" if group == "all" else "category_by_sign", component, category=category)
        return next((row for row in rows if row.group in (("", "all") if group == "all" else (group,))), Row())

    by_category = {
        category: [
            (statistic(category, group, "mean"), statistic(category, group, "std"))
            for group in (view.group_a, view.group_b, "all")
        ]
        for category in (*view.suite.categories, "all")
    }
    return {name: pairs for name, pairs in by_category.items() if any(row.defined for pair in pairs for row in pair)}


def stages(view: LeaningView) -> dict[str, Any] | None:
    """Gather components and encoders; left out when there is neither."""
    components = component_figure(view)
    if components is None:
        return None
    shapes = [ENCODER_SHAPES[order % len(ENCODER_SHAPES)] for order in range(len(view.encoders))]
    by_encoder = [view.scores.by_concept("mcas", "image_part", encoder=name) for name in view.encoders]
    everyone = "Both" if len(view.encoders) == 2 else f"All {len(view.encoders)}"
    return {
        "components": components,
        "encoders": encoder_figure(view),
        "encoder_keys": [(SHAPE_CHARACTERS[shape], name) for shape, name in zip(shapes, view.encoders, strict=True)],
        "agreement": agreement(view, by_encoder, f"{everyone} encoders") if len(view.encoders) > 1 else "",
    }


def agreement(view: LeaningView, stages: Sequence[Mapping[str, Row]], everyone: str) -> str:
    """Count the concepts of which all see the same direction; empty where they share none."""
    shared = [name for name in view.concepts if all(name in rows and rows[name].defined for rows in stages)]
    same = sum(len({rows[name].value > 0 for rows in stages}) == 1 for name in shared)
    return f"{everyone} see the same direction for {same} of {wording.count(len(shared), 'concept')}." if shared else ""


def own_text(view: LeaningView) -> dict[str, Any] | None:
    """Gather TT of the model's own text encoders beside the audit's; left out where it showed none."""
    names = list(dict.fromkeys(row.encoder for row in view.scores.select(OWN_TEXT_METRIC, "tt", encoder="*")))
    if not names:
        return None
    columns = [view.scores.by_concept("mcas", "tt")]
    columns += [view.scores.by_concept(OWN_TEXT_METRIC, "tt", encoder=name) for name in names]
    # TT may be far smaller than MCAS; every encoder has a scale of its own, and one row the same decimals throughout
    digits = max(digits_of(rows.values(), "stimuli") for rows in columns)
    return {"encoders": names, "columns": [(rows, _is_tested(rows)) for rows in columns], "digits": digits}


def _is_tested(rows: Mapping[str, Row]) -> bool:
    """Return whether any row has a q, which else would head an empty column."""
    return any(isfinite(row.q) for row in rows.values())


def prior(view: LeaningView) -> dict[str, Any] | None:
    """Gather the leaning at the three stages of a model with a prior; left out where it has none."""
    (name, *_) = [row.encoder for row in view.scores.select(PRIOR_METRIC, "ii", encoder="*")] or [""]
    if not name:
        return None
    guides = [row.encoder for row in view.scores.select(OWN_TEXT_METRIC, "tt", encoder="*")]  # the first guides it
    text = view.scores.by_concept(OWN_TEXT_METRIC, "tt", encoder=guides[0]) if guides else {}
    drawn = view.scores.by_concept(PRIOR_METRIC, "ii", encoder=name)
    image = view.scores.by_concept("mcas", "ii")
    over = ("stimuli", "images", "images")  # of a text, over words; of what was drawn, over what was drawn
    columns = [
        (rows, digits_of(rows.values(), ends), ends, _is_tested(rows))
        for rows, ends in zip((text, drawn, image), over, strict=True)
    ]
    return {"prior": name, "columns": columns, "agreement": agreement(view, (text, drawn, image), "All three")}


# --- inside the model, other audits ----------------------------------------------------------------------------------


def internal_bias(view: LeaningView) -> dict[str, Any] | None:
    """Gather the figure, the summary by stereotype group and every concept's numbers."""
    names = ("diffusion_bias", "signed_diffusion_bias", "bias_amplification")
    delta, signed, alpha = (view.scores.by_concept("internal_bias", name) for name in names)
    concepts = [name for name in view.concepts if name in delta or name in alpha]
    if not concepts:
        return None
    curve, unstable = view.report.curve, sum(name in alpha and alpha[name].unstable for name in concepts)
    shapes = {view.group_a: ("a", "▶"), view.group_b: ("b", "◀"), view.third: ("third", "◆")}
    ties = dict.fromkeys(concept.stereotype for concept in view.concepts.values())
    return {
        "figure": internal_bias_figure(view) if unstable < len(concepts) else None,
        "summary": internal_summary(view),
        "concepts": [(name, delta.get(name), signed.get(name), alpha.get(name)) for name in concepts],
        "unstable": unstable,
        "curve_reason": curve.reason or ("" if len(curve.x) else "No curve was fitted."),
        "curve_method": curve.method,
        "stereotypes": [
            (*shapes.get(group, ("balanced", "■")), f"tied to {view.label(group)}" if group else "tied to no group")
            for group in ties
        ],
    }


def internal_summary(view: LeaningView) -> list[dict[str, Any]]:
    """Find least, greatest, mean and standard error of δ and α by stereotype group: the paper's table 4."""
    rows = {(row.group, row.component): row for row in view.scores.select("internal_bias_summary")}
    return [
        {
            "label": "All concepts" if group in ("", "all") else f"Tied to {view.label(group)}",
            "scores": [
                ({s: rows.get((group, f"{name}_{s}"), Row()) for s in ("min", "max", "mean", "standard_error")}, digits)
                for name, digits in (("diffusion_bias", 3), ("bias_amplification", 2))
            ],
        }
        for group in dict.fromkeys(group for group, _ in rows)
    ]


OTHER_AUDITS: Final = (
    ("gender_gap", "HEIM", "|share − ½|", "0 at parity, ½ at most"),
    ("mean_absolute_deviation", "DALL-Eval", "MAD", "0 when all groups are seen equally often"),
    ("entropy_bias", "OpenBias", "1 − H/ln K", "0 when all groups are seen equally often, 1 when one is"),
    ("distribution_bias", "Vice", "area", "K − 1 when all groups are seen equally often, smaller when one dominates"),
    ("miss_rate", "Vice", "misses", "share of images nearer to a blank prompt than to their own text"),
)


def other_audits(view: LeaningView) -> dict[str, Any] | None:
    """Gather what other audits would report of the same images; None where the run holds none of it."""
    found = {name: view.scores.by_concept("other_audits", name) for name, *_ in OTHER_AUDITS}
    concepts = [name for name in view.concepts if any(name in rows for rows in found.values())]
    if not concepts:
        return None
    empty = [
        (f"{tool}, {symbol}, of {name}", row.reason)
        for score, tool, symbol, _ in OTHER_AUDITS
        for name in concepts
        if (row := found[score].get(name)) and not row.defined and row.reason
    ]
    return {"scores": OTHER_AUDITS, "found": found, "concepts": concepts, "missing": wording.reasons(empty)}


class LeaningPage(Page[LeaningView]):
    """The page of a pair of groups."""

    view = LeaningView
    package = "clinometer.studies.leaning"

    def finding(self, view: LeaningView) -> str:
        """Word the finding in one sentence, by counting verdicts."""
        counts = self.verdicts(view)[0].counts()
        if counts.total() == counts["unmeasured"]:
            return nothing_judged("concept", view.model, view.pictures.values())
        asked = f"asked for {wording.count(counts.total(), 'concept')} without naming a group"
        return leanings_in_words(counts, asked, view.model, (view.label_a, view.label_b))

    def strongest(self, view: LeaningView) -> str:
        """Name the concept that leans the most, with its interval."""
        leaning = [concept for concept in view.ranked() if leans(view.pictures[concept.name])]
        if not leaning:
            return ""
        concept = max(leaning, key=lambda concept: abs(view.pictures[concept.name].value))
        row = view.pictures[concept.name]
        label = view.label_a if row.value > 0 else view.label_b
        images = wording.share_words(view.shares.get(concept.name), view.label_a, view.label_b)
        return (
            f"The strongest of those that lean: {concept.prompt}, to {label}, image part "
            f"{wording.estimate(row, view.digits)} ({wording.PART_SCALE}){f'; {images}' if images else ''}."
        )

    def meaning(self, view: LeaningView) -> str:
        """Explain in one sentence what is said of a concept that leans."""
        return leans_means(view.label_a, view.label_b)

    def verdicts(self, view: LeaningView) -> tuple[Verdicts]:
        """Judge the image part of every concept."""
        suite = view.suite
        signs = f"+ leans to {view.label_a}, {wording.MINUS} to {view.label_b}"
        rows = [view.pictures.get(name) or without_estimate(concept=name) for name in view.concepts]
        # a run that is drawn until decided draws more of its concepts alone
        beside = "" if view.report.stopped_early else wording.IN_PROPORTION

        def notes(row: Row) -> Sequence[str]:
            return (
                images_in_words(view, row),
                *reservations(view, row),
                qualification(row),
                wording.note(row, beside=beside),
            )

        return (
            Verdicts(
                "concept", "image part", f"II + ITA, what the pictures lean: {signs}; {wording.PART_SCALE}", rows,
                suite.label_of, beside=beside, digits=view.digits, reach=(-4, 4), notes=notes, is_ranked=True,
                counted=lambda row: wording.counted_share(view.shares.get(row.concept), view.label_a, view.label_b),
            ),
        )  # fmt: skip

    def lead(self, view: LeaningView) -> dict[str, Any]:
        """Lead the page with the finding and a figure that names the concepts."""
        return masthead(
            view,
            self.finding(view),
            self.strongest(view),
            meaning=self.meaning(view),
            scale=scale_words(view),
            marks=self.verdicts(view)[0].marks((view.label_a, view.label_b)),
            figure=forest_figure(view),
            caption=(
                f"{_left_out(view)}Coloured by verdict; full lines are at one half and at 0. {_dashed(view)}"
            ).strip(),
        )

    def verdict_lists(self, view: LeaningView) -> dict[str, Any]:
        """List concepts by their verdicts, each with the bars of its parts and the count of its images."""
        ends = [(row.value, row.low, row.high) for row in view.pictures.values()]
        ends += [(row.value,) * 3 for row in view.texts.values()]
        reach = max((abs(end) for each in ends for end in each if isfinite(end)), default=1.0) or 1.0
        return {
            "lists": self.verdicts(view)[0].lists((view.label_a, view.label_b), view.suite.margin),
            "beside": self.verdicts(view)[0].beside,
            "images": {name: images_in_words(view, row) for name, row in view.pictures.items()},
            "shares": {
                name: counted.share
                for name, row in view.shares.items()
                if (counted := wording.counted_share(row, view.label_a, view.label_b))
            },
            "bars": {name: _bars(view, row, 58 / reach) for name, row in view.pictures.items() if row.defined},
            "apart": {name: "; ".join(filter(None, reservations(view, row))) for name, row in view.pictures.items()},
            "qualification": {name: qualification(row) for name, row in view.pictures.items()},
            "scale": wording.PART_SCALE,
            "reach": reach,
            "language": language_caution(view),
        }

    def own_sections(self) -> Sequence[Section]:
        """Return the sections of this study alone."""
        return (
            Section("verdicts", "Verdicts", self.verdict_lists, "verdicts"),
            Section("categories", "MCAS: pictures and text together", categories, "categories"),
            Section("stages", "The four components", stages, "stages"),
            Section("inside", "From which step on it leans", way, "way"),
            Section("internal", "Diffusion bias and amplification", internal_bias, "internal"),
            Section("plane", "A third group", plane, "plane"),
            Section("gallery", "The pictures", gallery, "gallery", "pictures"),
            Section("reader", "Does the encoder read right?", reader, "reader", "sure"),
            Section("planted", "Is the ruler straight?", planted, "planted", "sure"),
            Section("wordings", "Does the wording matter?", wordings, "wordings", "sure"),
            Section("ablation", "Which word carries it?", ablation, "ablation", "sure"),
            Section("sensitivity", "Would another encoder say the same?", sensitivity, "sensitivity", "sure"),
            Section(
                "own-text",
                "The model’s own text encoder",
                own_text,
                "own_text",
                "numbers",
            ),
            Section("prior", "From text over the prior to the image", prior, "prior", "numbers"),
            Section("other-audits", "What other audits would report", other_audits, "other_audits", "numbers"),
        )

    def summarise(self, view: LeaningView) -> Summary:
        """Summarise the verdicts, and what else was found or is to be wary of, a line each."""
        found = (*onsets_in_words(view), *ablation_in_words(view), *filter(None, [language_caution(view)]))
        return replace(self.verdicts(view)[0].summary(), found=found)


PAGE: Final = LeaningPage()
