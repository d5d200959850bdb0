"""Permuted group labels: p-values, and what a score averages when the labels mean nothing.

With the targets fixed, every attribute item enters a component as one number, its mean cosine to the target.
Relabelling permutes which group an item counts for: images within matched pairs of prompts where the suite
declares them, so that age or setting stays balanced; words over their whole pool.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from clinometer.metrics.study.design import Design, Layout
from clinometer.stats.permutation import (
    MEET_IN_THE_MIDDLE_LIMIT,
    PermutationTest,
    permute_labels,
    sample_memberships,
    split_test,
)
from clinometer.stats.products import matmul


@dataclass(frozen=True)
class LabelPool:
    """Items of some groups whose labels are exchangeable within strata.

    ``columns`` their positions among all items, ``labels`` their group as a position in ``groups``.
    """

    columns: np.ndarray
    labels: np.ndarray
    strata: np.ndarray

    @property
    def complete(self) -> bool:
        """Whether there are labels to permute: items of at least two groups."""
        return len(np.unique(self.labels)) > 1


@dataclass(frozen=True)
class Pools:
    """Images and words of the groups that are relabelled, and what was kept fixed, in words."""

    groups: tuple[int, ...]
    images: LabelPool
    words: LabelPool
    within: str


@dataclass(frozen=True)
class ItemMeans:
    """Mean cosine of each attribute item to each target: images (2 × T × items), words (2 × T × items).

    ``point`` is the tensor of mean cosines that they make under the true labels.
    """

    images: np.ndarray
    words: np.ndarray
    point: np.ndarray


def pools_of(design: Design, layout: Layout, groups: Sequence[str]) -> Pools:
    """Collect the exchangeable items of the named groups."""
    numbers = tuple(design.index(group) for group in groups)
    pairs = _pair_of_prompts(design, layout, groups)
    prompt_pairs = [-1 if pairs is None else pairs[g, i] for g in numbers for i in range(len(layout.prompt_sizes[g]))]
    sizes = [n for g in numbers for n in layout.prompt_sizes[g]]
    images = LabelPool(
        columns=np.concatenate([np.arange(s.start, s.stop) for s in (layout.image_slices[g] for g in numbers)]),
        labels=np.repeat(numbers, [layout.image_counts[g] for g in numbers]),
        strata=np.repeat(prompt_pairs, sizes),
    )
    words = LabelPool(
        columns=np.concatenate([np.arange(s.start, s.stop) for s in (layout.word_slices[g] for g in numbers)]),
        labels=np.repeat(numbers, [layout.word_counts[g] for g in numbers]),
        strata=np.zeros(sum(layout.word_counts[g] for g in numbers), int),
    )
    return Pools(numbers, images, words, "the pool" if pairs is None else "matched prompts")


def relabelled_tensor(items: ItemMeans, pools: Pools, n_draws: int, rng: np.random.Generator) -> np.ndarray:
    """Draw tensors of mean cosines under random labels: (draws × T × 4 × groups) float32.

    The groups that are not in the pools stay as observed.
    """
    tensor = np.broadcast_to(items.point.astype(np.float32), (n_draws, *items.point.shape)).copy()
    for pool, means, modalities, child in zip(
        (pools.images, pools.words), (items.images, items.words), ((0, 1), (2, 3)), rng.spawn(2), strict=True
    ):
        if not len(pool.labels):
            continue
        drawn = np.concatenate(list(sample_memberships(pool.labels, pool.strata, n_draws, child)))
        for g in np.unique(pool.labels):
            members = (drawn == g).astype(np.float32) / np.float32(np.sum(pool.labels == g))
            for values, m in zip(means[..., pool.columns].astype(np.float32), modalities, strict=True):
                tensor[:, :, m, g] = matmul(members, values.T)
    return tensor


def label_tests(
    items: ItemMeans, pools: Pools, n_permutations: int, rng: np.random.Generator
) -> Mapping[str, PermutationTest | None]:
    """Test ii, itp, ita, tt and mcas of every target, two-sided; None where a group has no item.

    MCAS is tested under independent relabellings of images and of words, drawn together.
    """
    image_values, word_values = items.images[..., pools.images.columns], items.words[..., pools.words.columns]
    in_a_images, in_a_words = pools.images.labels == pools.groups[0], pools.words.labels == pools.groups[0]
    image_rng, word_rng, joint_rng = rng.spawn(3)
    tests: dict[str, PermutationTest | None] = dict.fromkeys(("ii", "itp", "ita", "tt", "mcas"))
    if pools.images.complete:
        test = _pool_test(np.concatenate(image_values), in_a_images, pools.images.strata, n_permutations, image_rng)
        tests["ii"], tests["itp"] = _halves(test)
    if pools.words.complete:
        test = _pool_test(np.concatenate(word_values), in_a_words, pools.words.strata, n_permutations, word_rng)
        tests["ita"], tests["tt"] = _halves(test)
    if pools.images.complete and pools.words.complete:
        tests["mcas"] = permute_labels(
            np.concatenate([image_values.sum(axis=0), word_values.sum(axis=0)], axis=1),
            np.concatenate([in_a_images, in_a_words]),
            blocks=np.repeat([0, 1], [len(in_a_images), len(in_a_words)]),
            strata=np.concatenate([pools.images.strata, np.full(len(in_a_words), pools.images.strata.max() + 1)]),
            n_permutations=n_permutations,
            rng=joint_rng,
        )
    return tests


def _pool_test(
    values: np.ndarray, in_a: np.ndarray, strata: np.ndarray, n_permutations: int, rng: np.random.Generator
) -> PermutationTest:
    """Count the splits of one stratum by its two halves while it is small; else list, match or draw them."""
    if len(in_a) <= MEET_IN_THE_MIDDLE_LIMIT and (strata == strata[0]).all():
        return split_test(values, in_a)
    return permute_labels(values, in_a, strata=strata, n_permutations=n_permutations, rng=rng)


def _halves(test: PermutationTest) -> tuple[PermutationTest, PermutationTest]:
    """One record of 2T tests as two of T: components that saw the same relabellings."""
    n = len(test.p_value) // 2
    first, second = (
        replace(
            test,
            statistic=test.statistic[rows],
            p_value=test.p_value[rows],
            standard_error=test.standard_error[rows],
            p_low=test.p_low[rows],
            p_high=test.p_high[rows],
        )
        for rows in (slice(n), slice(n, None))
    )
    return first, second


def _pair_of_prompts(design: Design, layout: Layout, groups: Sequence[str]) -> dict[tuple[int, int], int] | None:
    """Give a number to the pair of each (group, prompt); None unless every prompt of these groups has one."""
    names = {
        group: design.pairs.get(group, (None,) * len(layout.prompt_sizes[design.index(group)])) for group in groups
    }
    known = sorted({pair for pairs in names.values() for pair in pairs if pair is not None})
    if any(pair is None for pairs in names.values() for pair in pairs):
        return None
    return {
        (design.index(g), i): known.index(pair) for g, pairs in names.items() for i, pair in enumerate(pairs) if pair
    }
