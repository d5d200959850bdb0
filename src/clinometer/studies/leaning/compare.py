"""Two models, or one at two settings, asked the same: by how much the second leans otherwise than the first."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf, isfinite, nan
from typing import Any, Literal

import numpy as np
import scipy
from numpy.typing import ArrayLike

from clinometer.errors import InvalidInputError
from clinometer.metrics.bounds import MISSING, with_bounds
from clinometer.metrics.differences import METRIC, named_or_counted, not_measured
from clinometer.metrics.mcas import COMPONENTS, IMAGE_PART, component_of
from clinometer.metrics.records import Score
from clinometer.metrics.two_runs import Family, image_seeds, magnitude_row, require_comparable, with_reasons
from clinometer.metrics.verdict import FEWEST_IMAGES
from clinometer.stats.bootstrap import Interval, magnitude_excess, percentile_interval
from clinometer.stats.bounded_means import BoundedMeans
from clinometer.stats.moderation import NO_SPREAD, DifferenceTests, MeanTests
from clinometer.studies.leaning.scores.contrasts import (
    II,
    ITA,
    ContrastDifferences,
    ContrastTests,
    Filling,
    image_bounds,
    image_scores,
    pair_weights,
    paired_difference,
    paired_tests,
    unpaired_differences,
)
from clinometer.studies.leaning.scores.cosines import TargetReplicates, all_targets, variance
from clinometer.studies.leaning.scores.design import (
    Design,
    DrawSettings,
    EncoderEmbeddings,
    Layout,
    LeaningStudy,
    layout_of,
)
from clinometer.studies.leaning.scores.measuring import counted_once, pairs_counted_once
from clinometer.studies.leaning.scores.reader import reader_checks, withheld_between
from clinometer.studies.leaning.scores.stopping import differences_when_stopped, paired_evidence
from clinometer.studies.leaning.scores.views import EncoderView, linear_views, views_of

JUDGED = (IMAGE_PART, "mcas")
"""What a comparison gives verdicts on."""

COMPARED = (IMAGE_PART, "ii", "itp", "ita", "mcas")
"""TT rests on no image: it is the same in both, and the text part differs by ITP alone."""

NO_INTERVAL = "no interval: a prompt has one image"
TEST = "{} t over images, two-sided"
MAGNITUDE_TEST = "{} t of the difference, bootstrapped standard error, two-sided"


_Run = tuple[LeaningStudy, dict[str, EncoderView]]
"""A run of a comparison: its study and its views by encoder."""


@dataclass(frozen=True)
class MissingPictures:
    """The pictures of two runs that were asked for and are not there.

    Attributes
    ----------
    counts : of the first run and of the second, of every target.
    alone : where the runs are compared in pairs, what either run drew of targets and has no partner for, seen by the
        same encoders; of these embeddings nothing else is looked at.
    """

    counts: tuple[Sequence[int], Sequence[int]]
    alone: tuple[Sequence[EncoderEmbeddings], Sequence[EncoderEmbeddings]] | None = None

    @property
    def of_targets(self) -> list[int]:
        """Count those of each target, of both runs together."""
        return [sum(both) for both in zip(*self.counts, strict=True)]

    def alone_in(self, run: Sequence[EncoderEmbeddings], which: int) -> list[EncoderEmbeddings]:
        """Put the pictures without partners in place of the others of a run's targets."""
        assert self.alone is not None
        return [
            replace(encoder, target_images=other.target_images, target_copies=None)
            for encoder, other in zip(run, self.alone[which], strict=True)
        ]

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
    """Missing pictures, with the views by encoder of those that have no partner, of either run; none of no pairs."""

    pictures: MissingPictures
    alone: Sequence[Mapping[str, EncoderView]]

    def fillings(self, views: tuple[EncoderView, EncoderView], weights: np.ndarray) -> list[list[Filling]]:
        """Fill in what is missing, both ways; nothing where no picture enters, or a group has none to tell."""
        if not weights[[II, ITA]].any():
            return []
        bounds = [image_bounds(view, weights) for view in views]
        scores = [
            [image_scores(cosines, weights) for cosines in run[view.encoder].image_cosines]
            for run, view in zip(self.alone, views, strict=False)
        ]
        known = all(np.isfinite(ends).all() for ends in bounds)
        return [self.pictures.filling(scores, bounds, side) for side in (0, 1)] if known else []

    def magnitudes(self, which: int, measured: _Run, value: np.ndarray) -> np.ndarray:
        """Find the least and the largest |image part| of each target that a run may have, (2 × T)."""
        study, view = measured[0], measured[1]["mean"]
        weights = pair_weights(study, COMPONENTS[IMAGE_PART], *study.pair)
        bounds, missing = image_bounds(view, weights), np.array(self.pictures.counts[which])
        alone = [image_scores(x, weights) for x in self.alone[which]["mean"].image_cosines] if self.alone else []
        sums, more = [x.sum() for x in alone] or 0.0, [len(x) for x in alone] or 0
        n = np.array(study.layout.target_sizes)
        known, total = n * value + sums, n + more + missing
        ends = (known[:, None] + missing[:, None] * bounds) / total[:, None]
        size = np.abs(ends)
        return np.stack([np.where(ends[:, 0] * ends[:, 1] <= 0, 0.0, size.min(axis=1)), size.max(axis=1)])


