"""Tests of whether something has changed: between the rows of a table, in the latest records, or in answers.

:func:`exact_independence` tests whether the rows of a table of counts come from one distribution over its columns.

:func:`latest_change` tests whether the latest of many alike records differ from those before them, without supposing a
distribution. Where nothing has changed, the order of the records says nothing: any other order is as likely. So the
statistic of the order that there is, a difference between the last j records and the earlier ones, has a rank among
those of all orders that is uniform, whatever the records are distributed as (Antoch & Hušková 2001, "Permutation tests
in change point analysis"). See decision 75.

:func:`answer_drift` tests whether somebody's answers to the same questions have changed, after every round of asking
again.

The same m units are asked again round after round, and ``d_jb`` says whether unit j was answered in round b otherwise
than at first. Somebody who answers at random in part does so too, and of some units more than of others. While nothing
changes, however, the rounds of a unit may be put in any order. Given how often unit j differed in the first b rounds,
n_j times of c_j, it differed in the last of these by chance ``n_j / c_j``, and units by themselves::

    p_b = P( Σ_j Bernoulli(n_j / c_j) ≥ Σ_j d_jb )                        Poisson binomial, n_j and c_j with round b

These are conformal p-values of an online compression model (Vovk, Gammerman and Shafer 2005, *Algorithmic learning in
a random world*, chapter 8): taken in order they are as large as independent uniform ones, or larger. So a gambler who
starts at round k and bets on small ones multiplies a fortune by ``f(p)``, which is 1 on average, and as nobody knows k
all starts are bet on in parts::

    f(p) = ∫_0^1 ε p^(ε−1) dε = (1 − p + p log p) / (p log² p),      f(1) = 1/2
    E_b  = Σ_{k ≤ b} w_k ∏_{i=k}^{b} f(p_i) + Σ_{k > b} w_k,          w_k = 1 / (k (k + 1))

E is a test supermartingale, so the chance that it ever reaches 1/α is α at most (Ville), for any number of rounds and
units, whatever the units' own rates are. Nothing is asked but that answers of one unit at different times, and those of
different units, come about independently.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import comb, nan
from typing import Final

import numpy as np
import scipy
from numpy.typing import ArrayLike
from scipy.special import gammaln

from clinometer.errors import InvalidInputError

MOST_LISTED: Final = 200_000
"""Tables of the same margins that are listed one by one; of more, some are drawn."""

DRAWN: Final = 9_999
"""Tables that are drawn where there are too many to list."""

_TIE: Final = 1e-7
"""Log probabilities closer than this count as equal: rounding must not split ties."""


@dataclass(frozen=True)
class Independence:
    """The differences between the rows of a table in their shares.

    Attributes
    ----------
    n : the counts' sum.
    cramers_v : √(χ²/(n·(min(rows, columns) − 1))), in [0, 1]; 0 where all rows have the same shares, and above 0 by
        chance alone.
    p_value : of the exact test (Freeman and Halton 1951): the probability, given the margins, of all tables that are no
        likelier than this one. Of two rows and two columns it is Fisher's.
    exact, n_tables : whether every table of these margins was listed, and how many were listed or drawn.
    p_chi_squared : of Pearson's χ² without a correction, which is an approximation for large counts.
    reason : why one of them is missing. Where one column has all the counts, there is one table with its margins, so
        that p is 1, and no V. Where one row has, nothing can be compared.
    """

    n: int
    cramers_v: float = nan
    p_value: float = nan
    exact: bool = False
    n_tables: int = 0
    p_chi_squared: float = nan
    reason: str = ""


def exact_independence(table: ArrayLike, *, rng: np.random.Generator | None = None) -> Independence:
    """Test whether the rows of a (rows × columns) table of counts come from one distribution.

    Tables of two rows are listed where there are few enough. Of others 9,999 are drawn with the same margins, and p is
    (1 + those no likelier)/(1 + 9,999), which is never 0 (Phipson and Smyth 2010); ``rng`` draws them, by default the
    same for the same table. Rows and columns may come in any order. Rows and columns without a count change nothing.
    """
    counts = np.asarray(table, np.int64)
    used = counts[counts.sum(axis=1) > 0][:, counts.sum(axis=0) > 0]
    n = int(used.sum())
    if len(used) < 2:
        return Independence(n, reason="fewer than two settings have an image")
    if used.shape[1] < 2:
        return Independence(n, p_value=1.0, exact=True, n_tables=1, reason="all images are of one group")
    rows, columns = used.sum(axis=1), used.sum(axis=0)
    if exact := bool(len(rows) == 2 and np.prod(np.minimum(columns[:-1], rows[0]) + 1.0) <= MOST_LISTED):
        weights = _log_weight(_tables_of_two_rows(int(rows[0]), columns))
        chances = np.exp(weights - scipy.special.logsumexp(weights))
        own = float(_log_weight(used[None])[0])
        p, listed = min(1.0, float(chances[weights <= own + _TIE].sum())), len(weights)
    else:
        listed = DRAWN
        drawn = scipy.stats.MonteCarloMethod(n_resamples=listed, rng=rng or np.random.default_rng(0))
        p = float(scipy.stats.fisher_exact(used, method=drawn).pvalue)
    v = float(scipy.stats.contingency.association(used, method="cramer"))
    return Independence(n, v, p, exact, listed, float(scipy.stats.chi2_contingency(used, correction=False).pvalue))


def _log_weight(tables: np.ndarray) -> np.ndarray:
    """Return the log probability of (m × rows × columns) tables of the same margins, but for a constant."""
    return np.asarray(-gammaln(tables + 1.0).sum(axis=(1, 2)))


def _tables_of_two_rows(first: int, columns: np.ndarray) -> np.ndarray:
    """List every table of two rows with these column sums whose first row has this sum."""
    grid = np.indices(tuple(np.minimum(columns[:-1], first) + 1)).reshape(len(columns) - 1, -1).T
    last = first - grid.sum(axis=1)
    kept = (last >= 0) & (last <= columns[-1])
    row = np.column_stack((grid, last))[kept]
    return np.stack((row, columns - row), axis=1)


@dataclass(frozen=True)
class AnswerDrift:
    """The result of asking again in rounds; rounds are counted from 0.

    Attributes
    ----------
    evidence : (B,) E after each round.
    p : (B,) of each round by itself; 1 of a round without answers.
    p_value : valid at any number of rounds: 1 / max E, at most 1.
    since : the round from which on answers differ, by the start that has won most when E was largest; 0 without rounds.
    before, after : share of answers that differ from the first ones, up to that round and from it on; NaN without any.
    """

    evidence: np.ndarray
    p: np.ndarray
    p_value: float
    since: int
    before: float
    after: float


def answer_drift(differs: np.ndarray) -> AnswerDrift:
    """Test whether answers to the same units change, after every round; see the module.

    Parameters
    ----------
    differs : (B × m) whether each unit was answered otherwise than at first, 0 or 1; NaN where it has no answer.

    Raises
    ------
    InvalidInputError
        Not a table of 0, 1 and NaN.

    Examples
    --------
    Eight units are answered alike in ten rounds, and four of them otherwise in the next three:

    >>> rounds = np.zeros((13, 8))
    >>> rounds[10:, :4] = 1
    >>> found = answer_drift(rounds)
    >>> found.since, found.p_value < 0.002
    (10, True)
    """
    d = np.asarray(differs, np.float64)
    if d.ndim != 2 or not np.isin(d[~np.isnan(d)], (0.0, 1.0)).all():
        raise InvalidInputError.expected_shape("0, 1 or NaN (rounds × units)", d, field="differs")
    rounds = len(d)
    there, log_starts = np.isfinite(d), np.full(rounds, -np.inf)
    counts, times = np.cumsum(np.nan_to_num(d), axis=0), np.cumsum(there, axis=0)
    p, evidence, since, most = np.ones(rounds), np.ones(rounds), 0, -np.inf
    for b in range(rounds):
        rates = counts[b, there[b]] / times[b, there[b]]
        p[b] = _at_least(rates, round(float(np.nansum(d[b]))))
        log_starts[b] = -np.log((b + 1) * (b + 2))
        log_starts[: b + 1] += np.log(_bet(p[b]))
        with np.errstate(over="ignore"):
            evidence[b] = np.exp(log_starts[: b + 1]).sum() + 1 / (b + 2)
        if evidence[b] > most:
            since, most = int(log_starts[: b + 1].argmax()), evidence[b]
    return AnswerDrift(
        evidence, p, float(min(1.0, 1 / most)) if rounds else 1.0, since, _share(d[:since]), _share(d[since:])
    )


def _share(d: np.ndarray) -> float:
    return float(np.nanmean(d)) if np.isfinite(d).any() else float("nan")


def _at_least(rates: np.ndarray, count: int) -> float:
    """Return P(Σ Bernoulli(rate) ≥ count), by convolution: no term is negative, so no digit is lost."""
    mass = np.ones(1)
    for rate in rates[rates > 0]:
        mass = np.convolve(mass, [1 - rate, rate])
    return float(np.clip(mass[count:].sum(), np.finfo(float).tiny, 1.0))


def _bet(p: float) -> float:
    """Return f(p), by its series near 1, where the formula is 0 / 0."""
    x = np.log(p)
    if x > -1e-3:
        return float(0.5 - x / 6)
    return float((1 - p + p * x) / (p * x * x))


PERMUTATIONS = 99_999
_CHUNK_BYTES = 64_000_000
_SEED = 20_750


@dataclass(frozen=True)
class LatestChange:
    """The change in the latest records, a number each; NaN (of ``since``, 0) of a number that is not tested.

    Attributes
    ----------
    since : (m,) int, j: how many of the latest records differ most clearly from the earlier ones.
    change : (m,) their mean less that of the earlier ones, in units of the numbers.
    spread : (m,) standard deviation within the two parts.
    p : (m,) of the number alone.
    p_family : (m,) over all numbers: the share of orders in which any number shows as much.
    """

    since: np.ndarray
    change: np.ndarray
    spread: np.ndarray
    p: np.ndarray
    p_family: np.ndarray


def fewest_latest(n: int, level: float) -> int:
    """Return the smallest j for which a test of the last j of n records can reach a level; 0 where none can.

    Of all ``C(n, j)`` choices of j records, one is the latest: p is at least ``1 / C(n, j)``.

    >>> [fewest_latest(n, 0.05 / 365) for n in (15, 16, 31, 41)]
    [0, 6, 4, 3]
    """
    return next((j for j in range(1, n // 2 + 1) if comb(n, j) * level >= 1), 0)


def fewest_records(level: float) -> int:
    """Return how many records a test at a level needs, the one that is tested included."""
    n = 2
    while not fewest_latest(n, level):
        n += 1
    return n


def latest_change(
    records: np.ndarray, *, level: float, permutations: int = PERMUTATIONS, seed: int = _SEED
) -> LatestChange:
    """Test whether the last of n records, alone or with some before it, differ from the earlier ones.

    ::

        z_i = (x_i − x̄) / sqrt(Σ (x_i − x̄)²)                         T = max_j |Σ_{i > n − j} z_i| sqrt(n / (j (n − j)))
        p = (1 + #{orders with T at least as large}) / (1 + B)           j from ``fewest_latest(n, level)`` to n/2

    ``T²`` is the share of the number's sum of squares that lies between the two parts, and monotone in the two-sample t
    of any j. Only parts count with which the last record agrees in sign: a record that has returned to where the
    earlier ones lie is not blamed for those between. The family's p compares each number's T with the largest T of all
    numbers in an order, which changes all of them together (Westfall & Young 1993): however numbers depend on each
    other, the chance that any unchanged one has ``p_family ≤ level`` is at most ``level``.

    The records must be exchangeable where nothing has changed: independent draws of one distribution are; the steps of
    one training, each of which begins at the last, are not.

    Parameters
    ----------
    records : (n × m), a row a record in the order of time, a column a number. A NaN says nothing.
    level : of one such test. Orders are drawn until no number can reach it, at most ``permutations``, B; each p is then
        of the orders drawn.

    Raises
    ------
    InvalidInputError
        No table of numbers, infinite ones, or a level that ``permutations`` or n records cannot reach.

    Examples
    --------
    >>> nights = np.random.default_rng(0).normal(size=(41, 2))
    >>> nights[-4:, 1] += 4
    >>> found = latest_change(nights, level=0.05 / 365)
    >>> found.since.tolist()[1], (found.p_family <= 0.05 / 365).tolist()
    (4, [False, True])
    """
    values = np.asarray(records, np.float64)
    if values.ndim != 2 or np.isinf(values).any():
        raise InvalidInputError.expected_shape("finite numbers (n × m)", values, field="records")
    n, least = len(values), fewest_latest(len(values), level)
    if not least or (permutations + 1) * level < 1:
        raise InvalidInputError.undefined(
            f"{level:g} is out of reach for {n} records and {permutations} permutations", field="level"
        )
    scale = np.fmax.reduce(np.abs(values), axis=0, initial=np.finfo(float).tiny)
    values = values / scale  # squares of the largest numbers would overflow
    standardised = _standardise(values)
    sizes = np.arange(least, n // 2 + 1)
    own = _statistics(standardised[None], sizes)[0]
    since, observed = sizes[own.argmax(axis=0)], own.max(axis=0)
    more, more_of_any, drawn = _count_orders(standardised, sizes, observed, level, permutations, seed)
    tested = standardised.any(axis=0) & ~np.isnan(values[-1])
    change, spread = _sizes_of(values, since)
    alike = ~np.isnan(values[-1]) & ~standardised.any(axis=0)  # all records the same: nothing has changed
    p, p_family = (
        np.where(tested, (1 + count) / (1 + drawn), np.where(alike, 1.0, np.nan)) for count in (more, more_of_any)
    )
    return LatestChange(np.where(tested | alike, since, 0), change * scale, spread * scale, p, p_family)


def _standardise(values: np.ndarray) -> np.ndarray:
    """Centre each number, of size 1 at most, and divide it by the root of its squares; 0 if missing or constant."""
    there = ~np.isnan(values)
    counts = np.maximum(there.sum(axis=0), 1)
    centred = np.where(there, values - np.where(there, values, 0.0).sum(axis=0) / counts, 0.0)
    size = np.sqrt(np.square(centred).sum(axis=0))
    constant = size <= 1e-12 * np.sqrt(counts)  # what rounding leaves of equal numbers
    return np.where(constant, 0.0, centred / np.where(constant, 1.0, size))


def _statistics(orders: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """Return |sum of the last j| sqrt(n / (j (n − j))) of standardised records: (orders, sizes, m)."""
    n = orders.shape[1]
    sums = np.cumsum(orders[:, ::-1][:, : sizes[-1]], axis=1)[:, sizes - 1]
    agree = sums * orders[:, -1:] > 0
    return np.asarray(np.where(agree, np.abs(sums), 0.0) * np.sqrt(n / (sizes * (n - sizes)))[:, None])


def _count_orders(
    standardised: np.ndarray, sizes: np.ndarray, observed: np.ndarray, level: float, permutations: int, seed: int
) -> tuple[np.ndarray, np.ndarray, int]:
    """Count the orders in which a number, and in which any, shows as much; stop once that cannot come to the level."""
    n, m = standardised.shape
    rng = np.random.default_rng(seed)
    allowed = level * (permutations + 1) - 1
    more, more_of_any, drawn = np.zeros(m, int), np.zeros(m, int), 0
    most = max(1, _CHUNK_BYTES // (8 * n * max(m, 1)))
    while drawn < permutations and (drawn == 0 or more_of_any.min(initial=permutations) <= allowed):
        size = min(max(100, drawn), most, permutations - drawn)
        orders = rng.permuted(np.tile(np.arange(n), (size, 1)), axis=1)
        largest = _statistics(standardised[orders], sizes).max(axis=1)
        slack = observed * (1 - 1e-9)  # sums of the same records in another order round otherwise
        more += (largest >= slack).sum(axis=0)
        more_of_any += (largest.max(axis=1, initial=0.0)[:, None] >= slack).sum(axis=0)
        drawn += size
    return more, more_of_any, drawn


def _sizes_of(values: np.ndarray, since: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the change of each number, and its standard deviation within the two parts."""
    latest = np.arange(len(values))[:, None] >= len(values) - since
    means, squares, counts = [], np.zeros(values.shape[1]), np.zeros(values.shape[1])
    for part in (~latest, latest):
        there = part & ~np.isnan(values)
        count = there.sum(axis=0)
        with np.errstate(invalid="ignore", divide="ignore"):
            mean = np.where(there, values, 0.0).sum(axis=0) / count
        means.append(mean)
        squares += np.where(there, np.square(values - mean), 0.0).sum(axis=0)
        counts += count
    with np.errstate(invalid="ignore", divide="ignore"):
        return means[1] - means[0], np.sqrt(squares / np.where(counts > 2, counts - 2, np.nan))
