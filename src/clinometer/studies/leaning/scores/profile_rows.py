"""Rows of the group association profile: how much nearer than average a target is to each group."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain, combinations
from typing import NamedTuple

import numpy as np

from clinometer.metrics.bounds import with_bounds
from clinometer.metrics.mcas import MODALITIES, group_similarity
from clinometer.metrics.records import Score
from clinometer.metrics.verdict import FEWEST_IMAGES, OTHERS, judge_family
from clinometer.studies.leaning.scores.context import LeaningStudy
from clinometer.studies.leaning.scores.estimates import Estimate, Replicates, each_target, estimate_norm
from clinometer.studies.leaning.scores.inference import ContrastTests, contrast_tests, filled_tests, pair_weights
from clinometer.studies.leaning.scores.rows import Basis, at_target, target_row, tested_fields, with_q_values
from clinometer.studies.leaning.scores.views import EncoderView


def profile(tensor: np.ndarray) -> np.ndarray:
    """Group association profile ``c_g − mean over groups of c``: (… × T × K) from mean cosines.

    The third axis of xMCAS for any number of groups. It sums to 0 over groups; positive: nearer to g than to
    the groups on average. With two groups it is ±MCAS/8.
    """
    similarity = group_similarity(tensor)
    return np.asarray(similarity - similarity.mean(axis=-1, keepdims=True))


def profile_rows(study: LeaningStudy, view: EncoderView) -> list[Score]:
    """Report every target's profile, its length, and ``4 (c_g − c_h)``, the MCAS of every pair of groups.

    Groups and pairs are tested over images, each kind of row a family over the targets. A group's verdict names it
    where a target is nearer to it than to the groups on average, and ``OTHERS`` where it is farther.
    """
    groups, pairs = study.design.groups, list(combinations(study.everyone, 2))
    of_groups = [_family(study, view, _group_weights(study, g), study.everyone, "association", name)
                 for g, name in enumerate(groups)]  # fmt: skip
    of_pairs = [
        _family(study, view, pair_weights(study, MODALITIES, g, h), (g, h), f"{groups[g]}-{groups[h]}", "",
                margin=study.design.margin)
        for g, h in pairs
    ]  # fmt: skip
    rows = []
    for families, kind, sides in (
        (of_groups, "groups", [(name, OTHERS) for name in groups]),
        (of_pairs, "pairs", [(groups[g], groups[h]) for g, h in pairs]),
    ):
        margin = study.design.margin if kind == "pairs" else None
        fillings = {
            filling: [
                _judged(kind, sides, some, margin)
                for some in zip(*(family.fillings[filling] for family in families), strict=True)
            ]
            for filling in families[0].fillings
            if all(filling in family.fillings for family in families)  # not where a group has no images to tell
        }
        rows += with_bounds(_judged(kind, sides, [family.rows for family in families], margin), fillings)
    return rows + _norm_rows(study, view, [family.rows for family in of_pairs])


class _Family(NamedTuple):
    """A contrast of all targets, and the same with what is missing filled in, by what and in every way."""

    rows: list[Score]
    fillings: dict[str, list[list[Score]]]


def _judged(
    kind: str, sides: Sequence[tuple[str, str]], families: Sequence[Sequence[Score]], margin: float | None
) -> list[Score]:
    """The rows of all groups, or of all pairs, as one family, each contrast between its two sides."""
    named = [side for side, rows in zip(sides, families, strict=True) for _ in rows]
    tested = with_q_values(list(chain(*families)), f"profile: {kind} over {len(named)} tests")
    a, b = ([side[at] for side in named] for at in (0, 1))
    return judge_family(tested, a=a, b=b, margin=margin, fewest=FEWEST_IMAGES)


def _group_weights(study: LeaningStudy, g: int) -> np.ndarray:
    """Weights of ``c_g − mean of all c``: each modality a quarter."""
    own = np.arange(len(study.design.groups)) == g
    return np.tile((own - 1 / len(own)) / len(MODALITIES), (len(MODALITIES), 1))


def _family(
    study: LeaningStudy,
    view: EncoderView,
    weights: np.ndarray,
    groups: tuple[int, ...],
    component: str,
    group: str,
    margin: float | None = None,
) -> _Family:
    basis = Basis(MODALITIES, groups)

    def rows(tests: ContrastTests) -> list[Score]:
        numbers, fields = tests.estimate, tested_fields(tests, margin)
        own = {"metric": "profile", "component": component, "group": group}
        return [target_row(study, view, t, basis, numbers, **own, **at_target(fields, t)) for t in study.target_numbers]

    tests = contrast_tests(study, view, weights)
    fillings = filled_tests(study, view, weights, tests)
    return _Family(rows(tests), {kind: [rows(filled) for filled in some] for kind, some in fillings.items()})


def _norm_rows(study: LeaningStudy, view: EncoderView, pairs: Sequence[Sequence[Score]]) -> list[Score]:
    """‖profile‖: 0 only if all groups are as near, so it is tested by its pairs, corrected for their number.

    ::

        p = min(1, K (K − 1)/2 · min over pairs of p)
    """

    def norm(x: np.ndarray) -> np.ndarray:
        return np.asarray(np.linalg.norm(x, axis=-1))

    def of(part: Replicates) -> Estimate:
        numbers = estimate_norm(part, profile, norm, study.settings.confidence)
        return numbers.with_null(norm(profile(part.null)))

    numbers = each_target(view.targets, of)
    least = np.min([[row.p for row in family] for family in pairs], axis=0)
    fields = {"p": np.minimum(1.0, len(pairs) * least), "test": f"the smallest p of its {len(pairs)} pairs, Bonferroni"}
    rows = [
        target_row(
            study, view, t, Basis(MODALITIES, study.everyone), numbers, metric="profile", component="norm",
            **at_target(fields, t),
        )
        for t in study.target_numbers
    ]  # fmt: skip
    return with_q_values(rows, f"profile: norm over {len(rows)} targets")
