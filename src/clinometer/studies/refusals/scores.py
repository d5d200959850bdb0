"""Refusals: how often a model gave no picture, and whether it refuses one group, or more than another model.

A picture that is refused, or that shows nothing but one colour (what a filter leaves behind), cannot be scored. If such
pictures were missing at random nothing but precision would be lost; where they are not, the refusal is a finding of its
own, and every other number is about what was let through.

The prompt is what was sampled: a filter that dislikes one prompt refuses all of its pictures. So the interval and the
test are over prompts, and prompts that the suite matches (man/woman) are compared within their pair. See decision 26.

Two runs that were asked the same are compared prompt by prompt, whatever their seeds. Results over all, or of a group,
are about prompts like these, and prompts that may be judged alike are one unit, as all of one concept and the matched
ones of two groups. The result of a single prompt is about it alone, and is computed from its pictures.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from math import isfinite, nan
from typing import Any

import numpy as np

from clinometer.metrics.differences import FIRST, METRIC, RUNS, SECOND, Family, alone, judge_sides, not_measured
from clinometer.metrics.records import Score, permuted, storable
from clinometer.metrics.verdict import Judgement, ReasonCode, Verdict, image_ends, judged_as, p_can_tell, stimulus_ends
from clinometer.stats.clusters import cluster_share, contrast, share_difference
from clinometer.stats.dependence import order_p_value
from clinometer.stats.permutation import permute_labels, sign_flip_test
from clinometer.stats.proportion import Estimate, share_exchange, wilson_interval

REFUSAL = "refusal"
NO_ENCODER = ""
TEST = "prompts' rates, labels permuted{} over prompts, two-sided"
ONE_PROMPT = "one prompt in a group: whether another prompt would be refused is not known"


@dataclass(frozen=True)
class PromptRefusals:
    """What became of one prompt's pictures.

    Attributes
    ----------
    concept, group : what the prompt asks for; empty where it names none.
    pair : the name that it shares with its match in the other group; empty without one.
    refused, n : pictures refused or of one colour, and pictures asked for; those that failed are not counted.
    side : the group that it is compared as, where that is not ``group``: the gender of a group of portraits.
    """

    concept: str
    group: str
    pair: str
    refused: int
    n: int
    side: str = ""

    @property
    def rate(self) -> float:
        """The share of its pictures that are missing."""
        return self.refused / self.n if self.n else nan


def refusal_scores(prompts: Sequence[PromptRefusals], *, a: str, b: str, even_none: bool = False) -> list[Score]:
    """Return rates by concept and group, and the difference between groups a and b; empty where none was refused.

    ::

        difference = mean_{prompts of a} rate − mean_{prompts of b} rate        in [−1, 1], positive: a is refused more

    Parameters
    ----------
    prompts : one for each prompt that was asked.
    a, b : the two groups compared.
    even_none : rows also where none was refused.

    Returns
    -------
    Rows of metric ``refusal``: ``rate`` (Wilson's interval for one prompt, for several that of their shares, see
    :func:`clinometer.stats.clusters.cluster_share`) and ``difference`` (its interval from the two rates', Zou & Donner
    2008; p by permuting prompts; verdict ``MORE`` with the group that is refused more).
    """
    counted = [prompt for prompt in prompts if prompt.n]
    if not even_none and not any(prompt.refused for prompt in counted):
        return []
    rates = []
    for (concept, group), items in groupby(sorted(counted, key=_owner), key=_owner):
        members = list(items)
        rate = _rate(members)
        rates.append(
            Score(
                metric=REFUSAL, component="rate", concept=concept, group=group, encoder=NO_ENCODER, value=rate.value,
                low=rate.low, high=rate.high, n_target=sum(prompt.n for prompt in members), reason=rate.reason,
            )
        )  # fmt: skip
    sides = [[prompt for prompt in counted if (prompt.side or prompt.group) == group] for group in (a, b)]
    return [*rates, _difference(sides[0], sides[1], a, b)] if all(sides) else rates


def _owner(prompt: PromptRefusals | ComparedPrompt) -> tuple[str, str]:
    return ("", prompt.group) if prompt.group else (prompt.concept, "")


def _rate(prompts: Sequence[PromptRefusals]) -> Estimate:
    if len(prompts) == 1:
        return wilson_interval(prompts[0].refused, prompts[0].n)
    return cluster_share([prompt.rate for prompt in prompts], per_cluster=min(prompt.n for prompt in prompts))


def _difference(of_a: Sequence[PromptRefusals], of_b: Sequence[PromptRefusals], a: str, b: str) -> Score:
    difference = contrast([_rate(of_a), _rate(of_b)], [1.0, -1.0])
    n_a, n_b = (sum(prompt.n for prompt in side) for side in (of_a, of_b))
    row = Score(
        metric=REFUSAL, component="difference", group=a, encoder=NO_ENCODER, value=difference.value,
        low=difference.low, high=difference.high, n_a=n_a, n_b=n_b, reason=difference.reason,
    )  # fmt: skip
    if min(len(of_a), len(of_b)) < 2:
        return judged_as(replace(row, reason=ONE_PROMPT), Judgement(Verdict.TOO_FEW, reason_code=ReasonCode.NO_TEST))
    rates = np.array([[prompt.rate for prompt in (*of_a, *of_b)]])
    strata = _strata(of_a, of_b)
    test = permute_labels(rates, np.arange(rates.size) < len(of_a), strata=strata, rng=np.random.default_rng(0))
    within = "" if strata is None else " within matched pairs"
    row = replace(row, test=TEST.format(within), **permuted(test))
    row = replace(row, q=row.p, p_holm=row.p, family=f"{REFUSAL}: difference")
    few = Judgement(Verdict.TOO_FEW, reason_code=ReasonCode.TOO_FEW_EXCHANGES)
    return judged_as(row, judge_sides(row, image_ends(row), a, b) if p_can_tell(row) else few)


def _strata(of_a: Sequence[PromptRefusals], of_b: Sequence[PromptRefusals]) -> np.ndarray | None:
    """Number the pairs, where every prompt of a has one match in b; prompts of one concept are matched by it."""
    keys = [[(prompt.concept, prompt.pair) for prompt in side] for side in (of_a, of_b)]
    matched = sorted(keys[0]) == sorted(keys[1]) and len(set(keys[0])) == len(keys[0])
    if not matched or keys[0] == [("", "")]:
        return None
    numbers = {key: number for number, key in enumerate(keys[0])}
    return np.array([numbers[key] for side in keys for key in side])


PICTURES = "pictures"
"""The metric of repeated pictures."""

ONE_A_PROMPT = "one picture a prompt"
IN_ORDER = "in an order that is not of chance"
ORDER_TEST = "order of a prompt's pictures permuted, two-sided"
ORDER_LEVEL = 0.01
"""Largest p that counts as not due to chance: small, as every run is tested without being asked."""


def repeat_scores(drawn: Mapping[tuple[str, str], Sequence[Sequence[int]]]) -> list[Score]:
    """Count repeated pictures: of all and of each concept and group; return no row where there are none.

    Rows of metric ``pictures``, component ``repeated``: their share, ``n_target`` of all and ``n_repeated``. Over all
    (category ``all``), p tests whether they came in random order; ``flag`` marks that every prompt with repeats
    returned a single picture, as with a fixed seed, or that p is small, as with a cache.

    Parameters
    ----------
    drawn : by concept and group, for each prompt what was drawn, one number a picture, in the order of the plan.
    """
    counts = {
        owner: (sum(map(len, prompts)), sum(len(pictures) - len(set(pictures)) for pictures in prompts))
        for owner, prompts in drawn.items()
    }
    if not any(repeated for _, repeated in counts.values()):
        return []
    sequences = [np.array(pictures) for prompts in drawn.values() for pictures in prompts]
    p = order_p_value(sequences)
    single = all(len(set(x.tolist())) == 1 for x in sequences if len(set(x.tolist())) < len(x))
    flag = ONE_A_PROMPT if single else IN_ORDER if p <= ORDER_LEVEL else ""

    def row(n: int, repeated: int, **about: Any) -> Score:
        return Score(
            metric=PICTURES, component="repeated", encoder=NO_ENCODER, value=repeated / n, n_target=n,
            n_repeated=repeated, reason="a count: nothing is estimated", **about,
        )  # fmt: skip

    totals = [sum(column) for column in zip(*counts.values(), strict=True)]
    over_all = row(*totals, category="all", flag=flag, p=p, test=ORDER_TEST if isfinite(p) else "")
    return [over_all, *(row(*counts[owner], concept=owner[0], group=owner[1]) for owner in counts if counts[owner][1])]


OWN_RATE = "own_refusal_rate"
"""The component of a run's own rates, which are no differences; ``setting`` says whose."""

