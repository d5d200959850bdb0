"""A task rated in a real browser: by keys, by touch, with the line cut, on a phone and at a desk."""

from __future__ import annotations

import re
import threading
import time
from itertools import pairwise

import pytest
import uvicorn
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Route, expect
from sqlalchemy import func, select

import clinometer as cm
from clinometer.web.database import Answer, open_database, reading
from clinometer.web.runs_index import id_of
from tests.report.browsing import launched_chromium
from tests.web.rating import make
from tests.web.serving import client, serve

PHONE, DESK = {"width": 390, "height": 844}, {"width": 1280, "height": 900}
WCAG = {"runOnly": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa"], "resultTypes": ["violations"]}
WIDTHS_AND_COLOURS = [
    pytest.param(PHONE, "dark", id="phone-dark"),
    pytest.param(DESK, "light", id="desk-light", marks=pytest.mark.thorough),
    pytest.param(PHONE, "light", id="phone-light", marks=pytest.mark.thorough),
    pytest.param(DESK, "dark", id="desk-dark", marks=pytest.mark.thorough),
]
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def chromium():
    with launched_chromium() as browser:
        yield browser


@pytest.fixture(scope="module")
def served(runs, tmp_path_factory):
    """A server in a thread, and what makes tasks on it."""
    inside = client(runs, cache=tmp_path_factory.mktemp("cache"), hosts=("127.0.0.1", "testserver"))
    server = uvicorn.Server(uvicorn.Config(inside.app, port=0, log_level="error"))
    thread = threading.Thread(target=server.run)
    thread.start()
    while not server.started:
        time.sleep(0.05)
    yield inside, f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}", cm.open_run(runs / "step-900")
    server.should_exit = True
    thread.join()


@pytest.fixture
def joined(chromium, served):
    """A rater's page at the first item; at the end it must have said nothing to the console.

    ``answers`` : what is done with what it sends. A page that is loaded may send its next request past a route that is
    added then, so one is there before.
    """
    inside, address, run = served
    complaints, contexts = [], []

    def opened(*, viewport=DESK, scheme="light", touch=False, of=None, answers=None, **wanted):
        task, link = make(inside, of or run, **wanted)
        context = chromium.new_context(viewport=viewport, color_scheme=scheme, has_touch=touch)
        contexts.append(context)
        page = context.new_page()
        if answers is not None:
            page.route(
                "**/rate/*", lambda route: (answers if route.request.method == "POST" else Route.continue_)(route)
            )
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on(
            "console",
            lambda m: (
                m.type == "error" and "ERR_" not in m.text and "of 403" not in m.text and complaints.append(m.text)
            ),
        )
        page.goto(f"{address}/join/{link}")
        page.get_by_role("button", name="I agree, begin").click()
        page.wait_for_url("**/rate/*")
        return page, task

    yield opened
    for context in contexts:
        context.close()
    assert not complaints


def total_of(page):
    return int(re.search(r"of (\d+)", page.locator(".turn-head").inner_text())[1])


def count(inside):
    with reading(inside.app.state.ratings.engine) as session:
        return session.scalar(select(func.count()).select_from(Answer))


def test_a_task_is_rated_by_keys_alone(joined, served):
    before = count(served[0])
    page, _ = joined()
    total = total_of(page)
    for done in range(total):
        expect(page.locator(".turn-head")).to_contain_text(f"{done} of {total}")
        page.keyboard.press("1" if done % 2 else "2")
    expect(page.get_by_role("heading", name="That was the last one")).to_be_visible()
    page.keyboard.press("Backspace")
    expect(page.locator(".turn-head")).to_contain_text(f"{total - 1} of {total}")
    page.keyboard.press(str(page.locator(".answers button").count()))  # the last answer's key
    expect(page.get_by_role("heading", name="That was the last one")).to_be_visible()
    assert count(served[0]) == before + total


