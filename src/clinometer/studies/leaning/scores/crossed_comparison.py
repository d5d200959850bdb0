"""Two runs of a suite whose groups are cells of axes: by how much the second leans otherwise, axis by axis.

All that is compared is linear in the mean cosines, w·C with weights over the groups that sum to 0::

    Δ_t = w·C_t(second) − w·C_t(first)

Of pairs of images the cosines are subtracted image by image, so the differences are cosines of a study of their own and
are tested as one, each target by its own variance. Otherwise both runs' variances are added. Interactions
are products of two readings of an image and not linear; they are not compared. Words and encoders are the same in
both runs and taken as fixed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite

import numpy as np

from clinometer.metrics.differences import METRIC
from clinometer.metrics.records import MEAN, Score
from clinometer.metrics.two_runs import Family, judged_families, require_comparable, with_reasons
from clinometer.metrics.verdict import FEWEST_IMAGES, OTHERS
from clinometer.stats.blocks import mapped
from clinometer.stats.moderation import DifferenceTests, MeanTests, difference_tests
from clinometer.studies.leaning.compare import (
    NO_INTERVAL,
    image_counts,
    lost_prompts,
    once,
    tested,
    without_prompts,
)
from clinometer.studies.leaning.scores.axis_readers import axis_checks, withheld_from_axes
from clinometer.studies.leaning.scores.contrasts import image_tests
from clinometer.studies.leaning.scores.cosines import Cosines, average_cosines, target_cosines
from clinometer.studies.leaning.scores.design import Design, EncoderEmbeddings, Layout, layout_of
from clinometer.studies.leaning.scores.effects import Effect, effects_of
from clinometer.studies.leaning.scores.moments import CellView

NO_NUMBER = "one of the runs has no such number: no image of it, or of one of the cells, or no word"
FIXED = "no stimulus interval: words and encoders are the same in both runs"


@dataclass(frozen=True)
class _Pair:
    """Both runs as one encoder sees them, or the average; of partners one view, of their differences."""

    encoder: str
    sizes: tuple[int, ...]
    views: tuple[CellView, ...]

    @property
    def paired(self) -> bool:
        return len(self.views) == 1

    def tests(self, weights: np.ndarray) -> MeanTests | DifferenceTests:
        """The difference of a contrast of every target."""
        tests = [image_tests(view, weights, moderated=not self.paired) for view in self.views]
        return tests[0] if self.paired else difference_tests(tests[0], tests[1])


def compare_intersections(
    first: Sequence[EncoderEmbeddings],
    second: Sequence[EncoderEmbeddings],
    design: Design,
    *,
    paired: bool,
    confidence: float = 0.95,
) -> list[Score]:
    """Differences along every axis and of every cell, by the same encoders, positive towards the row's ``group``.

    Of metric ``comparison``, components ``axis:A`` and ``cell:C`` as in :func:`intersection_study`, with q over the
    targets (of cells and levels over both) and, of the average over encoders, a verdict. ``paired``: the i-th image of
    a prompt starts from the same noise in both runs. An attribute prompt that one run has no image of is left out of
    both. An axis that the encoders cannot read in either run has no verdict; a cell needs all axes.

    Raises
    ------
    InvalidInputError
        Encoders or, where paired, counts of images that differ between the runs.
    """
    layouts = [layout_of(run, design) for run in (first, second)]
    require_comparable(first, second, [image_counts(layout) for layout in layouts], paired=paired)
    lost = lost_prompts(layouts)
    first, second = ([without_prompts(encoder, lost) for encoder in run] for run in (first, second))
    first, second = once(first, second, design, paired=paired)
    families = [
        _family(design, effect, pair, confidence)
        for pair in _pairs(first, second, design, paired)
        for effect in effects_of(design)
        if effect.kind != "interaction"
    ]
    rows = [_noted(row, lost) for row in judged_families(families)]
    for which, run in (("first", first), ("second", second)):
        rows = withheld_from_axes(
            rows, axis_checks(run, design, confidence=confidence, opening=f"in the {which} run, ")
        )
    return rows


def _pairs(
    first: Sequence[EncoderEmbeddings], second: Sequence[EncoderEmbeddings], design: Design, paired: bool
) -> Iterator[_Pair]:
    """The average over the encoders that read text (over all, if none does) first, then each encoder."""
    layouts = [layout_of(run, design) for run in (first, second)]
    sizes = tuple(min(both) for both in zip(*(layout.target_sizes for layout in layouts), strict=True))
    views = [_views(first, layouts[0]), _views(second, layouts[1])]
    if paired:
        views = [[_difference(one, other) for one, other in zip(*views, strict=True)]]
    reads = [i for i, encoder in enumerate(second) if encoder.reads_text] or list(range(len(second)))
    yield _Pair(MEAN, sizes, tuple(_mean([of_run[i] for i in reads]) for of_run in views))
    for i, encoder in enumerate(second):
        yield _Pair(encoder.encoder, sizes, tuple(of_run[i] for of_run in views))


def _views(run: Sequence[EncoderEmbeddings], layout: Layout) -> list[CellView]:
    return [CellView(encoder.encoder, encoder.reads_text, target_cosines(encoder, layout), layout) for encoder in run]


def _difference(first: CellView, second: CellView) -> CellView:
    """Second minus first, image by image: what is linear in cosines is linear in their differences."""
    one, other = first.cosines, second.cosines
    cosines = Cosines(
        image_image=mapped(_less, one.image_image, other.image_image),
        text_image=other.text_image - one.text_image,
        image_word=mapped(_less, one.image_word, other.image_word),
        text_word=other.text_word - one.text_word,
    )
    return CellView(second.encoder, second.reads_text, cosines, second.layout)


def _less(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    return np.asarray(second - first)


def _mean(views: Sequence[CellView]) -> CellView:
    cosines = average_cosines([view.cosines for view in views])
    return CellView(MEAN, views[0].reads_text, cosines, views[0].layout)


def _family(design: Design, effect: Effect, pair: _Pair, confidence: float) -> Family:
    """One effect of every target; that of the average over encoders has verdicts."""
    margin = design.margin / 2 if design.margin is not None and effect.of_halves else design.margin
    rows = [
        Score(
            metric=METRIC, component=f"cell:{name}" if effect.kind == "cell" else effect.component, group=name,
            concept=target.name, category=target.category, encoder=pair.encoder, n_target=pair.sizes[t], **fields,
            reason=_reason(fields["value"], fields["p"]),
        )
        for name, weights in zip(effect.names, effect.weights, strict=True)
        for fields_of_all in [tested(pair.tests(weights), margin, pair.paired, confidence)]
        for t, (target, fields) in enumerate(zip(design.targets, fields_of_all, strict=True))
    ]  # fmt: skip
    others = dict(zip(effect.names, effect.others, strict=True))
    sides = [row.group for row in rows], [others[row.group] or OTHERS for row in rows]
    return Family(
        rows=rows, name=f"{effect.component} over {len(design.targets)} targets", margin=margin, fewest=FEWEST_IMAGES,
        sides=sides if pair.encoder == MEAN else None,
    )  # fmt: skip


def _reason(value: float, p: float) -> str:
    if not isfinite(value):
        return NO_NUMBER
    return FIXED if isfinite(p) else NO_INTERVAL


def _noted(row: Score, lost: Mapping[str, Sequence[int]]) -> Score:
    """Say which cells' prompts were left out of both runs."""
    if not lost:
        return row
    words = ", ".join(f"{len(prompts)} of {group}" for group, prompts in lost.items())
    return with_reasons(row, f"prompts left out of both for want of images in one of the runs: {words}")
