"""The permutation test of fixed values: exact where splits can be counted, certified beyond, sampled last."""

from __future__ import annotations

import math
from typing import Literal, TypeAlias

import numpy as np

from clinometer.errors import InvalidInputError
from clinometer.stats.certified import certified_split_test, is_certifiable
from clinometer.stats.permutation import (
    EXACT_LIMIT,
    MEET_IN_THE_MIDDLE_LIMIT,
    PermutationTest,
    permute_labels,
    split_test,
)
from clinometer.stats.splits import Alternative

Method: TypeAlias = Literal["auto", "exact", "sampled"]


def fixed_values_test(
    values: np.ndarray,
    labels: np.ndarray,
    *,
    alternative: Alternative = "two-sided",
    method: Method = "auto",
    permutations: int = 9_999,
    rounding: float = 0.0,
    rng: np.random.Generator | int | None = 0,
    items: str = "items",
) -> PermutationTest:
    """Test ``mean_A − mean_B`` of one row of values (n,) over the splits of their pool.

    ``method="auto"`` counts every split up to 40 items, or up to 200,000 splits; beyond, it brackets p with proof
    where :func:`clinometer.stats.certified.is_certifiable` says that the grid is fine enough, and else draws
    ``permutations`` splits. ``items`` names them in errors. Values that differ by ``rounding`` at most are the same, so
    that every split is as extreme and p is 1: what is left of differences that cancel has no sign to permute.

    Raises
    ------
    InvalidInputError
        An unknown method, ``"exact"`` of too many splits, or what :func:`permute_labels` refuses.
    """
    if method not in ("auto", "exact", "sampled"):
        raise InvalidInputError(f"method: expected auto, exact or sampled, found {method!r}")
    values = np.zeros_like(values) if np.ptp(values) <= rounding else values
    n, size = len(values), int(np.sum(labels))
    countable = math.comb(n, size) <= EXACT_LIMIT
    if method != "sampled" and n <= MEET_IN_THE_MIDDLE_LIMIT:
        return split_test(values[None], labels, alternative=alternative)
    if method == "exact" and not countable:
        raise InvalidInputError(
            f"method: {n} {items} have too many splits to count (at most {MEET_IN_THE_MIDDLE_LIMIT} {items}); "
            "use 'auto' or 'sampled'"
        )
    if method == "auto" and not countable and is_certifiable(values, size):
        return certified_split_test(values[None], labels, alternative=alternative)
    limit = EXACT_LIMIT if method != "sampled" else 0
    return permute_labels(
        values[None], labels, alternative=alternative, n_permutations=permutations, exact_limit=limit, rng=rng
    )
