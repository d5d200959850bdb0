"""Where zero is: what a number would be at pictures that are in equal parts the groups' own.

0 means "as near to one group as to the other". A mixture of half of A's pictures and half of B's is at 0 only if the
pictures of both groups are equally alike among themselves. In general it lies at the groups' *middle*. With u the mean
unit vector of a target's images, μ_g that of a group's, ω_g that of its words, and the contrast ``θ = u · d + texts``
with ``d = Σ_g w_ii,g μ_g + w_ita,g ω_g``::

    m = Σ_h π_h s̄(h) = ū · d         s̄(h) = μ_h · d,  the mean score of h's own images;    ū = Σ_h π_h μ_h

π_h are equal parts of the groups that the contrast weighs. With two groups ::

    II:            m = ½ (μ_A + μ_B) · (μ_A − μ_B) = ½ (‖μ_A‖² − ‖μ_B‖²)
    image part:    m = ½ (‖μ_A‖² − ‖μ_B‖²) + ½ (μ_A + μ_B) · (ω_A − ω_B)

since the mixed terms μ_A · μ_B cancel. No image is compared with itself: ‖μ_g‖² is the mean over pairs of *different*
images (:func:`clinometer.studies.leaning.scores.cosines.group_scores`), which is unbiased; n equal terms cos(a, a) = 1
would add (1 − ‖μ_g‖²)/n.

**Texts.** MCAS and profiles also compare a text t with the groups' pictures: ITP = t · (μ_A − μ_B). The group whose
pictures are more alike has the longer mean, so every text is nearer to it. The share of this that is no leaning is the
score of t's component along ū, ::

    λ_t ū · (μ_A − μ_B) = λ_t m_II         λ_t = t · ū / ‖ū‖²

which is added to m in the test of such a number; λ_t is taken as it is. Words are fixed, and TT has no middle but 0.

**Tests.** ``θ − m = (u − ū) · d + texts`` is the same contrast with the target's mean moved by ū, and has the same
sources of chance. The target's images enter it as they enter θ, so they have the same test between the same bounds
(decision 2). An attribute image a of group g enters in two places, by the share 1/n_g of μ_g in d and in ū. So its
influence, the derivative along a, is ::

    v_g(a) = w_ii,g (u − ū) · a + w_itp,g t · a − π_g a · d

and the variance is ``Σ_strata share² s²/n`` of these, as it is for θ, where the influence is
``w_ii,g u · a + w_itp,g t · a``. For II and an image a of A::

    v_A(a) = (u − ½ (μ_A + μ_B)) · a − ½ a · (μ_A − μ_B) = (u − μ_A) · a

What all pictures have in common cancels, so θ − m is usually estimated more precisely than θ. The influence of a on m
itself is ``w_ii,g ū · a + π_g a · d``, and of a word ``w_ita,g ū · w``; words and encoders are sources over stimuli
only, as everywhere. Averages over encoders are of cosines, in which all of this is bilinear.

**The margin around m.** For pictures in the composition ρ instead of π, ``θ − m = Σ_g (ρ_g − π_g) s̄(g)``: with two
groups ``(2ρ_A − 1) ½ (s̄(A) − s̄(B))``. A margin as wide as the groups are apart would call every composition balanced,
even one of A alone. So around m it is at most ``MOST_UNBALANCED`` of the way between the groups that the contrast
weighs positively and negatively, each by its own images::

    min( margin, (s̄₊ − s̄₋)/8 )        at most one picture in eight more, or fewer, than equal parts

Neither 0 nor m is the truth: a scene may be nearer to one group's pictures whoever stands in it. A verdict that names a
side, or none, is compared with both (:mod:`clinometer.metrics.verdict`). See decision 66.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike

from clinometer.stats.bounded_means import BoundedMeans
from clinometer.stats.moderation import DifferenceTests, MeanTests, difference_tests, mean_tests
from clinometer.studies.leaning.scores.contrasts import (
    II,
    ITA,
    ITP,
    ROUNDING,
    UNVARYING,
    ContrastTests,
    Filling,
    ItemValues,
    difference_contrast,
    group_variances,
    image_scores,
    item_differences,
    item_values,
    paired_difference,
)
from clinometer.studies.leaning.scores.design import StudySetup
from clinometer.studies.leaning.scores.views import EncoderView

MOST_UNBALANCED = 1 / 8
"""Share of a target's pictures that may be of another group than equal parts have, where it is called balanced."""


def mixture_of(weights: np.ndarray) -> np.ndarray:
    """Return π, equal parts of the groups that a contrast (4 × groups) weighs in its pictures: (groups,)."""
    weighed = (np.abs(weights[[II, ITA]]) > ROUNDING).any(axis=0)
    return np.asarray(weighed / max(weighed.sum(), 1))


def middle_of(poles: np.ndarray, weights: np.ndarray) -> float:
    """Compute m from the mean cosines of each group's own images to the groups (groups × 2 × groups)."""
    mixture = mixture_of(weights)
    part = np.flatnonzero(mixture)
    return float(mixture[part] @ image_scores(poles[part], weights))


def margin_around_middle(poles: np.ndarray, weights: np.ndarray, margin: float) -> float:
    """Cut a margin to how far a composition of nearly equal parts moves a contrast; below 0 if there is no such."""
    towards = weights[[II, ITA]].sum(axis=0)
    above, below = (image_scores(poles[sign * towards > ROUNDING], weights).mean() for sign in (1, -1))
    return float(min(margin, MOST_UNBALANCED * (above - below)))


