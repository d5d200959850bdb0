"""The page of a comparison: what each further run does otherwise than the first, and all of them side by side."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pandas as pd
from markupsafe import Markup

from clinometer._csv import csv_text
from clinometer.report import wording
from clinometer.report.called import called_in, names_of, runs_of
from clinometer.report.classification_view import DENOISER, contrast_in_words
from clinometer.report.compared import compared
from clinometer.report.difference_table import DifferenceTable
from clinometer.report.html import asset, environment, policy
from clinometer.report.refusals_compared import refusal_table, refusals_in_words
from clinometer.report.rows import MEAN, Row, Scores
from clinometer.report.side_by_side import side_by_side
from clinometer.report.verdict_words import decided, difference_words, needed, not_measured, reason_words, too_few
from clinometer.report.view import PIXELS
from clinometer.runs.comparison import Comparison, shared_encoders
from clinometer.runs.storage import Directory
from clinometer.suites import AssociationSuite, ClassificationSuite, EditingSuite, LeaningSuite, Suite


@dataclass(frozen=True)
class _Kind:
    """A kind of difference as it is shown.

    ``symbol`` is the number, ``unit`` what one is of, ``column`` the heading of the differences, ``encoder`` what rows
    say who saw it; ``over`` what the judged interval is over, and ``counted`` what the mean magnitude is over, or
    from.
    ``to_decide`` says which images, or portraits, are counted until it is decided. ``positive`` says what a difference
    above 0 means, of the ``{first}`` run and the suite's ``{a}``. ``a`` is what it leans to where the suite has several
    axes; ``family`` what q is over, where that is not the units alone.
    """

    component: str
    symbol: str
    unit: str
    column: str
    to_decide: str
    counted: str
    positive: str
    over: str = "images"
    encoder: str = MEAN
    a: str = ""
    family: str = ""


_TO_DECIDE: Final = "images, of the concept, with as many more of the groups"

_KINDS: Final[dict[str, tuple[_Kind, ...]]] = {
    "leaning": (
        _Kind("mcas", "MCAS", "concept", "ΔMCAS", _TO_DECIDE, "concept", "more to {a} than {first}"),
    ),
    "association": (
        _Kind("differential_association", "S", "test", "ΔS", "images, neutral ones, with as many more prompts", "test",
              "the first concept, against the other, more to {a} than in {first}", over="prompts"),
        _Kind("association", "Asc", "prompt", "ΔAsc", "images, neutral ones, with as many more of the attributes",
              "prompt", "more to {a} than {first}"),
    ),
    "editing": (
        _Kind("flip_asymmetry", "flip asymmetry", "edit", "difference", "portraits, of all groups", "portrait",
              "edits move more to {a} than in {first}", over="portraits"),
        _Kind("ita_contrast", "contrast of skin", "edit", "difference, °", "portraits, of all groups", "portrait",
              "the darker tone, against the lighter one, is lightened more than in {first}", over="portraits",
              encoder=PIXELS),
        _Kind("ita_change", "change of skin", "edit", "difference, °", "portraits, of the group", "portrait",
              "skin is lightened more than in {first}", over="portraits", encoder=PIXELS),
    ),
    "classification": (
        _Kind("differential", "\N{GREEK CAPITAL LETTER DELTA}S", "contrast", "difference", "portraits, of all groups",
              "portrait", "the first side goes more often to a profession {a} than in {first}", over="portraits",
              encoder=DENOISER),
    ),
}  # fmt: skip
"""By the suite's study; the first kind is the one whose mean magnitude says which leans more."""


def _crossed_kinds(suite: LeaningSuite) -> tuple[_Kind, ...]:
    """Every axis, and every cell against the mean of all."""
    kinds = [
        _Kind(f"axis:{axis}", f"MCAS by {suite.axis_label(axis)}", "concept", "ΔMCAS",
              _TO_DECIDE, "concept", "more to {a} than {first}", a=_first_level(suite, axis),
              family="" if len(held.levels) == 2 else "concepts and levels")
        for axis, held in (suite.axes or {}).items()
    ]  # fmt: skip
    return *kinds, *(
        _Kind(f"cell:{name}", f"nearness to {suite.label_of(name)}", "concept", "difference", _TO_DECIDE, "concept",
              "nearer to {a} than in {first}, against the mean of all groups", a=suite.label_of(name),
              family="concepts and groups")
        for name in suite.groups
    )  # fmt: skip


def _first_level(suite: LeaningSuite, axis: str) -> str:
    levels = list((suite.axes or {})[axis].levels.values())
    return levels[0] if len(levels) == 2 else "the level named"


