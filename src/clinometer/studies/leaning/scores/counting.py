"""Which pictures of a run count: each different one once, in the batches in which they came.

Pictures that are there more than once, as a fixed seed or a cache gives them, or nearly, as where they were saved
again, each count once. What is one picture is decided by the vectors of all encoders together, within a target and
within an attribute prompt. Twenty pictures of which four differ are a sample of four. Pictures that come in batches are
a sample of batches. See :mod:`clinometer.stats.dependence` for both.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from itertools import count

import numpy as np

from clinometer.stats.blocks import chosen, pieces_of, sizes_of
from clinometer.stats.dependence import DrawOrder, different, draw_order, drawn_once, first_of_each, linked, sketches
from clinometer.studies.leaning.scores.design import (
    Design,
    EncoderEmbeddings,
    check_target,
    layout_of,
    pooled_encoders,
    unit_rows,
)
from clinometer.studies.leaning.scores.measuring import ROWS

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
    encoders: Sequence[EncoderEmbeddings], design: Design, found: CountedPictures | None = None
) -> list[EncoderEmbeddings]:
    """Leave each picture in once, note in ``target_copies`` how often it was drawn, and find its batch.

    All encoders have looked at the same pictures in one order. Embeddings that all differ are returned as they are.
    ``found`` : what :func:`pictures_that_count` says; then no image of a target is read.

    Raises
    ------
    InvalidInputError
        As ``layout_of``.
    """
    if all(encoder.all_differ for encoder in encoders):
        return list(encoders)
    layout_of(encoders, design, targets=False)
    found = found or pictures_that_count(encoders, design)
    positions = _different_of_groups(encoders)
    return [_keep(encoder, found, positions) for encoder in encoders]


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
    copies = tuple(np.ones(len(own), int) for own in kept)
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
    batches = tuple(linked([own[t] for own in labels])[at] for t, at in enumerate(kept)) if labels else None
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
            marks, own = list[np.ndarray](), list[np.ndarray]()
            towards = next((mean for reader, mean in zip(readers, means, strict=True) if reader is encoder), None)
            for first, vectors in zip(count(0, ROWS), pieces_of(encoder.target_images, t, ROWS), strict=False):
                check_target(encoder, design, t, vectors, first)
                marks.append(sketches(vectors))
                if towards is not None:
                    own.append(unit_rows(vectors) @ np.broadcast_to(towards, (vectors.shape[1], towards.shape[1])))
            places.append(np.concatenate(marks))
            cosines += [np.concatenate(own)] if own else []
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
        at = [np.arange(len(x)) if own is None else own for own, x in zip(kept, shown, strict=True)]
        # Of pictures that repeat, those that are rare are new early on: the order of the first ones is not of chance
        asked = [t for t, counts in enumerate(copies) if counts.sum() <= MOST_REPEATED * len(counts)]
        order = draw_order([shown[t] for t in asked], [at[t] for t in asked])
        batches = tuple(map(order.labels, at)) if order.in_batches else None
    elif batches is not None:
        batches = tuple(x if own is None else x[own] for x, own in zip(batches, kept, strict=True))
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
