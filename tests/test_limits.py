"""The limits that SECURITY.md names, each at its number: what is at it passes, and one more is refused."""

import csv
import io
import re
import zlib
from pathlib import Path

import pytest
from PIL import Image

from clinometer.errors import Code, ImportManifestError, RatingsError, RunCorruptError, SuiteError
from clinometer.models.files import read_manifest
from clinometer.models.images import MAX_PIXELS, decode_image, decoded_bytes, may_be_read
from clinometer.models.openai import MOST_ANSWER_BYTES, MOST_BYTES, MOST_ERROR_BYTES, MOST_PIECES, MOST_REDIRECTS
from clinometer.ratings.importing import read_ratings
from clinometer.runs import Directory, files
from clinometer.studies.counts import study
from clinometer.suites import suite_from_mapping
from clinometer.suites.strict import read_yaml
from tests.raising import raises
from tests.toys import toy_suite

TESTED = {
    "image file": "test_limits.py::test_an_image",
    "image": "test_limits.py::test_an_image",
    "sides of an image": "test_limits.py::test_an_image",
    "images in memory": "runs/test_memory.py::test_parts_hold_so_many_bytes, test_what_waits_is_weighed",
    "table of images": "test_parquet.py::test_a_small_file_does_not_unfold",
    "suite": "test_limits.py::test_a_suite",
    "names, texts": "test_limits.py::test_names_and_texts_of_a_suite",
    "images asked for": "suites/test_reading.py::test_images_of_a_suite_have_a_limit_together",
    "manifest": "models/files/test_folder.py::test_a_manifest_is_refused_by_its_size_and_its_rows",
    "file of a run": "test_limits.py::test_a_file_of_a_run",
    "table of counts": "test_limits.py::test_a_table_of_counts",
    "file of ratings": "runs/test_ratings.py::test_a_file_without_end_is_not_read",
    "answer of a server": "models/openai/test_guarded_http.py::test_an_endless_answer_ends",
    "request": "models/openai/test_guarded_http.py::test_an_answer_that_drips_is_given_up_in_time",
    "redirect": "models/openai/test_guarded_http.py::test_a_download_that_turns_in_a_circle_ends",
    "private address": "models/openai/test_guarded_http.py::test_no_image_is_fetched_from_a_private_address",
}
"""Rows of SECURITY.md's table, and which tests hold them."""

ROOT = Path(__file__).parent


def test_every_limit_that_is_named_is_tested():
    named = re.findall(r"^\| ([a-z, ]+?) \| .* \| .* \|$", (ROOT.parent / "SECURITY.md").read_text(), re.MULTILINE)
    assert [name for name in named if name != "what"] == list(TESTED)
    for places in TESTED.values():
        file, names = places.split("::")
        for name in names.split(", "):
            assert f"def {name}(" in (ROOT / file).read_text(), name


def png_head(width, height):
    """A PNG whose head says that it has so many pixels."""

    def chunk(kind, data):
        return len(data).to_bytes(4, "big") + kind + data + zlib.crc32(kind + data).to_bytes(4, "big")

    head = width.to_bytes(4, "big") + height.to_bytes(4, "big") + bytes([1, 0, 0, 0, 0])
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", b"") + chunk(b"IEND", b"")


def test_an_image():
    assert MAX_PIXELS == 40_000_000
    assert decoded_bytes(png_head(8_000, 5_000)) == 160_000_000
    assert decoded_bytes(png_head(8_000, 5_001)) == 0
    assert "40,000,000" in decode_image(png_head(8_000, 5_001)).reason
    for width, status in ((100, "ok"), (101, "failed")):
        stream = io.BytesIO()
        line = Image.new("RGB", (width, 1))
        line.putpixel((0, 0), (255, 0, 0))
        line.save(stream, "PNG")
        assert decode_image(stream.getvalue()).status == status
    assert [may_be_read(bytes(1_000_000 + n), 10) for n in (40, 41)] == [True, False]


