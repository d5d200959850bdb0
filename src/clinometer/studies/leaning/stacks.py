"""Vectors of a leaning run's samples, sorted by what they were drawn for."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence

import numpy as np

from clinometer.runs.plan import Sample
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


def _grouped(plan: Sequence[Sample], key: Callable[[Sample], Hashable]) -> Mapping[Hashable, list[Sample]]:
    grouped: dict[Hashable, list[Sample]] = {}
    for sample in plan:
        grouped.setdefault(key(sample), []).append(sample)
    return grouped
