"""The study: how runs are scored, compared and shown."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from clinometer.metrics.records import Score
from clinometer.models.protocols import Generator
from clinometer.report.differences import Quantity, RunsCompared
from clinometer.report.page import Page, Section
from clinometer.report.verdicts import Verdicts
from clinometer.report.view import View, scores_table
from clinometer.runs import Progress, Run
from clinometer.runs.plan import Sample
from clinometer.studies.study import Pairing, PartStage, Pool, Scored, Study
from clinometer_example import metric
from clinometer_example.brightness.compare import brightness_differences
from clinometer_example.brightness.scores import METRIC, brightness_rows
from clinometer_example.brightness.suite import BrightnessSuite


def part_name(part: int) -> str:
    """Name the table of a part."""
    return f"brightness/part-{part:05}.parquet"


def unmeasured_parts(run: Run, generator: Generator) -> list[int]:
    """List the parts whose brightness is not stored."""
    return [part for part in run.parts if not run.directory.exists(part_name(part))]


def measure(run: Run, generator: Generator, progress: Progress) -> None:
    """Store the brightness of every image; parts that are stored stay as they are."""
    for part in unmeasured_parts(run, generator):
        samples = [sample for sample in run.parts[part] if dict(run.images({sample.id}))[sample.id] is not None]
        values = [brightness(run, sample) for sample in samples]
        process = [os.getpid()] * len(samples)
        table = pa.table({"id": [sample.id for sample in samples], "brightness": values, "process": process})
        run.ledger.write_table(part_name(part), table)


def brightness(run: Run, sample: Sample) -> float:
    """Measure a stored image."""
    image = run.drawn.decode(sample.id, dict(run.images({sample.id}))[sample.id])
    return metric.brightness(np.asarray(image))


def brightness_of(run: Run, seeds: Collection[int] | None = None) -> dict[str, np.ndarray]:
    """Return the brightness of the images of each prompt; ``seeds`` : those that count, None all."""
    values: dict[str, list[float]] = {}
    for part, samples in run.parts.items():
        table = run.directory.read_table(part_name(part)).to_pydict()
        by_id = dict(zip(table["id"], table["brightness"], strict=True))
        for sample in samples:
            if sample.id in by_id and (seeds is None or sample.seed in seeds):
                values.setdefault(sample.concept, []).append(by_id[sample.id])
    return {concept: np.array(numbers) for concept, numbers in values.items()}


class BrightnessPage(Page[View]):
    """The page of a study of brightness."""

    package = "clinometer_example.brightness"

    def finding(self, view: View) -> str:
        """Open the page."""
        return "Brightness, prompt by prompt."

    def verdicts(self, view: View) -> list[Verdicts]:
        """Return the brightness of every prompt, with its verdict."""
        return [Verdicts("prompt", "brightness", "less one half", view.scores.select(METRIC), view.label)]

    def own_sections(self) -> Sequence[Section]:
        """List each prompt with its number and its verdict."""
        return (Section("verdicts", "Verdicts", self.verdict_rows, "bright"),)

    def verdict_rows(self, view: View) -> dict[str, Any]:
        """Return what the template lists: of each prompt, its name, number and verdict."""
        (judged,) = self.verdicts(view)
        return {"rows": [(row.concept, judged.value(row), judged.verdict(row)) for row in judged.rows]}


PAGE = BrightnessPage()


class BrightnessCompared(RunsCompared[BrightnessSuite]):
    """Brightness of two models, prompt by prompt."""

    view = View
    averaged = False

    def quantities(self, suite: BrightnessSuite) -> Sequence[Quantity]:
        """List what is compared."""
        return (Quantity(METRIC, "brightness", "prompt", "difference", "images", "prompt", "brighter than {first}"),)

    def label_a(self, suite: BrightnessSuite) -> str:
        """Return what a positive number leans to."""
        return "bright"

    def side_by_side(self, views: Mapping[str, View], encoder: str) -> dict[str, Any]:
        """List the prompts of each run with their numbers and verdicts."""
        return {"brightness": {name: PAGE.verdict_rows(view)["rows"] for name, view in views.items()}}


class Brightness(Study[BrightnessSuite]):
    """How bright the pictures of prompts are."""

    key = "brightness"
    suite = BrightnessSuite
    stages = (PartStage(measure, "measuring brightness", unmeasured_parts),)
    encoders_needed = False

    def page(self, suite: BrightnessSuite) -> Page[Any]:
        """Show each prompt with its brightness."""
        return PAGE

    def comparison(self, suite: BrightnessSuite) -> RunsCompared[BrightnessSuite]:
        """Compare brightness, prompt by prompt."""
        return BrightnessCompared()

    def score(self, run: Run, resamples: int, pool: Pool | None = None) -> Scored:
        """Score a run; nothing is resampled."""
        return Scored(scores_table(brightness_rows(brightness_of(run))), pd.DataFrame({"curve": []}))

    def compare(self, pairing: Pairing) -> list[Score]:
        """Compare two runs, second minus first."""
        first, second = (brightness_of(run, pairing.seeds) for run in pairing.runs)
        return brightness_differences(first, second)


BRIGHTNESS = Brightness()
