"""Permutation of a quadratic form against brute force, exact against sampled."""

from __future__ import annotations

from itertools import combinations
from typing import Literal

import numpy as np
import pytest
from scipy import stats

from clinometer.errors import Code, InvalidInputError
from clinometer.stats.label_forms import quadratic_permutation_test, quadratic_statistic
from clinometer.stats.permutation import Alternative
from tests.raising import raises


def gram_of(n: int, seed: int = 0, shift: float = 0.0, x: int | None = None) -> np.ndarray:
    gram = np.random.default_rng(seed).normal(size=(n, n))
    if x is not None:
        gram[:x, :x] += shift
    return gram


def by_definition(gram: np.ndarray, chosen: tuple[int, ...]) -> float:
    rest = [p for p in range(len(gram)) if p not in chosen]
    return float(gram[np.ix_(chosen, chosen)].mean() - gram[np.ix_(rest, rest)].mean())


def brute_force(gram: np.ndarray, x: int, alternative: Alternative) -> float:
    observed = by_definition(gram, tuple(range(x)))
    drawn = np.array([by_definition(gram, chosen) for chosen in combinations(range(len(gram)), x)])
    extreme = {
        "two-sided": np.abs(drawn) >= abs(observed) - 1e-12,
        "greater": drawn >= observed - 1e-12,
        "less": drawn <= observed + 1e-12,
    }
    return float(np.mean(extreme[alternative]))


@pytest.mark.parametrize("sizes", [(3, 3), (2, 5), (5, 2), (4, 5), (1, 4), (5, 5)])
@pytest.mark.parametrize("alternative", ["two-sided", "greater", "less"])
def test_exact_p_is_that_of_all_splits_by_definition(sizes: tuple[int, int], alternative: Alternative) -> None:
    gram = gram_of(sum(sizes), seed=sum(sizes))
    found = quadratic_permutation_test(gram, sizes, alternative=alternative)
    assert found.exact
    assert float(found.statistic[0]) == pytest.approx(by_definition(gram, tuple(range(sizes[0]))))
    assert float(found.p_value[0]) == pytest.approx(brute_force(gram, sizes[0], alternative))


@pytest.mark.parametrize("sizes", [(199, 1), (1, 100), (2, 30)])
@pytest.mark.parametrize("noise", [1.0, 1e-4])
@pytest.mark.parametrize("alternative", ["two-sided", "greater", "less"])
def test_exact_p_survives_terms_that_cancel(sizes: tuple[int, int], noise: float, alternative: Alternative) -> None:
    """With one prompt against 199 the three terms of S are 40,000 times S, beyond what float32 keeps."""
    gram = 0.3 + noise * gram_of(sum(sizes), seed=3)
    found = quadratic_permutation_test(gram, sizes, alternative=alternative)
    assert found.exact
    assert float(found.p_value[0]) == pytest.approx(brute_force(gram, sizes[0], alternative))


@pytest.mark.parametrize("sizes", [(6, 6), (5, 7)])
def test_sampled_interval_holds_the_exact_p(sizes: tuple[int, int]) -> None:
    gram = gram_of(12, seed=1, shift=0.4, x=sizes[0])
    exact = quadratic_permutation_test(gram, sizes)
    sampled = quadratic_permutation_test(gram, sizes, method="sampled", permutations=20_000, rng=3)
    assert exact.exact
    assert not sampled.exact
    assert sampled.p_low[0] <= exact.p_value[0] <= sampled.p_high[0]


def test_forty_prompts_of_equal_sets_are_counted_exactly() -> None:
    gram = gram_of(40, seed=2, shift=0.1, x=20)
    exact = quadratic_permutation_test(gram, (20, 20))
    sampled = quadratic_permutation_test(gram, (20, 20), method="sampled", permutations=50_000, rng=1)
    assert exact.exact
    assert exact.n_splits == 137_846_528_820
    assert sampled.p_low[0] <= exact.p_value[0] <= sampled.p_high[0]


def test_invariances() -> None:
    gram = gram_of(13, seed=4)
    base = quadratic_permutation_test(gram, (5, 8))
    for other in (gram.T, 7.5 * gram, gram + 3.0):  # a constant moves both means alike
        found = quadratic_permutation_test(other, (5, 8))
        assert found.p_value[0] == pytest.approx(base.p_value[0])
    swapped = np.roll(np.roll(gram, -5, axis=0), -5, axis=1)
    other = quadratic_permutation_test(swapped, (8, 5))
    assert other.statistic[0] == pytest.approx(-base.statistic[0])
    assert other.p_value[0] == pytest.approx(base.p_value[0])
    negative = quadratic_permutation_test(-gram, (5, 8), alternative="less")
    positive = quadratic_permutation_test(gram, (5, 8), alternative="greater")
    assert negative.p_value[0] == positive.p_value[0]


