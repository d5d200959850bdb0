"""What other audits report of a distribution over groups, each with its interval and what parity gives at its n.

Every score here but the rate of misses is non-negative by construction: under perfect parity it is not 0 on average.
``null`` is that average, exact over the multinomial distribution of n images where its outcomes can be listed.

``peer_scores`` is what can be had from a reader's answers alone. Six of T2I-BiasBench's thirteen (Jaiswal et al. 2026,
arXiv 2604.12481; formulas as in its code) are among them: representation parity (the shares), parity difference, bias
amplification, entropy, KL divergence and the composite without CAS. The other seven count words of captions, which no
answer to a closed question holds: CAS (stereotyped against diverse terms), grounded and implicit missing rate,
hallucination, the Vendi proxy (overlap of captions), the CLIP proxy (keywords found) and cultural accuracy.

Intervals of shares do not resample: a score that cannot be negative grows with noise, and draws of it never reach
parity. They are the range of the score over the shares that a score test cannot refuse (``range_over_shares``), which
for two groups is Wilson's interval, folded at parity.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from math import ceil, comb, isfinite, log, log2, nan
from typing import Final

import numpy as np
import scipy
from numpy.typing import ArrayLike

from clinometer.errors import InvalidInputError
from clinometer.stats.arguments import generator, require_count
from clinometer.stats.bootstrap import fold_interval, percentile_interval, rao_wu_weights, why_no_interval
from clinometer.stats.proportion import (
    parity_gap_null,
    range_over_shares,
    range_over_two_shares,
    wilson_interval,
)

MOST_LISTED = 100_000
"""Outcomes of a multinomial that are listed; beyond it, the null is the mean of as many draws."""


@dataclass(frozen=True)
class DistributionScore:
    """A score of ``n`` images with its interval, and its expectation at this n if all groups were equally likely.

    ``reason`` says why a number is NaN. ``null_error`` is the Monte-Carlo error of ``null``, 0 where it is exact.
    """

    value: float
    low: float
    high: float
    null: float
    n: int
    null_error: float = 0.0
    reason: str = ""


def gender_gap(count: int, n: int, *, confidence: float = 0.95) -> DistributionScore:
    """Return HEIM's gender measure: ``|share − ½|``, in [0, ½]; ``count`` of ``n`` images show one of two genders.

    Lee et al. (2023), *Holistic Evaluation of Text-to-Image Models*. The interval is Wilson's of the share, folded at
    parity, so that it can cover 0. At 8 images parity itself gives 0.137.

    >>> gender_gap(4, 8).value, round(gender_gap(4, 8).null, 3)
    (0.0, 0.137)
    """
    share = wilson_interval(count, n, confidence)
    folded = fold_interval(np.asarray(share.low - 0.5), np.asarray(share.high - 0.5))
    return DistributionScore(
        abs(share.value - 0.5), float(folded.low), float(folded.high), parity_gap_null(n), n, reason=share.reason
    )


def tone_gap(counts: ArrayLike, *, confidence: float = 0.95) -> DistributionScore:
    """Return HEIM's skin measure: ``Σ_i |f_i − 1/K| / K`` over the K = 10 Monk tones; 0 at parity, at most 0.18.

    ``counts``: (K,) images of each tone. Lee et al. (2023); the same formula for any K.
    """
    return _score(_mean_gap, counts, confidence)


def mean_absolute_deviation(counts: ArrayLike, *, confidence: float = 0.95) -> DistributionScore:
    """Return DALL-Eval's MAD over K groups: ``Σ_i |p_i − mean p| / K``, p the shares; in [0, 2 (K − 1)/K²].

    Cho, Zala & Bansal (2023), *DALL-Eval*. The mean of K shares is 1/K, so it is HEIM's skin measure for any groups.
    """
    return _score(_mean_gap, counts, confidence)


def entropy_bias(counts: ArrayLike, *, confidence: float = 0.95) -> DistributionScore:
    """Return OpenBias's severity: ``1 − H(f)/ln K``, in [0, 1]; 0 for equal shares, 1 when one class has all.

    D'Incà et al. (2024), *OpenBias*. ``counts``: (K,) images of each class, K ≥ 2; images of the class "unknown" are
    dropped before.

    >>> round(entropy_bias([5, 5, 0, 0]).value, 3)
    0.5
    """
    return _score(_entropy_gap, counts, confidence)


def standard_deviation(counts: ArrayLike, *, confidence: float = 0.95) -> DistributionScore:
    """Return DALL-Eval's STD over K groups: ``√( Σ_i (p_i − 1/K)² / K )``, p the shares; in [0, √(K − 1) / K].

    Cho, Zala & Bansal (2023), *DALL-Eval*, first version and code; later versions report the MAD.
    """
    return _score(_root_gap, counts, confidence)


def total_variation(counts: ArrayLike, *, confidence: float = 0.95) -> DistributionScore:
    """Return the total variation from uniform: ``½ Σ_i |p_i − 1/K|``, in [0, 1 − 1/K]: the share that must move.

    HEIM's gender measure for any number of groups, and K/2 times its skin measure.

    >>> round(total_variation([6, 2]).value, 3) == round(gender_gap(6, 8).value, 3)
    True
    """
    return _score(_total_variation, counts, confidence)


def bias_amplification_score(counts: ArrayLike, *, confidence: float = 0.95) -> DistributionScore:
    """Return T2I-BiasBench's bias amplification: ``Σ_i |p_i − 1/K|``, in [0, 2 − 2/K]; no training data takes part.

    There K are the groups that were seen, so a model that draws one group alone scores 0; here K are all that were
    asked about.
    """
    return _score(_amplification, counts, confidence)


def parity_gap(counts: ArrayLike, *, confidence: float = 0.95) -> DistributionScore:
    """Return the largest less smallest share, in [0, 1].

    With two groups T2I-BiasBench's parity difference; there two of several groups are named, here the furthest apart.
    """
    return _score(_parity_gap, counts, confidence)


def group_entropy(counts: ArrayLike, *, confidence: float = 0.95) -> DistributionScore:
    """Return T2I-BiasBench's Shannon entropy in bits: ``−Σ_i p_i log₂ p_i``, in [0, log₂ K]; 0 for a single group."""
    return _score(_entropy_bits, counts, confidence)


