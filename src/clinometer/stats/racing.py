"""When to stop comparing: pairs of classes whose order more trials would hardly change.

Errors of the classes are measured on the same trials, so their differences are paired; and the trials are a
systematic sample of a planned total of N, spread evenly over the timesteps. After n of N trials the question is not the
mean of an endless series but where the mean of these N will stand. With d_1 … d_n the differences in the order of their
timesteps::

    D_N − D_n  ~  t_{n−1} · s · sqrt(1/n − 1/N),          s² = Σ (d_{i+1} − d_i)² / (2 (n − 1))

the finite-population interval (Cochran 1977, §2.6) with the variance of successive differences (von Neumann 1941;
Wolter 2007, §8.2), which the smooth dependence of a difference on its timestep does not inflate.

Few trials say little of a variance, and a pair whose s happens to be small would be settled too early. The differences
of one image have much the same variance, so where several are judged together each s² is moderated (Smyth 2004)::

    s̃² = ((n − 1) s² + d s̄²) / (n − 1 + d)       with n − 1 + d degrees of freedom, s̄² the mean of those s²

See decision 22.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import scipy

from clinometer.errors import InvalidInputError

CONFIDENCE = 0.999
MODERATION = 25.0
"""d above, for the pairs of one image. Chosen on portraits that no benchmark or test uses."""


@dataclass(frozen=True)
class FinalMean:
    """Where means of N trials will stand, judged from n of them: the mean so far and its half-width, both (…,)."""

    mean: np.ndarray
    half_width: np.ndarray

    @property
    def decided(self) -> np.ndarray:
        """Whether the sign of the final mean is settled; NaN never is."""
        return np.asarray(np.abs(self.mean) > self.half_width)


def final_mean(differences: np.ndarray, total: int, confidence: float, moderation: float = 0.0) -> FinalMean:
    """Judge the mean of ``total`` trials from the first n: differences (…, n), in the order of their timesteps.

    With n = ``total`` the half-width is 0; with n = 1 it is infinite. With ``moderation``, the weight d, variances are
    moderated towards their mean over all differences that are given.

    Raises
    ------
    InvalidInputError
        More trials than planned, or none, or a confidence outside of (0, 1).

    Examples
    --------
    >>> settled = final_mean(np.array([1.0, 1.1, 0.9, 1.0]), total=8, confidence=0.95)
    >>> bool(settled.decided), round(float(settled.half_width), 3)
    (True, 0.113)
    """
    values = np.asarray(differences, np.float64)
    n = values.shape[-1]
    if not 0 < n <= total:
        raise InvalidInputError(f"differences: expected 1 to {total} trials, found {n}")
    if not 0 < confidence < 1:
        raise InvalidInputError(f"confidence: expected a number between 0 and 1, found {confidence}")
    mean = values.mean(axis=-1)
    if n == total:
        return FinalMean(mean, np.zeros_like(mean))
    if n == 1:
        return FinalMean(mean, np.full_like(mean, np.inf))
    variance = np.square(np.diff(values, axis=-1)).sum(axis=-1) / (2 * (n - 1))
    freedom = n - 1 + moderation
    moderated = ((n - 1) * variance + moderation * variance.mean()) / freedom
    reach = scipy.stats.t.ppf((1 + confidence) / 2, freedom) * np.sqrt(1 / n - 1 / total)
    return FinalMean(mean, np.sqrt(moderated) * reach)


@dataclass(frozen=True)
class Elimination:
    """When a class need not be looked at any longer.

    Attributes
    ----------
    pairs : (classes × classes) bool, the pairs to decide, each on one side of the diagonal: a class leaves when all its
        pairs are decided. None looks for the best class alone: a class leaves when a better one has beaten it.
    confidence : of each interval of a paired difference.
    first_look, look_every : after how many trials the intervals are looked at.
    """

    pairs: np.ndarray | None = None
    confidence: float = CONFIDENCE
    first_look: int = 10
    look_every: int = 10


class Race:
    """Which classes of which images are still to be measured.

    Parameters
    ----------
    images, classes, total : what is planned: every image under every class in ``total`` trials.
    elimination : when a class leaves; None for never.
    """

    def __init__(self, images: int, classes: int, total: int, elimination: Elimination | None) -> None:
        self.total = total
        self.elimination = elimination
        self.active = np.ones((images, classes), bool)
        pairs = None if elimination is None else elimination.pairs
        self._open = None if pairs is None else np.repeat(np.asarray(pairs, bool)[None], images, axis=0)

    def looks(self) -> Iterator[tuple[int, int]]:
        """Yield the trials (from, to) of each round, as long as a class is active."""
        start, rule = 0, self.elimination
        while start < self.total and self.active.any():
            step = self.total if rule is None else rule.look_every if start else rule.first_look
            stop = min(start + step, self.total)
            yield start, stop
            start = stop

    def judge(self, errors: np.ndarray, order: np.ndarray) -> None:
        """Let classes leave: errors (images × classes × n) so far, order (images × n) of a trial's timestep."""
        for image in np.flatnonzero(self.active.any(axis=1)).tolist():
            measured = errors[image][:, np.argsort(order[image], kind="stable")]
            if not np.isfinite(measured[self.active[image]]).all():
                self.active[image] = False  # what is not finite will not become comparable
            elif self.elimination is not None and measured.shape[-1] < self.total:
                self.active[image] = self._remaining(image, measured, self.elimination.confidence)

    def _remaining(self, image: int, errors: np.ndarray, confidence: float) -> np.ndarray:
        active = self.active[image]
        if self._open is None:
            racing = errors[active]  # a class that left has NaN from there on, which would spoil every width
            best = racing[racing.mean(axis=-1).argmin()]
            lead = final_mean(racing - best, self.total, confidence)
            remaining = active.copy()
            remaining[active] = ~((lead.mean > 0) & lead.decided)
            return remaining if remaining.sum() > 1 else np.zeros_like(active)
        first, second = np.nonzero(self._open[image])
        lead = final_mean(errors[first] - errors[second], self.total, confidence, MODERATION)
        self._open[image, first, second] = ~lead.decided
        return np.asarray(self._open[image].any(axis=0) | self._open[image].any(axis=1))
