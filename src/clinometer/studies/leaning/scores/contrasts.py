"""Tests and intervals of the numbers that are linear in the mean cosines: components, MCAS, profiles, contrasts.

A contrast weighs modalities and groups, ``θ_t = Σ_mg w_mg C[t, m, g]``. The cosines of target t enter it through four
samples, each of which is a source of chance with a variance of its own::

    θ_t = mean_x y(x) + constant           y(x) = Σ_g ( w_ii,g mean_a cos(x, a) + w_ita,g mean_w cos(x, w) )

- the target's images x: those that were drawn, and one at the furthest that images of a group's own score
  (:mod:`clinometer.stats.bounded_means`). Differences of two runs have no such bound: the variance of y is theirs,
  moderated over the targets where the runs are not paired (:mod:`clinometer.stats.moderation`);
- the attribute images a, each prompt a stratum: the variance of ``w_ii,g mean_x cos(x, a) + w_itp,g cos(t, a)``;
- the words, in the same way, and the encoders where there are several: over stimuli only.

The text part ITP + TT contains no image of a target, so its units of chance are the words and the attribute prompts
with their images: see :func:`text_tests`. Several contrasts at once are tested by Hotelling's F, with covariances
moderated over the targets (:func:`clinometer.stats.moderation.moderate`). See decision 16.

Labels of attribute prompts and words are exchangeable within what is matched, and are permuted besides.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf

import numpy as np
from numpy.typing import ArrayLike

from clinometer.metrics.mcas import COMPONENTS, IMAGE_PART, MODALITIES, TEXT_PART
from clinometer.metrics.verdict import MISSING, REPEATS
from clinometer.stats.bootstrap import welch_satterthwaite
from clinometer.stats.bounded_means import TEST, BoundedMeans, bounded_means
from clinometer.stats.moderation import DifferenceTests, MeanTests, difference_tests, mean_tests
from clinometer.stats.permutation import (
    EXACT_LIMIT,
    MEET_IN_THE_MIDDLE_LIMIT,
    PermutationTest,
    count_splits,
    permute_labels,
    split_test,
)
from clinometer.studies.leaning.scores.cosines import Estimate
from clinometer.studies.leaning.scores.design import Design, Layout, StudySetup
from clinometer.studies.leaning.scores.views import EncoderView, ItemMeans

II, ITP, ITA, TT = range(4)
ROUNDING = 1e-12
"""Weights smaller than this are 0."""
UNVARYING = np.zeros(2)
"""The sample of a target whose images do not enter a number."""
Filling = Sequence[np.ndarray]
"""What the missing images of each target may have added to a number; empty where none is missing."""


def contrast_weights(modalities: Collection[str], groups: np.ndarray) -> np.ndarray:
    """Weigh groups alike in these modalities, and in no other: (4 × groups)."""
    return np.outer([float(name in modalities) for name in MODALITIES], groups)


def pair_weights(setup: StudySetup, modalities: Collection[str], a: int, b: int) -> np.ndarray:
    """Weigh the sum of these components between two groups, positive towards the first: (4 × groups)."""
    groups = np.zeros(len(setup.design.groups))
    groups[a], groups[b] = 1.0, -1.0
    return contrast_weights(modalities, groups)


@dataclass(frozen=True)
class Tested:
    """A number of each target with its intervals and a two-sided p, (T,) each, and the test that p is from."""

    estimate: Estimate
    p: np.ndarray
    test: str


@dataclass(frozen=True)
class ContrastTests:
    """A contrast of every target: tested over images, and over images, words and encoders.

    ``from_middle`` : how far it lies from the groups' middle, tested over images; None where that is not tested. See
    :mod:`clinometer.studies.leaning.scores.middle`.
    """

    images: MeanTests | BoundedMeans
    stimulus: MeanTests | BoundedMeans
    confidence: float
    unit: str = "images"
    from_middle: BoundedMeans | None = None

    @property
    def estimate(self) -> Estimate:
        """Numbers with both intervals; that over stimuli is nowhere shorter than that over images."""
        inner, outer = self.images.interval(self.confidence), self.stimulus.interval(self.confidence)
        both = np.isfinite(inner.low)
        return Estimate(
            value=self.images.value,
            low=inner.low,
            high=inner.high,
            stimulus_low=np.where(both, np.minimum(inner.low, outer.low), outer.low),
            stimulus_high=np.where(both, np.maximum(inner.high, outer.high), outer.high),
            null=np.full_like(inner.low, np.nan),
        )

    @property
    def over_words_alone(self) -> Tested:
        """Drop interval and p over images, of a number that rests on none."""
        nothing = np.full_like(self.images.value, np.nan)
        return Tested(replace(self.estimate, low=nothing, high=nothing), nothing, "")

    @property
    def p(self) -> np.ndarray:
        """Two-sided p over images, dual to ``low`` and ``high`` of the estimate."""
        return self.images.p_value

    @property
    def test(self) -> str:
        """State which source of chance the p-value rests on."""
        if isinstance(self.images, BoundedMeans):
            return TEST
        moderated = self.images.trend is not None
        over = f", variance moderated over {len(self.images.value)} targets" if moderated else ""
        return f"Student's t over {self.unit}{over}, two-sided"


def contrast_tests(setup: StudySetup, view: EncoderView, weights: np.ndarray) -> ContrastTests:
    """Test ``Σ_mg w_mg C[t, m, g] = 0`` of every target; weights (4 × groups).

    A number that holds no image of a target, such as TT, has its other sources of chance alone.
    """
    used = weights[[II, ITA]]
    if not used.any():
        return _with_stimuli(setup, view, weights, difference_contrast(setup, view, weights))
    samples = [image_scores(cosines, weights) for cosines in view.image_cosines]
    constant = _sum(weights, view.targets.point, (ITP, TT))
    attributes = item_variance(setup.layout, view.items, weights, (II, ITP))
    bounds = image_bounds(view, weights)
    if not np.isfinite(bounds).any():  # words are compared, and there is no image of a group
        return _with_stimuli(setup, view, weights, difference_contrast(setup, view, weights, moderated=False))
    return _with_stimuli(setup, view, weights, bounded_means(samples, bounds, constant, *attributes))


def image_bounds(view: EncoderView, weights: np.ndarray) -> np.ndarray:
    """Bound what an image of each target may score by what the groups' own images do, (T × 2).

    NaN where a group has no images to take bounds from. Where the weights do not sum to 0, as for the nearness to one
    group, what all groups have in common stays at the mean of the target's own images: a car is far from every group,
    and no further image of it is going to show a person.
    """
    used = weights[[II, ITA]]
    common = used.mean(axis=1)
    common[np.abs(common) < ROUNDING] = 0.0
    apart = used - common[:, None]
    chosen = list(zip(*np.nonzero(np.abs(apart) > ROUNDING), strict=True))
    groups = sorted({g for _, g in chosen})
    poles = np.array([sum(apart[m, h] * view.poles[g, m, h] for m, h in chosen) for g in groups])
    level = np.zeros(len(view.image_cosines))
    for m in np.flatnonzero(common):
        total = [x[:, m].sum(axis=1).mean() if len(x) else np.nan for x in view.image_cosines]
        level = level + common[m] * np.array(total)
    return np.asarray(level[:, None] + [poles.min(), poles.max()])


ItemValues = Sequence[np.ndarray | None]
"""By group, what each item adds to each target's number as an item of that group, (T × items); None adds nothing."""


