"""Equivalence tests, and how many items would decide: the power of a verdict's own tests with more items.

A pilot says what an item scores, and how little it knows of that. Runs of n items are drawn by it, each from what the
truth may be after the pilot, and each is judged as the verdict is: by the larger p of the tests against every zero, by
Benjamini–Hochberg over the family, as leaning or as within the margin. The power at n is the share of them in which a
test decides, and *the number that decides* the least n at which it is ``POWER``. The same draws serve every n.

*Means between bounds* (:class:`ScoredPilot`), whose items are known. With the pilot's items z and its bounds, ::

    w ~ Dirichlet( 1 at every z, ½ at either bound )        what an item may score, and how often
    x_1 … x_n ~ w,     θ̂ = mean x + offset + e₀ + e         e₀: what the pilot's other error hid, e: what the run's does

The weights are those of the Bayesian bootstrap (Rubin 1981), and the halves Jeffreys' prior where items are of two
kinds: ten of ten of one kind do not say that the other has none. Each drawn run has Gaffke's test
(:mod:`clinometer.stats.bounded_means`), of the scores in ``CELLS`` cells, each at its mean.

*Estimates with an interval* (:class:`EstimatedPilot`), of which nothing else is known, and whose data all grow alike,
by the factor f::

    θ ~ Normal(θ̂, se²),     θ̂' ~ Normal(θ, se²/f)

An estimate that stood would decide with a chance of ½ where z = z_{1−α/2}. Planned for what the truth *may* be, the
power at the number named is .8 on average over pilots, whatever the truth (O'Hagan, Stevens and Campbell 2005 call it
assurance); docs/simulations.md measures it. See decision 5.

Equivalence is shown where an effect is smaller than a margin, which failing to find it does not show.

Estimates held to limits are a case of it: both answers are shown by the same 95 % interval. An estimate keeps its
limits where the whole interval lies within them. It breaks them where the interval lies beyond, after a correction for
how many estimates were held to limits. See decision 50.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from math import ceil, inf, isfinite, nan
from typing import Final, Protocol

import numpy as np
import scipy
from numpy.typing import ArrayLike

from clinometer.errors import InvalidInputError
from clinometer.stats.bounded_means import NO_SPREAD, BoundedMeans, normal_score
from clinometer.stats.multiplicity import holm

POWER: Final = 0.8
"""The chance with which a number that is named decides."""

MANY: Final = 10_000
"""The most items that are named; where it takes more, no estimate is sure enough to say how many."""

BEYOND: Final = MANY + 1
"""Stands for more than ``MANY``."""

CELLS: Final = 12
"""Cells of equal width that the scores of a pilot are counted in."""

MOST_SCORED: Final = 1_000
"""Tests of a family up to which their items are drawn again; larger ones go by their estimates and intervals."""

_RUNS: Final = 4_000
"""Runs that are drawn of all tests of a family together; of each test at least 24 and at most 400."""


@dataclass(frozen=True)
class DrawnTests:
    """p of leaning, and of |θ| ≥ margin where there is one, in every drawn run: (tests × runs); NaN for no test."""

    p: np.ndarray
    p_outside: np.ndarray | None


class Pilot(Protocol):
    """A pilot from which larger runs can be drawn."""

    def draw(self, size: float) -> DrawnTests:
        """Draw all runs of this size: items of every test, or times the data. Sizes rise from call to call."""
        ...


@dataclass(frozen=True)
class PowerCurve:
    """Share of drawn runs in which each test is decided: (sizes × tests) each.

    ``decided`` : as leaning or as balanced.
    """

    sizes: np.ndarray
    leans: np.ndarray
    balanced: np.ndarray
    decided: np.ndarray

    def sizes_for(self, power: float, shares: np.ndarray) -> np.ndarray:
        """Find the least size at which each test's share is ``power``: (tests,); infinite where none was.

        Between the sizes that were drawn, shares are taken to rise with log n.
        """
        rising = np.maximum.accumulate(shares, axis=0)
        reached = rising >= power
        at = reached.argmax(axis=0)
        tests = np.arange(shares.shape[1])
        above, below = rising[at, tests], rising[np.maximum(at - 1, 0), tests]
        part = np.divide(power - below, above - below, out=np.ones(len(tests)), where=above > below)
        log = np.log(self.sizes)
        found = np.exp(log[np.maximum(at - 1, 0)] + part * (log[at] - log[np.maximum(at - 1, 0)]))
        return np.where(reached.any(axis=0), found, inf)


def power_curve(
    pilot: Pilot, sizes: Sequence[float], *, alpha: float = 0.05, power: float = POWER, wanted: np.ndarray | None = None
) -> PowerCurve:
    """Judge drawn runs of these sizes, which rise; with ``wanted``, until these are decided with a chance of ``power``.

    ``leans`` : q ≤ α over the family's tests of leaning; ``balanced`` : q ≤ α over its tests of equivalence.
    """
    used, curves = [], []
    for size in sizes:
        drawn = pilot.draw(size)
        leans = called(drawn.p, alpha)
        balanced = np.zeros_like(leans) if drawn.p_outside is None else called(drawn.p_outside, alpha)
        used.append(size)
        curves.append([np.mean(each, axis=1) for each in (leans, balanced, leans | balanced)])
        tested = ~np.isnan(drawn.p).all(axis=1)  # what is no test is decided by no number
        if wanted is not None and (curves[-1][2][tested & wanted] >= power).all():
            break
    return PowerCurve(np.array(used, np.float64), *np.moveaxis(np.array(curves), 1, 0))


def called(p_values: np.ndarray, alpha: float) -> np.ndarray:
    """Return where q ≤ α by Benjamini–Hochberg over the tests, run by run: (tests × runs); NaN is no test."""
    m = np.maximum((~np.isnan(p_values)).sum(axis=0), 1)
    small = np.where(p_values <= alpha, p_values, inf)  # no step of Benjamini–Hochberg lies above
    most = int((small <= alpha).sum(axis=0).max(initial=0))
    ordered = np.sort(np.partition(small.T, most - 1)[:, :most]) if 0 < most < len(small) else np.sort(small.T)
    steps = np.arange(1, ordered.shape[1] + 1)
    last = ((ordered <= alpha * steps / m[:, None]) * steps).max(axis=1, initial=0)
    return np.asarray(p_values <= np.where(last > 0, alpha * last / m, -1.0))


def _placed(values: np.ndarray, tested: np.ndarray, size: int) -> np.ndarray:
    """Place rows at the positions of their tests, among ``size``; NaN in those of the others."""
    placed = np.full((size, values.shape[1]), np.nan)
    placed[tested] = values
    return placed


def runs_of(tests: int) -> int:
    """Return how many runs are drawn of a family of so many tests."""
    return int(np.clip(_RUNS // max(tests, 1), 24, 400))


# --- means between bounds ---------------------------------------------------------------------------------------------

SIZES: Final = (*(int(n) for n in np.geomspace(10, MANY, 16).round()), 1_000_000)
"""Numbers of items that are tried. At the last, whatever any number decides is decided."""


@dataclass(frozen=True)
class ScoredItems:
    """The scores that an item of each test may have: ``points`` (tests × cells), the outermost of which are the bounds.

    ``counts`` : how many items of the pilot scored so. ``certain`` : they are the shares themselves, as of a population
    that is named, and not a sample of them.
    """

    points: np.ndarray
    counts: np.ndarray
    certain: bool = False

    def turned(self, sides: np.ndarray) -> ScoredItems:
        """Return the same with items of the other sign where a test's side is −1."""
        back = sides[:, None] < 0
        points = np.where(back, -self.points[:, ::-1], self.points)
        return ScoredItems(points, np.where(back, self.counts[:, ::-1], self.counts), self.certain)

    def shares(self, rng: np.random.Generator, runs: int) -> np.ndarray:
        """Draw what they may be, (tests × runs × cells)."""
        counts = self.counts.copy()
        if self.certain:
            return np.repeat((counts / counts.sum(axis=1, keepdims=True))[:, None], runs, axis=1)
        counts[:, [0, -1]] += 0.5
        drawn = rng.standard_gamma(np.repeat(counts[:, None], runs, axis=1))
        return np.asarray(drawn / drawn.sum(axis=2, keepdims=True))

    def with_means(self, means: np.ndarray) -> ScoredItems:
        """Return the population of these means that is nearest to the pilot's: its shares, weighed by ``exp(λ z)``.

        NaN where no population between the bounds has such a mean.
        """
        counts = self.counts + 0.0
        counts[:, [0, -1]] += 0.5
        low, high = self.points[:, 0], self.points[:, -1]
        width = np.maximum(high - low, 1e-300)
        within = (means > low) & (means < high)
        places = (self.points - low[:, None]) / width[:, None]

        def weighed(by: np.ndarray, row: np.ndarray) -> np.ndarray:
            exponents = by[:, None] * places[row]
            tilted = counts[row] * np.exp(exponents - exponents.max(axis=1, keepdims=True))
            return np.asarray(tilted / tilted.sum(axis=1, keepdims=True))

        def beyond(by: np.ndarray, row: np.ndarray) -> np.ndarray:
            return np.asarray((weighed(by, row) * self.points[row]).sum(axis=1) - means[row])

        from scipy.optimize.elementwise import find_root  # a quarter of a second that only plans need

        shares, rows = np.full(self.points.shape, np.nan), np.flatnonzero(within)
        if len(rows):
            reach = np.full(len(rows), 1e3)
            shares[rows] = weighed(find_root(beyond, (-reach, reach), args=(rows,)).x, rows)
        return ScoredItems(self.points, shares, certain=True)


