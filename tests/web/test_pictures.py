"""Pictures: decoded under limits, encoded again, kept."""

import io
import os
import shutil
import sqlite3

import pytest
from PIL import Image

import clinometer as cm
from clinometer.errors import RunCorruptError
from clinometer.runs.browse import stored_images, stored_in
from clinometer.runs.ledger import samples_name
from clinometer.web import pictures as module
from tests.web.serving import bomb, client, ids, pictures, replace_image, with_message


def served(browser, run, sample, size="small"):
    return browser.get(f"/pictures/{run}/{sample}/{size}")


@pytest.fixture
def changed(runs, tmp_path):
    """A copy of a run with another image in the place of one, and a browser of it."""

    def made(content):
        shutil.copytree(runs / "step-900", tmp_path / "runs" / "run")
        sample = replace_image(cm.open_run(tmp_path / "runs" / "run"), 1, content)
        browser = client(tmp_path / "runs", cache=tmp_path / "cache")
        return browser, ids(browser)["run"], sample

    return made


def test_every_picture_of_a_page_is_there(browser):
    for address in pictures(browser.get(f"/explore?run={ids(browser)['step-900']}").text):
        response = browser.get(address)
        assert response.status_code == 200
        assert Image.open(io.BytesIO(response.content)).format == "WEBP"


@pytest.mark.parametrize(("size", "side"), [("small", 128), ("medium", 256), ("large", 300)])
def test_sizes(changed, size, side):
    browser, run, sample = changed(with_message(b"secret comment"))
    picture = Image.open(io.BytesIO(served(browser, run, sample, size).content))
    assert max(picture.size) == side


def test_bytes_are_never_served_as_they_are_stored(changed):
    browser, run, sample = changed(with_message(b"<script>alert(1)</script>"))
    response = served(browser, run, sample, "large")
    assert response.status_code == 200
    assert response.headers["content-type"] == "image/webp"
    assert b"script" not in response.content


def test_a_decompression_bomb_is_not_decoded(changed):
    browser, run, sample = changed(bomb())
    assert served(browser, run, sample).status_code == 404
    assert browser.get(f"/explore?run={run}").status_code == 200


@pytest.mark.thorough
@pytest.mark.parametrize("content", [b"no image", b"<svg xmlns='http://www.w3.org/2000/svg' onload='alert(1)'/>"])
def test_what_is_no_image_is_not_served(changed, content):
    browser, run, sample = changed(content)
    assert served(browser, run, sample).status_code == 404


def test_an_image_that_is_not_the_one_written_is_refused(runs, tmp_path):
    shutil.copytree(runs / "step-900", tmp_path / "runs" / "run")
    browser = client(tmp_path / "runs", cache=tmp_path / "cache")
    run = ids(browser)["run"]
    address = pictures(browser.get(f"/explore?run={run}").text)[0]
    stamp = browser.app.state.runs.get(run).stamp
    part = tmp_path / "runs" / "run" / "samples" / "part-00000.parquet"
    at = part.read_bytes().index(b"\x89PNG") + 60
    with part.open("r+b") as file:
        file.seek(at)
        file.write(b"\xff\xff\xff")
    assert browser.app.state.runs.get(run).stamp == stamp
    response = browser.get(address)
    assert response.status_code == 409
    assert "not the one that was written" in response.text or "cannot be read" in response.text


def test_pictures_are_kept_and_the_oldest_go(runs, tmp_path, monkeypatch):
    monkeypatch.setattr(module, "MOST_KEPT", 5)
    browser = client(runs, cache=tmp_path)
    for address in pictures(browser.get(f"/explore?run={ids(browser)['step-900']}").text)[:12]:
        assert browser.get(address).status_code == 200
    with sqlite3.connect(tmp_path / "pictures.sqlite") as database:
        assert database.execute("SELECT COUNT(*) FROM kept").fetchone() == (5,)


