"""What a sweep found: the numbers of every setting over all its seeds, and its differences from the baseline.

Settings are compared as runs are (:mod:`clinometer.pipeline.comparison`), in pairs of images that were
drawn from one noise. All differences of one kind over the whole grid are one family of tests.

A sweep that is drawn until its differences are decided goes by rounds: images go to the concepts whose difference from
the baseline is not decided yet. All cells draw a round, then every setting is compared with the baseline of its suite,
and all differences of the grid are judged as one family. A concept of a setting that is decided is drawn no further
there. The baseline draws a concept for as long as any setting does, so that all images have partners.

What was decided is kept in sweep.json, and so is how far each concept has come. A cell that joins late, or that failed
and is repaired, first draws as many images as the baseline has, and is looked at only then: nobody who decides when it
stops has seen the partners of images that it is still to draw. See decision 51.

The split by guidance says what each setting leans at guidance 1, and what more guidance adds. A setting is compared
with the one that differs from it in guidance alone and draws without the unconditional branch, whatever the sweep's
baseline is. :func:`clinometer.studies.leaning.compare.split_rows` says what the numbers are. What guidance adds is one
family of tests over the whole grid, as all differences are.
"""

from __future__ import annotations

import hashlib
import json
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from math import isfinite, isnan, nan
from typing import Any, Final

import pandas as pd
import pyarrow as pa

from clinometer.errors import ClinometerError, RunCorruptError, RunNotFoundError
from clinometer.metrics.differences import judged_over_grid, judged_when_stopped
from clinometer.metrics.records import Score
from clinometer.metrics.verdict import Evidence, StoppingRule, in_family
from clinometer.pipeline.comparison import compare_runs, evidence_between, split_runs
from clinometer.pipeline.execution import FIRST_ROUND, LATER_ROUND, rule_of
from clinometer.pipeline.results import resamples_of, score_study
from clinometer.report.view import Scores, scores_table
from clinometer.runs import Directory, NoProgress, Progress, Run
from clinometer.runs.several import Comparison, pooled
from clinometer.runs.verification import fingerprint_of_scores
from clinometer.studies import study_of
from clinometer.studies.refusals.scoring import with_refusals
from clinometer.sweeps.grid import SETTING_AXES, Cell, Grid, SuiteRounds, SweepRecord, Value, cell_place

FOLDER: Final = "pooled"
"""Where numbers are kept that were computed from several runs."""

Computed = tuple[pd.DataFrame, dict[str, Any]]
"""A table, and a few facts about it."""


@dataclass(frozen=True)
class Setting:
    """A setting of the grid and what was found at it.

    Attributes
    ----------
    cell : its values, the seed left out.
    runs : its finished runs, by seed.
    missing : seeds that did not finish, and why.
    run : its runs as one; None where none has finished.
    scores : the numbers of that.
    comparison : it compared with the baseline, over the seeds that both have; None for the baseline itself.
    undone : why there is no comparison.
    """

    cell: Cell
    runs: dict[Value, Run]
    missing: dict[Value, str]
    run: Run | None = None
    scores: pd.DataFrame | None = None
    comparison: Comparison | None = None
    undone: str = ""


@dataclass(frozen=True)
class Split:
    """A setting beside the one that differs from it in guidance alone, at guidance 1: rows of metric ``split``.

    ``scores`` is None where there are none, and ``undone`` says why.
    """

    at_one: Setting
    setting: Setting
    scores: pd.DataFrame | None = None
    undone: str = ""


@dataclass(frozen=True)
class SweepOutcome:
    """All settings of a sweep, suite by suite, in the order of the grid, and what guidance adds at them."""

    record: SweepRecord
    settings: tuple[Setting, ...]
    splits: tuple[Split, ...] = ()

    @property
    def grid(self) -> Grid:
        """The grid."""
        return self.record.grid

    def of_suite(self, suite: Value) -> list[Setting]:
        """Return the settings of a suite."""
        return [setting for setting in self.settings if setting.cell["suite"] == suite]

    def is_baseline(self, setting: Setting) -> bool:
        """Return whether all others are compared with it."""
        return self.grid.baseline_of(setting.cell) == setting.cell


def outcome_of(directory: Directory, record: SweepRecord, progress: Progress | None = None) -> SweepOutcome:
    """Read every finished cell, and compute what was not computed of these before."""
    progress = progress or NoProgress()
    grid = record.grid
    settings = [_setting(directory, record, cell) for suite in grid.values("suite") for cell in grid.settings(suite)]
    progress.start("comparing settings", len(settings), 0)
    by_cell = {setting.cell: setting for setting in settings}
    compared_settings = []
    for setting in settings:
        compared_settings.append(_compare(directory, setting, by_cell[grid.baseline_of(setting.cell)]))
        progress.advance(1)
    progress.finish()
    return SweepOutcome(record, tuple(_over_grid(compared_settings, until_decided=record.rounds is not None)))


