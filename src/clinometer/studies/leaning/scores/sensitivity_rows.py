"""Rows of how much the answer depends on the encoder, where a study has several."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from clinometer.metrics.mcas import COMPONENTS
from clinometer.metrics.records import Score
from clinometer.stats.agreement import kendall_tau_b

SENSITIVITY = "sensitivity"


def sensitivity_rows(rows: Sequence[Score], encoders: Sequence[str]) -> list[Score]:
    """Of every component, each encoder's size and its agreement with the others; none with a single encoder.

    ::

        size       mean_t |C_{e,t}|                            over the targets t that the encoder e can give
        agreement  τ_b(C_{e,·}, mean of C_{e',·} over e' ≠ e)   of the targets' order, in [−1, 1], jackknife interval
        spread     mean_t sd_e(C_{e,t})                        ddof 1; encoder ``"mean"``

    from the ``mcas`` rows. What an encoder cannot give (a text component of one that reads no text) is NaN with a
    reason, and is left out of the others' means.
    """
    if len(encoders) < 2:
        return []
    summaries = []
    for component in COMPONENTS:
        scores = np.array([_scores(rows, component, encoder) for encoder in encoders])
        for e, encoder in enumerate(encoders):
            others = _means(np.delete(scores, e, axis=0))
            summaries += [_size(component, encoder, scores[e]), _agreement(component, encoder, scores[e], others)]
        summaries.append(_spread(component, scores))
    return summaries


def _scores(rows: Sequence[Score], component: str, encoder: str) -> list[float]:
    return [row.value for row in rows if (row.metric, row.component, row.encoder) == ("mcas", component, encoder)]


def _means(scores: np.ndarray) -> np.ndarray:
    """Mean of the encoders that have a number, target by target; NaN where none has."""
    is_finite = np.isfinite(scores)
    total, count = np.where(is_finite, scores, 0.0).sum(axis=0), is_finite.sum(axis=0)
    return np.asarray(np.divide(total, count, out=np.full(total.shape, np.nan), where=count > 0))


def _size(component: str, encoder: str, scores: np.ndarray) -> Score:
    magnitudes = np.abs(scores[np.isfinite(scores)])
    value = float(magnitudes.mean()) if len(magnitudes) else float("nan")
    reason = "no interval: a summary of the targets at hand" if len(magnitudes) else "the encoder does not give it"
    return Score(
        metric=SENSITIVITY, component=component, setting="size", encoder=encoder, value=value, n_target=len(magnitudes),
        reason=reason,
    )  # fmt: skip


def _agreement(component: str, encoder: str, scores: np.ndarray, others: np.ndarray) -> Score:
    tau = kendall_tau_b(scores, others)
    return Score(
        metric=SENSITIVITY, component=component, setting="agreement", encoder=encoder, value=tau.value, low=tau.low,
        high=tau.high, n_target=tau.n, null=0.0, reason=tau.reason or "no stimulus interval: it is over targets",
    )  # fmt: skip


def _spread(component: str, scores: np.ndarray) -> Score:
    shared = scores[:, np.isfinite(scores).sum(axis=0) >= 2]
    spreads = [float(column[np.isfinite(column)].std(ddof=1)) for column in shared.T]
    return Score(
        metric=SENSITIVITY, component=component, setting="spread",
        value=float(np.mean(spreads)) if spreads else float("nan"), n_target=len(spreads),
        reason="no interval: a summary of the targets at hand" if spreads else "fewer than two encoders give it",
    )  # fmt: skip
