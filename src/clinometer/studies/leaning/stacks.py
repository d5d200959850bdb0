"""Vectors of a leaning run's samples, sorted by what they were drawn for."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Final

import numpy as np

from clinometer.runs.plan import Plan
from clinometer.runs.store import Run
from clinometer.runs.vector_file import VectorFile
from clinometer.suites import LeaningSuite

_READ: Final = ("id", "seed", "concept", "group", "prompt")
"""What tells whose image a vector is."""


def stacked_images(
    plan: Plan, suite: LeaningSuite, vectors: Mapping[str, np.ndarray], *, width: int
) -> tuple[tuple[np.ndarray, ...], dict[str, tuple[np.ndarray, ...]]]:
    """The vectors that are there (by sample id): of each target, and of each attribute prompt of each group.

    In the plan's order, each (n, d); n may be 0, and d is then ``width``.
    """

    def stack(ids: Sequence[str]) -> np.ndarray:
        rows = [vectors[identifier] for identifier in ids if identifier in vectors]
        return np.stack(rows) if rows else np.zeros((0, width), np.float32)

    by_concept, by_prompt = dict[str, list[str]](), dict[tuple[str, str], list[str]]()
    for identifier, _, concept, group, prompt in plan.rows(*_READ):
        by_concept.setdefault(concept, []).append(identifier)
        by_prompt.setdefault((group, prompt), []).append(identifier)
    targets = tuple(stack(by_concept.get(target.name, [])) for target in suite.targets)
    groups = {
        name: tuple(stack(by_prompt.get((name, p.prompt), [])) for p in group.prompts)
        for name, group in suite.groups.items()
    }
    return targets, groups


def read_images(
    run: Run, suite: LeaningSuite, encoder: str, keep: Collection[int] | None
) -> tuple[VectorFile, dict[tuple[str, str], list[np.ndarray]]]:
    """The vectors of a run's images, read once: those of targets in a file, by name; of each group and prompt in lists.

    In the plan's order; with ``keep``, those of images with these seeds alone.

    Raises
    ------
    RunCorruptError
        A file is damaged, or lacks an image.
    """
    targets, groups = VectorFile(), dict[tuple[str, str], list[np.ndarray]]()
    names = {target.name for target in suite.targets}
    for part, vectors in run.embedding_parts(encoder):
        run.require_embedded(encoder, vectors, [part])
        concepts, ids = [], []
        for identifier, seed, concept, group, prompt in run.parts[part].rows(*_READ):
            if identifier not in vectors or not (keep is None or seed in keep):
                continue
            if group:
                groups.setdefault((group, prompt), []).append(vectors[identifier].copy())
            if concept in names:
                concepts.append(concept)
                ids.append(identifier)
        if ids:
            targets.add(concepts, np.stack([vectors[identifier] for identifier in ids]))
    return targets, groups
