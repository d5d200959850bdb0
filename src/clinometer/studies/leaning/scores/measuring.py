"""Replicates of the targets' mean cosines, one target at a time: of the images no more is held than of one target.

An image enters the study as a row of cosines with all attribute images and words, and in every bootstrap replicate as
a weight: 43 kB an image with 10,000 replicates and 400 attribute items, none of which is needed once its target is
measured. What stays is each image's mean cosines to the groups, 32 bytes of two, and the tensor of mean cosines. Its
replicates, 0.7 MB a target, are put away in a scratch file as soon as the target is measured.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from clinometer.stats.blocks import pieces_of, sizes_of
from clinometer.stats.products import matmul
from clinometer.stats.scratch import Kept, Scratch
from clinometer.studies.leaning.scores.cosines import (
    attribute_vectors,
    cosine,
    group_means,
    sum_by_group,
    text_cosine,
    text_word_cosine,
    uniform_weights,
    word_cosine,
)
from clinometer.studies.leaning.scores.design import EncoderEmbeddings, Layout
from clinometer.studies.leaning.scores.estimates import Drawn, Freedoms, TargetReplicates
from clinometer.studies.leaning.scores.pooled import ROWS, unit_rows
from clinometer.studies.leaning.scores.relabelling import ItemMeans

WHOLE = 2**24
"""Weights of a target that are drawn at once, where there are no more: 1,677 images with 10,000 replicates."""
PART = 2**22
"""Of more, so many at a time: 84 MB while they are drawn."""
VARIANCE_DRAWS = 1_000  # a variance from 1,000 replicates is off by 4 %, and enters degrees of freedom only


@dataclass(frozen=True)
class Draws:
    """Bootstrap weights, shared by all encoders: they look at the same images and words.

    Attributes
    ----------
    targets : (target, rows at a time) → the weights of its images (R × n_t), so many rows at a time.
    prompts : those of each attribute prompt as a target.
    images, words, fixed_words, encoders : over all attribute images, over words drawn and held, over encoders.
    """

    targets: Callable[[int, int], Iterator[np.ndarray]]
    prompts: tuple[np.ndarray, ...]
    images: np.ndarray
    words: np.ndarray
    fixed_words: np.ndarray
    encoders: np.ndarray
    freedoms: Freedoms


@dataclass(frozen=True)
class MeasuredTargets:
    """What one encoder, or the average of some, says of all targets.

    ``image_cosines`` : see :class:`clinometer.studies.leaning.scores.views.EncoderView`.
    """

    replicates: TargetReplicates
    image_cosines: tuple[np.ndarray, ...]
    items: ItemMeans


def measure_targets(
    encoders: Sequence[EncoderEmbeddings], pooled: Sequence[int], layout: Layout, draws: Draws
) -> tuple[MeasuredTargets, list[MeasuredTargets]]:
    """Measure the average of the ``pooled`` encoders, and each encoder."""
    readers, scratch = [_Reader(each, layout) for each in encoders], Scratch()
    views = [_View(layout, draws, scratch, reader.text_image, reader.text_word) for reader in readers]
    mean = views[pooled[0]]
    if len(pooled) > 1:
        texts = (np.mean([getattr(readers[i], of) for i in pooled], axis=0) for of in ("text_image", "text_word"))
        mean = _View(layout, draws, scratch, *texts)
    for t in range(len(layout.targets)):
        _measure_target(t, readers, views, mean, pooled)
        if mean not in views:
            mean.resample_encoders([views[i] for i in pooled])
        for view in {id(view): view for view in (mean, *views)}.values():
            view.put_away()
    found = [view.finished() for view in views]
    return (found[pooled[0]] if mean in views else mean.finished()), found


class _Reader:
    """The cosines of one encoder's images and texts with its attribute images and words."""

    def __init__(self, embeddings: EncoderEmbeddings, layout: Layout) -> None:
        self._images, self._words = attribute_vectors(embeddings, layout)
        self._n_words, n = sum(layout.word_counts), len(layout.targets)
        self.embeddings = embeddings
        texts = None if embeddings.target_texts is None else unit_rows(embeddings.target_texts)
        self.text_image = text_cosine(texts, self._images, n)
        self.text_word = text_word_cosine(texts, self._words, n, self._n_words)

    def cosines(self, images: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """With the attribute images and with the words: (n × images), (n × words)."""
        units = unit_rows(images)
        return cosine(units, self._images), word_cosine(units, self._words, self._n_words)


def _measure_target(
    t: int, readers: Sequence[_Reader], views: Sequence[_View], mean: _View, pooled: Sequence[int]
) -> None:
    """Read a target's images, a few at a time; then weigh them, a few replicates at a time."""
    size = sizes_of(readers[0].embeddings.target_images)[t]
    every = views if mean in views else [*views, mean]
    for view in every:
        view.begin(size)
    pieces = zip(*(pieces_of(reader.embeddings.target_images, t, ROWS) for reader in readers), strict=True)
    for first, images in zip(range(0, max(size, 1), ROWS), pieces, strict=True):
        pairs = [reader.cosines(x) for reader, x in zip(readers, images, strict=True)]
        for view, pair in zip(views, pairs, strict=True):
            view.add_images(first, *pair)
        if mean not in views:
            mean.add_images(first, *(np.mean([pairs[i][kind] for i in pooled], axis=0) for kind in (0, 1)))
    for view in every:
        view.end_images(t)
    _weigh(t, every)


def _weigh(t: int, views: Sequence[_View]) -> None:
    size, draws = len(views[0].gram), views[0].draws
    if not size:
        return
    total = len(draws.images)
    rows = total if total * size <= WHOLE else max(PART // size, 1)
    first = 0
    for weights in draws.targets(t, rows):
        for view in views:
            view.add_replicates(first, weights)
        first += len(weights)


class _View:
    """The numbers of one view as they come: the estimate, replicates put away, and the numbers of the target in hand.

    ``text_image``, ``text_word`` : cosines of the targets' texts, (T × attribute images) and (T × words).
    """

    def __init__(
        self, layout: Layout, draws: Draws, scratch: Scratch, text_image: np.ndarray, text_word: np.ndarray
    ) -> None:
        self.layout, self.draws, self._scratch = layout, draws, scratch
        self._uniform = uniform_weights(layout, ())
        self._held_images = self._uniform.images.astype(np.float32)
        self._replicates, n_groups = len(draws.images), len(layout.groups)
        self._held_rows = min(VARIANCE_DRAWS, self._replicates)
        self.point = np.full((len(layout.targets), 4, n_groups), np.nan)
        self._texts = text_image, text_word
        self._text_tensors = self._resampled_texts()
        self._drawn: list[Drawn] = []
        self._groups: list[np.ndarray] = []
        self._means: list[tuple[np.ndarray, np.ndarray]] = []

    # --- a target's images -------------------------------------------------------------------------------------

    def begin(self, size: int) -> None:
        """Make room for a target of so many images, and read what the texts say of it."""
        columns = sum(self.layout.image_counts), sum(self.layout.word_counts)
        self.gram, self._words = (np.empty((size, width), np.float32) for width in columns)
        self._sums = [np.zeros(width) for width in columns]
        self._weighed = [np.zeros((1, width)) for width in columns]
        self._groups.append(np.empty((size, 2, len(self.layout.groups))))
        shape, t = (4, len(self.layout.groups)), len(self._drawn)
        self.images, self.stimulus = (np.full((self._replicates, *shape), np.nan, np.float32) for _ in range(2))
        self.held = np.full((self._held_rows, *shape), np.nan, np.float32)
        for tensor, texts in zip((self.images, self.stimulus, self.held), self._text_tensors, strict=True):
            for m, by_group in texts.items():
                for g, kept in enumerate(by_group):
                    if kept is not None:
                        tensor[:, m, g] = kept.read(t, t + 1)[0]

    def add_images(self, first: int, gram: np.ndarray, words: np.ndarray) -> None:
        """Take the cosines of some of its images, from position ``first`` on."""
        rows = slice(first, first + len(gram))
        self.gram[rows], self._words[rows] = gram, words
        self._groups[-1][rows, 0] = group_means(gram, self.layout.image_slices)
        self._groups[-1][rows, 1] = group_means(words, self.layout.word_slices)
        weights = np.full((1, len(gram)), 1 / max(len(self.gram), 1))
        for kind, block in enumerate((gram, words)):
            self._sums[kind] += block.sum(axis=0)
            self._weighed[kind] += matmul(weights, block)

    def end_images(self, t: int) -> None:
        """Keep what the estimate and the labels need of them."""
        size = len(self.gram)
        with np.errstate(invalid="ignore"):
            self._means.append(tuple(total / size if size else np.full_like(total, np.nan) for total in self._sums))  # type: ignore[arg-type]
        if size:
            sum_by_group(self._weighed[0], self._uniform.images, self.layout.image_slices, self.point[None, t, 0])
            sum_by_group(self._weighed[1], self._uniform.words, self.layout.word_slices, self.point[None, t, 2])

    def add_replicates(self, first: int, weights: np.ndarray) -> None:
        """Weigh the images of the target in hand in the replicates from ``first`` on."""
        rows, layout, draws = slice(first, first + len(weights)), self.layout, self.draws
        by_image, by_word = matmul(weights, self.gram), matmul(weights, self._words)
        sum_by_group(by_image, draws.images[rows], layout.image_slices, self.images[rows, 0])
        self.stimulus[rows, 0] = self.images[rows, 0]
        sum_by_group(by_word, draws.fixed_words, layout.word_slices, self.images[rows, 2])
        sum_by_group(by_word, draws.words[rows], layout.word_slices, self.stimulus[rows, 2])
        some = weights[: max(len(self.held) - first, 0)]
        if len(some):
            held = self.held[first : first + len(some)]
            sum_by_group(matmul(some, self.gram), self._held_images, layout.image_slices, held[:, 0])
            sum_by_group(matmul(some, self._words), draws.fixed_words, layout.word_slices, held[:, 2])

    def resample_encoders(self, parts: Sequence[_View]) -> None:
        """Replicates of an average over stimuli: those of its encoders, which are resampled as well."""
        self.stimulus = np.zeros_like(parts[0].stimulus)
        for part, weight in zip(parts, self.draws.encoders.T, strict=True):
            self.stimulus += part.stimulus * weight[:, None, None].astype(self.stimulus.dtype)

    def put_away(self) -> None:
        """Put the replicates of the target in hand away."""
        self._drawn.append(Drawn(*map(self._scratch.keep, (self.images, self.stimulus, self.held))))

    # --- texts -------------------------------------------------------------------------------------------------

    def _resampled_texts(self) -> list[dict[int, list[Kept | None]]]:
        """What the texts say of every target, (T × replicates) a group, by modality: in images, stimulus and held."""
        draws, layout = self.draws, self.layout
        images = partial(_by_group, self._texts[0], layout.image_slices)
        words = partial(_by_group, self._texts[1], layout.word_slices)
        for m, found in ((1, images(self._uniform.images)), (3, words(self._uniform.words))):
            for g, column in enumerate(found):
                if column is not None:
                    self.point[:, m, g] = column[:, 0]

        def kept(found: Iterator[np.ndarray | None]) -> list[Kept | None]:
            return [None if each is None else self._scratch.keep(each) for each in found]

        itp, tt = kept(images(draws.images)), kept(words(draws.fixed_words))
        return [{1: itp, 3: tt}, {1: itp, 3: kept(words(draws.words))}, {1: kept(images(self._held_images)), 3: tt}]

    def finished(self) -> MeasuredTargets:
        """What was measured."""
        images, words = (np.stack([means[kind] for means in self._means]) for kind in (0, 1))
        return MeasuredTargets(
            TargetReplicates(self.point, self._drawn, self.draws.freedoms),
            tuple(self._groups),
            ItemMeans(np.stack([images, self._texts[0]]), np.stack([words, self._texts[1]])),
        )


def _by_group(texts: np.ndarray, slices: Sequence[slice], weights: np.ndarray) -> Iterator[np.ndarray | None]:
    """Mean cosines of the texts to each group under R rows of weights, (T × R); None of a group without items."""
    for columns in slices:
        filled = columns.stop > columns.start
        yield matmul(weights[:, columns], texts[:, columns].T.astype(weights.dtype)).T if filled else None
