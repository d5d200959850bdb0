"""Hold a finished run to a policy: which of its numbers keep their limits, and what follows for the whole."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from fnmatch import fnmatchcase
from typing import Any, Final

import numpy as np
import pandas as pd

from clinometer.errors import GateError
from clinometer.gates.policy import SELECTORS, Policy, Rule, require_known
from clinometer.metrics.records import MEAN
from clinometer.metrics.verdict import FEWEST_IMAGES, LEVEL, ReasonCode, Verdict
from clinometer.pipeline.comparison import compare_runs
from clinometer.runs.store import Run
from clinometer.stats.limits import hold_to_limits
from clinometer.studies import study_of
from clinometer.suites import Suite


class Outcome(StrEnum):
    """What is shown of a number, a rule or a gate, the worst first."""

    BROKEN = "broken"
    UNDECIDED = "undecided"
    HOLDS = "holds"


class GateReason(StrEnum):
    """Why a number is undecided."""

    NONE = ""
    NO_ESTIMATE = "not measured"
    NO_INTERVAL = "it has no interval"
    TOO_FEW = "too few images"
    UNFIT = "the encoder does not fit, or cannot read its own attribute images"
    REACHES_OVER = "interval reaches over the limit"
    REACHES_BACK = "interval reaches back over the limit"
    CORRECTION = "not after correction"


COLUMNS: Final = (
    "rule", "outcome", "reason", "metric", "component", "concept", "category", "group", "setting", "encoder", "value",
    "low", "high", "at_least", "at_most", "p", "p_holm", "n_target", "n_decide",
)  # fmt: skip
"""Columns of :attr:`Gate.table`."""


@dataclass(frozen=True)
class RuleOutcome:
    """What became of a rule.

    Attributes
    ----------
    rule : as requested.
    name : what it is called.
    outcome : broken where any of its numbers is, holds where all do, else undecided.
    rows : of :attr:`Gate.table`, its numbers.
    """

    rule: Rule
    name: str
    outcome: Outcome
    rows: pd.DataFrame


@dataclass(frozen=True)
class Gate:
    """What became of a policy.

    Attributes
    ----------
    outcome : broken where any rule is, holds where all do, else undecided.
    rules : in the policy's order.
    table : a row a number that was held to limits.
    """

    policy: Policy
    outcome: Outcome
    rules: tuple[RuleOutcome, ...]
    table: pd.DataFrame

    @property
    def holds(self) -> bool:
        """Whether every number is shown to keep its limits."""
        return self.outcome == Outcome.HOLDS


def gate(run: Run, policy: Policy, baseline: Run | None = None, *, source: str = "gate") -> Gate:
    """Hold a run to a policy.

    A number keeps its limits where its 95 % interval lies within them, and breaks them where the interval lies beyond,
    after Holm's correction over all numbers of the policy. So of runs with a number at its limit or beyond about 2.5 in
    100 pass at most, and of runs whose numbers all keep their limits at most 5 in 100 are called broken
    (:func:`clinometer.stats.limits.hold_to_limits`). A number that has no verdict because there are too few images, or
    because its encoder does not fit, is undecided.

    Parameters
    ----------
    source : where the policy stands, for messages.

    Raises
    ------
    GateError
        A rule names numbers that the run does not have, or differences where no baseline is given.
    RunError
        A run is not scored, or the two cannot be compared.
    """
    if policy.needs_baseline and baseline is None:
        raise GateError(f"{source}: a rule is about a difference, and there is no baseline; name a run as the baseline")
    if baseline is not None and not policy.needs_baseline:
        raise GateError(f"{source}: there is a baseline, and no rule is about a difference; add one, or leave it out")
    own = _Numbers(run.scores, run.suite)
    differences = own if baseline is None else _Numbers(compare_runs(baseline, run).scores, run.suite, of="difference")
    chosen = [
        (own if rule.difference is None else differences).chosen(rule, f"{source}: rules.{place}")
        for place, rule in enumerate(policy.rules)
    ]
    names = [_name(rule) for rule in policy.rules]
    table = pd.concat(
        [rows.assign(rule=name, place=place) for place, (rows, name) in enumerate(zip(chosen, names, strict=True))],
        ignore_index=True,
    )
    held = pd.concat([table, _held(table)], axis=1)
    parts = [held[held.place == place] for place in range(len(names))]
    rules = tuple(
        RuleOutcome(rule, name, _worst(rows.outcome), rows[list(COLUMNS)].reset_index(drop=True))
        for rule, name, rows in zip(policy.rules, names, parts, strict=True)
    )
    return Gate(policy, _worst([rule.outcome for rule in rules]), rules, held[list(COLUMNS)])


def _worst(outcomes: Any) -> Outcome:
    seen = set(outcomes)
    return next(outcome for outcome in Outcome if outcome in seen)


def _name(rule: Rule) -> str:
    """A rule's own name, or what it says."""
    if rule.name is not None:
        return rule.name
    number = f"difference of {rule.difference}" if rule.difference is not None else rule.component or rule.metric
    return f"{number} {limits_in_words(*rule.limits)}"


