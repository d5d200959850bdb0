"""What a run's scores say of each concept, in the report's words."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache

from clinometer import api
from clinometer.report import wording
from clinometer.report.rows import Row, Scores
from clinometer.report.wording import verdict_group_of, verdict_in_full
from clinometer.web.runs_index import RunEntry


@dataclass(frozen=True)
class Finding:
    """A verdict with its score.

    Attributes
    ----------
    lean : which colour and mark it has, as in the report. words : the verdict.
    number, interval : the score and its 95 % interval.
    """

    lean: str
    words: str
    metric: str
    number: str
    interval: str


def findings_of(entry: RunEntry) -> Mapping[str, Finding]:
    """The finding of each concept of a run; none of a run without scores."""
    assert entry.run is not None
    return _findings(entry.run, entry.stamp) if entry.listed.is_scored else {}


@lru_cache(maxsize=64)
def _findings(run: api.Run, stamp: str) -> Mapping[str, Finding]:
    rows = judged(Scores.from_frame(run.scores))
    digits = wording.digits_for([row.value for row in rows.values()])
    return {concept: _finding(run, row, digits) for concept, row in rows.items()}


def furthest(entry: RunEntry) -> list[str]:
    """The concept that leans furthest to either side, where any does."""
    assert entry.run is not None
    rows = judged(Scores.from_frame(entry.run.scores)).values() if entry.listed.is_scored else []
    sides = ([row for row in rows if verdict_group_of(row) == side] for side in ("a", "b"))
    return [max(leaning, key=lambda row: abs(row.value)).concept for leaning in sides if leaning]


def _finding(run: api.Run, row: Row, digits: int) -> Finding:
    return Finding(
        verdict_group_of(row),
        verdict_in_full(row, run.suite.label_of) or "no verdict",
        wording.COMPONENT_NAMES.get(row.component, row.component.replace("_", " ")),
        wording.signed(row.value, digits),
        wording.interval(row.low, row.high, digits),
    )


def judged(rows: Iterable[Row]) -> dict[str, Row]:
    """The first row of each concept that bears a verdict of its own: that of the study's main score."""
    by_concept: dict[str, Row] = {}
    for row in rows:
        if row.concept and row.verdict and not row.group:
            by_concept.setdefault(row.concept, row)
    return by_concept
