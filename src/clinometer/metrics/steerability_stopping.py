"""When the pictures of a steerability study tell enough: gaps that may be looked at after every round.

Of two groups a and b, let x_i say whether the i-th picture asked for a is read as a, and y_i whether the i-th asked for
b is read as b. With recalls ρ_a and ρ_b of the reader, and the true gap δ::

    E(x_i − y_i) = (ρ_a − ρ_b) + δ (ρ_a + ρ_b − 1)

whatever the success of either group is. So no gap is a statement about the mean of bounded observations, and bets on it
(:mod:`clinometer.stats.sequential`) hold after any number of pictures. The recalls come from labelled pictures, which
are there before the first is drawn: both lie within their exact intervals (Clopper and Pearson) but for a chance of
``ATTRIBUTE_LEVEL``, which is given away beforehand, and every bet is made against the worst recalls within these::

    leaning to a   E(x − y) ≤ ρ_a⁺ − ρ_b⁻                                    is refuted
    δ < margin     E(x − y) ≥ ρ_a⁻ − ρ_b⁺ + margin (ρ_a⁻ + ρ_b⁺ − 1)         is refuted

Pictures that are read as neither group are left out, as from the corrected gap; the i-th is then the i-th that is read.
The e-values of all concepts are one family, by the e-value form of Benjamini–Hochberg. A concept that is decided draws
no more, and one whose labels do not carry over decides nothing. See method.md, "Steerability", and decision 6.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import inf, isfinite, nan
from typing import Final, Literal

import numpy as np

from clinometer.errors import InvalidInputError
from clinometer.metrics.reading import AnsweredQuestion
from clinometer.metrics.records import Score
from clinometer.metrics.steered import SteeredPair, SteeredPictures, cells_by_prompt, labelled_table, pair_prompts
from clinometer.metrics.stopping import ATTRIBUTE_LEVEL, Evidence, anytime_p, in_family, without_inference
from clinometer.metrics.verdict import LEANING, LEVEL, MISSING, UNREAD, Judgement, ReasonCode, Verdict, judged_as
from clinometer.stats.equivalence import images_to_decide
from clinometer.stats.multiplicity import holm
from clinometer.stats.power import POWER
from clinometer.stats.proportion import clopper_pearson
from clinometer.stats.sequential import chance_to_reach, confidence_sequence, e_value

GAP_TEST: Final = "no gap: betting e-values within the labels' exact intervals, valid at any number of images"
_AHEAD: Final = np.geomspace(1, 1000, 350)


def gap_evidence(
    steered: Sequence[SteeredPictures], asked: AnsweredQuestion, *, margin: float | None = None, ahead: bool = False
) -> dict[str, Evidence]:
    """Judge the gap of every concept by the pictures there are; by concept, those that are withheld without evidence.

    Parameters
    ----------
    steered, asked, margin : as in :func:`clinometer.metrics.steerability.steerability_rows`, of two groups.
    ahead : also count the pictures that would decide.

    Returns
    -------
    ``value`` is the gap as the middle of the recalls' intervals has it; ``low`` and ``high`` hold it at 95 %, at any
    number of pictures. ``reach`` is NaN where more pictures decide nothing.

    Raises
    ------
    InvalidInputError
        As ``steerability_rows``; or there are more than two groups.
    """
    if len(asked.groups) != 2:
        raise InvalidInputError.unsupported(
            f"expected two, found {len(asked.groups)}; of more, fix the number of pictures", field="groups"
        )
    pairs = pair_prompts(cells_by_prompt(steered, asked.groups), asked, 0.95)
    found = in_family([_evidence_of(pair, margin) for pair in pairs])
    if ahead:
        needed = len(pairs) / (LEVEL - ATTRIBUTE_LEVEL)
        found = [
            replace(each, factor=_factor_ahead(pair, margin, needed) if isfinite(each.low) else inf)
            for pair, each in zip(pairs, found, strict=True)
        ]
    return {pair.a.concept: each for pair, each in zip(pairs, found, strict=True)}


def rows_when_stopped(
    rows: Sequence[Score], steered: Sequence[SteeredPictures], asked: AnsweredQuestion, margin: float | None
) -> list[Score]:
    """Judge the rows of pictures that were drawn until decided: the corrected gaps by evidence, and nothing else.

    Every other interval and test holds for a number of pictures fixed beforehand and is left out, with that reason.
    What was withheld stays withheld.
    """
    found = gap_evidence(steered, asked, margin=margin, ahead=True)
    p_holm = dict(zip(found, holm(np.array([each.p for each in found.values()])), strict=True))
    a, b = asked.groups
    kept = []
    for row in rows:
        if row.component in ("transport", "misfit", "recall_gap"):  # the labels' own, or about them
            kept.append(row)
        elif row.component != "corrected_gap" or not isfinite(row.value):
            kept.append(without_inference(row))
        else:
            kept.append(_decide(row, found[row.concept], float(p_holm[row.concept]), margin, (a, b)))
    return kept


def _decide(row: Score, stand: Evidence, p_holm: float, margin: float | None, sides: tuple[str, str]) -> Score:
    needed = 0
    if stand.balanced:
        judgement = Judgement(Verdict.BALANCED)
    elif stand.leans:
        slightly = margin is not None and abs(row.value) < margin
        side = sides[0] if stand.low > 0 else sides[1]
        judgement = Judgement(Verdict.LEANS_SLIGHTLY if slightly else Verdict.LEANS, side=side)
    else:
        code = ReasonCode.CORRECTION if stand.beyond[0] else ReasonCode.INTERVAL
        judgement, needed = Judgement(Verdict.UNDECIDED, reason_code=code), images_to_decide(stand.n, stand.factor)
    low, high = min(stand.low, row.value), max(stand.high, row.value)
    ends = min(row.bound_low, row.bound_low - row.low + low), max(row.bound_high, row.bound_high - row.high + high)
    depends = ""
    if judgement.verdict in LEANING and ends[0] <= 0 <= ends[1]:  # no ends where every picture is there and read
        depends = row.depends_on or (f"{UNREAD} {MISSING}" if row.n_missing else UNREAD)
    decided = replace(
        row, low=low, high=high, p=stand.p, q=stand.q, p_holm=p_holm, p_equivalence=anytime_p(stand.e_balance),
        q_equivalence=stand.q_balance, n_decide=needed, test=f"{GAP_TEST}; {row.test.rpartition('; ')[2]}",
        bound_low=ends[0], bound_high=ends[1], depends_on=depends,
    )  # fmt: skip
    return judged_as(decided, judgement)


def _observed(pair: SteeredPair) -> np.ndarray:
    """Return x_i − y_i of the pictures that are read, by their order: (n,)."""
    hits = [(each.answers[each.answers < 2] == k).astype(float) for k, each in enumerate((pair.a, pair.b))]
    n = min(map(len, hits))
    return np.asarray(hits[0][:n] - hits[1][:n])


def _table(pair: SteeredPair) -> np.ndarray:
    """Return the labelled answers of the prompt to which they say less: (2, 2)."""
    return min((labelled_table(each) for _, each in pair.prompts), key=lambda each: float(each.sum()))


def _recalls(table: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Bound both recalls, with a chance of ``ATTRIBUTE_LEVEL`` together: (2,) lower and upper ends."""
    return clopper_pearson(np.diag(table), table.sum(axis=1), ATTRIBUTE_LEVEL / 4)


