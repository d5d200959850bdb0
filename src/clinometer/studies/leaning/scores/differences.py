"""Differences between two runs of one design, second minus first, in whatever is linear in the mean cosines.

::

    Δ_t = w·C_t(second) − w·C_t(first)            w: weights over modalities and groups that sum to 0

With pairs of images the cosines are subtracted image by image. The differences are then tested like the cosines of a
single study, each target by its own variance. Otherwise the variances of both runs are added. Interactions of axes are
products of two readings of an image, which are not linear, so they are not compared. Words and encoders are the same in
both runs; along axes they are taken as fixed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain
from math import isfinite, isnan, nan
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from clinometer.metrics.differences import METRIC, Family, image_seeds, require_comparable, with_reasons
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
    Filling,
    ItemValues,
    attribute_shifts,
    image_bounds,
    image_scores,
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
    TwoRuns,
    layout_of,
)
from clinometer.studies.leaning.scores.encoder_check import checks_of, withheld_between
from clinometer.studies.leaning.scores.measuring import counted_once, pairs_counted_once
from clinometer.studies.leaning.scores.middle import attribute_influences, differences_from_middle, margin_around_middle
from clinometer.studies.leaning.scores.rows import Contrast, pair_contrast
from clinometer.studies.leaning.scores.views import EncoderView, linear_views

MeasuredRun = tuple[StudySetup, dict[str, EncoderView]]
"""A run of a comparison: its study and its views by encoder."""

Influences = tuple[ItemValues, ItemValues] | None
"""What attribute images add to the distance from the groups' middle, in either run; None where that is not tested."""


@dataclass(frozen=True)
class MissingPictures:
    """The pictures of two runs that were asked for and are not there.

    Attributes
    ----------
    counts : of the first run and of the second, of every target.
    attributes : the same of every group, by name; groups that are not named miss none. In pairs, a pair counts where
        either picture is missing, and both runs have the same counts.
    alone : where the runs are compared in pairs, what either run drew of targets and has no partner for, seen by the
        same encoders; of these embeddings nothing else is looked at.
    """

    counts: tuple[Sequence[int], Sequence[int]]
    alone: TwoRuns | None = None
    attributes: tuple[Mapping[str, int], Mapping[str, int]] = ({}, {})

    @property
    def of_targets(self) -> list[int]:
        """Count those of each target, of both runs together."""
        return [sum(both) for both in zip(*self.counts, strict=True)]

    @property
    def of_groups(self) -> Counter[str]:
        """Count those of each group, of both runs together; of pairs the pairs."""
        first, second = map(Counter, self.attributes)
        return first + second if self.alone is None else first

    def filling(self, scores: Sequence[Sequence[np.ndarray]], bounds: Sequence[np.ndarray], side: int) -> list[Filling]:
        """List what is missing as it makes a difference least (``side`` 0) or most: of either run, or of pairs alone.

        ``scores`` : of the pictures of either run that have no partner; empty where the runs are not paired.
        ``bounds`` : of either run, what a picture of each target may score, (T × 2).
        """
        ends = low, high = bounds[0][:, 1 - side], bounds[1][:, side]
        if not scores:
            return [
                [np.full(n, end) for n, end in zip(counts, of_run, strict=True)]
                for counts, of_run in zip(self.counts, ends, strict=True)
            ]
        neither = [max(n - len(there), 0) for n, there in zip(self.counts[0], scores[1], strict=True)]
        return [
            [
                np.concatenate([b - of_first, of_second - a, np.full(n, b - a)])
                for a, b, of_first, of_second, n in zip(low, high, *scores, neither, strict=True)
            ]
        ]


