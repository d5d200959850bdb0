"""How many concepts have images of one group alone, and how many would by chance."""

from __future__ import annotations

from dataclasses import dataclass
from math import nan
from typing import Final

import numpy as np
import scipy
from numpy.typing import ArrayLike

from clinometer.errors import InvalidInputError
from clinometer.metrics.distribution import whole_counts
from clinometer.metrics.verdict import FEWEST_IMAGES
from clinometer.stats.arguments import require_confidence
from clinometer.stats.permutation import sampled_p_value
from clinometer.stats.proportion import clopper_pearson, wilson_ends

DEALT: Final = 1_999
"""Tables with the margins of the observed one, drawn to learn how many concepts are of one value by chance."""

_BETA: Final = 0.001
"""The chance that a reader's error rates lie outside the region over which p is the largest; it is added to p."""


@dataclass(frozen=True)
class Concentration:
    """The number of C concepts whose images all have one value, and the number expected by chance.

    Attributes
    ----------
    group : (C,) the one group of each concept's images, from 0; −1 where there are several, or too few images.
    measured : (C,) whether a concept has enough images.
    chance : (C,) the probability that all of a concept's images are of one value at parity; NaN of too few.
    value, low, high : share of the measured concepts that are of one value, with Clopper and Pearson's interval.
    n, n_one : measured concepts, and those of one value.
    null, p : the expected share at parity, and the probability of as many or more there.
    null_pooled, p_pooled, p_pooled_error : the same where every concept has the shares of all of them together; the
        Monte-Carlo error of p is 0 where no table had to be drawn.
    reason : why there is no number.
    """

    group: np.ndarray
    measured: np.ndarray
    chance: np.ndarray
    value: float = nan
    low: float = nan
    high: float = nan
    n: int = 0
    n_one: int = 0
    null: float = nan
    p: float = nan
    null_pooled: float = nan
    p_pooled: float = nan
    p_pooled_error: float = nan
    reason: str = ""


def concentration(
    counts: ArrayLike, known: ArrayLike | None = None, *, fewest: int = FEWEST_IMAGES, confidence: float = 0.95
) -> Concentration:
    """Count the concepts whose images are all of one value, such as "20 of 20 read as women".

    ::

        at parity    N ~ Poisson-binomial(π_c),  π_c = Σ_r q_r^{n_c};  q_r = 1/K, or Σ_k M[k, r] / K as a reader sees it
        pooled       N of a random table with the observed margins, for which E N = Σ_c Σ_k C(m_k, n_c) / C(m, n_c)

    with n_c the images of concept c, m_k those of group k in all concepts, and p the probability of N or more. A model
    that draws nearly everything of one group has many such concepts at its own shares, and few at parity; one that
    draws each occupation of its own group exceeds both. The second null rests on no estimate of the shares: given
    the margins, tables are equally distributed whatever the shares are. For the first, M comes from labelled images,
    and p is the largest over the error rates that these allow (Berger and Boos 1994, β = .001, which is added). The
    interval is of the share that is expected where the same concepts are drawn again. Their probabilities differ, and
    N then varies less than the binomial that the interval is exact for (Hoeffding 1956).

    Parameters
    ----------
    counts : (C, K) images of each concept read as each group; what cannot be told is left out before.
    known : (K, K) images of a known group (row) that were read as another (column). None, or a group of which no
        image is known, takes the answers to be right.
    fewest : images that a concept needs to be counted.

    Raises
    ------
    InvalidInputError
        Counts of fewer than two groups, or that are no whole numbers.

    Examples
    --------
    >>> found = concentration([[20, 0], [0, 20], [12, 8], [9, 11], [3, 0]])
    >>> found.group.tolist(), found.n_one, found.n, round(found.value, 2), round(found.low, 2), round(found.high, 2)
    ([0, 1, -1, -1, -1], 2, 4, 0.5, 0.07, 0.93)
    >>> bool(found.chance[0] == 2 * 0.5**20), bool(found.p < 1e-10), round(found.p_pooled, 4)
    (True, True, 0.0005)
    """
    table = np.asarray(counts)
    table = np.array([whole_counts("counts", row) for row in table]) if table.ndim == 2 and len(table) else table
    if table.ndim != 2 or table.shape[1] < 2:
        raise InvalidInputError.expected_shape("(concepts, groups), two or more groups", table, field="counts")
    require_confidence(confidence)
    n, groups = table.sum(axis=1), table.shape[1]
    measured = n >= fewest
    is_one = measured & (table.max(axis=1, initial=0) == n)
    read_as, at_most = _parity_as_read(known, groups)
    chance = np.where(measured, (read_as[:, None] ** n).sum(axis=0), nan)
    group = np.where(is_one, table.argmax(axis=1), -1) if len(table) else np.zeros(0, int)
    total, ones = int(measured.sum()), int(is_one.sum())
    if not total:
        return Concentration(group, measured, chance, reason=f"no concept has {fewest} images that are read")
    low, high = clopper_pearson(ones, total, (1 - confidence) / 2)
    highest = np.minimum((at_most[:, None] ** n[measured]).sum(axis=0), 1.0)
    beta = 0.0 if (at_most == read_as).all() else _BETA
    p = min(1.0, float(scipy.stats.poisson_binom.sf(ones - 1, highest)) + beta) if ones else 1.0
    null_pooled, p_pooled, error = _compare_with_random_tables(table[measured])
    return Concentration(
        group, measured, chance, ones / total, float(low), float(high), total, ones,
        float(chance[measured].mean()), p, null_pooled, p_pooled, error,
    )  # fmt: skip


def _parity_as_read(known: ArrayLike | None, groups: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the shares (K,) that a reader sees in images at parity, and the largest that its labelled images allow.

    The upper ends put those of Wilson's intervals of the K error rates together as variances are (MOVER).
    """
    right = np.full(groups, 1 / groups)
    if known is None:
        return right, right
    table = np.asarray(known, np.float64)
    if table.shape != (groups, groups):
        raise InvalidInputError.expected_shape(f"({groups}, {groups})", table, field="known")
    labelled = table.sum(axis=1, keepdims=True)
    if not labelled.all():
        return right, right
    rates = table / labelled
    highest = wilson_ends(rates, labelled, 1 - 2 * _BETA / groups)[1]
    seen = rates.mean(axis=0)
    return seen, np.minimum(seen + np.linalg.norm(highest - rates, axis=0) / groups, 1.0)


def _compare_with_random_tables(table: np.ndarray) -> tuple[float, float, float]:
    """Return the expected share of rows of one value among tables with these margins, p, and its Monte-Carlo error."""
    n, columns = table.sum(axis=1), table.sum(axis=0)
    logs = scipy.special.gammaln
    choices = logs(columns + 1) - logs(np.maximum(columns - n[:, None], 0) + 1)
    of_one = np.where(columns >= n[:, None], choices - (logs(n.sum() + 1) - logs(n.sum() - n + 1))[:, None], -np.inf)
    null, ones = float(np.exp(of_one).sum(axis=1).mean()), int((table.max(axis=1) == n).sum())
    if not ones or np.count_nonzero(columns) < 2:
        return null, 1.0, 0.0
    rng, size = np.random.default_rng(0), max(1, 1_000_000 // table.size)
    as_many = 0
    for start in range(0, DEALT, size):
        dealt = scipy.stats.random_table(n, columns).rvs(min(size, DEALT - start), random_state=rng)
        as_many += int(((dealt.max(axis=2) == n).sum(axis=1) >= ones).sum())
    p, error, _, _ = sampled_p_value(np.array([as_many]), DEALT)
    return null, float(p[0]), float(error[0])