RATE = "refusal_rate"
GAP = "refusal_difference"

SWAPPED = "runs swapped prompt by prompt, prompts of one concept or pair together, two-sided"
EXCHANGED = "runs swapped image by image, two-sided"
DEALT = "images shuffled between the runs, two-sided"


@dataclass(frozen=True)
class ComparedPrompt:
    """What became of one prompt's pictures in two runs.

    Attributes
    ----------
    concept, group, pair, side : as in :class:`clinometer.studies.refusals.scores.PromptRefusals`.
    prompt : its text.
    first, second : (pictures,) whether each that was answered is missing, refused or of one colour. Where the runs are
        paired, the i-th of both start from one noise.
    """

    concept: str
    group: str
    pair: str
    prompt: str
    first: np.ndarray
    second: np.ndarray
    side: str = ""

    @property
    def rates(self) -> tuple[float, float]:
        """The shares of its pictures that are missing, in the first and in the second run."""
        return float(np.mean(self.first)), float(np.mean(self.second))

    @property
    def unit(self) -> tuple[str, str]:
        """What is judged at once: a concept, a pair of matched prompts, or the prompt alone."""
        if self.concept:
            return "concept", self.concept
        return ("pair", self.pair) if self.pair else ("prompt", self.prompt)


def compare_refusals(prompts: Sequence[ComparedPrompt], *, a: str, b: str, paired: bool) -> list[Score]:
    """Return differences between two runs' refusal rates, second minus first; nothing where neither refused anything.

    ::

        Δ_u = r_u(second) − r_u(first)       r_u: mean over the unit's prompts of the share of pictures missing
        Δ   = mean_u Δ_u                     in [−1, 1], positive: the second refuses more
        ΔG  = G(second) − G(first)           in [−2, 2], G = mean_{units of a} r − mean_{units of b} r

    ======================= ====================================================================================
    component               what
    ======================= ====================================================================================
    ``refusal_rate``        Δ over all units (category ``all``), of each concept and of each group; with a verdict
    ``refusal_difference``  ΔG, where the suite compares groups a and b; positive: the second's refusals tilt to a
    ``own_refusal_rate``    the rates themselves; ``setting`` names the run
    ======================= ====================================================================================

    Of several prompts, p swaps the two runs unit by unit and counts how often |Δ| comes out as large;
    ``stimulus_low, stimulus_high`` is Newcombe's interval for pairs, of units, and decides the verdict; ``low, high``
    is over pictures, the prompts fixed, from the prompts' own intervals. Where over all only the latter excludes 0, the
    verdict is that the one run refuses more of these prompts, which may not be true of others like them.

    Of one prompt, pictures change places: within pairs where they are ``paired`` (McNemar's exact test), else all of
    them (Fisher's); the interval is Newcombe's. q is over the concepts and groups of which either run refused anything:
    of the others p is 1 whatever the runs do, so that leaving them out keeps the level. A prompt that one run did not
    answer at all, because all its pictures failed, counts in neither.

    Parameters
    ----------
    prompts : one for each prompt that was asked.
    a, b : the groups that the suite compares; empty where it compares none.
    paired : whether pictures of a prompt are pairs.
    """
    whole = [prompt for prompt in prompts if len(prompt.first) and len(prompt.second)]
    if not _any_refused(whole):
        return []
    by_owner = sorted(whole, key=lambda prompt: (*_owner(prompt), prompt.prompt))
    lost = len(prompts) - len(whole)
    note = f"left out for want of an answer in one of the runs: {lost} of the prompts" if lost else ""
    over_all, *rates = _rows(by_owner, paired, category="all")
    over_all = _judge(alone(replace(over_all, reason=note)))
    tell = isfinite(over_all.stimulus_low) and not over_all.low <= 0 <= over_all.high
    if tell and over_all.verdict in (Verdict.UNDECIDED, Verdict.TOO_FEW):  # prompts do not decide, but pictures do
        of_these = Judgement(Verdict.MORE_HERE, side=SECOND if over_all.value > 0 else FIRST)
        over_all = judged_as(over_all, of_these)
    detail = [
        _rows(members, paired, concept=concept, group=group)
        for (concept, group), items in groupby(by_owner, key=_owner)
        for members in [list(items)]
        if _any_refused(members)
    ]
    family = Family(rows=[rows[0] for rows in detail], name=f"refusals of {len(detail)} concepts and groups")
    judged = [*_gap(by_owner, a, b, paired), *map(_judge, family.corrected())]
    return [over_all, *rates, *judged, *(row for rows in detail for row in rows[1:])]


