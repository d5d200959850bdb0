"""The outcome of a gate, and how it is shown: in words, as a table, as JUnit's XML, as Markdown for a pipeline."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from math import inf, isfinite
from typing import Any, Final
from xml.etree import ElementTree as ET

import numpy as np
import pandas as pd

from clinometer._messages import printable
from clinometer.gates.numbers import NEEDED, NIGHTS, GateReason, History
from clinometer.gates.policy import SELECTORS, Policy, Rule
from clinometer.metrics.records import SELECTION
from clinometer.metrics.standard import SMALLEST
from clinometer.metrics.verdict import LEVEL
from clinometer.report import wording
from clinometer.report.html import notebook_html
from clinometer.report.model_card import escaped
from clinometer.runs.record import package_versions
from clinometer.runs.run import Run
from clinometer.studies import study_of
from clinometer.studies.refusals.scores import REFUSAL

MOST_ROWS: Final = 30
"""Numbers of a rule that a summary lists; the JUnit file has all."""


class Outcome(StrEnum):
    """What is shown of a number, a rule or a gate, the worst first."""

    BROKEN = "broken"
    UNDECIDED = "undecided"
    HOLDS = "holds"


@dataclass(frozen=True)
class RuleOutcome:
    """The outcome of a rule.

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

    @property
    def unmet(self) -> pd.DataFrame:
        """The rows that do not hold, broken ones first, by p."""
        return self.rows[self.rows.outcome != Outcome.HOLDS].sort_values(["outcome", "p"], kind="stable")


@dataclass(frozen=True)
class Gate:
    """The outcome of a policy.

    Attributes
    ----------
    outcome : broken where any rule is, holds where all do, else undecided.
    rules : in the policy's order.
    table : a row a number that has limits; ``n_decide`` is missing where no number of images is known that
        would decide, and 0 of a number that is decided.
    runs : the run, and the baseline where there is one.
    history : the earlier runs that rules against the history are about.
    """

    policy: Policy
    outcome: Outcome
    rules: tuple[RuleOutcome, ...]
    table: pd.DataFrame
    runs: tuple[Run, ...]
    history: History | None = None

    @property
    def holds(self) -> bool:
        """Whether every number is shown to keep its limits."""
        return self.outcome == Outcome.HOLDS

    @property
    def unchecked(self) -> str:
        """The warning where a run has no checksums; empty where all have them."""
        return "; ".join(f"{run.directory.shown}: {run.unchecked}" for run in self.runs if run.unchecked)

    def _repr_html_(self) -> str:
        sentences, tables = [self.unchecked, gate_in_words(self), way_on(self)], []
        for rule in self.rules:
            if rule.outcome == Outcome.HOLDS:
                sentences.append(rule_in_words(rule))
            else:
                columns = columns_of(self, rule.unmet)
                tables.append((rule_in_words(rule), list(columns), list(zip(*columns.values(), strict=True))))
        return notebook_html(self.policy.title or "Gate", [run.directory.shown for run in self.runs], sentences, tables)

    def as_mapping(self) -> dict[str, Any]:
        """Return everything as JSON: what was compared with which limits, by which versions, and the outcome.

        A limit that is not there, and what is not known, is None. ``unchecked`` leads where it is to be said.
        """
        described = [_describe(run) for run in self.runs]
        rows = self.table.astype(object).where(self.table.notna() & ~self.table.isin([np.inf, -np.inf]), None)
        return {
            **({"unchecked": self.unchecked} if self.unchecked else {}),
            "outcome": self.outcome.value,
            "title": self.policy.title,
            "run": described[0],
            "baseline": described[1] if len(described) > 1 else None,
            **({} if self.history is None else {"history": self.history.as_mapping()}),
            "versions": package_versions(),
            "rules": [
                {"name": rule.name, "outcome": rule.outcome.value, "numbers": len(rule.rows)}
                | rule.rule.model_dump(mode="json", exclude_none=True, exclude={"name"})
                for rule in self.rules
            ],
            "rows": rows.to_dict("records"),
        }


