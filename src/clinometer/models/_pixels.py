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
        """Whether ``whole`` is this map after ``in_bytes``, bit for bit, for every byte in every channel."""
        probe = _probe()
        expected, raw = whole(probe), in_bytes(probe)
        if raw.dtype != torch.uint8 or raw.shape != expected.shape or raw.ndim != 3 or len(raw) != len(self.mean):
            return False
        return torch.equal(self(raw), expected)


@lru_cache
def _by_channel(values: tuple[float, ...], device: torch.device) -> torch.Tensor:
    """Numbers that a device is given once: it would stop for them at every batch."""
    return torch.tensor(values, dtype=torch.float32, device=device)[:, None, None]


def _probe() -> Image.Image:
    """An image larger than it is high, every channel a ramp in a direction of its own."""
    down, across = np.mgrid[0:256, 0:320]
    channels: Sequence[np.ndarray] = (down, across % 256, (down + across) % 256)
    return Image.fromarray(np.stack(channels, axis=-1).astype(np.uint8))