def compare_leanings(
    first: Sequence[EncoderEmbeddings],
    second: Sequence[EncoderEmbeddings],
    design: Design,
    *,
    paired: bool,
    until_decided: bool = False,
    n_resamples: int = 10_000,
    seed: int = 0,
    confidence: float = 0.95,
    missing: MissingPictures | None = None,
) -> list[Score]:
    """Differences of the MCAS components between two runs of one design, seen by the same encoders.

    ::

        Δ_t = s_t(second) − s_t(first)                  in [−16, 16] for mcas, [−8, 8] for ``image_part``, else [−4, 4]
        Δ   = mean_t |image_part_t(second)| − mean_t |image_part_t(first)|                    ``magnitude``
        p   = 2 P(T_ν ≥ |Δ_t| / se)        se over images: of partners their own, else moderated over the targets

    Positive: the second run leans more to group a. ``paired``: the i-th image of a prompt starts from the same noise in
    both runs, so both are resampled by the same weights and what they have in common cancels; then every prompt must
    have equally many images in both. Otherwise each run's images are resampled for themselves. Words and encoders are
    the same in both runs, and are always resampled alike. Intervals of a target's numbers are dual to their tests.
    An attribute prompt that one run has no image of is left out of both, and rows that rest on it say so: the mean of a
    group would be one of other prompts.
    In ``magnitude`` the signs of the estimates are held while resampling: a percentile interval of |x| cannot reach 0;
    and each prompt has equally many images in both runs, the first ones of the larger: the magnitude of few images is
    larger by chance. So is that of targets near parity: the ends are moved outwards, and the difference that p judges
    towards 0, by what either run's magnitude may owe to it (``magnitude_excess``).
    ``until_decided``: a run stopped by what it saw. Only what holds at any number of images is then told: intervals, p
    and verdicts of the image part and MCAS, by bets on the pairs
    (:mod:`~clinometer.studies.leaning.scores.stopping`).
    ``missing`` : what either run was asked for and did not draw. What is missing of the second is taken to be of group
    b, and of the first of group a, and then the other way round; a verdict that does not hold over both says so.

    Returns
    -------
    Rows of metric ``comparison``: every component of every target, and ``magnitude`` over all targets, with q over the
    targets of a component, and a verdict on ``image_part`` and ``mcas`` of the mean over encoders and on ``magnitude``.
    Where the design has a margin, two one-sided tests show that the runs lean alike: |Δ| < margin. What is undecided
    says how many images would decide, all sets growing alike. A view that cannot read the attribute images of either
    run gives no verdict: ``not measured``, with the reason.

    Raises
    ------
    InvalidInputError
        Encoders or, where paired, counts of images that differ between the runs.
    """
    layouts = [layout_of(run, design) for run in (first, second)]
    if until_decided and not paired:
        raise InvalidInputError("until_decided: images drawn until decided are compared in pairs only")
    require_comparable(first, second, [image_counts(layout) for layout in layouts], paired=paired)
    lost = lost_prompts(layouts)
    first, second = ([without_prompts(encoder, lost) for encoder in run] for run in (first, second))
    first, second = once(first, second, design, paired=paired)
    checks = [reader_checks(run, design, confidence=confidence) for run in (first, second)]
    layouts = [layout_of(run, design) for run in (first, second)]
    settings = DrawSettings(n_resamples, 1, seed, confidence)
    measured = measured_runs(first, second, design, settings, paired)
    absent = absent_pictures(missing, (first, second), design, settings)
    rows = [
        row
        for encoder in measured[0][1]
        for component in COMPARED
        for row in difference_family(
            design, measured, encoder, component, paired=paired, confidence=confidence, absent=absent
        ).judged()
    ]
    level = measured
    if image_counts(layouts[0]) != image_counts(layouts[1]):
        level = measured_runs(*_levelled(first, second), design, settings, paired)
    of_both = level[0][1]["mean"].targets, level[1][1]["mean"].targets
    rows.append(_magnitude(design, of_both, paired, confidence, absent, measured))
    rows = [_noted(row, lost, design, paired) for row in rows]
    if until_decided:
        stands = {name: paired_evidence(first, second, design, component=name, ahead=True) for name in JUDGED}
        rows = differences_when_stopped(rows, stands, design)
    return withheld_between(rows, *checks)


