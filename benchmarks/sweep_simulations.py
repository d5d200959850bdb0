"""Do sweeps that draw until decided keep their error rate? From made-up embeddings to "differs", for simulations.py.

A baseline and several settings are drawn as partners, in the two ways of comparison_simulations.py. They are looked at
after ten images of a concept and after every five more; a concept of a setting that is decided draws no more, and all
differences of the grid are one family: as :mod:`clinometer.sweeps.outcome` has it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import sqrt

import numpy as np

from benchmarks.comparison_simulations import COMMON_NOISE, WAYS, _mixed, _perturbed, true_difference
from benchmarks.rates import Experiment, Found
from benchmarks.verdict_simulations import POPULATIONS, Population, design_of, rate_over_studies
from clinometer.metrics.verdict import Evidence, StoppingRule, in_family
from clinometer.pipeline.execution import FIRST_ROUND, LATER_ROUND
from clinometer.studies.leaning import EncoderEmbeddings, paired_evidence

SETTINGS = 4
RULE = StoppingRule()


def partners(
    population: Population, rng: np.random.Generator, shares: list[np.ndarray], way: str, most: int
) -> list[EncoderEmbeddings]:
    """Embeddings of runs that start from the same noise, a baseline first."""
    kept = WAYS[way]
    assert kept is not None
    common, own = replace(population, noise=population.noise * sqrt(COMMON_NOISE)), 1 - COMMON_NOISE
    noise = int(rng.integers(2**32))
    held = [common.draw(np.random.default_rng(noise), each, most) for each in shares]
    mixed = [held[0], *(_mixed(run, common.draw(rng, each, most), kept, rng)
                        for run, each in zip(held[1:], shares[1:], strict=True))]  # fmt: skip
    return [_perturbed(run, population.noise * sqrt(own), rng) for run in mixed]


@dataclass(frozen=True)
class Ended:
    """What a sweep came to: the named side (1, −1, or 0) and the images of (settings × concepts), and whether the
    confidence sequence held the truth at every look."""

    side: np.ndarray
    images: np.ndarray
    held: np.ndarray


def sweep(runs: list[EncoderEmbeddings], truth: np.ndarray) -> Ended:
    """Draw round by round until every difference is decided, or all images are there; truth (settings × concepts)."""
    concepts, settings = len(runs[0].target_images), len(runs) - 1
    design, stopped = design_of(concepts), np.zeros((settings, concepts), int)
    stands = np.empty((settings, concepts), object)
    held = np.ones((settings, concepts), bool)
    most = len(runs[0].target_images[0])
    for level in range(FIRST_ROUND, most + 1, LATER_ROUND):
        for s, run in enumerate(runs[1:]):
            is_open = stopped[s] == 0
            if is_open.any():
                counts = np.where(is_open, level, 0)  # evidence belongs to one concept: what has stopped keeps its own
                found = paired_evidence([_first(runs[0], counts)], [_first(run, counts)], design)
                stands[s, is_open] = np.array(found, object)[is_open]
        judged = np.array(in_family(list(stands.ravel())), object).reshape(stands.shape)
        low, high = _each(stands, lambda stand: stand.low), _each(stands, lambda stand: stand.high)
        held &= (low <= truth) & (truth <= high)
        decided = _each(judged, lambda stand: stand.stops(RULE)) == 1
        stopped[(stopped == 0) & decided] = level
        if stopped.all():
            break
    side = np.where(_each(judged, lambda stand: stand.leans), np.sign(_each(stands, lambda stand: stand.value)), 0)
    return Ended(side, np.where(stopped == 0, most, stopped), held)


def _each(stands: np.ndarray, of: Callable[[Evidence], float]) -> np.ndarray:
    return np.array([of(stand) for stand in stands.ravel()], float).reshape(stands.shape)


def _first(run: EncoderEmbeddings, counts: np.ndarray) -> EncoderEmbeddings:
    return replace(run, target_images=tuple(x[:n] for x, n in zip(run.target_images, counts, strict=True)))


def sweeps(n: int, population: int, share: float, moved: float, concepts: int, way: str, most: int) -> list[Found]:
    """Of four settings the second half of the concepts is at another share, or none where it is the same."""
    chosen, first = POPULATIONS[population], np.full(concepts, share)
    moves = np.arange(concepts) >= concepts / 2 if moved != share else np.zeros(concepts, bool)
    second = np.where(moves, moved, first)
    truth = np.where(moves, true_difference(chosen, first, second), 0.0)
    ended = []
    for study in range(n):
        rng = np.random.default_rng([64, population, round(100 * share), round(100 * moved), concepts, study])
        ended.append(
            sweep(partners(chosen, rng, [first, *[second] * SETTINGS], way, most), np.tile(truth, (SETTINGS, 1)))
        )
    side, images, held = (np.stack([getattr(each, name) for each in ended]) for name in ("side", "images", "held"))
    wrong = (side != 0) & (side != np.sign(truth))
    setting = f"{way}: {chosen.name}, {SETTINGS} settings × {concepts} concepts, at most {most} images, {share:.0%}"
    if not moves.any():
        return [
            rate_over_studies("sweep-level", "any concept of any setting differs", setting, 0.05, wrong.any((1, 2))),
            rate_over_studies("sweep-level", "interval holds at every look", setting, 0.95, _flat(held)),
        ]
    setting += f", half moved to {moved:.0%}"
    false = wrong.sum((1, 2)) / np.maximum((side != 0).sum((1, 2)), 1)
    return [
        rate_over_studies("sweep-away", "false discoveries", setting, 0.05, false),
        rate_over_studies("sweep-away", "interval holds at every look", setting, 0.95, _flat(held)),
        rate_over_studies("sweep-away", "differences found", setting, 0.0, _flat((side != 0)[:, :, moves])),
        rate_over_studies("sweep-away", "images of the most, moved", setting, 0.0, _flat(images[:, :, moves] / most)),
    ]  # fmt: skip


def _flat(values: np.ndarray) -> np.ndarray:
    return values.reshape(len(values), -1)


def experiments() -> list[Experiment]:
    """Every experiment with its number of studies."""
    equal = ((0, 0.5, "partners, loosely"), (0, 0.5, "partners, closely"), (0, 0.85, "partners, loosely"),
             (2, 0.5, "partners, loosely"))  # fmt: skip
    return [
        *((sweeps, 60, {"population": population, "share": share, "moved": share, "concepts": 8, "way": way,
                        "most": 40}) for population, share, way in equal),
        *((sweeps, 20, {"population": 0, "share": 0.5, "moved": 0.95, "concepts": 4, "way": way, "most": 120})
          for way in ("partners, loosely", "partners, closely")),
    ]  # fmt: skip
