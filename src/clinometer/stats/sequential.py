"""Inference that holds at every sample size at once, so that data may be looked at after every observation.

For observations X_1, X_2, … in [lo, hi] whose mean, given what came before, is at most m, a gambler who bets the
fraction c of a fortune on each of them being larger than m holds after n of them::

    K_n(m) = Σ_k w_k ∏_{i ≤ n} (1 + c_k (X_i − m) / (m − lo)),        0 < c_k < 1,  Σ w_k = 1

No such fortune grows on average, whenever one looks: K is a test supermartingale, an *e-process*. By Ville's
inequality it ever reaches 1/α with probability α at most; so 1/K is a p-value, and the m that no fortune has refuted
are a confidence sequence, at any stopping time (Waudby-Smith & Ramdas 2024, "Estimating means of bounded random
variables by betting"; Ramdas et al. 2023, "Game-theoretic statistics and safe anytime-valid inference"). Nothing is
asked of the observations but the bounds and the common mean. See decision 6.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf, isnan, nan
from typing import Literal

import numpy as np
import scipy

from clinometer.errors import InvalidInputError

BETS = (np.arange(64) + 0.5) / 64
"""Fractions of the fortune that are bet, in equal parts: a mixture loses a factor of about √n against the best of them,
whichever that turns out to be."""

_TINY = 1e-9
"""Share of the range within which a bound is found."""


@dataclass(frozen=True)
class ConfidenceSequence:
    """An interval for the mean at each sample size, all of which hold together; each lies within the one before it.

    ``sizes``, ``low``, ``high`` : (looks,).
    """

    sizes: np.ndarray
    low: np.ndarray
    high: np.ndarray


def e_value(
    values: np.ndarray,
    mean: float,
    *,
    low: float,
    high: float,
    alternative: Literal["greater", "less", "two-sided"] = "two-sided",
) -> float:
    """Evidence against a mean from n observations, looked at as often as one likes; 1 with no observation.

    ::

        greater    K_n(m)                against  μ ≤ m
        less       the same, mirrored    against  μ ≥ m
        two-sided  (greater + less) / 2  against  μ = m

    Its expectation is at most 1 where the hypothesis is true, at any stopping time. Infinite where the hypothesis has
    no value within the bounds.

    Raises
    ------
    InvalidInputError
        An observation outside of [low, high], NaN, or bounds without room between them.

    Examples
    --------
    >>> tosses = np.ones(10)
    >>> round(e_value(tosses, 0.5, low=0.0, high=1.0), 1)
    93.1
    """
    scaled, at = _scaled(values, low, high), (mean - low) / (high - low)
    sides = {"greater": (False,), "less": (True,), "two-sided": (False, True)}[alternative]
    logs = [_log_capital(1 - scaled if mirrored else scaled, 1 - at if mirrored else at) for mirrored in sides]
    with np.errstate(over="ignore"):
        return float(np.exp(scipy.special.logsumexp(logs) - np.log(len(logs))))


def chance_to_reach(
    values: np.ndarray,
    mean: float,
    evidence: np.ndarray,
    factors: np.ndarray,
    *,
    low: float,
    high: float,
    alternative: Literal["greater", "less"],
) -> np.ndarray:
    """Probability that the e-value reaches ``evidence`` after f ≥ 1 times the observations: (factors, evidence).

    Those to come are taken to be drawn from those there are. Then ``log K`` is about normal, with mean and spread of
    the bets that lead by then::

        log Σ_k w_k exp(f g_k),   g_k = Σ_i log(1 + c_k (X_i − m) / (m − lo)),       spread ∝ √(n (f − 1))

    With f = 1 it is whether the e-value is so large. At the last look alone: what is reached earlier stays reached, so
    that one who looks all along reaches it somewhat more often.
    """
    scaled, at = _scaled(values, low, high), (mean - low) / (high - low)
    if alternative == "less":
        scaled, at = 1 - scaled, 1 - at
    if at <= 0:  # no value within the bounds, and nothing to bet on
        return np.full((len(factors), len(evidence)), float(_log_capital(scaled, at) == inf))
    log_gains = np.log1p(np.outer(BETS, scaled / at - 1))
    logs = np.outer(factors, log_gains.sum(axis=1))
    totals = scipy.special.logsumexp(logs, axis=1)
    leading = np.exp(logs - totals[:, None]) @ log_gains
    spread = leading.std(axis=1) * np.sqrt(len(scaled) * (factors - 1))
    above = (totals - np.log(len(BETS)))[:, None] - np.log(evidence)
    return np.asarray(scipy.stats.norm.cdf(above / np.maximum(spread, 1e-12)[:, None]))


def confidence_sequence(
    values: np.ndarray, *, low: float, high: float, confidence: float = 0.95, sizes: Sequence[int] | None = None
) -> ConfidenceSequence:
    """Bound the mean after each of ``sizes`` observations, by default after all of them.

    P(μ within every interval) ≥ ``confidence``. A bound is the m whose one-sided e-value is 2/α, and each is the
    tightest so far.

    Raises
    ------
    InvalidInputError
        As :func:`e_value`; a confidence outside of (0, 1), or sizes that are not among 0 … n in order.

    Examples
    --------
    >>> tosses = np.tile([1.0, 1.0, 1.0, 0.0], 25)
    >>> bounds = confidence_sequence(tosses, low=0.0, high=1.0)
    >>> round(float(bounds.low[0]), 2), round(float(bounds.high[0]), 2)
    (0.6, 0.88)
    """
    if not 0 < confidence < 1:
        raise InvalidInputError(f"confidence: expected a number between 0 and 1, found {confidence}")
    scaled = _scaled(values, low, high)
    looks = np.array([len(scaled)] if sizes is None else sizes, int)
    if len(looks) == 0 or (np.diff(looks) <= 0).any() or looks[0] < 0 or looks[-1] > len(scaled):
        raise InvalidInputError(f"sizes: expected rising numbers from 0 to {len(scaled)}, found {looks.tolist()}")
    needed = np.log(2 / (1 - confidence))
    lower = np.array([_refuted_up_to(scaled[:n], needed) for n in looks])
    upper = 1 - np.array([_refuted_up_to(1 - scaled[:n], needed) for n in looks])
    return ConfidenceSequence(
        sizes=looks,
        low=low + (high - low) * np.maximum.accumulate(lower),
        high=low + (high - low) * np.minimum.accumulate(upper),
    )


def _scaled(values: np.ndarray, low: float, high: float) -> np.ndarray:
    """Observations brought to [0, 1]."""
    values = np.asarray(values, np.float64)
    if not -inf < low < high < inf:
        raise InvalidInputError(f"bounds: expected low < high, found {low} and {high}")
    # a NaN is no observation within the bounds either
    outside = ~((values >= low) & (values <= high))
    if outside.any():
        raise InvalidInputError(f"values: expected numbers from {low} to {high}, found {values[outside][0]}")
    return (values - low) / (high - low)


def _log_capital(scaled: np.ndarray, mean: float) -> float:
    """Logarithm of the fortune made by betting that observations in [0, 1] exceed ``mean``."""
    if mean <= 0:
        return inf if mean < 0 or (scaled > 0).any() else 0.0
    growth = np.log1p(np.outer(BETS, scaled / mean - 1)).sum(axis=1)
    top = growth.max()  # logsumexp, which takes ten times as long for its checks: a bound asks for it a dozen times
    return float(top + np.log(np.exp(growth - top).mean()))


def _refuted_up_to(scaled: np.ndarray, needed: float) -> float:
    """Largest mean that the fortune has refuted. The fortune falls as the mean rises, to less than 1 at the end."""
    if len(scaled) == 0 or _log_capital(scaled, _TINY) < needed:
        return 0.0
    return float(scipy.optimize.brentq(lambda mean: _log_capital(scaled, mean) - needed, _TINY, 1.0, xtol=_TINY / 4))


def p_value_of(e: float) -> float:
    """``min(1, 1/e)``: a p-value that stays valid at any stopping time; NaN of NaN."""
    if isnan(e):
        return nan
    return 1.0 if e <= 1 else 1 / e
