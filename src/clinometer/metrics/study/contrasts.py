"""Contrasts of mean cosines: value, interval and p from one variance, images of targets and of attributes alike.

A contrast of groups is linear in the mean cosines, and these are means over images, so it is a mean over target images
of one score an image, ``y_i``, and the same number is a weighted sum of means over attribute images::

    θ_t = Σ_m Σ_g w_g C[t, m, g] = mean_i y_i + text_t            Σ_g w_g = 0

    y_i    = Σ_g w_g (mean_j cos(x_i, a_gj) + mean_k cos(x_i, v_gk))       a: images of group g, v: its words
    var(θ) = s̃²_y / n  +  Σ_g w_g² v_g                                    v_g = Σ_p (n_p / n_g)² s²_p / n_p over prompts

``s̃²`` is moderated over the targets (:mod:`clinometer.stats.moderation`): eight images that happen to be alike do not
know their own variance. Degrees of freedom are Welch and Satterthwaite's of the two parts. Interval and p are of one
Student's t, so p < 1 − confidence exactly where the interval leaves out 0. Words are fixed; ``stimulus_low`` and
``stimulus_high`` let them, and the encoders, vary as well.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
from scipy.stats import f as fisher
from scipy.stats import t as student

from clinometer.metrics.mcas import MODALITIES
from clinometer.metrics.study.cosines import Cosines
from clinometer.metrics.study.design import Layout
from clinometer.stats.bootstrap import welch_satterthwaite
from clinometer.stats.moderation import Prior, moderated, prior_of


@dataclass(frozen=True)
class Moments:
    """What all contrasts of a view are made of, summed over some modalities.

    Attributes
    ----------
    images : per target (n_t × G), the mean cosines of each of its images to each group; no columns' sum is taken.
    texts : (T × G), of the target's text; 0 where no modality has it.
    attributes, words : (T × G), variances of the means over each group's images and words.
    freedom_attributes, freedom_words : degrees of freedom of those, over all groups.
    imaged : whether a modality holds target images.
    """

    images: tuple[np.ndarray, ...]
    texts: np.ndarray
    attributes: np.ndarray
    words: np.ndarray
    freedom_attributes: float
    freedom_words: float
    imaged: bool

    @property
    def means(self) -> np.ndarray:
        """Mean cosines to the groups, summed over the modalities: (T × G)."""
        if not self.imaged:
            return self.texts
        own = [x.mean(axis=0) if len(x) else np.full(x.shape[1], np.nan) for x in self.images]
        return np.asarray(np.stack(own) + self.texts)


@dataclass(frozen=True)
class CellView:
    """One encoder's cosines, or their average (``"mean"``); ``members`` are then the views that were averaged."""

    encoder: str
    reads_text: bool
    cosines: Cosines
    layout: Layout
    members: tuple[CellView, ...] = ()
    _held: dict[tuple[str, ...], Moments] = field(default_factory=dict, compare=False, repr=False)

    def moments(self, modalities: Collection[str] = MODALITIES) -> Moments:
        """The moments of these modalities, computed once."""
        key = tuple(name for name in MODALITIES if name in modalities)
        if key not in self._held:
            self._held[key] = _moments(self.cosines, self.layout, key)
        return self._held[key]


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
    """Several contrasts of each target against all of them 0: (T,) each."""

    statistic: np.ndarray
    freedom: np.ndarray
    p: np.ndarray


def contrast_inference(
    view: CellView, weights: np.ndarray, *, confidence: float, modalities: Collection[str] = MODALITIES
) -> Inference:
    """One contrast of every target, ``weights`` (G,) over the groups, with moderated variance.

    The targets are the family that moderates. NaN where a sum has no term (no image, no word) and, of interval and p,
    where a prompt or a target has a single image.
    """
    moments = view.moments(modalities)
    value = moments.means @ weights
    own, freedom = _own_variance(moments, weights)
    attributes = moments.attributes @ np.square(weights)
    parts = [(own, freedom), (attributes, np.full(len(value), moments.freedom_attributes))]
    error, nu = np.sqrt(own + attributes), welch_satterthwaite(parts)
    words = [(moments.words @ np.square(weights), np.full(len(value), moments.freedom_words))]
    words += _between_encoders(view, weights, modalities)
    wide = np.sqrt(np.sum([v for v, _ in (*parts, *words)], axis=0))
    reach, reach_wide = (
        student.ppf((1 + confidence) / 2, degrees) * each
        for degrees, each in ((nu, error), (welch_satterthwaite([*parts, *words]), wide))
    )
    if not moments.imaged and not np.any(np.nan_to_num(attributes)):
        reach = np.full_like(value, np.nan)  # TT: no image in it
    return Inference(
        value, value - reach, value + reach, _p_value(value, np.where(np.isnan(reach), np.nan, error), nu),
        value - reach_wide, value + reach_wide,
    )  # fmt: skip


