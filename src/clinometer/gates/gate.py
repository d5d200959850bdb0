"""Check a finished run against a policy: which of its numbers keep their limits, and what follows for the whole.

See decision 50.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from typing import Any, Final

import numpy as np
import pandas as pd

from clinometer.errors import GateError, RunCorruptError, RunNotFoundError
from clinometer.gates.history import LAST, History, find_history, hold_to_history
from clinometer.gates.policy import (
    NONE,
    SELECTORS,
    GateReason,
    Policy,
    Rule,
    Withheld,
    policy_from_mapping,
    require_known,
    unread,
)
from clinometer.gates.telling import Gate, Outcome, RuleOutcome, rule_limits_in_words
from clinometer.metrics.records import DECIDES, MEAN, SELECTION
from clinometer.metrics.verdict import LEVEL, Source
from clinometer.pipeline.comparison import compare_runs
from clinometer.ratings.scoring import mixed_raters
from clinometer.readings.fit import unfit
from clinometer.runs.encoding import require_drawn
from clinometer.runs.run import Run
from clinometer.runs.verification import outdated, require_foundation
from clinometer.stats.equivalence import HeldToLimits, hold_to_limits
from clinometer.studies import study_of
from clinometer.studies.refusals.compare import GAP, OWN_RATE, RATE
from clinometer.studies.refusals.scores import METRIC as REFUSAL
from clinometer.studies.refusals.scoring import with_refusals
from clinometer.suites import Suite

COLUMNS: Final = (
    "rule", "outcome", "reason", "metric", "component", "concept", "category", "group", "setting", "encoder", "value",
    "low", "high", "at_least", "at_most", "p", "p_holm", "n_target", "n_decide", "carried_by", "change", "since",
    "spread", "n_history",
)  # fmt: skip
"""Columns of :attr:`Gate.table`; the last four are of rules against the history, and empty elsewhere."""


WHOLE: Final = ""
"""The setting of a number that is no part of another, such as MCAS along an axis beside its four parts."""


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
    (:func:`clinometer.stats.equivalence.hold_to_limits`). A number that has no verdict because there are too few
    images, or because its encoder does not fit, is undecided.

    Against the history, a number breaks its limits where it is shown to have changed, and the change is beyond them.
    Of all gates of a year of nights, at most 5 in 100 years see any that has not changed called so
    (:func:`clinometer.stats.latest_change.latest_change`).

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
    runs = (run,) if baseline is None else (run, baseline)
    for each in runs:
        if each.unchecked and not unchecked:
            raise RunCorruptError(
                f"{each.url}: {each.unchecked}, and such a run passes no gate; to hold it to limits all the same, give "
                "--unchecked"
            )
    _require_scores_of_now(run)
    for each in runs:
        require_foundation(each, pixels=study_of(each.suite).reads_pixels)
    _refuse_unknown_refusals(run, policy, source)
    own = _Numbers.of_run(run, policy)
    differences = own if baseline is None else _Numbers.of_difference(baseline, run)
    chosen = [
        (own if rule.difference is None else differences).chosen(rule, f"{source}: rules.{place}")
        for place, rule in enumerate(policy.rules)
    ]
    names = [_name(rule) for rule in policy.rules]
    table = pd.concat(
        [rows.assign(rule=name, place=place) for place, (rows, name) in enumerate(zip(chosen, names, strict=True))],
        ignore_index=True,
    )
    held_against = None if history is None else find_history(run, history, last)
    held = pd.concat([table, _hold_all(table, held_against)], axis=1)
    parts = [held[held.place == place] for place in range(len(names))]
    rules = tuple(
        RuleOutcome(rule, name, _worst(rows.outcome), rows[list(COLUMNS)].reset_index(drop=True))
        for rule, name, rows in zip(policy.rules, names, parts, strict=True)
    )
    return Gate(policy, _worst([rule.outcome for rule in rules]), rules, held[list(COLUMNS)], runs, held_against)


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


def _require_scores_of_now(run: Run) -> None:
    """Refuse a run that is not drawn to the end, or that has changed since it was scored."""
    with run.directory.listed_once():
        require_drawn(run)
    if problem := outdated(run) or mixed_raters(run):
        raise RunNotFoundError(f"{run.url}: {problem}")


def _refuse_unknown_refusals(run: Run, policy: Policy, source: str) -> None:
    """Refuse a limit on refusals of imported images, even where the scores count those of a single colour as such."""
    for place, rule in enumerate(policy.rules):
        if rule.metric == REFUSAL and run.record["origin"] == "imported":
            raise GateError.unsupported(
                f"{source}: rules.{place}.metric: found {REFUSAL!r}, and the images were imported: what was refused "
                "before is not known; leave the rule out"
            )


def _worst(outcomes: Any) -> Outcome:
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


class _Numbers:
    """The rows that rules choose from: those of a run, or of its differences from the baseline."""

    def __init__(
        self, suite: Suite, scores: pd.DataFrame, over_stimuli: set[str], unfit: set[str], unread: pd.DataFrame,
        *, exact: bool = False,
    ) -> None:  # fmt: skip
        self._study, self._rows, self._over_stimuli, self._exact = study_of(suite), scores, over_stimuli, exact
        self._withheld = Withheld(scores[~scores.component.isin(self._study.text_components)], unfit, unread)

    @classmethod
    def of_run(cls, run: Run, policy: Policy) -> _Numbers:
        """Return the scores of a run; where a rule is about refusals, also those of a model that refused nothing."""
        scores, judged = run.scores, _judged_over_prompts(run.suite)
        about_refusals = any(rule.metric == REFUSAL for rule in policy.rules)
        if about_refusals and REFUSAL not in set(scores.metric):
            scores = with_refusals(run, scores, even_none=True)
        metrics = set(scores.metric[scores.component.isin(judged)])
        over_stimuli = set(scores.component[scores.metric.isin(metrics)])
        return cls(run.suite, scores, over_stimuli, _unfit(run), unread(scores))

    @classmethod
    def of_difference(cls, baseline: Run, run: Run) -> _Numbers:
        """Return the differences of a run from its baseline."""
        compared, over_stimuli = compare_runs(baseline, run), _judged_over_prompts(run.suite)
        if study_of(run.suite).comparison(run.suite).magnitude_over_prompts:
            over_stimuli.add("magnitude")
        rows = compared.scores[compared.scores.metric == "comparison"]
        # of the same images the difference is 0, and an interval without width is right
        same = compared.paired and compared.identical == compared.pairs > 0 == compared.dropped
        unreadable = pd.concat([unread(one.scores) for one in (baseline, run) if one.is_scored])
        return cls(run.suite, rows, over_stimuli, _unfit(baseline) | _unfit(run), unreadable, exact=same)

    def chosen(self, rule: Rule, place: str) -> pd.DataFrame:
        """Return the rows of a rule, with limits, the interval compared with them, and why any is not judged."""
        rows = self._select_rows(rule, place)
        if rule.encoder is None and (rows.encoder == MEAN).any():
            rows = rows[rows.encoder == MEAN]
        if rule.four_fifths is not None and rule.encoder is None and (rows.flag == DECIDES).any():
            rows = rows[rows.flag == DECIDES]
        if rule.setting is None and (rows.setting == WHOLE).any():
            rows = rows[rows.setting == WHOLE]
        for column in SELECTORS:
            rows = _matching(rows, column, getattr(rule, column), place)
        for column in SELECTORS:
            _require_all_used(rows, column, getattr(rule, column), place)
        stimuli = self._over(rule, rows)
        # an interval over images that is not that of a t test, such as a bootstrapped one, may have a tail as long as
        # that of one degree of freedom
        students = rows.p.notna() & (rows.n_splits == 0) & ~_about_refusals(rows) & ~stimuli
        # a ratio has a longer upper tail than its interval says: with 20 degrees the correction was shown to hold
        most_freedom = np.where(rows.metric == SELECTION, 20, np.inf)
        at_least, at_most = rule.limits
        low, high = (np.where(stimuli, rows[f"stimulus_{end}"], rows[end]) for end in ("low", "high"))
        of_texts = rows.component.isin(self._study.text_components)
        withheld = np.array([self._withheld.reason(row) for row in rows.to_dict("records")], object)
        if rule.against is not None:  # few images, and intervals without width, are those of every night
            withheld[withheld == GateReason.TOO_FEW] = GateReason.NONE
        elif not self._exact:
            withheld[(low == high) & (withheld == GateReason.NONE)] = GateReason.NO_WIDTH
        return rows[["metric", "component", *SELECTORS, "value", "n_target"]].assign(
            low=low,
            high=high,
            freedom=np.where(students, np.clip(rows.n_target - 1, 1, most_freedom), 1),
            # of a number about all concepts, n_target counts these, and of a text part the text
            units=np.where(stimuli | (rows.concept == "") | of_texts, 0, rows.n_target),
            bound_low=low + (rows.bound_low - rows.low).fillna(0.0),
            bound_high=high + (rows.bound_high - rows.high).fillna(0.0),
            from_middle=np.where(stimuli, np.nan, rows.value - rows.middle),
            from_middle_low=rows.from_middle_low,
            from_middle_high=rows.from_middle_high,
            at_least=at_least,
            at_most=at_most,
            withheld=withheld,
            reason_stored=rows.reason,
            against=rule.against or "",
            carried_by=Source.NONE
            if rule.against is not None
            else self._study.carried_by(self._rows, rows.assign(low=low, high=high), rule.limits),
        )

    def _select_rows(self, rule: Rule, place: str) -> pd.DataFrame:
        if rule.difference is not None:
            require_known(rule.difference, tuple(self._rows.component.unique()), f"{place}.difference")
            return self._rows[self._rows.component == rule.difference]
        metric, component = rule.number
        assert metric is not None
        key = "metric" if rule.four_fifths is None else "four_fifths"
        require_known(metric, tuple(self._rows.metric.unique()), f"{place}.{key}")
        rows = self._rows[self._rows.metric == metric]
        components = tuple(rows.component.unique())
        if component is None and metric in components:
            component = metric
        if component is None and len(components) == 1:
            (component,) = components
        if component is None:
            raise GateError.missing(
                f"{place}: metric {metric!r} has several components; give component, one of {', '.join(components)}"
            )
        require_known(component, components, f"{place}.component")
        return rows[rows.component == component]

    def _over(self, rule: Rule, rows: pd.DataFrame) -> np.ndarray:
        if rule.interval is not None:
            return np.full(len(rows), rule.interval == "stimuli")
        # of several prompts, a difference of refusals is judged over these
        over_prompts = _about_refusals(rows) & rows.stimulus_low.notna()
        return (rows.component.isin(self._over_stimuli) | over_prompts).to_numpy()


def _judged_over_prompts(suite: Suite) -> set[str]:
    """Return components whose verdicts rest on the interval over prompts."""
    quantities = study_of(suite).comparison(suite).quantities(suite)
    return {quantity.component for quantity in quantities if quantity.over == "prompts"}


def _about_refusals(rows: pd.DataFrame) -> pd.Series:
    return (rows.metric == REFUSAL) | rows.component.isin((RATE, OWN_RATE, GAP))


def _unfit(run: Run) -> set[str]:
    """Return encoders that do not fit a run, and the average where it holds one of them."""
    names = {name for name, card in run.encoder_cards.items() if "" in unfit(card, run.model_card, run.suite)}
    return names | {MEAN} if names else names


def _matching(rows: pd.DataFrame, column: str, patterns: tuple[str, ...] | None, place: str) -> pd.DataFrame:
    """Return the rows of which the column matches any pattern; refuse a pattern that matches none."""
    if patterns is None:
        return rows
    values = tuple(rows[column].unique())
    for pattern in patterns:
        if not any(_matches(value, pattern) for value in values):
            require_known(pattern, tuple(value or NONE for value in values), f"{place}.{column}")
    return rows[rows[column].map(lambda value: any(_matches(value, pattern) for pattern in patterns))]


def _matches(value: str, pattern: str) -> bool:
    """Return whether a name is the pattern, brackets and all, or matches it; of a number without a name, ``none``."""
    return value == pattern or fnmatchcase(value, pattern) or (value or NONE) == pattern


def _require_all_used(rows: pd.DataFrame, column: str, patterns: tuple[str, ...] | None, place: str) -> None:
    """Refuse a pattern of which the rule's other keys leave no number."""
    values = rows[column].unique()
    for pattern in patterns or ():
        if not any(_matches(value, pattern) for value in values):
            raise GateError.undefined(
                f"{place}.{column}: the rule's other keys leave no number of {pattern!r}; give it a rule of its own"
            )


