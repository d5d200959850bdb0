"""Does the split by guidance keep its error rate? From made-up embeddings to "guidance adds", for simulations.py.

The images at guidance 1 and at another guidance are partners, drawn in the two ways of comparison_simulations.py; the
second may show the first group in another share of its images. *Sharper* attribute images: at the other guidance, what
the attribute prompts draw lies half as far again from each other, and what the concepts draw stays as it is.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from benchmarks.comparison_simulations import WAYS, true_difference, two_runs
from benchmarks.rates import Experiment, Found
from benchmarks.verdict_simulations import POPULATIONS, Population, design_of, rate_over_studies
from clinometer.metrics.verdict import Verdict
from clinometer.studies.leaning import EncoderEmbeddings
from clinometer.studies.leaning.compare import compare_leanings, split_rows

SHARPER = 1.5


@dataclass(frozen=True)
class Splits:
    """Of (studies × concepts): whether the intervals of both numbers hold the truth, and which side guidance adds to.

    ``by_own`` is the side that is named where each guidance is measured by its own attribute images.
    """

    learned: np.ndarray
    added: np.ndarray
    side: np.ndarray
    by_own: np.ndarray
    truth: np.ndarray


def splits(
    population: Population, shares: tuple[np.ndarray, np.ndarray], images: int, way: str, n: int, *, sharper: bool
) -> Splits:
    """Draw and split so many pairs of runs."""
    design, truth = design_of(len(shares[0])), population.truth(shares[0])
    difference, held = true_difference(population, *shares), []
    for study in range(n):
        seed = [71, len(shares[0]), images, list(WAYS).index(way), round(100 * sum(map(float, shares[0]))), sharper]
        rng = np.random.default_rng([*seed, round(100 * sum(map(float, shares[1]))), study])
        first, second = two_runs(population, rng, shares, images, way)
        if sharper:
            second = _sharpened(second)
        by_name = {name: [] for name in ("learned", "added")}
        for row in split_rows([first], [second], design):
            if row.component in by_name:
                by_name[row.component].append(row)
        own = [row for row in compare_leanings([first], [second], design, paired=True, n_resamples=2)
               if (row.component, row.encoder) == ("image_part", "mean")] if sharper else by_name["added"]  # fmt: skip
        held.append([
            [row.low <= true <= row.high for row, true in zip(by_name["learned"], truth, strict=True)],
            [row.low <= true <= row.high for row, true in zip(by_name["added"], difference, strict=True)],
            [np.sign(row.value) * (row.verdict == Verdict.MORE) for row in by_name["added"]],
            [np.sign(row.value) * (row.verdict == Verdict.MORE) for row in own],
        ])  # fmt: skip
    learned, added, side, by_own = np.moveaxis(np.array(held, float), 1, 0)
    return Splits(learned, added, side, by_own, np.sign(difference))


def _sharpened(run: EncoderEmbeddings) -> EncoderEmbeddings:
    """The same with attribute images farther apart along the direction between the groups, which is the first."""
    stretch = np.where(np.arange(run.group_images["a"][0].shape[1]) == 0, SHARPER, 1.0)
    return replace(run, group_images={g: tuple(x * stretch for x in own) for g, own in run.group_images.items()})


def guidance_adds_nothing(n: int, population: int, share: float, concepts: int, images: int, way: str,
                          sharper: bool = False) -> list[Found]:  # fmt: skip
    """The same shares at both guidances: coverage of both numbers, and studies that call any concept changed."""
    chosen, shares = POPULATIONS[population], np.full(concepts, share)
    found = splits(chosen, (shares, shares), images, way, n, sharper=sharper)
    setting = f"{way}: {chosen.name}, {concepts} concepts of {images} images, {share:.0%} at both"
    setting += ", sharper attribute images" if sharper else ""
    rates = [
        rate_over_studies("split-level", "interval covers, learned", setting, 0.95, found.learned),
        rate_over_studies("split-level", "interval covers, added", setting, 0.95, found.added),
        rate_over_studies("split-level", "adds to any concept", setting, 0.05, (found.side != 0).any(1)),
    ]
    if sharper:
        by_own = (found.by_own != 0).any(1)
        rates.append(
            rate_over_studies("split-level", "the same, each by its own attribute images", setting, 0.05, by_own)
        )
    return rates


def guidance_adds(
    n: int, population: int, shares: tuple[float, float], concepts: int, images: int, way: str
) -> list[Found]:
    """Every other concept goes from one share to another: coverage, false findings, and what is found."""
    chosen, first = POPULATIONS[population], np.full(concepts, shares[0])
    moves = np.arange(concepts) % 2 == 0
    found = splits(chosen, (first, np.where(moves, shares[1], first)), images, way, n, sharper=False)
    setting = f"{way}: {chosen.name}, {concepts} concepts of {images} images, half from {shares[0]:.0%} to "
    setting += f"{shares[1]:.0%}"
    false = ((found.side != 0) & (found.side != np.where(moves, found.truth, 0))).sum(1)
    return [
        rate_over_studies("split-away", "interval covers, learned", setting, 0.95, found.learned),
        rate_over_studies("split-away", "interval covers, added, moved", setting, 0.95, found.added[:, moves]),
        rate_over_studies("split-away", "interval covers, added, not moved", setting, 0.95, found.added[:, ~moves]),
        rate_over_studies("split-away", "false discoveries", setting, 0.05,
                          false / np.maximum((found.side != 0).sum(1), 1)),
        rate_over_studies("split-away", "found", setting, 0.0, found.side[:, moves] != 0),
    ]  # fmt: skip


def experiments() -> list[Experiment]:
    """Every experiment with its number of studies."""
    loosely, closely = "partners, loosely", "partners, closely"
    same = [
        (0, 0.5, 12, 20, loosely), (0, 0.5, 12, 20, closely), (0, 0.85, 12, 20, loosely), (0, 0.85, 12, 10, loosely),
        (0, 0.85, 12, 60, closely), (2, 0.5, 12, 20, loosely), (3, 0.75, 12, 20, loosely),
    ]  # fmt: skip
    moved = [((0.5, 0.75), 20, loosely), ((0.5, 0.75), 60, loosely), ((0.75, 0.95), 20, loosely),
             ((0.75, 0.95), 60, closely), ((0.85, 0.5), 20, loosely)]  # fmt: skip
    names = ("population", "share", "concepts", "images", "way")
    return [
        *((guidance_adds_nothing, 300, dict(zip(names, each, strict=True))) for each in same),
        *((guidance_adds_nothing, 200, {"population": 0, "share": share, "concepts": 12, "images": 20, "way": closely,
                                        "sharper": True}) for share in (0.5, 0.85)),
        *((guidance_adds, 200, {"population": 0, "shares": shares, "concepts": 12, "images": images, "way": way})
          for shares, images, way in moved),
    ]  # fmt: skip
