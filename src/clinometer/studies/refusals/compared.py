"""Which of two runs refuses more, of what and of whom, and what that means for the differences of leaning."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from clinometer.report import wording
from clinometer.report.comparison import DifferenceTable, difference_table
from clinometer.report.rows import Row, Scores
from clinometer.report.wording import decided, difference_words, not_measured, of_these_prompts
from clinometer.runs.together import Comparison
from clinometer.studies import study_of
from clinometer.suites import Suite


def refusals_in_words(comparison: Comparison, labels: tuple[str, str]) -> list[str]:
    """Sentences on refusals, the finding first; none where neither run refused anything."""
    rows = _differences(comparison)
    if not rows:
        return []
    overall = rows[0]
    if not overall.defined:
        return [f"Refusals of {labels[1]} and {labels[0]} cannot be compared: {overall.reason}."]
    return [*_finding(overall, comparison, labels), *_whom(rows[1:], comparison, labels), _condition(rows, comparison)]


def refusal_table(comparison: Comparison, labels: tuple[str, str]) -> DifferenceTable | None:
    """A row for all prompts, for the groups' difference, and for every concept and group that was refused anything."""
    rows = [row for row in _differences(comparison) if row.defined]
    if not rows:
        return None
    own = [{_about(row): row for row in _own(comparison, run)} for run in ("first run", "second run")]
    tests = list(dict.fromkeys(row.test for row in rows if row.test))

    def rate(of: Mapping[tuple[str, str, str], Row]) -> Callable[[Row], str]:
        return lambda row: wording.percent(of[_about(row)].value) if _about(row) in of else ""

    return difference_table(
        rows,
        labels,
        comparison.first.suite,
        title=f"Refusals of {labels[1]} minus refusals of {labels[0]}",
        unit="concept or group",
        column="difference",
        note=f"Shares of images refused or of one colour. Positive: {labels[1]} refuses more. "
        f"{wording.capitalised('; '.join(tests))}. Of several prompts the 95 % are over prompts, of one over its "
        "images; q over the concepts and groups that either refused anything of.",
        name=lambda row: _name(row, comparison),
        ends=_ends,
        before={label: rate(of) for label, of in zip(labels, own, strict=True)},
        explained=lambda row: not_measured(row) and bool(row.reason),
        uncounted=1,
    )


def _worded(row: Row, comparison: Comparison, labels: tuple[str, str]) -> str:
    return difference_words(row, labels, comparison.first.suite.label_of)


def _differences(comparison: Comparison) -> list[Row]:
    """The row over all prompts first."""
    scores = Scores.from_frame(comparison.scores)
    rates = scores.select("comparison", "refusal_rate", encoder="")
    return [*rates[:1], *scores.select("comparison", "refusal_difference", encoder=""), *rates[1:]]


def _own(comparison: Comparison, run: str) -> list[Row]:
    return Scores.from_frame(comparison.scores).select("comparison", "own_refusal_rate", encoder="", setting=run)


def _ends(row: Row) -> tuple[float, float]:
    """The interval that is judged: over prompts where there are several."""
    return (row.stimulus_low, row.stimulus_high) if row.has_stimulus_interval else (row.low, row.high)


def _about(row: Row) -> tuple[str, str, str]:
    return row.concept, row.group, row.component.removeprefix("own_")


def _name(row: Row, comparison: Comparison) -> str:
    suite = comparison.first.suite
    if row.component == "refusal_difference":
        return f"{suite.label_of(row.group)}, against {_other_group(suite)}"
    return row.concept or (suite.label_of(row.group) if row.group else "all prompts")


def _other_group(suite: Suite) -> str:
    """Name what the suite's first group is compared with."""
    return suite.label_of(study_of(suite).compared_groups(suite)[0].b)


def _finding(row: Row, comparison: Comparison, labels: tuple[str, str]) -> list[str]:
    rates = [_own(comparison, run)[0].value for run in ("first run", "second run")]
    verdict = _worded(row, comparison, labels) if decided(row) else "undecided which refuses more"
    shares = f"{wording.percent(rates[1])} of images are missing in {labels[1]}, {wording.percent(rates[0])} in "
    if of_these_prompts(row):
        verdict += "; whether of others like them is undecided"
    numbers = wording.with_interval(row.value, *_ends(row))
    if row.has_stimulus_interval:
        numbers += f" over prompts, {wording.interval(row.low, row.high)} over images"
    p = wording.probability(row.p, "p")
    left_out = [f"{wording.capitalised(row.reason)}."] if row.reason else []
    return [f"Refusals: {verdict}.", f"{shares}{labels[0]}: {numbers}{f', {p}' if p else ''}.", *left_out]


def _whom(rows: Sequence[Row], comparison: Comparison, labels: tuple[str, str]) -> list[str]:
    """The concepts and groups that one run refuses more, and whether its refusals tilt to one group."""
    by_verdict: dict[str, list[str]] = {}
    for row in rows:
        if decided(row):
            verdict = _worded(row, comparison, labels)
            name = [] if row.component == "refusal_difference" else [_name(row, comparison)]
            by_verdict.setdefault(verdict, []).extend(name)
    return [
        f"{verdict} of: {wording.listed(names)}." if names else f"{verdict}." for verdict, names in by_verdict.items()
    ]


def _condition(rows: Sequence[Row], comparison: Comparison) -> str:
    """Say what differences of leaning are about, where pictures are missing."""
    drawn = "what both runs drew" if comparison.paired else "what each run drew"
    bounds = Scores.from_frame(comparison.scores[comparison.scores[["n_missing", "n_missing_attributes"]].any(axis=1)])
    bounded = "; a verdict that the missing pictures may change says so" if any(r.has_bounds for r in bounds) else ""
    if any(map(decided, rows)):
        return (
            f"So differences of leaning are conditional: they are about {drawn}, and where one refuses more they may "
            f"be of what its filter lets through{bounded}."
        )
    return f"Differences of leaning are about {drawn}{bounded}."
