"""What people say beside what the encoder reads: in the explorer, on a picture's page, and of a whole run."""

from __future__ import annotations

import re
import shutil

import pytest

import clinometer as cm
from clinometer.pipeline.results import score_answers_again
from clinometer.ratings import add_ratings, readings_of
from clinometer.studies import rated_of
from tests.web.rating import Rater, make, place_in, token_in
from tests.web.serving import HTML, client, ids


@pytest.fixture(scope="module")
def rated(runs, tmp_path_factory):
    """A run of which three people rated every third picture; of every sixth they see otherwise than the encoder."""
    place = tmp_path_factory.mktemp("rated")
    shutil.copytree(runs / "step-900", place / "runs" / "rated")
    run = cm.open_run(place / "runs" / "rated")
    read, other = readings_of(run, rated_of(run))["mean"], {}
    for order, item in enumerate(list(read)[::3]):
        seen, unseen = ("man", "woman") if read[item] else ("woman", "man")
        other[item] = (unseen if order % 2 else seen, seen if order % 2 else unseen)
    rows = [
        {"item": item, "rater": f"r{k}", "answer": answers[k == 2], "repeat": False}
        for item, answers in other.items()
        for k in range(3)
    ]
    rows += [rows[0] | {"rater": "r0", "repeat": True, "answer": HTML}]
    add_ratings(run, "a file", rows)
    score_answers_again(run)
    return client(place / "runs", cache=place / "cache"), cm.open_run(run.url), list(other)


def explored(browser, **asked):
    return browser.get("/explore", params={"run": ids(browser)["rated"], "per": 96} | asked).text


def shown(page):
    return set(re.findall(r'href="/runs/\w+/pictures/(\w+)"', page))


def test_answers_stand_beside_readings(rated):
    browser, _, items = rated
    page = explored(browser)
    assert page.count("people-say") == len(items)
    assert page.count(">2/3<") == len(items)
    assert page.count("differs") == len(items) // 2
    assert HTML not in page


def test_pictures_are_chosen_by_what_people_see(rated):
    browser, run, items = rated
    assert shown(explored(browser, people="rated")) == set(items)
    otherwise, alike = (shown(explored(browser, people=how)) for how in ("otherwise", "alike"))
    assert otherwise == set(items[1::2])
    assert alike == set(items[::2])
    one = run.samples.set_index("id").concept[items[1]]
    both = {"people": "otherwise", "of": f"target/{one}", "order": "unsure", "status": "ok", "side": "man"}
    assert shown(explored(browser, **both)) <= otherwise
    assert 'value="otherwise" selected' in explored(browser, people="otherwise")


def test_nobody_said_anything_of_other_runs(runs, tmp_path):
    browser = client(runs, cache=tmp_path)
    first = ids(browser)["step-1000"]
    page = browser.get("/explore", params={"run": first}).text
    assert "people-say" not in page
    assert 'name="people"' not in page
    assert not shown(browser.get("/explore", params={"run": first, "people": "rated"}).text)
    assert not (tmp_path / "ratings.sqlite").exists()  # looking makes no database
    assert "This run’s scores include no ratings by people yet" in browser.get(f"/runs/{first}/people").text


@pytest.mark.thorough
def test_answers_on_this_server_count_before_they_are_exported(runs, tmp_path):
    shutil.copytree(runs / "step-900", tmp_path / "runs/rated")
    browser = client(tmp_path / "runs", cache=tmp_path / "cache")
    task, link = make(browser, cm.open_run(tmp_path / "runs/rated"), repeats=0.0)
    rater = Rater(browser.app, link)
    page, count = rater.page(), 0
    while place_in(page):
        page, count = rater.answer("cannot tell", page).text, count + 1
    live = explored(browser, people="rated")
    assert live.count(">1/1<") == count
    token = token_in(browser.get(f"/ratings/{task}").text)
    browser.post(f"/ratings/{task}/export", data={"csrf_token": token})
    assert explored(browser, people="rated").count(">1/1<") == count  # and once afterwards


def test_a_picture_says_what_people_see(rated):
    browser, _, items = rated
    page = browser.get(f"/runs/{ids(browser)['rated']}/pictures/{items[0]}").text
    assert re.search(r"people see</dt><dd><bdi>\w+</bdi> 2, <bdi>\w+</bdi> 1</dd>", page)


def test_a_run_has_a_page_of_people(rated):
    browser, run, _ = rated
    page = browser.get(f"/runs/{ids(browser)['rated']}/people").text
    assert "People and the machine" in page
    assert "3 raters looked at" in page
    row = run.scores.query("metric == 'human' and component == 'sensitivity' and encoder == 'eye'").iloc[0]
    assert f"{row.value:.2f}" in page
    assert "style=" not in page