def absent_pictures(
    missing: MissingPictures | None,
    runs: tuple[Sequence[EncoderEmbeddings], Sequence[EncoderEmbeddings]],
    design: Design,
    settings: DrawSettings,
) -> Absent | None:
    """Show what is missing to the encoders; None where nothing is."""
    if missing is None or not any(missing.of_targets):
        return None
    if missing.alone is None:
        return Absent(missing, ())
    without = [missing.alone_in(run, which) for which, run in enumerate(runs)]
    studies = [LeaningStudy(design, layout_of(run, design), settings) for run in without]
    views = [linear_views(run, study) for run, study in zip(without, studies, strict=True)]
    return Absent(missing, [{view.encoder: view for view in of_run} for of_run in views])


def once(
    first: Sequence[EncoderEmbeddings], second: Sequence[EncoderEmbeddings], design: Design, *, paired: bool
) -> tuple[list[EncoderEmbeddings], list[EncoderEmbeddings]]:
    """Two runs in which each picture counts once; where they are paired, each pair."""
    return pairs_counted_once(first, second) if paired else (counted_once(first, design), counted_once(second, design))


def image_counts(layout: Layout) -> tuple[object, object]:
    """How many images of every target and of every attribute prompt."""
    return layout.target_sizes, layout.prompt_sizes


def lost_prompts(layouts: Sequence[Layout]) -> dict[str, list[int]]:
    """The attribute prompts that one of the runs has no image of, by group and position."""
    sizes = [dict(zip(layout.groups, layout.prompt_sizes, strict=True)) for layout in layouts]
    lost = {
        group: [i for i, both in enumerate(zip(sizes[0][group], sizes[1][group], strict=True)) if not all(both)]
        for group in layouts[0].groups
    }
    return {group: prompts for group, prompts in lost.items() if prompts}