def item_values(means: np.ndarray, weights: np.ndarray) -> ItemValues:
    """Weigh the mean cosines of items to the targets (2 × T × items) by (2 × groups)."""
    return [
        np.tensordot(group_weights[group_weights != 0], means[group_weights != 0], axes=1)
        if group_weights.any()
        else None
        for group_weights in np.transpose(weights)
    ]


def item_differences(first: ItemValues, second: ItemValues) -> ItemValues:
    """Subtract what the items of a first run add from what their partners in a second one do."""
    return [None if one is None or other is None else other - one for one, other in zip(first, second, strict=True)]


def attribute_shifts(
    setup: StudySetup,
    view: EncoderView,
    weights: np.ndarray,
    missing: Mapping[str, int],
    values: ItemValues | None = None,
) -> np.ndarray:
    """Find how far missing attribute images may lower, and raise, a contrast of each target: (2 × T).

    ::

        shift = Σ_g m_g/(n_g + m_g) (extreme_a v_g(a) − mean_{a∈g} v_g(a))

        v_g(a) = w_ii,g mean_x cos(x, a) + w_itp,g cos(t, a)

    with the extreme over all attribute images a that are there, of any group: a missing image is assumed to be no
    nearer to a target than the nearest of these, and no farther than the farthest. ``missing`` : m_g by group.
    ``values`` : v_g, if it is not the one above.
    """
    shifts = np.zeros((2, len(view.image_cosines)))
    values = item_values(view.items.images, weights[[II, ITP]]) if values is None else values
    for group, columns, group_values in zip(setup.layout.groups, setup.layout.image_slices, values, strict=True):
        lost, n = missing.get(group, 0), columns.stop - columns.start
        if lost and n and group_values is not None:
            ends = np.stack([group_values.min(axis=1), group_values.max(axis=1)])
            shifts += lost / (n + lost) * (ends - group_values[:, columns].mean(axis=1))
    return shifts


