"""What the comparisons of two runs share.

A study lists its quantities. Each is a :class:`Family` of rows ``Δ = θ(second) − θ(first)``, one a unit, with the sides
of their verdicts. How Δ, its interval and its p are computed is the study's own. Here is what may be compared, what is
paired, how a family is corrected and judged, and how the difference of mean magnitudes is told. See decision 8.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol, TypeVar

import numpy as np

from clinometer.errors import InvalidInputError
from clinometer.metrics.bounds import MISSING, REPEATS, with_bounds
from clinometer.metrics.differences import METRIC, judge_differences, judge_magnitude, outward
from clinometer.metrics.records import Score, corrected
from clinometer.metrics.verdict import Ends, image_ends

Sides = str | Sequence[str]
"""The name of a side, for all rows of a family or for each."""

Key = TypeVar("Key")


class HasEncoder(Protocol):
    """What one encoder saw of a run."""

    @property
    def encoder(self) -> str:
        """The encoder's name."""
        ...


@dataclass(frozen=True, kw_only=True)
class Family:
    """One quantity of which two runs differ.

    Attributes
    ----------
    rows : a row a unit, with value, intervals and p.
    name : over what p is corrected; empty for rows without a test.
    sides : to whom the second run leans more where the difference is above 0, and below; None gives no verdict.
    margin, ends, fewest : see :func:`clinometer.metrics.differences.judge_differences`.
    fillings : the same rows with the pictures filled in that are missing, once for every way to do so.
    as_drawn : the same rows with pictures that repeat counted as often as they were drawn; none where none does.
    """

    rows: Sequence[Score]
    name: str = ""
    sides: tuple[Sides, Sides] | None = None
    margin: float | None = None
    ends: Ends = image_ends
    fewest: int = 0
    fillings: Sequence[Sequence[Score]] = ()
    as_drawn: Sequence[Score] = ()

    def corrected(self) -> list[Score]:
        """Rows with their q-values and Holm's p."""
        return corrected(self.rows, f"{METRIC}: {self.name}") if self.name else list(self.rows)

    def judged(self) -> list[Score]:
        """Return the same with verdicts, where the quantity has sides, and with what fillings do to them."""
        ways = {MISSING: self.fillings, REPEATS: [self.as_drawn] if self.as_drawn else []}
        fillings = {
            kind: [replace(self, rows=rows, fillings=(), as_drawn=()).judged() for rows in some]
            for kind, some in ways.items()
        }
        rows = self.corrected()
        if self.sides is not None:
            a, b = self.sides
            rows = judge_differences(rows, a=a, b=b, margin=self.margin, ends=self.ends, fewest=self.fewest)
        return with_bounds(rows, fillings, self.ends)


def judged_families(families: Iterable[Family]) -> list[Score]:
    """Return the rows of all families, corrected and judged."""
    return [row for family in families for row in family.judged()]


def require_comparable(
    first: Sequence[HasEncoder], second: Sequence[HasEncoder], counts: Sequence[object], *, paired: bool
) -> None:
    """Refuse runs of different encoders and, where ``paired``, of different ``counts`` of images."""
    names = [[reading.encoder for reading in run] for run in (first, second)]
    if names[0] != names[1]:
        raise InvalidInputError(f"encoders: found {names[0]} and {names[1]}, expected the same in both runs")
    if paired and counts[0] != counts[1]:
        raise InvalidInputError("paired: the runs have different numbers of images; pair them, or compare unpaired")


def image_seeds(seed: int, *, paired: bool) -> tuple[int, int]:
    """From what the images of either run are resampled: partners by the same weights, others for themselves."""
    return seed, seed if paired else seed + 1


def cut_alike(images: Mapping[Key, np.ndarray], others: Mapping[Key, np.ndarray]) -> dict[Key, np.ndarray]:
    """The first images of each, no more than the other run has: the magnitude of few images is larger by chance."""
    return {key: own[: len(others[key])] for key, own in images.items()}


def magnitude_row(
    row: Score,
    excess: Sequence[float],
    stimulus_excess: Sequence[float] | None = None,
    *,
    ends: Ends = image_ends,
    containing: bool = False,
) -> Score:
    """Say which run leans more over all, ``mean |θ(second)| − mean |θ(first)|``: a family by itself, judged.

    ``row`` has the estimate, its p and its intervals with the signs of the estimates held. Their ends are moved
    outwards by what the first's and the second's magnitude may owe to chance: ``excess`` over images,
    ``stimulus_excess`` over stimuli, the same where it is not given. ``containing``: the interval over stimuli holds
    that over images, as it rests on more sources of chance.
    """
    low, high = outward(row.low, row.high, excess)
    outer = outward(row.stimulus_low, row.stimulus_high, excess if stimulus_excess is None else stimulus_excess)
    if containing and np.isfinite([*outer, low, high]).all():
        outer = min(outer[0], low), max(outer[1], high)
    moved = replace(row, low=low, high=high, stimulus_low=outer[0], stimulus_high=outer[1])
    return judge_magnitude(alone(moved), ends)


def bounded_magnitude(
    row: Score, own: np.ndarray, filled: np.ndarray, n_missing: int, ends: Ends = image_ends
) -> Score:
    """Say what missing pictures might do to a difference of mean magnitudes: each θ may be nearer to 0, or farther.

    ``own`` : θ of the first and of the second run, (2 × C). ``filled`` : both ends of what they may be, (2 × 2 × C).
    As far as these may move it, the difference is moved, as uncertain as it was; its p is left as it is.
    """
    size = np.abs(filled)
    least = np.where(filled.min(axis=1) * filled.max(axis=1) <= 0, 0.0, size.min(axis=1)) - np.abs(own)
    most = size.max(axis=1) - np.abs(own)
    shifts = [(least[1] - most[0]).mean(), (most[1] - least[0]).mean()]
    names = ("value", "low", "high", "stimulus_low", "stimulus_high")
    moved = [
        judge_magnitude(replace(row, **{name: getattr(row, name) + float(shift) for name in names}), ends)
        for shift in shifts
    ]
    row = replace(row, n_missing=n_missing)
    return with_bounds([row], {MISSING: [[one] for one in moved]}, ends)[0] if np.isfinite(shifts).all() else row


def alone(row: Score) -> Score:
    """Return a row that is a family by itself: there is nothing to correct for."""
    return replace(row, q=row.p, p_holm=row.p, family=f"{METRIC}: {row.component.replace('_', ' ')}")


def with_reasons(row: Score, *reasons: str) -> Score:
    """Add to what a row says of itself; empty parts are left out."""
    return replace(row, reason="; ".join(part for part in (row.reason, *reasons) if part))
