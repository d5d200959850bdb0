"""Agreement: of two rankings (Kendall's τ-b), and of raters with each other (Krippendorff's α). See decision 11."""

from __future__ import annotations

from dataclasses import dataclass
from math import atanh, isfinite, nan, sqrt, tanh
from typing import Final, Literal

import numpy as np
import scipy
from numpy.typing import ArrayLike

from clinometer.errors import InvalidInputError
from clinometer.stats.arguments import generator, require_choice
from clinometer.stats.bootstrap import Limits, bca_interval, percentile_interval, rao_wu_weights, why_no_interval

Method = Literal["jackknife", "fisher", "bootstrap"]

LIMITS: Final[Limits] = (-1.0, 1.0)
"""The least and the greatest that a coefficient can be."""

_MANY = 5_000
"""Units beyond which a resample draws kinds of coincidences, which are few, instead of units: the same distribution."""


@dataclass(frozen=True)
class Agreement:
    """A coefficient in [−1, 1] with its interval; NaN with a ``reason`` where undefined.

    ``n`` counts pairs of scores (τ) or units that at least two raters rated (α); ``p`` tests τ = 0, two-sided (exact
    without ties up to 33 pairs, else normal), and is NaN for α.
    """

    value: float
    low: float
    high: float
    n: int
    p: float = nan
    reason: str = ""


def kendall_tau_b(
    x: ArrayLike,
    y: ArrayLike,
    *,
    confidence: float = 0.95,
    method: Method = "jackknife",
    n_resamples: int = 9_999,
    rng: np.random.Generator | int | None = 0,
) -> Agreement:
    """Return Kendall's τ-b of paired scores, with an interval.

    ::

        τ_b = (C − D) / √( (pairs untied in x) (pairs untied in y) )

    C, D the concordant and discordant pairs of pairs (Kendall 1945). Pairs with a NaN are left out. The interval:

    - ``"jackknife"``: ``tanh( atanh τ ± z se_J / (1 − τ²) )``, se_J from leaving each pair out. Makes no assumption on
      the joint distribution, and takes ties.
    - ``"fisher"``: ``tanh( atanh τ ± z √(0.437 / (n − 4)) )`` (Fieller, Hartley & Pearson 1957): for scores near
      bivariate normal and without ties; with ties it covers too seldom.
    - ``"bootstrap"``: BCa over the pairs. A pair that is drawn twice ties with itself; such ties are not counted.

    All go through the n × n matrices of signs, so that a replicate is a quadratic form of its weights.

    Raises
    ------
    InvalidInputError
        x and y of different lengths, or an unknown method.
    """
    require_choice("method", method, Method)
    first, second = np.asarray(x, np.float64), np.asarray(y, np.float64)
    if first.ndim != 1 or first.shape != second.shape:
        raise InvalidInputError.expected_shape("two lists of one length", first, second, field=("x", "y"))
    known = np.isfinite(first) & np.isfinite(second)
    first, second = first[known], second[known]
    n = len(first)
    if n < 2 or np.ptp(first) == 0 or np.ptp(second) == 0:
        reason = "fewer than two pairs" if n < 2 else "all scores of one list are tied"
        return Agreement(nan, nan, nan, n, reason=reason)
    test = scipy.stats.kendalltau(first, second, variant="b")
    tau, p = float(np.clip(test.statistic, -1, 1)), float(test.pvalue)
    if n < 5:
        return Agreement(tau, nan, nan, n, p, "no interval from fewer than five pairs")
    if abs(tau) > 1 - 1e-12:
        return Agreement(
            tau, nan, nan, n, p, "no interval: the two orders are the same, or one the reverse of the other"
        )
    if method == "bootstrap":
        low, high = _tau_bootstrap(first, second, tau, confidence, n_resamples, generator(rng))
    else:
        if method == "fisher":
            error = sqrt(0.437 / (n - 4))
        else:
            left_out = _tau_without_each(first, second)
            error = sqrt((n - 1) / n * float(np.sum((left_out - left_out.mean()) ** 2))) / (1 - tau * tau)
        reach = float(scipy.stats.norm.ppf((1 + confidence) / 2)) * error
        low, high = tanh(atanh(tau) - reach), tanh(atanh(tau) + reach)
    beside = ", or its resamples lie beside it" if method == "bootstrap" else ""
    return Agreement(tau, low, high, n, p, "" if isfinite(low) else f"no interval: too many ties{beside}")


