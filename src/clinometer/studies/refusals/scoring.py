"""What became of the pictures of a run, or of two, prompt by prompt, and what refusals mean for a comparison."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import pandas as pd

from clinometer.metrics.differences import RUNS
from clinometer.metrics.records import Score
from clinometer.report import wording
from clinometer.report.differences import DifferenceTable, difference_table
from clinometer.report.view import Row, Scores
from clinometer.report.wording import decided, difference_words, not_measured, of_these_prompts
from clinometer.runs.run import Run
from clinometer.runs.several import Comparison
from clinometer.studies import study_of
from clinometer.studies.refusals.scores import (
    ComparedPrompt,
    PromptRefusals,
    compare_refusals,
    refusal_scores,
    repeat_scores,
    unknown_refusals,
)

FAILED = "failed"
WITHHELD = ("refused", "blank")
"""Statuses that mean the model showed nothing: what it refused, and images of one colour that a filter returns."""


def run_refusals(run: Run, *, even_none: bool = False) -> list[Score]:
    """Return the rates of refusal, and their differences between the suite's groups; nothing where every picture came.

    Where groups differ along several axes, there is a difference for each of them. ``even_none``: rates of 0, too.
    """
    portraits = _given_portraits(run)
    by_prompt: dict[tuple[str, str, str], list[int]] = {}  # how many pictures are missing, of how many
    for identifier, status, concept, group, prompt in run.drawn.each(["id", "status", "concept", "group", "prompt"]):
        if status != FAILED and identifier not in portraits:
            counts = by_prompt.setdefault((concept, group, prompt), [0, 0])
            counts[0] += status in WITHHELD
            counts[1] += 1
    rows: list[Score] = []
    for groups in study_of(run.suite).compared_groups(run.suite):
        prompts = []
        for (concept, group, prompt), (refused, n) in by_prompt.items():
            side, pair = groups.place(group, prompt)
            prompts.append(PromptRefusals(concept, group, pair, refused, n, side))
        scores = refusal_scores(prompts, a=groups.a, b=groups.b, even_none=even_none)
        rows += [row for row in scores if not rows or row.component == "difference"]
    return rows


def with_refusals(run: Run, scores: pd.DataFrame, *, even_none: bool = False) -> pd.DataFrame:
    """Return the scores, and below them the rates of refusal where there are any; ``even_none``: rates of 0, too."""
    return _appended(scores, run_refusals(run, even_none=even_none))


def with_repeats(run: Run, scores: pd.DataFrame) -> pd.DataFrame:
    """Return the scores, and below them how many pictures are repeated, if any."""
    repeats = run.drawn.repeats()
    if not repeats:
        return scores
    numbers: dict[str, int] = {}
    drawn: dict[tuple[str, str], dict[tuple[str, float], list[int]]] = {}
    there = {identifier for identifier, status in run.drawn.each(["id", "status"]) if status == "ok"}
    for identifier, concept, group, prompt, strength in run.plan.rows("id", "concept", "group", "prompt", "strength"):
        if identifier in there:
            number = numbers.setdefault(repeats.get(identifier, identifier), len(numbers))
            drawn.setdefault((concept, group), {}).setdefault((prompt, strength), []).append(number)
    rows = repeat_scores({owner: list(prompts.values()) for owner, prompts in drawn.items()})
    return _appended(scores, rows)


def _appended(scores: pd.DataFrame, rows: Sequence[Score]) -> pd.DataFrame:
    table = pd.DataFrame([vars(score) for score in rows], columns=scores.columns)
    return pd.concat([scores, table], ignore_index=True) if rows else scores


def compared_refusals(first: Run, second: Run, *, paired: bool) -> list[Score]:
    """Return differences of the rates of refusal, second minus first; nothing where every picture of both came.

    ``paired``: pictures of one noise are pairs, and one that failed in either run counts in neither.
    """
    by_run = [_answers(run) for run in (first, second)]
    if not any(missing for prompts in by_run for answers in prompts.values() for missing in answers.values()):
        return []
    imported = [run.record["origin"] != "generated" for run in (first, second)]
    if any(imported):
        which = "both runs were" if all(imported) else f"the {'first' if imported[0] else 'second'} run was"
        return unknown_refusals(f"{which} imported: what was refused before is not known")
    groups = study_of(first.suite).compared_groups(first.suite)[0]
    prompts = []
    for concept, group, prompt in dict.fromkeys([*by_run[0], *by_run[1]]):
        answers = [run.get((concept, group, prompt), {}) for run in by_run]
        if paired:
            both = [start for start in answers[0] if start in answers[1]]
            answers = [{start: run[start] for start in both} for run in answers]
        first_missing, second_missing = (np.array(list(run.values()), bool) for run in answers)
        side, pair = groups.place(group, prompt)
        prompts.append(ComparedPrompt(concept, group, pair, prompt, first_missing, second_missing, side))
    return compare_refusals(prompts, a=groups.a, b=groups.b, paired=paired)


def _answers(run: Run) -> dict[tuple[str, str, str], dict[tuple[int, float, str], bool]]:
    """Return whether each picture that did not fail is missing: by prompt, and by what it starts from.

    That is its noise, with an edit's strength; or the file, where a run was imported.
    """
    portraits = _given_portraits(run)  # which were never asked of the model
    statuses = {
        identifier: status
        for identifier, status in run.drawn.each(["id", "status"])
        if status != FAILED and identifier not in portraits
    }
    by_prompt: dict[tuple[str, str, str], dict[tuple[int, float, str], bool]] = {}
    for sample in run.plan:
        if sample.id in statuses:
            answers = by_prompt.setdefault((sample.concept, sample.group, sample.prompt), {})
            answers[sample.seed, sample.strength, sample.file] = statuses[sample.id] in WITHHELD
    return by_prompt


def _given_portraits(run: Run) -> set[str]:
    """Return the portraits that were given to a run, and not drawn."""
    if run.record["origin"] != "generated":
        return set()
    return {identifier for identifier, file in run.plan.rows("id", "file") if file}


def refusals_in_words(comparison: Comparison, labels: tuple[str, str]) -> list[str]:
    """Return sentences on refusals, the finding first; none where neither run refused anything."""
    rows = _differences(comparison)
    if not rows:
        return []
    overall = rows[0]
    if not overall.defined:
        return [f"Refusals of {labels[1]} and {labels[0]} cannot be compared: {overall.reason}."]
    rates = [_own(comparison, run)[0].value for run in RUNS]
    label_of = comparison.first.suite.label_of
    verdict = difference_words(overall, labels, label_of) if decided(overall) else "undecided which refuses more"
    shares = f"{wording.percent(rates[1])} of images are missing in {labels[1]}, {wording.percent(rates[0])} in "
    if of_these_prompts(overall):
        verdict += "; whether it does of other prompts like these is undecided"
    numbers = wording.with_interval(overall.value, *_ends(overall))
    if overall.has_stimulus_interval:
        numbers += f" over prompts, {wording.interval(overall.low, overall.high)} over images"
    p = wording.probability(overall.p, "p")
    sentences = [f"Refusals: {verdict}.", f"{shares}{labels[0]}: {numbers}{f', {p}' if p else ''}."]
    if overall.reason:
        sentences.append(f"{wording.capitalised(overall.reason)}.")
    return [*sentences, *_whom(rows[1:], comparison, labels), _condition(rows, comparison)]


def refusal_table(comparison: Comparison, labels: tuple[str, str]) -> DifferenceTable | None:
    """Tabulate refusals of all prompts, the groups' difference, and each concept and group that was refused any."""
    rows = [row for row in _differences(comparison) if row.defined]
    if not rows:
        return None
    rates = [{_about(row): row for row in _own(comparison, run)} for run in RUNS]
    tests = list(dict.fromkeys(row.test for row in rows if row.test))

    def rate(by_subject: Mapping[tuple[str, str, str], Row]) -> Callable[[Row], str]:
        return lambda row: wording.percent(by_subject[_about(row)].value) if _about(row) in by_subject else ""

    return difference_table(
        rows, labels, comparison.first.suite,
        title=f"Refusals of {labels[1]} minus refusals of {labels[0]}",
        unit="concept or group", column="difference",
        note=f"Shares of images refused or of one colour. Positive: {labels[1]} refuses more. "
        f"{wording.capitalised('; '.join(tests))}. The 95 % interval is over prompts where there are several, "
        "otherwise over images; q is over the concepts and groups of which either run refused anything.",
        name=lambda row: _name(row, comparison), ends=_ends,
        before={label: rate(by_subject) for label, by_subject in zip(labels, rates, strict=True)},
        explained=lambda row: not_measured(row) and bool(row.reason), uncounted=1,
    )  # fmt: skip