def without_prompts(run: EncoderEmbeddings, lost: Mapping[str, Sequence[int]]) -> EncoderEmbeddings:
    """A run without the images of these attribute prompts: the mean of a group is one of the same prompts in both."""
    images = {
        group: tuple(x[:0] if i in lost.get(group, ()) else x for i, x in enumerate(by_prompt))
        for group, by_prompt in run.group_images.items()
    }
    return replace(run, group_images=images)


def _noted(row: Score, lost: Mapping[str, Sequence[int]], design: Design, paired: bool) -> Score:
    """Say in a row that rests on attribute images which of their prompts were left out."""
    positions = {group: lost[group] for group in (design.a, design.b) if group in lost}
    if not positions or row.component == "ita":
        return row
    words = " and ".join(f"{_prompts_in_words(group, at, design)} of {group}" for group, at in positions.items())
    images = "images that both runs drew" if paired else "images in one of the runs"
    return with_reasons(row, f"left out of both for want of {images}: {words}")


def _prompts_in_words(group: str, positions: Sequence[int], design: Design) -> str:
    prompts = design.prompts.get(group)
    if prompts is None:
        return f"{len(positions)} of the prompts"
    return named_or_counted([f"“{prompts[i]}”" for i in positions], "of the prompts")


def measured_runs(
    first: Sequence[EncoderEmbeddings],
    second: Sequence[EncoderEmbeddings],
    design: Design,
    settings: DrawSettings,
    paired: bool,
) -> list[_Run]:
    """Both runs, each a study and its views; replicates by the same weights but for images without partners."""
    studies = [
        LeaningStudy(design, layout_of(run, design), replace(settings, image_seed=image_seed))
        for run, image_seed in zip((first, second), image_seeds(settings.seed, paired=paired), strict=True)
    ]
    return [
        (study, {view.encoder: view for view in views_of(run, study)})
        for run, study in zip((first, second), studies, strict=True)
    ]


def _levelled(
    first: Sequence[EncoderEmbeddings], second: Sequence[EncoderEmbeddings]
) -> tuple[list[EncoderEmbeddings], list[EncoderEmbeddings]]:
    """Both runs with equally many images of every prompt: the first ones of the larger."""

    def cut(run: EncoderEmbeddings, other: EncoderEmbeddings) -> EncoderEmbeddings:
        def shorter(images: Sequence[np.ndarray], others: Sequence[np.ndarray]) -> tuple[np.ndarray, ...]:
            return tuple(own[: len(their)] for own, their in zip(images, others, strict=True))

        return replace(
            run,
            target_images=shorter(run.target_images, other.target_images),
            group_images={g: shorter(images, other.group_images[g]) for g, images in run.group_images.items()},
        )

    pairs = list(zip(first, second, strict=True))
    return [cut(one, other) for one, other in pairs], [cut(other, one) for one, other in pairs]


def _scores(design: Design, tensor: np.ndarray, component: str) -> np.ndarray:
    return component_of(tensor, design.index(design.a), design.index(design.b), component)


def _part_replicates(design: Design, run: TargetReplicates, kind: Literal["images", "stimulus"]) -> np.ndarray:
    """Replicates of the image part of every target, (R × T)."""
    return all_targets(run, lambda part: _scores(design, getattr(part, kind), IMAGE_PART))


EstimateTests = MeanTests | BoundedMeans | DifferenceTests


