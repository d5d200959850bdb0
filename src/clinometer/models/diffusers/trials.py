"""The timesteps and the noise of a Monte-Carlo estimate: spread evenly, and the same for every class.

Trial i of an image looks at the fraction ``(r(i) + u) mod 1`` of the noise schedule: u is the image's own uniform
start, and r the radical inverse of i in base 10 with its digits permuted (van der Corput 1935; Faure 1992). So the
first 10, 100, … trials hold exactly one fraction in each tenth, hundredth, … of the schedule, any other number nearly
so, and each trial by itself is uniform: the mean over any prefix of the trials is an unbiased estimate.

Everything follows from (seed, image, trial), by hashes, on the CPU; neither batch, worker nor device enters.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence

import numpy as np

from clinometer._torch import torch

BASE = 10
DIGITS = np.array([0, 5, 2, 7, 4, 9, 1, 6, 3, 8])
"""Which tenth comes when: any few in a row lie far apart."""


def fractions(seed: int, image: str, trials: int) -> np.ndarray:
    """Fractions of the noise schedule that an image's trials look at: (trials,) float64 in [0, 1).

    >>> sorted((10 * fractions(0, "an image", 10)).astype(int).tolist())
    [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]
    """
    start = _hash("start", seed, image) / 2**64
    spread = np.zeros(trials)
    number, scale = np.arange(trials), 1.0
    while number.any():
        scale /= BASE
        spread += DIGITS[number % BASE] * scale
        number = number // BASE
    return np.asarray((spread + start) % 1.0)


def noise(seed: int, image: str, timestep: float, trial: int, shape: Sequence[int]) -> torch.Tensor:
    """Standard normal noise of one trial: float32 of the given shape.

    torch's CPU generator uses the low 32 bits of a seed.
    """
    generator = torch.Generator("cpu").manual_seed(_hash("noise", seed, image, timestep, trial) & 0xFFFFFFFF)
    return torch.randn(tuple(shape), generator=generator, dtype=torch.float32)


def _hash(*key: str | float) -> int:
    return int.from_bytes(hashlib.sha256(json.dumps(key).encode()).digest()[:8])
