"""The page and the summary of a classification study."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from clinometer.report import wording
from clinometer.report.page import Page, Section, Summary, unmeasured
from clinometer.report.rows import Row, Scores
from clinometer.report.sections import protocol, table
from clinometer.report.wording import counted, verdict_in_full
from clinometer.studies.classification.sections import (
    choices,
    classification_gallery,
    classification_masthead,
    classification_method,
    classification_told,
    classification_verdicts,
    noise,
    pairs,
    signs,
)
from clinometer.studies.classification.view import DENOISER, METRIC, ClassificationView
from clinometer.suites import ClassificationSuite

if TYPE_CHECKING:
    import pandas as pd

    from clinometer.report.wording import counted, verdict_in_full
from clinometer.suites import Suite


def classification_summary(suite: Suite, scores: pd.DataFrame) -> Summary:
    """ΔS of every contrast at the largest number of noise samples."""
    assert isinstance(suite, ClassificationSuite)
    setting = suite.settings[suite.noise_samples[-1]]
    rows = Scores.from_frame(scores).select(METRIC, "differential", encoder=DENOISER, setting=setting)
    return Summary(
        verdicts=counted(rows),
        title=f"\N{GREEK CAPITAL LETTER DELTA}S {signs(suite)}",
        columns=("contrast", "\N{GREEK CAPITAL LETTER DELTA}S", "95 %", "q", "verdict"),
        rows=tuple(_cells(row) for row in rows),
        unmeasured=unmeasured(rows, "contrast"),
    )


def _cells(row: Row) -> tuple[str, ...]:
    return (
        row.group,
        wording.signed(row.value),
        wording.interval(row.low, row.high),
        wording.probability(row.q, "q"),
        verdict_in_full(row),
    )


CLASSIFICATION: Final = Page(
    view=ClassificationView,
    package="clinometer.studies.classification",
    sections=(
        Section("masthead", "", classification_masthead, "masthead"),
        Section("verdicts", "Verdicts", classification_verdicts, "verdicts"),
        Section("noise", "Noise samples", noise, "noise"),
        Section("pairs", "Pairs", pairs, "pairs"),
        Section("choices", "All classes", choices, "choices"),
        Section("gallery", "Portraits", classification_gallery, "gallery"),
        Section("table", "All numbers", table, "table"),
        Section("protocol", "Protocol", protocol, "protocol"),
        Section("method", "Method and limits", classification_method, "method"),
    ),
    summary=classification_summary,
    told=classification_told,
)
