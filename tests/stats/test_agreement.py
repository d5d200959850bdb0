"""τ-b and α: published examples, scipy and slow definitions as oracles, invariances, coverage by simulation."""

from __future__ import annotations

from itertools import combinations

import krippendorff
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import stats

from clinometer.errors import Code, InvalidInputError
from clinometer.stats.agreement import kendall_tau_b, krippendorff_alpha
from tests.raising import raises

nan = np.nan
FOUR_OBSERVERS = np.array(
    [
        [1, 2, 3, 3, 2, 1, 4, 1, 2, nan, nan, nan],
        [1, 2, 3, 3, 2, 2, 4, 1, 2, 5, nan, 3],
        [nan, 3, 3, 3, 2, 3, 4, 2, 2, 5, 1, nan],
        [1, 2, 3, 3, 2, 4, 4, 1, 2, 5, 1, nan],
    ]
)
TWO_OBSERVERS = np.array([[0, 1, 0, 0, 0, 0, 0, 0, 1, 0], [1, 1, 1, 0, 0, 1, 0, 0, 0, 0]])
SCORES = arrays(np.float64, 9, elements=st.integers(-3, 3).map(float))


@pytest.mark.parametrize(
    ("ratings", "printed", "units"),
    [
        (FOUR_OBSERVERS, 0.743, 11),
        (TWO_OBSERVERS, 0.095, 10),
        (np.array([list("aabbdcccedda"), list("babbbccceddd")]).view(np.uint32), 0.692, 12),
    ],
)
def test_krippendorffs_own_examples(ratings, printed, units):
    """Krippendorff (2011), Computing Krippendorff's Alpha-Reliability: examples A, B and C."""
    found = krippendorff_alpha(ratings)
    assert round(found.value, 3) == printed
    assert found.n == units
    assert found.low < found.value < found.high


def slow_alpha(ratings: np.ndarray) -> float:
    """Share of disagreeing pairs within units over that among all ratings that stand beside another."""
    units = [[r for r in unit if not np.isnan(r)] for unit in ratings.T]
    units = [unit for unit in units if len(unit) > 1]
    pooled = [r for unit in units for r in unit]
    within = sum(2 * sum(a != b for a, b in combinations(unit, 2)) / (len(unit) - 1) for unit in units) / len(pooled)
    among = [a != b for a, b in combinations(pooled, 2)]
    return 1 - within / np.mean(among)


@given(arrays(np.float64, (3, 7), elements=st.sampled_from([0.0, 1.0, 2.0, nan])))
def test_alpha_by_its_definition(ratings):
    found = krippendorff_alpha(ratings, n_resamples=20)
    if np.isnan(found.value):
        assert found.reason
    else:
        assert found.value == pytest.approx(slow_alpha(ratings))


def test_alpha_knows_no_names_and_no_order():
    value = krippendorff_alpha(FOUR_OBSERVERS).value
    rng = np.random.default_rng(0)
    renamed = np.array([nan, 7.0, -2.0, 0.5, 11.0, 3.0])[np.nan_to_num(FOUR_OBSERVERS).astype(int)]
    assert krippendorff_alpha(renamed).value == pytest.approx(value)
    assert krippendorff_alpha(rng.permutation(rng.permutation(FOUR_OBSERVERS), axis=1)).value == pytest.approx(value)


def test_alpha_of_chance_is_about_zero_and_of_agreement_one():
    rng = np.random.default_rng(0)
    assert krippendorff_alpha(rng.integers(0, 3, (3, 4000)), n_resamples=200).value == pytest.approx(0, abs=0.02)
    assert krippendorff_alpha(np.tile(rng.integers(0, 3, 30), (3, 1)), n_resamples=200).value == 1


def test_full_agreement_is_not_certain():
    """Of 30 units none disagrees; one in nine may (Clopper and Pearson's 0 of 30), and half of all pairs would."""
    most = stats.beta.ppf(0.975, 1, 30)
    found = krippendorff_alpha(np.tile(np.repeat([0, 1], 15), (2, 1)))
    assert (found.value, found.high) == (1, 1)
    assert found.low == pytest.approx(1 - most / (30 * 30 / (60 * 59 / 2)))
    more = krippendorff_alpha(np.tile(np.repeat([0, 1], 150), (2, 1)))
    assert found.low < more.low < 1


