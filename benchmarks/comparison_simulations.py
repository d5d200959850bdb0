"""Does the verdict on two runs keep its error rate? From made-up embeddings of both to "more", for simulations.py.

Populations are those of verdict_simulations.py. Two runs are drawn from them in one of three ways:

*independent*: each run draws all its images for itself, as with another seed.
*partners, loosely*: the i-th image of a prompt starts from the same noise in both; half of the images show what their
    partner shows, the others are drawn again, and all have small noise of their own.
*partners, closely*: the same, and 19 of 20 images show what their partner shows, as of two checkpoints of a training.

However it is drawn, an image of either run has the population's distribution. So the truth of a difference does not
depend on it, and where shares are equal it is exactly 0.

*A filter* of the second run refuses each picture of the first group with a probability: what is left of two equal
models differs.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import sqrt

import numpy as np

from benchmarks.rates import Experiment, Found
from benchmarks.verdict_simulations import FAMILY_LEVEL, POPULATIONS, Population, design_of, rate_over_studies, side_of
from clinometer.metrics import Score
from clinometer.metrics.mcas import IMAGE_PART
from clinometer.metrics.verdict import Verdict
from clinometer.studies.leaning import EncoderEmbeddings
from clinometer.studies.leaning.compare import compare_leanings
from clinometer.studies.leaning.scores.design import ResamplingSettings
from clinometer.studies.leaning.scores.differences import MissingPictures, compare_runs

WAYS = {"independent": None, "partners, loosely": 0.5, "partners, closely": 0.95}
"""How two runs are drawn, by the share of images that show what their partner shows; None without partners."""

COMMON_NOISE = 0.9
"""Share of the variance of an image's noise that partners have in common, where they show the same."""

Runs = tuple[EncoderEmbeddings, EncoderEmbeddings]


def two_runs(
    population: Population, rng: np.random.Generator, shares: tuple[np.ndarray, np.ndarray], images: int, way: str
) -> Runs:
    """Embeddings of two runs whose concepts show the first group in these shares of their images."""
    kept = WAYS[way]
    if kept is None:
        return population.draw(rng, shares[0], images), population.draw(rng, shares[1], images)
    common = replace(population, noise=population.noise * sqrt(COMMON_NOISE))
    own = population.noise * sqrt(1 - COMMON_NOISE)
    noise = int(rng.integers(2**32))
    first, second = (common.draw(np.random.default_rng(noise), own_shares, images) for own_shares in shares)
    again = common.draw(rng, shares[1], images)
    return _perturbed(first, own, rng), _perturbed(_mixed(second, again, kept, rng), own, rng)


def _mixed(
    partner: EncoderEmbeddings, again: EncoderEmbeddings, kept: float, rng: np.random.Generator
) -> EncoderEmbeddings:
    """Each image that of the partner with probability ``kept``, otherwise one drawn again."""

    def mix(images: np.ndarray, others: np.ndarray) -> np.ndarray:
        return np.where(rng.random((len(images), 1)) < kept, images, others)

    return _each_prompt(partner, again, mix)


def _perturbed(run: EncoderEmbeddings, size: float, rng: np.random.Generator) -> EncoderEmbeddings:
    """Every image with noise of its own."""
    return _each_prompt(run, run, lambda images, _: images + size * rng.normal(size=images.shape))


def _each_prompt(run: EncoderEmbeddings, other: EncoderEmbeddings, make) -> EncoderEmbeddings:
    """The run with the images of every prompt made of its own and the other's."""
    return replace(
        run,
        target_images=tuple(map(make, run.target_images, other.target_images)),
        group_images={g: tuple(map(make, held, other.group_images[g])) for g, held in run.group_images.items()},
    )


def verdict_rows(runs: Runs, way: str) -> list[Score]:
    """The rows that carry the verdicts on concepts, as ``compare_leanings`` makes them, and nothing else of it."""
    design, paired = design_of(len(runs[0].target_images)), WAYS[way] is not None
    compared = compare_runs([runs[0]], [runs[1]], design, ResamplingSettings(1, 0, 0, 0.95), paired=paired)
    return compared.component_family("mean", "mcas").judged()