def _setting(directory: Directory, record: SweepRecord, cell: Cell) -> Setting:
    runs, missing = dict[Value, Run](), dict[Value, str]()
    # in the order of their seeds, however they were given
    for replicate in sorted(record.grid.cells_of(cell), key=lambda replicate: int(replicate["seed"] or 0)):
        status = record.status(replicate)
        if status.status == "finished":
            runs[replicate["seed"]] = Run(cell_place(directory, replicate))
        else:
            missing[replicate["seed"]] = status.reason or "not drawn yet"
    return Setting(cell, runs, missing)


def _compare(directory: Directory, setting: Setting, baseline: Setting) -> Setting:
    """Return the same with its numbers, and its differences from the baseline."""
    if not setting.runs:
        return replace(setting, undone="no run of it has finished")
    try:
        setting = _score(directory, setting)
        if setting.cell == baseline.cell:
            return setting
        # over the seeds that both have
        seeds = [seed for seed in setting.runs if seed in baseline.runs]
        if not seeds:
            raise RunNotFoundError.incomplete("the baseline has no finished run of its seeds")
        first, second = ([side.runs[seed] for seed in seeds] for side in (baseline, setting))
        both = pooled(first), pooled(second)

        def compute() -> Computed:
            comparison = compare_runs(*both)
            return comparison.scores, {name: getattr(comparison, name) for name in FACTS}

        scores, facts = stored_table(directory, f"{setting.cell.name}-differences", [*first, *second], compute)
        return replace(setting, comparison=Comparison(first=both[0], second=both[1], scores=scores, **facts))
    except ClinometerError as error:
        return replace(setting, undone=str(error))


def _score(directory: Directory, setting: Setting) -> Setting:
    runs = list(setting.runs.values())
    run = pooled(runs)
    if len(runs) == 1:
        return replace(setting, run=run, scores=run.scores)

    def compute() -> Computed:
        return with_refusals(run, score_study(run, resamples_of(*runs)).scores), {}

    scores, _ = stored_table(directory, f"{setting.cell.name}-scores", runs, compute)
    return replace(setting, run=run, scores=scores)


FACTS: Final = ("unpaired", "pairs", "dropped", "identical")
"""What a comparison tells besides its scores."""


def _over_grid(settings: Sequence[Setting], *, until_decided: bool) -> list[Setting]:
    """Correct all differences of one kind together, whatever the setting, the suite and the unit."""
    entries: list[tuple[int, Score]] = [
        (order, row)
        for order, setting in enumerate(settings)
        for row in (() if setting.comparison is None else Scores.from_frame(setting.comparison.scores).rows)
    ]
    families = defaultdict[tuple[str, str, str], list[int]](list)
    for place, (_, row) in enumerate(entries):
        families[row.metric, row.component, row.encoder].append(place)
    judged = [row for _, row in entries]
    for (metric, component, _), places in families.items():
        family = f"{metric}: {component} over {len(places)} differences of the grid"
        rows = [judged[place] for place in places]
        if until_decided and all(row.verdict for row in rows):
            sides = [_sides(settings[entries[place][0]]) for place in places]
            judgements = judged_when_stopped(rows, family, sides)
        else:
            judgements = judged_over_grid(rows, family)
        for place, row in zip(places, judgements, strict=True):
            judged[place] = row
    by_setting = defaultdict[int, list[Any]](list)
    for (order, _), row in zip(entries, judged, strict=True):
        by_setting[order].append(row)
    return [
        setting if setting.comparison is None
        else replace(setting, comparison=replace(setting.comparison, scores=scores_table(by_setting[order])))
        for order, setting in enumerate(settings)
    ]  # fmt: skip


def _sides(setting: Setting) -> tuple[str, str]:
    """Return the groups that positive and negative differences lean to."""
    assert setting.comparison is not None
    suite = setting.comparison.first.suite
    groups = study_of(suite).compared_groups(suite)[0]
    return groups.a, groups.b


def stored_table(directory: Directory, name: str, runs: Sequence[Run], compute: Callable[[], Computed]) -> Computed:
    """Read a table that follows from runs where it was computed from the same; else compute and keep it.

    A file carries the hash of what its table is made of in its name, so none is taken for that of another state.
    """
    prints = [fingerprint_of_scores(run, resamples_of(*runs)) for run in runs]
    if not all(prints):  # of one of them it is unknown what its scores are made of
        return compute()
    stem = f"{FOLDER}/{name}-{hashlib.sha256(json.dumps(prints).encode()).hexdigest()[:16]}"
    try:
        facts = directory.read_json(f"{stem}.json")  # written last
        return directory.read_table(f"{stem}.parquet").to_pandas(ignore_metadata=True), facts
    except (RunNotFoundError, RunCorruptError):
        table, facts = compute()
    # remove what was computed from an earlier state
    for suffix in (".json", ".parquet"):
        for file in directory.names(FOLDER, suffix):
            if file.removeprefix(f"{FOLDER}/").removesuffix(suffix)[:-17] == name:
                directory.remove(file)
    directory.write_table(f"{stem}.parquet", pa.Table.from_pandas(table, preserve_index=False))
    directory.write_json(f"{stem}.json", facts)
    return table, facts


