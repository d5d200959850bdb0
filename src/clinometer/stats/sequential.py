"""Inference that holds at every sample size at once, so that data may be looked at after every observation.

For observations X_1, X_2, … in [lo, hi] whose mean, given what came before, is at most m, a gambler who bets the
fraction c of a fortune on each of them being larger than m holds after n of them::

    K_n(m) = Σ_k w_k ∏_{i ≤ n} (1 + c_k (X_i − m) / (m − lo)),        0 < c_k < 1,  Σ w_k = 1

No such fortune grows on average, whenever one looks: K is a test supermartingale, an *e-process*. By Ville's
inequality it ever reaches 1/α with probability α at most; so 1/K is a p-value, and the m that no fortune has refuted
are a confidence sequence, at any stopping time (Waudby-Smith & Ramdas 2024, "Estimating means of bounded random
variables by betting"; Ramdas et al. 2023, "Game-theoretic statistics and safe anytime-valid inference"). Nothing is
asked of the observations but the bounds and the common mean. See decision 6.

``Elimination`` says when to stop comparing: it settles pairs of classes whose order more trials would hardly change.

Errors of the classes are measured on the same trials, so their differences are paired; and the trials are a
systematic sample of a planned total of N, spread evenly over the timesteps. After n of N trials the question is not the
mean of an endless series but where the mean of these N will stand. With d_1 … d_n the differences in the order of their
timesteps::

    D_N − D_n  ~  t_{n−1} · s · sqrt(1/n − 1/N),          s² = Σ (d_{i+1} − d_i)² / (2 (n − 1))

the finite-population interval (Cochran 1977, §2.6) with the variance of successive differences (von Neumann 1941;
Wolter 2007, §8.2), which the smooth dependence of a difference on its timestep does not inflate.

Few trials say little of a variance, and a pair whose s happens to be small would be settled too early. The differences
of one image have much the same variance, so where several are judged together each s² is moderated (Smyth 2004)::

    s̃² = ((n − 1) s² + d s̄²) / (n − 1 + d)       with n − 1 + d degrees of freedom, s̄² the mean of those s²

See decision 22.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import inf, isnan, nan
from typing import Literal

import numpy as np
import scipy

from clinometer.errors import InvalidInputError
from clinometer.stats.arguments import require_confidence

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
    """Return the evidence against a mean from n observations, looked at as often as one likes; 1 with no observation.

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
    scaled, at = _scale(values, low, high), (mean - low) / (high - low)
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
    """Return how likely the e-value reaches ``evidence`` after f ≥ 1 times the observations: (factors, evidence).

    Those to come are taken to be drawn from those there are. Then ``log K`` is about normal, with mean and spread of
    the bets that lead by then::

        log Σ_k w_k exp(f g_k),   g_k = Σ_i log(1 + c_k (X_i − m) / (m − lo)),       spread ∝ √(n (f − 1))

    With f = 1 it is whether the e-value is so large. At the last look alone: what is reached earlier stays reached, so
    that one who looks all along reaches it somewhat more often.
    """
    scaled, at = _scale(values, low, high), (mean - low) / (high - low)
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
    require_confidence(confidence)
    scaled = _scale(values, low, high)
    looks = np.array([len(scaled)] if sizes is None else sizes, int)
    if len(looks) == 0 or (np.diff(looks) <= 0).any() or looks[0] < 0 or looks[-1] > len(scaled):
        raise InvalidInputError.out_of_range(
            f"expected rising numbers from 0 to {len(scaled)}, found {looks.tolist()}", field="sizes"
        )
    needed = np.log(2 / (1 - confidence))
    lower = np.array([_refuted_up_to(scaled[:n], needed) for n in looks])
    upper = 1 - np.array([_refuted_up_to(1 - scaled[:n], needed) for n in looks])
    return ConfidenceSequence(
        sizes=looks,
        low=low + (high - low) * np.maximum.accumulate(lower),
        high=low + (high - low) * np.minimum.accumulate(upper),
    )


def _scale(values: np.ndarray, low: float, high: float) -> np.ndarray:
    """Return observations brought to [0, 1]."""
    values = np.asarray(values, np.float64)
    if not -inf < low < high < inf:
        raise InvalidInputError.out_of_range(f"expected low < high, found {low} and {high}", field="bounds")
    # a NaN is no observation within the bounds either
    outside = ~((values >= low) & (values <= high))
    if outside.any():
        raise InvalidInputError.out_of_range(
            f"expected numbers from {low} to {high}, found {values[outside][0]}", field="values"
        )
    return (values - low) / (high - low)


def _log_capital(scaled: np.ndarray, mean: float) -> float:
    """Return the logarithm of the fortune made by betting that observations in [0, 1] exceed ``mean``."""
    if mean <= 0:
        return inf if mean < 0 or (scaled > 0).any() else 0.0
    growth = np.log1p(np.outer(BETS, scaled / mean - 1)).sum(axis=1)
    top = growth.max()  # logsumexp, which takes ten times as long for its checks: a bound asks for it a dozen times
    return float(top + np.log(np.exp(growth - top).mean()))


def _refuted_up_to(scaled: np.ndarray, needed: float) -> float:
    """Return the largest mean that the fortune has refuted. It falls as the mean rises, to less than 1 at the end."""
    if len(scaled) == 0 or _log_capital(scaled, _TINY) < needed:
        return 0.0
    return float(scipy.optimize.brentq(lambda mean: _log_capital(scaled, mean) - needed, _TINY, 1.0, xtol=_TINY / 4))


