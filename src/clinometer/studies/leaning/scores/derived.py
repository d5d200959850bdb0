"""Numbers that follow from MCAS and its parts: δ and α of every target, and summaries over targets. See decision 4."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from math import isfinite, nan

import numpy as np
import scipy

from clinometer.metrics.mcas import (
    aligned_diffusion_bias,
    components,
    composite,
    diffusion_bias,
    signed_bias_amplification,
    signed_diffusion_bias,
)
from clinometer.metrics.records import Score
from clinometer.stats.proportion import fieller_interval
from clinometer.studies.leaning.scores.contrasts import ContrastTests, contrast_tests, pair_weights, stimulus_covariance
from clinometer.studies.leaning.scores.cosines import (
    Estimate,
    Formula,
    Replicates,
    all_targets,
    estimate,
    estimate_norm,
    null_expectation,
)
from clinometer.studies.leaning.scores.design import StudySetup
from clinometer.studies.leaning.scores.rows import Basis, bare, summary_row, target_row
from clinometer.studies.leaning.scores.views import EncoderView

ZERO_TT = "TT is 0: bias amplification divides by it"
STD_DDOF = 0
"""The standard deviation of a category divides by n. The MCAS paper does not say; n comes nearer to the four
categories of DALL-E 2 in its table 5 (tests/golden/README.md)."""

ONE_TARGET = "one target: no spread"
UNSTABLE_TARGET = "no stimulus interval: holds a target whose TT may be 0"
ALL_UNSTABLE = "no mean: TT may be 0 for every target, so no α means anything"

Reduction = Callable[[np.ndarray], np.ndarray]
"""From numbers (… × targets) to one number (…)."""


def internal_bias_rows(setup: StudySetup, view: EncoderView) -> list[Score]:
    """Report δ, signed δ, α and signed α of every target."""
    delta, alpha = diffusion_bias_estimate(setup, view), bias_amplification_estimate(setup, view)
    delta_basis, alpha_basis = Basis(("ii", "tt"), setup.pair), Basis(("itp", "ita", "tt"), setup.pair)
    numbers = {
        "diffusion_bias": (delta_basis, delta.folded()),
        "signed_diffusion_bias": (delta_basis, delta.without_null()),
        "bias_amplification": (alpha_basis, alpha.folded()),
        "signed_bias_amplification": (alpha_basis, alpha.without_null()),
    }
    rows = [
        target_row(setup, view, t, basis, estimates, metric="internal_bias", component=component)
        for component, (basis, estimates) in numbers.items()
        for t in setup.target_numbers
    ]
    unstable = dict(zip(setup.layout.targets, unstable_targets(setup, view), strict=True))
    return [
        _flag_unstable(row, bool(unstable[row.concept])) if "amplification" in row.component else row for row in rows
    ]


def signed_delta(setup: StudySetup, tensor: np.ndarray) -> np.ndarray:
    """Compute ``|II| − |TT|`` of every target."""
    parts = components(tensor, setup.a, setup.b)
    return np.asarray(signed_diffusion_bias(parts[..., 0], parts[..., 3]))


def signed_alpha(setup: StudySetup, tensor: np.ndarray) -> np.ndarray:
    """Compute ``(ITP + ITA) / (2 TT)`` of every target."""
    parts = components(tensor, setup.a, setup.b)
    return np.asarray(signed_bias_amplification(parts[..., 1], parts[..., 2], parts[..., 3]))


def aligned_delta(setup: StudySetup, point: np.ndarray, tensor: np.ndarray) -> np.ndarray:
    """Compute ``|II| − |TT|`` of replicates, the signs of the estimates held; see :func:`aligned_diffusion_bias`."""
    signs = np.sign(components(point, setup.a, setup.b))
    parts = components(tensor, setup.a, setup.b)
    return aligned_diffusion_bias(parts[..., 0], parts[..., 3], signs[..., 0], signs[..., 3])


def diffusion_bias_estimate(setup: StudySetup, view: EncoderView) -> Estimate:
    """Estimate signed δ with the intervals of its parts, and the null expectation of δ.

    ::

        over images:  the magnitudes that the interval of II holds, less |TT|, which no image enters
        over stimuli: |II| − |TT| ∓ √( r² + s² )        r, s: from |II| and |TT| to the ends of their own intervals

    The second is Zou and Donner's (2008) interval of a difference, from those of two independent estimates.
    """
    images = _test_component(setup, view, "ii").estimate.folded()
    words = _test_component(setup, view, "tt").estimate.folded()
    value = np.asarray(images.value - words.value)
    down = np.hypot(images.value - images.stimulus_low, words.stimulus_high - words.value)
    up = np.hypot(images.stimulus_high - images.value, words.value - words.stimulus_low)
    return Estimate(
        value=value,
        low=images.low - words.value,
        high=images.high - words.value,
        stimulus_low=value - down,
        stimulus_high=value + up,
        null=null_expectation(view.targets, lambda part: null_of_delta(setup, part), np.mean),
    )


def bias_amplification_estimate(setup: StudySetup, view: EncoderView) -> Estimate:
    """Estimate signed α with the intervals of its parts, and the null expectation of α.

    Over images TT is fixed, so the interval is that of ``ITP + ITA``, divided. Over stimuli it is Fieller's of the two,
    each as uncertain as the further end of its own interval says: unbounded exactly where that of TT covers 0.
    """
    above, below = (pair_weights(setup, names, *setup.pair) for names in (("itp", "ita"), ("tt",)))
    top, tt = contrast_tests(setup, view, above).estimate, _test_component(setup, view, "tt").estimate
    value = signed_bias_amplification(top.value, 0.0, tt.value)
    divisor = np.where(np.isnan(value), np.nan, 2 * tt.value)
    inner = np.sort([top.low / divisor, top.high / divisor], axis=0)
    normal = scipy.special.ndtri((1 + setup.settings.confidence) / 2)  # it would reach as far as the further end
    variances = [
        (np.fmax(part.stimulus_high - part.value, part.value - part.stimulus_low) / normal) ** 2 for part in (top, tt)
    ]
    covariance = stimulus_covariance(setup, view, above, below)
    intervals = [
        fieller_interval(
            float(x), float(2 * y), variance_numerator=float(v_x), variance_denominator=float(4 * v_y),
            covariance=float(2 * v_xy), confidence=setup.settings.confidence,
        )
        for x, y, v_x, v_y, v_xy in zip(top.value, tt.value, *variances, covariance, strict=True)
    ]  # fmt: skip
    ends = [(interval.low, interval.high) if interval.shape == "bounded" else (nan, nan) for interval in intervals]
    low, high = np.array(ends).reshape(-1, 2).T
    null = null_expectation(view.targets, lambda part: null_of_alpha(setup, part), np.median)
    known = np.isfinite(inner)
    return Estimate(
        value=value,
        low=inner[0],
        high=inner[1],
        stimulus_low=np.minimum(low, np.where(known[0], inner[0], low)),
        stimulus_high=np.maximum(high, np.where(known[1], inner[1], high)),
        null=null,
    )


def _test_component(setup: StudySetup, view: EncoderView, component: str) -> ContrastTests:
    return contrast_tests(setup, view, pair_weights(setup, (component,), *setup.pair))


def unstable_targets(setup: StudySetup, view: EncoderView) -> np.ndarray:
    """Find the targets whose TT might be 0: its stimulus interval covers it, so α may be anything."""
    numbers = _test_component(setup, view, "tt").estimate
    return np.asarray((numbers.stimulus_low <= 0) & (numbers.stimulus_high >= 0))


def null_of_delta(setup: StudySetup, replicates: Replicates) -> np.ndarray:
    """Replicate δ as chance alone makes it: (R × T)."""
    parts = components(replicates.null, setup.a, setup.b)
    return np.asarray(diffusion_bias(parts[..., 0], parts[..., 3]))


def null_of_alpha(setup: StudySetup, replicates: Replicates) -> np.ndarray:
    """Replicate α as chance alone makes it, infinite where TT is 0: (R × T)."""
    alpha = np.abs(signed_alpha(setup, replicates.null))
    return np.where(np.isnan(alpha), np.inf, alpha)


def _flag_unstable(row: Score, unstable: bool) -> Score:
    """Mark the row of an amplification where TT may be 0."""
    if not isfinite(row.value):
        return row if row.reason else replace(row, reason=ZERO_TT, flag="unstable")
    unbounded = not row.reason and not isfinite(row.stimulus_low)
    reason = "no stimulus interval: TT may be 0, so the ratio is unbounded" if unbounded else row.reason
    return replace(row, flag="unstable" if unstable else "", reason=reason)


def category_rows(setup: StudySetup, view: EncoderView) -> list[Score]:
    """Summarise MCAS by mean and standard deviation over each category and over all, also by stereotype group."""
    rows: list[Score] = []
    leanings = _leanings(setup, view)
    for category, group, members in _selections(setup):
        targets = _finite_members(leanings.signed.point, members)
        rows += _mean_and_std(setup, view, leanings, targets, None, metric="category", category=category, group=group)
    return rows


def sign_rows(setup: StudySetup, view: EncoderView) -> list[Score]:
    """Summarise the targets that measure positive (group a) and negative (b), as the MCAS paper's table 5.

    Targets picked by the sign of a measurement have a mean of that sign even where nothing leans: read it
    against its null, the mean of the targets of that sign by chance alone.
    """
    rows: list[Score] = []
    leanings = _leanings(setup, view)
    values = leanings.signed.point
    for category, group, members in _selections(setup):
        if group:
            continue
        for sign, name in ((1, setup.design.a), (-1, setup.design.b)):
            measured = _finite_members(values, members)
            targets = [t for t in measured if sign * values[t] > 0]
            fields = {"metric": "category_by_sign", "category": category, "group": name}
            rows += _mean_and_std(setup, view, leanings, targets, (sign, measured), **fields)
    return rows


def internal_bias_summary_rows(setup: StudySetup, view: EncoderView) -> list[Score]:
    """Report min, max, mean and standard error of δ and α, by stereotype group and over all (the paper's table 4)."""
    selections = [(group, members) for category, group, members in _selections(setup) if category == "all"]
    unstable = unstable_targets(setup, view)
    rows: list[list[Score]] = [[] for _ in selections]
    for name in ("diffusion_bias", "bias_amplification"):  # one after the other: each holds replicates of all targets
        quantity = _quantity(setup, view, name)
        for group_rows, (group, members) in zip(rows, selections, strict=True):
            targets = _finite_members(quantity.signed.point, members)
            doubtful = unstable[targets] if name == "bias_amplification" else np.zeros(1, bool)
            flag, no_mean = "unstable" if doubtful.any() else "", len(targets) and doubtful.all()
            for statistic in _STATISTICS:
                numbers = _statistic_estimate(setup, quantity, statistic, targets)
                if flag:  # replicates of TT cross 0, and their spread means nothing
                    nothing = np.full_like(numbers.stimulus_low, np.nan)
                    numbers = replace(numbers, stimulus_low=nothing, stimulus_high=nothing)
                row = summary_row(
                    setup, view, targets, numbers, metric="internal_bias_summary", component=f"{name}_{statistic.name}",
                    category="all", group=group, flag=flag,
                )  # fmt: skip
                if len(targets) == 1 and statistic.name == "standard_error":
                    row = replace(row, reason=ONE_TARGET)
                elif flag and not row.reason:
                    row = replace(row, reason=UNSTABLE_TARGET)
                if no_mean and statistic.name in ("mean", "standard_error"):
                    row = replace(
                        row, value=nan, low=nan, high=nan, stimulus_low=nan, stimulus_high=nan, null=nan,
                        reason=ALL_UNSTABLE,
                    )  # fmt: skip
                group_rows.append(row)
    return [row for group_rows in rows for row in group_rows]


@dataclass(frozen=True)
class _Quantity:
    """A score of each target, computed once for all selections: replicates (… × targets), and those of chance alone.

    Of δ and α the magnitude counts; the signs of their replicates are aligned.
    """

    signed: Replicates
    null: np.ndarray
    null_centre: Callable[[np.ndarray], np.floating] = np.mean


@dataclass(frozen=True)
class _Statistic:
    """A statistic of n magnitudes, and a norm of deviations that it never outruns: :func:`ball_interval`."""

    name: str
    formula: Reduction
    bound: Reduction


def _standard_error(x: np.ndarray) -> np.ndarray:
    n = x.shape[-1]
    return np.asarray(x.std(axis=-1, ddof=1) / np.sqrt(n)) if n > 1 else np.full(x.shape[:-1], np.nan)


def _largest(x: np.ndarray) -> np.ndarray:
    return np.asarray(np.abs(x).max(axis=-1))


_STATISTICS = (
    _Statistic("min", lambda x: np.asarray(x.min(axis=-1)), _largest),
    _Statistic("max", lambda x: np.asarray(x.max(axis=-1)), _largest),
    _Statistic("mean", lambda x: np.asarray(x.mean(axis=-1)), lambda x: np.asarray(np.abs(x).mean(axis=-1))),
    _Statistic(
        "standard_error",
        _standard_error,
        lambda x: np.asarray(np.sqrt(np.square(x).sum(axis=-1) / max((x.shape[-1] - 1) * x.shape[-1], 1))),
    ),
)


def _leanings(setup: StudySetup, view: EncoderView) -> _Quantity:
    """Replicate MCAS of every target."""

    def formula(tensor: np.ndarray) -> np.ndarray:
        return composite(tensor, setup.a, setup.b)

    null = all_targets(view.targets, lambda part: formula(part.null).astype(np.float64))
    return _Quantity(_apply(view, formula, lambda _: formula), null)


def _quantity(setup: StudySetup, view: EncoderView, name: str) -> _Quantity:
    """Replicate δ or α of every target, with signs, and also as chance alone makes it."""
    if name == "diffusion_bias":
        signed = _apply(
            view, lambda c: signed_delta(setup, c), lambda part: lambda c: aligned_delta(setup, part.point, c)
        )
        return _Quantity(signed, all_targets(view.targets, lambda part: null_of_delta(setup, part)))
    signed = _apply(view, lambda c: signed_alpha(setup, c), lambda _: lambda c: signed_alpha(setup, c))
    return _Quantity(signed, all_targets(view.targets, lambda part: null_of_alpha(setup, part)), np.median)


def _apply(view: EncoderView, formula: Formula, of_replicates: Callable[[Replicates], Formula]) -> Replicates:
    """Apply a formula to the estimate, (T,), and to replicates the one that some targets have: (… × targets)."""
    return Replicates(
        formula(view.targets.point),
        all_targets(view.targets, lambda part: of_replicates(part)(part.images)),
        all_targets(view.targets, lambda part: of_replicates(part)(part.stimulus)),
    )


def _statistic_estimate(
    setup: StudySetup, quantity: _Quantity, statistic: _Statistic, targets: Sequence[int]
) -> Estimate:
    if not targets:
        return bare(np.array(np.nan))
    numbers = estimate_norm(
        quantity.signed,
        lambda c: c[..., targets],
        statistic.bound,
        setup.settings.confidence,
        value=lambda signed: statistic.formula(np.abs(signed)),
    )
    with np.errstate(invalid="ignore"):  # a replicate with TT = 0 has an infinite α, and its spread is no number
        replicated = statistic.formula(quantity.null[:, targets].astype(np.float64))
        null = quantity.null_centre(np.where(np.isnan(replicated), np.inf, replicated))
    return replace(numbers, null=np.where(np.isfinite(null), null, np.nan))


def _mean_and_std(
    setup: StudySetup,
    view: EncoderView,
    leanings: _Quantity,
    targets: Sequence[int],
    by_sign: tuple[int, Sequence[int]] | None,
    **fields: str,
) -> Iterator[Score]:
    if not targets:
        for component in ("mean", "std"):
            yield summary_row(setup, view, targets, bare(np.array(np.nan)), component=component, **fields)
        return
    null = leanings.null

    def chosen(c: np.ndarray) -> np.ndarray:
        return c[..., targets]

    mean = estimate(leanings.signed, lambda c: np.asarray(chosen(c).mean(axis=-1)), setup.settings.confidence)
    std = estimate_norm(
        leanings.signed,
        lambda c: chosen(c) - chosen(c).mean(axis=-1, keepdims=True),
        lambda x: np.asarray(np.sqrt(np.square(x).sum(axis=-1) / (len(targets) - STD_DDOF))),
        setup.settings.confidence,
    )
    if by_sign is None:
        std = replace(std, null=null[:, targets].std(axis=-1, ddof=STD_DDOF).mean())
    else:
        mean, std = _with_signed_null(mean, std, null[:, by_sign[1]], by_sign[0])
    yield summary_row(setup, view, targets, mean, component="mean", **fields)
    if len(targets) == 1:
        std, fields = bare(np.array(np.nan)), {**fields, "reason": ONE_TARGET}
    yield summary_row(setup, view, targets, std, component="std", **fields)


def _with_signed_null(mean: Estimate, std: Estimate, null: np.ndarray, sign: int) -> tuple[Estimate, Estimate]:
    """Average the mean and std of the targets of one sign over the null replicates that have one."""
    chosen = sign * null > 0
    counts = chosen.sum(axis=-1)
    kept, counts, chosen = null[counts > 0], counts[counts > 0], chosen[counts > 0]
    if not len(kept):
        return mean, std
    means = (kept * chosen).sum(axis=-1) / counts
    variances = (np.square(kept - means[:, None]) * chosen).sum(axis=-1) / counts
    return replace(mean, null=means.mean()), replace(std, null=np.sqrt(variances).mean())


def _selections(setup: StudySetup) -> Iterator[tuple[str, str, list[int]]]:
    """List (category or "all", stereotype group or "", targets), leaving out what is empty by design."""
    targets = setup.design.targets
    groups = dict.fromkeys(target.stereotype for target in targets if target.stereotype is not None)
    for category in (*dict.fromkeys(target.category for target in targets), "all"):
        for group in ("", *groups):
            members = [
                t
                for t, target in enumerate(targets)
                if category in ("all", target.category) and group in ("", target.stereotype)
            ]
            if members:
                yield category, group, members


def _finite_members(values: np.ndarray, members: Sequence[int]) -> list[int]:
    return [t for t in members if np.isfinite(values[t])]
