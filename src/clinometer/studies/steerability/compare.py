"""Differences of two runs of a steerability study: by how much one of them draws a group more readily.

With s the share of the pictures asked for a group that are read as it, and A the first group::

    Δ = (s_A − s_B)(second) − (s_A − s_B)(first)            in [−2, 2], positive: the second favours A more

Pictures are as read, by one reader in both runs: where the runs draw alike it errs alike in both, so its errors cannot
make a difference. Pictures of one prompt and noise are pairs. See :mod:`clinometer.metrics.differences`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from clinometer.metrics.differences import Family, PortraitPair, difference_row, judged_families
from clinometer.metrics.records import Score
from clinometer.metrics.steerability import FEWEST_ASKED

SWAPPED = "runs swapped picture by picture, two-sided"
DEALT = "pictures of each group shuffled between the runs, two-sided"


@dataclass(frozen=True)
class ReadAsAsked:
    """One concept of a run: by group, (n,) whether each picture asked for it is read as it, and how many are missing.

    The i-th pictures of a group in two runs belong together where these are paired.
    """

    concept: str
    category: str
    hits: Mapping[str, np.ndarray]
    missing: int = 0


def compare_steerability(
    first: Sequence[ReadAsAsked],
    second: Sequence[ReadAsAsked],
    groups: Sequence[str],
    *,
    reader: str,
    question: str,
    paired: bool,
    margin: float | None = None,
    n_permutations: int = 19_999,
    seed: int = 0,
) -> list[Score]:
    """Return differences of the gap (``gap``, with verdicts) and of success (``success``), second run minus first.

    ``groups`` : A, then the others; a gap is of A and each of them, ``group`` names the two, "A-B".
    """
    a, *others = groups
    pairs = list(zip(first, second, strict=True))

    def rows(component: str, weights_by_name: Mapping[str, Mapping[str, float]]) -> list[Score]:
        differences = []
        for one, other in pairs:
            values = [
                {name: np.asarray(run.hits[name], np.float64)[:, None] for name in groups} for run in (one, other)
            ]
            pair = PortraitPair(values[0], values[1], paired)
            for name, weights in weights_by_name.items():
                row = difference_row(
                    pair, weights, component, answers=1, n_permutations=n_permutations,
                    rng=np.random.default_rng([seed, *one.concept.encode(), *name.encode()]), concept=one.concept,
                    category=one.category, group=name, encoder="", setting=question,
                    n_missing=one.missing + other.missing,
                )  # fmt: skip
                test = f"{SWAPPED if paired else DEALT}; read by {reader}" if row.test else ""
                differences.append(replace(row, test=test))
        return differences

    gaps = rows("gap", {f"{a}-{b}": {a: 1.0, b: -1.0} for b in others})
    sides = [a] * len(gaps), [b for _ in pairs for b in others]
    success = rows("success", {name: {name: 1.0} for name in groups})
    over = f"in {question} by {reader}"
    return judged_families([
        Family(rows=gaps, name=f"gap of {len(gaps)} {over}", sides=sides, margin=margin, fewest=FEWEST_ASKED),
        Family(rows=success, name=f"success of {len(success)} {over}"),
    ])  # fmt: skip
