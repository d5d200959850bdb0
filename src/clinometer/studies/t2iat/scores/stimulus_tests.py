"""Tests of single stimuli: their mean associations over images.

::

    Asc_t = mean_x Asc(x) − offset_t          x: the neutral images of stimulus t

Three sources of chance: the stimulus's neutral images, or the batches that they came in, with one more at the furthest
that its images with A, or with B, score themselves (:mod:`clinometer.stats.bounded_means`), and its own images with A
and with B, which all its neutral images share. p is dual to the interval: below 0.05 exactly where the 95 % interval
leaves out 0.

Stereotype amplification is whether the images lean farther than the texts that asked for them: Wang et al. (2023),
section 5.4 and figure 4: the arrow from a prompt's text association (tail) to that of its images (head).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import ceil, nan
from typing import Any

import numpy as np

from clinometer.metrics.prompt_sets import WelchEstimate
from clinometer.metrics.records import Score, permuted
from clinometer.stats.bootstrap import welch_satterthwaite
from clinometer.stats.bounded_means import TEST, BoundedMeans, bounded_means
from clinometer.stats.clusters import cluster_mean
from clinometer.stats.permutation import sign_flip_test
from clinometer.studies.t2iat.scores.stimuli import MeasuredStimulus, StimulusCosines


@dataclass(frozen=True)
class StimulusTest:
    """The mean association of a stimulus, its 95 % interval over images, and the p of 0; NaN where there is none.

    ``stimulus_low``, ``stimulus_high`` : the interval over images and the words of its text.
    """

    low: float = nan
    high: float = nan
    p: float = nan
    stimulus_low: float = nan
    stimulus_high: float = nan
    value: float = nan


def stimulus_tests(
    stimuli: Mapping[str, StimulusCosines] | Mapping[str, MeasuredStimulus],
    estimates: Mapping[str, WelchEstimate],
    texts: Mapping[str, WelchEstimate] | None = None,
    missing: Mapping[str, int] | None = None,
    side: int = 0,
) -> dict[str, StimulusTest]:
    """Test the mean association of every stimulus, less that of its text, against 0.

    ``estimates`` : by name, the mean with its parts: neutral images, images with A, images with B. ``texts`` : the
    association of each text, held fixed but for the stimulus interval; 0 without. ``missing`` : neutral images that are
    not there, assumed to score like those with B (``side`` 0), or with A; and then missing images with an attribute
    move the mean as far as they may.
    """
    all_words = {name: texts[name] if texts else WelchEstimate(0.0) for name in estimates}
    names = [name for name in estimates if np.isfinite([estimates[name].value, all_words[name].value]).all()]
    results = dict.fromkeys(estimates, StimulusTest())
    if not names:
        return results
    words = [all_words[name] for name in names]
    tests = _bounded_means([stimuli[name] for name in names], [estimates[name] for name in names],
                           [text.value for text in words])  # fmt: skip
    if missing is not None:
        lost = []
        for name in names:  # in units of chance, as if missing images came in batches like the others
            n, stimulus = missing.get(name, 0), stimuli[name]
            lost.append(ceil(n * stimulus.n_batches / len(stimulus.associations)) if stimulus.n_batches else n)
        tests = tests.filled(lost, side)
        tests = tests.moved(np.array([getattr(stimuli[name], "shifts", np.zeros(2))[side] for name in names]))
    parts = [list(zip(text.variances, text.freedoms, strict=True)) for text in words]
    outer = tests.with_other(
        np.array([sum(variance for variance, _ in text_parts) for text_parts in parts]),
        np.array([float(welch_satterthwaite(text_parts)) for text_parts in parts]),
    ).interval()
    ends = tests.interval()
    columns = (ends.low, ends.high, tests.p_value, outer.low, outer.high, tests.value)
    return results | {name: StimulusTest(*map(float, numbers)) for name, *numbers in zip(names, *columns, strict=True)}


def _bounded_means(
    stimuli: Sequence[StimulusCosines | MeasuredStimulus], estimates: Sequence[WelchEstimate], offsets: Sequence[float]
) -> BoundedMeans:
    """Return the bounded means of stimuli, with the estimates' variance from attribute images added."""
    shared = [list(zip(estimate.variances[1:], estimate.freedoms[1:], strict=True)) for estimate in estimates]
    poles = np.array([np.nan_to_num(stimulus.poles) for stimulus in stimuli])
    return bounded_means(
        [stimulus.sampled for stimulus in stimuli],
        np.sort(poles, axis=1),
        -np.asarray(offsets, np.float64),
        np.array([sum(variance for variance, _ in parts) for parts in shared]),
        np.array([float(welch_satterthwaite(parts)) for parts in shared]),
    )


