"""Names, prompts and reasons are anybody's: they are shown, and never obeyed."""

import pytest

from clinometer.pipeline.results import render_html, run_repr_html
from tests.quick import thorough_but
from tests.report.hostile import HOSTILE, hostile_html, hostile_input
from tests.report.page import Page, with_only, write_html
from tests.report.synthetic import small_input


@pytest.fixture(params=thorough_but(HOSTILE, "script", "attribute", "mathtext", "braces"))
def hostile(request) -> str:
    return HOSTILE[request.param]


@pytest.fixture(scope="module")
def plain() -> Page:
    return Page(render_html(hostile_input("plain")))


def test_hostile_text_adds_no_element_and_no_attribute(hostile: str, plain: Page):
    page = Page(hostile_html(hostile))
    for tag in ("script", "style", "title", "iframe", "b"):
        assert len(page.find(tag)) <= len(plain.find(tag))
    assert not [e for e in page.find("img") if e.attributes.get("src") == "x"]
    for element in page.elements:
        assert not [name for name in element.attributes if name.startswith("on")], element.tag


def test_hostile_text_is_shown_as_it_is(hostile: str):
    html = hostile_html(hostile)
    shown = Page(html).by_id("method").text.replace("\ufffd", "\0")
    assert " ".join(hostile.split()) in shown


def test_mathtext_is_left_alone():
    report = hostile_input("$x^2$")
    labels = [e.text for e in Page(render_html(report)).find("text")]
    assert any("$x^2$" in label for label in labels)


def test_a_link_to_the_scores_cannot_leave_the_folder():
    page = with_only(small_input(csv_name='javascript:alert(1)"<'), "table")
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
