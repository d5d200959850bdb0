"""Pictures that are one and the same, or nearly: found by their vectors, and counted once.

A picture that a fixed seed or a cache gave again has the same vector but for rounding; one that was saved again (JPEG,
resized, cropped a little) has one nearby. Vectors are held as sketches, their places along 64 random orthogonal
directions: 512 bytes each of however many dimensions. Distances are kept, to a tenth where there are more dimensions
than that. Two pictures are one if *all* encoders see them closer than a threshold, and so are chains of such pictures
(single linkage). The threshold is the smallest of

- how far saving a picture again moves its vector: what was measured, or :data:`SAVED_AGAIN`;
- half the lower quartile of the distances between the pictures that are compared, but not below :data:`SURELY_ONE`. A
  model may draw pictures that are this much alike, and they are different draws;
- the largest of it, its half, its quarter, … at which copies stand apart: at least half of the pairs within three times
  the threshold are within it. Among draws of a continuous kind the pairs that are closer than s are fewer than those
  closer than 3 s by 3ᴰ, with D the dimensions that they vary in; copies have nothing between.

See decision 67.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Final

import numpy as np
import scipy

TOLERANCE: Final = 2e-5
"""How far apart two unit vectors of one file may be: beyond what the order of a sum does to an encoder's numbers."""

SAVED_AGAIN: Final = 0.05
"""How far a picture that was saved again may lie from itself, where it was not measured."""

SURELY_ONE: Final = 0.02
"""Distance of two unit vectors below which no model is known to draw different pictures: a cosine of .9998."""

MOAT: Final = 3.0
"""Times the threshold within which next to nothing but copies lies."""

_DIRECTIONS: Final = 64
_COMPARED: Final = 4096
"""Pictures of which every one is compared with every other; of more, with its nearest ones."""
_NEAREST: Final = 33
_ROWS: Final = 256


def sketches(vectors: np.ndarray) -> np.ndarray:
    """Return the places of vectors (n × d), scaled to unit length, along 64 directions, or all d: (n × k).

    Distances of unit vectors are those of their sketches. The same directions for the same d. What no cosine can take
    is left to the caller that takes cosines: a zero vector stays one, and what is not finite is 0.
    """
    dim = vectors.shape[1]
    finite = np.nan_to_num(np.asarray(vectors, np.float64), posinf=0.0, neginf=0.0)
    lengths = np.linalg.norm(finite, axis=1, keepdims=True)
    units = finite / np.where(lengths > 0, lengths, 1.0)
    if dim <= _DIRECTIONS:
        return units
    return np.asarray(units @ _directions(dim) * np.sqrt(dim / _DIRECTIONS))


@cache
def _directions(dim: int) -> np.ndarray:
    directions, _ = np.linalg.qr(np.random.default_rng([8, dim]).standard_normal((dim, _DIRECTIONS)))
    return directions


def first_of_each(places: Sequence[np.ndarray], within: Sequence[float] = ()) -> np.ndarray:
    """Find of every picture the position of the first one that it is, from its sketches by each encoder: (n,).

    ``within`` : how far saving again moves a vector, by each encoder; :data:`SAVED_AGAIN` by default.

    >>> vectors = np.eye(3)[[0, 1, 0, 2]] + [[0, 0, 0], [0, 0, 0], [0, 0.001, 0], [0, 0, 0]]
    >>> first_of_each([sketches(vectors)])
    array([0, 1, 0, 3])
    """
    if len(places[0]) < 2:
        return np.arange(len(places[0]))
    owner = _joined(places, [TOLERANCE] * len(places), moat=False)
    heads = np.unique(owner)
    if len(heads) < 2:
        return owner
    own = [x[heads] for x in places]
    limits = [_threshold(x, limit) for x, limit in zip(own, within or [SAVED_AGAIN] * len(own), strict=True)]
    merged = heads[_joined(own, limits, moat=True)]
    return np.asarray(merged[np.searchsorted(heads, owner)])


