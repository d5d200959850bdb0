"""Its record: how runs are scored, compared and shown."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from clinometer.metrics.records import Score
from clinometer.report import wording
from clinometer.report.comparison import Quantity, RunsCompared
from clinometer.report.page import Page, Section, Summary
from clinometer.report.rows import Scores
from clinometer.report.sections.masthead import facts
from clinometer.report.sections.table import table
from clinometer.report.verdict_words import counted, verdict_words
from clinometer.report.view import View
from clinometer.runs import Run
from clinometer.studies.common import scores_table
from clinometer.studies.study import Scored, Study
from clinometer.suites import Suite
from tests.toy_study.compare import brightness_differences
from tests.toy_study.scores import METRIC, brightness_rows
from tests.toy_study.suite import BrightnessSuite


def brightness_of(run: Run, keep: Collection[int] | None = None) -> dict[str, np.ndarray]:
    held: dict[str, list[float]] = {}
    contents = dict(run.images({sample.id for sample in run.plan}))
    for sample in run.plan:
        if contents[sample.id] is not None and (keep is None or sample.seed in keep):
            pixels = np.asarray(run.decoded(sample.id, contents[sample.id]))
            held.setdefault(sample.concept, []).append(float(pixels.mean() / 255))
    return {concept: np.array(values) for concept, values in held.items()}


def score(run: Run, resamples: int) -> Scored:
    return Scored(scores_table(brightness_rows(brightness_of(run))), pd.DataFrame({"curve": []}))


def compare(
    runs: tuple[Run, Run], encoders: Sequence[str], keep: Collection[int] | None, resamples: int
) -> list[Score]:
    first, second = (brightness_of(run, keep) for run in runs)
    return brightness_differences(first, second)


def masthead(view: View) -> dict[str, Any]:
    return {"title": view.report.title, "finding": "Brightness, prompt by prompt.", "facts": facts(view),
            "verdict_groups": [],
            "strongest": "", "figure": None, "caption": ""}  # fmt: skip


def verdicts(view: View) -> dict[str, Any]:
    rows = view.scores.select(METRIC)
    return {"rows": [(row.concept, wording.signed(row.value), verdict_words(row, view.label)) for row in rows]}


def summary(suite: Suite, scores: pd.DataFrame) -> Summary:
    rows = Scores.from_frame(scores).select(METRIC)
    cells = tuple((row.concept, wording.signed(row.value), verdict_words(row, suite.label_of)) for row in rows)
    return Summary(
        counted(rows, suite.label_of), "Brightness less one half", ("prompt", "brightness", "verdict"), cells
    )


def side_by_side(views: Mapping[str, View], encoder: str) -> dict[str, Any]:
    return {"brightness": {name: verdicts(view)["rows"] for name, view in views.items()}}


PAGE = Page(
    view=View,
    package="tests.toy_study",
    sections=(
        Section("masthead", "", masthead, "masthead"),
        Section("verdicts", "Verdicts", verdicts, "bright"),
        Section("table", "All numbers", table, "table"),
    ),
    summary=summary,
)

BRIGHTNESS = Study(
    key="brightness",
    suite=BrightnessSuite,
    score=score,
    compare=compare,
    page=lambda suite: PAGE,
    comparison=lambda suite: RunsCompared(
        lambda suite: (
            Quantity(METRIC, "brightness", "prompt", "difference", "images", "prompt", "brighter than {first}"),
        ),
        lambda suite: "bright",
        View,
        side_by_side,
        averaged=False,
    ),
    encoders_needed=False,
)
