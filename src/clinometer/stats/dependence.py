"""Pictures that are not independent draws: repeated pictures, and pictures of one batch.

Pictures that are one and the same, or nearly, are found by their vectors and counted once.

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

Pictures may come in batches: a request for several, a session, a cache. The batch is then the unit of chance. Pictures
of one batch may be of one kind. Their mean is one draw, so what is sampled is ::

    z_j = ȳ + w_j (ȳ_j − ȳ),     w_j = n_j m / n         of m batches of n_j pictures, n in all

whose mean is that of all pictures, whatever the sizes, and whose spread is that of the batches' sums. Where every
picture is a batch of its own, z is y.

Where nobody knows of batches, the order in which pictures were drawn may tell: are neighbours more alike than others?
Orders are permuted within each prompt. What is counted is how alike the pictures of runs of 2 to 10 are, and neighbours
as such; p is that of the most surprising of these among those of permuted orders (Westfall & Young 1993). Runs of 2 to
4 may begin anywhere: of these the size and the place are chosen that stand out most. All prompts of a study are asked
together: it is the source that draws in batches.

See decision 67.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from math import nan
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


LEVEL: Final = 0.05
"""Largest p at which neighbours count as batches."""

RUNS: Final = (*((size, phase) for size in (2, 3, 4) for phase in range(size)), (5, 0), (6, 0), (8, 0), (10, 0))
"""Sizes of batches that are looked for, and how many pictures of the first one are missing."""

_ORDERS: Final = 999
_LISTED: Final = 40
_LOOKED_AT: Final = 20_000


def by_batch(values: np.ndarray, labels: np.ndarray | None) -> np.ndarray:
    """Return z of the module for values (n × …), one a picture: (m × …); without labels, the values themselves."""
    if labels is None or not len(values):
        return values
    _, which, counts = np.unique(labels, return_inverse=True, return_counts=True)
    mean = values.mean(axis=0)
    sums = np.zeros((len(counts), *values.shape[1:]))
    np.add.at(sums, which, values - mean)
    return np.asarray(mean + sums * (len(counts) / len(values)))


def within_groups(groups: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Number the batches of pictures, (n,), so that a batch that spans several groups is one in each of them."""
    own = np.stack([np.unique(each, return_inverse=True)[1].ravel() for each in (groups, labels)])
    return np.asarray(np.unique(own, axis=1, return_inverse=True)[1].ravel())


def batch_means(values: np.ndarray, labels: np.ndarray | None) -> np.ndarray:
    """Average what is known (n × …) over each batch: (m × …), in the order of the batches' labels; NaN of nothing."""
    if labels is None:
        return values
    which = np.unique(labels, return_inverse=True)[1].ravel()
    known = np.isfinite(values)
    sums, counts = (np.zeros((which.max(initial=-1) + 1, *values.shape[1:])) for _ in range(2))
    np.add.at(sums, which, np.where(known, values, 0.0))
    np.add.at(counts, which, known)
    return np.asarray(np.divide(sums, counts, out=np.full(sums.shape, nan), where=counts > 0))


def linked(labels: Sequence[np.ndarray]) -> np.ndarray:
    """Number the batches of pictures that are of one batch by any of several labels, or by a chain of them: (n,)."""
    n = len(labels[0])
    rows = [np.unique(own, return_index=True, return_inverse=True)[1:] for own in labels]
    first, second = np.tile(np.arange(n), len(labels)), np.concatenate([at[which.ravel()] for at, which in rows])
    links = scipy.sparse.coo_array((np.ones(len(first), bool), (first, second)), shape=(n, n))
    return np.asarray(scipy.sparse.csgraph.connected_components(links, directed=False)[1])


def by_picture(weights: np.ndarray, labels: np.ndarray | None) -> np.ndarray:
    """Return weights of pictures, (R × n), that make of them what weights of their batches, (R × m), make of z."""
    if labels is None:
        return weights
    _, which, counts = np.unique(labels, return_inverse=True, return_counts=True)
    share = weights @ (counts * (len(counts) / len(labels))).astype(weights.dtype)
    spread = weights[:, which] * weights.dtype.type(len(counts) / len(labels))
    return np.asarray(spread + (1 - share)[:, None] / weights.dtype.type(len(labels)))


def independent_answers(answers: np.ndarray, labels: np.ndarray | None) -> float:
    """Count how many independent yes-or-no answers would be as sure as these, (n,), of batches.

    ::

        n_eff = p (1 − p) / (s² / m)       s² of z, within [m, n]; where all answer alike, m   (Korn & Graubard 1998)
    """
    if labels is None or not len(answers):
        return float(len(answers))
    z, share = by_batch(answers.astype(float), labels), float(answers.mean())
    if len(z) < 2 or share in (0.0, 1.0):
        return float(len(z))
    error = float(z.var(ddof=1)) / len(z)
    return float(np.clip(share * (1 - share) / error if error > 0 else np.inf, len(z), len(answers)))


