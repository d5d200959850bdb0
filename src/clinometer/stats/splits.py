"""Splits of items within strata, counted, enumerated and sampled; and items that are one and the same.

Pictures that a fixed seed, or a cache, gave more than once are one item. A vector is known by its places along eight
random directions, so of a million vectors 64 bytes each are held. Two vectors of unit length that are δ apart agree
along all eight within τ with a probability of about (τ/δ)⁸: below 1e-16 where δ = 100 τ. τ is beyond what the order of
a sum does to an encoder's numbers in float32, and far below what two pictures differ by. See decision 9.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Final, Literal

import numpy as np
import scipy

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
    """Tell whether each drawn statistic is at least as extreme as the observed one; ties count."""
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
    """Random relabellings within strata, as (chunk × n) arrays of permuted labels.

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
    """Share the strata out over two halves of at most ``HALF_LIMIT`` splits each; None where that cannot be.

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
    """Sorted sums of all subsets of y, listed by subset size 0 … len(y)."""
    sums = [np.zeros(1)]
    for value in y:
        pairs = [np.concatenate([without, rest + value]) for without, rest in zip(sums[1:], sums[:-1], strict=True)]
        merged = [np.sort(pair, kind="stable") for pair in pairs]  # two sorted runs: merged rather than sorted anew
        sums = [sums[0], *merged, sums[-1] + value]
    return sums


TOLERANCE: Final = 2e-5
"""τ: how far apart two unit vectors of one picture may be along a direction."""

_DIRECTIONS: Final = 8


def signatures(vectors: np.ndarray) -> np.ndarray:
    """Return places of vectors (n × d), scaled to unit length, along the directions: (n × 8).

    The same directions for the same d. What no cosine can take is left to whoever takes cosines: a zero vector stays
    one, and what is not finite is 0.
    """
    directions = np.random.default_rng([8, vectors.shape[1]]).standard_normal((vectors.shape[1], _DIRECTIONS))
    finite = np.nan_to_num(np.asarray(vectors, np.float64), posinf=0.0, neginf=0.0)
    lengths = np.linalg.norm(finite, axis=1, keepdims=True)
    return np.asarray(finite @ directions / np.where(lengths > 0, lengths, 1.0))


def first_of_each(places: Sequence[np.ndarray]) -> np.ndarray:
    """Of every row the position of the first one that is the same in all of some signatures (n × 8 each): (n,).

    >>> vectors = np.eye(3)[[0, 1, 0, 2]]
    >>> first_of_each([signatures(vectors)])
    array([0, 1, 0, 3])
    """
    together = np.concatenate(places, axis=1)
    _, firsts, same = np.unique(together, axis=0, return_index=True, return_inverse=True)
    owner = firsts[same.ravel()]
    candidates = np.sort(firsts)
    while len(candidates) > 1:
        tree = scipy.spatial.KDTree(together[candidates], balanced_tree=False)
        distance, near = tree.query(together[candidates], k=2, p=np.inf, distance_upper_bound=TOLERANCE)
        rows, columns = np.nonzero(np.isfinite(distance))
        n = len(candidates)
        links = scipy.sparse.coo_array((np.ones(len(rows), bool), (rows, near[rows, columns])), shape=(n, n))
        count, component = scipy.sparse.csgraph.connected_components(links, directed=False)
        if count == n:
            break
        # In rising order, so that the first position of each component is its smallest.
        _, heads = np.unique(component, return_index=True)
        merged = np.arange(len(together))
        merged[candidates] = candidates[heads[component]]
        owner, candidates = merged[owner], np.sort(candidates[heads])
    return np.asarray(owner)


def drawn_once(places: Sequence[np.ndarray], drawn: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Find the positions of different pictures, and how often each of them is there: (k,), (k,).

    ``places`` : the signatures of each encoder's vectors (n × 8). One picture is what all encoders see as one.
    ``drawn`` : how often each row is there already, (n,); once by default.
    """
    n = len(places[0])
    times = np.ones(n, int) if drawn is None else drawn
    if n < 2:
        return np.arange(n), times
    positions, place = np.unique(first_of_each(places), return_inverse=True)
    return positions, np.bincount(place, weights=times).astype(int)


def order_p_value(sequences: Sequence[np.ndarray], *, draws: int = 4_999) -> float:
    """Find p that pictures came in an order of chance, two-sided; NaN where no order differs from another.

    ``sequences`` : for each prompt what was drawn, one number a picture (n,), in the order it was drawn. What is
    counted are neighbours that are one picture; the order is permuted within each prompt. Of pictures that are drawn
    independently of each other, from however few and however unevenly, any order is as likely as any other. A cache
    that answers again for a while gives too many neighbours, one that deals its pictures out in turn too few.
    """
    mixed = [np.asarray(x) for x in sequences if 1 < len(np.unique(x)) < len(x)]
    if not mixed:
        return float("nan")
    rng = np.random.default_rng(0)

    def neighbours(x: np.ndarray) -> np.ndarray:
        return np.asarray((x[..., 1:] == x[..., :-1]).sum(axis=-1))

    seen = sum(int(neighbours(x)) for x in mixed)
    drawn = sum(neighbours(rng.permuted(np.tile(x, (draws, 1)), axis=1)) for x in mixed)
    tails = [1 + int(np.sum(drawn >= seen)), 1 + int(np.sum(drawn <= seen))]
    return min(1.0, 2 * min(tails) / (1 + draws))
