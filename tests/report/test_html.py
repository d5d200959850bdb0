"""The page of a full run: its structure, its size, what it may load."""

import base64
import hashlib
import re
from collections import Counter
from dataclasses import replace
from itertools import pairwise

import pytest

from clinometer.pipeline.results import render_html
from clinometer.report import wording
from tests.report.page import Page, with_only, write_html
from tests.report.synthetic import ENCODERS, report_input, small_input

MEGABYTE = 2**20
LOADING = ("src", "href", "xlink:href", "srcset", "action", "data", "poster")


def test_the_sections_come_in_order(page: Page):
    ids = [e.attributes["id"] for e in page.find("section") if e.parent and e.parent.tag == "main"]
    assert ids == ["found", "pictures", "sure", "limits", "basis", "numbers"]
    parts = {
        chapter: [
            e.attributes["id"]
            for e in page.find("section")
            if e.attributes.get("class") == "part" and e.within(chapter)
        ]
        for chapter in ids
    }
    assert parts == {
        "found": ["verdicts", "categories", "stages", "internal", "plane"],
        "pictures": ["gallery"],
        "sure": ["certainty", "planted"],
        "limits": ["method-limits"],
        "basis": ["method"],
        "numbers": ["table", "other-audits"],
    }
    folded = [e.attributes["id"] for e in page.find("section", class_="part") if e.inside("details")]
    assert folded == [part for of in parts.values() for part in of[1:]]
    assert [e.attributes["href"] for e in page.find("a") if e.inside("nav")] == [f"#{i}" for i in ids]


def test_the_same_input_gives_the_same_bytes(html: str):
    assert render_html(report_input()) == html


def test_the_file_stays_a_few_megabytes(html: str):
    assert len(html.encode()) < 4 * MEGABYTE


def test_nothing_is_loaded_from_outside(page: Page, html: str):
    for element in page.elements:
        for name in LOADING:
            value = element.attributes.get(name, "#")
            assert value.startswith(("#", "data:")) or value == "scores.csv", (element.tag, name, value[:80])
    assert "@import" not in html
    assert "url(" not in re.sub(r"url\((#|data:font/woff2;base64,)[^)]*\)", "", html)  # fonts are inside the file


def test_the_policy_allows_this_style_and_this_script_only(page: Page):
    (policy,) = (e.attributes["content"] for e in page.find("meta") if "http-equiv" in e.attributes)
    assert policy.startswith("default-src 'none'; img-src data:;")
    assert "unsafe" not in policy
    for tag in ("style", "script"):
        (element,) = page.find(tag)
        digest = hashlib.sha256("".join(element.pieces).encode()).digest()
        assert f"{tag}-src 'sha256-{base64.b64encode(digest).decode()}'" in policy


def test_no_element_carries_style_or_script_of_its_own(page: Page):
    for element in page.elements:
        own = [name for name in element.attributes if name == "style" or name.startswith("on")]
        assert not own, (element.tag, own)


def test_ids_are_unique_and_references_meet_them(page: Page):
    ids = Counter(e.attributes["id"] for e in page.elements if "id" in e.attributes)
    assert [name for name, count in ids.items() if count > 1] == []
    for element in page.elements:
        for name in ("aria-labelledby", "aria-controls", "for"):
            assert all(target in ids for target in element.attributes.get(name, "").split())
        link = element.attributes.get("href", "")
        assert not link.startswith("#") or link[1:] in ids, link
        for attribute in element.attributes.values():
            assert all(target in ids for target in re.findall(r"url\(#([^)]*)\)", attribute))


def test_headings_skip_no_level(page: Page):
    levels = [int(e.tag[1]) for e in page.elements if re.fullmatch("h[1-6]", e.tag)]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(deeper - level <= 1 for level, deeper in pairwise(levels))


def test_every_picture_says_what_it_is(page: Page):
    images = page.find("img")
    assert len(images) > 300
    assert all(image.attributes["alt"].startswith("an image of") for image in images)
    assert all(image.attributes["loading"] == "lazy" and image.inside("details") for image in images)
    shown = page.find("svg", class_="tile")
    assert len(shown) > 300
    assert all(each.attributes["aria-label"].startswith("an image of") for each in shown)
    drawings = [e for e in page.find("svg", role="img") if "viewbox" in e.attributes]
    assert all("aria-labelledby" in e.attributes or e.attributes.get("aria-label") for e in drawings)


