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
        _people(study, concept, concept.chosen(number), "fraction", answer)
        for concept in study.concepts
        for number, answer in enumerate(study.answers)
    ]


def share_rows(study: HumanStudy) -> list[Score]:
    """``share``: of each concept, how often a was chosen among the answers a and b."""
    return [
        _people(study, concept, concept.chosen_of_two(study.a, study.b), "share", study.answers[study.a])
        for concept in study.concepts
    ]


def corrected_rows(study: HumanStudy) -> list[Score]:
    """``corrected_share``: of each concept and encoder, the images that people would see as a, among all images.

    :func:`clinometer.stats.prediction_powered.rated_share` of the encoder's readings of all images and people's answers
    to some. An answer that is neither a nor b counts as not a. ``n_target`` are all images, ``n_a`` the rated ones.
    ``more_ratings``: rated images still needed for the margin.
    """
    return [
        row
        for concept in study.concepts
        if not concept.whole
        for encoder in concept.readings
        for row in _corrected(study, concept, encoder)
    ]


def _people(study: HumanStudy, concept: RatedConcept, chosen: np.ndarray, component: str, group: str) -> Score:
    found = _by_raters(chosen, study) if concept.whole else _by_items(concept, chosen, study)
    return Score(
        metric=HUMAN, component=component, concept=concept.name, category=concept.category, group=group, encoder="",
        value=found.value, low=found.low, high=found.high, n_target=found.n, n_a=int(np.isfinite(chosen).sum()),
        reason=found.reason or caution(chosen, found.value),
    )  # fmt: skip


def _by_items(concept: RatedConcept, chosen: np.ndarray, study: HumanStudy) -> RatedShare:
    return rated_share(chosen, confidence=study.confidence, **_strata(concept, chosen))


def _by_raters(chosen: np.ndarray, study: HumanStudy) -> RatedShare:
    """Raters are the units: each saw all images of the concept at once."""
    return rated_share(chosen.mean(axis=1)[None], confidence=study.confidence)


def _strata(concept: RatedConcept, chosen: np.ndarray) -> dict[str, np.ndarray]:
    """Strata as they are, or scaled down to the items that have one of the answers asked for."""
    if concept.strata is None or concept.sizes is None:
        return {}
    strata, sizes = concept.strata, concept.sizes
    drawn, kept = (
        np.bincount(strata[np.isfinite(table).any(axis=0)], minlength=len(sizes)) for table in (concept.answers, chosen)
    )
    if (drawn == kept).all():
        return {"strata": strata, "sizes": sizes}
    held = np.flatnonzero(kept)
    places = np.searchsorted(held, strata).clip(max=max(len(held) - 1, 0))
    return {"strata": places, "sizes": np.ceil(sizes * kept / np.maximum(drawn, 1)).astype(int)[held]}


def _corrected(study: HumanStudy, concept: RatedConcept, encoder: str) -> list[Score]:
    chosen = concept.chosen(study.a)
    found = rated_share(
        chosen, concept.readings[encoder], concept.unrated[encoder],
        confidence=study.confidence, **_strata(concept, chosen),
    )  # fmt: skip
    more = more_items_to_reach(study.margin, found, confidence=study.confidence)
    about = {
        "metric": HUMAN, "concept": concept.name, "category": concept.category, "group": study.answers[study.a],
        "encoder": encoder, "n_target": found.n_all, "n_a": rated_items(chosen),
    }  # fmt: skip
    share = Score(
        component="corrected_share", value=found.value, low=found.low, high=found.high,
        reason=found.reason or caution(chosen, found.value), **about,  # type: ignore[arg-type]
    )  # fmt: skip
    needed = Score(
        component="more_ratings", setting=f"± {study.margin:g}", value=more,
        reason=found.reason or ("" if isfinite(more) else NO_MORE), **about,  # type: ignore[arg-type]
    )  # fmt: skip
    return [share, needed]
