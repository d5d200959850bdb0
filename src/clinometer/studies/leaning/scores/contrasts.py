"""Contrasts of mean cosines: value, interval and p from one variance, images of targets and of attributes alike.

A contrast of groups is linear in the mean cosines, and these are means over images, so it is a mean over target images
of one score an image, ``y_i``, and the same number is a weighted sum of means over attribute images::

    θ_t = Σ_m Σ_g w_g C[t, m, g] = mean_i y_i + text_t            Σ_g w_g = 0

    y_i    = Σ_g w_g (mean_j cos(x_i, a_gj) + mean_k cos(x_i, v_gk))       a: images of group g, v: its words
    v      = Σ_g w_g² v_g                                                 v_g = Σ_p (n_p / n_g)² s²_p / n_p over prompts

Eight images that happen to be alike do not know their own variance, so one is added at the furthest that images of a
cell's own score, and v is the variance from elsewhere (:mod:`clinometer.stats.bounded_means`). Interval and p are of
one test, so p < 1 − confidence exactly where the interval leaves out 0. Differences of two runs have no such bound;
theirs is Student's t, with a variance s̃² moderated over the targets (:mod:`clinometer.stats.moderation`).
Several contrasts at once are tested by Hotelling's F, with covariances moderated over the targets
(:mod:`clinometer.stats.variances`). Words are fixed; ``stimulus_low`` and
``stimulus_high`` let them, and the encoders, vary as well.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np
import scipy

from clinometer.metrics.bounds import MISSING, REPEATS
from clinometer.metrics.mcas import COMPONENTS, IMAGE_PART
from clinometer.stats.bootstrap import welch_satterthwaite
from clinometer.stats.bounded_means import BoundedMeans, bounded_means
from clinometer.stats.moderation import MeanTests, mean_tests
from clinometer.stats.variances import moderated, prior_of
from clinometer.studies.leaning.scores.moments import CellView

Part = tuple[np.ndarray, np.ndarray]
"""A variance of each target's number and its degrees of freedom."""


@dataclass(frozen=True)
class Inference:
    """A number of each target: (T,) each, with intervals and a two-sided p that is dual to ``low`` and ``high``."""

    value: np.ndarray
    low: np.ndarray
    high: np.ndarray
    p: np.ndarray
    stimulus_low: np.ndarray
    stimulus_high: np.ndarray


@dataclass(frozen=True)
class JointInference:
    """Several contrasts of each target against all of them 0: (T,) each.

    ``size`` is their length, ``low`` and ``high`` hold it wherever the ellipsoid of F holds the contrasts (by the
    triangle inequality, so they cover at least as often), ``null`` is what chance alone would make of it.
    """

    size: np.ndarray
    low: np.ndarray
    high: np.ndarray
    p: np.ndarray
    null: np.ndarray


IMAGED = COMPONENTS[IMAGE_PART]
"""What a contrast is the sum of unless it is asked for otherwise: what the pictures lean."""


def contrast_inference(
    view: CellView, weights: np.ndarray, *, confidence: float, modalities: Collection[str] = IMAGED
) -> Inference:
    """One contrast of every target, ``weights`` (G,) over the groups.

    NaN where a sum has no term (no image, no word) and, of interval and p,
    where a prompt or a target has a single image, or no image enters at all (TT).
    """
    moments, (attributes, stimuli) = view.moments(modalities), _parts(view, weights, modalities)
    if not moments.imaged:
        value, n = moments.means @ weights, np.ones(len(moments.texts))
        no_image = not {"ii", "itp"} & set(modalities)
        return _inference(value, [(n * np.nan, n) if no_image else attributes], [attributes, *stimuli], confidence)
    return _of_tests(_tests_over_images(view, weights, modalities), stimuli, confidence)


def filled_inferences(
    view: CellView, weights: np.ndarray, missing: Sequence[int], *, confidence: float
) -> dict[str, list[Inference]]:
    """Infer one contrast with the images filled in that are not there, or counted as often as they were drawn.

    By what is filled in: :mod:`clinometer.metrics.bounds`; nothing where a group has no images to tell what one might
    score. ``missing`` : images of each target.
    """
    tests, (_, stimuli) = _tests_over_images(view, weights, IMAGED), _parts(view, weights, IMAGED)
    fillings: dict[str, list[Inference]] = {}
    if not isinstance(tests, BoundedMeans):
        return fillings
    if any(missing):
        fillings[MISSING] = [_of_tests(tests.filled(missing, side), stimuli, confidence) for side in (0, 1)]
    if any(map(view.layout.repeated, range(len(tests.samples)))):
        shift = np.array([view.layout.drawn_shift(t, x) for t, x in enumerate(tests.samples)])
        fillings[REPEATS] = [_of_tests(tests.moved(shift), stimuli, confidence)]
    return fillings


