"""Differences between two runs of one design, second minus first, in whatever is linear in the mean cosines.

::

    Δ_t = w·C_t(second) − w·C_t(first)            w: weights over modalities and groups that sum to 0

With pairs of images the cosines are subtracted image by image, so the differences are the cosines of a study of their
own and are tested as one, each target by its own variance. Otherwise both runs' variances are added. Along axes
interactions are products of two readings of an image and not linear; they are not compared. Words and encoders are the
same in both runs: along axes they are taken as fixed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import isfinite, isnan, nan
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from clinometer.metrics.differences import (
    METRIC,
    Family,
    image_seeds,
    judged_families,
    require_comparable,
    with_reasons,
)
from clinometer.metrics.mcas import COMPONENTS, IMAGE_PART
from clinometer.metrics.records import MEAN, Score
from clinometer.metrics.verdict import FEWEST_IMAGES
from clinometer.stats.bootstrap import Interval
from clinometer.stats.bounded_means import BoundedMeans
from clinometer.stats.moderation import NO_SPREAD, DifferenceTests, MeanTests
from clinometer.studies.leaning.scores.axes import effect_contrasts, effects_of
from clinometer.studies.leaning.scores.contrasts import (
    II,
    ITA,
    ITP,
    ContrastDifferences,
    ContrastTests,
    Filling,
    pair_weights,
    paired_difference,
    paired_tests,
    unpaired_differences,
)
from clinometer.studies.leaning.scores.design import (
    Design,
    EncoderEmbeddings,
    Layout,
    ResamplingSettings,
    StudySetup,
    layout_of,
)
from clinometer.studies.leaning.scores.encoder_check import checks_of, withheld_by_level
from clinometer.studies.leaning.scores.measuring import counted_once, pairs_counted_once
from clinometer.studies.leaning.scores.middle import attribute_influences, differences_from_middle, margin_around_middle
from clinometer.studies.leaning.scores.missing import Absent, Influences, MissingPictures, Run, absent_pictures
from clinometer.studies.leaning.scores.rows import Basis, Contrast
from clinometer.studies.leaning.scores.views import EncoderView, linear_views, views_of

NO_INTERVAL = "no interval: a prompt has one image"
NO_NUMBER = "one of the runs has no such number: no image of it, or of one of the cells, or no word"
FIXED = "no stimulus interval: words and encoders are the same in both runs"
TEST = "{} t over images, two-sided"

JUDGED = (IMAGE_PART, "mcas")
"""What a comparison gives verdicts on."""


EstimateTests = MeanTests | BoundedMeans | DifferenceTests


def make_comparable(
    first: Sequence[EncoderEmbeddings], second: Sequence[EncoderEmbeddings], design: Design, *, paired: bool
) -> tuple[list[EncoderEmbeddings], list[EncoderEmbeddings], dict[str, list[int]]]:
    """Count each picture or pair once, and drop from both runs the prompts that one has no attribute image of.

    Returns
    -------
    Both runs, and the attribute prompts that were left out, by group and position.

    Raises
    ------
    InvalidInputError
        Encoders or, where paired, counts of images that differ between the runs.
    """
    layouts = [layout_of(run, design) for run in (first, second)]
    require_comparable(first, second, [image_counts(layout) for layout in layouts], paired=paired)
    sizes = [dict(zip(layout.groups, layout.prompt_sizes, strict=True)) for layout in layouts]
    empty = {
        group: [i for i, both in enumerate(zip(sizes[0][group], sizes[1][group], strict=True)) if not all(both)]
        for group in layouts[0].groups
    }
    lost = {group: prompts for group, prompts in empty.items() if prompts}

    def without_lost(encoder: EncoderEmbeddings) -> EncoderEmbeddings:
        """Drop these prompts' images from a run: a group is the mean of the same prompts in both."""
        images = {
            group: tuple(x[:0] if i in lost.get(group, ()) else x for i, x in enumerate(by_prompt))
            for group, by_prompt in encoder.group_images.items()
        }
        return replace(encoder, group_images=images)

    first, second = ([without_lost(encoder) for encoder in run] for run in (first, second))
    if paired:
        return *pairs_counted_once(first, second), lost
    return counted_once(first, design), counted_once(second, design), lost