def joint_inference(view: CellView, basis: np.ndarray) -> JointInference:
    """All contrasts of ``basis`` (k × G, orthonormal rows) against 0, for every target.

    ::

        V  = S̃_y / n + B diag(v) Bᵀ        T² = θᵀ V⁻¹ θ        F = T² (ν − k + 1) / (ν k)  ~  F(k, ν − k + 1)

    Hotelling's T² with the covariance moderated over the targets (Tai and Speed 2006), and the degrees of freedom of a
    sum of two covariances (Krishnamoorthy and Yu 2004), which for k = 1 are Welch and Satterthwaite's: F is then t².
    """
    moments, rank = view.moments(), len(basis)
    values = moments.means @ basis.T
    own, freedom = _own_covariance(moments, basis)
    attributes = np.einsum("kg,tg,lg->tkl", basis, moments.attributes, basis)
    statistic, nu = np.full((2, len(values)), np.nan)
    for t, theta in enumerate(values):
        total = own[t] + attributes[t]
        if np.isfinite(total).all() and np.isfinite(theta).all() and np.linalg.matrix_rank(total) == rank:
            statistic[t] = theta @ np.linalg.solve(total, theta)
            shares = [(own[t] @ np.linalg.inv(total), freedom[t])]
            shares.append((attributes[t] @ np.linalg.inv(total), moments.freedom_attributes))
            nu[t] = _freedom_of_sum(shares, rank)
    scaled = statistic * (nu - rank + 1) / (nu * rank)
    return JointInference(scaled, nu, np.where(nu - rank + 1 > 0, fisher.sf(scaled, rank, nu - rank + 1), np.nan))


def _freedom_of_sum(shares: Sequence[tuple[np.ndarray, float]], rank: int) -> float:
    below = sum(
        (np.trace(share @ share) + np.trace(share) ** 2) / degrees for share, degrees in shares if degrees > 0
    )  # fmt: skip
    return (rank + rank**2) / below if below > 0 else np.inf


