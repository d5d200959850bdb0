"""Rows of the share of a target's images that are nearer to the words of group a than to those of b."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import isfinite

import numpy as np
import scipy

from clinometer.metrics.distribution import gender_gap
from clinometer.metrics.records import Score
from clinometer.stats.proportion import wilson_interval
from clinometer.studies.leaning.scores.context import LeaningStudy
from clinometer.studies.leaning.scores.estimates import Estimate
from clinometer.studies.leaning.scores.rows import Basis, bare, target_row, with_q_values
from clinometer.studies.leaning.scores.views import EncoderView

BETWEEN = "some lie between"
BETWEEN_BY_CHANCE = 0.05
BETWEEN_LEVEL = 0.01
BETWEEN_TEST = "binomial, against one of 20 images of a group beyond its own spread, one-sided"
NO_GAP = "the groups' own images do not lie apart enough for any to lie between"


def share_rows(study: LeaningStudy, view: EncoderView) -> list[Score]:
    """Share of images nearer to a's words (zero-shot), with its Wilson interval, and its gap from one half.

    Where images are missing, its bounds are Wilson's ends with all of them read as b, and as a.

    The gap |share − ½| is HEIM's gender measure; under exact parity it is not 0 on average but its null,
    0.137 in 8 images. Words and encoder are fixed: no stimulus interval.
    """
    counts, confidence = [_count(study, view, t) for t in study.target_numbers], study.settings.confidence
    basis = Basis(("ita",), study.pair)
    shares = [wilson_interval(*count, confidence) for count in counts]
    gaps = [gender_gap(*count, confidence=confidence) for count in counts]
    numbers = {
        "share": (_columns(shares, "value", "low", "high"), study.design.a),
        "parity_gap": (_columns(gaps, "value", "low", "high", "null"), ""),
    }
    rows = [
        _with_reason(target_row(study, view, t, basis, estimates, metric="share", component=component, group=group))
        for component, (estimates, group) in numbers.items()
        for t in study.target_numbers
    ]
    return [
        _with_bounds(row, counts[t], confidence) if row.component == "share" else row
        for row, t in zip(rows, [*study.target_numbers] * len(numbers), strict=True)
    ]


def between_rows(study: LeaningStudy, view: EncoderView) -> list[Score]:
    """The share of images that lie between the groups, by the spread of the groups' own attribute images.

    ::

        y(x) = image part of x       limit_A = ȳ_A − t s_A √(1 + 1/n_A),  limit_B = ȳ_B + t s_B √(1 + 1/n_B)
        between: limit_B < y(x) < limit_A                  t: the 95 % quantile of Student's t with n − 1

    ȳ and s are of the attribute images of a group, none compared with itself. Beyond a limit, towards the other group,
    lies one of 20 images that are of the group; so ``null`` is 0.05, p asks whether so many lie there by chance, and
    ``flag`` says where q is at most 0.01. Where the limits do not leave a gap, nothing is told to lie in it.
    """
    modalities = [m for m in (0, 1) if m == 0 or view.reads_text]
    a, b = study.pair

    def scores(cosines: np.ndarray) -> np.ndarray:
        return np.asarray((cosines[:, modalities, a] - cosines[:, modalities, b]).sum(axis=1))

    limit_a, limit_b = _limit(scores(view.own[a]), -1), _limit(scores(view.own[b]), 1)
    has_gap = bool(limit_b < limit_a)
    of_targets = [scores(cosines) for cosines in view.image_cosines]
    inside = [int(((limit_b < y) & (y < limit_a)).sum()) for y in of_targets]
    shares = [
        wilson_interval(k, len(y) if has_gap else 0, study.settings.confidence)
        for k, y in zip(inside, of_targets, strict=True)
    ]
    numbers = _columns(shares, "value", "low", "high")
    numbers = replace(numbers, null=np.where(np.isfinite(numbers.value), BETWEEN_BY_CHANCE, np.nan))
    basis = Basis(("ii", "ita") if view.reads_text else ("ii",), study.pair)
    rows = []
    for t in study.target_numbers:
        row = target_row(study, view, t, basis, numbers, metric="share", component="between")
        if not isfinite(row.value):
            rows.append(row if row.reason else replace(row, reason=NO_GAP))
            continue
        p = float(scipy.stats.binom.sf(inside[t] - 1, row.n_target, BETWEEN_BY_CHANCE))
        rows.append(_with_reason(replace(row, p=p, test=BETWEEN_TEST)))
    rows = with_q_values(rows, f"share: between over {len(rows)} targets")
    return [replace(row, flag=BETWEEN) if row.q <= BETWEEN_LEVEL else row for row in rows]


def _limit(y: np.ndarray, sign: int) -> float:
    """The limit that one of 20 images of a group lies beyond, on the side of the other group; NaN from one image."""
    n = len(y)
    if n < 2:
        return np.nan
    return float(y.mean() + sign * scipy.special.stdtrit(n - 1, 0.95) * y.std(ddof=1) * np.sqrt(1 + 1 / n))


def _with_bounds(row: Score, count: tuple[int, int], confidence: float) -> Score:
    """The ends of the interval with all missing images read as b, and as a."""
    (near, n), missing = count, row.n_missing
    if not missing or not n:
        return row
    least, most = (wilson_interval(near + more, n + missing, confidence) for more in (0, missing))
    return replace(row, bound_low=min(row.low, least.low), bound_high=max(row.high, most.high))


def _with_reason(row: Score) -> Score:
    return row if row.reason else replace(row, reason="no stimulus interval: words and encoder are fixed")


def _columns(estimates: Sequence[object], *names: str) -> Estimate:
    return bare(*(np.array([getattr(estimate, name) for estimate in estimates]) for name in names))


def _count(study: LeaningStudy, view: EncoderView, t: int) -> tuple[int, int]:
    """How many images have a positive association with a's words against b's, and of how many."""
    a, b = study.pair
    near = view.image_cosines[t][:, 1]
    if not (study.layout.word_counts[a] and study.layout.word_counts[b] and np.isfinite(near[:, [a, b]]).all()):
        return 0, 0
    return int((near[:, a] - near[:, b] > 0).sum()), len(near)
