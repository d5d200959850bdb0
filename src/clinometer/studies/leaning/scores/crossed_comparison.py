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
from clinometer.metrics.mcas import COMPONENTS, IMAGE_PART
from clinometer.metrics.records import MEAN, Score
from clinometer.metrics.two_runs import Family, judged_families, require_comparable, with_reasons
from clinometer.metrics.verdict import FEWEST_IMAGES, OTHERS
from clinometer.stats.moderation import DifferenceTests, MeanTests, difference_tests
from clinometer.studies.leaning.compare import (
    NO_INTERVAL,
    Absent,
    MissingPictures,
    absent_pictures,
    image_counts,
    lost_prompts,
    once,
    tested,
    without_prompts,
)
from clinometer.studies.leaning.scores.axes import Effect, effects_of
from clinometer.studies.leaning.scores.contrasts import (
    Filling,
    contrast_weights,
    difference_contrast,
    paired_difference,
)
from clinometer.studies.leaning.scores.design import Design, DrawSettings, EncoderEmbeddings, LeaningStudy, layout_of
from clinometer.studies.leaning.scores.reader_rows import axis_checks, withheld_from_axes
from clinometer.studies.leaning.scores.views import EncoderView, linear_views

NO_NUMBER = "one of the runs has no such number: no image of it, or of one of the cells, or no word"
FIXED = "no stimulus interval: words and encoders are the same in both runs"


@dataclass(frozen=True)
class _Pair:
    """Both runs as one encoder sees them, or the average; of partners one view, of their differences."""

    encoder: str
    sizes: tuple[int, ...]
    views: tuple[tuple[LeaningStudy, EncoderView], ...]
    own: tuple[EncoderView, EncoderView]

    @property
    def paired(self) -> bool:
        return len(self.views) == 1

    def tests(self, weights: np.ndarray, filling: Sequence[Filling] = ((), ())) -> MeanTests | DifferenceTests:
        """Test the difference of a contrast of every target, weights (4 × groups)."""
        tests = [
            difference_contrast(*view, weights, moderated=not self.paired, filling=more)
            for view, more in zip(self.views, filling, strict=False)
        ]
        return tests[0] if self.paired else difference_tests(tests[0], tests[1])


def compare_intersections(
    first: Sequence[EncoderEmbeddings],
    second: Sequence[EncoderEmbeddings],
    design: Design,
    *,
    paired: bool,
    confidence: float = 0.95,
    missing: MissingPictures | None = None,
) -> list[Score]:
    """Compare along every axis and in every cell, by the same encoders, positive towards the row's ``group``.

    Of metric ``comparison``, components ``axis:A`` and ``cell:C`` as in :func:`crossed_study`, with q over the
    targets (of cells and levels over both) and, of the average over encoders, a verdict. ``paired``: the i-th image of
    a prompt starts from the same noise in both runs. An attribute prompt that one run has no image of is left out of
    both. An axis that the encoders cannot read in either run has no verdict; a cell needs all axes. ``missing``: as of
    :func:`~clinometer.studies.leaning.compare.compare_leanings`.

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
    settings = DrawSettings(1, 0, 0, confidence)
    absent = absent_pictures(missing, (first, second), design, settings)
    families = [
        _family(design, effect, pair, confidence, absent)
        for pair in _pairs(first, second, design, paired, settings)
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
    first: Sequence[EncoderEmbeddings],
    second: Sequence[EncoderEmbeddings],
    design: Design,
    paired: bool,
    settings: DrawSettings,
) -> Iterator[_Pair]:
    """List the average over the encoders that read text (over all, if none does) first, then each encoder."""
    studies = [LeaningStudy(design, layout_of(run, design), settings) for run in (first, second)]
    sizes = tuple(min(both) for both in zip(*(study.layout.target_sizes for study in studies), strict=True))
    views = [linear_views(run, study) for run, study in zip((first, second), studies, strict=True)]
    for one, other in zip(*views, strict=True):
        views_of_pair = (
            ((studies[1], paired_difference(one, other)),) if paired else zip(studies, (one, other), strict=True)
        )
        yield _Pair(one.encoder, sizes, tuple(views_of_pair), (one, other))


def _family(design: Design, effect: Effect, pair: _Pair, confidence: float, absent: Absent | None) -> Family:
    """Make the family of one effect of every target; that of the average over encoders has verdicts."""
    margin = design.margin / 2 if design.margin is not None and effect.of_halves else design.margin
    by_name = {
        n: contrast_weights(COMPONENTS[IMAGE_PART], g) for n, g in zip(effect.names, effect.weights, strict=True)
    }
    fillings = {name: absent.fillings(pair.own, weights) if absent else [] for name, weights in by_name.items()}
    ways = min(map(len, fillings.values()))
    missing = absent.pictures.of_targets if absent and ways else [0] * len(pair.sizes)

    def filled(way: int | None) -> list[Score]:
        return [
            Score(
                metric=METRIC, component=f"cell:{name}" if effect.kind == "cell" else effect.component, group=name,
                concept=target.name, category=target.category, encoder=pair.encoder, n_target=pair.sizes[t],
                n_missing=missing[t], **fields, reason=_reason(fields["value"], fields["p"]),
            )
            for name, weights in by_name.items()
            for tests in [pair.tests(weights) if way is None else pair.tests(weights, fillings[name][way])]
            for t, (target, fields) in enumerate(
                zip(design.targets, tested(tests, margin, pair.paired, confidence), strict=True)
            )
        ]  # fmt: skip

    rows = filled(None)
    others = dict(zip(effect.names, effect.others, strict=True))
    sides = [row.group for row in rows], [others[row.group] or OTHERS for row in rows]
    return Family(
        rows=rows, name=f"{effect.component} over {len(design.targets)} targets", margin=margin, fewest=FEWEST_IMAGES,
        sides=sides if pair.encoder == MEAN else None, fillings=[filled(way) for way in range(ways)],
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
