"""The encoders against people: as what an encoder reads the images that people see as a, and as b."""

from __future__ import annotations

from math import isfinite

import numpy as np
import scipy

from clinometer.metrics.human.design import HumanStudy, RatedConcept
from clinometer.metrics.human.names import HUMAN
from clinometer.metrics.records import Score
from clinometer.stats.prediction_powered import wilson_at


def encoder_rows(study: HumanStudy) -> list[Score]:
    """``confusion`` of every answer and reading, and with it ``sensitivity`` (a read as a), ``specificity`` (b as b).

    An item counts for the answer that most of its raters gave; ties count for none. Items drawn within strata are
    weighed by what they stand for; the interval is Wilson's at the effective number of items, (Σw)²/Σw² (Kish 1965).
    """
    encoders = dict.fromkeys(name for concept in study.concepts for name in concept.readings)
    return [row for encoder in encoders for row in _rows(study, encoder)]


def _rows(study: HumanStudy, encoder: str) -> list[Score]:
    concepts = [concept for concept in study.concepts if encoder in concept.readings and not concept.whole]
    majorities = np.concatenate([majority(concept.answers, len(study.answers)) for concept in concepts])
    read = np.concatenate([concept.readings[encoder] for concept in concepts])
    weights = np.concatenate([item_weights(concept) for concept in concepts])
    named = (study.answers[study.a], study.answers[study.b])
    rows = []
    for number, answer in enumerate(study.answers):
        of = majorities == number
        for reading, as_read in zip(named, (read, 1 - read), strict=True):
            rows.append(_row(study, encoder, "confusion", answer, f"read as {reading}", as_read[of], weights[of]))
    right = (("sensitivity", study.a, read), ("specificity", study.b, 1 - read))
    for component, number, as_read in right:
        of = majorities == number
        rows.append(_row(study, encoder, component, study.answers[number], "", as_read[of], weights[of]))
    return rows


def _row(
    study: HumanStudy, encoder: str, component: str, group: str, setting: str, read: np.ndarray, weights: np.ndarray
) -> Score:
    value, low, high = weighted_share(read, weights, study.confidence)
    return Score(
        metric=HUMAN, component=component, group=group, setting=setting, encoder=encoder, value=value, low=low,
        high=high, n_target=len(read), reason="" if isfinite(value) else f"people saw no image as {group}",
    )  # fmt: skip


def weighted_share(yes: np.ndarray, weights: np.ndarray, confidence: float) -> tuple[float, float, float]:
    """Σ w y / Σ w with Wilson's interval at (Σ w)² / Σ w² answers; NaN of nothing."""
    if not len(yes):
        return np.nan, np.nan, np.nan
    share = float(weights @ yes / weights.sum())
    effective = float(weights.sum() ** 2 / (weights @ weights))
    return share, *wilson_at(share, effective, float(scipy.stats.norm.ppf((1 + confidence) / 2)))


def majority(answers: np.ndarray, number: int) -> np.ndarray:
    """(items,) the answer that most raters gave, −1 where two answers tie or there is none."""
    counts = np.stack([(answers == k).sum(axis=0) for k in range(number)])
    most = counts.max(axis=0)
    alone = (counts == most).sum(axis=0) == 1
    return np.where(alone & (most > 0), counts.argmax(axis=0), -1)


def item_weights(concept: RatedConcept) -> np.ndarray:
    """(items,) how many images of the concept each rated item stands for."""
    rated = np.isfinite(concept.answers).any(axis=0)
    if concept.strata is None or concept.sizes is None:
        others = len(next(iter(concept.unrated.values()), ()))
        return np.full(len(rated), (rated.sum() + others) / max(rated.sum(), 1))
    drawn = np.bincount(concept.strata[rated], minlength=len(concept.sizes))
    return np.asarray((concept.sizes / np.maximum(drawn, 1))[concept.strata])