def limits_in_words(at_least: float, at_most: float) -> str:
    """Limits as people write them: ``within ±0.2``, ``at most 0.2``.

    >>> limits_in_words(-0.2, 0.2), limits_in_words(-np.inf, 1), limits_in_words(0, 1)
    ('within ±0.2', 'at most 1', 'from 0 to 1')
    """
    if at_least == -at_most:
        return f"within ±{at_most:g}"
    if np.isinf(at_least):
        return f"at most {at_most:g}"
    if np.isinf(at_most):
        return f"at least {at_least:g}"
    return f"from {at_least:g} to {at_most:g}"


class _Numbers:
    """The rows that rules choose from: those of a run, or of its differences from the baseline."""

    def __init__(self, scores: pd.DataFrame, suite: Suite, of: str = "metric") -> None:
        compared = study_of(suite).comparison(suite)
        over_stimuli = {quantity.component for quantity in compared.quantities(suite) if quantity.over == "prompts"}
        if of == "difference":
            scores = scores[scores.metric == "comparison"]
            if compared.magnitude_over_prompts:
                over_stimuli.add("magnitude")
        else:
            metrics = set(scores.metric[scores.component.isin(over_stimuli)])
            over_stimuli = set(scores.component[scores.metric.isin(metrics)])
        self._rows, self._over_stimuli = scores, over_stimuli
        self._unfit = set(scores.encoder[scores.reason_code.isin((ReasonCode.READER, ReasonCode.DOMAIN))])
        judged = scores.verdict[(scores.verdict != "") & (scores.concept != "")]
        self._too_few = bool(len(judged)) and bool((judged == Verdict.TOO_FEW).all())

    def chosen(self, rule: Rule, place: str) -> pd.DataFrame:
        """The rows of a rule, with their limits, the interval that is held to them, and why any is not judged."""
        rows = self._named(rule, place)
        if rule.encoder is None and (rows.encoder == MEAN).any():
            rows = rows[rows.encoder == MEAN]
        for column in SELECTORS:
            rows = _matching(rows, column, getattr(rule, column), place)
        stimuli = self._over(rule, rows)
        at_least, at_most = rule.limits
        return rows[["metric", "component", *SELECTORS, "value", "n_target"]].assign(
            low=np.where(stimuli, rows.stimulus_low, rows.low),
            high=np.where(stimuli, rows.stimulus_high, rows.high),
            # how many stimuli there are, a row does not tell: as few as an interval can have
            freedom=np.where(stimuli, 1, np.maximum(rows.n_target - 1, 1)),
            # of a number about all concepts, n_target counts these
            units=np.where(stimuli | (rows.concept == ""), 0, rows.n_target),
            at_least=at_least,
            at_most=at_most,
            withheld=[self._withheld(row) for row in rows.to_dict("records")],
            reason_stored=rows.reason,
        )

    def _named(self, rule: Rule, place: str) -> pd.DataFrame:
        if rule.difference is not None:
            require_known(rule.difference, tuple(self._rows.component.unique()), f"{place}.difference")
            return self._rows[self._rows.component == rule.difference]
        assert rule.metric is not None
        require_known(rule.metric, tuple(self._rows.metric.unique()), f"{place}.metric")
        rows = self._rows[self._rows.metric == rule.metric]
        components = tuple(rows.component.unique())
        component = rule.component
        if component is None and rule.metric in components:
            component = rule.metric
        if component is None and len(components) == 1:
            (component,) = components
        if component is None:
            raise GateError(
                f"{place}: metric {rule.metric!r} has several components; give component, one of "
                f"{', '.join(components)}"
            )
        require_known(component, components, f"{place}.component")
        return rows[rows.component == component]

    def _over(self, rule: Rule, rows: pd.DataFrame) -> np.ndarray:
        if rule.interval is not None:
            return np.full(len(rows), rule.interval == "stimuli")
        return rows.component.isin(self._over_stimuli).to_numpy()

    def _withheld(self, row: Mapping[Any, Any]) -> GateReason:
        """Why a row is not judged at all."""
        if np.isnan(row["value"]):
            return GateReason.NO_ESTIMATE
        if row["encoder"] in self._unfit:
            return GateReason.UNFIT
        few = self._too_few if not row["concept"] else not row["verdict"] and 0 < row["n_target"] < FEWEST_IMAGES
        if few or row["verdict"] == Verdict.TOO_FEW:
            return GateReason.TOO_FEW
        return GateReason.NO_ESTIMATE if row["verdict"] == Verdict.NOT_MEASURED else GateReason.NONE


