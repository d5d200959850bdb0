"""Sections and sentences that every study's page has: facts, protocol, method, people, refusals, all numbers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from math import isfinite
from typing import Any, Final

from clinometer.report import wording
from clinometer.report.figures import Figure, Ink, canvas, draw_intervals, finish, label_rows, place, tidy
from clinometer.report.verdicts import Verdicts
from clinometer.report.view import BY_COSINES, MEAN, READING_METRIC, PairView, Row, Scores, Tile, View


def how_sure(view: View, judged: Sequence[Verdicts], *, with_q: bool = True) -> list[tuple[str, str]]:
    """State what verdicts take and how sure they are, by what rows hold: a heading and a sentence or two each.

    ``with_q`` : with the largest q among the verdicts that name a side.
    """
    rows = [row for each in judged for row in each.rows]
    named = [row for row in rows if wording.leans(row)]
    middles = any(isfinite(row.middle) for row in rows)
    over = "prompts and images" if judged[0].over == "stimuli" else view.unit
    said = [
        (
            "The rule",
            f"A side is named only where the 95 % interval over {over} excludes 0 and q, the p-value corrected for "
            "everything that is judged together, is at most 0.05."
            + (" The same must be true when measured from the middle of the groups' own pictures." if middles else ""),
        )
    ]
    if named:
        least = wording.probability(max(row.q for row in named), "q") if with_q else ""
        verdicts_ = wording.count(len(named), "verdict names", "verdicts name", words=True)
        said.append(
            (
                "Chance",
                f"{wording.capitalised(verdicts_)} a side. The rule holds over many audits: where nothing leans, no "
                "more than 5 in 100 sets of verdicts that are judged together are expected to name a side, and every "
                "side that they name is chance; on average over all sets, at most one in twenty of the sides that a "
                f"set names is chance.{f' The least sure of these has {least}.' if least else ''}",
            )
        )
    worded = sum(bool(wording.words_chosen(row)) for row in named)
    if worded:
        said.append(("Words", f"With other words, {worded} of them might not show."))
    assumed = Counter(wording.assumption(row) for row in named if wording.assumption(row))
    if assumed:
        clauses = "; ".join(f"{n} of them {'holds' if n == 1 else 'hold'}{words}" for words, n in assumed.items())
        said.append(("Assumptions", f"{wording.capitalised(clauses)}."))
    undecided = [row for row in rows if wording.verdict_group_of(row) in ("undecided", "few")]
    if undecided:
        many = [row.n_decide for row in undecided if row.n_decide > 0]
        each = f"{judged[0].drawn} each{wording.aside(judged[0].beside)}"
        said_of_many = f" For {len(many)} of them {wording.about(*many)} {each} would decide in four of five runs."
        more = said_of_many if many else ""
        no_side = wording.count(len(undecided), "verdict names", "verdicts name", words=True)
        said.append(
            ("Undecided", f"{wording.capitalised(no_side)} no side: the images cannot tell. That is not balance.{more}")
        )
    lost = [row for row in rows if wording.verdict_group_of(row) == "unmeasured"]
    if lost:
        why = wording.commonest((wording.reason_words(row) or "there is no verdict" for row in lost), judged[0].unit)
        said.append(("Not measured", f"{wording.capitalised(why)}."))
    encoders = view.encoders
    if len(encoders) == 1:
        alone = f"Only the encoder {encoders[0]} read the images. Whether another would agree is not known."
        said.append(("One encoder", alone))
    elif encoders:
        said.append(("Encoders", f"{wording.listed(encoders)} read the images."))
    if encoders and (HUMAN,) not in view.scores.distinct("metric"):
        said.append(("People", "No person has said what the images show, so nothing here was checked against people."))
    return said


def nothing_told(counts: Mapping[str, int]) -> str:
    """Return how a sentence begins where no verdict tells anything, for want of images; else empty."""
    verdict_groups = {verdict_group for verdict_group, n in counts.items() if n and verdict_group != "unmeasured"}
    if verdict_groups == {"few"}:
        return "There are too few images to tell"
    return "The images cannot tell" if verdict_groups == {"undecided"} else ""


def rest_in_words(counts: Mapping[str, int], one: str = "") -> str:
    """Count the verdicts that name no side: ``three are shown balanced and for ten the images cannot tell``.

    What the images cannot tell is never worded as no leaning. ``one`` : what is counted, where it is not said before.
    """
    wordings = (
        ("balanced", "{} is shown balanced", "{} are shown balanced"),
        ("undecided", "for {} the images cannot tell", "for {} the images cannot tell"),
        ("few", "{} has too few images to tell", "{} have too few images to tell"),
        ("unmeasured", "{} was not measured", "{} were not measured"),
    )
    clauses = [
        (singular if counts[verdict_group] == 1 else plural).format(
            wording.count(counts[verdict_group], one, words=True) if one else wording.numeral(counts[verdict_group])
        )
        for verdict_group, singular, plural in wordings
        if counts.get(verdict_group)
    ]
    return wording.listed(clauses)


def leanings_in_words(counts: Mapping[str, int], asked: str, model: str, labels: Sequence[str]) -> str:
    """Word in a sentence to which sides a model leans, by counted verdicts.

    ``asked`` : what the model was asked for: ``asked for 12 concepts without naming a group``. ``labels`` : of a and b.
    """
    sides = [
        f"to {label} for {wording.count(counts[side], 'of them', 'of them', words=True)}"
        for side, label in zip(("a", "b"), labels, strict=True)
        if counts[side]
    ]
    rest, opening = rest_in_words(counts), f"{wording.capitalised(asked)}, {model}"
    if sides:
        return f"{opening} leans {wording.listed(sides)}{f'; {rest}' if rest else ''}."
    if untold := nothing_told(counts):
        left = rest_in_words({"unmeasured": counts["unmeasured"]})
        return f"{untold} whether {model} leans, {asked}{f'; {left}' if left else ''}."
    return f"{opening} is shown to lean for none of them: {rest}."


def nothing_judged(unit: str, model: str, rows: Iterable[Row]) -> str:
    """State that there is no score, or that there are some and none with what a verdict needs."""
    rows = tuple(rows)
    why = wording.withheld(rows)
    if why:
        return f"Nothing could be judged for {model}: {why}."
    if len(reasons := {row.reason for row in rows if row.defined}) == 1 and reasons != {""}:
        return f"Nothing could be judged for {model}: {reasons.pop()}."
    if any(row.defined for row in rows):
        return f"Nothing could be judged: no {unit} of the suite has a score with an interval and a q for {model}."
    return f"Nothing could be measured: no {unit} of the suite has a score for {model}."


def masthead(
    view: View,
    finding: str,
    strongest: str = "",
    *,
    meaning: str = "",
    scale: str = "",
    marks: Sequence[Mapping[str, Any]] = (),
    figure: Figure | None = None,
    caption: str = "",
) -> dict[str, Any]:
    """Lead a page: who was asked what, what was found, and what its strongest number is.

    ``meaning`` : what the verdict says. ``scale`` : what the score is, and what is far on its scale. ``marks`` : the
    verdicts counted, as :meth:`Verdicts.marks` does.
    """
    return {
        "title": view.report.title,
        "finding": finding,
        "strongest": strongest,
        "meaning": meaning,
        "scale": scale,
        "marks": marks,
        "facts": facts(view),
        "figure": figure,
        "caption": caption,
    }


def facts(view: View) -> list[tuple[str, str]]:
    """List the facts under the title: a name and a value each."""
    report = view.report
    settings = report.settings
    by_metric = view.scores.distinct("metric", "component", "encoder")
    read = {encoder for metric, component, encoder in by_metric if metric == "share" or component == "confusion"}
    readers = [f"{BY_COSINES}{name}" for name in view.encoders if name in read]
    readers += dict.fromkeys(row.encoder for row in view.scores.select(READING_METRIC, "separation", encoder="*"))
    departures, protocol_in_short = report.departures, ""  # nothing of a run without a protocol
    if departures is not None:
        options = ", ".join(departure["option"] for departure in departures)
        count = wording.count(len(departures), "departure")
        protocol_in_short = (
            f"the paper\u2019s, with {count}: {options}" if options else "the paper\u2019s, without departures"
        )
    pairs = [
        ("Model", str(report.model_card.get("name", "unnamed"))),
        ("Suite", report.suite.title),
        ("Protocol", protocol_in_short),
        ("Registration", report.registration),
        ("Images", image_counts(view)),
        (
            "Encoder" if len(report.encoder_cards) == 1 else "Encoders",
            ", ".join(report.encoder_cards) or "none",
        ),
        ("Reader" if len(readers) == 1 else "Readers", ", ".join(readers)),
        ("Seed", str(settings.get("seed", ""))),
        ("Date", str(settings.get("created", settings.get("date", "")))[:10]),
    ]
    return [(name, value) for name, value in pairs if value]


def image_counts(view: View) -> str:
    """Count the images that were drawn or imported, and say what became of the others."""
    samples = view.report.samples
    statuses = Counter(samples["status"]) if "status" in samples else Counter()
    if not statuses:
        return "none"
    others = [f"{statuses[status]:,} {status}" for status in ("refused", "failed", "blank") if statuses[status]]
    came, lost = (
        ("imported", "failed") if view.report.settings.get("origin") == "imported" else ("drawn", "refused or failed")
    )
    return ", ".join([f"{statuses['ok']:,} {came}", *(others or [f"none {lost}"])])


def protocol(view: View) -> dict[str, Any] | None:
    """Gather the prescription and the departures; None of a run that was not put under a protocol."""
    prescription, departures = view.report.suite.protocol, view.report.departures
    if prescription is None or departures is None:
        return None
    return {
        "paper": prescription.paper,
        "prescribed": prescription.lines(),
        "departures": departures,
        "open": [(choice.option, choice.taken) for choice in prescription.unsaid],
        "decisions": prescription.decisions,
    }


_CARD_FIELDS: Final = ("name", "family", "revision", "weights_sha256", "fingerprint")
_LONGEST: Final = 240
"""Characters of a setting or a note that are shown: a vocabulary has thousands. ``run.json`` has all."""

_OF_IMAGES: Final = ("folder", "dataset")
"""Families of finished images: what their cards have a hash of is these."""


def measured_how(view: View) -> dict[str, Any]:
    """Gather what the section says of every study: cards, settings, the suite, the tests."""
    report = view.report
    return {
        "generator": card(report.model_card),
        "encoders": [card(encoder_card) for encoder_card in report.encoder_cards.values()],
        "settings": list(flat(report.settings).items()),
        "suite": report.suite,
        "planted": report.planted is not None,
        "tests": sorted(test for (test,) in view.scores.distinct("test") if test),
        "one_encoder": len(view.encoders) < 2,
    }


def card(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Split a card in lists of (name, value): identity, settings, notes."""
    family = str(fields.get("family"))
    hashed = "counts" if family == "counts" else "images" if family in _OF_IMAGES else "weights"
    labels = {"weights_sha256": f"{hashed} (SHA-256)"}
    identity = {labels.get(name, name): fields.get(name) for name in _CARD_FIELDS}
    return {
        "name": str(fields.get("name", "unnamed")),
        "identity": [(name, _value_text(value)) for name, value in identity.items() if value],
        "settings": list(flat(fields.get("settings") or {}).items()),
        "notes": list(flat(fields.get("notes") or {}).items()),
    }


