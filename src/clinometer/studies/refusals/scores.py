"""Refusals: how often a model gave no picture, and whether it refuses one group more than the other.

A picture that is refused, or that shows nothing but one colour (what a filter leaves behind), cannot be scored. If such
pictures were missing at random nothing but precision would be lost; where they are not, the refusal is a finding of its
own, and every other number is about what was let through.

The prompt is what was sampled: a filter that dislikes one prompt refuses all of its pictures. So the interval and the
test are over prompts, and prompts that the suite matches (man/woman) are compared within their pair. See decision 26.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from math import isfinite, nan
from typing import Any

import numpy as np

from clinometer.metrics.differences import judge_sides
from clinometer.metrics.records import Score, permuted
from clinometer.metrics.verdict import Judgement, ReasonCode, Verdict, image_ends, judged_as, p_can_tell
from clinometer.stats.clusters import cluster_share, contrast
from clinometer.stats.dependence import order_p_value
from clinometer.stats.permutation import permute_labels
from clinometer.stats.proportion import Estimate, wilson_interval

METRIC = "refusal"
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
                metric=METRIC, component="rate", concept=concept, group=group, encoder=NO_ENCODER, value=rate.value,
                low=rate.low, high=rate.high, n_target=sum(prompt.n for prompt in members), reason=rate.reason,
            )
        )  # fmt: skip
    sides = [[prompt for prompt in counted if (prompt.side or prompt.group) == group] for group in (a, b)]
    return [*rates, _difference(sides[0], sides[1], a, b)] if all(sides) else rates


def _owner(prompt: PromptRefusals) -> tuple[str, str]:
    return ("", prompt.group) if prompt.group else (prompt.concept, "")


def _rate(prompts: Sequence[PromptRefusals]) -> Estimate:
    if len(prompts) == 1:
        return wilson_interval(prompts[0].refused, prompts[0].n)
    return cluster_share([prompt.rate for prompt in prompts], per_cluster=min(prompt.n for prompt in prompts))


def _difference(of_a: Sequence[PromptRefusals], of_b: Sequence[PromptRefusals], a: str, b: str) -> Score:
    difference = contrast([_rate(of_a), _rate(of_b)], [1.0, -1.0])
    n_a, n_b = (sum(prompt.n for prompt in side) for side in (of_a, of_b))
    row = Score(
        metric=METRIC, component="difference", group=a, encoder=NO_ENCODER, value=difference.value,
        low=difference.low, high=difference.high, n_a=n_a, n_b=n_b, reason=difference.reason,
    )  # fmt: skip
    if min(len(of_a), len(of_b)) < 2:
        return judged_as(replace(row, reason=ONE_PROMPT), Judgement(Verdict.TOO_FEW, reason_code=ReasonCode.NO_TEST))
    rates = np.array([[prompt.rate for prompt in (*of_a, *of_b)]])
    strata = _strata(of_a, of_b)
    test = permute_labels(rates, np.arange(rates.size) < len(of_a), strata=strata, rng=np.random.default_rng(0))
    within = "" if strata is None else " within matched pairs"
    row = replace(row, test=TEST.format(within), **permuted(test))
    row = replace(row, q=row.p, p_holm=row.p, family=f"{METRIC}: difference")
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
