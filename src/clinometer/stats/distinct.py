"""Which rows of an array are one and the same: pictures that a fixed seed, or a cache, gave more than once.

A vector is known by its places along eight random directions, so of a million vectors 64 bytes each are held. Two
vectors of unit length that are δ apart agree along all eight within τ with a probability of about (τ/δ)⁸: below 1e-16
where δ = 100 τ. τ is beyond what the order of a sum does to an encoder's numbers in float32, and far below what two
pictures differ by. See decision 9.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import scipy

TOLERANCE: Final = 2e-5
"""τ: how far apart two unit vectors of one picture may be along a direction."""

_DIRECTIONS: Final = 8


def signatures(vectors: np.ndarray) -> np.ndarray:
    """Places of vectors (n × d), scaled to unit length, along the directions: (n × 8).

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