def filled_tests(
    setup: StudySetup, view: EncoderView, weights: np.ndarray, tests: ContrastTests, influences: ItemValues
) -> dict[str, list[ContrastTests]]:
    """Test a contrast with missing images filled in, and with repeated ones counted as often as they were drawn.

    Return the tests by what is filled in (:mod:`clinometer.metrics.verdict`). Missing images of groups move the
    estimate and leave its variance as it is; a number without images of a target has no other filling. ``influences`` :
    those of the attribute images on the distance from the groups' middle, if that is tested.
    """
    images, stimulus, apart = tests.images, tests.stimulus, tests.from_middle
    missing = [setup.layout.in_units(t, target.missing) for t, target in enumerate(setup.design.targets)]
    of_groups = setup.design.missing_attributes
    shifts, fillings = attribute_shifts(setup, view, weights, of_groups), {}
    apart_shifts = shifts if apart is None else attribute_shifts(setup, view, weights, of_groups, influences)
    if not (isinstance(images, BoundedMeans) and isinstance(stimulus, BoundedMeans)):
        known = any(of_groups.values()) and not (any(missing) and weights[[II, ITA]].any())
        moved = [replace(tests, images=images.moved(x), stimulus=stimulus.moved(x)) for x in shifts]
        return {MISSING: moved} if known else {}
    if any(missing) or any(of_groups.values()):
        fillings[MISSING] = [
            replace(
                tests,
                images=images.filled(missing, side).moved(shift),
                stimulus=stimulus.filled(missing, side).moved(shift),
                from_middle=apart and apart.filled(missing, side).moved(apart_shift),
            )
            for side, (shift, apart_shift) in enumerate(zip(shifts, apart_shifts, strict=True))
        ]
    if any(map(setup.layout.repeated, setup.target_numbers)):
        scores = [image_scores(cosines, weights) for cosines in view.each_image]
        shift = np.array([setup.layout.drawn_shift(t, x) for t, x in enumerate(scores)])
        fillings[REPEATS] = [
            replace(
                tests,
                images=images.moved(shift),
                stimulus=stimulus.moved(shift),
                from_middle=apart and apart.moved(shift),
            )
        ]
    return fillings


def text_tests(setup: StudySetup, view: EncoderView, weights: np.ndarray) -> ContrastTests:
    """Test ``Σ_mg w_mg C[t, m, g] = 0`` of every target over the words and the attribute prompts with their images.

    ::

        θ_t = Σ_p share_p m_tp + mean over words,      v = K/(K − 1) Σ_k ( Σ_{p∈k} ±share_p (m_tp − m_t) )²

    with m_tp the mean cosine of the target's text to the images of prompt p, and k the K matched pairs, or the prompts
    of each group where none are matched. The scatter of the images of a prompt is included. Where a group has a single
    prompt, its images are the units. Encoders are a further source of variance, over stimuli.
    """
    between, freedom = _prompt_variance(setup, view, weights[ITP])
    unit = "words and attribute prompts"
    if not np.isfinite(freedom):
        between, freedom = item_variance(setup.layout, view.items, weights, (II, ITP))
        unit = "words and attribute images"
    nothing = [UNVARYING] * len(setup.layout.targets)
    constant = _sum(weights, view.targets.point, (ITP, TT))
    tests = mean_tests(nothing, constant, between, freedom, moderated=False)
    tests = tests.with_other(*item_variance(setup.layout, view.items, weights, (ITA, TT)))
    return ContrastTests(tests, tests.with_other(*_encoders(view, weights)), setup.settings.confidence, unit)


