"""Differences between two runs: what their comparisons share, and each in words: more, alike, undecided.

A study lists its quantities. Each is a :class:`Family` of rows ``Δ = θ(second) − θ(first)``, one a unit, with the sides
of their verdicts. How Δ, its interval and its p are computed is up to the study. This module decides what may be
compared and what is paired, corrects and judges a family, and makes the row of mean magnitudes. See decision 8.

Of the same portraits, of which both runs measure every one, all that is compared is a weighted sum over groups of
portraits of their means, ``θ = Σ_g w_g mean_{i∈g} v_i``: a group's own rate, or the difference between two groups. See
decision 21.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import isfinite, nan
from typing import Any, Protocol, TypeVar

import numpy as np

from clinometer.errors import InvalidInputError
from clinometer.metrics.records import Score, corrected, permuted
from clinometer.metrics.verdict import (
    ATTRIBUTE_LEVEL,
    LEVEL,
    MISSING,
    REPEATS,
    Ends,
    Judgement,
    ReasonCode,
    Verdict,
    against_each_zero,
    anytime_q,
    decide_at_least_fewest,
    image_ends,
    judge_rows,
    judged_as,
    p_can_tell,
    units_of,
    with_both_zeros,
    with_bounds,
)
from clinometer.stats.bootstrap import magnitude_excess
from clinometer.stats.clusters import contrast, mean_difference, share_difference
from clinometer.stats.multiplicity import benjamini_hochberg, holm
from clinometer.stats.permutation import PermutationTest, permute_labels, permute_statistic
from clinometer.stats.proportion import Estimate

METRIC = "comparison"
FIRST, SECOND = "first", "second"
"""The runs of a comparison, as sides of a verdict."""
RUNS = (f"{FIRST} run", f"{SECOND} run")
"""The same, as the settings of rows about one of them alone."""

MOST_NAMED = 3
"""Prompts, targets or stimuli that a reason names; more are counted."""


def named_or_counted(names: Sequence[str], units: str) -> str:
    """Name the subjects of a reason, or count them where there are many: ``cook, judge``; ``5 targets``."""
    return ", ".join(names) if len(names) <= MOST_NAMED else f"{len(names)} {units}"


def judge_differences(
    rows: Sequence[Score],
    *,
    a: str | Sequence[str],
    b: str | Sequence[str],
    margin: float | None = None,
    ends: Ends = image_ends,
    fewest: int = 0,
) -> list[Score]:
    """Judge the rows of one family, each second minus first: ``MORE`` with the group that the second leans more to.

    A row whose two runs have a middle each is compared with 0 and with the difference of the middles: see
    :func:`clinometer.metrics.verdict.judge_family`. ``fewest`` : images below which there is no verdict.
    """
    of_zeros = iter(against_each_zero([row for row in rows if isfinite(row.middle)], margin, ends))

    def judge(row: Score, interval: tuple[float, float], q_alike: float, of_a: str, of_b: str) -> Judgement:
        together = _judge(row, interval, q_alike, of_a, of_b, fewest=fewest)
        if not isfinite(row.middle):
            return together
        zeros = next(of_zeros)
        by_0, by_middle = (
            judge_sides(replace(row, value=one.value, q=one.q, middle=nan), (one.low, one.high), of_a, of_b)
            for one in zeros
        )
        inside = zeros[0].q_equivalence <= LEVEL, zeros[1].q_equivalence <= LEVEL
        return with_both_zeros(together, by_0, by_middle, inside)

    judged = judge_rows(rows, judge, a=a, b=b, margin=margin, ends=ends)
    return [decide_at_least_fewest(row, fewest) for row in judged]


def _judge(row: Score, ends: tuple[float, float], q_alike: float, a: str, b: str, *, fewest: int) -> Judgement:
    if units_of(row) < fewest and isfinite(row.value):
        return Judgement(Verdict.TOO_FEW, reason_code=ReasonCode.TOO_FEW_IMAGES)
    if q_alike <= LEVEL and p_can_tell(row) and all(map(isfinite, (row.q, *ends))):
        return Judgement(Verdict.ALIKE)
    return _judge_exchanges(row, ends, a, b)


def _judge_exchanges(row: Score, ends: tuple[float, float], above: str, below: str) -> Judgement:
    """:func:`judge_sides`, where there are enough to exchange between the runs."""
    if isfinite(row.value) and not p_can_tell(row):
        return Judgement(Verdict.TOO_FEW, reason_code=ReasonCode.TOO_FEW_EXCHANGES)
    return judge_sides(row, ends, above, below)


def judge_sides(row: Score, ends: tuple[float, float], above: str, below: str) -> Judgement:
    """``MORE`` with the side above or below 0, where q and the interval both say so; with a middle, of both zeros."""
    low, high = ends
    if not all(map(isfinite, (row.q, low, high))):
        missing = ReasonCode.NO_TEST if isfinite(row.value) else ReasonCode.NO_ESTIMATE
        return Judgement(Verdict.NOT_MEASURED, reason_code=missing)
    beyond = int(low > 0) - int(high < 0)
    if isfinite(row.middle) and beyond != int(row.from_middle_low > 0) - int(row.from_middle_high < 0):
        return Judgement(Verdict.UNDECIDED, reason_code=ReasonCode.ZEROS_DISAGREE)
    if not beyond:
        return Judgement(Verdict.UNDECIDED, reason_code=ReasonCode.INTERVAL)
    if row.q > LEVEL:
        return Judgement(Verdict.UNDECIDED, reason_code=ReasonCode.CORRECTION)
    return Judgement(Verdict.MORE, side=above if row.value > 0 else below)


def judged_over_grid(rows: Sequence[Score], family: str) -> list[Score]:
    """Judge differences of several comparisons that are one family: all of one kind that a sweep asks about.

    ::

        q, p̃ = Benjamini–Hochberg, Holm over all rows with a p           family: every setting of the grid, every unit

    Each row comes with the verdict of its own comparison. One that the larger family does not bear out is undecided; a
    verdict is never made of none, so a row keeps one only if both corrections leave it.
    """
    alike = benjamini_hochberg(np.array([row.p_equivalence for row in rows], np.float64))
    judged = []
    for row, q_alike in zip(corrected(rows, family), alike, strict=True):
        corrected_row = replace(row, q_equivalence=float(q_alike))
        lost = row.q > LEVEL if row.verdict == Verdict.MORE else row.verdict == Verdict.ALIKE and q_alike > LEVEL
        undecided = Judgement(Verdict.UNDECIDED, reason_code=ReasonCode.CORRECTION)
        judged.append(judged_as(corrected_row, undecided) if lost else corrected_row)
    return judged


def judged_when_stopped(rows: Sequence[Score], family: str, sides: Sequence[tuple[str, str]]) -> list[Score]:
    """Judge differences of images that were drawn until decided, as one family; p is anytime-valid.

    ::

        e = 1 / (p − a),   q = a + Benjamini–Hochberg of e-values       a: what p gives away for the attribute images

    ``sides`` : the groups that a positive and a negative difference lean to, of each row. A row that was withheld
    before stays so.
    """
    p, p_alike = (np.array([getattr(row, name) for row in rows]) for name in ("p", "p_equivalence"))
    with np.errstate(divide="ignore"):
        q, q_alike = (anytime_q(1 / np.maximum(each - ATTRIBUTE_LEVEL, 0)) for each in (p, p_alike))
    judged = []
    for row, own, alike, adjusted, (a, b) in zip(rows, q, q_alike, holm(p), sides, strict=True):
        corrected_row = replace(row, q=float(own), q_equivalence=float(alike), p_holm=float(adjusted), family=family)
        if row.verdict == Verdict.NOT_MEASURED:
            judged.append(corrected_row)
            continue
        judgement = (
            Judgement(Verdict.ALIKE) if alike <= LEVEL else judge_sides(corrected_row, image_ends(corrected_row), a, b)
        )
        undecided = judgement.verdict == Verdict.UNDECIDED
        judged.append(judged_as(corrected_row, judgement, n_decide=corrected_row.n_decide if undecided else 0))
    return judged


def outward(low: float, high: float, excess: Sequence[float]) -> tuple[float, float]:
    """Return the ends of a difference of mean magnitudes, moved by what the first's and the second's may owe to chance.

    ``excess`` is their mean :func:`clinometer.stats.bootstrap.magnitude_excess`. Two runs that differ by nothing at all
    have an interval of no width, and owe nothing.
    """
    return (low, high) if low == high == 0 else (low - excess[1], high + excess[0])


def judge_magnitude(row: Score, ends: Ends = image_ends) -> Score:
    """Return which of two runs leans more over all, from the difference of their mean magnitudes."""
    return judged_as(row, _judge_exchanges(row, ends(row), SECOND, FIRST))


def not_measured(row: Score) -> Score:
    """Judge a row that holds no number."""
    return judged_as(row, Judgement(Verdict.NOT_MEASURED, reason_code=ReasonCode.NO_ESTIMATE))


Sides = str | Sequence[str]
"""The name of a side, for all rows of a family or for each."""

Key = TypeVar("Key")


class HasEncoder(Protocol):
    """The measurements of a run by one encoder."""

    @property
    def encoder(self) -> str:
        """The encoder's name."""
        ...


