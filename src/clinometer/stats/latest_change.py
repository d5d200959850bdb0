"""Whether the latest of many alike records differ from those before them, without supposing a distribution.

Where nothing has changed, the order of the records says nothing: any other order is as likely. So the statistic of the
order that there is, a difference between the last j records and the earlier ones, has a rank among those of all orders
that is uniform, whatever the records are distributed as (Antoch & Hušková 2001, "Permutation tests in change point
analysis"). See decision 75.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import comb

import numpy as np

from clinometer.errors import InvalidInputError

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
