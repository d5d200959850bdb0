"""The sufficient statistic: mean cosines of every target to every group, per modality, under any weights.

::

    C[t, m, g] = Σ_i Σ_j w_i v_j cos(x_i, y_j)      x_i of target t, y_j of group g, in modality m

with weights that sum to 1. Uniform weights give the estimate, bootstrap weights a replicate. The cosines are
computed once; components, MCAS, δ, α, xMCAS and profiles are all functions of C.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from clinometer.stats.association import matmul, unit_vectors
from clinometer.stats.blocks import mapped
from clinometer.studies.leaning.scores.design import EncoderEmbeddings, Layout


@dataclass(frozen=True)
class Cosines:
    """Cosines of T targets with all attribute images and all words; NaN where the encoder reads no text.

    Attributes
    ----------
    image_image, image_word : per target (n_t × attribute images), (n_t × words); made anew whenever a target is asked
        for, where its vectors are.
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


def target_cosines(embeddings: EncoderEmbeddings, layout: Layout) -> Cosines:
    """Cosines of the study's targets, as one encoder sees them."""
    images, words = attribute_vectors(embeddings, layout)
    n, n_words = len(embeddings.target_images), sum(layout.word_counts)
    texts = _unit(embeddings.target_texts) if embeddings.target_texts is not None else None
    return Cosines(
        image_image=mapped(lambda x: cosine(_unit(x), images), embeddings.target_images),
        text_image=text_cosine(texts, images, n),
        image_word=mapped(lambda x: word_cosine(_unit(x), words, n_words), embeddings.target_images),
        text_word=text_word_cosine(texts, words, n, n_words),
    )


def text_cosines(embeddings: EncoderEmbeddings, layout: Layout) -> Cosines:
    """The same of their texts alone: no image of a target is looked at."""
    images, words = attribute_vectors(embeddings, layout)
    n, n_words = len(layout.targets), sum(layout.word_counts)
    texts = None if embeddings.target_texts is None else _unit(embeddings.target_texts)
    return Cosines((), text_cosine(texts, images, n), (), text_word_cosine(texts, words, n, n_words))


def group_cosines(embeddings: EncoderEmbeddings, layout: Layout) -> Cosines:
    """Cosines of the attribute prompts themselves, taken as targets, one a prompt over all groups.

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
        texts = _unit(np.concatenate([embeddings.group_texts[group] for group in layout.groups]))
    gram = cosine(images, images)
    for own in layout.prompt_slices:
        _replace_self_cosines(gram[own, own])
    return Cosines(
        image_image=tuple(gram[rows] for rows in layout.prompt_slices),
        text_image=text_cosine(texts, images, n),
        image_word=tuple(word_cosine(images[rows], words, n_words) for rows in layout.prompt_slices),
        text_word=text_word_cosine(texts, words, n, n_words),
    )


def group_poles(embeddings: EncoderEmbeddings, layout: Layout) -> np.ndarray:
    """Mean cosines of each group's own attribute images to the images and to the words of every group: (G × 2 × G).

    No image is compared with itself, as in :func:`group_cosines`, but here only sums of vectors are needed::

        mean_{i,j∈g} cos = (|S_g|² − n_g + Σ_p n_p m_p) / n_g²,     m_p = (|S_p|² − n_p) / (n_p (n_p − 1))

    with S the sum of a group's or a prompt's unit vectors. A prompt of one image takes the mean over its group.
    NaN where a group has one image or none.
    """
    images, words = attribute_vectors(embeddings, layout)
    groups, poles = range(len(layout.groups)), np.full((len(layout.groups), 2, len(layout.groups)), np.nan)
    sums = np.stack([images[layout.image_slices[g]].sum(axis=0) for g in groups])
    counts = np.array(layout.image_counts, np.float64)
    with np.errstate(divide="ignore", invalid="ignore"):
        poles[:, 0] = sums @ sums.T / np.outer(counts, counts)
        for g in groups:
            square, n = sums[g] @ sums[g], counts[g]
            own = [
                images[columns]
                for columns, at in zip(layout.prompt_slices, layout.prompt_groups, strict=True)
                if at == g
            ]
            alone = (square - n) / (n - 1)  # of a prompt of one image
            among = [
                (np.square(x.sum(axis=0)).sum() - len(x)) / (len(x) - 1) if len(x) > 1 else alone * len(x) / n
                for x in own
            ]
            poles[g, 0, g] = (square - n + sum(among)) / n**2
        if words is not None:
            means = np.stack([words[columns].sum(axis=0) for columns in layout.word_slices])
            poles[:, 1] = sums @ means.T / np.outer(counts, np.array(layout.word_counts, np.float64))
    return poles


def group_scores(embeddings: EncoderEmbeddings, layout: Layout) -> tuple[np.ndarray, ...]:
    """Mean cosines of each attribute image to the images and to the words of every group: per group (n × 2 × G).

    As in :func:`group_poles`, no image is compared with itself: in its own group its mean cosine to the others of its
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
                    own, among = images[columns], images[columns] if columns.stop - columns.start > 1 else others
                    without = (own @ among.sum(axis=0) - 1) / (len(among) - 1)
                    rows = slice(columns.start - first, columns.stop - first)
                    scores[g][rows, 0, g] += (without - 1) / len(others)
            if words is not None:
                for h in groups:
                    scores[h][:, 1, g] = images[layout.image_slices[h]] @ words[layout.word_slices[g]].mean(axis=0)
    return scores


