"""The page and the summary of an editing study."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from clinometer.report import wording
from clinometer.report.page import Page, Section, Summary, unmeasured
from clinometer.report.rows import Row, Scores
from clinometer.report.sections import measured_how, people, protocol, table
from clinometer.report.wording import counted, verdict_in_full
from clinometer.studies.editing.sections.edits import (
    editing_masthead,
    editing_told,
    editing_verdicts,
    flipped,
    skin,
    strips,
)
from clinometer.studies.editing.sections.planted import editing_planted
from clinometer.studies.editing.view import EditingView
from clinometer.suites import EditingSuite

if TYPE_CHECKING:
    import pandas as pd

    from clinometer.report.wording import counted, verdict_in_full
from clinometer.suites import Suite


def editing_summary(suite: Suite, scores: pd.DataFrame) -> Summary:
    """The asymmetry of flips at every class and strength, as the first encoder reads them, which leads the page too."""
    assert isinstance(suite, EditingSuite)
    asymmetries = [
        row for row in Scores.from_frame(scores).select("editing", "flip_asymmetry", encoder="*") if not row.concept
    ]
    readers = list(dict.fromkeys(row.encoder for row in asymmetries))
    rows = [row for row in asymmetries if row.encoder == readers[0]]
    seen_by = f", read by {readers[0]}" if len(readers) > 1 else ""
    return Summary(
        verdicts=counted(rows),
        title=f"flip asymmetry{seen_by}: + edits move to {suite.genders.a}, {wording.MINUS} to {suite.genders.b}",
        columns=("edited into", "asymmetry", "95 %", "q", "verdict"),
        rows=tuple(_cells(row) for row in rows),
        unmeasured=unmeasured(rows, "edit"),
    )


def _cells(row: Row) -> tuple[str, ...]:
    return (
        f"{row.category}, {row.setting}",
        wording.signed(row.value),
        wording.interval(row.low, row.high),
        wording.probability(row.q, "q"),
        verdict_in_full(row),
    )


EDITING: Final = Page(
    view=EditingView,
    package="clinometer.studies.editing",
    sections=(
        Section("masthead", "", editing_masthead, "masthead"),
        Section("verdicts", "Verdicts", editing_verdicts, "verdicts"),
        Section("flips", "Flips", flipped, "flips"),
        Section("planted", "Planted", editing_planted, "planted"),
        Section("skin", "Skin", skin, "skin"),
        Section("strips", "Before and after", strips, "strips"),
        Section("people", "People", people, "people"),
        Section("table", "All numbers", table, "table"),
        Section("protocol", "Protocol", protocol, "protocol"),
        Section("method", "Method and limits", measured_how, "method"),
    ),
    summary=editing_summary,
    told=editing_told,
)