@pytest.mark.thorough
def test_twenty_keys_at_a_tenth_of_a_second_are_twenty_ratings(joined, served):
    """A key that comes before its picture is no rating, so each next picture has to be there in a tenth of a second.

    Where other tests take the processor it may not be; then the page says so, and another rater tries again.
    """
    for _ in range(4):
        before = count(served[0])
        page, _ = joined(images=10)
        total = total_of(page)
        late = []
        for key in "12" * 10:
            page.keyboard.press(key)
            page.wait_for_timeout(100)
            late += ["was not taken" in page.locator("#saving").inner_text()]
        expect(page.locator("#saving")).to_have_text(re.compile("^Saved"))
        done = int(re.search(rf"(\d+) of {total}", page.locator(".turn-head").inner_text())[1])
        assert count(served[0]) == before + done
        if done == 20:
            return
        assert any(late)  # none is lost in silence
    pytest.fail("no rater could give twenty answers")


@pytest.fixture
def held(joined):
    """A rater's page whose answers stay on the line until they are let go."""
    waiting = []
    page, _ = joined(answers=waiting.append)

    def let_go():
        while not waiting:  # a request is told before its route is asked
            page.wait_for_timeout(10)
        waiting.pop().continue_()

    return page, let_go


def press(page, key):
    with page.expect_request("**/rate/*"):
        page.keyboard.press(key)


def test_an_answer_that_comes_before_its_picture_is_not_taken_in_silence(held, served):
    before = count(served[0])
    page, let_go = held
    total = total_of(page)
    press(page, "1")
    page.keyboard.press("2")  # of the next picture, which is not there
    let_go()
    expect(page.locator("#saving")).to_have_text(re.compile("was not taken: please answer again"))
    expect(page.locator(".turn-head")).to_contain_text(f"1 of {total}")
    assert count(served[0]) == before + 1
    press(page, "2")
    let_go()
    expect(page.locator("#saving")).to_have_text("Saved")
    expect(page.locator(".turn-head")).to_contain_text(f"2 of {total}")
    assert count(served[0]) == before + 2


def test_an_undo_waits_for_the_answer_that_it_takes_back(held, served):
    before = count(served[0])
    page, let_go = held
    total = total_of(page)
    press(page, "1")
    page.keyboard.press("Backspace")
    with page.expect_response("**/undo"):
        let_go()
    expect(page.locator(".turn-head")).to_contain_text(f"0 of {total}")
    assert count(served[0]) == before


def test_an_answer_that_did_not_arrive_survives_a_reload(joined, served):
    page, _ = joined(answers=Route.abort)
    before = count(served[0])
    page.keyboard.press("2")
    expect(page.locator("#saving")).to_contain_text("Not saved yet")
    page.unroute("**/rate/*")
    page.reload()
    expect(page.locator(".turn-head")).to_contain_text("1 of")
    assert count(served[0]) == before + 1
    page.reload()  # and once
    expect(page.locator(".turn-head")).to_contain_text("1 of")
    assert page.evaluate("localStorage.length") == 0


@pytest.mark.thorough
@pytest.mark.parametrize("key", ["kept", "lost"])
def test_an_answer_waits_for_a_server_that_starts_anew(chromium, runs, tmp_path, key):
    """By the key of its session; and where that is gone, by the page's own memory."""
    url = f"sqlite:///{tmp_path / 'ratings.sqlite'}"
    _, link = make(client(runs, cache=tmp_path, database=url), cm.open_run(runs / "step-900"))
    server, address = serve(runs, url, tmp_path)
    context = chromium.new_context()
    page = context.new_page()
    page.goto(f"{address}/join/{link}")
    page.get_by_role("button", name="I agree, begin").click()
    page.wait_for_url("**/rate/*")
    server.kill()
    server.wait()
    page.keyboard.press("2")
    expect(page.locator("#saving")).to_contain_text("Not saved yet")
    if key == "lost":
        (tmp_path / "session.key").unlink()
    server, _ = serve(runs, url, tmp_path, port=address.rpartition(":")[2])
    expect(page.locator(".turn-head")).to_contain_text("1 of")
    context.close()
    server.kill()
    server.wait()
    with reading(open_database(url)) as session:
        assert len(session.scalars(select(Answer)).all()) == 1