def image_counts(layout: Layout) -> tuple[object, object]:
    """Count the images of every target and of every attribute prompt."""
    return layout.target_sizes, layout.prompt_sizes


def measured_runs(
    first: Sequence[EncoderEmbeddings],
    second: Sequence[EncoderEmbeddings],
    design: Design,
    settings: ResamplingSettings,
    paired: bool,
    *,
    linear: bool = False,
) -> list[Run]:
    """Measure both runs: the setup and views of each. Replicates share weights, except of images without partners.

    What is ``linear`` in the mean cosines needs no replicates.
    """
    views = linear_views if linear else views_of
    studies = [
        StudySetup(design, layout_of(run, design), replace(settings, image_seed=image_seed))
        for run, image_seed in zip((first, second), image_seeds(settings.seed, paired=paired), strict=True)
    ]
    return [
        (setup, {view.encoder: view for view in views(run, setup).all})
        for run, setup in zip((first, second), studies, strict=True)
    ]


@dataclass(frozen=True)
class _Compared:
    """Two runs as one view sees them, and what their rows count.

    Attributes
    ----------
    studies, views : of the first run and the second.
    absent : what is missing of either run, where verdicts have to hold whatever it shows.
    """

    studies: tuple[StudySetup, StudySetup]
    views: tuple[EncoderView, EncoderView]
    paired: bool
    margin: float | None
    absent: Absent | None

    @cached_property
    def sizes(self) -> list[int]:
        """Images of each target, in the run that has fewer."""
        first, second = (setup.layout.target_sizes for setup in self.studies)
        return [min(both) for both in zip(first, second, strict=True)]

    @cached_property
    def repeated(self) -> list[int]:
        """Repeated pictures of each target."""
        layouts = [setup.layout for setup in self.studies[: 1 if self.paired else 2]]  # both runs have the same pairs
        return [sum(layout.repeated(t) for layout in layouts) for t in self.studies[0].target_numbers]

    @cached_property
    def batched(self) -> list[int]:
        """Batches of each target."""
        layouts = (self.studies[0].layout, self.studies[1].layout)
        return [_fewest_batches(layouts, t) for t in self.studies[0].target_numbers]

    def rows(
        self,
        contrast: Contrast,
        own: Influences,
        filling: Sequence[Filling] = ((), ()),
        shift: tuple[ArrayLike, ArrayLike] = (0.0, 0.0),
    ) -> list[Score]:
        """Return a row for each target: the difference of a contrast.

        ``own`` : how the attribute images move it, if it is compared with the middles as well. ``filling`` : what
        replaces missing pictures. ``shift`` : how far it is moved, from 0 and from the middles.
        """
        (setup, other), (first, second) = self.studies, self.views
        tests: ContrastTests | ContrastDifferences
        if self.paired:
            tests = paired_tests(setup, paired_difference(first, second), contrast.weights, filling[0], shift[0])
        else:
            tests = unpaired_differences(self.studies, self.views, contrast.weights, filling, shift[0])
        of_rows = _row_fields(setup, tests, self.margin, self.paired, shift)
        if own is not None:
            of_runs = [(setup, first, own[0]), (other, second, own[1])]
            apart = differences_from_middle(of_runs, contrast.weights, filling, shift[1], paired=self.paired)
            reach = self.margin or 0.0
            around = min(margin_around_middle(view.poles, contrast.weights, reach) for view in self.views)
            around = nan if self.margin is None else around
            of_rows = _with_middles(of_rows, apart, around, setup.settings.confidence, shift)
        imaged, nothing = contrast.weights[[II, ITA]].any(), [0] * len(self.sizes)
        missing = self.absent.pictures.of_targets if self.absent and imaged else nothing
        groups = [g for g in contrast.basis.groups if contrast.weights[[II, ITP], g].any()]
        of_groups = self.absent.pictures.of_groups if self.absent else Counter[str]()
        n_attributes = sum(of_groups[setup.design.groups[g]] for g in groups)
        repeated, batched = (counts if imaged else nothing for counts in (self.repeated, self.batched))
        columns = zip(setup.design.targets, self.sizes, missing, repeated, batched, of_rows, strict=True)
        return [
            Score(
                **{**contrast.names, "metric": METRIC}, concept=target.name, category=target.category,
                encoder=first.encoder, n_target=n, n_repeated=n_repeated, n_batches=n_batches, n_missing=n_missing,
                n_missing_attributes=n_attributes, **fields,
                reason=_reason(setup, contrast, fields["value"], fields["p"], n, paired=self.paired),
            )
            for target, n, n_missing, n_repeated, n_batches, fields in columns
        ]  # fmt: skip


