"""Do the tests and intervals of open answers keep their promises? Measured on made-up answers.

Experiments for benchmarks/simulations.py.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from scipy.special import xlogy

from benchmarks.rates import Experiment, Found
from clinometer.metrics.open_answers import concept_association, open_distribution

DESIGNS: Final = ((2, 10, 3), (3, 20, 6), (10, 10, 4))
"""Concepts, images of each, and answers."""

PERMUTATIONS: Final = 299


def information(shares: np.ndarray, weights: np.ndarray) -> float:
    """True mutual information of concepts and answers."""
    common = weights @ shares
    return float(weights @ (xlogy(shares, shares) - xlogy(shares, np.where(common > 0, common, 1))).sum(axis=1))


def dependence(n: int, design: tuple[int, int, int], strength: float) -> list[Found]:
    """How often answers are found to depend on concepts, and how often intervals hold how much they do."""
    concepts, images, answers = design
    rng = np.random.default_rng([41, *design, round(10 * strength)])
    called, named, held, held_each = [], [], [], []
    for study in range(n):
        common = rng.dirichlet(np.full(answers, 0.7))
        shares = (1 - strength) * common + strength * rng.dirichlet(np.full(answers, 0.7), concepts)
        said = np.concatenate([rng.choice(answers, images, p=own) for own in shares])
        found = open_distribution(
            [f"{c:02}" for c in np.repeat(np.arange(concepts), images)], said.astype(str), permutations=PERMUTATIONS,
            rng=study,
        )  # fmt: skip
        if found.overall.reason:
            called.append(False), named.append(False)
            continue
        weights = np.full(concepts, 1 / concepts)
        truths = [information(shares, weights)] + [
            information(
                np.stack([own, np.delete(shares, c, axis=0).mean(axis=0)]), np.array([1, concepts - 1]) / concepts
            )
            for c, own in enumerate(shares)
        ]
        covers = [
            each.low - 1e-9 <= truth <= each.high + 1e-9
            for each, truth in zip((found.overall, *found.each), truths, strict=True)
        ]
        called.append(found.overall.p <= 0.05)
        named.append(any(each.q <= 0.05 for each in found.each))
        held.append(covers[0])
        held_each.append(np.mean(covers[1:]))
    setting = f"{concepts} concepts of {images} images, {answers} answers; " + (
        f"{strength:g} of each answer's share is the concept's" if strength else "no dependence"
    )
    kind = "open-power" if strength else "open-level"
    return [
        Found(kind, "p ≤ 5 %, all concepts together", setting, 0.05, float(np.mean(called)), n),
        Found(kind, "q ≤ 5 %, any concept", setting, 0.05, float(np.mean(named)), n),
        Found("open-coverage", "all concepts together", setting, 0.95, float(np.mean(held)), len(held)),
        Found("open-coverage", "one concept against the rest", setting, 0.95, float(np.mean(held_each)), len(held)),
    ]


def association(n: int, images: int, named: int, strength: float) -> list[Found]:
    """The same of TIBET's score: three answers an image, which go together within an image."""
    rng = np.random.default_rng([42, images, named, round(10 * strength)])
    called, held = [], []
    for study in range(n):
        first = rng.dirichlet(np.full(named, 0.7))
        second = (1 - strength) * first + strength * rng.dirichlet(np.full(named, 0.7))
        sets = []
        for shares in (first, second):
            leading = rng.choice(named, images, p=shares)
            follows = rng.random((images, 2)) < 0.5
            others = np.where(follows, leading[:, None], rng.choice(named, (images, 2), p=shares))
            counts = np.zeros((images, named))
            np.add.at(counts, (np.arange(images), leading), 1)
            for column in others.T:
                np.add.at(counts, (np.arange(images), column), 1)
            sets.append(counts)
        found = concept_association(*sets, permutations=PERMUTATIONS, rng=study)
        apart = float(np.abs(first - second).sum() / 2)
        called.append(found.p <= 0.05)
        held.append(found.low - 1e-9 <= (1 - apart) / (1 + apart) <= found.high + 1e-9)
    setting = f"{images} + {images} images, {named} concepts named; " + (
        f"{strength:g} of each share is the counterfactual's" if strength else "no difference"
    )
    return [
        Found("open-power" if strength else "open-level", "p ≤ 5 %, concept association", setting, 0.05,
              float(np.mean(called)), n),
        Found("open-coverage", "concept association", setting, 0.95, float(np.mean(held)), n),
    ]  # fmt: skip


def experiments() -> list[Experiment]:
    """Every experiment with its number of studies."""
    return [
        *((dependence, 300 if not strength else 100, {"design": design, "strength": strength})
          for design in DESIGNS for strength in (0.0, 0.3, 0.7, 1.0)),
        *((association, 300, {"images": images, "named": named, "strength": strength})
          for images, named in ((8, 4), (20, 10), (48, 20)) for strength in (0.0, 0.3, 0.7)),
    ]  # fmt: skip
