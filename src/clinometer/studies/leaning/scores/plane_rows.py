"""Rows of xMCAS: the targets on the plane, the groups' own places, and the offset between them."""

from __future__ import annotations

from dataclasses import replace
from math import isfinite

import numpy as np

from clinometer.metrics.mcas import MODALITIES, composite, group_similarity
from clinometer.metrics.records import Score
from clinometer.metrics.xmcas import CENTROID, xmcas
from clinometer.studies.leaning.scores.context import LeaningStudy
from clinometer.studies.leaning.scores.estimates import Estimate, Replicates, each_target, estimate, estimate_norm
from clinometer.studies.leaning.scores.reasons import interval_reason, stimulus_reason, value_reason
from clinometer.studies.leaning.scores.rows import Basis, summary_row, target_row
from clinometer.studies.leaning.scores.views import EncoderView

WIDE = "that of the angle would span more than half a circle"
NO_DIRECTION = f"too few images for an interval: {WIDE}"


def xmcas_rows(study: LeaningStudy, view: EncoderView) -> list[Score]:
    """Similarity to the third group, angle and distance of every target; the offset k once.

    Replicates of the angle use the replicate's own k.
    """
    if study.design.third is None or view.groups is None:
        return []
    basis = Basis(MODALITIES, (*study.pair, study.design.index(study.design.third)))
    confidence, groups = study.settings.confidence, view.groups
    numbers = {
        "similarity": each_target(
            view.targets, lambda part: estimate(part, lambda c: _similarity(study, c), confidence)
        ),
        "angle": _without_wide_intervals(
            each_target(
                view.targets, lambda part: estimate(_with_offset(study, part, groups), _Angle(study), confidence)
            )
        ),
        "distance": each_target(
            view.targets,
            lambda part: _distance(study, part, confidence).with_null(
                np.hypot(*np.moveaxis(_from_centroid(study, part.null), -1, 0))
            ),
        ),
    }
    rows = [
        target_row(study, view, t, basis, estimates, metric="xmcas", component=component)
        for component, estimates in numbers.items()
        for t in study.target_numbers
    ]
    k = estimate(groups, lambda c: offset(study, c), confidence)
    return [
        *(_explained_angle(row) for row in rows),
        _group_row(study, view, k, (), metric="xmcas", component="offset"),
    ]


def xmcas_group_rows(study: LeaningStudy, view: EncoderView) -> list[Score]:
    """Each attribute prompt (``concept``) and each group (no concept) as a target on the plane.

    No image is compared with itself; see :func:`clinometer.studies.leaning.scores.cosines.group_cosines`. A group
    stands at the mean of its prompts. A place has no null: the groups are what defines the plane.
    """
    if study.design.third is None or view.groups is None:
        return []
    owners = np.array(study.layout.prompt_groups)
    confidence = study.settings.confidence
    numbers = {
        "mcas": estimate(view.groups, lambda c: _over_groups(study, composite(c, study.a, study.b)), confidence),
        "similarity": estimate(view.groups, lambda c: _over_groups(study, _similarity(study, c)), confidence),
    }
    plane = _with_offset(study, view.groups, view.groups)
    numbers["angle"] = _without_wide_intervals(estimate(plane, _Angle(study, over_groups=True), confidence))
    numbers["distance"] = _distance(study, view.groups, confidence, over_groups=True)
    rows = []
    for component, estimates in numbers.items():
        for i in range(len(owners) + len(study.design.groups)):
            g = int(owners[i]) if i < len(owners) else i - len(owners)
            name = _prompt_name(study, i) if i < len(owners) else ""
            rows.append(
                _group_row(
                    study,
                    view,
                    estimates,
                    i,
                    metric="xmcas_group",
                    component=component,
                    concept=name,
                    group=study.design.groups[g],
                )
            )
    return rows


def offset(study: LeaningStudy, groups: np.ndarray) -> np.ndarray:
    """``k = −mean over the third group's prompts of MCAS(prompt as target)``, replicate by replicate."""
    third = study.design.index(str(study.design.third))
    own = np.array(study.layout.prompt_groups) == third
    return np.asarray(-composite(groups, study.a, study.b)[..., own].mean(axis=-1))


class _Angle:
    """θ of tensors whose last target carries the offset; see :func:`_with_offset`."""

    def __init__(self, study: LeaningStudy, over_groups: bool = False) -> None:
        self.study, self.over_groups = study, over_groups

    def __call__(self, tensor: np.ndarray) -> np.ndarray:
        k, tensor = tensor[..., -1, 0, 0], tensor[..., :-1, :, :]
        leaning, similarity = composite(tensor, self.study.a, self.study.b), _similarity(self.study, tensor)
        if self.over_groups:
            leaning, similarity = _over_groups(self.study, leaning), _over_groups(self.study, similarity)
        return np.asarray(xmcas(mcas=leaning, similarity=similarity, offset=k[..., None]).angle)


