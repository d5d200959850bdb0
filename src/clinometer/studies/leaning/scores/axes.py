"""Groups that are cells of axes: each axis, cell and interaction, as contrasts of the cells.

With ``c`` the mean cosines of a target to the cells, every question is a linear one, ``w · c`` with weights ``w`` that
sum to 0. Those of a set S of axes are the analysis of variance of a complete product::

    P_S = ⊗_axis (I − J/K)  of the axes in S,  J/K  of the others            J of ones, K the axis' levels

    row of P_S at a cell  =  what the cell's levels on S add to the levels on fewer axes
    Σ_S P_S = I − J/G                                              so the parts of a cell add up to its deviation

S of one axis is that axis' own leaning, averaged over the levels of the others; S of more is their interaction: the
double-centred residual. They are orthogonal, so none takes from another, whatever the axes show.

Whether levels go together is the share of images at a cell beyond what its levels alone give.

An image's scores along an axis, one a level, tell how it reads; attribute images, whose level is known, tell what a
score is worth. With ``B`` what each level adds to the scores of all axes (level drawn × level scored), every image of a
target gets an estimate of its levels, and the excess of a cell is the covariance of two of them over its images::

    π_i = 1/K + y_i B⁺                  y_i deviations of its cosines to the levels of all axes; Σ_k π_ik = 1 on each
    excess_kl = cov_i(π_ik, π_il) − within_kl        in expectation P(k and l) − P(k) P(l)

``within`` is that covariance among attribute images of one prompt, whose levels are fixed: what the encoder alone ties
together. For three axes and more, the mean product of the centred estimates. Range [−¼, ¼] for two axes of two levels.

Why not the double-centred cosines: they ask whether cosines add up, not whether levels go together. If men are 9 in 10
and light skin 8 in 10, independently, 72 in 100 are light men and cosines of cells that add up would give 60; and the
direction on which they are measured is so short that whatever a concept shows leans along it. See decision 16.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from itertools import combinations
from math import isfinite, prod
from typing import Any, Final

import numpy as np
import scipy

from clinometer.metrics.mcas import COMPONENTS, IMAGE_PART, MODALITIES, TEXT_PART
from clinometer.metrics.records import MEAN, Score, corrected
from clinometer.metrics.verdict import OTHERS
from clinometer.stats.bootstrap import student_p, welch_satterthwaite
from clinometer.stats.moderation import moderate, prior_of
from clinometer.studies.leaning.scores.contrasts import (
    Tested,
    contrast_tests,
    contrast_weights,
    group_variances,
    item_values,
)
from clinometer.studies.leaning.scores.cosines import Estimate
from clinometer.studies.leaning.scores.design import Design, Layout, StudySetup
from clinometer.studies.leaning.scores.rows import (
    FIXED,
    Basis,
    Contrast,
    bare,
    contrast_family,
    contrast_rows,
    judge_contrasts,
    middle_rows,
    with_reason,
)
from clinometer.studies.leaning.scores.views import EncoderView

CROSS = "×"
METRIC: Final = "intersections"
MODERATED_T = "Student's t over images, moderated over the targets, two-sided"
F_TEST = "Hotelling's F over images, moderated over the targets"
NOT_READ = "no image of a level to read the others by"
TOO_FEW = "no interval from so few images of the target"


@dataclass(frozen=True)
class Effect:
    """One question about the cells.

    Attributes
    ----------
    kind : ``"axis"``, ``"interaction"`` or ``"cell"``.
    component : what its rows are called: ``axis:gender``, ``interaction:gender×tone``, ``cells``.
    axes : the axes it is about, in order.
    names : of each contrast, the level or the cell that a positive value leans to.
    others : of each contrast, what a negative one leans to: the other level, or empty where there are several.
    weights : (contrasts × groups), every row summing to 0.
    rank : how many of the contrasts are free; 1 is a single question, more take a joint test.
    """

    kind: str
    component: str
    axes: tuple[str, ...]
    names: tuple[str, ...]
    others: tuple[str, ...]
    weights: np.ndarray
    rank: int

    @property
    def basis(self) -> np.ndarray:
        """Orthonormal rows that span the contrasts: (rank × groups).

        Where singular values are equal LAPACK returns any basis, another one on another processor, and the moderated
        variance of a joint test depends on it. The projector onto the space is unique, so its columns are taken, one by
        one, as the basis.
        """
        right = np.linalg.svd(self.weights)[2][: self.rank]
        rows = np.empty((0, self.weights.shape[1]))
        for column in right.T @ right:
            residual = column - rows.T @ (rows @ column)
            if (length := np.linalg.norm(residual)) > 1e-6:
                rows = np.vstack([rows, residual / length])
        return rows

    @property
    def of_halves(self) -> bool:
        """Whether a value is a deviation from the middle: half of the difference between two that are opposite."""
        return not (self.kind == "axis" and self.rank == 1)


def effects_of(design: Design) -> tuple[Effect, ...]:
    """List each axis, each interaction, and the cells against all alike, in this order."""
    sets = [chosen for size in range(1, len(design.axes) + 1) for chosen in combinations(design.axes, size)]
    n = len(design.groups)
    cells = Effect("cell", "cells", tuple(design.axes), design.groups, ("",) * n, np.eye(n) - 1 / n, n - 1)
    return (*(_effect(design, chosen) for chosen in sets), cells)


def _kron(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    return np.asarray(np.kron(first, second))


def _effect(design: Design, chosen: tuple[str, ...]) -> Effect:
    projection = _projection(design, chosen)
    rank = prod(len(design.axes[axis]) - 1 for axis in chosen)
    places = _combinations(design, chosen)
    if len(chosen) == 1:
        levels, component = design.axes[chosen[0]], f"axis:{chosen[0]}"
        rows = projection[list(places.values())]
        if rank == 1:  # the difference of two levels, on the scale of MCAS; of more, the deviation of each
            return Effect("axis", component, chosen, levels[:1], levels[1:], rows[:1] - rows[1:], 1)
        return Effect("axis", component, chosen, levels, ("",) * len(levels), rows, rank)
    row_places = dict(list(places.items())[: None if rank > 1 else 1])
    return Effect(
        kind="interaction",
        component=f"interaction:{CROSS.join(chosen)}",
        axes=chosen,
        names=tuple(row_places),
        others=("",) * len(row_places),
        weights=projection[list(row_places.values())],
        rank=rank,
    )


def _projection(design: Design, chosen: Sequence[str]) -> np.ndarray:
    """Compute P_S in the order of the design's groups: (groups × groups)."""
    parts = [
        np.eye(len(levels)) - 1 / len(levels) if axis in chosen else np.full((len(levels),) * 2, 1 / len(levels))
        for axis, levels in design.axes.items()
    ]
    places = [_place(design, group) for group in design.groups]
    return np.asarray(reduce(_kron, parts)[np.ix_(places, places)])


