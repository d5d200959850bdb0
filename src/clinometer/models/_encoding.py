"""What every encoder does alike: inputs in batches of a fixed size, and an eye on the length of texts."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import TypeVar

import numpy as np

from clinometer._torch import torch

Item = TypeVar("Item")

IMAGE_BATCH = 32
TEXT_BATCH = 64


class TruncationWarning(UserWarning):
    """A text is longer than an encoder reads, and its end does not count."""


def encode_in_batches(
    items: Sequence[Item], embed: Callable[[list[Item]], torch.Tensor], *, batch_size: int, dimension: int
) -> np.ndarray:
    """Embed items a batch at a time: (len(items), dimension) float32.

    The batches are of a fixed size, whatever the caller hands over at once; a row then depends on its batch
    by floating-point noise at most.
    """
    if not len(items):
        return np.empty((0, dimension), dtype=np.float32)
    with torch.inference_mode():
        parts = [
            embed(list(items[start : start + batch_size])).float().cpu().numpy()
            for start in range(0, len(items), batch_size)
        ]
    return np.concatenate(parts).astype(np.float32, copy=False)


def warn_of_truncation(texts: Sequence[str], too_long: Sequence[bool], context_length: int) -> None:
    """Warn once, naming the first text that is cut."""
    cut = [text for text, long in zip(texts, too_long, strict=True) if long]
    if cut:
        more = f" and {len(cut) - 1} more" if len(cut) > 1 else ""
        warnings.warn(
            f"only the first {context_length} tokens of {cut[0][:60]!r}{more} are encoded; shorten the text",
            TruncationWarning,
            stacklevel=3,
        )
