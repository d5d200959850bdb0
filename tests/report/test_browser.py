"""The page as people meet it: in a real Chromium, in light, in the dark, on a phone, by keyboard."""

from collections.abc import Iterator
from pathlib import Path

import pypdfium2
import pytest
from playwright.sync_api import Browser, Locator, Page

from tests.quick import thorough_but
from tests.report.browsing import CLOSED, CONTRAST, CUT, DESK, PAPER, PHONE
from tests.report.hostile import HOSTILE, hostile_html
from tests.report.page import write_html
from tests.report.synthetic import report_input, small_input, small_suite
from tests.report.synthetic_t2iat import report_input as t2iat_input

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def place(tmp_path_factory) -> Path:
    """A page of few concepts and pictures, which is soon there, for what does not ask how much a page holds."""
    folder = tmp_path_factory.mktemp("run")
    report = small_input()
    report.scores.to_csv(folder / "scores.csv", index=False)
    return write_html(report, folder / "report.html")


@pytest.fixture(scope="module")
def whole(html, tmp_path_factory) -> Path:
    """The page of a run of the usual size."""
    path = tmp_path_factory.mktemp("whole") / "report.html"
    path.write_bytes(html.encode("utf-8", "replace"))
    return path


@pytest.fixture
def open_page(browser: Browser, place: Path):
    """Open the page; when the test ends, it must have logged nothing and asked nobody for anything."""
    complaints: list[str] = []
    contexts = []

    def opened(*, viewport=DESK, scheme="light", path=place, **options) -> Page:
        context = browser.new_context(viewport=viewport, color_scheme=scheme, offline=True, **options)
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda message: complaints.append(f"{message.type}: {message.text}"))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("request", lambda r: r.url.startswith(("file:", "data:", "blob:")) or complaints.append(r.url))
        page.on("dialog", lambda dialog: complaints.append("dialog") or dialog.dismiss())
        page.goto(path.as_uri())
        return page

    yield opened
    for context in contexts:
        context.close()
    assert complaints == []


OPEN_ALL = "document.querySelectorAll('details').forEach((details) => { details.open = true; })"


def first_closed(page: Page) -> Locator:
    """The first concept whose pictures are not seen, by its place, so that it stays the same when it is opened."""
    is_open = [each.get_attribute("open") is not None for each in page.locator("details.concept").all()]
    return page.locator("details.concept").nth(is_open.index(False))


def widths(page: Page) -> tuple[int, int]:
    return tuple(page.evaluate("[document.documentElement.scrollWidth, document.documentElement.clientWidth]"))


def loaded_on(page: Page, first: dict[str, int], *others: dict[str, int]) -> Iterator[dict[str, int]]:
    """A page that was opened on the first screen, then loaded again on the others."""
    yield first
    for viewport in others:
        page.set_viewport_size(viewport)
        page.reload()
        yield viewport


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("scheme", "screens"), [("light", (PHONE, DESK, {"width": 1920, "height": 1080})), ("dark", (DESK,))]
)
def test_nothing_overflows_and_every_text_can_be_read(open_page, whole, scheme, screens):
    page = open_page(path=whole, scheme=scheme, viewport=screens[0])
    for viewport in loaded_on(page, *screens):
        page.evaluate("document.querySelectorAll('details').forEach((details) => { details.open = true; })")
        scroll, client = widths(page)
        assert scroll <= client, viewport
        assert page.evaluate(CONTRAST) == [], viewport


def test_figures_change_with_the_colour_scheme(open_page):
    inks = {
        scheme: open_page(scheme=scheme)
        .locator("#categories svg text")
        .first.evaluate("(e) => getComputedStyle(e).fill")
        for scheme in ("light", "dark")
    }
    assert inks["light"] != inks["dark"]


def test_text_in_figures_stays_readable_on_a_phone(open_page, whole):
    page = open_page(path=whole, viewport=PHONE)
    page.evaluate(OPEN_ALL)
    sizes = page.evaluate("""() => [...document.querySelectorAll("figure.plot svg")].map((svg) => {
        const scale = svg.getBoundingClientRect().width / svg.viewBox.baseVal.width;
        return [...svg.querySelectorAll("text")].map((t) => scale * parseFloat(getComputedStyle(t).fontSize));
    }).flat()""")
    assert min(sizes) >= 8


