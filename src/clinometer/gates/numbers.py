"""The numbers of a run that a rule is about: which of them decide nothing, and why; and whether they have changed.

A change is one from the last runs that were accepted. One checkpoint alone is never called changed: of 41 runs, one is
the most extreme every night, and a test that supposes no distribution cannot know that from a change; so it asks
whether the last few together lie elsewhere. See decision 75.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from fnmatch import fnmatchcase
from typing import Any, Final

import numpy as np
import pandas as pd

from clinometer._messages import did_you_mean, first_and_more
from clinometer.errors import ClinometerError, GateError
from clinometer.gates.policy import SELECTORS, Policy, Rule
from clinometer.metrics.records import DECIDES, MEAN, SELECTION
from clinometer.metrics.verdict import FEWEST_IMAGES, ReasonCode, Source, Verdict
from clinometer.pipeline.comparison import compare_runs
from clinometer.readings.fit import unfit
from clinometer.runs.browse import found_below
from clinometer.runs.run import Run
from clinometer.runs.verification import SCORES, are_whole, outdated
from clinometer.stats.change import fewest_records, latest_change
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


LAST: Final = 40
"""Earlier runs that a run is compared with. With 36 or more, three runs that lie far from these are enough."""

NIGHTS: Final = 365
YEARLY: Final = 0.05
"""So many gates, a night each, raise any false alarm with this chance at most."""

NEEDED: Final = fewest_records(YEARLY / NIGHTS)
"""Runs that a test needs, the one that is tested included."""

MOST_RUNS: Final = 5_000
"""Runs that a folder may hold: the record of each is read."""

_KEYS: Final = ("metric", "component", "concept", "category", "group", "setting", "encoder")
_SETTINGS: Final = ("guidance_scale", "steps", "scheduler", "negative_prompt", "width", "height")
"""How images are drawn: with other settings a model draws others, and the model need not have changed."""


@dataclass(frozen=True)
class History:
    """The earlier runs that a run is compared with.

    Attributes
    ----------
    place : the folder.
    runs : those that are comparable, in the order in which they were begun; at most the last ``last``.
    left_out : of each run in the folder that is not, where it lies and why.
    last : how many were asked for.
    """

    place: str
    runs: tuple[Run, ...]
    left_out: tuple[tuple[str, str], ...]
    last: int

    @property
    def is_long_enough(self) -> bool:
        """Return whether there are enough earlier runs to test for a change."""
        return len(self.runs) + 1 >= NEEDED

    def as_mapping(self) -> dict[str, Any]:
        """Return the earlier runs that were used, and those left out, as a mapping for JSON."""
        return {
            "place": self.place,
            "last": self.last,
            "runs": [{"place": run.directory.shown, "created": run.record["created"]} for run in self.runs],
            "left_out": [{"place": place, "reason": reason} for place, reason in self.left_out],
        }

    def in_words(self) -> str:
        """Return ``Compared with 40 earlier runs in nights; left out: …``."""
        compared = f"Compared with {len(self.runs)} earlier run{'' if len(self.runs) == 1 else 's'} in {self.place}"
        if not self.left_out:
            return f"{compared}."
        reasons = [f"{place} ({reason})" for place, reason in self.left_out]
        return f"{compared}; left out: {first_and_more(reasons, most=3)}."


def find_history(run: Run, place: str | os.PathLike[str], last: int = LAST) -> History:
    """Find the last runs in a folder, or below it, that were begun before a run and asked what it was asked.

    A run is left out, with the reason, where it is of another suite, encoder or setting; was drawn until decided, or
    with a seed that leaves the nights unlike each other; is damaged or not scored; was begun after the run, as where a
    clock went backwards; or is the run itself, or a copy of one.

    Raises
    ------
    GateError
        ``last`` is too few to judge by; the folder holds no run but this, or too many.
    """
    if last < NEEDED - 1:
        raise GateError.out_of_range(
            f"found {last}, expected {NEEDED - 1} or more: fewer runs can show no change", field="last"
        )
    opened, left_out = _open_others(run, os.fspath(place))
    opened.sort(key=lambda earlier: (earlier.record["created"], earlier.directory.place))
    comparable, seen = list[Run](), {run.record.get("checksum")}
    for earlier in opened:
        checksum = earlier.record.get("checksum")
        why = "a copy of another run" if checksum and checksum in seen else _explain_incomparable(run, earlier)
        seen.add(checksum)
        if why:
            left_out.append((earlier.directory.shown, why))
        else:
            comparable.append(earlier)
    # Where the run's seed was used before, every night must start from the same noise, or those that do not would
    # differ more from this one; else every night must have a seed of its own, of which the latest counts.
    latest = {earlier.record["seed"]: earlier for earlier in comparable}
    alike = [earlier for earlier in comparable if earlier.record["seed"] == run.record["seed"]]
    alike = alike or [earlier for earlier in comparable if latest[earlier.record["seed"]] is earlier]
    others = [earlier.directory.shown for earlier in comparable if earlier not in alike]
    left_out += [(other, "its seed: give all runs one, or each its own") for other in others]
    used = list[Run]()
    while alike and len(used) < last:  # only those that count are read
        earlier = alike.pop()
        if why := _explain_unusable(run, earlier):
            left_out.append((earlier.directory.shown, why))
        else:
            used.append(earlier)
    return History(os.fspath(place), tuple(reversed(used)), tuple(left_out), last)


def _open_others(run: Run, place: str) -> tuple[list[Run], list[tuple[str, str]]]:
    """Open the runs of a folder but the run itself; return also which cannot be read, and why."""
    opened, unread = list[Run](), list[tuple[str, str]]()
    for directory in found_below(place, depth=1):
        if directory.place == run.directory.place:
            continue
        if len(opened) + len(unread) >= MOST_RUNS:
            raise GateError.too_many(
                f"{place}: found more than {MOST_RUNS:,} runs; move the oldest elsewhere", field="history"
            )
        try:
            earlier = Run(directory.url)
            _ = earlier.record  # read, and refused if it is not what a run records
            opened.append(earlier)
        except ClinometerError as error:
            unread.append((directory.shown, " ".join(directory.without_place(error).split())[:200]))
    if not opened and not unread:
        raise GateError.too_few(
            f"{place}: found no other run there; give the folder that holds the earlier runs", field="history"
        )
    return opened, unread


def _explain_incomparable(run: Run, earlier: Run) -> str:
    """Explain by the records why a run is no earlier one of the same kind; empty where it is one."""
    ours, theirs = run.record, earlier.record
    settings = [card.get("settings", {}) for card in (ours["model"], theirs["model"])]
    other = [name for name in _SETTINGS if settings[0].get(name) != settings[1].get(name)]
    checks = (
        (theirs["created"] > ours["created"], "begun after this run"),
        (theirs["suite_fingerprint"] != ours["suite_fingerprint"], "another suite, or other numbers of images"),
        (theirs["origin"] != ours["origin"], f"its images were {theirs['origin']}"),
        (theirs.get("until") is not None, "drawn until decided"),
        (bool(other), f"another {' and '.join(other)}"),
        (bool(earlier.unchecked), "it has no checksums"),
    )
    return next((reason for holds, reason in checks if holds), "")


def _explain_unusable(run: Run, earlier: Run) -> str:
    """Explain why the scores of a run do not count; empty where they do."""
    encoders = [{name: card["fingerprint"] for name, card in each.encoder_cards.items()} for each in (run, earlier)]
    try:
        if earlier.suite.fingerprint != run.suite.fingerprint:
            return "its scores are made with another setting of the suite"
    except ClinometerError as error:
        return " ".join(earlier.directory.without_place(error).split())[:200]
    if encoders[0] != encoders[1]:
        return "other encoders"
    if not earlier.is_scored or outdated(earlier):
        return "not scored, or changed since"
    return "" if are_whole(earlier, (SCORES,)) else "its scores are damaged"


def compare_with_history(rows: pd.DataFrame, history: History) -> pd.DataFrame:
    """Test the numbers of a run against those of earlier ones; all of them are one family.

    Parameters
    ----------
    rows : of the run's scores, with ``at_least`` and ``at_most``, the limits of a change, and ``withheld``.

    Returns
    -------
    Of each row: ``reason``, empty where it is judged; ``change``, ``since``, ``spread`` and ``n_history``; ``p``, and
    ``p_holm``, over all numbers and a year of nights; ``is_beyond``, whether it has changed by more than the limits.
    """
    numbers = [rows.set_index(list(_KEYS)).value, *(_values_of(run, rows) for run in history.runs)]
    table = np.array([each.reindex(pd.MultiIndex.from_frame(rows[list(_KEYS)])).to_numpy(float) for each in numbers])
    records = np.concatenate([table[1:], table[:1]])
    measured = np.isfinite(records).sum(axis=0)
    reasons = np.array([str(reason) for reason in rows.withheld], object)
    few = (reasons == "") & (measured < NEEDED)
    reasons[few] = [
        f"{GateReason.SHORT_HISTORY}: {n - 1} of them have it, and {NEEDED - 1} are needed" for n in measured[few]
    ]
    judged = reasons == ""
    changes = pd.DataFrame(index=rows.index).assign(
        reason=reasons, change=np.nan, since=0, spread=np.nan, n_history=measured - np.isfinite(records[-1]), p=np.nan,
        p_holm=np.nan, is_beyond=False,
    )  # fmt: skip
    if not judged.any():
        return changes
    # two rules may be about one number; the family is of numbers, and a number that stands twice costs nothing
    result = latest_change(np.where(np.isfinite(records), records, np.nan)[:, judged], level=YEARLY / NIGHTS)
    changes.loc[judged, ["change", "spread", "p"]] = np.stack([result.change, result.spread, result.p], axis=1)
    changes.loc[judged, "since"] = result.since
    changes.loc[judged, "p_holm"] = np.minimum(1.0, result.p_family * NIGHTS)
    outside = (changes.change < rows.at_least) | (changes.change > rows.at_most)
    changes["is_beyond"] = judged & (changes.p_holm <= YEARLY) & outside
    return changes


def _values_of(run: Run, rows: pd.DataFrame) -> pd.Series:
    """Return the numbers of an earlier run by what they are of."""
    scores = run.scores
    if REFUSAL in set(rows.metric) - set(scores.metric):  # a model that refused nothing refused none of its prompts
        scores = with_refusals(run, scores, even_none=True)
    scores = scores[scores.metric.isin(rows.metric.unique()) & scores.component.isin(rows.component.unique())]
    return scores.drop_duplicates(list(_KEYS)).set_index(list(_KEYS)).value