def flat(settings: Mapping[str, Any], prefix: str = "") -> dict[str, str]:
    """Flatten nested settings into one list of names and values."""
    lines: dict[str, str] = {}
    for name, value in settings.items():
        if isinstance(value, Mapping):
            lines |= flat(value, f"{prefix}{name}.")
        else:
            lines[f"{prefix}{name}"] = _value_text(value)
    return lines


def _value_text(value: Any) -> str:
    if value is None or value == "":
        return wording.MISSING
    if isinstance(value, list | tuple):
        return ", ".join(map(str, value))
    return wording.shortened(str(value), _LONGEST)


HUMAN: Final = "human"
SIMULATED: Final = "simulated"
RATES: Final = (
    ("alpha", "Krippendorff\N{RIGHT SINGLE QUOTATION MARK}s α (1 full agreement, 0 as by chance)", "item"),
    ("self_consistency", "The same answer when asked again", "repeated item"),
    ("attention", "Right where the answer was known", "item"),
)


def people(view: View) -> dict[str, Any] | None:
    """Gather what people said, and apart from them what simulated raters did; None where neither rated."""
    parts = [part for metric in (HUMAN, SIMULATED) if (part := _part(view, metric)) is not None]
    return {"parts": parts} if parts else None


def _part(view: View, metric: str) -> dict[str, Any] | None:
    scores = view.scores
    alpha = scores.first(metric, "alpha", encoder="")
    if alpha is None:
        return None
    names = list(dict.fromkeys(row.encoder for row in scores.select(metric, "corrected_share", encoder="*")))
    encoders = names[1:] if len(names) == 2 and names[0] == MEAN else names  # with one the average is that encoder
    lead = encoders[0] if encoders else ""
    shares = scores.select(metric, "share", encoder="")
    raw = scores.by_concept("share", "share", encoder=lead or MEAN)
    taus = scores.select(metric, "tau", encoder="*")
    several = len({row.encoder for row in taus}) > 2
    empty = [row for row in scores.select(metric, encoder="*") if row.component in ("share", "alpha", "tau")]
    return {
        "simulated": metric == SIMULATED,
        "raters": wording.count(alpha.n_a, "simulated rater" if metric == SIMULATED else "rater"),
        "rated_items": wording.count(alpha.n_b, "item"),
        "agreement": [(label, unit, scores.first(metric, name, encoder="")) for name, label, unit in RATES],
        "encoders": {
            name: [scores.first(metric, rate, encoder=name) for rate in ("sensitivity", "specificity")]
            for name in encoders
        },
        "lead": lead,
        "shares": shares,
        "raw": raw,
        "corrected": scores.by_concept(metric, "corrected_share", encoder=lead),
        "more": scores.by_concept(metric, "more_ratings", encoder=lead),
        "has_read": any(row.concept in raw and raw[row.concept].defined for row in shares),
        "correlations": [row for row in taus if row.n_target and (several or row.encoder == MEAN)],
        "missing": wording.reasons(
            (row.concept or row.setting or "agreement", row.reason) for row in empty if not row.defined and row.reason
        ),
        "one": any(row.reason_code == "one rater" for row in shares),
    }