def _hold_all(table: pd.DataFrame, history: History | None) -> pd.DataFrame:
    """Test numbers against their limits, and those of rules on the history against earlier runs: two families."""
    against = table.against == "history"
    parts = [_hold(table[~against])] if not against.all() else []
    if history is not None:
        found = hold_to_history(table[against], history)
        outcome = np.select([found.reason != "", found.is_beyond], [Outcome.UNDECIDED, Outcome.BROKEN], Outcome.HOLDS)
        unknown = pd.array([pd.NA] * len(found), "Int64")
        parts.append(found.drop(columns="is_beyond").assign(outcome=outcome, n_decide=unknown))
    return pd.concat(parts).reindex(table.index).astype({"n_decide": "Int64", "since": "Int64", "n_history": "Int64"})


def _hold(table: pd.DataFrame) -> pd.DataFrame:
    """Test every row against its limits, as one family: outcome, reason, p-values and the images that would decide."""
    judged = table.withheld == GateReason.NONE
    held, outcome = _hold_from(table, judged, ("value", "low", "high"))
    # The pictures of a concept that are all of one group may lie at 0, and those in equal parts beyond a limit: what
    # has a middle has to keep its limits, or break them, counted from it as well.
    has_middle = judged & table.from_middle.notna() & table.from_middle_low.notna()
    _, otherwise = _hold_from(table, has_middle, ("from_middle", "from_middle_low", "from_middle_high"))
    zeros = has_middle & (outcome != otherwise)
    outcome = np.where(zeros, Outcome.UNDECIDED, outcome)
    # A model that draws half of what it is asked for is shown to keep a limit, or to break it, only whatever the other
    # half would have shown.
    within = (table.at_least <= table.bound_low) & (table.bound_high <= table.at_most)
    beyond = (table.bound_high < table.at_least) | (table.bound_low > table.at_most)
    borne_out = np.select([outcome == Outcome.HOLDS, outcome == Outcome.BROKEN], [within, beyond], True)
    has_bounds = (table.bound_low != table.low) | (table.bound_high != table.high)
    depends = judged & has_bounds & ~borne_out.astype(bool)
    outcome = np.where(depends, Outcome.UNDECIDED, outcome)
    reasons = np.where(depends, GateReason.PICTURES, list(_reasons(table, outcome, held.p)))
    reasons = np.where(zeros, GateReason.ZEROS, reasons).tolist()
    n_decide = pd.array(held.n_decide, "Int64")
    n_decide[(outcome == Outcome.UNDECIDED) & (held.n_decide == 0)] = pd.NA
    columns = {"outcome": outcome, "reason": reasons, "p": held.p, "p_holm": held.p_holm, "n_decide": n_decide}
    unasked = {"change": np.nan, "since": pd.NA, "spread": np.nan, "n_history": pd.NA}
    return pd.DataFrame(columns | unasked, index=table.index)


def _hold_from(table: pd.DataFrame, judged: pd.Series, columns: Sequence[str]) -> tuple[HeldToLimits, np.ndarray]:
    """Check numbers against their limits, counted from 0 or from their middles, and name the outcomes."""
    value, low, high = (table[name].astype(float) for name in columns)
    held = hold_to_limits(
        value.to_numpy(),
        low.where(judged).to_numpy(),
        high.where(judged).to_numpy(),
        table.units.to_numpy(),
        table.freedom.to_numpy(),
        at_least=table.at_least.to_numpy(),
        at_most=table.at_most.to_numpy(),
    )
    return held, np.select([held.beyond, held.within], [Outcome.BROKEN, Outcome.HOLDS], Outcome.UNDECIDED)


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
