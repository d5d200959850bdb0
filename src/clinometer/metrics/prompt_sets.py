"""The cosines that T2IAT rests on: of a set with its own attribute images, and of all its prompts with each other's.

Everything after is a function of these, so several encoders are averaged here, once.

Bootstrap replicates of S and d need the cosines alone, one row of weights a replicate::

    A* = (v_A* Cᴬᵀ − v_B* Cᴮᵀ)          Asc of every neutral image, under the attribute images' weights v*
    S* = Σ_i w_i* A*_i                   under the neutral images' weights w*

A swap says what S becomes when some prompts' images change places between the runs. With ``u_p`` and ``d_p = a_p −
b_p`` a prompt's neutral mean and direction, ``z_p = +1`` where its images stay with their run and −1 where they are
swapped, and bars and tildes for the half sum and half difference of the two runs::

    S(z)          = mean_{p,q} (ū_p + z_p ũ_p) · (d̄_q + z_q d̃_q)           of one set, as the second run has it
    S(z) − S(−z)  = Σ_p z_p c_p,     c_p = ((u²_p − u¹_p) · mean_q d̄_q + (d²_p − d¹_p) · mean_q ū_q) / P
    S(z) + S(−z)  = 2 (mean ū · mean d̄ + Σ_{p,q} z_p z_q ũ_p · d̃_q / P²)

The quadratic terms cancel in the difference: it is linear in z although S is not, and ``c_p`` is what each prompt adds
to it.

``WelchEstimate`` adds up independent means, with its t interval and p-value.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import isfinite, nan
from typing import TypeAlias

import numpy as np
import scipy

from clinometer.errors import InvalidInputError
from clinometer.stats.association import Array, as_numpy, rounding_of, unit_vectors
from clinometer.stats.bootstrap import percentile_interval, rao_wu_chunks, welch_satterthwaite
from clinometer.stats.dependence import by_batch
from clinometer.stats.permutation import SAMPLED_FLIPS, PermutationTest, counted_test


@dataclass(frozen=True)
class _Sizes:
    """``sizes, sizes_a, sizes_b`` : images of each prompt: neutral, with A, with B; all at least 1."""

    sizes: tuple[int, ...]
    sizes_a: tuple[int, ...]
    sizes_b: tuple[int, ...]

    @property
    def n_prompts(self) -> int:
        """Prompts that count."""
        return len(self.sizes)

    @property
    def n_images(self) -> int:
        """Neutral images."""
        return sum(self.sizes)


@dataclass(frozen=True)
class PromptSet(_Sizes):
    """A concept's prompts, as one encoder sees their images.

    Attributes
    ----------
    cosines_a, cosines_b : (neutral × A), (neutral × B) cosines within the set.
    means, directions : (P × dim) ``u_p`` and ``a_p − b_p``; means of unit vectors, not normalised again.
    left_out : prompts without neutral images, or without those of an attribute.
    rounding : by how much two differences of cosines may differ and be the same.
    reason : why the set cannot be used; empty when it can.
    batches : of the neutral images, and of those with A and with B, of each prompt the batch of each image; empty where
        every image is one by itself.
    """

    cosines_a: np.ndarray
    cosines_b: np.ndarray
    means: np.ndarray
    directions: np.ndarray
    left_out: int = 0
    rounding: float = 0.0
    reason: str = ""
    batches: tuple[tuple[np.ndarray, ...], ...] = ()

    @property
    def units(self) -> PromptSet:
        """Return what is sampled: the set itself, or, of images that came in batches, a set of batches.

        Each batch stands for its images as :func:`clinometer.stats.dependence.by_batch` makes it, in rows and in
        columns, so every prompt has the means that it has, and as many values as batches.
        """
        if not self.batches:
            return self
        kinds = [[by_batch(np.eye(len(own)), own) for own in of_kind] for of_kind in self.batches]
        rows, of_a, of_b = (scipy.linalg.block_diag(*blocks) for blocks in kinds)
        sizes, sizes_a, sizes_b = (tuple(map(len, blocks)) for blocks in kinds)
        return replace(
            self, sizes=sizes, sizes_a=sizes_a, sizes_b=sizes_b, cosines_a=rows @ self.cosines_a @ of_a.T,
            cosines_b=rows @ self.cosines_b @ of_b.T, batches=(),
        )  # fmt: skip

    @property
    def image_associations(self) -> np.ndarray:
        """Asc of every neutral image against the set's attribute images, prompts weighing equally: (n,)."""
        scores: np.ndarray = self.cosines_a @ equal_weights(self.sizes_a) - self.cosines_b @ equal_weights(self.sizes_b)
        return scores

    @property
    def association(self) -> float:
        """Mean of Asc over the set, prompts weighing equally: ``mean_{p,q} G_pq``."""
        return float(equal_weights(self.sizes) @ self.image_associations)

    @property
    def mean_cosines(self) -> tuple[np.ndarray, np.ndarray]:
        """Mean cosine of each image with A, and of each with B, to the neutral images, prompts weighing equally."""
        w = equal_weights(self.sizes)
        return w @ self.cosines_a, w @ self.cosines_b

    def measured(self) -> MeasuredSet:
        """Return the same without its cosines."""
        return MeasuredSet(
            self.sizes, self.sizes_a, self.sizes_b, self.image_associations, self.association, self.mean_cosines,
            self.means, self.directions, self.left_out, self.rounding, self.reason,
            self.units.measured() if self.batches else None,
        )  # fmt: skip


