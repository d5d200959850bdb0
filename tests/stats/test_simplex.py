"""The range of a score over the shares that a score test cannot refuse."""

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.stats import binomtest, chi2

from clinometer.stats.proportion import range_over_shares, range_over_two_shares


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


def overlap(p, q):
    distance = np.abs(p - q).sum(axis=-1) / 2
    return (1 - distance) / (1 + distance)


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("first", "second"), [((4, 3, 2), (2, 3, 9)), ((9, 1, 0), (0, 4, 1)), ((3, 0), (3, 0)), ((30, 0), (0, 30))]
)
def test_two_samples_have_the_ends_that_an_optimiser_finds(first, second):
    first, second = np.array(first), np.array(second)
    k, (n, m) = len(first), (first.sum(), second.sum())
    f, g = first / n, second / m
    most = chi2.ppf(0.95, 2 * (k - 1))

    def region(x):
        x = np.maximum(x, 1e-12)
        return most - n * ((f**2 / x[:k]).sum() - 1) - m * ((g**2 / x[k:]).sum() - 1)

    sums = [{"type": "eq", "fun": lambda x, half=half: x[half].sum() - 1} for half in (slice(k), slice(k, None))]
    rng = np.random.default_rng(0)
    for sign, end in zip((1, -1), range_over_two_shares(overlap, first, second), strict=True):
        found = [
            minimize(
                lambda x, sign=sign: sign * overlap(x[:k], x[k:]),
                np.concatenate([0.8 * each + 0.2 * rng.dirichlet(np.ones(k)) for each in (f, g)]),
                bounds=[(1e-9, 1)] * (2 * k),
                constraints=[*sums, {"type": "ineq", "fun": region}],
                method="SLSQP",
            )
            for _ in range(40)
        ]
        best = min(each.fun for each in found if each.success and region(each.x) > -1e-6)
        assert sign * end == pytest.approx(best, abs=0.02)


def test_two_samples_swap():
    first, second = np.array([6, 3, 1]), np.array([1, 4, 2])
    ends = range_over_two_shares(overlap, first, second)
    assert ends == pytest.approx(range_over_two_shares(overlap, second, first), abs=0.01)


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