def scored_items(tests: BoundedMeans) -> ScoredItems:
    """Count the items of each test in cells of equal width between its bounds, each cell at the mean of its items."""
    points, counts = np.zeros((len(tests.samples), CELLS + 2)), np.zeros((len(tests.samples), CELLS + 2))
    for t, sample in enumerate(tests.samples):
        x = np.asarray(sample, np.float64)
        if not len(x):
            continue
        low, high = min(tests.bounds[t, 0], x.min()), max(tests.bounds[t, 1], x.max())
        cell = np.minimum(((x - low) / max(high - low, 1e-300) * CELLS).astype(int), CELLS - 1)
        own = np.bincount(cell, minlength=CELLS)
        sums = np.bincount(cell, weights=x, minlength=CELLS)
        counts[t, 1:-1] = own
        points[t] = [low, *np.divide(sums, own, out=np.full(CELLS, low), where=own > 0), high]
    return ScoredItems(points, counts)


class ScoredPilot:
    """Means between bounds that are tested against one zero or more, ready to be drawn again.

    Parameters
    ----------
    zeros : the same samples, each time as far from a zero; a test has to hold against all of them, and to one side.
    margins : around each zero, of all tests or of each; None where balance is not asked for.
    effects : of each test, how large θ is *known* to be on its side of the first zero; by default the pilot says.
    items : what items may score; by default what the pilot's did.
    grown : whether the other error shrinks with the items, as where groups' images are drawn more often, too. Else it
        stays, however many items there are.
    """

    def __init__(
        self,
        zeros: Sequence[BoundedMeans],
        margins: Sequence[ArrayLike] | None = None,
        *,
        effects: np.ndarray | None = None,
        items: ScoredItems | None = None,
        grown: bool = False,
        runs: int = 0,
        seed: int = 0,
    ) -> None:
        rng, first = np.random.default_rng(seed), zeros[0]
        runs = runs or runs_of(len(first.samples))
        self._zeros, self._margins, self._grown, self._rng = zeros, margins, grown, rng
        known = scored_items(first) if items is None else items
        errors = [tests.standard_error for tests in zeros]
        tested = np.all([np.isfinite(error) & (error**2 > NO_SPREAD) for error in errors], axis=0)
        # every test leans the positive way, and they stand by their size: neither sides nor order change a draw
        self._sides = np.where(first.value < 0, -1.0, 1.0)
        known = known.turned(self._sides)
        if effects is not None:
            known = known.with_means(effects - self._sides * first.offset)
            tested &= np.isfinite(known.counts).all(axis=1)
        at = np.flatnonzero(tested)
        self._tested = at[np.lexsort((errors[0][at], np.abs(first.value[at])))]
        self._size = len(first.samples)
        known = ScoredItems(known.points[self._tested], known.counts[self._tested], known.certain)
        self._points, self._shares = known.points, known.shares(rng, runs)
        self._counts, self._drawn = np.zeros(self._shares.shape, np.int64), 0
        shape = self._shares.shape[:2]
        freedom = np.minimum(np.asarray(first.other_freedom)[self._tested], 1e9)
        hidden = np.zeros(shape) if known.certain else rng.standard_t(np.repeat(freedom[:, None], shape[1], axis=1))
        self._hidden, self._fresh = hidden, rng.standard_normal(shape)

    def draw(self, size: float) -> DrawnTests:
        """Draw runs of so many items of every test."""
        self._counts += self._rng.multinomial(int(size) - self._drawn, self._shares)
        self._drawn = int(size)
        means = np.einsum("trc,tc->tr", self._counts, self._points) / size
        p, outside, signs = [], [], []
        for k, tests in enumerate(self._zeros):
            at, noise = self._offsets(tests, size)
            p.append(np.minimum(1.0, 2 * self._tails(means + at, at, noise, np.zeros(len(means)), facing=True)))
            signs.append(np.sign(means + at))
            if self._margins is not None:
                around = np.broadcast_to(np.asarray(self._margins[k], np.float64), (self._size,))[self._tested]
                outside.append(self._tails(means + at, at, noise, around, facing=False))
        to_one_side = np.abs(np.sum(signs, axis=0)) == len(signs)
        return DrawnTests(
            _placed(np.where(to_one_side, np.max(p, axis=0), 1.0), self._tested, self._size),
            _placed(np.max(outside, axis=0), self._tested, self._size) if outside else None,
        )

    def _offsets(self, tests: BoundedMeans, size: float) -> tuple[np.ndarray, np.ndarray]:
        """Draw what is added to the means, (tests × runs), and how uncertain a run takes it to be, (tests,)."""
        other, freedom = (np.asarray(x, np.float64)[self._tested] for x in (tests.other, tests.other_freedom))
        items = np.array([len(x) for x in tests.samples], np.float64)[self._tested]
        now = other * items / size if self._grown else other
        wider = scipy.special.stdtrit(freedom, 0.975) / scipy.special.ndtri(0.975)
        chance = np.sqrt(other)[:, None] * self._hidden + np.sqrt(now)[:, None] * self._fresh
        offset = (self._sides * tests.offset)[self._tested]
        return offset[:, None] + chance, np.where(now > 0, now * wider**2, 0.0)

    def _tails(
        self, values: np.ndarray, at: np.ndarray, noise: np.ndarray, margins: np.ndarray, *, facing: bool
    ) -> np.ndarray:
        """Find p of the one-sided test that decides: of 0 where ``facing`` it, else of the margin that is nearer.

        Where the sum of the terms is no standard deviation from it, or more than six, p is the normal one: no verdict
        asks how large or how small it is.
        """
        positive = values > 0
        edge = np.where(positive, 1.0, -1.0) * margins[:, None]
        spread = np.einsum("trc,tc->tr", self._counts, self._points**2) / self._drawn - (values - at) ** 2
        # the bound is one item more, so that of items of one kind it is what varies
        bound = np.where(positive == facing, self._points[:, :1], self._points[:, -1:]) + at - edge
        total = self._drawn * (values - edge) + bound
        error = np.sqrt(self._drawn * (np.maximum(spread, 0.0) + (values - edge) ** 2) + bound**2
                        + (self._drawn + 1) ** 2 * noise[:, None])  # fmt: skip
        z = np.where(positive == facing, 1.0, -1.0) * total / error
        p = scipy.special.ndtr(-z)
        tests, runs = np.nonzero((z > 1) & (z < 6))
        times = np.take(self._counts.reshape(-1, self._points.shape[1]).T, tests * values.shape[1] + runs, axis=1)
        lower = (positive == facing)[tests, runs]
        times = times.astype(np.float64)
        times[0] += lower
        times[-1] += ~lower
        theta = edge[tests, runs] - at[tests, runs]
        # cells first in memory, as sums over few of them are slow otherwise
        items = self._points.T[:, tests].T
        scores = normal_score(items, times.T, noise[tests], theta, close=1e-3)
        p[tests, runs] = scipy.special.ndtr(np.where(lower, scores, -scores))
        return np.asarray(p)