@pytest.mark.parametrize(
    ("ratings", "reason"),
    [
        (np.full((2, 4), nan), "no unit has two ratings"),
        (np.array([[1, 2, nan, nan], [nan, nan, 1, 2]]), "no unit has two ratings"),
        (np.ones((2, 4)), "all ratings are the same"),
    ],
)
def test_alpha_that_nothing_could_measure(ratings, reason):
    found = krippendorff_alpha(ratings)
    assert np.isnan([found.value, found.low, found.high]).all()
    assert reason in found.reason


@given(SCORES, SCORES)
def test_tau_is_scipys_and_its_sign_follows_the_order(x, y):
    found = kendall_tau_b(x, y)
    if np.isnan(found.value):
        assert found.reason
        return
    assert found.value == pytest.approx(stats.kendalltau(x, y).statistic)
    mirrored, swapped = kendall_tau_b(x, -y), kendall_tau_b(y, x)
    np.testing.assert_allclose([mirrored.low, mirrored.high], [-found.high, -found.low], atol=1e-12)
    np.testing.assert_allclose([swapped.low, swapped.high], [found.low, found.high], atol=1e-12)


@pytest.mark.parametrize("method", ["jackknife", "fisher", "bootstrap"])
def test_only_the_order_counts(method):
    rng = np.random.default_rng(0)
    x = rng.normal(size=15)
    y = x + rng.normal(size=15)
    assert kendall_tau_b(x, y, method=method) == kendall_tau_b(np.exp(x), y**3, method=method)


def test_the_jackknife_leaves_out_one_pair_at_a_time():
    rng = np.random.default_rng(1)
    x, y = rng.integers(0, 5, (2, 12)).astype(float)
    without = [stats.kendalltau(np.delete(x, i), np.delete(y, i)).statistic for i in range(12)]
    tau = stats.kendalltau(x, y).statistic
    error = np.sqrt(11 / 12 * np.sum((without - np.mean(without)) ** 2)) / (1 - tau**2)
    found = kendall_tau_b(x, y)
    assert found.high == pytest.approx(np.tanh(np.arctanh(tau) + 1.959963984540054 * error))


def test_a_nan_is_no_pair_and_too_little_has_a_reason():
    x, y = np.array([1, 2, 3, 4, 5, 6, nan]), np.array([2, 1, 4, 3, 6, nan, 5])
    assert kendall_tau_b(x, y) == kendall_tau_b(x[:5], y[:5])
    assert "fewer than two" in kendall_tau_b([1.0], [2.0]).reason
    assert "tied" in kendall_tau_b(np.ones(9), np.arange(9)).reason
    same = kendall_tau_b(np.arange(9), np.arange(9))
    assert same.value == 1
    assert np.isnan(same.low)
    assert "the same" in same.reason


@pytest.mark.parametrize("method", ["jackknife", "bootstrap"])
def test_tau_covers_with_ties(method):
    """Rounded normal scores of 20 concepts: 300 samples scatter by 1.3 %; the truth is τ-b of 4,000."""
    rng = np.random.default_rng(0)

    def draw(n: int) -> np.ndarray:
        x, e = rng.normal(size=(2, n))
        return np.round(1.5 * np.array([x, 0.6 * x + 0.8 * e]))

    truth, covered = stats.kendalltau(*draw(4000)).statistic, 0
    for seed in range(300):
        found = kendall_tau_b(*draw(20), method=method, n_resamples=400, rng=seed)
        covered += bool(found.low <= truth <= found.high)
    assert 0.92 <= covered / 300 <= 0.99


def test_refusals():
    with raises(InvalidInputError, code=Code.WRONG_SHAPE, field=("x", "y")):
        kendall_tau_b([1, 2], [1, 2, 3])
    with raises(InvalidInputError, code=Code.UNKNOWN_NAME, field="method"):
        kendall_tau_b([1, 2], [1, 2], method="exact")  # type: ignore[arg-type]
    with raises(InvalidInputError, code=Code.WRONG_SHAPE, field="ratings"):
        krippendorff_alpha([1, 2, 3])


@pytest.mark.parametrize("missing", [0.0, 0.3])
def test_alpha_is_that_of_the_library(missing):
    rng = np.random.default_rng(5)
    ratings = rng.integers(0, 3, (5, 40)).astype(float)
    ratings[1] = ratings[0]
    ratings[rng.random(ratings.shape) < missing] = np.nan
    theirs = krippendorff.alpha(reliability_data=ratings, level_of_measurement="nominal")
    assert krippendorff_alpha(ratings, n_resamples=20).value == pytest.approx(theirs)