def _place(design: Design, group: str) -> int:
    """Find the group's number in the full product, the last axis running fastest."""
    place = 0
    for level, levels in zip(design.cells[group], design.axes.values(), strict=True):
        place = place * len(levels) + levels.index(level)
    return place


def _combinations(design: Design, chosen: Sequence[str]) -> dict[str, int]:
    """Find a group for each combination of the chosen axes' levels, by name: rows of P_S are alike at all that have it.

    A combination of all axes is a cell, and has the group's name.
    """
    at = [list(design.axes).index(axis) for axis in chosen]
    places: dict[str, int] = {}
    for group in sorted(design.groups, key=lambda group: _place(design, group)):
        levels = [design.cells[group][i] for i in at]
        name = group if len(chosen) == len(design.axes) else CROSS.join(levels)
        places.setdefault(name, design.index(group))
    return places


@dataclass(frozen=True)
class Readings:
    """Estimates of the levels of images, centred within each target or prompt: per axis, per target (n × K)."""

    centred: dict[str, tuple[np.ndarray, ...]]

    def products(self, axes: Sequence[str]) -> list[np.ndarray]:
        """Multiply over the axes, for each image and combination of levels, the last axis fastest: (n × ΠK) each.

        Their mean is an unbiased estimate of the covariance, or of the third central moment.
        """
        products = []
        for first, *others in zip(*(self.centred[axis] for axis in axes), strict=True):
            product = first * _unbias(len(first), len(axes))
            for part in others:
                product = (product[:, :, None] * part[:, None, :]).reshape(len(part), product.shape[1] * part.shape[1])
            products.append(product)
        return products


