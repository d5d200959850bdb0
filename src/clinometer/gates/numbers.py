"""The numbers of a run that a rule is about, and which of them decide nothing, and why."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum
from fnmatch import fnmatchcase
from typing import Any, Final

import numpy as np
import pandas as pd

from clinometer._messages import did_you_mean, first_and_more
from clinometer.errors import GateError
from clinometer.gates.policy import SELECTORS, Policy, Rule
from clinometer.metrics.records import DECIDES, MEAN, SELECTION
from clinometer.metrics.verdict import FEWEST_IMAGES, ReasonCode, Source, Verdict
from clinometer.pipeline.comparison import compare_runs
from clinometer.readings.fit import unfit
from clinometer.runs.run import Run
from clinometer.studies import study_of
from clinometer.studies.refusals.scores import GAP, OWN_RATE, RATE, REFUSAL
from clinometer.studies.refusals.scoring import with_refusals
from clinometer.suites import Suite

NONE: Final = "none"
"""The pattern of rows that have no name in a column, such as those of no setting."""

WHOLE: Final = ""
"""The setting of a number that is no part of another, such as MCAS along an axis beside its four parts."""


class Numbers:
    """The rows that rules choose from: those of a run, or of its differences from the baseline."""

    def __init__(
        self, suite: Suite, scores: pd.DataFrame, over_stimuli: set[str], unfit: set[str], unread: pd.DataFrame,
        *, exact: bool = False,
    ) -> None:  # fmt: skip
        self._study, self._rows, self._over_stimuli, self._exact = study_of(suite), scores, over_stimuli, exact
        self._withheld = Withheld(scores[~scores.component.isin(self._study.text_components)], unfit, unread)

    @classmethod
    def of_run(cls, run: Run, policy: Policy) -> Numbers:
        """Return the scores of a run; where a rule is about refusals, also those of a model that refused nothing."""
        scores, judged = run.scores, _judged_over_prompts(run.suite)
        about_refusals = any(rule.metric == REFUSAL for rule in policy.rules)
        if about_refusals and REFUSAL not in set(scores.metric):
            scores = with_refusals(run, scores, even_none=True)
        metrics = set(scores.metric[scores.component.isin(judged)])
        over_stimuli = set(scores.component[scores.metric.isin(metrics)])
        return cls(run.suite, scores, over_stimuli, _unfit(run), unread(scores))

    @classmethod
    def of_difference(cls, baseline: Run, run: Run) -> Numbers:
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
        rows = self._rows_of(rule, place)
        # of several prompts, a difference of refusals is judged over these
        about_refusals = (rows.metric == REFUSAL) | rows.component.isin((RATE, OWN_RATE, GAP))
        if rule.interval is not None:
            stimuli = np.full(len(rows), rule.interval == "stimuli")
        else:
            over_prompts = about_refusals & rows.stimulus_low.notna()
            stimuli = (rows.component.isin(self._over_stimuli) | over_prompts).to_numpy()
        # an interval over images that is not that of a t test, such as a bootstrapped one, may have a tail as long as
        # that of one degree of freedom
        students = rows.p.notna() & (rows.n_splits == 0) & ~about_refusals & ~stimuli
        # a ratio has a longer upper tail than its interval says: with 20 degrees the correction was shown to hold
        most_freedom = np.where(rows.metric == SELECTION, 20, np.inf)
        at_least, at_most = rule.limits
        low, high = (np.where(stimuli, rows[f"stimulus_{end}"], rows[end]) for end in ("low", "high"))
        of_texts = rows.component.isin(self._study.text_components)
        withheld = np.array([self._withheld.reason(row) for row in rows.to_dict("records")], object)
        if rule.against is not None:  # every night has as few images, and as many intervals without width
            withheld[withheld == GateReason.TOO_FEW] = GateReason.NONE
        elif not self._exact:
            withheld[(low == high) & (withheld == GateReason.NONE)] = GateReason.NO_WIDTH
        carried_by = self._study.carried_by(self._rows, rows.assign(low=low, high=high), rule.limits)
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
            carried_by=carried_by if rule.against is None else Source.NONE,
        )

    def _rows_of(self, rule: Rule, place: str) -> pd.DataFrame:
        """Select the rows of a rule; refuse names and patterns that select none."""
        rows = self._rows_of_number(rule, place)
        if rule.encoder is None and (rows.encoder == MEAN).any():
            rows = rows[rows.encoder == MEAN]
        if rule.four_fifths is not None and rule.encoder is None and (rows.flag == DECIDES).any():
            rows = rows[rows.flag == DECIDES]
        if rule.setting is None and (rows.setting == WHOLE).any():
            rows = rows[rows.setting == WHOLE]
        patterns = {column: getattr(rule, column) for column in SELECTORS if getattr(rule, column) is not None}
        for column, alternatives in patterns.items():
            for pattern in alternatives:
                if not _matches(rows[column], pattern).any():
                    names = tuple(name or NONE for name in rows[column].unique())
                    require_known(pattern, names, f"{place}.{column}")
            rows = rows[_matches(rows[column], *alternatives)]
        for column, alternatives in patterns.items():
            for pattern in alternatives:
                if not _matches(rows[column], pattern).any():
                    raise GateError.undefined(
                        f"{place}.{column}: the rule's other keys leave no number of {pattern!r}; give it a rule of "
                        "its own"
                    )
        return rows

    def _rows_of_number(self, rule: Rule, place: str) -> pd.DataFrame:
        """Select the rows of a rule's difference, or of its metric and component."""
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


