"""The viewer as people meet it: a real server, a real Chromium, by keyboard, on a phone, in light and dark."""

import re
import shutil
import threading
import time
from collections.abc import Iterator

import pytest
import uvicorn
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, expect

from clinometer.web.app import create_app
from clinometer.web.security import ServerSettings
from tests.report.browsing import launched_chromium

pytestmark = pytest.mark.slow

PHONE = {"width": 390, "height": 800}
DESK = {"width": 1280, "height": 900}
WCAG = {"runOnly": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"], "resultTypes": ["violations"]}


@pytest.fixture(scope="module")
def address(runs, tmp_path_factory) -> Iterator[str]:
    """A server that listens, over runs that it may find more of."""
    place = tmp_path_factory.mktemp("served")
    shutil.copytree(runs, place / "runs")
    app = create_app(ServerSettings(runs=(str(place / "runs"),), cache=place / "cache"))
    server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="warning"))
    thread = threading.Thread(target=server.run)
    thread.start()
    while not server.started:
        time.sleep(0.05)
    port = server.servers[0].sockets[0].getsockname()[1]
    yield f"http://127.0.0.1:{port}"
    server.should_exit = True
    thread.join()


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    with launched_chromium() as browser:
        yield browser


@pytest.fixture
def open_page(chromium, address):
    """Open a page; when the test ends, it must have logged nothing and asked no other server."""
    complaints: list[str] = []
    contexts = []

    def opened(path="/runs", *, viewport=DESK, scheme="light", **options) -> Page:
        context = chromium.new_context(viewport=viewport, color_scheme=scheme, **options)
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda message: complaints.append(f"{message.type}: {message.text}"))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("request", lambda r: r.url.startswith((address, "data:", "blob:")) or complaints.append(r.url))
        page.on("dialog", lambda dialog: complaints.append("dialog") or dialog.dismiss())
        page.goto(address + path, wait_until="networkidle")
        return page

    yield opened
    for context in contexts:
        context.close()
    assert complaints == []


def explorer(page: Page) -> str:
    """The address of the explorer with both checkpoints, as the index gives it."""
    return "/explore?" + "&".join(
        f"run={page.get_by_label(f'Choose {name}').get_attribute('value')}" for name in ("step-900", "step-1000")
    )


@pytest.mark.thorough
def test_the_index_is_searched_as_one_types(open_page):
    page = open_page()
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    page.get_by_label("Search").fill("900")
    page.get_by_text("1 of 2 runs").wait_for()
    assert page.get_by_role("rowheader").all_inner_texts() == ["step-900"]
    assert "q=900" in page.url
    page.reload()
    assert page.get_by_role("rowheader").all_inner_texts() == ["step-900"]


def test_runs_are_chosen_and_stand_side_by_side(open_page):
    page = open_page("/?sort=name&order=up")
    for box in page.get_by_role("checkbox").all():
        box.check()
    page.get_by_role("button", name="Side by side").click()
    page.locator(".noise img").first.wait_for()
    assert page.locator(".noise thead th").count() >= 3
    first = page.locator(".noise tbody tr").first.locator("img")
    assert first.count() == 2
    assert first.first.evaluate("(image) => image.decode().then(() => image.naturalWidth)") > 0


def test_a_filter_changes_the_view_and_its_address(open_page):
    page = open_page(explorer(open_page()))
    page.get_by_role("checkbox", name="concept 0.20").check()
    page.wait_for_url(re.compile("of=target"))
    page.get_by_text("1 to 6 of 6 images").wait_for()
    page.locator("#order").select_option("least certain first")
    page.wait_for_url(re.compile("order=unsure"))
    shown = page.locator(".by").all_inner_texts()
    sent = open_page("/" + page.url.split("/", 3)[3])
    assert sent.locator(".by").all_inner_texts() == shown
    assert sent.get_by_role("checkbox", name="concept 0.20").is_checked()
    page.go_back()
    page.get_by_text("1 to 6 of 6 images").wait_for()


