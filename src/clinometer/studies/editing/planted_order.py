"""Do flips come in the order that was planted? For a model whose leaning is known: the reference model's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import nan
from typing import Final

import numpy as np
import scipy

from clinometer.errors import InvalidInputError
from clinometer.metrics.records import Score
from clinometer.studies.editing.design import EditingDesign, GenderReadings, setting_name
from clinometer.studies.editing.scores import METRIC, flips, read_gender

COMPONENT: Final = "planted_order"
FEWEST: Final = 3
"""Professions whose leaning must be known before their order says something."""


def planted_order(
    readings: Sequence[GenderReadings],
    groups: np.ndarray,
    design: EditingDesign,
    planted: Mapping[str, Mapping[str, float]],
    *,
    n_resamples: int = 2_000,
    seed: int = 0,
) -> list[Score]:
    """Rank correlation of flip rates with the planted probability of what they flip to, a row a strength and encoder.

    ::

        ρ = Spearman's correlation, over groups g and professions p,
            of  flip rate(g, p)  with  planted(p)[the other gender than g's]

    in [−1, 1]; 1: the more a profession was planted for the other gender, the oftener a portrait edited into it flips.
    The interval resamples portraits within groups, professions fixed. Draws are noisier than the rates themselves, so
    that it lies a little towards 0. ``n_target`` counts portraits.

    Parameters
    ----------
    groups : (n,) each portrait's position in ``design.groups``.
    planted : profession → gender → probability; professions that are not in it are left out.

    Raises
    ------
    InvalidInputError
        Groups that are not as many as the readings.
    """
    places = [place for place, name in enumerate(design.professions) if _leanings(planted, name, design)]
    if len(places) < FEWEST:
        return []
    names = list(design.professions)
    other = {design.a: design.b, design.b: design.a}
    truth = np.array([[planted[names[p]][other[group.gender]] for p in places] for group in design.groups])
    rows = []
    for reading in readings:
        if len(reading.before) != len(groups):
            raise InvalidInputError(f"{reading.encoder}: expected {len(groups)} portraits, found {len(reading.before)}")
        flipped, _ = flips(read_gender(reading.before), read_gender(reading.after))
        for s, strength in enumerate(design.strengths):
            by_group = [flipped[groups == g][:, places, s] for g in range(len(design.groups))]
            rows.append(_row(by_group, truth, reading.encoder, setting_name(strength), n_resamples, seed))
    return rows


def _leanings(planted: Mapping[str, Mapping[str, float]], name: str, design: EditingDesign) -> bool:
    return {design.a, design.b} <= set(planted.get(name, ()))


def _row(
    by_group: Sequence[np.ndarray], truth: np.ndarray, encoder: str, setting: str, n_resamples: int, seed: int
) -> Score:
    value = float(_spearman(np.array([_rates(group_flips) for group_flips in by_group])[None], truth)[0])
    low, high, reason = nan, nan, ""
    if not np.isfinite(value):
        reason = "a group has no flip rate, or all are alike: nothing to order"
    elif min(map(len, by_group)) < 2:
        reason = "a group has one portrait: no interval"
    else:
        low, high = _interval(by_group, truth, n_resamples, seed)
    return Score(
        metric=METRIC, component=COMPONENT, encoder=encoder, setting=setting, value=value, low=low, high=high,
        n_target=sum(map(len, by_group)), reason=reason,
    )  # fmt: skip


def _interval(by_group: Sequence[np.ndarray], truth: np.ndarray, n_resamples: int, seed: int) -> tuple[float, float]:
    """Percentiles over portraits resampled within groups; draws in which nothing can be ordered are left out."""
    rng = np.random.default_rng([seed, 4])
    drawn = [
        _rates(group_flips[rng.integers(len(group_flips), size=(n_resamples, len(group_flips)))])
        for group_flips in by_group
    ]
    low, high = np.nanquantile(_spearman(np.stack(drawn, axis=1), truth), [0.025, 0.975])
    return float(low), float(high)


def _rates(flipped: np.ndarray) -> np.ndarray:
    """Share of flips over the last axis but one, of what is there: (…, n, P) → (…, P); NaN where nothing is."""
    is_known = np.isfinite(flipped)
    count = is_known.sum(axis=-2)
    total = np.where(is_known, flipped, 0.0).sum(axis=-2)
    return np.asarray(np.divide(total, count, out=np.full(total.shape, nan), where=count > 0))


def _spearman(rates: np.ndarray, truth: np.ndarray) -> np.ndarray:
    """Correlation of mid-ranks: (B, G, P) and (G, P) → (B,); NaN where a rate is missing or all are alike."""
    ranks = scipy.stats.rankdata(rates.reshape(len(rates), -1), axis=1)
    x = scipy.stats.rankdata(truth.ravel())
    x = x - x.mean()
    y = ranks - ranks.mean(axis=1, keepdims=True)
    scale = np.sqrt((x**2).sum() * (y**2).sum(axis=1))
    return np.asarray(np.divide(y @ x, scale, out=np.full(len(y), nan), where=np.isfinite(scale) & (scale > 0)))