def krippendorff_alpha(
    ratings: ArrayLike,
    *,
    confidence: float = 0.95,
    n_resamples: int = 9_999,
    rng: np.random.Generator | int | None = 0,
) -> Agreement:
    """Return Krippendorff's α of nominal ratings, with a bootstrap interval over the units.

    ::

        α = 1 − D_o / D_e = 1 − (n − 1) Σ_{c≠k} o_ck / Σ_{c≠k} n_c n_k
        o_ck = Σ_u (pairs c–k within unit u) / (m_u − 1)        n_c = Σ_k o_ck,  n = Σ_c n_c

    Krippendorff (2011), *Computing Krippendorff's Alpha-Reliability*; m_u ratings of unit u, units with fewer than two
    are left out. 1: full agreement; 0: as by chance; negative: less than that. The coincidences o add up over units, so
    a replicate is one row of weights times them. Where all agree, every resample does: the lower end is then α with as
    many units in full disagreement as n without one leave possible, ``1 − p / D_e``, ``p`` by Clopper and Pearson. A
    resample of one category has no α, and counts as −1 for the lower end and as 1 for the upper one.

    Parameters
    ----------
    ratings : (raters, units) numbers that name categories; NaN where a rater did not rate.

    Returns
    -------
    Agreement
        NaN where no unit has two ratings, or where all ratings are the same: then nothing could have disagreed.

    Raises
    ------
    InvalidInputError
        Ratings that are not two-dimensional.
    """
    table = np.asarray(ratings, np.float64)
    if table.ndim != 2:
        raise InvalidInputError.expected_shape("(raters × units)", table, field="ratings")
    # (units with two ratings × K × K) coincidences of each unit
    categories = np.unique(table[np.isfinite(table)])
    counts = (table[:, :, None] == categories).sum(axis=0)
    counts = counts[counts.sum(axis=1) > 1].astype(np.float64)
    pairs = counts[:, :, None] * counts[:, None, :]
    pairs -= counts[:, :, None] * np.eye(len(categories))
    coincidences = np.asarray(pairs / (counts.sum(axis=1) - 1)[:, None, None])
    n = len(coincidences)
    if n == 0:
        return Agreement(nan, nan, nan, 0, reason="no unit has two ratings")
    value = float(_alpha(coincidences.sum(axis=0)[None])[0])
    if not isfinite(value):
        return Agreement(nan, nan, nan, n, reason="all ratings are the same: nothing could have disagreed")
    if n < 3:
        return Agreement(value, nan, nan, n, reason="no interval from fewer than three units")
    if value > 1 - 1e-12:
        most = float(scipy.stats.binomtest(0, n).proportion_ci(confidence).high)
        return Agreement(value, 1 - most / _expected_disagreement(coincidences.sum(axis=0)), 1.0, n)
    if n > _MANY:
        kinds, counts = np.unique(coincidences, axis=0, return_counts=True)
        drawn = generator(rng).multinomial(n - 1, counts / n, n_resamples) * (n / (n - 1))
        draws = _alpha(np.tensordot(drawn, kinds, axes=1))
    else:
        weights = rao_wu_weights([n], n_resamples, generator(rng)).astype(np.float64) * n
        draws = _alpha(np.tensordot(weights, coincidences, axes=1))
    without = _alpha(coincidences.sum(axis=0) - coincidences)
    influence = np.where(np.isfinite(without), value - without, 0.0)
    interval = bca_interval(value, draws, influence, confidence, freedom=n - 1, limits=LIMITS)
    reason = "" if isfinite(interval.low) else why_no_interval(draws)
    return Agreement(value, float(interval.low), float(interval.high), n, reason=reason)


def _alpha(coincidences: np.ndarray) -> np.ndarray:
    """Return α of each (K × K) table; NaN where it holds one category only."""
    totals = coincidences.sum(axis=-1)
    n = totals.sum(axis=-1)
    observed = n - np.trace(coincidences, axis1=-2, axis2=-1)
    expected = n * n - np.square(totals).sum(axis=-1)
    is_defined = expected > 1e-9 * n * n
    ratio = np.divide((n - 1) * observed, expected, out=np.full(n.shape, np.nan), where=is_defined)
    return np.asarray(1 - ratio)


def _expected_disagreement(coincidences: np.ndarray) -> float:
    """Return D_e: the share of pairs that differ where all ratings are paired with all others."""
    totals = coincidences.sum(axis=0)
    n = totals.sum()
    return float((n * n - np.square(totals).sum()) / (n * (n - 1)))


def _tau_without_each(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Return τ-b without each pair in turn: a pair takes its row and its column of signs along."""
    of_x, of_y = (np.sign(np.subtract.outer(scores, scores)) for scores in (x, y))
    sums = [m.sum() - 2 * m.sum(axis=1) for m in (of_x * of_y, np.abs(of_x), np.abs(of_y))]
    return _ratio(*sums)


def _tau_bootstrap(
    x: np.ndarray, y: np.ndarray, tau: float, confidence: float, n_resamples: int, rng: np.random.Generator
) -> tuple[float, float]:
    weights = rao_wu_weights([len(x)], n_resamples, rng).astype(np.float64)
    of_x, of_y = (np.sign(np.subtract.outer(scores, scores)) for scores in (x, y))
    forms = [np.vecdot(weights @ m, weights) for m in (of_x * of_y, np.abs(of_x), np.abs(of_y))]
    draws = _ratio(*forms)
    influence = tau - _tau_without_each(x, y)
    if not np.isfinite(influence).all():
        interval = percentile_interval(draws, confidence, value=tau, limits=LIMITS)
    else:
        interval = bca_interval(tau, draws, influence, confidence, limits=LIMITS)
    return float(interval.low), float(interval.high)


def _ratio(concordance: np.ndarray, untied_x: np.ndarray, untied_y: np.ndarray) -> np.ndarray:
    size = np.sqrt(untied_x * untied_y)
    return np.asarray(np.divide(concordance, size, out=np.full(np.shape(size), np.nan), where=size > 0))
