"""Pixels on their way to an encoder: bytes as long as they can be, numbers where the model is.

A preprocessor resizes and crops, and in the end maps every byte by itself::

    x  ↦  (x / divisor − mean_c) / std_c        for channel c

That last step is done by batch on the model's device. What waits for the model and moves to it is a quarter as large,
and less is left to the threads that prepare images, whose Python runs in turn with the model's.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from PIL import Image

from clinometer._torch import torch


@dataclass(frozen=True)
class Normalisation:
    """``(x / divisor − mean) / std`` of bytes, by channel."""

    divisor: float
    mean: tuple[float, ...]
    std: tuple[float, ...]

    def __call__(self, pixels: torch.Tensor) -> torch.Tensor:
        """Map (…, 3, height, width) uint8 to float32."""
        mean, std = _by_channel(self.mean, pixels.device), _by_channel(self.std, pixels.device)
        return pixels.float().div_(self.divisor).sub_(mean).div_(std)

    def explains(
        self, whole: Callable[[Image.Image], torch.Tensor], in_bytes: Callable[[Image.Image], torch.Tensor]
    ) -> bool:
        """Whether ``whole`` is this map after ``in_bytes``, bit for bit, by an image that holds every byte.

        The image has the size that comes out, so that resizing leaves its bytes as they are.
        """
        shape = in_bytes(Image.new("RGB", (64, 48))).shape
        if len(shape) != 3 or shape[0] != len(self.mean):
            return False
        probe = _every_byte(height=shape[1], width=shape[2])
        expected, raw = whole(probe), in_bytes(probe)
        return raw.dtype == torch.uint8 and raw.shape == expected.shape and torch.equal(self(raw), expected)


def size_left_alone(in_bytes: Callable[[Image.Image], torch.Tensor]) -> tuple[int, int] | None:
    """Width and height of the images whose bytes a preprocessor leaves as they are; None if it changes all.

    Most resize to one size and crop to it: an image that has it needs neither. Some crop after they enlarge.
    """
    _, height, width = in_bytes(Image.new("RGB", (64, 48))).shape
    probe = _every_byte(height=height, width=width)
    return (width, height) if torch.equal(in_bytes(probe), bytes_of([probe])[0]) else None


def bytes_of(images: Sequence[Image.Image]) -> torch.Tensor:
    """Stack RGB images of one size: (n, 3, height, width) uint8."""
    # contiguous: a convolution of other strides rounds otherwise
    return torch.from_numpy(np.stack([np.asarray(image) for image in images])).permute(0, 3, 1, 2).contiguous()


@lru_cache
def _by_channel(values: tuple[float, ...], device: torch.device) -> torch.Tensor:
    """Numbers that a device is given once: it would stop for them at every batch."""
    return torch.tensor(values, dtype=torch.float32, device=device)[:, None, None]


def _every_byte(*, height: int, width: int) -> Image.Image:
    """An image that counts on from byte to byte: 3 has no divisor in common with 256, so each channel holds all."""
    counted = np.arange(height * width * 3, dtype=np.uint32) % 256
    return Image.fromarray(counted.astype(np.uint8).reshape(height, width, 3))