@dataclass(frozen=True)
class Absent:
    """Pictures that could have changed a difference but take no part in it.

    Attributes
    ----------
    pictures : what is missing.
    alone : views by encoder of what has no partner, of either run; empty where runs are not compared in pairs.
    drawn : the same of all pairs, each as often as it was drawn; empty where no pair repeats.
    """

    pictures: MissingPictures
    alone: Sequence[Mapping[str, EncoderView]]
    drawn: Sequence[Mapping[str, EncoderView]]

    def drawn_shift(self, which: int, run: MeasuredRun, encoder: str, weights: np.ndarray) -> np.ndarray:
        """Measure how far the mean over all of a run's pictures, as drawn, lies from that over different ones: (T,)."""
        setup, views = run
        scores = [image_scores(cosines, weights) for cosines in views[encoder].each_image]
        if not weights[[II, ITA]].any():
            return np.zeros(len(scores))
        if not self.drawn:
            return np.array([setup.layout.drawn_shift(t, x) for t, x in enumerate(scores)])
        drawn = [image_scores(cosines, weights) for cosines in self.drawn[which][encoder].image_cosines]
        return np.array([y.mean() - x.mean() if len(x) else 0.0 for x, y in zip(scores, drawn, strict=True)])

    def fillings(
        self,
        studies: tuple[StudySetup, StudySetup],
        views: tuple[EncoderView, EncoderView],
        weights: np.ndarray,
        influences: Influences,
    ) -> list[tuple[Sequence[Filling], tuple[np.ndarray, np.ndarray]]]:
        """Fill in what is missing, both ways, and move by what is missing of groups: against 0, and the middles.

        Nothing where none of it enters, or a group has no picture to tell.
        """
        shifts = list(
            zip(
                *(
                    self._shifts(studies, views, weights, values)
                    for values in ((None, None), influences or (None, None))
                ),
                strict=True,
            )
        )
        if not (weights[[II, ITA]].any() and any(self.pictures.of_targets)):
            return [(((), ()), shift) for shift in shifts] if any(self.pictures.of_groups.values()) else []
        bounds = [image_bounds(view, weights) for view in views]
        scores = [
            [image_scores(cosines, weights) for cosines in run[view.encoder].image_cosines]
            for run, view in zip(self.alone, views, strict=False)
        ]
        known = all(np.isfinite(ends).all() for ends in bounds)
        return [(self.pictures.filling(scores, bounds, side), shifts[side]) for side in (0, 1)] if known else []

    def _shifts(
        self,
        studies: tuple[StudySetup, StudySetup],
        views: tuple[EncoderView, EncoderView],
        weights: np.ndarray,
        values: Sequence[ItemValues | None],
    ) -> list[np.ndarray]:
        """Find how far missing attribute images may move the differences down, and up."""
        runs = zip(studies, views, self.pictures.attributes, values, strict=True)
        (low, high), (lower, higher) = (
            attribute_shifts(setup, view, weights, lost, group_values) for setup, view, lost, group_values in runs
        )
        return [lower - high, higher - low]

    def magnitudes(self, which: int, measured: MeasuredRun, value: np.ndarray) -> np.ndarray:
        """Find the least and the largest |image part| of each target that a run may have, (2 × T)."""
        setup, view = measured[0], measured[1]["mean"]
        weights = pair_weights(setup, COMPONENTS[IMAGE_PART], *setup.pair)
        bounds, missing = image_bounds(view, weights), np.array(self.pictures.counts[which])
        alone = [image_scores(x, weights) for x in self.alone[which]["mean"].image_cosines] if self.alone else []
        sums, more = [x.sum() for x in alone] or 0.0, [len(x) for x in alone] or 0
        n = np.array(setup.layout.target_sizes)
        known, total = n * value + sums, n + more + missing
        ends = (known[:, None] + missing[:, None] * bounds) / total[:, None]
        ends = ends + attribute_shifts(setup, view, weights, self.pictures.attributes[which]).T
        size = np.abs(ends)
        return np.stack([np.where(ends[:, 0] * ends[:, 1] <= 0, 0.0, size.min(axis=1)), size.max(axis=1)])


def absent_pictures(
    missing: MissingPictures | None, runs: TwoRuns, design: Design, settings: ResamplingSettings, pairs: TwoRuns | None
) -> Absent | None:
    """Show what is missing, or there twice, to the encoders; None where nothing is.

    ``runs`` count each picture once, or each pair; ``pairs`` are these as they were drawn, None of no pairs.
    """
    missing = missing or MissingPictures(((0,) * len(design.targets),) * 2)
    repeated = any(x.sum() > len(x) for run in runs for x in run[0].target_copies or ())
    if not (repeated or any(missing.of_targets) or any(missing.of_groups.values())):
        return None

    def seen(images_of: TwoRuns) -> list[dict[str, EncoderView]]:
        """See either run with the images of other embeddings in place of its targets' own."""
        views = []
        for run, others in zip(runs, images_of, strict=True):
            encoders = [
                replace(encoder, target_images=other.target_images, target_copies=None, target_batches=None)
                for encoder, other in zip(run, others, strict=True)
            ]
            setup = StudySetup(design, layout_of(encoders, design), settings)
            views.append({view.encoder: view for view in linear_views(encoders, setup).all})
        return views

    alone = [] if missing.alone is None else seen(missing.alone)
    drawn = seen(pairs) if repeated and pairs is not None else []
    return Absent(missing, alone, drawn)