def unknown_refusals(reason: str) -> list[Score]:
    """Return the one row of runs whose refusals cannot be compared."""
    return [not_measured(Score(metric=METRIC, component=RATE, category="all", encoder=NO_ENCODER, reason=reason))]


def _units(prompts: Iterable[ComparedPrompt]) -> list[list[ComparedPrompt]]:
    """Return groups of prompts that are judged at once."""
    units: dict[tuple[str, str], list[ComparedPrompt]] = defaultdict(list)
    for prompt in prompts:
        units[prompt.unit].append(prompt)
    return list(units.values())


def _rows(prompts: Sequence[ComparedPrompt], paired: bool, **about: str) -> list[Score]:
    """Return the difference, then the rate of each run.

    Of one prompt, intervals and test are over its pictures; of several over units, and an interval over pictures, too.
    """
    if len(prompts) == 1:
        (prompt,) = prompts
        difference = share_difference(prompt.first, prompt.second, paired=paired)
        test = share_exchange(prompt.first, prompt.second, paired=paired)
        measures: dict[str, Any] = {
            "value": difference.value, "low": difference.low, "high": difference.high,
            "test": EXCHANGED if paired else DEALT, "p": test.p_value, "p_exact": True, "p_error": 0.0,
            "n_splits": storable(test.n_exchanges), "p_method": "exact", "p_low": test.p_value, "p_high": test.p_value,
        }  # fmt: skip
        run_rates = [wilson_interval(int(run.sum()), len(run)) for run in (prompt.first, prompt.second)]
    else:
        units = _units(prompts)
        rates = _unit_rates(units)
        flips = permuted(sign_flip_test(rates[:, 1] - rates[:, 0]))
        measures = {**_intervals(_over_pictures(units, paired), _over_units(units)), "test": SWAPPED, **flips}
        run_rates = [cluster_share(column, _answers(units)) for column in rates.T]
    counts = _counts(prompts)
    fields: dict[str, Any] = {"metric": METRIC, "encoder": NO_ENCODER, **about}
    rows = [Score(component=RATE, n_target=min(counts), **measures, **fields)]
    for name, rate, n in zip(RUNS, run_rates, counts, strict=True):
        fields |= {"value": rate.value, "low": rate.low, "high": rate.high}
        rows.append(Score(component=OWN_RATE, setting=name, n_target=n, **fields))
    return rows


