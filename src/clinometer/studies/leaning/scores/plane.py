"""Rows of where targets and groups lie: the plane of xMCAS, and the profile over any number of groups."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from itertools import combinations
from math import isfinite

import numpy as np

from clinometer.metrics.mcas import CENTROID, MODALITIES, composite, group_similarity, xmcas
from clinometer.metrics.records import Score, corrected
from clinometer.metrics.verdict import OTHERS
from clinometer.stats.bootstrap import fold_interval
from clinometer.studies.leaning.scores.contrasts import contrast_tests, contrast_weights, pair_weights
from clinometer.studies.leaning.scores.cosines import (
    Estimate,
    Replicates,
    each_target,
    estimate,
    estimate_norm,
    null_expectation,
)
from clinometer.studies.leaning.scores.design import StudySetup
from clinometer.studies.leaning.scores.rows import (
    MIDDLE,
    Basis,
    Contrast,
    at_target,
    contrast_family,
    interval_reason,
    middle_rows,
    stimulus_reason,
    summary_row,
    target_row,
    value_reason,
)
from clinometer.studies.leaning.scores.views import EncoderView

WIDE = "those of similarity and MCAS leave every direction open"
NO_DIRECTION = f"too few images for an interval: {WIDE}"


def xmcas_rows(setup: StudySetup, view: EncoderView) -> list[Score]:
    """Report similarity to the third group, angle and distance of every target; the offset k once."""
    if setup.design.third is None or view.groups is None:
        return []
    third = setup.design.index(setup.design.third)
    basis = Basis(MODALITIES, (*setup.pair, third))
    nearness = np.zeros((len(MODALITIES), len(setup.design.groups)))
    nearness[:, third] = 1 / len(MODALITIES)
    mcas = contrast_tests(setup, view, pair_weights(setup, MODALITIES, *setup.pair)).estimate
    similarity = contrast_tests(setup, view, nearness).estimate
    k = estimate(view.groups, lambda c: offset(setup, c), setup.settings.confidence)
    angle, distance = place(mcas, similarity, k)

    def distance_by_chance(part: Replicates) -> np.ndarray:
        leaning = composite(part.null, setup.a, setup.b)
        return np.hypot(_similarity(setup, part.null) - CENTROID[0], leaning - CENTROID[1])

    null = null_expectation(view.targets, distance_by_chance, np.mean)
    numbers = {"similarity": similarity, "angle": angle, "distance": replace(distance, null=null)}
    rows = [
        target_row(setup, view, t, basis, estimates, metric="xmcas", component=component)
        for component, estimates in numbers.items()
        for t in setup.target_numbers
    ]
    return [
        *(_explained_angle(row) for row in rows),
        _group_row(setup, view, k, (), metric="xmcas", component="offset"),
    ]


def xmcas_group_rows(setup: StudySetup, view: EncoderView) -> list[Score]:
    """Report each attribute prompt (``concept``) and each group (no concept) as a target on the plane.

    No image is compared with itself; see :func:`clinometer.studies.leaning.scores.cosines.group_cosines`. A group
    stands at the mean of its prompts. A place has no null: the groups are what defines the plane.
    """
    if setup.design.third is None or view.groups is None:
        return []
    numbers = _places(setup, view.groups, partial(_over_groups, setup))
    places = []  # of each prompt its text, or its place in its group; and the group
    for group, sizes in zip(setup.design.groups, setup.layout.prompt_sizes, strict=True):
        texts = setup.design.prompts.get(group) or [f"{group} {i + 1}" for i in range(len(sizes))]
        places += [(text, group) for text in texts]
    places += [("", group) for group in setup.design.groups]
    return [
        _group_row(setup, view, estimates, i, metric="xmcas_group", component=component, concept=name, group=group)
        for component, estimates in numbers.items()
        for i, (name, group) in enumerate(places)
    ]


def plane_middle_rows(setup: StudySetup, view: EncoderView) -> list[Score]:
    """Report where equal parts of all groups' own items lie on the plane, beside (1/3, 0): ``setting`` ``plane``.

    The mean of the groups' places: their prompts' images and texts as targets, as in :func:`xmcas_group_rows`.
    """
    if setup.design.third is None or view.groups is None:
        return []

    def fair(values: np.ndarray) -> np.ndarray:
        return np.asarray(_over_groups(setup, values)[..., -len(setup.everyone) :].mean(axis=-1))

    numbers = _places(setup, view.groups, fair)
    return [
        _group_row(setup, view, numbers[component], (), metric=MIDDLE, component=component, setting="plane")
        for component in ("mcas", "similarity", "angle")
    ]


def _places(setup: StudySetup, prompts: Replicates, combine: Callable[[np.ndarray], np.ndarray]) -> dict[str, Estimate]:
    """Estimate a place on the plane from numbers of the attribute prompts as targets, which ``combine`` combines."""
    mcas, similarity, k = (
        estimate(prompts, formula, setup.settings.confidence)
        for formula in (
            lambda c: combine(composite(c, setup.a, setup.b)),
            lambda c: combine(_similarity(setup, c)),
            partial(offset, setup),
        )
    )
    angle, distance = place(mcas, similarity, k)
    return {"mcas": mcas, "similarity": similarity, "angle": angle, "distance": distance}


def place(mcas: Estimate, similarity: Estimate, k: Estimate) -> tuple[Estimate, Estimate]:
    """Estimate angle and distance with the intervals of what they are made of.

    Each runs over all that it is where similarity, MCAS and the offset lie anywhere within their own intervals, so none
    says what another denies: where the interval of MCAS holds 0, so does what the angle's is made of. A box of three
    95 % intervals holds all three less often than in 95 %, but what is made of them lies in the image of the box as
    often as that: for what is linear in them ``|Σ errors| ≤ Σ reaches`` however the errors go together.
    """
    point = xmcas(mcas=mcas.value, similarity=similarity.value, offset=k.value)
    ends = []
    for low, high in (("low", "high"), ("stimulus_low", "stimulus_high")):
        leaning = fold_interval(getattr(mcas, low), getattr(mcas, high))
        near = np.array([getattr(similarity, low), getattr(similarity, high)])
        rest = np.array([1 - leaning.high + getattr(k, low), 1 - leaning.low + getattr(k, high)])
        corners = np.arctan2(near[:, None], rest[None])
        behind = (near[0] <= 0) & (near[1] >= 0) & (rest[0] <= 0)
        angle = [np.where(behind, np.nan, extreme(corners, axis=(0, 1))) for extreme in (np.min, np.max)]
        off = np.maximum(np.maximum(near[0] - CENTROID[0], CENTROID[0] - near[1]), 0.0)
        furthest = np.abs(near - CENTROID[0]).max(axis=0)
        ends.append((angle, [np.hypot(off, leaning.low), np.hypot(furthest, leaning.high)]))
    (angle, distance), (outer_angle, outer_distance) = ends
    nothing = np.full(np.shape(point.angle), np.nan)
    return (
        Estimate(np.asarray(point.angle), angle[0], angle[1], outer_angle[0], outer_angle[1], nothing),
        Estimate(np.asarray(point.distance), distance[0], distance[1], outer_distance[0], outer_distance[1], nothing),
    )


def offset(setup: StudySetup, groups: np.ndarray) -> np.ndarray:
    """Compute ``k = −mean over the third group's prompts of MCAS(prompt as target)``, replicate by replicate."""
    third = setup.design.index(str(setup.design.third))
    is_third = np.array(setup.layout.prompt_groups) == third
    return np.asarray(-composite(groups, setup.a, setup.b)[..., is_third].mean(axis=-1))


