"""Whether levels go together: the share of images at a cell beyond what its levels alone give.

An image's scores along an axis, one a level, tell how it reads; attribute images, whose level is known, tell what a
score is worth. With ``B`` their mean scores (level drawn × level scored), every image of a target gets an estimate of
its level, and the excess of a cell is the covariance of two such estimates over the target's images::

    π_i = 1/K + y_i B⁺                  y_i (K) deviations of its cosines to the levels, Σ = 0;  Σ π_i = 1
    excess_kl = cov_i(π_ik, π_il) − within_kl        in expectation P(k and l) − P(k) P(l)

``within`` is that covariance among attribute images of one prompt, whose levels are fixed: what the encoder alone ties
together. For three axes and more, the mean product of the centred estimates. Range [−¼, ¼] for two axes of two levels.

Why not the double-centred cosines: they ask whether cosines add up, not whether levels go together. If men are 9 in 10
and light skin 8 in 10, independently, 72 in 100 are light men and cosines of cells that add up would give 60; and the
direction on which they are measured is so short that whatever a concept shows leans along it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from clinometer.metrics.study.contrasts import Inference, JointInference, joint_inference, mean_inference
from clinometer.metrics.study.cosines import Cosines
from clinometer.metrics.study.design import Design, Layout
from clinometer.metrics.study.effects import Effect, centring, level_weights
from clinometer.metrics.study.moments import image_scores


@dataclass(frozen=True)
class Readings:
    """Estimates of the levels of images, centred within each target or prompt: per axis, per target (n × K)."""

    centred: dict[str, tuple[np.ndarray, ...]]

    def products(self, axes: Sequence[str]) -> list[np.ndarray]:
        """Products over the axes, one an image and a combination of levels, the last axis fastest: (n × ΠK) each.

        Their mean is an unbiased estimate of the covariance, or of the third central moment.
        """
        found = []
        for first, *others in zip(*(self.centred[axis] for axis in axes), strict=True):
            product = first * _unbiased(len(first), len(axes))
            for part in others:
                product = (product[:, :, None] * part[:, None, :]).reshape(len(part), product.shape[1] * part.shape[1])
            found.append(product)
        return found


def readings_of(
    design: Design, layout: Layout, targets: Cosines, prompts: Cosines, *, reads_text: bool
) -> tuple[Readings, Readings]:
    """Read the images of the targets, and those of the attribute prompts, whose levels are known."""
    own, known = (image_scores(cosines, layout, words=reads_text) for cosines in (targets, prompts))
    of_targets, of_prompts = {}, {}
    for axis, levels in design.axes.items():
        weights = level_weights(design, axis)
        means = _level_means(design, layout, axis, [x @ weights.T for x in known])
        decode = np.linalg.pinv(means - means.mean(axis=0)) if np.isfinite(means).all() else np.full(
            (len(levels),) * 2, np.nan
        )  # fmt: skip
        of_targets[axis] = tuple(_centred(x @ weights.T @ decode) for x in own)
        of_prompts[axis] = tuple(_centred(x @ weights.T @ decode) for x in known)
    return Readings(of_targets), Readings(of_prompts)


def excess_inference(
    effect: Effect, design: Design, own: Readings, known: Readings, confidence: float
) -> tuple[list[Inference], JointInference]:
    """The excess of each of the effect's cells, and all of them against none; variances moderated over the targets."""
    products = [x - _within_prompts(known, effect.axes) for x in own.products(effect.axes)]
    # a covariance has n − 2 degrees of freedom, as a slope: both means were taken out of the products
    each = [mean_inference([x[:, k] for x in products], confidence, lost=1) for k in range(len(effect.names))]
    basis = np.linalg.svd(centring([len(design.axes[axis]) for axis in effect.axes]))[2][: effect.rank]
    scores = [x @ basis.T for x in products]
    values = np.stack([x.mean(axis=0) if len(x) else np.full(effect.rank, np.nan) for x in scores])
    nothing = np.zeros((len(values), effect.rank, effect.rank))
    return each, joint_inference(scores, values, nothing, np.inf, confidence, lost=1)


def _within_prompts(known: Readings, axes: Sequence[str]) -> np.ndarray:
    """Mean products among the images of one attribute prompt, whose levels are all the same: (ΠK,)."""
    held = [x for x in known.products(axes) if len(x) > len(axes)]
    if not held:
        return np.array(np.nan)
    return np.asarray(np.average([x.mean(axis=0) for x in held], axis=0, weights=[len(x) - 1 for x in held]))


def _level_means(design: Design, layout: Layout, axis: str, scores: Sequence[np.ndarray]) -> np.ndarray:
    """Mean scores of the attribute images of each level, every cell weighing alike: (level drawn × level scored)."""
    at, levels = list(design.axes).index(axis), design.axes[axis]
    by_cell: dict[str, list[np.ndarray]] = {group: [] for group in design.groups}
    for g, own in zip(layout.prompt_groups, scores, strict=True):
        by_cell[design.groups[g]].append(own[np.isfinite(own).all(axis=1)])
    cells = {group: np.concatenate(held) for group, held in by_cell.items()}
    nothing = np.full(len(levels), np.nan)
    means = {group: x.mean(axis=0) if len(x) else nothing for group, x in cells.items()}
    return np.stack(
        [np.mean([means[g] for g in design.groups if design.cells[g][at] == level], axis=0) for level in levels]
    )


def _centred(estimates: np.ndarray) -> np.ndarray:
    return estimates - estimates.mean(axis=0) if len(estimates) else estimates


def _unbiased(n: int, axes: int) -> float:
    """What makes the mean product of n centred values unbiased, of two or three axes; NaN of too few images."""
    if n < axes:
        return np.nan
    return n / (n - 1) if axes == 2 else n * n / ((n - 1) * (n - 2)) if axes == 3 else 1.0
