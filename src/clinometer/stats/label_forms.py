"""Permutation tests of a linear and of a quadratic form of the labels, with up to any number of splits.

The linear form is a difference of means. Past meeting in the middle the C(n, k) splits cannot be listed, but they can
be counted by the sum they reach. The scores y, shifted to start at 0, are rounded to whole cells of width h::

    y_i = min y + h (f_i + r_i)        f_i whole, |r_i| ≤ 1/2
    Σ_{i∈A} y_i = k min y + h (Σ f_i + ρ),        ρ between the sums of the k smallest and of the k largest r_i

The number of sets of j items with ``Σ f = s`` follows item by item, ``N(j, s) += N(j − 1, s − f_i)``. Splits with
``Σ f`` beyond the level by the largest rounding are surely as extreme as the observed one, those short of it by more
than the rounding surely not: the exact p lies between the two counts. Only non-negative numbers are added, so each
count is right to a relative n·2⁻⁵³ however small it is: p = 1e-30 is a number, as it is not by a Fourier transform,
whose rounding is relative to the largest count (the recursion for integer scores: Pagano & Tritchler 1983, *On
obtaining permutation distributions in polynomial time*).

:func:`fixed_values_test` counts every split where it can, brackets p so beyond, and draws splits last. See decision 7.

The form is quadratic where all images of a prompt move with it.

With ``u_p`` the mean of prompt p's neutral images, ``a_q``, ``b_q`` those of its attribute images and ``G_pq = u_p ·
(a_q − b_q)``, the differential association of a split (X, Y) of the prompts is::

    S(X, Y) = mean_{p,q∈X} G_pq − mean_{p,q∈Y} G_pq

Only the symmetric part of G enters. With m the 0/1 membership of X, H = (G + Gᵀ)/2 and r = H1::

    S(m) = (1/x² − 1/y²) mᵀHm + (2/y²) r·m − (1ᵀH1)/y²        x, y: sizes of X and Y

which is linear for sets of equal size: then every exact method of :mod:`clinometer.stats.permutation` applies, and
beyond them the proven bracket. For unequal sizes the quadratic term stays, and no meet in the middle is known to us:
past enumeration, splits are sampled.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from itertools import combinations, islice
from typing import Literal, TypeAlias

import numpy as np

from clinometer._cores import available_cores
from clinometer.errors import InvalidInputError
from clinometer.stats import permutation
from clinometer.stats.arguments import generator, require_choice
from clinometer.stats.association import matmul

CERTIFIED_LIMIT = 1_000
"""Items; C(1000, 500) = 2.7e299 is still a float64."""

RESOLUTION = 0.05
"""Standard deviations of the permuted statistic that the grid may leave open, for :func:`is_certifiable`."""

_TABLE = 16_000_000  # numbers N(j, s) kept: 128 MB
_SLACK = 1e-6  # of a cell: far above the rounding of a sum of cells
_ROUNDING = 1e-12  # of a count (n·2⁻⁵³ is 1.1e-13 at a thousand items), or of the largest number of a gram


def certified_split_test(
    values: np.ndarray, labels: np.ndarray, *, alternative: permutation.Alternative = "two-sided", table: int = _TABLE
) -> permutation.PermutationTest:
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
    values, labels = permutation.validated_labels(values, labels, None, alternative)
    if len(labels) > CERTIFIED_LIMIT:
        raise InvalidInputError.too_many(
            f"at most {CERTIFIED_LIMIT} items for a certified p, found {len(labels)}", field="labels"
        )
    statistic = permutation.membership_statistic(values, labels)
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
    return permutation.PermutationTest(
        observed, high, closed, n_splits, error, alternative, reason, low, high, certified=True
    )


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
    y: np.ndarray, size: int, observed: float, tolerance: float, alternative: permutation.Alternative, table: int
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
    alternative: permutation.Alternative = "two-sided",
    method: Method = "auto",
    permutations: int = 9_999,
    rounding: float = 0.0,
    rng: np.random.Generator | int | None = 0,
    items: str = "items",
) -> permutation.PermutationTest:
    """Test ``mean_A − mean_B`` of one row of values (n,) over the splits of their pool.

    ``method="auto"`` counts every split up to 40 items, or up to 200,000 splits; beyond, it brackets p with proof
    where :func:`clinometer.stats.label_forms.is_certifiable` says that the grid is fine enough, and else draws
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
    countable = math.comb(n, size) <= permutation.EXACT_LIMIT
    if method != "sampled" and n <= permutation.MEET_IN_THE_MIDDLE_LIMIT:
        return permutation.split_test(values[None], labels, alternative=alternative)
    if method == "exact" and not countable:
        raise InvalidInputError.too_many(
            f"{n} {items} have too many splits to count (at most {permutation.MEET_IN_THE_MIDDLE_LIMIT} {items}); "
            "use 'auto' or 'sampled'",
            field="method",
        )
    if method == "auto" and not countable and is_certifiable(values, size):
        return certified_split_test(values[None], labels, alternative=alternative)
    limit = permutation.EXACT_LIMIT if method != "sampled" else 0
    return permutation.permute_labels(
        values[None], labels, alternative=alternative, n_permutations=permutations, exact_limit=limit, rng=rng
    )


