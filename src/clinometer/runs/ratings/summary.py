"""What an organiser sees while ratings come in: how far each rater and concept is, and how far raters agree."""

from __future__ import annotations

from dataclasses import dataclass
from math import nan

import numpy as np
import pandas as pd

from clinometer.stats.agreement import Agreement, krippendorff_alpha

RESAMPLES = 999


@dataclass(frozen=True)
class RaterSummary:
    """One rater's answers: how many, the median of their seconds, and the counts that tell care."""

    name: str
    answers: int
    seconds: float
    right: int
    known: int
    same: int
    repeats: int


def agreement_so_far(answers: pd.DataFrame) -> Agreement:
    """Krippendorff's α of the answers so far, without repeats and without those whose answer is known."""
    held = answers[~answers["repeat"].astype(bool) & (answers.attention == "")]
    if held.empty:
        return Agreement(nan, nan, nan, 0, reason="no answer yet")
    codes = held.assign(code=pd.factorize(held.answer)[0].astype(float), key=held.run + "\0" + held.item)
    table = codes.pivot_table(index="rater", columns="key", values="code", aggfunc="first")
    return krippendorff_alpha(table.to_numpy(np.float64), n_resamples=RESAMPLES)


def rater_summaries(answers: pd.DataFrame) -> dict[str, RaterSummary]:
    """Each rater's answers so far, by pseudonym."""
    return {str(name): _rater(str(name), held) for name, held in answers.groupby("rater", sort=False)}


def _rater(name: str, held: pd.DataFrame) -> RaterSummary:
    checks = held[held.attention != ""]
    again = held[held["repeat"].astype(bool)].merge(
        held[~held["repeat"].astype(bool)], on=["run", "item"], suffixes=("", "_first")
    )
    return RaterSummary(
        name=name,
        answers=len(held),
        seconds=float(held.seconds.astype(float).median()),
        right=int((checks.answer == checks.attention).sum()),
        known=len(checks),
        same=int((again.answer == again.answer_first).sum()),
        repeats=len(again),
    )
