"""Differences of two models, or of one at two settings, in the same associations. See decision 21."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import isfinite, nan
from typing import Any

import numpy as np

from clinometer.metrics import differences, prompt_sets
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
    counted_once,
    image_estimate,
    images_only,
    set_of_prompts,
    stimulus_cosines,
)

SWAP_TEST = "runs swapped prompt by prompt, with all images of the prompt, two-sided"


def compare_t2iat(
    first: Sequence[T2iatEmbeddings],
    second: Sequence[T2iatEmbeddings],
    design: T2iatDesign,
    *,
    paired: bool,
    n_resamples: int = 10_000,
    seed: int = 0,
    missing: tuple[Mapping[str, int], Mapping[str, int]] = ({}, {}),
) -> list[Score]:
    """Return differences of T2IAT's numbers between two runs of one design, seen by the same encoders.

    ::

        ΔS   = S(second) − S(first)                                in [−8, 8]      ``differential_association``
        Δd   = d(second) − d(first)                                                ``effect_size``
        ΔAsc = Asc(second) − Asc(first), of each stimulus          in [−4, 4]      ``association``
        Δ    = mean_t |S_t(second)| − mean_t |S_t(first)|                          ``magnitude``

    Positive: the second run leans more to attribute a. ``magnitude`` is over the tests, or over the stimuli where the
    design has no tests; its ends are moved outwards by what either run's magnitude may owe to tests near 0
    (``magnitude_excess``).

    Both runs are asked the same prompts, so ΔS and Δ are always paired by prompt: p swaps the runs prompt by prompt
    (:mod:`clinometer.metrics.prompt_sets`; the null is that the runs' images of a prompt might as well have changed
    places), and the stimulus interval resamples prompts of both at once, as wide as Student's t. ``paired``: the i-th
    image of a prompt starts from the same noise in both runs; then the image interval resamples both by the same
    weights, and the test of a stimulus is the t test of pairs; otherwise each run is resampled for itself and the test
    is Welch's. A prompt that one run could not measure counts in neither. In ``magnitude`` each prompt has equally many
    images in both runs, the first ones of the larger: the magnitude of few images is larger by chance.

    Returns
    -------
    Rows of metric ``comparison``, q over the tests and over the stimuli, and on the mean over encoders verdicts: of
    tests by the interval over prompts, of stimuli by that over images. Where the design has a margin, two one-sided
    tests show that the runs lean alike.

    Raises
    ------
    InvalidInputError
        Encoders or, where paired, counts of images that differ between the runs.
    """
    differences.require_comparable(first, second, [counts_of(run[0]) for run in (first, second)], paired=paired)
    stimuli = [name for _, name in design.stimuli]
    once = partial(counted_once, stimuli=stimuli, groups=(design.a, design.b))
    first, second = once(first, second) if paired else (once(first)[0], once(second)[0])
    settings = ComparisonSettings(
        design, shared_stimuli(first[0], second[0], design), paired, n_resamples, seed, missing
    )
    mean = compared_pair("mean", first, second, settings)
    families = _families(mean, settings)
    if len(first) == 1:
        single = [replace(row, encoder=first[0].encoder) for family in families for row in family.corrected()]
    else:
        pairs = [compared_pair(a.encoder, [a], [b], settings) for a, b in zip(first, second, strict=True)]
        single = [row for pair in pairs for family in _families(pair, settings) for row in family.corrected()]
    rows = [*differences.judged_families(families), *single, _magnitude(mean, first, second, settings)]
    by_test = {test.name: design.stimuli_of(test) for test in design.tests}
    for place, row in enumerate(rows):
        if isfinite(row.value):
            is_test = row.component in ("differential_association", "effect_size")
            names = by_test[row.concept] if is_test else [row.concept] if row.concept else stimuli
            rows[place] = differences.with_reasons(row, design.unbounded(names))
    return rows


def _families(pair: ComparedPair, settings: ComparisonSettings) -> list[differences.Family]:
    """Return the tests, judged over prompts; their effect sizes; stimuli, judged over images."""
    design = settings.design
    tests = [_test_rows(pair, test, settings) for test in design.tests]

    def stimuli(side: int | None = None) -> list[Score]:
        return stimulus_difference_rows(
            pair.first.stimuli, pair.second.stimuli, design, pair.encoder, paired=settings.paired,
            missing=settings.missing, side=side,
        )  # fmt: skip

    ways = (0, 1) if any(any(counts.values()) for counts in settings.missing) else ()
    sides = (design.a, design.b)
    return [
        differences.Family(
            rows=[statistic for statistic, _ in tests], name="tests of the suite", sides=sides, margin=design.margin,
            ends=stimulus_ends,
        ),
        differences.Family(rows=[effect for _, effect in tests]),
        differences.Family(
            rows=stimuli(), fillings=[stimuli(side) for side in ways],
            name="associations of the suite's stimuli", sides=sides, margin=design.margin,
        ),
    ]  # fmt: skip


def _test_rows(pair: ComparedPair, test: DesignedTest, settings: ComparisonSettings) -> tuple[Score, Score]:
    """Return ΔS and Δd of one test."""
    about, is_measured = _about(pair, test, settings)
    statistic = Score(component="differential_association", **about)
    effect = Score(component="effect_size", **about)
    if not is_measured:
        return statistic, effect
    swaps = pair_swaps(pair, test, settings)
    permutation = sign_flip_test(swaps.contributions, rng=np.random.default_rng([settings.seed, 0]))
    value = _value(pair.second, test) - _value(pair.first, test)
    before, after = (effect_size_of(run.averages[test.x], run.averages[test.y]) for run in (pair.first, pair.second))
    d, of_value, of_d = after - before, [], []
    for kind in ("images", "prompts"):
        first, second = (draws_of(pair, test, kind, run) for run in (0, 1))
        freedom = _freedom(pair, (test.x, test.y), kind, settings)
        of_value.append(prompt_sets.interval_of(second.statistic - first.statistic, value, freedom))
        of_d.append(prompt_sets.interval_of(second.effect_size - first.effect_size, d, freedom))
    statistic = replace(statistic, value=value, test=SWAP_TEST, **_ends(*of_value), **permuted(permutation))
    effect = replace(effect, value=d, **_ends(*of_d))
    return _explain(statistic), _explain(effect)


def _about(pair: ComparedPair, test: DesignedTest, settings: ComparisonSettings) -> tuple[dict[str, Any], bool]:
    """Return what the rows of a test share, and whether its numbers can be computed."""
    runs = [(run.averages[test.x], run.averages[test.y]) for run in (pair.first, pair.second)]
    broken = next((prompt_set.reason for sets in runs for prompt_set in sets if prompt_set.reason), "")
    empty = [name for name in (test.x, test.y) if not settings.shared[name]]
    lost = sum(len(settings.design.concepts[name]) - len(settings.shared[name]) for name in (test.x, test.y))
    left_out = f"left out for want of images in one of the runs: {lost} of the prompts" if lost else ""
    no_sets = f"no prompt of {empty[0]} has all its images in both runs" if empty else ""
    no_sets = no_sets or (f"no prompt can be used: {broken}" if broken else "")
    missing, unbounded = _explain_unbounded([test], settings)
    about = {
        "metric": differences.METRIC, "concept": test.name, "encoder": pair.encoder, "n_missing": missing,
        "n_target": min(sum(prompt_set.n_images for prompt_set in sets) for sets in runs),
        "n_a": min(sum(sum(prompt_set.sizes_a) for prompt_set in sets) for sets in runs),
        "n_b": min(sum(sum(prompt_set.sizes_b) for prompt_set in sets) for sets in runs),
        "reason": no_sets or "; ".join(filter(None, (left_out, unbounded))),
    }  # fmt: skip
    return about, not no_sets


def _explain_unbounded(tests: Sequence[DesignedTest], settings: ComparisonSettings) -> tuple[int, str]:
    """Count the missing pictures of tests, and explain why their difference has no bounds."""
    stimuli = {name for test in tests for name in settings.design.stimuli_of(test)}
    missing = sum(counts.get(name, 0) for counts in settings.missing for name in stimuli)
    return missing, (
        f"no bounds for the {missing} missing pictures: prompts change places with all of theirs" if missing else ""
    )


def _freedom(pair: ComparedPair, concepts: Sequence[str], kind: str, settings: ComparisonSettings) -> float:
    """Return degrees of freedom of a difference between the runs: of partners' differences, or of both runs' images."""
    first, second = ([run.averages[name] for name in concepts] for run in (pair.first, pair.second))
    if kind == "prompts" or settings.paired:
        return prompt_sets.freedom_of(second, prompts=kind == "prompts", minus=first)
    return prompt_sets.freedom_of([*first, *second], prompts=False)


def _ends(over_images: tuple[float, float], over_prompts: tuple[float, float]) -> dict[str, Any]:
    stimulus_low, stimulus_high = prompt_sets.containing(over_prompts, over_images)
    return {"low": over_images[0], "high": over_images[1], "stimulus_low": stimulus_low, "stimulus_high": stimulus_high}


def _explain(row: Score) -> Score:
    """Add the reason why an interval is missing."""
    few = [
        "effect size: all images of a run associate alike" if not isfinite(row.value) else "",
        "" if isfinite(row.low) or not isfinite(row.value) else "interval over images: a prompt has one image only",
        "" if isfinite(row.stimulus_low) or not isfinite(row.value) else "interval over prompts: a set has one only",
    ]
    return replace(row, reason="; ".join(part for part in (*few, row.reason) if part))


def _magnitude(
    pair: ComparedPair,
    first: Sequence[T2iatEmbeddings],
    second: Sequence[T2iatEmbeddings],
    settings: ComparisonSettings,
) -> Score:
    """Return by how much more the second run leans, over all tests, or over all stimuli if there are no tests."""
    if counts_of(first[0]) != counts_of(second[0]):
        pair = compared_pair("mean", *levelled(first, second), settings)
    if not settings.design.tests:
        rng = np.random.default_rng([settings.seed, 1])
        row = magnitude_of_stimuli(
            pair.first.stimuli, pair.second.stimuli, settings.design, rng, paired=settings.paired, test=SWAP_TEST,
        )  # fmt: skip
        missing = sum(sum(counts.values()) for counts in settings.missing)
        unbounded = f"no bounds for the {missing} missing pictures" if missing else ""
        return replace(row, n_missing=missing, reason="; ".join(filter(None, (row.reason, unbounded))))
    tests = [test for test in settings.design.tests if all(name in pair.images for name in (test.x, test.y))]
    missing, unbounded = _explain_unbounded(tests, settings)
    about: dict[str, Any] = {
        "metric": differences.METRIC, "component": "magnitude", "category": "all", "n_target": len(tests),
        "n_missing": missing,
    }  # fmt: skip
    if not tests:
        return differences.not_measured(Score(reason="no test is measured in both runs", **about))
    values = np.array([[_value(run, test) for test in tests] for run in (pair.first, pair.second)])
    value = float(np.abs(values[1]).mean() - np.abs(values[0]).mean())
    concepts = sorted({name for test in tests for name in (test.x, test.y)})
    intervals, excess = [], []
    for kind in ("images", "prompts"):
        draws = [np.array([draws_of(pair, test, kind, run).statistic for test in tests]) for run in (0, 1)]
        first_mean, second_mean = (
            np.mean(np.sign(estimates)[:, None] * replicates, axis=0)
            for estimates, replicates in zip(values, draws, strict=True)
        )  # the signs of the estimates fixed
        freedom = _freedom(pair, concepts, kind, settings)
        intervals.append(prompt_sets.interval_of(second_mean - first_mean, value, freedom))
        excess.append([
            float(magnitude_excess(estimates, replicates.std(axis=1)).mean())
            for estimates, replicates in zip(values, draws, strict=True)
        ])  # fmt: skip
    (low, high), (stimulus_low, stimulus_high) = intervals
    permutation = prompt_sets.magnitude_test(
        [pair_swaps(pair, test, settings) for test in tests], np.random.default_rng([settings.seed, 2])
    )
    row = Score(
        value=value, low=low, high=high, stimulus_low=stimulus_low, stimulus_high=stimulus_high,
        reason=unbounded, test=SWAP_TEST, **permuted(permutation), **about,
    )  # fmt: skip
    return differences.magnitude_row(_explain(row), *excess, ends=stimulus_ends, containing=True)


def _value(run: ComparedRun, test: DesignedTest) -> float:
    return run.averages[test.x].association - run.averages[test.y].association


@dataclass(frozen=True)
class ComparedRun:
    """One run, as one encoder or the average of all sees it.

    ``sets`` has one entry an encoder, over the prompts that both runs can measure; ``averages`` has their average.
    """

    sets: Mapping[str, Sequence[prompt_sets.PromptSet]]
    averages: Mapping[str, prompt_sets.PromptSet]
    stimuli: Mapping[str, StimulusCosines]


@dataclass(frozen=True)
class ComparedPair:
    """Both runs as one encoder, or the average of all, sees them, with resamples of each concept's association.

    ``images`` and ``prompts`` : by concept of a test, the draws of the first and of the second run.
    """

    encoder: str
    first: ComparedRun
    second: ComparedRun
    images: Mapping[str, tuple[prompt_sets.SetDraws, prompt_sets.SetDraws]]
    prompts: Mapping[str, tuple[prompt_sets.SetDraws, prompt_sets.SetDraws]]


@dataclass(frozen=True)
class ComparisonSettings:
    """What is compared: the design, the stimuli of each concept that both runs can measure, and how."""

    design: T2iatDesign
    shared: Mapping[str, tuple[str, ...]]
    paired: bool
    n_resamples: int
    seed: int
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
    return ComparedRun(
        sets, {concept: prompt_sets.average_sets(by_encoder) for concept, by_encoder in sets.items()}, stimuli
    )


def _set_draws(
    runs: tuple[ComparedRun, ComparedRun], concept: str, order: int, settings: ComparisonSettings, *, prompts: bool
) -> tuple[prompt_sets.SetDraws, prompt_sets.SetDraws]:
    """Return the draws of a concept's association in both runs: by the same weights where their items are partners."""
    seeds = differences.image_seeds(settings.seed, paired=prompts or settings.paired)
    rngs = (np.random.default_rng([seed, order, int(prompts)]) for seed in seeds)
    first, second = (
        prompt_sets.set_draws(run.averages[concept], settings.n_resamples, rng, prompts=prompts)
        for run, rng in zip(runs, rngs, strict=True)
    )
    return first, second