def test_a_flagged_picture_is_blurred_until_it_is_asked_for(open_page):
    run = open_page().get_by_label("Choose step-1000").get_attribute("value")
    page = open_page(f"/explore?run={run}&status=flagged")
    shots = page.locator(".shot img")
    expect(shots).to_have_count(6)
    page.get_by_text("flagged: show").nth(2).press("Enter")
    for place in range(6):
        expect(shots.nth(place)).to_have_css("filter", "none" if place == 2 else "blur(16px)")
    page.locator(".shot").first.click()
    whole = page.locator(".whole-picture")
    expect(whole).to_have_css("filter", "blur(40px)")
    page.get_by_text("flagged: show").click()
    expect(whole).to_have_css("filter", "none")


def test_pictures_are_walked_by_keyboard(open_page):
    page = open_page(explorer(open_page()).split("&")[0])
    tiles = page.locator("a:has(.tile)")
    tiles.first.focus()
    page.keyboard.press("ArrowRight")
    assert tiles.nth(1).evaluate("(tile) => tile === document.activeElement")
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("ArrowDown")
    below = page.evaluate("document.activeElement.getBoundingClientRect().top")
    assert below > tiles.first.bounding_box()["y"]
    assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"
    page.keyboard.press("Enter")
    page.locator(".whole-picture").wait_for()


def test_without_script_everything_can_be_chosen(open_page):
    page = open_page(explorer(open_page()), java_script_enabled=False)
    page.get_by_role("checkbox", name="concept 0.20").check()
    page.locator(".choices > button").click()
    assert page.get_by_text("1 to 6 of 6 images").is_visible()
    page.get_by_role("link", name="Runs", exact=True).click()
    page.get_by_label("Search").fill("1000")
    page.get_by_role("button", name="Search").click()
    assert page.get_by_role("rowheader").all_inner_texts() == ["step-1000"]


def test_a_number_is_chosen_among_trends(open_page):
    page = open_page("/trends")
    page.locator("#number").select_option("internal bias · diffusion bias")
    page.wait_for_url(re.compile("number=internal_bias"))
    page.locator("figcaption", has_text="internal bias · diffusion bias").first.wait_for()  # the form was exchanged too
    page.locator("#concept").select_option("concept 0.60")
    page.locator("figcaption", has_text="internal bias · diffusion bias, concept 0.60").wait_for()
    assert page.locator(".trend svg .mark").count() == 2


def test_the_report_works_in_its_sandbox(open_page):
    page = open_page("/?q=900")
    page.get_by_role("link", name="Report of step-900").click()
    page.get_by_label("Filter").fill("xmcas")
    assert page.evaluate("document.querySelectorAll('#scores tbody tr:not([hidden])').length") > 0
    assert page.evaluate("self.origin") == "null"


@pytest.mark.parametrize(
    ("viewport", "scheme"),
    [
        pytest.param(PHONE, "dark", id="phone-dark"),
        pytest.param(DESK, "light", id="desk-light", marks=pytest.mark.thorough),
        pytest.param(PHONE, "light", id="phone-light", marks=pytest.mark.thorough),
        pytest.param(DESK, "dark", id="desk-dark", marks=pytest.mark.thorough),
    ],
)
def test_axe_finds_nothing_and_nothing_overflows(open_page, address, scheme, viewport):
    page = open_page(viewport=viewport, scheme=scheme)
    both = explorer(page)
    one = both.split("&")[0]
    page.goto(address + one, wait_until="networkidle")
    own = page.locator("a:has(.tile)").first.get_attribute("href")
    for path in ("/runs", both, one, own, "/trends", "/login"):
        page.goto(address + path, wait_until="networkidle")
        page.evaluate("document.querySelectorAll('details').forEach((details) => { details.open = true; })")
        found = Axe().run(page, options=WCAG).response["violations"]
        assert [(rule["id"], [node["html"] for node in rule["nodes"]]) for rule in found] == [], path
        scroll, client = page.evaluate("[document.documentElement.scrollWidth, document.documentElement.clientWidth]")
        assert scroll <= client, path
