"""Rows of what other audits would report of the same images: HEIM, DALL-Eval, OpenBias, Vice et al."""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite
from typing import TypeAlias

import numpy as np

from clinometer.metrics.distribution import (
    DistributionScore,
    distribution_bias,
    entropy_bias,
    gender_gap,
    generative_miss_rate,
    mean_absolute_deviation,
)
from clinometer.metrics.records import Score
from clinometer.studies.leaning.scores.context import LeaningStudy
from clinometer.studies.leaning.scores.views import EncoderView

Matches: TypeAlias = tuple[np.ndarray, np.ndarray]
"""Of each image of a target, the cosine with its target's text and with the blank prompt."""

NO_STIMULUS = "no stimulus interval: words and encoder are fixed"
NO_BLANK = "no encoder has embedded the blank prompt; encode the run anew"


def other_audit_rows(study: LeaningStudy, view: EncoderView, blanks: Sequence[Matches]) -> list[Score]:
    """Scores of other audits for each target, from the zero-shot reading of its images.

    An image counts for the group whose words it is nearest to on average: ``gender_gap`` over a and b, the others over
    all groups. ``miss_rate`` compares its cosine with its target's text and with the blank prompt, averaged over the
    encoders that read text (``blanks``, of each target).
    """
    return [
        _row(study, view, t, component, score)
        for t in study.target_numbers
        for component, score in _scores(study, view, t, blanks[t]).items()
    ]


def _scores(study: LeaningStudy, view: EncoderView, t: int, blanks: Matches) -> dict[str, DistributionScore]:
    confidence = study.settings.confidence
    pair, everyone = _counts(study, view, t, study.pair), _counts(study, view, t, study.everyone)
    own, blank = blanks
    return {
        "gender_gap": gender_gap(int(pair[0]), int(pair.sum()), confidence=confidence),
        "mean_absolute_deviation": mean_absolute_deviation(everyone, confidence=confidence),
        "entropy_bias": entropy_bias(everyone, confidence=confidence),
        "distribution_bias": distribution_bias(everyone, confidence=confidence),
        "miss_rate": generative_miss_rate(own, blank, confidence=confidence),
    }


def _counts(study: LeaningStudy, view: EncoderView, t: int, groups: Sequence[int]) -> np.ndarray:
    """Images of a target by the group whose words they are nearest to; all 0 where a group has no word."""
    near = view.image_cosines[t][:, 1][:, list(groups)]
    if not len(near) or not np.isfinite(near).all():
        return np.zeros(len(groups), int)
    return np.bincount(len(groups) - 1 - near[:, ::-1].argmax(axis=1), minlength=len(groups))  # a tie: not the first


def _row(study: LeaningStudy, view: EncoderView, t: int, component: str, score: DistributionScore) -> Score:
    target = study.design.targets[t]
    return Score(
        metric="other_audits",
        component=component,
        concept=target.name,
        category=target.category,
        encoder=view.encoder,
        value=score.value,
        low=score.low,
        high=score.high,
        null=score.null,
        n_target=study.layout.target_sizes[t],
        n_repeated=study.layout.repeated(t),
        n_a=study.layout.word_counts[study.a],
        n_b=study.layout.word_counts[study.b],
        reason=NO_STIMULUS if isfinite(score.value) else _reason(study, view, t, component, score),
    )


def _reason(study: LeaningStudy, view: EncoderView, t: int, component: str, score: DistributionScore) -> str:
    if not view.reads_text:
        return "the encoder reads no text"
    if not study.layout.target_sizes[t]:
        return "no image of the target"
    if component == "miss_rate":
        return NO_BLANK
    empty = [g for g in study.everyone if not study.layout.word_counts[g]]
    return f"no word of group {study.layout.groups[empty[0]]!r}" if empty else score.reason