def test_a_column_is_sorted_by_keyboard_and_empty_cells_stay_last(open_page):
    page = open_page()
    button = page.get_by_role("button", name="Value")
    button.focus()
    outline = button.evaluate("(e) => getComputedStyle(e).outlineStyle")
    assert outline == "solid"

    def values() -> list[float]:
        cells = "#scores tbody tr td:nth-child(2)"
        return page.evaluate(f"[...document.querySelectorAll('{cells}')].map((c) => Number(c.dataset.key))")

    page.keyboard.press("Enter")
    assert page.locator("#scores th[aria-sort=ascending]").inner_text().startswith("Value")
    assert values() == sorted(values())
    page.keyboard.press("Space")
    assert page.locator("#scores th[aria-sort]").get_attribute("aria-sort") == "descending"
    assert values() == sorted(values(), reverse=True)
    # empty cells stay last, whichever way a column is sorted
    (column,) = (i for i, head in enumerate(page.locator("#scores thead th").all_text_contents()) if "Null" in head)
    for _ in range(2):
        page.get_by_role("button", name="Null").click()
        first, last = (page.locator("#scores tbody tr").nth(i).locator("th, td").nth(column) for i in (0, -1))
        assert first.inner_text()
        assert not last.inner_text()


def test_rows_are_filtered_and_saved(open_page):
    page = open_page()
    page.get_by_label("Filter").fill("theodolite xmcas")
    assert page.locator("#shown").inner_text() == "3 rows"
    page.get_by_label("Metric").select_option("mcas")
    assert page.locator("#shown").inner_text() == "0 rows"
    page.get_by_label("Metric").select_option("")
    with page.expect_download() as download:
        page.get_by_role("button", name="Save rows").click()
    lines = Path(download.value.path()).read_text().splitlines()
    assert lines[0].startswith("Concept,Metric,Component,Encoder,Value,Low,High,")
    assert len(lines) == 4
    assert all(line.startswith("theodolite,xmcas,") for line in lines[1:])


def test_the_table_of_all_numbers_begins_with_the_numbers(open_page):
    """A value and its interval are seen with what they are of, and stay beside it when the table is scrolled."""
    page = open_page()
    region = page.locator("#table .scroll")
    row = region.locator("tbody tr").first

    def right(cell) -> float:
        box = cell.bounding_box()
        return box["x"] + box["width"]

    for viewport in loaded_on(page, DESK, PHONE):
        region.scroll_into_view_if_needed()
        assert right(row.locator("td").nth(1)) <= viewport["width"], viewport
        region.evaluate("(region) => { region.scrollLeft = 10_000; }")
        assert row.locator("th").bounding_box()["x"] >= region.bounding_box()["x"], viewport


def test_columns_that_are_empty_in_all_rows_shown_are_left_out(open_page):
    page = open_page()
    heads = page.locator("#scores thead th")
    assert "Null" in heads.all_text_contents()
    page.get_by_label("Metric").select_option("mcas")
    assert page.get_by_role("button", name="Null").count() == 0
    empty = """() => [...document.querySelectorAll("#scores thead th:not([hidden])")].filter((head) =>
        [...document.querySelectorAll("#scores tbody tr:not([hidden])")].every((row) =>
            !row.cells[head.cellIndex].textContent.trim())).map((head) => head.textContent)"""
    assert page.evaluate(empty) == []
    page.get_by_label("Metric").select_option("")
    assert page.evaluate(empty) == []
    assert page.get_by_role("button", name="Null").is_visible()


