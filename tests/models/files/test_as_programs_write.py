"""Tables as other programs write them: missing entries, numbers with a point, row numbers, compressed vectors."""

import gzip

import numpy as np
import pytest

from clinometer.errors import Code, ImportManifestError, ModelError
from clinometer.models.encoders.embeddings import load
from clinometer.models.files import read_manifest
from clinometer.models.weights import weight_files
from clinometer.studies.counts.study import DISCARDED, read_counts
from tests.raising import raises

MAN, WOMAN = [1.0, 2.0, 3.0], [4.0, 5.0, 6.0]


def counted(place, text):
    (place / "counts.csv").write_text(text)
    return read_counts(place / "counts.csv")


def test_counts_of_pandas_are_those_of_hand(tmp_path):
    by_hand = counted(tmp_path, "concept,group,n\na,woman,74\na,man,26\na,discarded,3\n")
    of_pandas = counted(tmp_path, ",concept,group,n\n0,a,woman,74.0\n1,a,man,26.0\n2,a,nan,3.0\n")
    unnamed = counted(tmp_path, "Unnamed: 0,concept,group,n\n0,a,woman,74.00\n1,a,man,26\n2,a,None,3\n")
    assert of_pandas == unnamed == by_hand
    assert by_hand["a", "", DISCARDED] == 3


@pytest.mark.parametrize(
    ("n", "code"),
    [
        *[(n, Code.WRONG_TYPE) for n in ("74.5", "1e3", "74.", "", "74.0.0")],
        *[(n, Code.MISSING) for n in (".", "nan", "N/A")],
        ("-1.0", Code.OUT_OF_RANGE),
    ],
)
def test_what_is_no_number_of_images_is_refused(tmp_path, n, code):
    with raises(ImportManifestError, code=code, match=r"counts\.csv, line 2, n: "):
        counted(tmp_path, f"concept,group,n\na,woman,{n}\na,man,26\n")


def test_a_manifest_says_nothing_where_an_entry_is_missing(tmp_path):
    (tmp_path / "a.png").touch()
    rows = []
    for missing in ("", "nan", "None", "N/A"):
        row = ",".join(["0", "a.png", "nurse", missing, missing, missing])
        (tmp_path / "m.csv").write_text(f",file,concept,group,prompt,flagged\n{row}\n")
        rows += read_manifest(tmp_path, tmp_path / "m.csv")
    assert {(row.concept, row.group, row.prompt, row.role) for row in rows} == {("nurse", None, None, "target")}


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("v.vec", "2 3\nman 1 2 3\nold woman 4 5 6\n"),
        ("v.vec", "old woman 4 5 6\nman 1 2 3\n"),
        ("v.txt", "a very old woman 7 7 7\nman 1 2 3\nold woman 4 5 6\n"),
        ("v.txt", "top 10 7 8 9\nman 1 2 3\nold woman 4 5 6\n"),
        ("v.csv", "man,1,2,3\nold woman,4,5,6\n"),
        ("v.csv", ",0,1,2\nman,1,2,3\nold woman,4,5,6\n"),
        ("v.csv", ",label,x,y,z\n0,man,1,2,3\n1,old woman,4,5,6\n"),
        ("v.tsv", "Unnamed: 0\tword\t0\t1\t2\n0\tman\t1\t2\t3\n1\told woman\t4\t5\t6\n"),
    ],
)
@pytest.mark.parametrize("packed", [False, True])
def test_vectors_are_read_as_programs_write_them(tmp_path, name, text, packed):
    path = tmp_path / (f"{name}.gz" if packed else name)
    path.write_bytes(gzip.compress(text.encode()) if packed else text.encode())
    vectors = load(str(path))
    assert vectors.missing(["man", "old woman", "child"]) == ["child"]
    np.testing.assert_array_equal(vectors.encode_texts(["man", "old woman"]), [MAN, WOMAN])


@pytest.mark.thorough
def test_an_archive_that_unfolds_without_end_fills_no_memory(tmp_path):
    (tmp_path / "v.vec.gz").write_bytes(gzip.compress(b"man 1 2 3\n" + b"a" * 10**8))
    assert load(str(tmp_path / "v.vec.gz")).missing(["man", "woman"]) == ["woman"]


def test_a_folder_of_one_variant_says_which(tmp_path):
    for folder in ("unet", "vae"):
        (tmp_path / folder).mkdir()
    (tmp_path / "vae" / "model.safetensors").touch()
    (tmp_path / "unet" / "model.fp16-00001-of-00002.safetensors").touch()
    with raises(ModelError, code=Code.NOT_FOUND, match=r"without a variant in its name in unet; .*give --variant fp16"):
        weight_files("sd", [tmp_path / "vae", tmp_path / "unet"])
    assert len(weight_files("sd", [tmp_path / "vae", tmp_path / "unet"], variant="fp16")) == 2
