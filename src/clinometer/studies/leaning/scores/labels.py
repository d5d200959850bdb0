"""Which labels of attribute prompts and words are exchangeable, and the tests that permute them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from clinometer.metrics.mcas import COMPONENTS, IMAGE_PART, TEXT_PART
from clinometer.stats.permutation import (
    EXACT_LIMIT,
    MEET_IN_THE_MIDDLE_LIMIT,
    PermutationTest,
    count_splits,
    permute_labels,
    split_test,
)
from clinometer.studies.leaning.scores.design import Design, Layout
from clinometer.studies.leaning.scores.views import ItemMeans


@dataclass(frozen=True)
class LabelPool:
    """Units whose labels are exchangeable within strata.

    ``columns`` of each unit among all items, ``in_a`` whether it counts for group a.
    """

    columns: tuple[slice, ...]
    in_a: np.ndarray
    strata: np.ndarray

    @property
    def complete(self) -> bool:
        """Whether there are labels to permute: units of both groups."""
        return bool(self.in_a.any() and not self.in_a.all())

    @property
    def mirrored(self) -> bool:
        """Whether a and b can be swapped: every stratum has as many units of one as of the other."""
        return all(2 * self.in_a[self.strata == s].sum() == (self.strata == s).sum() for s in np.unique(self.strata))

    def means(self, values: np.ndarray) -> np.ndarray:
        """Average over the items of each unit: (… × items) → (… × units)."""
        return np.stack([values[..., columns].mean(axis=-1) for columns in self.columns], axis=-1)


@dataclass(frozen=True)
class Pools:
    """The attribute prompts and the words of a and b, and what was kept fixed, in words."""

    prompts: LabelPool
    words: LabelPool
    within: str


def pools_of(design: Design, layout: Layout) -> Pools:
    """Collect the exchangeable prompts, those that have images, and words of a and b."""
    a, b = design.index(design.a), design.index(design.b)
    pairs = _pair_of_prompts(design, layout, (a, b))
    prompts = [
        (columns, group)
        for columns, group in zip(layout.prompt_slices, layout.prompt_groups, strict=True)
        if group in (a, b) and columns.stop > columns.start
    ]
    words = [
        (slice(i, i + 1), g) for g in (a, b) for i in range(layout.word_slices[g].start, layout.word_slices[g].stop)
    ]
    strata = [0 if pairs is None else pairs[columns.start] for columns, _ in prompts]
    return Pools(
        _pool(prompts, a, strata), _pool(words, a, [0] * len(words)), "the pool" if pairs is None else "matched pairs"
    )


def _pool(units: Sequence[tuple[slice, int]], a: int, strata: Sequence[int]) -> LabelPool:
    return LabelPool(
        tuple(columns for columns, _ in units),
        np.array([group == a for _, group in units], bool),
        np.array(strata, int),
    )


def _pair_of_prompts(design: Design, layout: Layout, groups: Sequence[int]) -> dict[int, int] | None:
    """Number the pair of each prompt that has images, by its first column; None unless each group is there in each."""
    names: dict[int, str | None] = {}
    by_pair: dict[str | None, set[int]] = {}
    for g in groups:
        sizes = layout.prompt_sizes[g]
        pairs = design.pairs.get(layout.groups[g], (None,) * len(sizes))
        starts = np.cumsum([layout.image_slices[g].start, *sizes])
        for start, size, pair in zip(starts, sizes, pairs, strict=False):
            if size:
                names[int(start)] = pair
                by_pair.setdefault(pair, set()).add(g)
    if None in by_pair:
        return None
    order = list(by_pair)
    return {start: order.index(pair) for start, pair in names.items()}


def label_tests(
    items: ItemMeans, pools: Pools, n_permutations: int, rng: np.random.Generator
) -> Mapping[str, PermutationTest | None]:
    """Test every component of every target, two-sided; None where a group has no item, or none is asked for.

    Every prompt of a group weighs alike. MCAS and its two parts are tested under independent relabellings of prompts
    and of words, drawn together.
    """
    prompt_rng, word_rng, joint_rng = rng.spawn(3)
    tests: dict[str, PermutationTest | None] = dict.fromkeys(COMPONENTS)
    if n_permutations == 0:
        return tests
    pooled = {}
    for pool, values, names, child in (
        (pools.prompts, items.images, ("ii", "itp"), prompt_rng),
        (pools.words, items.words, ("ita", "tt"), word_rng),
    ):
        if not pool.complete:
            continue
        pooled[names] = pool.means(values)
        both = np.concatenate(pooled[names])
        if len(pool.in_a) <= MEET_IN_THE_MIDDLE_LIMIT and (pool.strata == pool.strata[0]).all():
            test = split_test(both, pool.in_a)  # a small pool of one stratum is counted by its two halves
        else:
            test = permute_labels(both, pool.in_a, strata=pool.strata, n_permutations=n_permutations, rng=child)
        tests |= _apart(test, names)
    if len(pooled) == 2:
        summed = [np.concatenate([means.sum(axis=0), *means]) for means in pooled.values()]
        joint = _joint_test(summed, pools, n_permutations, joint_rng)
        tests |= _apart(joint, ("mcas", IMAGE_PART, TEXT_PART))
    return tests


def least_p_value(test: PermutationTest, pools: Sequence[LabelPool]) -> float:
    """Return the smallest two-sided p that so many relabellings allow.

    Where all are counted, one is the most extreme, or two if its mirror image is a relabelling too.
    """
    if not test.exact:
        return 1 / (1 + test.n_splits)
    return (2 if all(pool.mirrored for pool in pools) else 1) / test.n_splits


def _joint_test(
    values: Sequence[np.ndarray], pools: Pools, n_permutations: int, rng: np.random.Generator
) -> PermutationTest:
    """Permute prompts and words together: all relabellings while they are few, else some.

    A qualifier needs no more digits, and counting millions for every target takes longer than all else.
    """
    of_prompts, of_words = pools.prompts, pools.words
    labels = np.concatenate([of_prompts.in_a, of_words.in_a])
    strata = np.concatenate([of_prompts.strata, np.full(len(of_words.in_a), of_prompts.strata.max() + 1)])
    return permute_labels(
        np.concatenate(values, axis=1),
        labels,
        blocks=np.repeat([0, 1], [len(of_prompts.in_a), len(of_words.in_a)]),
        strata=strata,
        n_permutations=n_permutations,
        exact_limit=EXACT_LIMIT if count_splits(labels, strata) <= EXACT_LIMIT else 0,
        rng=rng,
    )


def _apart(test: PermutationTest, names: Sequence[str]) -> dict[str, PermutationTest | None]:
    """Cut one record of the tests of several components, which saw the same relabellings, into one of each."""
    n = len(test.p_value) // len(names)
    return {
        name: replace(
            test,
            statistic=test.statistic[rows],
            p_value=test.p_value[rows],
            standard_error=test.standard_error[rows],
            p_low=test.p_low[rows],
            p_high=test.p_high[rows],
        )
        for i, name in enumerate(names)
        for rows in (slice(i * n, (i + 1) * n),)
    }