# --- two runs compared -----------------------------------------------------------------------------------------------


NO_INTERVAL = "no interval: a prompt has one image"
NO_NUMBER = "one of the runs has no such number: no image of it, or of one of the cells, or no word"
FIXED = "no stimulus interval: words and encoders are the same in both runs"
TEST = "{} t over images, two-sided"

JUDGED = (IMAGE_PART, "mcas")
"""What a comparison gives verdicts on."""

EstimateTests = MeanTests | BoundedMeans | DifferenceTests


@dataclass(frozen=True)
class ComparedRuns:
    """Two runs of one design that are compared, second minus first.

    Attributes
    ----------
    paired : whether the i-th images of a prompt are partners.
    embeddings : of either run, with each picture or pair once, and without the attribute prompts that are left out.
    left_out : the attribute prompts that one of the runs has no image of, by group and position.
    measured : the setup and the views of either run. Replicates share weights, except of images without partners.
    absent : what is missing of either run, where verdicts have to hold whatever it shows.
    """

    design: Design
    paired: bool
    embeddings: TwoRuns
    left_out: Mapping[str, Sequence[int]]
    measured: tuple[MeasuredRun, MeasuredRun]
    absent: Absent | None

    @property
    def encoders(self) -> list[str]:
        """Names of the views: of the average, then of each encoder."""
        return list(self.measured[0][1])

    @cached_property
    def _layouts(self) -> list[Layout]:
        return [setup.layout for setup, _ in self.measured]

    @cached_property
    def sizes(self) -> list[int]:
        """Images of each target, in the run that has fewer."""
        return [min(both) for both in zip(*(layout.target_sizes for layout in self._layouts), strict=True)]

    @cached_property
    def repeated(self) -> list[int]:
        """Repeated pictures of each target."""
        layouts = self._layouts[: 1 if self.paired else 2]  # both runs have the same pairs
        return [sum(layout.repeated(t) for layout in layouts) for t in range(len(self.sizes))]

    @cached_property
    def batches(self) -> list[int]:
        """Batches of each target's images in the run that has fewer units of chance; 0 if neither has batches."""
        counts = [[layout.batch_count(t) for layout in self._layouts] for t in range(len(self.sizes))]
        sizes = zip(*(layout.target_sizes for layout in self._layouts), strict=True)
        return [
            min(batches or size for batches, size in zip(*both, strict=True)) if any(both[0]) else 0
            for both in zip(counts, sizes, strict=True)
        ]

    def component_family(self, encoder: str, component: str) -> Family:
        """Compare one component of every target; the mean over encoders has verdicts on those in ``JUDGED``."""
        setup, _ = self.measured[0]
        contrast = pair_contrast(setup, COMPONENTS[component], {"component": component})
        is_judged = component in JUDGED and encoder == MEAN
        return self.family(encoder, [contrast], component, margin=self.design.margin, judged=is_judged)

    def family(
        self, encoder: str, contrasts: Sequence[Contrast], name: str, *, margin: float | None, judged: bool
    ) -> Family:
        """Compare contrasts of every target between the runs, as one family; with verdicts if ``judged``."""
        (setup, first), (other, second) = ((setup, views[encoder]) for setup, views in self.measured)
        influences: list[Influences] = [
            (attribute_influences(first, contrast.weights), attribute_influences(second, contrast.weights))
            if judged and contrast.weights[[II, ITA]].any()
            else None
            for contrast in contrasts
        ]
        fillings = [
            self.absent.fillings((setup, other), (first, second), contrast.weights, influence) if self.absent else []
            for contrast, influence in zip(contrasts, influences, strict=True)
        ]
        ways = min(map(len, fillings))
        missing = self.absent.pictures if self.absent and ways else None

        def rows(contrast: Contrast, influence: Influences, *filled: Any, **shift: Any) -> list[Score]:
            return self._rows((first, second), contrast, influence, margin, missing, *filled, **shift)

        each_contrast = list(zip(contrasts, influences, strict=True))
        by_contrast = [rows(contrast, influence) for contrast, influence in each_contrast]
        sides = [contrast.sides for contrast, of_contrast in zip(contrasts, by_contrast, strict=True)
                 for _ in of_contrast]  # fmt: skip
        as_drawn = list[Score]()
        if any(self.repeated):
            assert self.absent is not None
            for contrast, influence in each_contrast:
                one, two = (self.absent.drawn_shift(i, self.measured[i], encoder, contrast.weights) for i in (0, 1))
                as_drawn += rows(contrast, influence, shift=(two - one, two - one))
        return Family(
            rows=list(chain.from_iterable(by_contrast)), name=f"{name} over {len(self.sizes)} targets",
            margin=margin, fewest=FEWEST_IMAGES, as_drawn=as_drawn,
            sides=([a for a, _ in sides], [b for _, b in sides]) if judged else None,
            fillings=[
                [
                    row
                    for (contrast, influence), filled in zip(each_contrast, fillings, strict=True)
                    for row in rows(contrast, influence, *filled[way])
                ]
                for way in range(ways)
            ],
        )  # fmt: skip

    def _rows(
        self,
        views: tuple[EncoderView, EncoderView],
        contrast: Contrast,
        influences: Influences,
        margin: float | None,
        missing: MissingPictures | None,
        filling: Sequence[Filling] = ((), ()),
        shift: tuple[ArrayLike, ArrayLike] = (0.0, 0.0),
    ) -> list[Score]:
        """Return a row for each target: the difference of a contrast.

        ``influences`` : how the attribute images move it, if it is compared with the middles as well. ``filling`` :
        what replaces missing pictures. ``shift`` : how far it is moved, from 0 and from the middles.
        """
        (setup, other), (first, second) = (setup for setup, _ in self.measured), views
        images: EstimateTests
        stimulus: EstimateTests
        if self.paired:
            tests = paired_tests(setup, paired_difference(first, second), contrast.weights, filling[0], shift[0])
            images, stimulus = tests.images, tests.stimulus
        else:
            images, stimulus = unpaired_differences((setup, other), views, contrast.weights, filling, shift[0])
        fields_of_rows = _row_fields(setup, images, stimulus, margin, self.paired, shift)
        if influences is not None:
            runs = [(setup, first, influences[0]), (other, second, influences[1])]
            apart = differences_from_middle(runs, contrast.weights, filling, shift[1], paired=self.paired)
            around = nan if margin is None else min(
                margin_around_middle(view.poles, contrast.weights, margin) for view in views
            )  # fmt: skip
            fields_of_rows = _with_middles(fields_of_rows, apart, around, setup.settings.confidence, shift)
        imaged, nothing = contrast.weights[[II, ITA]].any(), [0] * len(self.sizes)
        of_targets = missing.of_targets if missing and imaged else nothing
        of_groups = missing.of_groups if missing else Counter[str]()
        n_attributes = sum(
            of_groups[self.design.groups[g]] for g in contrast.basis.groups if contrast.weights[[II, ITP], g].any()
        )
        repeated, batches = (counts if imaged else nothing for counts in (self.repeated, self.batches))
        columns = zip(
            self.design.targets, self.sizes, of_targets, repeated, batches, fields_of_rows, strict=True
        )  # fmt: skip
        return [
            Score(
                **{**contrast.names, "metric": METRIC}, concept=target.name, category=target.category,
                encoder=first.encoder, n_target=n, n_repeated=n_repeated, n_batches=n_batches, n_missing=n_missing,
                n_missing_attributes=n_attributes, **fields,
                reason=_reason(setup, contrast, fields["value"], fields["p"], n, paired=self.paired),
            )
            for target, n, n_missing, n_repeated, n_batches, fields in columns
        ]  # fmt: skip


