"""The range of a score over the shares that a score test cannot refuse."""

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.stats import binomtest, chi2

from clinometer.stats.simplex import range_over_shares


@pytest.mark.parametrize(("count", "n"), [(0, 5), (1, 9), (7, 20), (20, 20)])
def test_two_shares_are_wilsons_interval(count, n):
    low, high = range_over_shares(lambda p: p[:, 0] / p.sum(axis=1), np.array([count, n - count]))
    wilson = binomtest(count, n).proportion_ci(method="wilson")
    assert (low, high) == pytest.approx((wilson.low, wilson.high), abs=1e-9)


@pytest.mark.parametrize("counts", [(4, 3, 2), (9, 1, 0), (5, 5, 5, 5)])
def test_the_ends_are_those_that_an_optimiser_finds(counts):
    counts = np.array(counts)
    f, n = counts / counts.sum(), counts.sum()
    limit = 1 + chi2.ppf(0.95, len(f) - 1) / n

    def region(p):
        return limit - (f[f > 0] ** 2 / np.maximum(p[f > 0], 1e-12)).sum()

    for sign, end in zip((1, -1), range_over_shares(lambda p: (p**2).sum(axis=1), counts), strict=True):
        rng = np.random.default_rng(0)
        found = [
            minimize(
                lambda p, sign=sign: sign * (p**2).sum(),
                0.8 * f + 0.2 * rng.dirichlet(np.ones(len(f))),
                bounds=[(1e-9, 1)] * len(f),
                constraints=[{"type": "eq", "fun": lambda p: p.sum() - 1}, {"type": "ineq", "fun": region}],
                method="SLSQP",
            )
            for _ in range(20)
        ]
        best = min(each.fun for each in found if each.success)
        assert sign * end == pytest.approx(best, abs=0.01)


def test_it_depends_on_the_order_of_the_shares_as_the_score_does():
    counts = np.array([6, 3, 1])
    symmetric = range_over_shares(lambda p: p.max(axis=1), counts)
    assert symmetric == pytest.approx(range_over_shares(lambda p: p.max(axis=1), counts[::-1].copy()), abs=0.01)
    assert symmetric[0] <= 0.6 <= symmetric[1]


def test_more_images_narrow_it():
    widths = []
    for factor in (1, 10, 100):
        low, high = range_over_shares(lambda p: p.max(axis=1), factor * np.array([5, 3, 2]))
        widths.append(high - low)
    assert widths[0] > widths[1] > widths[2] > 0
