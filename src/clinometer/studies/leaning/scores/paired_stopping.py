"""When pairs of images tell enough: by how much two runs differ, although the data were looked at all along.

The i-th image of a prompt starts from the same noise in both runs. Given the attribute images of both, the difference
of the image parts is a mean over a target's pairs, ::

    Δ_t = E d_t,       d_t = y_t(x of the second) − y_t(x of the first)

and d lies within what the spans of the two runs allow; that of MCAS is ITP_t(second) − ITP_t(first) more. So the bets
of :mod:`~.stopping` test Δ as they test the image part. What the attribute images may be off by is given away
beforehand: here Student's bound on their paired difference.

A pair counts if both runs have it. Which pairs those are follows from when each run stopped, and never from a pair that
is still to be drawn, so the evidence holds at any stopping time of either.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import isfinite

import numpy as np

from clinometer.errors import InvalidInputError
from clinometer.metrics.differences import METRIC, judged_when_stopped
from clinometer.metrics.mcas import IMAGE_PART, TEXT_PART
from clinometer.metrics.records import Score
from clinometer.metrics.stopping import ATTRIBUTE_LEVEL, Evidence, in_family
from clinometer.stats.equivalence import images_to_decide
from clinometer.stats.sequential import p_value_of
from clinometer.studies.leaning.scores.design import Design, EncoderEmbeddings
from clinometer.studies.leaning.scores.relabelling import ItemMeans
from clinometer.studies.leaning.scores.stopping import (
    FIXED_ONLY,
    TEST,
    ImageLeanings,
    factors_ahead,
    image_leanings,
    mean_evidence,
    reaches_of,
    without_inference,
)


def paired_evidence(
    first: Sequence[EncoderEmbeddings],
    second: Sequence[EncoderEmbeddings],
    design: Design,
    *,
    component: str = IMAGE_PART,
    ahead: bool = False,
) -> list[Evidence]:
    """Judge the difference of every target, second minus first, by the pairs there are, as one family.

    The i-th image of a prompt is the partner of the other run's i-th. ``component``, ``ahead`` : see ``evidence_of``.

    Raises
    ------
    InvalidInputError
        As ``evidence_of``; or the runs have other numbers of images.
    """
    both = image_leanings(first, design, component), image_leanings(second, design, component)
    if len({tuple(map(len, run.targets)) for run in both}) > 1:
        raise InvalidInputError("paired: the runs have different numbers of images; pair them")
    leanings, span = _differences(*both)
    reaches = reaches_of(_items_apart(*both), both[1].layout, both[1].pair, component)
    stands = in_family(
        [
            mean_evidence(values, constant, *span, design.margin, float(reach))
            for (values, constant), reach in zip(leanings, reaches, strict=True)
        ]
    )
    if not ahead:
        return stands
    factors = factors_ahead(stands, leanings, span, design.margin)
    return [
        replace(stand, factor=float(of_more), factor_balance=float(of_alike))
        for stand, of_more, of_alike in zip(stands, *factors, strict=True)
    ]


def _differences(
    first: ImageLeanings, second: ImageLeanings
) -> tuple[list[tuple[np.ndarray, float]], tuple[float, float]]:
    """D of each target's pairs and its constant, and what d lies within."""
    constants = (second.constants - first.constants).tolist()
    values = [y - x for x, y in zip(first.targets, second.targets, strict=True)]
    span = second.span[0] - first.span[1], second.span[1] - first.span[0]
    return list(zip(values, constants, strict=True)), span


def _items_apart(first: ImageLeanings, second: ImageLeanings) -> ItemMeans:
    """What each pair of attribute images adds to each target's difference."""
    images, others = second.items.images, first.items.images
    if images.shape != others.shape:
        raise InvalidInputError("paired: the runs have different numbers of attribute images; pair them")
    return ItemMeans(images - others, second.items.words - first.items.words)


def differences_when_stopped(
    rows: Sequence[Score], stands: Mapping[str, Sequence[Evidence]], design: Design
) -> list[Score]:
    """The rows of a comparison whose images were drawn until decided; ``stands`` by component: image part and MCAS.

    The differences of these carry their confidence sequences and their anytime-valid p and q, over the targets. What
    else rests on target images holds for a fixed number of them only and keeps its estimate alone.
    """
    names = [target.name for target in design.targets]
    evidence = {(component, t): stand for component, own in stands.items() for t, stand in zip(names, own, strict=True)}
    rest: list[Score] = []
    decided: dict[str, list[Score]] = {component: [] for component in stands}
    for row in rows:
        stand = evidence.get((row.component, row.concept))
        if row.encoder == "mean" and stand is not None and isfinite(row.value) and stand.n:
            decided[row.component].append(_anytime_row(row, stand))
        else:
            rest.append(row if row.component in ("itp", TEXT_PART) else without_inference(row))
    for component, own in decided.items():
        family = f"{METRIC}: {component} over {len(names)} targets"
        rest += judged_when_stopped(own, family, [(design.a, design.b)] * len(own))
    return rest


def _anytime_row(row: Score, stand: Evidence) -> Score:
    clipped = f"; {stand.clipped} of {stand.n} pairs beyond the groups' own span" if stand.clipped else ""
    return replace(
        without_inference(row),
        low=stand.low,
        high=stand.high,
        p=stand.p,
        p_equivalence=float(np.minimum(p_value_of(stand.e_balance) + ATTRIBUTE_LEVEL, 1.0)),
        test=f"{TEST}, over pairs{clipped}",
        n_target=stand.n,
        reason="no stimulus interval: " + FIXED_ONLY,
        n_decide=images_to_decide(stand.n, min(stand.factor_balance, stand.factor)),
    )
