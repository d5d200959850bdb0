"""The page of a comparison: what each further run does otherwise than the first, and all of them side by side."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence
from typing import Any

import pandas as pd
from markupsafe import Markup

from clinometer._csv import csv_text
from clinometer.pipeline.side_by_side import side_by_side
from clinometer.report import wording
from clinometer.report.compared import compared
from clinometer.report.comparison import DifferenceTable, Quantity, all_runs, pair_names, run_names
from clinometer.report.html import asset, environment, policy
from clinometer.report.rows import Row, Scores
from clinometer.report.verdict_words import decided, difference_words, needed, not_measured, reason_words, too_few
from clinometer.runs.comparison import Comparison, shared_encoders
from clinometer.runs.storage import Directory
from clinometer.studies import study_of
from clinometer.studies.refusals.compared import refusal_table, refusals_in_words
from clinometer.suites import Suite


def comparison_html(comparisons: Sequence[Comparison]) -> str:
    """Render comparisons with one first run as one self-contained HTML page."""
    style = asset("style.css")
    runs = all_runs(comparisons)
    study = study_of(runs[0].suite)
    page = study.page(runs[0].suite)
    called = run_names(runs)
    return (
        environment(page.package)
        .get_template("comparison_page.html")
        .render(
            template=study.comparison(runs[0].suite).template,
            title=f"{wording.listed(called[1:])} beside {called[0]}",
            suite=runs[0].suite.title,
            comparisons=[_section(*each) for each in zip(comparisons, pair_names(comparisons), strict=True)],
            compared=compared(dict(zip(called, runs, strict=True))),
            s=side_by_side(dict(zip(called, runs, strict=True)), shared_encoders(runs)),
            style=Markup(style),
            policy=policy(style, ""),
        )
    )  # fmt: skip


def write_comparison(comparisons: Sequence[Comparison], folder: str | os.PathLike[str]) -> str:
    """Write ``comparison.html`` and ``comparison.csv``, its rows led by the runs' names; return the page's place."""
    directory = Directory(folder)
    named = zip(comparisons, pair_names(comparisons), strict=True)
    table = pd.concat([each.scores.assign(first=first, second=second) for each, (first, second) in named])
    table = table[["first", "second", *table.columns.drop(["first", "second"])]]
    directory.write_bytes("comparison.csv", csv_text(table).encode("utf-8", "backslashreplace"))
    directory.write_bytes("comparison.html", comparison_html(comparisons).encode("utf-8", errors="replace"))
    return directory.path("comparison.html")


def comparison_tables(
    comparison: Comparison, called: tuple[str, str] | None = None, *, short: bool = False
) -> list[DifferenceTable]:
    """The differences that are judged, such as MCAS of every concept, or S of every test and Asc of every prompt.

    With ``short``, tests go by their names and not by their concepts, edits by the classes of professions alone, and
    crossed axes by their levels, without the cells.
    """
    called = called or pair_names([comparison])[0]
    scores = Scores.from_frame(comparison.scores)
    tables = []
    for quantity in _quantities(comparison):
        rows = scores.select("comparison", quantity.component, encoder=quantity.encoder)
        rows = [row for row in rows if not (short and row.setting and row.concept)]
        if rows and not (short and not quantity.brief):
            tables.append(_table(quantity, rows, scores, comparison, called, short=short))
    return tables


def comparison_verdict(comparison: Comparison, called: tuple[str, str] | None = None) -> str:
    """Which leans more, or that it is undecided, and over what."""
    return " ".join(part for part in _verdict(comparison, called or pair_names([comparison])[0]) if part)


def comparison_refusals(comparison: Comparison, called: tuple[str, str] | None = None) -> str:
    """Which run refuses more, and what that means; empty where neither refused anything."""
    return " ".join(refusals_in_words(comparison, called or pair_names([comparison])[0]))


def _verdict(comparison: Comparison, called: tuple[str, str]) -> tuple[str, str]:
    """A sentence, and the numbers that it rests on."""
    first, second = called
    if _same_images(comparison):
        return f"{second} beside {first}: nothing differs, for both hold the same images.", ""
    shown = study_of(comparison.first.suite).comparison(comparison.first.suite)
    if shown.verdict is not None:
        return shown.verdict(comparison, called), ""
    (row,) = Scores.from_frame(comparison.scores).select("comparison", "magnitude")
    if not row.defined:
        return f"{second} beside {first}: {row.reason}.", ""
    quantity = _quantities(comparison)[0]
    ends = _judged_ends(row, over_prompts=shown.magnitude_over_prompts)
    digits = wording.digits_for([row.value, *ends])
    if not_measured(row):
        said = f"which leans more cannot be judged: {reason_words(row)}"
    elif decided(row):
        said = difference_words(row, called)
    elif too_few(row):
        said = f"too few images to tell which leans more; {needed(row)}"
    else:
        said = "undecided which leans more: the images do not tell"
    counted = wording.count(row.n_target, quantity.counted)
    # portraits are what the sizes are estimated from; their mean is over classes and strengths, or over contrasts
    over = f", from {counted}," if quantity.over == "portraits" else f" over {counted}"
    numbers = f"{wording.signed(row.value, digits)} {wording.interval(*ends, digits)}".strip()
    p = wording.probability(row.p, "p")
    without = f" ({row.reason})" if row.reason and not not_measured(row) else ""
    return (
        f"{second} beside {first}: {said}.",
        f"Mean |{quantity.symbol}|{over} differs by {numbers}{f', {p}' if p else ''}{without}.",
    )


def _quantities(comparison: Comparison) -> Sequence[Quantity]:
    suite = comparison.first.suite
    return study_of(suite).comparison(suite).quantities(suite)


def _section(comparison: Comparison, called: tuple[str, str]) -> dict[str, Any]:
    said, measured = _verdict(comparison, called)
    return {
        "first": called[0],
        "second": called[1],
        "said": said,
        "measured": measured,
        "pairing": pairing_in_words(comparison),
        "tables": comparison_tables(comparison, called),
        "refusals": refusals_in_words(comparison, called),
        "refusal_table": refusal_table(comparison, called),
    }


def _table(
    quantity: Quantity,
    rows: Sequence[Row],
    scores: Scores,
    comparison: Comparison,
    called: tuple[str, str],
    *,
    short: bool,
) -> DifferenceTable:
    effects = scores.by_concept("comparison", "effect_size") if quantity.over == "prompts" else {}
    ends = [_judged_ends(row, over_prompts=quantity.over == "prompts") for row in rows]
    digits = wording.digits_for([number for row, held in zip(rows, ends, strict=True) for number in (row.value, *held)])
    suite = comparison.first.suite
    name = quantity.short_name if short else quantity.name
    told = _common_reason(rows)
    counts = Counter(_worded(row, comparison, called) for row in rows)
    return DifferenceTable(
        title=wording.capitalised(f"{quantity.symbol} of {called[1]} minus {quantity.symbol} of {called[0]}"),
        columns=(
            quantity.unit,
            quantity.column,
            "95 %",
            *(["Δd"] if effects else []),
            "q",
            "to decide",
            "verdict",
        ),
        rows=tuple(
            (
                name(suite, row),
                wording.signed(row.value, digits),
                wording.interval(*held, digits),
                *([wording.signed(effects[row.concept].value)] if effects else []),
                wording.bare_probability(row.q),
                wording.about(row.n_decide),
                _judgement(row, comparison, called, told) if row.defined else row.reason,
            )
            for row, held in zip(rows, ends, strict=True)
        ),
        counts=tuple(f"{said}: {n}" for said, n in counts.most_common()),
        note=_note(quantity, rows, suite, called[0]),
    )


def _note(quantity: Quantity, rows: Sequence[Row], suite: Suite, first: str) -> str:
    """What the sign means, what was tested, what the intervals are over, and what would decide."""
    test = next((row.test for row in rows if row.test), "no test")
    label_a = quantity.a or study_of(suite).comparison(suite).label_a(suite)
    family = quantity.family or f"{quantity.unit}s"
    note = f"Positive: {quantity.positive.format(a=label_a, first=first)}. "
    note += f"{wording.capitalised(test)}; 95 % over {quantity.over}; q over the {family}."
    if any(row.n_decide for row in rows):
        note += f" To decide: about so many {quantity.to_decide}, if the estimate stands."
    told = _common_reason(rows)
    return f"{note} {wording.capitalised(told)}." if told else note


def _common_reason(rows: Sequence[Row]) -> str:
    """What all rows that are judged leave out alike; the note says it once."""
    held = {row.reason for row in rows if row.defined and not not_measured(row)}
    return held.pop() if len(held) == 1 else ""


def _judged_ends(row: Row, *, over_prompts: bool) -> tuple[float, float]:
    return (row.stimulus_low, row.stimulus_high) if over_prompts else (row.low, row.high)


def _judgement(row: Row, comparison: Comparison, called: tuple[str, str], told: str) -> str:
    """The verdict; why there is none, or what the row leaves out, where that is not told of the whole table."""
    said = _worded(row, comparison, called)
    return f"{said} ({row.reason})" if row.reason and row.reason != told else said


def _worded(row: Row, comparison: Comparison, called: tuple[str, str]) -> str:
    return difference_words(row, called, comparison.first.suite.label_of)


def pairing_in_words(comparison: Comparison) -> str:
    """How many pairs of images were compared, or what keeps the runs from being paired."""
    if not comparison.paired:
        return f"Not paired: {comparison.unpaired}."
    said = wording.count(comparison.pairs, "pair of images", "pairs of images")
    said += ", each drawn from one prompt and one noise"
    if comparison.dropped:
        alone = wording.count(comparison.dropped, "image without a partner is", "images without a partner are")
        said += f"; {alone} left out"
    return f"{said}.{_sameness(comparison)}"


def _sameness(comparison: Comparison) -> str:
    """That both runs hold the same images, and why, where it is known."""
    if not _same_images(comparison):
        return ""
    cards = [run.model_card["fingerprint"] for run in (comparison.first, comparison.second)]
    why = ": model, settings and seed are the same" if cards[0] == cards[1] else ""
    return f" Both images of every pair are one and the same{why}. So every difference is 0."


def _same_images(comparison: Comparison) -> bool:
    """Whether the runs hold the same images and so differ in nothing; another classifier of given portraits may."""
    alike = 0 < comparison.pairs == comparison.identical and not comparison.dropped
    differences = comparison.scores[comparison.scores.component != "own_refusal_rate"]
    return alike and bool((differences["value"].fillna(0) == 0).all())
