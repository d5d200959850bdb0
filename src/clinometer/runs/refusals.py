"""What became of a run's pictures, prompt by prompt, for the rates of refusal."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd

from clinometer.metrics.records import Score
from clinometer.metrics.refusals import PromptRefusals, refusal_scores
from clinometer.runs.store import Run
from clinometer.suites import EditingSuite, LeaningSuite, Suite

WITHHELD = ("refused", "blank")
"""Statuses that mean the model showed nothing: what it said no to, and the one colour that a filter leaves."""


def run_refusals(run: Run) -> list[Score]:
    """Rates of refusal, and their difference between the suite's two groups; nothing where every picture came."""
    a, b = _groups(run.suite)
    pairs, sides = _pairs(run.suite), _sides(run.suite)
    samples = run.samples
    answered = samples[samples.status != "failed"]
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
    return refusal_scores(prompts, a=a, b=b)


def with_refusals(run: Run, scores: pd.DataFrame) -> pd.DataFrame:
    """Scores, and below them the rates of refusal where there are any."""
    rows = [vars(score) for score in run_refusals(run)]
    return pd.concat([scores, pd.DataFrame(rows, columns=scores.columns)], ignore_index=True) if rows else scores


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
