"""Rows of the share of a target's images that are nearer to the words of group a than to those of b."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from clinometer.metrics.distribution import gender_gap
from clinometer.metrics.records import Score
from clinometer.stats.proportion import wilson_interval
from clinometer.studies.leaning.scores.context import LeaningStudy
from clinometer.studies.leaning.scores.estimates import Estimate
from clinometer.studies.leaning.scores.rows import Basis, bare, target_row
from clinometer.studies.leaning.scores.views import EncoderView


def share_rows(study: LeaningStudy, view: EncoderView) -> list[Score]:
    """Share of images nearer to a's words (zero-shot), with its Wilson interval, and its gap from one half.

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
    return [
        _with_reason(target_row(study, view, t, basis, estimates, metric="share", component=component, group=group))
        for component, (estimates, group) in numbers.items()
        for t in study.target_numbers
    ]


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