def test_sampled_agrees_with_scipy() -> None:
    gram = gram_of(16, seed=5, shift=0.3, x=6)

    def statistic(x: np.ndarray, y: np.ndarray, axis: int = -1) -> np.ndarray:
        members = np.zeros((*x.shape[:-1], 16))
        np.put_along_axis(members, x.astype(int), 1, axis=-1)
        return quadratic_statistic(gram, members.reshape(-1, 16)).reshape(x.shape[:-1])

    expected = stats.permutation_test(
        (np.arange(6.0), np.arange(6.0, 16)), statistic, vectorized=True, n_resamples=20_000,
        alternative="greater", rng=np.random.default_rng(1),
    )  # fmt: skip
    found = quadratic_permutation_test(gram, (6, 10), alternative="greater")
    assert found.p_value[0] == pytest.approx(expected.pvalue, abs=4 * np.sqrt(expected.pvalue / 20_000))


def test_all_equal_prompts_tie() -> None:
    assert quadratic_permutation_test(np.ones((60, 60)), (20, 40), permutations=999).p_value[0] == 1.0


@pytest.mark.parametrize("sizes", [(5, 5), (4, 6), (25, 25)])
@pytest.mark.parametrize("alternative", ["two-sided", "greater", "less"])
@pytest.mark.parametrize("method", ["auto", "sampled"])
def test_rounding_is_not_permuted(
    sizes: tuple[int, int], alternative: Alternative, method: Literal["auto", "sampled"]
) -> None:
    """S is 0 in every split: of equal numbers, of differences that cancel, of an antisymmetric gram, of equal rows."""
    noise = 1e-16 * gram_of(sum(sizes), seed=7)
    grams = [(0.3 + noise, 0.0), (noise, 1e-12), (gram_of(sum(sizes)) - gram_of(sum(sizes)).T + noise, 0.0)]
    if sizes[0] == sizes[1]:
        grams.append((np.roll(np.eye(sum(sizes)), 1, axis=0) + noise, 0.0))
    for gram, rounding in grams:
        found = quadratic_permutation_test(
            gram, sizes, alternative=alternative, method=method, permutations=99, rounding=rounding
        )
        assert found.p_value[0] == 1


def test_p_values_are_uniform_without_a_difference() -> None:
    p_values = [float(quadratic_permutation_test(gram_of(9, seed=s), (4, 5)).p_value[0]) for s in range(300)]
    assert np.mean(np.array(p_values) <= 0.1) == pytest.approx(0.1, abs=4 * np.sqrt(0.09 / 300))


def test_missing_values_have_no_p_and_a_reason() -> None:
    gram = gram_of(6)
    gram[0, 0] = np.nan
    found = quadratic_permutation_test(gram, (3, 3))
    assert np.isnan(found.p_value[0])
    assert found.reason


@pytest.mark.parametrize(
    ("arguments", "code", "field", "message"),
    [
        ({"sizes": (2, 3)}, Code.WRONG_SHAPE, "gram", r"\(6, 6\)"),
        ({"sizes": (0, 6)}, Code.TOO_FEW, "sizes", "0 and 6"),
        ({"sizes": (3, 3), "alternative": "both"}, Code.UNKNOWN_NAME, "alternative", "'both'"),
        ({"sizes": (3, 3), "method": "fast"}, Code.UNKNOWN_NAME, "method", "'fast'"),
        ({"sizes": (3, 3), "method": "sampled", "permutations": 0}, Code.OUT_OF_RANGE, "permutations", "0"),
    ],
)
def test_bad_input_is_named(arguments: dict[str, object], code, field, message) -> None:
    with raises(InvalidInputError, code=code, field=field, match=message):
        quadratic_permutation_test(gram_of(6), **arguments)  # type: ignore[arg-type]


def test_large_sets_of_equal_size_get_a_certified_p_that_sampling_agrees_with():
    gram = np.random.default_rng(4).normal(size=(60, 60)) + 0.1 * (np.arange(60) < 30)[:, None]
    certified = quadratic_permutation_test(gram, (30, 30))
    sampled = quadratic_permutation_test(gram, (30, 30), method="sampled", permutations=99_999)
    assert (certified.method, sampled.method) == ("certified", "sampled")
    assert certified.p_low[0] <= certified.p_high[0] < 1.01 * certified.p_low[0]
    assert abs(certified.p_value[0] - sampled.p_value[0]) < 4 * sampled.standard_error[0] + 1e-5
    np.testing.assert_allclose(certified.statistic, sampled.statistic)
    assert quadratic_permutation_test(gram, (20, 40), permutations=999).method == "sampled"
