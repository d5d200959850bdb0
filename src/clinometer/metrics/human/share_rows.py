"""Fractions of answers, and the encoders' shares corrected by them."""

from __future__ import annotations

from math import isfinite

import numpy as np

from clinometer.metrics.human.design import HumanStudy, RatedConcept
from clinometer.metrics.human.names import HUMAN, caution, rated_items
from clinometer.metrics.records import Score
from clinometer.stats.prediction_powered import RatedShare, more_items_to_reach, rated_share

NO_MORE = "a rating of every image would not reach it: more images or more raters are needed"


def fraction_rows(study: HumanStudy) -> list[Score]:
    """``fraction``: of each concept, how often each answer was given, among all answers."""
    return [
        _people(study, concept, number, None, "fraction")
        for concept in study.concepts
        for number in range(len(study.answers))
    ]


def share_rows(study: HumanStudy) -> list[Score]:
    """``share``: of each concept, how often a was chosen among the answers a and b."""
    return [
        _people(study, concept, study.a, concept.other_than(study.a, study.b), "share") for concept in study.concepts
    ]


def corrected_rows(study: HumanStudy) -> list[Score]:
    """``corrected_share``: of the images that people would see as a or b, the share that they would see as a.

    Of each concept and encoder, by :func:`clinometer.stats.prediction_powered.rated_share` of the encoder's readings of
    all images and people's answers to some. ``n_target`` are all images, ``n_a`` the rated ones. ``more_ratings``:
    rated images still needed for the margin.
    """
    return [
        row
        for concept in study.concepts
        if not concept.whole
        for encoder in concept.readings
        for row in _corrected(study, concept, encoder)
    ]


def _people(study: HumanStudy, concept: RatedConcept, answer: int, outside: np.ndarray | None, component: str) -> Score:
    chosen = concept.chosen(answer)
    share = _by_raters(study, chosen, outside) if concept.whole else _by_items(study, concept, chosen, outside)
    return Score(
        metric=HUMAN, component=component, concept=concept.name, category=concept.category,
        group=study.answers[answer], encoder="", value=share.value, low=share.low, high=share.high, n_target=share.n,
        n_a=int(np.isfinite(chosen).sum()), reason=share.reason or caution(chosen, share.value),
    )  # fmt: skip


def _by_items(study: HumanStudy, concept: RatedConcept, chosen: np.ndarray, outside: np.ndarray | None) -> RatedShare:
    strata, sizes = concept.strata, concept.sizes
    return rated_share(chosen, outside=outside, strata=strata, sizes=sizes, confidence=study.confidence)


def _by_raters(study: HumanStudy, chosen: np.ndarray, outside: np.ndarray | None) -> RatedShare:
    """Raters are the units: each saw all images of the concept at once."""
    neither = None if outside is None else outside.T
    return rated_share(chosen.T, outside=neither, confidence=study.confidence)


def _corrected(study: HumanStudy, concept: RatedConcept, encoder: str) -> list[Score]:
    chosen = concept.chosen(study.a)
    estimate = rated_share(
        chosen, concept.readings[encoder], concept.unrated[encoder], outside=concept.other_than(study.a, study.b),
        strata=concept.strata, sizes=concept.sizes, confidence=study.confidence,
    )  # fmt: skip
    more = more_items_to_reach(study.margin, estimate, confidence=study.confidence)
    about = {
        "metric": HUMAN, "concept": concept.name, "category": concept.category, "group": study.answers[study.a],
        "encoder": encoder, "n_target": estimate.n_all, "n_a": rated_items(chosen),
    }  # fmt: skip
    share = Score(
        component="corrected_share", value=estimate.value, low=estimate.low, high=estimate.high,
        reason=estimate.reason or caution(chosen, estimate.value), **about,  # type: ignore[arg-type]
    )  # fmt: skip
    needed = Score(
        component="more_ratings", setting=f"± {study.margin:g}", value=more,
        reason=estimate.reason or ("" if isfinite(more) else NO_MORE), **about,  # type: ignore[arg-type]
    )  # fmt: skip
    return [share, needed]
