"""The section on a declared standard: every share beside it, how far it lies from it, and the line over concepts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from math import isfinite
from typing import Any, Final

import numpy as np

from clinometer.report import wording
from clinometer.report.figures import HALO, Figure, Ink, canvas, drawable, finish, place, tidy
from clinometer.report.rows import READING_METRIC, STANDARD_METRIC, Row
from clinometer.report.view import View

NAMED: Final = 14
"""Concepts that the figure names; beyond it, those that differ from the standard alone."""

Key = tuple[str, str, str, str]
"""Encoder, setting, concept and group of a row."""


def standard(view: View) -> dict[str, Any] | None:
    """Gather what is held against the suite's standard, source by source; None where the run declares none."""
    reference = view.report.suite.reference
    rows = view.scores.select(STANDARD_METRIC, encoder="*")
    if reference is None or not rows:
        return None
    sources = list(dict.fromkeys((row.encoder, row.setting) for row in rows if row.concept))
    shares = {_key(row): row for row in _shares(view)}
    parity = {_key(row): row for row in view.scores.select("share", "excess", encoder="*")} or shares
    rows_by_source = [[row for row in rows if (row.encoder, row.setting) == source] for source in sources]
    return {
        "cited": reference.cited,
        "margin": reference.margin,
        "codes": reference.codes,
        "exact": [concept for concept, shares in reference.shares.items() if shares and concept not in reference.n],
        "unmatched": list(dict.fromkeys(row.concept for row in rows if row.component == "unmatched")),
        "unasked": [row.reason for row in rows if not row.concept and row.component == "difference"],
        "sources": [_source(view, number, each, shares, parity) for number, each in enumerate(rows_by_source)],
        "label": view.label,
    }


def standard_lines(view: View) -> list[str]:
    """Return a line for each source: what it shows beside the standard."""
    found = standard(view)
    if found is None:
        return []
    lines = [f"Standard ({found['cited']}): {reason}" for reason in found["unasked"]]
    for source in found["sources"]:
        by = " by ".join(filter(None, (f" {source['setting']}", source["encoder"])))
        lines.append(f"Against the standard ({found['cited']}){by.rstrip()}: {source['counted']}")
        lines += source["lines"]
    return lines


def _key(row: Row) -> Key:
    return row.encoder, row.setting, row.concept, row.group


def _shares(view: View) -> list[Row]:
    """Select the shares that the standard is compared with: of readers, of people with them, or of counts."""
    of_readers = [
        *view.scores.select(READING_METRIC, "corrected_share", encoder="*"),
        *view.scores.select(READING_METRIC, "rated_share", encoder="*"),
    ]
    return of_readers or view.scores.select("share", "share", encoder="")


def _source(
    view: View, number: int, rows: Sequence[Row], shares: Mapping[Key, Row], parity: Mapping[Key, Row]
) -> dict[str, Any]:
    by = {(row.component, row.concept, row.group): row for row in rows}
    differences = [row for row in rows if row.component == "difference"]
    concepts = [
        {
            "row": row,
            "reference": by.get(("reference", row.concept, row.group)),
            "share": shares.get(_key(row)),
            "further": by.get(("further", row.concept, row.group)),
            "verdict": wording.standard_words(row, view.label),
            "parity": wording.verdict_words(parity[_key(row)], view.label) if _key(row) in parity else "",
        }
        for row in differences
    ]
    slopes = [row for row in rows if row.component == "slope"]
    lines = list(dict.fromkeys(line_words(row, by.get(("tilt", "", row.group)), view.label) for row in slopes))
    several = len({row.group for row in differences}) > 1
    return {
        "encoder": rows[0].encoder,
        "setting": rows[0].setting,
        "decides": bool(rows[0].flag),
        "concepts": concepts,
        "several": several,
        "group": differences[0].group,
        "counted": _counted(differences, view.label),
        "lines": lines,
        "missing": wording.reasons((row.concept, row.reason) for row in differences if not row.defined and row.reason),
        "figure": _figure(view, concepts, by, f"standard{number}"),
    }


def _counted(rows: Sequence[Row], label: wording.Label) -> str:
    """Count the verdicts: ``11 concepts: 2 larger share of women than the standard · 9 undecided``."""
    measured = [row for row in rows if row.defined]
    if not measured:
        return "no share could be compared"
    said = [wording.standard_words(row, label).partition(",")[0] for row in measured]
    counts = Counter(sorted(said, key=lambda verdict: verdict == "undecided"))
    several = len({row.group for row in rows}) > 1
    unit = "share" if several else "concept"
    return f"{wording.count(len(measured), unit)}: " + " · ".join(f"{n} {verdict}" for verdict, n in counts.items())


