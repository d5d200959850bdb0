"""What is read back is what was written: a few hundred changes to a run, and none is silent or ends in a traceback.

The long form is ``python -m tests.fuzz.corruption``.
"""

import io
import json
import random
from collections import Counter
from dataclasses import replace
from functools import partial

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from clinometer.api import verify_run
from clinometer.errors import Code, RunCorruptError
from clinometer.pipeline import results
from clinometer.runs import Run, ledger, record, storage, verification
from clinometer.runs.ledger import STRIPS, part_name
from clinometer.runs.samples import Samples
from tests.fuzz.corruption import Specimen, attempt
from tests.raising import raises

pytestmark = [pytest.mark.usefixtures("shortcuts_of_a_module"), pytest.mark.pages]


@pytest.fixture(scope="module")
def specimen(shortcuts_of_a_module, tmp_path_factory):
    return Specimen(tmp_path_factory.mktemp("corruption"))


@pytest.mark.parametrize(
    ("ways", "count"),
    [
        (["read"], 60),
        (["score", "report", "compare", "resume"], 6),
        pytest.param(["read"], 250, marks=pytest.mark.thorough),
        pytest.param(["score", "report", "compare", "resume"], 25, marks=pytest.mark.thorough),
    ],
)
def test_no_change_is_silent(specimen, ways, count):
    rng = random.Random(len(ways))
    tried = [attempt(specimen, rng, ways) for _ in range(count)]
    assert [each for each in tried if each.outcome in ("silent", "traceback")] == []
    outcomes = Counter(each.outcome for each in tried)
    assert outcomes["named"] > 0.9 * count
    assert all(len(each.detail.splitlines()) == 1 for each in tried if each.outcome == "named")
    if count >= 250:  # each kind of file was among them
        assert {each.file.split("/")[0] for each in tried} == {name.split("/")[0] for name in specimen.whole}


def test_a_specimen_is_whole_again(specimen):
    """Else every change after the first would be named for the first."""
    attempt(specimen, random.Random(0))
    for name, content in specimen.whole.items():
        assert (specimen.place / name).read_bytes() == content


def edited(run, name, edit):
    """A table of a run as its bytes with other cells, sealed again, and the seal."""
    table = storage.unsealed(pq.read_table(run / name))
    column, cells = edit(table)
    return storage.sealed(table.set_column(table.column_names.index(column), column, cells), name)


def turned(table):
    return "vector", pa.array([[-each for each in row] for row in table["vector"].to_pylist()], table["vector"].type)


def exchanged(table):
    return "image", pa.array(table["image"].to_pylist()[::-1], table["image"].type)


def raised(table):
    return "value", pa.array([9.5] * len(table), table["value"].type)


def change_vectors_under_their_seal(run):
    name = "embeddings/eye/part-00000.parquet"
    content, seal = edited(run, name, turned)
    old = (run / name).read_bytes()
    kept = storage.seal_of(io.BytesIO(old))
    (run / name).write_bytes(bytes(content).replace(seal.encode(), kept.encode()))


def write_scores_anew(run):
    (run / "scores.parquet").write_bytes(edited(run, "scores.parquet", raised)[0])


def list_anew(run, name, edit):
    content, seal = edited(run, name, edit)
    (run / name).write_bytes(content)
    said = json.loads((run / "run.json").read_text())
    said["files"][name] = seal
    (run / "run.json").write_text(json.dumps(record.with_checksum(said)))


def remove_a_part(run):
    (run / "embeddings/eye/part-00000.parquet").unlink()


def edit_the_seed(run):
    said = json.loads((run / "run.json").read_text())
    (run / "run.json").write_text(json.dumps(said | {"seed": said["seed"] + 1}))


def edit_the_page(run):
    (run / "report.html").write_text((run / "report.html").read_text().replace("<body", "<body class=other"))


def flip_a_pixel_of_a_strip(run):
    """No cell of a strip holds the hash of its picture, as one of a sample does."""
    name, picture = part_name(STRIPS, 0), random.Random(0).randbytes(400)
    strips = Run(run).ledger
    strips.write_table(name, pa.table({"id": ["a"], "step": [1], "image": [{"bytes": picture, "path": "a-1.png"}]}))
    strips.list_files()
    content = bytearray((run / name).read_bytes())
    content[content.index(picture)] ^= 1
    (run / name).write_bytes(content)


def said_checksum(name, content, low, high, digits):
    return str(content[digits:][:64], "ascii")


def without_pixels(file, name, *, pixels, read=storage.read_sealed):
    """A sealed file as it is read, its pixels too, and only what is beside them hashed."""
    contents, beside = (read(file, name, pixels=each) for each in (pixels, False))
    return contents and replace(contents, seal=beside.seal, checksum=beside.checksum)


@pytest.mark.parametrize(
    ("damage", "place", "check", "off"),
    [
        (change_vectors_under_their_seal, storage, "_checksum", said_checksum),
        (write_scores_anew, ledger.Ledger, "_require", lambda *_: None),
        (flip_a_pixel_of_a_strip, storage, "read_sealed", without_pixels),
        (edit_the_page, verification, "_require_bytes", lambda *_: None),
        (remove_a_part, verification, "missing_files", lambda *_: []),
        (edit_the_seed, record, "_require_checksum", lambda *_: None),
        (partial(list_anew, name="samples/part-00000.parquet", edit=exchanged), Samples, "_with_images", lambda *_: []),
        (partial(list_anew, name="scores.parquet", edit=raised), results, "require_same_scores", lambda *_: None),
    ],
)  # fmt: skip
def test_each_check_finds_what_no_other_one_finds(specimen, monkeypatch, damage, place, check, off):
    """With that check switched off the same damage passes, so none of them is there twice."""
    verified = partial(verify_run, specimen.place, recompute=check == "require_same_scores")
    try:
        damage(specimen.place)
        with raises(RunCorruptError, code=Code.CORRUPT, most_lines=23):  # a line for each of the first differences
            verified()
        monkeypatch.setattr(place, check, off)
        verified()
    finally:
        specimen.restore()
