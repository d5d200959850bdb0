"""Two models as classifiers, or one at two settings: how otherwise the second takes groups of portraits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from clinometer.metrics.classification import image_associations
from clinometer.metrics.portrait_differences import PortraitPair, difference_row, portrait_magnitude
from clinometer.metrics.records import Score
from clinometer.metrics.two_runs import Family, judged_families
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
    """One run's denoising errors: by group, (images × classes × trials), and what counts as a tie."""

    errors: Mapping[str, np.ndarray]
    tolerance: float


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

    ``paired``: the i-th portraits of a group belong together (:mod:`clinometer.metrics.portrait_differences`).
    """
    pair = PortraitPair(_associations(first, design), _associations(second, design), paired)
    setting = setting_name(design.noise_samples[-1])
    answers = len(design.a) * len(design.b)

    def row(component: str, name: str, weights: Mapping[str, float]) -> Score:
        return difference_row(
            pair, weights, component, answers=answers, n_permutations=n_permutations, confidence=confidence,
            rng=np.random.default_rng([seed, *name.encode()]), group=name, setting=setting, encoder=DENOISER,
        )  # fmt: skip

    groups = Family(
        rows=[row("association", group, {group: 1.0}) for group in design.groups],
        name=f"association of {len(design.groups)} groups",
    )
    contrasts = Family(
        rows=[row("differential", contrast.name, contrast_weights(contrast)) for contrast in design.contrasts],
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
    return [*judged_families([groups, contrasts]), magnitude]


def contrast_weights(contrast: Contrast) -> dict[str, float]:
    """ΔS as a weighted sum of the groups' S."""
    x, y = contrast.x, contrast.y
    return dict.fromkeys(x, 1 / len(x)) | dict.fromkeys(y, -1 / len(y))


def _associations(run: ClassifiedPortraits, design: ClassificationDesign) -> dict[str, np.ndarray]:
    """Each portrait's association: by group, (images × 1)."""
    return {
        group: image_associations(wins_at(errors, len(design.a), design.noise_samples[-1], run.tolerance))[:, None]
        for group, errors in validated_errors(run.errors, design).items()
    }


def _repeated(values: Mapping[str, np.ndarray], columns: int) -> dict[str, np.ndarray]:
    return {group: np.repeat(group_values, columns, axis=1) for group, group_values in values.items()}
