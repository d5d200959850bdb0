"""The page of a comparison: how each further run differs from the first, and all of them side by side."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import pandas as pd

from clinometer._csv import csv_text
from clinometer._messages import first_and_more
from clinometer.report import wording
from clinometer.report.differences import (
    DifferenceTable,
    Quantity,
    all_runs,
    compared,
    difference_table,
    pair_names,
    run_names,
)
from clinometer.report.figures import COLOURS, SHAPE_CHARACTERS, SHAPES
from clinometer.report.gallery import beside_each_other
from clinometer.report.html import asset, environment, notebook_html, page_style, style_and_script
from clinometer.report.verdicts import digits_of
from clinometer.report.view import MEAN, ReportInput, Row, Scores
from clinometer.report.wording import decided, difference_words, needed, not_measured, reason_words, too_few
from clinometer.runs.several import Comparison, PooledRun, shared_encoders
from clinometer.runs.storage import Directory
from clinometer.studies import study_of
from clinometer.studies.refusals.scoring import refusal_table, refusals_in_words
from clinometer.studies.reporting import repeats_in_words, report_input
from clinometer.suites import Suite

MOST_NAMED: Final = 5
"""Concepts that a sentence names; the others are counted."""


def comparison_html(comparisons: Sequence[Comparison]) -> str:
    """Render comparisons with one first run as one self-contained HTML page."""
    runs = all_runs(comparisons)
    study = study_of(runs[0].suite)
    page = study.page(runs[0].suite)
    labels = run_names(runs)
    reports = {name: report_input(run) for name, run in zip(labels, runs, strict=True)}
    sizes, component = dict[str, float](), _quantities(comparisons[0])[0].component
    for comparison in comparisons:
        for row in Scores.from_frame(comparison.scores).select("comparison", component, encoder="*"):
            if row.defined and row.concept:
                sizes[row.concept] = max(abs(row.value), sizes.get(row.concept, 0.0))
    furthest = sorted(sizes, key=lambda name: -sizes[name])  # by their difference in any of the comparisons
    return (
        environment(page.package)
        .get_template("comparison_page.html")
        .render(
            template=study.comparison(runs[0].suite).template,
            title=f"{wording.listed(labels[1:])} compared with {labels[0]}",
            suite=runs[0].suite.title,
            unchecked=[(name, run.unchecked) for name, run in zip(labels, runs, strict=True) if run.unchecked],
            comparisons=[_section(*pair) for pair in zip(comparisons, pair_names(comparisons), strict=True)],
            compared=compared(reports),
            s=side_by_side(reports, shared_encoders(runs), furthest),
            **style_and_script(page_style(), asset("page.js")),
        )
    )  # fmt: skip


OWN_MARKS: Final = {"comparison.html": b"clinometer", "comparison.csv": b"metric,component"}
"""The files that are written, and what stands in them: another file of such a name is somebody else's."""


class Comparisons(list[Comparison]):
    """Runs compared with the first of them, a comparison each; shown, they say in words which leans more."""

    @property
    def table(self) -> pd.DataFrame:
        """Every difference, a row each, led by the runs' names: as ``comparison.csv``."""
        named = zip(self, pair_names(self), strict=True)
        table = pd.concat([each.scores.assign(first=first, second=second) for each, (first, second) in named])
        return table[["first", "second", *table.columns.drop(["first", "second"])]].reset_index(drop=True)

    def __repr__(self) -> str:
        return "\n".join(comparison_verdict(each, names) for each, names in zip(self, pair_names(self), strict=True))

    def _repr_html_(self) -> str:
        html = []
        for each, names in zip(self, pair_names(self), strict=True):
            tables = [(table.title, table.columns, table.rows) for table in comparison_tables(each, names, short=True)]
            said = (*comparison_caution(each, names), comparison_refusals(each, names), pairing_in_words(each))
            html.append(
                notebook_html(f"{names[1]} compared with {names[0]}", [comparison_verdict(each, names)], said, tables)
            )
        return "\n".join(html)