def _describe(run: Run) -> dict[str, Any]:
    """Describe a run in a gate's record; its checksum covers every file of it."""
    record = run.record
    return {
        "place": run.directory.shown,
        "checksum": record.get("checksum"),
        "created": record["created"],
        "suite": run.suite.name,
        "suite_fingerprint": record["suite_fingerprint"],
        "model": record["model"]["name"],
        "model_fingerprint": record["model"]["fingerprint"],
        "seed": record["seed"],
        "versions": record["versions"],
    }


def limits_in_words(at_least: float, at_most: float) -> str:
    """Return limits as people write them: ``within ±0.2``, ``at most 0.2``.

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


def rule_limits_in_words(rule: Rule) -> str:
    """Return a rule's limits; of a change: ``changed from earlier runs by at most 0.2``."""
    if rule.against is None:
        return limits_in_words(*rule.limits)
    if rule.limits == (0.0, 0.0):
        return "unchanged from earlier runs"
    return f"change from earlier runs {limits_in_words(*rule.limits)}"


def gate_in_words(judged: Gate) -> str:
    """Return the outcome of a gate in words."""
    if judged.outcome == Outcome.HOLDS and judged.policy.needs_history:
        return "The gate holds: no number is shown to have changed, and every other to keep its limits."
    if judged.outcome == Outcome.HOLDS:
        return "The gate holds: every number is shown to keep its limits."
    if judged.outcome == Outcome.BROKEN:
        broken = int((judged.table.outcome == Outcome.BROKEN).sum())
        are = f"{broken} is" if broken == 1 else f"{broken} are"
        return f"The gate is broken: of {len(judged.table)} numbers {are} shown to be beyond the limit."
    if judged.history is not None and not judged.history.is_long_enough:
        return (
            "The gate is undecided: a change can be shown once "
            f"{NEEDED - 1} earlier runs are comparable, and {len(judged.history.runs)} are."
        )
    return "The gate is undecided: no number is shown to be beyond its limit, but not all are shown to keep theirs."


def way_on(judged: Gate) -> str:
    """Return what an outcome means, and what can be done about it."""
    changed = judged.table.n_history.notna() & (judged.table.outcome == judged.outcome)
    if changed.any() and judged.outcome != Outcome.UNDECIDED:
        return (
            "A change that is not shown may be there all the same: it takes three nights or more to show one. In "
            f"{NIGHTS} nights of independent trainings without a change, a gate is broken with a chance of 5 % at most."
        )
    if judged.outcome == Outcome.HOLDS:
        return "Of models with a number at its limit or beyond, at most 2.5 in 100 pass such a gate by chance."
    if judged.outcome == Outcome.BROKEN:
        return (
            "More images will not change that: a number is farther out than the policy allows. Of models that keep all "
            "limits, at most 5 in 100 are called broken."
        )
    known = judged.table[judged.table.n_decide.fillna(0) > 0]
    draw = "Fix what the reasons name"
    if judged.history is not None and not judged.history.is_long_enough:
        more = wording.count(NEEDED - 1 - len(judged.history.runs), "more run")
        draw = f"Put {more}, accepted by other rules, into the folder"
    if len(known):
        row = known.sort_values("n_decide", kind="stable").iloc[-1]
        most = wording.about(int(row.n_decide)).replace("about", "up to about")
        draw = f"Draw {most} images per concept{_beside(judged, row.metric)}"
    return f"{draw} and gate again; --allow-undecided lets such a run pass, which then says less."


def _beside(judged: Gate, metric: str) -> str:
    """Return what has to grow along with a concept's images, after a comma; empty where nothing does."""
    has_groups = study_of(judged.runs[0].suite).groups_grow and metric != REFUSAL
    return wording.aside(wording.IN_PROPORTION if has_groups else "")


