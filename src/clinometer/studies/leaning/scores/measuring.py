"""Measure the images of one target: which of them count, and all that a study needs from their vectors.

An image enters the study as a row of cosines with all attribute images and words, and in every bootstrap replicate as
a weight: 43 kB an image with 10,000 replicates and 400 attribute items, none of which is needed once its target is
measured. What stays is each image's mean cosines to the groups, 32 bytes of two, its match with the prompts, and the
target's replicates, 0.3 MB a view, where there are some. No target needs another one, so targets can be measured by any
process, in any order: see :mod:`clinometer.studies.leaning.scores.views` for what becomes of them. See decision 34.

Pictures that are there more than once, as a fixed seed or a cache gives them, or nearly, as where they were saved
again, each count once. What is one picture is decided by the vectors of all encoders together, within a target and
within an attribute prompt. Twenty pictures of which four differ are a sample of four. Pictures that come in batches are
a sample of batches. See :mod:`clinometer.stats.dependence` for both.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from itertools import count

import numpy as np

from clinometer._cores import available_cores, mapped_by_threads
from clinometer.stats.association import matmul, unit_vectors
from clinometer.stats.blocks import chosen, pieces_of, sizes_of
from clinometer.stats.dependence import DrawOrder, different, draw_order, drawn_once, first_of_each, linked, sketches
from clinometer.studies.leaning.scores.cosines import (
    attribute_vectors,
    averaged_embeddings,
    cosine,
    group_means,
    sum_by_group,
    uniform_weights,
    weigh,
    word_cosine,
)
from clinometer.studies.leaning.scores.design import (
    Design,
    EncoderEmbeddings,
    Layout,
    check_target,
    layout_of,
    pooled_encoders,
    unit_rows,
)

ROWS = 4096
"""Images whose unit vectors are held at once."""
WHOLE = 2**24
"""Weights of a target that are made at once, where there are no more: 1,677 images with 10,000 replicates."""
PART = 2**22
"""Weights made at a time where there are more: 84 MB while they are made."""
AHEAD = 2**25
"""Weights that threads make side by side, if each makes no more than one target's: 134 MB."""


IMAGED = (0, 2)
"""The modalities that target images enter: ii and ita."""


@dataclass(frozen=True)
class ReplicateWeights:
    """Bootstrap weights, shared by all encoders: they look at the same images and words.

    Attributes
    ----------
    targets : (target, rows at a time) → the weights of its images (R × n_t), so many rows at a time.
    prompts : those of each attribute prompt as a target.
    images, words, fixed_words, encoders : of all attribute images, of words resampled and held fixed, of encoders.
    """

    targets: Callable[[int, int], Iterator[np.ndarray]]
    prompts: tuple[np.ndarray, ...]
    images: np.ndarray
    words: np.ndarray
    fixed_words: np.ndarray
    encoders: np.ndarray


@dataclass(frozen=True)
class OwnText:
    """How the images of a target match the texts of all targets.

    Attributes
    ----------
    ranks : of each image, the place of its own text among all different ones, by cosine; 1 is the nearest.
    gains : of each target's text and image (T × n), the cosine less the image's mean over the texts.
    """

    ranks: np.ndarray
    gains: np.ndarray


@dataclass(frozen=True)
class SeenTarget:
    """A target as one encoder, or the average of some, sees it; n images, G groups, R replicates.

    Attributes
    ----------
    image_cosines : mean cosines of each image to the images and to the words of every group, (n × 2 × G).
    items : mean cosine of each attribute image, and of each word, to the target's images.
    point, images, stimulus : mean cosines in the modalities that images enter, (2 × G) and (R × 2 × G): the estimate,
        and its replicates over images and over stimuli; R may be 0.
    own_text : None where the view reads no text, or a single one, and where it is not needed.
    """

    image_cosines: np.ndarray
    items: tuple[np.ndarray, np.ndarray]
    point: np.ndarray
    images: np.ndarray
    stimulus: np.ndarray
    own_text: OwnText | None


@dataclass(frozen=True)
class MeasuredTarget:
    """What was measured of one target.

    Attributes
    ----------
    mean : as the average of the encoders sees it; None where a single one counts, which is its own average.
    by_encoder : as each encoder sees it.
    blanks : of each image, the cosine with its target's text and with the blank prompt, averaged over the encoders
        that have both; empty where none has.
    """

    mean: SeenTarget | None
    by_encoder: tuple[SeenTarget, ...]
    blanks: tuple[np.ndarray, np.ndarray]