def _means(low: np.ndarray, high: np.ndarray, margin: float | None) -> tuple[float, float, float, float]:
    """Return E(x − y) at its greatest and least without a gap, and at the least gap of +margin and greatest of −margin.

    NaN where there is no margin, or where some recalls within their bounds are no better than chance.
    """
    a_low, b_low, a_high, b_high = (float(each) for each in (*low, *high))
    ends = (a_high - b_low, a_low - b_high)
    if margin is None:
        return (*ends, nan, nan)
    return (*ends, ends[1] + margin * (a_low + b_high - 1), ends[0] - margin * (a_high + b_low - 1))


def _evidence_of(pair: SteeredPair, margin: float | None) -> Evidence:
    if pair.withheld[0]:
        return Evidence(len(_observed(pair)), nan, nan, nan, 1.0, e_balance=nan if margin is None else 1.0, reach=nan)
    return evidence_of_pairs(_observed(pair), _table(pair), margin)


def evidence_of_pairs(d: np.ndarray, table: np.ndarray, margin: float | None) -> Evidence:
    """Judge one gap by x_i − y_i (n,), and by how labelled pictures were answered (2, 2), a row a true group."""
    none = nan if margin is None else 1.0
    if not len(d):
        return Evidence(0, nan, nan, nan, 1.0, e_balance=none)
    low, high = _recalls(table)
    most, least, above, below = _means(low, high, margin)

    def bet(mean: float, alternative: Literal["greater", "less"]) -> float:
        return e_value(d, mean, low=-1.0, high=1.0, alternative=alternative)

    bounds = confidence_sequence(d, low=-1.0, high=1.0, confidence=0.95 + ATTRIBUTE_LEVEL)
    middle = (low + high) / 2
    return Evidence(
        n=len(d),
        value=_gap_at(float(d.mean()), float(middle[0] - middle[1]), float(middle.sum()) - 1, nan),
        low=_gap_at(float(bounds.low[-1]), most, float(high[0] + low[1]) - 1, -1.0),
        high=_gap_at(float(bounds.high[-1]), least, float(low[0] + high[1]) - 1, 1.0),
        e=(bet(most, "greater") + bet(least, "less")) / 2,
        e_balance=none if margin is None else min(bet(above, "less"), bet(below, "greater")),
    )


def _gap_at(mean: float, without: float, slope: float, none: float) -> float:
    """Return the gap at which E(x − y) is ``mean``; ``none`` where the reader may be no better than chance."""
    return float(np.clip((mean - without) / slope, -1.0, 1.0)) if slope > 0 else none


def _factor_ahead(pair: SteeredPair, margin: float | None, needed: float) -> float:
    """Find the times the pictures that decide with a chance of ``POWER``, if those to come are like those there are."""
    d, means = _observed(pair), _means(*_recalls(_table(pair)), margin)

    def chance(mean: float, alternative: Literal["greater", "less"], evidence: float) -> np.ndarray:
        return chance_to_reach(d, mean, np.array([evidence]), _AHEAD, low=-1.0, high=1.0, alternative=alternative)[:, 0]

    chances = np.maximum(chance(means[0], "greater", 2 * needed), chance(means[1], "less", 2 * needed))
    if margin is not None:
        chances = np.maximum(chances, chance(means[2], "less", needed) + chance(means[3], "greater", needed) - 1)
    reached = chances >= POWER
    return float(_AHEAD[reached.argmax()]) if reached.any() else inf
