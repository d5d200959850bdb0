"""What other audits would report of the same images, beside what exact parity gives at the same number of images."""

from __future__ import annotations

from typing import Any, Final

from clinometer.report import wording
from clinometer.report.rows import Row
from clinometer.studies.leaning.view import LeaningView

SCORES: Final = (
    ("gender_gap", "HEIM", "|share − ½|", "0 at parity, ½ at most"),
    ("mean_absolute_deviation", "DALL-Eval", "MAD", "0 when all groups are seen equally often"),
    ("entropy_bias", "OpenBias", "1 − H/ln K", "0 when all groups are seen equally often, 1 when one is"),
    ("distribution_bias", "Vice", "area", "K − 1 when all groups are seen equally often, smaller when one dominates"),
    ("miss_rate", "Vice", "misses", "share of images nearer to a blank prompt than to their own text"),
)


def other_audits(view: LeaningView) -> dict[str, Any] | None:
    """Gather a row a concept, with a cell a score; None where the run holds none of them."""
    by_score = {name: view.scores.by_concept("other_audits", name) for name, *_ in SCORES}
    concepts = [name for name in view.concepts if any(name in rows for rows in by_score.values())]
    if not concepts:
        return None
    empty = [
        (f"{tool}, {symbol}, of {name}", by_score[score][name].reason)
        for score, tool, symbol, _ in SCORES
        for name in concepts
        if name in by_score[score] and not by_score[score][name].defined
    ]
    return {
        "missing": wording.reasons(entry for entry in empty if entry[1]),
        "scores": [{"tool": tool, "symbol": symbol, "meaning": meaning} for _, tool, symbol, meaning in SCORES],
        "rows": [
            {"name": name, "cells": [_cell(by_score[score].get(name)) for score, *_ in SCORES]} for name in concepts
        ],
        "label_a": view.label_a,
        "label_b": view.label_b,
    }


def _cell(row: Row | None) -> dict[str, str]:
    """Value, interval, and the null."""
    if row is None or not row.defined:
        return {"value": wording.MISSING, "interval": "", "null": ""}
    return {
        "value": wording.number(row.value),
        "interval": wording.interval(row.low, row.high),
        "null": wording.number(row.null),
    }
