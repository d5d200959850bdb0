"""The steerability study: how a run is read, scored, compared and shown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import pandas as pd

from clinometer.errors import InvalidInputError, RunMismatchError, SuiteError
from clinometer.metrics.records import Score
from clinometer.metrics.steerability import steerability_rows
from clinometer.metrics.steered import gap_evidence, rows_when_stopped
from clinometer.metrics.stopping import StoppingRule
from clinometer.report import wording
from clinometer.report.differences import Quantity, RunsCompared
from clinometer.report.page import Page
from clinometer.report.rows import Row, Scores, scores_table
from clinometer.runs.run import Run
from clinometer.runs.several import Comparison
from clinometer.stats.share_gap import images_for_gap
from clinometer.studies.steerability.compare import compare_steerability
from clinometer.studies.steerability.page import PAGE, SteerabilityView, points_words
from clinometer.studies.steerability.readings import read_as_asked, read_runs
from clinometer.studies.study import ComparedGroups, Pairing, Pool, Scored, Study, in_shape, suite_of
from clinometer.suites import Suite
from clinometer.suites.steerability import SteerabilitySuite

READ: Final = "read"
"""The curve of a run's pictures as readers read them, for the page: ``id``, ``reader``, ``answer``."""


READERS: Final = {
    "without errors": ((1.0, 1.0), None),
    "recalls of .95, 200 labelled of each": ((0.95, 0.95), (200.0, 200.0)),
    "recalls of .98 and .80, 200 labelled of each": ((0.98, 0.8), (200.0, 200.0)),
}
"""Readers that a plan without a pilot assumes: their recalls of the two groups, and labelled pictures of each."""
GAPS: Final = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6)


def gap_name(suite: Suite, row: Row) -> str:
    """Return the name of a difference: its concept and, of more than two groups, the pair."""
    return row.concept if len(in_shape(suite, SteerabilitySuite).groups) == 2 else f"{row.concept}, {row.group}"


GAP: Final = Quantity(
    "gap", "gap", "concept", "Δ gap", "images per prompt, of both runs", "concept",
    "{a} are drawn more readily than in {first}", encoder="", family="concepts", name=gap_name,
)  # fmt: skip


class GapsCompared(RunsCompared[SteerabilitySuite]):
    """Gaps of two models, concept by concept."""

    view = SteerabilityView
    bars = ("images",)
    averaged = False
    sums_up = False

    def quantities(self, suite: SteerabilitySuite) -> Sequence[Quantity]:
        """List what is compared."""
        return (GAP,)

    def label_a(self, suite: SteerabilitySuite) -> str:
        """Return what a positive number leans to."""
        return suite.label_of(next(iter(suite.groups)))

    def side_by_side(self, views: Mapping[str, SteerabilityView], encoder: str) -> dict[str, Any]:
        """Gather success of every concept and group in several runs, and their gaps as read."""
        first = next(iter(views.values()))
        group, *others = first.suite.groups

        def cells(view: SteerabilityView, concept: str) -> list[str]:
            rows = [view.success.get((concept, name)) for name in first.suite.groups]
            gaps = [view.gaps.get((concept, f"{group}-{other}")) for other in others]
            return [*(wording.percent(row.value) if row else wording.MISSING for row in rows), *map(points_words, gaps)]

        return {
            "columns": [*(first.label(name) for name in first.suite.groups),
                        *(f"gap to {first.label(other)}" if len(others) > 1 else "gap" for other in others)],
            "concepts": [{"name": name, "cells": [cells(view, name) for view in views.values()]}
                         for name in first.suite.concept_names()],
        }  # fmt: skip

    def verdict(self, comparison: Comparison, labels: tuple[str, str]) -> str:
        """Count the concepts in which the second run favours a group more, or less."""
        rows = Scores.from_frame(comparison.scores).select("comparison", "gap", encoder="")
        lost = sum(map(wording.not_measured, rows))
        if lost == len(rows):
            return f"{labels[1]} compared with {labels[0]}: no gap could be compared."
        gaps, differ = wording.count(len(rows) - lost, "gap"), sum(map(wording.decided, rows))
        finding = f"none of {gaps} is shown to differ"
        if differ:
            finding = f"{wording.numeral(differ)} of {gaps} {'differs' if differ == 1 else 'differ'}"
        return f"{labels[1]} compared with {labels[0]}: {finding}."


