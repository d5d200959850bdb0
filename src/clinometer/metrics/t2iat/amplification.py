"""Stereotype amplification: whether the images lean farther than the texts that asked for them.

Wang et al. (2023), section 5.4 and figure 4: the arrow from a prompt's text association (tail) to that of its images
(head).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import nan
from typing import Any

import numpy as np
from scipy import stats

from clinometer.metrics.families import permuted
from clinometer.metrics.records import Score
from clinometer.metrics.t2iat.welch import Estimate
from clinometer.stats.sign_flips import sign_flip_test

FLIP_TEST = "sign flips of the change over stimuli, two-sided"
CHANGE_TEST = "Welch t of the images' association against the text's, words fixed, two-sided"
CHANGE_FAMILY = "change from text to images, over the suite's stimuli"
OVERALL_FAMILY = "mean change from text to images, over the suite's concepts"


def amplification_rows(head: Estimate, tail: Estimate, **about: Any) -> list[Score]:
    """One stimulus: tail, head, their difference, and that difference in the text's own direction.

    ::

        change        = Asc(images) − Asc(text)
        amplification = sign(Asc(text)) · change          positive: the images go farther where the text already leaned

    The interval of the head is over images, that of the tail over words. For the change, ``low, high`` hold the words
    fixed and ``stimulus_low, stimulus_high`` do not. The two associations are cosines between different kinds of
    things, images and texts, whose spreads differ: the paper compares them as they are, and so does this.
    """
    change = head + (-tail)
    fixed = head + (-tail.without_error())
    direction = np.sign(tail.value) if np.isfinite(tail.value) else nan
    rows = [
        _row("text", tail, None, about, words=tail),
        _row("image", head, head, about),
        _row("change", change, fixed, about, words=change, test=CHANGE_TEST, family=CHANGE_FAMILY),
    ]
    turned = [Estimate(direction * e.value, e.variances, e.freedoms, e.reason) for e in (change, fixed)]
    return [*rows, _row("amplification", turned[0], turned[1], about, words=turned[0])]


def _row(
    component: str,
    estimate: Estimate,
    images: Estimate | None,
    about: Mapping[str, Any],
    *,
    words: Estimate | None = None,
    test: str = "",
    family: str = "",
) -> Score:
    low, high = images.interval() if images is not None else (nan, nan)
    stimulus_low, stimulus_high = words.interval() if words is not None else (nan, nan)
    return Score(
        metric="amplification",
        component=component,
        value=estimate.value,
        low=low,
        high=high,
        stimulus_low=stimulus_low,
        stimulus_high=stimulus_high,
        p=images.p_value() if images is not None and test else nan,
        test=test,
        p_error=0.0 if test else nan,
        family=family,
        reason=estimate.reason,
        **about,
    )


def overall_rows(stimuli: Sequence[tuple[Estimate, Estimate]], rng: np.random.Generator, **about: Any) -> list[Score]:
    """Means over stimuli of change and amplification, given (head, tail) of each; with a sign-flip test.

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
        rows.append(_overall(component, values, left_out, rng, about))
    return rows


def _overall(
    component: str, values: np.ndarray, left_out: str, rng: np.random.Generator, about: Mapping[str, Any]
) -> Score:
    held: dict[str, Any] = {
        "metric": "amplification",
        "component": component,
        "family": OVERALL_FAMILY,
        "n_target": len(values),
    }
    if len(values) < 2 or not np.ptp(values) > 1e-12:
        few = "fewer than two stimuli" if len(values) < 2 else "all stimuli change alike"
        value = float(values.mean()) if len(values) else nan
        return Score(value=value, reason="; ".join(filter(None, (few, left_out))), **held, **about)
    error = np.std(values, ddof=1) / np.sqrt(len(values))
    reach = float(stats.t.ppf(0.975, len(values) - 1) * error)
    mean = float(values.mean())
    return Score(
        value=mean,
        stimulus_low=mean - reach,
        stimulus_high=mean + reach,
        test=FLIP_TEST,
        reason=left_out,
        **permuted(sign_flip_test(values, rng=rng)),
        **held,
        **about,
    )
