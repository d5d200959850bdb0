"""The fixed part of a study: design, counts, settings."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from clinometer.errors import InvalidInputError
from clinometer.studies.leaning.scores.design import Design, Layout
from clinometer.studies.leaning.scores.relabelling import Pools


@dataclass(frozen=True)
class DrawSettings:
    """How much is drawn, from which seed; images from ``image_seed`` where it is given."""

    n_resamples: int
    n_permutations: int
    seed: int
    confidence: float
    image_seed: int | None = None

    def rng(self, *names: str) -> np.random.Generator:
        """Make a generator for one thing that is drawn: its draws depend on nothing else that is drawn."""
        return np.random.default_rng([self.seed, *"\0".join(names).encode()])

    def image_rng(self, *names: str) -> np.random.Generator:
        """The same for what images are resampled by."""
        seed = self.seed if self.image_seed is None else self.image_seed
        return replace(self, seed=seed).rng(*names)


def checked_settings(n_resamples: int, n_permutations: int, seed: int, confidence: float) -> DrawSettings:
    """Settings that can be drawn by.

    Raises
    ------
    InvalidInputError
        A count is too small, or the confidence no probability.
    """
    for name, number, least in (("n_resamples", n_resamples, 1), ("n_permutations", n_permutations, 0)):
        if number < least:
            raise InvalidInputError(f"{name}: expected at least {least}, found {number}")
    if not 0 < confidence < 1:
        raise InvalidInputError(f"confidence: expected a number between 0 and 1, found {confidence}")
    if seed < 0:
        raise InvalidInputError(f"seed: expected 0 or more, found {seed}")
    return DrawSettings(n_resamples, n_permutations, seed, confidence)


@dataclass(frozen=True)
class LeaningStudy:
    """What all parts of a study share: design, counts, settings, and which labels of a and b are exchangeable."""

    design: Design
    layout: Layout
    settings: DrawSettings
    pools: Pools

    @property
    def a(self) -> int:
        """Position of group a."""
        return self.design.index(self.design.a)

    @property
    def b(self) -> int:
        """Position of group b."""
        return self.design.index(self.design.b)

    @property
    def pair(self) -> tuple[int, int]:
        """Positions of groups a and b."""
        return self.a, self.b

    @property
    def everyone(self) -> tuple[int, ...]:
        """Positions of all groups."""
        return tuple(range(len(self.design.groups)))

    @property
    def target_numbers(self) -> range:
        """Positions of the targets."""
        return range(len(self.design.targets))