def rule_in_words(rule: RuleOutcome) -> str:
    """Return ``mcas within ±0.25: broken; 2 broken and 20 undecided of 30 numbers.``"""
    limits = rule_limits_in_words(rule.rule)
    named = rule.name if rule.name.endswith(limits) else f"{rule.name} ({limits})"
    why = _shared_reason(rule.rows[rule.rows.outcome != Outcome.HOLDS])
    # which part of MCAS decides: ``; broken by its text``; of several numbers, how many by which
    kinds = [f"{outcome} {part}" for outcome, part in zip(rule.rows.outcome, rule.rows.carried_by, strict=True) if part]
    counted = [f"{n} {kind}" if len(rule.rows) > 1 else kind for kind, n in Counter(kinds).items()]
    carried = f"; {', '.join(counted)}" if counted else ""
    if len(rule.rows) == 1:
        return f"{named}: {rule.outcome}{why}{carried}."
    if rule.outcome == Outcome.HOLDS:
        return f"{named}: holds for all {len(rule.rows)} numbers{carried}."
    counts = Counter(rule.rows.outcome)
    phrases = [f"{counts[outcome]} {outcome}" for outcome in ("broken", "undecided") if counts[outcome]]
    return f"{named}: {rule.outcome}; {' and '.join(phrases)} of {len(rule.rows)} numbers{why}{carried}."


def _shared_reason(rows: pd.DataFrame) -> str:
    """Return the reason after a colon, where all numbers that do not hold have the same."""
    reasons = rows.reason.unique()
    return f": {reasons[0]}" if len(reasons) == 1 and reasons[0] else ""


def columns_of(judged: Gate, rows: pd.DataFrame) -> dict[str, list[str]]:
    """Format numbers as cells by column heading; what would say the same in every row has no column."""
    written, digits = _number_style(rows)
    columns = {
        "number": _names(rows),
        "value": [written(value, digits) for value in rows.value],
        "95 %": [wording.interval(low, high, digits) for low, high in zip(rows.low, rows.high, strict=True)],
    }
    if not _shared_reason(rows):
        columns["outcome"] = [": ".join(filter(None, pair)) for pair in zip(rows.outcome, rows.reason, strict=True)]
    if rows.n_history.notna().any():
        columns["change"] = [wording.signed(value, digits) for value in rows.change]
        columns["runs that show it"] = [f"{n:,}" if n else "" for n in rows.since.fillna(0)]
    if (rows.carried_by != "").any():
        columns["carried"] = list(rows.carried_by)
    of_texts = rows.component.isin(study_of(judged.runs[0].suite).text_components)
    counts_images = ((rows.concept != "") & ~of_texts) | (rows.metric == SELECTION)
    if counts_images.any():
        columns["images"] = [f"{n:,}" if counts else "" for n, counts in zip(rows.n_target, counts_images, strict=True)]
    if (rows.n_decide > 0).any():
        columns["decided by"] = [wording.about(n) for n in rows.n_decide.fillna(0)]
    return columns


def _number_style(rows: pd.DataFrame) -> tuple[Callable[[float, int], str], int]:
    """Return how numbers are written, with their sign where any is, or may be, negative; and with how many digits."""
    numbers = [number for name in ("value", "low", "high") for number in rows[name]]
    is_negative = (rows[["value", "low", "high"]] < 0).any(axis=None)
    may_be = ((rows.at_least < 0) & (rows.at_least > -inf)).any()
    return wording.signed if is_negative or may_be else wording.number, wording.digits_for(numbers)