def readings_of(setup: StudySetup, view: EncoderView) -> tuple[Readings, Readings]:
    """Read the images of the targets, and those of the attribute prompts, whose levels are known."""
    design, layout = setup.design, setup.layout
    by_axis = [_projection(design, (axis,))[list(_combinations(design, (axis,)).values())] for axis in design.axes]
    weights = np.concatenate(by_axis)  # each level's deviation from the mean of its axis, (levels × groups)
    prompts = [
        x if len(x) > 1 else np.full_like(x, np.nan)  # an image alone in its prompt has none to be compared with
        for of_group, sizes in zip(view.group_image_scores, layout.prompt_sizes, strict=True)
        for x in np.split(of_group, np.cumsum(sizes)[:-1])
    ]

    def scores(images: Sequence[np.ndarray]) -> list[np.ndarray]:
        return [(x[:, 0] + (x[:, 1] if view.reads_text else 0.0)) @ weights.T for x in images]

    target_scores, calibration = scores(view.each_image), scores(prompts)
    by_cell: list[list[np.ndarray]] = [[] for _ in design.groups]
    for g, of_prompt in zip(layout.prompt_groups, calibration, strict=True):
        by_cell[g].append(of_prompt[np.isfinite(of_prompt).all(axis=1)])
    nothing = np.full(len(weights), np.nan)
    cells = [x.mean(axis=0) if len(x) else nothing for x in map(np.concatenate, by_cell)]
    means = weights @ np.stack(cells)  # what each level adds to the scores, every cell weighing alike
    decode = np.linalg.pinv(means) if np.isfinite(means).all() else np.full_like(means, np.nan)
    read = ([x @ decode for x in some] for some in (target_scores, calibration))
    of_targets, of_prompts = ([x - x.mean(axis=0) if len(x) else x for x in some] for some in read)
    return Readings(_split(design, of_targets)), Readings(_split(design, of_prompts))


def _split(design: Design, estimates: Sequence[np.ndarray]) -> dict[str, tuple[np.ndarray, ...]]:
    """Split the estimates into the columns of each axis' levels."""
    by_axis, start = {}, 0
    for axis, levels in design.axes.items():
        columns = slice(start, start + len(levels))
        by_axis[axis] = tuple(x[:, columns] for x in estimates)
        start += len(levels)
    return by_axis


