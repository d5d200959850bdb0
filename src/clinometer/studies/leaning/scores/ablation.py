"""Which word matters: pictures of a prompt minus those of the prompt without one of its words, paired by noise.

::

    Δ_w = mean over noises of  ( y(whole prompt) − y(without w) )        y: image part II + ITA of one image

Positive: the word moves the pictures towards group a; in [−8, 8]. Both images of a pair are compared with the same
attribute images and words. The test is Gaffke's of the mean between bounds (:mod:`clinometer.stats.bounded_means`): no
image scores less than the lower bound l that the groups' own images give, or more than the upper one u, so a difference
lies in [l − u, u − l]. Student's t and exchanges within pairs find more, but they test that a word does *nothing*, and
take a word that moves one picture in ten far, and the others a little the other way, for one that leans: of three such
words of mean 0, ten pairs each, one is called in 69 of 100 prompts. See docs/simulations.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import isfinite
from typing import Final

import numpy as np

from clinometer.metrics.differences import METRIC, Family
from clinometer.metrics.mcas import COMPONENTS, IMAGE_PART
from clinometer.metrics.records import ABLATION, MEAN, Score
from clinometer.metrics.verdict import FEWEST_IMAGES
from clinometer.stats.bounded_means import TEST, BoundedMeans, bounded_means
from clinometer.studies.leaning.scores.contrasts import (
    II,
    ITP,
    image_bounds,
    image_scores,
    item_variance,
    pair_weights,
    paired_difference,
)
from clinometer.studies.leaning.scores.design import Design, EncoderEmbeddings, ResamplingSettings, StudySetup
from clinometer.studies.leaning.scores.differences import compare_runs, of_no_width, p_values
from clinometer.studies.leaning.scores.encoder_check import reader_checks, withheld
from clinometer.studies.leaning.scores.views import EncoderView

OVER_PAIRS: Final = TEST.replace("images", "pairs of images")
NO_PAIR: Final = "no pair of images with and without the word"
FEW_PAIRS: Final = "no interval from one pair of images"


@dataclass(frozen=True)
class LeftOutWord:
    """A word of a prompt, and the concept that the prompt draws."""

    concept: str
    word: str


def ablation_rows(
    whole: Sequence[EncoderEmbeddings],
    without: Sequence[EncoderEmbeddings],
    design: Design,
    words: Sequence[LeftOutWord],
    *,
    missing: Sequence[int] = (),
) -> list[Score]:
    """Report what each word does to the image part: metric ``ablation``, component ``effect``, ``setting`` the word.

    By the average over encoders, with interval, p, q over all words of the run, and a verdict: ``more`` with the group
    that the word moves pictures to; with a margin in the design also ``alike``, that it moves them by less. Where pairs
    are missing, ``bound_low`` and ``bound_high`` are the ends with these at either bound.

    Parameters
    ----------
    whole, without : what each encoder saw; target t of ``design`` is a word, and the i-th image of both starts from the
        same noise. Only the attribute images of ``whole`` are looked at.
    words : which word, of which concept, each target is.
    missing : pairs of each target that were asked for and are not there.

    Raises
    ------
    InvalidInputError
        Encoders or counts of images that differ.
    """
    without = [replace(one, group_images=other.group_images) for one, other in zip(without, whole, strict=True)]
    runs = compare_runs(without, whole, design, ResamplingSettings(), paired=True)
    (setup, before), (_, after) = runs.measured
    view, lost = paired_difference(before[MEAN], after[MEAN]), list(missing) or [0] * len(words)
    weights = pair_weights(setup, COMPONENTS[IMAGE_PART], *setup.pair)
    samples, bounds = [image_scores(cosines, weights) for cosines in view.image_cosines], image_bounds(view, weights)
    reach = bounds[:, 1] - bounds[:, 0]
    variance = item_variance(setup.layout, view.items, weights, (II, ITP))
    tests = bounded_means(samples, np.stack([-reach, reach], axis=1), 0.0, *variance)
    fillings = [tests.filled(lost, side) for side in (0, 1)] if any(lost) else []
    rows, *filled = (_rows(setup, view, each, words, lost) for each in (tests, *fillings))
    family = Family(
        rows=rows, name=f"{ABLATION}: effects of {len(words)} words", sides=(design.a, design.b), margin=design.margin,
        fewest=FEWEST_IMAGES, fillings=filled,
    )  # fmt: skip
    judged = withheld(family.judged(), reader_checks(runs.embeddings[0], design))
    return [
        replace(row, concept=each.concept, family=row.family.removeprefix(f"{METRIC}: "))
        for row, each in zip(judged, words, strict=True)
    ]


def _rows(
    setup: StudySetup, view: EncoderView, tests: BoundedMeans, words: Sequence[LeftOutWord], missing: Sequence[int]
) -> list[Score]:
    ends, p, margin = (
        of_no_width(tests.interval(setup.settings.confidence), tests),
        p_values(tests),
        setup.design.margin,
    )
    inside = np.full(len(words), np.nan) if margin is None else tests.p_outside(margin)
    rows = []
    for t, (target, each) in enumerate(zip(setup.design.targets, words, strict=True)):
        n, value = setup.layout.target_sizes[t], float(tests.value[t])
        tested = isfinite(p[t])
        rows.append(Score(
            metric=ABLATION, component="effect", concept=target.name, category=target.category, setting=each.word,
            encoder=view.encoder, value=value, low=float(ends.low[t]), high=float(ends.high[t]), p=float(p[t]),
            p_error=0.0, p_equivalence=float(inside[t]), test=OVER_PAIRS if tested else "",
            n_target=n, n_repeated=setup.layout.repeated(t), n_batches=setup.layout.batch_count(t),
            n_missing=missing[t], reason="" if tested else NO_PAIR if not n else FEW_PAIRS,
        ))  # fmt: skip
    return rows
