"""Exact tests of whether the rows of a table of counts come from one distribution over its columns."""

from __future__ import annotations

from dataclasses import dataclass
from math import nan
from typing import Final

import numpy as np
import scipy
from numpy.typing import ArrayLike
from scipy.special import gammaln

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
