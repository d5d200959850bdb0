"""The embeddings behind a view: of one encoder, or of the average over encoders as one set of longer vectors."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from clinometer.metrics.records import MEAN
from clinometer.stats.association import unit_vectors
from clinometer.stats.blocks import mapped, pieces_of
from clinometer.studies.leaning.scores.design import EncoderEmbeddings

ROWS = 4096
"""Images whose unit vectors are held at once."""
_NUMBERS = 2**20


def by_view(encoders: Sequence[EncoderEmbeddings]) -> dict[str, EncoderEmbeddings]:
    """Embeddings by the name of the view: ``"mean"`` first, then each encoder's own."""
    return {MEAN: averaged_embeddings(encoders)} | {encoder.encoder: encoder for encoder in encoders}


def averaged_embeddings(encoders: Sequence[EncoderEmbeddings]) -> EncoderEmbeddings:
    """Embeddings whose cosines are those of the encoders, averaged: (items × sum of dimensions).

    Unit vectors of E encoders, set one behind the other, have the length √E, so that

    ::

        cos([x̂₁ … x̂_E], [ŷ₁ … ŷ_E]) = (1/E) Σ_e cos(x_e, y_e)

    As in a view, the average is over the encoders that read text; if none does, over all. Of a single one it is that
    encoder, by its own name. ``unfit`` holds what does not
    fit any of them.
    """
    pooled = [encoder for encoder in encoders if encoder.reads_text] or list(encoders)
    if len(pooled) == 1:
        return pooled[0]
    first = pooled[0]

    def texts(of: Callable[[EncoderEmbeddings], np.ndarray | None]) -> np.ndarray | None:
        arrays = [of(encoder) for encoder in pooled]
        return None if any(x is None for x in arrays) else _side_by_side([x for x in arrays if x is not None])

    def blank(encoder: EncoderEmbeddings) -> np.ndarray | None:
        return None if encoder.blank_text is None else encoder.blank_text[None]

    blanks = texts(blank)
    return EncoderEmbeddings(
        encoder=MEAN,
        target_images=mapped(lambda *parts: _side_by_side(parts), *(encoder.target_images for encoder in pooled)),
        target_texts=texts(lambda encoder: encoder.target_texts),
        group_images={
            group: tuple(map(_joined, zip(*(encoder.group_images[group] for encoder in pooled), strict=True)))
            for group in first.group_images
        },
        group_words=_groupwise([encoder.group_words for encoder in pooled]),
        blank_text=None if blanks is None else blanks[0],
        unfit={concept: reason for encoder in pooled for concept, reason in encoder.unfit.items()},
    )


def _groupwise(encoder_words: Sequence[Mapping[str, np.ndarray] | None]) -> dict[str, np.ndarray] | None:
    group_words = [by_group for by_group in encoder_words if by_group is not None]
    if len(group_words) < len(encoder_words):
        return None
    return {group: _side_by_side([by_group[group] for by_group in group_words]) for group in group_words[0]}


def _joined(parts: tuple[np.ndarray, ...]) -> np.ndarray:
    return _side_by_side(parts)


def _side_by_side(parts: Sequence[np.ndarray]) -> np.ndarray:
    """Unit vectors of the same items, one encoder's behind the other's."""
    return np.concatenate([unit_rows(x) for x in parts], axis=1)


def unit_rows(x: np.ndarray) -> np.ndarray:
    """Unit vectors, also of no rows at all; of many numbers some rows at a time, as each passes through copies."""
    at_once = max(_NUMBERS // max(x.shape[1], 1), 1)
    if len(x) <= at_once:
        return unit_vectors(x) if len(x) else np.asarray(x, np.float64)
    units = np.empty(x.shape)
    for first in range(0, len(x), at_once):
        units[first : first + at_once] = unit_vectors(x[first : first + at_once])
    return units


def cosines_with(images: np.ndarray, units: np.ndarray) -> np.ndarray:
    """Cosines of images (n × dim) with unit vectors (k × dim): (n × k), without all unit vectors of the images."""
    return np.concatenate([unit_rows(piece) @ units.T for piece in pieces_of((images,), 0, ROWS)])
