"""Permutation test of a quadratic form of the labels: what moves with a prompt are all of its images.

With ``u_p`` the mean of prompt p's neutral images, ``a_q``, ``b_q`` those of its attribute images and ``G_pq = u_p ·
(a_q − b_q)``, the differential association of a split (X, Y) of the prompts is::

    S(X, Y) = mean_{p,q∈X} G_pq − mean_{p,q∈Y} G_pq

Only the symmetric part of G enters. With m the 0/1 membership of X, H = (G + Gᵀ)/2 and r = H1::

    S(m) = (1/x² − 1/y²) mᵀHm + (2/y²) r·m − (1ᵀH1)/y²        x, y: sizes of X and Y

which is linear for sets of equal size: then every exact method of :mod:`clinometer.stats.permutation` applies, and
beyond them the proven bracket of :mod:`clinometer.stats.certified`. For
unequal sizes the quadratic term stays, and no meet in the middle is known to us: past enumeration, splits are sampled.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from itertools import combinations, islice
from typing import Literal

import numpy as np

from clinometer._cores import available_cores
from clinometer.errors import InvalidInputError
from clinometer.stats.arguments import generator, require_choice
from clinometer.stats.association import matmul
from clinometer.stats.certified import certified_split_test, is_certifiable
from clinometer.stats.permutation import (
    MEET_IN_THE_MIDDLE_LIMIT,
    PermutationTest,
    counted_test,
    require_permutations,
    split_test,
)
from clinometer.stats.splits import Alternative, at_least_as_extreme, members_of

EXACT_SPLITS = 1_000_000
"""Splits of sets of unequal size that are enumerated."""

_ROUNDING = 1e-12  # of the largest number of a gram
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
    alternative: Alternative = "two-sided",
    method: Literal["auto", "exact", "sampled"] = "auto",
    permutations: int = 99_999,
    rounding: float = 0.0,
    rng: np.random.Generator | int | None = 0,
) -> PermutationTest:
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
        return PermutationTest(nothing, nothing, False, 0, nothing, alternative, "a value is NaN", nothing, nothing)
    rounding = max(rounding, _ROUNDING * float(np.abs(gram).max()))
    symmetric = (gram + gram.T) / 2
    gram = _unless_rounding(symmetric - symmetric.mean(), rounding)  # which changes no S and leaves less to cancel
    observed = quadratic_statistic(gram, observed_split[None])
    if method != "sampled" and x == y and x + y <= MEET_IN_THE_MIDDLE_LIMIT:
        # S(m) = (2/x²) r·m − const is a difference of means of r / x: mean_X r − mean_Y r = (2 r·m − Σr) / x
        rows = _unless_rounding(gram.sum(axis=1), len(gram) * rounding)
        test = split_test(rows[None] / x, observed_split, alternative=alternative)
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
        require_permutations(permutations)
    # float32 decides all but the splits near the observed value, which are counted again in float64
    scale = float(np.abs(gram).max()) or 1.0
    blocks = _all_splits(x + y, x) if exact else _random_splits(x + y, x, permutations, generator(rng))
    extreme = _count_extreme(gram / scale, (x, y), float(observed[0] / scale), blocks, alternative)
    return counted_test(observed, np.array([extreme]), n_splits if exact else permutations, exact, alternative)


def _unless_rounding(centred: np.ndarray, rounding: float) -> np.ndarray:
    """Return the same numbers, or zeros where all of them are rounding."""
    return centred if float(np.abs(centred).max()) > rounding else np.zeros_like(centred)


def _count_extreme(
    gram: np.ndarray, sizes: tuple[int, int], observed: float, blocks: Iterator[_Block], alternative: Alternative
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
        sure = at_least_as_extreme(rough, np.asarray(observed), np.asarray(0.0), alternative) & ~near
        n_extreme = int(sure.sum())
        if near.any():
            fine = quadratic_statistic(gram, members[near])
            n_extreme += int(at_least_as_extreme(fine, np.asarray(observed), np.asarray(tolerance), alternative).sum())
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
        yield partial(members_of, np.array(chunk), n)


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
    require_choice("alternative", alternative, Alternative)
    require_choice("method", method, ("auto", "exact", "sampled"))
    return x, y