def test_what_is_wider_than_its_place_says_that_it_scrolls(open_page):
    page = open_page(viewport=PHONE)
    page.evaluate("document.querySelectorAll('details').forEach((details) => { details.open = true; })")
    page.wait_for_function("document.querySelector('#stages [data-scrolls]')")
    wide_and_told = page.evaluate("""() => [...document.querySelectorAll(".scroll")]
        .filter((region) => region.checkVisibility())
        .map((region) => [
            region.scrollWidth > region.clientWidth + 1,
            getComputedStyle(region, "::before").content.includes("scrolls")])""")
    assert [True, True] in wide_and_told
    assert [False, False] in wide_and_told
    assert all(wide == said for wide, said in wide_and_told)


def test_marks_have_names_under_the_pointer_and_by_keyboard(open_page):
    """One stop for a figure, arrows from mark to mark, Escape puts the name away."""
    page = open_page()
    figure, tip = page.locator(".plot.first svg"), page.locator(".tip")
    figure.locator("[tabindex='0']").wait_for(state="attached")
    assert figure.locator("[tabindex='0']").count() == 1
    marks = figure.locator(".mark")
    names = [mark.get_attribute("aria-label") for mark in marks.all()]
    assert len(set(names)) == len(names) == 2 * len(small_suite().targets)
    for _ in ("skip", "figure", "mark"):
        page.keyboard.press("Tab")
    assert tip.inner_text() == names[0]
    page.keyboard.press("ArrowRight")
    assert tip.inner_text() == names[1]
    page.keyboard.press("End")
    assert tip.inner_text() == names[-1]
    page.keyboard.press("Escape")
    assert tip.is_hidden()
    marks.nth(4).hover()
    assert tip.inner_text() == names[4]
    box = tip.bounding_box()
    assert 0 <= box["x"] <= box["x"] + box["width"] <= DESK["width"]
    page.mouse.move(2, 2)
    assert tip.inner_text() == names[-1]  # where the keyboard is


@pytest.mark.thorough
def test_no_rule_of_accessibility_is_broken(open_page, whole):
    from axe_playwright_python.sync_playwright import Axe

    page = open_page(path=whole, viewport=PHONE)
    for viewport in loaded_on(page, PHONE, DESK):
        page.evaluate(OPEN_ALL)
        page.locator(".plot.first .mark").first.focus()
        page.evaluate("document.fonts.ready")  # a text's contrast is measured in the font that is seen
        found = Axe().run(page, context=".masthead, #verdicts, #categories, #stages, #table .tools, .tip")
        assert [(broken["id"], broken["nodes"]) for broken in found.response["violations"]] == [], viewport


def test_rows_far_below_are_laid_out_when_they_come_near(open_page, whole):
    """Thousands of rows take most of a large page's time: nobody waits for them who does not go there."""
    page = open_page(path=whole)
    shown = "row => row.checkVisibility({contentVisibilityAuto: true})"
    row = page.locator("#scores tbody tr").first
    assert not row.evaluate(shown)
    page.locator("#table-heading").scroll_into_view_if_needed()
    page.locator("#scores").scroll_into_view_if_needed()
    page.wait_for_function(f"({shown})(document.querySelector('#scores tbody tr'))")


def test_the_gallery_opens_by_keyboard_and_shows_its_pictures(open_page):
    page = open_page()
    first = first_closed(page)
    assert not first.locator("img").first.is_visible()
    first.locator("summary").focus()
    page.keyboard.press("Enter")
    first.locator("img").first.wait_for(state="visible")
    assert first.locator("img").first.evaluate("(image) => image.decode().then(() => image.naturalWidth)") == 64
    assert first.locator("svg.tile").first.bounding_box()["width"] > 30
    page.get_by_role("button", name="Open all", exact=True).click()
    assert page.locator("#gallery details:not([open])").count() == 0
    page.get_by_role("button", name="Close all").click()
    assert page.locator("#gallery details[open]").count() == 0


def test_the_keyboard_gets_past_the_contents(open_page):
    page = open_page()
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "verdicts"


def test_without_script_everything_can_still_be_read(open_page):
    page = open_page(java_script_enabled=False)
    first = first_closed(page)
    first.locator("summary").click()
    assert first.locator("img").first.is_visible()