def _intervals(pictures: Estimate, units: Estimate) -> dict[str, Any]:
    return {
        "value": units.value, "low": pictures.low, "high": pictures.high,
        "stimulus_low": units.low, "stimulus_high": units.high,
    }  # fmt: skip


def _over_units(units: Sequence[Sequence[ComparedPrompt]]) -> Estimate:
    rates = _unit_rates(units)
    return share_difference(rates[:, 0], rates[:, 1], _answers(units), paired=True)


def _over_pictures(units: Sequence[Sequence[ComparedPrompt]], paired: bool) -> Estimate:
    """Return the same mean with the prompts fixed: its interval from those of the prompts."""
    parts = [share_difference(prompt.first, prompt.second, paired=paired) for unit in units for prompt in unit]
    return contrast(parts, [1 / len(unit) / len(units) for unit in units for _ in unit])


def _unit_rates(units: Sequence[Sequence[ComparedPrompt]]) -> np.ndarray:
    """Return the mean over a unit's prompts in either run, (units × 2)."""
    return np.array([np.mean([prompt.rates for prompt in unit], axis=0) for unit in units])


def _answers(units: Sequence[Sequence[ComparedPrompt]]) -> int:
    """Return the fewest pictures that a unit's rate rests on."""
    return min(min(_counts(unit)) for unit in units)


