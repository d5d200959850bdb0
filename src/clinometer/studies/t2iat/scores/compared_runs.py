"""Two runs of a T2IAT study side by side: their sets, their resamples, and how single stimuli differ."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import isfinite, nan
from typing import Any

import numpy as np

from clinometer.metrics.differences import METRIC, cut_alike, image_seeds, magnitude_row, named_or_counted, not_measured
from clinometer.metrics.prompt_sets import (
    PairDraws,
    PairSwaps,
    PromptSet,
    SetDraws,
    WelchEstimate,
    average_sets,
    bilinear_mean,
    difference_draws,
    mean_part,
    paired_bilinear_difference,
    places_of,
    pooled_deviation,
    set_draws,
    set_swaps,
)
from clinometer.metrics.records import Score, permuted
from clinometer.metrics.verdict import stimulus_ends
from clinometer.stats.bootstrap import magnitude_excess
from clinometer.stats.dependence import linked
from clinometer.stats.permutation import sign_flip_test
from clinometer.studies.t2iat.scores.stimuli import (
    DesignedTest,
    StimulusCosines,
    T2iatDesign,
    T2iatEmbeddings,
    average_stimulus,
    image_estimate,
    images_only,
    set_of_prompts,
    stimulus_cosines,
)


@dataclass(frozen=True)
class ComparedRun:
    """One run, as one encoder or the average of all sees it.

    ``sets`` has one entry an encoder, over the prompts that both runs can measure; ``averages`` has their average.
    """

    sets: Mapping[str, Sequence[PromptSet]]
    averages: Mapping[str, PromptSet]
    stimuli: Mapping[str, StimulusCosines]


@dataclass(frozen=True)
class ComparedPair:
    """Both runs as one encoder, or the average of all, sees them, with resamples of each concept's association.

    ``images`` and ``prompts`` : by concept of a test, the draws of the first and of the second run.
    """

    encoder: str
    first: ComparedRun
    second: ComparedRun
    images: Mapping[str, tuple[SetDraws, SetDraws]]
    prompts: Mapping[str, tuple[SetDraws, SetDraws]]


@dataclass(frozen=True)
class ComparisonSettings:
    """What is compared: the design, the stimuli of each concept that both runs can measure, and how."""

    design: T2iatDesign
    shared: Mapping[str, tuple[str, ...]]
    paired: bool
    n_resamples: int
    seed: int
    confidence: float
    missing: tuple[Mapping[str, int], Mapping[str, int]] = ({}, {})


def counts_of(run: T2iatEmbeddings) -> object:
    """Count how many images there are of everything."""
    return {key: len(images) for kind in (run.neutral, run.attribute) for key, images in kind.items()}


def shared_stimuli(first: T2iatEmbeddings, second: T2iatEmbeddings, design: T2iatDesign) -> dict[str, tuple[str, ...]]:
    """Return the stimuli of each concept that have every kind of image in both runs."""

    def whole(name: str) -> bool:
        kinds = ((run.neutral[name], *(run.attribute[name, group] for group in (design.a, design.b)))
                 for run in (first, second))  # fmt: skip
        return all(len(images) for kind in kinds for images in kind)

    return {concept: tuple(filter(whole, stimuli)) for concept, stimuli in design.concepts.items()}


def compared_pair(
    encoder: str,
    first: Sequence[T2iatEmbeddings],
    second: Sequence[T2iatEmbeddings],
    settings: ComparisonSettings,
) -> ComparedPair:
    """Return both runs with their resamples, as the average of these encoders sees them."""
    runs = _run(first, settings), _run(second, settings)
    tested = {concept for test in settings.design.tests for concept in (test.x, test.y)}
    images, prompts = (
        {
            concept: _set_draws(runs, concept, order, settings, prompts=prompts)
            for order, concept in enumerate(settings.shared)
            if concept in tested and not any(run.averages[concept].reason for run in runs)
        }
        for prompts in (False, True)
    )
    return ComparedPair(encoder, *runs, images, prompts)


def _run(encoders: Sequence[T2iatEmbeddings], settings: ComparisonSettings) -> ComparedRun:
    a, b = settings.design.a, settings.design.b
    sets = {
        concept: [set_of_prompts(encoder, settings.design, concept, stimuli) for encoder in encoders]
        for concept, stimuli in settings.shared.items()
    }
    stimuli = {
        name: average_stimulus([images_only(stimulus_cosines(encoder, name, a, b)) for encoder in encoders])
        for _, name in settings.design.stimuli
    }
    return ComparedRun(sets, {concept: average_sets(by_encoder) for concept, by_encoder in sets.items()}, stimuli)


def _set_draws(
    runs: tuple[ComparedRun, ComparedRun], concept: str, order: int, settings: ComparisonSettings, *, prompts: bool
) -> tuple[SetDraws, SetDraws]:
    """Return the draws of a concept's association in both runs: by the same weights where their items are partners."""
    seeds = image_seeds(settings.seed, paired=prompts or settings.paired)
    rngs = (np.random.default_rng([seed, order, int(prompts)]) for seed in seeds)
    first, second = (
        set_draws(run.averages[concept], settings.n_resamples, rng, prompts=prompts)
        for run, rng in zip(runs, rngs, strict=True)
    )
    return first, second


