"""Finished images in a table: Parquet, and what `datasets` saves."""

import io

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import clinometer as cm
from clinometer.errors import ImportManifestError
from tests.toys import Eye, paint, toy_suite

SUITE = toy_suite(target=2, attribute=1, concepts=2)


def png(prompt, seed):
    buffer = io.BytesIO()
    paint(prompt, seed).save(buffer, "PNG")
    return buffer.getvalue()


def records():
    asked = [question for question in SUITE.questions() for _ in range(question.images)]
    for seed, question in enumerate(asked):
        image = {"bytes": png(question.prompt, seed), "path": None}
        yield {"image": image, "concept": question.concept, "group": question.group, "prompt": question.prompt}


def imported(place, tmp_path):
    return cm.import_images(place, tmp_path / "run", suite=SUITE, encoder=Eye())


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


def test_a_directory_of_datasets_is_the_same(parquet, tmp_path):
    datasets = pytest.importorskip("datasets")
    whole = values(imported(parquet, tmp_path / "parquet"))
    table = datasets.Dataset.from_list(list(records())).cast_column("image", datasets.Image())
    table.save_to_disk(tmp_path / "saved")
    assert values(imported(tmp_path / "saved", tmp_path / "arrow")) == whole


def test_a_row_without_bytes_fails_alone(tmp_path):
    rows = list(records())
    rows[0]["image"] = {"bytes": None, "path": "elsewhere.png"}
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "images.parquet")
    samples = imported(tmp_path / "images.parquet", tmp_path).samples
    assert samples.status.tolist().count("failed") == 1
    assert "holds no bytes" in samples.reason[samples.status == "failed"].iloc[0]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda row: {"picture": row["image"], "concept": row["concept"]}, "columns picture, concept; expected image"),
        (lambda row: row | {"concept": "nobody", "group": None}, "'nobody' is not in suite toy"),
        (lambda row: row | {"concept": None, "group": None}, "line 1: found neither of concept and group"),
    ],
)
def test_what_does_not_fit_is_named(tmp_path, change, message):
    pq.write_table(pa.Table.from_pylist([change(row) for row in records()]), tmp_path / "images.parquet")
    with pytest.raises(ImportManifestError, match=message):
        imported(tmp_path / "images.parquet", tmp_path)


def test_a_file_that_is_no_table(tmp_path):
    (tmp_path / "images.parquet").write_bytes(b"nonsense")
    with pytest.raises(ImportManifestError, match=r"images\.parquet: it cannot be read as a table"):
        imported(tmp_path / "images.parquet", tmp_path)
    (tmp_path / "images.txt").write_text("nonsense")
    with pytest.raises(ImportManifestError, match="found no Parquet or Arrow file"):
        imported(tmp_path / "images.txt", tmp_path)