def _judged_over_prompts(suite: Suite) -> set[str]:
    """Return the components whose verdicts rest on the interval over prompts."""
    quantities = study_of(suite).comparison(suite).quantities(suite)
    return {quantity.component for quantity in quantities if quantity.over == "prompts"}


def _unfit(run: Run) -> set[str]:
    """Return the encoders that do not fit a run, and the average over encoders where there are any."""
    names = {name for name, card in run.encoder_cards.items() if "" in unfit(card, run.model_card, run.suite)}
    return names | {MEAN} if names else names


def _matches(names: pd.Series, *patterns: str) -> pd.Series:
    """Return which names are one of the patterns, brackets and all, or match one; an empty name is ``none``."""
    return names.map(lambda name: any(fnmatchcase(name, p) or (name or NONE) == p for p in patterns))


def require_known(value: str, known: tuple[str, ...], what: str) -> None:
    """Refuse a name that the scores do not have."""
    if value not in known:
        hint = did_you_mean(value, known) or f"the run has {first_and_more(known, most=5) or 'none'}"
        raise GateError.unknown_name(f"{what}: found {value!r}; {hint}")


class GateReason(StrEnum):
    """Why a number is undecided."""

    NONE = ""
    NO_ESTIMATE = "not measured"
    NO_INTERVAL = "it has no interval"
    NO_WIDTH = "its interval has no width: the images are too few to show any difference"
    TOO_FEW = "too few images"
    LEFT_OUT = "it leaves out a concept that was not measured"
    UNFIT = "the encoder does not fit, or cannot read its own attribute images"
    UNCHECKED = "too few attribute images to tell whether the encoder reads them"
    SHORT_HISTORY = "too few earlier runs to show a change"
    REACHES_OVER = "interval reaches over the limit"
    REACHES_BACK = "interval reaches back over the limit"
    CORRECTION = "not after correction"
    PICTURES = "missing, repeated or unread images, filled in either way, could change it"
    ZEROS = "counted from the middle of the groups' own images it keeps or breaks the limit otherwise"


UNREAD: Final = {
    ReasonCode.TOO_FEW_ATTRIBUTE_IMAGES: GateReason.UNCHECKED,
    ReasonCode.READER: GateReason.UNFIT,
    ReasonCode.DOMAIN: GateReason.UNFIT,
}
"""Why an encoder's verdicts were withheld; its other numbers decide nothing, either."""

READER: Final = "reader"
CANNOT_READ: Final = "cannot read"
"""The metric and the flag of a row which says that an encoder, or the average, cannot read."""

AXIS: Final = "axis:"
"""The prefix of components, and of settings, along a single axis of a suite."""

NO_ENCODER: Final = ""
"""The encoder of a number over all concepts that rests on the average."""

ALL: Final = "all"
"""The category of numbers about a whole suite."""