def pair_swaps(pair: ComparedPair, test: DesignedTest, settings: ComparisonSettings) -> PairSwaps:
    """Return a test of both runs in the form that swaps need."""
    x, y = (set_swaps(pair.first.sets[name], pair.second.sets[name]) for name in (test.x, test.y))
    places = places_of(settings.shared)
    return PairSwaps(x, y, places[test.x], places[test.y])


def effect_size_of(x: PromptSet, y: PromptSet) -> float:
    """Return Cohen's d of one run; NaN where there is no spread."""
    spread = pooled_deviation(x, y)
    return (x.association - y.association) / spread if spread > max(x.rounding, y.rounding) else nan


def draws_of(pair: ComparedPair, test: DesignedTest, kind: str, run: int) -> PairDraws:
    """Return replicates of S and of d in one run."""
    draws, averages = getattr(pair, kind), (pair.first, pair.second)[run].averages
    return difference_draws((draws[test.x][run], draws[test.y][run]), (averages[test.x], averages[test.y]))


def levelled(
    first: Sequence[T2iatEmbeddings], second: Sequence[T2iatEmbeddings]
) -> tuple[list[T2iatEmbeddings], list[T2iatEmbeddings]]:
    """Return both runs with equally many images of everything: the first ones of the larger."""

    def cut(run: T2iatEmbeddings, other: T2iatEmbeddings) -> T2iatEmbeddings:
        neutral, attribute = cut_alike(run.neutral, other.neutral), cut_alike(run.attribute, other.attribute)
        return replace(run, neutral=neutral, attribute=attribute)

    pairs = list(zip(first, second, strict=True))
    return [cut(one, other) for one, other in pairs], [cut(other, one) for one, other in pairs]


PAIRED_TEST = "paired t of images of one noise, two-sided"
UNPAIRED_TEST = "Welch t of the difference between the runs' images, two-sided"


def stimulus_difference_rows(
    first: Mapping[str, StimulusCosines],
    second: Mapping[str, StimulusCosines],
    design: T2iatDesign,
    encoder: str,
    *,
    paired: bool,
    confidence: float,
    missing: tuple[Mapping[str, int], Mapping[str, int]] = ({}, {}),
    side: int | None = None,
) -> list[Score]:
    """Return ΔAsc of every stimulus with its t interval over images and its p.

    ::

        ΔAsc = Asc(second) − Asc(first)                 positive: the second leans more to attribute a
        se²  = var over neutral images + var over images with a + var over images with b     (of pairs, or of both runs)

    ``missing`` : neutral images of either run that are not there; with ``side`` they make ΔAsc least (0) or most.
    """
    rows = []
    for concept, name in design.stimuli:
        lost = [counts.get(name, 0) for counts in missing]
        both = first[name], second[name]
        if side is not None:  # of a pair with a missing picture neither is assumed to be there
            counts = [sum(lost)] * 2 if paired else lost
            both = both[0].filled(counts[0], 1 - side), both[1].filled(counts[1], side)
        estimate = difference_estimate(*both, design, paired=paired)
        (low, high), p = _interval_and_p(estimate, confidence)
        rows.append(
            Score(
                metric=METRIC, component="association", concept=name, category=concept, encoder=encoder,
                value=estimate.value, low=low, high=high, p=p, p_error=0.0 if isfinite(p) else nan,
                test=(PAIRED_TEST if paired else UNPAIRED_TEST) if isfinite(p) else "", reason=estimate.reason,
                n_target=min(len(run[name].image_a) for run in (first, second)),
                n_a=min(cosines.image_a.shape[1] for cosines in both),
                n_b=min(cosines.image_b.shape[1] for cosines in both), n_missing=sum(lost),
                n_batches=min(filter(None, (run[name].n_batches for run in (first, second))), default=0),
            )
        )  # fmt: skip
    return rows