SPREAD: Final = 0.3
"""How far pictures of one kind scatter, of half the distance between the kinds: an assumption, with no pilot to ask."""


def images_for_share(
    share: float,
    *,
    power: float = POWER,
    alpha: float = 0.05,
    spread: float = SPREAD,
    attribute_images: tuple[float, float] | None = None,
) -> float:
    """Return the images that find a share of two kinds to lean, without a pilot: a test by itself, against both zeros.

    ::

        y = ±1 + spread · Normal(0, 1),  + where the picture is of the first kind
        other error:  spread² (1/r_a + 1/r_b) / n,  of r_a and r_b images of the groups for each of the concept's n

    Parameters
    ----------
    share : of the pictures that are of the first kind.
    spread : standard deviation of a kind, of half the distance between the two.
    attribute_images : of either group, for each image of the concept, so that they grow in proportion; by default so
        many that they add no error.

    Returns
    -------
    10 or more; NaN where no number would do, as for a share of ½; ``BEYOND`` for more than ``MANY``.

    Raises
    ------
    InvalidInputError
        A share outside of [0, 1], a power or level that is not between 0 and 1.

    Examples
    --------
    >>> 30 < images_for_share(0.75) < 45
    True
    """
    require_power(power, alpha)
    if not 0 <= share <= 1:
        raise InvalidInputError.out_of_range(f"expected a number in [0, 1], found {share}", field="share")
    if share == 0.5:
        return nan
    of_kind = spread * np.array([normal_slice(k / 6, (k + 1) / 6) for k in range(6)])
    points, counts = np.r_[-1 + of_kind, 1 + of_kind], np.repeat([1 - share, share], 6)
    order = np.argsort(points)
    items = ScoredItems(points[order][None], counts[order][None], certain=True)
    # the sign and the size of the estimate are the population's own
    sample = np.array([-1.0, 1.0]) + (2 * share - 1)
    r_a, r_b = attribute_images or (inf, inf)
    other = spread**2 * (1 / r_a + 1 / r_b) / len(sample)
    freedom = max(SIZES[0] * (r_a + r_b) - 2, 1)
    zero = BoundedMeans([sample], np.array([[-1.0, 1.0]]), np.zeros(1), np.array([other]), np.array([float(freedom)]))
    pilot = ScoredPilot([zero], items=items, grown=True, runs=2_000)
    curve = power_curve(pilot, SIZES, alpha=alpha, power=power)
    (found,) = curve.sizes_for(power, curve.leans)
    return float(min(np.ceil(found), BEYOND)) if np.isfinite(found) else nan


