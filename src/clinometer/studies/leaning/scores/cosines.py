"""The sufficient statistic, mean cosines of every target to every group, and estimates that are formulas of it.

::

    C[t, m, g] = Σ_i Σ_j w_i v_j cos(x_i, y_j)      x_i of target t, y_j of group g, in modality m

with weights that sum to 1. Uniform weights give the estimate, bootstrap weights a replicate. The cosines are
computed once; components, MCAS, δ, α, xMCAS and profiles are all functions of C. See decision 13.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from typing import Final

import numpy as np

from clinometer.metrics.records import MEAN
from clinometer.stats.association import matmul
from clinometer.stats.blocks import StoredArray, mapped
from clinometer.stats.bootstrap import ball_interval, fold_interval, percentile_interval
from clinometer.studies.leaning.scores.design import EncoderEmbeddings, Layout, pooled_encoders, unit_rows

Formula = Callable[[np.ndarray], np.ndarray]
"""From tensors of mean cosines (… × T × 4 × groups) to numbers (… × anything)."""
NUMBERS_AT_ONCE: Final = 2**22
"""Numbers of a tensor of replicates that are read at once, 16 MB."""


@dataclass(frozen=True)
class Cosines:
    """Cosines of T targets with all attribute images and all words; NaN where the encoder reads no text.

    Attributes
    ----------
    image_image, image_word : per target (n_t × attribute images), (n_t × words).
    text_image, text_word : (T × attribute images), (T × words).
    """

    image_image: Sequence[np.ndarray]
    text_image: np.ndarray
    image_word: Sequence[np.ndarray]
    text_word: np.ndarray


@dataclass(frozen=True)
class Weights:
    """R rows of weights (or one row that serves all): per target's images, over attribute images, over words.

    The weights of a target sum to 1, and so do those of each group's images and words.
    """

    targets: tuple[np.ndarray, ...]
    images: np.ndarray
    words: np.ndarray


def group_cosines(embeddings: EncoderEmbeddings, layout: Layout) -> Cosines:
    """Compute the cosines of the attribute prompts themselves, taken as targets, one a prompt over all groups.

    No image may be compared with itself. Holding out a random half of every prompt's images as targets and
    keeping the other half as attributes would see to that; averaged over all ways to halve, prompt h is
    compared with prompt h' of the group with the share n_h'/n_g, over all pairs when h' differs and over the
    pairs of two *different* images when it is h itself. The same average comes out, with no halving, when
    each self-cosine is replaced by the image's mean cosine with the other images of its prompt::

        (Σ_{i≠j} G_ij + Σ_i m_i) / n² = mean_{i≠j} G_ij      for m_i = Σ_{j≠i} G_ij / (n − 1)

    A prompt of one image has nothing to compare: NaN.
    """
    images, words = attribute_vectors(embeddings, layout)
    n, n_words = len(layout.prompt_slices), sum(layout.word_counts)
    texts = None
    if embeddings.group_texts is not None:
        texts = unit_rows(np.concatenate([embeddings.group_texts[group] for group in layout.groups]))
    gram = cosine(images, images)
    for columns in layout.prompt_slices:  # of an image with itself: its mean cosine with the others of its prompt
        block = gram[columns, columns]
        others = block.sum(axis=1) - block.diagonal()
        np.fill_diagonal(block, others / (len(block) - 1) if len(block) > 1 else np.nan)
    return Cosines(
        image_image=tuple(gram[rows] for rows in layout.prompt_slices),
        text_image=text_cosine(texts, images, n),
        image_word=tuple(word_cosine(images[rows], words, n_words) for rows in layout.prompt_slices),
        text_word=text_word_cosine(texts, words, n, n_words),
    )


def group_scores(embeddings: EncoderEmbeddings, layout: Layout) -> tuple[np.ndarray, ...]:
    """Average each attribute image's cosines to the images and to the words of every group: per group (n × 2 × G).

    As in :func:`group_cosines`, no image is compared with itself: in its own group its mean cosine to the others of its
    prompt stands for that, or to the others of the group where it is alone. NaN where a group has one image or none.
    """
    images, words = attribute_vectors(embeddings, layout)
    groups = range(len(layout.groups))
    scores = tuple(np.full((n, 2, len(groups)), np.nan) for n in layout.image_counts)
    with np.errstate(divide="ignore", invalid="ignore"):
        for g in groups:
            others = images[layout.image_slices[g]]
            for h in groups:
                scores[h][:, 0, g] = images[layout.image_slices[h]] @ others.sum(axis=0) / len(others)
            first = layout.image_slices[g].start
            for columns, at in zip(layout.prompt_slices, layout.prompt_groups, strict=True):
                if at == g and columns.stop > columns.start:
                    prompt_images, among = (
                        images[columns],
                        images[columns] if columns.stop - columns.start > 1 else others,
                    )
                    without = (prompt_images @ among.sum(axis=0) - 1) / (len(among) - 1 or np.nan)
                    rows = slice(columns.start - first, columns.stop - first)
                    scores[g][rows, 0, g] += (without - 1) / len(others)
            if words is not None:
                for h in groups:
                    scores[h][:, 1, g] = images[layout.image_slices[h]] @ words[layout.word_slices[g]].mean(axis=0)
    return scores


def group_word_means(embeddings: EncoderEmbeddings, layout: Layout) -> np.ndarray:
    """Average each word's cosines to the images of every group: (groups × words); NaN where there is nothing."""
    images, words = attribute_vectors(embeddings, layout)
    means = np.full((len(layout.groups), sum(layout.word_counts)), np.nan)
    for g, columns in enumerate(layout.image_slices):
        if words is not None and columns.stop > columns.start:
            means[g] = words @ images[columns].mean(axis=0)
    return means