def excess_inference(setup: StudySetup, view: EncoderView, effect: Effect) -> tuple[list[Tested], Tested]:
    """Test the excess of each of the effect's cells, and all against none; variances are moderated over the targets."""
    design, layout, confidence = setup.design, setup.layout, setup.settings.confidence
    readings, calibration = readings_of(setup, view)
    # among the images of one attribute prompt the levels are all the same
    alike = [x for x in calibration.products(effect.axes) if len(x) > len(effect.axes)]
    by_chance = np.array(np.nan)
    if alike:
        by_chance = np.average([x.mean(axis=0) for x in alike], axis=0, weights=[len(x) - 1 for x in alike])
    products = [layout.units(t, x - by_chance) for t, x in enumerate(readings.products(effect.axes))]
    # a covariance has n − 2 degrees of freedom, as a slope: both means were taken out of the products
    more = _calibration_variance(effect, design, layout, readings, calibration)
    freedom = float(sum(max(len(x) - 1, 0) for x in calibration.centred[effect.axes[0]]))
    cells = [
        mean_inference([x[:, k] for x in products], confidence, lost=1, more=(more[:, k], np.full(len(more), freedom)))
        for k in range(len(effect.names))
    ]
    sizes = [len(design.axes[axis]) for axis in effect.axes]
    # ⊗ (I − J/K) takes all margins out of a table of these sizes, as one row
    basis = np.linalg.svd(reduce(_kron, [np.eye(size) - 1 / size for size in sizes]))[2][: effect.rank]
    scores = [x @ basis.T for x in products]
    values = np.stack([x.mean(axis=0) if len(x) else np.full(effect.rank, np.nan) for x in scores])
    spread = np.einsum("rk,tk,sk->trs", basis, more, basis)
    return cells, joint_inference(scores, values, spread, freedom, confidence, lost=1)


