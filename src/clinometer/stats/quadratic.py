"""Permutation test of a statistic that is quadratic in the labels.

Items i, j of two sets X and Y have a table G, and the statistic is the difference of the sets' own block means::

    S(m) = mean_{i,j∈X} G_ij − mean_{i,j∈Y} G_ij,       m the 0/1 membership of X

With ``n_x, n_y`` the sizes, ``r = G·1 + Gᵀ·1`` and ``T`` the sum of G, the complement's block is
``(1−m)ᵀG(1−m) = T − m·r + mᵀGm``, so a split costs one product with G::

    S(m) = (1/n_x² − 1/n_y²) mᵀGm + (m·r − T) / n_y²

The exact count enumerates every split. Meeting in the middle, which lists the sums of each half of the items apart,
has no counterpart here: ``mᵀGm`` ties the halves together.
"""

from __future__ import annotations

import math
from typing import Literal, get_args

import numpy as np

from clinometer.errors import InvalidInputError
from clinometer.stats.permutation import (
    EXACT_LIMIT,
    Alternative,
    PermutationTest,
    at_least_as_extreme,
    enumerate_memberships,
    sample_memberships,
)

Method = Literal["auto", "exact", "sampled"]


def quadratic_permutation_test(
    gram: np.ndarray,
    *,
    sizes: tuple[int, int],
    alternative: Alternative = "two-sided",
    method: Method = "auto",
    permutations: int = 99_999,
    rng: np.random.Generator | int | None = None,
) -> PermutationTest:
    """Test whether the split of items into X and Y matters; see the module for S and its derivation.

    Parameters
    ----------
    gram : (n, n) the table G; the first ``sizes[0]`` items are X's. Need not be symmetric.
    sizes : numbers of items of X and of Y, kept by every split; at least 1 each.
    method : ``"auto"`` counts every split while there are at most 200,000, and samples beyond; ``"exact"`` counts them,
        ``"sampled"`` draws them.
    permutations, rng : how many splits are drawn, and from what: ``p = (1 + #) / (1 + N)``, never 0.

    Returns
    -------
    PermutationTest
        With arrays of length 1. p is NaN, with a reason, where G is not finite.

    Raises
    ------
    InvalidInputError
        Shapes that do not match, an unknown option, or ``method="exact"`` with too many splits.

    Examples
    --------
    >>> gram = np.diag([1.0, 1.0, 0.0, 0.0])
    >>> test = quadratic_permutation_test(gram, sizes=(2, 2))
    >>> test.statistic, test.p_value, test.n_splits     # this split and its mirror, of C(4, 2)
    (array([0.5]), array([0.33333333]), 6)
    """
    gram, n_splits = _validate(gram, sizes, alternative, method, permutations)
    labels, strata = np.arange(len(gram)) < sizes[0], np.zeros(len(gram), int)
    observed = _statistics(gram, labels[None], sizes)
    if not np.isfinite(observed).all():
        unknown = np.full(1, np.nan)
        return PermutationTest(observed, unknown, False, 0, unknown, alternative, "a value is NaN")
    exact = method == "exact" or (method == "auto" and n_splits <= EXACT_LIMIT)
    memberships = (
        enumerate_memberships(labels, strata)
        if exact
        else sample_memberships(labels, strata, permutations, np.random.default_rng(rng))
    )
    tolerance = np.array([1e-10 * np.abs(gram).max() + 1e-300])  # far above rounding, far below any real difference
    extreme = sum(
        int(at_least_as_extreme(_statistics(gram, m, sizes), observed, tolerance, alternative).sum())
        for m in memberships
    )
    drawn = n_splits if exact else permutations
    p = extreme / drawn if exact else (1 + extreme) / (1 + drawn)
    error = 0.0 if exact else math.sqrt(p * (1 - p) / (drawn + 1))
    return PermutationTest(observed, np.array([p]), exact, drawn, np.array([error]), alternative)


def _statistics(gram: np.ndarray, members: np.ndarray, sizes: tuple[int, int]) -> np.ndarray:
    """S of (splits × n) memberships: (splits,)."""
    m = members.astype(np.float64)
    block = np.einsum("si,si->s", m @ gram, m)
    n_x, n_y = sizes
    linear = m @ (gram.sum(axis=0) + gram.sum(axis=1))
    found: np.ndarray = block * (1 / n_x**2 - 1 / n_y**2) + (linear - gram.sum()) / n_y**2
    return found


def _validate(
    gram: np.ndarray, sizes: tuple[int, int], alternative: str, method: str, permutations: int
) -> tuple[np.ndarray, int]:
    """The table as float64, and the number of splits."""
    gram = np.asarray(gram, np.float64)
    if gram.ndim != 2 or gram.shape != (sum(sizes), sum(sizes)) or min(sizes) < 1:
        raise InvalidInputError(
            f"gram and sizes: expected (n × n) and two sizes of at least 1 that add up to n, found shape {gram.shape} "
            f"and {tuple(sizes)}"
        )
    for name, found, known in (("alternative", alternative, Alternative), ("method", method, Method)):
        if found not in get_args(known):
            raise InvalidInputError(f"{name}: expected one of {', '.join(get_args(known))}, found {found!r}")
    n_splits = math.comb(len(gram), sizes[0])
    if method == "exact" and n_splits > EXACT_LIMIT:
        raise InvalidInputError(
            f"method: {n_splits:,} splits are too many to count (at most {EXACT_LIMIT:,}); use 'auto' or 'sampled'"
        )
    if permutations < 1:
        raise InvalidInputError(f"permutations: expected at least 1, found {permutations}")
    return gram, n_splits
