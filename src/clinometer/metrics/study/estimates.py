"""Estimates with intervals: formulas of the tensor of mean cosines and of its replicates."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from clinometer.stats.bootstrap import ball_interval, fold_interval, percentile_interval

Formula = Callable[[np.ndarray], np.ndarray]
"""From tensors of mean cosines (… × T × 4 × groups) to numbers (… × anything)."""


@dataclass(frozen=True)
class Replicates:
    """Tensors of mean cosines: the estimate (T × 4 × groups) and replicates of it (R × T × 4 × groups)."""

    point: np.ndarray
    images: np.ndarray
    stimulus: np.ndarray


@dataclass(frozen=True)
class Estimate:
    """Numbers with their intervals and null expectation, all of one shape."""

    value: np.ndarray
    low: np.ndarray
    high: np.ndarray
    stimulus_low: np.ndarray
    stimulus_high: np.ndarray
    null: np.ndarray

    def folded(self) -> Estimate:
        """Take magnitudes: |value| with the images of the intervals under the absolute value."""
        inner, outer = (
            fold_interval(self.low, self.high),
            fold_interval(self.stimulus_low, self.stimulus_high),
        )
        return replace(
            self,
            value=np.abs(self.value),
            low=inner.low,
            high=inner.high,
            stimulus_low=outer.low,
            stimulus_high=outer.high,
        )

    def with_null(self, draws: np.ndarray, centre: Literal["mean", "median"] = "mean") -> Estimate:
        """Add the null expectation of a non-negative score: the centre of its null draws."""
        draws = np.asarray(draws, np.float64)
        return replace(self, null=draws.mean(axis=0) if centre == "mean" else np.median(draws, axis=0))


def estimate(replicates: Replicates, formula: Formula, confidence: float, centred: Formula | None = None) -> Estimate:
    """Apply a formula of the tensor, with percentile intervals.

    ``centred`` serves the replicates where it differs from the formula of the estimate (signs held, say).
    """
    value = np.asarray(formula(replicates.point))
    inner = percentile_interval((centred or formula)(replicates.images), confidence)
    outer = percentile_interval((centred or formula)(replicates.stimulus), confidence)
    return Estimate(value, inner.low, inner.high, outer.low, outer.high, np.full(value.shape, np.nan))


def estimate_norm(
    replicates: Replicates, vector: Formula, norm: Formula, confidence: float, value: Formula | None = None
) -> Estimate:
    """``norm(vector(C))``, non-negative, with the interval of :func:`ball_interval`.

    ``value`` is the number reported where it is not that norm itself but a function that moves no more than
    it.
    """
    centre = vector(replicates.point)
    size = np.asarray((value or norm)(centre))
    inner = ball_interval(size, norm(vector(replicates.images) - centre), confidence)
    outer = ball_interval(size, norm(vector(replicates.stimulus) - centre), confidence)
    return Estimate(size, inner.low, inner.high, outer.low, outer.high, np.full(size.shape, np.nan))
