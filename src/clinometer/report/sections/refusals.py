"""One sentence on whether one group was refused more often than the other."""

from __future__ import annotations

from typing import Any

from clinometer.report import wording
from clinometer.report.rows import Scores
from clinometer.report.verdict_words import decided
from clinometer.report.view import PairView


def refusal_words(view: PairView) -> dict[str, Any] | None:
    """The difference between the rates of the suite's two groups, the one that lost more named first.

    ``certain`` says whether interval and p both say so. None where no picture was refused.
    """
    if not len(view.report.scores):
        return None
    rows = Scores.from_frame(view.report.scores).select("refusal", "difference", encoder="")
    if not rows:
        return None
    row = min(rows, key=lambda candidate: candidate.p if candidate.has_interval else 2.0)  # of crossed axes, one each
    names, ends = view.labels_of(row.group), (row.low, row.high)
    if row.value < 0:  # the row is a less b
        names, ends = names[::-1], (-row.high, -row.low)
    return {
        "group": names[0],
        "other": names[1],
        "difference": wording.signed(abs(row.value)),
        "interval": wording.interval(*ends, 2),
        "certain": decided(row),
        "p": wording.probability(row.p, "p"),
        "test": row.test,
        "reason": row.reason,
    }