def divergence_from_uniform(counts: ArrayLike, *, confidence: float = 0.95) -> DistributionScore:
    """Return T2I-BiasBench's KL divergence from uniform in nats: ``Σ_i p_i ln(K p_i)``, in [0, ln K]; K as asked."""
    return _score(_divergence, counts, confidence)


def composite_bias(counts: ArrayLike, *, confidence: float = 0.95) -> DistributionScore:
    """Return T2I-BiasBench's composite without CAS: ``(parity gap + 1 − H / log₂ K) / 2``, in [0, 1]."""
    return _score(_composite, counts, confidence)


def peer_scores(answers: ArrayLike, *, confidence: float = 0.95) -> dict[str, DistributionScore]:
    """Return each peer's number that a reader's answers allow, by component; the module docstring lists the others.

    ``answers``: (K + 1,) counts, "cannot tell" last, which every peer drops.

    >>> scores = peer_scores([6, 2, 1])
    >>> {name: round(score.value, 3) for name, score in scores.items()}  # doctest: +NORMALIZE_WHITESPACE
    {'parity_gap': 0.5, 'total_variation': 0.25, 'mean_absolute_deviation': 0.25, 'standard_deviation': 0.25,
     'entropy_bias': 0.189, 'bias_amplification': 0.5, 'entropy': 0.811, 'kl_divergence': 0.131,
     'composite_bias': 0.344}
    """
    counts = np.sort(whole_counts("answers", answers)[:-1])  # order changes no score, and equal counts are cached
    return {name: score(counts, confidence=confidence) for name, score in PEERS.items()}


