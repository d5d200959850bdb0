"""TT in the model's own text encoders, beside TT in the audit's."""

from __future__ import annotations

from typing import Any

from clinometer.report import wording
from clinometer.report.rows import OWN_TEXT_METRIC, Row
from clinometer.studies.leaning.view import LeaningView


def own_text(view: LeaningView) -> dict[str, Any] | None:
    """A row a concept, a column an encoder; left out where the model showed no text encoder."""
    names = list(dict.fromkeys(row.encoder for row in view.scores.select(OWN_TEXT_METRIC, "tt", encoder="*")))
    if not names:
        return None
    audit = view.scores.by_concept("mcas", "tt")
    own = {name: view.scores.by_concept(OWN_TEXT_METRIC, "tt", encoder=name) for name in names}
    # TT may be far smaller than MCAS; every encoder has a scale of its own, and one row the same decimals throughout
    digits = max(_digits(rows) for rows in (audit, *own.values()))
    return {
        "encoders": names,
        "rows": [
            {
                "name": concept,
                "audit": _cell(audit.get(concept), digits),
                "own": [_cell(own[name].get(concept), digits) for name in names],
            }
            for concept in view.concepts
        ],
        "label_a": view.label_a,
        "label_b": view.label_b,
    }


def _digits(rows: dict[str, Row]) -> int:
    """No more than the intervals deserve."""
    estimates = ((row.value, row.stimulus_low, row.stimulus_high) for row in rows.values())
    return wording.digits_for([number for numbers in estimates for number in numbers])


def _cell(row: Row | None, digits: int) -> dict[str, str]:
    if row is None or not row.defined:
        return {"value": wording.MISSING, "q": ""}
    interval = wording.interval(row.stimulus_low, row.stimulus_high, digits)
    return {
        "value": f"{wording.signed(row.value, digits)} {interval}".strip(),
        "q": wording.probability(row.q, "q"),
    }