def compare_runs(
    first: Sequence[EncoderEmbeddings],
    second: Sequence[EncoderEmbeddings],
    design: Design,
    settings: ResamplingSettings,
    *,
    paired: bool,
    missing: MissingPictures | None = None,
) -> ComparedRuns:
    """Count each picture or pair once, drop attribute prompts that one run has no image of, and measure both runs.

    ``missing`` : what either run was asked for and did not draw.

    Raises
    ------
    InvalidInputError
        Encoders or, where paired, counts of images that differ between the runs.
    """
    layouts = [layout_of(run, design) for run in (first, second)]
    counts = [(layout.target_sizes, layout.prompt_sizes) for layout in layouts]
    require_comparable(first, second, counts, paired=paired)
    sizes = [dict(zip(layout.groups, layout.prompt_sizes, strict=True)) for layout in layouts]
    empty = {
        group: [i for i, both in enumerate(zip(sizes[0][group], sizes[1][group], strict=True)) if not all(both)]
        for group in layouts[0].groups
    }
    left_out = {group: prompts for group, prompts in empty.items() if prompts}

    def without_left_out(encoder: EncoderEmbeddings) -> EncoderEmbeddings:
        """Drop these prompts' images from a run: a group is the mean of the same prompts in both."""
        images = {
            group: tuple(x[:0] if i in left_out.get(group, ()) else x for i, x in enumerate(by_prompt))
            for group, by_prompt in encoder.group_images.items()
        }
        return replace(encoder, group_images=images)

    one, other = ([without_left_out(encoder) for encoder in run] for run in (first, second))
    runs = pairs_counted_once(one, other) if paired else (counted_once(one, design), counted_once(other, design))
    absent = absent_pictures(missing, runs, design, settings, (first, second) if paired else None)
    return ComparedRuns(design, paired, runs, left_out, measured_runs(runs, design, settings, paired), absent)


