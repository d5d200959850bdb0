"""Finished images in a table: Parquet, and what `datasets` saves."""

import io
import json
import pickle
import shutil

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

from clinometer import _parquet
from clinometer.errors import Code, ImportManifestError, ModelError, RunMismatchError
from clinometer.models.files import source
from clinometer.models.files.source import ImageDataset
from clinometer.models.protocols import GenerationRequest
from tests import quick
from tests.raising import raises
from tests.toys import Eye, Notes, paint, toy_suite

SUITE = toy_suite(target=2, attribute=1, concepts=2)


def png(prompt, seed):
    buffer = io.BytesIO()
    paint(prompt, seed).save(buffer, "PNG")
    return buffer.getvalue()


def records():
    asked = [question for question in SUITE.prompt_specs() for _ in range(question.images)]
    for seed, question in enumerate(asked):
        image = {"bytes": png(question.prompt, seed), "path": None}
        yield {"image": image, "concept": question.concept, "group": question.group, "prompt": question.prompt}


def imported(place, tmp_path):
    return quick.import_images(place, tmp_path / "run", suite=SUITE, encoder=Eye())


def values(run):
    return run.scores[run.scores.metric == "mcas"].value.dropna().tolist()


@pytest.fixture
def parquet(tmp_path):
    path = tmp_path / "images.parquet"
    pq.write_table(pa.Table.from_pylist(list(records())), path)
    return path


def test_a_parquet_file_is_audited(parquet, tmp_path):
    run = imported(parquet, tmp_path)
    assert set(run.samples.status) == {"ok"}
    assert len(run.samples) == len(list(records()))
    assert run.model_card["name"] == "images"
    assert values(run)


def test_a_table_that_is_being_read_can_be_sent_to_a_worker(parquet):
    source = ImageDataset(parquet)
    requests = [GenerationRequest(row.file, "", 0) for row in source.rows]
    results = source.generate(requests)
    first = next(results)
    copy = pickle.loads(pickle.dumps(source))
    assert copy.card == source.card
    expected = [first.content, *(result.content for result in results)]
    assert [result.content for result in copy.generate(requests[::-1])] == expected[::-1]
    assert [result.content for result in copy.generate(requests)] == expected


def test_a_directory_of_datasets_is_the_same(parquet, tmp_path):
    datasets = pytest.importorskip("datasets")
    whole = values(imported(parquet, tmp_path / "parquet"))
    table = datasets.Dataset.from_list(list(records())).cast_column("image", datasets.Image())
    table.save_to_disk(tmp_path / "saved")
    assert values(imported(tmp_path / "saved", tmp_path / "arrow")) == whole


def test_what_was_done_to_images_is_told_with_how_many(parquet, tmp_path):
    """It changes pixels, and a user should know of it. A plain RGB file is not told."""
    rows = list(records())
    folder = tmp_path / "folder"
    folder.mkdir()
    for number, row in enumerate(rows):
        picture = Image.open(io.BytesIO(row["image"]["bytes"]))
        buffer = io.BytesIO()
        (picture.quantize(4) if number < 3 else picture).save(buffer, "PNG")
        row["image"]["bytes"] = buffer.getvalue()
        (folder / f"{number}.png").write_bytes(buffer.getvalue())
    pq.write_table(pa.Table.from_pylist(rows), parquet)
    other = {"seed": "1", "promt": "", "image": None}
    lines = [{**row, **other, "file": f"{number}.png"} for number, row in enumerate(rows)]
    (folder / "manifest.jsonl").write_text("\n".join(map(json.dumps, lines)))
    told = "converted as they were read, and how many images: palette resolved (3)"
    for place, expected in (
        (parquet, [told]),
        (folder, ["manifest.jsonl: columns that mean nothing here: image, seed, promt", told]),
    ):
        notes = Notes()
        quick.import_images(place, tmp_path / f"run of {place.stem}", suite=SUITE, encoder=Eye(), progress=notes)
        assert notes.messages == expected