def _tests_over_images(view: CellView, weights: np.ndarray, modalities: Collection[str]) -> MeanTests | BoundedMeans:
    """Test a contrast between what the groups' own images score, where they tell."""
    moments, (attributes, _) = view.moments(modalities), _parts(view, weights, modalities)
    places = [place for place, name in enumerate(("ii", "ita")) if name in modalities]
    poles = np.array([np.nan])
    if view.poles is not None:
        poles = view.poles[np.flatnonzero(weights)][:, places].sum(axis=1) @ weights
    if not np.isfinite(poles).all():  # of differences, or where a group has no images to tell
        return image_tests(view, weights, modalities)
    samples = [x @ weights for x in moments.images]
    return bounded_means(samples, (poles.min(), poles.max()), moments.texts @ weights, *attributes)


def image_tests(
    view: CellView,
    weights: np.ndarray,
    modalities: Collection[str] = IMAGED,
    *,
    moderated: bool = True,
) -> MeanTests:
    """Test a contrast whose images have no bound; options as of :func:`clinometer.stats.moderation.mean_tests`."""
    moments, (attributes, _) = view.moments(modalities), _parts(view, weights, modalities)
    samples = [x @ weights for x in moments.images]
    texts = moments.texts @ weights
    return mean_tests(samples, texts, *attributes, moderated=moderated)


def _parts(view: CellView, weights: np.ndarray, modalities: Collection[str]) -> tuple[Part, list[Part]]:
    """Variance from the attribute images, and what varies over stimuli: the words, and the encoders."""
    moments, squares = view.moments(modalities), np.square(weights)
    n = np.ones(len(moments.texts))
    attributes = moments.attributes @ squares, n * moments.freedom_attributes
    words = moments.words @ squares, n * moments.freedom_words
    return attributes, [words, *_between_encoders(view, weights, modalities)]


def _of_tests(tests: MeanTests | BoundedMeans, stimuli: Sequence[Part], confidence: float) -> Inference:
    """Tests over images, and with what else varies over stimuli, whose interval is nowhere shorter."""
    wider = tests
    for variance, freedom in stimuli:
        wider = wider.with_other(variance, freedom)
    inner, outer = tests.interval(confidence), wider.interval(confidence)
    return Inference(
        tests.value, inner.low, inner.high, tests.p_value,
        np.minimum(inner.low, outer.low), np.maximum(inner.high, outer.high),
    )  # fmt: skip


def mean_inference(
    scores: Sequence[np.ndarray], confidence: float, *, lost: int = 0, more: Part | None = None
) -> Inference:
    """The mean of every target's scores, one an image, with moderated variance; no stimulus interval.

    ``lost`` are the degrees of freedom that the scores themselves have cost, beyond their mean's; ``more`` is variance
    from elsewhere.
    """
    value = np.array([x.mean() if len(x) else np.nan for x in scores])
    unknown = np.full(len(value), np.nan)
    return _inference(value, [own_variance(scores, lost), *([more] if more else [])], [(unknown, unknown)], confidence)


def joint_contrast_inference(view: CellView, basis: np.ndarray, *, confidence: float) -> JointInference:
    """All contrasts of ``basis`` (k × G, orthonormal rows) against 0, for every target: :func:`joint_inference`."""
    moments = view.moments(IMAGED)
    attributes = np.einsum("kg,tg,lg->tkl", basis, moments.attributes, basis)
    scores = [x @ basis.T for x in moments.images]
    return joint_inference(scores, moments.means @ basis.T, attributes, moments.freedom_attributes, confidence)


def joint_inference(
    scores: Sequence[np.ndarray],
    values: np.ndarray,
    more: np.ndarray,
    freedom_more: float,
    confidence: float,
    *,
    lost: int = 0,
) -> JointInference:
    """Hotelling's test that k numbers of a target are all 0, its covariance moderated over the targets.

    ::

        V  = S̃ / n + A        T² = θᵀ V⁻¹ θ        F = T² (ν − k + 1) / (ν k)  ~  F(k, ν − k + 1)

    ``S̃`` of the target's scores (Tai and Speed 2006), ``A`` (T × k × k) of what else varies, with ``freedom_more``
    degrees of freedom; ν is that of a sum of two covariances (Krishnamoorthy and Yu 2004), which for k = 1 is Welch and
    Satterthwaite's: F is then t².

    Parameters
    ----------
    scores : per target (n_t × k), one row an image; ``values`` (T × k) are θ.
    """
    rank = values.shape[1]
    own, freedom = _own_covariance(scores, lost)
    statistic, nu, largest, null = np.full((4, len(values)), np.nan)
    for t, theta in enumerate(values):
        total = own[t] + more[t]
        if np.isfinite(total).all() and np.isfinite(theta).all() and np.linalg.matrix_rank(total) == rank:
            inverse = np.linalg.inv(total)
            statistic[t] = theta @ inverse @ theta
            nu[t] = _freedom_of_sum([(own[t] @ inverse, freedom[t]), (more[t] @ inverse, freedom_more)], rank)
            largest[t], null[t] = np.linalg.eigvalsh(total)[-1], np.sqrt(np.trace(total))
    denominator_freedom = np.where(np.isinf(nu), 1e9, nu) - rank + 1
    denominator_freedom = np.where(denominator_freedom > 0, denominator_freedom, np.nan)
    per_f = (denominator_freedom + rank - 1) * rank / denominator_freedom
    size = np.linalg.norm(values, axis=1)
    reach = np.sqrt(scipy.stats.f.ppf(confidence, rank, denominator_freedom) * per_f * largest)
    return JointInference(
        size,
        np.maximum(size - reach, 0.0) + 0 * reach,
        size + reach,
        scipy.stats.f.sf(statistic / per_f, rank, denominator_freedom),
        null,
    )


