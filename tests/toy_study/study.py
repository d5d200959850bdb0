"""Its record: how runs are scored, compared and shown."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from clinometer.metrics.records import Score
from clinometer.models.protocols import Generator
from clinometer.report import wording
from clinometer.report.comparison import Quantity, RunsCompared
from clinometer.report.page import Page, Section, Summary, Told, Verdicts, View, judged
from clinometer.report.rows import Scores
from clinometer.report.sections import facts, table
from clinometer.report.wording import counted, verdict_words
from clinometer.runs import Progress, Run
from clinometer.runs.plan import Sample
from clinometer.studies.common import scores_table
from clinometer.studies.study import PartStage, Scored, Study
from clinometer.suites import Suite
from tests.toy_study.compare import brightness_differences
from tests.toy_study.scores import METRIC, brightness_rows
from tests.toy_study.suite import BrightnessSuite


def part_name(part: int) -> str:
    return f"brightness/part-{part:05}.parquet"


def unmeasured_parts(run: Run, generator: Generator) -> list[int]:
    return [part for part in run.parts if not run.directory.exists(part_name(part))]


def measure(run: Run, generator: Generator, progress: Progress) -> None:
    for part in unmeasured_parts(run, generator):
        samples = [sample for sample in run.parts[part] if dict(run.images({sample.id}))[sample.id] is not None]
        values = [brightness(run, sample) for sample in samples]
        process = [os.getpid()] * len(samples)
        table = pa.table({"id": [sample.id for sample in samples], "brightness": values, "process": process})
        run.ledger.write_table(part_name(part), table)


def brightness(run: Run, sample: Sample) -> float:
    return float(np.asarray(run.drawn.decode(sample.id, dict(run.images({sample.id}))[sample.id])).mean() / 255)


def brightness_of(run: Run, keep: Collection[int] | None = None) -> dict[str, np.ndarray]:
    values: dict[str, list[float]] = {}
    for part, samples in run.parts.items():
        table = run.directory.read_table(part_name(part)).to_pydict()
        by_id = dict(zip(table["id"], table["brightness"], strict=True))
        for sample in samples:
            if sample.id in by_id and (keep is None or sample.seed in keep):
                values.setdefault(sample.concept, []).append(by_id[sample.id])
    return {concept: np.array(numbers) for concept, numbers in values.items()}


def score(run: Run, resamples: int) -> Scored:
    return Scored(scores_table(brightness_rows(brightness_of(run))), pd.DataFrame({"curve": []}))


def compare(
    runs: tuple[Run, Run], encoders: Sequence[str], keep: Collection[int] | None, resamples: int
) -> list[Score]:
    first, second = (brightness_of(run, keep) for run in runs)
    return brightness_differences(first, second)


def masthead(view: View) -> dict[str, Any]:
    return {"title": view.report.title, "finding": told(view).finding, "facts": facts(view),
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


def told(view: View) -> Told:
    rows = tuple(
        judged(row, row.concept, view.label, wording.signed(row.value), "", ends=(row.low, row.high))
        for row in view.scores.select(METRIC)
    )
    return Told("Brightness, prompt by prompt.", "", (Verdicts("prompt", "Brightness", "less one half", rows),))


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
    told=told,
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
    stages=(PartStage(measure, "measuring brightness", unmeasured_parts),),
    encoders_needed=False,
)
