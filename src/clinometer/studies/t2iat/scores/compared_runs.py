"""Two runs of a T2IAT study side by side: their sets, their resamples, what is shared."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import nan

import numpy as np

from clinometer.metrics.t2iat.draws import (
    PairDraws,
    PairSwaps,
    SetDraws,
    difference_draws,
    places_of,
    set_draws,
    set_swaps,
)
from clinometer.metrics.t2iat.sets import PromptSet, average_sets, pooled_deviation, prompt_set
from clinometer.metrics.two_runs import cut_alike, image_seeds
from clinometer.studies.t2iat.scores.design import DesignedTest, T2iatDesign, T2iatEmbeddings
from clinometer.studies.t2iat.scores.stimuli import StimulusCosines, average_stimulus, images_only, stimulus_cosines


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

    ``images`` and ``prompts`` hold, by concept of a test, the draws of the first and of the second run.
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
    """How many images there are of everything."""
    return {key: len(images) for kind in (run.neutral, run.attribute) for key, images in kind.items()}


def shared_stimuli(first: T2iatEmbeddings, second: T2iatEmbeddings, design: T2iatDesign) -> dict[str, tuple[str, ...]]:
    """The stimuli of each concept that have every kind of image in both runs."""

    def whole(name: str) -> bool:
        kinds = [(run.neutral[name], run.attribute[name, design.a], run.attribute[name, design.b])
                 for run in (first, second)]  # fmt: skip
        return all(len(images) for of_run in kinds for images in of_run)

    return {concept: tuple(filter(whole, stimuli)) for concept, stimuli in design.concepts.items()}


def compared_pair(
    encoder: str,
    first: Sequence[T2iatEmbeddings],
    second: Sequence[T2iatEmbeddings],
    settings: ComparisonSettings,
) -> ComparedPair:
    """Both runs with their resamples, as the average of these encoders sees them."""
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
        concept: [
            prompt_set(
                [encoder.neutral[name] for name in stimuli],
                *([encoder.attribute[name, group] for name in stimuli] for group in (a, b)),
                name=concept,
            )
            for encoder in encoders
        ]
        for concept, stimuli in settings.shared.items()
    }
    stimuli = {
        name: average_stimulus([images_only(stimulus_cosines(encoder, name, a, b)) for encoder in encoders])
        for names in settings.design.concepts.values()
        for name in names
    }
    return ComparedRun(sets, {concept: average_sets(by_encoder) for concept, by_encoder in sets.items()}, stimuli)


def _set_draws(
    runs: tuple[ComparedRun, ComparedRun], concept: str, order: int, settings: ComparisonSettings, *, prompts: bool
) -> tuple[SetDraws, SetDraws]:
    """Draws of a concept's association in both runs: by the same weights where their items are partners."""
    seeds = image_seeds(settings.seed, paired=prompts or settings.paired)
    drawn = [
        set_draws(
            run.averages[concept],
            settings.n_resamples,
            np.random.default_rng([seed, order, int(prompts)]),
            prompts=prompts,
        )
        for run, seed in zip(runs, seeds, strict=True)
    ]
    return drawn[0], drawn[1]


def pair_swaps(pair: ComparedPair, test: DesignedTest, settings: ComparisonSettings) -> PairSwaps:
    """A test of both runs in the form that swaps need."""
    x, y = (set_swaps(pair.first.sets[name], pair.second.sets[name]) for name in (test.x, test.y))
    places = places_of(settings.shared)
    return PairSwaps(x, y, places[test.x], places[test.y])


def effect_size_of(x: PromptSet, y: PromptSet) -> float:
    """Cohen's d of one run; NaN where there is no spread."""
    spread = pooled_deviation(x, y)
    return (x.association - y.association) / spread if spread > max(x.rounding, y.rounding) else nan


def draws_of(pair: ComparedPair, test: DesignedTest, kind: str, run: int) -> PairDraws:
    """Replicates of S and of d in one run."""
    draws, averages = getattr(pair, kind), (pair.first, pair.second)[run].averages
    return difference_draws((draws[test.x][run], draws[test.y][run]), (averages[test.x], averages[test.y]))


def levelled(
    first: Sequence[T2iatEmbeddings], second: Sequence[T2iatEmbeddings]
) -> tuple[list[T2iatEmbeddings], list[T2iatEmbeddings]]:
    """Both runs with equally many images of everything: the first ones of the larger."""

    def cut(run: T2iatEmbeddings, other: T2iatEmbeddings) -> T2iatEmbeddings:
        return replace(
            run,
            neutral=cut_alike(run.neutral, other.neutral),
            attribute=cut_alike(run.attribute, other.attribute),
        )

    pairs = list(zip(first, second, strict=True))
    return [cut(one, other) for one, other in pairs], [cut(other, one) for one, other in pairs]