def write_comparison(comparisons: Sequence[Comparison], folder: str | os.PathLike[str]) -> str:
    """Write ``comparison.html`` and ``comparison.csv``, its rows led by the runs' names; return the page's place.

    Raises
    ------
    InvalidInputError
        A file of somebody else's has one of these names.
    """
    directory = Directory(folder)
    directory.require_own(OWN_MARKS, OWN_MARKS)
    table = Comparisons(comparisons).table
    directory.write_bytes("comparison.csv", csv_text(table).encode("utf-8", "backslashreplace"))
    directory.write_bytes("comparison.html", comparison_html(comparisons).encode("utf-8", errors="replace"))
    return directory.path("comparison.html")


def comparison_tables(
    comparison: Comparison, labels: tuple[str, str] | None = None, *, short: bool = False
) -> list[DifferenceTable]:
    """Gather the differences that are judged, of every concept, or S of every test and Asc of every prompt.

    With ``short``, tests go by their names and not by their concepts, edits by the classes of professions alone, and
    crossed axes by their levels, without the cells.
    """
    labels = labels or pair_names([comparison])[0]
    scores = Scores.from_frame(comparison.scores)
    tables = []
    for quantity in _quantities(comparison):
        rows = scores.select("comparison", quantity.component, encoder=quantity.encoder)
        rows = [row for row in rows if not (short and row.setting and row.concept)]
        if rows and not (short and not quantity.brief):
            tables.append(_table(quantity, rows, scores, comparison, labels, short=short))
    suite = comparison.first.suite
    return [*study_of(suite).comparison(suite).further(comparison, labels), *tables]


def comparison_verdict(comparison: Comparison, labels: tuple[str, str] | None = None) -> str:
    """Return in words which leans more, or that it is undecided, and over what."""
    return " ".join(part for part in _verdict(comparison, labels or pair_names([comparison])[0]) if part)


def comparison_refusals(comparison: Comparison, labels: tuple[str, str] | None = None) -> str:
    """Return in words which run refuses more, and what that means; empty where neither refused anything."""
    return " ".join(refusals_in_words(comparison, labels or pair_names([comparison])[0]))


def comparison_caution(comparison: Comparison, labels: tuple[str, str] | None = None) -> tuple[str, str]:
    """Explain what makes the differences mean less, such as pictures that show less of what was asked."""
    suite = comparison.first.suite
    return study_of(suite).comparison(suite).caution(comparison, labels or pair_names([comparison])[0])


def _verdict(comparison: Comparison, labels: tuple[str, str]) -> tuple[str, str]:
    """Word the verdict, and the numbers that it rests on."""
    first, second = labels
    if _same_images(comparison):
        return f"{second} compared with {first}: nothing differs, because both have the same images.", ""
    presentation = study_of(comparison.first.suite).comparison(comparison.first.suite)
    if not presentation.sums_up:
        return presentation.verdict(comparison, labels), ""
    (row,) = Scores.from_frame(comparison.scores).select("comparison", "magnitude")
    if not row.defined:
        return f"{second} compared with {first}: {row.reason}.", ""
    quantity = _quantities(comparison)[0]
    ends = row.ends("stimuli" if presentation.magnitude_over_prompts else "images")
    digits = wording.digits_for([row.value, *ends])
    if not_measured(row):
        verdict = f"which leans more cannot be judged: {reason_words(row)}"
    elif decided(row):
        verdict = difference_words(row, labels)
    elif too_few(row):
        verdict = f"too few images to tell which leans more; {needed(row)}"
    else:
        verdict = "undecided which leans more: the images cannot tell"
    bounds = f"; {filled}" if (filled := wording.bounds_words(row)) else ""
    counted = wording.count(row.n_target, quantity.counted)
    # portraits are what the sizes are estimated from; their mean is over classes and strengths, or over contrasts
    over = f", from {counted}," if quantity.over == "portraits" else f" over {counted}"
    numbers = f"{wording.signed(row.value, digits)} {wording.interval(*ends, digits)}".strip()
    p = wording.probability(row.p, "p")
    without = f" ({row.reason})" if row.reason and not not_measured(row) else ""
    return (
        f"{second} compared with {first}: {verdict}.",
        f"Mean |{quantity.symbol}|{over} differs by {numbers}{f', {p}' if p else ''}{without}{bounds}.",
    )


