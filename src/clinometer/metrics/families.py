"""Families of tests: rows whose p-values are corrected together, in one place for every study."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from clinometer.metrics.records import Score
from clinometer.stats.multiplicity import benjamini_hochberg, holm


def corrected(rows: Sequence[Score], family: str) -> list[Score]:
    """Give rows that are one family its name, Benjamini–Hochberg q-values and Holm's adjusted p-values.

    q bounds the share of false findings among all findings, Holm's p the chance of a single one. A row without p is no
    test of the family.
    """
    p = np.array([row.p for row in rows], np.float64)
    adjusted = zip(rows, benjamini_hochberg(p), holm(p), strict=True)
    return [replace(row, q=float(q), p_holm=float(p_holm), family=family) for row, q, p_holm in adjusted]
