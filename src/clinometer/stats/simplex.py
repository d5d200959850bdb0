"""A confidence region of several shares, in one sample or two, and the range of a score over it. See decision 12."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import scipy

from clinometer.stats.arguments import require_confidence

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
    require_confidence(confidence)
    f = counts / counts.sum()
    level = 1 + float(scipy.stats.chi2.ppf(confidence, len(f) - 1)) / float(counts.sum())
    rng = np.random.default_rng(0)
    uniform = np.full(len(f), 1 / len(f))
    directions = np.vstack([np.eye(len(f)), uniform[None]]) - f
    directions = np.vstack([directions, rng.standard_normal((_DIRECTIONS, len(f)))])

    def inside(points: np.ndarray) -> np.ndarray:
        return np.asarray(_pearson(f, points) <= level)

    point_sets = [f[None], uniform[None][inside(uniform[None])]]
    for _ in range(1 if len(f) == 2 else _ROUNDS):
        point_sets.append(_along_rays(f, _inward(directions, f), inside))
        points = np.concatenate(point_sets)
        values = score(points)
        best = points[[int(values.argmin()), int(values.argmax())]]
        point_sets = [best]
        around = best[rng.integers(2, size=_DIRECTIONS)] - f
        directions = around + 0.2 * np.abs(around).max() * rng.standard_normal(around.shape)
    values = score(np.concatenate(point_sets))
    return float(values.min()), float(values.max())


def range_over_two_shares(
    score: Callable[[np.ndarray, np.ndarray], np.ndarray],
    first: np.ndarray,
    second: np.ndarray,
    confidence: float = 0.95,
) -> tuple[float, float]:
    """Least and largest value of a score of two samples' shares, as :func:`range_over_shares` of one.

    ::

        { (p, q) : n Σ_i (f_i − p_i)² / p_i + m Σ_i (g_i − q_i)² / q_i ≤ χ²_{2(K−1)} }

    Shares that are the same in both samples come nearest to them at ``p_i ∝ √(n f_i² + m g_i²)``; where the region
    holds these, it holds a pair that does not differ.

    Parameters
    ----------
    score : maps (rows × K) shares of each sample to (rows,).
    first, second : (K,) whole numbers, not all 0.
    """
    require_confidence(confidence)
    n, m = float(first.sum()), float(second.sum())
    f, g = first / n, second / m
    k, most = len(f), float(scipy.stats.chi2.ppf(confidence, 2 * (len(f) - 1)))

    def inside(points: np.ndarray) -> np.ndarray:
        distance = n * (_pearson(f, points[:, :k]) - 1) + m * (_pearson(g, points[:, k:]) - 1)
        return np.asarray(distance <= most)

    def values(points: np.ndarray) -> np.ndarray:
        return score(points[:, :k], points[:, k:])

    centre, rng = np.concatenate([f, g]), np.random.default_rng(0)
    same = np.sqrt(n * f**2 + m * g**2)
    alike = np.tile(same / same.sum(), 2)[None]
    point_sets = [centre[None], alike[inside(alike)]]
    still = np.zeros((k, k))
    corners = np.block([[np.eye(k) - f, still], [still, np.eye(k) - g]])
    directions = np.vstack([corners, alike - centre, rng.standard_normal((_DIRECTIONS, 2 * k))])
    for _ in range(_ROUNDS):
        inward = np.hstack([_inward(directions[:, :k], f), _inward(directions[:, k:], g)])
        point_sets.append(_along_rays(centre, inward, inside))
        points = np.concatenate(point_sets)
        best = points[[int(values(points).argmin()), int(values(points).argmax())]]
        point_sets = [best]
        around = best[rng.integers(2, size=_DIRECTIONS)] - centre
        directions = around + 0.2 * np.abs(around).max() * rng.standard_normal(around.shape)
    reached = values(np.concatenate(point_sets))
    return float(reached.min()), float(reached.max())


def _inward(directions: np.ndarray, f: np.ndarray) -> np.ndarray:
    """Directions that keep the sum and do not leave the simplex at once, where a share is 0."""
    is_positive = f > 0
    directions = np.where(is_positive, directions, np.abs(directions))
    return np.asarray(
        directions - np.where(is_positive, directions.sum(axis=1, keepdims=True) / is_positive.sum(), 0.0)
    )


def _along_rays(centre: np.ndarray, directions: np.ndarray, inside: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
    """Points of the region along rays from its centre, the last at its border, which is found by halving."""
    lengths = np.abs(directions).sum(axis=1, keepdims=True)
    moves = lengths[:, 0] > 1e-12
    directions = directions[moves] / lengths[moves]
    with np.errstate(divide="ignore"):
        far = np.where(directions < 0, -centre / np.where(directions < 0, directions, 1), np.inf).min(axis=1)
    low, high = np.zeros(len(directions)), np.minimum(far, 2.0)
    for _ in range(40):
        middle = (low + high) / 2
        is_inside = inside(centre + middle[:, None] * directions)
        low, high = np.where(is_inside, middle, low), np.where(is_inside, high, middle)
    return np.concatenate([centre + step * low[:, None] * directions for step in _STEPS])


def _pearson(f: np.ndarray, p: np.ndarray) -> np.ndarray:
    """``Σ_i f_i² / p_i``; infinite where a share that was seen would be 0."""
    is_positive = f > 0
    with np.errstate(divide="ignore"):
        return np.asarray((f[is_positive] ** 2 / np.maximum(p[:, is_positive], 0)).sum(axis=1))