def _similarity(setup: StudySetup, tensor: np.ndarray) -> np.ndarray:
    return group_similarity(tensor)[..., setup.design.index(str(setup.design.third))]


def _over_groups(setup: StudySetup, values: np.ndarray) -> np.ndarray:
    """Follow the values of the prompts (… × prompts) by the mean over each group's prompts."""
    owners = np.array(setup.layout.prompt_groups)
    means = [values[..., owners == g].mean(axis=-1, keepdims=True) for g in setup.everyone]
    return np.concatenate([values, *means], axis=-1)


def _group_row(setup: StudySetup, view: EncoderView, numbers: Estimate, index: int | tuple[()], **about: str) -> Score:
    names = ("value", "low", "high", "stimulus_low", "stimulus_high", "null")
    single = Estimate(*(np.asarray(getattr(numbers, name)[index]) for name in names))
    row = summary_row(setup, view, (), single, reason="-", **about)
    basis = Basis(MODALITIES, (*setup.pair, setup.design.index(str(setup.design.third))))
    reason, is_angle = "", row.component == "angle"
    if not isfinite(row.value):
        reason = value_reason(setup.layout, view.reads_text, None, basis)
        reason = reason or "a prompt of a group has fewer than two images, or its text was not given"
    elif not isfinite(row.low):
        reason = interval_reason(setup.layout, None, basis)
        reason = reason or (NO_DIRECTION if is_angle else "no interval: a prompt has one image")
    elif not isfinite(row.stimulus_low):
        reason = stimulus_reason(setup.layout, basis) or (f"no stimulus interval: {WIDE}" if is_angle else "")
    return replace(row, reason=reason)


