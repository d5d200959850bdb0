"""Families of tests: rows whose p-values are corrected together, in one place for every study."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from clinometer.metrics.records import Score, storable
from clinometer.stats.multiplicity import benjamini_hochberg, holm
from clinometer.stats.permutation import PermutationTest


def permuted(test: PermutationTest, at: int = 0) -> dict[str, Any]:
    """A permutation test's p and how it was found, as the fields of a row; ``at`` chooses among its statistics."""
    return {
        "p": float(test.p_value[at]),
        "p_exact": test.exact,
        "p_error": float(test.standard_error[at]),
        "n_splits": storable(test.n_splits),
        "p_method": test.method,
        "p_low": float(test.p_low[at]),
        "p_high": float(test.p_high[at]),
    }


def corrected(rows: Sequence[Score], family: str) -> list[Score]:
    """Give rows that are one family its name, Benjamini–Hochberg q-values and Holm's adjusted p-values.

    q bounds the share of false findings among all findings, Holm's p the chance of a single one. A row without p is no
    test of the family.
    """
    p = np.array([row.p for row in rows], np.float64)
    adjusted = zip(rows, benjamini_hochberg(p), holm(p), strict=True)
    return [replace(row, q=float(q), p_holm=float(p_holm), family=family) for row, q, p_holm in adjusted]
