"""The index of runs: what is there is found, searched and sorted, and what is broken is told."""

import os
import re
import shutil
from html import unescape

import fsspec
import pytest

import clinometer as cm
from tests import quick
from tests.old_runs import as_of_format_1
from tests.toys import Eye, Painter, toy_suite
from tests.web.serving import client, ids, pictures


def names(page: str) -> list[str]:
    return re.findall(r'<th scope="row"><bdi>([^<]+)</bdi>', page)


def test_it_shows_what_each_run_is(browser):
    page = browser.get("/runs").text
    assert names(page) == ["step-1000", "step-900"] or names(page) == ["step-900", "step-1000"]
    for said in ("step-900", "toy", "54", "too few images to tell"):
        assert said in page


def test_it_finds_runs_again(runs, tmp_path):
    place = tmp_path / "runs"
    shutil.copytree(runs / "step-900", place / "a" / "deep" / "step-900")
    browser = client(place, cache=tmp_path / "cache")
    assert set(ids(browser)) == {"step-900"}
    shutil.copytree(runs / "step-1000", place / "step-1000")
    assert set(ids(browser)) == {"step-900", "step-1000"}
    shutil.rmtree(place / "a")
    assert set(ids(browser)) == {"step-1000"}


def test_a_single_run_may_be_named(runs, tmp_path):
    assert set(ids(client(runs / "step-900", cache=tmp_path))) == {"step-900"}


@pytest.mark.thorough
def test_a_run_that_is_worked_on_is_read_anew(runs, tmp_path):
    place = tmp_path / "runs"
    shutil.copytree(runs / "step-900", place / "run")
    browser = client(place, cache=tmp_path / "cache")
    address = f"/explore?run={ids(browser)['run']}"
    assert "second eye" not in browser.get(address).text
    cm.score_run(place / "run", encoder=Eye("second eye"))
    assert "second eye" in browser.get(address).text
    assert len(list((tmp_path / "cache" / "samples").glob("*.sqlite"))) == 1


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("", {"step-900", "step-1000"}),
        ("900", {"step-900"}),
        ("TOY step", {"step-900", "step-1000"}),
        ("toy nowhere", set()),
    ],
)
def test_every_word_of_a_search_counts(browser, query, found):
    page = browser.get("/runs", params={"q": query}).text
    assert set(names(page)) == found
    assert f"{len(found)} of 2 runs" in page


@pytest.mark.parametrize("column", ["date", "name", "model", "suite", "seed", "images", "findings"])
def test_every_column_is_sorted_both_ways(browser, column):
    up, down = (names(browser.get("/runs", params={"sort": column, "order": order}).text) for order in ("up", "down"))
    assert up == down[::-1]


def test_htmx_gets_the_table_alone(browser):
    part = browser.get("/runs", headers={"HX-Request": "true", "HX-Target": "runs"}).text
    assert part.startswith('<div id="runs"')
    assert "<html" not in part


def test_broken_runs_are_listed_with_their_error_in_one_line(runs, tmp_path):
    place = tmp_path / "runs"
    for name in ("whole", "no json", "no plan", "another version", "loop", "pipe"):
        shutil.copytree(runs / "step-900", place / name)
    for name in ("loop", "pipe"):
        (place / name / "run.json").unlink()
    os.symlink("run.json", place / "loop" / "run.json")
    os.mkfifo(place / "pipe" / "run.json")
    (place / "no json" / "run.json").write_text("{")
    (place / "no plan" / "plan.parquet").write_bytes(b"PAR1")
    record = (place / "another version" / "run.json").read_text()
    (place / "another version" / "run.json").write_text(record.replace('"format": 2', '"format": 99'))
    browser = client(place, cache=tmp_path / "cache")
    page = browser.get("/runs").text
    assert set(ids(browser)) == {"whole"}
    errors = re.findall(r"<strong>Cannot be shown.</strong> <bdi>([^<]+)</bdi>", page)
    assert [error.split(":")[0] for error in errors] == ["run.json", "run.json", "run.json", "plan.parquet", "run.json"]
    assert str(tmp_path) not in page
    assert names(page)[0] == "whole"


def test_numbers_that_are_none_are_told(runs, tmp_path):
    """Of a run without checksums nothing but the shape of its tables can be asked."""
    place = tmp_path / "runs" / "old"
    shutil.copytree(runs / "step-900", place)
    as_of_format_1(place)
    cm.open_run(place).scores.assign(value="much").to_parquet(place / "scores.parquet")
    browser = client(tmp_path / "runs", cache=tmp_path / "cache")
    assert "scores.parquet: cannot be read (its column 'value' holds" in unescape(browser.get("/runs").text)


def test_a_run_without_scores_is_shown(tmp_path):
    quick.audit(Painter(), toy_suite(concepts=2), tmp_path / "runs" / "run", encoder=Eye(), report=True)
    for name in ("scores.parquet", "scores.csv", "curves.parquet", "report.html"):
        (tmp_path / "runs" / "run" / name).unlink()
    browser = client(tmp_path / "runs", cache=tmp_path / "cache")
    assert "not scored yet" in browser.get("/runs").text
    assert browser.get(f"/explore?run={ids(browser)['run']}").status_code == 200


def test_nothing_is_written_into_a_run(runs, browser):
    def files():
        return {path: path.stat().st_mtime_ns for path in runs.rglob("*")}

    before = files()
    both = "&".join(f"run={each}" for each in ids(browser).values())
    for address in ("/runs", f"/explore?{both}", f"/trends?{both}", f"/compare?{both}"):
        assert browser.get(address).status_code == 200
    assert files() == before


def test_an_empty_folder_says_how_to_fill_it(tmp_path):
    assert "clinometer audit" in client(tmp_path, cache=tmp_path).get("/runs").text


def test_runs_on_an_object_store_are_shown(runs, tmp_path):
    store = fsspec.filesystem("memory")
    store.put(str(runs / "step-900"), "/bucket/audits/step-900", recursive=True)
    browser = client("memory://bucket/audits", cache=tmp_path)
    first = ids(browser)["step-900"]
    page = browser.get(f"/explore?run={first}").text
    assert browser.get(pictures(page)[0]).status_code == 200
    assert browser.get(f"/runs/{first}/report").status_code == 200
    store.rm("/bucket", recursive=True)
    assert not ids(browser)
