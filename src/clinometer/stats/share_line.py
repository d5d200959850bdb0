"""A line through shares on the logit scale where both axes have errors: how a model's shares follow a reference's.

For concept c with true reference share ρ_c, true share π_c in the model, and k_c of n_c pictures read as the group::

    logit π_c = α + β logit ρ_c + u_c,                    u_c ~ N(0, σ²)
    k_c ~ Bin(n_c, m_0 π_c + (1 − π_c) Σ_j w_cj m_j)      m_0 ~ the group is read as itself, m_j: group j is read as it
    logit r_c ~ N(logit ρ_c, τ_c²),                       logit ρ_c ~ N(μ, ω²)
    l_j ~ Bin(t_j, m_j)                                   labelled pictures of each group

with r_c the published reference and w_cj the shares of the other groups among themselves (1 where there are two). Of a
count m_0 = 1 and m_j = 0. β = 1 and α = 0: the model draws the reference. β > 1 exaggerates it, β = 0 ignores it, and α
is a tilt towards the group that is the same everywhere.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import inf, isfinite, nan, sqrt
from typing import Final

import numpy as np
import scipy
from numpy.typing import ArrayLike

from clinometer.errors import InvalidInputError
from clinometer.stats.arguments import require_confidence

FEWEST_ON_A_LINE: Final = 8
"""Concepts from which on the interval of a slope was shown to cover (docs/simulations.md)."""

_NODES, _WEIGHTS = np.polynomial.hermite.hermgauss(15)
_LOG_WEIGHTS: Final = (np.log(_WEIGHTS) + _NODES**2)[:, None]
_STEPS: Final = 6
_LIMITS: Final = (-60.0, 60.0)
"""Slopes and tilts beyond which no end of an interval is looked for."""

_SCATTER: Final = (float(np.log(0.01)), float(np.log(20.0)))
_LOGITS: Final = (-14.0, 14.0)


@dataclass(frozen=True)
class Labelled:
    """A reader's errors about one group, from labelled pictures.

    Attributes
    ----------
    hits, total : (K,) pictures of each true group that are read as the group, of those read; the group itself first.
    among : (C, K − 1) shares of the other groups among themselves, in each concept.
    """

    hits: np.ndarray
    total: np.ndarray
    among: np.ndarray


@dataclass(frozen=True)
class Coefficient:
    """A coefficient of a line with its interval and the p of the test that it is ``null``."""

    value: float
    low: float
    high: float
    p: float
    null: float


@dataclass(frozen=True)
class ShareLine:
    """The line of n concepts: ``slope`` β (tested against 1 or what is asked), ``tilt`` α (against 0), ``scatter`` σ.

    ``reason`` says why they are NaN.
    """

    slope: Coefficient
    tilt: Coefficient
    scatter: float
    n: int
    reason: str = ""


def share_line(
    reference: ArrayLike,
    reference_n: ArrayLike,
    count: ArrayLike,
    n: ArrayLike,
    labelled: Labelled | None = None,
    *,
    confidence: float = 0.95,
    slope: float = 1.0,
) -> ShareLine:
    """Fit the line of the module docstring by marginal likelihood; intervals are those of its profile.

    The true reference is integrated out (given r_c it is normal, with mean ``(ω² logit r_c + τ_c² μ) / (ω² + τ_c²)``,
    with μ and ω² by moments), and so is u_c, by adaptive Gauss–Hermite quadrature; the reader's errors are parameters
    like the others, held by the labelled pictures. The interval of a coefficient holds the values at which twice the
    log likelihood falls by at most the squared quantile of Student's t with C − 2 degrees.

    Parameters
    ----------
    reference : (C,) shares in (0, 1).
    reference_n : (C,) people each is of; ``inf`` where it is exact.
    count, n : (C,) pictures read as the group, of those read; need not be whole, where the width of an interval says
        how many a share is worth.
    slope : the slope that is tested; 0 asks whether the shares follow the reference at all.

    Raises
    ------
    InvalidInputError
        Arrays of other lengths, or shares and counts out of range.

    Sources: Fuller, *Measurement Error Models* (1987), 1.2; Carroll et al., *Measurement Error in Nonlinear Models*
    (2006), 4 and 8. Bias and coverage are simulated in docs/simulations.md.

    Examples
    --------
    Shares twice as far from ½ as the reference, on the logit scale:

    >>> reference = np.linspace(0.1, 0.9, 12)
    >>> share = scipy.special.expit(2 * scipy.special.logit(reference))
    >>> line = share_line(reference, np.full(12, np.inf), np.round(400 * share), np.full(12, 400))
    >>> round(line.slope.value, 1), round(line.tilt.value, 1) + 0.0, line.slope.low > 1
    (2.0, 0.0, True)
    """
    require_confidence(confidence)
    r, people, k, m = (np.asarray(each, np.float64).ravel() for each in (reference, reference_n, count, n))
    if len({len(each) for each in (r, people, k, m)}) > 1:
        raise InvalidInputError.wrong_shape(
            "expected one of each a concept", field=("reference", "reference_n", "count", "n")
        )
    if not ((r > 0) & (r < 1) & (people > 0) & (k >= 0) & (k <= m) & (m > 0)).all():
        raise InvalidInputError.out_of_range(
            "expected references between 0 and 1, and counts from 0 to n of one picture or more"
        )
    if len(r) < FEWEST_ON_A_LINE:
        return _without(len(r), f"{len(r)} concepts with a reference and a share: a line needs {FEWEST_ON_A_LINE}")
    x, variance = scipy.special.logit(r), 1 / (people * r * (1 - r))
    spread = float(x.var(ddof=1) - variance.mean())
    if spread <= 0.1 * x.var(ddof=1):
        return _without(len(r), "the references differ by hardly more than their own errors: no line over them")
    calm = spread / (spread + variance)
    likelihood = _Likelihood(calm * x + (1 - calm) * x.mean(), calm * variance, k, m, labelled)
    quantile = float(scipy.stats.t.ppf((1 + confidence) / 2, len(r) - 2))
    of_slope, tilt = (likelihood.profile(at, null, quantile) for at, null in ((1, slope), (0, 0.0)))
    if not max(abs(of_slope.value), abs(tilt.value)) < _LIMITS[1] - 1:
        return _without(len(r), "the shares are all of one group, or nearly: no line fits them")
    return ShareLine(of_slope, tilt, float(np.exp(likelihood.best[2])), len(r))


def _without(n: int, reason: str) -> ShareLine:
    return ShareLine(Coefficient(*(nan,) * 4, 1.0), Coefficient(*(nan,) * 4, 0.0), nan, n, reason)


@dataclass
class _Likelihood:
    """The likelihood of (α, β, log σ, logit m_0, … logit m_{K−1}), given each concept's reference and counts."""

    mean: np.ndarray
    variance: np.ndarray
    count: np.ndarray
    n: np.ndarray
    labelled: Labelled | None
    best: np.ndarray = field(init=False)
    top: float = field(init=False)

    def __post_init__(self) -> None:
        start = np.array([0.0, 1.0, np.log(0.5)])
        if self.labelled is not None:
            rates = (self.labelled.hits + 0.5) / (self.labelled.total + 1.0)
            start = np.concatenate([start, scipy.special.logit(rates)])
        self.best, self.top = self._maximise(start, None)

    def _maximise(self, start: np.ndarray, held: int | None) -> tuple[np.ndarray, float]:
        """Find the greatest log likelihood from ``start``, with the parameter ``held`` where it is."""
        limits = [_LIMITS, _LIMITS, _SCATTER, *[_LOGITS] * (len(start) - 3)]
        if held is not None:
            limits[held] = (start[held], start[held])
        found = scipy.optimize.minimize(
            self._loss, start, jac=True, method="L-BFGS-B", bounds=limits, options={"ftol": 1e-11, "gtol": 1e-6}
        )
        return found.x, -float(found.fun)

    def _loss(self, parameters: np.ndarray) -> tuple[float, np.ndarray]:
        """Return minus the log likelihood, with gradient, by quadrature around the mode of each concept's log odds."""
        tilt, slope, log_scatter, *logits = parameters
        scatter, labelled = np.exp(2 * log_scatter), self.labelled
        mean, variance = tilt + slope * self.mean, slope**2 * self.variance + scatter
        rates = scipy.special.expit(np.array(logits))
        hit, false = (1.0, 0.0) if labelled is None else (rates[0], labelled.among @ rates[1:])

        def read(odds: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            share = scipy.special.expit(odds)
            return share, np.clip(hit * share + false * (1 - share), 1e-12, 1 - 1e-12)

        centre = mean
        for _ in range(_STEPS):  # Fisher's scoring, two units a step at most
            share, p = read(centre)
            change, weight = (hit - false) * share * (1 - share), p * (1 - p)
            gradient = (self.count - self.n * p) / weight * change - (centre - mean) / variance
            centre = centre + np.clip(gradient / (self.n * change**2 / weight + 1 / variance), -2.0, 2.0)
        share, p = read(centre)
        change = (hit - false) * share * (1 - share)
        scale = 1 / np.sqrt(self.n * change**2 / (p * (1 - p)) + 1 / variance)
        odds = centre + sqrt(2) * scale * _NODES[:, None]
        share, p = read(odds)
        off = odds - mean
        log_density = (
            self.count * np.log(p) + (self.n - self.count) * np.log1p(-p) - off**2 / (2 * variance) + _LOG_WEIGHTS
        )
        each = scipy.special.logsumexp(log_density, axis=0)
        total = float((each + np.log(scale) - np.log(variance) / 2).sum())
        posterior = np.exp(log_density - each)
        by_mean = (posterior * off).sum(axis=0) / variance
        by_variance = ((posterior * off**2).sum(axis=0) / variance - 1) / (2 * variance)
        gradient = [
            by_mean.sum(),
            (by_mean * self.mean + by_variance * 2 * slope * self.variance).sum(),
            (by_variance * 2 * scatter).sum(),
        ]
        if labelled is not None:
            by_p = posterior * (self.count / p - (self.n - self.count) / (1 - p))
            by_rate = np.concatenate([
                [(by_p * share).sum()], ((by_p * (1 - share)).sum(axis=0)[:, None] * labelled.among).sum(axis=0)
            ])  # fmt: skip
            total += float((labelled.hits * np.log(rates) + (labelled.total - labelled.hits) * np.log1p(-rates)).sum())
            gradient += list(by_rate * rates * (1 - rates) + labelled.hits - labelled.total * rates)
        return -total, -np.array(gradient)

    def profile(self, at: int, null: float, quantile: float) -> Coefficient:
        """Find a coefficient's interval by its profile, and p at ``null`` from the same."""
        best = float(self.best[at])
        fits = {best: (self.best, self.top)}

        def root(held: float) -> float:
            """Return the signed root of the fall in twice the log likelihood, near linear in what is held."""
            if held not in fits:
                inside = [each for each in fits if 0 <= (each - best) * np.sign(held - best) < abs(held - best)]
                near = min(inside, key=lambda each: abs(each - held))
                start = fits[near][0].copy()
                start[at] = held
                fits[held] = self._maximise(start, at)
            return float(np.sign(held - best) * sqrt(max(2 * (self.top - fits[held][1]), 0.0)))

        def end(way: int) -> float:
            near, far = 0.0, 0.3
            while (fall := way * root(best + way * far)) < quantile:
                if far > _LIMITS[1]:
                    return way * inf
                near, far = far, far * min(max(1.2 * quantile / max(fall, 1e-9), 1.3), 4.0)
            low, high = sorted((best + way * near, best + way * far))
            return float(scipy.optimize.brentq(lambda held: root(held) - way * quantile, low, high, xtol=1e-3))

        low, high = end(-1), end(1)
        p = 2 * float(scipy.stats.t.sf(abs(root(null)), len(self.n) - 2))
        return Coefficient(best, low, high, p if isfinite(best) else nan, null)
