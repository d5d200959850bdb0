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

from clinometer.metrics.records import Score, permuted
from clinometer.metrics.t2iat.draws import WelchEstimate
from clinometer.stats.bootstrap import welch_satterthwaite
from clinometer.stats.bounded_means import TEST, BoundedMeans, bounded_means
from clinometer.stats.clusters import cluster_mean
from clinometer.stats.permutation import sign_flip_test
from clinometer.studies.t2iat.scores.stimuli import MeasuredStimulus, StimulusCosines


@dataclass(frozen=True)
class StimulusTest:
    """One stimulus: its number, its 95 % interval over images, and the p of 0; NaN where there is none.

    ``stimulus_low``, ``stimulus_high`` let the words of its text vary as well.
    """

    low: float = nan
    high: float = nan
    p: float = nan
    stimulus_low: float = nan
    stimulus_high: float = nan
    value: float = nan


@dataclass(frozen=True)
class StimulusTests:
    """The stimuli of a family by name, and what their test takes for chance."""

    by_name: Mapping[str, StimulusTest]
    test: str

    def __getitem__(self, name: str) -> StimulusTest:
        return self.by_name.get(name, StimulusTest())


def stimulus_tests(
    stimuli: Mapping[str, StimulusCosines] | Mapping[str, MeasuredStimulus],
    estimates: Mapping[str, WelchEstimate],
    texts: Mapping[str, WelchEstimate] | None = None,
    missing: Mapping[str, int] | None = None,
    side: int = 0,
) -> StimulusTests:
    """Test the mean association of every stimulus, less that of its text, against 0.

    ``estimates`` : by name, the mean with its parts: neutral images, images with A, images with B. ``texts`` : the
    association of each text, held fixed but for the stimulus interval; 0 without. ``missing`` : neutral images that are
    not there, taken to be what those with B (``side`` 0), or with A, score; and then missing images with an attribute
    move the mean as far as they may.
    """
    names = [name for name, estimate in estimates.items() if np.isfinite(estimate.value)]
    if texts is not None:
        names = [name for name in names if np.isfinite(texts[name].value)]
    if not names:
        return StimulusTests({}, TEST)
    words = [texts[name] if texts else WelchEstimate(0.0) for name in names]
    tests = _bounded_means([stimuli[name] for name in names], [estimates[name] for name in names],
                           [text.value for text in words])  # fmt: skip
    if missing is not None:
        tests = tests.filled([_in_units(stimuli[name], missing.get(name, 0)) for name in names], side)
        tests = tests.moved(np.array([getattr(stimuli[name], "shifts", np.zeros(2))[side] for name in names]))
    parts = [list(zip(text.variances, text.freedoms, strict=True)) for text in words]
    outer = tests.with_other(
        np.array([sum(variance for variance, _ in of_text) for of_text in parts]),
        np.array([float(welch_satterthwaite(of_text)) for of_text in parts]),
    ).interval()
    ends = tests.interval()
    return StimulusTests(
        {
            name: StimulusTest(*map(float, numbers))
            for name, *numbers in zip(
                names, ends.low, ends.high, tests.p_value, outer.low, outer.high, tests.value, strict=True
            )
        },
        TEST,
    )


def _in_units(stimulus: StimulusCosines | MeasuredStimulus, images: int) -> int:
    """Count what further neutral images would be in units of chance, if they came in batches as the others."""
    return ceil(images * stimulus.n_batches / len(stimulus.associations)) if stimulus.n_batches else images


def _bounded_means(
    stimuli: Sequence[StimulusCosines | MeasuredStimulus], estimates: Sequence[WelchEstimate], offsets: Sequence[float]
) -> BoundedMeans:
    """Return the attribute images' variance is what the estimates have beside that of the neutral ones."""
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
CHANGE_TEST = "the images' association against the text's, words fixed: {}"
CHANGE_FAMILY = "change from text to images, over the suite's stimuli"
OVERALL_FAMILY = "mean change from text to images, over the suite's concepts"


@dataclass(frozen=True)
class Arrow:
    """From a prompt's text to its images.

    Attributes
    ----------
    head, tail : the images' mean association and the text's.
    images : the test of the head; ``change`` that of head less tail, words held fixed, and ``test`` what it is.
    """

    head: WelchEstimate
    tail: WelchEstimate
    images: StimulusTest
    change: StimulusTest
    test: str


def amplification_rows(arrow: Arrow, **about: Any) -> list[Score]:
    """Return one stimulus: tail, head, their difference, and that difference in the text's own direction.

    ::

        change        = Asc(images) − Asc(text)
        amplification = sign(Asc(text)) · change          positive: the images go farther where the text already leaned

    The interval of the head is over images, that of the tail over words. For the change, ``low, high`` hold the words
    fixed and ``stimulus_low, stimulus_high`` do not; these hold those. The two associations are cosines between
    different kinds of things, images and texts, whose spreads differ: the paper compares them as they are, and so does
    this.
    """
    change, fixed = arrow.head + (-arrow.tail), arrow.change
    text = Score(
        metric="amplification", component="text", value=arrow.tail.value, reason=arrow.tail.reason,
        **_stimulus(*arrow.tail.interval()), **about,
    )  # fmt: skip
    image = Score(
        metric="amplification", component="image", value=arrow.head.value, low=arrow.images.low, high=arrow.images.high,
        reason=arrow.head.reason, **about,
    )  # fmt: skip
    moved = Score(
        metric="amplification", component="change", value=change.value, low=fixed.low, high=fixed.high, p=fixed.p,
        p_error=0.0, test=CHANGE_TEST.format(arrow.test), family=CHANGE_FAMILY, reason=change.reason,
        **_stimulus(fixed.stimulus_low, fixed.stimulus_high), **about,
    )  # fmt: skip
    # a change in the direction of the text: amplification
    direction = np.sign(arrow.tail.value) if np.isfinite(arrow.tail.value) else nan
    intervals = (moved.low, moved.high), (moved.stimulus_low, moved.stimulus_high)
    ends = [sorted(direction * np.array(interval)) for interval in intervals]
    (low, high), (stimulus_low, stimulus_high) = ([float(x) for x in interval] for interval in ends)
    return [
        text,
        image,
        moved,
        replace(
            moved,
            component="amplification",
            value=float(direction * moved.value),
            low=low,
            high=high,
            p=nan,
            p_error=nan,
            test="",
            family="",
            **_stimulus(stimulus_low, stimulus_high),
        ),
    ]


def _stimulus(low: float, high: float) -> dict[str, Any]:
    return {"stimulus_low": low, "stimulus_high": high}


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