def normal_slice(low: float, high: float) -> float:
    """Return the mean of a standard normal number between two of its quantiles."""
    ends = scipy.stats.norm.pdf(scipy.special.ndtri([low, high]))
    return float((ends[0] - ends[1]) / (high - low))


def require_power(power: float, alpha: float) -> None:
    """Refuse a power or level that is not between 0 and 1."""
    for name, value in (("power", power), ("alpha", alpha)):
        if not 0 < value < 1:
            raise InvalidInputError.out_of_range(f"expected a number between 0 and 1, found {value}", field=name)


# --- estimates with an interval ---------------------------------------------------------------------------------------

FACTORS: Final = (*np.geomspace(1, 1_000, 18), 1e6)
"""Times the data that are tried."""


class EstimatedPilot:
    """Estimates of a family that are normal around the truth, ready to be drawn again.

    Parameters
    ----------
    values, errors : (zeros × tests), how far each is from every zero, and its standard error on the side of it.
    p_values : (tests,), of leaning, which may be of another kind than the errors, as of permuted prompts: a leaning
        takes both. NaN where there is none but the interval's.
    margins, widths : (zeros × tests), and the standard errors of equivalence; None where balance is not asked for.
    """

    def __init__(
        self,
        values: np.ndarray,
        errors: np.ndarray,
        p_values: np.ndarray,
        margins: np.ndarray | None = None,
        widths: np.ndarray | None = None,
        *,
        alpha: float = 0.05,
        seed: int = 0,
    ) -> None:
        self._size = values.shape[1]
        runs, rng = runs_of(self._size), np.random.default_rng(seed)
        sides = np.where(values[0] < 0, -1.0, 1.0)
        with np.errstate(divide="ignore", invalid="ignore"):
            z, self.scores = sides * values / errors, scipy.special.ndtri(1 - np.clip(p_values, 1e-15, 1.0) / 2)
        # every test leans the positive way, and they stand by their size: neither sides nor order change a draw
        at = np.flatnonzero(np.isfinite(z).all(axis=0))
        keys = (-1.0 if widths is None else widths[0][at], errors[0][at], np.nan_to_num(self.scores[at], nan=-1.0))
        self._tested = at[np.lexsort((*np.broadcast_arrays(*keys), np.abs(values[0][at])))]
        self._z, self._scores = z[:, self._tested], self.scores[self._tested]
        # where the interval is narrow enough for any step and p is not small, what p lacks is something else than data
        few = max(int(np.isfinite(p_values).sum()), 1)
        enough = scipy.special.ndtri(1 - alpha / (2 * few))
        self._held_back = (p_values[self._tested] > alpha) & (np.abs(self._z).min(axis=0) >= enough)
        self._around = None
        if margins is not None and widths is not None:
            self._around = tuple(each[:, self._tested] for each in (sides * values, margins, widths))
        self._hidden, self._fresh = (_stratified(rng, len(self._tested), runs) for _ in range(2))

    def draw(self, size: float) -> DrawnTests:
        """Draw runs of so many times the data."""
        moved = np.sqrt(size) * self._hidden + self._fresh
        drawn = [np.sqrt(size) * z[:, None] + moved for z in (*self._z, self._scores)]
        nearest = np.fmin.reduce([np.abs(z) for z in drawn])  # where there is no p of its own, it is NaN
        to_one_side = np.abs(np.sum([np.sign(z) for z in drawn[:-1]], axis=0)) == len(self._z)
        p = 2 * scipy.special.ndtr(-np.where(to_one_side & ~self._held_back[:, None], nearest, 0.0))
        placed = partial(_placed, tested=self._tested, size=self._size)
        if self._around is None:
            return DrawnTests(placed(p), None)
        beyond = []
        for value, margin, width in zip(*self._around, strict=True):
            error = np.maximum(width, 1e-300)[:, None] / np.sqrt(size)
            beyond.append((np.abs(value[:, None] + error * moved) - margin[:, None]) / error)
        return DrawnTests(placed(p), placed(scipy.special.ndtr(np.max(beyond, axis=0))))


