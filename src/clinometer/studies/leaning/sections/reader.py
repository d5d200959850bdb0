"""Does the encoder read right? How often, what that makes of the shares, and whether the images show their concepts."""

from __future__ import annotations

from typing import Any, Final

from clinometer.report import wording
from clinometer.report.rows import Row
from clinometer.studies.leaning.view import LeaningView

NOT_SHOWN: Final = "not shown"
"""The flag of a share whose concept the images do not show."""

UNREAD: Final = "cannot read"
"""The flag of a view that gives no verdict."""

RATES: Final = ("sensitivity", "specificity", "informedness")


def reader(view: LeaningView) -> dict[str, Any] | None:
    """A table of encoders, one of groups, and both shares of every concept; None where the run holds no such rows."""
    names = list(dict.fromkeys(row.encoder for row in view.scores.select("reader", "informedness", encoder="*")))
    if not names:
        return None
    encoders = names[1:] if len(names) == 2 else names  # with one encoder the average is that encoder
    return {
        "encoders": [_encoder(view, name) for name in encoders],
        "confusion": confusion(view),
        "groups": [view.label(name) for name in view.suite.groups],
        "concepts": [_concept(view, name) for name in view.concepts],
        "unshown": wording.listed([name for name in view.concepts if _flag(view, name)]),
        "missing": wording.reasons(_missing_reasons(view)),
        "prompts": len({view.suite.text_of(target) for target in view.suite.targets}),
        "label_a": view.label_a,
        "label_b": view.label_b,
    }


def _encoder(view: LeaningView, name: str) -> dict[str, Any]:
    rows = {component: view.scores.first("reader", component, encoder=name) for component in RATES}
    judged = rows["informedness"]
    return {
        "name": "average over encoders" if name == "mean" else name,
        "rates": [rate(row) for row in rows.values()],
        "reads": judged is not None and judged.flag != UNREAD,
        "reason": judged.reason if judged is not None and judged.flag else "",
    }


def rate(row: Row | None) -> dict[str, str]:
    """A rate with its interval and the images that it is of."""
    if row is None or not row.defined:
        return {"value": wording.MISSING, "interval": "", "of": ""}
    counted = wording.count(row.n_target, "image")
    return {
        "value": wording.number(row.value),
        "interval": wording.interval(row.low, row.high),
        "of": counted if row.component != "informedness" else "",
    }


def confusion(view: LeaningView) -> list[dict[str, Any]]:
    """As what the images of each group are read, averaged over encoders; empty with two groups."""
    by_reading = {(row.group, row.setting): row for row in view.scores.select("reader", "confusion")}
    if not by_reading:
        return []
    groups = list(view.suite.groups)
    return [
        {
            "label": view.label(drawn),
            "cells": [_percent(by_reading.get((drawn, f"read as {read}"))) for read in groups],
            "n": next((row.n_target for (group, _), row in by_reading.items() if group == drawn), 0),
        }
        for drawn in groups
    ]


def _percent(row: Row | None) -> str:
    return wording.percent(row.value) if row is not None and row.defined else wording.MISSING


def _concept(view: LeaningView, name: str) -> dict[str, Any]:
    raw = view.shares.get(name)
    corrected = view.scores.by_concept("share", "corrected_share").get(name)
    first = view.scores.by_concept("fidelity", "own_prompt_first").get(name)
    upper = view.scores.by_concept("fidelity", "own_prompt_upper_half").get(name)
    missed = view.scores.by_concept("other_audits", "miss_rate").get(name)
    return {
        "name": name,
        "raw": _share(raw),
        "corrected": _share(corrected),
        "first": _share(first) | {"null": wording.number(first.null) if first and first.defined else ""},
        "upper": _percent(upper),
        "missed": _percent(missed),
        "unshown": _flag(view, name),
    }


def _share(row: Row | None) -> dict[str, str]:
    if row is None or not row.defined:
        return {"value": wording.MISSING, "interval": ""}
    return {"value": wording.number(row.value), "interval": wording.interval(row.low, row.high)}


def _flag(view: LeaningView, name: str) -> bool:
    share = view.shares.get(name)
    return share is not None and share.flag == NOT_SHOWN


def _missing_reasons(view: LeaningView) -> list[tuple[str, str]]:
    rows = view.scores.select("share", "corrected_share")
    return [(f"corrected share of {row.concept}", row.reason) for row in rows if not row.defined and row.reason]
