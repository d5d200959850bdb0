"""The section on the way to the images: from which step on each concept leans, with a figure and a film strip of it."""

from __future__ import annotations

from typing import Any, Final

from clinometer.metrics.mcas import IMAGE_PART
from clinometer.metrics.records import TRACE
from clinometer.report import wording
from clinometer.report.figures import Figure
from clinometer.report.figures.marks import Line, Step, bands_figure
from clinometer.report.gallery import Samples, Tile, is_flagged, sample_tile, text_of, thumbnail
from clinometer.report.rows import MEAN, Row
from clinometer.studies.leaning.view import LeaningView

PLACES: Final = {"text": "its text encoder", "prior": "its prior", "steps": "the steps"}
X_LABEL: Final = "step of denoising"


def way(view: LeaningView) -> dict[str, Any] | None:
    """Gather what was seen on the way to the images; None of a run that was not traced."""
    rows = [row for row in view.scores if row.metric == TRACE and row.encoder == MEAN]
    if not rows:
        return None
    by_name: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        by_name.setdefault((row.component, row.concept), []).append(row)
    strips = _strips(view)
    concepts: list[dict[str, Any]] = [
        {
            "name": name,
            "onset": next(iter(by_name.get(("onset", name), ())), None),
            "half": next(iter(by_name.get(("half_way", name), ())), None),
            "figure": _figure([("", by_name[IMAGE_PART, name])], f"way-{at}", name, "image part", "no leaning"),
            "strips": strips.get(name, []),
        }
        for at, name in enumerate(view.concepts)
        if (IMAGE_PART, name) in by_name
    ]
    order = "order alike (\N{GREEK SMALL LETTER TAU})"
    named = {"agreement": "verdicts alike", "rank_correlation": order}
    alike = [(words, by_name.get((component, ""), [])) for component, words in named.items()]
    return {
        "said": _said([each["onset"] for each in concepts if each["onset"] is not None]),
        "figure": _figure(alike, "way-all", "Agreement with the finished images", "agreement", ""),
        "concepts": concepts,
        "places": PLACES,
    }


def _number(row: Row) -> float:
    return float(row.setting.removeprefix("step "))


def _figure(lines: Any, name: str, title: str, symbol: str, zero: str) -> Figure | None:
    drawn = [Line(words, tuple(Step(_number(row), row.setting, row) for row in rows)) for words, rows in lines if rows]
    return bands_figure(drawn, name=name, title=f"{title}, step by step", x_label=X_LABEL, symbol=symbol, zero=zero)


def _said(onsets: list[Row]) -> str:
    """Say between which steps leaning sets in, and of how many concepts."""
    known = sorted(row.value for row in onsets if row.defined)
    if not known:
        return "No concept is shown to lean, so nothing sets in."
    middle = known[(len(known) - 1) // 2]
    others = wording.count(len(onsets) - len(known), "other")
    first = f"Of {wording.count(len(known), 'concept')} that lean, half do by step {middle:g}"
    ends = f"; the first by step {known[0]:g}, the last by step {known[-1]:g}" if len(known) > 1 else ""
    return f"{first}{ends}.{f' The {others} show no leaning.' if len(onsets) > len(known) else ''}"


def _strips(view: LeaningView) -> dict[str, list[list[Tile]]]:
    """Lay out the pictures of the way, a row an image and its last tile the finished one; none that was flagged."""
    seen = view.report.strips()
    found: dict[str, list[list[Tile]]] = {}
    for sample in Samples(view.report.samples) if seen else ():
        own = seen.get(text_of(sample.get("id")))
        if not own or is_flagged(sample):
            continue
        concept = text_of(sample.get("concept"))
        tiles = [Tile(f"{concept}, step {step}", "ok", picture=thumbnail(own[step])) for step in sorted(own)]
        finished = sample_tile(view, sample, f"{concept}, finished")
        found.setdefault(concept, []).append([*tiles, finished])
    return found
