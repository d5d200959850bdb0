"""Pictures that are there more than once, as a fixed seed or a cache gives them: each counts once.

What is one picture is decided by the vectors of all encoders together (:mod:`clinometer.stats.distinct`), within a
target and within an attribute prompt. Twenty pictures of which four differ are a sample of four.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import reduce
from itertools import count

import numpy as np

from clinometer.stats.blocks import chosen, pieces_of, sizes_of
from clinometer.stats.distinct import drawn_once, signatures
from clinometer.studies.leaning.scores.design import Design, EncoderEmbeddings, check_target, layout_of
from clinometer.studies.leaning.scores.pooled import ROWS

Kept = tuple[np.ndarray | None, ...]
"""Of each target, the positions of the pictures that count; None for all."""

Found = tuple[Kept, tuple[np.ndarray, ...]]
"""Which pictures of each target count, and how often each of them was drawn."""


def counted_once(
    encoders: Sequence[EncoderEmbeddings], design: Design, found: Found | None = None
) -> list[EncoderEmbeddings]:
    """Leave each picture in once, and note in ``target_copies`` how often it was drawn.

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
    kept, copies = found or pictures_that_count(encoders, design)
    groups = {group: range(len(prompts)) for group, prompts in encoders[0].group_images.items()}
    positions = {
        g: [drawn_once([signatures(e.group_images[g][p]) for e in encoders])[0] for p in groups[g]] for g in groups
    }
    return [
        replace(
            _only(encoder, kept, copies),
            group_images={g: tuple(encoder.group_images[g][p][positions[g][p]] for p in groups[g]) for g in groups},
        )
        for encoder in encoders
    ]


def pairs_counted_once(
    first: Sequence[EncoderEmbeddings], second: Sequence[EncoderEmbeddings]
) -> tuple[list[EncoderEmbeddings], list[EncoderEmbeddings]]:
    """The same of two runs whose i-th pictures are partners: a pair counts where either is new in its own run.

    Twenty different pictures less twenty times the same one are no twenty differences: what the one picture is off by
    is in all of them.
    """

    def both(images: Sequence[Sequence[Sequence[np.ndarray]]], at: int) -> np.ndarray:
        return reduce(np.intersect1d, (drawn_once([signatures(x[at]) for x in of_run])[0] for of_run in images))

    targets = range(len(first[0].target_images))
    images = [[encoder.target_images for encoder in run] for run in (first, second)]
    kept = tuple(both(images, t) for t in targets)
    drawn = sizes_of(first[0].target_images)
    copies = tuple(_spread(len(own), drawn[t]) for t, own in enumerate(kept))
    groups = {
        group: [
            both([[encoder.group_images[group] for encoder in run] for run in (first, second)], p)
            for p in range(len(prompts))
        ]
        for group, prompts in first[0].group_images.items()
    }
    runs = [
        [
            replace(
                _only(encoder, kept, copies),
                group_images={
                    g: tuple(x[own] for x, own in zip(encoder.group_images[g], groups[g], strict=True)) for g in groups
                },
            )
            for encoder in run
        ]
        for run in (first, second)
    ]
    return runs[0], runs[1]


def pictures_that_count(encoders: Sequence[EncoderEmbeddings], design: Design) -> Found:
    """Which pictures of each target count, and how often each of them was drawn; every vector is checked on the way."""
    kept, copies = list[np.ndarray | None](), list[np.ndarray]()
    for t in range(len(design.targets)):
        places = []
        for encoder in encoders:
            pieces = zip(count(0, ROWS), pieces_of(encoder.target_images, t, ROWS), strict=False)
            places.append(np.concatenate([_checked_places(encoder, design, t, *piece) for piece in pieces]))
        drawn = encoders[0].target_copies
        positions, counts = drawn_once(places, None if drawn is None else drawn[t])
        kept.append(None if len(positions) == len(places[0]) else positions)
        copies.append(counts)
    return tuple(kept), tuple(copies)


def _checked_places(encoder: EncoderEmbeddings, design: Design, t: int, first: int, vectors: np.ndarray) -> np.ndarray:
    check_target(encoder, design, t, vectors, first)
    return signatures(vectors)


def _only(encoder: EncoderEmbeddings, kept: Kept, copies: tuple[np.ndarray, ...]) -> EncoderEmbeddings:
    """Embeddings of some pictures of the targets."""
    images = chosen(encoder.target_images, kept)
    return replace(encoder, target_images=images, target_copies=copies, all_differ=True)


def _spread(n: int, drawn: int) -> np.ndarray:
    """Counts of n pictures that sum to all that were drawn: of pairs nobody asks which is which."""
    counts = np.ones(n, int)
    if n:
        counts[0] += drawn - n
    return counts
