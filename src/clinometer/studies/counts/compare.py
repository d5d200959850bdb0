"""Differences of the shares of two tables of counts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from math import nan
from typing import Final

import numpy as np
import scipy

from clinometer.metrics.differences import METRIC as COMPARISON
from clinometer.metrics.records import Score
from clinometer.metrics.two_runs import Family
from clinometer.stats.clusters import ClusterEstimate, contrast
from clinometer.stats.proportion import wilson_interval
from clinometer.studies.counts.scores import NO_IMAGE, SHARE, Counts

DIFFERENCE_TEST: Final = "Fisher's exact test of two shares, two-sided"


def compared_counts(first: Counts, second: Counts, *, confidence: float = 0.95) -> list[Score]:
    """Differences of every share between two tables of the same concepts, groups and settings, second minus first.

    The interval is Newcombe's of two shares (1998, method 10); p is Fisher's. Bounds: what the one discarded is taken
    to be of one group, and what the other discarded of another.
    """
    groups, tables = range(len(first.groups)), (first, second)
    fillings = []
    if any(table.discarded.any() for table in tables):
        for g in groups:
            other = (g + 1) % len(groups)
            for one, two in ((g, other), (other, g)):
                fillings.append(_difference_rows(first, second, (first.filled(one), second.filled(two)), confidence))
    family = Family(
        rows=_difference_rows(first, second, (first.n, second.n), confidence),
        name=f"shares of {len(first.concepts)} concepts, {len(groups)} groups",
        sides=([first.groups[g] for *_, g in _compared(first)], [first.other(g) for *_, g in _compared(first)]),
        fillings=fillings,
    )
    return family.judged()


def _compared(counts: Counts) -> Iterator[tuple[int, int, int]]:
    """Positions of what is compared: of two groups the first alone, as the other differs by as much."""
    return (cell for cell in counts.cells() if len(counts.groups) > 2 or cell[2] == 0)


def _difference_rows(
    first: Counts, second: Counts, n: tuple[np.ndarray, np.ndarray], confidence: float
) -> Sequence[Score]:
    rows = []
    for c, s, g in _compared(first):
        pairs = [(int(table[c, s, g]), int(table[c, s].sum())) for table in n]
        (k, m), (j, o) = pairs
        missing = int(first.discarded[c, s] + second.discarded[c, s])
        row = first.row(c, s, g, m + o, metric=COMPARISON, component=SHARE, n_a=m, n_b=o)
        if not (m and o):
            rows.append(replace(row, n_missing=missing, reason=NO_IMAGE, value=nan))
            continue
        one, two = (wilson_interval(*pair, confidence) for pair in pairs)
        difference = contrast(
            [ClusterEstimate(each.value, each.low, each.high, each.n) for each in (two, one)], (1, -1)
        )
        p = min(1.0, float(scipy.stats.fisher_exact([[k, m - k], [j, o - j]]).pvalue))
        rows.append(
            replace(row, n_missing=missing, value=difference.value, low=difference.low, high=difference.high, p=p,
                    test=DIFFERENCE_TEST)
        )  # fmt: skip
    return rows
