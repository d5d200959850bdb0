"""Pictures that a safety checker flagged and that are kept: nobody sees one sharp who did not ask."""

import re
import shutil
from html import unescape

import pytest
from sqlalchemy import select

import clinometer as cm
from clinometer.ratings import draw_items
from clinometer.runs.ledger import samples_name
from clinometer.studies import rated_of
from clinometer.web.database import Item, reading
from tests.old_runs import as_of_format_1
from tests.web.rating import make
from tests.web.serving import client, ids

FLAGGED = "concept 0.40"


@pytest.fixture(scope="module")
def run(runs):
    return cm.open_run(runs / "step-1000")


def explored(browser, **asked):
    return browser.get("/explore", params={"run": ids(browser)["step-1000"], "per": 96} | asked).text


def shown(page):
    return set(re.findall(r'href="/runs/\w+/pictures/(\w+)"', page))


def test_the_flag_travels_with_the_picture(run, runs):
    assert set(run.samples.concept[run.samples.flagged]) == {FLAGGED}
    assert not cm.open_run(runs / "step-900").samples.flagged.any()


def test_the_explorer_veils_them_and_no_others(browser):
    page = explored(browser)
    assert page.count('class="shot"') > page.count('class="shot flagged"') == page.count("flagged: show") == 6
    assert 'class="shot flagged"' not in explored(browser, of="target/concept 0.60")


def test_they_can_be_looked_for(browser, run):
    page = explored(browser, status="flagged")
    assert shown(page) == set(run.samples.id[run.samples.flagged])
    assert shown(explored(browser, status="flagged", order="unsure")) == shown(page)


def test_the_page_of_one_veils_it(browser, run):
    known = ids(browser)["step-1000"]
    flagged, plain = (run.samples.id[run.samples.flagged == value].iloc[0] for value in (True, False))
    assert 'class="shot flagged"' in browser.get(f"/runs/{known}/pictures/{flagged}").text
    assert "flagged" not in browser.get(f"/runs/{known}/pictures/{plain}").text


def test_raters_are_warned_and_see_them_blurred(browser, run, runs):
    task, link = make(browser, run)
    with reading(browser.app.state.ratings.engine) as session:
        rows = session.execute(select(Item.name, Item.blurred).where(Item.task_id == task))
        blurred = {row.name: row.blurred for row in rows}
    flags = run.samples.set_index("id").flagged
    assert blurred == {name: bool(flags[name]) for name in blurred}
    assert set(blurred.values()) == {True, False}
    assert "A safety checker flagged some of the pictures" in browser.get(f"/join/{link}").text
    _, link = make(browser, run, blur=True)
    assert "The pictures are blurred" in browser.get(f"/join/{link}").text
    _, link = make(browser, cm.open_run(runs / "step-900"))
    assert "blurred" not in browser.get(f"/join/{link}").text


def test_a_concept_that_is_shown_at_once_is_flagged_by_any_of_its_images(run):
    assert {item.concept for item in draw_items(run, rated_of(run), 0) if item.flagged} == {FLAGGED}


def test_a_report_which_goes_from_hand_to_hand_leaves_them_out(runs):
    page = unescape((runs / "step-1000" / "report.html").read_text(encoding="utf-8"))
    assert page.count("a safety checker flagged it") == 6


@pytest.mark.thorough
def test_runs_of_earlier_versions_know_no_flags(runs, tmp_path):
    place = tmp_path / "runs" / "old"
    shutil.copytree(runs / "step-900", place)
    run = cm.open_run(place)
    names = run.directory.names("samples", ".parquet")
    assert samples_name(0) in names
    for name in names:
        run.ledger.write_table(name, run.ledger.read_table(name).drop_columns(["flagged"]))
    run.ledger.list_files()
    for change in (lambda: None, lambda: as_of_format_1(place)):
        change()
        run = cm.open_run(place)
        assert run.samples.flagged.isna().all()
        assert not any(item.flagged for item in draw_items(run, rated_of(run), 2, attention=2))
        cm.score_run(place)
    browser = client(tmp_path / "runs", cache=tmp_path / "cache")
    page = browser.get("/explore", params={"run": ids(browser)["old"], "per": 96}).text
    assert 'class="shot"' in page
    assert 'class="shot flagged"' not in page
