"""Made-up studies whose groups are cells of axes, for the tests of intersections."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any

import numpy as np

from clinometer.studies.leaning import Design, EncoderEmbeddings, TargetDesign

TWO = {"gender": ("man", "woman"), "tone": ("light", "dark")}
THREE = {"gender": ("man", "woman"), "tone": ("light", "medium", "dark")}


def cells_of(axes: Mapping[str, Sequence[str]]) -> dict[str, tuple[str, ...]]:
    """A group for every combination, named by its levels in turned order."""
    return {" ".join(reversed(levels)): levels for levels in product(*axes.values())}


def crossed_design(axes: Mapping[str, tuple[str, ...]] = TWO, targets: int = 6, **changes: Any) -> Design:
    cells = cells_of(axes)
    fields = {
        "targets": tuple(TargetDesign(f"t{i}", "c") for i in range(targets)), "groups": tuple(cells), "axes": axes,
        "cells": cells,
    }  # fmt: skip
    return Design(**(fields | changes))


def crossed_embeddings(
    design: Design, *, seed: int = 0, images: int = 12, attribute: int = 5, dim: int = 10, texts: bool = True
) -> EncoderEmbeddings:
    rng = np.random.default_rng(seed)

    def some(n: int) -> np.ndarray:
        return rng.normal(size=(n, dim)) + 1.0

    return EncoderEmbeddings(
        encoder=f"e{seed}",
        target_images=tuple(some(images) for _ in design.targets),
        target_texts=some(len(design.targets)) if texts else None,
        group_images={group: (some(attribute), some(attribute + 1)) for group in design.groups},
        group_words={group: some(4) for group in design.groups} if texts else None,
    )
