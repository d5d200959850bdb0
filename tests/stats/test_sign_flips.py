"""Sign flips: counted, matched in the middle, and drawn."""

from itertools import product

import numpy as np
import pytest
from scipy import stats

from clinometer.errors import Code, InvalidInputError
from clinometer.stats.permutation import sign_flip_test
from tests.raising import raises

RNG = np.random.default_rng(0)


@pytest.mark.parametrize("n", [1, 2, 5, 9])
def test_every_flip_is_counted(n):
    values = RNG.normal(0.4, 1, size=(3, n))
    flips = np.array(list(product((1, -1), repeat=n)))
    found = sign_flip_test(values)
    expected = [np.mean(np.abs(flips @ row) >= abs(row.sum()) - 1e-12) for row in values]
    assert found.p_value == pytest.approx(expected)
    assert found.statistic == pytest.approx(values.mean(axis=1))
    assert (found.exact, found.n_splits) == (True, 2**n)
    assert found.p_value.min() >= 2 / 2**n


def test_it_agrees_with_scipy():
    values = RNG.normal(0.3, 1, size=12)
    theirs = stats.permutation_test((values,), np.mean, permutation_type="samples", n_resamples=np.inf)
    assert sign_flip_test(values).p_value[0] == pytest.approx(theirs.pvalue)


def test_counting_in_the_middle_and_drawing_agree():
    values = RNG.normal(0.3, 1, size=24)
    counted = sign_flip_test(values)
    drawn = sign_flip_test(values, exact_limit=0, n_permutations=20_000)
    assert (counted.exact, counted.n_splits, drawn.exact) == (True, 2**24, False)
    assert drawn.p_low[0] <= counted.p_value[0] <= drawn.p_high[0]


def test_signs_and_scale_change_nothing_and_nothing_is_never_extreme():
    values = RNG.normal(0.3, 1, size=10)
    assert sign_flip_test(-3 * values).p_value == pytest.approx(sign_flip_test(values).p_value)
    assert sign_flip_test(np.zeros(6)).p_value[0] == 1


def test_many_are_drawn_and_p_is_never_0():
    found = sign_flip_test(np.ones(50), n_permutations=999)
    assert not found.exact
    assert found.p_value[0] == pytest.approx(1 / 1000)


def test_no_values_are_refused():
    with raises(InvalidInputError, code=Code.TOO_FEW, field="labels"):
        sign_flip_test(np.zeros((1, 0)))
