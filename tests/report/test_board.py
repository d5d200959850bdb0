"""Two pages for a board: two pages of either paper whatever a suite says, and no word more than the verdicts hold."""

import os
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pypdfium2
import pytest
from typer.testing import CliRunner

import clinometer as cm
from clinometer.cli.app import app
from clinometer.errors import InvalidInputError
from clinometer.exports import board
from clinometer.studies import study_of
from clinometer.studies.reporting import report_input
from tests.raising import raises
from tests.report.browsing import CHROMIUM
from tests.report.hostile import HOSTILE, hostile_input
from tests.report.page import Page
from tests.report.synthetic import report_input as large_input
from tests.report.synthetic_t2iat import report_input as t2iat_input

SMALL = Path(__file__).parents[1] / "fixtures/runs/leaning"
SIZES = {"a4": (595, 842), "letter": (612, 792)}
BEYOND = """() => [...document.querySelectorAll(".sheet")].map((sheet) => {
    const foot = sheet.querySelector(".foot").getBoundingClientRect().top;
    const ends = [...sheet.children].filter((e) => e.className !== "foot").map((e) => e.getBoundingClientRect().bottom);
    return Math.max(...ends) - foot;
})"""
INPUTS = {
    "small": lambda: report_input(cm.open_run(SMALL)),
    "large": large_input,
    "t2iat": t2iat_input,
    **{kind: lambda kind=kind: hostile_input(HOSTILE[kind]) for kind in ("closes", "long", "wide")},
}


def html_of(report, paper="a4"):
    page = study_of(report.suite).page(report.suite)
    return board.board_html(cm.open_run(SMALL), page.view.of(report), page, paper)


def sizes(pdf: bytes) -> list[tuple[int, ...]]:
    return [tuple(round(side) for side in page.get_size()) for page in pypdfium2.PdfDocument(pdf)]


@pytest.mark.slow
@pytest.mark.parametrize("kind", INPUTS)
def test_it_is_two_pages_of_either_paper_and_nothing_is_cut(browser, tmp_path, kind):
    report = INPUTS[kind]()
    for paper, size in SIZES.items():
        path = tmp_path / f"{paper}.html"
        path.write_text(html_of(report, paper), "utf-8", "replace")
        page = browser.new_page()
        told: list[str] = []
        page.on("console", lambda message, told=told: told.append(message.text))
        page.goto(path.as_uri())
        page.emulate_media(media="print")
        assert max(page.evaluate(BEYOND)) <= 0, paper
        assert sizes(page.pdf(prefer_css_page_size=True)) == [size] * 2
        assert told == []
        page.close()


WITH_FONTS = """<?xml version="1.0"?><!DOCTYPE fontconfig SYSTEM "fonts.dtd"><fontconfig>
<include ignore_missing="yes">/etc/fonts/fonts.conf</include><match target="pattern"><edit name="family" mode="assign"
binding="strong"><string>{family}</string></edit></match></fontconfig>"""
FAMILIES = ("DejaVu Sans", "DejaVu Serif", "Latin Modern Mono")
"""A wide, a serif and a monospaced family in place of every family that a page asks the system for."""


@pytest.mark.thorough
@pytest.mark.slow
def test_it_looks_the_same_whatever_fonts_the_machine_has(browser, tmp_path):
    boards = [(tmp_path / f"{kind}.html", html_of(INPUTS[kind]())) for kind in ("large", "long")]
    for path, html in boards:
        path.write_text(html, "utf-8", "replace")
    plain = "data:text/html,<span>Wiliam Mmmm</span>"
    found, system = [], set()
    for family in FAMILIES:
        conf = tmp_path / "fonts.conf"
        conf.write_text(WITH_FONTS.format(family=family))
        fonts: dict[str, str | float | bool] = {**os.environ, "FONTCONFIG_FILE": str(conf)}
        other = browser.browser_type.launch(executable_path=CHROMIUM, args=["--no-sandbox"], env=fonts)
        page = other.new_page()
        page.goto(plain)
        system.add(page.evaluate("document.querySelector('span').getBoundingClientRect().width"))
        beyond = []
        for path, _ in boards:
            page.goto(path.as_uri())
            page.emulate_media(media="print")
            beyond.append(page.evaluate(BEYOND))
        other.close()
        found.append(beyond)
    assert len(system) == len(FAMILIES)  # the machine did have other fonts
    assert found[0] == found[1] == found[2]
    assert max(end for sheet in found[0] for end in sheet) <= 0


