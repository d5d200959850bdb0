"""What became of the pictures of a run, or of two, prompt by prompt, for the rates of refusal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from clinometer.metrics.records import Score
from clinometer.metrics.refusal_comparison import ComparedPrompt, compare_refusals, unknown_refusals
from clinometer.metrics.refusals import PromptRefusals, refusal_scores
from clinometer.runs.store import Run
from clinometer.suites import EditingSuite, LeaningSuite, Suite
from clinometer.suites.axes import CrossedAxis

WITHHELD = ("refused", "blank")
"""Statuses that mean the model showed nothing: what it said no to, and the one colour that a filter leaves."""


def run_refusals(run: Run) -> list[Score]:
    """Rates of refusal, and their difference between the suite's two groups; nothing where every picture came."""
    a, b = _groups(run.suite)
    pairs, sides = _pairs(run.suite), _sides(run.suite)
    answered = _answered(run)
    counts = answered.assign(withheld=answered.status.isin(WITHHELD)).groupby(
        ["concept", "group", "prompt"], sort=False, dropna=False
    )
    table = counts.withheld.agg(["sum", "size"]).reset_index()
    prompts = [
        PromptRefusals(
            concept=row["concept"],
            group=row["group"],
            pair=pairs.get(row["prompt"], "") or sides.get(row["group"], ("", ""))[1],
            refused=int(row["sum"]),
            n=int(row["size"]),
            side=sides.get(row["group"], ("", ""))[0],
        )
        for row in table.to_dict("records")
    ]
    if isinstance(run.suite, LeaningSuite) and run.suite.axes:
        return _refusals_by_axis(run.suite, run.suite.axes, prompts)
    return refusal_scores(prompts, a=a, b=b)


def _refusals_by_axis(
    suite: LeaningSuite, axes: Mapping[str, CrossedAxis], prompts: Sequence[PromptRefusals]
) -> list[Score]:
    """The rates, and a difference for every axis of two levels: prompts are matched within the levels of the others."""
    scores: list[Score] = []
    for axis, (first, *others) in ((name, tuple(held.levels)) for name, held in axes.items()):
        sided = [_on_axis(suite, axis, each) for each in prompts]
        found = refusal_scores(sided, a=first, b=others[0] if len(others) == 1 else "no level")
        scores += [row for row in found if not scores or row.component == "difference"]
    return scores


def _on_axis(suite: LeaningSuite, axis: str, prompt: PromptRefusals) -> PromptRefusals:
    if not prompt.group:
        return prompt
    cell = suite.groups[prompt.group].cell or {}
    others = [level for name, level in cell.items() if name != axis]
    return replace(prompt, side=cell[axis], pair=" ".join([prompt.pair, *others]) if prompt.pair else "")


def with_refusals(run: Run, scores: pd.DataFrame) -> pd.DataFrame:
    """Scores, and below them the rates of refusal where there are any."""
    rows = [vars(score) for score in run_refusals(run)]
    return pd.concat([scores, pd.DataFrame(rows, columns=scores.columns)], ignore_index=True) if rows else scores


def compared_refusals(first: Run, second: Run, *, paired: bool) -> list[Score]:
    """Differences of the rates of refusal, second minus first; nothing where every picture of both came.

    ``paired``: pictures of one noise are pairs, and one that failed in either run counts in neither.
    """
    held = [_answers(run) for run in (first, second)]
    if not any(missing for prompts in held for answers in prompts.values() for missing in answers.values()):
        return []
    imported = [run.record["origin"] != "generated" for run in (first, second)]
    if any(imported):
        which = "both runs were" if all(imported) else f"the {'first' if imported[0] else 'second'} run was"
        return unknown_refusals(f"{which} imported: what was refused before is not known")
    pairs, sides = _pairs(first.suite), _sides(first.suite)
    prompts = []
    for concept, group, prompt in dict.fromkeys([*held[0], *held[1]]):
        answers = [run.get((concept, group, prompt), {}) for run in held]
        if paired:
            both = [start for start in answers[0] if start in answers[1]]
            answers = [{start: run[start] for start in both} for run in answers]
        first_missing, second_missing = (np.array(list(run.values()), bool) for run in answers)
        side, tone = sides.get(group, ("", ""))
        pair = pairs.get(prompt, "") or tone
        prompts.append(ComparedPrompt(concept, group, pair, prompt, first_missing, second_missing, side))
    a, b = _groups(first.suite)
    return compare_refusals(prompts, a=a, b=b, paired=paired)


def _answers(run: Run) -> dict[tuple[str, str, str], dict[tuple[int, float, str], bool]]:
    """Whether each picture that did not fail is missing: by prompt, and by what it starts from.

    That is its noise and, of an edit, its strength; the file, where a run was imported.
    """
    samples = _answered(run)
    status = dict(zip(samples.id, samples.status, strict=True))
    found: dict[tuple[str, str, str], dict[tuple[int, float, str], bool]] = {}
    for sample in run.plan:
        if sample.id in status:
            answers = found.setdefault((sample.concept, sample.group, sample.prompt), {})
            answers[sample.seed, sample.strength, sample.file] = status[sample.id] in WITHHELD
    return found


def _answered(run: Run) -> pd.DataFrame:
    """Samples that were asked for and did not fail: portraits that are given were never asked of the model."""
    samples = run.samples[run.samples.status != "failed"]
    given = {sample.id for sample in run.plan if sample.file} if run.record["origin"] == "generated" else set()
    return samples[~samples.id.isin(given)]


def _groups(suite: Suite) -> tuple[str, str]:
    """The two groups that a suite compares; empty for one that names none."""
    sides: Any = getattr(suite, "axis", None) or getattr(suite, "genders", None)
    return (sides.a, sides.b) if sides is not None else ("", "")


def _sides(suite: Suite) -> Mapping[str, tuple[str, str]]:
    """The gender and the tone of each group of portraits: genders are compared, and matched within tones."""
    if not isinstance(suite, EditingSuite):
        return {}
    return {name: (group.gender, group.tone or "") for name, group in suite.groups.items()}


def _pairs(suite: Suite) -> Mapping[str, str]:
    """The name that matched prompts share, by prompt."""
    if not isinstance(suite, LeaningSuite):
        return {}
    return {prompt.prompt: prompt.pair or "" for group in suite.groups.values() for prompt in group.prompts}
