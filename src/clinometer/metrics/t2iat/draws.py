"""Bootstrap replicates of S and d from the cosines alone: one row of weights is one replicate.

::

    A* = (v_A* Cᴬᵀ − v_B* Cᴮᵀ)          Asc of every neutral image, under the attribute images' weights v*
    S* = Σ_i w_i* A*_i                   under the neutral images' weights w*
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from clinometer.metrics.t2iat.sets import PromptSet, SetPair
from clinometer.stats.bootstrap import rao_wu_weights

_CHUNK = 1000  # replicates at a time, so that a large set takes no more memory than a small one


@dataclass(frozen=True)
class Draws:
    """Replicates of S and of d: (resamples,) each; NaN where a prompt (or a set) has one item only."""

    statistic: np.ndarray
    effect_size: np.ndarray


@dataclass(frozen=True)
class SetDraws:
    """Replicates of a set's mean association and of the sum of squares of its images' associations."""

    association: np.ndarray
    squares: np.ndarray


def bootstrap_draws(pair: SetPair, resamples: int, rng: np.random.Generator, *, prompts: bool) -> Draws:
    """Resample images within their prompts, or (``prompts``) whole prompts with all their images.

    Resampling the images of a resampled prompt again would count their noise twice: the prompts' means vary by it
    already (Davison & Hinkley 1997, §3.8).
    """
    x, y = (
        set_draws(each, resamples, child, prompts=prompts)
        for each, child in zip((pair.x, pair.y), rng.spawn(2), strict=True)
    )
    statistic = x.association - y.association
    freedom = pair.x.n_images + pair.y.n_images - 2
    with np.errstate(divide="ignore", invalid="ignore"):
        effect_size = statistic / np.sqrt((x.squares + y.squares) / freedom)
    return Draws(statistic, effect_size)


def set_draws(held: PromptSet, resamples: int, rng: np.random.Generator, *, prompts: bool) -> SetDraws:
    """Replicates of one set."""
    sizes = (held.sizes, held.sizes_a, held.sizes_b)
    if prompts:  # a prompt takes all three of its kinds of images along
        drawn = rao_wu_weights([held.n_prompts], resamples, rng)
        weights = [np.repeat(drawn / np.asarray(each, np.float32), each, axis=1) for each in sizes]
    else:
        weights = [_image_weights(each, resamples, child) for each, child in zip(sizes, rng.spawn(3), strict=True)]
    found = [_chunk(held, *part) for part in zip(*map(_in_chunks, weights), strict=True)]
    return SetDraws(*(np.concatenate(part) for part in zip(*found, strict=True)))


def _image_weights(sizes: Sequence[int], resamples: int, rng: np.random.Generator) -> np.ndarray:
    """(resamples × images) weights within prompts that weigh equally."""
    scale = np.repeat([sum(sizes) / (len(sizes) * n) for n in sizes], sizes)
    return np.asarray(rao_wu_weights(sizes, resamples, rng) * scale.astype(np.float32))


def _in_chunks(weights: np.ndarray) -> list[np.ndarray]:
    return [weights[start : start + _CHUNK] for start in range(0, len(weights), _CHUNK)]


def _chunk(held: PromptSet, w: np.ndarray, v_a: np.ndarray, v_b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean association and sum of squares under each row of weights."""
    associations = v_a @ held.cosines_a.T - v_b @ held.cosines_b.T
    mean = np.einsum("ri,ri->r", w, associations)
    share = w / w.sum(axis=1, keepdims=True)
    centre = np.einsum("ri,ri->r", share, associations)
    variance = np.einsum("ri,ri->r", share, (associations - centre[:, None]) ** 2)
    return mean, variance * held.n_images