def contrast_differences(
    measured: Sequence[Run],
    encoder: str,
    contrasts: Sequence[Contrast],
    name: str,
    *,
    paired: bool,
    margin: float | None,
    judged: bool,
    absent: Absent | None = None,
) -> Family:
    """Compare contrasts of every target between two runs, as one family; with verdicts if ``judged``."""
    (setup, first), (other, second) = ((setup, views[encoder]) for setup, views in measured)
    influences: list[Influences] = [
        (attribute_influences(first, contrast.weights), attribute_influences(second, contrast.weights))
        if judged and contrast.weights[[II, ITA]].any()
        else None
        for contrast in contrasts
    ]
    fillings = [
        absent.fillings((setup, other), (first, second), contrast.weights, own) if absent else []
        for contrast, own in zip(contrasts, influences, strict=True)
    ]
    ways = min(map(len, fillings))
    compared = _Compared((setup, other), (first, second), paired, margin, absent if ways else None)
    each_contrast = list(zip(contrasts, influences, strict=True))
    by_contrast = [compared.rows(contrast, own) for contrast, own in each_contrast]
    a, b = ([c.sides[i] for c, own in zip(contrasts, by_contrast, strict=True) for _ in own] for i in (0, 1))
    as_drawn = list[Score]()
    if any(compared.repeated):
        assert absent is not None
        for contrast, own in each_contrast:
            one, two = (absent.drawn_shift(i, measured[i], encoder, contrast.weights) for i in (0, 1))
            as_drawn += compared.rows(contrast, own, shift=(two - one, two - one))
    return Family(
        rows=[row for own in by_contrast for row in own], name=f"{name} over {len(compared.sizes)} targets",
        margin=margin, fewest=FEWEST_IMAGES, sides=(a, b) if judged else None,
        fillings=[
            [
                row
                for (contrast, own), filled in zip(each_contrast, fillings, strict=True)
                for row in compared.rows(contrast, own, *filled[way])
            ]
            for way in range(ways)
        ],
        as_drawn=as_drawn,
    )  # fmt: skip


def _fewest_batches(layouts: tuple[Layout, Layout], t: int) -> int:
    """Count the batches of a target's images in the run that has fewer units of chance; 0 if neither has batches."""
    counts = [layout.batch_count(t) for layout in layouts]
    sizes = [layout.target_sizes[t] for layout in layouts]
    return min(count or size for count, size in zip(counts, sizes, strict=True)) if any(counts) else 0


def difference_family(
    design: Design, measured: Sequence[Run], encoder: str, component: str, *, paired: bool, absent: Absent | None = None
) -> Family:
    """Compare one component of every target; the mean over encoders has verdicts on those in ``JUDGED``."""
    pair = measured[0][0].pair
    contrast = Contrast(
        pair_weights(measured[0][0], COMPONENTS[component], *pair),
        Basis(COMPONENTS[component], pair),
        {"component": component},
        (design.a, design.b),
    )
    return contrast_differences(
        measured, encoder, [contrast], component, paired=paired, margin=design.margin,
        judged=component in JUDGED and encoder == MEAN, absent=absent,
    )  # fmt: skip


def _row_fields(
    setup: StudySetup,
    tests: ContrastTests | ContrastDifferences,
    margin: float | None,
    paired: bool,
    shift: tuple[ArrayLike, ArrayLike],
) -> Iterator[dict[str, Any]]:
    """Yield for every target the difference, its intervals and p, and p of two one-sided tests within the margin."""
    images, confidence = tests.images, setup.settings.confidence
    inner, outer = (of_no_width(own.interval(confidence), images, shift[0]) for own in (images, tests.stimulus))
    p = p_values(images)
    inside = np.full_like(p, nan) if margin is None else images.p_outside(margin)
    columns = {"value": images.value, "low": inner.low, "high": inner.high, "p": p, "p_equivalence": inside}
    if not setup.design.axes:
        columns |= {"stimulus_low": np.fmin(inner.low, outer.low), "stimulus_high": np.fmax(inner.high, outer.high)}
    for t, p_value in enumerate(p.tolist()):
        test = TEST.format("paired" if paired else "unpaired") if isfinite(p_value) else ""
        yield {name: float(column[t]) for name, column in columns.items()} | {"test": test}


