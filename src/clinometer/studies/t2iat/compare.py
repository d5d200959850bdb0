"""Differences of two models, or of one at two settings, in the same associations.

See decision 21.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from math import isfinite
from typing import Any

import numpy as np

from clinometer.metrics.differences import (
    METRIC,
    Family,
    judged_families,
    magnitude_row,
    not_measured,
    require_comparable,
    with_reasons,
)
from clinometer.metrics.prompt_sets import containing, freedom_of, interval_of, magnitude_test
from clinometer.metrics.records import Score, permuted
from clinometer.metrics.verdict import stimulus_ends
from clinometer.stats.bootstrap import magnitude_excess
from clinometer.stats.permutation import sign_flip_test
from clinometer.studies.t2iat.scores.compared_runs import (
    ComparedPair,
    ComparedRun,
    ComparisonSettings,
    compared_pair,
    counts_of,
    draws_of,
    effect_size_of,
    levelled,
    magnitude_of_stimuli,
    pair_swaps,
    shared_stimuli,
    stimulus_difference_rows,
)
from clinometer.studies.t2iat.scores.stimuli import DesignedTest, T2iatDesign, T2iatEmbeddings, counted_once

SWAP_TEST = "runs swapped prompt by prompt, with all images of the prompt, two-sided"


def compare_t2iat(
    first: Sequence[T2iatEmbeddings],
    second: Sequence[T2iatEmbeddings],
    design: T2iatDesign,
    *,
    paired: bool,
    n_resamples: int = 10_000,
    seed: int = 0,
    confidence: float = 0.95,
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
    require_comparable(first, second, [counts_of(run[0]) for run in (first, second)], paired=paired)
    stimuli = [name for _, name in design.stimuli]
    once = partial(counted_once, stimuli=stimuli, groups=(design.a, design.b))
    first, second = once(first, second) if paired else (once(first)[0], once(second)[0])
    settings = ComparisonSettings(
        design, shared_stimuli(first[0], second[0], design), paired, n_resamples, seed, confidence, missing
    )
    mean = compared_pair("mean", first, second, settings)
    families = _families(mean, settings)
    if len(first) == 1:
        single = [replace(row, encoder=first[0].encoder) for family in families for row in family.corrected()]
    else:
        pairs = [compared_pair(a.encoder, [a], [b], settings) for a, b in zip(first, second, strict=True)]
        single = [row for pair in pairs for family in _families(pair, settings) for row in family.corrected()]
    rows = [*judged_families(families), *single, _magnitude(mean, first, second, settings)]
    by_test = {test.name: design.stimuli_of(test) for test in design.tests}
    for place, row in enumerate(rows):
        if isfinite(row.value):
            is_test = row.component in ("differential_association", "effect_size")
            names = by_test[row.concept] if is_test else [row.concept] if row.concept else stimuli
            rows[place] = with_reasons(row, design.unbounded(names))
    return rows


def _families(pair: ComparedPair, settings: ComparisonSettings) -> list[Family]:
    """Return the tests, judged over prompts; their effect sizes; stimuli, judged over images."""
    design = settings.design
    tests = [_test_rows(pair, test, settings) for test in design.tests]

    def stimuli(side: int | None = None) -> list[Score]:
        return stimulus_difference_rows(
            pair.first.stimuli, pair.second.stimuli, design, pair.encoder, paired=settings.paired,
            confidence=settings.confidence, missing=settings.missing, side=side,
        )  # fmt: skip

    ways = (0, 1) if any(any(counts.values()) for counts in settings.missing) else ()
    sides = (design.a, design.b)
    return [
        Family(
            rows=[statistic for statistic, _ in tests], name="tests of the suite", sides=sides, margin=design.margin,
            ends=stimulus_ends,
        ),
        Family(rows=[effect for _, effect in tests]),
        Family(
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
        of_value.append(interval_of(second.statistic - first.statistic, value, freedom, settings.confidence))
        of_d.append(interval_of(second.effect_size - first.effect_size, d, freedom, settings.confidence))
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
        "metric": METRIC, "concept": test.name, "encoder": pair.encoder, "n_missing": missing,
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
        return freedom_of(second, prompts=kind == "prompts", minus=first)
    return freedom_of([*first, *second], prompts=False)


def _ends(over_images: tuple[float, float], over_prompts: tuple[float, float]) -> dict[str, Any]:
    stimulus_low, stimulus_high = containing(over_prompts, over_images)
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
            confidence=settings.confidence,
        )  # fmt: skip
        missing = sum(sum(counts.values()) for counts in settings.missing)
        unbounded = f"no bounds for the {missing} missing pictures" if missing else ""
        return replace(row, n_missing=missing, reason="; ".join(filter(None, (row.reason, unbounded))))
    tests = [test for test in settings.design.tests if all(name in pair.images for name in (test.x, test.y))]
    missing, unbounded = _explain_unbounded(tests, settings)
    about: dict[str, Any] = {
        "metric": METRIC, "component": "magnitude", "category": "all", "n_target": len(tests), "n_missing": missing,
    }  # fmt: skip
    if not tests:
        return not_measured(Score(reason="no test is measured in both runs", **about))
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
        intervals.append(interval_of(second_mean - first_mean, value, freedom, settings.confidence))
        excess.append([
            float(magnitude_excess(estimates, replicates.std(axis=1)).mean())
            for estimates, replicates in zip(values, draws, strict=True)
        ])  # fmt: skip
    (low, high), (stimulus_low, stimulus_high) = intervals
    permutation = magnitude_test(
        [pair_swaps(pair, test, settings) for test in tests], np.random.default_rng([settings.seed, 2])
    )
    row = Score(
        value=value, low=low, high=high, stimulus_low=stimulus_low, stimulus_high=stimulus_high,
        reason=unbounded, test=SWAP_TEST, **permuted(permutation), **about,
    )  # fmt: skip
    return magnitude_row(_explain(row), *excess, ends=stimulus_ends, containing=True)


def _value(run: ComparedRun, test: DesignedTest) -> float:
    return run.averages[test.x].association - run.averages[test.y].association