def average_cosines(cosines: Sequence[Cosines]) -> Cosines:
    """Average cosines over encoders.

    C is linear in the cosines, so the components made of averaged cosines are the components averaged over
    encoders, as the papers define them, and a replicate of the average costs no more than a replicate of one
    encoder.
    """
    if len(cosines) == 1:
        return cosines[0]
    return Cosines(
        image_image=[np.mean(blocks, axis=0) for blocks in zip(*(c.image_image for c in cosines), strict=True)],
        text_image=np.mean([c.text_image for c in cosines], axis=0),
        image_word=[np.mean(blocks, axis=0) for blocks in zip(*(c.image_word for c in cosines), strict=True)],
        text_word=np.mean([c.text_word for c in cosines], axis=0),
    )


def uniform_weights(layout: Layout, target_sizes: Sequence[int]) -> Weights:
    """Return one row of weights, equal within a target and within a group: the estimate itself."""
    return Weights(
        targets=tuple(np.full((1, n), 1 / max(n, 1)) for n in target_sizes),
        images=_uniform(layout.image_counts),
        words=_uniform(layout.word_counts),
    )


def mean_cosines(cosines: Cosines, layout: Layout, weights: Weights) -> np.ndarray:
    """Compute the tensor C under R rows of weights: (R × targets × 4 modalities × groups).

    Modalities in the order ii, itp, ita, tt. NaN where a target or a group has no item.
    """
    n_rows = max(len(weights.images), len(weights.words), *(len(w) for w in weights.targets))
    kind = weights.images.dtype
    tensor = np.full((n_rows, len(cosines.image_image), 4, len(layout.groups)), np.nan, kind)
    image_slices, word_slices = layout.image_slices, layout.word_slices
    for t, (gram, words) in enumerate(zip(cosines.image_image, cosines.image_word, strict=True)):
        w = weights.targets[t]
        if len(gram) == 0:
            continue
        sum_by_group(weigh(w, gram), weights.images, image_slices, tensor[:, t, 0])
        sum_by_group(weigh(w, words), weights.words, word_slices, tensor[:, t, 2])
    for m, texts, v, slices in (
        (1, cosines.text_image, weights.images, image_slices),
        (3, cosines.text_word, weights.words, word_slices),
    ):
        for g, columns in enumerate(slices):
            if columns.stop > columns.start:
                tensor[:, :, m, g] = weigh(v[:, columns], texts[:, columns].T)
    return tensor


def weigh(weights: np.ndarray, cosines: np.ndarray) -> np.ndarray:
    """Return ``weights @ cosines`` in float64, whatever the two are.

    The order in which BLAS sums depends on the processor. In float32 that changes the seventh digit, and the ends of
    intervals with it; in float64 the sixteenth, which float32 does not keep.
    """
    return matmul(weights.astype(np.float64, copy=False), cosines.astype(np.float64, copy=False))


def group_means(rows: np.ndarray, slices: Sequence[slice]) -> np.ndarray:
    """Average over each group's columns: (rows × groups), NaN where a group has none."""
    means = [rows[:, s].mean(axis=1) if s.stop > s.start else np.full(len(rows), np.nan) for s in slices]
    return np.stack(means, axis=1)


def sum_by_group(left: np.ndarray, right: np.ndarray, slices: Sequence[slice], out: np.ndarray) -> None:
    """Sum the products over each group's columns, row by row, into ``out`` (rows × groups)."""
    for g, columns in enumerate(slices):
        if columns.stop > columns.start:
            out[:, g] = np.vecdot(left[:, columns], right[:, columns])


