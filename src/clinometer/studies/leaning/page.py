"""The page and the summary of a leaning study."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from clinometer.report import wording
from clinometer.report.page import Page, Section, Summary, digits_of, unmeasured
from clinometer.report.rows import Row, Scores
from clinometer.report.sections import people, protocol, table
from clinometer.report.wording import Label, counted, verdict_in_full
from clinometer.studies.leaning.sections.categories import categories, stages
from clinometer.studies.leaning.sections.gallery import gallery
from clinometer.studies.leaning.sections.internal import internal_bias
from clinometer.studies.leaning.sections.masthead import masthead
from clinometer.studies.leaning.sections.method import method
from clinometer.studies.leaning.sections.other_audits import other_audits
from clinometer.studies.leaning.sections.own_text import own_text
from clinometer.studies.leaning.sections.plane import plane
from clinometer.studies.leaning.sections.planted import planted
from clinometer.studies.leaning.sections.prior import prior
from clinometer.studies.leaning.sections.reader import reader
from clinometer.studies.leaning.sections.sensitivity import sensitivity
from clinometer.studies.leaning.sections.verdicts import signs, told, verdicts
from clinometer.studies.leaning.view import LeaningView
from clinometer.suites import LeaningSuite

if TYPE_CHECKING:
    import pandas as pd

    from clinometer.suites import Suite

SHOWN: Final = 4
"""Concepts shown at either end."""


def leaning_summary(suite: Suite, scores: pd.DataFrame) -> Summary:
    """The concepts that lean most to either side."""
    assert isinstance(suite, LeaningSuite)
    rows = Scores.from_frame(scores).select("mcas", "image_part")
    return Summary(
        verdicts=counted(rows, suite.label_of),
        title=f"Image part of MCAS, what the pictures lean: {signs(suite)}",
        columns=("concept", "image part", "95 %", "q", "verdict"),
        rows=tuple(_cells(row, suite.label_of, digits_of(rows)) for row in _ends(rows)),
        unmeasured=unmeasured(rows, "concept"),
    )


def _ends(rows: list[Row]) -> list[Row]:
    """Pick the rows that lean most to either side, from A to B."""
    ranked = sorted((row for row in rows if row.defined), key=lambda row: -row.value)
    return ranked if len(ranked) <= 2 * SHOWN else [*ranked[:SHOWN], *ranked[-SHOWN:]]


def _cells(row: Row, label: Label, digits: int) -> tuple[str, ...]:
    return (
        row.concept,
        wording.signed(row.value, digits),
        wording.interval(row.low, row.high, digits),
        wording.probability(row.q, "q"),
        verdict_in_full(row, label),
    )


LEANING: Final = Page(
    view=LeaningView,
    package="clinometer.studies.leaning",
    sections=(
        Section("masthead", "", masthead, "masthead"),
        Section("verdicts", "Verdicts", verdicts, "verdicts"),
        Section("categories", "MCAS", categories, "categories"),
        Section("stages", "Stages", stages, "stages"),
        Section("reader", "Reading", reader, "reader"),
        Section("people", "People", people, "people"),
        Section("sensitivity", "Another encoder", sensitivity, "sensitivity"),
        Section("own-text", "Own text encoder", own_text, "own_text"),
        Section("prior", "Prior", prior, "prior"),
        Section("internal", "Amplification", internal_bias, "internal"),
        Section("plane", "Third group", plane, "plane"),
        Section("planted", "Planted truth", planted, "planted"),
        Section("other-audits", "Other audits", other_audits, "other_audits"),
        Section("gallery", "Pictures", gallery, "gallery"),
        Section("table", "All numbers", table, "table"),
        Section("protocol", "Protocol", protocol, "protocol"),
        Section("method", "Method and limits", method, "method"),
    ),
    summary=leaning_summary,
    told=told,
)
