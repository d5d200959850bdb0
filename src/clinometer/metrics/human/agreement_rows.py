"""Agreement: of raters with each other and with themselves, and of people with the machine."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from clinometer.metrics.human.design import HumanStudy, MachineScores, known_values
from clinometer.metrics.human.names import HUMAN, rated_items, raters_of
from clinometer.metrics.records import Score
from clinometer.stats.agreement import kendall_tau_b, krippendorff_alpha
from clinometer.stats.proportion import wilson_interval

RESAMPLES = 4_999


def agreement_rows(study: HumanStudy) -> list[Score]:
    """``alpha`` (Krippendorff's, nominal, bootstrap over items), ``self_consistency`` and ``attention``.

    ``n_target`` counts items that two or more rated, repeated items, and items with a known answer; ``n_a`` raters.
    """
    return [
        _alpha(study),
        _rate("self_consistency", study.same, study.repeats, "no item was asked twice", study),
        _rate("attention", study.right, study.checks, "no item had a known answer", study),
    ]


def correlation_rows(study: HumanStudy, shares: Mapping[str, float]) -> list[Score]:
    """``tau``: Kendall's τ-b over concepts of people's share of a against each score of the machine.

    Interval by the jackknife over concepts; the scores' and the shares' own sampling error is part of what scatters.
    """
    return [_tau(machine, shares, study) for machine in study.machine]


def _alpha(study: HumanStudy) -> Score:
    table = study.table
    alpha = krippendorff_alpha(table, confidence=study.confidence, n_resamples=RESAMPLES)
    return Score(
        metric=HUMAN, component="alpha", encoder="", value=alpha.value, low=alpha.low, high=alpha.high,
        n_target=alpha.n, n_a=raters_of(table), n_b=rated_items(table), reason=alpha.reason,
    )  # fmt: skip


def _rate(component: str, count: int, n: int, nothing: str, study: HumanStudy) -> Score:
    rate = wilson_interval(count, n, study.confidence)
    return Score(
        metric=HUMAN, component=component, encoder="", value=rate.value, low=rate.low, high=rate.high, n_target=n,
        n_a=raters_of(study.table), reason=nothing if n == 0 else "",
    )  # fmt: skip


def _tau(machine: MachineScores, shares: Mapping[str, float], study: HumanStudy) -> Score:
    people, scores = known_values(machine, shares)
    tau = kendall_tau_b(np.asarray(people), np.asarray(scores), confidence=study.confidence)
    return Score(
        metric=HUMAN, component="tau", setting=machine.name, encoder=machine.encoder, value=tau.value, low=tau.low,
        high=tau.high, p=tau.p, test="τ = 0, two-sided", n_target=tau.n, reason=tau.reason,
        family="human: a test by itself", q=tau.p, p_holm=tau.p,
    )  # fmt: skip
