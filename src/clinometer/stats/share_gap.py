"""The gap between two shares that an imperfect reader read, of pictures that may be pairs.

Pictures were asked for group a, and others for group b. π_a is the share of the former that show a, π_b that of the
latter that show b, and the gap is their difference, in [−1, 1]::

    δ = π_a − π_b = r¹ M⁻¹ 1_a − r² M⁻¹ 1_b          r¹, r² (R,) shares of the answers,  M[k, r] = P(answer r | group k)

A reader that knows one group better than the other makes a gap of nothing: of two groups, with s = M[a, a] and
c = M[b, b] and the raw gap D = r¹_a − r²_b,

    δ = (D + c − s) / (s + c − 1)

so that D is also *how much more often the reader would have to recognise a than b for the whole gap to be its own*.
Nothing else about the reader decides whether there is a gap. Without errors (M = 1) it is D.

Interval and p are those of one contrast: that δ is some number makes a sum of independent shares 0,

    θ(δ) = r¹ M⁻¹ 1_a − r² M⁻¹ 1_b − δ        D + (1 − δ) c − (1 + δ) s + δ = 0 of two groups

whose interval is recovered from those of its parts (MOVER; Donner & Zou 2012), each of them Wilson's: the answers to
either set, and the labelled answers to each group. The interval of δ holds every number at which that of θ(δ) covers 0,
as Fieller's does of a ratio; p is the level at which that of θ(0) touches 0.

Pairs started from one noise and depend on each other. Where the noise draws one group whatever was asked for, a success
is a failure of the other prompt, and the gap varies more than that of strangers: a negative correlation r of the
answers adds ``−2 r`` times both reaches, as in Newcombe's tenth method for paired shares (1998). A positive one is
taken to be 0, since few pictures overstate it. And the answers reach no less far than in the test of no gap itself,

    z √V + 1/(4n) + 1/(4m)        V = Σ (x_i − y_i)² / n²  of n pairs,   p (1 − p) (1/n + 1/m)  of n and m strangers

with x, y = 1 where a picture is a success, and p the share of all: McNemar's and Pearson's test, each with half its
continuity correction. Without it, five pairs of which the noise decides all would be called in 6 % of cases, and one or
more of twelve such concepts in 56 %.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import ceil, inf, nan, sqrt
from typing import Final

import numpy as np
import scipy

from clinometer.errors import InvalidInputError
from clinometer.stats.arguments import require_confidence
from clinometer.stats.power import BEYOND, MANY, POWER, require_power
from clinometer.stats.proportion import score_ends

_MOST_Z: Final = 40.0

_STEP: Final = 0.5
"""Of a step of the raw gap, taken off before it is tested: half the continuity correction. Chosen on exact levels."""


@dataclass(frozen=True)
class AnsweredSets:
    """Answers to the pictures that were asked for one group, and to those that were asked for another.

    Attributes
    ----------
    first, second : (R,) counts of the answers; need not be whole.
    pairs : (R, R) counts of the pairs among them, the answer to the first picture a row; None where there are none.
    """

    first: np.ndarray
    second: np.ndarray
    pairs: np.ndarray | None = None

    def swapped(self) -> AnsweredSets:
        """Return the same with both sets exchanged."""
        return AnsweredSets(self.second, self.first, None if self.pairs is None else self.pairs.T)


@dataclass(frozen=True)
class ShareGap:
    """A gap in [−1, 1] with its interval and p of the test that there is none; NaN with a ``reason``.

    ``first``, ``second`` : the two shares, each in [0, 1], whose difference it is. ``error`` : the standard error
    of the answers alone. ``p_equivalence`` : of two one-sided tests that the gap is as large as the margin, if any.
    """

    value: float
    low: float
    high: float
    p: float
    first: float = nan
    second: float = nan
    error: float = nan
    p_equivalence: float = nan
    reason: str = ""


def share_gap(
    sets: Sequence[AnsweredSets],
    a: int,
    b: int,
    table: np.ndarray | None = None,
    *,
    sampled: bool = False,
    margin: float | None = None,
    confidence: float = 0.95,
) -> ShareGap:
    """Estimate the gap of the module docstring in one pair of sets, or its mean over several, each with equal weight.

    Parameters
    ----------
    sets : of each concept the answers to the pictures that were asked for group ``a``, and for ``b``.
    a, b : the answers that are a success in either.
    table : (R, R) labelled answers, a row a true group; need not be whole. None of a reader that never errs.
    sampled : whether the sets are a sample of others that are meant too, so that their spread counts: Student's
        interval of their gaps in place of the pictures' own, where it is wider.
    margin : the gap in (0, 1) below which it counts as none, for ``p_equivalence``.

    Returns
    -------
    ShareGap
        Positive: a is the easier one. Shares are clipped to [0, 1], and the interval is widened to hold what comes of
        that; where clipping leaves no gap, or turns it round, p is 1.

    Raises
    ------
    InvalidInputError
        A table that is not (R, R), or a confidence outside 0 to 1.

    Sources: Newcombe, *Improved confidence intervals for the difference between binomial proportions based on paired
    data* (1998); Donner & Zou, *Closed-form confidence intervals for functions of the normal mean and standard
    deviation* (2012). Level and coverage are simulated in docs/simulations.md.

    Examples
    --------
    19 of 20 pictures asked for a man are read as men, 15 of 20 asked for a woman as women, by a reader that recognises
    98 of 100 men and 80 of 100 women: no gap is left.

    >>> sets = [AnsweredSets(np.array([19, 1]), np.array([5, 15]))]
    >>> round(share_gap(sets, 0, 1).value, 2)
    0.2
    >>> found = share_gap(sets, 0, 1, np.array([[98, 2], [20, 80]]))
    >>> round(found.value, 2), found.low < 0 < found.high
    (0.03, True)
    """
    require_confidence(confidence)
    if table is not None and np.shape(table) != (len(sets[0].first),) * 2:
        raise InvalidInputError.wrong_shape(
            f"expected {len(sets[0].first)} groups and answers, found {np.shape(table)}", field="table"
        )
    if not all(each.first.sum() and each.second.sum() for each in sets):
        return ShareGap(nan, nan, nan, nan, reason="no image was read")
    if sampled and len(sets) < 2:
        return ShareGap(nan, nan, nan, nan, reason="one concept has no spread")
    rates = None if table is None else table / table.sum(axis=1, keepdims=True)
    if rates is not None and np.linalg.cond(rates) > 1e6:
        return ShareGap(nan, nan, nan, nan, reason="the reader does not tell the groups apart")
    contrast = _Contrast(list(sets), a, b, table, sampled)
    first, second = (float(np.clip(share, 0.0, 1.0)) for share in (contrast.first[a], contrast.second[b]))
    value, z = first - second, float(scipy.special.ndtri((1 + confidence) / 2))
    low, high = contrast.interval(z)
    p = 2 * contrast.tail(0.0, 0 if value > 0 else 1) if value * contrast.value > 0 else 1.0
    alike = nan if margin is None else max(contrast.tail(margin, 1), contrast.tail(-margin, 0))
    return ShareGap(value, min(low, value), max(high, value), p, first, second, contrast.error(), alike)


def images_for_gap(
    gap: float,
    *,
    success: float = 0.95,
    recall: tuple[float, float] = (1.0, 1.0),
    labelled: tuple[float, float] | None = None,
    concepts: int = 1,
    power: float = POWER,
    alpha: float = 0.05,
) -> float:
    """Return the pictures asked for each of two groups that show a gap in one concept, with q over several.

    The least n of which the expected answers leave no room for chance: with reach(z) that of θ(0) at these,

    ::

        D + c − s  ≥  reach(z at alpha / concepts, two-sided) + z_power · sd(D + c − s)

    Parameters
    ----------
    gap : the true gap, in (0, 1]; ``success`` that of the easier group, so that the other's is ``success − gap``.
    recall : of the easier group, and of the other.
    labelled : pictures of each that are labelled; None for so many that they add no error. They do not grow with n.
    concepts : tests of the family, of which one has a gap; the more have one, the fewer pictures it takes.

    Returns
    -------
    A whole number; ``BEYOND`` for more than ``MANY``; NaN where no number would do, as labels are too few.

    Raises
    ------
    InvalidInputError
        A gap, success, recall, power or level out of range.

    Examples
    --------
    >>> images_for_gap(0.4), images_for_gap(0.4, recall=(0.98, 0.8), labelled=(60, 60), concepts=12)
    (23.0, 150.0)
    """
    require_power(power, alpha)
    for name, value, low in (("gap", gap, 0.0), ("success", success, gap), *(("recall", each, 0.5) for each in recall)):
        if not low <= value <= 1 or value == 0:
            raise InvalidInputError.out_of_range(
                f"expected a number above 0, from {low:g} to 1, found {value}", field=name
            )
    rates = np.array([[recall[0], 1 - recall[0]], [1 - recall[1], recall[1]]])
    read = np.array([success, 1 - success]) @ rates, np.array([1 - success + gap, success - gap]) @ rates
    table = rates * np.array(labelled or (1e12, 1e12))[:, None]
    z = -float(scipy.special.ndtri(alpha / (2 * concepts)))
    z_power = float(scipy.special.ndtri(power))
    # variance of D + c − s: of the answers to either prompt, once n divides it, and of the labels
    of_answers = float(sum(share * (1 - share) for share in (read[0][0], read[1][1])))
    of_labels = sum(rate * (1 - rate) / n for rate, n in zip(recall, labelled or (inf, inf), strict=True))

    def room(n: float) -> float:
        contrast = _Contrast([AnsweredSets(n * read[0], n * read[1], n * np.outer(*read))], 0, 1, table, False)
        labels = contrast._labels(0.0)
        by_chance = sqrt(of_answers / n + of_labels) / (sum(recall) - 1)
        return contrast.value - _together(contrast._reach(z)[0], labels, 0, z) - z_power * by_chance

    if room(1e9) <= 0:
        return nan
    if room(MANY) <= 0:
        return float(BEYOND)
    n = 1 if room(1.0) > 0 else ceil(scipy.optimize.brentq(room, 1.0, MANY, xtol=1e-3))
    return float(n)


@dataclass
class _Contrast:
    """θ(δ), and how far its interval reaches."""

    sets: list[AnsweredSets]
    a: int
    b: int
    table: np.ndarray | None
    sampled: bool
    first: np.ndarray = field(init=False)
    second: np.ndarray = field(init=False)

    def __post_init__(self) -> None:
        answers = len(self.sets[0].first)
        rates = np.eye(answers) if self.table is None else self.table / self.table.sum(axis=1, keepdims=True)
        self._inverse = np.linalg.inv(rates)
        self._worth = self._inverse[:, self.a], self._inverse[:, self.b]
        self._counts = tuple(
            np.array([getattr(each, name) for each in self.sets], float) for name in ("first", "second")
        )
        self._n = self._counts[0].sum(axis=1), self._counts[1].sum(axis=1)
        shares = [counts / n[:, None] for counts, n in zip(self._counts, self._n, strict=True)]
        self.first, self.second = (each.mean(axis=0) @ self._inverse for each in shares)
        self.value = float(self.first[self.a] - self.second[self.b])
        self._gaps = shares[0] @ self._worth[0] - shares[1] @ self._worth[1]
        self._answered = [_Worth.of(*each) for each in zip(self._worth, self._counts, strict=True)]
        self._pairs = np.array(
            [np.zeros((answers, answers)) if each.pairs is None else each.pairs for each in self.sets]
        )
        self._correlation = self._correlate()
        self._null_variance, self._step = self._vary_without_gap()

    def _correlate(self) -> np.ndarray:
        """Correlate the two means of every concept through its pairs, where that is negative: (C,)."""
        one, two = self._worth
        n = self._pairs.sum(axis=(1, 2))
        joint = self._pairs / np.maximum(n, 1)[:, None, None]
        rows, columns = joint.sum(axis=2), joint.sum(axis=1)
        mean_1, mean_2 = rows @ one, columns @ two
        spread = np.sqrt(np.maximum((rows @ one**2 - mean_1**2) * (columns @ two**2 - mean_2**2), 0.0))
        covariance = np.einsum("r,crs,s->c", one, joint, two) - mean_1 * mean_2
        found = np.divide(covariance, spread, out=np.zeros(len(n)), where=(spread > 1e-9) & (n > 0))
        return np.asarray(np.clip(found, -1.0, 0.0) * n / np.sqrt(self._n[0] * self._n[1]))

    def _vary_without_gap(self) -> tuple[np.ndarray, float]:
        """Find the variance of every concept's raw gap where there is none (C,), and half a step of their mean."""
        fails = self._worth[0][self.a] - self._worth[0], self._worth[1][self.b] - self._worth[1]
        (n, m), pairs = self._n, self._pairs.sum(axis=(1, 2))
        mean, square = (
            sum(counts @ fail**power for counts, fail in zip(self._counts, fails, strict=True)) / (n + m)
            for power in (1, 2)
        )
        pooled = square - mean**2
        differ = (self._pairs * np.subtract.outer(*fails) ** 2).sum(axis=(1, 2))
        variance = pooled * (1 / n + 1 / m) - (2 * pooled * pairs - differ) / (n * m)
        step = sum(float(np.ptp(worth)) for worth in self._worth) / 2 * (1 / n + 1 / m) / 2
        return np.maximum(variance, 0.0), _STEP * float(step.mean()) / len(n)

    def _reach(self, z: float) -> tuple[float, float]:
        """Return how far the answers alone let θ lie below and above its estimate, at z standard errors."""
        (down_1, up_1), (down_2, up_2) = (each.reach(z) for each in self._answered)
        below = down_1**2 + up_2**2 - 2 * self._correlation * down_1 * up_2
        above = up_1**2 + down_2**2 - 2 * self._correlation * up_1 * down_2
        n = len(self.sets)
        least = z * sqrt(self._null_variance.sum()) / n + self._step
        if self.sampled:
            quantile = float(scipy.special.stdtrit(n - 1, scipy.special.ndtr(z)))
            least = max(least, quantile * float(self._gaps.std(ddof=1)) / sqrt(n))
        return max(sqrt(below.sum()) / n, least), max(sqrt(above.sum()) / n, least)

    def _labels(self, delta: float) -> _Worth | None:
        """Return what the labelled answers add to θ where the gap is ``delta``.

        θ moves by ``Σ_r v_kr dM[k, r]``, ``v_k = π²_k M⁻¹ 1_b − π¹_k M⁻¹ 1_a``, with shares π¹ and π² that are moved
        towards each other, or apart, until they differ by ``delta``; of two groups v depends on nothing else.
        """
        if self.table is None:
            return None
        first, second = _on_simplex(self.first), _on_simplex(self.second)
        move = (first[self.a] - second[self.b] - delta) / 2
        first = _with_share(first, self.a, float(first[self.a] - move))
        second = _with_share(second, self.b, float(second[self.b] + move))
        return _Worth.of(np.outer(second, self._worth[1]) - np.outer(first, self._worth[0]), self.table)

    def error(self) -> float:
        """Return by how much the answers alone let the gap vary: half their interval at one standard error."""
        return sum(self._reach(1.0)) / 2 - self._step

    def interval(self, z: float) -> tuple[float, float]:
        """Find the gaps at which the interval of θ ends at 0."""
        reach = self._reach(z)

        def excess(delta: float, side: int) -> float:
            return (self.value - delta) * (1 - 2 * side) - _together(reach[side], self._labels(delta), side, z)

        ends = []
        for side, limit in ((0, -1.0), (1, 1.0)):
            inside = float(np.clip(self.value, -1.0, 1.0))
            if excess(limit, side) <= 0 or excess(inside, side) >= 0:
                ends.append(limit if excess(limit, side) <= 0 else inside)
            else:
                ends.append(float(scipy.optimize.brentq(excess, *sorted((limit, inside)), args=(side,), xtol=1e-7)))
        return ends[0], ends[1]

    def tail(self, delta: float, side: int) -> float:
        """Find the one-sided level at which the interval of θ(delta) ends at 0: below (0), or above (1)."""
        labels, size = self._labels(delta), (self.value - delta) * (1 - 2 * side)

        def excess(z: float) -> float:
            return size - _together(self._reach(z)[side], labels, side, z)

        if excess(0.0) <= 0:
            return 0.5 if size >= 0 else 1.0
        if excess(_MOST_Z) >= 0:
            return float(scipy.special.ndtr(-_MOST_Z))
        return float(scipy.special.ndtr(-scipy.optimize.brentq(excess, 0.0, _MOST_Z, xtol=1e-7)))