def paired(view: View) -> dict[str, Any] | None:
    """Gather what people said of two pictures side by side, question by question; None where nobody compared any."""
    parts: list[dict[str, Any]] = []
    for metric in (HUMAN, SIMULATED):
        rows = view.scores.select(metric, encoder="*")
        for question in dict.fromkeys(row.setting for row in rows if row.component == "strength"):
            question_rows = [row for row in rows if row.setting == question]
            ranked = sorted((row for row in question_rows if row.component == "preferred"), key=lambda row: -row.value)
            of_both = {row.component: row for row in question_rows if row.component in ("left", "tied")}
            strengths = {(row.concept, row.group): row for row in question_rows if row.component == "strength"}
            parts.append(
                {
                    "simulated": metric == SIMULATED,
                    "question": question,
                    "first": next(iter(strengths.values())),
                    "rows": [(_compared_name(view, row), row, strengths[row.concept, row.group]) for row in ranked],
                    "reason": next(iter(strengths.values())).reason,
                    "ends": [
                        {"name": _compared_name(view, row), "row": row, "tiles": _pictures_of_unit(view, row)}
                        for row in ranked[:: max(1, len(ranked) - 1)]
                    ],
                    "figure": _preferred_figure(view, ranked, f"pairs{len(parts)}"),
                }
                | of_both
            )
    return {"parts": parts} if parts else None