def pair_swaps(pair: ComparedPair, test: DesignedTest, settings: ComparisonSettings) -> prompt_sets.PairSwaps:
    """Return a test of both runs in the form that swaps need."""
    x, y = (prompt_sets.set_swaps(pair.first.sets[name], pair.second.sets[name]) for name in (test.x, test.y))
    places = prompt_sets.places_of(settings.shared)
    return prompt_sets.PairSwaps(x, y, places[test.x], places[test.y])


def effect_size_of(x: prompt_sets.PromptSet, y: prompt_sets.PromptSet) -> float:
    """Return Cohen's d of one run; NaN where there is no spread."""
    spread = prompt_sets.pooled_deviation(x, y)
    return (x.association - y.association) / spread if spread > max(x.rounding, y.rounding) else nan


def draws_of(pair: ComparedPair, test: DesignedTest, kind: str, run: int) -> prompt_sets.PairDraws:
    """Return replicates of S and of d in one run."""
    draws, averages = getattr(pair, kind), (pair.first, pair.second)[run].averages
    return prompt_sets.difference_draws((draws[test.x][run], draws[test.y][run]), (averages[test.x], averages[test.y]))


def levelled(
    first: Sequence[T2iatEmbeddings], second: Sequence[T2iatEmbeddings]
) -> tuple[list[T2iatEmbeddings], list[T2iatEmbeddings]]:
    """Return both runs with equally many images of everything: the first ones of the larger."""

    def cut(run: T2iatEmbeddings, other: T2iatEmbeddings) -> T2iatEmbeddings:
        neutral, attribute = (
            differences.cut_alike(run.neutral, other.neutral),
            differences.cut_alike(run.attribute, other.attribute),
        )
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
        (low, high), p = _interval_and_p(estimate)
        rows.append(
            Score(
                metric=differences.METRIC, component="association", concept=name, category=concept, encoder=encoder,
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
) -> prompt_sets.WelchEstimate:  # fmt: skip
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
        return prompt_sets.paired_bilinear_difference(before, after, design.kinds)
    return prompt_sets.bilinear_mean(*after, design.kinds) + (-prompt_sets.bilinear_mean(*before, design.kinds))


def _interval_and_p(estimate: prompt_sets.WelchEstimate) -> tuple[tuple[float, float], float]:
    """Return the t interval and p; of runs that are the same to the last bit, no width and p = 1."""
    if estimate.value == 0 and estimate.standard_error == 0:
        return (0.0, 0.0), 1.0
    return estimate.interval(), estimate.p_value()


def magnitude_of_stimuli(
    first: Mapping[str, StimulusCosines],
    second: Mapping[str, StimulusCosines],
    design: T2iatDesign,
    rng: np.random.Generator,
    *,
    paired: bool,
    test: str,
) -> Score:
    """Return ``mean |Asc(second)| − mean |Asc(first)|`` over the stimuli that both runs measure.

    p flips the sign of each stimulus's difference: a stimulus whose runs change places. ``low, high`` are over images,
    the signs of the estimates fixed; ``stimulus_low, stimulus_high`` are the t interval over stimuli. Both are moved
    outwards by what either run's magnitude may owe to stimuli near 0 (``magnitude_excess``).
    """
    names = [name for _, name in design.stimuli if all(len(run[name].associations) for run in (first, second))]
    about: dict[str, Any] = {
        "metric": differences.METRIC,
        "component": "magnitude",
        "category": "all",
        "n_target": len(names),
    }
    if not names:
        return differences.not_measured(Score(reason="no stimulus is measured in both runs", **about))
    names, left_out = _with_error(first, second, names, design)
    about["n_target"] = len(names)
    estimates = []
    for name in names:  # |Asc(second)| − |Asc(first)| of each
        one, two = (float(np.sign(run[name].associations.mean())) for run in (first, second))
        estimates.append(difference_estimate(first[name], second[name], design, paired=paired, signs=(one, two)))
    values = np.array([estimate.value for estimate in estimates])
    permutation = sign_flip_test(values, rng=rng)
    n = len(estimates)
    over_images = prompt_sets.WelchEstimate(
        sum(estimate.value for estimate in estimates) / n,
        tuple(variance / n**2 for estimate in estimates for variance in estimate.variances),
        tuple(freedom for estimate in estimates for freedom in estimate.freedoms),
    )
    low, high = _interval_and_p(over_images)[0]
    variance, freedom = prompt_sets.mean_part(values)
    over_stimuli = prompt_sets.WelchEstimate(float(values.mean()), (variance,), (freedom,))
    stimulus_low, stimulus_high = _interval_and_p(over_stimuli)[0]
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
    return differences.magnitude_row(row, excess, ends=stimulus_ends, containing=True)


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
    words = differences.named_or_counted(out, "stimuli")
    return with_spread, f"left out, with one image of a kind in one of the runs: {words}" if out else ""