def factors_to_decide(
    values: ArrayLike,
    lows: ArrayLike,
    highs: ArrayLike,
    p_values: ArrayLike,
    margin: ArrayLike | None = None,
    alpha: float = 0.05,
    power: float = POWER,
) -> np.ndarray:
    """Return how many times the data decide each estimate of a family, as leaning or as balanced, with this chance.

    By :class:`EstimatedPilot`, q over the family, all data growing alike.

    Parameters
    ----------
    values, lows, highs : (tests,), the estimates and their 95 % intervals. For leaning, se is that of the side of 0. Of
        estimates that are compared with several zeros (zeros × tests), how far they are from each: all of these have to
        be shown, and a leaning to one side. ``margin`` may then be of each, too.
    p_values : (tests,), of leaning; NaN where there is none but the interval's. They may be of another kind than the
        intervals, as of permuted prompts.

    Returns
    -------
    (tests,), from 1 on: infinite where no number decides. Where the interval is narrow enough already and p is not
    small, more of the same does not decide a leaning: what p lacks is something else.
    """
    values, lows, highs = (np.atleast_2d(np.asarray(x, np.float64)) for x in (values, lows, highs))
    z = scipy.special.ndtri(0.975)
    # standard errors by the half of each interval that faces 0, so that z > 1.96 where it leaves out 0
    errors = np.maximum(np.where(values > 0, values - lows, highs - values), 0.0) / z
    around = None
    if margin is not None:
        around = np.broadcast_to(np.asarray(margin, np.float64), values.shape), (highs - lows) / (2 * z)
    pilot = EstimatedPilot(values, errors, np.asarray(p_values, np.float64), *(around or ()), alpha=alpha)
    curve = power_curve(pilot, FACTORS, alpha=alpha, power=power, wanted=np.ones(values.shape[1], bool))
    # what is alike has one answer, whichever came first
    columns = np.nan_to_num(np.concatenate([values, lows, highs, np.atleast_2d(pilot.scores)]), nan=-9.0)
    _, alike, counts = np.unique(columns, axis=1, return_inverse=True, return_counts=True)
    alike = alike.reshape(-1)
    decided = np.stack([np.bincount(alike, weights=row)[alike] for row in curve.decided]) / counts[alike]
    return curve.sizes_for(power, decided)


