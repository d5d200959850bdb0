"""Do gates keep their error rates, from made-up embeddings to the outcome? Experiments for benchmarks/simulations.py.

The populations are those of the verdicts. Limits are set at the very leaning that the population has: there a gate errs
most, as its numbers neither keep their limits by anything nor break them.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from benchmarks.rates import Experiment, Found
from benchmarks.verdict_simulations import POPULATIONS, Population, design_of, rate_over_studies, verdict_rows
from clinometer.metrics.verdict import from_middle_of
from clinometer.stats.power import HeldToLimits, hold_to_limits

CONCEPTS = 28
AT_LIMIT = 0.75
"""Share of the first group at which a concept is exactly at its limit."""


def gates(
    population: Population, shares: np.ndarray, limit: np.ndarray, images: int, n: int, *seed: int, both: bool = False
) -> list[HeldToLimits]:
    """Draw so many studies and hold each to the limits of its concepts, counted from 0 and from the groups' middle.

    ``both``: to lower limits as well.
    """
    design, held = design_of(len(shares)), []
    lower = -limit if both else np.full(len(shares), -np.inf)
    for study in range(n):
        rows = verdict_rows(population.draw(np.random.default_rng([*seed, images, study]), shares, images), design)
        numbers = [[(row.value, row.low, row.high) for row in rows], [from_middle_of(row) for row in rows]]
        units = np.array([row.n_target for row in rows])
        from_0, apart = (
            hold_to_limits(*np.array(each).T, units, units - 1, at_least=lower, at_most=limit) for each in numbers
        )
        held.append(replace(from_0, within=from_0.within & apart.within, beyond=from_0.beyond & apart.beyond))
    return held


def at_their_limits(n: int, population: int, images: int) -> list[Found]:
    """All concepts exactly at their limits: gates that call any broken, and concepts that are said to keep them."""
    chosen, shares = POPULATIONS[population], np.full(CONCEPTS, AT_LIMIT)
    held = gates(chosen, shares, chosen.truth(shares), images, n, 71, population)
    setting = f"{chosen.name}, all of {CONCEPTS} concepts at their limits, {images} images"
    broken = np.array([gate.beyond.any() for gate in held])
    within = np.array([gate.within for gate in held])
    return [
        rate_over_studies("gate-level", "gate is broken", setting, 0.05, broken),
        rate_over_studies("gate-level", "a concept keeps its limit", setting, 0.025, within),
    ]


def one_at_its_limit(n: int, population: int, images: int) -> list[Found]:
    """One concept exactly at its limit, all others at parity: gates that hold, and gates that are broken."""
    chosen = POPULATIONS[population]
    shares = np.array([AT_LIMIT, *[0.5] * (CONCEPTS - 1)])
    limit = np.full(CONCEPTS, chosen.truth(shares)[0])
    held = gates(chosen, shares, limit, images, n, 72, population, both=True)
    setting = f"{chosen.name}, one of {CONCEPTS} concepts at its limit, {images} images"
    holds, broken = np.array([(gate.within.all(), gate.beyond.any()) for gate in held]).T
    return [
        rate_over_studies("gate-level", "gate holds", setting, 0.025, holds),
        rate_over_studies("gate-level", "gate is broken", setting, 0.05, broken),
    ]


def away_from_limits(n: int, share: float, at_limit: float, images: int, population: int = 0) -> list[Found]:
    """All concepts at a share, all limits at another: what a gate comes to."""
    chosen, shares = POPULATIONS[population], np.full(CONCEPTS, share)
    limit = chosen.truth(np.full(CONCEPTS, at_limit))
    held = gates(chosen, shares, limit, images, n, 73, round(1000 * share), both=True)
    holds, broken = np.array([(gate.within.all(), gate.beyond.any()) for gate in held]).T
    setting = f"{chosen.name}, {CONCEPTS} concepts of {images} images at {share:.0%}, limits at {at_limit:.0%}"
    return [
        rate_over_studies("gate-power", "gate holds", setting, 0.0, holds),
        rate_over_studies("gate-power", "gate is broken", setting, 0.0, broken),
    ]


def experiments() -> list[Experiment]:
    """Every experiment with its number of studies."""
    return [
        *((experiment, 240, {"population": p, "images": images})
          for experiment in (at_their_limits, one_at_its_limit) for p in (0, 3) for images in (10, 20)),
        *((away_from_limits, 120, {"share": share, "at_limit": at_limit, "images": 20})
          for share, at_limit in ((0.5, 0.95), (0.75, 0.95), (0.85, 0.75), (0.95, 0.75))),
    ]  # fmt: skip
