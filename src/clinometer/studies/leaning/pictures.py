"""The pictures of a run: by concept and group, and on the way to them, from which step on each concept leans."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import zip_longest
from typing import Any, Final

from clinometer.report import wording
from clinometer.report.figures import Figure, Line, Step, bands_figure
from clinometer.report.gallery import Strip, all_there, counts_in_words, losses
from clinometer.report.sections import refusal_words
from clinometer.report.view import MEAN, Row, Samples, Tile, is_flagged, text_of, thumbnail
from clinometer.studies.leaning.view import LeaningView

Prompts = Mapping[tuple[str, ...], Samples]
"""The samples of each (role, concept or group, prompt), in plan order."""

OPENED: Final = 2
"""Concepts whose pictures are seen without opening anything, and on paper."""

BESIDE: Final = 8
"""Images of each group shown beside a concept."""


def gallery(view: LeaningView) -> dict[str, Any]:
    """Gather tiles of every concept, tiles of every group, and what was refused."""
    samples = Samples(view.report.samples)
    if not samples:
        return {"reason": "The run has no images."}
    prompts, limit = view.album.by_prompt, view.album.limit
    groups, counts = _groups(view, prompts, limit)
    beside = []
    for name, strips in groups.items():  # one image of each prompt in turn
        turns = zip_longest(*([tile for tile in strip.tiles if tile.picture] for strip in strips))
        beside.append(Strip(view.label(name), [tile for turn in turns for tile in turn if tile is not None][:BESIDE]))
    by_category: dict[str, list[dict[str, Any]]] = {}
    opened = [concept.name for concept in view.foremost[:OPENED]]
    for concept in view.concepts.values():
        shown = [(key[2], samples) for key, samples in prompts.items() if key[:2] == ("target", concept.name)]
        if shown:
            lean, words, value = view.said_of(concept)
            by_category.setdefault(concept.category, []).append(
                {
                    "concept": concept,
                    "is_open": concept.name in opened,
                    "lean": lean,
                    "verdict": words,
                    "value": value,
                    "tiles": [tile for prompt, samples in shown for tile in _tiles(view, prompt, samples, limit)],
                    "left_out": sum(max(0, len(samples) - limit) for _, samples in shown),
                    "counts": counts_in_words(*(samples for _, samples in shown)),
                }
            )
    return {
        "reason": "",
        "categories": by_category,
        "groups": groups,
        "beside": beside,
        "counts": counts,
        "losses": losses(view, samples),
        "refusal": refusal_words(view),
        "there": all_there(len(samples)),
    }


def _tiles(view: LeaningView, prompt: str, samples: Samples, limit: int, *, is_shared: bool = False) -> list[Tile]:
    return [
        view.album.tile(sample, f"{prompt}, image {order} of {len(samples)}", is_shared=is_shared)
        for order, sample in enumerate(samples[:limit], 1)
    ]


def _groups(view: LeaningView, prompts: Prompts, limit: int) -> tuple[dict[str, list[Strip]], dict[str, str]]:
    """Lay out the images of every group, prompt by prompt, each of which several concepts show; and count them."""
    by_group: dict[str, list[tuple[str, Samples]]] = {name: [] for name in view.suite.groups}
    for (role, group, prompt), samples in prompts.items():
        if role == "attribute":
            by_group.setdefault(group, []).append((prompt, samples))
    strips = {
        group: [
            Strip(prompt, _tiles(view, prompt, s, limit, is_shared=True), max(0, len(s) - limit))
            for prompt, s in of_group
        ]
        for group, of_group in by_group.items()
        if of_group
    }
    return strips, {group: counts_in_words(*(samples for _, samples in by_group[group])) for group in strips}


PLACES: Final = {"text": "its text encoder", "prior": "its prior", "steps": "the steps"}


def way(view: LeaningView) -> dict[str, Any] | None:
    """Gather what was seen on the way to the images; None of a run that was not traced."""
    rows = [row for row in view.scores if row.metric == "trace" and row.encoder == MEAN]
    if not rows:
        return None
    by_name: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        by_name.setdefault((row.component, row.concept), []).append(row)
    strips = _strips(view)
    said, *first_shown = onsets_in_words(view) or ("",)
    concepts: list[dict[str, Any]] = [
        {
            "name": name,
            "onset": next(iter(by_name.get(("onset", name), ())), None),
            "half": next(iter(by_name.get(("half_way", name), ())), None),
            "figure": _figure([("", by_name["image_part", name])], f"way-{at}", name, "image part", "no leaning"),
            "strips": strips.get(name, []),
        }
        for at, name in enumerate(view.concepts)
        if ("image_part", name) in by_name
    ]
    order = "order alike (\N{GREEK SMALL LETTER TAU})"
    named = {"agreement": "verdicts alike", "rank_correlation": order}
    alike = [(words, by_name.get((component, ""), [])) for component, words in named.items()]
    return {
        "said": said,
        "first_shown": first_shown,
        "figure": _figure(alike, "way-all", "Agreement with the finished images", "agreement", ""),
        "concepts": concepts,
        "places": PLACES,
    }


def _figure(lines: Any, name: str, title: str, symbol: str, zero: str) -> Figure | None:
    drawn = [
        Line(words, tuple(Step(float(row.setting.removeprefix("step ")), row.setting, row) for row in rows))
        for words, rows in lines
        if rows
    ]
    return bands_figure(
        drawn, name=name, title=f"{title}, step by step", x_label="step of denoising", symbol=symbol, zero=zero
    )


FIRST: Final = {
    "text": "the text that conditions the model already leans to that side, before the first step",
    "prior": "the embedding that the prior draws already leans to that side, but the text is not shown to",
    "steps": "the text is not shown to lean to that side; it shows first in the estimates on the way",
}
"""What the flag of an onset says of its concept."""


def onsets_in_words(view: LeaningView) -> tuple[str, ...]:
    """State between which steps leaning sets in, and where it shows first; nothing of a run that was not traced."""
    by_concept = view.scores.by_concept("trace", "onset")
    if not by_concept:
        return ()
    onsets = [by_concept[name] for name in view.concepts if name in by_concept]
    known = sorted(row.value for row in onsets if row.defined)
    if not known:
        return ("No concept is shown to lean, so nothing sets in.",)
    ends = f"; the first by step {known[0]:g}, the last by step {known[-1]:g}" if len(known) > 1 else ""
    others = wording.count(len(onsets) - len(known), "other concept is", "other concepts are")
    rest = f" {others} not shown to lean, which is not balance." if len(onsets) > len(known) else ""
    first = f"Of {wording.count(len(known), 'concept')} that lean, half do by step {known[(len(known) - 1) // 2]:g}"
    names = {flag: [row.concept for row in onsets if row.defined and row.flag == flag] for flag in FIRST}
    shown = (
        f"{wording.capitalised(wording.listed(concepts))}: {FIRST[flag]}."
        for flag, concepts in names.items()
        if concepts
    )
    return (f"{first}{ends}.{rest}", *shown)


def trace_figures(views: Mapping[str, LeaningView]) -> list[Figure]:
    """Draw each concept's image part step by step, a line a run; nothing where one of the runs was not traced."""
    rows = {label: view.scores.select("trace", "image_part") for label, view in views.items()}
    if not all(rows.values()):
        return []
    figures = []
    for at, name in enumerate(next(iter(views.values())).concepts):
        lines = [(label, [row for row in run_rows if row.concept == name]) for label, run_rows in rows.items()]
        figure = _figure(lines, f"ways-{at}", name, "image part", "no leaning")
        if figure is not None:
            figures.append(figure)
    return figures


def _strips(view: LeaningView) -> dict[str, list[list[Tile]]]:
    """Lay out the pictures of the way, a row an image and its last tile the finished one; none that was flagged."""
    seen = view.report.strips()
    by_concept: dict[str, list[list[Tile]]] = {}
    for sample in Samples(view.report.samples) if seen else ():
        estimates = seen.get(text_of(sample.get("id")))
        if not estimates or is_flagged(sample):
            continue
        concept = text_of(sample.get("concept"))
        tiles = [
            Tile(f"{concept}, step {step}", "ok", picture=thumbnail(estimates[step])) for step in sorted(estimates)
        ]
        finished = view.album.tile(sample, f"{concept}, finished")
        by_concept.setdefault(concept, []).append([*tiles, finished])
    return by_concept