@dataclass(frozen=True, kw_only=True)
class Family:
    """One quantity of which two runs differ.

    Attributes
    ----------
    rows : a row a unit, with value, intervals and p.
    name : over what p is corrected; empty for rows without a test.
    sides : to whom the second run leans more where the difference is above 0, and below; None gives no verdict.
    margin, ends, fewest : see :func:`clinometer.metrics.differences.judge_differences`.
    fillings : the same rows with the pictures filled in that are missing, once for every way to do so.
    as_drawn : the same rows with pictures that repeat counted as often as they were drawn; none where none does.
    """

    rows: Sequence[Score]
    name: str = ""
    sides: tuple[Sides, Sides] | None = None
    margin: float | None = None
    ends: Ends = image_ends
    fewest: int = 0
    fillings: Sequence[Sequence[Score]] = ()
    as_drawn: Sequence[Score] = ()

    def corrected(self) -> list[Score]:
        """Return rows with their q-values and Holm's p."""
        return corrected(self.rows, f"{METRIC}: {self.name}") if self.name else list(self.rows)

    def judged(self) -> list[Score]:
        """Return the same with verdicts, where the quantity has sides, and with what fillings do to them."""
        ways = {MISSING: self.fillings, REPEATS: [self.as_drawn] if self.as_drawn else []}
        fillings = {
            kind: [replace(self, rows=rows, fillings=(), as_drawn=()).judged() for rows in some]
            for kind, some in ways.items()
        }
        rows = self.corrected()
        if self.sides is not None:
            a, b = self.sides
            rows = judge_differences(rows, a=a, b=b, margin=self.margin, ends=self.ends, fewest=self.fewest)
        return with_bounds(rows, fillings, self.ends)