def _stratified(rng: np.random.Generator, tests: int, runs: int) -> np.ndarray:
    """Draw standard normal numbers (tests × runs), of each test one from every stratum of equal probability."""
    order = rng.permuted(np.broadcast_to(np.arange(runs), (tests, runs)), axis=1)
    return np.asarray(scipy.special.ndtri((order + rng.random((tests, runs))) / runs))


def standard_error_of(low: float, high: float, confidence: float = 0.95) -> float:
    """Return the standard error that a normal interval of this width has: ``(high − low) / (2 z)``; NaN from NaN."""
    return (high - low) / (2 * float(scipy.special.ndtri((1 + confidence) / 2)))


def equivalence_p_value(value: float, standard_error: float, margin: float, freedom: float = inf) -> float:
    """Return the p of two one-sided tests of ``|θ| ≥ margin`` (Schuirmann 1987): the larger of theirs.

    ::

        p = max( P(T ≥ (θ̂ + δ)/se), P(T ≤ (θ̂ − δ)/se) ),   T Student's t with ``freedom`` degrees, normal by default

    p ≤ α exactly where the interval of confidence 1 − 2α lies within ±δ. NaN where an argument is.

    Raises
    ------
    InvalidInputError
        A margin that is not positive, or a negative standard error.

    Examples
    --------
    >>> round(equivalence_p_value(0.0, 0.1, 0.2), 4)
    0.0228
    """
    if not margin > 0:
        raise InvalidInputError.out_of_range(f"expected a positive number, found {margin}", field="margin")
    if standard_error < 0:
        raise InvalidInputError.out_of_range(f"expected 0 or more, found {standard_error}", field="standard_error")
    if not (isfinite(value) and isfinite(standard_error)):
        return nan
    inside = margin - abs(value)
    if standard_error == 0:
        return 0.0 if inside > 0 else 1.0
    return float(scipy.special.stdtr(freedom, -inside / standard_error))


