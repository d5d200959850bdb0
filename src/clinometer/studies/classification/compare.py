"""Differences of two models as classifiers of portraits, or of one at two settings.

See decision 21.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import nan
from typing import Any

import numpy as np

from clinometer.metrics.classification import image_associations
from clinometer.metrics.differences import Family, bounded_magnitude, judged_families
from clinometer.metrics.portraits import PortraitPair, difference_row, portrait_magnitude
from clinometer.metrics.records import Score
from clinometer.studies.classification.scores import (
    DENOISER,
    ClassificationDesign,
    Contrast,
    setting_name,
    validated_errors,
    wins_at,
)


@dataclass(frozen=True)
class ClassifiedPortraits:
    """One run's denoising errors: by group, (images × classes × trials), what counts as a tie, and what is missing.

    ``missing`` : by group, (images,) whether each was asked for and is not there.
    """

    errors: Mapping[str, np.ndarray]
    tolerance: float
    missing: Mapping[str, np.ndarray] = field(default_factory=dict)


def compare_classifications(
    first: ClassifiedPortraits,
    second: ClassifiedPortraits,
    design: ClassificationDesign,
    *,
    paired: bool,
    n_permutations: int = 19_999,
    seed: int = 0,
    confidence: float = 0.95,
) -> list[Score]:
    """Return differences between two classification runs, second minus first, at the most noise samples.

    ================= ========================================================================================
    component         what
    ================= ========================================================================================
    ``association``   of S of each group, in [−1, 1]
    ``differential``  of ΔS of each contrast, in [−2, 2], with a verdict; positive: the second leans more to its x
    ``magnitude``     of mean |ΔS| over the contrasts, with a verdict
    ================= ========================================================================================

    ``paired``: the i-th portraits of a group belong together (:mod:`clinometer.metrics.differences`).
    """
    runs = (first, second)
    values = of_first, of_second = [
        {
            group: image_associations(wins_at(errors, len(design.a), design.noise_samples[-1], run.tolerance))[:, None]
            for group, errors in validated_errors(run.errors, design).items()
        }
        for run in runs
    ]
    missing = [
        {group: run.missing.get(group, np.zeros(len(x), bool))[:, None] for group, x in by_group.items()}
        for run, by_group in zip(runs, values, strict=True)
    ]
    comparison = _PortraitComparison((of_first, of_second), missing, design, paired, n_permutations, seed, confidence)
    groups = comparison.family(
        "association", {group: {group: 1.0} for group in design.groups},
        name=f"association of {len(design.groups)} groups",
    )  # fmt: skip
    sides = [contrast.name_x for contrast in design.contrasts], [contrast.name_y for contrast in design.contrasts]
    contrasts = comparison.family(
        "differential", {contrast.name: contrast_weights(contrast) for contrast in design.contrasts},
        name=f"{len(design.contrasts)} contrasts", sides=sides, margin=design.margin,
    )  # fmt: skip
    return [*judged_families([groups, contrasts]), comparison.magnitude()]


Values = dict[str, np.ndarray]
"""By group, (images × 1)."""


@dataclass(frozen=True)
class _PortraitComparison:
    """Each portrait's association in both runs, and whether it is missing there."""

    values: tuple[Values, Values]
    missing: Sequence[Values]
    design: ClassificationDesign
    paired: bool
    n_permutations: int
    seed: int
    confidence: float

    @property
    def ways(self) -> tuple[int, ...]:
        """How missing portraits are filled in: so that a difference is least (0), and most; empty without any."""
        return (0, 1) if any(lost.any() for by_group in self.missing for lost in by_group.values()) else ()

    def filled(self, weights: Mapping[str, float], side: int) -> tuple[Values, Values]:
        """Return values with missing ones such that a difference is least (``side`` 0) or most.

        A group without any image stays as it is.
        """
        first, second = (
            {
                group: np.where(lost[group] & np.isfinite(values[group]).any(), (weight > 0) == up, values[group])
                for group, weight in weights.items()
            }
            for values, lost, up in zip(self.values, self.missing, (not side, bool(side)), strict=True)
        )
        return first, second

    def family(self, component: str, weights_by_name: Mapping[str, Mapping[str, float]], **judged: Any) -> Family:
        """Return differences of weighted sums of the groups' S, with missing portraits filled in either way."""

        def rows(side: int | None = None) -> list[Score]:
            return [
                difference_row(
                    PortraitPair(*(self.values if side is None else self.filled(weights, side)), self.paired), weights,
                    component, answers=len(self.design.a) * len(self.design.b), n_permutations=self.n_permutations,
                    confidence=self.confidence, rng=np.random.default_rng([self.seed, *name.encode()]), group=name,
                    setting=setting_name(self.design.noise_samples[-1]), encoder=DENOISER,
                    n_missing=sum(int(lost[group].sum()) for lost in self.missing for group in weights),
                )
                for name, weights in weights_by_name.items()
            ]  # fmt: skip

        return Family(rows=rows(), fillings=[rows(way) for way in self.ways], **judged)

    def magnitude(self) -> Score:
        """Return the mean size of ΔS over the contrasts."""
        weights = [contrast_weights(contrast) for contrast in self.design.contrasts]
        first, second = (
            {group: np.repeat(column, len(weights), axis=1) for group, column in values.items()}
            for values in self.values
        )
        row = portrait_magnitude(
            PortraitPair(first, second, self.paired),
            {
                group: np.array([each.get(group, 0.0) for each in weights])
                for group in self.design.groups
                if any(group in each for each in weights)
            },
            n_permutations=self.n_permutations, confidence=self.confidence, rng=np.random.default_rng([self.seed, 1]),
        )  # fmt: skip
        if not self.ways:
            return row
        values = [[_value(run, each) for each in weights] for run in self.values]
        ends = [[[_value(self.filled(each, side)[i], each) for each in weights] for side in self.ways] for i in (0, 1)]
        n_missing = sum(int(lost.sum()) for by_group in self.missing for lost in by_group.values())
        return bounded_magnitude(row, np.array(values), np.array(ends), n_missing)


def _value(values: Mapping[str, np.ndarray], weights: Mapping[str, float]) -> float:
    """Return ΔS of one run."""
    known = {group: values[group][np.isfinite(values[group])] for group in weights}
    return sum(weight * float(known[g].mean()) if len(known[g]) else nan for g, weight in weights.items())


def contrast_weights(contrast: Contrast) -> dict[str, float]:
    """Return the weights of ΔS as a sum of the groups' S."""
    x, y = contrast.x, contrast.y
    return dict.fromkeys(x, 1 / len(x)) | dict.fromkeys(y, -1 / len(y))
