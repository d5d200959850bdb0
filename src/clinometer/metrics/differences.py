"""Differences between two runs in words: which leans more, alike within the margin, or undecided."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from math import isfinite

import numpy as np

from clinometer.metrics.records import Score, corrected
from clinometer.metrics.stopping import ATTRIBUTE_LEVEL
from clinometer.metrics.verdict import (
    LEVEL,
    Ends,
    Judgement,
    ReasonCode,
    Verdict,
    at_least,
    image_ends,
    judge_rows,
    judged_as,
    p_can_tell,
)
from clinometer.stats.multiplicity import benjamini_hochberg, e_benjamini_hochberg, holm

METRIC = "comparison"
FIRST, SECOND = "first", "second"
"""The runs of a comparison, as sides of a verdict."""

MOST_NAMED = 3
"""Prompts, targets or stimuli that a reason names; more are counted."""


def named_or_counted(names: Sequence[str], units: str) -> str:
    """Name what a reason is about, or count it where it is much: ``cook, judge``; ``5 targets``."""
    return ", ".join(names) if len(names) <= MOST_NAMED else f"{len(names)} {units}"


def judge_differences(
    rows: Sequence[Score],
    *,
    a: str | Sequence[str],
    b: str | Sequence[str],
    margin: float | None = None,
    ends: Ends = image_ends,
    fewest: int = 0,
) -> list[Score]:
    """Judge the rows of one family, each second minus first: ``MORE`` with the group that the second leans more to.

    ``fewest`` : images below which there is no verdict.
    """
    judged = judge_rows(rows, partial(_judge, fewest=fewest), a=a, b=b, margin=margin, ends=ends)
    return [at_least(row, fewest) for row in judged]


def _judge(row: Score, ends: tuple[float, float], q_alike: float, a: str, b: str, *, fewest: int) -> Judgement:
    if row.n_target < fewest and isfinite(row.value):
        return Judgement(Verdict.TOO_FEW, reason_code=ReasonCode.TOO_FEW_IMAGES)
    if q_alike <= LEVEL and p_can_tell(row) and all(map(isfinite, (row.q, *ends))):
        return Judgement(Verdict.ALIKE)
    return _judge_exchanges(row, ends, a, b)


def _judge_exchanges(row: Score, ends: tuple[float, float], above: str, below: str) -> Judgement:
    """:func:`judge_sides`, where there are enough to exchange between the runs."""
    if isfinite(row.value) and not p_can_tell(row):
        return Judgement(Verdict.TOO_FEW, reason_code=ReasonCode.TOO_FEW_EXCHANGES)
    return judge_sides(row, ends, above, below)


def judge_sides(row: Score, ends: tuple[float, float], above: str, below: str) -> Judgement:
    """``MORE`` with the side above or below 0, where q and the interval both say so."""
    low, high = ends
    if not all(map(isfinite, (row.q, low, high))):
        missing = ReasonCode.NO_TEST if isfinite(row.value) else ReasonCode.NO_ESTIMATE
        return Judgement(Verdict.NOT_MEASURED, reason_code=missing)
    if low <= 0 <= high:
        return Judgement(Verdict.UNDECIDED, reason_code=ReasonCode.INTERVAL)
    if row.q > LEVEL:
        return Judgement(Verdict.UNDECIDED, reason_code=ReasonCode.CORRECTION)
    return Judgement(Verdict.MORE, side=above if row.value > 0 else below)


def judged_over_grid(rows: Sequence[Score], family: str) -> list[Score]:
    """Judge differences of several comparisons that are one family: all of one kind that a sweep asks about.

    ::

        q, p̃ = Benjamini–Hochberg, Holm over all rows with a p           family: every setting of the grid, every unit

    Each row comes with the verdict of its own comparison. One that the larger family does not bear out is undecided; a
    verdict is never made of none, so a row keeps one only if both corrections leave it.
    """
    alike = benjamini_hochberg(np.array([row.p_equivalence for row in rows], np.float64))
    judged = []
    for row, q_alike in zip(corrected(rows, family), alike, strict=True):
        corrected_row = replace(row, q_equivalence=float(q_alike))
        lost = row.q > LEVEL if row.verdict == Verdict.MORE else row.verdict == Verdict.ALIKE and q_alike > LEVEL
        undecided = Judgement(Verdict.UNDECIDED, reason_code=ReasonCode.CORRECTION)
        judged.append(judged_as(corrected_row, undecided) if lost else corrected_row)
    return judged


def judged_when_stopped(rows: Sequence[Score], family: str, sides: Sequence[tuple[str, str]]) -> list[Score]:
    """Judge differences of images that were drawn until decided, as one family; p is anytime-valid.

    ::

        e = 1 / (p − a),   q = a + Benjamini–Hochberg of e-values       a: what p gives away for the attribute images

    ``sides`` : the groups that a positive and a negative difference lean to, of each row. A row that was withheld
    before stays so.
    """
    q, q_alike = (_anytime_q(np.array([getattr(row, name) for row in rows])) for name in ("p", "p_equivalence"))
    p_holm = holm(np.array([row.p for row in rows], np.float64))
    judged = []
    for row, own, alike, adjusted, (a, b) in zip(rows, q, q_alike, p_holm, sides, strict=True):
        corrected_row = replace(row, q=float(own), q_equivalence=float(alike), p_holm=float(adjusted), family=family)
        if row.verdict == Verdict.NOT_MEASURED:
            judged.append(corrected_row)
            continue
        judgement = (
            Judgement(Verdict.ALIKE) if alike <= LEVEL else judge_sides(corrected_row, image_ends(corrected_row), a, b)
        )
        undecided = judgement.verdict == Verdict.UNDECIDED
        judged.append(judged_as(corrected_row, judgement, n_decide=corrected_row.n_decide if undecided else 0))
    return judged


def _anytime_q(p_values: np.ndarray) -> np.ndarray:
    with np.errstate(divide="ignore"):
        evidence = 1 / np.maximum(p_values - ATTRIBUTE_LEVEL, 0)
    return np.asarray(np.minimum(e_benjamini_hochberg(evidence) + ATTRIBUTE_LEVEL, 1.0))


def outward(low: float, high: float, excess: Sequence[float]) -> tuple[float, float]:
    """Ends of a difference of mean magnitudes, moved by what the first's and the second's may owe to chance.

    ``excess`` is their mean :func:`clinometer.stats.bootstrap.magnitude_excess`. Two runs that differ by nothing at all
    have an interval of no width, and owe nothing.
    """
    return (low, high) if low == high == 0 else (low - excess[1], high + excess[0])


def judge_magnitude(row: Score, ends: Ends = image_ends) -> Score:
    """Say which of two runs leans more over all, from the difference of their mean magnitudes."""
    return judged_as(row, _judge_exchanges(row, ends(row), SECOND, FIRST))


def not_measured(row: Score) -> Score:
    """Judge a row that holds no number."""
    return judged_as(row, Judgement(Verdict.NOT_MEASURED, reason_code=ReasonCode.NO_ESTIMATE))
