"""Tests of single stimuli: their mean associations over images.

::

    Asc_t = mean_x Asc(x) − offset_t          x: the neutral images of stimulus t

Three sources of chance: the stimulus's neutral images, with one more at the furthest that its images with A, or with B,
score themselves (:mod:`clinometer.stats.bounded_means`), and its own images with A and with B, which all its neutral
images share. p is dual to the interval: below 0.05 exactly where the 95 % interval leaves out 0.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import nan

import numpy as np

from clinometer.metrics.t2iat.draws import WelchEstimate
from clinometer.stats.bootstrap import welch_satterthwaite
from clinometer.stats.bounded_means import TEST, BoundedMeans, bounded_means
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
    not there, taken to be what those with B (``side`` 0), or with A, score.
    """
    names = [name for name, estimate in estimates.items() if np.isfinite(estimate.value)]
    if texts is not None:
        names = [name for name in names if np.isfinite(texts[name].value)]
    if not names:
        return StimulusTests({}, TEST)
    words = [texts[name] if texts else WelchEstimate(0.0) for name in names]
    tests = _bounded_means([stimuli[name] for name in names], [estimates[name] for name in names],
                           [text.value for text in words])  # fmt: skip
    if missing:
        tests = tests.filled([missing.get(name, 0) for name in names], side)
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


def _bounded_means(
    stimuli: Sequence[StimulusCosines | MeasuredStimulus], estimates: Sequence[WelchEstimate], offsets: Sequence[float]
) -> BoundedMeans:
    """The attribute images' variance is what the estimates have beside that of the neutral ones."""
    shared = [list(zip(estimate.variances[1:], estimate.freedoms[1:], strict=True)) for estimate in estimates]
    poles = np.array([np.nan_to_num(stimulus.poles) for stimulus in stimuli])
    return bounded_means(
        [stimulus.associations for stimulus in stimuli],
        np.sort(poles, axis=1),
        -np.asarray(offsets, np.float64),
        np.array([sum(variance for variance, _ in parts) for parts in shared]),
        np.array([float(welch_satterthwaite(parts)) for parts in shared]),
    )
