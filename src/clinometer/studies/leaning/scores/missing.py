"""What either of two runs was asked for and did not draw, and how far that may move a difference between them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from clinometer.metrics.mcas import COMPONENTS, IMAGE_PART
from clinometer.studies.leaning.scores.contrasts import (
    II,
    ITA,
    Filling,
    ItemValues,
    attribute_shifts,
    image_bounds,
    image_scores,
    pair_weights,
)
from clinometer.studies.leaning.scores.design import (
    Design,
    EncoderEmbeddings,
    ResamplingSettings,
    StudySetup,
    TwoRuns,
    layout_of,
)
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

    def alone_in(self, run: Sequence[EncoderEmbeddings], which: int) -> list[EncoderEmbeddings]:
        """Replace the pictures of a run's targets by those without partners."""
        assert self.alone is not None
        return [
            replace(encoder, target_images=other.target_images, target_copies=None, target_batches=None)
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

    def seen(runs: Sequence[Sequence[EncoderEmbeddings]]) -> list[dict[str, EncoderView]]:
        studies = [StudySetup(design, layout_of(run, design), settings) for run in runs]
        views = [linear_views(run, setup) for run, setup in zip(runs, studies, strict=True)]
        return [{view.encoder: view for view in of_run.all} for of_run in views]

    alone = [] if missing.alone is None else seen([missing.alone_in(run, which) for which, run in enumerate(runs)])
    drawn = seen([
        [
            replace(once, target_images=all_.target_images, target_copies=None, target_batches=None)
            for once, all_ in zip(*both, strict=True)
        ]
        for both in zip(runs, pairs, strict=True)
    ]) if repeated and pairs is not None else []  # fmt: skip
    return Absent(missing, alone, drawn)