def average_cosines(cosines: Sequence[Cosines]) -> Cosines:
    """Cosines averaged over encoders.

    C is linear in the cosines, so the components made of averaged cosines are the components averaged over
    encoders, as the papers define them, and a replicate of the average costs no more than a replicate of one
    encoder.
    """
    if len(cosines) == 1:
        return cosines[0]
    return Cosines(
        image_image=mapped(_mean, *(c.image_image for c in cosines)),
        text_image=np.mean([c.text_image for c in cosines], axis=0),
        image_word=mapped(_mean, *(c.image_word for c in cosines)),
        text_word=np.mean([c.text_word for c in cosines], axis=0),
    )


def _mean(*arrays: np.ndarray) -> np.ndarray:
    return np.asarray(np.mean(arrays, axis=0))


def uniform_weights(layout: Layout, target_sizes: Sequence[int]) -> Weights:
    """One row of weights, equal within a target and within a group: the estimate itself."""
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
        to_images = matmul(w, gram.astype(kind))
        sum_by_group(to_images, weights.images, image_slices, tensor[:, t, 0])
        sum_by_group(matmul(w, words.astype(kind)), weights.words, word_slices, tensor[:, t, 2])
    for m, texts, v, slices in (
        (1, cosines.text_image, weights.images, image_slices),
        (3, cosines.text_word, weights.words, word_slices),
    ):
        for g, columns in enumerate(slices):
            if columns.stop > columns.start:
                tensor[:, :, m, g] = matmul(v[:, columns], texts[:, columns].T.astype(kind))
    return tensor


def group_means(rows: np.ndarray, slices: Sequence[slice]) -> np.ndarray:
    """Mean over each group's columns: (rows × groups), NaN where a group has none."""
    means = [rows[:, s].mean(axis=1) if s.stop > s.start else np.full(len(rows), np.nan) for s in slices]
    return np.stack(means, axis=1)


def item_means(cosines: Cosines) -> tuple[np.ndarray, np.ndarray]:
    """Mean cosine of each attribute item to each target: images (2 × T × items; ii, itp), words (ita, tt).

    ``mean_w cos(w, a) = â · mean(ŵ)``: with the targets fixed, an attribute item enters a component as one
    number.
    """
    images = np.stack([_column_means(cosines.image_image), cosines.text_image])
    words = np.stack([_column_means(cosines.image_word), cosines.text_word])
    return images, words


def _column_means(blocks: Sequence[np.ndarray]) -> np.ndarray:
    return np.stack([x.mean(axis=0) if len(x) else np.full(x.shape[1], np.nan) for x in blocks])


def sum_by_group(left: np.ndarray, right: np.ndarray, slices: Sequence[slice], out: np.ndarray) -> None:
    """Row by row, the sum of products over each group's columns, into ``out`` (rows × groups)."""
    for g, columns in enumerate(slices):
        if columns.stop > columns.start:
            out[:, g] = np.vecdot(left[:, columns], right[:, columns])


def _replace_self_cosines(block: np.ndarray) -> None:
    """Replace each image's cosine with itself by its mean cosine with the others of its prompt."""
    n = len(block)
    others = block.sum(axis=1) - block.diagonal()
    np.fill_diagonal(block, others / (n - 1) if n > 1 else np.nan)


def _uniform(counts: Sequence[int]) -> np.ndarray:
    return np.concatenate([np.full(n, 1 / max(n, 1)) for n in counts])[None, :]


def attribute_vectors(embeddings: EncoderEmbeddings, layout: Layout) -> tuple[np.ndarray, np.ndarray | None]:
    """Unit vectors of all attribute images and of all words, (items × dim); None where it reads no text."""
    images = np.concatenate([_unit(x) for group in layout.groups for x in embeddings.group_images[group]])
    if embeddings.group_words is None:
        return images, None
    return images, np.concatenate([_unit(embeddings.group_words[group]) for group in layout.groups])


def _unit(x: np.ndarray) -> np.ndarray:
    return unit_vectors(x) if len(x) else np.asarray(x, np.float64)


def cosine(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Cosines of unit vectors, also of no rows at all."""
    return x @ y.T if len(x) else np.empty((0, len(y)))


def text_cosine(texts: np.ndarray | None, items: np.ndarray, n: int) -> np.ndarray:
    """Cosines of the targets' texts with some items: (n × items), NaN where there are no texts."""
    return np.full((n, len(items)), np.nan) if texts is None else texts @ items.T


def word_cosine(items: np.ndarray, words: np.ndarray | None, n_words: int) -> np.ndarray:
    """Cosines of some items with the words: (items × n_words), NaN where there are no words."""
    return np.full((len(items), n_words), np.nan) if words is None else cosine(items, words)


def text_word_cosine(texts: np.ndarray | None, words: np.ndarray | None, n: int, n_words: int) -> np.ndarray:
    """Cosines of the targets' texts with the words: (n × n_words), NaN where either is missing."""
    return np.full((n, n_words), np.nan) if texts is None or words is None else texts @ words.T
