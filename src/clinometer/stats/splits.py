"""Splits of items within strata, counted, enumerated and sampled."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations
from typing import Literal

import numpy as np

Alternative = Literal["two-sided", "greater", "less"]
HALF_LIMIT = 200_000  # sums in the longer of two lists, for splits within strata
CHUNK = 8192  # relabellings handled at a time
CHUNK_LABELS = 2**23  # of more than 1,024 items fewer: their labels are 67 MB as the numbers that they are weighed as


@dataclass(frozen=True)
class MembershipStatistic:
    """``S(m) = m·y`` for the 0/1 membership m of A: the linear form that all tests here share.

    ``y`` (rows × items) is centred within blocks, which changes no S and keeps rounding small beside the
    spread. ``tolerance`` (rows,) is what counts as a tie: far above rounding, far below any real difference.
    """

    y: np.ndarray
    tolerance: np.ndarray

    def __call__(self, members: np.ndarray) -> np.ndarray:
        """Map (splits × items) memberships to (splits × rows) statistics."""
        return np.asarray(members.astype(self.y.dtype, copy=False) @ self.y.T)


def at_least_as_extreme(
    drawn: np.ndarray, observed: np.ndarray, tolerance: np.ndarray, alternative: Alternative
) -> np.ndarray:
    """Return whether each drawn statistic is at least as extreme as the observed one; ties count."""
    if alternative == "two-sided":
        return np.asarray(np.abs(drawn) >= np.abs(observed) - tolerance)
    if alternative == "greater":
        return np.asarray(drawn >= observed - tolerance)
    return np.asarray(drawn <= observed + tolerance)


def count_splits(labels: np.ndarray, strata: np.ndarray) -> int:
    """Count how many relabellings there are: the product over strata of C(n_h, n_h,A)."""
    return math.prod(math.comb(int(np.sum(strata == h)), int(np.sum(labels[strata == h]))) for h in np.unique(strata))


def enumerate_memberships(labels: np.ndarray, strata: np.ndarray) -> Iterator[np.ndarray]:
    """Yield every relabelling once, as (chunk × n) 0/1 memberships of A."""
    positions = [np.flatnonzero(strata == h) for h in np.unique(strata)]
    choices = [_subsets(len(where), int(labels[where].sum())) for where in positions]
    sizes = tuple(len(choice) for choice in choices)
    for start in range(0, math.prod(sizes), CHUNK):
        numbers = np.arange(start, min(start + CHUNK, math.prod(sizes)))
        members = np.zeros((len(numbers), len(labels)), bool)
        for where, choice, index in zip(positions, choices, np.unravel_index(numbers, sizes), strict=True):
            members[:, where] = choice[index]
        yield members


def sample_memberships(
    labels: np.ndarray, strata: np.ndarray, n_permutations: int, rng: np.random.Generator
) -> Iterator[np.ndarray]:
    """Return random relabellings within strata, as (chunk × n) arrays of permuted labels.

    Each stratum draws from its own child generator, so the sequence does not depend on the chunk size.
    """
    positions = [np.flatnonzero(strata == h) for h in np.unique(strata)]
    children = rng.spawn(len(positions))
    chunk = max(1, min(CHUNK, CHUNK_LABELS // max(len(labels), 1)))
    for start in range(0, n_permutations, chunk):
        n_rows = min(chunk, n_permutations - start)
        members = np.empty((n_rows, len(labels)), labels.dtype)
        for where, child in zip(positions, children, strict=True):
            members[:, where] = child.permuted(np.tile(labels[where], (n_rows, 1)), axis=1)
        yield members


def halves_of_strata(labels: np.ndarray, strata: np.ndarray) -> tuple[np.ndarray, np.ndarray] | None:
    """Divide the strata into two halves of at most ``HALF_LIMIT`` splits each; None where that cannot be.

    The stratum with most splits goes first, each to the half that has fewer so far.
    """
    names = np.unique(strata)
    splits = [count_splits(labels[strata == h], strata[strata == h]) for h in names]
    halves: tuple[list[int], list[int]] = ([], [])
    totals = [1, 1]
    for h in sorted(range(len(names)), key=lambda h: -splits[h]):
        side = int(totals[1] < totals[0])
        halves[side].append(h)
        totals[side] *= splits[h]
    return None if max(totals) > HALF_LIMIT else (names[sorted(halves[0])], names[sorted(halves[1])])


def count_within_strata(
    statistic: MembershipStatistic,
    labels: np.ndarray,
    strata: np.ndarray,
    halves: tuple[np.ndarray, np.ndarray],
    observed: np.ndarray,
    alternative: Alternative,
) -> np.ndarray:
    """Count the relabellings within strata at least as extreme as observed, row by row, by meeting in the middle."""
    n_splits = count_splits(labels, strata)
    counts = []
    for y, s_obs, tolerance in zip(statistic.y, observed, statistic.tolerance, strict=True):
        if not np.isfinite(s_obs):
            counts.append(0)
            continue
        left, right = (_sums_of_strata(y, labels, strata, names) for names in halves)
        count = _count_extreme_sums(left, np.sort(right), float(s_obs), float(tolerance), alternative)
        counts.append(min(count, n_splits))  # with S_obs about 0 both tails hold the splits in between
    return np.array(counts)


def _sums_of_strata(y: np.ndarray, labels: np.ndarray, strata: np.ndarray, names: np.ndarray) -> np.ndarray:
    """Return sums of y over A under every relabelling of some strata."""
    sums = np.zeros(1)
    for name in names:
        where = np.flatnonzero(strata == name)
        own = _subsets(len(where), int(labels[where].sum())) @ y[where]
        sums = np.add.outer(sums, own).ravel()
    return sums


def _subsets(n: int, size: int) -> np.ndarray:
    """Return all subsets of the given size, as (C(n, size) × n) 0/1 rows."""
    return members_of(np.array(list(combinations(range(n), size)), int).reshape(math.comb(n, size), size), n)


def members_of(subsets: np.ndarray, n: int) -> np.ndarray:
    """Return subsets of n items, (subsets × size) places, as (subsets × n) 0/1 rows."""
    members = np.zeros((len(subsets), n), bool)
    np.put_along_axis(members, subsets, True, axis=1)
    return members


def count_extreme_splits(y: np.ndarray, size: int, observed: float, tolerance: float, alternative: Alternative) -> int:
    """Count the subsets of the given size whose statistic is at least as extreme as the observed one."""
    if alternative == "two-sided" and 2 * size == len(y):
        # A set and the rest have S of opposite signs: both tails are alike
        upper = count_extreme_splits(y, size, abs(observed), tolerance, "greater")
        return min(2 * upper, math.comb(len(y), size))
    half = len(y) // 2
    first, second = _sums_by_size(y[:half]), _sums_by_size(y[half:])
    count = 0
    for n_first in range(max(0, size - len(second) + 1), min(size, len(first) - 1) + 1):
        left, right = first[n_first], second[size - n_first]
        count += _count_extreme_sums(left, right, observed, tolerance, alternative)
    # With |S_obs| within the tolerance of 0 both tails hold the splits in between.
    return min(count, math.comb(len(y), size))


def _count_extreme_sums(
    left: np.ndarray, right: np.ndarray, observed: float, tolerance: float, alternative: Alternative
) -> int:
    """Count the pairs whose sum is at least as extreme as observed; ``right`` is sorted."""
    level, count = abs(observed) if alternative == "two-sided" else observed, 0
    if alternative in ("two-sided", "greater"):
        count += left.size * right.size - int(np.searchsorted(right, level - tolerance - left, "left").sum())
    if alternative in ("two-sided", "less"):
        level_below = -level if alternative == "two-sided" else level
        count += int(np.searchsorted(right, level_below + tolerance - left, "right").sum())
    return count


def _sums_by_size(y: np.ndarray) -> list[np.ndarray]:
    """Return sorted sums of all subsets of y, listed by subset size 0 … len(y)."""
    sums = [np.zeros(1)]
    for value in y:
        pairs = [np.concatenate([without, rest + value]) for without, rest in zip(sums[1:], sums[:-1], strict=True)]
        merged = [np.sort(pair, kind="stable") for pair in pairs]  # two sorted runs: merged rather than sorted again
        sums = [sums[0], *merged, sums[-1] + value]
    return sums
