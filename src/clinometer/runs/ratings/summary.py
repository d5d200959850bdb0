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
    checks: int
    same: int
    repeats: int


def agreement_so_far(answers: pd.DataFrame) -> Agreement:
    """Krippendorff's α of the answers so far, without repeats and without those whose answer is known."""
    ratings = answers[~answers["repeat"].astype(bool) & (answers.attention == "")]
    if ratings.empty:
        return Agreement(nan, nan, nan, 0, reason="no answer yet")
    codes = ratings.assign(code=pd.factorize(ratings.answer)[0].astype(float), key=ratings.run + "\0" + ratings.item)
    table = codes.pivot_table(index="rater", columns="key", values="code", aggfunc="first")
    return krippendorff_alpha(table.to_numpy(np.float64), n_resamples=RESAMPLES)


def rater_summaries(answers: pd.DataFrame) -> dict[str, RaterSummary]:
    """Each rater's answers so far, by pseudonym."""
    return {str(name): _rater(str(name), own_answers) for name, own_answers in answers.groupby("rater", sort=False)}


def _rater(name: str, answers: pd.DataFrame) -> RaterSummary:
    checks = answers[answers.attention != ""]
    again = answers[answers["repeat"].astype(bool)].merge(
        answers[~answers["repeat"].astype(bool)], on=["run", "item"], suffixes=("", "_first")
    )
    return RaterSummary(
        name=name,
        answers=len(answers),
        seconds=float(answers.seconds.astype(float).median()),
        right=int((checks.answer == checks.attention).sum()),
        checks=len(checks),
        same=int((again.answer == again.answer_first).sum()),
        repeats=len(again),
    )