def unread(scores: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of encoders that cannot read."""
    return scores[(scores.metric == READER) & (scores.flag == CANNOT_READ)]


class Withheld:
    """Why numbers without a verdict of their own are not judged, by the verdicts of their run.

    A number about a concept is withheld with the verdict of the concept, one about a category or the whole suite with
    all verdicts there. An encoder that does not read along an axis decides nothing that rests on that axis.

    Parameters
    ----------
    scores : but those of texts, which miss no image.
    unfit : encoders that do not fit the suite, whatever verdicts say.
    unread : rows of the encoders that cannot read (:func:`unread`), of every run that the numbers are of.
    """

    def __init__(self, scores: pd.DataFrame, unfit: Iterable[str], unread: pd.DataFrame) -> None:
        judged = scores[scores.verdict != ""]
        measured = judged[judged.verdict != Verdict.NOT_MEASURED]
        without = judged[judged.reason_code.isin(UNREAD)]
        # a text that an encoder has not learned may be of one concept alone
        of_one = (without.reason_code == ReasonCode.DOMAIN) & without.encoder.isin(measured.encoder)
        self._concepts = set(zip(without.encoder[of_one], without.concept[of_one], strict=True))
        along_axes = without.encoder.isin(unread.encoder[unread.setting != ""])
        whole = without[~of_one & ~along_axes]
        self._encoders = {
            name: UNREAD[ReasonCode(code)] for name, code in zip(whole.encoder, whole.reason_code, strict=True)
        }
        self._encoders |= dict.fromkeys(unfit, GateReason.UNFIT)
        self._axes = list(zip(unread.encoder, unread.setting, unread.group, strict=True))
        codes = set(without.reason_code)
        self._of_axes = UNREAD[ReasonCode(codes.pop())] if len(codes) == 1 else GateReason.UNFIT
        if (measured.concept != "").any():
            measured = measured[measured.concept != ""]
        few = measured.verdict == Verdict.TOO_FEW
        self._few = set(measured.category[few]) - set(measured.category[~few])
        if len(few) and few.all():
            self._few.add(ALL)
        missing = judged[judged.value.isna() & (judged.concept != "")]
        self._missing = {
            (encoder, category)
            for name, of_concept in zip(missing.encoder, missing.category, strict=True)
            for encoder in (name, *((NO_ENCODER,) if name == MEAN else ()))
            for category in (of_concept, ALL)
        }
        self._enough = set(measured.concept[~few])

    def reason(self, row: Mapping[Any, Any]) -> GateReason:
        """Explain why a row is not judged at all."""
        if np.isnan(row["value"]):
            return GateReason.NO_ESTIMATE
        if (unread := self._unread(row)) != GateReason.NONE:
            return unread
        if row["verdict"] == Verdict.TOO_FEW or self._too_few(row):
            return GateReason.TOO_FEW
        if not row["concept"] and (row["encoder"], row["category"]) in self._missing:
            return GateReason.LEFT_OUT
        return GateReason.NO_ESTIMATE if row["verdict"] == Verdict.NOT_MEASURED else GateReason.NONE

    def _unread(self, row: Mapping[Any, Any]) -> GateReason:
        """Explain why its encoder says nothing of a row."""
        encoder = row["encoder"]
        if reason := self._encoders.get(encoder) or UNREAD.get(row["reason_code"]):
            return reason
        if any(encoder == name and _rests_on(row, axis, level) for name, axis, level in self._axes):
            return self._of_axes
        of_one = any(encoder == name and row["concept"] in (concept, "") for name, concept in self._concepts)
        return GateReason.UNFIT if of_one else GateReason.NONE

    def _too_few(self, row: Mapping[Any, Any]) -> bool:
        if row["concept"] in self._enough and row["n_target"] == 1:  # its text was counted, and not its images
            return False
        if row["concept"] and row["n_target"]:
            return not row["verdict"] and row["n_target"] < FEWEST_IMAGES
        return ALL in self._few or row["category"] in self._few


def _rests_on(row: Mapping[Any, Any], axis: str, level: str) -> bool:
    """Return whether a number needs the reading of an axis, or of one of its levels; one along no axis needs all."""
    if not axis or not row["component"].startswith(AXIS):
        return True
    return axis == row["component"] or (axis == f"{row['component']} {level}" and row["group"] in ("", level))