def difference_family(
    design: Design,
    measured: Sequence[_Run],
    encoder: str,
    component: str,
    *,
    paired: bool,
    confidence: float,
    absent: Absent | None = None,
) -> Family:
    """Differences of one component of every target; ``JUDGED`` ones of the mean over encoders have verdicts."""
    (study, first), (other, second) = ((study, views[encoder]) for study, views in measured)
    weights = pair_weights(study, COMPONENTS[component], *study.pair)
    sizes = [min(both) for both in zip(study.layout.target_sizes, other.layout.target_sizes, strict=True)]
    fillings = absent.fillings((first, second), weights) if absent else []
    missing = absent.pictures.of_targets if absent and fillings else [0] * len(sizes)

    def rows(filling: Sequence[Filling] = ((), ())) -> list[Score]:
        tests: ContrastTests | ContrastDifferences
        if paired:
            tests = paired_tests(study, paired_difference(first, second), weights, filling[0])
        else:
            tests = unpaired_differences((study, other), (first, second), weights, filling)
        outer = of_no_width(tests.stimulus.interval(confidence), tests.images)
        return [
            Score(
                metric=METRIC, component=component, concept=target.name, category=target.category, encoder=encoder,
                stimulus_low=float(np.fmin(fields["low"], outer.low[t])),
                stimulus_high=float(np.fmax(fields["high"], outer.high[t])), n_target=n, n_missing=missing[t], **fields,
                reason=_reason(fields["value"], fields["p"], lost=not n and component != "itp", paired=paired),
            )
            for t, (target, n, fields) in enumerate(
                zip(design.targets, sizes, tested(tests.images, design.margin, paired, confidence), strict=True)
            )
        ]  # fmt: skip

    return Family(
        rows=rows(), name=f"{component} over {len(sizes)} targets", margin=design.margin, fewest=FEWEST_IMAGES,
        sides=(design.a, design.b) if component in JUDGED and encoder == "mean" else None,
        fillings=[rows(filling) for filling in fillings],
    )  # fmt: skip


def tested(tests: EstimateTests, margin: float | None, paired: bool, confidence: float) -> Iterator[dict[str, Any]]:
    """Of every target: the difference, its interval, its p, and that of two one-sided tests within the margin."""
    ends, p = of_no_width(tests.interval(confidence), tests), p_values(tests)
    inside = np.full_like(p, nan) if margin is None else tests.p_outside(margin)
    for t, p_value in enumerate(p.tolist()):
        yield {
            "value": float(tests.value[t]),
            "low": float(ends.low[t]),
            "high": float(ends.high[t]),
            "p": p_value,
            "p_equivalence": float(inside[t]),
            "test": _test(paired) if isfinite(p_value) else "",
        }


def of_no_width(interval: Interval, tests: EstimateTests) -> Interval:
    """The interval [0, 0] where the runs are one and the same, image by image."""
    return Interval(*(np.where(alike(tests), 0.0, end) for end in (interval.low, interval.high)))


def alike(tests: EstimateTests) -> np.ndarray:
    """Where the runs are one and the same, image by image: no difference, and none that varies."""
    return np.asarray((tests.value**2 <= NO_SPREAD) & (tests.standard_error**2 <= NO_SPREAD))


def p_values(tests: EstimateTests) -> np.ndarray:
    """P of no difference: 1 where the runs are one and the same, image by image."""
    return np.where(alike(tests), 1.0, tests.p_value)