EXACT_SPLITS = 1_000_000
"""Splits of sets of unequal size that are enumerated."""

_BLOCK = 16_384
_AT_ONCE = 8
"""Blocks that are counted side by side, at most: each holds its splits in memory."""

_Block = Callable[[], np.ndarray]
"""Makes some splits: (splits × P) bool. A call, so that the workers draw the splits as well as judge them."""


def quadratic_statistic(gram: np.ndarray, members: np.ndarray) -> np.ndarray:
    """``S`` of every split: gram (P × P), members (splits × P) 0/1 → (splits,); see the module."""
    total = len(gram)
    chosen = members.astype(np.float64)
    x = chosen.sum(axis=1)
    y = total - x
    symmetric = (gram + gram.T) / 2
    within = np.einsum("sp,sp->s", chosen @ symmetric, chosen)
    rest = symmetric.sum() - 2 * chosen @ symmetric.sum(axis=1) + within
    return np.asarray(within / x**2 - rest / y**2)


def quadratic_permutation_test(
    gram: np.ndarray,
    sizes: tuple[int, int],
    *,
    alternative: permutation.Alternative = "two-sided",
    method: Literal["auto", "exact", "sampled"] = "auto",
    permutations: int = 99_999,
    rounding: float = 0.0,
    rng: np.random.Generator | int | None = 0,
) -> permutation.PermutationTest:
    """Test whether the split of P prompts in X (the first ``sizes[0]``) and Y (the others) matters.

    Parameters
    ----------
    gram : (P, P) ``G_pq``, the association of prompt p's neutral images with prompt q's attribute images.
    sizes : prompts in X and in Y; kept under permutation.
    method : ``"auto"`` counts every split where it can: sets of equal size of up to 40 prompts together by meeting in
        the middle, others up to a million splits; it brackets p for larger sets of equal size (``certified``), and
        else samples ``permutations`` random splits.
    rounding : by how much numbers of ``gram`` may differ and be the same, at least 1e-12 of the largest. Where they are
        all the same, S is 0 in every split and p is 1; their rounding is no difference to permute.

    Returns
    -------
    PermutationTest
        of one statistic; NaN with its reason where ``gram`` is not finite.

    Raises
    ------
    InvalidInputError
        A gram that is not square or does not match ``sizes``, an empty set, ``"exact"`` of too many splits, or fewer
        than one split to draw.
    """
    gram = np.asarray(gram, np.float64)
    x, y = _validate(gram, sizes, alternative, method)
    observed_split = np.arange(x + y) < x
    if not np.isfinite(gram).all():
        nothing = np.array([np.nan])
        return permutation.PermutationTest(
            nothing, nothing, False, 0, nothing, alternative, "a value is NaN", nothing, nothing
        )
    rounding = max(rounding, _ROUNDING * float(np.abs(gram).max()))
    symmetric = (gram + gram.T) / 2
    gram = _unless_rounding(symmetric - symmetric.mean(), rounding)  # which changes no S and leaves less to cancel
    observed = quadratic_statistic(gram, observed_split[None])
    if method != "sampled" and x == y and x + y <= permutation.MEET_IN_THE_MIDDLE_LIMIT:
        # S(m) = (2/x²) r·m − const is a difference of means of r / x: mean_X r − mean_Y r = (2 r·m − Σr) / x
        rows = _unless_rounding(gram.sum(axis=1), len(gram) * rounding)
        test = permutation.split_test(rows[None] / x, observed_split, alternative=alternative)
        return replace(test, statistic=observed)
    if method == "auto" and x == y and math.comb(x + y, x) > EXACT_SPLITS:
        rows = _unless_rounding(gram.sum(axis=1), len(gram) * rounding)
        if is_certifiable(rows / x, x):
            test = certified_split_test(rows[None] / x, observed_split, alternative=alternative)
            return replace(test, statistic=observed)
    n_splits = math.comb(x + y, x)
    exact = method == "exact" or (method == "auto" and n_splits <= EXACT_SPLITS)
    if exact and n_splits > 50 * EXACT_SPLITS:
        raise InvalidInputError.too_many(
            f"{n_splits:.3g} splits of {x} + {y} prompts are too many to count; use 'auto' or 'sampled'", field="method"
        )
    if not exact:
        permutation.require_permutations(permutations)
    # float32 decides all but the splits near the observed value, which are counted again in float64
    scale = float(np.abs(gram).max()) or 1.0
    blocks = _all_splits(x + y, x) if exact else _random_splits(x + y, x, permutations, generator(rng))
    extreme = _count_extreme(gram / scale, (x, y), float(observed[0] / scale), blocks, alternative)
    return permutation.counted_test(
        observed, np.array([extreme]), n_splits if exact else permutations, exact, alternative
    )


