"""The line of shares over a reference with errors in both."""

import numpy as np
import pytest
import scipy
from scipy.special import expit, logit

from clinometer.errors import Code, InvalidInputError
from clinometer.stats.share_line import Labelled, _Likelihood, share_line
from tests.raising import raises

C = 12
RHO = np.linspace(0.08, 0.9, C)


def drawn(slope=1.5, tilt=0.3, n=60, seed=0):
    rng = np.random.default_rng(seed)
    return rng.binomial(n, expit(tilt + slope * logit(RHO) + rng.normal(0, 0.4, C))).astype(float)


def line_of(k, n=60, people=500.0, reference=RHO, labelled=None):
    return share_line(reference, np.full(C, people), k, np.full(C, float(n)), labelled)


def test_another_name_for_the_group_turns_the_tilt_and_leaves_the_slope():
    k = drawn()
    one, other = line_of(k), line_of(60 - k, reference=1 - RHO)
    assert other.slope.value == pytest.approx(one.slope.value, abs=1e-3)
    assert (other.slope.low, other.slope.high) == pytest.approx((one.slope.low, one.slope.high), abs=4e-3)
    assert other.tilt.value == pytest.approx(-one.tilt.value, abs=1e-3)
    assert other.scatter == pytest.approx(one.scatter, abs=1e-3)


def test_p_and_interval_agree_on_whether_the_slope_is_one():
    for slope in (1.0, 1.4, 2.0):
        found = line_of(drawn(slope)).slope
        assert (found.p <= 0.05) == (not found.low <= 1 <= found.high)


def test_the_order_of_concepts_does_not_matter():
    k, order = drawn(), np.random.default_rng(1).permutation(C)
    shuffled = line_of(k[order], reference=RHO[order])
    assert shuffled.slope.value == pytest.approx(line_of(k).slope.value, abs=1e-4)


def test_without_error_it_is_the_least_squares_line():
    n = 4_000_000
    odds = 0.2 + 1.3 * logit(RHO) + np.random.default_rng(2).normal(0, 0.3, C)
    found = line_of(n * expit(odds), n=n, people=np.inf)
    fitted = scipy.stats.linregress(logit(RHO), odds)
    assert found.slope.value == pytest.approx(fitted.slope, abs=1e-3)
    assert found.tilt.value == pytest.approx(fitted.intercept, abs=1e-3)
    assert found.scatter == pytest.approx(np.std(odds - fitted.intercept - fitted.slope * logit(RHO)), rel=0.01)


@pytest.mark.parametrize(
    "labelled", [None, Labelled(np.array([40.0, 8, 3]), np.array([50.0, 50, 40]), np.tile([0.3, 0.7], (C, 1)))]
)
def test_the_likelihood_is_that_of_a_fine_grid_and_its_gradient_is_right(labelled):
    rng = np.random.default_rng(3)
    likelihood = _Likelihood(logit(RHO), rng.uniform(0.01, 0.2, C), drawn(n=20), np.full(C, 20.0), labelled)
    at = np.array([0.2, 1.3, -0.5, *([1.5, -1.0, -2.0] if labelled else [])])
    found, gradient = likelihood._loss(at)
    numeric = scipy.optimize.approx_fprime(at, lambda x: likelihood._loss(x)[0], 1e-6)
    assert gradient == pytest.approx(numeric, rel=1e-3, abs=1e-3)

    rates = expit(at[3:])
    hit, false = (rates[0], labelled.among @ rates[1:]) if labelled else (1.0, np.zeros(C))
    total = 0.0
    for c in range(C):
        variance = at[1] ** 2 * likelihood.variance[c] + np.exp(2 * at[2])
        odds = np.linspace(-25, 25, 40_001)
        p = hit * expit(odds) + false[c] * (1 - expit(odds))
        density = scipy.stats.norm.pdf(odds, at[0] + at[1] * likelihood.mean[c], np.sqrt(variance))
        own = p ** likelihood.count[c] * (1 - p) ** (20 - likelihood.count[c]) * density
        total += np.log(np.trapezoid(own, odds))
    if labelled:
        total += (labelled.hits * np.log(rates) + (labelled.total - labelled.hits) * np.log1p(-rates)).sum()
    constant = C * np.log(2 * np.pi) / 2 - C * np.log(2) / 2  # of the density, and of the quadrature's nodes
    assert -found == pytest.approx(total + constant, abs=0.02)


def test_labels_without_error_are_a_count():
    k = drawn()
    sure = Labelled(np.array([1e6, 0.0]), np.array([1e6, 1e6]), np.ones((C, 1)))
    assert line_of(k, labelled=sure).slope.value == pytest.approx(line_of(k).slope.value, abs=2e-3)


@pytest.mark.parametrize(
    ("reference", "people", "count", "reason"),
    [
        (RHO[:5], 500, [3] * 5, "a line needs 8"),
        (np.full(C, 0.5) + np.linspace(-0.01, 0.01, C), 50, [30] * C, "their own errors"),
        (RHO, 500, [60] * C, "all of one group"),
    ],
)
def test_what_has_no_line_says_why(reference, people, count, reason):
    found = share_line(reference, np.full(len(count), people), count, np.full(len(count), 60))
    assert reason in found.reason
    assert np.isnan([found.slope.value, found.slope.low, found.slope.p, found.tilt.value, found.scatter]).all()


def test_shares_and_counts_out_of_range_are_refused():
    with raises(InvalidInputError, code=Code.OUT_OF_RANGE):
        line_of(np.full(C, 61.0))
    with raises(InvalidInputError, code=Code.WRONG_SHAPE, field=("reference", "reference_n", "count", "n")):
        share_line(RHO, [1], drawn(), np.full(C, 60))