def factors_by_steps(first: np.ndarray, factors: np.ndarray) -> np.ndarray:
    """Count how many times the data bring each test of a family to q ≤ α, all data growing alike.

    Benjamini–Hochberg calls a test where for any k it is at the level αk/m and k tests are.

    ``first`` : (m tests, factors), the first step, from 0 on, at whose level a test is with so many times the data; m
    where it is at none. ``factors`` : (factors,), rising.
    """
    m = len(first)
    called = np.full(len(factors), -1)
    for at, steps in enumerate(first.T):
        enough = np.flatnonzero(np.bincount(steps, minlength=m + 1)[:m].cumsum() >= np.arange(1, m + 1))
        called[at] = enough[-1] if len(enough) else -1
    reached = first <= called
    return np.asarray(np.where(reached.any(axis=1), factors[reached.argmax(axis=1)], inf))


def images_to_decide(n: int, factor: float) -> int:
    """Return how many images, instead of ``n``, are so many times as many; 0 where no number would decide.

    More than ``MANY`` are not counted: ``BEYOND`` stands for them.
    """
    if not isfinite(factor) or factor >= 1e6:
        return 0
    return max(n + 1, min(ceil(n * factor - 1e-6), BEYOND))


CONFIDENCE = 0.95
"""Of the intervals that are given."""


@dataclass(frozen=True)
class HeldToLimits:
    """A family of estimates held to limits; each array has one entry an estimate.

    Attributes
    ----------
    within : the interval lies within the limits, and so does the estimate.
    beyond : the estimate is beyond a limit, by ``p_holm``.
    p : that an estimate that keeps its limits comes out so far beyond them; twice the one-sided p, so that it is 0.05
        where the interval ends at the limit. 1 for an estimate within its limits, NaN without an interval.
    p_holm : the same after Holm's correction for the family.
    n_decide : units with which an estimate is decided with a chance of ``POWER``, whatever else it rests on growing in
        proportion; 0 where it is decided, or where no number would do.
    """

    within: np.ndarray
    beyond: np.ndarray
    p: np.ndarray
    p_holm: np.ndarray
    n_decide: np.ndarray