def test_tables_have_captions_and_scoped_heads(page: Page):
    tables = page.find("table")
    assert len(page.find("caption")) == len(tables) >= 6
    assert all(head.attributes.get("scope") in ("col", "row", "colgroup") for head in page.find("th"))
    for frame in page.find("div"):
        if "scroll" in frame.attributes.get("class", "").split():
            assert frame.attributes["tabindex"] == "0"
            assert frame.attributes["aria-label"]


def test_every_concept_has_a_verdict_with_its_interval(page: Page, report):
    said = [e.text for e in page.find("li") if e.inside("ul") and e.parent.attributes.get("class") == "verdicts"]
    assert len(said) == len(report.suite.targets)
    sentence = re.compile(
        r"^An? image of .+ "
        r"(leans (slightly )?to (men|women)|is shown balanced|is undecided): "
        r"\d+ of 20 images read as (men|women), \d+ % \[\d+ %, \d+ %\]; "
        r"image part [+−]?\d\.\d+ \[−?\d\.\d+, −?\d\.\d+\]; text [+−]?\d\.\d+$"
    )
    assert [text for text in said if not sentence.match(text)] == []


def test_each_verdict_draws_its_two_parts(page: Page, report):
    """The bars say in words what they draw, and begin at the middle."""
    bars = page.find("svg", class_="parts", role="img")
    assert len(bars) == len(report.suite.targets)
    rows = report.scores[(report.scores.metric == "mcas") & (report.scores.encoder == "mean")]
    known = {
        f"pictures {wording.signed(pictures, 2)}, text {wording.signed(text, 2)}"
        for pictures, text in zip(
            *(rows[rows.component == name].value for name in ("image_part", "text_part")), strict=True
        )
    }
    assert {bar.attributes["aria-label"] for bar in bars} == known
    for rect in (e for e in page.find("rect") if e.parent in bars):
        start, width = float(rect.attributes["x"]), float(rect.attributes["width"])
        assert min(abs(start - 60), abs(start + width - 60)) <= 0.11
        assert -1 <= start <= start + width <= 121


def test_mcas_says_by_which_part_it_leans(page: Page, report):
    (caption,) = (e for e in page.find("caption") if e.text.startswith("MCAS of each concept and its two parts"))
    carried = [e.text for e in page.find("td") if e.inside("table") and e.parent.parent.parent is caption.parent][1::4]
    assert len(carried) == len(report.suite.targets)
    assert set(carried) <= {"by its pictures", "by its text", "by both", "the two cancel", ""}
    said = page.by_id("categories").text
    for source in ("by its pictures", "by both"):
        assert f"{carried.count(source)} {source.replace('its', 'their')}" in said


@pytest.mark.parametrize(
    ("share", "ita", "said"),
    [
        (0.3, 0.1, "6 images read as men, further from the middle than the others"),
        (0.3, -0.1, "read by the words alone; its pictures are nearer to the pictures drawn for men, and by more"),
        (0.7, 0.1, ""),
    ],
)
def test_why_count_and_score_differ_is_said_from_the_numbers_of_the_concept(share, ita, said):
    whole = small_input()
    scores, concept = whole.scores.copy(), whole.suite.targets[0].name
    own = (scores.concept == concept) & (scores.encoder == "mean")
    scores.loc[own & (scores.component == "ita"), "value"] = ita
    scores.loc[own & (scores.metric == "share") & (scores.component == "share"), ["value", "flag"]] = share, ""
    scores.loc[own & (scores.component == "image_part"), ["value", "low", "high", "verdict", "side"]] = (
        0.2,
        0.1,
        0.3,
        "leans",
        "man",
    )
    page = with_only(replace(whole, scores=scores), "verdicts")
    lines = {e.text for e in page.find("p", class_="numbers")}
    assert (said in lines) is bool(said)
    assert not [line for line in lines if "outweigh" in line]


def test_what_is_picked_by_its_sign_is_not_said_to_lean(page: Page):
    (caption,) = (e for e in page.find("caption") if e.text.startswith("Mean and standard deviation of MCAS"))
    heads = [e.text for e in page.find("th", scope="colgroup") if e.parent.parent.parent is caption.parent]
    assert heads == ["measured positive, to men", "measured negative, to women", "all"]
    assert "undecided ones too" in page.by_id("categories").text


def test_why_a_score_is_missing_is_said_in_text(page: Page):
    said = [e.text for e in page.find("p", class_="note") if "no image of the target" in e.text]
    assert said == ["— 28 cells: no image of the target."]
    assert not [e for e in page.find("td") if "title" in e.attributes]


def test_an_interval_breaks_from_its_number_and_not_within(page: Page):
    intervals = [e for e in page.find("span", class_="whole") if e.text.startswith("[")]
    assert len(intervals) > 4 * 28
    assert all(re.fullmatch(r"\[\S+( %)?, \S+( %)?\]", e.text) for e in intervals)