def _unless_rounding(centred: np.ndarray, rounding: float) -> np.ndarray:
    """Return the same numbers, or zeros where all of them are rounding."""
    return centred if float(np.abs(centred).max()) > rounding else np.zeros_like(centred)


def _count_extreme(
    gram: np.ndarray,
    sizes: tuple[int, int],
    observed: float,
    blocks: Iterator[_Block],
    alternative: permutation.Alternative,
) -> int:
    """Count splits at least as extreme; blocks are independent, so neither their size nor the threads matter."""
    tolerance = 1e-10 * max(1.0, abs(observed))
    single = gram.astype(np.float32)
    # A bound on the rounding of _single_precision: (2P + 8) u times the sizes of its terms, which may cancel,
    # (2/y²) x R + P R / y² + |1/x² − 1/y²| x R, with R the largest Σ_q |H_pq| and u = 2⁻²⁴ (Higham 2002, §3.1)
    x, y = sizes
    terms = 2 / y**2 * x + len(gram) / y**2 + abs(1 / x**2 - 1 / y**2) * x
    largest = float(np.abs(gram + gram.T).sum(axis=1).max()) / 2
    doubt = np.float32((2 * len(gram) + 8) * 2.0**-24 * max(1.0, terms * largest))

    def count(block: _Block) -> int:
        members = block()
        rough = _single_precision(single, members)
        level = abs(observed)
        near = (
            np.abs(np.abs(rough) - level) <= doubt if alternative == "two-sided" else np.abs(rough - observed) <= doubt
        )
        sure = permutation.at_least_as_extreme(rough, np.asarray(observed), np.asarray(0.0), alternative) & ~near
        n_extreme = int(sure.sum())
        if near.any():
            fine = quadratic_statistic(gram, members[near])
            n_extreme += int(
                permutation.at_least_as_extreme(fine, np.asarray(observed), np.asarray(tolerance), alternative).sum()
            )
        return n_extreme

    with ThreadPoolExecutor(min(_AT_ONCE, available_cores())) as pool:
        total = 0
        while chunk := list(islice(blocks, _AT_ONCE)):  # bounded, or a million splits would wait in memory
            total += sum(pool.map(count, chunk))
    return total


def _single_precision(gram: np.ndarray, members: np.ndarray) -> np.ndarray:
    x = np.float32(members[0].sum())
    y = np.float32(members.shape[1]) - x
    chosen = members.astype(np.float32)
    symmetric = (gram + gram.T) / 2
    rows = symmetric.sum(axis=1)
    linear = matmul(chosen, 2 / y**2 * rows) - symmetric.sum() / y**2
    factor = 1 / x**2 - 1 / y**2
    if factor == 0:
        return np.asarray(linear)
    return np.asarray(linear + factor * np.einsum("sp,sp->s", chosen @ symmetric, chosen))


def _all_splits(n: int, size: int) -> Iterator[_Block]:
    subsets = combinations(range(n), size)
    while chunk := list(islice(subsets, _BLOCK)):
        yield partial(permutation.members_of, np.array(chunk), n)


def _random_splits(n: int, size: int, n_splits: int, rng: np.random.Generator) -> Iterator[_Block]:
    """Return random splits in blocks, each drawn from a child generator of its own."""
    starts = range(0, n_splits, _BLOCK)
    for start, child in zip(starts, rng.spawn(len(starts)), strict=True):
        yield partial(_random_members, min(_BLOCK, n_splits - start), n, size, child)


def _random_members(n_splits: int, n: int, size: int, rng: np.random.Generator) -> np.ndarray:
    """Return uniform subsets of ``size`` of n (Floyd's algorithm, Bentley & Floyd 1987), all splits at once.

    For j from n − size to n − 1 a number of 0 … j is drawn and taken, or j itself where it was taken before.
    """
    if 2 * size > n:  # the smaller side takes fewer steps
        return ~_random_members(n_splits, n, n - size, rng)
    members = np.zeros((n_splits, n), bool)
    rows = np.arange(n_splits) * n
    flat = members.reshape(-1)
    for j in range(n - size, n):
        place = rows + rng.integers(j + 1, size=n_splits, dtype=np.uint16)
        place[flat[place]] = rows[flat[place]] + j
        flat[place] = True
    return members


def _validate(gram: np.ndarray, sizes: tuple[int, int], alternative: str, method: str) -> tuple[int, int]:
    x, y = sizes
    if gram.ndim != 2 or gram.shape != (x + y, x + y):
        raise InvalidInputError.wrong_shape(
            f"expected shape {(x + y, x + y)} for {x} + {y} prompts, found {gram.shape}", field="gram"
        )
    if x < 1 or y < 1:
        raise InvalidInputError.too_few(f"expected at least one prompt in X and in Y, found {x} and {y}", field="sizes")
    require_choice("alternative", alternative, permutation.Alternative)
    require_choice("method", method, ("auto", "exact", "sampled"))
    return x, y
