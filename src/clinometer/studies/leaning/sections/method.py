"""How a leaning was measured, and what that cannot say."""

from __future__ import annotations

from typing import Any

from clinometer.report.sections.method import card, flat
from clinometer.studies.leaning.view import LeaningView


def method(view: LeaningView) -> dict[str, Any]:
    """Cards, settings, words and limits."""
    report = view.report
    return {
        "generator": card(report.model_card),
        "encoders": [card(held) for held in report.encoder_cards.values()],
        "settings": list(flat(report.settings).items()),
        "suite": view.suite,
        "groups": [
            {
                "label": view.label(name),
                "prompts": [p.prompt for p in group.prompts],
                "words": list(group.words),
            }
            for name, group in view.suite.groups.items()
        ],
        "texts": "prompts" if view.suite.text_targets == "prompt" else "keywords",
        "label_a": view.label_a,
        "label_b": view.label_b,
        "label_third": view.label_third,
        "planted": report.planted is not None,
        "tests": sorted({row.test for row in view.scores if row.test}),
        "margin": view.suite.margin,
        "one_encoder": len(view.encoders) < 2,
    }