def _with_middles(
    rows: Iterator[dict[str, Any]],
    apart: EstimateTests,
    margin: float,
    confidence: float,
    shift: tuple[ArrayLike, ArrayLike],
) -> Iterator[dict[str, Any]]:
    """Add each difference's distance from that of the middles; p is the larger of both, as in a single run."""
    ends, p = of_no_width(apart.interval(confidence), apart, shift[1]), p_values(apart)
    inside = np.full_like(p, nan) if isnan(margin) else apart.p_outside(margin) if margin > 0 else np.ones_like(p)
    for t, fields in enumerate(rows):
        yield fields | {
            "p": float(np.maximum(fields["p"], p[t])), "p_zero": fields["p"], "p_middle": float(p[t]),
            "middle": fields["value"] - float(apart.value[t]), "middle_margin": margin,
            "from_middle_low": float(ends.low[t]), "from_middle_high": float(ends.high[t]),
            "p_equivalence": float(np.maximum(fields["p_equivalence"], inside[t])),
        }  # fmt: skip


def _reason(setup: StudySetup, contrast: Contrast, value: float, p: float, n: int, *, paired: bool) -> str:
    """Explain what the row of a difference lacks; empty if nothing."""
    if isfinite(value) and not isfinite(p):
        return NO_INTERVAL
    if setup.design.axes:
        return FIXED if isfinite(value) else NO_NUMBER
    if isfinite(value):
        return ""
    if not n and {"ii", "ita"} & set(contrast.basis.modalities):
        return "no image of it that both runs drew" if paired else "no image of it in one of the runs"
    return "one of the runs has no such number: no attribute image, or an encoder that reads no text"


def of_no_width(interval: Interval, tests: EstimateTests, shift: ArrayLike = 0.0) -> Interval:
    """Close the interval to ``shift`` where the runs are identical, image by image."""
    return Interval(*(np.where(alike(tests, shift), shift, end) for end in (interval.low, interval.high)))


def alike(tests: EstimateTests, shift: ArrayLike = 0.0) -> np.ndarray:
    """Return where the runs are identical, image by image: no difference but ``shift``, and no variance."""
    return np.asarray(((tests.value - shift) ** 2 <= NO_SPREAD) & (tests.standard_error**2 <= NO_SPREAD))


def p_values(tests: EstimateTests) -> np.ndarray:
    """Return p of no difference: 1 where the runs are identical, image by image."""
    return np.where(alike(tests), 1.0, tests.p_value)


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
    pairs = (first, second) if paired else None
    first, second, lost = make_comparable(first, second, design, paired=paired)
    settings = ResamplingSettings(1, 0, 0, confidence)
    absent = absent_pictures(missing, (first, second), design, settings, pairs)
    measured = measured_runs(first, second, design, settings, paired, linear=True)
    families = []
    for encoder in measured[0][1]:
        for effect in effects_of(design):
            if effect.kind == "interaction":
                continue
            margin = design.margin / 2 if design.margin is not None and effect.of_halves else design.margin
            contrasts = effect_contrasts(measured[0][0], effect, COMPONENTS[IMAGE_PART])
            families.append(contrast_differences(
                measured, encoder, contrasts, effect.component, paired=paired, margin=margin, judged=encoder == MEAN,
                absent=absent,
            ))  # fmt: skip
    rows = judged_families(families)
    if lost:
        words = ", ".join(f"{len(prompts)} of {group}" for group, prompts in lost.items())
        left_out = f"prompts left out of both for want of images in one of the runs: {words}"
        rows = [with_reasons(row, left_out) for row in rows]
    for which, run in (("first", first), ("second", second)):
        checks = checks_of(run, design, confidence=confidence, opening=f"in the {which} run, ")
        rows = withheld_by_level(rows, checks)
    return rows