def _magnitude(
    design: Design,
    both: tuple[TargetReplicates, TargetReplicates],
    paired: bool,
    confidence: float,
    absent: Absent | None,
    measured: Sequence[_Run],
) -> Score:
    """Which run leans more, over all targets that both measure.

    What is missing of a run may make each of its targets lean less, or more, by itself: as far as it may, the
    difference is moved, and is as uncertain as it was.
    """
    points = [_scores(design, run.point, IMAGE_PART) for run in both]
    is_measured = np.isfinite(points[0]) & np.isfinite(points[1])
    if not is_measured.any():
        reason = "no target is measured in both runs"
        return not_measured(Score(metric=METRIC, component="magnitude", category="all", reason=reason))
    is_measured, left_out = _with_interval(design, both, is_measured)

    def difference(kind: Literal["images", "stimulus"]) -> np.ndarray:
        replicates = [_part_replicates(design, run, kind) * np.sign(own) for run, own in zip(both, points, strict=True)]
        return np.asarray((replicates[1] - replicates[0])[..., is_measured].mean(axis=-1))

    def excess(kind: Literal["images", "stimulus"]) -> list[float]:
        errors = [np.sqrt(variance(_part_replicates(design, run, kind)))[is_measured] for run in both]
        return [
            float(magnitude_excess(own[is_measured], error).mean()) for own, error in zip(points, errors, strict=True)
        ]

    value = np.asarray(
        (points[1] * np.sign(points[1]) - points[0] * np.sign(points[0]))[..., is_measured].mean(axis=-1)
    )
    images, stimulus = difference("images"), difference("stimulus")
    inner, outer = percentile_interval(images, confidence), percentile_interval(stimulus, confidence)
    of_images, of_stimuli = excess("images"), excess("stimulus")

    def row(shift: float = 0.0) -> Score:
        moved = float(value + shift)
        surely = np.sign(moved) * max(0.0, abs(moved) - of_images[int(moved > 0)])
        p = float(p_value_of_no_difference(images, np.asarray(surely)))
        found = Score(
            metric=METRIC, component="magnitude", category="all", value=moved, low=float(inner.low + shift),
            high=float(inner.high + shift), stimulus_low=float(outer.low + shift),
            stimulus_high=float(outer.high + shift), p=p,
            test=_test(paired, MAGNITUDE_TEST) if isfinite(p) else "",
            n_target=int(is_measured.sum()), n_missing=sum(absent.pictures.of_targets) if absent else 0,
            reason=left_out if isfinite(p) else NO_INTERVAL,
        )  # fmt: skip
        return magnitude_row(found, of_images, of_stimuli)

    if absent is None:
        return row()
    least, most = np.stack([absent.magnitudes(i, measured[i], points[i]) for i in (0, 1)], axis=1)
    own = np.abs(points)
    shifts = [(second - own[1]) - (first - own[0]) for first, second in ((most[0], least[1]), (least[0], most[1]))]
    fillings = [[row(float(shift[is_measured].mean()))] for shift in shifts if np.isfinite(shift[is_measured]).all()]
    return with_bounds([row()], {MISSING: fillings})[0]


def _with_interval(
    design: Design, both: tuple[TargetReplicates, TargetReplicates], is_measured: np.ndarray
) -> tuple[np.ndarray, str]:
    """The targets whose images have a spread in both runs, and why others are left out; all, where none has one.

    A single target of one image would take the interval from the mean over all.
    """
    spread = [np.isfinite(variance(_part_replicates(design, run, "images"))) for run in both]
    sure = is_measured & spread[0] & spread[1]
    if not sure.any() or sure.sum() == is_measured.sum():
        return is_measured, ""
    names = [target.name for target, out in zip(design.targets, is_measured & ~sure, strict=True) if out]
    return sure, f"left out, with one image in one of the runs: {named_or_counted(names, 'targets')}"


def p_value_of_no_difference(replicates: np.ndarray, value: np.ndarray, freedom: ArrayLike = inf) -> np.ndarray:
    """Two-sided p of "no difference" by Student's t, with the standard error of the replicates (R × …).

    ::

        p = 2 P(T_ν ≥ |Δ̂| / se*)            1 where neither the difference nor a replicate is other than 0
    """
    error = np.sqrt(variance(replicates))
    with np.errstate(divide="ignore", invalid="ignore"):
        size = np.where((value == 0) & (error == 0), 0.0, np.abs(value) / error)
    return np.where(np.isfinite(value) & np.isfinite(error), 2 * scipy.stats.t.sf(size, freedom), np.nan)


def _test(paired: bool, words: str = TEST) -> str:
    return words.format("paired" if paired else "unpaired")


def _reason(value: float, p: float, *, lost: bool, paired: bool) -> str:
    if isfinite(value):
        return "" if isfinite(p) else NO_INTERVAL
    if lost:
        return "no image of it that both runs drew" if paired else "no image of it in one of the runs"
    return "one of the runs has no such number: no attribute image, or an encoder that reads no text"
