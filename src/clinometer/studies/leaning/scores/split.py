"""The leaning at guidance 1 and what guidance adds to it, in pairs of images that start from one noise.

::

    L_t  learned   image part of the images at guidance 1
    A_t  added     mean over pairs of  (image part at guidance g − image part at guidance 1)
    G_t  leaning   image part of the images at guidance g           L + A = G, for the same pairs

At guidance 1 the sampler follows the network's own prediction for the prompt. So L is what the network learned and A
what sampling makes of it ("Stay Fair!", arXiv 2605.28036). The attribute images of guidance 1 are the yardstick of
both: were each guidance measured by its own, a sharper picture of a man would lengthen the scale, and every concept
that leans would seem to lean more. Beside them, over all concepts, what guidance costs::

    diversity   mean over concepts of the mean 1 − cosine of two images
    fidelity    share of images that are nearest to their own prompt

each at both guidances and as a difference, held to the limits of a mitigation's. See decision 63.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import nan
from typing import Final

import numpy as np

from clinometer.metrics.differences import RUNS
from clinometer.metrics.mcas import COMPONENTS, IMAGE_PART
from clinometer.metrics.records import MEAN, Score
from clinometer.studies.leaning.scores.contrasts import pair_weights
from clinometer.studies.leaning.scores.design import Design, DrawSettings, EncoderEmbeddings, LeaningStudy
from clinometer.studies.leaning.scores.differences import (
    MissingPictures,
    absent_pictures,
    contrast_differences,
    make_comparable,
    measured_runs,
)
from clinometer.studies.leaning.scores.mitigated import DIVERSITY, FIDELITY, held, image_spread
from clinometer.studies.leaning.scores.reader import reader_checks, withheld, withheld_between
from clinometer.studies.leaning.scores.rows import Basis, Contrast, contrast_family
from clinometer.studies.leaning.scores.shares import OWN_FIDELITY
from clinometer.studies.leaning.scores.views import EncoderView

METRIC: Final = "split"
LEARNED, ADDED, AT_GUIDANCE = "learned", "added", "leaning"
NUMBERS: Final = (LEARNED, ADDED, AT_GUIDANCE)


def split_rows(
    at_one: Sequence[EncoderEmbeddings],
    guided: Sequence[EncoderEmbeddings],
    design: Design,
    *,
    missing: MissingPictures | None = None,
    fidelity: Sequence[Score] = (),
) -> list[Score]:
    """Split the leaning of every target into what the network learned and what guidance adds.

    Parameters
    ----------
    at_one, guided : the i-th image of a target starts from the same noise in both. Only the attribute images of
        ``at_one`` are looked at.
    design : its targets know how many of their pairs are missing.
    missing : the pictures that either run was asked for and did not draw.
    fidelity : rows of how well either run's images show what was asked.

    Returns
    -------
    Rows of metric ``split``, by the average over encoders: ``learned``, ``added`` and ``leaning`` of every target, with
    interval, p, q over the targets and verdict, of ``added`` that of a difference; and over all targets ``diversity``
    and ``fidelity``, of the first run, the second and, without a setting, their difference.

    Raises
    ------
    InvalidInputError
        Encoders or counts of images that differ between the runs.
    """
    own = [replace(second, group_images=first.group_images) for first, second in zip(at_one, guided, strict=True)]
    first, second, _ = make_comparable(at_one, own, design, paired=True)
    settings = DrawSettings(1, 0, 0, 0.95)
    measured = measured_runs(first, second, design, settings, paired=True)
    absent = absent_pictures(missing, (first, second), design, settings, (at_one, own))
    contrast = _contrast(measured[0][0], design, ADDED)
    family = contrast_differences(
        measured, MEAN, [contrast], ADDED, paired=True, margin=design.margin, judged=True, absent=absent
    )
    checks = [reader_checks(run, design) for run in (first, second)]
    added = withheld_between(family.judged(), *checks)
    learned, leaning = (
        withheld(_own_rows(study, views, design, component), check)
        for (study, views), check, component in zip(measured, checks, (LEARNED, AT_GUIDANCE), strict=True)
    )
    added = [replace(row, metric=METRIC, family=row.family.replace("comparison", METRIC, 1)) for row in added]
    return [*learned, *added, *leaning, *_costs(first, second, fidelity)]


def _contrast(study: LeaningStudy, design: Design, component: str) -> Contrast:
    weights, basis = pair_weights(study, COMPONENTS[IMAGE_PART], *study.pair), Basis(COMPONENTS[IMAGE_PART], study.pair)
    return Contrast(weights, basis, {"metric": METRIC, "component": component}, (design.a, design.b))


def _own_rows(study: LeaningStudy, views: Mapping[str, EncoderView], design: Design, component: str) -> list[Score]:
    """The image part of one of the runs, judged as its own report does."""
    family = f"{METRIC}: {component} over {len(design.targets)} targets"
    contrasts = [_contrast(study, design, component)]
    return contrast_family(study, views[MEAN], contrasts, family, margin=design.margin, judged=True)


def _costs(
    first: Sequence[EncoderEmbeddings], second: Sequence[EncoderEmbeddings], fidelity: Sequence[Score]
) -> list[Score]:
    """Report diversity and fidelity at both guidances, and hold their differences to their limits."""
    about, rows = Score(metric=METRIC, component="diversity", category="all", encoder=MEAN), list[Score]()
    spread = image_spread(first, second)
    if spread is not None:
        for setting, value, error in zip((*RUNS, ""), spread.values, spread.errors, strict=True):
            row = replace(about, setting=setting, n_target=spread.n_targets)
            if setting:
                rows.append(replace(row, value=value, low=value - 1.96 * error, high=value + 1.96 * error))
            else:
                rows.append(held(row, value, error, DIVERSITY * spread.values[0]))
    for row in fidelity:
        if row.component == OWN_FIDELITY:
            rows.append(replace(row, metric=METRIC, component="fidelity"))
        elif row.component == "fidelity":
            whole = replace(about, component="fidelity", n_target=row.n_target, reason=row.reason)
            error = (row.high - row.low) / (2 * 1.96)
            rows.append(held(whole, row.value, error, FIDELITY) if np.isfinite(error) else replace(
                whole, value=row.value, low=nan, high=nan
            ))  # fmt: skip
    return rows