def batch_correlation(values: Sequence[np.ndarray], labels: Sequence[np.ndarray]) -> float:
    """Estimate the correlation of two pictures of one batch in what they show, (n × k) of each prompt; NaN of none.

    ::

        Σ_{i≠j in a batch} (x_i − x̄)·(x_j − x̄) / (pairs · s²) + 1 / (n − 1)       the last: what centring takes away
    """
    products, expected, pairs = 0.0, 0.0, 0.0
    for x, own in zip(values, labels, strict=True):
        _, which, counts = np.unique(own, return_inverse=True, return_counts=True)
        centred = x - x.mean(axis=0) if len(x) else x
        sums = np.zeros((len(counts), x.shape[1]))
        np.add.at(sums, which, centred)
        square, n_pairs = float(np.square(centred).sum()), float((counts * (counts - 1)).sum())
        if n_pairs and len(x) > 1:
            products += float(np.square(sums).sum()) - square + n_pairs * square / len(x) / (len(x) - 1)
            expected, pairs = expected + n_pairs * square / (len(x) - 1), pairs + n_pairs
    return float(np.clip(products / expected, -1.0, 1.0)) if pairs and expected > 0 else nan


@dataclass(frozen=True)
class DrawOrder:
    """Evidence that pictures drawn near each other are alike.

    Attributes
    ----------
    p : that neighbours are as alike as others; NaN where there are too few pictures to tell, or all are alike.
    size, phase : of the batches whose pictures are most alike, and how many are missing of the first.
    correlation : of two pictures of such a batch.
    is_listed : whether the order is that of a list sorted by what is shown: it has one change and none besides. Then
        it says nothing of how the pictures were drawn.
    """

    p: float = nan
    size: int = 1
    phase: int = 0
    correlation: float = nan
    is_listed: bool = False

    @property
    def in_batches(self) -> bool:
        """True if runs of this size are to count as batches."""
        return self.p <= LEVEL and not self.is_listed

    def labels(self, positions: np.ndarray) -> np.ndarray:
        """Number the batch of each picture by its position among all that were drawn."""
        return np.asarray((positions + self.phase) // self.size)


def draw_order(sequences: Sequence[np.ndarray], positions: Sequence[np.ndarray]) -> DrawOrder:
    """Ask whether the order in which pictures were drawn matters.

    Parameters
    ----------
    sequences : for each prompt what its pictures show, (n × k), in the order they were drawn.
    positions : of each, its position among all that were drawn: (n,), rising.
    """
    most = max(_LOOKED_AT // max(len(sequences), 1), 64)
    known = [(x[:most], at[:most]) for x, at in zip(sequences, positions, strict=True) if len(x) > 3]
    centred = [(x - x.mean(axis=0), at) for x, at in known if np.isfinite(x).all() and np.ptp(x, axis=0).max() > 1e-9]
    if not centred:
        return DrawOrder()
    p, best, correlation = _most_surprising(centred)
    if p > LEVEL or min(len(x) for x, _ in centred) < _LISTED:
        return DrawOrder(p, *RUNS[best], correlation)
    rest = [(_without_change(x), at) for x, at in centred]
    return DrawOrder(p, *RUNS[best], correlation, is_listed=_most_surprising(rest)[0] > LEVEL)


def _most_surprising(centred: Sequence[tuple[np.ndarray, np.ndarray]]) -> tuple[float, int, float]:
    """Find p over all kinds of runs, the kind that stands out most, and its pictures' correlation."""
    totals, spread, pairs = np.zeros((_ORDERS + 1, len(RUNS) + 1)), 0.0, np.zeros(len(RUNS))
    for number, (x, at) in enumerate(centred):
        rng = np.random.default_rng([67, number])
        orders = rng.permuted(np.tile(np.arange(len(x)), (_ORDERS + 1, 1)), axis=1)
        orders[0] = np.arange(len(x))
        mixed = x[orders]
        own = float(np.square(x).sum())
        for kind, (size, phase) in enumerate(RUNS):
            starts = np.flatnonzero(np.diff((at + phase) // size, prepend=-1))
            totals[:, kind] += (np.square(np.add.reduceat(mixed, starts, axis=1)).sum(axis=(1, 2)) - own) / 2
            lengths = np.diff(starts, append=len(x))
            pairs[kind] += float((lengths * (lengths - 1)).sum()) / 2 * own / (len(x) - 1)
        totals[:, -1] += np.einsum("rnk,rnk->r", mixed[:, 1:], mixed[:, :-1])
        spread += own
    totals = np.round(totals / max(spread, 1e-300), 9)  # ties stay ties
    asked = [kind for kind, (_, phase) in enumerate(RUNS) if not phase] + [len(RUNS)]
    tails = np.stack([np.searchsorted(np.sort(-totals[:, k]), -totals[:, k], side="right") for k in asked]) / len(
        totals
    )
    least = tails.min(axis=0)
    deviation = totals[:, :-1].std(axis=0)
    standing = np.divide(
        totals[0, :-1] - totals[:, :-1].mean(axis=0), deviation, out=np.full(len(RUNS), -np.inf), where=deviation > 0
    )
    best = int(np.argmax(standing))
    excess = (totals[0, best] - totals[:, best].mean()) * spread
    correlation = float(np.clip(excess / pairs[best], -1.0, 1.0)) if pairs[best] > 0 else nan
    return float(np.mean(least <= least[0] + 1e-12)), best, correlation


def _without_change(x: np.ndarray) -> np.ndarray:
    """Remove the one change, after some picture, that explains most of what differs."""
    n = len(x)
    after = np.arange(1, n)
    sums = np.cumsum(x, axis=0)[:-1]
    gain = np.square(sums).sum(axis=1) * (1 / after + 1 / (n - after))  # x is centred: the other part sums to −sums
    at = int(np.argmax(gain)) + 1
    return np.concatenate([part - part.mean(axis=0) for part in (x[:at], x[at:])])


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