def hold_to_limits(
    values: np.ndarray,
    lows: np.ndarray,
    highs: np.ndarray,
    units: np.ndarray,
    freedom: np.ndarray,
    *,
    at_least: np.ndarray,
    at_most: np.ndarray,
    alpha: float = 0.05,
) -> HeldToLimits:
    """Test each estimate of a family against its own limits.

    ::

        within:   at_least ≤ low  and  high ≤ at_most, and the estimate as well, where the interval leaves it out
        beyond:   p̃ ≤ α,   p = 2 P( T_f ≥ t_f · d / h ),   p̃ by Holm over the family
                  d: how far the estimate is beyond its limit;  h: the half of its interval that faces the limit
                  T_f: Student's t with f degrees of freedom;  t_f: its 97.5 % quantile

    All estimates together keep their limits wrongly with a chance of at most α/2: for that, the interval of one that is
    beyond a limit must lie within. Any of them is called beyond a limit that it keeps with a chance of at most α. A
    number of degrees of freedom that is too small makes the correction stricter; where there is but one estimate, what
    is beyond does not depend on it.

    Parameters
    ----------
    values, lows, highs : (m,), the estimates and their 95 % intervals; NaN is neither within nor beyond.
    units : (m,), what each rests on, such as images, of which ``n_decide`` counts more; 0 for a number without any.
    freedom : (m,), degrees of freedom of the interval, 1 or more.
    at_least, at_most : (m,), the limits; ∓∞ for none.

    Raises
    ------
    InvalidInputError
        Arrays of different lengths, a NaN among the limits, or a lower limit above the upper one.

    Examples
    --------
    >>> held = hold_to_limits([0.1, 0.3], [0.0, 0.25], [0.2, 0.35], [50, 50], [49, 49],
    ...                       at_least=[-0.2] * 2, at_most=[0.2] * 2)
    >>> held.within.tolist(), held.beyond.tolist()
    ([True, False], [False, True])
    """
    arrays = [np.asarray(array, np.float64) for array in (values, lows, highs, units, freedom, at_least, at_most)]
    if len({array.shape for array in arrays}) > 1 or arrays[0].ndim != 1:
        raise InvalidInputError.expected_shape("arrays of one shape (m,)", *arrays, field="limits")
    value, low, high, n, freedom, lower, upper = arrays
    if np.isnan(lower).any() or np.isnan(upper).any() or (lower > upper).any():
        raise InvalidInputError.out_of_range(
            "expected at_least ≤ at_most, found a NaN or a lower limit above the upper one", field="limits"
        )
    with np.errstate(invalid="ignore"):
        within = (lower <= np.minimum(low, value)) & (np.maximum(high, value) <= upper)
    distance, half = _beyond(value, low, high, lower, upper)
    with np.errstate(divide="ignore", invalid="ignore"):
        p = 2 * scipy.stats.t.sf(_reach(freedom, 1 - CONFIDENCE) * distance / half, freedom)
    p = np.where(distance > 0, np.where(half > 0, p, 0.0), 1.0)
    p = np.where(np.isnan(distance) | np.isnan(half), np.nan, np.minimum(p, 1.0))
    adjusted = holm(p)
    with np.errstate(invalid="ignore"):
        beyond = adjusted <= alpha
    stretch = _reach(freedom, alpha / max(1, np.isfinite(p).sum())) / _reach(freedom, alpha)
    factors = _factors_to_decide(value, low, high, lower, upper, stretch)
    needed = [
        0 if decided or units < 1 else images_to_decide(int(units), float(factor))
        for decided, units, factor in zip(within | beyond, n, factors, strict=True)
    ]
    return HeldToLimits(within, beyond, p, adjusted, np.array(needed, np.int64))


def _beyond(
    value: np.ndarray, low: np.ndarray, high: np.ndarray, lower: np.ndarray, upper: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return how far each estimate is beyond the nearer limit, negative where it keeps it, and the half that faces it.

    An estimate that lies outside of its own interval, on the side of the limit, is stood for by the interval's middle.
    """
    above = value - upper >= lower - value
    distance = np.where(above, value - upper, lower - value)
    half = np.where(above, value - low, high - value)
    with np.errstate(invalid="ignore"):
        middle, apart = (low + high) / 2, (half < 0) & (distance > 0)
    from_middle = np.where(above, middle - upper, lower - middle)
    return np.where(apart, from_middle, distance), np.where(apart, (high - low) / 2, half)


def _reach(freedom: np.ndarray, alpha: float) -> np.ndarray:
    """Return half the width of an interval of confidence 1 − α, in standard errors."""
    return np.asarray(scipy.stats.t.isf(alpha / 2, freedom))


def _factors_to_decide(
    value: np.ndarray, low: np.ndarray, high: np.ndarray, lower: np.ndarray, upper: np.ndarray, stretch: np.ndarray
) -> np.ndarray:
    """Return how many times the data decide each estimate with a chance of ``POWER``: (m,); infinite where none do.

    ::

        θ ~ Normal(θ̂, se²),     θ̂' ~ Normal(θ, se²/f)      so     θ̂' ~ Normal(θ̂, se² (1 + 1/f))
        decided:   lower + h₋/√f ≤ θ̂' ≤ upper − h₊/√f,     or  θ̂' beyond a limit by s h/√f
                   h: the half of the interval that faces the limit,  s: ``stretch``

    ``stretch`` : how much wider the interval is that takes the correction of the whole family.
    """
    root = np.sqrt(_LIMIT_FACTORS)[:, None]
    error = (high - low) / (2 * scipy.special.ndtri((1 + CONFIDENCE) / 2)) * np.sqrt(1 + 1 / root**2)
    below, above = (value - low) / root, (high - value) / root

    def chance_below(end: np.ndarray) -> np.ndarray:
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.asarray(scipy.special.ndtr((end - value) / error))

    kept = np.maximum(chance_below(upper - above) - chance_below(lower + below), 0.0)
    broken = 1 - chance_below(upper + stretch * below) + chance_below(lower - stretch * above)
    shares = np.nan_to_num(kept + broken)
    return PowerCurve(_LIMIT_FACTORS, shares, shares, shares).sizes_for(POWER, shares)


_LIMIT_FACTORS = np.geomspace(1, 1e6, 121)
"""Times the data that are tried."""