@dataclass(frozen=True)
class _Worth:
    """``Σ_r worth_r p_r`` of C multinomial samples, each as a share of the way from the least worth to the greatest.

    It counts as a share of as many answers as have its variance, with half an answer added to each kind; where there
    are two kinds, or two worths, of as many as there are.
    """

    share: np.ndarray
    effective: np.ndarray
    span: np.ndarray

    @classmethod
    def of(cls, worth: np.ndarray, counts: np.ndarray) -> _Worth:
        """``worth`` : (R,) or (C, R); ``counts`` : (C, R)."""
        least, span = worth.min(axis=-1, keepdims=True), np.ptp(worth, axis=-1, keepdims=True)
        at, n = (worth - least) / np.where(span > 0, span, 1.0), counts.sum(axis=1)
        smooth = (counts + 0.5) / (counts + 0.5).sum(axis=1, keepdims=True)
        mean = (smooth * at).sum(axis=1)
        variance = np.maximum((smooth * at**2).sum(axis=1) - mean**2, 1e-12)
        share = np.clip((counts * at).sum(axis=1) / n, 0.0, 1.0)
        return cls(share, n * np.maximum(mean * (1 - mean), 1e-12) / variance, np.broadcast_to(span[..., 0], n.shape))

    def reach(self, z: float) -> tuple[np.ndarray, np.ndarray]:
        """Return how far Wilson's interval reaches below and above each: (C,)."""
        low, high = score_ends(self.share, self.effective, z)
        return (self.share - low) * self.span, (high - self.share) * self.span


def _together(answers: float, labels: _Worth | None, side: int, z: float) -> float:
    """Add the reach of the answers and of the labels, as those of independent parts."""
    if labels is None:
        return answers
    return sqrt(answers**2 + float(np.square(labels.reach(z)[side]).sum()))


def _on_simplex(shares: np.ndarray) -> np.ndarray:
    held = np.maximum(shares, 0.0)
    return np.asarray(held / held.sum())


def _with_share(shares: np.ndarray, at: int, share: float) -> np.ndarray:
    """Return the shares with one of them changed, and the others in proportion."""
    rest = 1 - shares[at]
    others = shares / rest if rest > 1e-9 else np.full(len(shares), 1 / (len(shares) - 1))
    moved = (1 - share) * others
    moved[at] = share
    return np.asarray(moved)