Difference = tuple[str, str, str]
"""A suite, a setting by its folder's name, and a concept."""


@dataclass
class SweepRounds:
    """How far a sweep's rounds have come.

    Attributes
    ----------
    directory, grid : of the sweep.
    rule : when a difference needs no more images.
    suites : by suite, how many images a seed each concept has come to, and where each setting stopped.
    """

    directory: Directory
    grid: Grid
    rule: StoppingRule
    suites: dict[str, SuiteRounds]

    @classmethod
    def of(cls, directory: Directory, record: SweepRecord) -> SweepRounds:
        """Go on where a record has come to."""
        rounds = {name: suite_rounds.model_copy(deep=True) for name, suite_rounds in (record.rounds or {}).items()}
        suites = {str(suite): rounds.get(str(suite)) or SuiteRounds() for suite in record.grid.values("suite")}
        return cls(directory, record.grid, rule_of(record.common["until"]), rounds | suites)

    def targets(self, cell: Cell) -> dict[str, int]:
        """Count how many images each concept of a cell is to have by now."""
        rounds = self.suites[str(cell["suite"])]
        return {**rounds.level, **rounds.stopped.get(cell.setting.name, {})}

    def advance(self, ready: Sequence[Cell], progress: Progress) -> set[Cell]:
        """Look at what is decided, and advance what is not by a round. Returns the cells that are to draw more.

        ``ready`` : the cells that have drawn and embedded all they are to have by now. What is not ready is looked at
        another time, and drives nothing.
        """
        looked = {suite: list(self._look(suite, set(ready), progress)) for suite in self.grid.values("suite")}
        family = self._family(looked)
        judged = dict(zip(family, in_family(list(family.values())), strict=True))
        grown: set[Cell] = set()
        for suite, settings in looked.items():
            # what is decided by now, and the concepts that some setting has yet to decide
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
            raised = self._raise(suite, settings, still_open)
            grown |= {
                cell
                for cell in ready
                if cell["suite"] == suite and not raised <= rounds.stopped.get(cell.setting.name, {}).keys()
            }
        decided = sum(
            evidence.n > 0 and isfinite(evidence.reach) and evidence.stops(self.rule) for evidence in judged.values()
        )
        progress.note(f"{decided} of {len(judged)} differences from the baseline are decided")
        return grown

    def _look(self, suite: Value, ready: set[Cell], progress: Progress) -> Iterator[tuple[Cell, dict[str, Evidence]]]:
        """Return what the pairs of each setting tell, over the seeds that it and the baseline are ready at."""
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
        """Return all differences of the grid; one of which nothing is known is one of the family all the same."""
        family: dict[Difference, Evidence] = {}
        for suite, settings in looked.items():
            by_setting = {setting.name: stands for setting, stands in settings}
            some = next(iter(by_setting.values()), {})
            for setting in self.grid.settings(suite):
                if setting != self.grid.baseline_of(setting):
                    for concept, like in some.items():
                        no_image = Evidence(0, nan, nan, nan, 1.0, e_balance=nan if isnan(like.e_balance) else 1.0)
                        stand = by_setting.get(setting.name, {}).get(concept)
                        family[str(suite), setting.name, concept] = stand or no_image
        return family

    def _raise(
        self, suite: Value, settings: Sequence[tuple[Cell, dict[str, Evidence]]], still_open: set[str]
    ) -> set[str]:
        """Draw another round of concepts. Returns those of which more images may be drawn."""
        if not settings:
            return set()
        rounds, raised = self.suites[str(suite)], set[str]()
        readable = list[Run]()
        for cell in self.grid.cells_of(settings[0][0]):
            with suppress(ClinometerError):
                readable.append(self._run(cell))
        for question in readable[0].suite.prompt_specs():
            level = rounds.level.get(question.concept, min(FIRST_ROUND, question.images))
            if question.concept in still_open and level < question.images:
                rounds.level[question.concept] = min(level + LATER_ROUND, question.images)
                raised.add(question.concept)
        return raised


# --- the split by guidance -------------------------------------------------------------------------------------------

SPLIT: Final = "split.csv"
SPLIT_FIELDS: Final = ("component", "concept", "setting", "value", "low", "high", "p", "q", "p_holm", "n_target",
                       "verdict", "side", "depends_on", "reason")  # fmt: skip
