"""Certified p-value of a difference of means: every split counted, on a grid, with a proven bracket.

Past meeting in the middle the C(n, k) splits cannot be listed, but they can be counted by the sum they reach. The
scores y, shifted to start at 0, are rounded to whole cells of width h::

    y_i = min y + h (f_i + r_i)        f_i whole, |r_i| ≤ 1/2
    Σ_{i∈A} y_i = k min y + h (Σ f_i + ρ),        ρ between the sums of the k smallest and of the k largest r_i

The number of sets of j items with ``Σ f = s`` follows item by item, ``N(j, s) += N(j − 1, s − f_i)``. Splits with
``Σ f`` beyond the level by the largest rounding are surely as extreme as the observed one, those short of it by more
than the rounding surely not: the exact p lies between the two counts. Only non-negative numbers are added, so each
count is right to a relative n·2⁻⁵³ however small it is: p = 1e-30 is a number, as it is not by a Fourier transform,
whose rounding is relative to the largest count (the recursion for integer scores: Pagano & Tritchler 1983, *On
obtaining permutation distributions in polynomial time*).

:func:`fixed_values_test` counts every split where it can, brackets p so beyond, and draws splits last. See decision 7.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np

from clinometer.errors import InvalidInputError
from clinometer.stats.arguments import require_choice
from clinometer.stats.permutation import (
    EXACT_LIMIT,
    MEET_IN_THE_MIDDLE_LIMIT,
    PermutationTest,
    membership_statistic,
    permute_labels,
    split_test,
    validated_labels,
)
from clinometer.stats.splits import Alternative

CERTIFIED_LIMIT = 1_000
"""Items; C(1000, 500) = 2.7e299 is still a float64."""

RESOLUTION = 0.05
"""Standard deviations of the permuted statistic that the grid may leave open, for :func:`is_certifiable`."""

_TABLE = 16_000_000  # numbers N(j, s) kept: 128 MB
_SLACK = 1e-6  # of a cell: far above the rounding of a sum of cells
_ROUNDING = 1e-12  # relative; n·2⁻⁵³ is 1.1e-13 at a thousand items


def certified_split_test(
    values: np.ndarray, labels: np.ndarray, *, alternative: Alternative = "two-sided", table: int = _TABLE
) -> PermutationTest:
    """Bracket the exact p of ``mean_A − mean_B`` over all C(n, n_A) splits of one pool; n ≤ 1000.

    Parameters
    ----------
    values : (m, n) m rows of item values that share their labels.
    labels : (n,) bool, true for A.
    table : numbers in the table; more make the bracket tighter, in proportion, and the count slower.

    Returns
    -------
    PermutationTest
        with the exact p of each row in [``p_low``, ``p_high``], surely rather than with some confidence. ``p_value``
        is ``p_high``: a p that never understates, so that the test keeps its level however wide the bracket.
        ``exact`` is false unless every bracket closes; ``standard_error`` is 0, nothing being drawn.

    Raises
    ------
    InvalidInputError
        Shapes that do not match, no item of A or of B, more than 1000 items.
    """
    values, labels = validated_labels(values, labels, None, alternative)
    if len(labels) > CERTIFIED_LIMIT:
        raise InvalidInputError.too_many(
            f"at most {CERTIFIED_LIMIT} items for a certified p, found {len(labels)}", field="labels"
        )
    statistic = membership_statistic(values, labels)
    observed = statistic(labels[None, :])[0]
    size = int(labels.sum())
    brackets = [
        _bracket(y, size, float(s_obs), float(tolerance), alternative, table)
        if np.isfinite(s_obs)
        else (np.nan, np.nan)
        for y, s_obs, tolerance in zip(statistic.y, observed, statistic.tolerance, strict=True)
    ]
    low, high = np.array(brackets).T
    is_finite = np.isfinite(observed)
    closed = bool(is_finite.all() and (low == high).all())
    reason = "" if is_finite.all() else "a value is NaN"
    error = np.where(is_finite, 0.0, np.nan)
    n_splits = math.comb(len(labels), size)
    return PermutationTest(observed, high, closed, n_splits, error, alternative, reason, low, high, certified=True)


def is_certifiable(values: np.ndarray, size: int, table: int = _TABLE) -> bool:
    """Return whether a grid for sets of ``size`` of the values (n,) is fine enough for a useful bracket.

    ::

        h (Σ k largest r − Σ k smallest r) ≤ 0.05 σ        σ = √(k (n − k) / (n − 1)) · min(sd, IQR / 1.349)

    with σ the standard deviation of a set's sum over all splits, by the quartiles where an outlier rules the sd: it
    would take all cells and leave none to the other values. The rule sees the pooled values and the sizes but
    never the labels, so choosing by it between a certified and a sampled p leaves the level of the test as it is.
    """
    values = np.asarray(values, np.float64)
    n = len(values)
    if n > CERTIFIED_LIMIT or not np.isfinite(values).all():
        return False
    if np.ptp(values) == 0:
        return True
    if 2 * size > n:  # as in the count: the smaller set, its scores turned
        values, size = -values, n - size
    grid = _grid(values, size, table)
    spread = min(float(values.std()), float(np.subtract(*np.percentile(values, [75, 25]))) / 1.349)
    deviation = math.sqrt(size * (n - size) / (n - 1)) * spread
    return (grid.most - grid.least) * grid.width <= RESOLUTION * deviation


@dataclass(frozen=True)
class _Grid:
    """Scores in whole cells of ``width``, and what rounding may add to the sum of a set's cells."""

    width: float
    cells: np.ndarray
    least: float
    most: float


