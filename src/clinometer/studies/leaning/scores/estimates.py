"""Estimates with intervals: formulas of the tensor of mean cosines and of its replicates."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from clinometer.stats.bootstrap import ball_interval, fold_interval, percentile_interval, welch_satterthwaite

Formula = Callable[[np.ndarray], np.ndarray]
"""From tensors of mean cosines (… × T × 4 × groups) to numbers (… × anything)."""


@dataclass(frozen=True)
class Freedoms:
    """Degrees of freedom of the three samples a target's number rests on: items, less one in every prompt or list.

    ``targets`` (T,) of each target's images; ``attributes`` and ``words`` of the images and words of a and b together.
    """

    targets: np.ndarray
    attributes: float
    words: float


@dataclass(frozen=True)
class Replicates:
    """Tensors of mean cosines: the estimate (T × 4 × groups) and replicates of it (R × T × 4 × groups).

    ``target_images`` are some replicates of the target images alone, attributes held; with ``freedoms`` they tell how
    well the spread of a target's replicates is known. Both None where the numbers are not of targets.
    """

    point: np.ndarray
    images: np.ndarray
    stimulus: np.ndarray
    target_images: np.ndarray | None = None
    freedoms: Freedoms | None = None


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
    """Apply a formula of the tensor, with percentile intervals, as wide as t where it is one number a target.

    ``centred`` serves the replicates where it differs from the formula of the estimate (signs held, say).
    """
    drawn = centred or formula
    value = np.asarray(formula(replicates.point))
    images, stimulus = drawn(replicates.images), drawn(replicates.stimulus)
    freedom_images, freedom_stimulus = _degrees_of_freedom(replicates, drawn, images, stimulus)
    inner = percentile_interval(images, confidence, freedom_images)
    outer = percentile_interval(stimulus, confidence, freedom_stimulus)
    return Estimate(value, inner.low, inner.high, outer.low, outer.high, np.full(value.shape, np.nan))


def _degrees_of_freedom(
    replicates: Replicates, formula: Formula, images: np.ndarray, stimulus: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Degrees of freedom of the variance of a target's replicates, over images and over stimuli.

    The parts are the target images, the attribute images and the words (and encoders). Their variances come from the
    replicates: of the target images alone, what the attribute images add to that, what the stimuli add to both.
    Infinite where the number is not one of each target.
    """
    known = replicates.freedoms
    if known is None or replicates.target_images is None or images.shape[1:] != known.targets.shape:
        return np.array(np.inf), np.array(np.inf)
    with np.errstate(invalid="ignore"):  # a ratio may have an infinite replicate
        of_images = image_parts(replicates, formula)
        of_words = (added_variance(stimulus, images), np.array(known.words))
    return welch_satterthwaite(of_images), welch_satterthwaite([*of_images, of_words])


def image_parts(replicates: Replicates, formula: Formula) -> list[tuple[np.ndarray, np.ndarray]]:
    """Variance and degrees of freedom of each target's number: from its own images, and from the attribute images."""
    known = replicates.freedoms
    assert known is not None
    assert replicates.target_images is not None
    own, both = formula(replicates.target_images), formula(replicates.images)
    return [(variance(own), known.targets), (added_variance(both, own), np.array(known.attributes))]


def added_variance(more: np.ndarray, fewer: np.ndarray) -> np.ndarray:
    """The variance that replicates have beyond that of others in which fewer things are resampled."""
    return np.asarray(np.maximum(variance(more) - variance(fewer), 0.0))


def variance(draws: np.ndarray) -> np.ndarray:
    """Variance of replicates, in float64."""
    return np.asarray(np.var(np.asarray(draws, np.float64), axis=0))


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