def comparison_html(comparisons: Sequence[Comparison]) -> str:
    """Render comparisons with one first run as one self-contained HTML page."""
    style = asset("style.css")
    runs = runs_of(comparisons)
    called = names_of(runs)
    return (
        environment()
        .get_template("comparison.html")
        .render(
            title=f"{wording.listed(called[1:])} beside {called[0]}",
            suite=runs[0].suite.title,
            comparisons=[_shown(*each) for each in zip(comparisons, called_in(comparisons), strict=True)],
            compared=compared(dict(zip(called, runs, strict=True))),
            s=side_by_side(dict(zip(called, runs, strict=True)), shared_encoders(runs)),
            style=Markup(style),
            policy=policy(style, ""),
        )
    )  # fmt: skip


def write_comparison(comparisons: Sequence[Comparison], folder: str | os.PathLike[str]) -> str:
    """Write ``comparison.html`` and ``comparison.csv``, its rows led by the runs' names; return the page's place."""
    directory = Directory(folder)
    named = zip(comparisons, called_in(comparisons), strict=True)
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
    called = called or called_in([comparison])[0]
    scores = Scores.from_frame(comparison.scores)
    tables = []
    for kind in _kinds(comparison):
        rows = scores.select("comparison", kind.component, encoder=kind.encoder)
        rows = [row for row in rows if not (short and row.setting and row.concept)]
        if rows and not (short and kind.component.startswith("cell:")):
            tables.append(_table(kind, rows, scores, comparison, called, short=short))
    return tables


def comparison_verdict(comparison: Comparison, called: tuple[str, str] | None = None) -> str:
    """Which leans more, or that it is undecided, and over what."""
    return " ".join(part for part in _verdict(comparison, called or called_in([comparison])[0]) if part)


def comparison_refusals(comparison: Comparison, called: tuple[str, str] | None = None) -> str:
    """Which run refuses more, and what that means; empty where neither refused anything."""
    return " ".join(refusals_in_words(comparison, called or called_in([comparison])[0]))


def _verdict(comparison: Comparison, called: tuple[str, str]) -> tuple[str, str]:
    """A sentence, and the numbers that it rests on."""
    if _crossed(comparison.first.suite):
        return _verdict_by_axis(comparison, called), ""
    (row,) = Scores.from_frame(comparison.scores).select("comparison", "magnitude")
    first, second = called
    if _same_images(comparison):
        return f"{second} beside {first}: nothing differs, for both hold the same images.", ""
    if not row.defined:
        return f"{second} beside {first}: {row.reason}.", ""
    kind = _kinds(comparison)[0 if _has_tests(comparison) else -1]
    ends = _judged_ends(row, over_prompts=isinstance(comparison.first.suite, AssociationSuite))
    digits = wording.digits_for([row.value, *ends])
    if not_measured(row):
        said = f"which leans more cannot be judged: {reason_words(row)}"
    elif decided(row):
        said = difference_words(row, called)
    elif too_few(row):
        said = f"too few images to tell which leans more; {needed(row)}"
    else:
        said = "undecided which leans more: the images do not tell"
    counted = wording.count(row.n_target, kind.counted)
    # portraits are what the sizes are estimated from; their mean is over classes and strengths, or over contrasts
    over = f", from {counted}," if kind.over == "portraits" else f" over {counted}"
    numbers = f"{wording.signed(row.value, digits)} {wording.interval(*ends, digits)}".strip()
    p = wording.probability(row.p, "p")
    without = f" ({row.reason})" if row.reason and not not_measured(row) else ""
    return (
        f"{second} beside {first}: {said}.",
        f"Mean |{kind.symbol}|{over} differs by {numbers}{f', {p}' if p else ''}{without}.",
    )


def _verdict_by_axis(comparison: Comparison, called: tuple[str, str]) -> str:
    """What is said of the concepts along each axis, counted: magnitudes of several axes make no one number."""
    first, second = called
    if _same_images(comparison):
        return f"{second} beside {first}: nothing differs, for both hold the same images."
    suite, scores = comparison.first.suite, Scores.from_frame(comparison.scores)
    assert isinstance(suite, LeaningSuite)
    parts = []
    for axis in suite.axes or {}:
        rows = scores.select("comparison", f"axis:{axis}", encoder=MEAN)
        counts = Counter(_worded(row, comparison, called) for row in rows)
        told = ", ".join(f"{said}: {n}" for said, n in counts.most_common())
        parts.append(f"by {suite.axis_label(axis)}, {told}")
    return f"{second} beside {first}, concepts counted {'; '.join(parts)}."