def _own_variance(moments: Moments, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Variance of the mean over a target's images, moderated, and its degrees of freedom: (T,) each."""
    n = len(moments.texts)
    if not moments.imaged:
        return np.zeros(n), np.ones(n)
    scores = [x @ weights for x in moments.images]
    sizes = np.array([len(y) for y in scores], np.float64)
    raw = np.array([y.var(ddof=1) if len(y) > 1 else np.nan for y in scores])
    variance, freedom = moderated(raw, sizes - 1, prior_of(raw, sizes - 1))
    return variance / np.maximum(sizes, 1), np.nan_to_num(freedom, nan=0.0)


def _own_covariance(moments: Moments, basis: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Covariance of the means over a target's images, moderated, and its degrees of freedom: (T × k × k), (T,)."""
    rank, scores = len(basis), [x @ basis.T for x in moments.images]
    sizes = np.array([len(y) for y in scores], np.float64)
    nothing = np.full((rank, rank), np.nan)
    raw = np.stack([np.atleast_2d(np.cov(y, rowvar=False)) if len(y) > 1 else nothing for y in scores])
    known = np.isfinite(raw).all(axis=(1, 2)) & (sizes > 1)
    if not known.any():
        return raw, np.zeros(len(sizes))
    freedom = sizes - 1
    d0 = _common_freedom(raw, freedom, rank)
    total = freedom[known].sum()
    common = np.average(raw[known], axis=0, weights=freedom[known])
    share = np.where(np.isinf(d0), 1.0, d0 / (d0 + freedom) if np.isfinite(d0) else 1.0)[:, None, None]
    both = share * common + (1 - share) * raw
    return both / np.maximum(sizes, 1)[:, None, None], np.where(known, np.minimum(d0 + freedom, total), 0.0)


def _common_freedom(covariances: np.ndarray, freedom: np.ndarray, rank: int) -> float:
    """d0 of the variances along each contrast: their median, for one family has one."""
    return float(np.median([prior_of(covariances[:, k, k], freedom).freedom for k in range(rank)]))


def _between_encoders(
    view: CellView, weights: np.ndarray, modalities: Collection[str]
) -> list[tuple[np.ndarray, np.ndarray]]:
    """Variance of an average over encoders, were others of their kind asked; nothing of a single one."""
    n = len(view.members)
    if n < 2:
        return []
    values = np.stack([member.moments(modalities).means @ weights for member in view.members])
    return [(values.var(axis=0, ddof=1) / n, np.full(values.shape[1], n - 1.0))]


def _p_value(value: np.ndarray, error: np.ndarray, freedom: np.ndarray) -> np.ndarray:
    with np.errstate(divide="ignore", invalid="ignore"):
        size = np.where((value == 0) & (error == 0), 0.0, np.abs(value) / error)
    return np.where(np.isfinite(value) & np.isfinite(error), 2 * student.sf(size, freedom), np.nan)


def _moments(cosines: Cosines, layout: Layout, modalities: Sequence[str]) -> Moments:
    n, groups = len(cosines.text_image), len(layout.groups)
    images = [np.zeros((len(x), groups)) for x in cosines.image_image]
    texts, attributes, words = np.zeros((n, groups)), np.zeros((n, groups)), np.zeros((n, groups))
    to_images, to_words = np.zeros_like(cosines.text_image), np.zeros_like(cosines.text_word)
    for t, (gram, by_word) in enumerate(zip(cosines.image_image, cosines.image_word, strict=True)):
        if "ii" in modalities:
            images[t] += _group_means(gram, layout.image_slices)
            to_images[t] += _mean(gram)
        if "ita" in modalities:
            images[t] += _group_means(by_word, layout.word_slices)
            to_words[t] += _mean(by_word)
    if "itp" in modalities:
        texts += _group_means(cosines.text_image, layout.image_slices)
        to_images += cosines.text_image
    if "tt" in modalities:
        texts += _group_means(cosines.text_word, layout.word_slices)
        to_words += cosines.text_word
    if {"ii", "itp"} & set(modalities):
        attributes = _variances(to_images, layout.prompt_sizes)
    if {"ita", "tt"} & set(modalities):
        words = _variances(to_words, tuple((count,) for count in layout.word_counts))
    return Moments(
        tuple(images), texts, attributes, words,
        freedom_attributes=float(sum(max(size - 1, 0) for sizes in layout.prompt_sizes for size in sizes)),
        freedom_words=float(sum(max(count - 1, 0) for count in layout.word_counts)),
        imaged=bool({"ii", "ita"} & set(modalities)),
    )  # fmt: skip


def _mean(rows: np.ndarray) -> np.ndarray:
    return np.asarray(rows.mean(axis=0)) if len(rows) else np.full(rows.shape[1], np.nan)


def _group_means(rows: np.ndarray, slices: Sequence[slice]) -> np.ndarray:
    """Mean over each group's columns: (rows × groups), NaN where a group has none."""
    nothing = np.full(len(rows), np.nan)
    means = [rows[:, own].mean(axis=1) if own.stop > own.start else nothing for own in slices]
    return np.stack(means, axis=1)


def _variances(items: np.ndarray, strata: Sequence[Sequence[int]]) -> np.ndarray:
    """Variance of each group's mean, its items drawn within strata: (T × items) to (T × groups).

    NaN where a stratum has one item; strata without items are none.
    """
    found = np.zeros((len(items), len(strata)))
    bounds = np.cumsum([0, *(size for sizes in strata for size in sizes)])
    blocks = iter(pairwise(bounds.tolist()))
    for g, sizes in enumerate(strata):
        for size, (start, stop) in zip(sizes, blocks, strict=False):
            if size:
                own = items[:, start:stop]
                spread = own.var(axis=1, ddof=1) if size > 1 else np.full(len(items), np.nan)
                found[:, g] += (size / sum(sizes)) ** 2 * spread / size
    return found
