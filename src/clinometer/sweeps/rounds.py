"""Rounds over a whole sweep: images go to the concepts whose difference from the baseline is not decided yet.

All cells draw a round, then every setting is held against the baseline of its suite, and all differences of the grid
are judged as one family. A concept of a setting that is decided draws no more there. The baseline draws a concept for
as long as any setting does, so that all images have partners.

What was decided is kept in sweep.json, and so is how far each concept has come. A cell that joins late, or that failed
and is mended, first draws as many images as the baseline has, and is looked at only then: nobody who decides when it
stops has seen the partners of images that it is still to draw. See decision 51.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import isnan, nan

from clinometer.errors import ClinometerError, SweepError
from clinometer.metrics.stopping import Evidence, StoppingRule, in_family
from clinometer.pipeline.comparison import evidence_between
from clinometer.pipeline.rounds import FIRST_ROUND, LATER_ROUND
from clinometer.runs import Directory, Progress, Run
from clinometer.runs.together import pooled
from clinometer.sweeps.grid import Cell, Grid, Value
from clinometer.sweeps.record import SuiteRounds, SweepRecord, cell_place

Difference = tuple[str, str, str]
"""A suite, a setting by its folder's name, and a concept."""


def is_drawn_together(record: SweepRecord) -> bool:
    """Whether the cells draw until their differences are decided: with several settings there is something to decide.

    Raises
    ------
    SweepError
        Cells were drawn until their own concepts were decided: by a sweep of one setting, or by an earlier version.
    """
    if record.common.get("until") is None or len(record.grid.settings(record.grid.values("suite")[0])) < 2:
        return False
    if record.rounds is None and any(cell.status == "finished" for cell in record.cells.values()):
        raise SweepError(
            "the cells of this sweep were drawn until their own concepts were decided, and cannot be compared "
            "now; give another --out",
            field="until",
        )
    return True


@dataclass
class SweepRounds:
    """How far a sweep's rounds have come.

    Attributes
    ----------
    directory, grid : of the sweep.
    rule : when a difference draws no more.
    suites : by suite, how many images a seed each concept has come to, and where each setting stopped.
    """

    directory: Directory
    grid: Grid
    rule: StoppingRule
    suites: dict[str, SuiteRounds]

    @classmethod
    def of(cls, directory: Directory, record: SweepRecord) -> SweepRounds:
        """Go on where a record has come to."""
        until = record.common["until"]
        rule = StoppingRule() if until == "decided" else StoppingRule(float(until))
        rounds = {name: suite_rounds.model_copy(deep=True) for name, suite_rounds in (record.rounds or {}).items()}
        suites = {str(suite): rounds.get(str(suite)) or SuiteRounds() for suite in record.grid.values("suite")}
        return cls(directory, record.grid, rule, rounds | suites)

    def targets(self, cell: Cell) -> dict[str, int]:
        """How many images each concept of a cell is to have by now."""
        rounds = self.suites[str(cell["suite"])]
        return {**rounds.level, **rounds.stopped.get(cell.setting.name, {})}

    def advance(self, ready: Sequence[Cell], progress: Progress) -> set[Cell]:
        """Look at what is decided, and take what is not a round further. Returns the cells that are to draw more.

        ``ready`` : the cells that have drawn and embedded all they are to have by now. What is not ready is looked at
        another time, and drives nothing.
        """
        looked = {suite: list(self._looked(suite, set(ready), progress)) for suite in self.grid.values("suite")}
        family = self._family(looked)
        judged = dict(zip(family, in_family(list(family.values())), strict=True))
        grown: set[Cell] = set()
        for suite, settings in looked.items():
            still_open = self._stop(suite, settings, judged)
            raised = self._raise(suite, settings, still_open)
            grown |= {cell for cell in ready if cell["suite"] == suite and self._draws(cell, raised)}
        decided = sum(evidence.n > 0 and evidence.stops(self.rule) for evidence in judged.values())
        progress.note(f"{decided} of {len(judged)} differences from the baseline are decided")
        return grown

    def _looked(self, suite: Value, ready: set[Cell], progress: Progress) -> Iterator[tuple[Cell, dict[str, Evidence]]]:
        """What the pairs of each setting tell, over the seeds that it and the baseline are ready at."""
        for setting in self.grid.settings(suite):
            baseline = self.grid.baseline_of(setting)
            if setting == baseline:
                continue
            seeds = [
                seed for seed in self.grid.values("seed") if {setting.at(seed=seed), baseline.at(seed=seed)} <= ready
            ]
            if not seeds:
                continue
            runs = [pooled([self._run(cell.at(seed=seed)) for seed in seeds]) for cell in (baseline, setting)]
            try:
                yield setting, evidence_between(runs[0], runs[1])
            except ClinometerError as error:
                progress.note(f"{setting.words(self.grid.varied)}: not looked at: {error}")

    def _run(self, cell: Cell) -> Run:
        return Run(cell_place(self.directory, cell))

    def _family(self, looked: Mapping[Value, Sequence[tuple[Cell, dict[str, Evidence]]]]) -> dict[Difference, Evidence]:
        """All differences of the grid; one of which nothing is known is one of the family all the same."""
        family: dict[Difference, Evidence] = {}
        for suite, settings in looked.items():
            by_setting = {setting.name: stands for setting, stands in settings}
            some = next(iter(by_setting.values()), {})
            for setting in self.grid.settings(suite):
                if setting != self.grid.baseline_of(setting):
                    for concept, like in some.items():
                        stand = by_setting.get(setting.name, {}).get(concept) or _nothing(like)
                        family[str(suite), setting.name, concept] = stand
        return family

    def _stop(
        self,
        suite: Value,
        settings: Sequence[tuple[Cell, dict[str, Evidence]]],
        judged: Mapping[Difference, Evidence],
    ) -> set[str]:
        """Note what is decided by now. Returns the concepts that some setting has yet to decide."""
        rounds, still_open = self.suites[str(suite)], set[str]()
        for setting, stands in settings:
            stopped = rounds.stopped.setdefault(setting.name, {})
            for concept in stands:
                if concept in stopped:
                    continue
                if judged[str(suite), setting.name, concept].stops(self.rule):
                    stopped[concept] = rounds.level.get(concept, FIRST_ROUND)
                else:
                    still_open.add(concept)
        return still_open

    def _raise(
        self, suite: Value, settings: Sequence[tuple[Cell, dict[str, Evidence]]], still_open: set[str]
    ) -> set[str]:
        """Take concepts a round further. Returns those of which more images may be drawn."""
        if not settings:
            return set()
        rounds, raised = self.suites[str(suite)], set[str]()
        some = next(run for run in map(self._run_or_none, self.grid.cells_of(settings[0][0])) if run is not None)
        for question in some.suite.prompt_specs():
            level = rounds.level.get(question.concept, min(FIRST_ROUND, question.images))
            if question.concept in still_open and level < question.images:
                rounds.level[question.concept] = min(level + LATER_ROUND, question.images)
                raised.add(question.concept)
        return raised

    def _run_or_none(self, cell: Cell) -> Run | None:
        try:
            return self._run(cell)
        except ClinometerError:
            return None

    def _draws(self, cell: Cell, raised: set[str]) -> bool:
        stopped = self.suites[str(cell["suite"])].stopped.get(cell.setting.name, {})
        return not raised <= stopped.keys()


def _nothing(like: Evidence) -> Evidence:
    """The evidence of no image."""
    return Evidence(0, nan, nan, nan, 1.0, e_balance=nan if isnan(like.e_balance) else 1.0)