def _inference(value: np.ndarray, images: Sequence[Part], stimuli: Sequence[Part], confidence: float) -> Inference:
    """Student's t, of the variance over images, and of that over stimuli too."""
    ends = []
    for parts in (images, stimuli):
        error, nu = np.sqrt(np.sum([v for v, _ in parts], axis=0)), welch_satterthwaite(parts)
        reach = scipy.stats.t.ppf((1 + confidence) / 2, nu) * error
        ends += [value - reach, value + reach]
        if parts is images:
            p = _p_value(value, error, nu)
    return Inference(value, ends[0], ends[1], p, ends[2], ends[3])


def own_variance(scores: Sequence[np.ndarray], lost: int = 0) -> Part:
    """Variance of the mean of each target's scores, moderated over the targets, and its degrees of freedom."""
    sizes, ddof = np.array([len(y) for y in scores], np.float64), 1 + lost
    raw = np.array([y.var(ddof=ddof) if len(y) > ddof else np.nan for y in scores])
    variance, freedom = moderated(raw, sizes - ddof, prior_of(raw, sizes - ddof))
    return variance / np.maximum(sizes, 1), np.nan_to_num(freedom, nan=0.0)


def _own_covariance(scores: Sequence[np.ndarray], lost: int) -> Part:
    """Covariance of the means of each target's scores (T × k × k), moderated, and its degrees of freedom."""
    sizes = np.array([len(y) for y in scores], np.float64)
    rank, ddof = scores[0].shape[1], 1 + lost
    nothing = np.full((rank, rank), np.nan)
    raw = np.stack([np.atleast_2d(np.cov(y, rowvar=False, ddof=ddof)) if len(y) > ddof else nothing for y in scores])
    is_finite, freedom = np.isfinite(raw).all(axis=(1, 2)), sizes - ddof
    if not is_finite.any():
        return raw, np.zeros(len(sizes))
    priors = [prior_of(raw[:, k, k], freedom) for k in range(rank)]
    prior, total = float(np.median([column_prior.freedom for column_prior in priors])), freedom[is_finite].sum()
    pooled = np.average(raw[is_finite], axis=0, weights=freedom[is_finite])
    scale = np.sqrt(
        np.divide(
            [column_prior.variance for column_prior in priors],
            np.diag(pooled),
            out=np.ones(rank),
            where=np.diag(pooled) > 0,
        )
    )
    common = pooled * np.outer(scale, scale)
    share = np.ones(len(sizes)) if np.isinf(prior) else prior / (prior + np.maximum(freedom, 1))
    both = share[:, None, None] * common + (1 - share[:, None, None]) * raw
    return both / np.maximum(sizes, 1)[:, None, None], np.where(is_finite, np.minimum(prior + freedom, total), 0.0)


def _freedom_of_sum(shares: Sequence[tuple[np.ndarray, float]], rank: int) -> float:
    parts = [(np.trace(share @ share) + np.trace(share) ** 2) / degrees for share, degrees in shares if degrees > 0]
    return (rank + rank**2) / sum(parts) if sum(parts) > 0 else np.inf


def _between_encoders(view: CellView, weights: np.ndarray, modalities: Collection[str]) -> list[Part]:
    """Variance of an average over encoders, were others of their kind asked; nothing of a single one."""
    n = len(view.members)
    if n < 2:
        return []
    values = np.stack([member.moments(modalities).means @ weights for member in view.members])
    return [(values.var(axis=0, ddof=1) / n, np.full(values.shape[1], n - 1.0))]


def _p_value(value: np.ndarray, error: np.ndarray, freedom: np.ndarray) -> np.ndarray:
    with np.errstate(divide="ignore", invalid="ignore"):
        size = np.where((value == 0) & (error == 0), 0.0, np.abs(value) / error)
    return np.where(np.isfinite(value) & np.isfinite(error), 2 * scipy.stats.t.sf(size, freedom), np.nan)
