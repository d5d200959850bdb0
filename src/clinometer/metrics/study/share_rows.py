"""Rows of the share of a target's images that are nearer to the words of group a than to those of b."""

from __future__ import annotations

from dataclasses import replace
from math import isfinite

import numpy as np

from clinometer.metrics.records import Score
from clinometer.metrics.study.context import Study
from clinometer.metrics.study.rows import Basis, bare, target_row
from clinometer.metrics.study.views import View
from clinometer.stats.bootstrap import fold_interval
from clinometer.stats.proportion import Proportion, parity_gap_null, wilson_interval


def share_rows(study: Study, view: View) -> list[Score]:
    """Share of images nearer to a's words (zero-shot), with its Wilson interval, and its gap from one half.

    The gap |share − ½| is HEIM's gender measure; under exact parity it is not 0 on average but its null,
    0.137 in 8 images. Words and encoder are fixed: no stimulus interval.
    """
    shares = [_share(study, view, t) for t in study.target_numbers]
    basis = Basis(("ita",), study.pair)
    value, low, high = (np.array([getattr(s, name) for s in shares]) for name in ("value", "low", "high"))
    gap = fold_interval(low - 0.5, high - 0.5)
    null = np.array([parity_gap_null(s.n) for s in shares])
    numbers = {
        "share": (bare(value, low, high), study.design.a),
        "parity_gap": (bare(np.abs(value - 0.5), gap.low, gap.high, null), ""),
    }
    return [
        _with_reason(target_row(study, view, t, basis, estimates, metric="share", component=component, group=group))
        for component, (estimates, group) in numbers.items()
        for t in study.target_numbers
    ]


def _with_reason(row: Score) -> Score:
    return row if row.reason else replace(row, reason="no stimulus interval: words and encoder are fixed")


def _share(study: Study, view: View, t: int) -> Proportion:
    """Count the images whose association with a's words against b's is positive."""
    words = view.cosines.image_word[t]
    a, b = (study.layout.word_slices[g] for g in study.pair)
    if words[:, a].shape[1] == 0 or words[:, b].shape[1] == 0 or not isfinite(float(words.sum())):
        return wilson_interval(0, 0)
    association = words[:, a].mean(axis=1) - words[:, b].mean(axis=1)
    return wilson_interval(int((association > 0).sum()), len(association), study.settings.confidence)
