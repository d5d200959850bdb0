"""Vectors of a leaning run's samples, sorted by what they were drawn for."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Mapping, Sequence

import numpy as np

from clinometer.runs.plan import Sample
from clinometer.runs.store import Run
from clinometer.runs.vector_file import VectorFile
from clinometer.suites import LeaningSuite


def stacked_images(
    plan: Sequence[Sample], suite: LeaningSuite, vectors: Mapping[str, np.ndarray], *, width: int
) -> tuple[tuple[np.ndarray, ...], dict[str, tuple[np.ndarray, ...]]]:
    """The vectors that are there (by sample id): of each target, and of each attribute prompt of each group.

    In the plan's order, each (n, d); n may be 0, and d is then ``width``.
    """

    def stack(samples: Sequence[Sample]) -> np.ndarray:
        rows = [vectors[sample.id] for sample in samples if sample.id in vectors]
        return np.stack(rows) if rows else np.zeros((0, width), np.float32)

    by_concept = _grouped(plan, lambda sample: sample.concept)
    by_prompt = _grouped(plan, lambda sample: (sample.group, sample.prompt))
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
        samples = [s for s in run.parts[part] if s.id in vectors and (keep is None or s.seed in keep)]
        for sample in samples:
            if sample.group:
                groups.setdefault((sample.group, sample.prompt), []).append(vectors[sample.id].copy())
        of_targets = [sample for sample in samples if sample.concept in names]
        if of_targets:
            targets.add([s.concept for s in of_targets], np.stack([vectors[s.id] for s in of_targets]))
    return targets, groups


def _grouped(plan: Sequence[Sample], key: Callable[[Sample], Hashable]) -> Mapping[Hashable, list[Sample]]:
    grouped: dict[Hashable, list[Sample]] = {}
    for sample in plan:
        grouped.setdefault(key(sample), []).append(sample)
    return grouped
