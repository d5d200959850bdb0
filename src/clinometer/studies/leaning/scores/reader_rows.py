"""Rows of how well an encoder reads a pair of groups, or each axis, and of shares corrected for what it misreads.

Groups that are cells of axes have no pair. But the images drawn at one level of an axis, over all cells, have a known
answer against those of the other levels, and so have the words. So each axis is checked as a pair of groups is
(:mod:`clinometer.studies.leaning.scores.reader`): of two levels the first against the second, of more each against the
others. Prompts of two levels are matched where they differ in nothing but the level.

A verdict along an axis rests on that axis. One on a cell, or on what goes together, rests on all of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import isfinite
from typing import Final

import numpy as np

from clinometer.metrics.records import Score
from clinometer.metrics.verdict import OTHERS
from clinometer.stats.confusion import corrected_share
from clinometer.stats.proportion import wilson_interval
from clinometer.studies.leaning.scores.design import (
    Design,
    EncoderEmbeddings,
    LeaningStudy,
)
from clinometer.studies.leaning.scores.reader import ReaderCheck, reader_checks, withheld
from clinometer.studies.leaning.scores.rows import FIXED
from clinometer.studies.leaning.scores.views import EncoderView, count_nearest

READER: Final = "reader"
UNREAD: Final = "cannot read"
"""The flag of a view that gives no verdict."""

BY_IMAGES: Final = "read by the images of the other prompts: the encoder reads no text"
AXIS = "axis:"
"""Leads the components that rest on a single axis."""


def reader_rows(design: Design, checks: Mapping[str, ReaderCheck], confidence: float) -> list[Score]:
    """Report how often every view reads the attribute images of a and b right.

    ``sensitivity``: images drawn for a that are read as a, by the rule of ``share``; ``specificity``: the same of b;
    with Wilson intervals. ``informedness``: their sum less 1, with p that they are read by chance (over prompts where
    there are enough), and the verdict of the check: ``flag`` and ``reason`` where the view reads too little.
    """
    rows = []
    for check in checks.values():
        reading, informedness = check.reading, check.informedness
        basis = FIXED if check.basis == "words" else BY_IMAGES
        for component, group, right, n in (
            ("sensitivity", design.a, reading.right_a, reading.n_a),
            ("specificity", design.b, reading.right_b, reading.n_b),
        ):
            rate = wilson_interval(right, n, confidence)
            rows.append(Score(
                metric=READER, component=component, group=group, encoder=check.encoder, value=rate.value, low=rate.low,
                high=rate.high, null=0.5, n_target=n, reason=rate.reason or basis,
            ))  # fmt: skip
        words = f"; labels of words permuted: p {check.p_words:.2g}" if isfinite(check.p_words) else ""
        tested = isfinite(check.p_images)
        rows.append(Score(
            metric=READER, component="informedness", encoder=check.encoder, value=informedness.value,
            low=informedness.low, high=informedness.high, p=check.p_images, q=check.p_images, p_holm=check.p_images,
            test=f"images of both groups alike, one-sided{words}" if tested else "",
            family="reader: a test by itself" if tested else "", null=0.0, n_target=reading.n_a + reading.n_b,
            n_a=reading.n_a, n_b=reading.n_b, flag="" if check.reads else UNREAD,
            reason=check.reason or informedness.reason or basis,
        ))  # fmt: skip
    return rows


def corrected_rows(study: LeaningStudy, shares: Sequence[Score], checks: Mapping[str, ReaderCheck]) -> list[Score]:
    """Correct the share of every target for misreading: beside each row ``share``, of the same view.

    :func:`clinometer.stats.confusion.corrected_share`; the attribute images (``n_a``, ``n_b``) tell how often
    the view misreads.
    """
    return [
        _correct_share(study, row, checks[row.encoder])
        for row in shares
        if (row.metric, row.component) == ("share", "share")
    ]


def _correct_share(study: LeaningStudy, row: Score, check: ReaderCheck) -> Score:
    reading = check.reading
    blank = replace(
        row, component="corrected_share", value=float("nan"), low=float("nan"), high=float("nan"), flag="",
        bound_low=float("nan"), bound_high=float("nan"),
        n_a=reading.n_a, n_b=reading.n_b,
    )  # fmt: skip
    if not isfinite(row.value) or check.basis != "words":
        return blank if not isfinite(row.value) else replace(blank, reason="the encoder reads no text")
    count = round(row.value * row.n_target)
    share = corrected_share(count, row.n_target, reading, study.settings.confidence)
    if share.reason:
        return replace(blank, reason=f"attribute images: {share.reason}")
    clipped = share.estimate != share.value
    clipping = f"the estimate, {share.estimate:.2f}, is clipped to {share.value:.0f}; " if clipped else ""
    corrected = replace(blank, value=share.value, low=share.low, high=share.high, reason=clipping + FIXED)
    if not row.n_missing:
        return corrected
    n = row.n_target + row.n_missing
    least, most = (corrected_share(count + more, n, reading, study.settings.confidence) for more in (0, row.n_missing))
    return replace(corrected, bound_low=min(share.low, least.low), bound_high=max(share.high, most.high))


def confusion_rows(study: LeaningStudy, views: Sequence[EncoderView]) -> list[Score]:
    """Report for every view the share of each group's images that are read as each group."""
    groups, rows = study.design.groups, []
    for view in views:
        for drawn, images in zip(groups, view.own, strict=True):
            counts = count_nearest(images, study.everyone)
            for read, count in zip(groups, counts.tolist(), strict=True):
                n = int(counts.sum())
                share = wilson_interval(count, n, study.settings.confidence)
                rows.append(Score(
                    metric=READER, component="confusion", group=drawn, setting=f"read as {read}", encoder=view.encoder,
                    value=share.value, low=share.low, high=share.high, null=1 / len(groups), n_target=n,
                    reason=FIXED if n else "no image of the group, or a group without words to read by",
                ))  # fmt: skip
    return rows