def _compared_name(view: View, row: Row) -> str:
    return row.concept or view.label(row.group)


def _pictures_of_unit(view: View, row: Row) -> list[Tile]:
    """Return a picture of what was compared; none where the page has no such picture."""
    role = next((role for role, owner in view.album.owned if owner == (row.concept or row.group)), "")
    return view.album.first(role, row.concept or row.group, 1)


def _preferred_figure(view: View, rows: Sequence[Row], name: str) -> Figure | None:
    """Draw how often each is preferred to another one, the most preferred on top."""
    if not rows:
        return None
    names = [_compared_name(view, row) for row in rows]
    descriptions = [f"{each}: {wording.estimate(row, sign=False)}" for each, row in zip(names, rows, strict=True)]
    with canvas(640, 60 + 24 * len(rows)) as figure:
        axes = place(figure, 190, 40, 16, 10)
        axes.axvline(0.5, color=Ink.MUTED, linewidth=1, zorder=1)
        for y, row in enumerate(rows):
            colour = Ink.UNDECIDED if not row.q <= 0.05 else Ink.A if row.value > row.null else Ink.B
            draw_intervals(axes, row, y, colour)
            axes.plot([row.value], [y], "o", color=colour, markersize=6.5, zorder=4, gid=f"pair-{y}")
        label_rows(axes, names)
        axes.set_xlim(0, 1)
        axes.set_xlabel("probability of being preferred to another one")
        tidy(axes)
        return finish(
            figure, name=name, title="How often each is preferred", description="; ".join(descriptions) + ".",
            tips={f"pair-{y}": each for y, each in enumerate(descriptions)},
        )  # fmt: skip


