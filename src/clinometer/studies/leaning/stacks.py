"""Vectors of a leaning run's samples, sorted by what they were drawn for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np

from clinometer.runs.plan import Plan
from clinometer.runs.scratch import VectorFile
from clinometer.runs.store import Run
from clinometer.stats.blocks import Blocks
from clinometer.suites import LeaningSuite


def stacked_images(
    plan: Plan, suite: LeaningSuite, vectors: Mapping[str, np.ndarray], *, width: int
) -> tuple[tuple[np.ndarray, ...], dict[str, tuple[np.ndarray, ...]]]:
    """Stack the vectors that are there (by sample id): of each target, and of each attribute prompt of each group.

    In the plan's order, each (n, d); n may be 0, and d is then ``width``.
    """

    def stack(ids: Sequence[str]) -> np.ndarray:
        rows = [vectors[identifier] for identifier in ids if identifier in vectors]
        return np.stack(rows) if rows else np.zeros((0, width), np.float32)

    by_concept, by_prompt = dict[str, list[str]](), dict[tuple[str, str], list[str]]()
    for identifier, concept, group, prompt in plan.rows("id", "concept", "group", "prompt"):
        by_concept.setdefault(concept, []).append(identifier)
        by_prompt.setdefault((group, prompt), []).append(identifier)
    targets = tuple(stack(by_concept.get(target.name, [])) for target in suite.targets)
    groups = {
        name: tuple(stack(by_prompt.get((name, p.prompt), [])) for p in group.prompts)
        for name, group in suite.groups.items()
    }
    return targets, groups


def read_images(
    run: Run, suite: LeaningSuite, encoder: str, keep: Collection[int] | None, repeats: Collection[str] = ()
) -> tuple[VectorFile, dict[tuple[str, str], list[np.ndarray]]]:
    """Read the vectors of a run's images once: of targets into a file, by name; of each group and prompt into lists.

    In the plan's order, without those of ``repeats`` (ids); with ``keep``, those of images with these seeds alone.

    Raises
    ------
    RunCorruptError
        A file is damaged, or lacks an image.
    """
    targets, groups = VectorFile(), dict[tuple[str, str], list[np.ndarray]]()
    names = {target.name for target in suite.targets}
    for _, rows, vectors in _read_parts(run, encoder, repeats=repeats):
        kept_rows = [row for row in rows if keep is None or row.seed in keep]
        _add_groups(groups, kept_rows, vectors)
        of_targets = [row for row in kept_rows if row.concept in names]
        if of_targets:
            targets.add([row.concept for row in of_targets], np.stack([vectors[row.id] for row in of_targets]))
    return targets, groups


@dataclass(frozen=True)
class ImageParts:
    """Which parts of a run hold images of groups, and which those of each target by name."""

    groups: tuple[int, ...]
    targets: Mapping[str, tuple[int, ...]]


def image_parts(run: Run, suite: LeaningSuite) -> ImageParts:
    """Find which parts of a run hold which images."""
    groups, targets = dict[int, None](), {target.name: dict[int, None]() for target in suite.targets}
    for part, concept, group in run.plan.rows("part", "concept", "group"):
        if group:
            groups[part] = None
        if concept in targets:
            targets[concept][part] = None
    return ImageParts(tuple(groups), {name: tuple(parts) for name, parts in targets.items()})


def read_group_images(
    run: Run, encoder: str, parts: ImageParts, repeats: Collection[str] = ()
) -> dict[tuple[str, str], list[np.ndarray]]:
    """Read those of groups alone: the parts without an image of a group are not read."""
    groups: dict[tuple[str, str], list[np.ndarray]] = {}
    for _, rows, vectors in _read_parts(run, encoder, parts.groups, repeats=repeats):
        _add_groups(groups, rows, vectors)
    return groups


class TargetVectors:
    """The vectors of targets' images, whose parts are read when one of their targets is first asked for.

    Parameters
    ----------
    sizes : how many images each target has, in the suite's order, without those of ``repeats`` (ids).
    width : of a vector.
    """

    def __init__(
        self,
        run: Run,
        encoder: str,
        parts: ImageParts,
        sizes: Sequence[int],
        width: int,
        repeats: Collection[str] = (),
    ) -> None:
        self._run, self._encoder, self._parts, self._width = run, encoder, parts.targets, width
        self._repeats = repeats
        self._names = list(parts.targets)
        self._file, self._parts_read = VectorFile(), set[int]()
        self.blocks: Final = Blocks(sizes, self._target, self._target)

    def _target(self, position: int, first: int = 0, stop: int | None = None) -> np.ndarray:
        """Return the vectors of a target, or those from one position to another."""
        name = self._names[position]
        self._read([part for part in self._parts[name] if part not in self._parts_read])
        return self._file.rows([(name, part) for part in self._parts[name]], self._width, first, stop)

    def _read(self, parts: Sequence[int]) -> None:
        for part, rows, vectors in _read_parts(self._run, self._encoder, parts, self._file.width, self._repeats):
            of_targets = [row for row in rows if row.concept in self._parts]
            if of_targets:
                self._file.add(
                    [(row.concept, part) for row in of_targets], np.stack([vectors[row.id] for row in of_targets])
                )
            self._parts_read.add(part)


def target_sizes(run: Run, suite: LeaningSuite, repeats: Collection[str] = ()) -> tuple[int, ...]:
    """Count each target's images by what became of the samples, without those of ``repeats`` (ids)."""
    rows = run.drawn.each(["id", "concept", "status"])
    counts = Counter(concept for key, concept, status in rows if status == "ok" and key not in repeats)
    return tuple(counts[target.name] for target in suite.targets)


def drawn_counts(run: Run, suite: LeaningSuite, repeats: Mapping[str, str]) -> tuple[np.ndarray, ...] | None:
    """Count how often each image of each target was drawn, in the plan's order; None where each was drawn once."""
    if not repeats:
        return None
    extra = Counter(repeats.values())
    counts: dict[str, list[int]] = {target.name: [] for target in suite.targets}
    for key, concept, status in run.drawn.each(["id", "concept", "status"]):
        if concept in counts and status == "ok" and key not in repeats:
            counts[concept].append(1 + extra[key])
    return tuple(np.array(of_target, int) for of_target in counts.values())


class _Row(NamedTuple):
    """What tells whose image a vector is."""

    id: str
    seed: int
    concept: str
    group: str
    prompt: str


def _read_parts(
    run: Run,
    encoder: str,
    parts: Sequence[int] | None = None,
    width: int = 0,
    repeats: Collection[str] = (),
) -> Iterator[tuple[int, list[_Row], Mapping[str, np.ndarray]]]:
    """Yield each part, its images that have a vector and are not of ``repeats``, and the vectors."""
    for part, vectors in run.vectors.each_part(encoder, parts, width):
        run.vectors.require(encoder, vectors, [part])
        rows = (_Row(*cells) for cells in run.parts[part].rows(*_Row._fields))
        yield part, [row for row in rows if row.id in vectors and row.id not in repeats], vectors


def _add_groups(
    groups: dict[tuple[str, str], list[np.ndarray]], rows: Sequence[_Row], vectors: Mapping[str, np.ndarray]
) -> None:
    for row in rows:
        if row.group:
            groups.setdefault((row.group, row.prompt), []).append(vectors[row.id].copy())