def _gap(prompts: Sequence[ComparedPrompt], a: str, b: str, paired: bool) -> list[Score]:
    """Compare the groups' difference between runs, where both groups are asked for and either run refused some."""
    sides = [[prompt for prompt in prompts if name and (prompt.side or prompt.group) == name] for name in (a, b)]
    if not all(sides) or not any(_any_refused(side) for side in sides):
        return []
    by_side = [_units(side) for side in sides]
    fields = _intervals(
        contrast([_over_pictures(units, paired) for units in by_side], (1, -1)),
        contrast([_over_units(units) for units in by_side], (1, -1)),
    )
    row = Score(
        metric=METRIC, component=GAP, category="all", group=a, encoder=NO_ENCODER, **fields,
        n_a=min(_counts(sides[0])), n_b=min(_counts(sides[1])),
    )  # fmt: skip
    if min(map(len, by_side)) < 2:
        return [_judge(replace(row, reason=ONE_PROMPT))]
    # the contribution of each unit; a pair has a prompt on either side
    contributions: dict[tuple[str, str], float] = defaultdict(float)
    for units, sign in zip(by_side, (1, -1), strict=True):
        for unit, (first, second) in zip(units, _unit_rates(units), strict=True):
            contributions[unit[0].unit] += sign * (second - first) / len(units)
    test = sign_flip_test(np.array(list(contributions.values())))
    row = alone(replace(row, test=SWAPPED, **permuted(test)))
    first, second = np.abs(np.subtract(*(_unit_rates(units).mean(axis=0) for units in by_side)))
    whose, above, below = (SECOND, a, b) if second >= first else (FIRST, b, a)  # whose own difference is larger
    return [replace(_judge(row, above, below), setting=f"{whose} run")]


def _any_refused(prompts: Iterable[ComparedPrompt]) -> bool:
    return any(prompt.first.any() or prompt.second.any() for prompt in prompts)


def _counts(prompts: Sequence[ComparedPrompt]) -> list[int]:
    """Count how many pictures either run answered."""
    return [sum(len(prompt.first) for prompt in prompts), sum(len(prompt.second) for prompt in prompts)]


def _judge(row: Score, above: str = SECOND, below: str = FIRST) -> Score:
    """Judge a row by q and by its interval, over prompts where there are several."""
    ends = stimulus_ends(row) if isfinite(row.stimulus_low) else image_ends(row)
    return judged_as(row, judge_sides(row, ends, above, below))