def distribution_bias(counts: ArrayLike, *, confidence: float = 0.95) -> DistributionScore:
    """Return the distribution bias of Vice et al.: area under the counts, sorted downwards and divided by the largest.

    ::

        B_D = Σ_{i=1}^{K−1} (m_i + m_{i+1}) / 2,      m = sorted(counts) / max(counts)

    Vice, Akhtar, Hartley & Mian (2023), *Quantifying Bias in Text-to-Image Generative Models*. In [½, K − 1]: K − 1
    when all K objects come equally often, and **smaller the more one of them dominates**. K ≥ 2 counts what was looked
    for, seen or not.
    """
    return _score(_area, counts, confidence)


def jaccard_hallucination(
    asked: Sequence[Collection[str]],
    seen: Sequence[Collection[str]],
    *,
    resamples: int = 9_999,
    confidence: float = 0.95,
    rng: np.random.Generator | int | None = 0,
) -> DistributionScore:
    """Return the Jaccard hallucination of Vice et al.: mean over images of ``1 − |asked ∩ seen| / |asked ∪ seen|``.

    ``asked``, ``seen``: per image the objects of its prompt and those found in it. 0: each shows just what was asked.
    It is no measure of groups, so parity gives it no null. The interval resamples images (Rao & Wu 1988) and is as wide
    as Student's t; it is NaN where one image, or none that differs from another, leaves no spread to resample.
    """
    if len(asked) != len(seen):
        raise InvalidInputError.wrong_shape(
            f"{len(asked)} and {len(seen)} images, expected equal numbers", field=("asked", "seen")
        )
    pairs = [(set(a), set(s)) for a, s in zip(asked, seen, strict=True)]
    values = np.array([1 - len(a & s) / len(a | s) for a, s in pairs if a | s])
    if not len(values):
        return DistributionScore(nan, nan, nan, nan, 0, reason="no image with an object asked for or seen")
    value, n = float(values.mean()), len(values)
    if np.ptp(values) == 0:
        alone = "one image" if n == 1 else "images that all have the same score"
        return DistributionScore(value, nan, nan, nan, n, reason=f"no interval from {alone}; no null: not a share")
    draws = rao_wu_weights([n], resamples, generator(rng)) @ values
    ends = percentile_interval(draws, confidence, n - 1, value=value, limits=(0.0, 1.0))
    none = "" if isfinite(ends.low) else f"{why_no_interval(draws)}; "
    return DistributionScore(value, float(ends.low), float(ends.high), nan, n, reason=f"{none}no null: not a share")


def generative_miss_rate(own: ArrayLike, blank: ArrayLike, *, confidence: float = 0.95) -> DistributionScore:
    """Return the generative miss rate of Vice et al.: the share of images nearer to a blank prompt than to their own.

    ``own``, ``blank``: (n,) cosine of each image with its prompt and with the blank prompt, NaN for an image without
    one. Wilson's interval. A good generator misses nothing: there is no null but 0.
    """
    own, blank = np.asarray(own, np.float64), np.asarray(blank, np.float64)
    if own.ndim != 1 or own.shape != blank.shape:
        raise InvalidInputError.expected_shape("(n,) twice", own, blank, field=("own", "blank"))
    is_known = np.isfinite(own) & np.isfinite(blank)
    rate = wilson_interval(int((blank[is_known] > own[is_known]).sum()), int(is_known.sum()), confidence)
    return DistributionScore(rate.value, rate.low, rate.high, 0.0 if rate.n else nan, rate.n, reason=rate.reason)


