"""The quadratic-form permutation test against brute force, and what must not change it."""

from itertools import combinations

import numpy as np
import pytest

from clinometer.errors import InvalidInputError
from clinometer.stats.permutation import split_test
from clinometer.stats.quadratic import quadratic_permutation_test


def blocks(gram, chosen):
    rest = [i for i in range(len(gram)) if i not in chosen]
    return gram[np.ix_(chosen, chosen)].mean() - gram[np.ix_(rest, rest)].mean()


@pytest.mark.parametrize("sizes", [(3, 3), (2, 5), (4, 2), (1, 4), (5, 4)])
@pytest.mark.parametrize("alternative", ["two-sided", "greater", "less"])
def test_every_split_is_counted(sizes, alternative):
    gram = np.random.default_rng(sum(sizes)).normal(size=(sum(sizes),) * 2)
    splits = np.array([blocks(gram, list(c)) for c in combinations(range(sum(sizes)), sizes[0])])
    observed = blocks(gram, list(range(sizes[0])))
    extreme = {
        "two-sided": np.abs(splits) >= abs(observed) - 1e-9,
        "greater": splits >= observed - 1e-9,
        "less": splits <= observed + 1e-9,
    }[alternative]
    found = quadratic_permutation_test(gram, sizes=sizes, alternative=alternative)
    assert found.statistic[0] == pytest.approx(observed)
    assert found.p_value[0] == pytest.approx(extreme.mean())
    assert (found.exact, found.n_splits, found.standard_error[0]) == (True, len(splits), 0)


def test_a_table_that_is_linear_in_the_items_gives_the_linear_test():
    """G_ij = (v_i + v_j) / 2: the block mean is the mean of v, and S the difference of means."""
    values = np.random.default_rng(1).normal(size=10)
    gram = (values[:, None] + values[None]) / 2
    labels = np.arange(10) < 4
    found, linear = quadratic_permutation_test(gram, sizes=(4, 6)), split_test(values[None], labels)
    assert found.statistic == pytest.approx(linear.statistic)
    assert found.p_value == pytest.approx(linear.p_value)


def test_a_constant_and_a_scale_change_no_p():
    gram = np.random.default_rng(2).normal(size=(8, 8))
    p = quadratic_permutation_test(gram, sizes=(4, 4)).p_value
    assert quadratic_permutation_test(1e-6 * gram, sizes=(4, 4)).p_value == p
    assert quadratic_permutation_test(gram + 100, sizes=(4, 4)).p_value == p


def test_swapping_the_sets_negates():
    gram = np.random.default_rng(3).normal(size=(7, 7))
    turned = np.roll(gram, -3, axis=(0, 1))
    one, other = quadratic_permutation_test(gram, sizes=(3, 4)), quadratic_permutation_test(turned, sizes=(4, 3))
    assert other.statistic == pytest.approx(-one.statistic)
    assert other.p_value == one.p_value


def test_sampled_agrees_with_exact_is_never_zero_and_repeats():
    rng = np.random.default_rng(4)
    gram = rng.normal(size=(12, 12)) + np.outer(np.arange(12) < 6, np.arange(12) < 6) * 0.4
    exact = quadratic_permutation_test(gram, sizes=(6, 6))
    sampled = [
        quadratic_permutation_test(gram, sizes=(6, 6), method="sampled", permutations=20_000, rng=s) for s in (1, 1)
    ]
    assert sampled[0] == sampled[1] or sampled[0].p_value == sampled[1].p_value
    assert sampled[0].p_value == pytest.approx(exact.p_value, abs=5 * sampled[0].standard_error[0] + 1e-4)
    far = np.kron(np.diag([1.0, -1.0]), np.ones((6, 6)))
    assert quadratic_permutation_test(far, sizes=(6, 6), method="sampled", permutations=99).p_value[0] >= 1 / 100


def test_what_is_not_finite_has_no_p():
    gram = np.eye(4)
    gram[0, 0] = np.nan
    found = quadratic_permutation_test(gram, sizes=(2, 2))
    assert np.isnan(found.p_value[0])
    assert found.reason == "a value is NaN"


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"sizes": (2, 3)}, "gram and sizes"),
        ({"sizes": (0, 4)}, "gram and sizes"),
        ({"alternative": "bigger"}, "alternative: expected one of two-sided"),
        ({"method": "guess"}, "method: expected one of auto"),
        ({"permutations": 0}, "permutations"),
    ],
)
def test_what_it_cannot_take_is_refused(change, words):
    with pytest.raises(InvalidInputError, match=words):
        quadratic_permutation_test(np.eye(4), **({"sizes": (2, 2)} | change))
    with pytest.raises(InvalidInputError, match="too many to count"):
        quadratic_permutation_test(np.eye(40), sizes=(20, 20), method="exact")