def text_shares(view: EncoderView, weights: np.ndarray) -> np.ndarray:
    """Compute λ of every target's text, (T,); 0 where a contrast compares none with pictures."""
    if not weights[ITP].any():
        return np.zeros(len(view.image_cosines))
    mixture = mixture_of(weights)
    squared = _to_middle(_to_middle(view.poles[:, 0], mixture)[None], mixture)
    return np.asarray(_to_middle(view.targets.point[:, ITP], mixture) / squared)


def middles_of(view: EncoderView, weights: np.ndarray) -> np.ndarray:
    """Compute m of every target, with what its text adds: (T,)."""
    of_texts = middle_of(view.poles, _as_pictures(weights)) if weights[ITP].any() else 0.0
    return middle_of(view.poles, weights) + text_shares(view, weights) * of_texts


def _as_pictures(weights: np.ndarray) -> np.ndarray:
    """Weigh pictures in the place of the texts that are compared with pictures."""
    return np.concatenate([weights[[ITP]], np.zeros((3, weights.shape[1]))])


def attribute_influences(view: EncoderView, weights: np.ndarray) -> ItemValues:
    """Find what each attribute image adds to each target's θ − m as one of a group's, v_g(a); see the module."""
    attribute_scores, mixture = np.concatenate(view.group_image_scores), mixture_of(weights)
    to_middle, scores = _to_middle(attribute_scores[:, 0], mixture), image_scores(attribute_scores, weights)
    shares, as_pictures = text_shares(view, weights)[:, None], _as_pictures(weights)
    of_texts = image_scores(attribute_scores, as_pictures) if weights[ITP].any() else np.zeros(len(attribute_scores))
    influences = list(item_values(view.items.images, weights[[II, ITP]]))
    for g in np.flatnonzero(mixture):
        of_middle = weights[II, g] * to_middle + mixture[g] * scores
        of_middle = of_middle + shares * (weights[ITP, g] * to_middle + mixture[g] * of_texts)
        of_target = 0.0 if influences[g] is None else influences[g]
        influences[g] = np.asarray(of_target - of_middle)
    return influences


def from_middle(
    setup: StudySetup, view: EncoderView, weights: np.ndarray, images: BoundedMeans, influences: ItemValues
) -> BoundedMeans:
    """Test θ = m of every target, from the test of θ = 0 over the same images."""
    size = len(images.samples)
    variances, freedom = group_variances(setup.layout, influences, size, images=True)
    return replace(
        images,
        offset=images.offset - middles_of(view, weights),
        other=variances.sum(axis=1),
        other_freedom=np.full(size, freedom),
    )


def differences_from_middle(
    runs: Sequence[tuple[StudySetup, EncoderView, ItemValues]],
    weights: np.ndarray,
    fillings: Sequence[Filling],
    shift: ArrayLike,
    *,
    paired: bool,
) -> MeanTests | DifferenceTests:
    """Test ``θ(second) − m(second) = θ(first) − m(first)`` of every target, moved by ``shift``.

    Two runs may differ because their groups' own pictures do, and not those of their concepts. In pairs, the influences
    of attribute images are subtracted as partners too; otherwise each run has its own variance.
    """
    (setup, first, first_influences), (_, second, second_influences) = runs
    size = len(first.image_cosines)
    if paired:
        apart = paired_difference(first, second)
        middle = middle_of(second.poles, weights) - middle_of(first.poles, weights)
        variances, freedom = group_variances(
            setup.layout, item_differences(first_influences, second_influences), size, images=True
        )
        tests = difference_contrast(setup, apart, weights, moderated=False, filling=fillings[0])
        return tests.with_only(variances.sum(axis=1), freedom).moved(np.asarray(shift) - middle)
    of_runs = list[MeanTests]()
    for (run, view, influences), filling in zip(runs, fillings, strict=True):
        variances, freedom = group_variances(run.layout, influences, size, images=True)
        of_run = difference_contrast(run, view, weights, filling=filling)
        of_runs.append(of_run.with_only(variances.sum(axis=1), freedom).moved(-middle_of(view.poles, weights)))
    return difference_tests(of_runs[0], of_runs[1].moved(shift))


def middle_tests(setup: StudySetup, view: EncoderView, weights: np.ndarray) -> ContrastTests:
    """Estimate m, with its intervals over the groups' own images, and over words and encoders too: (1,)."""
    attribute_scores, mixture, layout = np.concatenate(view.group_image_scores), mixture_of(weights), setup.layout
    to_middle, scores = _to_middle(attribute_scores[:, 0], mixture), image_scores(attribute_scores, weights)
    of_images = [
        (weights[II, g] * to_middle + mixture[g] * scores)[None] if mixture[g] else None for g in setup.everyone
    ]
    of_words = item_values(_to_middle(view.group_word_means.T, mixture)[None, None], weights[[ITA]])
    variances, freedom = group_variances(layout, of_images, 1, images=True)
    value = [middle_of(view.poles, weights)]
    tests = mean_tests([UNVARYING], value, variances.sum(axis=1), freedom, moderated=False)
    variances, freedom = group_variances(layout, of_words, 1, images=False)
    stimulus = tests.with_other(variances.sum(axis=1), freedom)
    by_encoder = np.array([middle_of(poles, weights) for poles in view.encoder_poles])
    if len(by_encoder) > 1:
        variance = np.array([by_encoder.var(ddof=1) / len(by_encoder)])
        stimulus = stimulus.with_other(variance, len(by_encoder) - 1)
    return ContrastTests(tests, stimulus, setup.settings.confidence)


def _to_middle(cosines: np.ndarray, mixture: np.ndarray) -> np.ndarray:
    """Compute ``ū · x`` from the mean cosines of items to each group's images, (items × groups): (items,)."""
    part = np.flatnonzero(mixture)
    return np.asarray(cosines[:, part] @ mixture[part])
