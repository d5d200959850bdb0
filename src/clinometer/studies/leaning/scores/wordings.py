"""Rows of what a concept's wording does: the variance of its images by source, and whether a verdict hangs on it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import isfinite
from typing import Final

import numpy as np

from clinometer.metrics.records import MEAN, Score, corrected
from clinometer.metrics.verdict import FEWEST_IMAGES, LEVEL
from clinometer.stats.clusters import CrossedVariance, crossed_variance
from clinometer.studies.leaning.scores.design import Design, EncoderEmbeddings, pooled_encoders, unit_rows
from clinometer.studies.leaning.scores.reader import ReaderCheck

METRIC: Final = "wording"
DEPENDS: Final = "depends on the wording"
"""The flag of the row of concept × wording, and of a concept, whose leaning is shown to change with the wording."""

BY_WORDING: Final = "by_wording"
COMPONENTS: Final = {
    "concept": "unit",
    "wording": "treatment",
    "concept_wording": "unit_treatment",
    "noise": "block",
    "image": "residual",
}
"""What a component is called, and in a crossed design in general."""

TEST: Final = "wordings exchanged within concept and noise"
FEW: Final = f"fewer than {FEWEST_IMAGES} noises of which every wording has an image"
_NO_INTERVAL: Final = "no interval: the test is by permutation"


def image_part_direction(embeddings: EncoderEmbeddings, design: Design) -> np.ndarray | None:
    """Return d with ``image part of x = x̂ · d``; None of an encoder without images of one of the two groups.

    ::

        d = mean â − mean b̂ over the groups' attribute images, and the same over their words where it reads text
    """
    parts = []
    for group in (design.a, design.b):
        images = np.concatenate([unit_rows(x) for x in embeddings.group_images[group]])
        if not len(images):
            return None
        words = embeddings.group_words
        parts.append(images.mean(axis=0) + (unit_rows(words[group]).mean(axis=0) if words is not None else 0))
    return np.asarray(parts[0] - parts[1])


def wording_rows(
    readings: Mapping[str, Mapping[str, np.ndarray]],
    encoders: Sequence[EncoderEmbeddings],
    checks: Mapping[str, ReaderCheck],
    *,
    n_permutations: int = 9_999,
    seed: int = 0,
) -> list[Score]:
    """Split the variance of image parts over concepts, wordings and noises, and test what wordings do.

    ===================== ==========================================================================================
    component             value
    ===================== ==========================================================================================
    ``concept``           variance between concepts, over all wordings
    ``wording``           between wordings, alike in all concepts; with p
    ``concept_wording``   of what a wording does to one concept and not to another; with p. ``flag`` says where
                          q ≤ .05: then a verdict on a concept hangs on the wording
    ``noise``             between noises of a concept, alike in all its wordings
    ``image``             what is left: one image of one noise and one wording
    ``by_wording``        of a concept, between its wordings; p and q over the concepts
    ===================== ==========================================================================================

    All are without what chance adds, so one of nothing at all is as often below 0 as above. Averaged over encoders and
    of each. See :func:`clinometer.stats.clusters.crossed_variance`.

    ``readings`` : of each encoder and concept (wordings × noises), NaN where there is no image.
    """
    pooled = [encoders[i].encoder for i in pooled_encoders(encoders) if encoders[i].encoder in readings]
    views: dict[str, Mapping[str, np.ndarray]] = {}
    if pooled:
        first = readings[pooled[0]]
        views[MEAN] = {name: np.mean([readings[encoder][name] for encoder in pooled], axis=0) for name in first}
    rows = []
    for encoder, by_concept in (views | dict(readings)).items():
        split = crossed_variance(list(by_concept.values()), n_permutations=n_permutations, seed=seed)
        check = checks.get(encoder)
        reason = "" if check is None or check.reads else check.reason
        rows += _rows_of_a_view(encoder, by_concept, split, reason)
    return rows


def _rows_of_a_view(
    encoder: str, by_concept: Mapping[str, np.ndarray], split: CrossedVariance, unread: str
) -> list[Score]:
    def tested(row: Score, p: float) -> Score:
        if not isfinite(p):
            return row
        return replace(
            row, p=p, test=TEST, n_splits=split.n_permutations, p_method="sampled",
            p_error=float(np.sqrt(p * (1 - p) / split.n_permutations)),
        )  # fmt: skip

    usable = split.blocks[split.blocks >= 2]
    n_wordings = len(next(iter(by_concept.values())))
    over_all = []
    for name, source in COMPONENTS.items():
        part = split.components[source]
        row = Score(
            metric=METRIC, component=name, category="all", encoder=encoder, value=part.value, low=part.low,
            high=part.high, n_target=int(usable.sum()) * n_wordings,
            reason=split.reason or ("" if isfinite(part.low) else "no interval: too little of it to tell its error"),
        )  # fmt: skip
        over_all.append(tested(row, part.p_value))
    concepts = []
    for (name, own), p, value, n in zip(
        by_concept.items(), split.unit_p, split.unit_variance, split.blocks, strict=True
    ):
        row = Score(
            metric=METRIC, component=BY_WORDING, concept=name, encoder=encoder, value=float(value),
            n_target=int(n) * len(own), n_missing=int(np.isnan(own).sum()),
            reason=_NO_INTERVAL if n >= 2 else FEW,
        )  # fmt: skip
        concepts.append(tested(row, float(p)))
    few = bool(len(usable)) and usable.min() < FEWEST_IMAGES
    family = f"{METRIC}: over {len(concepts)} concepts"
    judged = [_flagged(row, few, unread) for row in corrected(over_all, f"{METRIC}: {METRIC} and concept × wording")]
    own_rows = corrected(concepts, family)
    return judged + [_flagged(row, row.n_target < FEWEST_IMAGES * n_wordings, unread) for row in own_rows]


def _flagged(row: Score, few: bool, unread: str) -> Score:
    """Say where a leaning is shown to change with the wording; nothing of an encoder that cannot read its images."""
    if row.component not in ("concept_wording", BY_WORDING) or not isfinite(row.q):
        return row
    if unread or few:
        return replace(row, reason=unread or FEW)
    return replace(row, flag=DEPENDS) if row.q <= LEVEL else row
