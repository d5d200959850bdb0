"""The section on the way to the images: from which step on each concept leans, with a figure and a film strip of it."""

from __future__ import annotations

from collections.abc import Mapping
from math import isfinite
from typing import Any, Final

from clinometer.metrics.mcas import IMAGE_PART
from clinometer.metrics.records import TRACE
from clinometer.report import wording
from clinometer.report.comparison import DifferenceTable
from clinometer.report.figures import Figure
from clinometer.report.figures.marks import Line, Step, bands_figure
from clinometer.report.gallery import Samples, Tile, is_flagged, sample_tile, text_of, thumbnail
from clinometer.report.rows import MEAN, Row, Scores
from clinometer.runs.together import Comparison
from clinometer.studies.leaning.view import LeaningView
from clinometer.suites import LeaningSuite

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
    said, *first_shown = onsets_in_words(view) or ("",)
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
        "said": said,
        "first_shown": first_shown,
        "figure": _figure(alike, "way-all", "Agreement with the finished images", "agreement", ""),
        "concepts": concepts,
        "places": PLACES,
    }


def _number(row: Row) -> float:
    return float(row.setting.removeprefix("step "))


def _figure(lines: Any, name: str, title: str, symbol: str, zero: str) -> Figure | None:
    drawn = [Line(words, tuple(Step(_number(row), row.setting, row) for row in rows)) for words, rows in lines if rows]
    return bands_figure(drawn, name=name, title=f"{title}, step by step", x_label=X_LABEL, symbol=symbol, zero=zero)


FIRST: Final = {
    "text": "the text that conditions the model already leans to that side, before a step is taken",
    "prior": "the embedding that the prior draws already leans to that side, and the text is not shown to",
    "steps": "the text is not shown to lean to that side; the first to show it are the estimates on the way",
}
"""What the flag of an onset says of its concept."""


def onsets_in_words(view: LeaningView) -> tuple[str, ...]:
    """Say between which steps leaning sets in, and where it shows first; nothing of a run that was not traced."""
    by_concept = view.scores.by_concept(TRACE, "onset")
    if not by_concept:
        return ()
    onsets = [by_concept[name] for name in view.concepts if name in by_concept]
    known = sorted(row.value for row in onsets if row.defined)
    if not known:
        return ("No concept is shown to lean, so nothing sets in.",)
    ends = f"; the first by step {known[0]:g}, the last by step {known[-1]:g}" if len(known) > 1 else ""
    others = wording.count(len(onsets) - len(known), "other")
    rest = f" The {others} show no leaning." if len(onsets) > len(known) else ""
    first = f"Of {wording.count(len(known), 'concept')} that lean, half do by step {known[(len(known) - 1) // 2]:g}"
    names = {flag: [row.concept for row in onsets if row.defined and row.flag == flag] for flag in FIRST}
    shown = (f"{wording.capitalised(wording.listed(own))}: {FIRST[flag]}." for flag, own in names.items() if own)
    return (f"{first}{ends}.{rest}", *shown)


def trace_figures(views: Mapping[str, LeaningView]) -> list[Figure]:
    """Draw each concept's image part step by step, a line a run; nothing where one of the runs was not traced."""
    rows = {label: view.scores.select(TRACE, IMAGE_PART) for label, view in views.items()}
    if not all(rows.values()):
        return []
    figures = []
    for at, name in enumerate(next(iter(views.values())).concepts):
        lines = [(label, [row for row in own if row.concept == name]) for label, own in rows.items()]
        figure = _figure(lines, f"ways-{at}", name, "image part", "no leaning")
        if figure is not None:
            figures.append(figure)
    return figures


def trace_tables(comparison: Comparison, labels: tuple[str, str]) -> list[DifferenceTable]:
    """Say of two runs that were both traced by how many steps later each concept leans, and from which on they differ.

    Nothing of others.
    """
    scores = Scores.from_frame(comparison.scores)
    onsets, halves, partings = (scores.by_concept(TRACE, component) for component in ("onset", "half_way", "parting"))
    if not onsets:
        return []
    suite = comparison.first.suite
    assert isinstance(suite, LeaningSuite)
    rows = [
        (name, _steps(onset), _steps(halves.get(name)), _parts(partings.get(name), suite), onset.reason)
        for name, onset in onsets.items()
    ]
    later = sum(row.defined and row.low > 0 for row in onsets.values())
    sooner = sum(row.defined and row.high < 0 for row in onsets.values())
    parted = sum(row.defined for row in partings.values())
    return [
        DifferenceTable(
            f"On the way to the images: {labels[1]} against {labels[0]}",
            ("concept", "sets in later by", "half way later by", "they differ", "note"),
            tuple(rows),
            (f"later: {later}", f"sooner: {sooner}", f"shown to differ: {parted}"),
            f"In steps of denoising; less than 0 is sooner in {labels[1]}. Intervals hold what the ends of both runs' "
            "own allow. They differ from the step on from which all intervals of the difference leave out 0; the "
            "differences themselves, step by step, are rows of metric trace.",
        )
    ]


def _steps(row: Row | None) -> str:
    """Write a number of steps with its interval."""
    return wording.estimate(row, 0)


def _parts(row: Row | None, suite: LeaningSuite) -> str:
    if row is None or not isfinite(row.value):
        return "not shown"
    return f"by step {row.value:g}, more to {suite.label_of(row.group)}"


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