def measured_runs(
    runs: TwoRuns, design: Design, settings: ResamplingSettings, paired: bool
) -> tuple[MeasuredRun, MeasuredRun]:
    """Measure what is linear in the mean cosines of both runs: the setup and the views of each."""
    seeds = image_seeds(settings.seed, paired=paired)
    setups = [
        StudySetup(design, layout_of(run, design), replace(settings, image_seed=image_seed))
        for run, image_seed in zip(runs, seeds, strict=True)
    ]
    first, second = (
        (setup, {view.encoder: view for view in linear_views(run, setup).all})
        for run, setup in zip(runs, setups, strict=True)
    )
    return first, second


def _row_fields(
    setup: StudySetup,
    images: EstimateTests,
    stimulus: EstimateTests,
    margin: float | None,
    paired: bool,
    shift: tuple[ArrayLike, ArrayLike],
) -> Iterator[dict[str, Any]]:
    """Yield for every target the difference, its intervals and p, and p of two one-sided tests within the margin."""
    confidence = setup.settings.confidence
    inner, outer = (of_no_width(tested.interval(confidence), images, shift[0]) for tested in (images, stimulus))
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

    The rows are of metric ``comparison``, components ``axis:A`` and ``cell:C`` as in :func:`crossed_study`. q is over
    the targets, for cells and levels over both; rows of the average over encoders have a verdict. ``paired``: the i-th
    image of a prompt starts from the same noise in both runs. An attribute prompt that one run has no image of is left
    out of both. An axis that the encoders cannot read in either run has no verdict; a cell needs all axes. ``missing``:
    see :func:`~clinometer.studies.leaning.compare.compare_leanings`.

    Raises
    ------
    InvalidInputError
        Encoders or, where paired, counts of images that differ between the runs.
    """
    settings = ResamplingSettings(confidence=confidence)
    runs = compare_runs(first, second, design, settings, paired=paired, missing=missing)
    setup, _ = runs.measured[0]
    rows = []
    for encoder in runs.encoders:
        for effect in effects_of(design):
            if effect.kind != "interaction":
                margin = design.margin / 2 if design.margin is not None and effect.of_halves else design.margin
                contrasts = effect_contrasts(setup, effect, COMPONENTS[IMAGE_PART])
                is_judged = encoder == MEAN
                rows += runs.family(encoder, contrasts, effect.component, margin=margin, judged=is_judged).judged()
    if runs.left_out:
        words = ", ".join(f"{len(prompts)} of {group}" for group, prompts in runs.left_out.items())
        left_out = f"prompts left out of both for want of images in one of the runs: {words}"
        rows = [with_reasons(row, left_out) for row in rows]
    return withheld_between(rows, *(checks_of(run, design, confidence=confidence) for run in runs.embeddings))