def _uniform(counts: Sequence[int]) -> np.ndarray:
    return np.concatenate([np.full(n, 1 / max(n, 1)) for n in counts])[None, :]


def by_view(encoders: Sequence[EncoderEmbeddings]) -> dict[str, EncoderEmbeddings]:
    """Return embeddings by the name of the view: ``"mean"`` first, then each encoder's own."""
    return {MEAN: averaged_embeddings(encoders)} | {encoder.encoder: encoder for encoder in encoders}


def averaged_embeddings(encoders: Sequence[EncoderEmbeddings]) -> EncoderEmbeddings:
    """Make embeddings whose cosines are the encoders' own, averaged: (items × sum of dimensions).

    Unit vectors of E encoders, set one behind the other, have the length √E, so that

    ::

        cos([x̂₁ … x̂_E], [ŷ₁ … ŷ_E]) = (1/E) Σ_e cos(x_e, y_e)

    The average of a single encoder is that encoder, by its own name. ``unfit`` holds what does not fit any of them.
    """
    pooled = [encoders[i] for i in pooled_encoders(encoders)]
    if len(pooled) == 1:
        return pooled[0]
    first = pooled[0]

    def texts(of: Callable[[EncoderEmbeddings], np.ndarray | None]) -> np.ndarray | None:
        arrays = [of(encoder) for encoder in pooled]
        return None if any(x is None for x in arrays) else _side_by_side([x for x in arrays if x is not None])

    words = [encoder.group_words for encoder in pooled if encoder.group_words is not None]
    blanks = texts(lambda encoder: None if encoder.blank_text is None else encoder.blank_text[None])
    return EncoderEmbeddings(
        encoder=MEAN,
        target_images=mapped(lambda *parts: _side_by_side(parts), *(encoder.target_images for encoder in pooled)),
        target_texts=texts(lambda encoder: encoder.target_texts),
        group_images={
            group: tuple(map(_side_by_side, zip(*(encoder.group_images[group] for encoder in pooled), strict=True)))
            for group in first.group_images
        },
        group_words={group: _side_by_side([by_group[group] for by_group in words]) for group in words[0]}
        if len(words) == len(pooled)
        else None,
        blank_text=None if blanks is None else blanks[0],
        unfit={concept: reason for encoder in pooled for concept, reason in encoder.unfit.items()},
    )


def _side_by_side(parts: Sequence[np.ndarray]) -> np.ndarray:
    """Concatenate the unit vectors of the same items, encoder after encoder."""
    return np.concatenate([unit_rows(x) for x in parts], axis=1)


def attribute_vectors(embeddings: EncoderEmbeddings, layout: Layout) -> tuple[np.ndarray, np.ndarray | None]:
    """Return unit vectors of all attribute images and of all words, (items × dim); None where it reads no text."""
    images = np.concatenate([unit_rows(x) for group in layout.groups for x in embeddings.group_images[group]])
    if embeddings.group_words is None:
        return images, None
    return images, np.concatenate([unit_rows(embeddings.group_words[group]) for group in layout.groups])


