"""Products in single precision: those of @, and no false alarm of the processor's."""

import warnings

import numpy as np
import pytest

from clinometer.stats.association import matmul


@pytest.mark.parametrize("inner", [1, 3, 5, 8, 17])
@pytest.mark.parametrize("rows", [1, 2, 10])
def test_it_is_the_product_bit_for_bit(rows, inner):
    rng = np.random.default_rng(0)
    x, y = (rng.normal(size=(n, inner)).astype(np.float32) for n in (rows, 6))
    with np.errstate(invalid="ignore"):
        expected = x @ y.T
    assert matmul(x, y.T).dtype == np.float32
    np.testing.assert_array_equal(matmul(x, y.T), expected)
    np.testing.assert_array_equal(matmul(x, y[0]), matmul(x, y[:1].T)[:, 0])


def test_the_flag_of_an_invalid_value_warns_nobody():
    """Stray lanes cannot be set from Python: infinity times zero raises the same flag."""
    infinite, zeros = np.array([[np.inf, 0]], np.float32), np.zeros((2, 1), np.float32)
    with pytest.warns(RuntimeWarning, match="invalid value"):
        infinite @ zeros
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert np.isnan(matmul(infinite, zeros)).all()
