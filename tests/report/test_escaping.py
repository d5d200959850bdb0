"""Names, prompts and reasons are anybody's: they are shown, and never obeyed."""

import pytest

from clinometer.pipeline.notebook import run_repr_html
from clinometer.pipeline.reporting import render_html, write_html
from clinometer.report import Curve, ReportInput
from clinometer.suites import suite_from_mapping
from tests.report.page import Page
from tests.report.synthetic import report_input, small_input

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
        curve=Curve(reason=text, method=text),
    )


@pytest.fixture(params=HOSTILE.values(), ids=HOSTILE)
def hostile(request) -> str:
    return request.param


@pytest.fixture(scope="module")
def plain() -> Page:
    return Page(render_html(hostile_input("plain")))


def test_hostile_text_adds_no_element_and_no_attribute(hostile: str, plain: Page):
    page = Page(render_html(hostile_input(hostile)))
    for tag in ("script", "style", "title", "iframe", "b"):
        assert len(page.find(tag)) <= len(plain.find(tag))
    assert not [e for e in page.find("img") if e.attributes.get("src") == "x"]
    for element in page.elements:
        assert not [name for name in element.attributes if name.startswith("on")], element.tag


def test_hostile_text_is_shown_as_it_is(hostile: str):
    html = render_html(hostile_input(hostile))
    shown = Page(html).by_id("method").text.replace("\ufffd", "\0")
    assert " ".join(hostile.split()) in shown


def test_mathtext_is_left_alone():
    report = hostile_input("$x^2$")
    labels = [e.text for e in Page(render_html(report)).find("text")]
    assert any("$x^2$" in label for label in labels)


def test_a_link_to_the_scores_cannot_leave_the_folder():
    page = Page(render_html(small_input(csv_name='javascript:alert(1)"<')))
    (link,) = [e for e in page.find("a") if "download" in e.attributes]
    assert link.attributes["href"] == "javascript%3Aalert%281%29%22%3C"


def test_the_notebook_summary_escapes_too(hostile: str):
    report = hostile_input(hostile)
    html = run_repr_html(
        suite=report.suite,
        model_card=report.model_card,
        samples=report.samples,
        scores=report.scores,
        place=hostile,
    )
    page = Page(html)
    assert not page.find("script")
    assert not page.find("img")


def test_an_unpaired_surrogate_does_not_stop_the_page(tmp_path):
    report = small_input(title="a file named \udcff.png")
    assert "a file named ?.png" in write_html(report, tmp_path / "report.html").read_text(encoding="utf-8")