def _calibration_variance(
    effect: Effect, design: Design, layout: Layout, readings: Readings, calibration: Readings
) -> np.ndarray:
    """Estimate what few attribute images add to the variance of an excess, as one axis reads on another: (T × cells).

    Where estimates of one axis take up ε of a level of the other, the covariance takes up ε var(π) of that level; ε is
    a difference of means of attribute images. This is for two axes; for three it is of higher order.
    """
    shape = tuple(len(design.axes[axis]) for axis in effect.axes)
    if len(effect.axes) != 2:
        return np.zeros((len(readings.centred[effect.axes[0]]), int(np.prod(shape))))
    first, second = effect.axes
    variances = {
        axis: np.stack([x.var(axis=0) if len(x) else np.full(x.shape[1], np.nan) for x in readings.centred[axis]])
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
    """Estimate the variance of an axis' mean reading over the attribute images of one level of another: (K,)."""
    cells = len(design.groups) // len(design.axes[other])  # at one level of the other
    total = np.zeros(len(design.axes[axis]))
    for g, size in enumerate(layout.image_counts):
        prompts = [
            x for x, at in zip(calibration.centred[axis], layout.prompt_groups, strict=True) if at == g and len(x) > 1
        ]
        total += sum((x.var(axis=0, ddof=1) * len(x) / size**2 for x in prompts), np.zeros_like(total))
    return np.asarray(total / cells**2 / len(design.axes[other]))


def _unbias(n: int, axes: int) -> float:
    """Return what makes a mean product of n centred values unbiased, for two or three axes; NaN for too few images."""
    if n < axes:
        return np.nan
    return n / (n - 1) if axes == 2 else n * n / ((n - 1) * (n - 2)) if axes == 3 else 1.0


def axis_rows(setup: StudySetup, views: Sequence[EncoderView]) -> list[Score]:
    """Report every number of a study with axes, as the average over encoders sees it, and then each.

    The rows are those of :func:`clinometer.studies.leaning.crossed_study`.
    """
    return [row for view in views for effect in effects_of(setup.design) for row in _effect_rows(setup, view, effect)]


def axis_middle_rows(setup: StudySetup, view: EncoderView) -> list[Score]:
    """Report where equal parts of all cells' own images lie along each axis, and among the cells: ``setting``.

    Interactions are covariances within a target's images, which no zero enters.
    """
    contrasts = []
    for effect in effects_of(setup.design):
        if effect.kind != "interaction":
            for contrast in effect_contrasts(setup, effect, COMPONENTS[IMAGE_PART]):
                component, group = contrast.names["component"], contrast.names["group"]
                names = {"component": IMAGE_PART, "setting": component, "group": group}
                contrasts.append(replace(contrast, names=names))
    return middle_rows(setup, view, contrasts)


def _effect_rows(setup: StudySetup, view: EncoderView, effect: Effect) -> Iterator[Score]:
    """Make the rows of one effect of every target, family by family; the average over encoders has verdicts."""
    if effect.kind == "interaction":
        yield from _interaction_rows(setup, view, effect)
        return
    if effect.rank > 1:
        yield from _joint_rows(setup, view, effect, joint_tests(setup, view, effect.basis), COMPONENTS[IMAGE_PART])
    contrasts = effect_contrasts(setup, effect, COMPONENTS[IMAGE_PART])
    margin = setup.design.margin
    reach = margin / 2 if margin is not None and effect.of_halves else margin
    family = _family(setup, "cell" if effect.kind == "cell" else effect.component, effect)
    rows = contrast_family(
        setup, view, contrasts, family, margin=reach, judged=view.encoder == MEAN, equivalence=False
    )  # fmt: skip
    yield from _explain(rows)
    if effect.kind == "axis":
        for name in (*(MODALITIES if effect.rank == 1 else ()), TEXT_PART, "mcas"):
            rows = _tested_rows(setup, view, effect_contrasts(setup, effect, COMPONENTS[name]))
            rows = [replace(row, setting=name) for row in rows]
            yield from corrected(rows, _family(setup, f"{effect.component} {name}"))


def _interaction_rows(setup: StudySetup, view: EncoderView, effect: Effect) -> Iterator[Score]:
    cells, joint = excess_inference(setup, view, effect)
    parts = ("ii", "ita") if view.reads_text else ("ii",)
    if effect.rank > 1:
        yield from _joint_rows(setup, view, effect, joint, parts)
    contrasts = effect_contrasts(setup, effect, parts)
    by_cell = [
        [with_reason(row, FIXED) for row in _explain(contrast_rows(setup, view, contrast, tests))]
        for contrast, tests in zip(contrasts, cells, strict=True)
    ]
    family = _family(setup, effect.component, effect)
    yield from judge_contrasts(contrasts, by_cell, family, margin=None, judged=view.encoder == MEAN)
    name = effect.component.replace("interaction", "residual")
    residual = effect_contrasts(setup, effect, MODALITIES)[:1]  # how far the first cell exceeds the sum of its levels
    rows = [replace(row, component=name) for row in _tested_rows(setup, view, residual)]
    yield from corrected(rows, _family(setup, name))


def effect_contrasts(setup: StudySetup, effect: Effect, modalities: Collection[str]) -> list[Contrast]:
    """List the questions of an effect, asked of the sum of these modalities."""
    return [
        Contrast(
            contrast_weights(modalities, weights),
            Basis(modalities, setup.everyone),
            {
                "metric": METRIC,
                "component": f"cell:{name}" if effect.kind == "cell" else effect.component,
                "group": name,
            },
            (name, other or OTHERS),
            _counts(setup, weights),
        )
        for name, other, weights in zip(effect.names, effect.others, effect.weights, strict=True)
    ]


def _counts(setup: StudySetup, weights: np.ndarray) -> list[dict[str, Any]]:
    """Count the images behind each target's row: its own, and those of the groups on either side."""
    counts, layout = np.array(setup.layout.image_counts), setup.layout
    sides = {"n_a": int(counts[weights > 1e-12].sum()), "n_b": int(counts[weights < -1e-12].sum())}
    return [
        {
            "n_target": layout.target_sizes[t],
            "n_repeated": layout.repeated(t),
            "n_batches": layout.batch_count(t),
            "n_missing": target.missing,
            **sides,
        }
        for t, target in enumerate(setup.design.targets)
    ]


def _tested_rows(setup: StudySetup, view: EncoderView, contrasts: Sequence[Contrast]) -> list[Score]:
    """Make rows that are neither judged nor have bounds; what rests on no image has no test over images."""
    rows = []
    for contrast in contrasts:
        tests = contrast_tests(setup, view, contrast.weights)
        if set(contrast.basis.modalities) == {"tt"}:
            rows += contrast_rows(setup, view, contrast, tests.over_words_alone)
        else:
            rows += contrast_rows(setup, view, contrast, tests)
    return _explain(rows)


def _joint_rows(
    setup: StudySetup, view: EncoderView, effect: Effect, joint: Tested, modalities: Collection[str]
) -> list[Score]:
    everyone = np.ones(len(setup.design.groups))
    contrast = Contrast(
        contrast_weights(modalities, everyone),
        Basis(modalities, setup.everyone),
        {"metric": METRIC, "component": effect.component},
        by_target=_counts(setup, everyone),
    )
    rows = [with_reason(row, FIXED) for row in _explain(contrast_rows(setup, view, contrast, joint))]
    return corrected(rows, _family(setup, effect.component))


def _family(setup: StudySetup, name: str, effect: Effect | None = None) -> str:
    family = f"{METRIC}: {name} over {len(setup.design.targets)} targets"
    if effect is None or effect.rank == 1:
        return family
    return f"{family} and {len(effect.names)} {'levels' if effect.kind == 'axis' else 'cells'}"


def _explain(rows: Sequence[Score]) -> list[Score]:
    """Add a reason to rows without a number or an interval, where nothing that is missing explains it."""
    return [
        with_reason(row, NOT_READ if not isfinite(row.value) else TOO_FEW) if not isfinite(row.low) else row
        for row in rows
    ]


# --- several contrasts of a target tested together -------------------------------------------------------------------


def joint_tests(setup: StudySetup, view: EncoderView, basis: np.ndarray) -> Tested:
    """Test all contrasts of the image part, ``basis`` (k × G, orthonormal rows), against 0: :func:`joint_inference`."""
    values = item_values(view.items.images[:1], np.ones((1, len(setup.design.groups))))
    variances, freedom = group_variances(setup.layout, values, len(view.image_cosines), images=True)
    scores = [cosines.sum(axis=1) @ basis.T for cosines in view.image_cosines]
    means = np.stack([x.mean(axis=0) if len(x) else np.full(len(basis), np.nan) for x in scores])
    attributes = np.einsum("kg,tg,lg->tkl", basis, variances, basis)
    return joint_inference(scores, means, attributes, freedom, setup.settings.confidence)


def mean_inference(
    scores: Sequence[np.ndarray], confidence: float, *, lost: int = 0, more: tuple[np.ndarray, np.ndarray]
) -> Tested:
    """Test the mean of every target's scores, one an image, with moderated variance; no stimulus interval.

    ``lost`` : degrees of freedom that computing the scores has cost, beyond that of their mean. ``more`` : variance
    from other sources, and its degrees of freedom.
    """
    value = np.array([x.mean() if len(x) else np.nan for x in scores])
    sizes, ddof = np.array([len(y) for y in scores], np.float64), 1 + lost
    raw = np.array([y.var(ddof=ddof) if len(y) > ddof else np.nan for y in scores])
    variance, own_freedom = moderate(raw, sizes - ddof, prior_of(raw, sizes - ddof))
    parts = [(variance / np.maximum(sizes, 1), np.nan_to_num(own_freedom, nan=0.0)), more]
    unknown = np.full(len(value), np.nan)
    error, freedom = np.sqrt(np.sum([v for v, _ in parts], axis=0)), welch_satterthwaite(parts)
    reach = scipy.stats.t.ppf((1 + confidence) / 2, freedom) * error
    p = student_p(value, error, freedom)
    return Tested(Estimate(value, value - reach, value + reach, unknown, unknown, unknown), p, MODERATED_T)


def joint_inference(
    scores: Sequence[np.ndarray],
    values: np.ndarray,
    more: np.ndarray,
    freedom_more: float,
    confidence: float,
    *,
    lost: int = 0,
) -> Tested:
    """Test that k numbers of a target are all 0 (Hotelling), with a covariance moderated over the targets.

    ::

        V  = S̃ / n + A        T² = θᵀ V⁻¹ θ        F = T² (ν − k + 1) / (ν k)  ~  F(k, ν − k + 1)

    ``S̃`` of the target's scores (Tai and Speed 2006), ``A`` (T × k × k) of what else varies, with ``freedom_more``
    degrees of freedom; ν is that of a sum of two covariances (Krishnamoorthy and Yu 2004), which for k = 1 is Welch and
    Satterthwaite's: F is then t².

    Parameters
    ----------
    scores : per target (n_t × k), one row an image; ``values`` (T × k) are θ.

    Returns
    -------
    The length of θ. ``low`` and ``high`` contain it wherever the ellipsoid of F contains θ (by the triangle inequality,
    so they cover at least as often). ``null`` is the length that chance alone would give.
    """
    rank = values.shape[1]
    covariance, freedom = _own_covariance(scores, lost)
    statistic, nu, largest, null = np.full((4, len(values)), np.nan)
    for t, theta in enumerate(values):
        total = covariance[t] + more[t]
        if np.isfinite(total).all() and np.isfinite(theta).all() and np.linalg.matrix_rank(total) == rank:
            inverse = np.linalg.inv(total)
            statistic[t] = theta @ inverse @ theta
            shares = [(covariance[t] @ inverse, freedom[t]), (more[t] @ inverse, freedom_more)]
            parts = sum((np.trace(x @ x) + np.trace(x) ** 2) / degrees for x, degrees in shares if degrees > 0)
            nu[t] = (rank + rank**2) / parts if parts > 0 else np.inf
            largest[t], null[t] = np.linalg.eigvalsh(total)[-1], np.sqrt(np.trace(total))
    denominator_freedom = np.where(np.isinf(nu), 1e9, nu) - rank + 1
    denominator_freedom = np.where(denominator_freedom > 0, denominator_freedom, np.nan)
    per_f = (denominator_freedom + rank - 1) * rank / denominator_freedom
    size = np.linalg.norm(values, axis=1)
    reach = np.sqrt(scipy.stats.f.ppf(confidence, rank, denominator_freedom) * per_f * largest)
    numbers = bare(size, np.maximum(size - reach, 0.0) + 0 * reach, size + reach, null)
    return Tested(numbers, scipy.stats.f.sf(statistic / per_f, rank, denominator_freedom), F_TEST)


def _own_covariance(scores: Sequence[np.ndarray], lost: int) -> tuple[np.ndarray, np.ndarray]:
    """Estimate the covariance of the means of each target's scores (T × k × k), moderated, and its freedom."""
    sizes = np.array([len(y) for y in scores], np.float64)
    rank, ddof = scores[0].shape[1], 1 + lost
    nothing = np.full((rank, rank), np.nan)
    raw = np.stack([np.atleast_2d(np.cov(y, rowvar=False, ddof=ddof)) if len(y) > ddof else nothing for y in scores])
    is_finite, freedom = np.isfinite(raw).all(axis=(1, 2)), sizes - ddof
    if not is_finite.any():
        return raw, np.zeros(len(sizes))
    priors = [prior_of(raw[:, k, k], freedom) for k in range(rank)]
    prior, total = float(np.median([column_prior.freedom for column_prior in priors])), freedom[is_finite].sum()
    pooled = np.average(raw[is_finite], axis=0, weights=freedom[is_finite])
    scale = np.sqrt(
        np.divide(
            [column_prior.variance for column_prior in priors],
            np.diag(pooled),
            out=np.ones(rank),
            where=np.diag(pooled) > 0,
        )
    )
    common = pooled * np.outer(scale, scale)
    share = np.ones(len(sizes)) if np.isinf(prior) else prior / (prior + np.maximum(freedom, 1))
    both = share[:, None, None] * common + (1 - share[:, None, None]) * raw
    return both / np.maximum(sizes, 1)[:, None, None], np.where(is_finite, np.minimum(prior + freedom, total), 0.0)
