"""Is a word called that moves nothing on average, and is one found that does? For benchmarks/simulations.py.

Images are made up as embeddings, of one prompt and of the same without each of three words, from shared noises, and go
from vectors to verdicts. In worlds of *mean 0* a word changes nothing on average: whole and without are drawn alike, a
share of the pairs showing the same kind; or, *one in ten far*, the word moves one picture in ten far to a group and the
others a little to the other, so that no exchange of the two is fair and Student's t takes chance for certainty.
"""

from __future__ import annotations

import numpy as np
import scipy

from benchmarks.protocol_simulations import DIM, embedded
from benchmarks.rates import Experiment, Found
from clinometer.studies.leaning import Design, EncoderEmbeddings, TargetDesign
from clinometer.studies.leaning.scores.ablation import LeftOutWord, ablation_rows
from clinometer.studies.leaning.scores.components import image_part_direction

LEVEL, WORDS = 0.05, 3
DESIGN = Design(tuple(TargetDesign(str(w), "") for w in range(WORDS)), ("a", "b"), "a", "b")
LEANINGS = {"half": (0.5, 0.5), "85 %": (0.85, 0.85)}
"""Shares of kind a with and without the word."""


def pairs(rng: np.random.Generator, world: str, noises: int, same: float) -> tuple[np.ndarray, np.ndarray]:
    """How far images lean with and without each word, (WORDS × noises), the whole prompt's alike for all words."""
    if world == "one in ten far":
        whole = np.broadcast_to(rng.choice([-0.05, 0.05], noises), (WORDS, noises))
        return whole, whole - 0.9 * (0.1 - (rng.random((WORDS, noises)) < 0.1))
    if world == "three kinds":
        drawn = rng.choice([0.3, -0.1, 0.0], (WORDS + 1, noises), p=[0.2, 0.6, 0.2])
    else:
        share, without = LEANINGS.get(world) or tuple(map(float, world.split(" to ")[::-1]))
        latent = rng.random((WORDS + 1, noises))
        latent = np.where(rng.random(latent.shape) < same, latent[0], latent)
        drawn = np.where(latent < np.array([share, *[without] * WORDS])[:, None], 0.5, -0.5)
    return np.broadcast_to(drawn[0], (WORDS, noises)), drawn[1:]


def words(n: int, world: str, noises: int, same: float = 0.5) -> list[Found]:
    """How often any of three words is called, how often intervals hold the mean, and what Student's t would call."""
    called, held, by_t, found = 0, [], 0, []
    for study in range(n):
        rng = np.random.default_rng([61, noises, int(100 * same), *world.encode(), study])
        groups = {
            name: tuple(embedded(rng, np.full(8, side)) for _ in range(4)) for name, side in (("a", 0.5), ("b", -0.5))
        }
        lean = {name: embedded(rng, np.full(10, side)) for name, side in (("a", 0.3), ("b", -0.3))}
        y = pairs(rng, world, noises, same)
        shared = rng.standard_normal((noises, DIM)) * 0.2 / np.sqrt(DIM)
        x = [embedded(rng, each, 0.2) + shared for each in y]
        x[0] = np.broadcast_to(x[0][0], x[0].shape)
        seen = [EncoderEmbeddings("eye", list(each), np.zeros((WORDS, DIM)) + 1, groups, lean) for each in x]
        rows = ablation_rows([seen[0]], [seen[1]], DESIGN, [LeftOutWord("c", str(w)) for w in range(WORDS)])
        direction = image_part_direction(seen[0], DESIGN)
        scores = [each @ direction / np.linalg.norm(each, axis=-1) for each in x]
        shown = [row.verdict == "more" for row in rows]
        called, found = called + any(shown), [*found, np.mean(shown)]
        truth = _mean(world, direction)
        held.append(np.mean([row.low <= truth <= row.high for row in rows]))
        p = scipy.stats.ttest_1samp(scores[0] - scores[1], 0, axis=1).pvalue
        by_t += bool((scipy.stats.false_discovery_control(p) <= LEVEL).any())
    setting = f"{world}, {noises} pairs" + ("" if "far" in world else f", {same:.0%} of one kind in both")
    spread = float(np.std(held))
    coverage = Found("words-coverage", "interval holds the effect", setting, 0.95, float(np.mean(held)), n, spread)
    if " to " in world:
        power = Found("words-power", "a word is found", setting, np.nan, float(np.mean(found)), n, float(np.std(found)))
        return [coverage, power]
    return [
        Found("words-level", "any of three words is called", setting, LEVEL, called / n, n),
        Found("words-level", "the same, by Student's t", setting, LEVEL, by_t / n, n),
        coverage,
    ]


def _mean(world: str, direction: np.ndarray) -> float:
    """The mean effect in units of the image part, from a large sample."""
    rng = np.random.default_rng([62, *world.encode()])
    y = pairs(rng, world, 24_000 // WORDS, 0.5)
    means = []
    for each in y:
        x = embedded(rng, each[0], 0.2 * np.sqrt(2))
        means.append((x @ direction / np.linalg.norm(x, axis=-1)).mean())
    return float(means[0] - means[1])


def experiments() -> list[Experiment]:
    """Every experiment with its number of studies."""
    level = [(world, n, 0.9) for world in ("half", "85 %") for n in (10, 20)]
    level += [("one in ten far", 10, 0.3), ("one in ten far", 20, 0.3), ("three kinds", 10, 0.3)]
    power = [("0.5 to 0.85", 20, 0.9), ("0.5 to 0.85", 40, 0.9), ("0.1 to 0.9", 10, 0.9), ("0.1 to 0.9", 20, 0.9)]
    return [(words, 100, {"world": world, "noises": n, "same": same}) for world, n, same in level + power]
