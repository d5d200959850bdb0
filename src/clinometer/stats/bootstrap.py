"""Nested bootstrap by weights: resampling images within prompts without touching an image again.

A statistic that is a function of weighted sums needs no resampled data, only resampled weights. One row of
weights is one bootstrap replicate; a matrix product of weights and a fixed matrix of cosines gives all
replicates at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from clinometer.errors import InvalidInputError


@dataclass(frozen=True)
class Interval:
    """Ends of an interval, of any common shape; NaN where undefined."""

    low: np.ndarray
    high: np.ndarray


def rao_wu_weights(sizes: Sequence[int], n_resamples: int, rng: np.random.Generator) -> np.ndarray:
    """Bootstrap weights of items nested in strata: (n_resamples, n) float32, every row summing to 1.

    Within a stratum of n_h items, ``n_h − 1`` are drawn with replacement; an item drawn ``c`` times weighs
    ``c / (n_h − 1)`` of its stratum, and a stratum weighs ``n_h / n`` (Rao & Wu 1988, *Resampling inference
    with complex survey data*, with m_h = n_h − 1).

    Why not n_h draws: the replicate mean of n_h draws has variance ``σ̂²/n_h`` with ``σ̂² = Σ(x − x̄)²/n_h``,
    too small by (n_h − 1)/n_h, 5 % at 20 images, 6 % at 16, half at 2. The mean of n_h − 1 draws has variance
    ``σ̂²/(n_h − 1) = s²/n_h``: exactly the unbiased estimate.

    A stratum of one item has no variance to estimate: its weights are NaN, so every interval that rests on it
    is NaN too. Each stratum draws from its own child generator: its weights do not depend on the strata
    beside it.
    """
    if n_resamples < 1:
        raise InvalidInputError(f"n_resamples: expected at least 1, found {n_resamples}")
    total = sum(sizes)
    weights = np.empty((n_resamples, total), np.float32)
    start = 0
    for size, child in zip(sizes, rng.spawn(len(sizes)), strict=True):
        columns = slice(start, start + size)
        if size == 1:
            weights[:, columns] = np.nan
        elif size > 1:
            counts = child.multinomial(size - 1, np.full(size, 1 / size), size=n_resamples)
            weights[:, columns] = counts * (size / (total * (size - 1)))
        start += size
    return weights


def percentile_interval(draws: np.ndarray, confidence: float = 0.95) -> Interval:
    """Percentile interval along the first axis of bootstrap draws; NaN where a draw is NaN."""
    if not 0 < confidence < 1:
        raise InvalidInputError(f"confidence: expected a number between 0 and 1, found {confidence}")
    tails = [(1 - confidence) / 2, (1 + confidence) / 2]
    low, high = np.quantile(np.asarray(draws, np.float64), tails, axis=0)
    return Interval(low, high)


def fold_interval(low: np.ndarray, high: np.ndarray) -> Interval:
    """Interval of |θ| from an interval of θ: its image under the absolute value.

    If the interval of θ covers θ, its image covers |θ|, so the coverage is at least that of the interval of
    θ. (Percentiles of |draws| are no such interval: none of them is 0 or below, so they never cover |θ| = 0.)
    """
    low, high = np.asarray(low, np.float64), np.asarray(high, np.float64)
    inner = np.where((low <= 0) & (high >= 0), 0.0, np.minimum(np.abs(low), np.abs(high)))
    outer = np.maximum(np.abs(low), np.abs(high))
    return Interval(np.where(np.isnan(outer), np.nan, inner), outer)


def ball_interval(value: np.ndarray, deviations: np.ndarray, confidence: float = 0.95) -> Interval:
    """Interval of ``‖θ‖`` from the bootstrap deviations ``‖θ* − θ̂‖``: value ∓ their quantile, from 0 up.

    By the reverse triangle inequality ``|‖θ̂‖ − ‖θ‖| ≤ ‖θ̂ − θ‖``, so it covers at least as often as the ball
    around θ̂ covers θ. Percentiles of ``‖θ*‖`` do not: noise only lengthens a vector, so near θ = 0 they all
    lie above ‖θ‖. The same holds for every function that moves no more than its argument, as a maximum or a
    minimum of |θ_t|.
    """
    radius = np.quantile(np.asarray(deviations, np.float64), confidence, axis=0)
    return Interval(np.maximum(value - radius, 0.0), value + radius)