def test_files_that_all_fail_are_mended_and_imported_elsewhere(tmp_path):
    """A repaired file is another one, so the directory is that of another run."""
    folder, rows = tmp_path / "folder", list(records())
    folder.mkdir()
    for number, row in enumerate(rows):
        (folder / f"{number}.png").write_bytes(b"no image")
        row["file"] = f"{number}.png"
        row["content"] = row.pop("image")["bytes"]
    lines = [{name: value for name, value in row.items() if name != "content"} for row in rows]
    (folder / "manifest.jsonl").write_text("\n".join(map(json.dumps, lines)))
    with raises(
        ModelError,
        code=Code.FAILED,
        match=r"all 10 images failed, .*; fix the files, delete .*run and give the same command again$",
    ):
        imported(folder, tmp_path)
    for row in rows:
        (folder / row["file"]).write_bytes(row["content"])
    shutil.rmtree(tmp_path / "run")
    assert set(imported(folder, tmp_path).samples.status) == {"ok"}


def in_another_order(lines):
    return [lines[1], lines[0], *lines[2:]]


def of_another_concept(lines):
    other = next(line["concept"] for line in lines if line["concept"] not in ("", lines[0]["concept"]))
    return [lines[0] | {"concept": other, "prompt": ""}, *lines[1:]]


@pytest.mark.parametrize(
    ("fix", "said"),
    [(in_another_order, "in another order"), (of_another_concept, r"\.png with the \w+ '.*', not '")],
)
def test_a_manifest_that_was_mended_is_another_run(tmp_path, fix, said):
    """The pictures are the same, and so were the scores."""
    folder, lines = tmp_path / "folder", []
    folder.mkdir()
    for number, row in enumerate(records()):
        (folder / f"{number}.png").write_bytes(row.pop("image")["bytes"])
        lines.append(row | {"file": f"{number}.png"})
    lines.sort(key=lambda line: line["concept"], reverse=True)
    manifest = folder / "manifest.jsonl"
    manifest.write_text("\n".join(map(json.dumps, lines)))
    run = imported(folder, tmp_path)
    manifest.write_text("\n".join(map(json.dumps, fix(lines))))
    with raises(
        RunMismatchError, code=Code.MISMATCH, match=f"holds a run of another manifest .*{said}.*give another --out"
    ):
        imported(folder, tmp_path)
    manifest.write_text("\n".join(map(json.dumps, lines)))
    assert values(imported(folder, tmp_path)) == values(run)


def test_a_table_is_read_through_a_few_rows_at_a_time(parquet, tmp_path, monkeypatch):
    whole = values(imported(parquet, tmp_path / "whole"))
    cut = tmp_path / "cut" / "images.parquet"
    cut.parent.mkdir()
    pq.write_table(pq.read_table(parquet), cut, row_group_size=7)
    begun = []
    read = source._images
    monkeypatch.setattr(source, "_images", lambda path: begun.append(path) or read(path))
    assert values(imported(cut, tmp_path / "groups")) == whole
    assert begun == [cut, cut]  # once for the sizes, once for the images
    with pq.ParquetFile(cut) as opened:
        sizes = [len(batch) for batch in opened.iter_batches(source.ROWS_AT_ONCE, columns=["image"])]
    assert max(sizes) == source.ROWS_AT_ONCE


def test_a_table_that_unfolds_a_thousandfold_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(_parquet, "MOST_UNFOLDED", (2**22, 64))
    rows = {"image": [bytes(2**20)] * 6, "concept": ["nurse"] * 6}
    pq.write_table(pa.table(rows), tmp_path / "bomb.parquet", compression="zstd", use_dictionary=False)
    assert (tmp_path / "bomb.parquet").stat().st_size < 10**5
    with raises(
        ImportManifestError, code=Code.TOO_MANY, match=r"bomb.parquet: with its column 'image' it unfolds to 6,\d"
    ):
        ImageDataset(tmp_path / "bomb.parquet")


def test_a_page_that_is_damaged_is_named(parquet, tmp_path):
    content = bytearray(parquet.read_bytes())
    content[200:1200] = bytes(1000)
    parquet.write_bytes(content)
    with raises(ImportManifestError, code=Code.UNREADABLE, match=r"images\.parquet: .*table"):
        imported(parquet, tmp_path / "run")


def test_a_directory_is_named_as_it_is(parquet, tmp_path):
    place = tmp_path / "images.v1"
    place.mkdir()
    assert ImageDataset(parquet).card.name == "images"
    assert ImageDataset(parquet.rename(place / "train.parquet").parent).card.name == "images.v1"