def _differences(comparison: Comparison) -> list[Row]:
    """Return the row over all prompts first."""
    scores = Scores.from_frame(comparison.scores)
    rates = scores.select("comparison", "refusal_rate", encoder="")
    return [*rates[:1], *scores.select("comparison", "refusal_difference", encoder=""), *rates[1:]]


def _own(comparison: Comparison, run: str) -> list[Row]:
    return Scores.from_frame(comparison.scores).select("comparison", "own_refusal_rate", encoder="", setting=run)


def _ends(row: Row) -> tuple[float, float]:
    """Return the interval that is judged: over prompts where there are several."""
    return (row.stimulus_low, row.stimulus_high) if row.has_stimulus_interval else (row.low, row.high)


def _about(row: Row) -> tuple[str, str, str]:
    return row.concept, row.group, row.component.removeprefix("own_")


def _name(row: Row, comparison: Comparison) -> str:
    suite = comparison.first.suite
    if row.component == "refusal_difference":
        return f"{suite.label_of(row.group)} minus {suite.label_of(study_of(suite).compared_groups(suite)[0].b)}"
    return row.concept or (suite.label_of(row.group) if row.group else "all prompts")


def _whom(rows: Sequence[Row], comparison: Comparison, labels: tuple[str, str]) -> list[str]:
    """Return the concepts and groups that one run refuses more, and whether its refusals tilt to one group."""
    by_verdict: dict[str, list[str]] = {}
    for row in rows:
        if decided(row):
            verdict = difference_words(row, labels, comparison.first.suite.label_of)
            name = [] if row.component == "refusal_difference" else [_name(row, comparison)]
            by_verdict.setdefault(verdict, []).extend(name)
    return [
        f"{verdict} of: {wording.listed(names)}." if names else f"{verdict}." for verdict, names in by_verdict.items()
    ]


def _condition(rows: Sequence[Row], comparison: Comparison) -> str:
    """State what differences of leaning are about, where pictures are missing."""
    drawn = "what both runs drew" if comparison.paired else "what each run drew"
    bounds = Scores.from_frame(comparison.scores[comparison.scores[["n_missing", "n_missing_attributes"]].any(axis=1)])
    bounded = "; a verdict that the missing pictures may change says so" if any(r.has_bounds for r in bounds) else ""
    if any(map(decided, rows)):
        return (
            f"So differences of leaning are conditional: they are about {drawn}, and where one refuses more, they may "
            f"reflect what its filter lets through{bounded}."
        )
    return f"Differences of leaning are about {drawn}{bounded}."
