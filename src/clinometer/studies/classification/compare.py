"""Two models as classifiers, or one at two settings: how otherwise the second takes groups of portraits.

See decision 21.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import nan

import numpy as np

from clinometer.metrics.classification import image_associations
from clinometer.metrics.differences import (
    Family,
    PortraitPair,
    bounded_magnitude,
    difference_row,
    judged_families,
    portrait_magnitude,
)
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
    """Differences between two classification runs, second minus first, at the most noise samples.

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
    of_first, of_second = values = [_associations(run, design) for run in runs]
    pair = PortraitPair(of_first, of_second, paired)
    lost = [
        {group: run.missing.get(group, np.zeros(len(x), bool))[:, None] for group, x in own.items()}
        for run, own in zip(runs, values, strict=True)
    ]
    setting = setting_name(design.noise_samples[-1])
    answers = len(design.a) * len(design.b)

    def filled(weights: Mapping[str, float], side: int) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
        """Return what is missing as it makes a difference least (``side`` 0) or most; of nothing, nothing is made."""
        first, second = (
            {
                group: np.where(gone[group] & np.isfinite(own[group]).any(), (weight > 0) == up, own[group])
                for group, weight in weights.items()
            }
            for own, gone, up in zip(values, lost, (not side, bool(side)), strict=True)
        )
        return first, second

    def row(component: str, name: str, weights: Mapping[str, float], side: int | None = None) -> Score:
        return difference_row(
            pair if side is None else PortraitPair(*filled(weights, side), paired), weights, component,
            answers=answers, n_permutations=n_permutations, confidence=confidence,
            rng=np.random.default_rng([seed, *name.encode()]), group=name, setting=setting, encoder=DENOISER,
            n_missing=sum(int(gone[group].sum()) for gone in lost for group in weights),
        )  # fmt: skip

    def of_groups(side: int | None = None) -> list[Score]:
        return [row("association", group, {group: 1.0}, side) for group in design.groups]

    def of_contrasts(side: int | None = None) -> list[Score]:
        return [row("differential", each.name, contrast_weights(each), side) for each in design.contrasts]

    ways = (0, 1) if any(x.any() for gone in lost for x in gone.values()) else ()
    groups = Family(
        rows=of_groups(), name=f"association of {len(design.groups)} groups", fillings=[of_groups(way) for way in ways]
    )
    contrasts = Family(
        rows=of_contrasts(),
        fillings=[of_contrasts(way) for way in ways],
        name=f"{len(design.contrasts)} contrasts",
        sides=([contrast.name_x for contrast in design.contrasts], [contrast.name_y for contrast in design.contrasts]),
        margin=design.margin,
    )
    n = len(design.contrasts)
    magnitude = portrait_magnitude(
        PortraitPair(_repeated(pair.first, n), _repeated(pair.second, n), paired),
        {
            group: np.array([contrast_weights(contrast).get(group, 0.0) for contrast in design.contrasts])
            for group in design.groups
            if any(group in (*contrast.x, *contrast.y) for contrast in design.contrasts)
        },
        n_permutations=n_permutations, confidence=confidence, rng=np.random.default_rng([seed, 1]),
    )  # fmt: skip
    if ways:
        weights = [contrast_weights(contrast) for contrast in design.contrasts]
        own = [[_value(run, each) for each in weights] for run in values]
        ends = [[[_value(filled(each, side)[i], each) for each in weights] for side in ways] for i in (0, 1)]
        n_missing = sum(int(x.sum()) for gone in lost for x in gone.values())
        magnitude = bounded_magnitude(magnitude, np.array(own), np.array(ends), n_missing)
    return [*judged_families([groups, contrasts]), magnitude]


def _value(values: Mapping[str, np.ndarray], weights: Mapping[str, float]) -> float:
    """ΔS of one run."""
    known = {group: values[group][np.isfinite(values[group])] for group in weights}
    return sum(weight * float(known[g].mean()) if len(known[g]) else nan for g, weight in weights.items())


def contrast_weights(contrast: Contrast) -> dict[str, float]:
    """ΔS as a weighted sum of the groups' S."""
    x, y = contrast.x, contrast.y
    return dict.fromkeys(x, 1 / len(x)) | dict.fromkeys(y, -1 / len(y))


def _associations(run: ClassifiedPortraits, design: ClassificationDesign) -> dict[str, np.ndarray]:
    """Return each portrait's association: by group, (images × 1)."""
    return {
        group: image_associations(wins_at(errors, len(design.a), design.noise_samples[-1], run.tolerance))[:, None]
        for group, errors in validated_errors(run.errors, design).items()
    }


def _repeated(values: Mapping[str, np.ndarray], columns: int) -> dict[str, np.ndarray]:
    return {group: np.repeat(group_values, columns, axis=1) for group, group_values in values.items()}
