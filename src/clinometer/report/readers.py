"""The section on readers: how each errs, what the concepts' shares are with and without its errors, who agrees."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import isfinite
from typing import Any, Final

from clinometer.report import wording
from clinometer.report.figures import Figure, Ink, canvas, draw_cell, drawable, finish, place, tidy
from clinometer.report.rows import DECIDING_FLAG, READING_METRIC, Row
from clinometer.report.view import View

CELL: Final = 92
LABEL: Final = 170

MOST_ANSWERS: Final = 5
"""Answers in free words that have a column of their own."""

PARITY: Final = "parity is 1/{} each"
"""What the shares of so many groups are held against."""

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
