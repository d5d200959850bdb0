"""What every encoder does alike: its options, inputs in batches of a fixed size, an eye on the length of texts."""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from clinometer._torch import resolve_device, resolve_dtype, torch
from clinometer.errors import ModelError

if TYPE_CHECKING:
    from PIL.Image import Image

    from clinometer.models.protocols import Card

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


class ImageEncoderBase(ABC):
    """An encoder of images in batches; its card's setting ``dimension`` is the length of a vector.

    Parameters
    ----------
    card : what it is.
    batch_size : images a forward pass.
    """

    def __init__(self, card: Card, *, batch_size: int) -> None:
        self.card = card
        self._batch_size = batch_size
        self._dimension = int(card.settings["dimension"])

    def encode_images(self, images: Sequence[Image]) -> np.ndarray:
        """Embed images of any mode and size: (n, d) float32, not normalised."""
        return encode_in_batches(images, self._embed_images, batch_size=self._batch_size, dimension=self._dimension)

    @abstractmethod
    def _embed_images(self, images: list[Image]) -> torch.Tensor:
        """Embed one batch: (n, d)."""


class DualEncoderBase(ImageEncoderBase):
    """An encoder of images and texts; its card's setting ``context_length`` is the tokens that it reads."""

    def __init__(self, card: Card, *, batch_size: int) -> None:
        super().__init__(card, batch_size=batch_size)
        self.context_length = int(card.settings["context_length"])

    def encode_texts(self, texts: Sequence[str]) -> np.ndarray:
        """Embed texts: (n, d) float32, not normalised. Text beyond the context is cut, with a warning."""
        warn_of_truncation(texts, self.exceeds_context(texts), self.context_length)
        return encode_in_batches(texts, self._embed_texts, batch_size=TEXT_BATCH, dimension=self._dimension)

    @abstractmethod
    def exceeds_context(self, texts: Sequence[str]) -> list[bool]:
        """Tell for each text whether its end is cut off."""

    @abstractmethod
    def _embed_texts(self, texts: list[str]) -> torch.Tensor:
        """Embed one batch: (n, d)."""


def resolve_options(
    batch_size: int | None, device: str | None, dtype: str | None
) -> tuple[int, torch.device, torch.dtype]:
    """Resolve the options that every encoder takes: batch size, device, precision.

    ``auto`` is float32 on every device: an encoder is a measuring instrument.

    Raises
    ------
    ModelError
        A batch of no image, or a device or a precision that there is not.
    """
    if batch_size is not None and batch_size < 1:
        raise ModelError(f"batch_size: found {batch_size}, expected 1 or more")
    chosen = resolve_device(device)
    return batch_size or IMAGE_BATCH, chosen, resolve_dtype("float32" if dtype in (None, "auto") else dtype, chosen)