def drawn_once(
    places: Sequence[np.ndarray], drawn: np.ndarray | None = None, within: Sequence[float] = ()
) -> tuple[np.ndarray, np.ndarray]:
    """Find the positions of different pictures, the first of each, and how often each of them is there: (k,), (k,).

    ``places``, ``within`` : as in :func:`first_of_each`. ``drawn`` : how often each row is there already, (n,); once by
    default.
    """
    return different(first_of_each(places, within), drawn)


def different(owners: np.ndarray, drawn: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Return the same of what :func:`first_of_each` found."""
    times = np.ones(len(owners), int) if drawn is None else drawn
    positions, place = np.unique(owners, return_inverse=True)
    return positions, np.bincount(place, weights=times, minlength=len(positions)).astype(int)


def _threshold(places: np.ndarray, saved_again: float) -> float:
    """Cap the threshold of one encoder at half the lower quartile of the distances between pictures."""
    some = places[np.linspace(0, len(places) - 1, min(len(places), 512)).astype(int)]
    apart = scipy.spatial.distance.pdist(some)
    return max(min(saved_again, float(np.quantile(apart, 0.25)) / 2), min(saved_again, SURELY_ONE))


def _joined(places: Sequence[np.ndarray], limits: Sequence[float], *, moat: bool) -> np.ndarray:
    """Join pictures that all encoders see within their limits, and chains of them: of each its first, (n,).

    ``moat`` : shrink all limits by halves until copies stand apart.
    """
    scaled = [x / limit for x, limit in zip(places, limits, strict=True)]
    n, reach = len(scaled[0]), MOAT if moat else 1.0
    owner = candidates = np.arange(n)
    scale = 1.0 if n <= _COMPARED or not moat else _scale(_pairs(scaled, reach)[1])
    while len(candidates) > 1:
        first, second, apart = _pairs([x[candidates] for x in scaled], reach)
        scale = _scale(apart) if moat and n <= _COMPARED else scale
        near = apart <= scale
        m = len(candidates)
        links = scipy.sparse.coo_array((np.ones(near.sum(), bool), (first[near], second[near])), shape=(m, m))
        count, component = scipy.sparse.csgraph.connected_components(links, directed=False)
        # In rising order, so that the first position of each component is its smallest.
        _, heads = np.unique(component, return_index=True)
        merged = np.arange(n)
        merged[candidates] = candidates[heads[component]]
        owner, candidates = merged[owner], np.sort(candidates[heads])
        if count == m or m <= _COMPARED:
            break
    return np.asarray(owner)


def _pairs(scaled: Sequence[np.ndarray], reach: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """List pairs that lie within ``reach`` by all encoders: both positions, and the larger distance of these."""
    n = len(scaled[0])
    if n <= _COMPARED:
        found = []
        squares = [np.square(x).sum(axis=1) for x in scaled]
        for start in range(0, n, _ROWS):
            own = slice(start, start + _ROWS)
            apart = np.max(
                [norms[own, None] + norms - 2 * x[own] @ x.T for x, norms in zip(scaled, squares, strict=True)], axis=0
            )
            rows, columns = np.nonzero(np.triu(apart <= reach**2, k=start + 1))
            found.append((rows + start, columns, np.sqrt(np.maximum(apart[rows, columns], 0.0))))
        first, second, distances = map(np.concatenate, zip(*found, strict=True))
        return first, second, distances
    # The places along some directions are at most as far apart as the whole
    near = np.concatenate([x[:, :8] * np.sqrt(min(1.0, x.shape[1] / _DIRECTIONS)) for x in scaled], axis=1)
    distance, at = scipy.spatial.KDTree(near, balanced_tree=False).query(
        near, k=_NEAREST, p=np.inf, distance_upper_bound=reach
    )
    first, column = np.nonzero(np.isfinite(distance))
    second = at[first, column]
    first, second = first[first < second], second[first < second]
    apart = np.max([np.linalg.norm(x[first] - x[second], axis=1) for x in scaled], axis=0)
    inside = apart <= reach
    return first[inside], second[inside], apart[inside]


def _scale(apart: np.ndarray) -> float:
    """Find the largest of 1, ½, ¼, … at which at least half of the pairs within ``MOAT`` times are within it."""
    scale = 1.0
    while np.sum(apart <= MOAT * scale) > 2 * np.sum(apart <= scale):
        scale /= 2
    return scale
