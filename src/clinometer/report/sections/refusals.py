"""One sentence on whether one group was refused more often than the other."""

from __future__ import annotations

from typing import Any

from clinometer.report import wording
from clinometer.report.rows import Scores
from clinometer.report.view import View


def refusal_words(view: View) -> dict[str, Any] | None:
    """The difference between the rates of the suite's two groups; None where no picture was refused."""
    if not len(view.report.scores):
        return None
    rows = Scores.from_frame(view.report.scores).select("refusal", "difference", encoder="")
    if not rows:
        return None
    (row,) = rows
    return {
        "group": view.label(row.group),
        "difference": wording.signed(row.value),
        "interval": wording.interval(row.low, row.high, 2),
        "p": wording.probability(row.p, "p"),
        "test": row.test,
        "reason": row.reason,
    }