def p_value_of(e: float) -> float:
    """``min(1, 1/e)``: a p-value that stays valid at any stopping time; NaN of NaN."""
    if isnan(e):
        return nan
    return 1.0 if e <= 1 else 1 / e


CONFIDENCE = 0.999
MODERATION = 25.0
"""d above, for the pairs of one image. Chosen on portraits that no benchmark or test uses."""


@dataclass(frozen=True)
class FinalMean:
    """Bounds on means of N trials, predicted from n of them: the mean so far and its half-width, both (…,)."""

    mean: np.ndarray
    half_width: np.ndarray

    @property
    def decided(self) -> np.ndarray:
        """True where the sign of the final mean is settled; NaN never is."""
        return np.asarray(np.abs(self.mean) > self.half_width)


def final_mean(differences: np.ndarray, total: int, confidence: float, moderation: float = 0.0) -> FinalMean:
    """Judge the mean of ``total`` trials from the first n: differences (…, n), in the order of their timesteps.

    With n = ``total`` the half-width is 0; with n = 1 it is infinite. With ``moderation``, the weight d, variances are
    moderated towards their mean over all differences that are given.

    Raises
    ------
    InvalidInputError
        More trials than planned, or none, or a confidence outside of (0, 1).

    Examples
    --------
    >>> settled = final_mean(np.array([1.0, 1.1, 0.9, 1.0]), total=8, confidence=0.95)
    >>> bool(settled.decided), round(float(settled.half_width), 3)
    (True, 0.113)
    """
    values = np.asarray(differences, np.float64)
    n = values.shape[-1]
    if not 0 < n <= total:
        raise InvalidInputError.out_of_range(f"expected 1 to {total} trials, found {n}", field="differences")
    require_confidence(confidence)
    mean = values.mean(axis=-1)
    if n == total:
        return FinalMean(mean, np.zeros_like(mean))
    if n == 1:
        return FinalMean(mean, np.full_like(mean, np.inf))
    variance = np.square(np.diff(values, axis=-1)).sum(axis=-1) / (2 * (n - 1))
    freedom = n - 1 + moderation
    moderated = ((n - 1) * variance + moderation * variance.mean()) / freedom
    reach = scipy.stats.t.ppf((1 + confidence) / 2, freedom) * np.sqrt(1 / n - 1 / total)
    return FinalMean(mean, np.sqrt(moderated) * reach)


@dataclass(frozen=True)
class Elimination:
    """The rule by which a class is dropped.

    Attributes
    ----------
    pairs : (classes × classes) bool, the pairs to decide, each on one side of the diagonal: a class leaves when all its
        pairs are decided. None looks for the best class alone: a class leaves when a better one has beaten it.
    confidence : of each interval of a paired difference.
    first_look, look_every : after how many trials the intervals are looked at.
    """

    pairs: np.ndarray | None = None
    confidence: float = CONFIDENCE
    first_look: int = 10
    look_every: int = 10


class Race:
    """The classes of each image that are still to be measured.

    Parameters
    ----------
    images, classes, total : what is planned: every image under every class in ``total`` trials.
    elimination : when a class leaves; None for never.
    """

    def __init__(self, images: int, classes: int, total: int, elimination: Elimination | None) -> None:
        self.total = total
        self.elimination = elimination
        self.active = np.ones((images, classes), bool)
        pairs = None if elimination is None else elimination.pairs
        self._open = None if pairs is None else np.repeat(np.asarray(pairs, bool)[None], images, axis=0)

    def looks(self) -> Iterator[tuple[int, int]]:
        """Yield the trials (from, to) of each round, as long as a class is active."""
        start, rule = 0, self.elimination
        while start < self.total and self.active.any():
            step = self.total if rule is None else rule.look_every if start else rule.first_look
            stop = min(start + step, self.total)
            yield start, stop
            start = stop

    def judge(self, errors: np.ndarray, order: np.ndarray) -> None:
        """Drop decided classes: errors (images × classes × n) so far, order (images × n) of a trial's timestep."""
        for image in np.flatnonzero(self.active.any(axis=1)).tolist():
            measured = errors[image][:, np.argsort(order[image], kind="stable")]
            if not np.isfinite(measured[self.active[image]]).all():
                self.active[image] = False  # what is not finite will not become comparable
            elif self.elimination is not None and measured.shape[-1] < self.total:
                self.active[image] = self._remaining(image, measured, self.elimination.confidence)

    def _remaining(self, image: int, errors: np.ndarray, confidence: float) -> np.ndarray:
        active = self.active[image]
        if self._open is None:
            racing = errors[active]  # a class that left has NaN from there on, which would spoil every width
            best = racing[racing.mean(axis=-1).argmin()]
            lead = final_mean(racing - best, self.total, confidence)
            remaining = active.copy()
            remaining[active] = ~((lead.mean > 0) & lead.decided)
            return remaining if remaining.sum() > 1 else np.zeros_like(active)
        first, second = np.nonzero(self._open[image])
        lead = final_mean(errors[first] - errors[second], self.total, confidence, MODERATION)
        self._open[image, first, second] = ~lead.decided
        return np.asarray(self._open[image].any(axis=0) | self._open[image].any(axis=1))