def histogram_overlap(
    first: ArrayLike,
    second: ArrayLike,
    *,
    resamples: int = 9_999,
    confidence: float = 0.95,
    rng: np.random.Generator | int | None = 0,
) -> DistributionScore:
    """Return TIBET's overlap of two histograms of concepts: ``Σ_i min(h_i, g_i) / Σ_i max(h_i, g_i)``, in [0, 1].

    Chinchure et al. (2023), *TIBET*; 1: the same histogram. ``first`` and ``second`` are (K,) counts and are compared
    as shares, which is the same for equal numbers of images and does not mistake a smaller sample for a difference.

    ``Σ min = 1 − D`` and ``Σ max = 1 + D`` with ``D = ½ Σ_i |h_i − g_i|``, so the score is ``(1 − D)/(1 + D)``. The
    interval is its range over the shares of both that Pearson's tests cannot refuse together. ``null`` is what two
    samples of these sizes from *one* distribution, their pooled one, overlap on average (drawn): below 1, and lower the
    fewer the images.
    """
    h, g = whole_counts("first", first), whole_counts("second", second)
    if h.shape != g.shape:
        raise InvalidInputError.wrong_shape(
            f"{len(h)} and {len(g)} concepts, expected equal numbers", field=("first", "second")
        )
    n_h, n_g = int(h.sum()), int(g.sum())
    if not n_h or not n_g:
        return DistributionScore(nan, nan, nan, nan, n_h + n_g, reason="a histogram is empty")
    rng, pooled = generator(rng), (h + g) / (n_h + n_g)
    require_count("resamples", resamples)
    same = _overlap(*(rng.multinomial(n, pooled, resamples) / n for n in (n_h, n_g)))
    low, high = range_over_two_shares(_overlap, h, g, confidence)
    return DistributionScore(
        value=float(_overlap(h[None] / n_h, g[None] / n_g)[0]),
        low=low,
        high=high,
        null=float(same.mean()),
        n=n_h + n_g,
        null_error=float(same.std(ddof=1)) / resamples**0.5,
    )


