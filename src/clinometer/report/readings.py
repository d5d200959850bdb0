"""The sections on what readers answered, and on a declared standard.

Readers: how each errs, what the concepts' shares are with and without its errors, who agrees. The standard: every share
beside it, how far it lies from it, and the line over concepts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from math import isfinite
from typing import Any, Final

import numpy as np

from clinometer.report import wording
from clinometer.report.figures import HALO, Figure, Ink, canvas, draw_cell, drawable, finish, place, tidy
from clinometer.report.view import DECIDING_FLAG, READING_METRIC, STANDARD_METRIC, Row, View

CELL: Final = 92
LABEL: Final = 170

MOST_ANSWERS: Final = 5
"""Answers in free words that have a column of their own."""

PARITY: Final = "parity is 1/{} each"
"""What the shares of so many groups are compared with."""

READ_AS: Final = "read as "
"""What stands before the answer in the setting of a row of errors, behind the question of a reader that has several."""

PEER_NAMES: Final[Mapping[str, tuple[str, str]]] = {
    "parity_gap": ("T2I-BiasBench", "parity difference"),
    "total_variation": ("HEIM", "total variation"),
    "mean_absolute_deviation": ("DALL-Eval", "MAD"),
    "standard_deviation": ("DALL-Eval", "STD"),
    "entropy_bias": ("OpenBias", "1 − H / ln K"),
    "bias_amplification": ("T2I-BiasBench", "amplification"),
    "entropy": ("T2I-BiasBench", "entropy, bits"),
    "kl_divergence": ("T2I-BiasBench", "KL divergence"),
    "composite_bias": ("T2I-BiasBench", "composite"),
}


def readers(view: View) -> dict[str, Any] | None:
    """Gather what readers say, question by question; None where none was asked."""
    rows = view.scores.select(READING_METRIC, encoder="*")
    separations = [row for row in rows if row.component == "separation"]
    overall = [row for row in rows if row.component == "dependence" and not row.concept]
    if not separations and not overall:
        return None
    names = list(dict.fromkeys(row.setting for row in separations))
    return {
        "changed": drift_lines([row for row in rows if row.flag]),
        "steady": drift_lines([row for row in rows if not row.flag]),
        "opened": [_gather_open(row, rows) for row in overall],
        "questions": [_question(view, serial, name, rows) for serial, name in enumerate(names)],
        "peers": list(PEER_NAMES.items()),
        "label": view.label,
    }


def drift_lines(rows: Sequence[Row]) -> list[str]:
    """Return a line for each reader: whether it changed while it read, from which part on, and what to do."""
    lines = []
    for row in (row for row in rows if row.component == "drift" and row.defined):
        answers, rounds = wording.count(row.n_target, "answer"), wording.count(row.n_a, "round")
        repeated = f"{answers} asked for again in each of {rounds}"
        share, before = wording.percent(row.value), wording.percent(row.null)
        if not row.flag:
            lines.append(f"Reader {row.encoder} is not shown to have changed: {share} of answers differ, {repeated}")
            continue
        when = "after the last part was read" if row.setting == "the end" else f"before {row.setting} was read"
        lines.append(
            f"Reader {row.encoder} changed {when}: {share} of answers differ from there on, {before} before "
            f"({wording.probability(row.p)}, {repeated}). Shares of parts before and after are not of one reader: "
            "delete its folder in readings and read again, pin the model\N{RIGHT SINGLE QUOTATION MARK}s version, or "
            "label pictures of both"
        )
    return lines


def reader_lines(view: View) -> list[str]:
    """Return a line for each reader and question: what it finds, whose verdicts stand, and why."""
    rows = view.scores.select(READING_METRIC, encoder="*")
    lines = drift_lines(rows)
    for row in (row for row in rows if row.component == "separation"):
        shares = [
            each
            for each in rows
            if (each.component, each.encoder, each.setting) == ("corrected_share", row.encoder, row.setting)
        ]
        judged = [each for each in shares if each.verdict]
        withheld = list(dict.fromkeys(each.concept for each in judged if wording.is_unlike(each)))
        found = wording.counted(judged, view.label) or "no verdict"
        over = f" ({PARITY.format(k)})" if (k := len({each.group for each in shares})) > 2 else ""
        stands = f"; its verdicts count: {row.reason}" if row.flag == DECIDING_FLAG else ""
        changing = list(dict.fromkeys(each.concept for each in judged if wording.changes_with_reader(each)))
        disputed = f"; another reader differs on {wording.listed(changing)}" if changing else ""
        apart = f"; its errors do not carry over to {wording.listed(withheld)}" if withheld else ""
        lines.append(f"Reader {row.encoder} on {row.setting}{over}: {found}{stands}{disputed}{apart}")
    for row in (row for row in rows if row.component == "dependence" and not row.concept):
        dependence = (
            f"answers carry {wording.estimate(row, sign=False)} nats about the concept, {wording.probability(row.p)}"
            if row.defined
            else row.reason
        )
        lines.append(f"Reader {row.encoder} on {row.setting}, in its own words: {dependence}")
    return lines


def _question(view: View, serial: int, name: str, rows: Sequence[Row]) -> dict[str, Any]:
    """Return what the page says of one question: its readers, whose verdicts stand and why, and every concept."""
    question_rows = [row for row in rows if row.setting == name or row.setting.startswith(f"{name}: {READ_AS}")]
    separations = [row for row in question_rows if row.component == "separation"]
    decider = next((row for row in separations if row.flag == DECIDING_FLAG), separations[0])
    shares = [row for row in question_rows if row.component == "corrected_share"]
    decided = [row for row in shares if row.encoder == decider.encoder]
    keys = {(row.encoder, row.component, row.concept, row.group): row for row in question_rows}

    def telling(row: Row) -> tuple[bool, bool, float, float]:
        """Sort the shares of a concept: the group that it leans to, then the least p, then the largest share."""
        raw = keys.get((row.encoder, "read_share", row.concept, row.group))
        leans_to = bool(row.side) and row.side == row.group
        return (not row.verdict, not leans_to, row.p if isfinite(row.p) else 1.0, -raw.value if raw else 0.0)

    judged = [
        min((row for row in decided if row.concept == concept), key=telling)
        for concept in dict.fromkeys(row.concept for row in decided)
    ]
    changing = list(dict.fromkeys(row.concept for row in decided if wording.changes_with_reader(row)))
    others = [row.encoder for row in separations if row.encoder != decider.encoder]
    alike = {
        row.concept: row for row in question_rows if (row.component, row.encoder) == ("transport", decider.encoder)
    }
    doubted = [alike[row.concept] for row in judged if row.defined and row.concept in alike]
    return {
        "name": name,
        "readers": [
            _reader(view, row, question_rows, f"errors{serial}-{number}") for number, row in enumerate(separations)
        ],
        "decider": decider,
        "is_judged": not all(map(wording.not_measured, judged)),
        "why": decider.reason,
        "others": others,
        "concepts": [
            {
                "row": row,
                "raw": keys.get((row.encoder, "read_share", row.concept, row.group)),
                "transport": alike.get(row.concept),
                "unread": keys.get((row.encoder, "unread", row.concept, "")),
                "bounds": _bounds(row, keys.get((row.encoder, "read_share", row.concept, row.group))),
                "others": [keys.get((other, "corrected_share", row.concept, row.group)) for other in others],
                "rated": keys.get((row.encoder, "rated_share", row.concept, row.group)),
                "more": keys.get((row.encoder, "ratings_to_decide", row.concept, "")),
                "changes": row.concept in changing,
                "verdict": wording.verdict_words(row, view.label),
            }
            for row in judged
        ],
        "missing": wording.reasons((row.concept, row.reason) for row in judged if not row.defined and row.reason),
        "withheld": [row.concept for row in judged if wording.is_unlike(row)],
        "doubted": wording.reasons((row.concept, row.reason) for row in doubted if row.flag == "cannot tell"),
        "changing": changing,
        "has_rated": any(row.component == "rated_share" for row in question_rows),
        "concentrated": _concentrated([row for row in question_rows if row.encoder == decider.encoder], view.label),
        "agreement": [row for row in question_rows if row.component == "alpha"],
        "peer_rows": [
            (concept, [keys.get((decider.encoder, peer, concept, "")) for peer in PEER_NAMES])
            for concept in dict.fromkeys(row.concept for row in decided)
        ],
        "groups": list(dict.fromkeys(row.group for row in shares)),
    }


def _reader(view: View, separation: Row, rows: Sequence[Row], figure: str) -> dict[str, Any]:
    """Return how well a reader tells the groups apart: its separation, its recall, and a figure of its errors."""
    rows_of_reader = [row for row in rows if row.encoder == separation.encoder]
    return {
        "name": separation.encoder,
        "separation": separation,
        "recall": [row for row in rows_of_reader if row.component == "recall"],
        "figure": confusion_figure(
            view, separation.encoder, [row for row in rows_of_reader if row.component == "confusion"], figure
        ),
    }


def _concentrated(rows: Sequence[Row], label: wording.Label) -> dict[str, Any] | None:
    """Gather the concepts whose pictures are all read as one value, and both tests of how many that are."""
    by = {row.component: row for row in rows if not row.concept}
    if "concentration" not in by:
        return None
    ones = [row for row in rows if row.component == "one_value"]
    return {
        "row": by["concentration"],
        "pooled": by["concentration_pooled"],
        "ones": [
            f"{row.concept} ({row.n_a} of {row.n_target} as {label(row.group)})" for row in ones if row.value == 1
        ],
        "missing": [row.concept for row in ones if not row.defined],
    }


def _bounds(corrected: Row, as_read: Row | None) -> str:
    """Word the ends over the unread: of the corrected share, or of the share as read where that is all there is."""
    row = corrected if corrected.defined else as_read
    return wording.interval(row.bound_low, row.bound_high) if row is not None and row.has_bounds else ""


def reader_table(view: View) -> list[tuple[str, ...]]:
    """Return what the readers whose verdicts stand say of each concept, a row of words each; the first is the head."""
    gathered = readers(view)
    rows = [
        (
            question["name"], concept["row"].concept, view.label(concept["row"].group),
            wording.estimate(concept["raw"], sign=False), wording.estimate(concept["row"], sign=False),
            concept["bounds"], concept["transport"].flag if concept["transport"] else "", concept["verdict"],
            wording.reason_words(concept["row"]) if not concept["row"].defined else "",
        )
        for question in (gathered["questions"] if gathered else ())
        for concept in question["concepts"]
    ]  # fmt: skip
    head = (
        "Question", "Concept", "Share of", "As read", "Corrected", "Bounds", "Alike",
        "Verdict", "Note",
    )  # fmt: skip
    return [head, *rows] if rows else []


def _gather_open(overall: Row, rows: Sequence[Row]) -> dict[str, Any]:
    """Gather what one reader said in free words to one question: the most frequent answers by concept, and the rest."""
    question_rows = [row for row in rows if (row.encoder, row.setting) == (overall.encoder, overall.setting)]
    keys = {(row.component, row.concept, row.group): row for row in question_rows}
    answers = list(dict.fromkeys(row.group for row in question_rows if row.component == "open_share"))
    concepts = [row for row in question_rows if row.component == "dependence" and row.concept]
    return {
        "question": overall.setting,
        "reader": overall.encoder,
        "overall": overall,
        "answers": answers[:MOST_ANSWERS],
        "more": len(answers[MOST_ANSWERS:]),
        "concepts": [
            {
                "row": row,
                "shares": [keys.get(("open_share", row.concept, answer)) for answer in answers[:MOST_ANSWERS]],
                "unread": keys.get(("open_unread", row.concept, "")),
            }
            for row in concepts
        ],
        "associations": [row for row in question_rows if row.component == "concept_association"],
        "depending": [row.concept for row in concepts if row.q <= 0.05],
        "missing": wording.reasons((row.concept, row.reason) for row in concepts if not row.defined and row.reason),
    }


def confusion_figure(view: View, reader: str, cells: Sequence[Row], name: str) -> Figure | None:
    """Draw what a reader answers to pictures of known groups: a row a group, a column an answer, counts in the cells.

    On the diagonal stands the interval of the share that is read right. ``cells`` : its rows ``confusion``.
    """
    if not any(row.n_target for row in cells):
        return None
    counts = [round(row.value * row.n_target) if isfinite(row.value) else 0 for row in cells]
    groups = list(dict.fromkeys(row.group for row in cells))
    answers = list(dict.fromkeys(row.setting.partition(READ_AS)[2] for row in cells))
    with canvas(LABEL + CELL * len(answers) + 10, 62 + CELL * 0.62 * len(groups)) as figure:
        axes = place(figure, LABEL, 8, 10, 54)
        for row, count in zip(cells, counts, strict=True):
            x, y = answers.index(row.setting.partition(READ_AS)[2]), groups.index(row.group)
            if not isfinite(row.value):
                axes.text(x, y, wording.MISSING, ha="center", va="center", color=Ink.MUTED)
                continue
            right = answers[x] == row.group
            ends = f"{100 * row.low:.0f}{wording.DASH}{100 * row.high:.0f} %" if right else wording.percent(row.value)
            draw_cell(axes, x, y, Ink.ACCENT if right else Ink.B, row.value, f"{count:,}", ends, bold=right)
        axes.set_xlim(-0.5, len(answers) - 0.5)
        axes.set_ylim(len(groups) - 0.5, -0.5)
        axes.xaxis.tick_top()
        axes.set_xticks(range(len(answers)), [drawable(view.label(answer), 13) for answer in answers])
        axes.set_yticks(range(len(groups)), [drawable(wording.capitalised(view.label(g)), 22) for g in groups])
        tidy(axes)
        axes.grid(visible=False)
        return finish(
            figure,
            name=name,
            title=f"What {reader} answers to pictures of known groups",
            description="One row per group that a picture is known to show, one column per answer. "
            + "; ".join(
                f"{count} of {row.n_target} {view.label(row.group)} {READ_AS}{row.setting.partition(READ_AS)[2]}"
                for row, count in zip(cells, counts, strict=True)
            )
            + ".",
        )


NAMED: Final = 14
"""Concepts that the figure names; beyond it, those that differ from the standard alone."""

Key = tuple[str, str, str, str]
"""Encoder, setting, concept and group of a row."""


def standard(view: View) -> dict[str, Any] | None:
    """Gather what is compared with the suite's standard, source by source; None where the run declares none."""
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