def _names(rows: pd.DataFrame) -> list[str]:
    """Name each number by what it differs in from the others, or by its component."""
    differing = [name for name in SELECTORS if rows[name].nunique() > 1]
    if "concept" in differing and "category" in differing:
        differing.remove("category")
    names = []
    for row in rows.to_dict("records"):
        shares = row["metric"] == SELECTION and row["component"] == SMALLEST  # a concept's smallest over its largest
        others = [name for name in differing if name not in ("concept", "category", "group")]
        over_all = "all concepts" if row["category"] in ("", "all") else str(row["category"])
        parts = [
            row[name] or (over_all if name == "concept" else "")
            for name in (["concept", *others] if shares else differing)
        ]
        if shares and row["group"]:
            parts[0] = f"{parts[0]} (smallest: {row['group']})"
        names.append(", ".join(filter(None, parts)) or str(row["component"]))
    return names


def explanations(judged: Gate) -> Iterator[str]:
    """Yield why every number came out as it did, in the order of the table."""
    family = sum(len(rule.rows) for rule in judged.rules if rule.rule.against is None)
    for rule in judged.rules:
        written, digits = _number_style(rule.rows)
        for name, row in zip(_names(rule.rows), rule.rows.to_dict("records"), strict=True):
            if rule.rule.against is None:
                yield f"{name}: {_why(row, digits, written, family, _beside(judged, row['metric']))}"
            else:
                yield f"{name}: {_why_changed(row, digits, rule_limits_in_words(rule.rule))}"


def _why(row: dict[Any, Any], digits: int, written: Callable[[float, int], str], family: int, beside: str) -> str:
    limits = limits_in_words(row["at_least"], row["at_most"])
    ends = wording.interval(row["low"], row["high"], digits)
    number = f"{written(row['value'], digits)} {ends}".strip() if isfinite(row["value"]) else "no number"
    part = f" It is carried {row['carried_by']}." if row["carried_by"] else ""
    corrected = f"Holm's correction over the policy's {wording.count(family, 'number')}"
    if row["outcome"] == Outcome.HOLDS:
        return f"{number}, and the limit is {limits}. The whole interval lies within: it holds.{part}"
    if row["outcome"] == Outcome.BROKEN:
        beyond = max(row["at_least"] - row["value"], row["value"] - row["at_most"])
        chance = f"{wording.probability(row['p'])}, after {corrected} {wording.probability(row['p_holm'])}"
        return (
            f"{number}, and the limit is {limits}. The value is beyond by {wording.number(beyond, digits)} and the "
            f"interval with it ({chance}): it is broken.{part}"
        )
    why = {
        GateReason.REACHES_OVER: "The value keeps the limit and the interval reaches over it",
        GateReason.REACHES_BACK: "The value is beyond the limit and the interval reaches back over it",
        GateReason.CORRECTION: (
            f"The interval is beyond the limit, but not after {corrected}: "
            f"{wording.probability(row['p_holm'])}, and {LEVEL:g} would do"
        ),
    }.get(row["reason"], wording.capitalised(str(row["reason"])))
    more = ""
    if not pd.isna(row["n_decide"]) and row["n_decide"] > 0:
        many = wording.capitalised(wording.about(int(row["n_decide"])))
        more = f" {many} images{beside} would decide in four of five runs; there are {int(row['n_target']):,}."
    return f"{number}, and the limit is {limits}. {why}: it is undecided.{more}{part}"


def _why_changed(row: dict[Any, Any], digits: int, limits: str) -> str:
    number = f"{wording.signed(row['value'], digits)}, and the rule is {limits}"
    if row["outcome"] == Outcome.UNDECIDED:
        return f"{number}. {wording.capitalised(str(row['reason']))}: it is undecided."
    nights = "this run lies" if row["since"] == 1 else f"the last {row['since']} runs lie"
    moved = (
        f"Of {row['n_history']} earlier runs and this one, {nights} {wording.signed(row['change'], digits)} from those "
        f"before (standard deviation of a run {wording.number(row['spread'], digits)}; over all numbers and a year of "
        f"nights {wording.probability(row['p_holm'])})"
    )
    if row["outcome"] == Outcome.BROKEN:
        return f"{number}. {moved}: it is broken."
    return f"{number}. {moved}, which shows no change beyond it: it holds."