@dataclass(frozen=True)
class LevelCheck:
    """How every view reads one level of an axis against the others.

    Attributes
    ----------
    axis, level : what is asked; of an axis of two levels the first.
    design : the study with the cells of that level as group a, and all others as b.
    by_view : the checks, by encoder.
    """

    axis: str
    level: str
    design: Design
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
            pooled = tuple(_pool_cells(encoder, design, axis, pair) for encoder in encoders)
            checks = reader_checks(pooled, pair, confidence=confidence)
            by_view = {
                name: replace(check, reason=check.reason and opening + check.reason) for name, check in checks.items()
            }
            level_checks.append(LevelCheck(axis, level, pair, by_view))
    return level_checks


def pair_of_levels(design: Design, axis: str, level: str) -> Design:
    """Make a design of two groups: the cells at this level of the axis, and all others."""
    levels = design.axes[axis]
    other = next(name for name in levels if name != level) if len(levels) == 2 else OTHERS
    pairs = {name: _matches(design, cells) for name, cells in _cells_of(design, axis, level, other).items()}
    matched = len(levels) == 2 and None not in pairs[level] and set(pairs[level]) == set(pairs[other])
    return Design(
        targets=design.targets, groups=(level, other), a=level, b=other, pairs=pairs if matched else {},
        margin=design.margin,
    )  # fmt: skip


def _cells_of(design: Design, axis: str, level: str, other: str) -> dict[str, list[tuple[str, str]]]:
    """List the groups on either side of an axis, each with its levels on the other axes."""
    at = list(design.axes).index(axis)
    sides: dict[str, list[tuple[str, str]]] = {level: [], other: []}
    for group in design.groups:
        cell = design.cells[group]
        rest = " ".join(name for i, name in enumerate(cell) if i != at)
        sides[level if cell[at] == level else other].append((group, rest))
    return sides


def _matches(design: Design, cells: Sequence[tuple[str, str]]) -> tuple[str | None, ...]:
    """Name what each prompt is matched by: its own pair at the same levels of the other axes."""
    return tuple(
        None if pair is None else f"{pair} {rest}" for group, rest in cells for pair in design.pairs.get(group, (None,))
    )


def _pool_cells(encoder: EncoderEmbeddings, design: Design, axis: str, pair: Design) -> EncoderEmbeddings:
    """Pool the cells of either side into one group."""
    sides = {name: [g for g, _ in cells] for name, cells in _cells_of(design, axis, pair.a, pair.b).items()}
    words = encoder.group_words
    return replace(
        encoder,
        group_images={name: tuple(x for g in cells for x in encoder.group_images[g]) for name, cells in sides.items()},
        group_words=None if words is None else {n: np.concatenate([words[g] for g in c]) for n, c in sides.items()},
        group_texts=None,
    )


def withheld_from_axes(rows: Sequence[Score], checks: Sequence[LevelCheck]) -> list[Score]:
    """Take out the verdicts that no encoder can carry: ``not measured``, with the reason; numbers stay."""
    return [_withhold(row, checks) for row in rows]


def _withhold(row: Score, checks: Sequence[LevelCheck]) -> Score:
    for check in checks:
        if _rests_on(row, check):
            (row,) = withheld([row], check.by_view)
    return row


def _rests_on(row: Score, check: LevelCheck) -> bool:
    """Tell whether a row's verdict needs this level of this axis to be read; that of a cell needs them all."""
    if row.component.startswith(AXIS):
        return row.component == AXIS + check.axis and row.group in ("", check.level)
    return True


def axis_reader_rows(checks: Sequence[LevelCheck], confidence: float) -> list[Score]:
    """Report sensitivity, specificity and informedness along every axis, which ``setting`` names."""
    return [
        replace(row, group=row.group or check.level, setting=check.setting)
        for check in checks
        for row in reader_rows(check.design, check.by_view, confidence)
    ]
