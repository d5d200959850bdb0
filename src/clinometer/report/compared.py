"""What was compared: the facts of several runs, a column a run, in the words of their own reports."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from clinometer.report import wording
from clinometer.report.from_run import report_input
from clinometer.report.inputs import ReportInput
from clinometer.report.sections.masthead import facts
from clinometer.report.sections.method import card, flat
from clinometer.report.view import View
from clinometer.runs import Run

_FACTS: Final = ("seed", "created", "versions.clinometer")
"""Settings that are among the facts already."""

_LABELS: Final = {"images": "images asked for"}  # how many there are is a fact of its own


def compared(runs: Mapping[str, Run]) -> dict[str, Any]:
    """The facts of every run, by the runs' names; of their settings those that differ, and those that are the same."""
    reports = [report_input(run) for run in runs.values()]
    fact_cells = _by_name([_facts(report) for report in reports])
    settings = _by_name([_settings(report) for report in reports])
    return {
        "names": list(runs),
        "rows": [_row(name, cells) for name, cells in fact_cells.items()]
        + [_row(name, cells) for name, cells in settings.items() if _differ(cells)],
        "same": [(name, _shortened(cells[0])) for name, cells in settings.items() if not _differ(cells)],
    }


def _facts(report: ReportInput) -> dict[str, str]:
    """Facts of a run that are shown whether they differ or not."""
    masthead = dict(facts(View.of(report)))
    identity = dict(card(report.model_card)["identity"])
    return {
        "Model": masthead.get("Model", ""),
        "Family": identity.get("family", ""),
        "Revision": identity.get("revision", ""),
        "Weights": identity.get("weights (SHA-256)", ""),
        "Encoders": masthead.get("Encoders") or masthead.get("Encoder", ""),
        "Images": masthead.get("Images", ""),
        "Seed": masthead.get("Seed", ""),
        "Date": masthead.get("Date", ""),
        "Clinometer": report.settings["versions"].get("clinometer", ""),
    }


def _settings(report: ReportInput) -> dict[str, str]:
    """The settings that a run's own report lists."""
    listed = {name: value for name, value in flat(report.settings).items() if name not in _FACTS}
    return {_LABELS.get(name, name): value for name, value in listed.items()}


def _by_name(run_texts: Sequence[Mapping[str, str]]) -> dict[str, list[str]]:
    """What each run has under a name, empty where it has nothing; names that none has anything under are left out."""
    names = dict.fromkeys(name for texts in run_texts for name in texts)
    nothing = ("", wording.MISSING)  # not told, and told to be nothing
    cells = {name: ["" if texts.get(name, "") in nothing else texts[name] for texts in run_texts] for name in names}
    return {name: row for name, row in cells.items() if any(row)}


def _differ(cells: Sequence[str]) -> bool:
    return len(set(cells)) > 1


def _row(name: str, cells: Sequence[str]) -> dict[str, Any]:
    short_cells = [_shortened(cell) or wording.MISSING for cell in cells]
    return {"name": name, "cells": short_cells, "differs": _differ(cells)}


def _shortened(value: str) -> str:
    """A value with only the first digits of every SHA-256 in it."""
    return re.sub(r"\b([0-9a-f]{12})[0-9a-f]{52}\b", rf"\1{wording.ELLIPSIS}", value)