def test_a_picture_that_is_kept_is_not_made_again(browser, monkeypatch):
    address = pictures(browser.get(f"/explore?run={ids(browser)['step-900']}").text)[3]
    first = browser.get(address).content
    monkeypatch.setattr(module, "shrunk", None)
    assert browser.get(address).content == first


def test_only_a_few_rows_are_read_around_one(runs):
    run = cm.open_run(runs / "step-900")
    for part, planned in run.parts.items():
        for row, sample in enumerate(planned):
            held = stored_images(run, part, row)
            assert len(held) <= 8
            assert held[row][0] == sample.id


def test_a_picture_of_a_part_whose_seal_is_broken_is_refused(runs, tmp_path):
    """Its own hash fits: what lies beside the pixels is another, so the row may be somebody else's."""
    shutil.copytree(runs / "step-900", tmp_path / "run")
    run = cm.open_run(tmp_path / "run")
    part = tmp_path / "run" / "samples" / "part-00000.parquet"
    content = part.read_bytes()
    part.write_bytes(b"PAR2" + content[4:])
    with pytest.raises(RunCorruptError, match="it is not what was written"):
        stored_images(run, 0, 1)


def test_many_pictures_are_made_in_one_reading_of_their_part(runs, tmp_path, monkeypatch):
    run, album = cm.open_run(runs / "step-900"), module.Album(tmp_path)
    stored = [each for part in run.parts for each in stored_in(run, part).values()]
    wanted = [each for each in stored if each.sha256][::3]
    album.make_ready(run, wanted, "small")
    monkeypatch.setattr(module, "stored_images", None)  # nothing is read again
    one_by_one = module.Album(tmp_path / "other")
    ready = [album.picture(run, each, "small") for each in wanted]
    monkeypatch.undo()
    assert ready == [one_by_one.picture(run, each, "small") for each in wanted]


@pytest.mark.parametrize("harm", ["a page", "text", "one picture"])
def test_a_damaged_file_of_pictures_is_made_anew(runs, tmp_path, harm):
    browser = client(runs, cache=tmp_path)
    run = ids(browser)["step-900"]
    address = pictures(browser.get(f"/explore?run={run}").text)[0]
    whole = browser.get(address).content
    kept = tmp_path / "pictures.sqlite"
    if harm == "one picture":
        with sqlite3.connect(kept) as database:
            database.execute("UPDATE kept SET content = ?", (whole[:-1] + b"\0",))
    else:
        kept.write_bytes(b"no database at all" if harm == "text" else kept.read_bytes()[:100] + bytes(4000))
    assert browser.get(address).content == whole
    assert browser.get(address).content == whole  # and is kept again


@pytest.mark.parametrize(
    ("is_listed", "told"), [(True, "another file than run.json lists"), (False, "not the one that was read before")]
)
def test_a_picture_is_the_one_that_the_index_was_made_of(changed, tmp_path, is_listed, told):
    """An image and its hash that are exchanged together leave the run's record as it was.

    The list of files knows better, and of a part that is not listed the index does.
    """
    browser, run, sample = changed(with_message(b"one"))
    if not is_listed:
        cm.open_run(tmp_path / "runs" / "run").ledger.unlist([samples_name(0)])
    assert served(browser, run, sample, "small").status_code == 200
    stamp = browser.app.state.runs.get(run).stamp
    place = tmp_path / "runs" / "run"
    record, times = (place / "run.json").read_bytes(), (place / "run.json").stat()
    folder = (place / "samples").stat()
    replace_image(cm.open_run(place), 1, with_message(b"another"))
    (place / "run.json").write_bytes(record)
    os.utime(place / "run.json", ns=(times.st_atime_ns, times.st_mtime_ns))
    os.utime(place / "samples", ns=(folder.st_atime_ns, folder.st_mtime_ns))
    assert browser.app.state.runs.get(run).stamp == stamp
    browser.app.state.album = module.Album(tmp_path / "another")  # which has not read it yet
    response = served(browser, run, sample, "large")
    assert response.status_code == 409
    assert told in response.text