def test_a_row_without_bytes_fails_alone(tmp_path):
    rows = list(records())
    rows[0]["image"] = {"bytes": None, "path": "elsewhere.png"}
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "images.parquet")
    samples = imported(tmp_path / "images.parquet", tmp_path).samples
    assert samples.status.tolist().count("failed") == 1
    assert "holds no bytes" in samples.reason[samples.status == "failed"].iloc[0]


def test_plain_bytes_are_images_too(parquet, tmp_path):
    whole = values(imported(parquet, tmp_path / "structs"))
    rows = [row | {"image": row["image"]["bytes"]} for row in records()]
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "bytes.parquet")
    assert values(imported(tmp_path / "bytes.parquet", tmp_path)) == whole


@pytest.mark.parametrize("kind", ["parquet", "arrow"])
def test_class_labels_count_by_their_names(parquet, tmp_path, kind):
    datasets = pytest.importorskip("datasets")
    whole = values(imported(parquet, tmp_path / "texts"))
    rows = [row | {key: row[key] or None for key in ("concept", "group")} for row in records()]
    names = {key: sorted({row[key] for row in rows if row[key]}) for key in ("concept", "group")}
    labels = {key: datasets.ClassLabel(names=names[key]) for key in names}
    features = datasets.Features({"image": datasets.Image(), "prompt": datasets.Value("string"), **labels})
    table = datasets.Dataset.from_list(rows, features=features)
    place = tmp_path / "labels.parquet"
    if kind == "parquet":
        table.to_parquet(place)
    else:
        place = tmp_path / "labels"
        table.save_to_disk(place)
    assert values(imported(place, tmp_path)) == whole


@pytest.mark.parametrize(
    ("change", "code", "message"),
    [
        (lambda row: row | {"concept": 0, "group": None}, Code.WRONG_TYPE, "line 1, concept: found 0"),
        (lambda row: row | {"image": "images/1.png"}, Code.WRONG_TYPE, "image: found string"),
        (lambda row: row | {"image": [row["image"]]}, Code.WRONG_TYPE, "image: found list"),
        (
            lambda row: {"picture": row["image"], "concept": row["concept"]},
            Code.MISSING,
            "columns picture, concept; expected image",
        ),
        (lambda row: row | {"concept": "nobody", "group": None}, Code.UNKNOWN_NAME, "'nobody' is not in suite toy"),
        (
            lambda row: row | {"concept": None, "group": None, "prompt": None},
            Code.MISSING,
            "line 1: found none of concept, group and prompt",
        ),
    ],
)
def test_what_does_not_fit_is_named(tmp_path, change, code, message):
    pq.write_table(pa.Table.from_pylist([change(row) for row in records()]), tmp_path / "images.parquet")
    with raises(ImportManifestError, code=code, match=message):
        imported(tmp_path / "images.parquet", tmp_path)


def test_a_file_that_is_no_table(tmp_path):
    (tmp_path / "images.parquet").write_bytes(b"nonsense")
    with raises(ImportManifestError, code=Code.UNREADABLE, match=r"images\.parquet: .*table"):
        imported(tmp_path / "images.parquet", tmp_path)
    (tmp_path / "images.txt").write_text("nonsense")
    with raises(ImportManifestError, code=Code.UNREADABLE, match="no Parquet or Arrow file"):
        imported(tmp_path / "images.txt", tmp_path)


def test_a_table_without_rows_is_refused(parquet, tmp_path):
    pq.write_table(pq.read_table(parquet).slice(0, 0), tmp_path / "empty.parquet")
    with raises(ImportManifestError, code=Code.TOO_FEW, match=r"empty\.parquet: .*no rows"):
        imported(tmp_path / "empty.parquet", tmp_path)


def test_hidden_files_are_no_tables(parquet, tmp_path):
    place = tmp_path / ".data" / "set"  # hidden itself, and asked for by name
    (place / ".cache" / "huggingface").mkdir(parents=True)
    for name in ("images.parquet", ".cache/huggingface/images.parquet"):
        shutil.copy(parquet, place / name)
    (place / "._images.parquet").write_bytes(b"\x00\x05\x16\x07")
    (place / "._data.arrow").write_bytes(b"\x00\x05\x16\x07")
    assert len(imported(place, tmp_path).samples) == len(list(records()))
