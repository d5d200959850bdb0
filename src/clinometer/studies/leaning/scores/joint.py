"""Several numbers of each target tested together, and means of scores, with moderated covariances."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy

from clinometer.stats.bootstrap import student_p, welch_satterthwaite
from clinometer.stats.moderation import moderate, prior_of
from clinometer.studies.leaning.scores.contrasts import Tested, group_variances, item_values
from clinometer.studies.leaning.scores.cosines import Estimate
from clinometer.studies.leaning.scores.design import StudySetup
from clinometer.studies.leaning.scores.views import EncoderView

MODERATED_T = "Student's t over images, moderated over the targets, two-sided"


@dataclass(frozen=True)
class JointInference:
    """Several contrasts of each target, tested against all of them being 0: (T,) each.

    ``size`` is their length. ``low`` and ``high`` contain it wherever the ellipsoid of F contains the contrasts (by the
    triangle inequality, so they cover at least as often). ``null`` is the length that chance alone would give.
    """

    size: np.ndarray
    low: np.ndarray
    high: np.ndarray
    p: np.ndarray
    null: np.ndarray


def joint_tests(setup: StudySetup, view: EncoderView, basis: np.ndarray) -> JointInference:
    """Test all contrasts of the image part, ``basis`` (k × G, orthonormal rows), against 0: :func:`joint_inference`."""
    values = item_values(view.items.images[:1], np.ones((1, len(setup.design.groups))))
    variances, freedom = group_variances(setup.layout, values, len(view.image_cosines), images=True)
    scores = [cosines.sum(axis=1) @ basis.T for cosines in view.image_cosines]
    means = np.stack([x.mean(axis=0) if len(x) else np.full(len(basis), np.nan) for x in scores])
    attributes = np.einsum("kg,tg,lg->tkl", basis, variances, basis)
    return joint_inference(scores, means, attributes, freedom, setup.settings.confidence)


def mean_inference(
    scores: Sequence[np.ndarray], confidence: float, *, lost: int = 0, more: tuple[np.ndarray, np.ndarray]
) -> Tested:
    """Test the mean of every target's scores, one an image, with moderated variance; no stimulus interval.

    ``lost`` : degrees of freedom that computing the scores has cost, beyond that of their mean. ``more`` : variance
    from other sources, and its degrees of freedom.
    """
    value = np.array([x.mean() if len(x) else np.nan for x in scores])
    sizes, ddof = np.array([len(y) for y in scores], np.float64), 1 + lost
    raw = np.array([y.var(ddof=ddof) if len(y) > ddof else np.nan for y in scores])
    variance, own_freedom = moderate(raw, sizes - ddof, prior_of(raw, sizes - ddof))
    parts = [(variance / np.maximum(sizes, 1), np.nan_to_num(own_freedom, nan=0.0)), more]
    unknown = np.full(len(value), np.nan)
    error, freedom = np.sqrt(np.sum([v for v, _ in parts], axis=0)), welch_satterthwaite(parts)
    reach = scipy.stats.t.ppf((1 + confidence) / 2, freedom) * error
    p = student_p(value, error, freedom)
    return Tested(Estimate(value, value - reach, value + reach, unknown, unknown, unknown), p, MODERATED_T)


def joint_inference(
    scores: Sequence[np.ndarray],
    values: np.ndarray,
    more: np.ndarray,
    freedom_more: float,
    confidence: float,
    *,
    lost: int = 0,
) -> JointInference:
    """Test that k numbers of a target are all 0 (Hotelling), with a covariance moderated over the targets.

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
    covariance, freedom = _own_covariance(scores, lost)
    statistic, nu, largest, null = np.full((4, len(values)), np.nan)
    for t, theta in enumerate(values):
        total = covariance[t] + more[t]
        if np.isfinite(total).all() and np.isfinite(theta).all() and np.linalg.matrix_rank(total) == rank:
            inverse = np.linalg.inv(total)
            statistic[t] = theta @ inverse @ theta
            shares = [(covariance[t] @ inverse, freedom[t]), (more[t] @ inverse, freedom_more)]
            parts = sum((np.trace(x @ x) + np.trace(x) ** 2) / degrees for x, degrees in shares if degrees > 0)
            nu[t] = (rank + rank**2) / parts if parts > 0 else np.inf
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


def _own_covariance(scores: Sequence[np.ndarray], lost: int) -> tuple[np.ndarray, np.ndarray]:
    """Estimate the covariance of the means of each target's scores (T × k × k), moderated, and its freedom."""
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