def _without_wide_intervals(angle: Estimate) -> Estimate:
    """An angle without intervals that span more than half a circle: they say nothing of a direction."""

    def ends(low: np.ndarray, high: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        wide = high - low > np.pi
        return np.where(wide, np.nan, low), np.where(wide, np.nan, high)

    low, high = ends(angle.low, angle.high)
    stimulus_low, stimulus_high = ends(angle.stimulus_low, angle.stimulus_high)
    return replace(angle, low=low, high=high, stimulus_low=stimulus_low, stimulus_high=stimulus_high)


def _with_offset(study: LeaningStudy, own: Replicates, groups: Replicates) -> Replicates:
    """Append to the tensors one more target that carries k in every entry, replicate by replicate."""

    def extend(tensor: np.ndarray, groups: np.ndarray) -> np.ndarray:
        k = offset(study, groups)[..., None, None, None]
        return np.concatenate([tensor, np.broadcast_to(k, (*tensor.shape[:-3], 1, *tensor.shape[-2:]))], axis=-3)

    return Replicates(
        extend(own.point, groups.point),
        extend(own.images, groups.images),
        extend(own.stimulus, groups.stimulus),
        None if own.target_images is None else extend(own.target_images, groups.point),
        own.freedoms,
    )


def _distance(study: LeaningStudy, replicates: Replicates, confidence: float, over_groups: bool = False) -> Estimate:
    return estimate_norm(
        replicates,
        lambda c: _from_centroid(study, c, over_groups),
        lambda x: np.hypot(x[..., 0], x[..., 1]),
        confidence,
    )


def _from_centroid(study: LeaningStudy, tensor: np.ndarray, over_groups: bool = False) -> np.ndarray:
    """``(c, MCAS) − centroid``: (… × T × 2)."""
    similarity, leaning = _similarity(study, tensor), composite(tensor, study.a, study.b)
    if over_groups:
        similarity, leaning = _over_groups(study, similarity), _over_groups(study, leaning)
    return np.stack([similarity - CENTROID[0], leaning - CENTROID[1]], axis=-1)


def _similarity(study: LeaningStudy, tensor: np.ndarray) -> np.ndarray:
    return group_similarity(tensor)[..., study.design.index(str(study.design.third))]


def _over_groups(study: LeaningStudy, values: np.ndarray) -> np.ndarray:
    """Values of the prompts (… × prompts), followed by the mean over each group's prompts."""
    owners = np.array(study.layout.prompt_groups)
    means = [values[..., owners == g].mean(axis=-1, keepdims=True) for g in study.everyone]
    return np.concatenate([values, *means], axis=-1)


def _prompt_name(study: LeaningStudy, number: int) -> str:
    """Name an attribute prompt by its text, or by its place in its group."""
    g = study.layout.prompt_groups[number]
    place = number - study.layout.prompt_groups.index(g)
    texts = study.design.prompts.get(study.design.groups[g])
    return texts[place] if texts else f"{study.design.groups[g]} {place + 1}"


def _group_row(
    study: LeaningStudy,
    view: EncoderView,
    numbers: Estimate,
    index: int | tuple[()],
    *,
    metric: str,
    component: str,
    concept: str = "",
    group: str = "",
) -> Score:
    at = {
        name: getattr(numbers, name)[index]
        for name in ("value", "low", "high", "stimulus_low", "stimulus_high", "null")
    }
    single = Estimate(**{name: np.asarray(number) for name, number in at.items()})
    row = summary_row(
        study, view, (), single, metric=metric, component=component, concept=concept, group=group, reason="-"
    )
    return replace(row, reason=_group_reason(study, view, row))


def _group_reason(study: LeaningStudy, view: EncoderView, row: Score) -> str:
    groups = (*study.pair, study.design.index(str(study.design.third)))
    if not isfinite(row.value):
        missing = value_reason(study.layout, view.reads_text, None, MODALITIES, groups)
        return missing or "a prompt of a group has fewer than two images, or its text was not given"
    if not isfinite(row.low):
        missing = interval_reason(study.layout, None, MODALITIES, groups)
        return missing or (NO_DIRECTION if row.component == "angle" else "no interval: a prompt has one image")
    if isfinite(row.stimulus_low):
        return ""
    missing = stimulus_reason(study.layout, MODALITIES, groups)
    return missing or (f"no stimulus interval: {WIDE}" if row.component == "angle" else "")


def _explained_angle(row: Score) -> Score:
    if row.component != "angle" or row.reason:
        return row
    if not isfinite(row.value):
        return replace(row, reason="the offset k is undefined: see the row of the offset")
    if not isfinite(row.low):
        return replace(row, reason=NO_DIRECTION)
    return row if isfinite(row.stimulus_low) else replace(row, reason=f"no stimulus interval: {WIDE}")
