"""Strengths of units whose pictures were compared two at a time: Bradley and Terry's model, with ties and position.

Of a comparison of a picture of unit i on the left with one of unit j on the right (Bradley & Terry 1952; ties by
Davidson 1970; the order by Davidson & Beaver 1977)::

    P(left) : P(right) : P(tie)  =  exp(λ_i + δ) : exp(λ_j) : ν exp((λ_i + λ_j + δ) / 2),      Σ_i λ_i = 0

It is a conditional logit, whose likelihood is concave. It has a maximum where every unit can be reached from every
other one by a chain of units that were preferred to the next, or tied with it (Ford 1957).

Comparisons that share a rater or a picture depend on each other, so neither is the unit of chance alone. The variance
is V_raters + V_pictures − V_comparisons (Cameron, Gelbach & Miller 2011), each by leaving one out in a step of Newton's
method from the maximum, which allows for what a rater of few weighs. λ is that of an average comparison, of raters and
pictures drawn at random: how either differ makes strengths smaller than those that any one rater sees.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from math import nan
from typing import Final

import numpy as np
import scipy
from numpy.typing import ArrayLike
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from clinometer._messages import first_and_more
from clinometer.errors import InvalidInputError
from clinometer.stats.arguments import require_confidence

LEFT, RIGHT, TIE = 0, 1, 2
FEWEST: Final = 10
"""Comparisons below which nothing is estimated."""

FEWEST_PICTURES: Final = 2
"""Pictures of a unit below which nothing says how they differ."""

SEPARATED: Final = (
    "some are preferred to all others, or to none, in every comparison, so that their strengths have no maximum of "
    "likelihood; half a win and half a loss against the average were added to each"
)
ONE_RATER: Final = "one rater: how raters differ is not known, so it is not in the interval"


@dataclass(frozen=True)
class Coefficients:
    """Estimates with intervals and p of the ``null``: (n,) each."""

    value: np.ndarray
    low: np.ndarray
    high: np.ndarray
    p: np.ndarray


_NONE: Final = Coefficients(*(np.zeros(0),) * 4)


@dataclass(frozen=True)
class PairedStrengths:
    """The strengths of K units.

    Attributes
    ----------
    strength : (K,) λ, log odds against a unit of average strength; positive: preferred more often. Null 0.
    preferred : (K,) probability of being preferred to a unit drawn from the others, ties half, without an order: in
        [0, 1], null ½.
    left : (1,) probability that the left one of two equals is preferred, ties half, in [0, 1], null ½.
    compared : (K,) comparisons of each unit, one of two of its pictures counted once.
    ties : share of ties.
    n, n_raters, n_pictures : comparisons between two units, who made them, and of which pictures.
    reason : why there is no estimate, or what has to be known of it.
    """

    strength: Coefficients = _NONE
    preferred: Coefficients = _NONE
    left: Coefficients = _NONE
    compared: np.ndarray = field(default_factory=lambda: np.zeros(0, int))
    ties: float = nan
    n: int = 0
    n_raters: int = 0
    n_pictures: int = 0
    reason: str = ""

    @property
    def defined(self) -> bool:
        """True if there is an estimate."""
        return len(self.strength.value) > 0


def paired_strengths(
    left: ArrayLike,
    right: ArrayLike,
    answers: ArrayLike,
    *,
    names: tuple[str, ...],
    raters: ArrayLike,
    left_pictures: ArrayLike,
    right_pictures: ArrayLike,
    confidence: float = 0.95,
) -> PairedStrengths:
    """Estimate the strengths of the units whose pictures were compared (module docstring).

    Comparisons of two pictures of one unit tell of the order and of ties alone.

    Parameters
    ----------
    left, right : (n,) the unit, from 0, of the picture on either side.
    answers : (n,) which was preferred: 0 the left one, 1 the right one, 2 neither.
    names : of the K units, for messages.
    raters, left_pictures, right_pictures : (n,) numbers of who compared, and of what.

    Raises
    ------
    InvalidInputError
        Arrays of different lengths, or numbers out of range.
    """
    require_confidence(confidence)
    arrays = [np.asarray(each, int) for each in (left, right, answers, raters, left_pictures, right_pictures)]
    k = len(names)
    if len({each.shape for each in arrays}) > 1 or arrays[0].ndim != 1:
        raise InvalidInputError.wrong_shape(
            "expected as many of each", field=("left", "right", "answers", "raters", "pictures")
        )
    i, j, answer, rater, *pictures = arrays
    if len(i) and not (
        min(i.min(), j.min()) >= 0 and max(i.max(), j.max()) < k and 0 <= answer.min() <= answer.max() < 3
    ):
        raise InvalidInputError.out_of_range(f"expected units from 0 to {k - 1} and answers from 0 to 2")
    compared = np.bincount(i, minlength=k) + np.bincount(j[i != j], minlength=k)
    about = PairedStrengths(
        compared=compared, n=len(i), n_raters=len(np.unique(rater)), n_pictures=len(np.unique(pictures)),
        ties=float((answer == TIE).mean()) if len(i) else nan,
    )  # fmt: skip
    if reason := _why_none(i, j, names):
        return replace(about, reason=reason)
    fit = _Fit(i, j, answer, k)
    values = fit.outputs(fit.at)
    variance, freedom = _variance(fit, rater, *pictures)
    shown = [len(np.unique(np.concatenate([pictures[0][i == unit], pictures[1][j == unit]]))) for unit in range(k)]
    few = np.array(shown) < FEWEST_PICTURES
    variance[: 2 * k][np.tile(few, 2)] = nan
    spread = np.sqrt(variance)
    reach = scipy.stats.t.isf((1 - confidence) / 2, freedom) * spread
    with np.errstate(divide="ignore", invalid="ignore"):
        p = 2 * scipy.stats.t.sf(np.abs(values) / spread, freedom)
    ends = [values, values - reach, values + reach]
    shares = [scipy.special.expit(each) for each in ends]
    alone = f"{FEWEST_PICTURES} pictures of each are needed for an interval, and one is there of " + first_and_more(
        [name for name, is_few in zip(names, few, strict=True) if is_few], 3
    )
    reasons = {SEPARATED: fit.is_separated, ONE_RATER: about.n_raters == 1, alone: few.any()}
    reason = "; ".join(why for why, holds in reasons.items() if holds)
    return replace(
        about,
        strength=Coefficients(*(each[:k] for each in (*ends, p))),
        preferred=Coefficients(*(each[k : 2 * k] for each in (*shares, p))),
        left=Coefficients(*(each[2 * k :] for each in (*shares, p))),
        reason=reason,
    )


def _why_none(i: np.ndarray, j: np.ndarray, names: Sequence[str]) -> str:
    """Explain why there are no strengths: too few comparisons, or units that no chain of comparisons links."""
    between = int((i != j).sum())
    if between < FEWEST:
        return f"{between} comparisons are between two of them, and it takes {FEWEST}"
    links = coo_array((np.ones(len(i)), (i, j)), shape=(len(names), len(names)))
    number, part = connected_components(links, directed=False)
    if number == 1:
        return ""
    sets = [[name for name, own in zip(names, part, strict=True) if own == each] for each in range(number)]
    told = " | ".join(first_and_more(each, 3) for each in sets[:3])
    return f"the comparisons fall into {number} sets that none links, so their strengths cannot be compared: {told}"


class _Fit:
    """The maximum of the likelihood of comparisons, as a conditional logit of three alternatives.

    Parameters are k − 1 contrasts of the strengths, the order δ, and log ν where there are ties.
    """

    def __init__(self, i: np.ndarray, j: np.ndarray, answer: np.ndarray, k: int) -> None:
        n, self.k, self.has_ties = len(i), k, bool((answer == TIE).any())
        tied = answer == TIE
        over = np.concatenate([np.where(answer == RIGHT, j, i), j[tied]])
        under = np.concatenate([np.where(answer == RIGHT, i, j), i[tied]])
        chains = coo_array((np.ones(len(over)), (over, under)), shape=(k, k))
        self.is_separated = connected_components(chains, directed=True, connection="strong")[0] > 1
        alternatives = 3 if self.has_ties else 2
        self.units = unit = scipy.linalg.helmert(k).T  # (k, k − 1), orthonormal: strengths add up to 0
        x = np.zeros((n, alternatives, k - 1 + 1 + self.has_ties))
        x[:, LEFT, : k - 1], x[:, RIGHT, : k - 1], x[:, LEFT, k - 1] = unit[i], unit[j], 1
        if self.has_ties:
            x[:, TIE] = (x[:, LEFT] + x[:, RIGHT]) / 2
            x[:, TIE, k] = 1
        self.x, self.answer = x, answer
        self.added = np.pad(unit, ((0, 0), (0, x.shape[2] - k + 1))) if self.is_separated else np.zeros((0, x.shape[2]))
        found = scipy.optimize.minimize(
            lambda at: self._loss(at)[0], np.zeros(x.shape[2]), jac=lambda at: self._loss(at)[1],
            hess=lambda at: self.information(self._centred(at)) + self._of_added(at)[2], method="trust-exact",
            options={"gtol": 1e-8 * n},
        )  # fmt: skip
        self.at: np.ndarray = found.x
        self.centred = self._centred(self.at)
        self.hessian = self.information(self.centred) + self._of_added(self.at)[2]
        self.scores = x[np.arange(n), answer] - self._mean

    def _loss(self, at: np.ndarray) -> tuple[float, np.ndarray]:
        """Return minus the log likelihood, and its gradient."""
        scale = self.x @ at
        chosen = np.arange(len(scale)), self.answer
        logs = scipy.special.log_softmax(scale, axis=1)
        mean = np.einsum("nk,nkd->d", np.exp(logs), self.x)
        value, gradient, _ = self._of_added(at)
        return value - float(logs[chosen].sum()), gradient + mean - self.x[chosen].sum(axis=0)

    def _of_added(self, at: np.ndarray) -> tuple[float, np.ndarray, np.ndarray]:
        """Return the same of half a win and half a loss of each unit, with the second derivative."""
        odds = self.added @ at
        p = scipy.special.expit(odds)
        value = -0.5 * float((scipy.special.log_expit(odds) + scipy.special.log_expit(-odds)).sum())
        return value, self.added.T @ (p - 0.5), (self.added.T * (p * (1 - p))) @ self.added

    def _centred(self, at: np.ndarray) -> np.ndarray:
        """Return how alternatives differ from their mean, times the root of their probability: (n, alternatives, d)."""
        p = scipy.special.softmax(self.x @ at, axis=1)
        self._mean = np.einsum("nk,nkd->nd", p, self.x)
        return np.asarray(np.sqrt(p)[:, :, None] * (self.x - self._mean[:, None]))

    @staticmethod
    def information(centred: np.ndarray) -> np.ndarray:
        """Return the information of some comparisons, (d, d)."""
        flat = centred.reshape(-1, centred.shape[2])
        return np.asarray(flat.T @ flat)

    def outputs(self, at: np.ndarray) -> np.ndarray:
        """Return strengths, and the logits of being preferred and of preferring the left one: (2K + 1,)."""
        strength = self.units @ at[: self.k - 1]
        ties = np.exp(at[self.k]) if self.has_ties else 0.0

        def wins(difference: np.ndarray) -> np.ndarray:
            tie = ties * np.exp(difference / 2)
            return np.asarray((np.exp(difference) + tie / 2) / (np.exp(difference) + 1 + tie))

        over = wins(strength[:, None] - strength)
        preferred = (over.sum(axis=1) - 0.5) / (self.k - 1)
        return np.concatenate([strength, scipy.special.logit(np.append(preferred, wins(at[self.k - 1])))])


def _variance(fit: _Fit, rater: np.ndarray, left: np.ndarray, right: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the variance of every output over raters and pictures, and its degrees of freedom (Satterthwaite)."""
    step = 1e-5 * np.eye(len(fit.at))
    slopes = np.array([(fit.outputs(fit.at + h) - fit.outputs(fit.at - h)) / 2e-5 for h in step])
    own = (np.linalg.solve(fit.hessian, fit.scores.T).T @ slopes) ** 2
    of_comparisons = own.sum(axis=0)
    raters, (of_raters, n_raters) = (
        np.unique(rater),
        _left_out(fit, slopes, [rater == each for each in np.unique(rater)]),
    )
    pictures = np.unique([left, right])
    of_pictures, n_pictures = _left_out(fit, slopes, [(left == each) | (right == each) for each in pictures])
    if len(raters) == 1:
        return of_pictures, np.full(len(of_pictures), n_pictures - 1.0)
    total = np.maximum(of_raters + of_pictures - of_comparisons, np.maximum(of_raters, of_pictures))
    spent = of_raters**2 / (n_raters - 1) + of_pictures**2 / (n_pictures - 1)
    return total, np.maximum(total**2 / spent, 1.0)


def _left_out(fit: _Fit, slopes: np.ndarray, members: Sequence[np.ndarray]) -> tuple[np.ndarray, int]:
    """Return the jackknife's variance of every output where one cluster of comparisons is left out at a time."""
    moved = []
    for own in members:
        rest = fit.hessian - fit.information(fit.centred[own])
        # of a unit of one picture nothing is left to say how it would move
        moved.append(np.linalg.lstsq(rest, -fit.scores[own].sum(axis=0), rcond=1e-6)[0] @ slopes)
    n = len(members)
    return (n - 1) / n * (np.array(moved) ** 2).sum(axis=0), n
