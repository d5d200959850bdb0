"""Does an encoder read right along each axis? The check of the reader, asked of every axis by itself.

Groups that are cells of axes have no pair. But the images drawn at one level of an axis, over all cells, have a known
answer against those of the other levels, and so have the words. So each axis is checked as a pair of groups is
(:mod:`clinometer.studies.leaning.scores.reader`): of two levels the first against the second, of more each against the
others. Prompts of two levels are matched where they differ in nothing but the level.

A verdict along an axis rests on that axis. One on a cell, or on what goes together, rests on all of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from clinometer.metrics.records import Score
from clinometer.metrics.verdict import OTHERS
from clinometer.studies.leaning.scores.context import DrawSettings, LeaningStudy
from clinometer.studies.leaning.scores.design import Design, EncoderEmbeddings, layout_of
from clinometer.studies.leaning.scores.reader import ReaderCheck, reader_checks, withheld
from clinometer.studies.leaning.scores.reader_rows import confusion_rows, reader_rows
from clinometer.studies.leaning.scores.relabelling import pools_of

AXIS = "axis:"
"""Leads the components that rest on a single axis."""


@dataclass(frozen=True)
class LevelCheck:
    """How every view reads one level of an axis against the others.

    Attributes
    ----------
    axis, level : what is asked; of an axis of two levels the first.
    design, embeddings : the study with the cells of that level as group a, and all others as b.
    by_view : the checks, by encoder.
    """

    axis: str
    level: str
    design: Design
    embeddings: tuple[EncoderEmbeddings, ...]
    by_view: Mapping[str, ReaderCheck]

    @property
    def setting(self) -> str:
        """What identifies the rows of this check: the axis and, where it has more than two levels, the level."""
        return AXIS + self.axis if self.design.b != OTHERS else f"{AXIS}{self.axis} {self.level}"


def axis_checks(
    encoders: Sequence[EncoderEmbeddings], design: Design, *, confidence: float = 0.95, opening: str = ""
) -> list[LevelCheck]:
    """Check every axis: one entry for two levels, one a level for more. ``opening`` leads every reason."""
    level_checks = []
    for axis, levels in design.axes.items():
        for level in levels[: 1 if len(levels) == 2 else None]:
            pair = pair_of_levels(design, axis, level)
            pooled = tuple(_pooled(encoder, design, axis, pair) for encoder in encoders)
            checks = reader_checks(pooled, pair, confidence=confidence)
            by_view = {
                name: replace(check, reason=check.reason and opening + check.reason) for name, check in checks.items()
            }
            level_checks.append(LevelCheck(axis, level, pair, pooled, by_view))
    return level_checks


def pair_of_levels(design: Design, axis: str, level: str) -> Design:
    """The design with two groups: the cells at this level of the axis, and all others."""
    levels = design.axes[axis]
    other = next(name for name in levels if name != level) if len(levels) == 2 else OTHERS
    pairs = {name: _matches(design, cells) for name, cells in _cells_of(design, axis, level, other).items()}
    matched = len(levels) == 2 and None not in pairs[level] and set(pairs[level]) == set(pairs[other])
    return Design(
        targets=design.targets, groups=(level, other), a=level, b=other, pairs=pairs if matched else {},
        margin=design.margin,
    )  # fmt: skip


def _cells_of(design: Design, axis: str, level: str, other: str) -> dict[str, list[tuple[str, str]]]:
    """The groups on either side of an axis, each with its levels on the other axes."""
    at = list(design.axes).index(axis)
    sides: dict[str, list[tuple[str, str]]] = {level: [], other: []}
    for group in design.groups:
        cell = design.cells[group]
        rest = " ".join(name for i, name in enumerate(cell) if i != at)
        sides[level if cell[at] == level else other].append((group, rest))
    return sides


def _matches(design: Design, cells: Sequence[tuple[str, str]]) -> tuple[str | None, ...]:
    """What each prompt is matched by: its own pair at the same levels of the other axes."""
    return tuple(
        None if pair is None else f"{pair} {rest}" for group, rest in cells for pair in design.pairs.get(group, (None,))
    )


def _pooled(encoder: EncoderEmbeddings, design: Design, axis: str, pair: Design) -> EncoderEmbeddings:
    """The embeddings with the cells of either side as one group."""
    sides = {name: [g for g, _ in cells] for name, cells in _cells_of(design, axis, pair.a, pair.b).items()}
    words = encoder.group_words
    return replace(
        encoder,
        group_images={name: tuple(x for g in cells for x in encoder.group_images[g]) for name, cells in sides.items()},
        group_words=None if words is None else {n: np.concatenate([words[g] for g in c]) for n, c in sides.items()},
        group_texts=None,
    )


def withheld_from_axes(rows: Sequence[Score], checks: Sequence[LevelCheck]) -> list[Score]:
    """The rows without the verdicts that no encoder can carry: ``not measured``, with the reason; numbers stay."""
    return [_withheld(row, checks) for row in rows]


def _withheld(row: Score, checks: Sequence[LevelCheck]) -> Score:
    for check in checks:
        if _rests_on(row, check):
            (row,) = withheld([row], check.by_view)
    return row


def _rests_on(row: Score, check: LevelCheck) -> bool:
    """Whether a row's verdict needs this level of this axis to be read; that of a cell needs them all."""
    if row.component.startswith(AXIS):
        return row.component == AXIS + check.axis and row.group in ("", check.level)
    return True


def axis_reader_rows(
    encoders: Sequence[EncoderEmbeddings], design: Design, checks: Sequence[LevelCheck], confidence: float
) -> list[Score]:
    """Sensitivity, specificity and informedness along every axis (``setting`` names it), and the cells' confusion."""
    rows = []
    for check in checks:
        study = _study(check.embeddings, check.design, confidence)
        check_rows = reader_rows(study, check.embeddings, check.by_view)
        rows += [replace(row, group=row.group or check.level, setting=check.setting) for row in check_rows]
    return rows + confusion_rows(design, encoders, confidence)


def _study(encoders: Sequence[EncoderEmbeddings], design: Design, confidence: float) -> LeaningStudy:
    layout = layout_of(encoders, design, targets=False)
    return LeaningStudy(design, layout, DrawSettings(1, 0, 0, confidence), pools_of(design, layout))
