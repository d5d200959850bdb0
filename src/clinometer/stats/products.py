"""Matrix products in single precision."""

from __future__ import annotations

import numpy as np


def matmul(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """``x @ y``, without the warning of an invalid value.

    OpenBLAS multiplies float32 matrices of five columns by a vector in a kernel for AVX-512 that also computes on
    lanes nobody set and drops them (``sgemv_t``, 0.3.31). The product is right, bit for bit; but now and then those
    lanes hold what raises the processor's flag, and numpy warns of finite numbers. NaN passes through, as it does
    through ``@``.
    """
    with np.errstate(invalid="ignore"):
        return np.asarray(x @ y)