def _quantities(comparison: Comparison) -> Sequence[Quantity]:
    suite = comparison.first.suite
    return study_of(suite).comparison(suite).quantities(suite)


def _section(comparison: Comparison, labels: tuple[str, str]) -> dict[str, Any]:
    verdict, measured = _verdict(comparison, labels)
    caution, fidelity = comparison_caution(comparison, labels)
    return {
        "first": labels[0],
        "second": labels[1],
        "said": verdict,
        "measured": measured,
        "caution": caution,
        "fidelity": fidelity,
        "pairing": pairing_in_words(comparison),
        "tables": comparison_tables(comparison, labels),
        "refusals": refusals_in_words(comparison, labels),
        "refusal_table": refusal_table(comparison, labels),
    }


def _table(
    quantity: Quantity,
    rows: Sequence[Row],
    scores: Scores,
    comparison: Comparison,
    labels: tuple[str, str],
    *,
    short: bool,
) -> DifferenceTable:
    over, suite = "stimuli" if quantity.over == "prompts" else "images", comparison.first.suite
    effects = scores.by_concept("comparison", "effect_size") if quantity.over == "prompts" else {}
    after: dict[str, Callable[[Row], str]] = {}
    if not short and any(row.has_bounds for row in rows):
        missing = any(row.n_missing + row.n_missing_attributes for row in rows)
        heading = "missing filled in" if missing else "repeats as drawn"
        after[heading] = lambda row: wording.interval(row.bound_low, row.bound_high, digits)
    if effects:
        after["Δd"] = lambda row: wording.signed(effects[row.concept].value)
    digits = digits_of(rows, over)
    name, common_reason = (short and quantity.short_name) or quantity.name, _common_reason(rows)
    return difference_table(
        rows,
        labels,
        suite,
        title=wording.capitalised(f"{quantity.symbol} of {labels[1]} minus {quantity.symbol} of {labels[0]}"),
        unit=quantity.unit,
        column=quantity.column,
        note=_note(quantity, rows, suite, labels[0]),
        name=lambda row: name(suite, row),
        ends=lambda row: row.ends(over),
        digits=digits,
        after=after,
        to_decide=True,
        explained=lambda row: bool(row.reason) and row.reason != common_reason,
    )


def _note(quantity: Quantity, rows: Sequence[Row], suite: Suite, first: str) -> str:
    """Explain what the sign means, what was tested, what the intervals are over, and what would decide."""
    test = next((row.test for row in rows if row.test), "no test")
    label_a = quantity.a or study_of(suite).comparison(suite).label_a(suite)
    family = quantity.family or f"{quantity.unit}s"
    note = f"Positive: {quantity.positive.format(a=label_a, first=first)}. "
    note += f"{wording.capitalised(test)}; 95 % over {quantity.over}; q over the {family}."
    if any(row.n_decide for row in rows):
        note += f" To decide: about how many {quantity.to_decide}, would decide in four of five runs."
    if any(row.has_bounds and row.n_repeated for row in rows):
        note += (
            " Repeats as drawn: the 95 % interval if each picture counts as often as it was drawn, where that is wider."
        )
    if any(row.has_bounds and row.n_missing + row.n_missing_attributes for row in rows):
        note += (
            " Missing filled in: the 95 % interval if all that is missing in one run shows one side, and all that is "
        )
        note += "missing in the other run shows the other, whichever way moves it further."
    common_reason = _common_reason(rows)
    return f"{note} {wording.capitalised(common_reason)}." if common_reason else note


