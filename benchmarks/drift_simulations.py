"""Is a reader said to have changed that has not, and is one found that has? For benchmarks/simulations.py.

A reader is asked the same pictures again before each batch. It answers *as at first* but for a chance of its own: the
flip rate, on average over pictures, of which one in five is hard and the others hardly ever flip, or all are alike. At
a change, halfway, a share of the pictures get another answer, as surely as before.
"""

from __future__ import annotations

import numpy as np

from benchmarks.rates import Experiment, Found
from clinometer.stats.change import answer_drift

LEVEL = 0.05
RETESTS = 4
"""Rounds in the first batch: before it, and three more."""


def rounds(
    rng: np.random.Generator, batches: int, pictures: int, flip: float, hard: bool, changed: float
) -> np.ndarray:
    """Whether each picture is answered otherwise than at first, before each batch."""
    rates = np.full(pictures, flip)
    if hard:
        rates = np.where(np.arange(pictures) % 5 == 0, min(0.5, 4.5 * flip), flip / 8)
    first = rng.random(pictures) < rates  # what was said at first may have been a flip
    answers = rng.random((batches + RETESTS, pictures)) < rates
    moved = np.zeros(pictures, bool)
    moved[rng.permutation(pictures)[: round(changed * pictures)]] = True
    answers[RETESTS + batches // 2 :] ^= moved
    return (answers != first).astype(float)


def drift(
    n: int, batches: int, flip: float, hard: bool = False, pictures: int = 8, changed: float = 0.0
) -> list[Found]:
    """How often a change is said to be there after all batches; after one, how soon."""
    found, late, early = 0, [], 0
    for study in range(n):
        rng = np.random.default_rng([71, batches, int(1000 * flip), hard, pictures, int(100 * changed), study])
        evidence = answer_drift(rounds(rng, batches, pictures, flip, hard, changed)).evidence
        reached = np.flatnonzero(evidence >= 1 / LEVEL)
        start = RETESTS + batches // 2
        if len(reached):
            early += reached[0] < start
            found += 1
            late.append(reached[0] - start + 1)
    setting = f"{batches:,} batches, {pictures} pictures, flip rate {flip:.0%}{', one in five hard' if hard else ''}"
    if not changed:
        return [
            Found("drift-level", "a reader that stays the same is said to have changed", setting, LEVEL, found / n, n)
        ]
    setting += f", {changed:.0%} of the pictures get another answer"
    soon = np.mean(np.array(late) <= 3) * len(late) / n if late else 0.0
    return [
        Found("drift-power", "the change is found", setting, np.nan, (found - early) / n, n, 0.5),
        Found(
            "drift-power", "the change is found within three batches", setting, np.nan, float(soon - early / n), n, 0.5
        ),
    ]


def experiments() -> list[Experiment]:
    """Every experiment with its number of studies."""
    level = [
        (drift, n, {"batches": batches, "flip": flip, "hard": hard})
        for batches, n in ((10, 1000), (100, 400), (1000, 60))
        for flip in (0.0, 0.02, 0.1)
        for hard in ((False,) if flip == 0 else (False, True))
    ]
    power = [
        (drift, 200, {"batches": batches, "flip": flip, "hard": True, "pictures": m, "changed": changed})
        for batches in (10, 100)
        for flip in (0.02, 0.1)
        for m, changed in ((8, 0.25), (8, 0.5), (20, 0.25))
    ]
    return [*level, *power]
