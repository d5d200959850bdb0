"""A leaning run as the metrics see it: its suite's design, and what each encoder saw, by what it was drawn for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from typing import Any, Final, NamedTuple

import numpy as np

from clinometer.runs.plan import Plan
from clinometer.runs.scratch import VectorFile
from clinometer.runs.store import Run
from clinometer.stats.blocks import Blocks
from clinometer.studies.fit import unfit
from clinometer.studies.leaning import Design, EncoderEmbeddings, TargetDesign
from clinometer.studies.leaning.scores.differences import MissingPictures
from clinometer.studies.study import suite_of
from clinometer.suites import Group, LeaningSuite
from clinometer.suites.leaning import BLANK_PROMPT


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


def study_design(suite: LeaningSuite) -> Design:
    """Describe the suite as the metrics see it: names and matches."""
    return Design(
        targets=tuple(
            TargetDesign(name=target.name, category=category, stereotype=target.stereotype)
            for category, target in suite.categorised_targets()
        ),
        groups=tuple(suite.groups),
        **_compared(suite),
        prompts={name: tuple(p.prompt for p in group.prompts) for name, group in suite.groups.items()},
        pairs={name: tuple(p.pair for p in group.prompts) for name, group in suite.groups.items()},
        margin=suite.margin,
    )


def with_missing(design: Design, run: Run) -> Design:
    """Tell a design how many images of each target and of each group were asked for and are not there."""
    lost = _lost(run)
    of_targets, of_groups = Counter(concept for concept, *_ in lost), Counter(group for _, group, _ in lost if group)
    targets = tuple(replace(t, missing=of_targets[t.name]) for t in design.targets)
    return replace(design, targets=targets, missing_attributes=of_groups)


def _lost(run: Run, seeds: Collection[int] | None = None) -> list[tuple[str, str, int]]:
    """List concept, group and seed of what was asked for and is not there; with ``seeds``, of these alone."""
    rows = run.drawn.each(["concept", "group", "seed", "status"])
    return [
        (concept, group, seed)
        for concept, group, seed, status in rows
        if status != "ok" and (seeds is None or seed in seeds)
    ]


def missing_pictures(
    runs: tuple[Run, Run], suite: LeaningSuite, encoders: Sequence[str], keep: Collection[int] | None
) -> MissingPictures | None:
    """Find what two runs were both asked for and did not both draw; with ``keep``, those with these seeds are pairs."""
    both = None if keep is None else set.intersection(*(set(run.plan.column("seed").to_pylist()) for run in runs))
    lost = [_lost(run, both) for run in runs]
    if not any(lost):
        return None
    of_targets = [Counter(concept for concept, *_ in of_run) for of_run in lost]
    first, second = ([of_run[target.name] for target in suite.targets] for of_run in of_targets)
    if keep is None or both is None:
        of_first, of_second = (Counter(group for _, group, _ in of_run if group) for of_run in lost)
        return MissingPictures((first, second), attributes=(of_first, of_second))
    # a pair of which one picture of a group is there takes no part: what the other run drew of it is not looked at
    pairs = Counter(group for group, _ in {(group, seed) for of_run in lost for _, group, seed in of_run if group})
    alone = tuple(
        [encoder_embeddings(run, suite_of(run, LeaningSuite), name, both - set(keep)) for name in encoders]
        for run in runs
    )
    return MissingPictures((first, second), (alone[0], alone[1]), (pairs, pairs))


def _compared(suite: LeaningSuite) -> dict[str, Any]:
    """Return the pair of groups and the third, or the axes and the cells."""
    if suite.axes is None:
        return {"a": suite.compared.a, "b": suite.compared.b, "third": suite.compared.third}
    axes = {name: tuple(axis.levels) for name, axis in suite.axes.items()}
    cells = {name: tuple((group.cell or {})[axis] for axis in axes) for name, group in suite.groups.items()}
    return {"axes": axes, "cells": cells}


def encoder_embeddings(
    run: Run, suite: LeaningSuite, encoder: str, keep: Collection[int] | None = None
) -> EncoderEmbeddings:
    """Read one encoder's vectors as the metrics see them; with ``keep``, those of images with these seeds alone."""
    run.vectors.require_finished(encoder)
    repeats = run.drawn.repeats() if keep is None else {}  # of partners both count, or none: see ``pairs_counted_once``
    targets, groups = read_images(run, suite, encoder, keep, repeats)
    names = [target.name for target in suite.targets]
    embeddings = _embeddings(run, suite, encoder, groups, targets.width, lambda width: targets.blocks(names, width))
    return replace(embeddings, target_copies=drawn_counts(run, suite, repeats))


def traced_seeds(run: Run, encoders: Sequence[str]) -> set[int]:
    """Find the seeds of the images that were traced by some encoders; none where one of them lacks a part."""
    steps = run.traces.record.get("steps")
    if not steps or not encoders or run.traces.missing(encoders):
        return set()
    seeds = dict(run.plan.rows("id", "seed"))
    return {seeds[key] for key in run.traces.at(encoders[0], steps[0])}


