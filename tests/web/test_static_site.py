"""The explorer as a folder of pages: what it shows, that it opens from a file, and what it never holds."""

import re
from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe
from typer.testing import CliRunner

import clinometer as cm
from clinometer.cli.app import app
from clinometer.errors import Code, InvalidInputError
from clinometer.web.explorer import write_site
from tests.raising import raises
from tests.report.browsing import launched_chromium


@pytest.fixture(scope="module")
def site(runs, tmp_path_factory) -> Path:
    place = tmp_path_factory.mktemp("exported")
    write_site([str(runs)], place / "site", place / "cache", images=4, has_reports=False)
    return place / "site"


def text_of(path: Path) -> str:
    return " ".join(path.read_text("utf-8").split())


def test_every_link_and_picture_of_a_page_lies_in_the_folder(site):
    for path in site.glob("*.html"):
        found = re.findall(r'(?:href|src)="(?!#|data:)([^"]+)"', path.read_text("utf-8"))
        assert found
        assert all((site / name).is_file() for name in found), path
        assert not re.search(r"https?://|file://", re.sub(r"<(script|style)>.*?</\1>", "", text_of(path), flags=re.S))


def test_a_page_has_the_first_pictures_of_every_owner_with_what_is_read_and_the_verdict(site, runs):
    listed = re.findall(r'<bdi>(step-\d+)</bdi>.*?href="(run-\d\.html)"', text_of(site / "index.html"))
    run, page = cm.open_run(runs / "step-900"), text_of(site / dict(listed)["step-900"])
    owners = run.samples.groupby(["role", "concept", "group"], sort=False).size()
    assert len(re.findall(r'<section class="owner"', page)) == len(owners)
    assert page.count("<img class") == owners.clip(upper=4).sum()
    assert page.count('<span class="read"') == owners.clip(upper=4).sum()
    row = run.verdicts.iloc[0]
    assert f"{abs(row.value):.2f}" in page
    assert str(runs) not in page


def test_runs_of_one_suite_stand_side_by_side_and_what_was_flagged_or_refused_is_left_out(site):
    page = text_of(site / "side-by-side-1.html")
    assert re.search("step-900.* · .*step-1000|step-1000.* · .*step-900", page)
    assert "<span>refused</span>" in page
    assert "<span>flagged</span>" in page
    assert len(list((site / "pictures").iterdir())) == len(set(re.findall(r"pictures/\d+\.webp", page)))


def test_a_folder_that_holds_something_is_not_written_into(runs, site, tmp_path):
    before = {path: path.stat().st_mtime_ns for path in site.rglob("*")}
    with raises(InvalidInputError, code=Code.ALREADY_EXISTS, match="--export"):
        write_site([str(runs)], site, tmp_path)
    assert {path: path.stat().st_mtime_ns for path in site.rglob("*")} == before
    words = ["serve", str(runs), "--cache", str(tmp_path), "--export", str(site)]
    with raises(InvalidInputError, code=Code.ALREADY_EXISTS):
        CliRunner().invoke(app, words, catch_exceptions=False)


@pytest.mark.thorough
@pytest.mark.slow
def test_it_opens_from_a_file_shows_its_pictures_and_asks_for_nothing_else(site):
    with launched_chromium() as chromium:
        for name, width in (("index.html", 390), ("run-1.html", 390), ("side-by-side-1.html", 1280)):
            page = chromium.new_page(viewport={"width": width, "height": 800})
            told: list[str] = []
            page.on("console", lambda message, told=told: told.append(message.text))
            page.on("request", lambda r, told=told: r.url.startswith(("file:", "data:")) or told.append(r.url))
            page.goto((site / name).as_uri())
            page.evaluate("for (const picture of document.images) picture.loading = 'eager'")
            shown = page.evaluate("Promise.all([...document.images].map((e) => e.decode().then(() => e.naturalWidth)))")
            assert all(shown), name
            scroll, client = page.evaluate(
                "[document.documentElement.scrollWidth, document.documentElement.clientWidth]"
            )
            assert scroll <= client, name
            page.evaluate("document.fonts.ready")
            assert [each["id"] for each in Axe().run(page).response["violations"]] == [], name
            assert told == []
            page.close()