def _common_reason(rows: Sequence[Row]) -> str:
    """Find what all rows that are judged leave out alike, or why none is; the note says it once."""
    reasons = {row.reason for row in rows if row.defined and not not_measured(row)} or {row.reason for row in rows}
    return reasons.pop() if len(reasons) == 1 else ""


def pairing_in_words(comparison: Comparison) -> str:
    """Return in words how many pairs of images were compared, or what keeps the runs from being paired; and repeats."""
    runs = zip(pair_names([comparison])[0], (comparison.first, comparison.second), strict=True)
    each = [(name, one) for name, run in runs for one in (run.runs if isinstance(run, PooledRun) else (run,))]
    repeats = "".join(f" {name}: {said}" for name, run in each for said in repeats_in_words(run))
    fewer = ""
    if comparison.left_out:
        concepts = wording.count(len(comparison.left_out), "concept", "concepts")
        named = first_and_more(comparison.left_out, MOST_NAMED)
        fewer = f" Left out, because not all of the runs asked for them: {concepts} ({named})."
    if not comparison.paired:
        return f"Not paired: {comparison.unpaired}.{fewer}{repeats}"
    sentence = wording.count(comparison.pairs, "pair of images", "pairs of images")
    sentence += ", each drawn from the same prompt and noise"
    if comparison.dropped:
        alone = wording.count(comparison.dropped, "image without a partner is", "images without a partner are")
        sentence += f"; {alone} left out"
    once = " A pair counts only if neither picture repeats another of its run." if repeats else ""
    same = ""
    if _same_images(comparison):
        cards = [run.model_card["fingerprint"] for run in (comparison.first, comparison.second)]
        why = ": model, settings and seed are the same" if cards[0] == cards[1] else ""
        same = f" Both images of every pair are identical{why}. So every difference is 0."
    return f"{sentence}.{fewer}{same}{repeats}{once}"


def _same_images(comparison: Comparison) -> bool:
    """Return whether the runs hold the same images and differ in nothing; another classifier of given portraits may."""
    alike = 0 < comparison.pairs == comparison.identical and not comparison.dropped
    differences = comparison.scores[~comparison.scores.component.str.startswith("own_")]
    return alike and bool((differences["value"].fillna(0) == 0).all())


def side_by_side(
    reports: Mapping[str, ReportInput], encoders: Sequence[str], first: Sequence[str] = ()
) -> dict[str, Any]:
    """Gather what a page of several runs shows besides their differences; pictures of ``first`` first.

    Every number is a row of a run's own scores: of the average over encoders where all runs have the same ones, else of
    the first encoder that all of them have; there is nothing to show where no encoder has seen them all, in a study
    that needs one.
    """
    suite = next(iter(reports.values())).suite
    study = study_of(suite)
    shown_as = study.comparison(suite)
    if not encoders and study.encoders_needed:
        return {"study": "", "encoder": "", "marks": [], "bars": (), "models": list(reports), "contents": [],
                "pictures": []}  # fmt: skip
    alike = all(set(report.encoder_cards) == set(encoders) for report in reports.values())
    encoder = MEAN if alike else encoders[0]
    views = {}
    for name, report in reports.items():
        views[name] = shown_as.view.of(report)
        if shown_as.averaged and encoder != MEAN:  # its rows as if it were the only one, without curves of the average
            rows = [replace(row, encoder=MEAN) for row in views[name].scores if row.encoder == encoder]
            alone = replace(report, curves=None)
            views[name] = shown_as.view(alone, Scores(rows))
    context = {
        "study": study.key,
        "encoder": "" if alike else encoders[0],
        "marks": [
            (COLOURS[order % len(COLOURS)][0], SHAPE_CHARACTERS[SHAPES[order % len(SHAPES)]], model)
            for order, model in enumerate(reports)
        ],
        "bars": shown_as.bars,
        "models": list(reports),
        "contents": [],
        "pictures": beside_each_other(views, first),
        "view": next(iter(views.values())),
    }
    return context | shown_as.side_by_side(views, encoders[0] if encoders else "")