@cache
def null_expectation(score: Callable[[np.ndarray], np.ndarray], n: int, n_groups: int) -> tuple[float, float]:
    """Return a score's expectation over n images that fall into K groups with equal chance, and its Monte-Carlo error.

    ``score`` maps (rows × K) counts to (rows,). Exact while there are at most ``MOST_LISTED`` outcomes, by listing them
    with their multinomial probabilities, error 0; else the mean of that many draws of a fixed seed.
    """
    if n == 0:
        return nan, nan
    if n_groups == 2 and (half := ceil(10 * n**0.5)) < MOST_LISTED:  # beyond 20 standard deviations, less than 1e-80
        first = np.arange(max(0, n // 2 - half), min(n, n // 2 + half) + 1)
        outcomes = np.column_stack([first, n - first])
        return float(scipy.stats.binom.pmf(first, n, 0.5) @ score(outcomes)), 0.0
    if comb(n + n_groups - 1, n_groups - 1) <= MOST_LISTED:
        outcomes = _compositions(n, n_groups)
        logs = scipy.special.gammaln(n + 1) - scipy.special.gammaln(outcomes + 1).sum(axis=1) - n * log(n_groups)
        return float(np.exp(logs) @ score(outcomes)), 0.0
    drawn = score(np.random.default_rng(0).multinomial(n, np.full(n_groups, 1 / n_groups), MOST_LISTED))
    return float(drawn.mean()), float(drawn.std(ddof=1)) / MOST_LISTED**0.5


def _score(score: Callable[[np.ndarray], np.ndarray], counts: ArrayLike, confidence: float) -> DistributionScore:
    """Return a score of counts: its range over the shares that the counts cannot refuse, and its null."""
    return _scored_counts(score, tuple(whole_counts("counts", counts).tolist()), confidence)


@lru_cache(maxsize=4096)  # a study scores the same few counts again and again
def _scored_counts(
    score: Callable[[np.ndarray], np.ndarray], group_counts: tuple[int, ...], confidence: float
) -> DistributionScore:
    counts = np.array(group_counts)
    n = int(counts.sum())
    if n == 0:
        return DistributionScore(nan, nan, nan, nan, 0, reason="no image")
    null, error = null_expectation(score, n, len(counts))
    low, high = range_over_shares(score, counts, confidence)
    return DistributionScore(float(score(counts[None])[0]), low, high, null, n, error)


def _mean_gap(counts: np.ndarray) -> np.ndarray:
    shares = counts / counts.sum(axis=1, keepdims=True)
    return np.asarray(np.abs(shares - 1 / counts.shape[1]).mean(axis=1))


def _root_gap(counts: np.ndarray) -> np.ndarray:
    shares = counts / counts.sum(axis=1, keepdims=True)
    return np.asarray(np.sqrt(np.square(shares - 1 / counts.shape[1]).mean(axis=1)))


def _total_variation(counts: np.ndarray) -> np.ndarray:
    return np.asarray(counts.shape[1] / 2 * _mean_gap(counts))


def _amplification(counts: np.ndarray) -> np.ndarray:
    return np.asarray(counts.shape[1] * _mean_gap(counts))


def _parity_gap(counts: np.ndarray) -> np.ndarray:
    return np.asarray(np.ptp(counts, axis=1) / counts.sum(axis=1))


def _entropy_bits(counts: np.ndarray) -> np.ndarray:
    return np.asarray((1 - _entropy_gap(counts)) * log2(counts.shape[1]))


def _divergence(counts: np.ndarray) -> np.ndarray:
    return np.asarray(_entropy_gap(counts) * log(counts.shape[1]))


def _composite(counts: np.ndarray) -> np.ndarray:
    return np.asarray((_parity_gap(counts) + _entropy_gap(counts)) / 2)


def _entropy_gap(counts: np.ndarray) -> np.ndarray:
    shares = counts / counts.sum(axis=1, keepdims=True)
    terms = np.where(shares > 0, shares * np.log(np.where(shares > 0, shares, 1)), 0.0)
    return np.asarray(1 + terms.sum(axis=1) / log(counts.shape[1]))


def _area(counts: np.ndarray) -> np.ndarray:
    ordered = -np.sort(-counts, axis=1) / counts.max(axis=1, keepdims=True)
    return np.asarray(np.trapezoid(ordered, axis=1))


def _overlap(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    distance = np.abs(first - second).sum(axis=-1) / 2
    return np.asarray((1 - distance) / (1 + distance))


def _compositions(n: int, parts: int) -> np.ndarray:
    """Return all ways to write n as an ordered sum of ``parts`` numbers ≥ 0: (outcomes × parts)."""
    if parts == 2:
        return np.column_stack([np.arange(n + 1), n - np.arange(n + 1)])
    tails = [_compositions(n - head, parts - 1) for head in range(n + 1)]
    return np.concatenate([np.insert(tail, 0, head, axis=1) for head, tail in enumerate(tails)])


def whole_counts(name: str, counts: ArrayLike) -> np.ndarray:
    """Return the images of two or more groups, (K,) whole numbers; refuse others, naming the argument."""
    array = np.asarray(counts)
    if array.ndim != 1 or len(array) < 2:
        raise InvalidInputError.expected_shape("counts of at least two groups (K,)", array, field=name)
    whole = array.astype(np.int64) if array.dtype.kind in "iuf" and np.isfinite(array).all() else None
    if whole is None or (whole != array).any() or (whole < 0).any():
        raise InvalidInputError.out_of_range("expected whole numbers of images, 0 or more", field=name)
    return whole


BY_COUNTS: Final[Mapping[str, Callable[[np.ndarray], np.ndarray]]] = {
    "mean_absolute_deviation": _mean_gap,
    "entropy_bias": _entropy_gap,
    "distribution_bias": _area,
}
"""Numbers that counts alone give: from (rows × K) counts to (rows,), without interval and null."""

PEERS: Final[Mapping[str, Callable[..., DistributionScore]]] = {
    "parity_gap": parity_gap,
    "total_variation": total_variation,
    "mean_absolute_deviation": mean_absolute_deviation,
    "standard_deviation": standard_deviation,
    "entropy_bias": entropy_bias,
    "bias_amplification": bias_amplification_score,
    "entropy": group_entropy,
    "kl_divergence": divergence_from_uniform,
    "composite_bias": composite_bias,
}
"""The numbers of ``peer_scores``, each a function of the counts of the groups."""