def test_the_bars_of_stages_are_told(page: Page):
    assert "95 % over images; for TT, which has none, over words and encoders" in page.by_id("stages").text


def test_the_full_table_has_every_row(page: Page, report):
    rows = [e for e in page.find("tr") if e.inside("tbody") and _table_of(e) == "scores"]
    assert len(rows) == len(report.scores)
    heads = [e for e in page.find("button") if e.inside("th")]
    assert [e.text for e in heads][:6] == ["Concept Metric Component Encoder", "Value", "Low", "High", "p", "q"]
    assert "Setting" not in {e.text for e in heads}  # no row has one


def _table_of(element):
    while element is not None and element.tag != "table":
        element = element.parent
    return element.attributes.get("id") if element is not None else None


def test_the_images_that_failed_are_counted(page: Page, report):
    facts = dict(zip([e.text for e in page.find("dt")], [e.text for e in page.find("dd")], strict=True))
    counts = report.samples.status.value_counts()
    assert (
        facts["Images"] == f"{counts.ok} drawn, {counts.refused} refused, {counts.failed} failed, {counts.blank} blank"
    )
    lost = [e for e in page.find("span", class_="tile lost")]
    assert len(lost) == len(report.samples) - counts.ok
    assert any("safety checker" in e.attributes["aria-label"] for e in lost)


@pytest.mark.parametrize("words", [*ENCODERS, "0123456789abcdef", "3.13.1", "weights (SHA-256)", "guidance_scale"])
def test_how_it_was_measured_is_told(page: Page, words: str):
    assert words in page.by_id("method").text


@pytest.mark.parametrize(
    "limit",
    ["The encoder is part of the measurement", "Word lists", "gender is inferred from", "drawing convention"],
)
def test_the_limits_are_told(page: Page, limit: str):
    assert limit in page.by_id("limits").text


def test_the_page_is_written(tmp_path):
    path = write_html(small_input(), tmp_path / "report.html")
    assert path.read_text(encoding="utf-8").startswith("<!doctype html>")


def test_the_first_screen_has_the_number_people_understand_and_pictures_to_either_side(page: Page):
    counted = [line.text for line in page.find("p") if line.attributes.get("class", "").startswith("counted")]
    assert [re.match(r"\d+ of 20 pictures of .+ read as (men|women)$", line)[1] for line in counted] == ["men", "women"]
    shares = [line.text for line in page.find("p", class_="numbers") if line.inside("header")]
    assert all(re.match(r"\d+ % \[\d+ %, \d+ %\] · leans to (wo)?men, image part ", line) for line in shares)
    assert len(shares) == 2
    assert sum(each.inside("header") for each in page.find("svg", class_="tile")) == 12


def test_every_concept_shows_pictures_at_its_verdict_and_the_page_holds_each_once(page: Page, html: str, report):
    lines = [e for e in page.find("li") if e.parent and e.parent.attributes.get("class") == "verdicts"]
    tiles = [each for each in page.find("svg", class_="tile") if each.inside("li")]
    assert len(lines) == len(report.suite.targets)
    assert len(tiles) == 6 * len(lines)
    pictures = re.findall(r'"(data:image/webp[^"]+)"', html)
    assert len(pictures) == (report.samples.status == "ok").sum()


@pytest.mark.thorough
def test_notices_stand_below_the_finding_or_at_their_concept_and_damage_above_it():
    whole = small_input()
    concept = whole.suite.targets[0].name
    told = {concept: ["1 of its 20 pictures repeats another"], "": ["3 of the 9 pictures drawn for men repeat others"]}
    report = replace(
        whole,
        notices=["3 concepts have no picture"],
        concept_notices=told,
        damage=["samples/part-0.parquet is missing"],
    )
    text = render_html(report)
    assert text.index("is missing") < text.index('class="finding"') < text.index("3 concepts have no picture")
    assert text.count("1 of its 20 pictures repeats another") == 1
    (line,) = (e.text for e in Page(text).find("li") if "1 of its 20 pictures repeats another" in e.text)
    assert whole.suite.text_of(whole.suite.targets[0]) in line.lower()
    assert "<bdi>3 of the 9 pictures drawn for men repeat others.</bdi>" in text
    elsewhere = replace(report, concept_notices=told | {"an edit": ["2 repeat"]}, notices_in_short=["3 duplicates"])
    assert "<bdi>3 duplicates</bdi>" in render_html(elsewhere)