SPLIT_COLUMNS: Final = (*SETTING_AXES, "guidance_of_first", "guidance_of_second", *SPLIT_FIELDS)


def guidance_of(setting: Setting) -> float | None:
    """Return the guidance scale that a setting was drawn at, or is to be; None where the model names none."""
    if setting.run is None:
        value = setting.cell["guidance"]
    else:
        value = setting.run.model_card["settings"].get("guidance_scale")
    return float(value) if isinstance(value, int | float) else None


def with_splits(directory: Directory, outcome: SweepOutcome) -> SweepOutcome:
    """Add what guidance adds at every setting that has a partner at guidance 1; what was computed before is read."""
    splits = []
    for setting in outcome.settings:
        guidance, at_one = guidance_of(setting), unguided(outcome, setting)
        if guidance is not None and guidance > 1 and at_one is not None:
            splits.append(_split(directory, at_one, setting))
    # what guidance adds is one family over the grid
    added = [
        (order, row)
        for order, split in enumerate(splits) if split.scores is not None
        for row in Scores.from_frame(split.scores).rows if row.component == "added"
    ]  # fmt: skip
    family = f"split: added over {len(added)} differences of the grid"
    judged = defaultdict[int, list[Any]](list)
    for (order, _), row in zip(added, judged_over_grid([row for _, row in added], family), strict=True):
        judged[order].append(row)
    for order, split in enumerate(splits):
        if split.scores is not None and judged[order]:
            others = [row for row in Scores.from_frame(split.scores).rows if row.component != "added"]
            splits[order] = replace(split, scores=scores_table([*others, *judged[order]]))
    return replace(outcome, splits=tuple(splits))


def unguided(outcome: SweepOutcome, setting: Setting) -> Setting | None:
    """Find the setting that differs in guidance alone and has no unconditional branch: at 1, or else nearest below."""
    others = setting.cell.at(guidance=None)
    partners = [
        (guidance, other)
        for other in outcome.settings
        if other.cell.at(guidance=None) == others and (guidance := guidance_of(other)) is not None and guidance <= 1
    ]
    return max(partners, key=lambda each: each[0])[1] if partners else None


def _split(directory: Directory, at_one: Setting, setting: Setting) -> Split:
    try:
        seeds = [seed for seed in setting.runs if seed in at_one.runs]
        if not seeds:
            missing = [reason for side in (at_one, setting) for reason in side.missing.values()]
            raise RunNotFoundError.incomplete(missing[0] if missing else "no seed is finished at both guidances")
        first, second = ([side.runs[seed] for seed in seeds] for side in (at_one, setting))
        scores, _ = stored_table(
            directory, f"{setting.cell.name}-split", [*first, *second],
            lambda: (split_runs(pooled(first), pooled(second)), {}),
        )  # fmt: skip
        return Split(at_one, setting, scores)
    except ClinometerError as error:
        return Split(at_one, setting, undone=str(error))


def split_table(outcome: SweepOutcome) -> pd.DataFrame:
    """Return every number of every split, led by the axes; of one that could not be computed, a row that says why."""
    return pd.DataFrame([line for split in outcome.splits for line in _split_lines(split)], columns=SPLIT_COLUMNS)


def _split_lines(split: Split) -> Iterator[dict[str, Any]]:
    common: dict[str, Any] = {axis: split.setting.cell[axis] for axis in SETTING_AXES}
    common |= {"guidance_of_first": guidance_of(split.at_one), "guidance_of_second": guidance_of(split.setting)}
    if split.scores is None:
        yield common | {"reason": split.undone}
        return
    for row in Scores.from_frame(split.scores).rows:
        yield common | {name: getattr(row, name) for name in SPLIT_FIELDS}


def split_lacks(outcome: SweepOutcome, suite: Value) -> str:
    """Explain why a suite has no split, and what to do; empty where there is one, or no guidance to split by."""
    settings = [setting for setting in outcome.of_suite(suite) if setting.run is not None]
    scales = [scale for setting in settings if (scale := guidance_of(setting)) is not None]
    run = next((setting.run for setting in settings if setting.run is not None), None)
    if run is None or not scales or not study_of(run.suite).overrides("split"):
        return ""
    if any(split.setting.cell["suite"] == suite for split in outcome.splits):
        return ""
    if max(scales) <= 1:
        return (
            "Every setting is drawn without the unconditional branch, so how it leans is what the network learned. To "
            "see what guidance adds, give guidances above 1 as well, such as --guidance 1,3,7.5, and the same --out."
        )
    given = ",".join(f"{scale:g}" for scale in sorted({1.0, *scales}))
    return (
        "No setting is drawn at guidance 1, so what the network learned cannot be separated from what guidance adds. "
        f"Give --guidance {given} (in a sweep’s file guidance: [{given.replace(',', ', ')}]) and the same --out: only "
        "the cells at guidance 1 are drawn."
    )
