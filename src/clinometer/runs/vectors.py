"""What an encoder gives, checked before it is stored."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from clinometer.errors import ModelError
from clinometer.models.protocols import Card

NO_VECTORS: Final = np.zeros((0, 1), np.float32)
"""Parquet has no vectors of no length."""


PROBED: Final = 4
"""Images, and texts, that are embedded a second time."""

EPSILON: Final = {"float32": 2.0**-23, "float16": 2.0**-10, "bfloat16": 2.0**-7}
"""The distance from 1 to the next number."""


class NoVectorsError(ModelError):
    """What an encoder gave is not what it was asked for."""


def require_vectors(output: Any, encoder: str, names: Sequence[str], width: int | None = None) -> np.ndarray:
    """What an encoder gave, as (n, d) float32: a vector for each name, of one width with those before.

    A vector with NaN or infinity, or of zeros, would poison every score it enters, and is refused where it arises,
    before it is stored. A text without a word may have no direction: scores leave the blank prompt out then.
    """
    vectors = shaped_vectors(output, encoder, names, width)
    not_finite = ~np.isfinite(vectors).all(axis=1)
    zero = ~vectors.any(axis=1) & np.array([bool(name.strip()) for name in names], bool)
    for bad, what in ((not_finite, "not finite"), (zero, "zero, and have no direction")):
        if bad.any():
            raise NoVectorsError(
                f"encoder {encoder}: {int(bad.sum())} of {len(vectors)} embeddings are {what}, first that of "
                f"{names[int(bad.argmax())]!r}: its weights are damaged, or too large for the precision it runs in"
            )
    return vectors


def require_same(first: np.ndarray, again: np.ndarray, card: Card, what: str) -> None:
    """Refuse an encoder that gives other vectors the second time, but for rounding: scores of it would mean nothing.

    ::

        |first − again| / |first| ≤ √ε        of the card's dtype, float32 where it names none
    """
    epsilon = EPSILON.get(str(card.settings.get("dtype")), EPSILON["float32"])
    first, again = np.nan_to_num(first), np.nan_to_num(again)
    lengths = np.maximum(np.linalg.norm(first, axis=1), np.finfo(np.float32).tiny)
    apart = float((np.linalg.norm(first.astype(float) - again, axis=1) / lengths).max(initial=0.0))
    if not apart <= epsilon**0.5:
        raise NoVectorsError(
            f"encoder {card.name}: one {what}, embedded twice, gives vectors that are {apart:.2g} of their length "
            "apart: they are random in part"
        )


def shaped_vectors(output: Any, encoder: str, names: Sequence[str], width: int | None = None) -> np.ndarray:
    """What an encoder gave, as (n, d) float32, whatever its numbers: one too few would give each its neighbour's."""
    try:
        vectors = np.asarray(output)
        with np.errstate(over="ignore"):  # named below
            vectors = vectors.astype(np.float32) if vectors.dtype.kind in "fiu" else np.zeros(())
    except (TypeError, ValueError, RuntimeError):  # a ragged list, a tensor with its gradient or on a device
        vectors = np.zeros(())
    if vectors.ndim != 2 or len(vectors) != len(names) or vectors.shape[1] != (width or vectors.shape[1] or -1):
        shape = f" of {output.dtype}, {tuple(output.shape)}" if hasattr(output, "shape") else ""
        raise NoVectorsError(
            f"encoder {encoder}: found {type(output).__name__}{shape}, expected an array of numbers, "
            f"({len(names)}, {width or 'dimension'}): a vector for each image or text, all of one length"
        )
    return vectors
