"""Texts that are no harm until a page believes them, and a run made of nothing else."""

from __future__ import annotations

from functools import cache

from clinometer.pipeline.results import render_html
from clinometer.report import ReportInput
from clinometer.suites import suite_from_mapping
from tests.report.synthetic import report_input

HOSTILE = {
    "script": "<script>alert(1)</script>",
    "attribute": "\" onload='alert(1)' x=\"",
    "closes": "</style></svg></title><img src=x onerror=alert(1)>",
    "mathtext": r"$x$ \frac{a} $unclosed ^_{}",
    "braces": "{{ 7 * 7 }} {% raw %}",
    "entity": "&lt;b&gt; &amp; ]]> <!-- -->",
    "right to left": "מהנדסת \u202e evil \u202c العربية",
    "wide": "消防士 👩🏽‍🚒 ﷽ 🏳️‍🌈",
    "long": "unbreakable" * 17,
    "control": "bell \x07 null \x00 escape \x1b[31m",
}


def hostile_input(text: str) -> ReportInput:
    """Build a run whose every free text is ``text``; its names hold no control character, as no name may."""
    name = "".join(character for character in text if character >= " ")
    suite = suite_from_mapping(
        {
            "name": name,
            "title": text,
            "description": text,
            "source": text,
            "groups": {
                group: {
                    "label": f"{name} {group}",
                    "prompts": [{"prompt": f"{text} {group}"}],
                    "words": [text],
                }
                for group in ("a", "b", "c")
            },
            "axis": {"a": "a", "b": "b", "third": "c"},
            "categories": {
                name: {
                    "label": name,
                    "targets": [
                        {"name": f"{name} {order}", "prompt": f"{text} {order}", "stereotype": "a"}
                        for order in range(3)
                    ],
                }
            },
            "images": {"target": 3, "attribute": 3},
            "margin": 0.05,
        },
        source="test",
    )
    report = report_input(suite=suite)
    encoders = report.scores.encoder.replace("ViT-B-32/openai", text)
    scores = report.scores.assign(reason=text, test=text, encoder=encoders)
    return report_input(
        suite=suite,
        title=text,
        model_card={"name": text, text: text, "settings": {text: {text: text}}, "notes": {text: [text]}},
        encoder_cards={text: {"name": text}},
        settings={text: text, "seed": text, "created": text},
        scores=scores,
        samples=report.samples.assign(status="refused", reason=text),
    )


@cache
def hostile_html(text: str) -> str:
    """The page of such a run, drawn once for all who look at it."""
    return render_html(hostile_input(text))