def judged_families(families: Iterable[Family]) -> list[Score]:
    """Return the rows of all families, corrected and judged."""
    return [row for family in families for row in family.judged()]


def require_comparable(
    first: Sequence[HasEncoder], second: Sequence[HasEncoder], counts: Sequence[object], *, paired: bool
) -> None:
    """Refuse runs of different encoders and, where ``paired``, of different ``counts`` of images."""
    names = [[reading.encoder for reading in run] for run in (first, second)]
    if names[0] != names[1]:
        raise InvalidInputError.mismatch(
            f"found {names[0]} and {names[1]}, expected the same in both runs", field="encoders"
        )
    if paired and counts[0] != counts[1]:
        raise InvalidInputError.mismatch(
            "the runs have different numbers of images; pair them, or compare unpaired", field="paired"
        )


def image_seeds(seed: int, *, paired: bool) -> tuple[int, int]:
    """Return the seeds by which the images of either run are resampled: partners share theirs."""
    return seed, seed if paired else seed + 1


def cut_alike(images: Mapping[Key, np.ndarray], others: Mapping[Key, np.ndarray]) -> dict[Key, np.ndarray]:
    """Keep the first images of each, as many as the other run has: the magnitude of few is larger by chance."""
    return {key: own[: len(others[key])] for key, own in images.items()}


def magnitude_row(
    row: Score,
    excess: Sequence[float],
    stimulus_excess: Sequence[float] | None = None,
    *,
    ends: Ends = image_ends,
    containing: bool = False,
) -> Score:
    """Return which run leans more over all, ``mean |θ(second)| − mean |θ(first)|``: a family by itself, judged.

    ``row`` has the estimate, its p and its intervals with the signs of the estimates held. Their ends are moved
    outwards by what the first's and the second's magnitude may owe to chance: ``excess`` over images,
    ``stimulus_excess`` over stimuli, the same where it is not given. ``containing``: the interval over stimuli holds
    that over images, as it rests on more sources of chance.
    """
    low, high = outward(row.low, row.high, excess)
    outer = outward(row.stimulus_low, row.stimulus_high, excess if stimulus_excess is None else stimulus_excess)
    if containing and np.isfinite([*outer, low, high]).all():
        outer = min(outer[0], low), max(outer[1], high)
    moved = replace(row, low=low, high=high, stimulus_low=outer[0], stimulus_high=outer[1])
    return judge_magnitude(alone(moved), ends)