FLIP_TEST = "sign flips of the change over stimuli, two-sided"
CHANGE_TEST = f"the images' association against the text's, words fixed: {TEST}"
CHANGE_FAMILY = "change from text to images, over the suite's stimuli"
OVERALL_FAMILY = "mean change from text to images, over the suite's concepts"


def amplification_rows(
    head: WelchEstimate, tail: WelchEstimate, images: StimulusTest, fixed: StimulusTest, **about: Any
) -> list[Score]:
    """Return the rows of one stimulus: tail, head, their difference, and that difference in the text's own direction.

    ::

        change        = Asc(images) − Asc(text)
        amplification = sign(Asc(text)) · change          positive: the images go farther where the text already leaned

    The interval of the head is over images, that of the tail over words. For the change, ``low, high`` hold the words
    fixed and ``stimulus_low, stimulus_high`` do not; the latter contain the former. The two associations are cosines
    between different kinds of things, images and texts, whose spreads differ: the paper compares them as they are, and
    so does this.

    ``head``, ``tail`` : mean association of the images, and of the text. ``images`` : the test of the head; ``fixed`` :
    that of head less tail, words held fixed.
    """
    change, about = head + (-tail), {"metric": "amplification", **about}
    stimulus_low, stimulus_high = tail.interval()
    text = Score(
        component="text", value=tail.value, reason=tail.reason, stimulus_low=stimulus_low, stimulus_high=stimulus_high,
        **about,
    )  # fmt: skip
    image = Score(component="image", value=head.value, low=images.low, high=images.high, reason=head.reason, **about)
    moved = Score(
        component="change", value=change.value, low=fixed.low, high=fixed.high, p=fixed.p, p_error=0.0,
        test=CHANGE_TEST, family=CHANGE_FAMILY, reason=change.reason, stimulus_low=fixed.stimulus_low,
        stimulus_high=fixed.stimulus_high, **about,
    )  # fmt: skip
    # a change in the direction of the text: amplification
    direction = np.sign(tail.value) if np.isfinite(tail.value) else nan
    intervals = (moved.low, moved.high), (moved.stimulus_low, moved.stimulus_high)
    (low, high), (stimulus_low, stimulus_high) = (
        map(float, sorted(direction * np.array(interval))) for interval in intervals
    )
    amplified = replace(
        moved, component="amplification", value=float(direction * moved.value), low=low, high=high, p=nan, p_error=nan,
        test="", family="", stimulus_low=stimulus_low, stimulus_high=stimulus_high,
    )  # fmt: skip
    return [text, image, moved, amplified]


def overall_rows(
    stimuli: Sequence[tuple[WelchEstimate, WelchEstimate]], rng: np.random.Generator, **about: Any
) -> list[Score]:
    """Return means over stimuli of change and amplification, given (head, tail) of each; with a sign-flip test.

    The interval over stimuli is the t interval of the mean. The test flips the signs of the changes: under the null of
    no change each is as likely to be up as down. Every flip is counted while there are at most 34 stimuli.
    """
    heads = np.array([head.value for head, _ in stimuli])
    tails = np.array([tail.value for _, tail in stimuli])
    there = np.isfinite(heads) & np.isfinite(tails)
    change = heads[there] - tails[there]
    left_out = f"left out for want of an association: {(~there).sum()} of the stimuli" if not there.all() else ""
    rows = []
    for component, values in (("change", change), ("amplification", np.sign(tails[there]) * change)):
        fields: dict[str, Any] = {
            "metric": "amplification", "component": component, "family": OVERALL_FAMILY, "n_target": len(values),
        }  # fmt: skip
        if len(values) < 2 or not np.ptp(values) > 1e-12:
            few = "fewer than two stimuli" if len(values) < 2 else "all stimuli change alike"
            value = float(values.mean()) if len(values) else nan
            rows.append(Score(value=value, reason="; ".join(filter(None, (few, left_out))), **fields, **about))
            continue
        mean, flipped = cluster_mean(values), permuted(sign_flip_test(values, rng=rng))
        rows.append(
            Score(value=mean.value, stimulus_low=mean.low, stimulus_high=mean.high, test=FLIP_TEST, reason=left_out,
                  **flipped, **fields, **about)
        )  # fmt: skip
    return rows
