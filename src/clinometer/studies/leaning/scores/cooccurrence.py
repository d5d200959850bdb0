"""Whether levels go together: the share of images at a cell beyond what its levels alone give.

An image's scores along an axis, one a level, tell how it reads; attribute images, whose level is known, tell what a
score is worth. With ``B`` what each level adds to the scores of all axes (level drawn × level scored), every image of a
target gets an estimate of its levels, and the excess of a cell is the covariance of two of them over its images::

    π_i = 1/K + y_i B⁺                  y_i deviations of its cosines to the levels of all axes; Σ_k π_ik = 1 on each
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

from clinometer.studies.leaning.scores.contrasts import Inference, JointInference, joint_inference, mean_inference
from clinometer.studies.leaning.scores.design import Design, Layout
from clinometer.studies.leaning.scores.effects import Effect, centring, level_weights
from clinometer.studies.leaning.scores.moments import CellMeans, image_scores


@dataclass(frozen=True)
class Readings:
    """Estimates of the levels of images, centred within each target or prompt: per axis, per target (n × K)."""

    centred: dict[str, tuple[np.ndarray, ...]]

    def products(self, axes: Sequence[str]) -> list[np.ndarray]:
        """Products over the axes, one an image and a combination of levels, the last axis fastest: (n × ΠK) each.

        Their mean is an unbiased estimate of the covariance, or of the third central moment.
        """
        products = []
        for first, *others in zip(*(self.centred[axis] for axis in axes), strict=True):
            product = first * _unbiased(len(first), len(axes))
            for part in others:
                product = (product[:, :, None] * part[:, None, :]).reshape(len(part), product.shape[1] * part.shape[1])
            products.append(product)
        return products


def readings_of(
    design: Design, layout: Layout, targets: CellMeans, prompts: CellMeans, *, reads_text: bool
) -> tuple[Readings, Readings]:
    """Read the images of the targets, and those of the attribute prompts, whose levels are known."""
    weights = np.concatenate([level_weights(design, axis) for axis in design.axes])
    own, calibration = ([x @ weights.T for x in image_scores(means, words=reads_text)] for means in (targets, prompts))
    means = _level_means(design, layout, calibration)
    decode = np.linalg.pinv(means) if np.isfinite(means).all() else np.full_like(means, np.nan)
    of_targets, of_prompts = ([_centred(x @ decode) for x in scores] for scores in (own, calibration))
    return Readings(_split(design, of_targets)), Readings(_split(design, of_prompts))


def _split(design: Design, estimates: Sequence[np.ndarray]) -> dict[str, tuple[np.ndarray, ...]]:
    """The columns of each axis' levels."""
    by_axis, start = {}, 0
    for axis, levels in design.axes.items():
        columns = slice(start, start + len(levels))
        by_axis[axis] = tuple(x[:, columns] for x in estimates)
        start += len(levels)
    return by_axis


def excess_inference(
    effect: Effect, design: Design, layout: Layout, own: Readings, calibration: Readings, confidence: float
) -> tuple[list[Inference], JointInference]:
    """The excess of each of the effect's cells, and all of them against none; variances moderated over the targets."""
    products = [x - _within_prompts(calibration, effect.axes) for x in own.products(effect.axes)]
    # a covariance has n − 2 degrees of freedom, as a slope: both means were taken out of the products
    more = _calibration_variance(effect, design, layout, own, calibration)
    freedom = float(sum(max(len(x) - 1, 0) for x in calibration.centred[effect.axes[0]]))
    cells = [
        mean_inference([x[:, k] for x in products], confidence, lost=1, more=(more[:, k], np.full(len(more), freedom)))
        for k in range(len(effect.names))
    ]
    basis = np.linalg.svd(centring([len(design.axes[axis]) for axis in effect.axes]))[2][: effect.rank]
    scores = [x @ basis.T for x in products]
    values = np.stack([x.mean(axis=0) if len(x) else np.full(effect.rank, np.nan) for x in scores])
    spread = np.einsum("rk,tk,sk->trs", basis, more, basis)
    return cells, joint_inference(scores, values, spread, freedom, confidence, lost=1)


