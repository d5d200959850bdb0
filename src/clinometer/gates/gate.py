"""Check a finished run against a policy: which of its numbers keep their limits, and what follows for the whole.

See decision 50.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import numpy as np
import pandas as pd

from clinometer.errors import GateError, RunCorruptError, RunNotFoundError
from clinometer.gates.numbers import LAST, GateReason, History, Numbers, compare_with_history, find_history
from clinometer.gates.outcome import Gate, Outcome, RuleOutcome, rule_limits_in_words
from clinometer.gates.policy import Policy, Rule, policy_from_mapping
from clinometer.metrics.verdict import LEVEL
from clinometer.ratings import mixed_raters
from clinometer.runs.encoding import require_drawn
from clinometer.runs.run import Run
from clinometer.runs.verification import outdated, require_foundation
from clinometer.stats.power import HeldToLimits, hold_to_limits
from clinometer.studies import study_of
from clinometer.studies.refusals.scores import REFUSAL

COLUMNS: Final = (
    "rule", "outcome", "reason", "metric", "component", "concept", "category", "group", "setting", "encoder", "value",
    "low", "high", "at_least", "at_most", "p", "p_holm", "n_target", "n_decide", "carried_by", "change", "since",
    "spread", "n_history",
)  # fmt: skip
"""Columns of :attr:`Gate.table`; the last four are of rules against the history, and empty elsewhere."""


def gate(
    run: Run,
    policy: Policy,
    baseline: Run | None = None,
    *,
    history: str | None = None,
    last: int = LAST,
    source: str = "gate",
    unchecked: bool = False,
) -> Gate:
    """Check a run against a policy.

    A number keeps its limits where its 95 % interval lies within them, and breaks them where the interval lies beyond,
    after Holm's correction over all numbers of the policy. So of runs with a number at its limit or beyond about 2.5 in
    100 pass at most, and of runs whose numbers all keep their limits at most 5 in 100 are called broken
    (:func:`clinometer.stats.power.hold_to_limits`). A number that has no verdict because there are too few
    images, or because its encoder does not fit, is undecided.

    Against the history, a number breaks its limits where it is shown to have changed, and the change is beyond them.
    Of all gates of a year of nights, at most 5 in 100 years see any that has not changed called so
    (:func:`clinometer.stats.change.latest_change`).

    Parameters
    ----------
    history : a folder of runs that were accepted, of which the ``last`` are compared with.
    source : where the policy stands, for messages.
    unchecked : whether a run without checksums is held to limits all the same.

    Raises
    ------
    GateError
        A rule names numbers that the run does not have, differences where no baseline is given, or changes where no
        history is.
    RunError
        A run is not drawn to the end, not scored since it changed, or cannot be compared with the other; it has no
        checksums; or something that its numbers rest on is gone, or is not what was written.
    """
    _require_what_is_compared(policy, baseline, history, source)
    runs = (run,) if baseline is None else (run, baseline)
    for each in runs:
        if each.unchecked and not unchecked:
            raise RunCorruptError(
                f"{each.url}: {each.unchecked}, and such a run passes no gate; to hold it to limits all the same, give "
                "--unchecked"
            )
    require_current_scores(run)
    for each in runs:
        require_foundation(each, pixels=study_of(each.suite).reads_pixels)
    for place, rule in enumerate(policy.rules):
        # the scores may count imported images of a single colour as refused
        if rule.metric == REFUSAL and run.record["origin"] == "imported":
            raise GateError.unsupported(
                f"{source}: rules.{place}.metric: found {REFUSAL!r}, and the images were imported: what was refused "
                "before is not known; leave the rule out"
            )
    numbers = Numbers.of_run(run, policy)
    differences = numbers if baseline is None else Numbers.of_difference(baseline, run)
    chosen = [
        (numbers if rule.difference is None else differences)
        .chosen(rule, f"{source}: rules.{place}")
        .assign(rule=_name(rule), place=place)
        for place, rule in enumerate(policy.rules)
    ]
    table = pd.concat(chosen, ignore_index=True)
    earlier = None if history is None else find_history(run, history, last)
    judged = pd.concat([table, _judge_all(table, earlier)], axis=1)
    rules = list[RuleOutcome]()
    for place, rule in enumerate(policy.rules):
        rows = judged.loc[judged.place == place, list(COLUMNS)].reset_index(drop=True)
        rules.append(RuleOutcome(rule, _name(rule), _worst(rows.outcome), rows))
    outcome = _worst(rule.outcome for rule in rules)
    return Gate(policy, outcome, tuple(rules), judged[list(COLUMNS)], runs, earlier)


def policy_of_verdicts(run: Run) -> Policy:
    """Return the policy that the numbers of a run's first verdicts are unchanged from the history.

    Raises
    ------
    GateError
        The run has no verdicts.
    """
    judged = run.scores[run.scores.verdict != ""]
    if not len(judged):
        raise GateError.undefined(
            f"{run.url}: it has no verdict whose numbers a history could be asked of; give a policy"
        )
    first = judged.iloc[0]
    return policy_from_mapping(
        {"rules": [{"metric": first.metric, "component": first.component, "against": "history"}]}
    )


def _require_what_is_compared(policy: Policy, baseline: Run | None, history: str | None, source: str) -> None:
    """Refuse a policy without the baseline or the history that its rules need, and either where no rule needs it."""
    if policy.needs_baseline and baseline is None:
        raise GateError.missing(
            f"{source}: a rule is about a difference, and there is no baseline; name a run as the baseline"
        )
    if baseline is not None and not policy.needs_baseline:
        raise GateError.conflict(
            f"{source}: there is a baseline, and no rule is about a difference; add one, or leave it out"
        )
    if policy.needs_history and history is None:
        raise GateError.missing(
            f"{source}: a rule is against the history, and there is none; name the folder of earlier runs"
        )
    if history is not None and not policy.needs_history:
        raise GateError.conflict(f"{source}: there is a history, and no rule is against it; add one, or leave it out")


def require_current_scores(run: Run) -> None:
    """Refuse a run that is not drawn to the end, or that has changed since it was scored."""
    with run.directory.listed_once():
        require_drawn(run)
    if problem := outdated(run) or mixed_raters(run):
        raise RunNotFoundError(f"{run.url}: {problem}")


def _worst(outcomes: Iterable[Outcome]) -> Outcome:
    seen = set(outcomes)
    return next(outcome for outcome in Outcome if outcome in seen)


def _name(rule: Rule) -> str:
    """Return a rule's own name, or what it says."""
    if rule.name is not None:
        return rule.name
    if rule.four_fifths is not None:
        return f"share over the largest {rule_limits_in_words(rule)}"
    number = f"difference of {rule.difference}" if rule.difference is not None else rule.component or rule.metric
    return f"{number} {rule_limits_in_words(rule)}"


