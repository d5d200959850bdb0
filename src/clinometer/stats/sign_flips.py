"""Sign flips: the permutation test of pairs whose members may change places."""

from __future__ import annotations

import numpy as np

from clinometer.stats.permutation import EXACT_LIMIT, PermutationTest, permute_labels

SAMPLED_FLIPS = 99_999


def sign_flip_test(
    values: np.ndarray,
    *,
    n_permutations: int = SAMPLED_FLIPS,
    exact_limit: int = EXACT_LIMIT,
    rng: np.random.Generator | int | None = 0,
) -> PermutationTest:
    """Two-sided p of ``Σ_i x_i`` for m rows of values (m, n), had each ``x_i`` the sign + or − by chance.

    ::

        S(z) = mean_i z_i x_i,    z ∈ {−1, +1}ⁿ          p = #{z: |S(z)| ≥ |S(1)|} / 2ⁿ

    A flip is a relabelling of the pair (x_i, 0), so this is :func:`clinometer.stats.permutation.permute_labels` with a
    stratum a pair: every flip is counted up to n = 34 by meeting in the middle; beyond, ``n_permutations`` are drawn.
    The sign of all flips together changes no |S|: p is at least 2 / 2ⁿ.

    Raises
    ------
    InvalidInputError
        No values.
    """
    values = np.atleast_2d(np.asarray(values, np.float64))
    n = values.shape[1]
    pairs = np.zeros((len(values), 2 * n))
    pairs[:, ::2] = values
    return permute_labels(
        pairs,
        np.arange(2 * n) % 2 == 0,
        strata=np.repeat(np.arange(n), 2),
        n_permutations=n_permutations,
        exact_limit=exact_limit,
        rng=rng,
    )
