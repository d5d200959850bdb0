"""The cosines that T2IAT rests on: of a set with its own attribute images, and of all its prompts with each other's.

Everything after is a function of these, so several encoders are averaged here, once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
import scipy

from clinometer.errors import InvalidInputError
from clinometer.stats.association import Array, as_numpy, rounding_of, unit_vectors
from clinometer.stats.dependence import by_batch


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

    Resamples need the cosines (:func:`clinometer.metrics.t2iat.draws.set_draws`), and nothing else does. ``batched`` is
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
        """By how much two differences of cosines may differ and be the same."""
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
