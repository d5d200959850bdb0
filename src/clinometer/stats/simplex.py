"""A confidence region of several shares, and the range of a score over it."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.stats import chi2

_DIRECTIONS = 512
_ROUNDS = 3
_STEPS = np.linspace(0, 1, 9)[1:, None]  # along a ray: a score need not be extreme at its end


def range_over_shares(
    score: Callable[[np.ndarray], np.ndarray], counts: np.ndarray, confidence: float = 0.95
) -> tuple[float, float]:
    """Least and largest value of a score over the shares that Pearson's test of the counts cannot refuse.

    ::

        { p : n Σ_i (f_i − p_i)² / p_i ≤ χ²_{K−1} }  =  { p : Σ_i f_i² / p_i ≤ 1 + χ²_{K−1} / n },     f = counts / n

    For K = 2 that is Wilson's interval; for more groups it is its counterpart (Wilson 1927; Quesenberry & Hurst 1964).
    Whatever score is read off the region holds its truth whenever the region holds p, so its interval covers at least
    as often. The region is convex; its ends are searched along rays from f, in fresh directions around the best each
    round, from a fixed seed.

    Parameters
    ----------
    score : maps (rows × K) shares to (rows,).
    counts : (K,) whole numbers, not all 0.
    """
    f = counts / counts.sum()
    level = 1 + float(chi2.ppf(confidence, len(f) - 1)) / float(counts.sum())
    rng = np.random.default_rng(0)
    uniform = np.full(len(f), 1 / len(f))
    directions = np.vstack([np.eye(len(f)), uniform[None]]) - f
    directions = np.vstack([directions, rng.standard_normal((_DIRECTIONS, len(f)))])
    found = [f[None]] + ([uniform[None]] if _pearson(f, uniform[None])[0] <= level else [])
    for _ in range(1 if len(f) == 2 else _ROUNDS):
        found.append(_along_rays(f, _inward(directions, f), level))
        points = np.concatenate(found)
        values = score(points)
        best = points[[int(values.argmin()), int(values.argmax())]]
        found = [best]
        around = best[rng.integers(2, size=_DIRECTIONS)] - f
        directions = around + 0.2 * np.abs(around).max() * rng.standard_normal(around.shape)
    values = score(np.concatenate(found))
    return float(values.min()), float(values.max())


def _inward(directions: np.ndarray, f: np.ndarray) -> np.ndarray:
    """Directions that keep the sum and do not leave the simplex at once, where a share is 0."""
    seen = f > 0
    directions = np.where(seen, directions, np.abs(directions))
    directions = directions - np.where(seen, directions.sum(axis=1, keepdims=True) / seen.sum(), 0.0)
    lengths = np.abs(directions).sum(axis=1, keepdims=True)
    moves = lengths[:, 0] > 1e-12
    return np.asarray(directions[moves] / lengths[moves])


def _along_rays(f: np.ndarray, directions: np.ndarray, level: float) -> np.ndarray:
    """Points of the region along rays from f, the last at its border, which is found by halving."""
    with np.errstate(divide="ignore"):
        far = np.where(directions < 0, -f / np.where(directions < 0, directions, 1), np.inf).min(axis=1)
    low, high = np.zeros(len(directions)), np.minimum(far, 2.0)
    for _ in range(40):
        middle = (low + high) / 2
        inside = _pearson(f, f + middle[:, None] * directions) <= level
        low, high = np.where(inside, middle, low), np.where(inside, high, middle)
    return np.concatenate([f + step * low[:, None] * directions for step in _STEPS])


def _pearson(f: np.ndarray, p: np.ndarray) -> np.ndarray:
    """``Σ_i f_i² / p_i``; infinite where a share that was seen would be 0."""
    seen = f > 0
    with np.errstate(divide="ignore"):
        return np.asarray((f[seen] ** 2 / np.maximum(p[:, seen], 0)).sum(axis=1))
