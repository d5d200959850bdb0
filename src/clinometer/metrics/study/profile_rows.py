"""Rows of the group association profile: how much nearer than average a target is to each group."""

from __future__ import annotations

from functools import partial
from itertools import combinations

import numpy as np

from clinometer.metrics.families import permuted
from clinometer.metrics.mcas import MODALITIES, composite, group_similarity
from clinometer.metrics.records import Score
from clinometer.metrics.study.context import Study
from clinometer.metrics.study.estimates import estimate, estimate_norm
from clinometer.metrics.study.rows import Basis, target_row, with_q_values
from clinometer.metrics.study.views import View
from clinometer.stats.permutation import PermutationTest, at_least_as_extreme, sampled_p_value


def profile(tensor: np.ndarray) -> np.ndarray:
    """Group association profile ``c_g − mean over groups of c``: (… × T × K) from mean cosines.

    The third axis of xMCAS for any number of groups. It sums to 0 over groups; positive: nearer to g than to
    the groups on average. With two groups it is ±MCAS/8.
    """
    similarity = group_similarity(tensor)
    return np.asarray(similarity - similarity.mean(axis=-1, keepdims=True))


def profile_rows(study: Study, view: View) -> list[Score]:
    """Report every target's profile, its length, and ``4 (c_g − c_h)``, the MCAS of every pair of groups."""
    confidence = study.settings.confidence
    rows = []
    for g, name in enumerate(study.design.groups):
        basis = Basis(MODALITIES, study.everyone)
        numbers = estimate(view.targets, partial(_profile_of, g=g), confidence)
        rows += [
            target_row(study, view, t, basis, numbers, metric="profile", component="association", group=name)
            for t in study.target_numbers
        ]
    for g, h in combinations(study.everyone, 2):
        numbers = estimate(
            view.targets,
            partial(composite, a=g, b=h),
            confidence,
        )
        component = f"{study.design.groups[g]}-{study.design.groups[h]}"
        rows += [
            target_row(study, view, t, Basis(MODALITIES, (g, h)), numbers, metric="profile", component=component)
            for t in study.target_numbers
        ]
    return rows + _norm_rows(study, view)


def _profile_of(tensor: np.ndarray, g: int) -> np.ndarray:
    return np.asarray(profile(tensor)[..., g])


def _norm_rows(study: Study, view: View) -> list[Score]:
    """‖profile‖: 0 only if all groups are as near; tested by permuting the labels of all groups."""

    def norm(x: np.ndarray) -> np.ndarray:
        return np.asarray(np.linalg.norm(x, axis=-1))

    drawn = norm(profile(view.null_all)).astype(np.float64)
    numbers = estimate_norm(view.targets, profile, norm, study.settings.confidence).with_null(drawn)
    # The null draws are float32: ties are equal to about seven digits of the cosines.
    reached = at_least_as_extreme(drawn, numbers.value, np.full(numbers.value.shape, 1e-6), "greater").sum(axis=0)
    n = len(drawn)
    p, error, low, high = sampled_p_value(reached, n)
    test = PermutationTest(numbers.value, p, False, n, error, "greater", p_low=low, p_high=high)
    rows = [
        target_row(
            study, view, t, Basis(MODALITIES, study.everyone), numbers, metric="profile", component="norm",
            **({} if np.isnan(numbers.value[t]) else {
                "test": "labels of all groups' images and words permuted, greater", **permuted(test, t),
            }),
        )
        for t in study.target_numbers
    ]  # fmt: skip
    return with_q_values(rows, f"profile: norm over {len(rows)} targets")
