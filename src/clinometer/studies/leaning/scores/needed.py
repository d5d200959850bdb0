"""How many images of a concept decide what its pictures do not, by the verdict's own tests on runs drawn from a pilot.

A verdict on pictures is by Gaffke's test against 0 and against the groups' middle, the larger p counts, and q is over
the concepts (:mod:`clinometer.studies.leaning.scores.rows`). So is the verdict on every run that is drawn from the
pilot's scores (:class:`clinometer.stats.power.ScoredPilot`). The groups' own images grow in proportion: with three
times the images of a concept there are three times the images of each group. If these stayed as many as they are, what
they may be off by would be the same in a run of any size, and where it is much, no number of a concept's images would
decide. See decision 5.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite, nan

import numpy as np

from clinometer.metrics.mcas import COMPONENTS, IMAGE_PART
from clinometer.stats.bounded_means import BoundedMeans
from clinometer.stats.power import (
    BEYOND,
    MOST_SCORED,
    POWER,
    SIZES,
    PowerCurve,
    ScoredPilot,
    power_curve,
    require_power,
)
from clinometer.studies.leaning.scores.contrasts import ContrastTests, contrast_tests, pair_weights
from clinometer.studies.leaning.scores.design import (
    Design,
    EncoderEmbeddings,
    Layout,
    ResamplingSettings,
    StudySetup,
    layout_of,
)
from clinometer.studies.leaning.scores.middle import attribute_influences, from_middle, margin_around_middle
from clinometer.studies.leaning.scores.views import EncoderView, linear_views


def zeros_of(tests: Sequence[ContrastTests]) -> list[BoundedMeans] | None:
    """Return all tests of one family against 0, and all against their middles; None where some have no such test.

    Nor of a family so large that its runs are not drawn.
    """
    if sum(len(each.images.value) for each in tests) > MOST_SCORED:
        return None
    zeros = []
    for family in ([each.images for each in tests], [each.from_middle for each in tests]):
        bounded = [each for each in family if isinstance(each, BoundedMeans)]
        if len(bounded) < len(tests):
            return None
        fields = ("bounds", "offset", "other", "other_freedom")
        joined = (np.concatenate([np.asarray(getattr(each, name)) for each in bounded]) for name in fields)
        zeros.append(BoundedMeans([x for each in bounded for x in each.samples], *joined))
    return zeros


def margins_of(view: EncoderView, weights: Sequence[np.ndarray], margin: float | None) -> list[np.ndarray] | None:
    """Return the margins around 0 and around the middle of every test of a family; None without one."""
    if margin is None:
        return None
    size = len(view.image_cosines)
    around = [margin_around_middle(view.poles, contrast, margin) for contrast in weights]
    return [np.full(size * len(weights), margin), np.repeat(around, size)]


def images_of(layout: Layout, sizes: np.ndarray) -> np.ndarray:
    """Count the images that so many units of chance of each test come to, (tests,); NaN where none would do.

    Units are batches where images came in these. ``BEYOND`` stands for more than ``MANY``.
    """
    sizes_drawn = np.maximum(layout.target_sizes, 1)
    units = [layout.batch_count(t) or size for t, size in enumerate(sizes_drawn.tolist())]
    a_unit = sizes_drawn / np.array(units)
    images = np.ceil(sizes * np.tile(a_unit, len(sizes) // len(units)) - 1e-6)
    return np.where(np.isfinite(images), np.minimum(images, BEYOND), nan)


def images_that_decide(
    layout: Layout, pilot: ScoredPilot, is_open: np.ndarray | None = None, *, power: float = POWER, alpha: float = 0.05
) -> np.ndarray:
    """Count the images of each test's target with which its verdict is one with this chance, (tests,).

    ``is_open`` : which tests are asked about; the others may come out NaN.
    """
    curve = power_curve(pilot, SIZES, alpha=alpha, power=power, wanted=is_open)
    return images_of(layout, curve.sizes_for(power, curve.decided))


@dataclass(frozen=True)
class Needed:
    """Return how many images of a concept each answer of its image part needs, (targets,) each.

    The groups' own images grow in proportion, and q is over the targets. NaN where no number would do; ``BEYOND`` for
    more than ``MANY``.

    Attributes
    ----------
    to_detect : to find that it leans, with what the pilot does not know of it; or an effect that was named.
    to_show_balance : to show that it lies within the margin around both zeros, if it is what the pilot has; NaN without
        a margin, and where the pilot has it beyond.
    to_decide : for either: what ``n_decide`` counts.
    groups_kept : ``to_decide`` if the groups' own images stayed as many as they are.
    """

    to_detect: np.ndarray
    to_show_balance: np.ndarray
    to_decide: np.ndarray
    groups_kept: np.ndarray


def image_part_zeros(
    encoders: Sequence[EncoderEmbeddings], design: Design, layout: Layout
) -> tuple[list[BoundedMeans], list[np.ndarray] | None]:
    """Return the tests of the image part of every target against 0 and against the middle, and the margins around both.

    Nothing where a group has no images to bound what one may score.
    """
    setup = StudySetup(design, layout, ResamplingSettings(1, 0, 0, 0.95))
    view = linear_views(encoders, setup).mean
    weights = pair_weights(setup, COMPONENTS[IMAGE_PART], *setup.pair)
    images = contrast_tests(setup, view, weights).images
    if not isinstance(images, BoundedMeans):
        return [], None
    apart = from_middle(setup, view, weights, images, attribute_influences(view, weights))
    return [images, apart], margins_of(view, [weights], design.margin)


def images_needed(
    encoders: Sequence[EncoderEmbeddings],
    design: Design,
    *,
    effect: float | None = None,
    power: float = POWER,
    alpha: float = 0.05,
) -> Needed:
    """Plan the image part of every target of a study like this one, from its own pictures.

    ``effect`` : how large the image part is taken to be, of every concept on the side where the pilot has it, instead
    of what its pictures say.

    Raises
    ------
    InvalidInputError
        As ``mcas_study``; a power or level that is not between 0 and 1.
    """
    require_power(power, alpha)
    layout, unknown = layout_of(encoders, design), np.full(len(design.targets), nan)
    zeros, margins = image_part_zeros(encoders, design, layout)
    if not zeros:
        return Needed(unknown, unknown, unknown, unknown)

    def images(share: str, *, grown: bool = True, effects: np.ndarray | None = None) -> np.ndarray:
        curve = curves.get((grown, effects is None))
        if curve is None or effects is not None:
            pilot = ScoredPilot(zeros, margins, effects=effects, grown=grown)
            curve = curves[grown, effects is None] = power_curve(pilot, SIZES, alpha=alpha, power=power)
        return images_of(layout, curve.sizes_for(power, getattr(curve, share)))

    curves = dict[tuple[bool, bool], PowerCurve]()
    named = None if effect is None else np.full(len(unknown), effect)
    to_detect = images("leans", effects=named)
    to_show_balance = unknown
    if design.margin is not None:
        known = np.abs(zeros[0].value)
        to_show_balance = np.where(known < design.margin, images("balanced", effects=known), nan)
    if named is None:
        return Needed(to_detect, to_show_balance, images("decided"), images("decided", grown=False))
    to_decide = np.fmin(to_detect, to_show_balance)
    groups_kept = images("leans", grown=False, effects=named)
    if design.margin is not None:
        kept = images("balanced", grown=False, effects=known)
        groups_kept = np.fmin(groups_kept, np.where(known < design.margin, kept, nan))
    return Needed(to_detect, to_show_balance, to_decide, groups_kept)


def counted(n_target: Sequence[int], images: np.ndarray) -> list[int]:
    """Return ``n_decide`` of rows with so many images: more than there are, 0 where no number would do."""
    return [max(n + 1, int(needed)) if isfinite(needed) else 0 for n, needed in zip(n_target, images, strict=True)]