def _explained_angle(row: Score) -> Score:
    if row.component != "angle" or row.reason:
        return row
    if not isfinite(row.value):
        return replace(row, reason="the offset k is undefined: see the row of the offset")
    if not isfinite(row.low):
        return replace(row, reason=NO_DIRECTION)
    return row if isfinite(row.stimulus_low) else replace(row, reason=f"no stimulus interval: {WIDE}")


def profile(tensor: np.ndarray) -> np.ndarray:
    """Compute the group association profile ``c_g − mean over groups of c``: (… × T × K) from mean cosines.

    The third axis of xMCAS for any number of groups. It sums to 0 over groups; positive: nearer to g than to
    the groups on average. With two groups it is ±MCAS/8.
    """
    similarity = group_similarity(tensor)
    return np.asarray(similarity - similarity.mean(axis=-1, keepdims=True))


def profile_rows(setup: StudySetup, view: EncoderView) -> list[Score]:
    """Report every target's profile, its length, and ``4 (c_g − c_h)``, the MCAS of every pair of groups.

    Groups and pairs are tested over images, each kind of row a family over the targets. A group's verdict names it
    where a target is nearer to it than to the groups on average, and ``OTHERS`` where it is farther. For encoders that
    read no text, c is of images alone, and the number of a pair is its II.
    """
    of_groups, of_pairs = profile_contrasts(setup, view)
    families = []
    for contrasts, kind, margin in ((of_groups, "groups", None), (of_pairs, "pairs", setup.design.margin)):
        name = f"profile: {kind} over {len(contrasts) * len(setup.target_numbers)} tests"
        families.append(contrast_family(setup, view, contrasts, name, margin=margin, judged=True))
    return [*families[0], *families[1], *_norm_rows(setup, view, families[1], len(of_pairs))]


def profile_contrasts(setup: StudySetup, view: EncoderView) -> tuple[list[Contrast], list[Contrast]]:
    """List the questions of every group against the mean of all, and of every pair."""
    groups, pairs = setup.design.groups, list(combinations(setup.everyone, 2))
    deviations, modalities = np.eye(len(groups)) - 1 / len(groups), MODALITIES if view.reads_text else ("ii",)
    of_groups = [
        Contrast(
            contrast_weights(modalities, deviations[g] / len(modalities)),
            Basis(modalities, setup.everyone),
            {"metric": "profile", "component": "association", "group": name},
            (name, OTHERS),
        )
        for g, name in enumerate(groups)
    ]
    of_pairs = [
        Contrast(
            pair_weights(setup, modalities, g, h),
            Basis(modalities, (g, h)),
            {"metric": "profile", "component": f"{groups[g]}-{groups[h]}"},
            (groups[g], groups[h]),
        )
        for g, h in pairs
    ]
    return of_groups, of_pairs


def profile_middle_rows(setup: StudySetup, view: EncoderView) -> list[Score]:
    """Report where equal parts of the groups' own images lie: of all groups in the profile, of two between them."""
    of_groups, of_pairs = profile_contrasts(setup, view)
    return middle_rows(setup, view, [*of_groups, *of_pairs])


def _norm_rows(setup: StudySetup, view: EncoderView, pairs: Sequence[Score], n_pairs: int) -> list[Score]:
    """Report ‖profile‖: 0 only if all groups are as near, so it is tested by its pairs, corrected for their number.

    ::

        p = min(1, K (K − 1)/2 · min over pairs of p)
    """

    def norm(x: np.ndarray) -> np.ndarray:
        return np.asarray(np.linalg.norm(x, axis=-1))

    def own_profile(tensor: np.ndarray) -> np.ndarray:
        return profile(tensor if view.reads_text else np.repeat(tensor[..., :1, :], len(MODALITIES), axis=-2))

    def norm_of(part: Replicates) -> Estimate:
        numbers = estimate_norm(part, own_profile, norm, setup.settings.confidence)
        return replace(numbers, null=norm(own_profile(part.null)).astype(np.float64).mean(axis=0))

    numbers, basis = (
        each_target(view.targets, norm_of),
        Basis(MODALITIES if view.reads_text else ("ii",), setup.everyone),
    )
    p_zero = [row.p_zero if isfinite(row.middle) else row.p for row in pairs]
    least = np.reshape(p_zero, (n_pairs, -1)).min(axis=0)
    fields = {"p": np.minimum(1.0, n_pairs * least), "test": f"the smallest p of its {n_pairs} pairs, Bonferroni"}
    rows = [
        target_row(
            setup, view, t, basis, numbers, metric="profile", component="norm",
            **at_target(fields, t),
        )
        for t in setup.target_numbers
    ]  # fmt: skip
    return corrected(rows, f"profile: norm over {len(rows)} targets")