@dataclass(frozen=True)
class MeasuredSet(_Sizes):
    """The measurements of a :class:`PromptSet` without its cosines, whose number grows with the square of its images.

    Resamples need the cosines (:func:`clinometer.metrics.prompt_sets.set_draws`), and nothing else does. ``batched`` is
    the same of its batches, None where images are what is sampled.
    """

    image_associations: np.ndarray
    association: float
    mean_cosines: tuple[np.ndarray, np.ndarray]
    means: np.ndarray
    directions: np.ndarray
    left_out: int
    rounding: float
    reason: str
    batched: MeasuredSet | None = None

    @property
    def units(self) -> MeasuredSet:
        """Return what is sampled, as in :class:`PromptSet`."""
        return self.batched or self


AnySet: TypeAlias = PromptSet | MeasuredSet


@dataclass(frozen=True)
class SetPair:
    """Sets X and Y of one test.

    Attributes
    ----------
    x, y : the sets.
    gram : (P × P) ``G_pq = u_p · (a_q − b_q)`` over the prompts of X, then of Y.
    reason : why there is no test; empty when there is one.
    """

    x: AnySet
    y: AnySet
    gram: np.ndarray
    reason: str = ""

    @property
    def rounding(self) -> float:
        """The largest gap between two differences of cosines that rounding alone can make."""
        return max(self.x.rounding, self.y.rounding)


def equal_weights(sizes: Sequence[int]) -> np.ndarray:
    """Return the weights of images in prompts that weigh equally: 1 / (P · n_p), in order of the prompts."""
    return np.repeat([1 / (len(sizes) * n) for n in sizes], sizes)


