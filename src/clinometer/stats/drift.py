"""Whether somebody's answers to the same questions have changed, looked at after every round of asking again.

The same m units are asked again round after round, and ``d_jb`` says whether unit j was answered in round b otherwise
than at first. Somebody who answers at random in part does so too, and of some units more than of others. While nothing
changes, however, the rounds of a unit may be put in any order. Given how often unit j differed in the first b rounds,
n_j times of c_j, it differed in the last of these by chance ``n_j / c_j``, and units by themselves::

    p_b = P( Σ_j Bernoulli(n_j / c_j) ≥ Σ_j d_jb )                        Poisson binomial, n_j and c_j with round b

These are conformal p-values of an online compression model (Vovk, Gammerman and Shafer 2005, *Algorithmic learning in
a random world*, chapter 8): taken in order they are as large as independent uniform ones, or larger. So a gambler who
starts at round k and bets on small ones multiplies a fortune by ``f(p)``, which is 1 on average, and as nobody knows k
all starts are bet on in parts::

    f(p) = ∫_0^1 ε p^(ε−1) dε = (1 − p + p log p) / (p log² p),      f(1) = 1/2
    E_b  = Σ_{k ≤ b} w_k ∏_{i=k}^{b} f(p_i) + Σ_{k > b} w_k,          w_k = 1 / (k (k + 1))

E is a test supermartingale, so the chance that it ever reaches 1/α is α at most (Ville), for any number of rounds and
units, whatever the units' own rates are. Nothing is asked but that answers of one unit at different times, and those of
different units, come about independently.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from clinometer.errors import InvalidInputError


@dataclass(frozen=True)
class AnswerDrift:
    """The result of asking again in rounds; rounds are counted from 0.

    Attributes
    ----------
    evidence : (B,) E after each round.
    p : (B,) of each round by itself; 1 of a round without answers.
    p_value : valid at any number of rounds: 1 / max E, at most 1.
    since : the round from which on answers differ, by the start that has won most when E was largest; 0 without rounds.
    before, after : share of answers that differ from the first ones, up to that round and from it on; NaN without any.
    """

    evidence: np.ndarray
    p: np.ndarray
    p_value: float
    since: int
    before: float
    after: float


def answer_drift(differs: np.ndarray) -> AnswerDrift:
    """Test whether answers to the same units change, after every round; see the module.

    Parameters
    ----------
    differs : (B × m) whether each unit was answered otherwise than at first, 0 or 1; NaN where it has no answer.

    Raises
    ------
    InvalidInputError
        Not a table of 0, 1 and NaN.

    Examples
    --------
    Eight units are answered alike in ten rounds, and four of them otherwise in the next three:

    >>> rounds = np.zeros((13, 8))
    >>> rounds[10:, :4] = 1
    >>> found = answer_drift(rounds)
    >>> found.since, found.p_value < 0.002
    (10, True)
    """
    d = np.asarray(differs, np.float64)
    if d.ndim != 2 or not np.isin(d[~np.isnan(d)], (0.0, 1.0)).all():
        raise InvalidInputError.expected_shape("0, 1 or NaN (rounds × units)", d, field="differs")
    rounds = len(d)
    there, log_starts = np.isfinite(d), np.full(rounds, -np.inf)
    counts, times = np.cumsum(np.nan_to_num(d), axis=0), np.cumsum(there, axis=0)
    p, evidence, since, most = np.ones(rounds), np.ones(rounds), 0, -np.inf
    for b in range(rounds):
        rates = counts[b, there[b]] / times[b, there[b]]
        p[b] = _at_least(rates, round(float(np.nansum(d[b]))))
        log_starts[b] = -np.log((b + 1) * (b + 2))
        log_starts[: b + 1] += np.log(_bet(p[b]))
        with np.errstate(over="ignore"):
            evidence[b] = np.exp(log_starts[: b + 1]).sum() + 1 / (b + 2)
        if evidence[b] > most:
            since, most = int(log_starts[: b + 1].argmax()), evidence[b]
    return AnswerDrift(
        evidence, p, float(min(1.0, 1 / most)) if rounds else 1.0, since, _share(d[:since]), _share(d[since:])
    )


def _share(d: np.ndarray) -> float:
    return float(np.nanmean(d)) if np.isfinite(d).any() else float("nan")


def _at_least(rates: np.ndarray, count: int) -> float:
    """Return P(Σ Bernoulli(rate) ≥ count), by convolution: no term is negative, so no digit is lost."""
    mass = np.ones(1)
    for rate in rates[rates > 0]:
        mass = np.convolve(mass, [1 - rate, rate])
    return float(np.clip(mass[count:].sum(), np.finfo(float).tiny, 1.0))


def _bet(p: float) -> float:
    """Return f(p), by its series near 1, where the formula is 0 / 0."""
    x = np.log(p)
    if x > -1e-3:
        return float(0.5 - x / 6)
    return float((1 - p + p * x) / (p * x * x))
