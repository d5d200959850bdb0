"""One sentence on whether one group was refused more often than the other."""

from __future__ import annotations

from typing import Final

from clinometer.report import wording
from clinometer.report.rows import Scores
from clinometer.report.verdict_words import decided
from clinometer.report.view import PairView

_MISSING: Final = "are missing (refused or of one colour)"


def refusal_words(view: PairView) -> str:
    """The difference between the rates of the suite's two groups, the one that lost more named first.

    It says "more often" where interval and p both do. Empty where no picture was refused.
    """
    if not len(view.report.scores):
        return ""
    rows = Scores.from_frame(view.report.scores).select("refusal", "difference", encoder="")
    if not rows:
        return ""
    row = min(rows, key=lambda candidate: candidate.p if candidate.has_interval else 2.0)  # of crossed axes, one each
    names, ends = view.labels_of(row.group), (row.low, row.high)
    if row.value < 0:  # the row is a less b
        names, ends = names[::-1], (-row.high, -row.low)
    difference = f"{wording.signed(abs(row.value))} {wording.interval(*ends, 2)}"
    why = f"; {row.reason}" if row.reason else f", {wording.probability(row.p, 'p')} ({row.test})"
    if decided(row):
        return f"Pictures of {names[0]}, against those of {names[1]}, {_MISSING} more often by {difference}{why}."
    return f"The shares of pictures that {_MISSING} for {names[0]} and for {names[1]} differ by {difference}{why}."