def _prompt_variance(setup: StudySetup, view: EncoderView, weights: np.ndarray) -> tuple[np.ndarray, float]:
    """Estimate the variance of each target's ITP from prompt to prompt, and its freedom; NaN for a single prompt."""
    pools = pools_of(setup.design, setup.layout)
    pool = pools.prompts
    if not pool.complete:
        return np.full(len(setup.layout.targets), np.nan), np.nan
    means, sizes = pool.means(view.items.images[1]).T, np.array([c.stop - c.start for c in pool.columns])
    parts = np.zeros_like(means)
    for g, in_group in ((setup.a, pool.in_a), (setup.b, ~pool.in_a)):
        share = sizes[in_group, None] / sizes[in_group].sum()
        parts[in_group] = weights[g] * share * (means[in_group] - (share * means[in_group]).sum(axis=0))
    if pools.within == "matched pairs":
        samples = [np.stack([parts[pool.strata == pair].sum(axis=0) for pair in np.unique(pool.strata)])]
    else:
        samples = [parts[pool.in_a], parts[~pool.in_a]]
    if min(map(len, samples)) < 2:
        return np.full(len(setup.layout.targets), np.nan), np.nan
    variance = sum(len(x) / (len(x) - 1) * np.square(x).sum(axis=0) for x in samples)
    return np.asarray(variance), float(sum(len(x) - 1 for x in samples))


def difference_contrast(
    setup: StudySetup, view: EncoderView, weights: np.ndarray, *, moderated: bool = True, filling: Filling = ()
) -> MeanTests:
    """Test a contrast whose images have no bound, such as a difference; ``moderated``: see ``mean_tests``.

    ``filling`` is appended to the images of each target that has any.
    """
    samples = [image_scores(cosines, weights) for cosines in view.image_cosines]
    if filling:
        samples = [np.append(x, more) if len(x) else x for x, more in zip(samples, filling, strict=True)]
    constant = _sum(weights, view.targets.point, (ITP, TT))
    attributes = item_variance(setup.layout, view.items, weights, (II, ITP))
    return mean_tests(samples, constant, *attributes, moderated=moderated)


def paired_tests(
    setup: StudySetup, view: EncoderView, weights: np.ndarray, filling: Filling = (), shift: ArrayLike = 0.0
) -> ContrastTests:
    """Test a contrast of the differences between partners (:func:`paired_difference`), moved by ``shift``."""
    images = difference_contrast(setup, view, weights, moderated=False, filling=filling).moved(shift)
    return _with_stimuli(setup, view, weights, images)


def _with_stimuli(
    setup: StudySetup, view: EncoderView, weights: np.ndarray, images: MeanTests | BoundedMeans
) -> ContrastTests:
    stimulus = images
    for variance, freedom in (item_variance(setup.layout, view.items, weights, (ITA, TT)), _encoders(view, weights)):
        stimulus = stimulus.with_other(variance, freedom)
    return ContrastTests(images, stimulus, setup.settings.confidence)


def paired_difference(first: EncoderView, second: EncoderView) -> EncoderView:
    """Subtract the first from the second, image by image, as a view of its own.

    Both runs have the same layout, and their i-th images are partners. What is linear in the cosines is linear in their
    differences.
    """
    return replace(
        second,
        image_cosines=tuple(y - x for x, y in zip(first.image_cosines, second.image_cosines, strict=True)),
        items=ItemMeans(second.items.images - first.items.images, second.items.words - first.items.words),
        targets=replace(second.targets, point=second.targets.point - first.targets.point),
        encoder_points=second.encoder_points - first.encoder_points,
    )


def unpaired_differences(
    studies: tuple[StudySetup, StudySetup],
    views: tuple[EncoderView, EncoderView],
    weights: np.ndarray,
    fillings: Sequence[Filling] = ((), ()),
    shift: ArrayLike = 0.0,
) -> tuple[DifferenceTests, DifferenceTests]:
    """Compare a contrast between two independent runs of the same words and encoders, moved by ``shift``.

    Return the tests over images, and over words and encoders too.
    """
    first, second = (
        difference_contrast(setup, view, weights, filling=filling)
        for setup, view, filling in zip(studies, views, fillings, strict=True)
    )
    second = second.moved(shift)
    words = ItemMeans(views[1].items.images, views[1].items.words - views[0].items.words)
    of_words = item_variance(studies[1].layout, words, weights, (ITA, TT))
    apart = replace(views[1], encoder_points=views[1].encoder_points - views[0].encoder_points)
    parts = [of_words, _encoders(apart, weights)]
    shared = parts[0][0] + parts[1][0]
    freedom = welch_satterthwaite([(variance, np.full_like(shared, degrees)) for variance, degrees in parts])
    return difference_tests(first, second), difference_tests(first, second, shared, freedom)