def cosine(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Compute cosines of unit vectors, also of no rows at all."""
    return x @ y.T if len(x) else np.empty((0, len(y)))


def text_cosine(texts: np.ndarray | None, items: np.ndarray, n: int) -> np.ndarray:
    """Compute cosines of the targets' texts with some items: (n × items), NaN where there are no texts."""
    return np.full((n, len(items)), np.nan) if texts is None else texts @ items.T


def word_cosine(items: np.ndarray, words: np.ndarray | None, n_words: int) -> np.ndarray:
    """Compute cosines of some items with the words: (items × n_words), NaN where there are no words."""
    return np.full((len(items), n_words), np.nan) if words is None else cosine(items, words)


def text_word_cosine(texts: np.ndarray | None, words: np.ndarray | None, n: int, n_words: int) -> np.ndarray:
    """Compute cosines of the targets' texts with the words: (n × n_words), NaN where either is missing."""
    return np.full((n, n_words), np.nan) if texts is None or words is None else texts @ words.T


@dataclass(frozen=True)
class Replicates:
    """Tensors of mean cosines: the estimate (T × 4 × groups) and replicates of it (R × T × 4 × groups)."""

    point: np.ndarray
    images: np.ndarray
    stimulus: np.ndarray

    @property
    def null(self) -> np.ndarray:
        """Tensors as chance alone would have them: deviations of the replicates from the estimate.

        All groups are as near as they are on average, so nothing leans; images, words and encoders scatter as they do.
        """
        point = self.point
        return np.asarray(self.stimulus - (point - point.mean(axis=-1, keepdims=True)).astype(np.float32))


@dataclass(frozen=True)
class StoredReplicates:
    """The replicates of one target in a store: :class:`Replicates` without the axis of the targets."""

    images: StoredArray
    stimulus: StoredArray


@dataclass(frozen=True)
class TargetReplicates:
    """Replicates of all targets, of which some are read at a time.

    ``point`` (T × 4 × groups) is that of all.
    """

    point: np.ndarray
    stored: Sequence[StoredReplicates]

    def parts(self) -> Iterator[Replicates]:
        """Read some consecutive targets at a time, two at least: numpy sums a single column in another order."""
        if not self.stored:
            return
        size = int(np.prod(self.stored[0].images.shape))
        for part in parts_of(len(self.stored), max(NUMBERS_AT_ONCE // size, 2)):
            yield self._read(part)

    def whole(self) -> Replicates:
        """Read all targets at once."""
        return self._read(slice(None))

    def _read(self, part: slice) -> Replicates:
        def stacked(name: str) -> np.ndarray:
            return np.stack([getattr(target, name).read() for target in self.stored[part]], axis=1)

        return Replicates(self.point[part], stacked("images"), stacked("stimulus"))


def parts_of(total: int, at_once: int) -> Iterator[slice]:
    """Cut so many positions into parts of so many, or one more, none of which is a single one unless all are."""
    edges = [*range(0, total, at_once)]
    if len(edges) > 1 and total - edges[-1] == 1:
        edges.pop()
    for first, stop in zip(edges, [*edges[1:], total], strict=True):
        yield slice(first, stop)


def each_target(replicates: TargetReplicates, make: Callable[[Replicates], Estimate]) -> Estimate:
    """Estimate a number of every target, some targets at a time."""
    estimates = [make(part) for part in replicates.parts()]
    return Estimate(*(np.concatenate([getattr(numbers, f.name) for numbers in estimates]) for f in fields(Estimate)))


def null_expectation(
    replicates: TargetReplicates, formula: Callable[[Replicates], np.ndarray], centre: Callable[..., np.ndarray]
) -> np.ndarray:
    """Return the centre over null replicates (… × T) of a non-negative number of every target: (T,)."""
    centres = [centre(np.asarray(formula(part), np.float64), axis=0) for part in replicates.parts()]
    return np.concatenate(centres) if centres else np.empty(0)


def all_targets(replicates: TargetReplicates, formula: Callable[[Replicates], np.ndarray]) -> np.ndarray:
    """Apply a formula to all targets, some at a time: (… × T)."""
    return np.concatenate([formula(part) for part in replicates.parts()], axis=-1)


@dataclass(frozen=True)
class Estimate:
    """Numbers with their intervals and null expectation, all of one shape."""

    value: np.ndarray
    low: np.ndarray
    high: np.ndarray
    stimulus_low: np.ndarray
    stimulus_high: np.ndarray
    null: np.ndarray

    def folded(self) -> Estimate:
        """Return magnitudes: |value| with the images of the intervals under the absolute value."""
        inner, outer = (fold_interval(self.low, self.high), fold_interval(self.stimulus_low, self.stimulus_high))
        return replace(
            self,
            value=np.abs(self.value),
            low=inner.low,
            high=inner.high,
            stimulus_low=outer.low,
            stimulus_high=outer.high,
        )

    def without_null(self) -> Estimate:
        """Leave the null expectation out, of a number that may be negative."""
        return replace(self, null=np.full_like(self.null, np.nan))


def estimate(replicates: Replicates, formula: Formula, confidence: float) -> Estimate:
    """Apply a formula of the tensor, with percentile intervals."""
    value = np.asarray(formula(replicates.point))
    inner, outer = (
        percentile_interval(formula(tensors), confidence, value=value)
        for tensors in (replicates.images, replicates.stimulus)
    )
    return Estimate(value, inner.low, inner.high, outer.low, outer.high, np.full(value.shape, np.nan))


def variance(replicates: np.ndarray) -> np.ndarray:
    """Compute the variance of replicates, in float64."""
    return np.asarray(np.var(np.asarray(replicates, np.float64), axis=0))


def estimate_norm(
    replicates: Replicates, vector: Formula, norm: Formula, confidence: float, value: Formula | None = None
) -> Estimate:
    """Estimate ``norm(vector(C))``, non-negative, with the interval of :func:`ball_interval`.

    ``value`` is the number reported where it is not that norm itself but a function that moves no more than
    it.
    """
    centre = vector(replicates.point)
    size = np.asarray((value or norm)(centre))
    inner = ball_interval(size, norm(vector(replicates.images) - centre), confidence)
    outer = ball_interval(size, norm(vector(replicates.stimulus) - centre), confidence)
    return Estimate(size, inner.low, inner.high, outer.low, outer.high, np.full(size.shape, np.nan))