def prompt_set(
    neutral: Sequence[Array],
    with_a: Sequence[Array],
    with_b: Sequence[Array],
    *,
    name: str,
    missing: Sequence[int] = (),
    side: int = 0,
    batches: Sequence[Sequence[np.ndarray | None]] = (),
) -> PromptSet:
    """Convert the embeddings of a concept's prompts, arrays of any library or nested lists, to the form of the tests.

    ``missing`` : neutral images of each prompt that are not there, taken to be what its images with B are on average
    (``side`` 0), or those with A. ``batches`` : of each prompt the batches of its neutral images, and of those with A
    and with B; None where each image is one by itself.

    Raises
    ------
    InvalidInputError
        The three lists differ in length, or embeddings are no real numbers.
    """
    if not len(neutral) == len(with_a) == len(with_b):
        raise InvalidInputError.wrong_shape(
            f"{name}, {name}_a, {name}_b: expected one array a prompt in each, found {len(neutral)}, {len(with_a)} and "
            f"{len(with_b)}"
        )
    parts = [tuple(map(as_numpy, prompt)) for prompt in zip(neutral, with_a, with_b, strict=True)]
    numbered = {order: prompt for order, prompt in enumerate(parts, 1) if all(len(images) for images in prompt)}
    whole = list(numbered.values())
    reason = "" if whole else f"{name}: no prompt has neutral images and images with both attributes"
    reason = reason or _unusable(numbered, name)
    if reason:
        nothing = np.zeros((0, 0))
        return PromptSet((), (), (), nothing, nothing, nothing, nothing, len(parts) - len(whole), reason=reason)
    units = [[unit_vectors(images) for images in prompt] for prompt in whole]
    for order, prompt in zip(numbered, units, strict=True) if missing else ():
        stand_in = prompt[2 - side].mean(axis=0)
        prompt[0] = np.concatenate([prompt[0], np.tile(stand_in, (missing[order - 1], 1))])
    labels = [[labels_of(prompt[role], batches[order - 1][role]) for role in range(3)]
              for order, prompt in zip(numbered, units, strict=True)] if batches else []  # fmt: skip
    sizes = [tuple(len(prompt[role]) for prompt in units) for role in range(3)]
    stacked = [np.concatenate([prompt[role] for prompt in units]) for role in range(3)]
    means = [np.stack([prompt[role].mean(axis=0) for prompt in units]) for role in range(3)]
    return PromptSet(
        sizes=sizes[0],
        sizes_a=sizes[1],
        sizes_b=sizes[2],
        cosines_a=stacked[0] @ stacked[1].T,
        cosines_b=stacked[0] @ stacked[2].T,
        means=means[0],
        directions=means[1] - means[2],
        left_out=len(parts) - len(whole),
        rounding=rounding_of(images for prompt in whole for images in prompt),
        batches=tuple(zip(*labels, strict=True)) if any(is_batched(own) for prompt in labels for own in prompt) else (),
    )


def labels_of(images: np.ndarray, known: np.ndarray | None) -> np.ndarray:
    """Number the batch of each image; those beyond the known ones are one each."""
    own = np.zeros(0, int) if known is None else np.unique(known, return_inverse=True)[1].ravel()
    return np.concatenate([own, np.arange(len(images) - len(own)) + len(images)])


def is_batched(labels: np.ndarray) -> bool:
    """Return whether two images are of one batch."""
    return len(np.unique(labels)) < len(labels)


def _unusable(prompts: Mapping[int, tuple[np.ndarray, ...]], name: str) -> str:
    for order, prompt in prompts.items():
        for role, images in zip((name, f"{name}_a", f"{name}_b"), prompt, strict=True):
            if images.dtype.kind not in "fiu":
                raise InvalidInputError.wrong_type(
                    f"{role}, prompt {order}: expected real numbers, found dtype {images.dtype}"
                )
            bad = int((~np.isfinite(images).all(axis=1)).sum())
            if bad:
                return f"{role}, prompt {order}: {bad} of {len(images)} embeddings are not finite"
            if not np.abs(images).max(axis=1).all():
                return f"{role}, prompt {order}: an embedding is zero and has no direction"
    return ""


def pair_sets(x: AnySet, y: AnySet) -> SetPair:
    """Return X and Y with the Gram matrix of all their prompts."""
    reason = "; ".join(part for part in (x.reason, y.reason) if part)
    if reason:
        return SetPair(x, y, np.zeros((0, 0)), reason)
    gram = np.concatenate([x.means, y.means]) @ np.concatenate([x.directions, y.directions]).T
    return SetPair(x, y, gram)


def squared_deviations(values: np.ndarray) -> float:
    """Sum of the squared deviations from the mean."""
    return float(np.sum((values - values.mean()) ** 2))


def pooled_deviation(x: AnySet, y: AnySet) -> float:
    """Return the two-group pooled standard deviation of the images' associations; 0 if neither group has two images."""
    freedom = x.n_images + y.n_images - 2
    squares = sum(squared_deviations(group.image_associations) for group in (x, y))
    return float(np.sqrt(squares / freedom)) if freedom > 0 else 0.0


def average_sets(sets: Sequence[PromptSet]) -> PromptSet:
    """Return a set's cosines averaged over encoders; means and directions, which no average has, are left empty."""
    broken = next((encoder_set for encoder_set in sets if encoder_set.reason), None)
    if len(sets) == 1 or broken is not None:
        return broken or sets[0]
    nothing = np.zeros((0, 0))
    return replace(
        sets[0],
        cosines_a=np.mean([encoder_set.cosines_a for encoder_set in sets], axis=0),
        cosines_b=np.mean([encoder_set.cosines_b for encoder_set in sets], axis=0),
        means=nothing,
        directions=nothing,
        rounding=max(encoder_set.rounding for encoder_set in sets),
    )