@dataclass(frozen=True)
class Texts:
    """The different texts of the targets, as unit vectors, and the position of each target's own."""

    units: np.ndarray
    positions: np.ndarray


def texts_of(encoder: EncoderEmbeddings) -> Texts | None:
    """Collect the targets' different texts; None where there are fewer than two."""
    if encoder.target_texts is None:
        return None
    units, positions = np.unique(unit_rows(encoder.target_texts), axis=0, return_inverse=True)
    return Texts(units, positions.ravel()) if len(units) > 1 else None


class Measurer:
    """Measures targets by their number. No two of them share anything but what is read here.

    Parameters
    ----------
    encoders : their attribute images and texts, and the images of the targets that are asked for.
    replicate_weights : None where intervals need no replicates.
    own_texts : whether images are compared with the texts of all targets and the blank prompt.
    check : the design, where no image of a target has been looked at yet.
    """

    def __init__(
        self,
        encoders: Sequence[EncoderEmbeddings],
        layout: Layout,
        replicate_weights: ReplicateWeights | None = None,
        *,
        own_texts: bool = True,
        check: Design | None = None,
    ) -> None:
        self._layout, self._replicate_weights = layout, replicate_weights
        self._own_texts, self._check = own_texts, check
        self._encoders = [(encoder, *attribute_vectors(encoder, layout)) for encoder in encoders]
        self._pooled = pooled_encoders(encoders)
        unseen = [replace(encoder, target_images=()) for encoder in encoders] if own_texts else []
        self._texts = [texts_of(encoder) for encoder in unseen]
        self._mean_texts = texts_of(averaged_embeddings(unseen)) if len(self._pooled) > 1 and own_texts else None

    def __call__(self, t: int) -> MeasuredTarget:
        """Read a target's images, a few at a time; then weigh them, a few replicates at a time."""
        images = [encoder.target_images for encoder, *_ in self._encoders]
        if self._check is not None:
            for encoder, *_ in self._encoders:
                check_target(encoder, self._check, t, encoder.target_images[t])
        size = sizes_of(images[0])[t]
        by_encoder = [_View(self._layout, self._replicate_weights, size) for _ in images]
        mean = _View(self._layout, self._replicate_weights, size) if len(self._pooled) > 1 else None
        blanks = []
        pieces = zip(*(pieces_of(of_encoder, t, ROWS) for of_encoder in images), strict=True)
        for first, vectors in zip(range(0, max(size, 1), ROWS), pieces, strict=True):
            units = [unit_rows(rows) for rows in vectors]
            self._add_cosines(mean, by_encoder, first, units)
            if self._own_texts:
                self._add_own_texts(mean, by_encoder, t, units)
                blanks.append(self._blanks(t, units))
        if size and self._replicate_weights is not None:
            total, start = len(self._replicate_weights.images), 0
            rows_at_once = total if total * size <= WHOLE else max(PART // size, 1)
            for weights in self._replicate_weights.targets(t, rows_at_once):
                for view in (*by_encoder, *([] if mean is None else [mean])):
                    view.add_replicates(start, weights)
                start += len(weights)
        own_text, blank = (
            (np.concatenate(cosines) for cosines in zip(*blanks, strict=True)) if blanks else (np.empty(0),) * 2
        )
        seen = tuple(view.finish() for view in by_encoder)
        return MeasuredTarget(None if mean is None else mean.finish(), seen, (own_text, blank))

    def every_target(self) -> Iterator[tuple[int, MeasuredTarget]]:
        """Measure every target, in order, each with its number, by as many threads as there are cores and room for."""
        layout, weights = self._layout, self._replicate_weights
        rows, targets = sum(layout.image_counts) if weights is None else len(weights.images), range(len(layout.targets))
        of_a_target = min(rows * max(layout.target_sizes), WHOLE)
        threads = min(available_cores(), len(targets), max(AHEAD // max(of_a_target, 1), 1))
        yield from zip(targets, mapped_by_threads(self, targets, threads), strict=True)

    def _add_cosines(
        self, mean: _View | None, by_encoder: Sequence[_View], first: int, units: Sequence[np.ndarray]
    ) -> None:
        n_words = sum(self._layout.word_counts)
        pairs = [
            (cosine(rows, images), word_cosine(rows, words, n_words))
            for (_, images, words), rows in zip(self._encoders, units, strict=True)
        ]
        for view, pair in zip(by_encoder, pairs, strict=True):
            view.add_images(first, *pair)
        if mean is not None:
            mean.add_images(first, *(np.mean([pairs[i][kind] for i in self._pooled], axis=0) for kind in (0, 1)))

    def _add_own_texts(
        self, mean: _View | None, by_encoder: Sequence[_View], t: int, units: Sequence[np.ndarray]
    ) -> None:
        for view, texts, rows in zip(by_encoder, self._texts, units, strict=True):
            if texts is not None:
                view.add_own_text(rows @ texts.units.T, texts.positions, t)
        if mean is not None and (together := self._mean_texts) is not None:
            side_by_side = np.concatenate([units[i] for i in self._pooled], axis=1)
            mean.add_own_text(unit_rows(side_by_side) @ together.units.T, together.positions, t)

    def _blanks(self, t: int, units: Sequence[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
        both = []
        for (e, *_), rows in zip(self._encoders, units, strict=True):
            if e.reads_text and e.target_texts is not None and e.blank_text is not None and len(rows):
                both.append(rows @ unit_vectors(np.stack([e.target_texts[t], e.blank_text])).T)
        if not both:
            return np.empty(0), np.empty(0)
        own_text, blank = np.mean(both, axis=0).T
        return own_text, blank


class _View:
    """The numbers of one view of a target of so many images, as they come."""

    def __init__(self, layout: Layout, replicate_weights: ReplicateWeights | None, size: int) -> None:
        self._layout, self._replicate_weights, self.size = layout, replicate_weights, size
        self._uniform = uniform_weights(layout, ())
        columns, groups = (sum(layout.image_counts), sum(layout.word_counts)), len(layout.groups)
        self._gram, self._words = (np.empty((size if replicate_weights else 0, width), np.float32) for width in columns)
        self._sums = [np.zeros(width) for width in columns]
        self._weighed = [np.zeros((1, width)) for width in columns]
        self._groups = np.empty((size, 2, groups))
        self._images, self._stimulus = (
            np.full((len(replicate_weights.images) if replicate_weights else 0, 2, groups), np.nan, np.float32)
            for _ in ("images", "stimuli")
        )
        self._own_texts: list[tuple[np.ndarray, np.ndarray]] = []

    def add_images(self, first: int, gram: np.ndarray, words: np.ndarray) -> None:
        """Add the cosines of some of its images, from position ``first`` on."""
        rows = slice(first, first + len(gram))
        if self._replicate_weights:
            self._gram[rows], self._words[rows] = gram, words
        self._groups[rows, 0] = group_means(gram, self._layout.image_slices)
        self._groups[rows, 1] = group_means(words, self._layout.word_slices)
        weights = np.full((1, len(gram)), 1 / max(self.size, 1))
        for kind, block in enumerate((gram, words)):
            self._sums[kind] += block.sum(axis=0)
            self._weighed[kind] += matmul(weights, block)

    def add_own_text(self, cosines: np.ndarray, positions: np.ndarray, t: int) -> None:
        """Add their cosines with the different texts: the rank of target t's, ties halved, and all less their mean."""
        mine = cosines[:, [positions[t]]]
        ranks = 1 + (cosines > mine).sum(axis=1) + ((cosines == mine).sum(axis=1) - 1) / 2
        self._own_texts.append((ranks, (cosines - cosines.mean(axis=1)[:, None])[:, positions].T))

    def add_replicates(self, first: int, weights: np.ndarray) -> None:
        """Weigh the images in the replicates from ``first`` on."""
        rows, layout, replicate_weights = slice(first, first + len(weights)), self._layout, self._replicate_weights
        assert replicate_weights is not None
        by_image, by_word = weigh(weights, self._gram), weigh(weights, self._words)
        sum_by_group(by_image, replicate_weights.images[rows], layout.image_slices, self._images[rows, 0])
        self._stimulus[rows, 0] = self._images[rows, 0]
        sum_by_group(by_word, replicate_weights.fixed_words, layout.word_slices, self._images[rows, 1])
        sum_by_group(by_word, replicate_weights.words[rows], layout.word_slices, self._stimulus[rows, 1])

    def finish(self) -> SeenTarget:
        """Return what was measured."""
        size = self.size
        point = np.full((2, len(self._layout.groups)), np.nan)
        if size:
            sum_by_group(self._weighed[0], self._uniform.images, self._layout.image_slices, point[None, 0])
            sum_by_group(self._weighed[1], self._uniform.words, self._layout.word_slices, point[None, 1])
        images, words = (total / size if size else np.full_like(total, np.nan) for total in self._sums)
        own_text = OwnText(*map(np.hstack, zip(*self._own_texts, strict=True))) if self._own_texts else None
        return SeenTarget(self._groups, (images, words), point, self._images, self._stimulus, own_text)


# --- which pictures count --------------------------------------------------------------------------------------------

MOST_REPEATED = 1.1
"""How often a target's pictures may have been drawn, on average, for their order to be looked at."""


@dataclass(frozen=True)
class CountedPictures:
    """Which pictures of each target are evidence.

    Attributes
    ----------
    kept : their positions; None for all.
    copies : how often each of them was drawn.
    batches : the batch of each; None where each is one by itself.
    order : what their order said, where it was asked.
    joined : the positions of pictures that are one.
    """

    kept: tuple[np.ndarray | None, ...]
    copies: tuple[np.ndarray, ...]
    batches: tuple[np.ndarray, ...] | None = None
    order: DrawOrder | None = None
    joined: tuple[tuple[np.ndarray, ...], ...] = ()


def counted_once(
    encoders: Sequence[EncoderEmbeddings], design: Design, counted: CountedPictures | None = None
) -> list[EncoderEmbeddings]:
    """Remove repeated pictures, note in ``target_copies`` how often each was drawn, and find its batch.

    All encoders have looked at the same pictures in one order. Embeddings that all differ are returned as they are.
    ``counted`` : what :func:`pictures_that_count` says; then no image of a target is read.

    Raises
    ------
    InvalidInputError
        As ``layout_of``.
    """
    if all(encoder.all_differ for encoder in encoders):
        return list(encoders)
    layout_of(encoders, design, targets=False)
    counted = counted or pictures_that_count(encoders, design)
    positions = _different_of_groups(encoders)
    return [_keep(encoder, counted, positions) for encoder in encoders]


def pairs_counted_once(
    first: Sequence[EncoderEmbeddings], second: Sequence[EncoderEmbeddings]
) -> tuple[list[EncoderEmbeddings], list[EncoderEmbeddings]]:
    """Leave each pair in once, of two runs whose i-th pictures are partners, where either is new in its own run.

    Twenty different pictures less twenty times the same one are no twenty differences: what the one picture is off by
    is in all of them. Pairs are of one batch where either of their pictures are, and where another pair links them.
    """

    def both(images: Sequence[Sequence[Sequence[np.ndarray]]], at: int) -> np.ndarray:
        seen = zip(images, (first, second), strict=True)
        return reduce(np.intersect1d, (_different([x[at] for x in of_run], run) for of_run, run in seen))

    targets = range(len(first[0].target_images))
    images = [[encoder.target_images for encoder in run] for run in (first, second)]
    kept = tuple(both(images, t) for t in targets)
    copies = tuple(np.ones(len(positions), int) for positions in kept)
    for counts, drawn in zip(copies, sizes_of(first[0].target_images), strict=True):
        counts[:1] += drawn - len(counts)  # all that were drawn: which pair repeats does not matter
    groups = {
        group: [
            both([[encoder.group_images[group] for encoder in run] for run in (first, second)], p)
            for p in range(len(prompts))
        ]
        for group, prompts in first[0].group_images.items()
    }
    labels = [run[0].target_batches for run in (first, second) if run[0].target_batches]
    batches = tuple(linked([of_run[t] for of_run in labels])[at] for t, at in enumerate(kept)) if labels else None
    counted = CountedPictures(kept, copies, batches)
    one, other = ([_keep(encoder, counted, groups) for encoder in run] for run in (first, second))
    return one, other


def pictures_that_count(encoders: Sequence[EncoderEmbeddings], design: Design) -> CountedPictures:
    """Find which pictures of each target count, how often each was drawn, and the batches that they came in.

    Every vector is checked on the way. Where nobody knows of batches, the order of the pictures is asked.
    """
    kept, copies, shown = list[np.ndarray | None](), list[np.ndarray](), list[np.ndarray]()
    joined = list[tuple[np.ndarray, ...]]()
    asks_order = encoders[0].target_batches is None
    readers = [encoders[i] for i in pooled_encoders(encoders)] if asks_order else []
    of_groups = _different_of_groups(encoders) if asks_order else {}
    means = [_group_means(encoder, design, of_groups) for encoder in readers]
    for t in range(len(design.targets)):
        places, cosines = [], list[np.ndarray]()
        for encoder in encoders:
            marks, nearness = list[np.ndarray](), list[np.ndarray]()
            towards = next((mean for reader, mean in zip(readers, means, strict=True) if reader is encoder), None)
            for first, vectors in zip(count(0, ROWS), pieces_of(encoder.target_images, t, ROWS), strict=False):
                check_target(encoder, design, t, vectors, first)
                marks.append(sketches(vectors))
                if towards is not None:
                    nearness.append(unit_rows(vectors) @ np.broadcast_to(towards, (vectors.shape[1], towards.shape[1])))
            places.append(np.concatenate(marks))
            cosines += [np.concatenate(nearness)] if nearness else []
        drawn = encoders[0].target_copies
        limits = [encoder.saved_again for encoder in encoders]
        owners = first_of_each(places, limits)
        positions, counts = different(owners, None if drawn is None else drawn[t])
        joined.append(tuple(np.flatnonzero(owners == at) for at in positions[np.bincount(owners)[positions] > 1]))
        kept.append(None if len(positions) == len(places[0]) else positions)
        copies.append(counts)
        if asks_order:
            shown.append(np.mean(cosines, axis=0)[positions])
    batches, order = encoders[0].target_batches, None
    if asks_order:
        at = [np.arange(len(x)) if positions is None else positions for positions, x in zip(kept, shown, strict=True)]
        # Of pictures that repeat, those that are rare are new early on: the order of the first ones is not of chance
        asked = [t for t, counts in enumerate(copies) if counts.sum() <= MOST_REPEATED * len(counts)]
        order = draw_order([shown[t] for t in asked], [at[t] for t in asked])
        batches = tuple(map(order.labels, at)) if order.in_batches else None
    elif batches is not None:
        batches = tuple(x if at is None else x[at] for x, at in zip(batches, kept, strict=True))
    return CountedPictures(tuple(kept), tuple(copies), batches, order, tuple(joined))


def _different(images: Sequence[np.ndarray], encoders: Sequence[EncoderEmbeddings]) -> np.ndarray:
    """Find the positions of different pictures among those that some encoders have seen."""
    return drawn_once(list(map(sketches, images)), within=[encoder.saved_again for encoder in encoders])[0]


def _different_of_groups(encoders: Sequence[EncoderEmbeddings]) -> dict[str, list[np.ndarray]]:
    """Find the positions of different pictures of each attribute prompt, by group."""
    prompts = {group: range(len(of_group)) for group, of_group in encoders[0].group_images.items()}
    return {g: [_different([e.group_images[g][p] for e in encoders], encoders) for p in prompts[g]] for g in prompts}


def _group_means(encoder: EncoderEmbeddings, design: Design, kept: Mapping[str, Sequence[np.ndarray]]) -> np.ndarray:
    """Return what tells the groups apart: the mean of each one's images and words less that of all, (dim × groups)."""
    towards = list[np.ndarray]()
    for group in design.groups:
        images = [
            unit_rows(x[positions])
            for x, positions in zip(encoder.group_images[group], kept[group], strict=True)
            if len(x)
        ]
        words = [] if encoder.group_words is None else [unit_rows(encoder.group_words[group])]
        parts = [np.concatenate(some).mean(axis=0) for some in (images, words) if sum(map(len, some))]
        towards.append(np.sum(parts, axis=0) if parts else np.array(0.0))
    width = next((x.shape for x in towards if x.ndim), (1,))
    of_groups = np.stack([np.broadcast_to(x, width) for x in towards])
    return np.asarray((of_groups - of_groups.mean(axis=0)).T)


def _keep(
    encoder: EncoderEmbeddings, counted: CountedPictures, groups: Mapping[str, Sequence[np.ndarray]]
) -> EncoderEmbeddings:
    """Return embeddings with some pictures of the targets, and of each group's prompts, alone."""
    return replace(
        encoder,
        target_images=chosen(encoder.target_images, counted.kept),
        target_copies=counted.copies,
        target_batches=counted.batches,
        order=counted.order,
        joined=counted.joined,
        all_differ=True,
        group_images={
            g: tuple(x[kept] for x, kept in zip(encoder.group_images[g], positions, strict=True))
            for g, positions in groups.items()
        },
    )