def image_scores(cosines: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Compute the contributions y of a target's images from their mean cosines (n × 2 × groups): (n,)."""
    used = weights[[II, ITA]]
    if not used.any():
        return UNVARYING
    # What is weighed by 0 may be NaN: an encoder that reads no text has no cosines with words.
    return np.asarray(sum(used[m, g] * cosines[:, m, g] for m, g in zip(*np.nonzero(used), strict=True)))


def _sum(weights: np.ndarray, tensor: np.ndarray, modalities: tuple[int, ...]) -> np.ndarray:
    total = np.zeros(tensor.shape[:-2])
    for m in modalities:
        for g in np.flatnonzero(weights[m]):
            total = total + weights[m, g] * tensor[..., m, g]
    return total


def item_variance(
    layout: Layout, items: ItemMeans, weights: np.ndarray, modalities: tuple[int, int]
) -> tuple[np.ndarray, float]:
    """Estimate each target's variance from attribute images (ii, itp) or words (ita, tt), (T,), and its freedom."""
    is_of_images = modalities == (II, ITP)
    means = items.images if is_of_images else items.words
    variances, freedom = group_variances(
        layout, item_values(means, weights[list(modalities)]), means.shape[1], images=is_of_images
    )
    return np.asarray(sum(variances.T, np.zeros(len(variances)))), freedom


def group_variances(layout: Layout, values: ItemValues, size: int, *, images: bool) -> tuple[np.ndarray, float]:
    """Estimate what each group adds to the variance of each number, (``size`` × groups), and the freedom of all.

    ::

        v = Σ_strata share² s² / n         s² of the items' values within a stratum: a prompt, or all words

    ``images`` : the items are attribute images, not words.
    """
    variances, freedom = np.zeros((size, len(layout.groups))), 0
    for g, group_values in enumerate(values):
        if group_values is None:
            continue
        for columns, share in _strata(layout, g, images=images):
            n = columns.stop - columns.start
            spread = np.var(group_values[:, columns], axis=1, ddof=1) if n > 1 else np.full(size, np.nan)
            variances[:, g], freedom = variances[:, g] + share**2 * spread / n, freedom + n - 1
    return variances, float(freedom) or inf


def _strata(layout: Layout, g: int, *, images: bool) -> Iterator[tuple[slice, float]]:
    """List the columns of each stratum of a group, prompts of images or all words, and its share of the group."""
    if not images:
        if layout.word_counts[g]:
            yield layout.word_slices[g], 1.0
        return
    for columns, group in zip(layout.prompt_slices, layout.prompt_groups, strict=True):
        if group == g and columns.stop > columns.start:
            yield columns, (columns.stop - columns.start) / layout.image_counts[g]


def stimulus_covariance(setup: StudySetup, view: EncoderView, first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Estimate the covariance of two contrasts of each target by the words and encoders that they share: (T,).

    ::

        cov(x, y) = (var(x + y) − var(x − y)) / 4
    """

    def variance(weights: np.ndarray) -> np.ndarray:
        of_words, _ = item_variance(setup.layout, view.items, weights, (ITA, TT))
        return np.asarray(of_words + _encoders(view, weights)[0])

    return np.asarray((variance(first + second) - variance(first - second)) / 4)


def _encoders(view: EncoderView, weights: np.ndarray) -> tuple[np.ndarray, float]:
    """Estimate the variance of a mean over encoders, from how far they differ."""
    n = len(view.encoder_points)
    if n < 2:
        return np.zeros(view.targets.point.shape[0]), inf
    values = _sum(weights, view.encoder_points, (II, ITP, ITA, TT))
    return np.asarray(values.var(axis=0, ddof=1) / n), float(n - 1)


# --- permuted labels -------------------------------------------------------------------------------------------------


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
