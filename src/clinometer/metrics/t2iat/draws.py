"""Bootstrap replicates of S and d from the cosines alone, one row of weights a replicate, and intervals of them.

::

    A* = (v_A* Cᴬᵀ − v_B* Cᴮᵀ)          Asc of every neutral image, under the attribute images' weights v*
    S* = Σ_i w_i* A*_i                   under the neutral images' weights w*
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import isfinite, nan

import numpy as np

from clinometer.metrics.t2iat.sets import AnySet, PromptSet, squared_deviations
from clinometer.metrics.t2iat.welch import mean_part
from clinometer.stats.bootstrap import percentile_interval, rao_wu_chunks, welch_satterthwaite

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
    x, y = (
        set_draws(prompt_set, resamples, child, prompts=prompts)
        for prompt_set, child in zip(sets, rng.spawn(2), strict=True)
    )
    return difference_draws((x, y), sets)


def difference_draws(drawn: tuple[SetDraws, SetDraws], sets: tuple[AnySet, AnySet]) -> PairDraws:
    """Replicates of S and of d from those of X and Y.

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
    """Replicates of one set."""
    sizes = (prompt_set.sizes, prompt_set.sizes_a, prompt_set.sizes_b)
    weights: Iterable[Iterable[np.ndarray]]
    if prompts:  # a prompt takes all three of its kinds of images along
        weights = (
            [np.repeat(drawn / np.asarray(counts, np.float32), counts, axis=1) for counts in sizes]
            for drawn in rao_wu_chunks([prompt_set.n_prompts], resamples, rng, _CHUNK)
        )
    else:
        kinds = [_image_weights(counts, resamples, child) for counts, child in zip(sizes, rng.spawn(3), strict=True)]
        weights = zip(*kinds, strict=True)
    chunks = [_chunk(prompt_set, *part) for part in weights]
    return SetDraws(*(np.concatenate(part) for part in zip(*chunks, strict=True)))


def centred(draws: np.ndarray, value: float) -> np.ndarray:
    """Replicates of a quadratic form, moved onto the estimate: their mean is off by its diagonal, Σ_p var(w_p)·G_pp."""
    return np.asarray(draws - draws.mean() + value)


def interval_of(draws: np.ndarray, value: float, freedom: float, confidence: float = 0.95) -> tuple[float, float]:
    """Ends of an interval as wide as Student's t; NaN where the value or a replicate is not finite."""
    if not (isfinite(value) and np.isfinite(draws).all()):
        return nan, nan
    ends = percentile_interval(draws, confidence, freedom)
    return float(ends.low), float(ends.high)


def containing(outer: tuple[float, float], inner: tuple[float, float]) -> tuple[float, float]:
    """An interval over more sources of chance, made to hold that over some of them: it cannot be surer than they.

    By few prompts it may come out narrower, as their spread is known from few. An end that is NaN stays as it is.
    """
    if not np.isfinite([*outer, *inner]).all():
        return outer
    return min(outer[0], inner[0]), max(outer[1], inner[1])


def freedom_of(sets: Iterable[AnySet], *, prompts: bool, minus: Iterable[AnySet] = ()) -> float:
    """Degrees of freedom of replicates of a sum over the sets: Welch and Satterthwaite's, over what adds to its error.

    To first order that is a mean over each set's prompts, or, of images within prompts, three means: over the neutral
    ones, those with A and those with B. ``minus``: the same sets of another run, of whose prompts or images these are
    the partners; the means are then of differences.
    """
    samples = [sample for concept in sets for sample in _samples(concept, prompts)]
    others = [values for concept in minus for values, _ in _samples(concept, prompts)] or [np.zeros(1)] * len(samples)
    parts = [_part(values - other, sizes) for (values, sizes), other in zip(samples, others, strict=True)]
    return float(welch_satterthwaite(parts))


def _samples(prompt_set: AnySet, prompts: bool) -> list[tuple[np.ndarray, Sequence[int]]]:
    """Values whose means' errors add up to that of the set's association, and how many are of one prompt."""
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
    """Squared standard error of the mean of the means, and its degrees of freedom."""
    parts = [mean_part(prompt_values) for prompt_values in _by_prompt(values, sizes)]
    return sum(v for v, _ in parts) / len(sizes) ** 2, sum(f for _, f in parts)


def _by_prompt(values: np.ndarray, sizes: Sequence[int]) -> list[np.ndarray]:
    return np.split(values, np.cumsum(sizes)[:-1])


def _image_weights(sizes: Sequence[int], resamples: int, rng: np.random.Generator) -> Iterator[np.ndarray]:
    """(replicates × images) weights within prompts that weigh equally, a chunk after the other."""
    scale = np.repeat([sum(sizes) / (len(sizes) * n) for n in sizes], sizes).astype(np.float32)
    return (weights * scale for weights in rao_wu_chunks(sizes, resamples, rng, _CHUNK))


def _chunk(prompt_set: PromptSet, w: np.ndarray, v_a: np.ndarray, v_b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean association and sum of squares under each row of weights."""
    associations = v_a @ prompt_set.cosines_a.T - v_b @ prompt_set.cosines_b.T
    mean = np.einsum("ri,ri->r", w, associations)
    share = w / w.sum(axis=1, keepdims=True)
    centre = np.einsum("ri,ri->r", share, associations)
    variance = np.einsum("ri,ri->r", share, (associations - centre[:, None]) ** 2)
    return mean, variance * prompt_set.n_images
