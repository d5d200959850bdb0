"""The page and the summary of a leaning study whose groups are cells of axes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from clinometer.report import wording
from clinometer.report.inputs import ReportInput
from clinometer.report.page import Page, Section, Summary, unmeasured
from clinometer.report.rows import Row, Scores
from clinometer.report.sections import table
from clinometer.studies.leaning.cells_view import CellsView
from clinometer.studies.leaning.cells_wording import axis_counts, interaction_counts, interaction_name, verdict_words
from clinometer.studies.leaning.sections.cells import (
    axis_signs,
    cells_masthead,
    cells_method,
    cells_planted,
    cells_reader,
    cells_told,
    cells_verdicts,
)
from clinometer.studies.leaning.sections.gallery import gallery
from clinometer.suites import LeaningSuite

if TYPE_CHECKING:
    import pandas as pd

    from clinometer.suites import Suite

SHOWN: Final = 8
"""Concepts shown, the strongest leanings."""


def cells_summary(suite: Suite, scores: pd.DataFrame) -> Summary:
    """Each axis' verdicts counted, and the concepts that lean most along any axis."""
    assert isinstance(suite, LeaningSuite)
    view = CellsView(_bare_input(suite, scores), Scores.from_frame(scores))
    counted = [f"{suite.axis_label(axis)}: {axis_counts(view, axis)}" for axis in view.axes]
    counted += [
        f"{interaction_name(view, component)}: {interaction_counts(view, component)}" for component in view.interactions
    ]
    rows = [row for axis in view.axes for name in view.concepts for row in view.rows(f"axis:{axis}", name)]
    return Summary(
        verdicts="; ".join(counted),
        title=f"Image part of MCAS along each axis: {', '.join(axis_signs(view, axis) for axis in view.axes)}",
        columns=("concept", *map(suite.axis_label, view.axes), "verdict"),
        rows=tuple(_cells(view, concept.name) for concept in view.ordered[:SHOWN]),
        unmeasured=unmeasured(rows, "axis verdict"),
    )  # fmt: skip


def _bare_input(suite: LeaningSuite, scores: pd.DataFrame) -> ReportInput:
    """What names the rows: a summary shows no card, no image."""
    return ReportInput(
        title="", suite=suite, model_card={}, encoder_cards={}, settings={}, scores=scores, samples=scores[:0],
        image=lambda _: None,
    )  # fmt: skip


def _cells(view: CellsView, concept: str) -> tuple[str, ...]:
    axes = [view.axis_row(axis, concept) for axis in view.axes]
    return (
        concept,
        *(_value_text(view, row) for row in axes),
        verdict_words(view, concept),
    )


def _value_text(view: CellsView, row: Row | None) -> str:
    if row is None:
        return wording.MISSING
    text = wording.with_interval(row.value, row.low, row.high, view.digits)
    return f"{view.label(row.group)} {text}" if len(view.rows(row.component, row.concept)) > 1 else text


CELLS: Final = Page(
    view=CellsView,
    package="clinometer.studies.leaning",
    sections=(
        Section("masthead", "", cells_masthead, "masthead"),
        Section("verdicts", "Verdicts", cells_verdicts, "cells_verdicts"),
        Section("reader", "Reading", cells_reader, "cells_reader"),
        Section("planted", "Planted truth", cells_planted, "cells_planted"),
        Section("gallery", "Pictures", gallery, "gallery"),
        Section("table", "All numbers", table, "table"),
        Section("method", "Method and limits", cells_method, "cells_method"),
    ),
    summary=cells_summary,
    told=cells_told,
)