@dataclass(frozen=True)
class Comparisons:
    """p, ends of the interval and the named side (1, −1, or 0 for none) of (studies × concepts), and the truth."""

    p: np.ndarray
    low: np.ndarray
    high: np.ndarray
    side: np.ndarray
    truth: np.ndarray

    @property
    def covers(self) -> np.ndarray:
        """Whether the interval holds the truth."""
        return (self.low <= self.truth) & (self.truth <= self.high)

    @property
    def wrong(self) -> np.ndarray:
        """Whether a run is said to lean more to a side although it does not."""
        return (self.side != 0) & (self.side != np.sign(self.truth))


def comparisons(
    population: Population, shares: tuple[np.ndarray, np.ndarray], images: int, way: str, n: int, *seed: int
) -> Comparisons:
    """Draw and compare so many pairs of runs."""
    held = []
    for study in range(n):
        rng = np.random.default_rng([*seed, images, len(shares[0]), list(WAYS).index(way), study])
        rows = verdict_rows(two_runs(population, rng, shares, images, way), way)
        held.append([(row.p, row.low, row.high, side_of(row)) for row in rows])
    p, low, high, side = np.moveaxis(np.array(held, float), -1, 0)
    return Comparisons(p, low, high, side, true_difference(population, *shares))


def true_difference(population: Population, first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """By how much MCAS differs under infinitely many images: exactly 0 where the shares are equal."""
    if (first == second).all():
        return np.zeros(len(first))
    return population.truth(second) - population.truth(first)


def equal_runs(n: int, population: int, share: float, concepts: int, images: int, way: str) -> list[Found]:
    """Two runs that are equal: level of p, coverage, and comparisons that call any concept different."""
    chosen, shares = POPULATIONS[population], np.full(concepts, share)
    found = comparisons(chosen, (shares, shares), images, way, n, 61, population, round(100 * share))
    setting = f"{way}: {chosen.name}, {concepts} concepts of {images} images, {share:.0%} in both"
    return [
        rate_over_studies("compare-level", "p ≤ 5 %", setting, 0.05, found.p <= 0.05),
        rate_over_studies("compare-level", "p ≤ 1 %", setting, 0.01, found.p <= 0.01),
        rate_over_studies("compare-level", "interval covers", setting, 0.95, found.covers),
        rate_over_studies("compare-level", "any concept differs", setting, FAMILY_LEVEL, found.wrong.any(axis=1)),
    ]


def unequal_runs(n: int, population: int, shares: tuple[float, float], images: int, way: str) -> list[Found]:
    """Half of 28 concepts go from one share to the other, the others stay: coverage, false findings, findings."""
    chosen, concepts = POPULATIONS[population], 28
    first, moves = np.full(concepts, shares[0]), np.arange(concepts) % 2 == 0
    second = np.where(moves, shares[1], first)
    found = comparisons(chosen, (first, second), images, way, n, 62, population, round(100 * sum(shares)))
    setting = f"{way}: {chosen.name}, 28 concepts of {images} images, half from {shares[0]:.0%} to {shares[1]:.0%}"
    said = found.side != 0
    false = found.wrong.sum(axis=1) / np.maximum(said.sum(axis=1), 1)
    return [
        rate_over_studies("compare-away", "interval covers, moved", setting, 0.95, found.covers[:, moves]),
        rate_over_studies("compare-away", "interval covers, not moved", setting, 0.95, found.covers[:, ~moves]),
        rate_over_studies("compare-away", "false discoveries", setting, 0.05, false),
        rate_over_studies("compare-power", "differences found", setting, 0.0, said[:, moves]),
    ]


def overall(n: int, share: float, concepts: int, images: int, way: str) -> list[Found]:
    """Two runs that are equal: how often one is said to lean more over all its concepts."""
    shares, said = np.full(concepts, share), []
    for study in range(n):
        rng = np.random.default_rng([63, round(100 * share), concepts, images, list(WAYS).index(way), study])
        runs = two_runs(POPULATIONS[0], rng, (shares, shares), images, way)
        *_, row = compare_leanings(
            [runs[0]], [runs[1]], design_of(concepts), paired=WAYS[way] is not None, n_resamples=500
        )
        said.append(row.verdict == Verdict.MORE)
    setting = f"{way}: {POPULATIONS[0].name}, {concepts} concepts of {images} images, {share:.0%} in both"
    return [rate_over_studies("compare-level", "one leans more over all", setting, 0.05, np.array(said))]


def _chosen(run: EncoderEmbeddings, there: np.ndarray) -> EncoderEmbeddings:
    """The run with some of its pictures of targets, (concepts × images)."""
    return replace(run, target_images=tuple(x[own] for x, own in zip(run.target_images, there, strict=True)))


def filtered(n: int, share: float, refused: float, concepts: int, images: int, way: str) -> list[Found]:
    """Two runs that are equal, of whose second each picture of the first group is refused with a probability."""
    population, design, held = POPULATIONS[0], design_of(concepts), []
    for study in range(n):
        rng = np.random.default_rng(
            [64, round(100 * share), round(100 * refused), concepts, images, list(WAYS).index(way), study]
        )
        runs = two_runs(population, rng, (np.full(concepts, share),) * 2, images, way)
        shown_a = np.stack([x[:, 0] > 0 for x in runs[1].target_images])
        there = ~(shown_a & (rng.random(shown_a.shape) < refused))
        lost, alone = (~there).sum(axis=1).tolist(), None
        second = _chosen(runs[1], there)
        if WAYS[way] is None:
            first = runs[0]
        else:
            first = _chosen(runs[0], there)
            alone = [_chosen(runs[0], ~there)], [_chosen(runs[1], there & False)]
        missing = MissingPictures(([0] * concepts, lost), alone)
        rows = compare_leanings([first], [second], design, paired=alone is not None, n_resamples=200, missing=missing)
        judged = [row for row in rows if (row.component, row.encoder) == (IMAGE_PART, "mean")]
        for_all = [row for row in rows if row.component == "magnitude"]
        found = [[row.verdict == Verdict.MORE for row in of] for of in (judged, for_all)]
        bare = [[row.verdict == Verdict.MORE and not row.depends_on for row in of] for of in (judged, for_all)]
        held.append([any(of) for pair in zip(found, bare, strict=True) for of in pair])
    setting = f"{way}: {population.name}, {concepts} concepts of {images} images asked for, {share:.0%} in both, "
    setting += f"{refused:.0%} of one group refused in the second"
    whats = (
        "any concept differs", "any differs, and says of nothing that it depends on it",
        "one leans more over all", "one does, and says of nothing that it depends on it",
    )  # fmt: skip
    columns = zip(whats, np.array(held, float).T, strict=True)
    return [rate_over_studies("compare-missing", what, setting, FAMILY_LEVEL, column) for what, column in columns]


def experiments() -> list[Experiment]:
    """Every experiment with its number of studies."""
    sizes = ((28, 8), (28, 20), (8, 8), (8, 100))
    usual = {"share": 0.5, "concepts": 28, "images": 20}
    return [
        *((equal_runs, 400, {"population": 0, "share": share, "concepts": concepts, "images": images, "way": way})
          for share in (0.5, 0.85) for way in WAYS for concepts, images in sizes if usual != {
              "share": share, "concepts": concepts, "images": images}),
        *((equal_runs, 2000 if way == "independent" else 400, {"population": population, **usual, "way": way})
          for population in range(len(POPULATIONS)) for way in WAYS),
        *((unequal_runs, 300, {"population": 0, "shares": (0.5, 0.75), "images": 20, "way": way}) for way in WAYS),
        *((overall, 200, {**usual, "way": way}) for way in WAYS),
        *((filtered, 100, {"share": share, "refused": refused, "concepts": 12, "images": images, "way": way})
          for way in WAYS for images in (20, 60) for share, refused in ((0.5, 0.0), (0.5, 0.4), (0.85, 0.4))),
    ]  # fmt: skip
