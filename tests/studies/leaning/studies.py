"""Made-up embeddings whose leaning is known, and the slowest possible scores to compare with."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

from clinometer.metrics import Score
from clinometer.studies import leaning
from clinometer.studies.leaning import Design, EncoderEmbeddings, TargetDesign
from clinometer.studies.leaning.scores.cosines import Cosines
from clinometer.studies.leaning.scores.design import Layout
from tests.quick import remembered

GROUPS = ("man", "woman", "nonbinary")
AGES = ("adult", "child", "old", "teenager")
DIM = 24
QUICK: dict[str, Any] = {"n_resamples": 400, "n_permutations": 199, "seed": 1}
mcas_study = remembered(leaning.mcas_study)
"""The study, made once of what several tests ask about."""


def design(n_targets: int = 6, **changes: Any) -> Design:
    """Targets alternate between two categories, two of every three are tied to a group."""
    fields: dict[str, Any] = {
        "targets": tuple(
            TargetDesign(f"target {t}", ("job", "sport")[t % 2], ("man", "woman", None)[t % 3])
            for t in range(n_targets)
        ),
        "groups": GROUPS,
        "a": "man",
        "b": "woman",
        "third": "nonbinary",
        "pairs": dict.fromkeys(GROUPS, AGES),
        "prompts": {g: tuple(f"{age} {g}" for age in AGES) for g in GROUPS},
        "margin": None,
    }
    return Design(**(fields | changes))


def embeddings(
    name: str = "clip",
    *,
    seed: int = 0,
    leanings: tuple[float, ...] = (0.6, -0.6, 0.0, 0.3, -0.3, 0.0),
    images: int = 8,
    attribute_images: int = 5,
    words: tuple[int, ...] = (4, 5, 3),
    groups: tuple[str, ...] = GROUPS,
    noise: float = 0.5,
    **changes: Any,
) -> EncoderEmbeddings:
    """Targets that lean along the direction from the second group to the first by ``leanings``.

    Midway between these two groups lies nothing of that direction, so that neither is taken for the other.
    """
    rng = np.random.default_rng(seed)
    base, towards = rng.normal(size=DIM), rng.normal(size=(len(groups), DIM)) * 0.5
    ages = rng.normal(size=(len(AGES), DIM)) * 0.5
    between, apart = base + ages.mean(axis=0) + towards[:2].mean(axis=0), towards[0] - towards[1]
    base = base - (between @ apart) / (apart @ apart) * apart

    def around(centre: np.ndarray, n: int) -> np.ndarray:
        return centre + noise * rng.normal(size=(n, DIM))

    axis = towards[0] - towards[1]
    fields: dict[str, Any] = {
        "target_images": tuple(around(base + x * axis, images) for x in leanings),
        "target_texts": np.stack([around(base + x * axis / 4, 1)[0] for x in leanings]),
        "group_images": {
            g: tuple(around(base + towards[i] + age, attribute_images) for age in ages) for i, g in enumerate(groups)
        },
        "group_words": {g: around(towards[i], words[i]) for i, g in enumerate(groups)},
        "group_texts": {g: np.stack([around(base + towards[i], 1)[0] for _ in AGES]) for i, g in enumerate(groups)},
    }
    return EncoderEmbeddings(encoder=name, **(fields | changes))


def study(*encoders: EncoderEmbeddings, of: Design | None = None, **options: Any) -> list[Score]:
    """A small study, quick enough to run often."""
    return mcas_study(encoders or (embeddings(),), of or design(), **(QUICK | options))


def one(rows: list[Score], metric: str, component: str, **equal: str) -> Score:
    """The only row with these keys, of the mean encoder unless said otherwise."""
    equal = {"encoder": "mean"} | equal
    found = [
        row
        for row in rows
        if (row.metric, row.component) == (metric, component) and all(getattr(row, k) == v for k, v in equal.items())
    ]
    assert len(found) == 1, f"{len(found)} rows {metric}/{component} {equal}"
    return found[0]


def cosine(x: np.ndarray, y: np.ndarray) -> float:
    """One cosine."""
    return float(np.dot(x, y) / np.sqrt(np.dot(x, x) * np.dot(y, y)))


def slow_mean_cosine(xs: np.ndarray, ys: np.ndarray) -> float:
    """The mean of all cosines, one at a time."""
    return sum(cosine(x, y) for x in xs for y in ys) / (len(xs) * len(ys))


def slow_component(encoder: EncoderEmbeddings, t: int, name: str, a: str = "man", b: str = "woman") -> float:
    """A component by its definition, in loops."""
    assert encoder.target_texts is not None
    assert encoder.group_words is not None
    targets = encoder.target_images[t] if name in ("ii", "ita") else encoder.target_texts[t : t + 1]

    def attributes(group: str) -> np.ndarray:
        assert encoder.group_words is not None
        return np.concatenate(encoder.group_images[group]) if name in ("ii", "itp") else encoder.group_words[group]

    return slow_mean_cosine(targets, attributes(a)) - slow_mean_cosine(targets, attributes(b))


def decreasing(numbers: list[float]) -> bool:
    """Whether no number is larger than the one before."""
    return all(x >= y for x, y in pairwise(numbers))


def target_cosines(encoder: EncoderEmbeddings, layout: Layout) -> Cosines:
    """All cosines of the targets' images and texts, of an encoder that reads text."""
    assert encoder.target_texts is not None
    assert encoder.group_words is not None
    images = unit(np.concatenate([x for group in layout.groups for x in encoder.group_images[group]]))
    words = unit(np.concatenate([encoder.group_words[group] for group in layout.groups]))
    targets, texts = [unit(x) for x in encoder.target_images], unit(encoder.target_texts)
    return Cosines([x @ images.T for x in targets], texts @ images.T, [x @ words.T for x in targets], texts @ words.T)


def item_means(cosines: Cosines) -> tuple[np.ndarray, np.ndarray]:
    """Mean cosine of each attribute item to each target: images (2 × T × items; ii, itp), words (ita, tt)."""
    images, words = (np.stack([x.mean(axis=0) for x in of]) for of in (cosines.image_image, cosines.image_word))
    return np.stack([images, cosines.text_image]), np.stack([words, cosines.text_word])


def unit(x: np.ndarray) -> np.ndarray:
    """Rows of length 1."""
    return np.asarray(x / np.linalg.norm(x, axis=-1, keepdims=True))
