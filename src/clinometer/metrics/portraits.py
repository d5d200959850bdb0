"""Differences between two runs on the same portraits, of which both runs measure every one.

All that is compared is a weighted sum over groups of portraits of their means, ``θ = Σ_g w_g mean_{i∈g} v_i``: a
group's own rate, or the difference between two groups. See decision 21.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import isfinite
from typing import Any

import numpy as np

from clinometer.metrics.differences import METRIC, magnitude_row, not_measured, with_reasons
from clinometer.metrics.records import Score, permuted
from clinometer.stats.bootstrap import magnitude_excess
from clinometer.stats.clusters import contrast, mean_difference, share_difference
from clinometer.stats.permutation import PermutationTest, permute_labels, permute_statistic
from clinometer.stats.proportion import Estimate

SWAPPED = "runs swapped portrait by portrait, two-sided"
DEALT = "portraits of each group shuffled between the runs, two-sided"


@dataclass(frozen=True)
class PortraitPair:
    """The measurements of two runs on portraits.

    Attributes
    ----------
    first, second : by group, (portraits × columns) numbers; NaN where a portrait has none.
    paired : the i-th portraits of a group belong together: they are one picture, or were drawn from one noise.
    left_out : by group, for each column the names of what its numbers leave out, because one run has nothing of it.
    """

    first: Mapping[str, np.ndarray]
    second: Mapping[str, np.ndarray]
    paired: bool
    left_out: Mapping[str, Sequence[Collection[str]]] = field(default_factory=dict)

    def columns(self, *chosen: int) -> PortraitPair:
        """Return a copy with some of the columns."""
        first, second = (
            {group: values[:, list(chosen)] for group, values in run.items()} for run in (self.first, self.second)
        )
        left_out = {group: [names[at] for at in chosen] for group, names in self.left_out.items()}
        return PortraitPair(first, second, self.paired, left_out)

    def lacking(self, groups: Collection[str]) -> str:
        """Return the names of what the numbers of these groups leave out."""
        lists = [names for group in groups for names in self.left_out.get(group, ())]
        return ", ".join(dict.fromkeys(name for names in lists for name in names))


def difference_row(
    pair: PortraitPair,
    weights: Mapping[str, float],
    component: str,
    *,
    answers: int | None,
    n_permutations: int,
    rng: np.random.Generator,
    confidence: float = 0.95,
    **named: Any,
) -> Score:
    """``Δ = θ(second) − θ(first)`` of one column, its interval, and p under the null that the models do alike.

    Shares of ``answers`` yes-or-no answers a portrait; means of anything where that is None. ``n_target`` counts
    portraits, of both runs where they are not paired.
    """
    parts = [
        mean_difference(pair.first[group][:, 0], pair.second[group][:, 0], paired=pair.paired, confidence=confidence)
        if answers is None
        else share_difference(
            pair.first[group][:, 0], pair.second[group][:, 0], answers, paired=pair.paired, confidence=confidence
        )
        for group in weights
    ]
    row = _note_what_lacks(_row(contrast(parts, list(weights.values())), component, **named), pair.lacking(weights))
    pool = _pool(pair, list(weights))
    if pool is None:
        return row
    test = permute_labels(
        (pool.values * np.array([[weights[group]] for group in pool.groups])).T, pool.second, strata=pool.strata,
        blocks=pool.groups, n_permutations=n_permutations, rng=rng,
    )  # fmt: skip
    return _add_test(row, test, paired=pair.paired)


def portrait_magnitude(
    pair: PortraitPair,
    weights: Mapping[str, np.ndarray],
    *,
    n_permutations: int,
    rng: np.random.Generator,
    confidence: float = 0.95,
) -> Score:
    """Return which run leans more: ``mean_c |θ_c(second)| − mean_c |θ_c(first)|`` over the columns c.

    ``weights`` has a number a column for each group. Portraits that miss a column count in none. The interval holds the
    signs of the estimates; the test does not. The ends are moved outwards by what either run's magnitude may owe to
    columns near 0 (``magnitude_excess``).
    """
    pool = _pool(pair, list(weights))
    about: dict[str, Any] = {"component": "magnitude", "category": "all"}
    if pool is None:
        reason = "no two groups to compare have portraits that both runs measure"
        return not_measured(Score(metric=METRIC, reason=reason, **about))
    terms = pool.values * np.array([weights[group] for group in pool.groups])
    of_second, of_first = (
        terms / np.array([np.sum(pool.groups[side] == group) for group in pool.groups])[:, None]
        for side in (pool.second, ~pool.second)
    )

    def differ(members: np.ndarray) -> np.ndarray:
        seconds = members.astype(np.float64)
        return np.asarray(np.abs(seconds @ of_second).mean(axis=1) - np.abs((1 - seconds) @ of_first).mean(axis=1))

    signs = [np.sign((1 - pool.second) @ of_first), np.sign(pool.second @ of_second)]
    differences = [
        mean_difference(
            terms[~pool.second & inside] @ signs[0] / len(signs[0]),
            terms[pool.second & inside] @ signs[1] / len(signs[1]),
            paired=pair.paired,
            confidence=confidence,
        )
        for group in weights
        for inside in [pool.groups == group]
    ]
    row = _row(contrast(differences, [1.0] * len(differences)), **about)
    tolerance = 1e-10 * float(np.abs(of_second).sum() + np.abs(of_first).sum())
    test = permute_statistic(
        differ, pool.second, pool.strata, tolerance=tolerance, n_permutations=n_permutations, rng=rng
    )
    row = _note_what_lacks(_add_test(row, test, paired=pair.paired), pair.lacking(weights))
    return magnitude_row(row, [_excess(terms[side], pool.groups[side]) for side in (~pool.second, pool.second)])


def _excess(terms: np.ndarray, groups: np.ndarray) -> float:
    """Return by how much a run's mean magnitude may be too large, from its portraits' (n × columns) terms."""
    by_group = [terms[groups == group] for group in dict.fromkeys(groups.tolist())]
    with np.errstate(divide="ignore", invalid="ignore"):
        error = np.sqrt(sum(rows.var(axis=0, ddof=1) / len(rows) if len(rows) > 1 else np.nan for rows in by_group))
    return float(magnitude_excess(sum(rows.mean(axis=0) for rows in by_group), error).mean())


@dataclass(frozen=True)
class _Pool:
    """The portraits of both runs: (items × columns) values, whose run and group each is, and what changes places."""

    values: np.ndarray
    second: np.ndarray
    groups: np.ndarray
    strata: np.ndarray


def _pool(pair: PortraitPair, groups: list[str]) -> _Pool | None:
    """Concatenate both runs' portraits by group, without those that miss a number and their partners.

    None where there is no group, or one without a portrait.
    """
    values, second, names, strata = [], [], [], []
    for order, group in enumerate(groups):
        runs = [pair.first[group], pair.second[group]]
        whole = [np.isfinite(run).all(axis=1) for run in runs]
        if pair.paired:
            whole = [whole[0] & whole[1]] * 2
        portraits = [run[mask] for run, mask in zip(runs, whole, strict=True)]
        if not all(map(len, portraits)):
            return None
        for is_second, rows in enumerate(portraits):
            values.append(rows)
            second += [bool(is_second)] * len(rows)
            names += [group] * len(rows)
            strata += [(order, at if pair.paired else 0) for at in range(len(rows))]
    numbers = {key: number for number, key in enumerate(dict.fromkeys(strata))}
    if not values:
        return None
    return _Pool(
        np.concatenate(values), np.array(second), np.array(names), np.array([numbers[key] for key in strata])
    )  # fmt: skip


def _row(estimate: Estimate, component: str, **named: Any) -> Score:
    return Score(
        metric=METRIC, component=component, value=estimate.value, low=estimate.low, high=estimate.high,
        n_target=estimate.n, reason=estimate.reason, **named,
    )  # fmt: skip


def _note_what_lacks(row: Score, lacking: str) -> Score:
    """Note what a number leaves out, or why there is no number."""
    if not lacking:
        return row
    if not isfinite(row.value):
        return replace(row, reason=f"nothing was measured in one of the runs: {lacking}")
    return with_reasons(row, f"left out, as one of the runs has nothing of it: {lacking}")


def _add_test(row: Score, test: PermutationTest, *, paired: bool) -> Score:
    return replace(row, test=SWAPPED if paired else DEALT, **permuted(test))
