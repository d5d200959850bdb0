"""WEAT: whether two sets of targets associate differently with two sets of attributes.

Caliskan, Bryson & Narayanan (2017). SEAT and iEAT are the same formula over sentence and image embeddings.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from math import nan
from typing import Literal

import numpy as np

from clinometer.errors import InvalidInputError
from clinometer.stats.association import Array, association_scores
from clinometer.stats.permutation import (
    EXACT_LIMIT,
    MEET_IN_THE_MIDDLE_LIMIT,
    Alternative,
    PermutationTest,
    permute_labels,
    split_test,
)


@dataclass(frozen=True)
class Weat:
    """A WEAT result; positive: X is nearer to A than Y is.

    ``statistic`` and ``effect_size`` as in :func:`weat`; ``standard_error`` is the Monte-Carlo error of
    ``p_value``, 0 when ``exact``; ``n_splits`` the splits counted or drawn; ``reason`` says why a number is
    NaN.
    """

    statistic: float
    effect_size: float
    p_value: float
    exact: bool
    n_splits: int
    standard_error: float
    alternative: Alternative
    n_x: int
    n_y: int
    ddof: int
    reason: str = ""


def weat(
    x: Array,
    y: Array,
    a: Array,
    b: Array,
    *,
    alternative: Alternative = "greater",
    method: Literal["auto", "exact", "sampled"] = "auto",
    permutations: int = 9_999,
    rng: np.random.Generator | int | None = None,
    ddof: int = 1,
) -> Weat:
    """WEAT of target sets X, Y and attribute sets A, B; each (vectors × dim).

    ::

        statistic = mean_{x∈X} s(x, A, B) − mean_{y∈Y} s(y, A, B)       in [−4, 4]
        effect size = statistic / std_{w∈X∪Y} s(w, A, B)                ddof = 1 as Caliskan; WEFE uses 0

    (Caliskan's own statistic is ``Σ_X s − Σ_Y s``; for sets of equal size it is n times this one, with the
    same p.)

    p permutes the fixed numbers s(w) over all splits of X ∪ Y into the two sizes. The default alternative is
    the paper's: one-sided, ``"greater"``. ``method="auto"`` counts every split while there are at most 40
    targets (or 200,000 splits), and samples ``permutations`` of them beyond: ``p = (1 + #) / (1 + N)``, never
    0.

    Raises
    ------
    InvalidInputError
        Embeddings as in :func:`association_scores`; ``method="exact"`` with too many targets.

    Examples
    --------
    >>> x, y = np.array([[1.0, 0.1], [1.0, 0.0]]), np.array([[0.0, 1.0], [0.1, 1.0]])
    >>> result = weat(x, y, np.array([[1.0, 0.0]]), np.array([[0.0, 1.0]]))
    >>> result.p_value, result.exact, result.n_splits     # the observed split is the most extreme of C(4, 2)
    (0.16666666666666666, True, 6)
    """
    s_x = np.asarray(association_scores(x, a, b), np.float64)
    s_y = np.asarray(association_scores(y, a, b), np.float64)
    pool, in_x = np.concatenate([s_x, s_y]), np.arange(len(s_x) + len(s_y)) < len(s_x)
    test = _test(
        pool,
        in_x,
        alternative=alternative,
        method=method,
        permutations=permutations,
        rng=np.random.default_rng(rng),
    )
    statistic = float(s_x.mean() - s_y.mean())
    spread = float(pool.std(ddof=ddof)) if len(pool) > ddof else nan
    tied = not spread > 1e-12 * float(np.abs(pool).max())
    return Weat(
        statistic=statistic,
        effect_size=nan if tied else statistic / spread,
        p_value=float(test.p_value[0]),
        exact=test.exact,
        n_splits=test.n_splits,
        standard_error=float(test.standard_error[0]),
        alternative=alternative,
        n_x=len(s_x),
        n_y=len(s_y),
        ddof=ddof,
        reason="all targets associate alike: no spread to divide by" if tied else "",
    )


def _test(
    pool: np.ndarray,
    in_x: np.ndarray,
    *,
    alternative: Alternative,
    method: str,
    permutations: int,
    rng: np.random.Generator,
) -> PermutationTest:
    if method not in ("auto", "exact", "sampled"):
        raise InvalidInputError(f"method: expected auto, exact or sampled, found {method!r}")
    if method != "sampled" and len(pool) <= MEET_IN_THE_MIDDLE_LIMIT:
        return split_test(pool[None], in_x, alternative=alternative)
    countable = math.comb(len(pool), int(in_x.sum())) <= EXACT_LIMIT
    if method == "exact" and not countable:
        raise InvalidInputError(
            f"method: {len(pool)} targets have too many splits to count (at most "
            f"{MEET_IN_THE_MIDDLE_LIMIT} targets); use 'auto' or 'sampled'"
        )
    limit = EXACT_LIMIT if method != "sampled" else 0
    return permute_labels(
        pool[None], in_x, alternative=alternative, n_permutations=permutations, exact_limit=limit, rng=rng
    )