def average_pairs(pairs: Sequence[SetPair], x: AnySet, y: AnySet) -> SetPair:
    """Return a test's cosines averaged over encoders; ``x, y`` : the averages of its sets, of :func:`average_sets`."""
    broken = next((pair for pair in pairs if pair.reason), None)
    if len(pairs) == 1 or broken is not None:
        return broken or pairs[0]
    return SetPair(x, y, np.mean([pair.gram for pair in pairs], axis=0))


_CHUNK = 1000  # replicates at a time, so that a large set takes no more memory than a small one


@dataclass(frozen=True)
class PairDraws:
    """Replicates of S and of d, moved onto the estimates: (resamples,) each.

    NaN where a prompt (or a set) has one item only; of d infinite where a replicate has no spread.
    """

    statistic: np.ndarray
    effect_size: np.ndarray


@dataclass(frozen=True)
class SetDraws:
    """Replicates of a set's mean association and of the sum of squares of its images' associations."""

    association: np.ndarray
    squares: np.ndarray


def bootstrap_draws(
    sets: tuple[PromptSet, PromptSet], resamples: int, rng: np.random.Generator, *, prompts: bool
) -> PairDraws:
    """Resample images within their prompts, or (``prompts``) whole prompts with all their images.

    Resampling the images of a resampled prompt again would count their noise twice: the prompts' means vary by it
    already (Davison & Hinkley 1997, §3.8).
    """
    x, y = (set_draws(each, resamples, child, prompts=prompts) for each, child in zip(sets, rng.spawn(2), strict=True))
    return difference_draws((x, y), sets)


def difference_draws(drawn: tuple[SetDraws, SetDraws], sets: tuple[AnySet, AnySet]) -> PairDraws:
    """Return replicates of S and of d from those of X and Y.

    Both parts of d are quadratic in the weights, so their replicates are off on average: S by its diagonal, the squared
    deviations by too few prompts (or images) and by the scatter of the direction. S is moved onto its estimate by what
    is added, the squares by a factor, and d is their ratio: it has the sign of S in every replicate.
    """
    (x, y), (set_x, set_y) = drawn, sets
    statistic = centred(x.association - y.association, set_x.association - set_y.association)
    freedom = set_x.n_images + set_y.n_images - 2
    squares, expected = x.squares + y.squares, sum(squared_deviations(concept.image_associations) for concept in sets)
    with np.errstate(divide="ignore", invalid="ignore"):
        effect_size = statistic / np.sqrt(squares * (expected / squares.mean()) / freedom)
    return PairDraws(statistic, effect_size)


def set_draws(prompt_set: PromptSet, resamples: int, rng: np.random.Generator, *, prompts: bool) -> SetDraws:
    """Return replicates of one set; of images that came in batches, batches are drawn."""
    prompt_set = prompt_set if prompts else prompt_set.units
    sizes = (prompt_set.sizes, prompt_set.sizes_a, prompt_set.sizes_b)
    weights: Iterable[Iterable[np.ndarray]]
    if prompts:  # a prompt takes all three of its kinds of images along
        weights = (
            [np.repeat(drawn / np.asarray(counts, np.float32), counts, axis=1) for counts in sizes]
            for drawn in rao_wu_chunks([prompt_set.n_prompts], resamples, rng, _CHUNK)
        )
    else:
        drawn_images = [
            rao_wu_chunks(counts, resamples, child, _CHUNK) for counts, child in zip(sizes, rng.spawn(3), strict=True)
        ]
        # within prompts that weigh equally, however many images each has
        scales = [
            np.repeat([sum(counts) / (len(counts) * n) for n in counts], counts).astype(np.float32) for counts in sizes
        ]
        weights = (
            [drawn * scale for drawn, scale in zip(part, scales, strict=True)]
            for part in zip(*drawn_images, strict=True)
        )
    chunks = [_chunk(prompt_set, *part) for part in weights]
    return SetDraws(*(np.concatenate(part) for part in zip(*chunks, strict=True)))


def centred(draws: np.ndarray, value: float) -> np.ndarray:
    """Centre replicates of a quadratic form on the estimate: their mean is off by its diagonal, Σ_p var(w_p)·G_pp."""
    return np.asarray(draws - draws.mean() + value)