def traced_embeddings(
    run: Run, suite: LeaningSuite, seen: Sequence[EncoderEmbeddings], keep: Collection[int] | None = None
) -> tuple[list[EncoderEmbeddings], dict[int, Callable[[], list[EncoderEmbeddings]]]]:
    """Read what the images were taken for on the way, by step when it is asked for; first the finished images.

    ``seen`` : the encoders' embeddings of the run, for their texts. All are of the images that were traced, without
    those that are another one again; with ``keep``, of those with these seeds. Nothing where the run has no trace by
    any of these encoders.
    """
    names, steps = {embeddings.encoder: embeddings for embeddings in seen}, run.traces.record.get("steps")
    kept = {name: own for name, own in names.items() if steps and not run.traces.missing([name])}
    if not kept or not steps:
        return [], {}
    ids = set(run.traces.at(next(iter(kept)), steps[0]))
    if keep is None:
        ids -= set(run.drawn.repeats())
    else:
        ids &= {key for key, seed in run.plan.rows("id", "seed") if seed in keep}

    def of(read: Callable[[str], Mapping[str, np.ndarray]]) -> list[EncoderEmbeddings]:
        embeddings = []
        for name, own in kept.items():
            vectors = {key: vector for key, vector in read(name).items() if key in ids}
            width = len(next(iter(vectors.values()), ())) or 1
            targets, groups = stacked_images(run.plan, suite, vectors, width=width)
            embeddings.append(
                replace(own, target_images=targets, group_images=groups, target_copies=None, all_differ=True)
            )
        return embeddings

    at_steps: dict[int, Callable[[], list[EncoderEmbeddings]]] = {
        step: partial(of, partial(run.traces.at, step=step)) for step in steps
    }
    return of(run.embeddings), at_steps


def lazy_embeddings(
    run: Run, suite: LeaningSuite, encoders: Sequence[str], sizes: Sequence[int]
) -> list[EncoderEmbeddings]:
    """Read those of some encoders; of targets, each with so many images, vectors are read when they are asked for."""
    parts, repeats = image_parts(run, suite), run.drawn.repeats()
    copies = drawn_counts(run, suite, repeats)

    def embeddings(encoder: str) -> EncoderEmbeddings:
        def targets(width: int) -> Sequence[np.ndarray]:
            return TargetVectors(run, encoder, parts, sizes, width, repeats).blocks

        groups = read_group_images(run, encoder, parts, repeats)
        return replace(_embeddings(run, suite, encoder, groups, 0, targets), target_copies=copies)

    return [embeddings(encoder) for encoder in encoders]


def _embeddings(
    run: Run,
    suite: LeaningSuite,
    encoder: str,
    groups: Mapping[tuple[str, str], Sequence[np.ndarray]],
    width: int,
    targets: Callable[[int], Sequence[np.ndarray]],
) -> EncoderEmbeddings:
    """``width`` : of the targets' vectors, 0 where none is read yet; ``targets`` : makes them, of the width of all."""
    texts = run.texts(encoder)
    width = width or len(next(chain(chain.from_iterable(groups.values()), texts.values()), np.zeros(1)))
    return EncoderEmbeddings(
        encoder=encoder,
        target_images=targets(width),
        target_texts=np.stack([texts[suite.text_of(target)] for target in suite.targets]) if texts else None,
        group_images={
            name: tuple(_stacked(groups.get((name, p.prompt), ()), width) for p in group.prompts)
            for name, group in suite.groups.items()
        },
        group_words=_by_group(suite, texts, lambda group: group.words),
        group_texts=_by_group(suite, texts, lambda group: [p.prompt for p in group.prompts]),
        blank_text=_unless_zero(texts.get(BLANK_PROMPT)),
        unfit=unfit(run.encoder_cards[encoder], run.model_card, suite) if encoder in run.encoder_cards else {},
    )


def _stacked(vectors: Sequence[np.ndarray], width: int) -> np.ndarray:
    return np.stack(vectors) if len(vectors) else np.zeros((0, width), np.float32)


def _unless_zero(vector: np.ndarray | None) -> np.ndarray | None:
    """Return a blank prompt's vector, unless the encoder makes nothing of it: no cosine takes a zero vector."""
    return vector if vector is not None and vector.any() else None


def _by_group(
    suite: LeaningSuite, texts: Mapping[str, np.ndarray], chosen: Callable[[Group], Sequence[str]]
) -> dict[str, np.ndarray] | None:
    """Stack the vectors of a few texts of each group; None from an encoder that reads none."""
    if not texts:
        return None
    return {name: np.stack([texts[text] for text in chosen(group)]) for name, group in suite.groups.items()}