def test_a_suite():
    def read(text):
        return read_yaml(text, source="s")

    at = {
        "bytes": ("a: b #", lambda n: "a: b #" + "x" * (n - 6), 500_000),
        "values": ("", lambda n: "a: [" + "1," * (n - 3) + "]", 20_000),
        "levels": ("", lambda n: "[" * (n - 1) + "]" * (n - 1), 20),
        "aliases": ("", lambda n: "a: &a 1\nb: [" + "*a, " * n + "]", 1_000),
    }
    for name, (_, text_of, most) in at.items():
        wrapped = (lambda text: f"a: {text}") if name == "levels" else str
        assert read(wrapped(text_of(most)))
        with raises(SuiteError, code=Code.TOO_MANY):
            read(wrapped(text_of(most + 1)))


@pytest.mark.parametrize(("key", "most"), [("name", 200), ("title", 4_000), ("description", 4_000)])
def test_names_and_texts_of_a_suite(key, most):
    own = toy_suite().model_dump()
    assert getattr(suite_from_mapping(own | {key: "a" * most}, source="s"), key) == "a" * most
    with raises(SuiteError, code=Code.TOO_MANY, match=rf"{key}: .*{most}"):
        suite_from_mapping(own | {key: "a" * (most + 1)}, source="s")


def test_entries_of_a_manifest_and_of_ratings(tmp_path):
    Image.new("RGB", (8, 8)).save(tmp_path / "a.png")
    for length in (4_000, 4_001):
        (tmp_path / "manifest.csv").write_text(f"file,prompt\na.png,{'x' * length}\n")
        (tmp_path / "r.csv").write_text(f"item,rater,answer\na,{'x' * length},man\n")
        if length == 4_000:
            assert read_manifest(tmp_path).rows[0].prompt == "x" * length
            assert read_ratings(tmp_path / "r.csv")[0].rater == "x" * length
        else:
            with raises(ImportManifestError, code=Code.TOO_MANY, match="4,001"):
                read_manifest(tmp_path)
            with raises(RatingsError, code=Code.TOO_MANY, match="4,001"):
                read_ratings(tmp_path / "r.csv")


def test_a_file_of_a_run(tmp_path):
    assert (files.MOST_BYTES, files.MOST_JSON) == (536_870_912, 67_108_864)
    place = Directory(tmp_path)
    for size in (10, 11):
        (tmp_path / "report.html").write_bytes(bytes(size))
        if size == 10:
            assert place.read_bytes("report.html", most=10) == bytes(10)
        else:
            with raises(RunCorruptError, code=Code.CORRUPT, match="10 bytes"):
                place.read_bytes("report.html", most=10)
    with (tmp_path / "run.json").open("wb") as sparse:
        sparse.truncate(2**26 + 1)
    with raises(RunCorruptError, code=Code.CORRUPT, match="67,108,864"):
        place.read_json("run.json")


def test_a_table_of_counts(tmp_path, monkeypatch):
    assert study.MOST_CELLS == 100_000
    monkeypatch.setattr(study, "MOST_CELLS", 1_000)  # at its full size: studies/counts/test_counts.py
    for rows in (1_000, 1_002):
        with (tmp_path / "counts.csv").open("w", newline="") as stream:
            named = ((f"c{n // 2}", "xy"[n % 2], 1) for n in range(rows))
            csv.writer(stream).writerows([("concept", "group", "n"), *named])
        if rows == 1_000:
            assert len(study.read_counts(tmp_path / "counts.csv")) == rows
        else:
            with raises(ImportManifestError, code=Code.TOO_MANY, match="more than 1,000 rows"):
                study.read_counts(tmp_path / "counts.csv")


def test_an_answer():
    assert (MOST_BYTES, round(MOST_ANSWER_BYTES / 1e6)) == (64_000_000, 86)
    assert (MOST_ERROR_BYTES, MOST_PIECES, MOST_REDIRECTS) == (10**6, 200_000, 3)