def _crossed(suite: Suite) -> bool:
    return isinstance(suite, LeaningSuite) and suite.axes is not None


def _kinds(comparison: Comparison) -> tuple[_Kind, ...]:
    suite = comparison.first.suite
    return _crossed_kinds(suite) if isinstance(suite, LeaningSuite) and suite.axes else _KINDS[suite.study]


def _has_tests(comparison: Comparison) -> bool:
    return not isinstance(comparison.first.suite, AssociationSuite) or bool(comparison.first.suite.tests)


def _shown(comparison: Comparison, called: tuple[str, str]) -> dict[str, Any]:
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
    kind: _Kind, rows: Sequence[Row], scores: Scores, comparison: Comparison, called: tuple[str, str], *, short: bool
) -> DifferenceTable:
    effects = scores.by_concept("comparison", "effect_size") if kind.over == "prompts" else {}
    ends = [_judged_ends(row, over_prompts=kind.over == "prompts") for row in rows]
    digits = wording.digits_for([number for row, held in zip(rows, ends, strict=True) for number in (row.value, *held)])
    name = _namer(kind, comparison, short=short)
    told = _told(rows)
    counts = Counter(_worded(row, comparison, called) for row in rows)
    return DifferenceTable(
        title=wording.capitalised(f"{kind.symbol} of {called[1]} minus {kind.symbol} of {called[0]}"),
        columns=(
            kind.unit,
            kind.column,
            "95 %",
            *(["Δd"] if effects else []),
            "q",
            "to decide",
            "verdict",
        ),
        rows=tuple(
            (
                name(row),
                wording.signed(row.value, digits),
                wording.interval(*held, digits),
                *([wording.signed(effects[row.concept].value)] if effects else []),
                wording.probability(row.q, "q").removeprefix("q ").removeprefix("= "),
                wording.about(row.n_decide),
                _judgement(row, comparison, called, told) if row.defined else row.reason,
            )
            for row, held in zip(rows, ends, strict=True)
        ),
        counts=tuple(f"{said}: {n}" for said, n in counts.most_common()),
        note=_note(kind, rows, comparison.first.suite, called[0]),
    )


def _note(kind: _Kind, rows: Sequence[Row], suite: Suite, first: str) -> str:
    """What the sign means, what was tested, what the intervals are over, and what would decide."""
    test = next((row.test for row in rows if row.test), "no test")
    note = f"Positive: {kind.positive.format(a=kind.a or _label_a(suite), first=first)}. "
    note += f"{wording.capitalised(test)}; 95 % over {kind.over}; q over the {kind.family or f'{kind.unit}s'}."
    if any(row.n_decide for row in rows):
        note += f" To decide: about so many {kind.to_decide}, if the estimate stands."
    told = _told(rows)
    return f"{note} {wording.capitalised(told)}." if told else note


def _told(rows: Sequence[Row]) -> str:
    """What all rows that are judged leave out alike; the note says it once."""
    held = {row.reason for row in rows if row.defined and not not_measured(row)}
    return held.pop() if len(held) == 1 else ""


def _label_a(suite: Suite) -> str:
    """What a positive number leans to."""
    if isinstance(suite, EditingSuite):
        return suite.genders.a
    if isinstance(suite, ClassificationSuite):
        return suite.a.label
    assert isinstance(suite, LeaningSuite | AssociationSuite)
    return suite.label_of(suite.compared.a if isinstance(suite, LeaningSuite) else suite.axis.a)


def _namer(kind: _Kind, comparison: Comparison, *, short: bool) -> Callable[[Row], str]:
    """Tests go by their concepts, contrasts by their sides, edits by group, profession and strength, others by name."""
    suite = comparison.first.suite
    if kind.family == "concepts and levels":
        return lambda row: f"{row.concept}: {suite.label_of(row.group)}"
    if isinstance(suite, ClassificationSuite) and not short:
        return lambda row: contrast_in_words(suite, row.group)
    if not isinstance(suite, AssociationSuite) or kind.over != "prompts" or short:
        return lambda row: _edit_name(row, suite) if kind.unit == "edit" else row.concept or row.group
    tests = {test.name: f"{suite.concept_label(test.x)}, against {suite.concept_label(test.y)}" for test in suite.tests}
    return lambda row: tests.get(row.concept, row.concept)


def _edit_name(row: Row, suite: Suite) -> str:
    into = f"into {row.concept or f'“{row.category}”'}, {row.setting}"
    return f"{suite.label_of(row.group)} {into}" if row.group else wording.capitalised(into)


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