_MISSING: Final = "are missing (refused or of one colour)"


def refusal_words(view: PairView[Any]) -> str:
    """Word the difference between the rates of the suite's two groups, the one that lost more named first.

    It says "more often" where interval and p both do. Empty where no picture was refused.
    """
    if not len(view.report.scores):
        return ""
    rows = Scores.from_frame(view.report.scores).select("refusal", "difference", encoder="")
    if not rows:
        return ""
    row = min(rows, key=lambda candidate: candidate.p if candidate.has_interval else 2.0)  # of crossed axes, one each
    names, ends = view.labels_of(row.group), (row.low, row.high)
    if row.value < 0:  # the row is a less b
        names, ends = names[::-1], (-row.high, -row.low)
    difference = f"{wording.signed(abs(row.value))} {wording.interval(*ends, 2)}"
    why = f"; {row.reason}" if row.reason else f", {wording.probability(row.p, 'p')} ({row.test})"
    if wording.decided(row):
        return f"Pictures of {names[0]} {_MISSING} more often than those of {names[1]}, by {difference}{why}."
    return f"The shares of pictures that {_MISSING} for {names[0]} and for {names[1]} differ by {difference}{why}."


IDENTITY: Final = ("concept", "metric", "component", "encoder")
"""What a row is a number of: the head of its row, which stays in view while the numbers scroll."""

COLUMNS: Final[tuple[tuple[str, str, str], ...]] = (
    ("value", "Value", "number"),
    ("low", "Low", "number"),
    ("high", "High", "number"),
    ("p", "p", "number"),
    ("q", "q", "number"),
    ("n_target", "n", "number"),
    ("group", "Group", "text"),
    ("stimulus_low", "Stimulus low", "number"),
    ("stimulus_high", "Stimulus high", "number"),
    ("null", "Null", "number"),
    ("category", "Category", "text"),
    ("setting", "Setting", "text"),
    ("note", "Note", "text"),
)


MOST_NUMBERS: Final = 10_000
"""Rows of the table of all numbers: browsers take half a minute for a hundred thousand."""


def table(view: View) -> dict[str, Any]:
    """Gather columns and rows; a cell is (text, key to sort by). What no row has is left out."""
    rows = view.scores[:MOST_NUMBERS]
    identities = [[_text_and_key(view, row, name, "text")[0] for name in IDENTITY] for row in rows]
    named = [name for name, texts in zip(IDENTITY, zip(*identities, strict=True), strict=False) if any(texts)]
    cells = [[_text_and_key(view, row, name, kind) for name, _, kind in COLUMNS] for row in rows]
    filled = [any(text for text, _ in column) for column in zip(*cells, strict=True)]
    columns = [column for column, there in zip(COLUMNS, filled, strict=False) if there]
    return {
        "identity": named,
        "columns": [{"name": name, "label": label, "kind": kind} for name, label, kind in columns],
        "rows": [
            {
                "identity": [text for name, text in zip(IDENTITY, identity, strict=True) if name in named],
                "cells": [cell for cell, there in zip(of_row, filled, strict=True) if there],
            }
            for identity, of_row in zip(identities, cells, strict=True)
        ],
        "csv": view.report.csv_name,
        "unit": view.unit,
        "metrics": list(dict.fromkeys(row.metric for row in rows)),
        "more": len(view.scores) - len(rows),
    }


def _text_and_key(view: View, row: Row, name: str, kind: str) -> tuple[str, str]:
    if name == "note":
        return "; ".join(
            part
            for part in (
                row.flag,
                wording.verdict_words(row, view.label),
                wording.reason_words(row) if row.verdict and wording.not_measured(row) else row.reason,
            )
            if part
        ), ""
    if name == "encoder":
        return ("mean" if row.encoder == MEAN else row.encoder), ""
    value = getattr(row, name)
    if kind == "text":
        return str(value).replace("_", " ") if name in ("metric", "component") else str(value), ""
    if name == "n_target":
        return (str(value), str(value)) if value else ("", "")
    if not isfinite(value):
        return (wording.MISSING, "") if name == "value" else ("", "")
    return wording.number(value, 4), f"{value:.9g}"