def bounded_magnitude(
    row: Score, own: np.ndarray, filled: np.ndarray, n_missing: int, ends: Ends = image_ends
) -> Score:
    """Return what missing pictures might do to a difference of mean magnitudes: each θ may be nearer to 0, or farther.

    ``own`` : θ of the first and of the second run, (2 × C). ``filled`` : both ends of what they may be, (2 × 2 × C).
    As far as these may move it, the difference is moved, as uncertain as it was; its p is left as it is.
    """
    size = np.abs(filled)
    least = np.where(filled.min(axis=1) * filled.max(axis=1) <= 0, 0.0, size.min(axis=1)) - np.abs(own)
    most = size.max(axis=1) - np.abs(own)
    shifts = [(least[1] - most[0]).mean(), (most[1] - least[0]).mean()]
    names = ("value", "low", "high", "stimulus_low", "stimulus_high")
    moved = [
        judge_magnitude(replace(row, **{name: getattr(row, name) + float(shift) for name in names}), ends)
        for shift in shifts
    ]
    row = replace(row, n_missing=n_missing)
    return with_bounds([row], {MISSING: [[one] for one in moved]}, ends)[0] if np.isfinite(shifts).all() else row


def alone(row: Score) -> Score:
    """Return a row that is a family by itself: there is nothing to correct for."""
    return replace(row, q=row.p, p_holm=row.p, family=f"{METRIC}: {row.component.replace('_', ' ')}")


def with_reasons(row: Score, *reasons: str) -> Score:
    """Add to what a row says of itself; empty parts are left out."""
    return replace(row, reason="; ".join(part for part in (row.reason, *reasons) if part))


SWAPPED = "runs swapped portrait by portrait, two-sided"
DEALT = "portraits of each group shuffled between the runs, two-sided"


@dataclass(frozen=True)
class PortraitPair:
    """The measurements of two runs on portraits.

    Attributes
    ----------
    first, second : by group, (portraits × columns) numbers; NaN where a portrait has none.
    paired : the i-th portraits of a group belong together: they are one picture, or were drawn from one noise.
    left_out : by group, for each column the names of what its numbers leave out, because one run has nothing of it.
    """

    first: Mapping[str, np.ndarray]
    second: Mapping[str, np.ndarray]
    paired: bool
    left_out: Mapping[str, Sequence[Collection[str]]] = field(default_factory=dict)

    def columns(self, *chosen: int) -> PortraitPair:
        """Return a copy with some of the columns."""
        first, second = (
            {group: values[:, list(chosen)] for group, values in run.items()} for run in (self.first, self.second)
        )
        left_out = {group: [names[at] for at in chosen] for group, names in self.left_out.items()}
        return PortraitPair(first, second, self.paired, left_out)

    def lacking(self, groups: Collection[str]) -> str:
        """Return the names of what the numbers of these groups leave out."""
        lists = [names for group in groups for names in self.left_out.get(group, ())]
        return ", ".join(dict.fromkeys(name for names in lists for name in names))


def difference_row(
    pair: PortraitPair,
    weights: Mapping[str, float],
    component: str,
    *,
    answers: int | None,
    n_permutations: int,
    rng: np.random.Generator,
    **named: Any,
) -> Score:
    """``Δ = θ(second) − θ(first)`` of one column, its interval, and p under the null that the models do alike.

    Shares of ``answers`` yes-or-no answers a portrait; means of anything where that is None. ``n_target`` counts
    portraits, of both runs where they are not paired.
    """
    parts = [
        mean_difference(pair.first[group][:, 0], pair.second[group][:, 0], paired=pair.paired)
        if answers is None
        else share_difference(pair.first[group][:, 0], pair.second[group][:, 0], answers, paired=pair.paired)
        for group in weights
    ]
    row = _note_what_lacks(_row(contrast(parts, list(weights.values())), component, **named), pair.lacking(weights))
    pool = _pool(pair, list(weights))
    if pool is None:
        return row
    test = permute_labels(
        (pool.values * np.array([[weights[group]] for group in pool.groups])).T, pool.second, strata=pool.strata,
        blocks=pool.groups, n_permutations=n_permutations, rng=rng,
    )  # fmt: skip
    return _add_test(row, test, paired=pair.paired)


