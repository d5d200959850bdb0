"""Do verdicts on wordings, and on counts without images, hold what they promise? For benchmarks/simulations.py.

*Wordings*: images are made up as embeddings, of concepts in several wordings with shared noises, and go through the
direction of the groups' own images and words to the flag. The kind of an image is its noise's in half of the cases, so
that wordings of one noise go together, and else its own. Kinds are two, or one that is rare, or lie along an
exponential. Where a dependence is planted, a wording adds to the leaning of every other concept, and takes from that of
the others; *alike in all* adds the same to every concept, which is no dependence of the verdict on one.

*Counts*: tables of equal shares, and of shares that do not change over four settings.
"""

from __future__ import annotations

import numpy as np

from benchmarks.rates import Experiment, Found
from clinometer.metrics.verdict import LEANING
from clinometer.studies.counts.scores import Counts, excess_rows, slope_rows
from clinometer.studies.leaning import Design, EncoderEmbeddings, TargetDesign
from clinometer.studies.leaning.scores.components import image_part_direction, wording_rows

DIM, LEVEL = 24, 0.05
SHAPES = ("two kinds", "10% rare", "exponential", "normal")
HIGHEST = {("normal", 2), ("two kinds", 3)}
"""What came out highest with 100 studies: is that chance?"""


def kinds(rng: np.random.Generator, shape: str, size: tuple[int, ...]) -> np.ndarray:
    """How far images lean, of mean 0."""
    if shape == "two kinds":
        return rng.choice([-0.5, 0.5], size)
    if shape == "10% rare":
        return np.where(rng.random(size) < 0.1, 0.9, -0.1)
    return 0.4 * (rng.exponential(size=size) - 1 if shape == "exponential" else rng.standard_normal(size))


def embedded(rng: np.random.Generator, leanings: np.ndarray, noise: float = 0.3) -> np.ndarray:
    """Vectors of images that lean so, at right angles to nothing else: (…, DIM)."""
    x = noise * rng.standard_normal((*leanings.shape, DIM)) / np.sqrt(DIM)
    x[..., 0] += leanings
    x[..., 1] += 1.0
    return x


def wordings(
    n: int, shape: str, concepts: int, noises: int, wordings: int = 4, planted: float = 0.0, alike: float = 0.0
) -> list[Found]:
    """How often concept × wording is flagged, and any concept."""
    flagged = []
    for study in range(n):
        rng = np.random.default_rng([51, concepts, noises, wordings, SHAPES.index(shape), study])
        shared, own = (kinds(rng, shape, (concepts, k, noises)) for k in (1, wordings))
        y = np.where(rng.random(own.shape) < 0.5, shared, own)
        y += 0.5 * rng.standard_normal((concepts, 1, 1))
        y += alike * np.arange(wordings)[:, None]
        y[:, 0] += planted * (-1.0) ** np.arange(concepts)[:, None]
        groups = {
            name: tuple(embedded(rng, np.full(8, side)) for _ in range(4)) for name, side in (("a", 0.5), ("b", -0.5))
        }
        words = {name: embedded(rng, np.full(10, side)) for name, side in (("a", 0.3), ("b", -0.3))}
        design = Design(tuple(TargetDesign(str(c), "") for c in range(concepts)), ("a", "b"), "a", "b")
        seen = EncoderEmbeddings("eye", [], np.zeros((concepts, DIM)), groups, words)
        direction = image_part_direction(seen, design)
        x = embedded(rng, y)
        scores = x @ direction / np.linalg.norm(x, axis=-1)
        rows = wording_rows(
            {"eye": {str(c): scores[c] for c in range(concepts)}}, [seen], {}, n_permutations=199, seed=study
        )
        own_rows = [row for row in rows if row.encoder == "eye"]
        flagged.append(
            [
                any(row.flag for row in own_rows if row.component == "concept_wording"),
                any(row.flag for row in own_rows if row.component == "by_wording"),
            ]
        )
    setting = f"{shape}, {concepts} concepts of {noises} noises in {wordings} wordings"
    setting += f", {planted:g} planted" if planted else ""
    setting += f", {alike:g} alike in all" if alike else ""
    rates = np.array(flagged, float).mean(axis=0)
    whats = (
        ("verdicts depend on the wording", "any concept by itself")
        if not alike
        else ("verdicts depend on the wording",)
    )
    nominal = np.nan if alike else LEVEL
    return [
        Found("wordings", what, setting, nominal, float(rate), n, 0.5 if alike else None)
        for what, rate in zip(whats, rates, strict=False)
    ]


def counts(n: int, groups: int, images: int, concepts: int) -> list[Found]:
    """How often any share of a table of equal shares is said to lean."""
    called, names = 0, tuple(map(str, range(concepts)))
    for study in range(n):
        rng = np.random.default_rng([52, groups, images, concepts, study])
        drawn = rng.multinomial(images, [1 / groups] * groups, (concepts, 1))
        table = Counts(names, tuple("abcdef"[:groups]), ("",), drawn, np.zeros((concepts, 1), int))
        called += any(row.verdict in LEANING for row in excess_rows(table, table.n, None))
    setting = f"{groups} groups, {concepts} concepts of {images} images"
    return [Found("counts", "any share leans", setting, LEVEL, called / n, n)]


def slopes(n: int, share: float, images: int, concepts: int) -> list[Found]:
    """How often a share that does not change over four settings is said to; and how often its interval holds 0."""
    called, held, names = 0, 0, tuple(map(str, range(concepts)))
    for study in range(n):
        rng = np.random.default_rng([53, int(100 * share), images, concepts, study])
        k = rng.binomial(images, share, (concepts, 4))
        table = Counts(
            names, ("a", "b"), ("1.5", "3", "5", "7.5"), np.stack([k, images - k], -1), np.zeros((concepts, 4), int)
        )
        rows = slope_rows(table)
        called += any(row.verdict in LEANING for row in rows)
        held += rows[0].low <= 0 <= rows[0].high or not np.isfinite(rows[0].p)
    setting = f"share {share:.0%}, {concepts} concepts of four settings of {images} images"
    return [
        Found("counts", "any slope is said to be one", setting, LEVEL, called / n, n),
        Found("counts", "interval of a slope holds it", setting, 0.95, held / n, n),
    ]


def experiments() -> list[Experiment]:
    """Every experiment with its number of studies."""
    return [
        *((wordings, 400 if (shape, c) in HIGHEST else 100, {"shape": shape, "concepts": c, "noises": s})
          for shape in SHAPES for c, s in ((2, 10), (3, 10), (7, 10), (7, 20))),
        *((wordings, 50, {"shape": shape, "concepts": 28, "noises": 10}) for shape in SHAPES),
        *((wordings, 100, {"shape": shape, "concepts": 3, "noises": 10, "wordings": 2}) for shape in SHAPES),
        *((wordings, 100, {"shape": shape, "concepts": 7, "noises": 10, "alike": 0.2}) for shape in SHAPES),
        *((wordings, 100, {"shape": shape, "concepts": 7, "noises": s, "planted": 0.3})
          for shape in SHAPES for s in (10, 20)),
        *((counts, 300, {"groups": k, "images": n, "concepts": c})
          for k in (2, 3, 6) for n in (6, 20, 200) for c in (1, 12)),
        *((slopes, 400, {"share": share, "images": n, "concepts": 1})
          for share in (0.5, 0.1, 0.03) for n in (5, 10, 20, 60)),
        *((slopes, 100, {"share": share, "images": 20, "concepts": 12}) for share in (0.5, 0.1)),
    ]  # fmt: skip
