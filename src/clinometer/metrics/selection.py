"""The four-fifths ratio: a group's share over the largest, of shares of the same images, with its interval.

With π_g the shares of K groups and ρ_gh = π_g / π_h::

    to_largest  min_h ρ_gh           of group g, in [0, 1]; 1: no group has a larger share
    smallest    min_g min_h ρ_gh     smallest share over largest; 1: all shares are equal

Shares of the same n images add up to 1, so they are not independent binomials. Given the x_g + x_h images of two
groups, x_g is binomial with the probability ρ / (1 + ρ), whatever the other shares are, so Wilson's interval of it is
one of ρ, also where x_g = 0. The rule is a convention here: 29 CFR 1607.4(D) is about rates at which applicants are
selected, and images are not applicants.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import isfinite, nan
from typing import Final

import numpy as np
import scipy
from numpy.typing import ArrayLike

from clinometer.errors import InvalidInputError
from clinometer.metrics.records import SELECTION, Score, corrected
from clinometer.metrics.standard import SourceShares
from clinometer.stats.arguments import require_confidence
from clinometer.stats.proportion import score_ends, wilson_interval, wilson_worth

SMALLEST: Final = "smallest"
TO_LARGEST: Final = "to_largest"
TEST: Final = "score test that the smallest and the largest share are equal, given the images of both groups"
MOST_GROUPS: Final = 10
"""Groups of which each has a row of its own; of more, the smallest share alone is held against the largest."""


@dataclass(frozen=True)
class SelectionRatios:
    """Ratios of shares with their intervals, and p that all shares are equal.

    Attributes
    ----------
    value, low, high : (…, K) share of a group over the largest.
    smallest, smallest_low, smallest_high : (…,) smallest share over largest.
    group : (…,) which group is the smallest, from 0.
    p : (…,) of the score test that smallest and largest are equal; of three groups or more times the number of pairs.
    """

    value: np.ndarray
    low: np.ndarray
    high: np.ndarray
    smallest: np.ndarray
    smallest_low: np.ndarray
    smallest_high: np.ndarray
    group: np.ndarray
    p: np.ndarray


def selection_ratios(
    share: ArrayLike, low: ArrayLike, high: ArrayLike, *, worth: ArrayLike | None = None, confidence: float = 0.95
) -> SelectionRatios:
    """Divide shares of the same images by the largest of them, with intervals.

    Of two groups the interval is that of the share, whose errors it keeps: [l / (1 − l), u / (1 − u)] for the ratio of
    one group to the other, up to 1. Of more groups the shares count as ``worth · π`` images, and Wilson's interval of
    π_g / (π_g + π_h) becomes one of π_g / π_h. The lower end is that against the largest other share, which holds
    whichever is the largest (intersection–union); the upper one is corrected for the choice of the pair (Bonferroni).

    Parameters
    ----------
    share, low, high : (…, K) shares of K groups with intervals at ``confidence``; NaN for none.
    worth : (…,) images that the shares of three groups or more are worth: their number where they were counted. By
        default that of which the least sure share has a Wilson's interval as wide as [low, high].

    Raises
    ------
    InvalidInputError
        Fewer than two groups, or arrays of other shapes.

    Examples
    --------
    14 of 20 images of one group and 6 of the other; then 100 images of three groups:

    >>> found = selection_ratios([0.7, 0.3], [0.481, 0.145], [0.855, 0.519])
    >>> [round(float(each), 2) for each in (found.smallest, found.smallest_low, found.smallest_high)]
    [0.43, 0.17, 1.0]
    >>> found = selection_ratios([0.6, 0.4, 0.0], [0.5, 0.31, 0.0], [0.69, 0.5, 0.04], worth=100)
    >>> found.value.round(2).tolist(), found.low.round(2).tolist(), found.high.round(2).tolist()
    ([1.0, 0.67, 0.0], [1.0, 0.45, 0.0], [1.0, 1.0, 0.08])
    """
    require_confidence(confidence)
    s, lower, upper = (np.asarray(each, np.float64) for each in (share, low, high))
    if s.ndim < 1 or s.shape[-1] < 2 or not s.shape == lower.shape == upper.shape:
        raise InvalidInputError.wrong_shape(
            f"expected (…, K) of two groups or more, found {s.shape}, {lower.shape}, {upper.shape}",
            field=("share", "low", "high"),
        )
    groups = s.shape[-1]
    pairs = groups * (groups - 1) // 2
    if worth is None:
        worth = wilson_worth(s, upper - lower, confidence).min(axis=-1)
    other = _largest_other(s)
    images = np.asarray(worth, np.float64)[..., None] * (s + other)
    with np.errstate(divide="ignore", invalid="ignore"):
        among = s / (s + other)
        p = np.minimum(2 * pairs * scipy.special.ndtr(-np.abs(2 * among - 1) * np.sqrt(images)), 1.0)
        if groups == 2:
            least, most = _ratios_within(lower, upper)
            most_of_smallest = most
        else:
            tails = (1 - confidence) / 2 / np.array([1, groups - 1, pairs])
            within = [score_ends(among, images, z) for z in -scipy.special.ndtri(tails)]
            sides = (within[0][0], within[1][1], within[2][1])
            least, most, most_of_smallest = (np.minimum(side / (1 - side), 1.0) for side in sides)
        value = np.minimum(s / other, 1.0)
    group = np.nan_to_num(s).argmin(axis=-1)
    return SelectionRatios(
        value, least, most, value.min(axis=-1), least.min(axis=-1), most_of_smallest.min(axis=-1), group,
        np.take_along_axis(p, group[..., None], -1)[..., 0],
    )  # fmt: skip


def _largest_other(values: np.ndarray) -> np.ndarray:
    """Return of every group the largest value of another one."""
    ordered = np.sort(values, axis=-1)
    second, first = ordered[..., -2:-1], ordered[..., -1:]
    return np.where(values == first, np.where(second == first, first, second), first)


def _ratios_within(low: np.ndarray, high: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the least and the largest share over the largest other one, where shares lie within [low, high]."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.minimum(low / _largest_other(high), 1.0), np.minimum(high / _largest_other(low), 1.0)


def selection_rows(held: SourceShares, confidence: float = 0.95) -> list[Score]:
    """Make the rows ``smallest``, and of three groups or more ``to_largest``, of each concept and of all together.

    Those of all concepts are of the shares of all their images (``held.overall``, or counted here). q corrects over the
    concepts and settings of one source.
    """
    k = len(held.groups)
    by_concept = [list(held.rows[at : at + k]) for at in range(0, len(held.rows), k)]
    counted = held.known is None and held.counts is not None
    by_concept += [list(held.overall)] if held.overall else list(_pooled(held, confidence)) if counted else []
    if not by_concept:
        return []
    share, low, high, bound_low, bound_high = (
        np.array([[getattr(row, name) for row in rows] for rows in by_concept])
        for name in ("value", "low", "high", "bound_low", "bound_high")
    )
    worth = np.array([rows[0].n_target for rows in by_concept]) if counted else None
    ratios = selection_ratios(share, low, high, worth=worth, confidence=confidence)
    bounds = _ratios_within(bound_low, bound_high)
    scores = list[Score]()
    for at, rows in enumerate(by_concept):
        first = rows[0]
        about = Score(
            metric=SELECTION, component=SMALLEST, concept=first.concept, category=first.category, setting=first.setting,
            encoder=first.encoder, n_target=first.n_target, n_missing=first.n_missing, n_repeated=first.n_repeated,
            n_a=first.n_a, flag=first.flag, null=1.0, reason=first.reason, reason_code=first.reason_code,
        )  # fmt: skip
        smallest = replace(
            about, group=held.groups[int(ratios.group[at])] if isfinite(ratios.smallest[at]) else "",
            value=float(ratios.smallest[at]), low=float(ratios.smallest_low[at]), high=float(ratios.smallest_high[at]),
            bound_low=float(bounds[0][at].min()), bound_high=float(bounds[1][at].min()), p=float(ratios.p[at]),
            test=TEST,
        )  # fmt: skip
        scores.append(smallest)
        scores += [
            replace(
                about, component=TO_LARGEST, group=group, value=float(ratios.value[at, g]),
                low=float(ratios.low[at, g]), high=float(ratios.high[at, g]), bound_low=float(bounds[0][at, g]),
                bound_high=float(bounds[1][at, g]),
            )
            for g, group in enumerate(held.groups if 2 < k <= MOST_GROUPS else ())
        ]  # fmt: skip
    return corrected(scores, f"{SELECTION}: {len(by_concept)} ratios of {scores[0].setting or 'all concepts'}")


def _pooled(held: SourceShares, confidence: float) -> Iterator[list[Score]]:
    """Count all concepts of a setting together: the shares of each group, with Wilson's intervals."""
    counts: dict[str, np.ndarray] = {}
    for (_, setting), own in (held.counts or {}).items():
        counts[setting] = counts.get(setting, 0) + np.asarray(own)
    missing = {setting: 0 for setting in counts}
    for row in held.rows[:: len(held.groups)]:
        missing[row.setting] += row.n_missing
    for setting, own in counts.items():
        n, lost = int(own.sum()), missing[setting]
        shares = [wilson_interval(int(count), n, confidence) for count in own]
        yield [
            Score(
                metric=SELECTION, component=SMALLEST, category="all", setting=setting, encoder=held.rows[0].encoder,
                value=share.value, low=share.low, high=share.high, n_target=n, n_missing=lost, reason=share.reason,
                bound_low=share.low * n / (n + lost) if lost else nan,
                bound_high=(share.high * n + lost) / (n + lost) if lost else nan,
            )
            for share in shares
        ]  # fmt: skip