def _judge_all(table: pd.DataFrame, history: History | None) -> pd.DataFrame:
    """Test numbers against their limits, and those of rules on the history against earlier runs: two families."""
    against = table.against == "history"
    parts = [_judge(table[~against])] if not against.all() else []
    if history is not None:
        changes = compare_with_history(table[against], history)
        outcome = np.select(
            [changes.reason != "", changes.is_beyond], [Outcome.UNDECIDED, Outcome.BROKEN], Outcome.HOLDS
        )
        parts.append(changes.assign(outcome=outcome))
    counts = dict.fromkeys(("n_decide", "since", "n_history"), "Int64")
    columns = ["outcome", "reason", "p", "p_holm", "change", "spread", *counts]
    return pd.concat(parts).reindex(index=table.index, columns=columns).astype(counts)


def _judge(table: pd.DataFrame) -> pd.DataFrame:
    """Test every row against its limits, as one family: outcome, reason, p-values and the images that would decide."""
    judged = table.withheld == GateReason.NONE
    tested, outcome = _compare_with_limits(table, judged, "value", "low", "high")
    # The pictures of a concept that are all of one group may lie at 0, and those in equal parts beyond a limit: what
    # has a middle has to keep its limits, or break them, counted from it as well.
    has_middle = judged & table.from_middle.notna() & table.from_middle_low.notna()
    _, from_middle = _compare_with_limits(table, has_middle, "from_middle", "from_middle_low", "from_middle_high")
    zeros = has_middle & (outcome != from_middle)
    # A model that draws half of what it is asked for is shown to keep a limit, or to break it, only whatever the other
    # half would have shown.
    within = (table.at_least <= table.bound_low) & (table.bound_high <= table.at_most)
    beyond = (table.bound_high < table.at_least) | (table.bound_low > table.at_most)
    borne_out = np.select([zeros, outcome == Outcome.HOLDS, outcome == Outcome.BROKEN], [True, within, beyond], True)
    has_bounds = (table.bound_low != table.low) | (table.bound_high != table.high)
    depends = judged & has_bounds & ~borne_out
    outcome = np.where(zeros | depends, Outcome.UNDECIDED, outcome)
    stored = table.reason_stored
    reasons = (
        (zeros, GateReason.ZEROS),
        (depends, GateReason.PICTURES),
        (outcome != Outcome.UNDECIDED, GateReason.NONE),
        (table.withheld == GateReason.NO_ESTIMATE, stored.mask(stored == "", GateReason.NO_ESTIMATE)),
        (~judged, table.withheld),
        (np.isnan(tested.p), stored.mask(stored == "", GateReason.NO_INTERVAL)),
        ((table.at_least <= table.value) & (table.value <= table.at_most), GateReason.REACHES_OVER),
        (tested.p > LEVEL, GateReason.REACHES_BACK),
    )
    conditions, choices = map(list, zip(*reasons, strict=True))
    n_decide = pd.array(tested.n_decide, "Int64")
    n_decide[(outcome == Outcome.UNDECIDED) & (tested.n_decide == 0)] = pd.NA
    return pd.DataFrame(index=table.index).assign(
        outcome=outcome, reason=list(map(str, np.select(conditions, choices, GateReason.CORRECTION))), p=tested.p,
        p_holm=tested.p_holm, n_decide=n_decide,
    )  # fmt: skip


def _compare_with_limits(
    table: pd.DataFrame, judged: pd.Series, value: str, low: str, high: str
) -> tuple[HeldToLimits, np.ndarray]:
    """Test numbers, counted from 0 or from their middles, against their limits, and name the outcomes."""
    tested = hold_to_limits(
        table[value].to_numpy(float),
        table[low].astype(float).where(judged).to_numpy(),
        table[high].astype(float).where(judged).to_numpy(),
        table.units.to_numpy(),
        table.freedom.to_numpy(),
        at_least=table.at_least.to_numpy(),
        at_most=table.at_most.to_numpy(),
    )
    return tested, np.select([tested.beyond, tested.within], [Outcome.BROKEN, Outcome.HOLDS], Outcome.UNDECIDED)