def interval_of(draws: np.ndarray, value: float, freedom: float, confidence: float = 0.95) -> tuple[float, float]:
    """Return an interval as wide as Student's t; NaN where a replicate or the value is NaN, or it lies outside."""
    if not (isfinite(value) and np.isfinite(draws).all()):
        return nan, nan
    ends = percentile_interval(draws, confidence, freedom, value=value)
    return float(ends.low), float(ends.high)


def containing(outer: tuple[float, float], inner: tuple[float, float]) -> tuple[float, float]:
    """Widen an interval over more sources of chance to contain that over some: it cannot be surer.

    By few prompts it may come out narrower, as their spread is known from few. An end that is NaN stays as it is.
    """
    if not np.isfinite([*outer, *inner]).all():
        return outer
    return min(outer[0], inner[0]), max(outer[1], inner[1])


def freedom_of(sets: Iterable[AnySet], *, prompts: bool, minus: Iterable[AnySet] = ()) -> float:
    """Return Welch and Satterthwaite's degrees of freedom of replicates of a sum over the sets.

    To first order that is a mean over each set's prompts, or, of images within prompts, three means: over the neutral
    ones, those with A and those with B. ``minus``: the same sets of another run, of whose prompts or images these are
    the partners; the means are then of differences.
    """
    samples = [sample for concept in sets for sample in _samples(concept, prompts)]
    others = [values for concept in minus for values, _ in _samples(concept, prompts)] or [np.zeros(1)] * len(samples)
    parts = [_part(values - other, sizes) for (values, sizes), other in zip(samples, others, strict=True)]
    return float(welch_satterthwaite(parts))


def _samples(prompt_set: AnySet, prompts: bool) -> list[tuple[np.ndarray, Sequence[int]]]:
    """Return values whose means' errors add up to that of the set's association, and how many are of one prompt."""
    prompt_set = prompt_set if prompts else prompt_set.units
    of_a, of_b = prompt_set.mean_cosines
    kinds = [
        (prompt_set.image_associations, prompt_set.sizes),
        (of_a, prompt_set.sizes_a),
        (-of_b, prompt_set.sizes_b),
    ]
    if not prompts:
        return list(kinds)
    means = [[images.mean() for images in _by_prompt(*kind)] for kind in kinds]
    return [(np.sum(means, axis=0), [prompt_set.n_prompts])]  # a prompt takes all three along


def _part(values: np.ndarray, sizes: Sequence[int]) -> tuple[float, int]:
    """Return the squared standard error of the mean of the means, and its degrees of freedom."""
    parts = [mean_part(prompt_values) for prompt_values in _by_prompt(values, sizes)]
    return sum(v for v, _ in parts) / len(sizes) ** 2, sum(f for _, f in parts)


def _by_prompt(values: np.ndarray, sizes: Sequence[int]) -> list[np.ndarray]:
    return np.split(values, np.cumsum(sizes)[:-1])