def difference_estimate(
    first: StimulusCosines, second: StimulusCosines, design: T2iatDesign, *, paired: bool,
    signs: tuple[float, float] = (1.0, 1.0),
) -> WelchEstimate:  # fmt: skip
    """Return ``signs[1]·Asc(second) − signs[0]·Asc(first)`` with its error over images.

    It has no value where a kind of image is missing.
    """
    if paired:  # two pairs are of one batch if two of their images are
        batches = tuple(
            labels if other is None else other if labels is None else linked([labels, other])
            for labels, other in zip(first.batches, second.batches, strict=True)
        )
        first, second = (replace(run, batches=batches) for run in (first, second))
    before, after = (
        (sign * run.units.image_a, sign * run.units.image_b) for run, sign in zip((first, second), signs, strict=True)
    )
    if paired:
        return paired_bilinear_difference(before, after, design.kinds)
    return bilinear_mean(*after, design.kinds) + (-bilinear_mean(*before, design.kinds))


def _interval_and_p(estimate: WelchEstimate, confidence: float) -> tuple[tuple[float, float], float]:
    """Return the t interval and p; of runs that are the same to the last bit, no width and p = 1."""
    if estimate.value == 0 and estimate.standard_error == 0:
        return (0.0, 0.0), 1.0
    return estimate.interval(confidence), estimate.p_value()


def magnitude_of_stimuli(
    first: Mapping[str, StimulusCosines],
    second: Mapping[str, StimulusCosines],
    design: T2iatDesign,
    rng: np.random.Generator,
    *,
    paired: bool,
    test: str,
    confidence: float,
) -> Score:
    """Return ``mean |Asc(second)| − mean |Asc(first)|`` over the stimuli that both runs measure.

    p flips the sign of each stimulus's difference: a stimulus whose runs change places. ``low, high`` are over images,
    the signs of the estimates fixed; ``stimulus_low, stimulus_high`` are the t interval over stimuli. Both are moved
    outwards by what either run's magnitude may owe to stimuli near 0 (``magnitude_excess``).
    """
    names = [name for _, name in design.stimuli if all(len(run[name].associations) for run in (first, second))]
    about: dict[str, Any] = {"metric": METRIC, "component": "magnitude", "category": "all", "n_target": len(names)}
    if not names:
        return not_measured(Score(reason="no stimulus is measured in both runs", **about))
    names, left_out = _with_error(first, second, names, design)
    about["n_target"] = len(names)
    estimates = []
    for name in names:  # |Asc(second)| − |Asc(first)| of each
        one, two = (float(np.sign(run[name].associations.mean())) for run in (first, second))
        estimates.append(difference_estimate(first[name], second[name], design, paired=paired, signs=(one, two)))
    values = np.array([estimate.value for estimate in estimates])
    permutation = sign_flip_test(values, rng=rng)
    n = len(estimates)
    over_images = WelchEstimate(
        sum(estimate.value for estimate in estimates) / n,
        tuple(variance / n**2 for estimate in estimates for variance in estimate.variances),
        tuple(freedom for estimate in estimates for freedom in estimate.freedoms),
    )
    low, high = _interval_and_p(over_images, confidence)[0]
    variance, freedom = mean_part(values)
    over_stimuli = WelchEstimate(float(values.mean()), (variance,), (freedom,))
    stimulus_low, stimulus_high = _interval_and_p(over_stimuli, confidence)[0]
    alone = "interval over stimuli: there is one only" if n == 1 else ""
    row = Score(
        value=float(values.mean()), low=low, high=high, stimulus_low=stimulus_low, stimulus_high=stimulus_high,
        test=test, **permuted(permutation), reason="; ".join(filter(None, (alone, left_out))), **about,
    )  # fmt: skip
    excess = []
    for run in (first, second):
        single = [image_estimate(run[name], design) for name in names]
        errors = [estimate.standard_error for estimate in single]
        excess.append(float(magnitude_excess([estimate.value for estimate in single], errors).mean()))
    return magnitude_row(row, excess, ends=stimulus_ends, containing=True)


def _with_error(
    first: Mapping[str, StimulusCosines], second: Mapping[str, StimulusCosines], names: list[str],
    design: T2iatDesign,
) -> tuple[list[str], str]:  # fmt: skip
    """Return the stimuli whose images vary in both runs, and why others are left out; all, where none varies."""
    with_spread = [
        name for name in names
        if all(np.isfinite(image_estimate(run[name], design).standard_error) for run in (first, second))
    ]  # fmt: skip
    if not with_spread:
        return names, "no interval: every stimulus has one image of a kind in one of the runs"
    out = [name for name in names if name not in with_spread]
    words = named_or_counted(out, "stimuli")
    return with_spread, f"left out, with one image of a kind in one of the runs: {words}" if out else ""