def junit(judged: Gate, *, allow_undecided: bool = False) -> bytes:
    """Write a gate as JUnit's XML: a suite a rule, a case a number.

    A broken number is a failure. An undecided one is a failure, too, as the gate does not hold; it is skipped with
    ``allow_undecided``.
    """
    root = ET.Element("testsuites", {"name": judged.policy.title or "clinometer gate"})
    explained = iter(explanations(judged))
    total: Counter[str] = Counter()
    run = judged.as_mapping()["run"]
    for rule in judged.rules:
        suite = ET.SubElement(root, "testsuite", {"name": rule.name})
        properties = ET.SubElement(suite, "properties")
        for name in ("place", "checksum", "suite", "model", "seed"):
            ET.SubElement(properties, "property", {"name": name, "value": str(run[name])})
        counts: Counter[str] = Counter(tests=len(rule.rows), failures=0, errors=0, skipped=0)
        for name, row in zip(_names(rule.rows), rule.rows.to_dict("records"), strict=True):
            case = ET.SubElement(suite, "testcase", {"classname": rule.name, "name": name, "time": "0"})
            why = next(explained)
            if row["outcome"] == Outcome.HOLDS:
                ET.SubElement(case, "system-out").text = why
                continue
            kind = "skipped" if allow_undecided and row["outcome"] == Outcome.UNDECIDED else "failure"
            counts["skipped" if kind == "skipped" else "failures"] += 1
            message = {"message": ": ".join(filter(None, (row["outcome"], row["reason"])))}
            ET.SubElement(case, kind, message | ({"type": row["outcome"]} if kind == "failure" else {})).text = why
        suite.attrib.update({name: str(n) for name, n in counts.items()})
        total += counts
    root.attrib.update({name: str(total[name]) for name in ("tests", "failures", "errors", "skipped")})
    for element in root.iter():
        element.text = printable(element.text) if element.text else None
        element.attrib = {name: printable(value) for name, value in element.attrib.items()}
    ET.indent(root)
    written: bytes = ET.tostring(root, encoding="utf-8")
    return b'<?xml version="1.0" encoding="utf-8"?>\n' + written + b"\n"


_MARK: Final = {Outcome.HOLDS: "holds", Outcome.BROKEN: "**broken**", Outcome.UNDECIDED: "undecided"}


def markdown(judged: Gate) -> str:
    """Write a gate as a summary in Markdown: its outcome, a line a rule, and the numbers that do not hold."""
    title = escaped(judged.policy.title or "Gate")
    run = judged.as_mapping()["run"]
    lines = [f"## {title}: {judged.outcome}", ""]
    if judged.unchecked:
        lines += [f"{escaped(judged.unchecked)}.", ""]
    lines += [f"{gate_in_words(judged)} {way_on(judged)}", "", "| rule | outcome | numbers |", "|---|---|---:|"]
    lines += [f"| {escaped(rule.name)} | {_MARK[rule.outcome]} | {len(rule.rows)} |" for rule in judged.rules]
    for rule in judged.rules:
        if rule.outcome == Outcome.HOLDS:
            continue
        columns = columns_of(judged, rule.unmet)
        lines += ["", f"### {escaped(rule_in_words(rule))}", "", f"| {' | '.join(columns)} |"]
        lines.append(f"|{'---|' * len(columns)}")
        shown = [column[:MOST_ROWS] for column in columns.values()]
        lines += [f"| {' | '.join(map(escaped, cells))} |" for cells in zip(*shown, strict=True)]
        if len(rule.unmet) > MOST_ROWS:
            lines += ["", f"{len(rule.unmet) - MOST_ROWS} more are not listed."]
    audited = f"{escaped(run['model'])} on {escaped(run['suite'])}, seed {run['seed']}"
    if judged.history is not None:
        audited = f"{audited}. {escaped(judged.history.in_words()).rstrip('.')}"
    return "\n".join([*lines, "", f"{audited}. Brackets: 95 % intervals.", ""])