def portrait_magnitude(
    pair: PortraitPair,
    weights: Mapping[str, np.ndarray],
    *,
    n_permutations: int,
    rng: np.random.Generator,
) -> Score:
    """Return which run leans more: ``mean_c |θ_c(second)| − mean_c |θ_c(first)|`` over the columns c.

    ``weights`` has a number a column for each group. Portraits that miss a column count in none. The interval holds the
    signs of the estimates; the test does not. The ends are moved outwards by what either run's magnitude may owe to
    columns near 0 (``magnitude_excess``).
    """
    pool = _pool(pair, list(weights))
    about: dict[str, Any] = {"component": "magnitude", "category": "all"}
    if pool is None:
        reason = "no two groups to compare have portraits that both runs measure"
        return not_measured(Score(metric=METRIC, reason=reason, **about))
    terms = pool.values * np.array([weights[group] for group in pool.groups])
    of_second, of_first = (
        terms / np.array([np.sum(pool.groups[side] == group) for group in pool.groups])[:, None]
        for side in (pool.second, ~pool.second)
    )

    def differ(members: np.ndarray) -> np.ndarray:
        seconds = members.astype(np.float64)
        return np.asarray(np.abs(seconds @ of_second).mean(axis=1) - np.abs((1 - seconds) @ of_first).mean(axis=1))

    signs = [np.sign((1 - pool.second) @ of_first), np.sign(pool.second @ of_second)]
    differences = [
        mean_difference(
            terms[~pool.second & inside] @ signs[0] / len(signs[0]),
            terms[pool.second & inside] @ signs[1] / len(signs[1]),
            paired=pair.paired,
        )
        for group in weights
        for inside in [pool.groups == group]
    ]
    row = _row(contrast(differences, [1.0] * len(differences)), **about)
    tolerance = 1e-10 * float(np.abs(of_second).sum() + np.abs(of_first).sum())
    test = permute_statistic(
        differ, pool.second, pool.strata, tolerance=tolerance, n_permutations=n_permutations, rng=rng
    )
    row = _note_what_lacks(_add_test(row, test, paired=pair.paired), pair.lacking(weights))
    return magnitude_row(row, [_excess(terms[side], pool.groups[side]) for side in (~pool.second, pool.second)])


def _excess(terms: np.ndarray, groups: np.ndarray) -> float:
    """Return by how much a run's mean magnitude may be too large, from its portraits' (n × columns) terms."""
    by_group = [terms[groups == group] for group in dict.fromkeys(groups.tolist())]
    with np.errstate(divide="ignore", invalid="ignore"):
        error = np.sqrt(sum(rows.var(axis=0, ddof=1) / len(rows) if len(rows) > 1 else np.nan for rows in by_group))
    return float(magnitude_excess(sum(rows.mean(axis=0) for rows in by_group), error).mean())


@dataclass(frozen=True)
class _Pool:
    """The portraits of both runs: (items × columns) values, whose run and group each is, and what changes places."""

    values: np.ndarray
    second: np.ndarray
    groups: np.ndarray
    strata: np.ndarray


def _pool(pair: PortraitPair, groups: list[str]) -> _Pool | None:
    """Concatenate both runs' portraits by group, without those that miss a number and their partners.

    None where there is no group, or one without a portrait.
    """
    values, second, names, strata = [], [], [], []
    for order, group in enumerate(groups):
        runs = [pair.first[group], pair.second[group]]
        whole = [np.isfinite(run).all(axis=1) for run in runs]
        if pair.paired:
            whole = [whole[0] & whole[1]] * 2
        portraits = [run[mask] for run, mask in zip(runs, whole, strict=True)]
        if not all(map(len, portraits)):
            return None
        for is_second, rows in enumerate(portraits):
            values.append(rows)
            second += [bool(is_second)] * len(rows)
            names += [group] * len(rows)
            strata += [(order, at if pair.paired else 0) for at in range(len(rows))]
    numbers = {key: number for number, key in enumerate(dict.fromkeys(strata))}
    if not values:
        return None
    return _Pool(
        np.concatenate(values), np.array(second), np.array(names), np.array([numbers[key] for key in strata])
    )  # fmt: skip


def _row(estimate: Estimate, component: str, **named: Any) -> Score:
    return Score(
        metric=METRIC, component=component, value=estimate.value, low=estimate.low, high=estimate.high,
        n_target=estimate.n, reason=estimate.reason, **named,
    )  # fmt: skip


def _note_what_lacks(row: Score, lacking: str) -> Score:
    """Note what a number leaves out, or why there is no number."""
    if not lacking:
        return row
    if not isfinite(row.value):
        return replace(row, reason=f"nothing was measured in one of the runs: {lacking}")
    return with_reasons(row, f"left out, as one of the runs has nothing of it: {lacking}")


def _add_test(row: Score, test: PermutationTest, *, paired: bool) -> Score:
    return replace(row, test=SWAPPED if paired else DEALT, **permuted(test))