def _matching(rows: pd.DataFrame, column: str, patterns: tuple[str, ...] | None, place: str) -> pd.DataFrame:
    """The rows of which the column matches any pattern; refuse a pattern that matches none."""
    if patterns is None:
        return rows
    values = tuple(rows[column].unique())
    for pattern in patterns:
        if not any(fnmatchcase(value, pattern) for value in values):
            require_known(pattern, values, f"{place}.{column}")
    return rows[rows[column].map(lambda value: any(fnmatchcase(value, pattern) for pattern in patterns))]


def _held(table: pd.DataFrame) -> pd.DataFrame:
    """Outcome, reason, p-values and the images that would decide, of every row; all rows are one family."""
    judged = table.withheld == GateReason.NONE
    held = hold_to_limits(
        table.value.to_numpy(),
        table.low.where(judged).to_numpy(),
        table.high.where(judged).to_numpy(),
        table.units.to_numpy(),
        table.freedom.to_numpy(),
        at_least=table.at_least.to_numpy(),
        at_most=table.at_most.to_numpy(),
    )
    outcome = np.select([held.beyond, held.within], [Outcome.BROKEN, Outcome.HOLDS], Outcome.UNDECIDED)
    reasons = list(_reasons(table, outcome, held.p))
    columns = {"outcome": outcome, "reason": reasons, "p": held.p, "p_holm": held.p_holm, "n_decide": held.n_decide}
    return pd.DataFrame(columns, index=table.index)


def _reasons(table: pd.DataFrame, outcome: np.ndarray, p: np.ndarray) -> Iterator[str]:
    for row, decided, p_beyond in zip(table.to_dict("records"), outcome, p, strict=True):
        if decided != Outcome.UNDECIDED:
            yield GateReason.NONE
        elif row["withheld"] == GateReason.NO_ESTIMATE:
            yield row["reason_stored"] or GateReason.NO_ESTIMATE
        elif row["withheld"] != GateReason.NONE:
            yield row["withheld"]
        elif np.isnan(p_beyond):
            yield row["reason_stored"] or GateReason.NO_INTERVAL
        elif row["at_least"] <= row["value"] <= row["at_most"]:
            yield GateReason.REACHES_OVER
        else:
            yield GateReason.REACHES_BACK if p_beyond > LEVEL else GateReason.CORRECTION
