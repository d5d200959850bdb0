"""The page and the summary of an association study."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from clinometer.report import wording
from clinometer.report.page import Page, Section, Summary, digits_of, unmeasured
from clinometer.report.rows import Row, Scores
from clinometer.report.sections import people, protocol, table
from clinometer.report.wording import Label, counted, verdict_in_full
from clinometer.studies.t2iat.sections.finding import association_masthead
from clinometer.studies.t2iat.sections.gallery import association_gallery
from clinometer.studies.t2iat.sections.tests import (
    amplification,
    association_method,
    association_told,
    association_verdicts,
    distributions,
    signs,
    tests,
)
from clinometer.studies.t2iat.view import AssociationView
from clinometer.suites import AssociationSuite

if TYPE_CHECKING:
    import pandas as pd

    from clinometer.suites import Suite

SHOWN: Final = 4
"""Stimuli shown at either end."""


def association_summary(suite: Suite, scores: pd.DataFrame) -> Summary:
    """The tests; where the suite has none, the stimuli that lean most to either side."""
    assert isinstance(suite, AssociationSuite)
    all_rows = Scores.from_frame(scores)
    if suite.tests:
        rows = list(all_rows.by_concept("t2iat", "differential_association").values())
        effects = all_rows.by_concept("t2iat", "effect_size")
        digits = digits_of(rows, stimulus=True)
        return Summary(
            verdicts=counted(rows, suite.label_of),
            title=f"S: {signs(suite)}",
            columns=("test", "S", "95 %", "d", "q", "verdict"),
            rows=tuple(_test_cells(row, effects.get(row.concept), suite.label_of, digits) for row in rows),
            unmeasured=unmeasured(rows, "test"),
        )
    rows = list(all_rows.by_concept("association", "mean").values())
    return Summary(
        verdicts=counted(rows, suite.label_of),
        title=f"Asc: {signs(suite)}",
        columns=("prompt", "Asc", "95 %", "q", "verdict"),
        rows=tuple(_cells(row, suite.label_of, digits_of(rows)) for row in _ends(rows)),
        unmeasured=unmeasured(rows, "prompt"),
    )


def _ends(rows: list[Row]) -> list[Row]:
    """Pick the rows that lean most to either side, from A to B."""
    ranked = sorted((row for row in rows if row.defined), key=lambda row: -row.value)
    return ranked if len(ranked) <= 2 * SHOWN else [*ranked[:SHOWN], *ranked[-SHOWN:]]


def _test_cells(row: Row, effect: Row | None, label: Label, digits: int) -> tuple[str, ...]:
    return (
        row.concept,
        wording.signed(row.value, digits),
        wording.interval(row.stimulus_low, row.stimulus_high, digits),
        wording.signed(effect.value) if effect is not None else wording.MISSING,
        wording.probability(row.q, "q"),
        verdict_in_full(row, label),
    )


def _cells(row: Row, label: Label, digits: int) -> tuple[str, ...]:
    return (
        row.concept,
        wording.signed(row.value, digits),
        wording.interval(row.low, row.high, digits),
        wording.probability(row.q, "q"),
        verdict_in_full(row, label),
    )


ASSOCIATION: Final = Page(
    view=AssociationView,
    package="clinometer.studies.t2iat",
    sections=(
        Section("masthead", "", association_masthead, "masthead"),
        Section("verdicts", "Verdicts", association_verdicts, "verdicts"),
        Section("tests", "Tests", tests, "tests"),
        Section("distributions", "Prompt by prompt", distributions, "distributions"),
        Section("amplification", "From text to images", amplification, "amplification"),
        Section("people", "People", people, "people"),
        Section("gallery", "Pictures", association_gallery, "gallery"),
        Section("table", "All numbers", table, "table"),
        Section("protocol", "Protocol", protocol, "protocol"),
        Section("method", "Method and limits", association_method, "method"),
    ),
    summary=association_summary,
    told=association_told,
)