def test_it_prints(open_page):
    page = open_page()
    page.emulate_media(media="print")
    assert page.locator("#scores").is_hidden()
    assert page.locator("#table .print-only").is_visible()
    swatches = page.evaluate("[...document.querySelectorAll('.bar')].map((e) => getComputedStyle(e).printColorAdjust)")
    assert set(swatches) == {"exact"}
    assert page.pdf(format="A4").startswith(b"%PDF")


@pytest.mark.thorough
@pytest.mark.parametrize("given", [report_input, t2iat_input], ids=["leaning", "t2iat"])
def test_paper_cuts_no_column_and_leaves_no_table_of_an_open_section_closed(open_page, tmp_path, given):
    page = open_page(path=write_html(given(), tmp_path / "report.html"), viewport=PAPER)
    page.evaluate("document.querySelectorAll('.fold').forEach((fold) => { fold.open = true; })")
    assert page.evaluate(CLOSED) != []
    page.emulate_media(media="print")
    assert page.evaluate(CUT) == []
    assert page.evaluate(CLOSED) == []
    scroll, client = widths(page)
    assert scroll <= client


@pytest.mark.thorough
def test_paper_has_the_pictures_that_were_open_under_their_headings(open_page, whole):
    page = open_page(path=whole, viewport=PAPER)
    page.get_by_role("button", name="Close all").click()
    page.locator("details.concept summary").first.click()
    page.emulate_media(media="print")
    assert page.locator("#gallery .album:visible").count() == 1
    assert page.locator("#gallery details.concept:visible").count() == 1
    assert page.locator("#gallery .print-only").is_visible()
    assert not page.locator("#gallery .screen-only").is_visible()
    page.emulate_media(media="screen")
    page.locator("details.concept summary").first.click()
    page.emulate_media(media="print")
    assert page.locator("#gallery .album:visible").count() == 0
    assert page.get_by_role("heading", name="Images that are missing").is_visible()


@pytest.mark.thorough
@pytest.mark.parametrize("given", [report_input, t2iat_input], ids=["leaning", "t2iat"])
def test_paper_has_pictures_and_limits_on_its_first_four_pages(open_page, tmp_path, given):
    page = open_page(path=write_html(given(), tmp_path / "report.html"))
    assert page.locator("#gallery details.concept[open]").count() > 0
    for paper in ("A4", "Letter"):
        pages = pypdfium2.PdfDocument(page.pdf(format=paper))
        front = [pages[n].get_textpage().get_text_range() for n in range(4)]
        assert any("The pictures" in text for text in front), paper
        last = page.locator("#limits li strong").last.inner_text().rstrip(".")
        assert last in " ".join(" ".join(front).split()), paper


def test_the_row_of_chapters_is_one_line_and_leads_to_what_is_folded(open_page):
    page = open_page(viewport={"width": 390, "height": 844})
    for width in (390, 1280):
        page.set_viewport_size({"width": width, "height": 844})
        tops = page.evaluate("[...document.querySelectorAll('.contents a')].map((a) => a.getBoundingClientRect().top)")
        assert len(set(tops)) == 1 < len(tops) <= 8
    assert not page.locator("#categories-heading").is_visible()
    page.locator("#verdicts a[href='#categories']").click()
    page.locator("#categories svg").first.wait_for(state="visible")


IN_A_BROWSER = ("closes", "long")
"""What would run a script, and what would be wider than a phone; what a page is made of is read of all of them."""


@pytest.mark.parametrize("kind", thorough_but(HOSTILE, *IN_A_BROWSER))
def test_hostile_text_runs_nothing_and_breaks_no_layout(open_page, tmp_path, kind):
    path = tmp_path / "report.html"
    path.write_text(hostile_html(HOSTILE[kind]), encoding="utf-8", errors="replace")
    page = open_page(path=path, viewport=PHONE)
    for viewport in loaded_on(page, PHONE, DESK):
        page.evaluate("document.querySelectorAll('details').forEach((details) => { details.open = true; })")
        assert page.evaluate("document.scripts.length") == 1
        scroll, client = widths(page)
        assert scroll <= client, viewport