def test_a_task_is_rated_by_touch_on_a_phone(joined, served):
    before = count(served[0])
    page, _ = joined(viewport=PHONE, touch=True)
    total = total_of(page)
    for done in range(total):
        expect(page.locator(".turn-head")).to_contain_text(f"{done} of {total}")
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        page.locator(".answers button").first.tap()
    expect(page.get_by_role("heading", name="That was the last one")).to_be_visible()
    assert count(served[0]) == before + total


def test_a_cut_line_loses_nothing(joined, served):
    page, _ = joined()
    before = count(served[0])
    page.context.set_offline(True)
    page.wait_for_function("!navigator.onLine")
    page.keyboard.press("1")
    expect(page.locator("#saving")).to_contain_text("Not saved yet")
    assert count(served[0]) == before
    page.context.set_offline(False)
    expect(page.locator(".turn-head")).to_contain_text("1 of")
    assert count(served[0]) == before + 1


def test_the_organiser_closes_the_task_under_a_rater(joined, served, chromium):
    """What was saved before stays; what comes after is not kept, and the rater is told."""
    page, task = joined()
    before = count(served[0])
    page.keyboard.press("1")
    expect(page.locator(".turn-head")).to_contain_text("1 of")
    context = chromium.new_context(viewport=DESK)
    organiser = context.new_page()
    organiser.goto(f"{served[1]}/ratings/{task}")
    organiser.get_by_role("button", name="Close", exact=True).click()
    expect(organiser.get_by_role("button", name="Open again")).to_be_visible()
    context.close()
    page.keyboard.press("2")
    expect(page.get_by_text("This task is closed. Thank you for your answers.")).to_be_visible()
    assert count(served[0]) == before + 1


def test_a_blurred_picture_is_shown_when_it_is_asked_for(joined):
    page, _ = joined(blur=True)
    blurred = "getComputedStyle(document.querySelector('.turn-pictures img')).filter"
    assert page.evaluate(blurred).startswith("blur")
    page.get_by_role("button", name="Show the picture unblurred").press("Enter")
    assert page.evaluate(blurred) == "none"


def test_of_a_task_only_the_flagged_pictures_are_blurred(joined, runs):
    """One concept of three is flagged; each gives one picture, and two more check attention."""
    page, _ = joined(of=cm.open_run(runs / "step-1000"), images=1)
    seen = []
    for place in range(total_of(page)):
        expect(page.locator(".turn-head")).to_contain_text(f"{place} of")
        seen.append(page.evaluate("getComputedStyle(document.querySelector('.turn-pictures img')).filter"))
        assert page.get_by_role("button", name="Show the picture unblurred").count() == (seen[-1] != "none")
        page.keyboard.press("1")
    expect(page.get_by_role("heading")).to_have_text("That was the last one")
    assert sorted(seen) == ["blur(25.6px)"] + ["none"] * (len(seen) - 1)


@pytest.mark.thorough
@pytest.mark.parametrize("viewport", [PHONE, DESK, {"width": 1280, "height": 800}], ids=["phone", "desk", "laptop"])
def test_the_question_the_picture_and_the_answers_stand_below_each_other(joined, viewport):
    page, _ = joined(viewport=viewport)
    places = [page.locator(each).first.bounding_box() for each in (".turn-head", ".turn-pictures", ".answers")]
    for above, below in pairwise(places):
        assert above["y"] + above["height"] <= below["y"]
    assert places[2]["y"] + 52 <= viewport["height"]  # without scrolling an answer can be given


@pytest.mark.thorough
@pytest.mark.parametrize(("viewport", "scheme"), WIDTHS_AND_COLOURS)
def test_axe_finds_nothing(joined, served, viewport, scheme):
    page, task = joined(viewport=viewport, scheme=scheme)
    address = served[1]
    page.keyboard.press("1")
    expect(page.locator("#saving")).to_have_text("Saved")
    explored = f"/explore?run={id_of(served[2].directory)}"
    people = f"/runs/{id_of(served[2].directory)}/people"
    for place in (
        None,
        f"/ratings/{task}",
        "/ratings",
        "/ratings/new",
        explored,
        f"{explored}&people=otherwise",
        people,
    ):
        if place:
            page.goto(address + place)
        found = Axe().run(page, options=WCAG)
        assert found.violations_count == 0, found.generate_report()
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), place