def _grid(y: np.ndarray, size: int, table: int) -> _Grid:
    z = y - y.min()
    steps = float(z.max() / np.sort(z)[-size:].sum()) * (table // (size + 1) - size)
    width = float(z.max()) / max(int(steps), 1)  # whole steps to the largest score: two-valued scores stay exact
    cells = np.rint(z / width)
    rest = np.sort(z / width - cells)
    return _Grid(width, cells.astype(np.int64), float(rest[:size].sum()), float(rest[-size:].sum()))


def _bracket(
    y: np.ndarray, size: int, observed: float, tolerance: float, alternative: Alternative, table: int
) -> tuple[float, float]:
    if np.ptp(y) == 0 or (alternative == "two-sided" and abs(observed) <= tolerance):
        return 1.0, 1.0  # every split is as extreme
    if 2 * size > len(y):  # B is the smaller set: Σ_A y = Σ y − Σ_B y, and Σ y = 0 once centred
        y, size = -(y - y.mean()), len(y) - size
    grid = _grid(y, size, table)
    width, least, most = grid.width, grid.least, grid.most
    counts = _counts_by_sum(grid.cells, size)
    sums = np.arange(len(counts))
    level = abs(observed) if alternative == "two-sided" else observed
    surely, maybe = np.zeros(len(counts), bool), np.zeros(len(counts), bool)
    if alternative in ("two-sided", "greater"):
        at = (level - tolerance - size * y.min()) / width
        surely |= sums + least >= at + _SLACK
        maybe |= sums + most >= at - _SLACK
    if alternative in ("two-sided", "less"):
        below = -level if alternative == "two-sided" else level
        at = (below + tolerance - size * y.min()) / width
        surely |= sums + most <= at - _SLACK
        maybe |= sums + least <= at + _SLACK
    n_splits = math.comb(len(y), size)
    # the observed split is one of the extreme ones, whatever the grid says
    low = max(float(counts[surely].sum()) / n_splits * (1 - _ROUNDING), 1 / n_splits)
    return low, min(max(float(counts[maybe].sum()) / n_splits * (1 + _ROUNDING), low), 1.0)


def _counts_by_sum(cells: np.ndarray, size: int) -> np.ndarray:
    """Count how many sets of ``size`` items have each sum of cells 0, 1, …: (largest sum + 1,) float64."""
    cells = np.sort(cells)[::-1]
    reach = np.concatenate([[0], np.cumsum(cells[:size])]) + 1  # sums that j items can have
    table = np.zeros((size + 1, int(reach[-1])))
    table[0, 0] = 1
    for done, cell in enumerate(cells):
        fewest = max(1, size - (len(cells) - done - 1))  # fewer could no longer grow to size
        for count in range(min(size, done + 1), fewest - 1, -1):
            end = int(reach[count - 1])
            stop = min(end, table.shape[1] - int(cell))
            table[count, cell : cell + stop] += table[count - 1, :stop]
    return np.asarray(table[size])


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
    require_choice("method", method, ("auto", "exact", "sampled"))
    values = np.zeros_like(values) if np.ptp(values) <= rounding else values
    n, size = len(values), int(np.sum(labels))
    countable = math.comb(n, size) <= EXACT_LIMIT
    if method != "sampled" and n <= MEET_IN_THE_MIDDLE_LIMIT:
        return split_test(values[None], labels, alternative=alternative)
    if method == "exact" and not countable:
        raise InvalidInputError.too_many(
            f"{n} {items} have too many splits to count (at most {MEET_IN_THE_MIDDLE_LIMIT} {items}); "
            "use 'auto' or 'sampled'",
            field="method",
        )
    if method == "auto" and not countable and is_certifiable(values, size):
        return certified_split_test(values[None], labels, alternative=alternative)
    limit = EXACT_LIMIT if method != "sampled" else 0
    return permute_labels(
        values[None], labels, alternative=alternative, n_permutations=permutations, exact_limit=limit, rng=rng
    )