def _chunk(prompt_set: PromptSet, w: np.ndarray, v_a: np.ndarray, v_b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the mean association and sum of squares under each row of weights."""
    associations = v_a @ prompt_set.cosines_a.T - v_b @ prompt_set.cosines_b.T
    mean = np.einsum("ri,ri->r", w, associations)
    share = w / w.sum(axis=1, keepdims=True)
    centre = np.einsum("ri,ri->r", share, associations)
    variance = np.einsum("ri,ri->r", share, (associations - centre[:, None]) ** 2)
    return mean, variance * prompt_set.n_images


COUNTED_PROMPTS = 16
"""Prompts up to which every swap is counted in the test of magnitudes, which has a quadratic term."""

_SIGNS_AT_A_TIME = 8192


@dataclass(frozen=True)
class SetSwaps:
    """One set of prompts in two runs, averaged over encoders.

    Attributes
    ----------
    contributions : (P,) ``c_p``; their sum is the difference of the set's mean associations.
    constant, quadratic : the parts of ``(S(z) + S(−z)) / 2 = constant + zᵀ quadratic z``.
    """

    contributions: np.ndarray
    constant: float
    quadratic: np.ndarray

    def half_sums(self, signs: np.ndarray) -> np.ndarray:
        """``(S(z) + S(−z)) / 2`` for each row of signs (N × P)."""
        return self.constant + np.asarray(np.einsum("np,pq,nq->n", signs, self.quadratic, signs, optimize=True))


def set_swaps(first: Sequence[PromptSet], second: Sequence[PromptSet]) -> SetSwaps:
    """Return the swaps of one set, from its two runs as each encoder sees them; both have the same prompts."""
    contributions, constants, quadratics = [], [], []
    for one, two in zip(first, second, strict=True):
        n, moved, turned = one.n_prompts, two.means - one.means, two.directions - one.directions
        middle = ((one.means + two.means) / 2).mean(axis=0)
        axis = ((one.directions + two.directions) / 2).mean(axis=0)
        contributions.append((moved @ axis + turned @ middle) / n)
        constants.append(middle @ axis)
        quadratics.append(moved @ turned.T / (4 * n * n))
    return SetSwaps(np.mean(contributions, axis=0), float(np.mean(constants)), np.mean(quadratics, axis=0))


@dataclass(frozen=True)
class PairSwaps:
    """One test in two runs: its sets, and where their prompts stand among all prompts of the suite."""

    x: SetSwaps
    y: SetSwaps
    places_x: np.ndarray
    places_y: np.ndarray

    @property
    def contributions(self) -> np.ndarray:
        """The contribution of each prompt of X, then of Y, to ``S(second) − S(first)``."""
        return np.concatenate([self.x.contributions, -self.y.contributions])

    def magnitudes(self, signs: np.ndarray) -> np.ndarray:
        """``|S(z)| − |S(−z)|`` for each row of signs over all prompts (N × prompts of the suite)."""
        of_x, of_y = signs[:, self.places_x], signs[:, self.places_y]
        half_sum = self.x.half_sums(of_x) - self.y.half_sums(of_y)
        half_difference = (of_x @ self.x.contributions - of_y @ self.y.contributions) / 2
        return np.asarray(np.abs(half_sum + half_difference) - np.abs(half_sum - half_difference))


def magnitude_test(tests: Sequence[PairSwaps], rng: np.random.Generator) -> PermutationTest:
    """Return the two-sided p of ``mean_t |S_t(second)| − |S_t(first)|`` under swaps of prompts between the runs.

    A prompt of several tests is swapped in all of them. Every swap is counted up to 16 prompts; beyond,
    ``SAMPLED_FLIPS`` are drawn.
    """
    n = 1 + max(int(place) for test in tests for place in (*test.places_x, *test.places_y))
    used = np.unique(np.concatenate([np.r_[test.places_x, test.places_y] for test in tests]))
    exact = len(used) <= COUNTED_PROMPTS
    if exact:
        flips = (np.arange(2 ** len(used))[:, None] >> np.arange(len(used)) & 1).astype(np.int8)
    else:
        flips = 1 - rng.integers(0, 2, size=(SAMPLED_FLIPS, len(used)), dtype=np.int8)
    observed = float(_mean_magnitude(tests, np.ones((1, n)))[0])
    tolerance = 1e-10 * max(abs(observed), *(float(np.abs(test.contributions).sum()) for test in tests))
    extreme = 0
    for start in range(0, len(flips), _SIGNS_AT_A_TIME):
        chunk = flips[start : start + _SIGNS_AT_A_TIME]
        signs = np.ones((len(chunk), n))
        signs[:, used] = 1 - 2 * chunk
        extreme += int((np.abs(_mean_magnitude(tests, signs)) >= abs(observed) - tolerance).sum())
    return counted_test(np.array([observed]), np.array([extreme]), len(flips), exact, "two-sided")


def _mean_magnitude(tests: Sequence[PairSwaps], signs: np.ndarray) -> np.ndarray:
    return np.asarray(np.mean([test.magnitudes(signs) for test in tests], axis=0))


def places_of(concepts: Mapping[str, Sequence[str]]) -> dict[str, np.ndarray]:
    """Return where each concept's stimuli stand among all of the suite's."""
    places, start = {}, 0
    for name, stimuli in concepts.items():
        places[name] = np.arange(start, start + len(stimuli))
        start += len(stimuli)
    return places


@dataclass(frozen=True)
class WelchEstimate:
    """A number whose error is the sum of independent parts.

    Attributes
    ----------
    value : the estimate.
    variances : squared standard error of each part.
    freedoms : degrees of freedom of each part.
    reason : why there is no value, or no error; empty otherwise.
    """

    value: float = nan
    variances: tuple[float, ...] = ()
    freedoms: tuple[int, ...] = ()
    reason: str = ""

    def __add__(self, other: WelchEstimate) -> WelchEstimate:
        """Return the sum of two independent estimates."""
        reason = self.reason or other.reason
        return WelchEstimate(
            self.value + other.value, self.variances + other.variances, self.freedoms + other.freedoms, reason
        )

    def __neg__(self) -> WelchEstimate:
        return WelchEstimate(-self.value, self.variances, self.freedoms, self.reason)

    @property
    def standard_error(self) -> float:
        """NaN where a part has too few items to tell; 0 for a value held fixed."""
        return float(np.sqrt(sum(self.variances))) if np.isfinite(self.value) else nan

    @property
    def degrees_of_freedom(self) -> float:
        """Welch and Satterthwaite's, of the parts together; infinite for a value held fixed."""
        return float(welch_satterthwaite(list(zip(self.variances, self.freedoms, strict=True))))

    def interval(self, confidence: float = 0.95) -> tuple[float, float]:
        """Return the t interval; NaN where there is no error to tell."""
        error = self.standard_error
        if not error > 0:
            return nan, nan
        reach = float(scipy.stats.t.ppf((1 + confidence) / 2, self.degrees_of_freedom)) * error
        return self.value - reach, self.value + reach

    def p_value(self) -> float:
        """Return the two-sided p of the value 0; NaN where there is no error to tell."""
        error = self.standard_error
        return float(2 * scipy.stats.t.sf(abs(self.value) / error, self.degrees_of_freedom)) if error > 0 else nan


def mean_part(values: np.ndarray) -> tuple[float, int]:
    """Return the squared standard error and degrees of freedom of a mean; NaN and 0 for fewer than two values."""
    n = len(values)
    return (float(np.var(values, ddof=1)) / n, n - 1) if n > 1 else (nan, 0)


def bilinear_mean(cosines_a: np.ndarray, cosines_b: np.ndarray, what: Sequence[str]) -> WelchEstimate:
    """``mean C_A − mean C_B`` of (n × n_a) and (n × n_b) cosines; rows and columns are three independent samples.

    To first order its error is that of three means: of the rows' own differences, of the A columns' means and of the
    B columns' means. ``what`` names the three for the reason.
    """
    if not (cosines_a.size and cosines_b.size):
        missing = [
            name
            for name, n in zip(what, (cosines_a.shape[0], cosines_a.shape[1], cosines_b.shape[1]), strict=True)
            if not n
        ]
        return WelchEstimate(reason=f"no {' and no '.join(missing)}")
    return _sum_of_parts(_independent_samples(cosines_a, cosines_b), what)


def paired_bilinear_difference(
    first: tuple[np.ndarray, np.ndarray], second: tuple[np.ndarray, np.ndarray], what: Sequence[str]
) -> WelchEstimate:
    """:func:`bilinear_mean` of ``second`` minus that of ``first``, each a pair of cosines, items of one place paired.

    The three samples are of differences between partners, so what both have in common is in none of them.
    """
    if not all(cosines.size for cosines in (*first, *second)):
        return bilinear_mean(*second, what) + (-bilinear_mean(*first, what))
    pairs = zip(_independent_samples(*first), _independent_samples(*second), strict=True)
    return _sum_of_parts([of_second - of_first for of_first, of_second in pairs], what)


def _independent_samples(cosines_a: np.ndarray, cosines_b: np.ndarray) -> list[np.ndarray]:
    """Return values of the rows, the A columns and the B columns whose means' errors add up to that of the whole."""
    return [cosines_a.mean(axis=1) - cosines_b.mean(axis=1), cosines_a.mean(axis=0), cosines_b.mean(axis=0)]


def _sum_of_parts(samples: Sequence[np.ndarray], what: Sequence[str]) -> WelchEstimate:
    parts = [mean_part(values) for values in samples]
    single = [name for name, (_, freedom) in zip(what, parts, strict=True) if not freedom]
    reason = f"interval: one of {' and one of '.join(single)} only" if single else ""
    return WelchEstimate(float(samples[0].mean()), tuple(v for v, _ in parts), tuple(f for _, f in parts), reason)