def test_its_first_lines_answer_what_a_board_asks():
    page = Page(html_of(large_input()))
    heads = [heading.text for heading in page.find("h2")]
    assert heads == [
        "What was found", "What it means in practice", "How sure it is", "What to do next", "One by one",
        "What it does not say", "Where the evidence lies",
    ]  # fmt: skip
    text = page.find("body")[0].text
    run = cm.open_run(SMALL)
    assert run.record["checksum"] in text
    assert run.directory.sha256("scores.parquet") in text
    first, second = page.find("div", class_="sheet")
    assert len([image for image in page.find("img") if image.inside("p")]) == 24
    assert all(word not in first.text for word in ("q =", "q <", "image part", "II +", "\N{PLUS-MINUS SIGN}"))
    assert "pictures of dollhouse read as women" in first.text
    assert "What it does not say" in second.text
    assert str(run.url) not in text


def test_a_side_is_named_of_what_leans_and_of_nothing_else():
    report = large_input()
    page = study_of(report.suite).page(report.suite)
    (judged,) = page.verdicts(page.view.of(report))
    lines = board.in_practice([judged])
    for row in judged.rows:
        naming = [line for line in lines if row.concept in line]
        assert all(line.startswith(judged.verdict(row).capitalize()) for line in naming), row.concept
    undecided = report.scores.assign(verdict="undecided", side="")
    text = Page(html_of(replace(report, scores=undecided))).find("body")[0].text
    assert "nothing here says that the model leans, nor that it does not" in text
    assert "the images cannot tell" in text
    assert "leans to men:" not in text.lower()


def test_what_was_not_measured_is_not_called_balanced():
    report = large_input()
    empty = report.scores.assign(verdict="not measured", value=np.nan, low=np.nan, high=np.nan, p=np.nan, q=np.nan)
    text = Page(html_of(replace(report, scores=empty))).find("body")[0].text
    assert "Nothing could be" in text
    assert "Fix what kept 28 concepts from being measured; nothing can be said about them until then." in text
    assert "balanced" not in text.partition("What it does not say")[0]


@pytest.mark.thorough
@pytest.mark.slow
@pytest.mark.parametrize("printer", ["chromium", "weasyprint"])
def test_the_same_run_prints_alike_by_what_is_there(tmp_path, monkeypatch, printer):
    monkeypatch.setenv("CHROMIUM", CHROMIUM if printer == "chromium" else str(tmp_path / "none"))
    run = cm.open_run(SMALL)
    report = report_input(run)
    page = study_of(report.suite).page(report.suite)
    printed = dict(board.board_files(run, page.view.of(report), page, "letter"))
    assert sizes(printed["board.pdf"]) == [SIZES["letter"]] * 2
    if printer == "chromium":
        assert {"board.html", "board.pdf"} <= set(cm.export(SMALL, tmp_path / "paper", board="letter"))
        again = {name: (tmp_path / "paper" / name).read_bytes() for name in printed}
        assert again == printed | {"board.html": printed["board.html"].encode()}
    else:
        assert dict(board.board_files(run, page.view.of(report), page, "letter")) == printed


def test_names_that_the_browser_goes_on_counting_are_numbered_anew():
    first, second = (
        b"/CreationDate (D:2026112422081%d+00'00')/ID (node00000%d)/Ref (node00000%d)" % (n, 148 + n, 153 + n)
        for n in (0, 1)
    )
    alike = board._printed_alike(first, "2026-11-24T20:00:00+00:00")
    assert alike == board._printed_alike(second, "2026-11-24T20:00:00+00:00")
    assert alike == b"/CreationDate (D:20261124200000+00'00')/ID (node00000001)/Ref (node00000002)"


@pytest.mark.thorough
def test_without_anything_that_prints_there_is_the_page_and_a_line(tmp_path, monkeypatch):
    monkeypatch.setenv("CHROMIUM", str(tmp_path / "none"))
    monkeypatch.setitem(sys.modules, "weasyprint", None)
    done = CliRunner().invoke(app, ["export", str(SMALL), str(tmp_path / "paper")])
    assert done.exit_code == 0
    assert "board.html. Print it from a browser" in " ".join(done.stdout.split())
    assert (tmp_path / "paper/board.html").exists()
    assert not (tmp_path / "paper/board.pdf").exists()


@pytest.mark.thorough
def test_another_paper_is_refused(tmp_path):
    with raises(InvalidInputError, code="unknown-name", field="board", match="a4, letter, none"):
        cm.export(SMALL, tmp_path / "paper", board="a5")