def line_words(slope: Row, tilt: Row | None, label: wording.Label = str) -> str:
    """Explain the fitted line: whether shares follow the standard, exaggerate it, or ignore it."""
    if not slope.defined:
        return f"No line over the concepts: {slope.reason}"
    slope_words = f"slope {wording.estimate(slope, sign=False)}"
    if slope.low > 1:
        said = "differences between concepts are larger than in the standard"
    elif slope.high < 0:
        said = "concepts differ the other way round than in the standard"
    elif slope.low <= 0:
        said = "it is not shown that shares follow the standard" + (" at all" if slope.high < 1 else "")
    elif slope.high < 1:
        said = "differences between concepts are smaller than in the standard"
    else:
        said = "shares follow the standard; that they exaggerate or flatten it is not shown"
    shift = ""
    if tilt is not None and tilt.has_interval and not tilt.low <= 0 <= tilt.high:
        more = "larger" if tilt.value > 0 else "smaller"
        shift = f"; throughout a {more} share of {label(slope.group)}, log odds {wording.estimate(tilt)}"
    return f"Over {slope.n_a} concepts, {label(slope.group)}: {said} ({slope_words}, 1 follows it){shift}"


def _figure(
    view: View, concepts: Sequence[dict[str, Any]], by: Mapping[tuple[str, str, str], Row], name: str
) -> Figure | None:
    """Draw shares over the standard's, each with its interval, with parity, the standard itself and the fitted line."""
    group = concepts[0]["row"].group if concepts else ""
    drawn = [
        each
        for each in concepts
        if each["row"].group == group and each["row"].defined and each["share"] is not None and each["reference"]
    ]
    if not drawn:
        return None
    differ = [each for each in drawn if wording.leans(each["row"])]
    named = drawn if len(drawn) <= NAMED else differ[:NAMED]
    with canvas(560, 470) as figure:
        axes = place(figure, 62, 54, 16, 12)
        axes.plot([0, 1], [0, 1], color=Ink.MUTED, linewidth=1.2, zorder=1)
        axes.axhline(0.5, color=Ink.GRID, linewidth=1, linestyle=(0, (4, 3)), zorder=1)
        _draw_line(axes, by.get(("slope", "", group)), by.get(("tilt", "", group)))
        for number, each in enumerate(drawn):
            _draw_share(axes, each, named=each in named, gid=f"share-{number}")
        axes.set_xlim(0, 1)
        axes.set_ylim(-0.02, 1.02)
        percent: Callable[[float, int], str] = lambda at, _: f"{100 * at:.0f} %"  # noqa: E731 - matplotlib calls it
        axes.xaxis.set_major_formatter(percent)
        axes.yaxis.set_major_formatter(percent)
        axes.set_xlabel(f"{drawable(view.label(group), 30)} in the standard")
        axes.set_ylabel(f"{drawable(view.label(group), 30)} in the pictures")
        tidy(axes)
        return finish(
            figure,
            name=name,
            title=f"Share of {view.label(group)} in the pictures against the share in the standard",
            description="; ".join(_in_words(each) for each in drawn) + ".",
            tips={f"share-{number}": _in_words(each) for number, each in enumerate(drawn)},
        )


def _draw_line(axes: Any, slope: Row | None, tilt: Row | None) -> None:
    if slope is None or tilt is None or not (slope.defined and tilt.defined):
        return
    x = np.linspace(0.01, 0.99, 99)
    odds = tilt.value + slope.value * np.log(x / (1 - x))
    axes.plot(x, 1 / (1 + np.exp(-odds)), color=Ink.ACCENT, linewidth=2, zorder=2)


def _draw_share(axes: Any, each: dict[str, Any], *, named: bool, gid: str) -> None:
    x, y, row = each["reference"], each["share"], each["row"]
    colour = (Ink.A if row.value > 0 else Ink.B) if wording.leans(row) else Ink.UNDECIDED
    if y.has_interval:
        axes.plot([x.value] * 2, [y.low, y.high], color=colour, linewidth=1.3, alpha=0.75, zorder=3)
    if x.has_interval and x.high > x.low:
        axes.plot([x.low, x.high], [y.value] * 2, color=colour, linewidth=1.3, alpha=0.75, zorder=3)
    axes.plot(
        [x.value], [y.value], "o", color=colour, markersize=7, zorder=4, gid=gid,
        markerfacecolor=colour if wording.leans(row) else Ink.PAPER,
    )  # fmt: skip
    if named:
        right = x.value < 0.7
        axes.annotate(
            drawable(row.concept, 18), (x.value, y.value), (7 if right else -7, 6), textcoords="offset points",
            ha="left" if right else "right", fontsize=11, color=Ink.TEXT, zorder=5, bbox=HALO,
        )  # fmt: skip


def _in_words(each: dict[str, Any]) -> str:
    row, share, reference = each["row"], each["share"], each["reference"]
    ends = f" {wording.interval(share.low, share.high)}" if share.has_interval else ""
    known = f" {wording.interval(reference.low, reference.high)}" if isfinite(reference.low) else ""
    return f"{row.concept}: {share.value:.2f}{ends}, standard {reference.value:.2f}{known}, {each['verdict']}"
