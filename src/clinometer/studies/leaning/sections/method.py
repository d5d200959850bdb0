"""How a leaning was measured, and what that cannot say."""

from __future__ import annotations

from typing import Any

from clinometer.report.page import View
from clinometer.report.sections import measured_how
from clinometer.studies.leaning.view import LeaningView
from clinometer.suites import LeaningSuite


def method(view: LeaningView) -> dict[str, Any]:
    """Cards, settings, words and limits."""
    return measured_how(view) | {
        "groups": group_texts(view, view.suite),
        "texts": "prompts" if view.suite.text_targets == "prompt" else "keywords",
        "label_a": view.label_a,
        "label_b": view.label_b,
        "label_third": view.label_third,
        "margin": view.suite.margin,
    }


def group_texts(view: View, suite: LeaningSuite) -> list[dict[str, Any]]:
    """The prompts and words of each group."""
    return [
        {"label": view.label(name), "prompts": [p.prompt for p in group.prompts], "words": list(group.words)}
        for name, group in suite.groups.items()
    ]
