"""Estimates with intervals: formulas of the tensor of mean cosines and of its replicates."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from typing import Final, Literal

import numpy as np

from clinometer.stats.bootstrap import ball_interval, fold_interval, percentile_interval
from clinometer.stats.scratch import Kept

Formula = Callable[[np.ndarray], np.ndarray]
"""From tensors of mean cosines (… × T × 4 × groups) to numbers (… × anything)."""

NUMBERS_AT_ONCE: Final = 2**22
"""Numbers of a tensor of replicates that are read at once, 16 MB."""


@dataclass(frozen=True)
class Replicates:
    """Tensors of mean cosines: the estimate (T × 4 × groups) and replicates of it (R × T × 4 × groups)."""

    point: np.ndarray
    images: np.ndarray
    stimulus: np.ndarray

    @property
    def null(self) -> np.ndarray:
        """Tensors as chance alone would have them: deviations of the replicates from the estimate.

        All groups are as near as they are on average, so nothing leans; images, words and encoders scatter as they do.
        """
        point = self.point
        return np.asarray(self.stimulus - (point - point.mean(axis=-1, keepdims=True)).astype(np.float32))


@dataclass(frozen=True)
class Drawn:
    """The replicates of a target, put away: :class:`Replicates` without the axis of the targets."""

    images: Kept
    stimulus: Kept


@dataclass(frozen=True)
class TargetReplicates:
    """Replicates of all targets, of which some are read at a time.

    ``point`` (T × 4 × groups) is that of all.
    """

    point: np.ndarray
    drawn: Sequence[Drawn]

    def parts(self) -> Iterator[Replicates]:
        """Some consecutive targets at a time, two at least: numpy sums a single column in another order."""
        if not self.drawn:
            return
        size = int(np.prod(self.drawn[0].images.shape))
        for part in parts_of(len(self.drawn), max(NUMBERS_AT_ONCE // size, 2)):
            yield self._read(part)

    def whole(self) -> Replicates:
        """All targets at once."""
        return self._read(slice(None))

    def _read(self, part: slice) -> Replicates:
        def stacked(name: str) -> np.ndarray:
            return np.stack([getattr(target, name).read() for target in self.drawn[part]], axis=1)

        return Replicates(self.point[part], stacked("images"), stacked("stimulus"))


def parts_of(total: int, at_once: int) -> Iterator[slice]:
    """Cut so many positions into parts of so many, or one more, none of which is a single one unless all are."""
    edges = [*range(0, total, at_once)]
    if len(edges) > 1 and total - edges[-1] == 1:
        edges.pop()
    for first, stop in zip(edges, [*edges[1:], total], strict=True):
        yield slice(first, stop)


def each_target(replicates: TargetReplicates, make: Callable[[Replicates], Estimate]) -> Estimate:
    """An estimate of every target, made of some targets at a time."""
    estimates = [make(part) for part in replicates.parts()]
    return Estimate(*(np.concatenate([getattr(numbers, f.name) for numbers in estimates]) for f in fields(Estimate)))


def null_expectation(
    replicates: TargetReplicates,
    formula: Callable[[Replicates], np.ndarray],
    centre: Callable[..., np.ndarray],
) -> np.ndarray:
    """The centre, over null draws (… × T) of a non-negative number, of every target: (T,)."""
    centres = [centre(np.asarray(formula(part), np.float64), axis=0) for part in replicates.parts()]
    return np.concatenate(centres) if centres else np.empty(0)


def all_targets(replicates: TargetReplicates, formula: Callable[[Replicates], np.ndarray]) -> np.ndarray:
    """Numbers of every target, (… × T), made of some targets at a time."""
    return np.concatenate([formula(part) for part in replicates.parts()], axis=-1)


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

    def without_null(self) -> Estimate:
        """Leave the null expectation out, of a number that may be negative."""
        return replace(self, null=np.full_like(self.null, np.nan))


def estimate(replicates: Replicates, formula: Formula, confidence: float) -> Estimate:
    """Apply a formula of the tensor, with percentile intervals."""
    value = np.asarray(formula(replicates.point))
    inner, outer = (
        percentile_interval(formula(drawn), confidence) for drawn in (replicates.images, replicates.stimulus)
    )
    return Estimate(value, inner.low, inner.high, outer.low, outer.high, np.full(value.shape, np.nan))


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
