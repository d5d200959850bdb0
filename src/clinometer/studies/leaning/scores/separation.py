"""How far two groups' attribute images lie apart, tested with the right units: prompts, images or words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from math import comb, nan
from typing import Final

import numpy as np
import scipy

from clinometer.stats.permutation import (
    MEET_IN_THE_MIDDLE_LIMIT,
    permute_labels,
    permute_statistic,
    split_test,
)

FEWEST_PROMPTS: Final = 6
"""Prompts of both groups together from which on they are the units; with fewer, images are, given these prompts."""

FEWEST_PAIRS: Final = 4
"""The same for pairs of prompts, where images alone are compared."""

N_PERMUTATIONS: Final = 1_999


def prompt_p_value(
    of_a: Sequence[np.ndarray],
    of_b: Sequence[np.ndarray],
    pairs_a: Sequence[str | None] = (),
    pairs_b: Sequence[str | None] = (),
) -> float:
    """One-sided p that images of a do not score higher than those of b: Student's t over the prompts' means.

    ``of_a``, ``of_b`` are the scores of each prompt's images. Images of one prompt resemble each other, so prompts are
    the units where there are at least ``FEWEST_PROMPTS`` and two in each group; else images are. Where prompts are
    matched, t is also asked of the pairs' differences, from which age or setting drop out, and p is twice the smaller
    of both: fewer degrees of freedom, but often less scatter.
    """
    apart, within = _unpaired(of_a, of_b), _paired(of_a, of_b, pairs_a, pairs_b)
    return apart if np.isnan(within) else min(1.0, 2 * min(apart, within))


def _paired(
    of_a: Sequence[np.ndarray], of_b: Sequence[np.ndarray], pairs_a: Sequence[str | None], pairs_b: Sequence[str | None]
) -> float:
    if not pairs_a or None in pairs_a or set(pairs_a) != set(pairs_b):
        return nan
    order = [list(pairs_b).index(pair) for pair in pairs_a]
    means = [(x.mean(), of_b[k].mean()) for x, k in zip(of_a, order, strict=True) if len(x) and len(of_b[k])]
    differences = np.array([x - y for x, y in means])
    if len(differences) < FEWEST_PAIRS or np.ptp(differences) == 0:
        return nan
    return float(scipy.stats.ttest_1samp(differences, 0.0, alternative="greater").pvalue)


def _unpaired(of_a: Sequence[np.ndarray], of_b: Sequence[np.ndarray]) -> float:
    groups = [[x for x in prompts if len(x)] for prompts in (of_a, of_b)]
    by_prompt = min(map(len, groups)) >= 2 and sum(map(len, groups)) >= FEWEST_PROMPTS
    a, b = (np.array([x.mean() for x in prompts]) if by_prompt else np.concatenate(prompts) for prompts in groups)
    if len(a) + len(b) < 3:
        return nan
    if np.ptp(a) == 0 and np.ptp(b) == 0:  # no spread to divide by: only what the scores say
        return float(np.finfo(np.float64).tiny) if a[0] > b[0] else 1.0
    return float(scipy.stats.ttest_ind(a, b, alternative="greater").pvalue)


def word_p_value(difference: np.ndarray, a: np.ndarray, b: np.ndarray, *, level: float) -> float:
    """One-sided p that the words' labels mean nothing, over all ways to share out the words of both lists.

    ::

        S = mean_{w∈A} d·ŵ − mean_{w∈B} d·ŵ          d = mean x̂ of the images of a − mean x̂ of those of b

    NaN where words are so few that p could not be a tenth of ``level``: a single word out of order would decide then.
    """
    if 10 / comb(len(a) + len(b), len(a)) > level:
        return nan
    values = (np.concatenate([a, b]) @ difference)[None]
    labels = np.arange(values.shape[1]) < len(a)
    if len(labels) <= MEET_IN_THE_MIDDLE_LIMIT:
        return float(split_test(values, labels, alternative="greater").p_value[0])
    return float(permute_labels(values, labels, alternative="greater", n_permutations=N_PERMUTATIONS).p_value[0])


@dataclass(frozen=True)
class ImageEvidence:
    """Scores of each prompt's images by the images of the other prompts, and p that both groups' images are alike."""

    of_a: list[np.ndarray]
    of_b: list[np.ndarray]
    p_value: float


def image_evidence(
    a: Sequence[np.ndarray], b: Sequence[np.ndarray], pairs_a: Sequence[str | None], pairs_b: Sequence[str | None]
) -> ImageEvidence | None:
    """Hold each attribute image against those of the other prompts: nearer to its own group's?

    ::

        s(x) = mean cosine to the images of a − mean cosine to those of b,

    the image's own prompt and the prompt matched with it left out. With D_k the difference of the mean images of the
    k-th pair of prompts, the groups differ alike in all pairs where the D_k point one way: p is of Student's t over the
    products D_k·D_l, k < l, which scatter around 0 where pairs differ by chance alone. Prompts that are not matched are
    paired in their order. With fewer than ``FEWEST_PAIRS``, labels of images are permuted and one image is left out.

    ``a``, ``b`` are unit vectors, prompt by prompt. None without images of both groups.
    """
    order_a, order_b = _in_pairs(pairs_a, pairs_b)
    a, b = ([x[i] for i in order] for x, order in ((a, order_a), (b, order_b)))
    matched = [k for k in range(min(len(a), len(b))) if len(a[k]) and len(b[k])]
    if len(matched) >= FEWEST_PAIRS:
        return _over_pairs([a[k] for k in matched], [b[k] for k in matched])
    pools = [[x for x in prompts if len(x)] for prompts in (a, b)]
    if not all(pools):
        return None
    return _over_images(*(np.concatenate(pool) for pool in pools))


def _in_pairs(a: Sequence[str | None], b: Sequence[str | None]) -> tuple[list[int], list[int]]:
    """Positions of the prompts so that matched ones stand at the same place; in their own order without matches."""
    if None in a or set(a) != set(b):
        return list(range(len(a))), list(range(len(b)))
    return list(range(len(a))), [list(b).index(pair) for pair in a]


def _over_pairs(a: Sequence[np.ndarray], b: Sequence[np.ndarray]) -> ImageEvidence:
    differences = np.stack([x.mean(axis=0) - y.mean(axis=0) for x, y in zip(a, b, strict=True)])
    products = np.array([x @ y for x, y in combinations(differences, 2)])
    others = (differences.sum(axis=0) - differences) / (len(differences) - 1)
    of_a, of_b = ([x @ towards for x, towards in zip(prompts, others, strict=True)] for prompts in (a, b))
    return ImageEvidence(of_a, of_b, float(scipy.stats.ttest_1samp(products, 0.0, alternative="greater").pvalue))


def _over_images(a: np.ndarray, b: np.ndarray) -> ImageEvidence | None:
    """Leave one image out; permute the labels of all images."""
    if len(a) < 2 or len(b) < 2:
        return None
    images, labels = np.concatenate([a, b]), np.arange(len(a) + len(b)) < len(a)
    total = images.sum(axis=0)

    def statistic(memberships: np.ndarray) -> np.ndarray:
        of_a = memberships.astype(np.float64) @ images
        return _unbiased_distance(of_a, total - of_a, len(a), len(b))

    test = permute_statistic(
        statistic, labels, np.zeros(len(labels), int), tolerance=1e-12, alternative="greater",
        n_permutations=N_PERMUTATIONS,
    )  # fmt: skip
    own_a = a @ (a.sum(axis=0)) - 1
    own_b = b @ (b.sum(axis=0)) - 1
    of_a = own_a / (len(a) - 1) - a @ b.mean(axis=0)
    of_b = b @ a.mean(axis=0) - own_b / (len(b) - 1)
    return ImageEvidence([of_a], [of_b], float(np.squeeze(test.p_value)))


def _unbiased_distance(a: np.ndarray, b: np.ndarray, n_a: int, n_b: int) -> np.ndarray:
    """Mean cosine within a, and within b, less twice that between them, no image with itself; from sums (… × dim)."""
    within_a = (np.vecdot(a, a) - n_a) / (n_a * (n_a - 1))
    within_b = (np.vecdot(b, b) - n_b) / (n_b * (n_b - 1))
    return np.asarray(within_a + within_b - 2 * np.vecdot(a, b) / (n_a * n_b))