class Steerability(Study[SteerabilitySuite]):
    """Whether a group that a prompt names is drawn, and one as readily as another."""

    key = "steerability"
    suite = SteerabilitySuite
    texts_needed = True

    def page(self, suite: SteerabilitySuite) -> Page[Any]:
        """Show success by group, and gaps."""
        return PAGE

    def comparison(self, suite: SteerabilitySuite) -> RunsCompared[SteerabilitySuite]:
        """Compare gaps."""
        return GapsCompared()

    def score(self, run: Run, resamples: int, pool: Pool | None = None) -> Scored:
        """Compute every number of the study, reader by reader. Nothing is resampled."""
        suite = suite_of(run, SteerabilitySuite)
        rows, read = list[Score](), list[pd.DataFrame]()
        for seen in read_runs(run, suite):
            scores = steerability_rows(seen.cells, seen.asked, margin=suite.margin)
            if run.record.get("until") is not None:
                scores = rows_when_stopped(scores, seen.cells, seen.asked, suite.margin)
            rows += scores
            read.append(seen.answers.assign(curve=READ, reader=seen.asked.reader, question=seen.asked.question))
        curves = pd.concat(read, ignore_index=True) if read else pd.DataFrame({name: [] for name in ("curve", "id")})
        return Scored(scores_table(rows), curves)

    def compare(self, pairing: Pairing) -> list[Score]:
        """Compare gaps, second minus first, by the first reader that read both runs."""
        runs = pairing.runs
        suite = suite_of(runs[0], SteerabilitySuite)
        seen = [{(each.asked.reader, each.asked.question): each for each in read_runs(run, suite)} for run in runs]
        both = [key for key in seen[0] if key in seen[1]]
        if not both:
            raise RunMismatchError(f"{runs[0].url}: no reader has read it and {runs[1].url}; read both by the same one")
        noises = None if pairing.seeds is None else {str(seed) for seed in pairing.seeds}
        first, second = (read_as_asked(by_reader[both[0]], noises) for by_reader in seen)
        return compare_steerability(
            first, second, list(suite.groups), reader=both[0][0], question=both[0][1], paired=pairing.paired,
            margin=suite.margin, n_permutations=2 * pairing.resamples - 1, seed=pairing.seed,
        )  # fmt: skip

    def open_concepts(self, run: Run, rule: StoppingRule, encoders: Sequence[str]) -> list[str]:
        """List the concepts whose gaps the pictures so far do not decide, by the reader whose verdicts stand."""
        suite = suite_of(run, SteerabilitySuite)
        decider = str(run.record.get("options", {}).get("verdict_reader") or "")
        seen = sorted(read_runs(run, suite), key=lambda each: each.asked.reader != decider)[0]
        stands = gap_evidence(seen.cells, seen.asked, margin=suite.margin)
        return [concept for concept, stand in stands.items() if not stand.stops(rule)]

    def check_rounds(self, suite: SteerabilitySuite, labelled: bool) -> None:
        """Refuse more than two groups, and readers whose errors nobody knows while pictures are drawn."""
        if len(suite.groups) > 2:
            raise SuiteError.unsupported(
                f"suite {suite.name}: {len(suite.groups)} groups, and --until follows the gap between two; give a "
                "number of --images"
            )
        if not labelled:
            raise InvalidInputError.missing(
                f"suite {suite.name}: no gap is decided while nobody knows how often the reader errs; give labelled "
                "pictures with --reader NAME --truth FILE, or leave --until out",
                field="until",
            )

    def plan_unseen(self, suite: SteerabilitySuite, power: float, alpha: float) -> pd.DataFrame:
        """Count the images of each prompt that find a gap in one concept, by its size and by how the reader errs."""
        pairs = len(suite.concepts) * (len(suite.groups) - 1)
        rows = [
            {"effect": gap, "reader": words, "to_detect": images_for_gap(
                gap, recall=recall, labelled=labelled, concepts=pairs, power=power, alpha=alpha
            )}
            for gap in GAPS
            for words, (recall, labelled) in READERS.items()
        ]  # fmt: skip
        return pd.DataFrame(rows)

    def compared_groups(self, suite: SteerabilitySuite) -> Sequence[ComparedGroups]:
        """Compare refusals of the first group with those of each other, prompts matched by their concept."""
        concept_of = {text: each.name for _, each in suite.concepts for text in each.asked.values()}
        first, *others = suite.groups
        return [
            ComparedGroups(first, other, lambda group, prompt: ("", concept_of.get(prompt, ""))) for other in others
        ]

    def reading_words(self, suite: SteerabilitySuite) -> Mapping[str, Sequence[str]]:
        """Return the words by which an encoder finds each group."""
        return {name: group.words for name, group in suite.groups.items()}


STEERABILITY: Final = Steerability()
