"""From the text over the prior to the image: the leaning of each concept at the three stages of such a model."""

from __future__ import annotations

from typing import Any

from clinometer.report import wording
from clinometer.report.rows import OWN_TEXT_METRIC, PRIOR_METRIC, Row
from clinometer.studies.leaning.view import LeaningView


def prior(view: LeaningView) -> dict[str, Any] | None:
    """A row a concept; left out where the model has no prior."""
    (name, *_) = [row.encoder for row in view.scores.select(PRIOR_METRIC, "ii", encoder="*")] or [""]
    if not name:
        return None
    drawn = view.scores.by_concept(PRIOR_METRIC, "ii", encoder=name)
    stages = [_own_text(view), drawn, view.scores.by_concept("mcas", "ii")]
    digits = [
        wording.digits_for([n for row in rows.values() for n in (row.value, *_ends(row, at))])
        for at, rows in enumerate(stages)
    ]
    return {
        "prior": name,
        "rows": [
            {
                "name": concept,
                "cells": [
                    _cell(rows.get(concept), n, at) for at, (rows, n) in enumerate(zip(stages, digits, strict=True))
                ],
            }
            for concept in view.concepts
        ],
        "agreement": _agreement(view, stages),
        "label_a": view.label_a,
        "label_b": view.label_b,
    }


def _own_text(view: LeaningView) -> dict[str, Row]:
    """TT in the text encoder that guides the prior: the first of the model's own."""
    names = [row.encoder for row in view.scores.select(OWN_TEXT_METRIC, "tt", encoder="*")]
    return view.scores.by_concept(OWN_TEXT_METRIC, "tt", encoder=names[0]) if names else {}


def _cell(row: Row | None, digits: int, stage: int) -> dict[str, str]:
    if row is None or not row.defined:
        return {"value": wording.MISSING, "interval": "", "q": ""}
    return {
        "value": wording.signed(row.value, digits),
        "interval": wording.interval(*_ends(row, stage), digits),
        "q": wording.probability(row.q, "q").removeprefix("q").removeprefix(" = ").strip(),  # its column says q
    }


def _ends(row: Row, stage: int) -> tuple[float, float]:
    """Of a text, over words; of what was drawn, over what was drawn."""
    return (row.stimulus_low, row.stimulus_high) if stage == 0 else (row.low, row.high)


def _agreement(view: LeaningView, stages: list[dict[str, Row]]) -> str:
    """For how many concepts text, prior and image see the same direction."""
    shared = [name for name in view.concepts if all(name in rows and rows[name].defined for rows in stages)]
    same = sum(len({rows[name].value > 0 for rows in stages}) == 1 for name in shared)
    if not shared:
        return ""
    return f"All three see the same direction for {same} of {wording.count(len(shared), 'concept')}."