def _calibration_variance(
    effect: Effect, design: Design, layout: Layout, own: Readings, calibration: Readings
) -> np.ndarray:
    """Variance of an excess because few attribute images tell how far an axis reads on another: (T × combinations).

    Where estimates of one axis take up ε of a level of the other, the covariance takes up ε var(π) of that level; ε is
    a difference of means of attribute images. Of two axes; three have it in higher order.
    """
    shape = tuple(len(design.axes[axis]) for axis in effect.axes)
    if len(effect.axes) != 2:
        return np.zeros((len(own.centred[effect.axes[0]]), int(np.prod(shape))))
    first, second = effect.axes
    variances = {
        axis: np.stack([x.var(axis=0) if len(x) else np.full(x.shape[1], np.nan) for x in own.centred[axis]])
        for axis in effect.axes
    }
    of_first = (
        2 * _mean_variance(design, layout, calibration, first, second)[None, :, None] * variances[second][:, None] ** 2
    )
    of_second = (
        2 * _mean_variance(design, layout, calibration, second, first)[None, None] * variances[first][..., None] ** 2
    )
    return np.asarray((of_first + of_second).reshape(len(of_first), -1))


def _mean_variance(design: Design, layout: Layout, calibration: Readings, axis: str, other: str) -> np.ndarray:
    """Variance of the mean estimate of an axis' levels over the attribute images of one level of another: (K,)."""
    cells = len(design.groups) // len(design.axes[other])  # at one level of the other
    total = np.zeros(len(design.axes[axis]))
    for g, size in enumerate(layout.image_counts):
        prompts = [
            x for x, at in zip(calibration.centred[axis], layout.prompt_groups, strict=True) if at == g and len(x) > 1
        ]
        total += sum((x.var(axis=0, ddof=1) * len(x) / size**2 for x in prompts), np.zeros_like(total))
    return np.asarray(total / cells**2 / len(design.axes[other]))


def _within_prompts(calibration: Readings, axes: Sequence[str]) -> np.ndarray:
    """Mean products among the images of one attribute prompt, whose levels are all the same: (ΠK,)."""
    products = [x for x in calibration.products(axes) if len(x) > len(axes)]
    if not products:
        return np.array(np.nan)
    return np.asarray(np.average([x.mean(axis=0) for x in products], axis=0, weights=[len(x) - 1 for x in products]))


def _level_means(design: Design, layout: Layout, scores: Sequence[np.ndarray]) -> np.ndarray:
    """What each level adds to the scores of attribute images, every cell weighing alike: (levels × levels scored)."""
    by_cell: dict[str, list[np.ndarray]] = {group: [] for group in design.groups}
    for g, own in zip(layout.prompt_groups, scores, strict=True):
        by_cell[design.groups[g]].append(own[np.isfinite(own).all(axis=1)])
    nothing = np.full(sum(map(len, design.axes.values())), np.nan)
    cells = {group: np.concatenate(parts) for group, parts in by_cell.items()}
    means = np.stack([cells[g].mean(axis=0) if len(cells[g]) else nothing for g in design.groups])
    return np.asarray(np.concatenate([level_weights(design, axis) for axis in design.axes]) @ means)


def _centred(estimates: np.ndarray) -> np.ndarray:
    return estimates - estimates.mean(axis=0) if len(estimates) else estimates


def _unbiased(n: int, axes: int) -> float:
    """What makes the mean product of n centred values unbiased, of two or three axes; NaN of too few images."""
    if n < axes:
        return np.nan
    return n / (n - 1) if axes == 2 else n * n / ((n - 1) * (n - 2)) if axes == 3 else 1.0
